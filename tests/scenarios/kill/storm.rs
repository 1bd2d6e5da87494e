//! The test: processes ask and complete, are killed at random, and in the end the books balance.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use locker::workflow::{List, Workflows};
use locker_tests::scenarios::{Answer, Left, Shop, completer, in_view};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::SPAN;
use super::bank::Bank;
use super::work::{Place, case_of, line};
use crate::engine::Engine;
use crate::process::own_role;
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
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Processes that run completers.
    #[arg(long, default_value_t = 2)]
    completers: usize,
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

    let struck = strike(&storm, seed, &mut engine, &lossy, &shop, &bank).await;
    proxy.calm();
    bank.calm();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let verdict = verdict(&workflows, &shop, &bank, &told, struck.asked).await;
    println!(
        "scenarios kill: {} s: {} kills of callers, {} of completers, {} crashes of the engine; {}; {} calls to the provider",
        struck.seconds,
        struck.callers,
        struck.completers,
        struck.crashes,
        proxy.summary(),
        bank.inner().calls
    );
    println!(
        "scenarios kill: {} workflows, {} answers told before the end: {:?}; {} wrong",
        struck.asked,
        verdict.told,
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
    crashes: u32,
    seconds: u64,
}

async fn strike(
    storm: &Storm,
    seed: u64,
    engine: &mut Engine,
    lossy: &Place,
    shop: &Shop,
    bank: &Bank,
) -> Struck {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5712_1ce5);
    let (began, mut struck) = (Instant::now(), Struck::default());
    let limit = Duration::from_secs_f64(storm.minutes * 60.0);
    let mut callers: Vec<Option<Child>> = (0..storm.workers).map(|_| None).collect();
    let mut completers: Vec<Child> = (0..storm.completers).map(|_| spawn("completer", lossy, &[])).collect();
    let mut next = 0;
    while began.elapsed() < limit {
        for slot in &mut callers {
            let over = slot.as_mut().is_none_or(|child| child.try_wait().expect("a child").is_some());
            if over {
                for n in struck.asked..next + SPAN {
                    let case = case_of(n);
                    case.prepare(n, &shop.rows).await;
                    bank.inner().books.balances.insert(case.key(n), case.money());
                }
                struck.asked = next + SPAN;
                *slot = Some(spawn("worker", lossy, &["--first", &next.to_string()]));
                // The next one asks for half of the same.
                next += SPAN / 2;
            }
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(20..250))).await;
        match rng.u32(0..100) {
            0..70 => {
                if let Some(child) = &mut callers[rng.usize(0..storm.workers)] {
                    child.kill().await.expect("a caller is killed");
                    struck.callers += 1;
                }
            }
            70..97 => {
                let victim = rng.usize(0..storm.completers);
                completers[victim].kill().await.expect("a completer is killed");
                completers[victim] = spawn("completer", lossy, &[]);
                struck.completers += 1;
            }
            _ => {
                engine.crash(Duration::from_millis(rng.u64(0..300))).await;
                struck.crashes += 1;
            }
        }
    }
    for child in callers.iter_mut().flatten().chain(&mut completers) {
        let _ = child.kill().await;
    }
    struck.seconds = began.elapsed().as_secs();
    struck
}

fn spawn(role: &str, place: &Place, more: &[&str]) -> Child {
    let mut command: Command = own_role();
    command.arg(role).arg("--endpoint").arg(&place.endpoint).arg("--provider").arg(&place.provider);
    command.arg("--told").arg(&place.told).args(more).spawn().expect("a process")
}

struct Verdict {
    wrong: Vec<String>,
    told: u64,
    ended: BTreeMap<&'static str, u64>,
}

async fn verdict(
    workflows: &Workflows,
    shop: &Shop,
    bank: &Bank,
    told: &std::path::Path,
    asked: u64,
) -> Verdict {
    let mut verdict = Verdict { wrong: Vec::new(), told: 0, ended: BTreeMap::new() };
    verdict.wrong.extend(rest(workflows, shop).await.err());
    let mut answers = HashMap::new();
    for n in 0..asked {
        answers.insert(n, ask(n, workflows, shop).await);
    }
    verdict.wrong.extend(rest(workflows, shop).await.err());
    for (n, answer) in &mut answers {
        if *answer == Answer::InProgress {
            *answer = ask(*n, workflows, shop).await;
        }
    }
    for noted in std::fs::read_to_string(told).expect("answers").lines() {
        let Some((n, answer)) = noted.split_once('\t') else { continue };
        verdict.told += 1;
        let known = n.parse().ok().and_then(|n: u64| answers.get(&n)).map(line);
        if known.as_deref() != Some(answer) {
            verdict.wrong.push(format!("{n}: a caller was told {answer}, and later {known:?}"));
        }
    }
    let listed = workflows.list(List::Quarantine).limit(1_000_000).fetch().await.expect("a listing");
    assert!(listed.is_complete(), "{:?}", listed.stopped_by);
    let listed: HashSet<String> = listed.items.into_iter().map(|it| it.workflow).collect();
    let books = std::mem::take(&mut bank.inner().books);
    for n in 0..asked {
        let (case, answer) = (case_of(n), &answers[&n]);
        let (messages, quarantined, mut wrong) = in_view(case, n, workflows, &listed).await.expect("a view");
        let left = Left { books: &books, rows: &shop.rows, answer, messages, quarantined };
        wrong.extend(left.check(case, n).await.expect("rows"));
        let ended = match answer {
            _ if quarantined => "quarantined",
            Answer::Completed(_) => "completed",
            Answer::Failed(_) => "failed",
            _ => "other",
        };
        *verdict.ended.entry(ended).or_default() += 1;
        verdict.wrong.extend(wrong.into_iter().map(|wrong| format!("{}: {wrong}", case.key(n))));
    }
    verdict
}

async fn ask(n: u64, workflows: &Workflows, shop: &Shop) -> Answer {
    let asked = Box::pin(case_of(n).ask(n, workflows, shop)).await;
    asked.unwrap_or_else(|error| Answer::Quarantined(format!("no answer: {error}")))
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
