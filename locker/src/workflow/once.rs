//! A step that runs at most once.

use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::attempt::StepAttempt;
use super::definition::Found;
use super::flow::Flow;
use super::retry::RetryPolicy;
use super::starting::{Settled, Starting, intent};
use super::stop::Stop;
use crate::core::fingerprint::Fingerprint;
use crate::core::key::{IntoKey, InvalidKey, Key};
use crate::core::workflow::record::{Intent, StepKind};
use crate::error::BoxError;
use crate::settings::Retention;
use crate::token::Classify;

type Probing<'a> = Pin<Box<dyn Future<Output = Result<Found, BoxError>> + Send + 'a>>;
type Probe<'a> = Box<dyn Fn(StepAttempt) -> Probing<'a> + Send + Sync + 'a>;

/// A step that runs at most once, about to run. See [`Flow::once`].
#[must_use = "a step does nothing until it is run"]
pub struct Once<'a> {
    pub(super) flow: &'a Flow,
    pub(super) name: String,
    pub(super) input: Option<Result<Fingerprint, Stop>>,
    pub(super) key: Option<Result<Key, InvalidKey>>,
    pub(super) version: Option<u32>,
    pub(super) retention: Retention,
    pub(super) recognised: Duration,
    pub(super) expected: Duration,
    pub(super) probe: Option<Probe<'a>>,
    pub(super) undo: Option<Result<Intent, Stop>>,
    pub(super) pivot: bool,
    pub(super) retry: RetryPolicy,
    /// It is the undoing of the step of that name, for the first time or of a late outcome.
    pub(super) undoes: Option<bool>,
}

impl std::fmt::Debug for Once<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Once<'a> {
    pub(super) fn new(flow: &'a Flow, name: String) -> Self {
        Self {
            flow,
            name,
            input: None,
            key: None,
            version: None,
            retention: Retention::Forever,
            recognised: Duration::ZERO,
            expected: Duration::from_secs(30),
            probe: None,
            undo: None,
            pivot: false,
            retry: RetryPolicy::default(),
            undoes: None,
        }
    }

    /// The undoing of a step.
    pub(super) fn undoing(flow: &'a Flow, step: String, late: bool) -> Self {
        Self { undoes: Some(late), ..Self::new(flow, step) }
    }

    pub(super) const fn kind(&self) -> StepKind {
        if self.undoes.is_some() { StepKind::Undo } else { StepKind::Once }
    }

    /// What it is given. Only a digest is recorded; a resumed step with another input is [`Stop::Changed`].
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(self.flow.fingerprint(input));
        self
    }

    /// Give it a business key of its own, such as `("card/charge", order_id)`, so that it happens once
    /// **whichever workflow asks**: another workflow, a fork, or this one under the next version of its key.
    ///
    /// Whoever did it answers for undoing it: should that workflow fail later, the others have used what is undone.
    ///
    /// Without it the step belongs to this workflow and the version of its key. Costs a pointer more (1 request
    /// and 1 write unit), and when it is resumed 1 request.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.key = Some(key.into_key());
        self
    }

    /// Ask under this version of the step's key, from 1. A recorded **failure** of a lower version is then no
    /// answer, and the provider gets a new idempotency key. A recorded success always is one. A step may be asked for
    /// again under a higher version after [`Stop::Failed`]. Source: seed 000.
    pub const fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// How long the record of a step with a key of its own is kept. For ever, unless said otherwise: once it
    /// is forgotten, an old workflow that is resumed would do the step again. What is to be undone is always kept.
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// The provider recognises the idempotency key for so long (Stripe: 24 hours). A step in doubt is then sent
    /// again, with the same key, until shortly before. What it refuses for good then proves nothing about the first
    /// try: the probe is asked, or a person.
    pub const fn recognised_for(mut self, time: Duration) -> Self {
        self.recognised = time;
        self
    }

    /// How long a try may take, 30 seconds by default. Until then nobody else considers it in doubt.
    pub const fn expect_within(mut self, time: Duration) -> Self {
        self.expected = time;
        self
    }

    /// How to find out whether a try happened of which nobody knows.
    ///
    /// Say [`Found::NotDone`] only if it has not happened **and will not**.
    pub fn probe<F, R>(mut self, probe: F) -> Self
    where
        F: Fn(StepAttempt) -> R + Send + Sync + 'a,
        R: Future<Output = Result<Found, BoxError>> + Send + 'a,
    {
        self.probe = Some(Box::new(move |attempt| Box::pin(probe(attempt))));
        self
    }

    /// How it is undone, should the workflow fail or be cancelled: [`Workflow::undo`](super::Workflow::undo) is
    /// called with this name and input. Both are stored with the start, so that a step in doubt is undone as well.
    pub fn compensate(self, undo: impl Into<String>, input: &impl Serialize) -> Self {
        self.compensate_within(undo, input, Duration::ZERO)
    }

    /// The same, where the provider recognises the idempotency key of the undoing for so long: then an undoing
    /// in doubt is sent again.
    pub fn compensate_within(
        mut self,
        undo: impl Into<String>,
        input: &impl Serialize,
        recognised: Duration,
    ) -> Self {
        self.undo = Some(intent(undo.into(), input, recognised));
        self
    }

    /// Past this step there is no way back: if the workflow fails later, what came before it is not undone, and
    /// a person has to look.
    pub const fn pivot(mut self) -> Self {
        self.pivot = true;
        self
    }

    /// Try it again like this while it fails in passing, or in doubt where it can be found out.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Run it, unless it is recorded.
    ///
    /// **Crash window:** between its start and its outcome it is in doubt: it is run again only if the probe
    /// says so, or while the provider recognises the key. Otherwise a person decides.
    ///
    /// # Errors
    ///
    /// [`Stop`], which says what becomes of the workflow.
    ///
    /// # Cost
    ///
    /// 3 requests: 2 writes, of 1 write unit and of 1 for each KB of the record, and 1 read of 1 unit. A further try
    /// that may end after the first was due: 1 write more, so that nobody takes the step over meanwhile.
    /// Nothing if it is recorded; 1 request and 1 write unit if it has a key of its own.
    pub async fn run<T, E, F, R>(mut self, work: F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: Fn(StepAttempt) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let start = Starting::of(&mut self)?;
        match self.settle(&start).await? {
            Settled::Run(record, doubt) => Box::pin(self.work(record, doubt, work)).await,
            Settled::Recorded(record) => Flow::result_of(&record),
        }
    }
}
