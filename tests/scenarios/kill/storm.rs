//! The test: processes ask, complete, relay and receive, are killed at random, and in the end the
//! books balance.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use locker::message::MessageState;
use locker::operator::{Console, Need};
use locker::relay::Relay;
use locker::workflow::{List, Workflows};
use locker_tests::scenarios::{Answer, Left, Shop, broker, completer, in_view, reconcile, redrive};
use tokio::time::Instant;

use super::SPAN;
use super::bank::Bank;
use super::operator::{Acts, Careful};
use super::processes::{FROZEN, FROZEN_RELAY, Living, Slot};
use super::queue::Receiver;
use super::work::{Place, case_of, hear, line};
use crate::engine::Engine;
use crate::proxy::Proxy;

/// Duration and intensity of the test.
#[derive(Debug, Clone, Args)]
pub(crate) struct Storm {
    /// How long processes are killed.
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// Seed for faults and victims.
    #[arg(long)]
    seed: Option<u64>,
    /// Processes that start workflows.
    #[arg(long, default_value_t = 6)]
    workers: usize,
    /// Processes that run completers.
    #[arg(long, default_value_t = 3)]
    completers: usize,
    /// Processes that relay messages.
    #[arg(long, default_value_t = 2)]
    relays: usize,
    /// Processes that receive messages.
    #[arg(long, default_value_t = 2)]
    receivers: usize,
    /// Faults on the wire, out of 1,000 requests.
    #[arg(long, default_value_t = 20)]
    faults: u32,
}

/// Maximum duration of the calm after the storm.
const CALM: Duration = Duration::from_secs(300);

pub(crate) async fn run(storm: Storm) -> ExitCode {
    let seed = storm.seed.unwrap_or_else(|| fastrand::Rng::new().u64(..));
    println!("scenarios kill: seed {seed}");
    let scratch = tempfile::tempdir().expect("a directory");
    let mut engine = Engine::start(scratch.path()).await;
    let (proxy, wire) = Proxy::start(engine.endpoint(), seed, storm.faults).await;
    let (bank, provider) = Bank::start(seed ^ 0x00ba_0000).await;
    let told = scratch.path().join("told");
    std::fs::write(&told, "").expect("a file of answers");
    let lossy = Place { endpoint: wire, provider: provider.clone(), told: told.clone() };
    let place = Place { endpoint: engine.endpoint(), provider, told: told.clone() };
    let (workflows, shop) = place.client();
    locker::workflow::create_table(&shop.rows.dynamodb, "workflows").await.expect("a table");
    shop.rows.create_table().await;

    let (living, acts) = (Living::default(), Arc::new(Mutex::new(Acts::default())));
    let alice = |place: &Place| {
        let (workflows, bank) = (place.client().0, bank.clone());
        Careful { workflows, bank, living: living.clone(), acts: Arc::clone(&acts) }
    };
    let asked = Arc::new(AtomicU64::new(0));
    let operator = tokio::spawn({
        let (alice, asked) = (alice(&lossy), Arc::clone(&asked));
        async move { alice.act(seed ^ 0x0000_a11c, || asked.load(Ordering::Relaxed)).await }
    });
    let mut struck = strike(&storm, seed, &mut engine, &lossy, &shop, &bank, &living, &asked).await;
    struck.asked = asked.load(Ordering::Relaxed);
    operator.abort();
    let _ = operator.await;
    proxy.calm();
    bank.calm();
    // No process lives, and what they sent arrives.
    living.note(std::iter::empty());
    tokio::time::sleep(Duration::from_secs(6)).await;
    let mut verdict = Verdict::default();
    // An operator settles what is left, so that the books have to agree with an answer, and not
    // with a doubt.
    for _ in 0..3 {
        verdict.wrong.extend(rest(&workflows, &shop).await.err());
        verdict.wrong.extend(alice(&place).settle_all().await.err().map(|error| error.to_string()));
    }
    let acts = acts.lock().expect("no panic here").clone();
    verdict.reach(&workflows, &shop, &bank, &place, struck.asked, &acts).await;
    println!(
        "scenarios kill: {} s: {} kills of callers, {} of completers, {} freezes of callers, {} of completers, {} \
         crashes of the engine; {}; {} calls to the provider",
        struck.seconds,
        struck.callers,
        struck.completers,
        struck.frozen_callers,
        struck.frozen_completers,
        struck.crashes,
        proxy.summary(),
        bank.inner().calls
    );
    println!(
        "scenarios kill: {} kills of relays, {} of receivers, {} freezes of relays, {} of receivers; {} messages, {} \
         copies of them",
        struck.relays,
        struck.receivers,
        struck.frozen_relays,
        struck.frozen_receivers,
        verdict.messages,
        verdict.copies
    );
    println!("scenarios kill: the operator: {:?}", acts.counts);
    println!(
        "scenarios kill: {} workflows, {} answers told before the end, {} of them undone later: {:?}; {} wrong",
        struck.asked,
        verdict.told,
        verdict.undone,
        verdict.ended,
        verdict.wrong.len()
    );
    verdict.wrong.iter().take(40).for_each(|wrong| println!("scenarios kill: WRONG {wrong}"));
    if verdict.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Default)]
