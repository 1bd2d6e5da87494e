//! One play in progress: the engine, the provider's books, the faults, and the processes that are
//! dead.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use chrono::{DateTime, Utc};
use locker::workflow::Workflows;
use locker::{Clock as _, Operator};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Sleep;

use super::books::{Books, Call, Verb};
use super::plan::{CallFate, Fault, Plan};
use super::provider::Reply;
use super::room::DEPOSITED;
use crate::PausedClock;
use crate::explorer::{Fate, Memory};

/// Two callers, the completers, and one process without faults.
pub(super) const SLOTS: usize = 4;
/// The process without faults.
pub(super) const GOOD: usize = 3;
/// How long a driver is suspended: longer than any other waits for it.
const FROZEN: Duration = Duration::from_secs(20 * 60);
/// How long a caller waits for a response that does not arrive.
const SILENCE: Duration = Duration::from_secs(3);
/// After that, a connection to the broker is lost: before its sender gives up by itself.
const BROKEN: Duration = Duration::from_secs(1);

/// A process that may die or be suspended.
#[derive(Debug, Default)]
pub(super) struct Driver {
    died: Notify,
    frozen: Mutex<bool>,
}

#[derive(Debug)]
enum Late {
    Exchange(String, Vec<u8>),
    Call(Call),
}

/// The state of a play.
#[derive(Debug)]
pub(super) struct World {
    pub(super) memory: Memory,
    pub(super) books: Books,
    pub(super) plan: Plan,
    pub(super) key: String,
    pub(super) exchanges: usize,
    pub(super) calls: usize,
    pub(super) trace: Vec<String>,
    created: Vec<Vec<u8>>,
    late: Vec<(usize, Late)>,
    cancelled: bool,
}

/// The world, shared between the clients of a rig.
#[derive(Clone)]
pub(super) struct Shared {
    world: Arc<Mutex<World>>,
    drivers: Arc<[Driver; SLOTS]>,
    pub(super) clock: PausedClock,
    operator: Arc<Mutex<Option<Workflows>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl World {
    pub(super) fn new(plan: Plan, memory: Memory, key: String) -> Self {
        let mut books = Books::new(plan.case.recognised());
        books.balances.insert(key.clone(), plan.case.money());
        if plan.case.is_room() {
            books.receive(&key, DEPOSITED);
        }
        let (late, trace) = (Vec::new(), Vec::new());
        Self {
            memory,
            books,
            plan,
            key,
            exchanges: 0,
            calls: 0,
            trace,
            created: Vec::new(),
            late,
            cancelled: false,
        }
    }

    fn fault(&self, at: usize, call: bool) -> Option<Fault> {
        let is_call = |fault: &Fault| matches!(fault, Fault::Call(_));
        let mut faults = self.plan.faults.iter();
        faults.find(|(n, fault)| *n == at && is_call(fault) == call).map(|(_, fault)| *fault)
    }

    /// Exchanges and calls so far.
    pub(super) const fn counts(&self) -> (usize, usize) {
        (self.exchanges, self.calls)
    }

    fn put_off(&mut self, late: Late) {
        let at = if self.plan.soon { self.exchanges + 3 } else { usize::MAX };
        self.late.push((at, late));
    }

    /// Deliver late requests: those that are due, or all.
    pub(super) fn deliver(&mut self, all: bool, now: DateTime<Utc>) -> usize {
        let now_at = self.exchanges;
        let (due, wait) =
            std::mem::take(&mut self.late).into_iter().partition(|(at, _)| all || *at <= now_at);
        self.late = wait;
        let due: Vec<(usize, Late)> = due;
        let delivered = due.len();
        for (_, late) in due {
            let line = match late {
                Late::Exchange(operation, body) => {
                    let status = self.memory.ask(&operation, &body).status;
                    format!("late: {}: {status}", told(&operation, &body))
                }
                Late::Call(call) => {
                    format!("late: {:?} {}: {:?}", call.verb, call.about, self.books.apply(&call, now))
                }
            };
            self.trace.push(line);
        }
        delivered
    }
}

impl Shared {
    pub(super) fn new(world: World, base: DateTime<Utc>) -> Self {
        Self {
            world: Arc::new(Mutex::new(world)),
            drivers: Arc::default(),
            clock: PausedClock::starting_at(base),
            operator: Arc::default(),
        }
    }

