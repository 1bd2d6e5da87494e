//! Outcomes that come from outside: a webhook, an event, a report of the provider.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::step::tell::{Telling, ToldAs};
use super::stop::StepFailure;
use super::workflows::Workflows;
use crate::core::answer;
use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::class::Class;
use crate::core::key::{IntoKey, Key};
use crate::core::name;
use crate::core::workflow::step::{Happened, NewStep, Outcome, RecordId, StepKind};
use crate::error::Error;

/// What an outcome from outside came to. See [`Workflows::tell`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// It is the step's result or failure now, and the workflow goes on from there.
    Recorded,
    /// The step was cancelled, or the workflow has gone another way or ended: it is due again, and
    /// compensates the step once.
    Compensates,
    /// Another result is recorded under the same idempotency key, so that the step may have
    /// happened twice: the workflow is in quarantine, and shows both.
    Twice,
    /// It was known already. **Telling twice is harmless.**
    Known,
    /// It says that the step did not happen, and the record says that it did. Nothing was written:
    /// let an operator look.
    Contradicts,
    /// The driver that started the step may be at work, and brings the outcome itself. Nothing was
    /// written: tell it again after this time.
    Busy(DateTime<Utc>),
    /// There is no such workflow, it has not started this step under this version of its key, or it
    /// is deleted. **Nothing was written:** keep the outcome, such as by an error to the provider,
    /// which sends it again.
    Unknown,
}

impl Workflows {
    /// Tell the outcome of a step that comes from outside: a webhook, an event, a report of the
    /// provider. Source: seed 002, a confirmation after the cancellation.
    ///
    /// Nothing is sent until you call [`completed`](Tell::completed) or [`failed`](Tell::failed).
    /// Check first that the message is from the provider: whoever may tell, may complete a step.
    ///
    /// ```no_run
    /// # async fn webhook(workflows: &locker::workflow::Workflows, order: u64) -> Result<bool, locker::Error> {
    /// use locker::workflow::Told;
    ///
    /// let told = workflows.tell(("order", order), "charge").completed(&"charge-17").await?;
    /// // Otherwise the provider sends it again.
    /// Ok(!matches!(told, Told::Busy(_) | Told::Unknown))
    /// # }
    /// ```
    pub fn tell(&self, key: impl IntoKey, step: impl Into<String>) -> Tell {
        Tell {
            workflows: self.clone(),
            key: key.into_key(),
            key_version: 1,
            step: step.into(),
            step_version: None,
        }
    }
}

/// An outcome from outside. See [`Workflows::tell`].
#[derive(Debug)]
#[must_use = "nothing is told until the outcome is given"]
pub struct Tell {
    workflows: Workflows,
    key: Result<Key, InvalidArgument>,
    key_version: u32,
    step: String,
    step_version: Option<u32>,
}

impl Tell {
    /// The version of the workflow's key. Default: 1.
    pub const fn key_version(mut self, version: u32) -> Self {
        self.key_version = version;
        self
    }

    /// The version of the step's key for which the outcome is, see
    /// [`StepAttempt::key_version`](super::StepAttempt::key_version); the idempotency key has it as
    /// well. Default: 1, as long as no other was used; after that, an outcome that does not say its
    /// version is [`Told::Unknown`].
    pub const fn step_version(mut self, version: u32) -> Self {
        self.step_version = Some(version);
        self
    }

    /// The step happened, with this result, of the type that the code reads.
    ///
    /// # Crash window
    ///
    /// None: the step and its workflow are written in one transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Answer`] if the result cannot be stored, [`Error::Denied`],
    /// [`Error::Unavailable`], [`Error::Contended`]: nothing was written. [`Error::Unknown`]:
    /// report the outcome again.
    ///
    /// # Cost
    ///
    /// 4 reads of 1 unit, and 5 for a step with a key of its own; 1 transaction of 2 items: 4 write
    /// units, and 2 for the index.
    pub async fn completed(self, result: &impl Serialize) -> Result<Told, Error> {
        let json = answer::to_json(result)?;
        let happened = Happened::Yes(answer::encode_for_item(json)?);
        self.tell(happened).await
    }

    /// The step did not happen **and never will**, for this reason. The code gets it as a permanent
    /// failure.
    ///
    /// # Errors
    ///
    /// Same as [`completed`](Self::completed), and the same cost.
    pub async fn failed(self, error: &impl Serialize) -> Result<Told, Error> {
        let failure = StepFailure::of(Some(&self.step), Class::Permanent, error);
        let happened = Happened::No(answer::encode_for_item(failure.to_stored()?)?);
        self.tell(happened).await
    }

    async fn tell(self, happened: Happened) -> Result<Told, Error> {
        let key = self.key?;
        for version in [self.key_version, self.step_version.unwrap_or(1)] {
            if version == 0 {
                return Err(InvalidSetting::KeyVersion.into());
            }
        }
        name::check(&self.step).map_err(InvalidSetting::Name)?;
        let context = self.workflows.context();
        let until = context.until(None);
        let workflow = name::partition(&key, self.key_version);
        let place = RecordId::step(&workflow, &self.step);
        let Some(header) = Box::pin(context.store().read_header(&workflow, until)).await? else {
            return Ok(Told::Unknown);
        };
        let read = Box::pin(context.store().read_record(&place, until)).await?;
        let Some(placed) = read.filter(|record| record.is_of(header.created)) else {
            return Ok(Told::Unknown);
        };
        let shared = placed.shared();
        let step = shared.clone().unwrap_or_else(|| place.clone());
        let version = match (self.step_version, shared) {
            (Some(version), _) => version,
            (None, None) => placed.key_version,
            (None, Some(_)) => match Box::pin(context.store().read_record(&step, until)).await? {
                Some(shared) => shared.key_version,
                None => return Ok(Told::Unknown),
            },
        };
        // The event may be of any version before.
        if self.step_version.is_none() && version > 1 {
            return Ok(Told::Unknown);
        }
        let owner = context.settings().owner.clone();
        let telling = Telling {
            step,
            run: header.run_id(),
            former: NewStep {
                input: placed.input.clone(),
                points_to: placed.points_to.clone(),
                ..NewStep::of(place, StepKind::Once, owner, header.created, placed.number)
            },
            outcome: Outcome {
                version,
                happened,
                ended: context.now(),
                compensation: placed.compensation.clone(),
                is_same_effect: false,
                waits: true,
                is_unrecorded: false,
            },
        };
        Ok(match Box::pin(context.tell(&telling, until)).await? {
            ToldAs::Result(_) => Told::Recorded,
            ToldAs::Late => Told::Compensates,
            ToldAs::Twice => Told::Twice,
            ToldAs::Known(_) => Told::Known,
            ToldAs::Contradicts => Told::Contradicts,
            ToldAs::Busy(until) => Told::Busy(until),
            ToldAs::Unknown => Told::Unknown,
        })
    }
}