struct Struck {
    asked: u64,
    callers: u32,
    completers: u32,
    frozen_callers: u32,
    frozen_completers: u32,
    relays: u32,
    receivers: u32,
    frozen_relays: u32,
    frozen_receivers: u32,
    crashes: u32,
    seconds: u64,
}

#[allow(clippy::too_many_arguments, reason = "all that there is, once")]
async fn strike(
    storm: &Storm,
    seed: u64,
    engine: &mut Engine,
    lossy: &Place,
    shop: &Shop,
    bank: &Bank,
    living: &Living,
    asked: &AtomicU64,
) -> Struck {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5712_1ce5);
    let (began, mut struck) = (Instant::now(), Struck::default());
    let limit = Duration::from_secs_f64(storm.minutes * 60.0);
    let slots = |count: usize| -> Vec<Slot> { (0..count).map(|_| Slot::default()).collect() };
    let (mut callers, mut completers) = (slots(storm.workers), slots(storm.completers));
    let (mut relays, mut receivers) = (slots(storm.relays), slots(storm.receivers));
    let mut next = 0;
    while began.elapsed() < limit {
        for slot in &mut callers {
            if !slot.is_over() {
                continue;
            }
            for n in asked.load(Ordering::Relaxed)..next + SPAN {
                let case = case_of(n);
                case.prepare(n, &shop.rows).await;
                bank.inner().books.balances.insert(case.key(n), case.money());
            }
            asked.store(next + SPAN, Ordering::Relaxed);
            slot.spawn("worker", lossy, &["--first", &next.to_string()]);
            // The next one asks for half of the same.
            next += SPAN / 2;
        }
        for (role, slots) in
            [("completer", &mut completers), ("relay", &mut relays), ("receiver", &mut receivers)]
        {
            for slot in slots.iter_mut().filter_map(|slot| slot.is_over().then_some(slot)) {
                slot.spawn(role, lossy, &[]);
            }
        }
        living.note(callers.iter().chain(&completers));
        tokio::time::sleep(Duration::from_millis(rng.u64(20..250))).await;
        let all = callers.iter_mut().chain(&mut completers).chain(&mut relays).chain(&mut receivers);
        all.for_each(|slot| slot.wake(false));
        let (caller, completer) = (rng.usize(0..storm.workers), rng.usize(0..storm.completers));
        let (relay, receiver) = (rng.usize(0..storm.relays), rng.usize(0..storm.receivers));
        match rng.u32(0..110) {
            100..104 => struck.relays += u32::from(relays[relay].kill().await),
            104..108 => struck.receivers += u32::from(receivers[receiver].kill().await),
            108 if frozen(&relays) * 2 < relays.len() => {
                struck.frozen_relays += u32::from(relays[relay].freeze(&mut rng, FROZEN_RELAY));
            }
            109 if frozen(&receivers) * 2 < receivers.len() => {
                struck.frozen_receivers += u32::from(receivers[receiver].freeze(&mut rng, FROZEN));
            }
            0..65 => struck.callers += u32::from(callers[caller].kill().await),
            65..90 => struck.completers += u32::from(completers[completer].kill().await),
            // Half of them at most, so that others meet what the frozen ones hold.
            90..95 if frozen(&callers) * 2 < callers.len() => {
                struck.frozen_callers += u32::from(callers[caller].freeze(&mut rng, FROZEN));
            }
            95..97 if frozen(&completers) * 2 < completers.len() => {
                struck.frozen_completers += u32::from(completers[completer].freeze(&mut rng, FROZEN));
            }
            97..100 => {
                engine.crash(Duration::from_millis(rng.u64(0..300))).await;
                struck.crashes += 1;
            }
            _ => {}
        }
    }
    // The last ones that are frozen wake, and do what they will.
    let mut all: Vec<Slot> = [callers, completers, relays, receivers].into_iter().flatten().collect();
    all.iter_mut().for_each(|slot| slot.wake(true));
    tokio::time::sleep(Duration::from_secs(1)).await;
    for slot in &mut all {
        slot.kill().await;
    }
    struck.seconds = began.elapsed().as_secs();
    struck
}

fn frozen(slots: &[Slot]) -> usize {
    slots.iter().filter(|slot| slot.is_frozen()).count()
}

#[derive(Default)]
struct Verdict {
    wrong: Vec<String>,
    told: u64,
    undone: u64,
    messages: usize,
    copies: usize,
    ended: BTreeMap<&'static str, u64>,
}

