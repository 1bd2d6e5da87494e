//! The world of one play: an engine, a clock, a provider with records, and the faults between them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use chrono::{DateTime, TimeDelta, Utc};
use locker::workflow::{self, Workflows};
use locker::{Clock, Failure, Ids, Locker, LockerBuilder, Settings};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::places::Counted;
use super::plan::Plan;
use super::process::Process;
use super::tokens::Tokens;
use super::wire;
use crate::faults::{Effect, Heard, Line};
use crate::provider::Books;
use crate::{CallFate, Database, Fate, NumberedIds, PausedClock, Provider, Reply};

/// How long a caller waits for a reply that does not arrive.
const SILENCE: Duration = Duration::from_secs(3);
/// The limit of requests. A play with more requests does not end.
const MOST_REQUESTS: usize = 20_000;
/// A late request or call arrives at the latest after this time: a network does not delay a request
/// for as long as a provider remembers keys.
const LATEST: Duration = Duration::from_secs(12 * 3600);

/// The world as one process sees it: DynamoDB, the clock, and the services that it calls. Clones
/// are the same process.
#[derive(Clone)]
pub struct World {
    pub(super) shared: Arc<Shared>,
    pub(super) process: Arc<Process>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("process", &self.process.name).finish_non_exhaustive()
    }
}

/// The state that the processes of a play share.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) clock: PlayClock,
    ids: Arc<NumberedIds>,
    books: Arc<Mutex<Books>>,
    /// Notifies the operator to cancel. `cancelled` reports that the cancellation is done.
    pub(super) cancel: Notify,
    pub(super) cancelled: Notify,
    /// Reports that a process is suspended.
    pub(super) frozen: Notify,
}

/// The clock of a play: the time of tokio, and the seconds that were skipped.
///
/// While a process is suspended, the pauses of the others are skipped. With the time of tokio, the
/// timers in the spawned tasks of the suspended process would fire, such as the timeouts of its
/// requests. They still fire if the others themselves wait for that long.
#[derive(Debug, Clone)]
pub(super) struct PlayClock {
    paused: PausedClock,
    skipped: Arc<AtomicU64>,
}

impl Clock for PlayClock {
    fn now(&self) -> DateTime<Utc> {
        let skipped = Duration::from_secs(self.skipped.load(Ordering::SeqCst));
        self.paused.now() + TimeDelta::from_std(skipped).unwrap_or_default()
    }
}

impl PlayClock {
    /// Skips this time.
    pub(super) fn skip(&self, time: Duration) {
        self.skipped.fetch_add(time.as_secs(), Ordering::SeqCst);
    }

    /// Lets tokio's time pass, in which this much was skipped before.
    pub(super) async fn catch_up(&self, time: Duration, skipped: Duration) {
        self.skipped.fetch_sub(skipped.as_secs(), Ordering::SeqCst);
        // The clock does not go back.
        tokio::time::advance(time.max(skipped)).await;
    }
}

/// The state of a play.
pub(super) struct State {
    database: Database,
    plan: Plan,
    requests: usize,
    calls: usize,
    pub(super) trace: Vec<String>,
    late: Vec<(Arrival, Late)>,
    cancelled: bool,
    tokens: Tokens,
}

/// A late request or call arrives at this number of requests, and at the latest at this time.
type Arrival = (usize, Instant);

/// A late request or call.
enum Late {
    Request(String, Vec<u8>),
    Call(String, Box<dyn FnOnce() + Send>),
}

impl World {
    /// Returns the client of DynamoDB for this process. Make your own clients, lockers and services
    /// from it.
    #[must_use]
    pub fn dynamodb(&self) -> Client {
        self.process.client.get_or_init(|| wire::client(self)).clone()
    }

