//! Dead letters that code deals with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::core::message::event::{LetterAct, LetterEvent, LetterRefusal};
use crate::core::message::letter::{Letter, MessageState, work_of};
use crate::core::message::revision;
use crate::core::rounds::{Entry, Kind};
use crate::core::time;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::inbox::consumer::{LEASE, caught};
use crate::session::due_work::{self, Counts, DueWork, Lists, Page, Pool, RunReport, Then, Turn};
use crate::session::{Intervened, Operator};
use crate::store::{Changed, Layout, Positions};
use crate::workflow::{Message, Workflows, send};

/// The time for the writes around a decision.
const AFTER_DECISION: Duration = Duration::from_secs(60);

/// Runs your code for dead messages: to compensate them, and to delete, redrive or archive them.
///
/// Run it on a schedule, such as next to a relay. Your code receives each dead message that
/// [`only`](Self::only) selects, of a relay or of a consumer, and returns a [`Decision`]. For a
/// message that needs an operator, return [`Decision::Leave`].
///
/// While your code decides, the message is held: an operator cannot redrive it during its
/// compensation, and no other run receives it.
///
/// While a restored table is closed ([`Settings::restored`](crate::Settings::restored)), your code
/// receives no message that is in doubt, that died before the end of the restore, or whose last
/// request is from before that time. The table may have forgotten that the message was redriven and
/// processed, so an operator decides.
///
/// ```
/// use locker::Operator;
/// use locker::dead_letters::{DeadLetters, Decision};
/// use locker::workflow::{Message, Workflows};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), locker::BoxError> {
/// # let dynamodb = lock_token_testing::Embedded::memory()?.client();
/// # locker::workflow::create_table(&dynamodb, "workflows").await?;
/// let workflows = Workflows::new(&dynamodb, "workflows")?;
/// let wallets = Operator::new("wallets", "the seat was given back")?;
/// let cancel = async |message: &Message| {
///     // Give the seat back here, once by its key, such as by a workflow or a conditional write.
///     Decision::Discard
/// };
/// let dead = DeadLetters::new(&workflows, wallets).only(|message| message.consumer() == Some("wallet"));
/// let report = dead.run(cancel).await?;
/// assert!(report.finished && report.discarded == 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing is decided until it is run"]
pub struct DeadLetters {
    workflows: Workflows,
    operator: Operator,
    only: Arc<dyn Fn(&Message) -> bool + Send + Sync>,
    concurrency: usize,
    deadline: Option<DateTime<Utc>>,
}

// A choice has nothing to show.
impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").field("operator", &self.operator).finish_non_exhaustive()
    }
}

/// The decision about a dead message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// It stays dead, and an operator decides.
    Leave,
    /// It is sent, or handled by its consumer, again. It may be dead again, and is then decided
    /// about again: count [`Message::redrives`].
    Redrive,
    /// It is kept, and blocks no message. A message whose body is [in its
    /// queue](Message::body_at) is left.
    Archive,
    /// It is deleted.
    Discard,
}

/// The counts of a run.
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
    /// Messages that were left for an operator, and messages that were not selected. Also messages
    /// that your code does not receive because the table was restored.
    pub left: usize,
    /// Messages that another run holds or may hold soon: half of the hold of this run was over
    /// before your code began, or your code did not decide in 15 minutes.
    pub taken_elsewhere: usize,
    /// Messages whose item or receipt cannot be read, and messages about which your code panicked.
    /// They stay dead.
    pub failed: usize,
    /// Messages that changed between the listing and the read. The next run decides about them if
    /// they are dead then.
    pub changed: usize,
}

impl DeadLetters {
    /// Creates the runner for the dead messages of this table. Each act has an audit record with
    /// the name and the reason of this operator.
    pub fn new(workflows: &Workflows, operator: Operator) -> Self {
        Self {
            workflows: workflows.clone(),
            operator,
            only: Arc::new(|_| true),
            concurrency: 1,
            deadline: None,
        }
    }

    /// Sets about how many messages your code decides at the same time. Default: 1. With a higher
    /// number, code that hangs for one message does not stop the others.
    pub const fn concurrency(mut self, messages: usize) -> Self {
        self.concurrency = if messages == 0 { 1 } else { messages };
        self
    }

    /// Selects the messages that your code receives. The others are unchanged, and cost no write.
    /// Default: all dead messages.
    pub fn only(self, these: impl Fn(&Message) -> bool + Send + Sync + 'static) -> Self {
        Self { only: Arc::new(these), ..self }
    }

