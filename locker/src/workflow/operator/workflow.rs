//! Operator actions on a workflow: writes with a reason, conditional on the state that the operator
//! read.

use std::collections::HashSet;

use serde_json::Value;

use super::event::{NewEvent, is_event};
use super::view::View;
use crate::core::answer::Body;
use crate::core::argument::InvalidSetting;
use crate::core::key::IntoKey;
use crate::core::name;
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;
use crate::core::workflow::audit::{Deed, WorkflowAudit};
use crate::core::workflow::event::{EventAct, EventRecord, MOST_RECORDS, Signalled, fitting};
use crate::core::workflow::header::{Header, HeaderEvent, NewWorkflow, OperatorAct};
use crate::core::workflow::place::Place;
use crate::core::workflow::step::{StepEvent, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::metrics;
use crate::session::{Intervened, Operator};
use crate::store::{Over, Written};
use crate::workflow::workflows::Workflows;

const CANCEL: &str = "cancel the workflow";

/// An act of an operator on a workflow that exists.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WorkflowAct<'a> {
    Retry,
    Compensate,
    Close,
    Redact,
    RetryStep {
        step: &'a str,
        new_key: bool,
    },
    ResolveStep {
        step: &'a str,
        result: &'a Value,
    },
    /// A step, or an event that the code cannot read.
    CorrectStep {
        step: &'a str,
        result: &'a Value,
    },
    /// A step, or a late event.
    SkipStep {
        step: &'a str,
    },
    BlockStep {
        step: &'a str,
    },
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "operators have a console"))]
    Signal(NewEvent<'a>),
}

/// Each step as it was read, if it has a record, and as it will be written.
pub(super) type Changes<'a> = Vec<(Option<&'a StepRecord>, StepRecord)>;

/// The records that an act writes in one transaction.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(super) verb: &'static str,
    /// `None`: the workflow stays as it is.
    pub(super) header: Option<Header>,
    /// The act is refused if the workflow has changed, although the act leaves it as it is.
    pub(super) depends: bool,
    pub(super) steps: Changes<'a>,
    pub(super) events: EventChanges<'a>,
    /// The answer to an event that is given.
    pub(super) answer: Option<Signalled>,
    /// The items that are deleted.
    pub(super) erased: Vec<String>,
    pub(super) audit: WorkflowAudit,
}

/// Each event as it was read, if it has a record, and as it will be written.
pub(super) type EventChanges<'a> = Vec<(Option<&'a EventRecord>, EventRecord)>;

impl<'a> Prepared<'a> {
    /// Removes the steps and events that do not fit into the transaction of the act. They are
    /// written first, so that each unread event of an ended workflow is listed.
    fn beyond(&mut self) -> Vec<Vec<Over<'a>>> {
        let steps = self.steps.split_off(self.steps.len().min(MOST_RECORDS));
        let steps = steps.chunks(MOST_RECORDS).map(|steps| {
            steps.iter().map(|(seen, next)| Over::Step(*seen, next.clone())).collect::<Vec<_>>()
        });
        let mut parts: Vec<_> = steps.collect();
        let fits = |events: &EventChanges<'_>, others| {
            fitting(events.iter().map(|(_, next)| next), others).min(events.len())
        };
        let mut events = self.events.split_off(fits(&self.events, self.steps.len()));
        while !events.is_empty() {
            let others = events.split_off(fits(&events, 0).max(1));
            parts.push(events.into_iter().map(|(seen, next)| Over::Event(seen, next)).collect());
            events = others;
        }
        parts
    }

    /// Only the audit record.
    pub(super) const fn of(verb: &'static str, audit: WorkflowAudit) -> Self {
        Self {
            verb,
            header: None,
            depends: false,
            steps: Vec::new(),
            events: Vec::new(),
            answer: None,
            erased: Vec::new(),
            audit,
        }
    }

    /// The answer to an event that is given.
    #[cfg_attr(not(feature = "operator"), allow(dead_code, reason = "operators have a console"))]
    pub(crate) const fn answer(&self) -> Option<Signalled> {
        self.answer
    }
}

/// The items of an input and an answer that are not in the header.
fn separate_items(header: &Header) -> Vec<String> {
    let input = match &header.input {
        Some(Body::Beside { id, .. }) => Some(Place::Input(id).to_string()),
        _ => None,
    };
    let answer = match &header.result {
        Some(Body::Beside { id, .. }) => Some(Place::Answer(id).to_string()),
        _ => None,
    };
    input.into_iter().chain(answer).collect()
}

/// Returns the outcome of a refused close. `begun`: an earlier transaction was applied.
fn after_part(verb: &'static str, refused: Intervened, begun: bool) -> Result<Intervened, Error> {
    if begun {
        let source = "some steps were cancelled or some events became late before the workflow changed; read it, and close it again if it is in quarantine".into();
        return Err(Error::Unknown { verb, tries: 1, source });
    }
    Ok(refused)
}

