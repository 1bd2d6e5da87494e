//! Dead letters that code deals with.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::core::message::letter::MessageState;
use crate::error::{Error, as_text};
use crate::listing::{Cursor, ListBuilder};
use crate::operator::{Intervened, Operator};
use crate::workflow::{Message, Workflows};

/// Dead messages in one page of the listing.
const PAGE: usize = 100;

/// Deals with dead messages in code: compensates what they were for, and then lets them go.
///
/// Run it on a schedule, such as beside a relay. Your code is given each dead message, to be sent or received, and decides. What needs an operator it
/// [leaves](Decision::Leave).
///
/// ```
/// use locker::Operator;
/// use locker::message::{DeadLetters, Decision};
/// use locker::workflow::{Message, Workflows};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), locker::BoxError> {
/// # let dynamodb = lock_token_testing::Embedded::memory()?.client();
/// # locker::workflow::create_table(&dynamodb, "workflows").await?;
/// let workflows = Workflows::new(&dynamodb, "workflows")?;
/// let wallets = Operator::new("wallets", "the seat was given back")?;
/// let cancel = async |message: &Message| match message.consumer() {
///     // Give the seat back here, once by its key, such as by a workflow or a conditional write.
///     Some("wallet") => Decision::Discard,
///     _ => Decision::Leave,
/// };
/// let report = DeadLetters::new(&workflows, wallets).run(cancel).await?;
/// assert!(report.finished && report.discarded == 0);
/// # Ok(()) }
/// ```
///
/// Source: seed 002, whose dead-letter queue is a consumer that cancels the reservation.
#[derive(Debug, Clone)]
#[must_use = "nothing is decided until it is run"]
pub struct DeadLetters {
    workflows: Workflows,
    operator: Operator,
    deadline: Option<DateTime<Utc>>,
}

/// What becomes of a dead message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// It stays dead, and an operator decides.
    Leave,
    /// It is sent, or handled by its consumer, again. It may be dead again, and is then decided about again: count [`Message::redrives`].
    Redrive,
    /// It is kept, and holds nothing up.
    Archive,
    /// It is deleted.
    Discard,
}

/// The result of a run.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLetterReport {
    /// Messages that were redriven.
    pub redriven: usize,
    /// Messages that were archived.
    pub archived: usize,
    /// Messages that were discarded.
    pub discarded: usize,
    /// Messages that were left for an operator.
    pub left: usize,
    /// Messages that were changed meanwhile. They are decided about by the next run, if they are dead then.
    pub changed: usize,
    /// Whether all dead messages were seen. **If not, there may be more.**
    pub finished: bool,
    /// What stopped it, other than its deadline.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Error>,
}

impl DeadLetters {
    /// Decide about the dead messages of this table. Each act has an audit record with this name and reason.
    pub fn new(workflows: &Workflows, operator: Operator) -> Self {
        Self { workflows: workflows.clone(), operator, deadline: None }
    }

    /// Decide about no message after this time.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Decide about each dead message, the oldest first.
    ///
    /// # Crash window
    ///
    /// If the process dies after your code and before its decision is written, your code is given the message again. So does a
    /// second run beside it. Let what it does be harmless to do twice: a workflow or a token with a key of the business, a conditional write.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if nothing could be listed. An error after that is reported as
    /// [`DeadLetterReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 100 dead messages; for each message 1 strongly consistent read, and for each that is not left the same as
    /// [`Workflows::redrive`].
    pub async fn run(&self, decide: impl AsyncFn(&Message) -> Decision) -> Result<DeadLetterReport, Error> {
        let mut done = DeadLetterReport::default();
        let mut from: Option<Cursor> = None;
        let mut any = false;
        loop {
            let page = self.workflows.messages(MessageState::Dead).limit(PAGE);
            let page = self.deadline.into_iter().fold(page, ListBuilder::deadline);
            let page = match from.into_iter().fold(page, ListBuilder::from).fetch().await {
                Ok(page) => page,
                Err(error) if !any => return Err(error),
                Err(error) => {
                    done.stopped_by = Some(error);
                    return Ok(done);
                }
            };
            any = true;
            for listed in page.items {
                if self.workflows.context().is_past(self.deadline) {
                    return Ok(done);
                }
                let decided = async {
                    let read = self.workflows.message(&listed.work).await?;
                    match read.filter(|message| message.state() == MessageState::Dead) {
                        Some(message) => self.decide(&message, &decide, &mut done).await,
                        None => {
                            done.changed += 1;
                            Ok(())
                        }
                    }
                };
                if let Err(error) = Box::pin(decided).await {
                    done.stopped_by = Some(error);
                    return Ok(done);
                }
            }
            done.stopped_by = page.stopped_by;
            from = page.next;
            if from.is_none() || done.stopped_by.is_some() {
                done.finished = done.stopped_by.is_none();
                return Ok(done);
            }
        }
    }

    async fn decide(
        &self,
        message: &Message,
        decide: &impl AsyncFn(&Message) -> Decision,
        done: &mut DeadLetterReport,
    ) -> Result<(), Error> {
        let (workflows, operator) = (&self.workflows, &self.operator);
        let (came_to, count) = match decide(message).await {
            Decision::Leave => (Intervened::Done, &mut done.left),
            Decision::Redrive => (workflows.redrive(message, operator).await?, &mut done.redriven),
            Decision::Archive => (workflows.archive(message, operator).await?, &mut done.archived),
            Decision::Discard => (workflows.discard(message, operator).await?, &mut done.discarded),
        };
        match came_to {
            Intervened::Done => *count += 1,
            _ => done.changed += 1,
        }
        Ok(())
    }
}