    /// Sets the time after which your code receives no further message.
    pub fn deadline(mut self, deadline: impl Into<DateTime<Utc>>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Calls your code for each selected message. Subjects and groups take turns, each with its
    /// oldest message first.
    ///
    /// # Crash window
    ///
    /// If the process dies before the decision of your code is written, the message stays held for
    /// the rest of 15 minutes. After that your code receives it again. The same happens if your
    /// code takes longer than 15 minutes, or if it panics; the run then continues with the other
    /// messages. So make your code safe to repeat: use a workflow or a token with a business key,
    /// such as an order number, or a conditional write.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the same happens.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if nothing could be listed. An error after that is
    /// reported as [`RunReport::stopped_by`].
    ///
    /// # Cost
    ///
    /// - To list: 1 request for each shard and 100 dead messages.
    /// - To read: for each message 1 strongly consistent read.
    /// - To hold: for each selected message 1 write: 1 write unit for each KB, and 2 for the index.
    /// - To act: same as [`Workflows::redrive`], [`Workflows::archive`] or [`Workflows::discard`].
    ///   If the message is left, the same write as to hold it.
    pub async fn run(
        &self,
        decide: impl AsyncFn(&Message) -> Decision,
    ) -> Result<RunReport<DeadLetterReport>, Error> {
        let context = self.workflows.context();
        context.check_deadline("list", self.deadline)?;
        let bases = [MessageState::Dead.as_str()];
        let lists = Lists::of(context, &Layout::WORKFLOWS, &bases, self.deadline);
        let work = DueWork {
            pools: vec![Pool { width: self.concurrency, begins_until: self.deadline }],
            deadline: self.deadline,
            // Code that began before the deadline may use its whole lease and write its decision.
            patience: LEASE + AFTER_DECISION,
            ..DueWork::new(context, lists.len(), self.concurrency)
        };
        work.run(&Decides { letters: self, lists, decide: &decide }).await
    }

    async fn look_at(
        &self,
        name: &Work,
        decide: &impl AsyncFn(&Message) -> Decision,
        done: &mut DeadLetterReport,
    ) -> Result<Then, Error> {
        let read = self.workflows.message(name).await?;
        match read.filter(|message| message.state() == MessageState::Dead) {
            Some(message) if !(self.only)(&message) || self.may_be_forgotten(&message.stored) => {
                done.left += 1;
            }
            Some(message) => return self.hold(message, decide, done).await,
            None => done.changed += 1,
        }
        Ok(Then::Done)
    }

    /// Whether a restored table may have forgotten that this message was redriven and processed, or
    /// that it was sent.
    ///
    /// An act of code opens the key of a message in the same way as an act of an operator. So code
    /// does not decide about such a message.
    fn may_be_forgotten(&self, dead: &Letter) -> bool {
        let context = self.workflows.context();
        // A dead message is due since its death. The earlier time counts. A note makes the request
        // newer and decides nothing. An unsent message of the backup may have been sent before it
        // died in the restored table.
        let since = dead.requested().min(dead.next_due);
        // The rules for a restored table make older messages dead as in doubt.
        let is_closed = context.restored().is_some();
        context.may_have_forgotten(Some(since)) || is_closed && dead.is_in_doubt()
    }

    async fn hold(
        &self,
        message: Message,
        decide: &impl AsyncFn(&Message) -> Decision,
        done: &mut DeadLetterReport,
    ) -> Result<Then, Error> {
        let by = self.workflows.context().settings().owner.clone();
        let (context, seen) = (self.workflows.context(), message.stored.revision.clone());
        // The clock of an operator or of another run may be ahead.
        let hold = LetterAct::Hold { by, lease: LEASE.saturating_add(context.skew()) };
        match self.write(message.stored, hold, &context.new_id(), false).await? {
            // It was suspended, and the message may be another's soon.
            Changed::Done(stored) if self.left_of(&stored) < LEASE / 2 => {
                done.taken_elsewhere += 1;
                Ok(Then::Done)
            }
            Changed::Done(stored) => self.decide(&Message { stored }, &seen, decide, done).await,
            Changed::Refused { why: LetterRefusal::NotDue, .. } => {
                done.taken_elsewhere += 1;
                Ok(Then::Done)
            }
            Changed::Refused { .. } | Changed::Gone => {
                done.changed += 1;
                Ok(Then::Done)
            }
        }
    }

    /// The time that is left for code that holds a message.
    fn left_of(&self, message: &Letter) -> Duration {
        let context = self.workflows.context();
        let left = message.held_until.map(|until| time::between(context.now(), until));
        left.unwrap_or_default().saturating_sub(context.skew()).min(LEASE)
    }

    async fn write(
        &self,
        message: Letter,
        act: LetterAct,
        revision: &str,
        holds: bool,
    ) -> Result<Changed<Letter, LetterRefusal>, Error> {
        let event = LetterEvent { seen: message.revision.clone(), act, holds };
        let revision = || revision.to_owned();
        send::write(self.workflows.context(), "hold the message", message, &event, revision).await
    }

    /// `seen`: its revision before it was held.
    async fn decide(
        &self,
        message: &Message,
        seen: &str,
        decide: &impl AsyncFn(&Message) -> Decision,
        done: &mut DeadLetterReport,
    ) -> Result<Then, Error> {
        let (workflows, operator) = (&self.workflows, &self.operator);
        // After a panic the effects of the code are unknown, so the message stays held.
        let decided = match tokio::time::timeout(self.left_of(&message.stored), caught(decide(message))).await
        {
            Ok(Ok(decided)) => decided,
            // After the lease, another run may hold the message, so no decision is written.
            Err(_) => {
                tracing::error!(
                    message = message.short_id(),
                    "code did not decide while it held the message"
                );
                done.taken_elsewhere += 1;
                return Ok(Then::Cut);
            }
            Ok(Err(cause)) => {
                tracing::error!(message = message.short_id(), cause, "nothing is decided about a message");
                done.failed += 1;
                return Ok(Then::Done);
            }
        };
        let decided = match decided {
            // It would hold up its group in the queue.
            Decision::Archive if message.stored.is_in_queue() => Decision::Leave,
            decided => decided,
        };
        let (came_to, count) = match decided {
            Decision::Leave => {
                // The content of the message is unchanged, so an operator's act on it as read
                // before stays valid.
                let left = revision::left(seen);
                let left = self.write(message.stored.clone(), LetterAct::Release, &left, true).await?;
                let is_done = matches!(left, Changed::Done(_));
                (if is_done { Intervened::Done } else { Intervened::Changed }, &mut done.left)
            }
            Decision::Redrive => (workflows.redrive_as(message, operator, true).await?, &mut done.redriven),
            Decision::Archive => (workflows.archive_as(message, operator, true).await?, &mut done.archived),
            Decision::Discard => (workflows.discard_as(message, operator, true).await?, &mut done.discarded),
        };
        match came_to {
            Intervened::Done => *count += 1,
            _ => done.changed += 1,
        }
        Ok(Then::Done)
    }
}

/// One run: the lanes are subjects and groups.
struct Decides<'a, F> {
    letters: &'a DeadLetters,
    lists: Lists<'a>,
    decide: &'a F,
}

