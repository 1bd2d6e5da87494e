//! The rule for operators: whether an act on a record is possible now, and its effect.
//!
//! Every path calls [`Console::judge`]: the single verb ([`Console::check`] and [`Console::act`]),
//! the timeline, a plan, and the application of a plan.

#[cfg(feature = "workflow")]
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
#[cfg(feature = "workflow")]
use serde::de::DeserializeOwned;

#[cfg(feature = "messages")]
use super::subject::messages;
use super::subject::tokens;
#[cfg(feature = "workflow")]
use super::subject::workflows;
use super::{Act, Console, Part};
#[cfg(feature = "workflow")]
use crate::core::answer::{self, AnswerError};
use crate::core::argument::InvalidSetting;
#[cfg(feature = "workflow")]
use crate::core::name::EVENT_PREFIX;
use crate::core::token::record::Record;
use crate::error::Error;
use crate::session::{Intervened, Operator};
#[cfg(feature = "workflow")]
use crate::workflow::Event;

/// The effect of an act that is possible now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Meaning {
    /// The meaning of the act and its effect.
    pub effect: String,
    /// Facts that the act depends on and that are unknown here, one sentence each.
    pub unknown: Vec<String>,
}

/// The reason why an act is not possible now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Refusal {
    /// The reason.
    pub because: String,
    /// The part of the act that is refused.
    pub about: About,
    /// The option of the [`Act`] that makes the act possible. `None`: no option does.
    pub unless: Option<Unless>,
}

/// The part of an act that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum About {
    /// The act does not apply in the state of the record.
    State,
    /// The record has no such step.
    Step,
    /// The result cannot be read by its later readers.
    Result,
}

/// An option of an [`Act`] by which an operator takes a risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Unless {
    /// [`Act::running`]: the work may still be running.
    Running,
    /// [`Act::completed`]: the token has a result.
    Completed,
    /// [`Act::not_started`]: the step has no record.
    NotStarted,
}

impl Meaning {
    pub(super) const fn of(effect: String) -> Self {
        Self { effect, unknown: Vec::new() }
    }
}

/// The reason why an act is not possible on a record whose result was erased.
pub(super) const ERASED: &str = "its result is not kept: an operator erased it";

impl Refusal {
    pub(super) fn of(because: impl Into<String>) -> Self {
        Self { because: because.into(), about: About::State, unless: None }
    }

    pub(super) fn unless(because: impl Into<String>, unless: Unless) -> Self {
        Self { unless: Some(unless), ..Self::of(because) }
    }

    pub(super) fn about(self, about: About) -> Self {
        Self { about, ..self }
    }
}

/// Whether an operator decides about one record, or about all records that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    One,
    /// The operator looked at no single record. So only records that need an operator are possible,
    /// except for a cancel.
    Many,
}

/// The types of events, by their names: whether a value is of the type.
#[cfg(feature = "workflow")]
pub(super) type Events = BTreeMap<String, fn(&str) -> Result<(), AnswerError>>;

type IsRunning = dyn Fn(&Record) -> Option<bool> + Send + Sync;

/// The closure that returns whether the work of a token is running.
#[derive(Clone)]
pub(super) struct Runs(Arc<IsRunning>);

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runs")
    }
}

impl Console {
    /// Sets how to find out whether the work of a token in progress is running.
    ///
    /// The closure returns `None` if that is unknown, such as for work on another machine. Without
    /// a closure it is unknown for every token. If the work is known to be running, a release and a
    /// resolve are refused, except with [`Act::running`].
    ///
    /// The console calls the closure for each record when it shows an act, and again when it
    /// applies the act.
    pub fn running(mut self, runs: impl Fn(&Record) -> Option<bool> + Send + Sync + 'static) -> Self {
        self.runs = Some(Runs(Arc::new(runs)));
        self
    }

