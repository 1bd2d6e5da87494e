//! A step that runs at most once.

use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;

use super::attempt::StepAttempt;
use super::intent::intent;
use super::retry::RetryPolicy;
use crate::core::argument::InvalidArgument;
use crate::core::fingerprint::Fingerprint;
use crate::core::key::{IntoKey, Key};
use crate::core::private::Private;
use crate::core::retention::Retention;
use crate::core::workflow::place::{Place, Undo};
use crate::core::workflow::step::{Intent, StepKind};
use crate::error::BoxError;
use crate::workflow::definition::ProbeOutcome;
use crate::workflow::flow::{Expected, Flow};
use crate::workflow::stop::StopKind;

type Probing<'a> = Pin<Box<dyn Future<Output = Result<ProbeOutcome, BoxError>> + Send + 'a>>;
type Probe<'a> = Box<dyn Fn(StepAttempt) -> Probing<'a> + Send + Sync + 'a>;

/// Builds a step that runs at most once. See [`Flow::once`].
#[derive(Debug)]
#[must_use = "a step does nothing until it is run"]
pub struct Once<'a> {
    pub(crate) flow: &'a Flow,
    pub(crate) name: String,
    pub(crate) input: Option<Result<Fingerprint, StopKind>>,
    pub(crate) key: Option<Result<Key, InvalidArgument>>,
    pub(crate) version: Option<u32>,
    pub(crate) retention: Retention,
    pub(crate) recognised: Duration,
    pub(crate) expected: Expected,
    pub(crate) probe: Private<Option<Probe<'a>>>,
    pub(crate) compensation: Option<Result<Intent, StopKind>>,
    pub(crate) pivot: bool,
    pub(crate) retry: RetryPolicy,
    /// Set if this is the compensation of a step.
    pub(crate) compensates: Option<Undo<'a>>,
}

impl<'a> Once<'a> {
    pub(crate) fn new(flow: &'a Flow, name: String) -> Self {
        Self {
            flow,
            name,
            input: None,
            key: None,
            version: None,
            retention: Retention::Forever,
            recognised: Duration::ZERO,
            expected: Expected::DEFAULT,
            probe: Private(None),
            compensation: None,
            pivot: false,
            retry: RetryPolicy::default(),
            compensates: None,
        }
    }

    /// Returns the builder for the compensation of a step.
    pub(crate) fn compensating(flow: &'a Flow, of: Undo<'a>) -> Self {
        Self { compensates: Some(of), ..Self::new(flow, of.effect.to_string()) }
    }