    /// Returns the clock of the play. Time passes only while all tasks wait. Read all times from
    /// it, such as the deadline of a Lambda invocation that your handler receives.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.shared.clock.clone())
    }

    /// Returns ids that are the same each time a plan is played.
    #[must_use]
    pub fn ids(&self) -> Arc<dyn Ids> {
        Arc::clone(&self.shared.ids) as _
    }

    /// Returns the default settings, with this process as the owner.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.owner.clone_from(&self.process.name);
        settings
    }

    /// Returns a builder for a locker of this process, with its client, clock, ids and settings.
    #[must_use]
    pub fn locker(&self, table: &str) -> LockerBuilder {
        let builder = Locker::builder(&self.dynamodb(), table).settings(self.settings());
        builder.with_clock(self.clock()).with_ids(self.ids())
    }

    /// Returns a builder for the workflows of this process, with its client, clock, ids and
    /// settings.
    #[must_use]
    pub fn workflows(&self, table: &str) -> workflow::Builder {
        let builder = Workflows::builder(&self.dynamodb(), table).settings(self.settings());
        builder.with_clock(self.clock()).with_ids(self.ids())
    }

    /// Returns the provider, reached through the calls of this process.
    #[must_use]
    pub fn provider(&self) -> Provider {
        let books = Arc::clone(&self.shared.books);
        Provider::with_line(books, Arc::new(self.clone()), self.clock())
    }

    /// Makes a call to a service other than DynamoDB. `effect` is its effect at the service: it
    /// runs at once, later, or never.
    ///
    /// # Errors
    ///
    /// A transient [`Failure`] if nothing happened, and one in doubt if that is unknown.
    pub async fn call<T: Send + 'static>(
        &self,
        what: &str,
        effect: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let Self { shared, process } = self;
        process.stand_still().await;
        let (number, fate) = if process.is_faulty { shared.state().next_call() } else { (0, CallFate::Ok) };
        if fate == CallFate::FrozenBefore {
            self.freeze().await;
        }
        let came_to = {
            let mut state = shared.state();
            let fault = (fate != CallFate::Ok).then(|| format!("{fate:?}"));
            state.note(process, "call", what, fault, process.is_faulty.then_some(('c', number)));
            if fate == CallFate::Late {
                let at = state.later();
                state.late.push((at, Late::Call(what.to_owned(), Box::new(|| drop(effect())))));
                None
            } else {
                drop(state);
                fate.happens().then(effect)
            }
        };
        shared.deliver(false);
        match fate {
            fate if fate.kills() => process.die().await,
            CallFate::FrozenAfter => self.freeze().await,
            CallFate::Lost | CallFate::ReplyLost | CallFate::Late => tokio::time::sleep(SILENCE).await,
            _ => {}
        }
        fate.heard(what, came_to)
    }

    /// Returns the same world for another process.
    pub(super) fn process(&self, name: impl Into<String>, is_faulty: bool) -> Self {
        Self { shared: Arc::clone(&self.shared), process: Arc::new(Process::new(name, is_faulty)) }
    }

    /// Suspends this process. Others continue.
    async fn freeze(&self) {
        self.shared.frozen.notify_waiters();
        self.process.freeze().await;
    }

    /// Sends a request to DynamoDB. Returns its fate, and the reply if the request reached
    /// DynamoDB.
    pub(super) async fn request(&self, operation: &str, body: &[u8]) -> (Fate, Option<Reply>) {
        let Self { shared, process } = self;
        process.stand_still().await;
        let now = shared.clock.now();
        if !process.is_faulty {
            return (Fate::Ok, Some(shared.state().ask(now, operation, body)));
        }
        let (number, fate, pause, cancels) = {
            let mut state = shared.state();
            let fate = state.next_request();
            (state.requests, fate, state.pause(), state.cancels())
        };
        if cancels {
            shared.cancel.notify_one();
            shared.cancelled.notified().await;
        }
        tokio::time::sleep(pause).await;
        // Another task of the process may have suspended or ended it in the meantime.
        process.stand_still().await;
        if fate == Fate::FrozenBefore {
            self.freeze().await;
        }
        let reply = {
            let now = shared.clock.now();
            let mut state = shared.state();
            let reply = fate.applies().then(|| state.ask(now, operation, body));
            let shown = reply.as_ref().map_or(String::new(), |reply| format!(" {}", reply.shown()));
            let what = format!("{}{shown}", wire::shown(operation, body));
            let fault = (fate != Fate::Ok).then(|| format!("{fate:?}"));
            state.note(process, "asks", &what, fault, Some(('d', number)));
            if fate == Fate::Late {
                let at = state.later();
                state.late.push((at, Late::Request(operation.to_owned(), body.to_owned())));
            }
            reply
        };
        shared.deliver(false);
        match fate {
            fate if fate.kills() => process.die().await,
            Fate::FrozenAfter => self.freeze().await,
            _ => {}
        }
        (fate, reply)
    }
}

impl Line for World {
    fn call(&self, what: String, effect: Effect) -> Heard {
        let world = self.clone();
        Box::pin(async move { world.call(&what, effect).await })
    }
}