impl<F: AsyncFn(&Message) -> Decision> due_work::Work for Decides<'_, F> {
    type Item = Work;
    type Place = Positions;
    type Counts = DeadLetterReport;

    async fn read(
        &self,
        list: usize,
        from: Option<Positions>,
    ) -> Result<Page<Work, Positions, DeadLetterReport>, Error> {
        let page = self.lists.read(list, from).await?;
        let entries = page.rows.into_iter().map(|row| Entry {
            item: work_of(&row.key, row.item.as_deref().unwrap_or_default()),
            lane: row.key,
            due: row.due,
            kind: Kind::One,
        });
        Ok(Page { entries: entries.collect(), next: page.next, counts: DeadLetterReport::default() })
    }

    async fn turn(&self, message: &mut Work) -> Turn<DeadLetterReport> {
        let mut done = DeadLetterReport::default();
        match Box::pin(self.letters.look_at(message, self.decide, &mut done)).await {
            Ok(then) => Turn { then, ..Turn::done(done) },
            // The message or its receipt is damaged, and other messages are not.
            Err(error @ Error::Record { .. }) => {
                tracing::error!(message = message.short_id(), %error, "nothing is decided about a message");
                done.failed += 1;
                Turn::done(done)
            }
            Err(error) => Turn { then: Then::Fail(error), ..Turn::done(done) },
        }
    }

    async fn abandon(&self, message: &Work) -> DeadLetterReport {
        tracing::error!(
            message = message.short_id(),
            "the run ended during the decision about a message; the decision may or may not be written"
        );
        DeadLetterReport { taken_elsewhere: 1, ..DeadLetterReport::default() }
    }
}

impl Counts for DeadLetterReport {
    fn add(&mut self, part: Self) {
        self.redriven += part.redriven;
        self.archived += part.archived;
        self.discarded += part.discarded;
        self.left += part.left;
        self.taken_elsewhere += part.taken_elsewhere;
        self.failed += part.failed;
        self.changed += part.changed;
    }
}