impl Verdict {
    async fn reach(
        &mut self,
        workflows: &Workflows,
        shop: &Shop,
        bank: &Bank,
        place: &Place,
        asked: u64,
        acts: &Acts,
    ) {
        self.wrong.extend(rest(workflows, shop).await.err());
        let mut answers = HashMap::new();
        for n in 0..asked {
            answers.insert(n, ask(n, workflows, shop).await);
        }
        self.wrong.extend(rest(workflows, shop).await.err());
        for (n, answer) in &mut answers {
            if *answer == Answer::InProgress {
                *answer = ask(*n, workflows, shop).await;
            }
        }
        self.wrong.extend(deliver_all(workflows, shop, bank, place).await.err());
        for noted in std::fs::read_to_string(&place.told).expect("answers").lines() {
            let Some((n, answer)) = noted.split_once('\t') else { continue };
            self.told += 1;
            let n: u64 = n.parse().expect("a number");
            let known = answers.get(&n).map(line);
            // An answer stands, unless an operator took it back; then the books have to agree with
            // that.
            let taken_back = acts.undone.contains(&n) && matches!(answers.get(&n), Some(Answer::Cancelled));
            if taken_back && answer.starts_with("Completed") {
                self.undone += 1;
            } else if known.as_deref() != Some(answer) {
                self.wrong.push(format!("{n}: a caller was told {answer}, and later {known:?}"));
            }
        }
        let listed = workflows.list(List::Quarantine).limit(1_000_000).fetch().await.expect("a listing");
        assert!(listed.is_complete(), "{:?}", listed.stopped_by);
        let listed: HashSet<String> = listed.items.into_iter().map(|it| it.workflow).collect();
        let status = Console::new().workflows(workflows).limit(1_000_000).status().await.expect("a report");
        let others = status.groups.iter().filter(|group| group.need != Need::Quarantined).count();
        if !status.finished || others > 0 || status.count() != listed.len() {
            self.wrong.push(format!("{} are in quarantine, and reported is {status:?}", listed.len()));
        }
        let books = std::mem::take(&mut bank.inner().books);
        let (told, untaken) = reconcile(&books, &shop.rows).await.expect("rows");
        self.wrong.extend(untaken);
        self.messages = told.values().map(Vec::len).sum();
        self.copies = books.told.len() - self.messages;
        for n in 0..asked {
            let (case, answer) = (case_of(n), &answers[&n]);
            let (unsent, quarantined, mut wrong) =
                in_view(case, n, workflows, &listed).await.expect("a view");
            wrong.extend(unsent.into_iter().map(|topic| format!("{topic} is never sent")));
            let left =
                Left { books: &books, rows: &shop.rows, answer, told: &told, quarantined, late: false };
            wrong.extend(left.check(case, n).await.expect("rows"));
            let ended = match answer {
                _ if quarantined => "quarantined",
                Answer::Completed(_) => "completed",
                Answer::Failed(_) => "failed",
                Answer::Cancelled => "cancelled",
                _ => "other",
            };
            if *answer == Answer::Cancelled && !acts.undone.contains(&n) {
                wrong.push("it was cancelled, and no operator did that".to_owned());
            }
            *self.ended.entry(ended).or_default() += 1;
            self.wrong.extend(wrong.into_iter().map(|wrong| format!("{}: {wrong}", case.key(n))));
        }
    }
}

async fn ask(n: u64, workflows: &Workflows, shop: &Shop) -> Answer {
    let asked = Box::pin(case_of(n).ask(n, workflows, shop)).await;
    asked.unwrap_or_else(|error| Answer::Quarantined(format!("no answer: {error}")))
}

/// Have everything sent and taken.
async fn deliver_all(workflows: &Workflows, shop: &Shop, bank: &Bank, place: &Place) -> Result<(), String> {
    let (began, receiver) = (Instant::now(), Receiver::new(&place.provider));
    let relay = Relay::new(workflows, broker(&shop.provider));
    let said = |error: locker::Error| error.to_string();
    while began.elapsed() < CALM {
        redrive(workflows).await.map_err(said)?;
        let _ = relay.run().await;
        while hear(workflows, shop, &receiver).await {}
        let mut left = 0;
        for state in [MessageState::Unsent, MessageState::Dead] {
            left += workflows.messages(state).count(1).await.map_err(said)?.at_least;
        }
        if left == 0 && bank.inner().is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Err("messages are never sent, or never taken".to_owned())
}

/// Complete until nothing is unfinished.
async fn rest(workflows: &Workflows, shop: &Shop) -> Result<(), String> {
    let began = Instant::now();
    while began.elapsed() < CALM {
        let _ = completer(workflows, shop).run().await;
        let left = workflows.list(List::Unfinished).count(1).await.map_err(|error| error.to_string())?;
        if left.at_least == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err("the completers never come to rest".to_owned())
}
