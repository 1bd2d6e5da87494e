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

    /// The compensation of a step.
    pub(crate) fn compensating(flow: &'a Flow, of: Undo<'a>) -> Self {
        Self { compensates: Some(of), ..Self::new(flow, of.effect.to_string()) }
    }

    /// The place of the step in its workflow.
    pub(crate) fn place(&self) -> Place<'_> {
        match self.compensates {
            None => self.flow.place_of(&self.name),
            Some(of) => Place::Compensation { of, former: None },
        }
    }

    pub(crate) const fn kind(&self) -> StepKind {
        if self.compensates.is_some() { StepKind::Compensation } else { StepKind::Once }
    }

    /// Set the input of the step. Only a digest is recorded. If a resumed step has another input,
    /// the workflow is quarantined.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(Flow::fingerprint(&self.name, input));
        self
    }

    /// Give the step a business key of its own, such as `("card/charge", order_id)`, so that it
    /// happens once **whichever workflow asks**: another workflow, a fork, or this one under the
    /// next version of its key.
    ///
    /// The workflow that ran the step also compensates it: if that workflow fails later, the others
    /// have used a result that is compensated.
    ///
    /// Without a key, the step belongs to this workflow and the version of its key. A key costs a
    /// pointer (1 request and 1 write unit), and 1 request when the workflow is resumed.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.key = Some(key.into_key());
        self
    }

    /// Use this version of the step's key, from 1.
    ///
    /// A recorded **failure** of a lower version is then ignored, and the provider gets a new
    /// idempotency key. A recorded success always counts. If its [`outcome`](Self::outcome) is a
    /// failure, you may run the step again under a higher version.
    pub const fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// How long the record of a step with a key of its own is kept. Default: indefinitely, since an
    /// old workflow that is resumed after the record was deleted would run the step again. A step
    /// with a compensation cannot expire.
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// How long the provider recognises an idempotency key (Stripe: 24 hours).
    ///
    /// Until shortly before that, a step in doubt is sent again with the same key. If the provider
    /// then refuses it permanently, that proves nothing about the first attempt, so the probe or an
    /// operator decides.
    pub const fn recognised_for(mut self, time: Duration) -> Self {
        self.recognised = time;
        self
    }

    /// Set how long an attempt is expected to take, from 1 second to 366 days. Default: 30 seconds.
    /// Until then no other driver considers the step in doubt.
    ///
    /// An attempt starts only if this much time is left in the run; without a value, at most half
    /// of the run. A completer whose runs are never that long leaves the workflow to another
    /// driver. While an attempt is within this time, the flow extends its claim of the workflow, up
    /// to [`Limits::longest_run`](crate::workflow::Limits::longest_run).
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = Expected::set(time);
        self
    }

    /// Set a probe that finds out whether a step in doubt happened.
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

    /// Declare how the step is compensated if the workflow fails or is cancelled: by this variant
    /// of the enum that all steps of the workflow use.
    ///
    /// [`Workflow::compensate`](crate::workflow::Workflow::compensate) reads it with
    /// [`Compensation::undo`](crate::workflow::Compensation::undo). It is stored before the step
    /// runs, so a step in doubt is compensated as well. The variant has at most 4 KB of JSON; its
    /// name follows the rules for names of steps.
    ///
    /// The enum is stored as serde writes it by default. Keep each variant that an unfinished
    /// workflow may have stored: code that does not have the variant quarantines the workflow.
    pub fn compensate(self, undo: &impl Serialize) -> Self {
        self.compensate_within(undo, Duration::ZERO)
    }

    /// Same as [`compensate`](Self::compensate), for a provider that recognises the idempotency key
    /// of the compensation for this long: a compensation in doubt is then sent again.
    pub fn compensate_within(mut self, undo: &impl Serialize, recognised: Duration) -> Self {
        self.compensation = Some(intent(&self.name, undo, recognised));
        self
    }

    /// Makes this step a pivot: a step that cannot be undone, such as a shipment.
    ///
    /// If the workflow fails or is cancelled after the pivot happened, the steps after it are
    /// compensated, the steps before it are not, and the workflow is quarantined. The same applies
    /// while it is unknown whether the pivot happened. A pivot that failed permanently did not
    /// happen: the steps before it are compensated. A pivot with a compensation of its own is
    /// refused, and the workflow is quarantined.
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

    /// Set the retry policy for transient failures, and for in-doubt ones that a probe or a
    /// recognised key can resolve.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }
}