    pub(super) fn operated_by(&self, workflows: &Workflows) {
        *self.operator.lock().expect("no panic here") = Some(workflows.clone());
    }

    /// A play begins.
    pub(super) fn begin(&self, world: World) {
        *self.world() = world;
    }

    /// The requests that created the tables, to create them again.
    pub(super) fn take_created(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.world().created)
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no panic while the world is locked")
    }

    /// An exchange with DynamoDB.
    pub(super) async fn exchange(
        &self,
        slot: usize,
        operation: &str,
        body: &[u8],
    ) -> (Fate, Option<crate::explorer::Reply>) {
        if slot == GOOD {
            let mut world = self.world();
            if operation == "CreateTable" {
                world.created.push(body.to_owned());
            }
            return (Fate::Ok, Some(world.memory.ask(operation, body)));
        }
        let (n, fault, cancel, two) = {
            let mut world = self.world();
            world.exchanges += 1;
            let n = world.exchanges;
            let cancel = !world.cancelled && world.plan.cancel.is_some_and(|at| at <= n);
            world.cancelled |= cancel;
            (n, world.fault(n, false), cancel, world.plan.two)
        };
        if cancel {
            self.cancel().await;
        }
        if let Some(seed) = two {
            let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(n as u64));
            tokio::time::sleep(Duration::from_millis(rng.u64(0..8))).await;
        }
        let fate = if let Some(Fault::Exchange(fate)) = fault { fate } else { Fate::Ok };
        if fate == Fate::FrozenBefore {
            self.freeze(slot).await;
        }
        let reply = {
            let mut world = self.world();
            let reply = fate.applies().then(|| world.memory.ask(operation, body));
            let status = reply.as_ref().map_or("-".to_owned(), |reply| reply.status.to_string());
            let shown = fault.map(|fault| format!(", {fault:?}")).unwrap_or_default();
            world.trace.push(format!("{n} {slot}: {}: {status}{shown}", told(operation, body)));
            if fate == Fate::Late {
                world.put_off(Late::Exchange(operation.to_owned(), body.to_owned()));
            }
            world.deliver(false, self.clock.now());
            reply
        };
        if fate == Fate::FrozenAfter {
            self.freeze(slot).await;
        }
        if fate.kills() {
            self.kill(slot).await;
        }
        (fate, reply)
    }

    /// A call to the provider.
    pub(super) async fn call(&self, slot: usize, call: Call) -> Reply {
        let apply = |world: &mut World| Reply::Said(world.books.apply(&call, self.clock.now()));
        if slot == GOOD {
            return apply(&mut self.world());
        }
        let fault = {
            let mut world = self.world();
            world.calls += 1;
            world.fault(world.calls, true)
        };
        let fate = if let Some(Fault::Call(fate)) = fault { fate } else { CallFate::Ok };
        if fate == CallFate::FrozenBefore {
            self.freeze(slot).await;
        }
        let reply = {
            let mut world = self.world();
            let reply = match fate {
                CallFate::ReplyLost | CallFate::DiesAfter => {
                    let _ = apply(&mut world);
                    Reply::Silence
                }
                CallFate::Late => {
                    world.put_off(Late::Call(call.clone()));
                    Reply::Silence
                }
                CallFate::Lost | CallFate::DiesBefore => Reply::Silence,
                CallFate::Refused => Reply::Down,
                CallFate::Busy => Reply::Busy(Duration::from_secs(2)),
                CallFate::Declined => Reply::Said(world.books.refuse(&call, "declined", self.clock.now())),
                _ => apply(&mut world),
            };
            let shown = fault.map(|fault| format!(", {fault:?}")).unwrap_or_default();
            let line = format!("c{} {slot}: {:?} {}: {reply:?}{shown}", world.calls, call.verb, call.about);
            world.trace.push(line);
            reply
        };
        if fate == CallFate::FrozenAfter {
            self.freeze(slot).await;
        }
        if fate.kills() {
            self.kill(slot).await;
        }
        if reply == Reply::Silence {
            let silence = if call.verb == Verb::Tell { BROKEN } else { SILENCE };
            tokio::time::sleep(silence).await;
        }
        reply
    }

    async fn cancel(&self) {
        let operator = self.operator.lock().expect("no panic here").clone().expect("an operator");
        let (key, version) = {
            let mut world = self.world();
            world.trace.push("the operator cancels".to_owned());
            (world.key.clone(), world.plan.case.versions())
        };
        let ada = Operator::new("operator", "the customer called").expect("a reason");
        let _ = Box::pin(operator.cancel(&key, version, &ada)).await.expect("cancelled or not");
    }

    async fn kill(&self, slot: usize) {
        self.drivers[slot].died.notify_waiters();
        std::future::pending().await
    }

    /// Suspend a process: its driver is not polled for a while. Completers are never suspended.
    async fn freeze(&self, slot: usize) {
        if slot < 2 {
            *self.drivers[slot].frozen.lock().expect("no panic here") = true;
            tokio::task::yield_now().await;
        }
    }

    /// Run a process until it is done or dies.
    pub(super) async fn live<T>(&self, slot: usize, work: impl Future<Output = T>) -> Option<T> {
        let driver = &self.drivers[slot];
        let (mut died, mut work) = (pin!(driver.died.notified()), pin!(work));
        let mut asleep: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context: &mut Context<'_>| {
            if died.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            loop {
                if let Some(sleep) = &mut asleep {
                    std::task::ready!(sleep.as_mut().poll(context));
                    asleep = None;
                }
                if let Poll::Ready(done) = work.as_mut().poll(context) {
                    return Poll::Ready(Some(done));
                }
                if died.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                if !std::mem::take(&mut *driver.frozen.lock().expect("no panic here")) {
                    return Poll::Pending;
                }
                asleep = Some(Box::pin(tokio::time::sleep(FROZEN)));
            }
        })
        .await
    }
}