    /// Returns the place of the step in its workflow.
    pub(crate) fn place(&self) -> Place<'_> {
        match self.compensates {
            None => self.flow.place_of(&self.name),
            Some(of) => Place::Compensation { of, former: None },
        }
    }

    pub(crate) const fn kind(&self) -> StepKind {
        if self.compensates.is_some() { StepKind::Compensation } else { StepKind::Once }
    }

    /// Sets the input of the step. Only a digest is recorded. If a resumed step has another input,
    /// the workflow is quarantined.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(Flow::fingerprint(&self.name, input));
        self
    }

    /// Sets a business key of the step, such as `("card/charge", order_id)`.
    ///
    /// The step then happens once for **all workflows** that use the key: another workflow, a fork,
    /// or this workflow under the next version of its key. The workflow that ran the step also
    /// compensates it. If that workflow fails later, other workflows have used a result that is
    /// then compensated.
    ///
    /// Without a key, the step belongs to this workflow and the version of its key. A key costs a
    /// pointer (1 request and 1 write unit), and 1 request when the workflow is resumed.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.key = Some(key.into_key());
        self
    }

    /// Sets the version of the step's key, from 1.
    ///
    /// A recorded **failure** of a lower version is then ignored, and the provider receives a new
    /// idempotency key. A recorded success always counts. If the [`outcome`](Self::outcome) of the
    /// step is a failure, you may run the step again under a higher version.
    pub const fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the retention of the record of a step with its own key (default: forever).
    ///
    /// If an old workflow is resumed after the record was deleted, it runs the step again, with the
    /// first idempotency key. The record of a pivot or of a step with a compensation cannot expire.
    /// Use the same retention in all workflows with the key: the record gets the retention of the
    /// workflow that ends the step.
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets how long the provider recognises an idempotency key (Stripe: 24 hours).
    ///
    /// A step in doubt is sent again with the same key until `expect_within` and the clock skew
    /// before the end of this time. So a time that is not longer than both together has no effect.
    /// If the provider then refuses the request permanently, this proves nothing about the first
    /// attempt, so the probe or an operator decides.
    ///
    /// After a [restore](crate::Settings::restored), the probe or an operator also decides about a
    /// step in doubt with its own key, or of work on which an operator acted: the age of its key is
    /// unknown.
    pub const fn recognised_for(mut self, time: Duration) -> Self {
        self.recognised = time;
        self
    }

    /// Sets the expected time of an attempt, from 1 second to 366 days (default: 30 seconds).
    ///
    /// Before the end of this time, no other driver considers the step in doubt. An attempt starts
    /// only if this much time is left in the run. Without a value, it needs at most half of the
    /// run. A completer whose runs are shorter leaves the workflow to another driver. While an
    /// attempt is within this time, the flow extends its claim of the workflow, up to
    /// [`Limits::longest_run`](crate::workflow::Limits::longest_run).
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = Expected::set(time);
        self
    }

    /// Sets a probe that finds out whether a step in doubt happened.
    ///
    /// Return [`ProbeOutcome::NotDone`] only if the step has not happened **and will not**.
    pub fn probe<F, R>(mut self, probe: F) -> Self
    where
        F: Fn(StepAttempt) -> R + Send + Sync + 'a,
        R: Future<Output = Result<ProbeOutcome, BoxError>> + Send + 'a,
    {
        self.probe = Private(Some(Box::new(move |attempt| Box::pin(probe(attempt)))));
        self
    }

    /// Sets the compensation of the step, which runs if the workflow fails or is cancelled.
    ///
    /// Pass a variant of one enum that all steps of the workflow use.
    /// [`Workflow::compensate`](crate::workflow::Workflow::compensate) reads the variant with
    /// [`Compensation::undo`](crate::workflow::Compensation::undo). The variant is stored before
    /// the step runs, so a step in doubt is compensated as well. It has at most 4 KB of JSON. Its
    /// name follows the rules for names of steps.
    ///
    /// The enum is stored in the default form of serde. Keep each variant that an unfinished
    /// workflow may have stored: code without the variant quarantines the workflow.
    pub fn compensate(self, undo: &impl Serialize) -> Self {
        self.compensate_within(undo, Duration::ZERO)
    }

    /// Sets the compensation of the step, and how long the provider recognises its idempotency key.
    ///
    /// Same as [`compensate`](Self::compensate). Within this time, a compensation in doubt is sent
    /// again.
    pub fn compensate_within(mut self, undo: &impl Serialize, recognised: Duration) -> Self {
        self.compensation = Some(intent(&self.name, undo, recognised));
        self
    }

    /// Makes this step a pivot: a step that cannot be undone, such as a shipment.
    ///
    /// If the workflow fails or is cancelled after the pivot happened, only the steps after the
    /// pivot are compensated, and the workflow is quarantined. The same applies while it is unknown
    /// whether the pivot happened. A pivot that failed permanently did not happen, so the steps
    /// before it are compensated. A pivot with a compensation is refused: the workflow is
    /// quarantined.
    ///
    /// # Examples
    ///
    /// ```
    /// use locker::Failure;
    /// use locker::workflow::{Flow, Stop};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// enum Undo {
    ///     Release { order: u64 },
    ///     Refund { order: u64 },
    /// }
    ///
    /// # async fn ask(_what: &str, _key: &str) -> Result<String, Failure> { todo!() }
    /// async fn run(flow: &Flow, order: u64) -> Result<String, Stop> {
    ///     let reserve = flow.once("reserve").compensate(&Undo::Release { order });
    ///     reserve.run(async |it| ask("reserve", it.idempotency_key()).await).await?;
    ///     let charge = flow.once("charge").compensate(&Undo::Refund { order });
    ///     charge.run(async |it| ask("charge", it.idempotency_key()).await).await?;
    ///     let ship = flow.once("ship").pivot();
    ///     ship.run(async |it| ask("ship", it.idempotency_key()).await).await
    /// }
    /// ```
    pub const fn pivot(mut self) -> Self {
        self.pivot = true;
        self
    }

    /// Sets the retry policy for transient failures, and for failures in doubt that a probe or a
    /// recognised key can resolve.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }
}
