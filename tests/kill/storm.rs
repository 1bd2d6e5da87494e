//! The test: start everything, strike at random, let it calm down, and judge.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::actors;
use crate::args::Test;
use crate::asks::{Asks, Kind};
use crate::engine::Engine;
use crate::process;
use crate::provider::Provider;
use crate::proxy::Proxy;
use crate::verdict::Verdict;
use crate::world::{Slot, Strike, TABLE, World};

/// What is due is due after this: leases are 1 or 2 seconds, and a late request comes 2.5 seconds
/// late.
const SETTLE: Duration = Duration::from_secs(5);
/// What the calm after the storm may take, however long the storm was.
const CALM: Duration = Duration::from_secs(600);

pub(crate) async fn run(test: Test) -> ExitCode {
    process::build_others().await;
    let seed = test.seed.unwrap_or_else(|| fastrand::Rng::new().u64(..));
    println!("kill: seed {seed}, up to {} tokens, {} strikes", test.tokens, test.kills);
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = test.keep.clone().unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&directory).expect("a directory");

    let mut engine = Engine::start(&directory).await;
    let client = locker_tests::client_for(&engine.endpoint(), locker::client::http_client());
    locker::create_table(&client, TABLE).await.expect("a table");
    let (proxy, endpoint) = Proxy::start(engine.endpoint(), seed, test.faults).await;
    let (provider, provider_url) = Provider::start(&directory.join("books.jsonl"), seed).await;
    let world = Arc::new(World {
        directory: directory.clone(),
        endpoint,
        provider: provider_url,
        asks: Asks::new(test.tokens, seed),
        kills: AtomicU32::new(0),
        freezes: AtomicU32::new(0),
        crashes: AtomicU32::new(0),
    });

    let began = Instant::now();
    let limit = Duration::from_secs_f64(test.minutes * 60.0);
    let (mut actors, strikers) = start_actors(&world);
    strike(&world, &mut engine, strikers, &test, seed, limit, &mut actors).await;
    let stormed = began.elapsed();

    proxy.calm();
    provider.calm();
    // What was cut off is due, and what is late has arrived.
    tokio::time::sleep(SETTLE).await;
    world.asks.ask_again();
    let (mut actors, strikers) = start_actors(&world);
    drop(strikers);
    tokio::time::timeout(CALM, join(&mut actors)).await.expect("the calm ends in time");
    tokio::time::sleep(SETTLE).await;

    let verdict = Verdict::reach(&world).await;
    println!(
        "kill: {} s of storm: {} kills, {} freezes, {} crashes of the engine; {}",
        stormed.as_secs(),
        world.kills.load(Ordering::Relaxed),
        world.freezes.load(Ordering::Relaxed),
        world.crashes.load(Ordering::Relaxed),
        proxy.summary(),
    );
    println!("kill: {} charges; {}", provider.charges(), verdict.summary());
    if verdict.broken.is_empty() {
        println!("kill: no promise was broken");
        return ExitCode::SUCCESS;
    }
    for broken in verdict.broken.iter().take(50) {
        eprintln!("kill: BROKEN {broken}");
    }
    let kept = if test.keep.is_some() { directory } else { scratch.keep() };
    eprintln!(
        "kill: {} broken; seed {seed}; history and books are in {}",
        verdict.broken.len(),
        kept.display()
    );
    ExitCode::FAILURE
}

/// A process in each slot.
fn start_actors(world: &Arc<World>) -> (JoinSet<()>, Vec<(Kind, mpsc::Sender<Strike>)>) {
    let (mut actors, mut strikers) = (JoinSet::new(), Vec::new());
    let mut slot = |kind| {
        let (striker, strikes) = mpsc::channel(1);
        strikers.push((kind, striker));
        Slot(strikes)
    };
    for number in 0..4 {
        actors.spawn(actors::function(Arc::clone(world), "worker", number, slot(Kind::Order)));
    }
    for number in 0..2 {
        actors.spawn(actors::function(Arc::clone(world), "orders", number, slot(Kind::Order)));
    }
    for _ in 0..2 {
        actors.spawn(actors::once(Arc::clone(world), slot(Kind::Once)));
    }
    for _ in 0..4 {
        actors.spawn(actors::taker(Arc::clone(world), slot(Kind::Taken)));
    }
    (actors, strikers)
}

/// Kill and freeze, as often as the progress requires, until every ask has ended.
async fn strike(
    world: &Arc<World>,
    engine: &mut Engine,
    strikers: Vec<(Kind, mpsc::Sender<Strike>)>,
    test: &Test,
    seed: u64,
    limit: Duration,
    actors: &mut JoinSet<()>,
) {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5712_1ce5);
    let began = Instant::now();
    let (mut told, mut over) = (began, false);
    while !actors.is_empty() {
        tokio::time::sleep(Duration::from_millis(rng.u64(5..40))).await;
        while let Some(ended) = actors.try_join_next() {
            ended.expect("an actor does its part");
        }
        let elapsed = began.elapsed();
        assert!(elapsed < limit + CALM, "the storm does not end");
        if elapsed > limit && !over {
            over = true;
            world.asks.no_more();
        }
        let (finished, asks) = world.asks.progress();
        let progress =
            (finished as f64 / asks.max(1) as f64).max(elapsed.as_secs_f64() / limit.as_secs_f64());
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            println!("kill: {} s, {finished} of {asks} asks, {} strikes", elapsed.as_secs(), world.struck());
        }
        if f64::from(world.struck()) >= (f64::from(test.kills) * progress.min(1.0)).ceil() {
            continue;
        }
        if rng.u32(0..100) < 5 {
            world.crashes.fetch_add(1, Ordering::Relaxed);
            engine.crash(Duration::from_millis(rng.u64(0..400))).await;
            continue;
        }
        let (kind, striker) = &strikers[rng.usize(0..strikers.len())];
        let past_the_lease = if *kind == Kind::Taken { 1200..2500 } else { 300..3500 };
        let strike = match rng.u32(0..100) {
            0..30 => Strike::Freeze(Duration::from_millis(rng.u64(past_the_lease))),
            _ => Strike::Kill,
        };
        // A process that is idle, or about to be struck, is left alone.
        let _ = striker.try_send(strike);
    }
}

async fn join(actors: &mut JoinSet<()>) {
    while let Some(ended) = actors.join_next().await {
        ended.expect("an actor does its part");
    }
}
