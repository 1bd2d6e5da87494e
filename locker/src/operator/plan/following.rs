//! What became of messages after they were redriven: canaries first, and a breaker.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use std::vec;

use futures_util::stream::{self, StreamExt as _};
use tokio::time::Instant;

use super::outcome::Acted;
use super::plan::{Plan, Planned};
use super::running::{Bulk, Run, since_before};
use crate::core::alike;
use crate::core::message::letter::MessageState;
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::operator::{Part, Verb};

/// Between two looks at what became of the canaries.
const PAUSE: Duration = Duration::from_secs(2);
/// Messages that are read in one look.
const MOST: usize = 200;

/// What became of a message that was redriven.
enum Became {
    Gone,
    /// With its cause, unless it was discarded after that: also if it was archived.
    DeadAgain(Option<String>),
    Open,
}

/// Messages that were redriven, and what became of them.
#[derive(Debug, Default)]
struct Followed {
    /// Of which nothing is known yet.
    open: Vec<Work>,
    /// Of those that were dead again, how many had the same cause.
    again: BTreeMap<String, usize>,
}

impl Followed {
    fn worst(&self) -> usize {
        self.again.values().copied().max().unwrap_or_default()
    }
}

impl Bulk {
    pub(super) fn follows(&self, plan: &Plan) -> bool {
        plan.act.verb == Verb::Redrive && (self.canary > 0 || self.breaker > 0)
    }

    /// It has no error of its own: what cannot be looked at is waited for, and what was done is told in any case.
    pub(super) async fn run_and_follow<F: FnMut(&Acted) -> ControlFlow<()>>(
        &self,
        run: &mut Run<'_, F>,
        rest: &mut vec::IntoIter<&Planned>,
    ) {
        let mut followed = Followed::default();
        if self.canary > 0 && !self.canaries_are_well(run, rest, &mut followed).await {
            run.report.waiting = followed.open.len();
            run.report.tripped = rest.len() > 0 && !run.stopped;
            return;
        }
        while rest.len() > 0 && !run.is_stopped() {
            followed.open.extend(run.take_on(rest, self.in_a_while()).await);
            let sees = self.look_at(&mut followed, run).await;
            if self.breaker > 0 && (!sees || followed.worst() >= self.breaker) {
                run.report.tripped = rest.len() > 0;
                break;
            }
        }
        run.report.waiting = followed.open.len();
    }

    /// Whether as many as asked for are taken on by this run, and each is sent or handled. What an earlier run did is no canary of this one: the cause
    /// may be another by now.
    async fn canaries_are_well<F: FnMut(&Acted) -> ControlFlow<()>>(
        &self,
        run: &mut Run<'_, F>,
        rest: &mut vec::IntoIter<&Planned>,
        followed: &mut Followed,
    ) -> bool {
        let mut count = 0;
        // Instead of one that has changed meanwhile, the next one is taken. After an error, none is.
        while count < self.canary && rest.len() > 0 && !run.is_stopped() && run.has_no_error() {
            let done = run.take_on(rest, self.canary - count).await;
            count += done.len();
            followed.open.extend(done);
        }
        let until = Instant::now() + self.patience;
        loop {
            self.look_at(followed, run).await;
            if followed.open.is_empty() || Instant::now() >= until || run.is_stopped() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        count == self.canary && followed.open.is_empty() && run.report.dead_again == 0
    }

    /// See what became of the oldest of those of which it is not known. Returns whether anything could be read, if there was something to read.
    async fn look_at<F>(&self, followed: &mut Followed, run: &mut Run<'_, F>) -> bool {
        let rest = followed.open.split_off(followed.open.len().min(MOST));
        let names = std::mem::replace(&mut followed.open, rest);
        let (count, mut unread, plan) = (names.len(), 0, run.plan);
        let looks = stream::iter(names).map(async |name| (self.became(&name, plan).await, name));
        let looks: Vec<_> = looks.buffer_unordered(self.concurrency).collect().await;
        for (became, name) in looks {
            match became {
                Ok(Became::Gone) => run.report.gone += 1,
                Ok(Became::DeadAgain(cause)) => {
                    run.report.dead_again += 1;
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

    async fn became(&self, name: &Work, plan: &Plan) -> Result<Became, Error> {
        Ok(match self.read(name).await? {
            // Nobody archives or discards what is not dead.
            None if self.is_discarded(name, plan).await? => Became::DeadAgain(None),
            None => Became::Gone,
            Some(Part::Message(it)) if matches!(it.state(), MessageState::Dead | MessageState::Archived) => {
                Became::DeadAgain(Some(it.cause().unwrap_or_default().to_owned()))
            }
            Some(_) => Became::Open,
        })
    }

    /// Whether an operator, or code that decides, deleted it since the plan was made.
    async fn is_discarded(&self, name: &Work, plan: &Plan) -> Result<bool, Error> {
        let Some(workflows) = &self.workflows else { return Ok(false) };
        let acts = workflows.acts(name.key()).await?;
        Ok(acts.iter().any(|act| {
            let is_since = act.at.is_none_or(|at| at >= since_before(plan));
            act.resolution == Some(Resolution::Discarded) && is_since && act.work() == *name
        }))
    }
}