impl Workflows {
    /// Makes a workflow due now, from quarantine or before its next attempt. Its attempts are
    /// counted from 0. If a driver is running the workflow, it loses it, and the step under way may
    /// then be in doubt.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`]: nothing was written. [`Error::Unknown`]: read the
    /// workflow again.
    ///
    /// # Cost
    ///
    /// 1 transaction of the workflow and its audit record: 4 write units, and 3 for the index. The
    /// same for every operator action on a workflow.
    pub async fn retry(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        self.intervene(seen, WorkflowAct::Retry, operator).await
    }

    /// Compensates an unfinished workflow: its steps that completed or are in doubt, in reverse
    /// order.
    ///
    /// It then ends as `failed` if it failed before, otherwise as `cancelled`. A driver that runs
    /// it is fenced off. A version that has continued as a new version is not compensated
    /// ([`NotPossible`](Intervened::NotPossible)), even while a late outcome of it is being
    /// compensated.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    pub async fn compensate(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        self.intervene(seen, WorkflowAct::Compensate, operator).await
    }

    /// Closes a quarantined workflow **as it is**: no step runs and none is compensated.
    ///
    /// Use it for a workflow that was repaired manually, such as a workflow that failed past its
    /// pivot. It ends as `failed` if it failed before, otherwise as `cancelled`. A workflow that is
    /// closed with a step in doubt is never deleted.
    ///
    /// The workflow is quarantined again if the outcome of a cancelled step arrives later, an event
    /// with a compensation, or the outcome of a compensation in doubt. Skip each effect that you
    /// repaired manually. Then retry the workflow: the retry compensates all others that are late.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    ///
    /// # Cost
    ///
    /// 1 transaction of the workflow, its steps in doubt, its unread events and an audit record: 2
    /// write units each, and 3 for the index. Steps in doubt beyond the first 90, and unread events
    /// that do not fit into the transaction, are written in further transactions before it.
    ///
    /// # Crash window
    ///
    /// If a later transaction fails, the first steps stay cancelled, the first events stay late,
    /// and the result is [`Error::Unknown`]. Read the workflow, and close it if it is still in
    /// quarantine. Do not retry it: its code would not receive the late events.
    pub async fn close(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        self.intervene(seen, WorkflowAct::Close, operator).await
    }

    /// Erases the input and the answer or the failure of a workflow that **has ended**.
    ///
    /// The key stays used, for the retention of the workflow. A later caller gets
    /// [`AnswerError::Redacted`](crate::AnswerError::Redacted). There are two exceptions, which
    /// have no result to erase: a cancelled workflow stays cancelled, and the answer `null` stays.
    /// The results of its steps, its events and its messages stay until the workflow is deleted. If
    /// the workflow continued as new versions, redact each version.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry).
    ///
    /// # Cost
    ///
    /// Same as [`retry`](Self::retry), and 2 write units for each KB of an input or an answer in a
    /// separate item.
    pub async fn redact(&self, seen: &View, operator: &Operator) -> Result<Intervened, Error> {
        self.intervene(seen, WorkflowAct::Redact, operator).await
    }

    /// Cancels a workflow by its key: compensates it or, if it has not started, leaves a tombstone
    /// that refuses a late start.
    ///
    /// The result is [`NotPossible`](Intervened::NotPossible) if the workflow
    /// - has ended, unless the compensation of a late event still runs,
    /// - has continued as another version: cancel the latest version,
    /// - was closed by an operator, who may have repaired its effects manually. After a late
    ///   outcome, use [`compensate`](Self::compensate) with the records that you saw.
    ///
    /// # Errors
    ///
    /// Same as [`retry`](Self::retry), and [`Error::Invalid`] if the key is not allowed or
    /// `key_version` is 0.
    pub async fn cancel(
        &self,
        key: impl IntoKey,
        key_version: u32,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        match self.put_tombstone(key, key_version, operator).await? {
            Written::Refused { found: Some(header), .. } if header.was_closed() => {
                Ok(Intervened::NotPossible)
            }
            Written::Refused { found: Some(header), .. } => {
                let seen = View {
                    header: *header,
                    steps: Vec::new(),
                    events: Vec::new(),
                    former_events: Vec::new(),
                    messages: Vec::new(),
                    result: None,
                    failed: Vec::new(),
                };
                self.compensate(&seen, operator).await
            }
            written => Intervened::of(CANCEL, &written),
        }
    }

    /// Blocks a workflow that has not started: leaves a tombstone that refuses a late start.
    ///
    /// If the workflow exists, nothing is written and the result is [`Intervened::Changed`].
    ///
    /// # Errors
    ///
    /// Same as [`cancel`](Self::cancel).
    pub async fn block(
        &self,
        key: impl IntoKey,
        key_version: u32,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        Intervened::of(CANCEL, &self.put_tombstone(key, key_version, operator).await?)
    }

    async fn put_tombstone(
        &self,
        key: impl IntoKey,
        key_version: u32,
        operator: &Operator,
    ) -> Result<Written<Option<Box<Header>>>, Error> {
        let key = key.into_key()?;
        if key_version == 0 {
            return Err(InvalidSetting::KeyVersion.into());
        }
        let workflow = name::partition(&key, key_version);
        let context = self.context();
        let settings = context.settings();
        let new = NewWorkflow {
            code: 1,
            workflow,
            name: "-".to_owned(),
            key_version,
            owner: None,
            not_before: None,
            fingerprint: None,
            input: None,
            expected: settings.expect_within,
            continues: None,
            retention: settings.retention,
            within: None,
            opened: None,
        };
        let by = operator.at(context.now());
        let header = Header::cancelled(new, by.clone(), context.stamp());
        let deed = Deed::of_workflow(Resolution::Cancelled);
        let audit = self.audited(deed, (&header.workflow, None), by);
        let until = context.until(None);
        let store = context.store();
        let headers = [(None, header)];
        Box::pin(store.change_together(CANCEL, &[], &headers, Some(&audit), until)).await
    }

    /// Acts on a workflow as the operator saw it, if the act is possible.
    pub(crate) async fn intervene(
        &self,
        seen: &View,
        act: WorkflowAct<'_>,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let Some(mut prepared) = self.prepare(seen, act, operator)? else {
            return Ok(Intervened::NotPossible);
        };
        let (context, verb) = (self.context(), prepared.verb);
        if let WorkflowAct::Signal(event) = act
            && self.is_known_before(seen, event, context.until(None)).await?
        {
            return Ok(Intervened::NotPossible);
        }
        let until = context.until(None);
        let count_left = |records: &[Over<'_>]| {
            metrics::count_left_events(records.iter().filter_map(|record| match record {
                Over::Event(_, next) if matches!(act, WorkflowAct::Close) => Some(next),
                _ => None,
            }));
        };
        // If one of these is refused, the operator reads the workflow and closes it again.
        let mut begun = false;
        for mut records in prepared.beyond() {
            records.push(Over::Unchanged(&seen.header));
            let written = context.store().change_together(verb, &records, &[], None, until);
            let written = Box::pin(written).await.map_err(|error| error.unsure_if(begun))?;
            match Intervened::of(verb, &written)? {
                Intervened::Done => {
                    count_left(&records);
                    begun = true;
                }
                refused => return after_part(verb, refused, begun),
            }
        }
        let headers: Vec<_> = prepared.header.into_iter().map(|next| (Some(&seen.header), next)).collect();
        let steps = prepared.steps.into_iter().map(|(seen, next)| Over::Step(seen, next));
        let events = prepared.events.into_iter().map(|(seen, next)| Over::Event(seen, next));
        let unchanged = prepared.depends.then_some(Over::Unchanged(&seen.header));
        let erased = prepared.erased.into_iter().map(|item| Over::Erased(&seen.header.workflow, item));
        let records: Vec<_> = steps.chain(events).chain(unchanged).chain(erased).collect();
        let changed = context.store().change_together(verb, &records, &headers, Some(&prepared.audit), until);
        let changed = Box::pin(changed).await.map_err(|error| error.unsure_if(begun))?;
        let intervened = Intervened::of(verb, &changed)?;
        if intervened != Intervened::Done {
            return after_part(verb, intervened, begun);
        }
        let name = &seen.header.name;
        prepared.answer.into_iter().for_each(|answer| metrics::count_event(name, answer));
        count_left(&records);
        Ok(intervened)
    }

    /// Returns the records that an act writes. `None`: the act is not possible.
    ///
    /// Nothing is read or written. So a path that only shows an act applies the same rule.
    ///
    /// # Errors
    ///
    /// [`Error::Form`] and [`Error::Answer`] if the result cannot be stored.
    pub(crate) fn prepare<'a>(
        &self,
        seen: &'a View,
        act: WorkflowAct<'_>,
        operator: &Operator,
    ) -> Result<Option<Prepared<'a>>, Error> {
        let of_workflow = |verb, steps, act, resolution| {
            self.prepared(verb, seen, steps, operator, (act, Deed::of_workflow(resolution)))
        };
        match act {
            WorkflowAct::Retry => {
                Ok(of_workflow("retry the workflow", Vec::new(), OperatorAct::Retry, Resolution::Retried))
            }
            WorkflowAct::Compensate => {
                let (verb, compensate) = ("compensate the workflow", OperatorAct::Compensate);
                Ok(of_workflow(verb, Vec::new(), compensate, Resolution::Compensated))
            }
            WorkflowAct::Close => Ok(self.steps_in_doubt_cancelled(seen).and_then(|steps| {
                let last = seen.steps.iter().map(|step| step.placed.number).max();
                let close = OperatorAct::Close { seen: last.unwrap_or_default() };
                let closed = of_workflow("close the workflow", steps, close, Resolution::Closed)?;
                Some(Prepared { events: self.events_left(seen), ..closed })
            })),
            WorkflowAct::Redact => {
                let (verb, resolution) = ("redact the workflow", Resolution::Redacted);
                let redacted = of_workflow(verb, Vec::new(), OperatorAct::Redact, resolution);
                Ok(redacted.map(|redacted| Prepared { erased: separate_items(&seen.header), ..redacted }))
            }
            WorkflowAct::RetryStep { step, new_key } => self.retry_of_step(seen, step, new_key, operator),
            WorkflowAct::ResolveStep { step, result } => {
                self.give(seen, step, result, operator, Resolution::Resolved)
            }
            WorkflowAct::CorrectStep { step, result } if is_event(step) => {
                self.correction_of_event(seen, step, result, operator)
            }
            WorkflowAct::CorrectStep { step, result } => self.correction(seen, step, result, operator),
            WorkflowAct::SkipStep { step } if is_event(step) => Ok(self.skip_of_event(seen, step, operator)),
            WorkflowAct::SkipStep { step } => self.skip(seen, step, operator),
            WorkflowAct::Signal(event) => self.signal_of(seen, event, operator),
            WorkflowAct::BlockStep { step } => self.blocked(seen, step, operator),
        }
    }

    /// The steps in doubt of a workflow in quarantine, cancelled, and its compensations in doubt,
    /// disowned. `None`: not possible.
    ///
    /// The outcome of each may still arrive. It is then shown.
    fn steps_in_doubt_cancelled<'a>(&self, seen: &'a View) -> Option<Changes<'a>> {
        if !seen.header.is_quarantined() {
            return None;
        }
        let run = seen.header.run_id();
        // A workflow may have several names for one record, and a transaction writes it once.
        let mut records = HashSet::new();
        let in_doubt = seen.steps.iter().filter(|step| {
            let record = &step.placed.record;
            let is_effect = matches!(record.kind, StepKind::Once | StepKind::Compensation);
            let is_in_doubt = is_effect && record.state == StepState::Started && step.placed.is_of(&run);
            is_in_doubt && records.insert(&record.id)
        });
        // In one transaction, so that no step of a workflow that another operator has made due is
        // cancelled.
        let cancelled = |record: &'a StepRecord| {
            let seen = record.revision.clone();
            let event = match record.kind {
                StepKind::Compensation => StepEvent::Disowned { seen },
                _ => StepEvent::Cancel { seen, anyway: true },
            };
            let next = record.on(&event, self.context().stamp()).ok()?;
            Some((Some(record), next))
        };
        in_doubt.map(|step| cancelled(&step.placed.record)).collect()
    }

    /// The events that the code has not read, which are late by the end of the workflow.
    fn events_left<'a>(&self, seen: &'a View) -> EventChanges<'a> {
        let left = |event: &'a EventRecord| {
            let next =
                event.on(&event.revision, &EventAct::Leave { undoes: false }, self.context().stamp()).ok()?;
            Some((Some(event), next))
        };
        seen.events.iter().filter_map(|event| left(&event.record)).collect()
    }

    /// The records of an act on a workflow and its steps. `None`: the act is not possible.
    pub(super) fn prepared<'a>(
        &self,
        verb: &'static str,
        seen: &'a View,
        steps: Changes<'a>,
        operator: &Operator,
        (act, deed): (OperatorAct, Deed<'_>),
    ) -> Option<Prepared<'a>> {
        let context = self.context();
        let by = operator.at(context.now());
        let event = HeaderEvent::Operator { seen: seen.header.revision.clone(), by: by.clone(), act };
        let header = seen.header.on(&event, context.stamp()).ok()?;
        let audit = self.audited(deed, (&header.workflow, Some(&seen.header)), by);
        Some(Prepared { header: Some(header), steps, ..Prepared::of(verb, audit) })
    }

    pub(crate) fn audited(
        &self,
        deed: Deed<'_>,
        of: (&str, Option<&Header>),
        by: Intervention,
    ) -> WorkflowAudit {
        let context = self.context();
        let settings = context.settings();
        let ttl = settings.audit_retention.ttl(by.at);
        WorkflowAudit::new(deed, of, by, (&context.new_id(), settings.write_shards(), ttl))
    }
}
