//! Playing one plan of workflows.

use locker::Clock as _;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use locker::Settings;
use locker::workflow::{Limits, Workflows};

use super::super::been::Been;
use super::super::choices::Choices;
use super::super::explore::Playable;
use super::super::fate::Fate;
use super::super::ids::{begin, ids_of};
use super::super::memory::{Memory, TABLE};
use super::super::play::{Bounds, Played};
use super::super::port::Shared;
use super::broker::router;
use super::options::{Next, Turn};
use super::place::place;
use super::program::Program;
use super::scenario::WorkflowScenario;
use super::world::{Life, SETTLER, What, World};
use crate::{NumberedIds, TestClock, client_for};

/// The table of workflows.
pub(super) const WORKFLOWS: &str = "workflows";

/// An actor's program, on its way.
type Running = Pin<Box<dyn Future<Output = ()>>>;

/// How far a plan is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    came: usize,
    current: Option<usize>,
    settled: bool,
}

/// One thread's engine, actors and clock: a plan leaves nothing behind in it.
#[derive(Debug)]
pub struct WorkflowRig {
    pub(super) shared: Shared<World>,
    /// New ones for each plan: a process begins without knowledge of its targets.
    pub(super) workflows: Vec<Workflows>,
    clients: Vec<Client>,
    runtime: tokio::runtime::Runtime,
    pub(super) clock: TestClock,
    ids: Vec<Arc<NumberedIds>>,
}

impl Default for WorkflowRig {
    fn default() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let clock = TestClock::new();
        let shared = Shared::new(World::new(Memory::new(), clock.clone()));
        let ids: Vec<_> = (0..=SETTLER).map(|actor| Arc::new(ids_of(actor))).collect();
        let clients: Vec<_> =
            (0..=SETTLER).map(|actor| client_for("http://memory", shared.http_client(actor))).collect();
        runtime.block_on(async {
            locker::create_table(&clients[SETTLER], TABLE).await.expect("a table");
            locker::workflow::create_table(&clients[SETTLER], WORKFLOWS).await.expect("a table");
        });
        Self { shared, workflows: Vec::new(), clients, runtime, clock, ids }
    }
}

impl WorkflowRig {
    fn begin_processes(&mut self) {
        let actors = self.clients.iter().zip(&self.ids).enumerate();
        self.workflows = actors
            .map(|(actor, (client, ids))| workflows(client, &self.shared, actor, ids, &self.clock))
            .collect();
    }
}

impl Playable for WorkflowScenario {
    type Rig = WorkflowRig;

    fn play(
        self,
        rig: &mut WorkflowRig,
        choices: Choices,
        bounds: Bounds,
        been: Option<&mut Been>,
        traced: bool,
    ) -> (Played, Choices) {
        let began = rig.clock.now();
        rig.begin_processes();
        {
            let mut world = rig.shared.world();
            world.reset();
            world.plan += 1;
            rig.ids.iter().for_each(|ids| begin(ids, world.plan));
            world.choices = choices;
            world.left = bounds.depth;
            world.fates = bounds.fates;
            world.provider = self.0.provider;
            world.trace = traced.then(Vec::new);
        }
        let merged = rig.runtime.block_on(async {
            let merged = rig.schedule(self, been).await;
            if !merged {
                rig.end(self).await;
            }
            merged
        });
        rig.clock.set(began);
        let mut world = rig.shared.world();
        clear(&world.memory);
        let played = Played {
            violations: std::mem::take(&mut world.violations),
            merged,
            exchanges: world.exchanges,
            trace: world.trace.take().unwrap_or_default(),
        };
        (played, std::mem::replace(&mut world.choices, Choices::from_plan(&super::super::Plan::default())))
    }
}

/// Delete every item.
fn clear(memory: &Memory) {
    for row in memory.rows(WORKFLOWS) {
        let key = serde_json::json!({ "workflow": row["workflow"], "item": row["item"] });
        memory.must("DeleteItem", &serde_json::json!({ "TableName": WORKFLOWS, "Key": key }));
    }
    for row in memory.rows(TABLE) {
        memory.delete(row["lockToken"]["S"].as_str().expect("a key"));
    }
}

impl WorkflowRig {
    /// Decide, as long as an actor lives, what happens next. Whether it came to where another plan
    /// has been.
    async fn schedule(&self, scenario: WorkflowScenario, mut been: Option<&mut Been>) -> bool {
        let acts = scenario.0.acts;
        let mut programs: Vec<Option<Running>> = acts.iter().map(|_| None).collect();
        let mut progress = Progress::default();
        self.comes(scenario, &mut programs, &mut progress);
        loop {
            self.until_all_wait(&mut programs).await;
            if self.is_still_out(&mut programs, &progress) {
                continue;
            }
            match self.next(scenario, &progress, been.as_deref_mut()) {
                ControlFlow::Break(merged) => return merged,
                ControlFlow::Continue(Next::Grant(actor, turn)) => self.grants(actor, turn, &mut programs),
                ControlFlow::Continue(Next::Come(after)) => {
                    self.clock.advance(after);
                    self.comes(scenario, &mut programs, &mut progress);
                }
                ControlFlow::Continue(Next::GoOn(actor)) => progress.current = Some(actor),
                ControlFlow::Continue(Next::Deliver(number)) => self.shared.world().deliver(number),
                ControlFlow::Continue(Next::Settle) => {
                    self.settle(scenario).await;
                    progress.settled = true;
                }
            }
        }
    }

