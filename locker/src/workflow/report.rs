//! Outcomes that come from outside: from a webhook, an event, or the provider's report.

use serde::Serialize;

use super::operator::step::result_of;
use super::stop::StepFailure;
use super::workflows::Workflows;
use crate::core::answer;
use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::class::Class;
use crate::core::key::{IntoKey, Key};
use crate::core::name::{self, InvalidName};
use crate::core::workflow::place::Place;
use crate::core::workflow::step::{
    Happened, NewStep, Outcome, RecordId, Report, Reported, StepKind, StepResult,
};
use crate::error::Error;

impl Workflows {
    /// Reports the outcome of a [`once`](super::Flow::once) step that comes from outside: from a
    /// webhook, an event, or the provider's report.
    ///
    /// Nothing is sent until you call [`completed`](ReportBuilder::completed) or
    /// [`failed`](ReportBuilder::failed). Check first that the message is from the provider: a
    /// reporter may complete any `once` step.
    ///
    /// `step` is the name in [`View::steps`](super::View::steps). A compensation is
    /// `compensation:charge`, and its result is a [`Compensated`](super::Compensated). A step of
    /// that compensation is `pay-back~in~compensation:charge`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use locker::{Error, workflow::Workflows};
    /// # async fn webhook(workflows: &Workflows, order: u64) -> Result<bool, Error> {
    /// use locker::workflow::Reported;
    ///
    /// let reported = workflows.report(("order", order), "charge").completed(&"charge-17").await?;
    /// Ok(match reported {
    ///     // Let the provider send the event again.
    ///     Reported::Busy(_) | Reported::Unknown => false,
    ///     // Another event of the provider would not change this. An operator has to look at it.
    ///     Reported::Contradicts | Reported::NotAnEffect => {
    ///         eprintln!("the charge of order {order}: {reported:?}");
    ///         true
    ///     }
    ///     _ => true,
    /// })
    /// # }
    /// ```
    pub fn report(&self, key: impl IntoKey, step: impl Into<String>) -> ReportBuilder {
        ReportBuilder {
            workflows: self.clone(),
            key: key.into_key(),
            key_version: None,
            step: step.into(),
            step_version: None,
        }
    }
}

/// Builds the report of an outcome. See [`Workflows::report`].
#[derive(Debug)]
#[must_use = "nothing is reported until the outcome is given"]
pub struct ReportBuilder {
    workflows: Workflows,
    key: Result<Key, InvalidArgument>,
    /// `None`: the first one, if it is the only one.
    key_version: Option<u32>,
    step: String,
    step_version: Option<u32>,
}

impl ReportBuilder {
    /// Sets the version of the workflow's key, see [`Flow::key_version`](super::Flow::key_version).
    /// The idempotency key contains it. Default: 1, as long as the workflow has not continued as
    /// another version. After that, an outcome without a version is [`Reported::Unknown`]: each
    /// version has a step of this name.
    pub const fn key_version(mut self, version: u32) -> Self {
        self.key_version = Some(version);
        self
    }

    /// Sets the version of the step's key under which the outcome came, see
    /// [`StepAttempt::key_version`](super::StepAttempt::key_version). The idempotency key contains
    /// it. Default: 1, as long as no other was used. After that, an outcome without a version is
    /// [`Reported::Unknown`].
    pub const fn step_version(mut self, version: u32) -> Self {
        self.step_version = Some(version);
        self
    }

