//! Playing a plan: the callers, the faults, the completers until nothing is due, and the check.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::workflow::{EventState, Limits, List, Workflows};
use locker::{Clock as _, Operator, Settings, SystemClock};

use super::broker::broker;
use super::cases::{Answer, completer};
use super::plan::Plan;
use super::post::Post;
use super::receiver;
use super::shop::{Rows, Shop};
use super::verify::{Left, in_view};
use super::wire::{http_client, provider};
use super::world::{GOOD, SLOTS, Shared, World};
use crate::explorer::Memory;
use crate::{NumberedIds, client_for};

/// The table of the workflows, and that of the rows.
pub(super) const TABLES: [&str; 2] = ["workflows", "rows"];
/// The processes that run completers.
const COMPLETER: usize = 2;
/// Maximum runs of completers before the play counts as stuck.
const ROUNDS: usize = 120;

/// The result of a play.
#[derive(Debug)]
pub struct Played {
    /// What is wrong.
    pub wrong: Vec<String>,
    /// The last answer to the caller.
    pub answer: Answer,
    /// Whether a workflow is in quarantine.
    pub quarantined: bool,
    /// Exchanges of the callers alone, and of all processes.
    pub exchanges: (usize, usize),
    /// Calls to the provider: of the callers alone, and of all processes.
    pub calls: (usize, usize),
    /// What happened, a line each.
    pub trace: Vec<String>,
}

/// One thread's runtime and clients. A play leaves nothing behind in it.
#[derive(Debug)]
pub struct Rig {
    runtime: tokio::runtime::Runtime,
    shared: Shared,
    workflows: [Workflows; SLOTS],
    shops: [Shop; SLOTS],
    create: Vec<Vec<u8>>,
    plays: u64,
}

impl Default for Rig {
    fn default() -> Self {
        Self::new()
    }
}

impl Rig {
    /// A rig.
    #[must_use]
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let base: DateTime<Utc> = SystemClock.now();
        let (shared, workflows, shops, create) = runtime.block_on(async {
            let plan = Plan::new(super::cases::CASES[0].0);
            let shared = Shared::new(World::new(plan, Memory::new(), String::new()), base);
            let ids = Arc::new(NumberedIds::default());
            let built: Vec<_> = (0..SLOTS).map(|slot| client(&shared, slot, &ids)).collect();
            let (workflows, shops): (Vec<_>, Vec<_>) = built.into_iter().unzip();
            let workflows: [Workflows; SLOTS] = workflows.try_into().expect("one for each slot");
            let shops: [Shop; SLOTS] = shops.try_into().expect("one for each slot");
            shared.operated_by(&workflows[GOOD]);
            let rows = &shops[GOOD].rows;
            locker::workflow::create_table(&rows.dynamodb, TABLES[0]).await.expect("a table");
            rows.create_table().await;
            let create = shared.take_created();
            (shared, workflows, shops, create)
        });
        Self { runtime, shared, workflows, shops, create, plays: 0 }
    }

    /// Play a plan.
    pub fn play(&mut self, plan: &Plan) -> Played {
        self.plays += 1;
        let memory = Memory::new();
        for body in &self.create {
            let made = memory.ask("CreateTable", body);
            assert_eq!(made.status, 200, "{}", made.body);
        }
        let n = self.plays;
        let key = plan.case.key(n);
        self.shared.begin(World::new(plan.clone(), memory, key));
        let Self { runtime, shared, workflows, shops, .. } = self;
        runtime.block_on(Play { shared, workflows, shops, plan, n }.play())
    }
}

fn client(shared: &Shared, slot: usize, ids: &Arc<NumberedIds>) -> (Workflows, Shop) {
    let dynamodb = client_for("http://memory", http_client(shared, slot));
    let clock = Arc::new(shared.clock);
    let mut settings = Settings::default();
    settings.owner = format!("process-{slot}");
    let ids: Arc<dyn locker::Ids> = Arc::clone(ids) as _;
    // A plan counts attempts, and not the hours of an outage.
    let mut limits = Limits::default();
    limits.retry_for = Duration::ZERO;
    let workflows = Workflows::builder(&dynamodb, TABLES[0]).settings(settings).limits(limits);
    let provider = provider(shared, slot);
    let workflows = workflows.with_clock(clock.clone()).source("/scenarios").sending(broker(&provider));
    let workflows = workflows.with_ids(ids).build().expect("settings");
    let rows = Rows { dynamodb, table: TABLES[1].to_owned() };
    let (outbox, patience) = (workflows.outbox(), Duration::from_secs(30));
    (workflows, Shop { rows, outbox, provider, patience, clock })
}

struct Play<'a> {
    shared: &'a Shared,
    workflows: &'a [Workflows; SLOTS],
    shops: &'a [Shop; SLOTS],
    plan: &'a Plan,
    n: u64,
}

