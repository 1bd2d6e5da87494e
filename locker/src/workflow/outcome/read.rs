//! Reading the outcome of a workflow by its key alone.

use std::marker::PhantomData;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Outcome;
use super::ended::Ended;
use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::core::key::{IntoKey, Key};
use crate::core::name;
use crate::error::Error;
use crate::session::polling::Polling;
use crate::settings;
use crate::workflow::context::Context;
use crate::workflow::definition::Workflow;
use crate::workflow::workflows::Workflows;

const VERB: &str = "read the outcome";

impl Workflows {
    /// Builds a request for the outcome of a workflow, by its key: without its code and its input,
    /// and without starting or driving it. For a page that shows an order, or a caller that
    /// [enqueued](crate::workflow::StartBuilder::enqueue) it.
    ///
    /// ```no_run
    /// # use locker::workflow::{Workflow, Workflows, Flow, Stop, Outcome};
    /// # struct Ship;
    /// # impl Workflow for Ship {
    /// #     const NAME: &'static str = "ship";
    /// #     type Input = ();
    /// #     type Output = String;
    /// #     async fn run(&self, _: &Flow, (): ()) -> Result<String, Stop> { Ok(String::new()) }
    /// # }
    /// # async fn label(workflows: &Workflows, order: u64) -> Result<Option<String>, locker::Error> {
    /// use std::time::Duration;
    ///
    /// let outcome = workflows.outcome::<Ship>(("ship", order)).wait_for(Duration::from_secs(5)).fetch().await?;
    /// Ok(match outcome {
    ///     Some(Outcome::Completed(label)) => Some(label.into_inner()),
    ///     _ => None,
    /// })
    /// # }
    /// ```
    pub fn outcome<W: Workflow>(&self, key: impl IntoKey) -> OutcomeBuilder<W> {
        OutcomeBuilder {
            context: self.context().clone(),
            key: key.into_key(),
            version: 1,
            wait_for: None,
            deadline: None,
            workflow: PhantomData,
        }
    }
}

/// A request for the outcome of a workflow. See [`Workflows::outcome`].
#[derive(Debug)]
#[must_use = "nothing is read until it is fetched"]
pub struct OutcomeBuilder<W> {
    context: Context,
    key: Result<Key, InvalidArgument>,
    version: u32,
    wait_for: Option<Duration>,
    deadline: Option<DateTime<Utc>>,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> OutcomeBuilder<W> {
    /// The version of the workflow's key. Default: 1.
    pub const fn key_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// While the workflow is in progress, wait up to this long for its outcome, from 1 millisecond
    /// to a day. Each look is a read of 1 unit, about once a second.
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// Sends no more requests to DynamoDB after this time.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Reads the outcome. `None`: no workflow was started under this key, or it was deleted after
    /// its retention.
    ///
    /// [`Outcome::Mismatch`]: the key is that of a workflow with another [`NAME`](Workflow::NAME).
    /// [`Outcome::InProgress`]: it has not ended yet.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Record`], [`Error::Answer`] if the stored answer is missing or
    /// not of the type `W::Output`, [`Error::Gone`] if the workflow is being deleted,
    /// [`Error::Denied`], [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 read of 1 unit; with an answer, 1 more request. If the workflow has continued as another
    /// version: 1 more read of 1 unit.
    pub async fn fetch(self) -> Result<Option<Outcome<W::Output>>, Error> {
        if self.version == 0 {
            return Err(InvalidSetting::KeyVersion.into());
        }
        if let Some(longest) = self.wait_for {
            settings::check_wait(longest)?;
        }
        let context = &self.context;
        context.check_deadline(VERB, self.deadline)?;
        let workflow = name::partition(&self.key?, self.version);
        let mut polling = Polling::new(self.wait_for.map(|longest| context.bounded(longest, self.deadline)));
        let look = |_| Self::look(context, &workflow, self.deadline);
        let first = look(None).await?;
        let waits = |found: &Option<Ended>| matches!(found, Some(Ended::Waiting(_)));
        let found = polling.look_while(|| context.jitter(), first, waits, look).await?;
        Ok(found.map(|ended| ended.outcome(true)).transpose()?)
    }

    /// The present state of the workflow with this partition key.
    async fn look(
        context: &Context,
        workflow: &str,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<Option<Ended>, Error> {
        let until = context.until(deadline);
        let Some(header) = Box::pin(context.store().read_header(workflow, until)).await? else {
            return Ok(None);
        };
        // A workflow that was cancelled before its start has no name and no fingerprint.
        if header.fingerprint.is_some() && header.name != W::NAME {
            return Ok(Some(Ended::Mismatch));
        }
        let Some(header) = context.latest(header, until).await? else { return Ok(None) };
        let standing = context.standing(&header);
        Ok(Some(context.present(VERB, standing, &header, deadline).await?))
    }
}