impl Shared {
    pub(super) fn new(database: Database, plan: Plan, base: DateTime<Utc>, recognises_for: Duration) -> Self {
        let state = State {
            database,
            plan,
            requests: 0,
            calls: 0,
            trace: Vec::new(),
            late: Vec::new(),
            cancelled: false,
            tokens: Tokens::default(),
        };
        let clock = PlayClock { paused: PausedClock::starting_at(base), skipped: Arc::default() };
        let state = Mutex::new(state);
        let books = Arc::new(Mutex::new(Books::knowing_keys_for(recognises_for)));
        let (cancel, cancelled, frozen) = (Notify::new(), Notify::new(), Notify::new());
        Self { state, clock, ids: Arc::default(), books, cancel, cancelled, frozen }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the trace that has no number of a request or call.
    pub(super) fn say(&self, line: String) {
        self.state().trace.push(line);
    }

    /// Delivers the late requests and calls that are due, or all of them. Returns their number.
    pub(super) fn deliver(&self, all: bool) -> usize {
        let due = self.state().due(all);
        let delivered = due.len();
        for late in due {
            let what = match late {
                Late::Request(operation, body) => {
                    let reply = self.state().ask(self.clock.now(), &operation, &body);
                    format!("{} {}", wire::shown(&operation, &body), reply.shown())
                }
                // The effect may read the records, so no lock is held here.
                Late::Call(what, effect) => {
                    effect();
                    what
                }
            };
            self.state().trace.push(format!("late: {what}"));
        }
        delivered
    }
}

impl State {
    /// Executes a request at this time of the play.
    fn ask(&mut self, now: DateTime<Utc>, operation: &str, body: &[u8]) -> Reply {
        let (token, body) = self.tokens.at(now, body);
        let reply = self.database.ask(operation, &body);
        if let Some(token) = token.filter(|_| reply.status == 200) {
            self.tokens.succeeded(token);
        }
        reply
    }

    fn next_request(&mut self) -> Fate {
        self.requests += 1;
        assert!(self.requests < MOST_REQUESTS, "the play sends requests without end");
        self.plan.request(self.requests).unwrap_or(Fate::Ok)
    }

    fn next_call(&mut self) -> (usize, CallFate) {
        self.calls += 1;
        (self.calls, self.plan.call(self.calls).unwrap_or(CallFate::Ok))
    }

    pub(super) const fn counted(&self) -> Counted {
        Counted { requests: self.requests, calls: self.calls }
    }

    /// Returns the requests and calls since this line of the trace, without their numbers.
    pub(super) fn asked_since(&self, line: usize) -> Vec<String> {
        let lines = self.trace.iter().skip(line);
        lines.map(|line| line.split_once(' ').map_or("", |(_, what)| what).to_owned()).collect()
    }

    /// Whether the operator cancels now.
    fn cancels(&mut self) -> bool {
        let cancels = !self.cancelled && self.plan.cancel.is_some_and(|at| at <= self.requests);
        self.cancelled |= cancels;
        cancels
    }

    /// Returns the pause before a request. Each seed results in another order of the requests of
    /// two callers.
    fn pause(&self) -> Duration {
        let Some(seed) = self.plan.two else { return Duration::ZERO };
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(self.requests as u64));
        Duration::from_millis(rng.u64(0..8))
    }

    fn later(&self) -> Arrival {
        (if self.plan.soon { self.requests + 3 } else { usize::MAX }, Instant::now() + LATEST)
    }

    /// Returns the time at which the next late request or call arrives at the latest.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.late.iter().map(|((_, latest), _)| *latest).min()
    }

    /// Adds a line to the trace. `count` is the number that a plan uses for it. The line can appear
    /// after lines with higher numbers.
    fn note(
        &mut self,
        it: &Process,
        verb: &str,
        what: &str,
        fate: Option<String>,
        count: Option<(char, usize)>,
    ) {
        let number = count.map_or(String::new(), |(kind, number)| format!("{kind}{number} "));
        let fate = fate.map_or(String::new(), |fate| format!("  <- {fate}"));
        self.trace.push(format!("{number}{}: {verb} {what}{fate}", it.name));
    }

    /// Takes the late requests and calls that are due, or all of them.
    fn due(&mut self, all: bool) -> Vec<Late> {
        let (requests, now) = (self.requests, Instant::now());
        let is_due = |(at, latest): Arrival| all || at <= requests || latest <= now;
        let (due, waits): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|(arrival, _)| is_due(*arrival));
        self.late = waits;
        due.into_iter().map(|(_, late)| late).collect()
    }
}