impl Play<'_> {
    async fn play(self) -> Played {
        let Self { shared, workflows, shops, plan, n } = &self;
        let (case, good) = (plan.case, &workflows[GOOD]);
        case.prepare(*n, &shops[GOOD].rows).await;
        let mut wrong = Vec::new();

        let callers = async {
            let caller = |slot: usize| shared.live(slot, case.ask(*n, &workflows[slot], &shops[slot]));
            match plan.two {
                None => vec![caller(0).await],
                Some(_) => {
                    let both = tokio::join!(caller(0), caller(1));
                    vec![both.0, both.1]
                }
            }
        };
        let others = async {
            // Others continue while a driver is suspended.
            if plan.freezes() {
                tokio::time::sleep(Duration::from_secs(120)).await;
                self.complete().await
            } else {
                Ok(())
            }
        };
        let (told, rested) = Box::pin(async { tokio::join!(callers, others) }).await;
        wrong.extend(rested.err());
        let by_callers = shared.world().counts();

        if plan.idle {
            // No request is in flight for longer than a provider recognises its key.
            shared.world().deliver(true, shared.clock.now());
            tokio::time::sleep(Duration::from_secs(25 * 60 * 60)).await;
        }
        wrong.extend(self.rest().await.err());
        if plan.undo {
            wrong.extend(self.compensate_quarantined().await.err());
        }
        let mut acknowledged = 0;
        for _ in 0..2 {
            self.post(COMPLETER).round(&mut acknowledged).await;
        }
        // An operator may have cancelled meanwhile.
        wrong.extend(self.rest().await.err());
        let mut answer = self.ask_again().await;
        for _ in 0..3 {
            if answer == Answer::InProgress {
                wrong.extend(self.rest().await.err());
                answer = self.ask_again().await;
            }
        }

        // The last webhook may have been late.
        wrong.extend(self.rest().await.err());

        for told in told.into_iter().flatten().flatten() {
            if told.is_final() && told != answer {
                wrong.push(format!("a caller was told {told:?}, and later {answer:?}"));
            }
        }
        let settled = self.post(GOOD).settle(&mut acknowledged).await;
        wrong.extend(settled.err().map(|error| error.to_string()));
        let other = case.ask_otherwise(*n, good, &shops[GOOD]).await;
        if answer != Answer::Cancelled && other.as_ref().is_some_and(|other| *other != Answer::Mismatch) {
            wrong.push(format!("another request under the same key was told {other:?}"));
        }
        let page = good.list(List::Quarantine).fetch().await.expect("a listing");
        assert!(page.is_complete(), "{:?}", page.stopped_by);
        let listed = page.items;
        let listed = listed.into_iter().map(|it| it.workflow).collect();
        let (unsent, quarantined, unseen) = in_view(case, *n, good, &listed).await.expect("a good view");
        wrong.extend(unseen);
        wrong.extend(unsent.into_iter().map(|topic| format!("{topic} is never sent")));
        let rows = &shops[GOOD].rows;
        // The check reads through the engine, so the books are taken out of the world for it.
        let books = std::mem::take(&mut shared.world().books);
        let (told, untaken) = receiver::reconcile(&books, rows).await.expect("good rows");
        wrong.extend(untaken);
        let view = good.get(case.key(*n), 1).await.expect("a good view");
        let late = view.is_some_and(|view| view.events().iter().any(|it| it.state() == EventState::Late));
        let left = Left { books: &books, rows, answer: &answer, told: &told, quarantined, late };
        wrong.extend(left.check(case, *n).await.expect("good rows"));
        let mut world = shared.world();
        Played {
            wrong,
            answer,
            quarantined,
            exchanges: (by_callers.0, world.exchanges),
            calls: (by_callers.1, world.calls),
            trace: std::mem::take(&mut world.trace),
        }
    }

    /// The caller asks once more, without faults.
    async fn ask_again(&self) -> Answer {
        let asked = self.plan.case.ask(self.n, &self.workflows[GOOD], &self.shops[GOOD]);
        Box::pin(asked).await.unwrap_or_else(|error| Answer::Quarantined(format!("no answer: {error}")))
    }

    fn post(&self, slot: usize) -> Post<'_> {
        let (workflows, rows) = (&self.workflows[slot], &self.shops[slot].rows);
        Post { shared: self.shared, slot, workflows, rows }
    }

    /// Run completers until nothing is due, deliver late requests, and run completers again.
    async fn rest(&self) -> Result<(), String> {
        self.complete().await?;
        let late = self.shared.world().deliver(true, self.shared.clock.now());
        if late == 0 { Ok(()) } else { self.complete().await }
    }

    async fn complete(&self) -> Result<(), String> {
        let (workflows, shop) = (&self.workflows[COMPLETER], &self.shops[COMPLETER]);
        for _ in 0..ROUNDS {
            let mut due = Vec::new();
            for list in [List::Unfinished, List::Failing] {
                let listed =
                    self.workflows[GOOD].list(list).fetch().await.map_err(|error| error.to_string())?;
                due.extend(listed.items.iter().filter_map(|it| it.due));
            }
            let Some(next) = due.into_iter().min() else { return Ok(()) };
            let pause = (next - self.shared.clock.now()).to_std().unwrap_or_default();
            // The allowance for skew, and a little.
            tokio::time::sleep(pause + Duration::from_secs(6)).await;
            // The plan decides whether it dies.
            let _ = self.shared.live(COMPLETER, completer(workflows, shop).run()).await;
        }
        Err("the completers never come to rest".to_owned())
    }

    /// An operator compensates every quarantined workflow.
    async fn compensate_quarantined(&self) -> Result<(), String> {
        let good = &self.workflows[GOOD];
        let operator = Operator::new("operator", "it hangs").expect("a reason");
        let said = |error: locker::Error| error.to_string();
        for quarantined in good.list(List::Quarantine).fetch().await.map_err(said)?.items {
            let view = good.get_listed(&quarantined.workflow).await.map_err(said)?;
            if let Some(view) = view {
                // Changed meanwhile: a completer claimed it.
                let _ = good.compensate(&view, &operator).await.map_err(said)?;
            }
        }
        self.rest().await
    }
}