    /// Returns the effect of an act on one record, or the reason why it is not possible.
    ///
    /// Nothing is read or written. The answer is valid for the record as it was read, and at this
    /// time.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if the act is not possible.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: locker::Locker) -> Result<(), Box<dyn std::error::Error>> {
    /// use locker::Operator;
    /// use locker::operator::{Act, Console};
    ///
    /// let console = Console::new().tokens(&locker);
    /// let operator = Operator::new("ada", "the mail server never had it")?;
    /// for part in console.get("report/2026-11").await? {
    ///     match console.check(&part, &Act::release()) {
    ///         Ok(meaning) => println!("{}", meaning.effect),
    ///         Err(refusal) => return Err(refusal.because.into()),
    ///     }
    ///     let done = console.act(&part, &Act::release(), &operator).await?;
    ///     println!("{done:?}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn check(&self, part: &Part, act: &Act) -> Result<Meaning, Refusal> {
        act.check(Scope::One).map_err(Refusal::of)?;
        self.judge(part, act, Scope::One)
    }

    /// Applies an act to one record as it was read.
    ///
    /// If the record has changed since, nothing is written and the result is
    /// [`Intervened::Changed`]. If the result is [`Intervened::NotPossible`],
    /// [`check`](Self::check) returns the reason. If `check` allows a signal and this
    /// method does not, a former version of the workflow has an event with this id.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the act is not valid, [`Error::Denied`], [`Error::Unavailable`]:
    /// nothing was written. [`Error::Form`], [`Error::Answer`]: the result cannot be stored.
    /// [`Error::Unknown`]: read the record; its audit record shows whether the act was applied.
    ///
    /// # Cost
    ///
    /// 1 transaction: 4 write units, and 2 or 3 for the index. A step, and an event that is given,
    /// add 2 write units; a discard of a message that was received adds 1 read and 2 write units.
    ///
    /// # Crash window
    ///
    /// The record and its audit record are one transaction. After a crash, read the record.
    pub async fn act(&self, part: &Part, act: &Act, operator: &Operator) -> Result<Intervened, Error> {
        act.check(Scope::One).map_err(InvalidSetting::Act)?;
        match self.judge(part, act, Scope::One) {
            Ok(_) => self.write(part, act, operator).await,
            Err(_) => Ok(Intervened::NotPossible),
        }
    }

    /// Sets the type of an event, by which the console checks the value of a signal.
    ///
    /// A value that is not of the type is refused. The type is that of all events of the kind:
    /// `PAID` is also the type of `PAID.part(7)`. The value of an event without a type here is not
    /// checked, and [`check`](Self::check) states it.
    #[cfg(feature = "workflow")]
    pub fn event<T: DeserializeOwned>(mut self, event: &Event<T>) -> Self {
        self.events.insert(event.name().to_owned(), |json| answer::from_json::<T>(json).map(drop));
        self
    }

    /// Whether the code can read the value that an act gives to an event. `None`: that is unknown.
    #[cfg(feature = "workflow")]
    fn reads(&self, act: &Act) -> Option<Result<(), AnswerError>> {
        let name = act.step.as_deref()?.strip_prefix(EVENT_PREFIX)?;
        let kind = name.split(['#', ' ']).next().unwrap_or(name);
        let reads = self.events.get(name).or_else(|| self.events.get(kind))?;
        Some(reads(&act.result.as_ref()?.to_string()))
    }

    /// Whether the work of a token is running, if the caller knows it.
    pub(super) fn runs_of(&self, record: &Record) -> Option<bool> {
        self.runs.as_ref().and_then(|Runs(runs)| runs(record))
    }

    /// Returns the effect of an act, or the reason why it is not possible.
    #[cfg_attr(not(feature = "workflow"), allow(unused_variables, reason = "one rule for tokens"))]
    pub(super) fn judge(&self, part: &Part, act: &Act, scope: Scope) -> Result<Meaning, Refusal> {
        let no_table = || Refusal::of("the console has no table for it");
        match part {
            Part::Token(record) => {
                let locker = self.tokens.as_ref().ok_or_else(no_table)?;
                tokens::judge(locker, record, act, self.runs_of(record))
            }
            #[cfg(feature = "workflow")]
            Part::Workflow(view) => {
                let workflows = self.workflows.as_ref().ok_or_else(no_table)?;
                workflows::judge(workflows, view, act, scope, self.reads(act))
            }
            #[cfg(feature = "messages")]
            Part::Message(message) => {
                let now = self.workflows.as_ref().ok_or_else(no_table)?.context().now();
                messages::judge(message, act, now)
            }
        }
    }

    /// Writes an act that is possible.
    pub(super) async fn write(
        &self,
        part: &Part,
        act: &Act,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        match part {
            Part::Token(record) => match &self.tokens {
                Some(locker) => tokens::act(locker, record, act, operator).await,
                None => Ok(Intervened::NotPossible),
            },
            #[cfg(feature = "workflow")]
            Part::Workflow(view) => match &self.workflows {
                Some(workflows) => workflows::act(workflows, view, act, operator).await,
                None => Ok(Intervened::NotPossible),
            },
            #[cfg(feature = "messages")]
            Part::Message(message) => match &self.workflows {
                Some(workflows) => messages::act(workflows, message, act, operator).await,
                None => Ok(Intervened::NotPossible),
            },
        }
    }
}