    /// Choose what happens next. At the end, and where another plan has been, there is nothing
    /// more; then the flag says which it is.
    fn next(
        &self,
        scenario: WorkflowScenario,
        progress: &Progress,
        been: Option<&mut Been>,
    ) -> ControlFlow<bool, Next> {
        let mut world = self.shared.world();
        let more = progress.came < scenario.0.acts.len();
        let options = world.options(progress.current, more, scenario.0.pause);
        let is_over = options.is_empty();
        if let Some(been) = been
            && (is_over || (world.left > 0 && world.choices.is_new()))
            && !been.is_first(&place(&world, progress), world.left)
        {
            return ControlFlow::Break(true);
        }
        if is_over {
            return ControlFlow::Break(false);
        }
        let decided = world.decide(options.len());
        let next = options[decided];
        if !matches!(next, Next::Grant(..)) {
            world.note(|| format!("{next:?}"));
        }
        ControlFlow::Continue(next)
    }

    /// Whether the actor whose turn it is sends again what does not get through.
    fn is_still_out(&self, programs: &mut [Option<Running>], progress: &Progress) -> bool {
        let Some(actor) = progress.current else { return false };
        let out = {
            let world = self.shared.world();
            let asked = world.waiting(actor).map(|request| &request.what);
            matches!((asked, &world.actors[actor].outage), (Some(What::Table { body, .. }), Some(out)) if body == out)
        };
        if out {
            self.grants(actor, Turn { fate: Fate::Lost, stays: true }, programs);
        } else {
            self.shared.world().actors[actor].outage = None;
        }
        out
    }

    /// Let the first request of an actor come to this.
    fn grants(&self, actor: usize, turn: Turn, programs: &mut [Option<Running>]) {
        let mut world = self.shared.world();
        let Some(number) = world.waiting(actor).map(|request| request.number) else { return };
        world.grant(number, turn);
        if turn.fate.kills() {
            world.dies(actor);
            drop(world);
            programs[actor] = None;
        }
    }

    /// The next actor comes, and goes on.
    fn comes(&self, scenario: WorkflowScenario, programs: &mut [Option<Running>], progress: &mut Progress) {
        let actor = progress.came;
        progress.came += 1;
        progress.current = Some(actor);
        self.shared.world().actors[actor].life = Life::Alive;
        programs[actor] = Some(Box::pin(self.program(scenario, actor).run(scenario.0.acts[actor])));
    }

    pub(super) fn program(&self, scenario: WorkflowScenario, actor: usize) -> Program {
        Program { shared: self.shared.clone(), workflows: self.workflows[actor].clone(), actor, scenario }
    }

    /// Let every actor run until it waits for an answer, or is done. Pauses pass at once.
    async fn until_all_wait(&self, programs: &mut [Option<Running>]) {
        poll_fn(|context| {
            self.shared.world().scheduler = Some(context.waker().clone());
            let mut all = true;
            for (actor, running) in programs.iter_mut().enumerate() {
                let Some(program) = running else { continue };
                let waits = || {
                    let world = self.shared.world();
                    !world.is_to_take(actor) && world.waiting(actor).is_some()
                };
                if waits() {
                    continue;
                }
                if program.as_mut().poll(context).is_ready() {
                    *running = None;
                    self.shared.world().actors[actor].life = Life::Ended;
                } else if !waits() {
                    all = false;
                }
            }
            if all { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

fn workflows(
    client: &Client,
    shared: &Shared<World>,
    actor: usize,
    ids: &Arc<NumberedIds>,
    clock: &TestClock,
) -> Workflows {
    let mut settings = Settings::default();
    settings.owner = format!("actor/{actor}");
    settings.shards = 1;
    // Three tries: a pause is half of this, and a try that has less than 50 ms left is not made.
    settings.backoff_base = Duration::from_millis(80);
    settings.backoff_cap = Duration::from_millis(80);
    settings.give_up_after = Duration::from_millis(160);
    settings.attempt_timeout = Duration::from_secs(60);
    let mut limits = Limits::default();
    // A plan counts attempts, and not the hours of an outage.
    limits.attempts = 5;
    limits.retry_for = Duration::ZERO;
    Workflows::builder(client, WORKFLOWS)
        .settings(settings)
        .limits(limits)
        .source("/play")
        .sending(router(shared, actor))
        .with_clock(Arc::new(clock.clone()))
        .with_ids(ids.clone())
        .build()
        .expect("settings of a test are allowed")
}
