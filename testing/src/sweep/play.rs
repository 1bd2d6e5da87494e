//! Plays a plan: the callers, the faults, the passage of time, and the check.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use locker::{Clock as _, SystemClock};
use tokio::time::{Instant, sleep, sleep_until};

use super::places::{Counted, Places};
use super::plan::Plan;
use super::process::Process;
use super::world::{Shared, World};
use super::{Subject, Sweep};
use crate::Database;
use crate::faults::FROZEN;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// The pauses before the callers repeat their requests: four days in all, which is longer than a
/// workflow is retried.
const PAUSES: [Duration; 12] = [
    MINUTE,
    Duration::from_secs(10 * 60),
    HOUR,
    HOUR,
    Duration::from_secs(2 * 3600),
    Duration::from_secs(6 * 3600),
    Duration::from_secs(12 * 3600),
    Duration::from_secs(12 * 3600),
    Duration::from_secs(12 * 3600),
    Duration::from_secs(24 * 3600),
    Duration::from_secs(24 * 3600),
    HOUR,
];

const ENDLESS: &str = "it does not come to an end: it waits for something that nobody does";

/// The result of a play.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) wrong: Vec<String>,
    pub(super) trace: Vec<String>,
    /// The requests and calls that get a fault: all until the first final answer, and the
    /// background work after it.
    pub(super) places: Places,
    /// The number of all requests and calls.
    pub(super) sent: Counted,
    /// Whether there was a final answer at the end.
    pub(super) is_answered: bool,
}

impl Played {
    /// Returns the reason why a play without faults is no basis for plays with faults.
    pub(super) fn proves_nothing(&self) -> Option<&'static str> {
        if !self.wrong.is_empty() {
            return None;
        }
        if self.sent.requests == 0 {
            return Some("nothing was asked of DynamoDB: let `ask` use the client of `world.dynamodb()`");
        }
        (!self.is_answered).then_some(
            "without any fault there is no final answer: let `ask` return it, also if it is a failure",
        )
    }
}

/// Plays a plan from the beginning, in its own world.
pub(super) fn play<S: Subject>(sweep: &Sweep<S>, plan: &Plan) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let (runtime, database) = match (runtime, Database::memory()) {
        (Ok(runtime), Ok(database)) => (runtime, database),
        (runtime, database) => {
            let wrong = format!("a play cannot begin: {:?} {:?}", runtime.err(), database.err());
            return Played { wrong: vec![wrong], ..Played::default() };
        }
    };
    let entered = runtime.enter();
    let shared = Shared::new(database, plan.clone(), SystemClock.now(), sweep.recognises_for);
    let shared = Arc::new(shared);
    drop(entered);
    let world = World { shared: Arc::clone(&shared), process: Arc::new(Process::new("good", false)) };
    let subject = (sweep.make)();
    let play = Play { subject: &subject, good: world, plan };
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(play.play())));
    // Ends the spawned tasks here, so that they do not run in the next play.
    drop(runtime);
    let mut played = played.unwrap_or_else(|panic| {
        let wrong = format!("it panicked: {}", text_of(&*panic));
        Played { wrong: vec![wrong], ..Played::default() }
    });
    played.trace = std::mem::take(&mut shared.state().trace);
    played
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned()
}

/// The pauses after the answer: four days in all.
const AFTERWARDS: [Duration; 8] = [
    MINUTE,
    Duration::from_secs(10 * 60),
    HOUR,
    Duration::from_secs(3 * 3600),
    Duration::from_secs(12 * 3600),
    Duration::from_secs(24 * 3600),
    Duration::from_secs(24 * 3600),
    Duration::from_secs(32 * 3600),
];
/// The time in which a second caller finishes. It is shorter than the timeout of a suspended
/// request.
const SHORTLY: Duration = Duration::from_millis(200);
/// The pauses of the others while a process is suspended.
const MEANWHILE: [Duration; 2] = [Duration::from_secs(2 * 60), Duration::from_secs(10 * 60)];
/// The limit of time. A play that takes longer does not end.
const MOST_TIME: Duration = Duration::from_secs(10 * 24 * 3600);

struct Play<'a, S> {
    subject: &'a S,
    /// A process without faults.
    good: World,
    plan: &'a Plan,
}

