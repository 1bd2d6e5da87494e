//! What an actor does with the library.

use std::time::Duration;

use crate::ada;
use locker::Intervened;
use locker::message::MessageState;
use locker::operator::{Act as OperatorAct, Console};
use locker::relay::Relay;
use locker::workflow::{Completer, Outcome, StepView, View, Workflows};
use serde_json::json;

use super::super::invariant::Invariant;
use super::super::memory::TABLE;
use super::super::port::Shared;
use super::act::Act;
use super::broker::router;
use super::code::{Code, STOCK, Task};
use super::scenario::{WorkflowScenario, event};
use super::world::World;

/// How long a run of a driver is expected to take.
const EXPECTED: Duration = Duration::from_secs(60);

/// The key of a workflow.
pub(super) fn key(workflow: usize) -> String {
    format!("play/{workflow}")
}

/// The partition of a version of a workflow's key.
pub(super) fn partition(workflow: usize, version: u32) -> String {
    let key = key(workflow);
    if version == 1 { key } else { format!("{key} v{version}") }
}

/// Whether a provider receives this key for the step of this item of a partition.
pub(super) fn is_key_of(partition: &str, item: &str, under: &str) -> bool {
    let (key, version) = partition.split_once(" v").unwrap_or((partition, "1"));
    let plain = format!("{key} {}", item.trim_start_matches("step/"));
    (version == "1" && under == plain) || under.starts_with(&format!("{plain} ~v{version}."))
}

/// One actor of a plan.
pub(super) struct Program {
    pub(super) shared: Shared<World>,
    pub(super) workflows: Workflows,
    pub(super) actor: usize,
    pub(super) scenario: WorkflowScenario,
}

impl Program {
    pub(super) async fn run(self, act: Act) {
        self.note(|| format!("{act:?}"));
        match act {
            Act::Drive(workflow) => return self.drive(workflow).await,
            Act::Complete => {}
            Act::Cancel(workflow) => {
                let cancelled = self.workflows.cancel(key(workflow), 1, &ada()).await;
                self.note(|| format!("cancel: {cancelled:?}"));
            }
            Act::Relay => return self.relay().await,
            Act::Redrive => {
                self.redrive().await;
                return self.relay().await;
            }
            Act::Hear => return self.hear().await,
            Act::Signal(event, id) => return self.signal(event, id).await,
            Act::Give(event, id) => return self.give(event, id).await,
            Act::Resolve | Act::Retry | Act::Skip => self.operate(act).await,
            Act::Restock => {
                let item = json!({ "TableName": TABLE, "Item": { "lockToken": { "S": STOCK } } });
                self.shared.world().memory.must("PutItem", &item);
                return;
            }
        }
        // A completer sees what was due before it came.
        self.shared.world().clock.advance(Duration::from_secs(1));
        self.complete().await;
    }

    pub(super) async fn relay(&self) {
        self.shared.world().clock.advance(Duration::from_secs(1));
        let done = Relay::new(&self.workflows, router(&self.shared, self.actor)).run().await;
        self.note(|| format!("relayed: {done:?}"));
    }

