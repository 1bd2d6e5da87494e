//! Processing messages in the table: redriven messages, and later messages of their groups.

use super::caught::{Failed, handled};
use super::{Consumer, ConsumerReport, LEASE, requested};
use crate::core::class::Class;
use crate::core::message::event::LetterAct;
use crate::core::message::failures::is_last;
use crate::core::message::letter::{BodyAt, Letter, MessageState, due_for_consumer};
use crate::core::rounds::{Entry, Kind};
use crate::core::time;
use crate::error::Error;
use crate::failure::Classify;
use crate::inbox::batch::{Handler, Handling};
use crate::inbox::{Delivery, Incoming};
use crate::session;
use crate::session::due_work::{DueWork, Lists, Page, Pool, RunReport, Then, Turn, Work};
use crate::store::{Item, Layout, Positions};
use crate::workflow::send::by_subject;
use crate::workflow::send::{Came, change};

/// The outcome of one message.
pub(super) enum Step {
    /// The message was processed and deleted. Its group may have a next message.
    Next,
    /// The group waits, or another run has it. Contains the message if it was written now.
    Ends(Option<Box<Letter>>),
}

impl Consumer {
    /// Processes the messages that wait for this consumer in the table: messages that an operator
    /// redrove, and the messages queued after them.
    ///
    /// Run it about once a minute, in as many processes as you like.
    ///
    /// Messages of one group are processed in their order, up to the first message that fails.
    /// After a transient failure, the message waits with a growing pause. It is dead after as many
    /// [attempts](Self::attempts) as a message of the queue. After any other failure, it is dead at
    /// once. If the outcome of the last attempt is unknown, such as after a crash, it is dead
    /// without a further attempt.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if nothing at all could be listed. An error after
    /// that is logged, and reported as [`RunReport::stopped_by`].
    ///
    /// # Crash window
    ///
    /// A message that was taken and not ended is handled again 15 minutes later: the longest time
    /// of a Lambda function. If its handler takes longer, it may run twice at the same time.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the messages that were taken are handled again 15 minutes later.
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 100 messages that are due for this consumer; messages of other
    /// consumers cost nothing. For each group 1 query,
    /// 1 read unit for each 4 KB; for each message 1 write to take it, 1 write unit for each KB and
    /// 2 for the index, 1 to delete it, 1 write unit for each KB and 1 for the index, and 1 to
    /// remember it, 1 write unit.
    pub async fn run<E, Fut>(
        &self,
        handle: impl Fn(Delivery) -> Fut + Sync,
    ) -> Result<RunReport<ConsumerReport>, Error>
    where
        E: Classify,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        let handle = |delivery| -> Handling<'_, Failed> {
            let handle = &handle;
            Box::pin(handled(async move { handle(delivery).await }))
        };
        self.run_with(&handle).await
    }

    async fn run_with(&self, handle: &Handler<'_, Failed>) -> Result<RunReport<ConsumerReport>, Error> {
        let bases = [MessageState::Waiting.as_str()];
        let due = due_for_consumer(&self.name, self.context.now());
        let lists = Lists::of(&self.context, &Layout::WORKFLOWS, &bases, self.deadline).between(due);
        let work = DueWork {
            pools: vec![Pool { width: self.concurrency, begins_until: self.deadline }],
            deadline: self.deadline,
            // A handler that began before the deadline may run for one more lease after the
            // deadline. After that, the handler is dropped.
            patience: LEASE,
            ..DueWork::new(&self.context, lists.len(), self.concurrency)
        };
        let ran = work.run(&Handles { consumer: self, lists, handle }).await;
        if let Ok(RunReport { stopped_by: Some(error), .. }) = &ran {
            tracing::error!(consumer = self.name, %error, "an error stopped a run");
        }
        ran
    }

    /// Handles the messages of one group that are on one page of it.
    async fn handle_page(&self, group: &mut Group, handle: &Handler<'_, Failed>) -> Turn<ConsumerReport> {
        let mut done = ConsumerReport::default();
        let until = self.context.until(self.deadline);
        let read = self.context.store().read_messages(&group.partition, group.from.take(), until);
        let (messages, next) = match Box::pin(read).await {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(consumer = self.name, %error, "messages that wait could not be read");
                done.failed = 1;
                return Turn::done(done);
            }
        };
        for (_, queue) in by_subject(messages) {
            for message in queue {
                if self.context.is_past(self.deadline) {
                    return Turn { then: Then::Cut, ..Turn::done(done) };
                }
                // Later messages wait for a dead message until an operator decides, and are not
                // read.
                let is_due = message.state == MessageState::Waiting && message.next_due <= self.context.now();
                if !is_due {
                    return Turn::done(done);
                }
                if message.is_in_queue() {
                    self.undelivered(&message, &mut done).await;
                    return Turn::done(done);
                }
                if let Step::Ends(_) = self.handle_one(&message, None, handle, &mut done).await {
                    return Turn::done(done);
                }
            }
        }
        let then = if next.is_some() { Then::Again } else { Then::Done };
        group.from = next;
        Turn { then, ..Turn::done(done) }
    }

    /// `delivered`: the message as its queue delivered it now. `None`: as it is kept.
    pub(super) async fn handle_one<'h>(
        &self,
        message: &Letter,
        delivered: Option<&Delivery>,
        handle: impl FnOnce(Delivery) -> Handling<'h, Failed>,
        done: &mut ConsumerReport,
    ) -> Step {
        if let Some(cause) = message.given_up(self.attempts) {
            let act = LetterAct::Refused { class: Some(Class::InDoubt), cause };
            return Step::Ends(self.end(message, act, done).await);
        }
        // Before the restore, a run may have processed it. An operator's redrive decides again.
        if let Some(Failed { class, cause, .. }) = self.held_by_restore(Some(message.requested())) {
            let act = LetterAct::Refused { class: Some(class), cause };
            return Step::Ends(self.end(message, act, done).await);
        }
        let by = self.context.settings().owner.clone();
        let taken = match change(&self.context, message, LetterAct::Take { by, lease: LEASE }).await {
            Came::To(taken) => *taken,
            Came::Passed => {
                done.taken_elsewhere += 1;
                return Step::Ends(None);
            }
            Came::Failed => {
                done.failed += 1;
                return Step::Ends(None);
            }
        };
        // This run was suspended, and another run may have the message.
        if self.context.now() >= time::before(taken.next_due, LEASE / 2) {
            done.taken_elsewhere += 1;
            return Step::Ends(None);
        }
        let failed = match self.delivery_of(&taken, delivered).await {
            // No timeout: a handler that is cut off would repeat its effect. If the handler
            // outlasts its lease and another run takes the message, the next write finds another
            // revision and is refused.
            Ok(delivery) => {
                let sent = Incoming::parse(&delivery.body).ok().and_then(|event| event.time);
                session::inside(requested(sent, taken.opened()), handle(delivery)).await.err()
            }
            Err(unread) => Some(unread),
        };
        let Some(Failed { class, given_up, cause, pause }) = failed else {
            done.handled += 1;
            match self.leave(&taken).await {
                Came::To(()) => return Step::Next,
                Came::Passed => done.taken_elsewhere += 1,
                Came::Failed => done.failed += 1,
            }
            return Step::Ends(None);
        };
        let act = if class == Class::Transient && !is_last(taken.attempts, self.attempts) {
            LetterAct::Failed { class: Some(given_up), cause, pause: self.pause(taken.attempts, pause) }
        } else {
            LetterAct::Refused { class: Some(given_up), cause }
        };
        Step::Ends(self.end(&taken, act, done).await)
    }

    /// Writes the end of an attempt, and counts it. Returns the message as written.
    pub(super) async fn end(
        &self,
        message: &Letter,
        act: LetterAct,
        done: &mut ConsumerReport,
    ) -> Option<Box<Letter>> {
        let counts = [&mut done.waiting, &mut done.dead, &mut done.taken_elsewhere, &mut done.failed];
        let came = change(&self.context, message, act).await;
        came.count(counts);
        match came {
            Came::To(next) => Some(next),
            Came::Passed | Came::Failed => None,
        }
    }

    /// Returns the message as its broker delivered it, with the attempts since.
    async fn delivery_of(&self, message: &Letter, delivered: Option<&Delivery>) -> Result<Delivery, Failed> {
        if let Some(delivery) = delivered {
            return Ok(delivery.clone());
        }
        let (said, body) = match message.body_at {
            BodyAt::Claim => Box::pin(self.fetch(message)).await?,
            _ => (message.delivery.clone().unwrap_or_default(), message.body.clone()),
        };
        let delivery: Delivery = serde_json::from_str(&said).map_err(Failed::unreadable)?;
        let receives = delivery.receives.saturating_add(message.attempts);
        Ok(Delivery { body, receives, ..delivery })
    }
}