impl<S: Subject> Play<'_, S> {
    /// Runs the play, concurrently with an operator who cancels when the plan requests it.
    async fn play(self) -> Played {
        let operator = async {
            loop {
                self.good.shared.cancel.notified().await;
                self.good.shared.say("operator: cancels".to_owned());
                self.subject.cancel(&self.good).await;
                self.good.shared.say("operator: has cancelled".to_owned());
                self.good.shared.cancelled.notify_one();
            }
        };
        let played = Box::pin(tokio::time::timeout(MOST_TIME, self.played()));
        tokio::select! {
            played = played => played.unwrap_or_else(|_| Played {
                wrong: vec![ENDLESS.to_owned()],
                sent: self.good.shared.state().counted(),
                ..Played::default()
            }),
            () = operator => Played::default(),
        }
    }

    async fn played(&self) -> Played {
        let mut played = Played::default();
        self.subject.prepare(&self.good).await;
        let mut told = self.callers().await;
        let mut last = Vec::new();
        // The callers repeat their request until there is an answer.
        for pause in PAUSES {
            if !last.is_empty() {
                break;
            }
            self.pass(pause).await;
            last = self.come_again(pause).await;
        }
        played.places = Places::until(self.good.shared.state().counted());
        // Late requests and calls arrive after the answer. Then time passes.
        self.good.shared.deliver(true);
        let (mut former, mut waited, mut is_quiet) = (Vec::new(), Duration::ZERO, false);
        for (number, pause) in AFTERWARDS.into_iter().enumerate() {
            waited += pause;
            // After a quiet round, the next rounds are skipped because they would repeat it. The
            // last two rounds find work that is due after days.
            if is_quiet && number + 2 < AFTERWARDS.len() {
                continue;
            }
            let (before, seen) = self.so_far();
            let slept = std::mem::take(&mut waited);
            self.pass(slept).await;
            self.complete().await;
            let (after, _) = self.so_far();
            let mut state = self.good.shared.state();
            let round = state.asked_since(seen);
            // A round with the same requests and replies as the former round needs no faults of its
            // own.
            is_quiet = round == former;
            if is_quiet {
                state.trace.truncate(seen);
                state.trace.push(format!("the same again, {slept:?} later"));
            } else {
                played.places.and(before, after);
                former = round;
            }
        }
        // The last requests and calls of the background work arrive now, if they are late.
        self.good.shared.deliver(true);
        let again = self.subject.ask(&self.good).await;
        told.extend(last);
        // A final answer stays: a later answer that differs, or a missing answer, is wrong.
        for told in told.iter().filter(|told| Some(*told) != again.as_ref()) {
            let later =
                again.as_ref().map_or("that there is no answer".to_owned(), |again| format!("{again:?}"));
            played.wrong.push(format!("a caller was told {told:?}, and later {later}"));
        }
        played.is_answered = again.is_some();
        played.sent = self.good.shared.state().counted();
        played.wrong.extend(self.subject.check(&self.good, again.as_deref()).await);
        played
    }

    /// Runs one or two callers, and the other clients while a process is suspended. Returns their
    /// answers.
    async fn callers(&self) -> Vec<String> {
        let caller = async |name: &str| {
            let world = self.good.process(name, true);
            let asked = world.process.live(self.subject.ask(&world)).await;
            asked.flatten()
        };
        let callers = async {
            match self.plan.two {
                None => vec![caller("caller").await],
                Some(_) => <[_; 2]>::from(tokio::join!(caller("caller"), caller("other caller"))).to_vec(),
            }
        };
        let (told, others) = self.run_with(callers, async |pause| self.come_again(pause).await).await;
        told.into_iter().flatten().chain(others.into_iter().flatten()).collect()
    }

    /// Runs work. If a process is suspended during the work, runs the others in the meantime, after
    /// each pause.
    async fn run_with<T, O>(
        &self,
        work: impl Future<Output = T>,
        others: impl AsyncFn(Duration) -> O,
    ) -> (T, Vec<O>) {
        let shared = &self.good.shared;
        let frozen = shared.frozen.notified();
        let mut work = Box::pin(work);
        tokio::select! {
            biased;
            done = &mut work => return (done, Vec::new()),
            () = frozen => {}
        }
        let begun = Instant::now();
        let meanwhile = Box::pin(async {
            let mut came_to = Vec::new();
            sleep(SHORTLY).await;
            for pause in MEANWHILE {
                shared.clock.skip(pause);
                came_to.push(others(pause).await);
            }
            let left = FROZEN.saturating_sub(begun.elapsed());
            shared.clock.catch_up(left, MEANWHILE.iter().sum()).await;
            came_to
        });
        tokio::join!(work, meanwhile)
    }

    /// Returns the number of requests and calls, and the length of the trace.
    fn so_far(&self) -> (Counted, usize) {
        let state = self.good.shared.state();
        (state.counted(), state.trace.len())
    }

    /// The completer runs and the caller repeats its request, in processes that may have faults.
    /// Returns the answers.
    async fn come_again(&self, pause: Duration) -> Vec<String> {
        self.complete().await;
        let others = async |pause| {
            self.complete().await;
            self.client(pause).await
        };
        let (told, others) = self.run_with(self.client(pause), others).await;
        others.into_iter().chain([told]).flatten().collect()
    }

    /// The caller repeats its request.
    async fn client(&self, pause: Duration) -> Option<String> {
        let client = self.good.process("client", true);
        let told = client.process.live(self.subject.ask(&client)).await.flatten();
        self.good.shared.say(format!("client comes again after {pause:?}: told {told:?}"));
        told
    }

    /// Lets time pass. Late requests and calls that are due arrive in the meantime.
    async fn pass(&self, pause: Duration) {
        let end = Instant::now() + pause;
        let next = || self.good.shared.state().next_late().filter(|at| *at < end);
        while let Some(at) = next() {
            sleep_until(at).await;
            self.good.shared.deliver(false);
        }
        sleep_until(end).await;
    }

    /// Runs the background work in a process that may have faults.
    async fn complete(&self) {
        let completer = async || {
            let world = self.good.process("completer", true);
            let _ = world.process.live(self.subject.go_on(&world)).await;
        };
        self.run_with(completer(), async |_| completer().await).await;
    }
}
