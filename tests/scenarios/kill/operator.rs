//! An operator during the storm: cancels and retries at random, has dead messages sent again, and
//! settles what is in doubt by the bank's books.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use locker::message::MessageState;
use locker::workflow::{List, StepState, View, Workflows};
use locker::{Error, Intervened, Operator};
use locker_tests::scenarios::{Books, Case, Verb};
use serde_json::{Value, json};

use super::bank::Bank;
use super::processes::Living;
use super::work::case_of;

/// What the operator did.
#[derive(Debug, Clone, Default)]
pub(super) struct Acts {
    /// Acts that were applied, by verb, and others.
    pub(super) counts: BTreeMap<&'static str, u32>,
    /// The numbers of the workflows that were cancelled or compensated, or may have been.
    pub(super) undone: HashSet<u64>,
}

/// An operator who closes nothing, and never guesses.
#[derive(Clone)]
pub(super) struct Careful {
    pub(super) workflows: Workflows,
    pub(super) bank: Bank,
    pub(super) living: Living,
    pub(super) acts: Arc<Mutex<Acts>>,
}

/// What the books say of a step that is in doubt.
enum Truth {
    Happened(Value),
    /// It has nothing to return: a step without a result, or a compensation with nothing to undo.
    HappenedWithoutResult,
    DidNot,
}

impl Careful {
    /// Act at random until the end of the storm. `asked` says how many workflows were asked for.
    pub(super) async fn act(self, seed: u64, asked: impl Fn() -> u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        loop {
            tokio::time::sleep(Duration::from_millis(rng.u64(50..250))).await;
            // A request whose response was lost is counted; the operator looks again some time.
            let acted = match rng.u32(0..100) {
                0..15 => Box::pin(self.cancel(&mut rng, asked())).await,
                15..30 => Box::pin(self.retry(&mut rng)).await,
                30..40 => Box::pin(self.redrive(&mut rng)).await,
                _ => Box::pin(self.settle_one(&mut rng)).await,
            };
            if acted.is_err() {
                self.count("no answer");
            }
        }
    }

    /// Cancel one of the last that were asked for, started or not.
    async fn cancel(&self, rng: &mut fastrand::Rng, asked: u64) -> Result<(), Error> {
        if asked == 0 {
            return Ok(());
        }
        let n = rng.u64(asked.saturating_sub(60)..asked);
        let case = case_of(n);
        let version = rng.u32(1..=case.versions());
        let alice = self.alice("the customer called");
        let done = self.workflows.cancel(case.key(n), version, &alice);
        self.undo("cancel", n, done).await
    }

    async fn compensate(&self, view: &View, n: u64) -> Result<(), Error> {
        let alice = self.alice("it hangs");
        let done = self.workflows.compensate(view, &alice);
        self.undo("compensate", n, done).await
    }

    async fn undo(
        &self,
        verb: &'static str,
        n: u64,
        act: impl Future<Output = Result<Intervened, Error>>,
    ) -> Result<(), Error> {
        // Before the act: a caller may be told of it before the operator is.
        let first = self.acts().undone.insert(n);
        let done = Box::pin(act).await?;
        if done != Intervened::Done && first {
            self.acts().undone.remove(&n);
        }
        self.counted(verb, done);
        Ok(())
    }

    /// Make one that waits due now.
    async fn retry(&self, rng: &mut fastrand::Rng) -> Result<(), Error> {
        let list = if rng.bool() { List::Unfinished } else { List::Failing };
        let listed = Box::pin(self.workflows.list(list).limit(1000).fetch()).await?.items;
        let Some(one) = rng.choice(listed) else { return Ok(()) };
        let Some(view) = Box::pin(self.workflows.get_listed(&one.workflow)).await? else { return Ok(()) };
        let done = Box::pin(self.workflows.retry(&view, &self.alice("why wait"))).await?;
        self.counted("retry", done);
        Ok(())
    }

    /// Have one that is dead sent again.
    async fn redrive(&self, rng: &mut fastrand::Rng) -> Result<(), Error> {
        let listed = Box::pin(self.workflows.messages(MessageState::Dead).limit(1000).fetch()).await?.items;
        let Some(one) = rng.choice(listed) else { return Ok(()) };
        let Some(seen) = Box::pin(self.workflows.message(&one.work)).await? else { return Ok(()) };
        let done = Box::pin(self.workflows.redrive(&seen, &self.alice("it is back"))).await?;
        self.counted("redrive", done);
        Ok(())
    }