/// The messages of one group that wait, and where they are read next.
struct Group {
    partition: String,
    from: Option<Item>,
}

/// One run of a consumer: the lanes are groups.
struct Handles<'a, 'h> {
    consumer: &'a Consumer,
    lists: Lists<'a>,
    handle: &'a Handler<'h, Failed>,
}

impl Work for Handles<'_, '_> {
    type Item = Group;
    type Place = Positions;
    type Counts = ConsumerReport;

    async fn read(
        &self,
        list: usize,
        from: Option<Positions>,
    ) -> Result<Page<Group, Positions, ConsumerReport>, Error> {
        let page = self.lists.read(list, from).await?;
        let entries = page.rows.into_iter().map(|row| Entry {
            lane: row.key.clone(),
            due: row.due,
            kind: Kind::Whole,
            item: Group { partition: row.key, from: None },
        });
        Ok(Page { entries: entries.collect(), next: page.next, counts: ConsumerReport::default() })
    }

    async fn turn(&self, group: &mut Group) -> Turn<ConsumerReport> {
        Box::pin(self.consumer.handle_page(group, self.handle)).await
    }

    async fn abandon(&self, _: &Group) -> ConsumerReport {
        ConsumerReport { taken_elsewhere: 1, ..ConsumerReport::default() }
    }
}
