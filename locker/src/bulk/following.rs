//! What became of messages after they were redriven: canaries first, and a breaker.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use std::vec;

use futures_util::stream::{self, StreamExt as _};
use tokio::time::Instant;

use super::outcome::Acted;
use super::plan::{Plan, Planned};
use super::running::{Bulk, Run};
use crate::core::alike;
use crate::core::message::letter::MessageState;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::story::{Part, Verb};

/// Between two looks at what became of the canaries.
const PAUSE: Duration = Duration::from_secs(2);
/// Messages that are read in one look.
const MOST: usize = 200;

/// Messages that were redriven, and what became of them.
#[derive(Debug, Default)]
struct Followed {
    open: Vec<Work>,
    /// Of those that are dead again, how many have the same cause.
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

    pub(super) async fn run_and_follow<F: FnMut(&Acted) -> ControlFlow<()>>(
        &self,
        run: &mut Run<'_, F>,
        rest: &mut vec::IntoIter<&Planned>,
    ) -> Result<(), Error> {
        let mut followed = Followed::default();
        if self.canary > 0 {
            followed.open = run.take_on(rest, self.canary).await;
            let until = Instant::now() + self.patience;
            loop {
                self.look_at(&mut followed, run).await?;
                if followed.open.is_empty() || Instant::now() >= until || run.is_stopped() {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
            if run.report.dead_again > 0 || !followed.open.is_empty() || run.report.done < self.canary {
                run.report.waiting = followed.open.len();
                run.report.tripped = rest.len() > 0 && !run.stopped;
                return Ok(());
            }
        }
        while rest.len() > 0 && !run.is_stopped() {
            followed.open.extend(run.take_on(rest, self.in_a_while()).await);
            self.look_at(&mut followed, run).await?;
            if self.breaker > 0 && followed.worst() >= self.breaker {
                run.report.tripped = rest.len() > 0;
                break;
            }
        }
        run.report.waiting = followed.open.len();
        Ok(())
    }

    /// See what became of the oldest of those of which it is not known.
    async fn look_at<F>(&self, followed: &mut Followed, run: &mut Run<'_, F>) -> Result<(), Error> {
        let rest = followed.open.split_off(followed.open.len().min(MOST));
        let names = std::mem::replace(&mut followed.open, rest);
        let reads = stream::iter(names).map(async |name| (self.read(&name).await, name));
        let mut reads = reads.buffer_unordered(self.concurrency);
        while let Some((part, name)) = reads.next().await {
            match part? {
                None => run.report.gone += 1,
                Some(Part::Message(message)) if message.state() == MessageState::Dead => {
                    run.report.dead_again += 1;
                    let cause = alike::alike(message.cause().unwrap_or_default());
                    *followed.again.entry(cause).or_default() += 1;
                }
                Some(_) => followed.open.push(name),
            }
        }
        Ok(())
    }
}