/// Describe a request in a line: the item that is written or read, and its state.
pub(super) fn told(operation: &str, body: &[u8]) -> String {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let one = |item: &Value| {
        let name = item["item"]["S"].as_str().or_else(|| item["id"]["S"].as_str()).unwrap_or("-");
        let state = item["state"]["S"].as_str().map(|state| format!(" {state}")).unwrap_or_default();
        format!("{name}{state}")
    };
    match operation {
        "PutItem" => format!("put {}", one(&request["Item"])),
        "UpdateItem" => format!("update {}", one(&request["Key"])),
        "DeleteItem" => format!("delete {}", one(&request["Key"])),
        "GetItem" => format!("get {}", one(&request["Key"])),
        "TransactWriteItems" => {
            let actions = request["TransactItems"].as_array().cloned().unwrap_or_default();
            let parts = actions.iter().filter_map(|action| {
                let (verb, action) = action.as_object()?.iter().next()?;
                let item = if verb == "Put" { &action["Item"] } else { &action["Key"] };
                let verb = if verb == "ConditionCheck" { "check".to_owned() } else { verb.to_lowercase() };
                Some(format!("{verb} {}", one(item)))
            });
            format!("transact [{}]", parts.collect::<Vec<_>>().join(", "))
        }
        "Query" if request["IndexName"].is_string() => "query the index".to_owned(),
        "Query" => "query the workflow".to_owned(),
        other => other.to_owned(),
    }
}