    async fn settle_one(&self, rng: &mut fastrand::Rng) -> Result<(), Error> {
        let listed = Box::pin(self.workflows.list(List::Quarantine).limit(1000).fetch()).await?.items;
        let Some(one) = rng.choice(listed) else { return Ok(()) };
        let Some(view) = Box::pin(self.workflows.get_listed(&one.workflow)).await? else { return Ok(()) };
        if rng.u32(0..100) < 15 {
            let Some(n) = number(&one.workflow) else { return Ok(()) };
            return self.compensate(&view, n).await;
        }
        self.settle(&view, &one.workflow).await
    }

    /// Settle everything that is in quarantine.
    pub(super) async fn settle_all(&self) -> Result<(), Error> {
        let listed = Box::pin(self.workflows.list(List::Quarantine).limit(1_000_000).fetch()).await?;
        for one in listed.items {
            if let Some(view) = Box::pin(self.workflows.get_listed(&one.workflow)).await? {
                self.settle(&view, &one.workflow).await?;
            }
        }
        Ok(())
    }

    /// Settle the step that is in doubt by the books, or retry a workflow that has none.
    async fn settle(&self, view: &View, workflow: &str) -> Result<(), Error> {
        let Some(n) = number(workflow) else { return Ok(()) };
        if view.listed() != Some(List::Quarantine) {
            return Ok(());
        }
        let doubt = view.steps().iter().find(|step| step.state() == StepState::Started);
        let Some(step) = doubt.map(locker::workflow::StepView::name) else {
            let done = Box::pin(self.workflows.retry(view, &self.alice("once more"))).await?;
            self.counted("retry of a quarantined", done);
            return Ok(());
        };
        // What is not in the books may still arrive while the driver that sends it lives, frozen or
        // not.
        if !self.living.are_dead(view.due()) {
            self.count("wait");
            return Ok(());
        }
        let alice = self.alice("the books say so");
        let truth = truth(&self.bank.inner().books, case_of(n), n, &step);
        let (verb, done) = match truth {
            Truth::Happened(result) => {
                let done = Box::pin(self.workflows.resolve_step(view, &step, &result, &alice)).await;
                ("resolve step", done)
            }
            Truth::HappenedWithoutResult => {
                ("skip step", Box::pin(self.workflows.skip_step(view, &step, &alice)).await)
            }
            Truth::DidNot => ("retry step", Box::pin(self.workflows.retry_step(view, &step, &alice)).await),
        };
        self.counted(verb, done?);
        Ok(())
    }

    fn alice(&self, why: &str) -> Operator {
        Operator::new("alice", why).expect("a reason")
    }

    fn acts(&self) -> std::sync::MutexGuard<'_, Acts> {
        self.acts.lock().expect("no panic here")
    }

    fn counted(&self, verb: &'static str, done: Intervened) {
        self.count(if done == Intervened::Done { verb } else { "came too late" });
    }

    fn count(&self, what: &'static str) {
        *self.acts().counts.entry(what).or_default() += 1;
    }
}

/// The number in the name of a workflow, such as `order-charged/12` or `funding-corrected/1 v2`.
fn number(workflow: &str) -> Option<u64> {
    let (_, number) = workflow.rsplit_once('/')?;
    number.split(' ').next()?.parse().ok()
}

/// Where the provider recognises its key, a step is sent again whatever happened.
fn truth(books: &Books, case: Case, n: u64, step: &str) -> Truth {
    let key = case.key(n);
    let charge = books.of(Verb::Charge, &key).last();
    let (seats, orders) = (
        matches!(case, Case::SeatsSold | Case::SeatsPoor),
        matches!(case, Case::OrderCharged | Case::OrderDeclined),
    );
    match (step, charge) {
        ("charge", Some(charge)) if orders => Truth::Happened(json!(charge.id)),
        ("charge", Some(_)) if seats => Truth::HappenedWithoutResult,
        ("compensation:charge" | "compensation-late:charge", Some(_)) if seats => {
            if books.of(Verb::Refund, &key).count() == 0 {
                Truth::DidNot
            } else {
                Truth::Happened(json!("done"))
            }
        }
        // No charge came, and none can come any more: there is nothing to refund.
        ("compensation:charge" | "compensation-late:charge", None) if seats => Truth::HappenedWithoutResult,
        _ => Truth::DidNot,
    }
}
