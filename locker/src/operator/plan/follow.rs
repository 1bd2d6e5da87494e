//! The outcome of messages after they were redriven: canaries first, and a breaker.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use std::vec;

use futures_util::stream::{self, StreamExt as _};
use tokio::time::Instant;

use super::apply::{Run, since_before};
use super::report::Acted;
use super::{Plan, Planned};
use crate::core::alike;
use crate::core::listed::MessageState;
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::operator::{Console, Part};

/// Time between two looks at the canaries.
const PAUSE: Duration = Duration::from_secs(2);
/// Messages that are read in one look.
const MOST: usize = 200;

/// The outcome of a message that was redriven.
enum Became {
    Gone,
    /// Dead or archived, with its cause; or discarded after it was dead again, without one.
    DeadAgain(Option<String>),
    Open,
}

/// Messages that were redriven, and their outcomes.
#[derive(Debug, Default)]
struct Followed {
    /// Messages without an outcome yet.
    open: Vec<Work>,
    /// For each cause, the number of messages that were dead again.
    again: BTreeMap<String, usize>,
}

impl Followed {
    fn worst(&self) -> usize {
        self.again.values().copied().max().unwrap_or_default()
    }
}

impl<F: FnMut(&Acted) -> ControlFlow<()>> Run<'_, F> {
    /// Acts on the records and follows the messages.
    ///
    /// A message that cannot be read counts as waiting: an error here would hide the acts that are
    /// done.
    pub(super) async fn run_and_follow(&mut self, rest: &mut vec::IntoIter<&Planned>) {
        let mut followed = Followed::default();
        if self.options.canary > 0 && !self.canaries_are_well(rest, &mut followed).await {
            self.report.waiting = followed.open.len();
            self.report.tripped = rest.len() > 0 && !self.stopped;
            return;
        }
        let breaker = self.options.breaker;
        let in_a_while = self.options.per_second.max(1) as usize * 5;
        while rest.len() > 0 && !self.is_stopped() {
            followed.open.extend(self.take_on(rest, in_a_while).await);
            let sees = self.look_at(&mut followed).await;
            if breaker > 0 && (!sees || followed.worst() >= breaker) {
                self.report.tripped = rest.len() > 0;
                break;
            }
        }
        self.report.waiting = followed.open.len();
    }

    /// Whether this run redrove all of its canaries, and each was sent or processed.
    ///
    /// A message that an earlier run redrove is no canary: by now the cause may be another.
    async fn canaries_are_well(
        &mut self,
        rest: &mut vec::IntoIter<&Planned>,
        followed: &mut Followed,
    ) -> bool {
        let mut count = 0;
        let canary = self.options.canary;
        // The next message replaces a canary that has changed. After an error, no more are taken.
        while count < canary && rest.len() > 0 && !self.is_stopped() && self.has_no_error() {
            let done = self.take_on(rest, canary - count).await;
            count += done.len();
            followed.open.extend(done);
        }
        let until = Instant::now() + self.options.patience;
        loop {
            self.look_at(followed).await;
            if followed.open.is_empty() || Instant::now() >= until || self.is_stopped() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        count == canary && followed.open.is_empty() && self.report.dead_again == 0
    }

    /// Reads the outcome of the oldest open messages.
    ///
    /// Returns `false` if none of them could be read.
    async fn look_at(&mut self, followed: &mut Followed) -> bool {
        let rest = followed.open.split_off(followed.open.len().min(MOST));
        let names = std::mem::replace(&mut followed.open, rest);
        let (count, mut unread) = (names.len(), 0);
        let (console, plan) = (self.console, self.plan);
        let looks = stream::iter(names).map(async |name| (console.became(&name, plan).await, name));
        let looks: Vec<_> = looks.buffer_unordered(self.options.concurrency.max(1)).collect().await;
        for (became, name) in looks {
            match became {
                Ok(Became::Gone) => self.report.gone += 1,
                Ok(Became::DeadAgain(cause)) => {
                    self.report.dead_again += 1;
                    if let Some(cause) = cause {
                        *followed.again.entry(alike::alike(&cause)).or_default() += 1;
                    }
                }
                Ok(Became::Open) => followed.open.push(name),
                Err(_) => {
                    unread += 1;
                    followed.open.push(name);
                }
            }
        }
        count == 0 || unread < count
    }
}

impl Console {
    async fn became(&self, name: &Work, plan: &Plan) -> Result<Became, Error> {
        Ok(match self.part(name).await? {
            // Only a dead message is archived or discarded.
            None if self.is_discarded(name, plan).await? => Became::DeadAgain(None),
            None => Became::Gone,
            Some(Part::Message(it)) if matches!(it.state(), MessageState::Dead | MessageState::Archived) => {
                Became::DeadAgain(Some(it.cause().unwrap_or_default().to_owned()))
            }
            Some(_) => Became::Open,
        })
    }

    /// Whether an operator, or code that decides, deleted the message since the plan was made.
    async fn is_discarded(&self, name: &Work, plan: &Plan) -> Result<bool, Error> {
        let Some(workflows) = &self.workflows else { return Ok(false) };
        let acts = workflows.acts(name.key()).await?;
        Ok(acts.iter().any(|act| {
            let is_since = act.at.is_none_or(|at| at >= since_before(plan));
            act.resolution == Some(Resolution::Discarded) && is_since && act.work() == *name
        }))
    }
}
