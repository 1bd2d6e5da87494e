//! Playing one plan.

use locker::Clock as _;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use locker::{Locker, Settings};

use super::been::{Been, place};
use super::choices::Choices;
use super::explore::Playable;
use super::fate::Fate;
use super::ids::ids_of;
use super::invariant::Violation;
use super::memory::{Memory, TABLE};
use super::port::Shared;
use super::program::Program;
use super::scenario::Scenario;
use super::world::World;
use crate::{TestClock, client_for};

/// How often a client that died is started again.
const LIVES: usize = 2;
/// The clock may jump a little past the due time, where no takeover is allowed yet, or far.
const JUMPS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(62), Duration::from_secs(700)];
/// The client that looks at what is left. The others are 0 and 1.
pub(super) const VERIFIER: usize = 2;

/// A client's program, on its way.
type Running = Pin<Box<dyn Future<Output = ()>>>;

/// How much of what is possible is tried.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The number of exchanges with faults; after it everything goes well.
    pub depth: usize,
    /// What can become of an exchange before that.
    pub fates: &'static [Fate],
}

/// What a plan came to.
#[derive(Debug)]
pub struct Played {
    /// What did not hold.
    pub violations: Vec<Violation>,
    /// Whether it came to where another plan has been.
    pub merged: bool,
    /// How many exchanges took place.
    pub exchanges: usize,
    /// What happened, if it was asked for.
    pub trace: Vec<String>,
}

/// One thread's engine, clients and clock: a plan leaves nothing behind in it.
#[derive(Debug)]
pub struct Rig {
    pub(super) shared: Shared<World>,
    pub(super) lockers: [Locker; 3],
    runtime: tokio::runtime::Runtime,
    clock: TestClock,
    plans: u64,
}

impl Rig {
    /// A rig with a table.
    #[must_use]
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let clock = TestClock::new();
        let shared = Shared::new(World::new(Memory::new(), clock.clone()));
        let lockers = [0, 1, VERIFIER].map(|client| {
            let good = client == VERIFIER;
            let http = if good { shared.good_http_client(client) } else { shared.http_client(client) };
            locker(client, http, &clock)
        });
        let client = client_for("http://memory", shared.good_http_client(VERIFIER));
        runtime.block_on(locker::create_table(&client, TABLE)).expect("a table");
        Self { shared, lockers, runtime, clock, plans: 0 }
    }

    /// Play the plan that the choices make, and judge what is left of it. With `been`, stop where
    /// another plan has been.
    pub fn play(
        &mut self,
        scenario: Scenario,
        choices: Choices,
        bounds: Bounds,
        been: Option<&mut Been>,
        traced: bool,
    ) -> (Played, Choices) {
        self.plans += 1;
        let began = self.clock.now();
        {
            let mut world = self.shared.world();
            world.choices = choices;
            world.depth = bounds.depth;
            world.fates = bounds.fates;
            world.take_over = scenario.take_over;
            world.key = format!("plan/{}", self.plans);
            world.trace = traced.then(Vec::new);
        }
        let merged = self.runtime.block_on(async {
            let merged = self.schedule(scenario, been).await;
            if !merged {
                self.verify(scenario).await;
            }
            merged
        });
        self.clock.set(began);
        let mut world = self.shared.world();
        let played = Played {
            violations: std::mem::take(&mut world.violations),
            merged,
            exchanges: world.exchanges,
            trace: world.trace.take().unwrap_or_default(),
        };
        let choices = std::mem::replace(&mut world.choices, Choices::from_plan(&super::Plan::default()));
        world.reset();
        (played, choices)
    }

    /// Decide, as long as anybody is alive, what becomes of whose exchange. Whether it came to
    /// where another plan has been.
    async fn schedule(&self, scenario: Scenario, mut been: Option<&mut Been>) -> bool {
        let mut lives = [LIVES; 2];
        let mut jumped = false;
        let mut clients: Vec<_> =
            (0..scenario.clients).map(|client| Some(self.start(client, scenario))).collect();
        loop {
            self.everybody_waits(&mut clients).await;
            let alive: Vec<usize> = (0..clients.len()).filter(|client| clients[*client].is_some()).collect();
            if alive.is_empty() {
                break;
            }
            let mut world = self.shared.world();
            if let Some(been) = &mut been
                && world.depth > 0
                && world.choices.is_new()
                && !been.is_first(&place(&world, lives, jumped), world.depth)
            {
                return true;
            }
            for number in (0..world.late.len()).rev() {
                if world.decide(2) == 1 {
                    world.deliver(number);
                }
            }
            if scenario.take_over && !jumped {
                let jump = JUMPS[world.decide(JUMPS.len())];
                if !jump.is_zero() {
                    jumped = true;
                    world.clock.advance(jump);
                    world.note(|| format!("the clock jumps by {jump:?}"));
                }
            }
            let who = alive[world.decide(alive.len())];
            let fates = world.fates;
            let fate = fates[world.decide(fates.len())];
            world.depth = world.depth.saturating_sub(1);
            world.grant(who, fate);
            drop(world);
            if fate.kills() {
                lives[who] -= 1;
                clients[who] = (lives[who] > 0).then(|| self.start(who, scenario));
            }
        }
        let mut world = self.shared.world();
        while !world.late.is_empty() {
            world.deliver(0);
        }
        false
    }

    fn start(&self, client: usize, scenario: Scenario) -> Running {
        let (shared, locker) = (self.shared.clone(), self.lockers[client].clone());
        Box::pin(Program { shared, locker, client, scenario }.run())
    }

    /// Let every client run until it waits for an exchange, or is done. Pauses pass at once.
    async fn everybody_waits(&self, clients: &mut [Option<Running>]) {
        poll_fn(|context| {
            let mut all = true;
            for (number, client) in clients.iter_mut().enumerate() {
                let Some(program) = client else { continue };
                let waits = || self.shared.world().clients[number].parked.is_some();
                if waits() {
                    continue;
                }
                if program.as_mut().poll(context).is_ready() {
                    *client = None;
                } else if !waits() {
                    all = false;
                }
            }
            if all { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Default for Rig {
    fn default() -> Self {
        Self::new()
    }
}

impl Playable for Scenario {
    type Rig = Rig;

    fn play(
        self,
        rig: &mut Rig,
        choices: Choices,
        bounds: Bounds,
        been: Option<&mut Been>,
        traced: bool,
    ) -> (Played, Choices) {
        rig.play(self, choices, bounds, been, traced)
    }
}

fn locker(client: usize, http: SharedHttpClient, clock: &TestClock) -> Locker {
    let mut settings = Settings::default();
    settings.owner = format!("client/{client}");
    // Three tries: a pause is half of this, and a try that has less than 50 ms left is not made.
    settings.backoff_base = Duration::from_millis(80);
    settings.backoff_cap = Duration::from_millis(80);
    settings.give_up_after = Duration::from_millis(160);
    settings.attempt_timeout = Duration::from_secs(60);
    Locker::builder(&client_for("http://memory", http), TABLE)
        .settings(settings)
        .with_clock(Arc::new(clock.clone()))
        .with_ids(Arc::new(ids_of(client)))
        .build()
        .expect("settings of a test are allowed")
}