    /// Reports that the step happened, with this result.
    ///
    /// The result must have the type that the code reads. Otherwise the next run quarantines the
    /// workflow, and an operator corrects the result. The same JSON in another order of members is
    /// the same result. Numbers are compared by their text: `1` and `1.0` are two results.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Answer`] if the result cannot be stored, [`Error::Form`] if the
    /// step is a compensation and the result is no [`Compensated`](super::Compensated),
    /// [`Error::Denied`], [`Error::Unavailable`], [`Error::Contended`]: nothing was written.
    /// [`Error::Unknown`]: report the outcome again.
    ///
    /// # Cost
    ///
    /// 4 reads of 1 unit, and 1 transaction of 2 items: 4 write units, and 2 for the index. If
    /// another workflow compensates the step: 1 read more, and a third item. If the step has
    /// another result or a later version of its key: 1 or 2 reads more. A known outcome costs the
    /// reads only. A result above 4 KB: 1 request and 1 write unit for each KB more.
    ///
    /// # Crash window
    ///
    /// None: the step and its workflow are written in one transaction.
    pub async fn completed(self, result: &impl Serialize) -> Result<Reported, Error> {
        let is_compensation = matches!(Place::parse_shown(&self.step), Ok(Place::Compensation { .. }));
        let kind = if is_compensation { StepKind::Compensation } else { StepKind::Once };
        let happened = Happened::Yes(result_of(kind, result)?);
        self.report(happened).await
    }

    /// Reports that the step did not happen **and never will**, for this reason. The code receives
    /// a permanent failure.
    ///
    /// # Errors
    ///
    /// Same as [`completed`](Self::completed), and the same cost.
    pub async fn failed(self, error: &impl Serialize) -> Result<Reported, Error> {
        let failure = StepFailure::of(Some(&self.step), Class::Permanent, error);
        let happened = Happened::No(answer::encode_for_item(failure.to_stored()?)?.into());
        self.report(happened).await
    }

    async fn report(self, happened: Happened) -> Result<Reported, Error> {
        let key = self.key?;
        let version = self.step_version.unwrap_or(1);
        if self.key_version == Some(0) || version == 0 {
            return Err(InvalidSetting::KeyVersion.into());
        }
        let place = Place::parse_shown(&self.step).map_err(InvalidSetting::Name)?;
        // An event is no step. It is signalled.
        if matches!(place, Place::Event(_) | Place::Surplus { .. }) {
            return Err(InvalidSetting::Name(InvalidName::Reserved).into());
        }
        let context = self.workflows.context();
        let until = context.until(None);
        let workflow = name::partition(&key, self.key_version.unwrap_or(1));
        let place = RecordId::at(&workflow, place);
        let Some(header) = Box::pin(context.store().read_header(&workflow, until)).await? else {
            return Ok(Reported::Unknown);
        };
        // The steps of each version have the same names.
        if self.key_version.is_none() && header.continued_as.is_some() {
            return Ok(Reported::Unknown);
        }
        // A record of an earlier workflow under the key may be left. The outcome is of another
        // step.
        let read = Box::pin(context.store().read_record(&place, until)).await?;
        let Some(placed) = read.filter(|record| record.is_of(header.created)) else {
            return Ok(Reported::Unknown);
        };
        let owner = context.settings().owner.clone();
        let step = placed.shared().unwrap_or_else(|| place.clone());
        let happened = match happened {
            Happened::Yes(StepResult::Inline(result)) => {
                Happened::Yes(context.keep(&step, result, until).await?)
            }
            other => other,
        };
        let report = Report {
            step,
            run: header.run_id(),
            place: NewStep {
                input: placed.input.clone(),
                points_to: placed.points_to.clone(),
                ..NewStep::of(place, StepKind::Once, owner, header.created, placed.number)
            },
            outcome: Outcome {
                version,
                is_version_named: self.step_version.is_some(),
                happened,
                ended: context.now(),
                compensation: placed.compensation.clone(),
                is_same_effect: false,
                waits: true,
                is_unrecorded: false,
            },
        };
        let reported = Box::pin(context.report_outcome(&report, until)).await?.0;
        if matches!(reported, Reported::Contradicts | Reported::NotAnEffect) {
            tracing::error!(
                workflow.key = context.shown(&report.place.id.workflow),
                workflow.step = report.place.id.shown(),
                ?reported,
                "a reported outcome was not recorded; an operator has to look at it"
            );
        }
        Ok(reported)
    }
}
