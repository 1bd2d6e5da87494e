//! Handling what waits in the table: what an operator let be handled again, and those behind it.

use std::collections::HashSet;

use futures_util::stream::{self, StreamExt as _};

use super::caught::{Failed, handled};
use super::leaving::Left;
use super::{Consumer, ConsumerReport, LEASE};
use crate::core::class::Class;
use crate::core::message::event::{LetterAct, LetterEvent};
use crate::core::message::letter::{Letter, MessageState, prefix_of_consumer};
use crate::core::{shard, time};
use crate::error::Error;
use crate::failure::Classify;
use crate::inbox::Delivery;
use crate::store::{Layout, Query};
use crate::workflow::send::by_subject;
use crate::workflow::send::{Came, change};

/// Due messages in one page of the listing.
const PAGE: usize = 100;

/// What one message came to.
enum Step {
    /// It is handled and deleted; there may be one behind it.
    Next,
    /// Its group waits, or is another's.
    Ends,
}

impl Consumer {
    /// Handle what waits for this consumer in the table: messages that an operator let be handled again, and those behind them. Run it about
    /// once a minute, in as many places as you like.
    ///
    /// Messages of one group are handled in their order, up to the first one that fails. One that fails with a transient failure waits with a
    /// growing pause, and is dead after as many [attempts](Self::attempts) as a message of the queue; any other failure makes it dead at once. If nothing
    /// is known of the outcome of the last of as many attempts, such as after a crash, it is dead before another one.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`] if nothing at all could be listed. An error after that is reported as
    /// [`ConsumerReport::stopped_by`].
    ///
    /// # Crash window
    ///
    /// A message that was taken and not ended is handled again 15 minutes later: the longest time of a Lambda function. If its handler takes
    /// longer, it may run twice at the same time.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the messages that were taken are handled again 15 minutes later.
    ///
    /// # Cost
    ///
    /// 1 request for each shard and 100 waiting messages of all consumers. For each group 1 query, 1 read unit for each 4 KB; for each message 1 write to
    /// take it, 1 write unit for each KB and 2 for the index, 1 to delete it, 1 write unit for each KB and 1 for the index, and 1 to remember it, 1 write unit.
    pub async fn run<E: Classify>(
        &self,
        handle: impl AsyncFn(&Delivery) -> Result<(), E>,
    ) -> Result<ConsumerReport, Error> {
        let context = &self.context;
        let query = Query {
            layout: &Layout::WORKFLOWS,
            statuses: shard::all(MessageState::Waiting.as_str(), context.settings().shards),
            due_before: Some(context.now()),
            due_from: None,
        };
        let prefix = prefix_of_consumer(&self.name);
        let (mut done, mut seen, mut from) = (ConsumerReport::default(), HashSet::new(), None);
        loop {
            let page = match context.store().list(&query, from, PAGE, context.until(self.deadline)).await {
                Ok(page) => page,
                Err(error) if seen.is_empty() => return Err(error),
                Err(error) => {
                    done.stopped_by = Some(error);
                    return Ok(done);
                }
            };
            let due: Vec<_> = page
                .rows
                .into_iter()
                .map(|row| row.key)
                .filter(|key| key.starts_with(&prefix) && seen.insert(key.clone()))
                .collect();
            let work = due.into_iter().map(|partition| self.run_partition(partition, &handle));
            let mut work = stream::iter(work).buffer_unordered(self.concurrency);
            while let Some(part) = work.next().await {
                done.add(&part);
            }
            from = page.next;
            let is_past = context.is_past(self.deadline);
            if from.is_none() || is_past {
                done.finished = !is_past;
                return Ok(done);
            }
        }
    }

    async fn run_partition<E: Classify>(
        &self,
        partition: String,
        handle: &impl AsyncFn(&Delivery) -> Result<(), E>,
    ) -> ConsumerReport {
        let (mut done, mut from) = (ConsumerReport::default(), None);
        loop {
            let read =
                self.context.store().read_messages(&partition, from, self.context.until(self.deadline));
            let (messages, next) = match Box::pin(read).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::error!(consumer = self.name, %error, "messages that wait could not be read");
                    done.failed = 1;
                    return done;
                }
            };
            for (_, queue) in by_subject(messages) {
                for message in queue {
                    // A dead one holds up those behind it, which are not read: an operator decides first.
                    let is_due =
                        message.state == MessageState::Waiting && message.next_due <= self.context.now();
                    if !is_due || self.context.is_past(self.deadline) {
                        return done;
                    }
                    if let Step::Ends = self.handle_one(&message, handle, &mut done).await {
                        return done;
                    }
                }
            }
            from = next;
            if from.is_none() {
                return done;
            }
        }
    }

    async fn handle_one<E: Classify>(
        &self,
        message: &Letter,
        handle: &impl AsyncFn(&Delivery) -> Result<(), E>,
        done: &mut ConsumerReport,
    ) -> Step {
        if let Some(cause) = message.given_up(self.attempts) {
            self.end(message, LetterAct::Refused { class: Some(Class::InDoubt), cause }, done).await;
            return Step::Ends;
        }
        let by = self.context.settings().owner.clone();
        let taken = match self.change(message, LetterAct::Take { by, lease: LEASE }).await {
            Came::To(taken) => *taken,
            Came::Passed => {
                done.passed_by += 1;
                return Step::Ends;
            }
            Came::Failed => {
                done.failed += 1;
                return Step::Ends;
            }
        };
        // It was suspended, and another run may have it.
        if self.context.now() >= time::before(taken.next_due, LEASE / 2) {
            done.passed_by += 1;
            return Step::Ends;
        }
        let failed = match delivery_of(&taken) {
            Ok(delivery) => handled(handle(&delivery)).await.err(),
            Err(error) => {
                let cause = format!("it cannot be read: {error}");
                Some(Failed::at_once(Class::NeedsOperator, cause))
            }
        };
        let Some(Failed { class, given_up, cause, pause }) = failed else {
            done.handled += 1;
            match self.leave(&taken).await {
                Left::Gone => return Step::Next,
                Left::Passed => done.passed_by += 1,
                Left::Failed => done.failed += 1,
            }
            return Step::Ends;
        };
        let act = if class == Class::Transient && taken.attempts < self.attempts {
            LetterAct::Failed { class: Some(given_up), cause, pause: self.pause(taken.attempts, pause) }
        } else {
            LetterAct::Refused { class: Some(given_up), cause }
        };
        self.end(&taken, act, done).await;
        Step::Ends
    }

    async fn end(&self, message: &Letter, act: LetterAct, done: &mut ConsumerReport) {
        match self.change(message, act).await {
            Came::To(next) if next.state == MessageState::Dead => done.dead += 1,
            Came::To(_) => done.waiting += 1,
            Came::Passed => done.passed_by += 1,
            Came::Failed => {
                done.waiting += 1;
                done.failed += 1;
            }
        }
    }

    async fn change(&self, message: &Letter, act: LetterAct) -> Came {
        let event = LetterEvent::new(&message.revision, act);
        change(&self.context, message, &event).await
    }
}

/// As its broker delivered it, with the attempts since.
fn delivery_of(message: &Letter) -> Result<Delivery, serde_json::Error> {
    let said = message.delivery.as_deref().unwrap_or_default();
    let delivery: Delivery = serde_json::from_str(said)?;
    let receives = delivery.receives.saturating_add(message.attempts);
    Ok(Delivery { body: message.body.clone(), receives, ..delivery })
}