    /// Have everything sent again that is dead.
    pub(super) async fn redrive(&self) {
        let Ok(dead) = self.workflows.messages(MessageState::Dead).fetch().await else { return };
        for listed in dead.items {
            let Ok(Some(message)) = self.workflows.message(&listed.work).await else { continue };
            let redriven = self.workflows.redrive(&message, &ada()).await;
            self.note(|| format!("redrives {}: {redriven:?}", message.topic()));
        }
    }

    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        self.shared.world().note(|| format!("actor {}: {}", self.actor, line()));
    }

    fn code(&self) -> Code {
        Code { shared: self.shared.clone(), actor: self.actor, scenario: self.scenario }
    }

    pub(super) fn completer(&self) -> Completer {
        Completer::new(&self.workflows).register(self.code())
    }

    pub(super) async fn complete(&self) {
        let done = self.completer().run().await;
        self.note(|| format!("completed: {done:?}"));
    }

    pub(super) async fn drive(&self, workflow: usize) {
        let (code, task) = (self.code(), Task { workflow, receipts: Vec::new() });
        let start = self.workflows.start(&code, key(workflow), &task).expect_within(EXPECTED);
        let outcome = start.run().await;
        self.note(|| format!("was told {outcome:?}"));
        let told = match outcome {
            Ok(Outcome::Completed(answer)) => format!("completed with {:?}", *answer),
            Ok(Outcome::Failed(failed)) => format!("failed with {}", failed.failure().json()),
            Ok(Outcome::Cancelled) => "cancelled".to_owned(),
            _ => return,
        };
        let mut world = self.shared.world();
        let told = world.told.end(workflow, told);
        world.judged(told);
    }

    async fn signal(&self, name: &'static str, id: &str) {
        self.shared.world().books.events.entry(id.to_owned()).or_default();
        let signalled = self.workflows.signal(key(0), event(name), &id.to_owned()).id(id).await;
        self.note(|| format!("signal {name} {id}: {signalled:?}"));
        let mut world = self.shared.world();
        if let (Ok(answer), Some(sent)) = (signalled, world.books.events.get_mut(id)) {
            sent.answers.push(answer);
        }
    }

    /// Gives an event as an operator, to the latest version.
    async fn give(&self, name: &'static str, id: &str) {
        self.shared.world().books.events.entry(id.to_owned()).or_default();
        let console = Console::new().workflows(&self.workflows).event(&event(name));
        let mut version = 1;
        let part = loop {
            let parts = console.get(&partition(0, version)).await;
            let Some(part) = parts.ok().and_then(|parts| parts.into_iter().next()) else { return };
            // If it has not continued now, it had not when it was shown.
            let Ok(Some(view)) = self.workflows.get(key(0), version).await else { return };
            match view.continued_as() {
                Some(next) => version = next,
                None => break part,
            }
        };
        let act = OperatorAct::signal(name, json!(id)).event_id(id);
        let acted = console.act(&part, &act, &ada()).await;
        self.note(|| format!("gives {name} {id}: {acted:?}"));
        let mut world = self.shared.world();
        if let (Ok(Intervened::Done), Some(sent)) = (acted, world.books.events.get_mut(id)) {
            sent.given += 1;
        }
    }

    /// Act on the step in doubt, or that failed, of the first workflow.
    async fn operate(&self, act: Act) {
        let Ok(Some(view)) = self.workflows.get(key(0), 1).await else { return };
        let open = |step: &&StepView| {
            step.kind().as_str() == "once" && ["started", "failed", "held"].contains(&step.state().as_str())
        };
        let Some(step) = view.steps().iter().find(open).map(StepView::name) else { return };
        let acted = self.act_on(act, &view, &step).await;
        self.note(|| format!("{act:?} {step}: {acted:?}"));
        if matches!(acted, Ok(Intervened::Done)) {
            let mut world = self.shared.world();
            if let Some(place) = self.place(&step)
                && world.is_at_work(place)
            {
                world.violated(Invariant::NotEarly, format!("an operator could act on {step} while it runs"));
            }
        }
    }

    /// The place of a step of the first workflow.
    fn place(&self, step: &str) -> Option<(usize, usize)> {
        self.scenario.0.steps[0].iter().position(|known| known.name == step).map(|number| (0, number))
    }

    async fn act_on(&self, act: Act, view: &View, step: &str) -> Result<Intervened, locker::Error> {
        let effect = {
            let mut world = self.shared.world();
            let place = self.place(step);
            let of_step = |called: &(usize, usize)| Some(*called) == place;
            let key = world
                .books
                .made
                .iter()
                .find(|made| of_step(&made.call.place))
                .map(|made| made.call.key.clone());
            // Whatever the operator says, it is a decision.
            world.books.by_operator.extend(key);
            world.books.skipped |= matches!(act, Act::Skip);
            let effect = world.books.effects.iter().find(|effect| of_step(&effect.place));
            effect.map(|effect| effect.receipt.clone())
        };
        let operator = ada();
        match (act, effect) {
            (Act::Skip, _) => self.workflows.skip_step(view, step, &operator).await,
            (Act::Resolve, Some(receipt)) => {
                self.workflows.resolve_step(view, step, &json!(receipt), &operator).await
            }
            _ => self.workflows.retry_step(view, step, &operator).await,
        }
    }
}
