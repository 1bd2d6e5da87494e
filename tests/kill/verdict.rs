//! The verdict: the listings of the table, the history and the provider's books agree.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::BufReader;

use locker_tests::history::{Effect, History, Op, Report, Rules, check};
use serde_json::Value;

use crate::actors;
use crate::world::World;

pub(crate) struct Verdict {
    pub(crate) broken: Vec<String>,
    once: Report,
    taken: Report,
    asked: usize,
    missing: usize,
    late: usize,
}

fn may_repeat(token: &str) -> bool {
    token.starts_with("taken/")
}

/// The key of a request that the HTTP layer began starts so. It is in no listing: the order inside
/// has the record.
const REQUEST: &str = "@kim/POST/orders/";

impl Verdict {
    pub(crate) async fn reach(world: &World) -> Self {
        let (missing, held) = scan(world).await;
        let reported = reported(world).await;
        let history = history(world);
        let books = File::open(world.directory.join("books.jsonl")).expect("the books");
        let effects = Effect::read(BufReader::new(books)).expect("the books can be read");
        let rules = Rules { at_most_once: true };
        let once = check(&history, &effects, rules, |token| !may_repeat(token));
        let taken = check(&history, &effects, Rules::default(), may_repeat);

        let mut broken = Vec::new();
        if reported != (missing.len(), held) {
            broken.push(format!("{} missing and {held} held, and reported are {reported:?}", missing.len()));
        }
        if history.damaged_lines > 0 {
            broken.push(format!("{} lines of the history cannot be read", history.damaged_lines));
        }
        for finding in once.violations().chain(taken.violations()) {
            broken.push(finding.to_string());
        }
        broken.extend(world.asks.differing().into_iter().map(|it| format!("two answers were given: {it}")));
        for token in world.asks.silent().iter().map(|token| token.key()).filter(|key| !missing.contains(key))
        {
            broken.push(format!("{token}: neither answered nor listed"));
        }
        for token in [&once, &taken].iter().flat_map(|report| &report.unfinished) {
            match (missing.contains(token), token.starts_with(REQUEST)) {
                (true, true) => broken.push(format!("{token}: listed, although its order has the record")),
                (false, false) => broken.push(format!("{token}: unfinished by its history, and not listed")),
                _ => {}
            }
        }
        let late = check_listed(&history, &once, &taken, &missing, &mut broken);
        Self { broken, once, taken, asked: world.asks.tokens(), missing: missing.len(), late }
    }

    pub(crate) fn summary(&self) -> String {
        let (once, taken) = (&self.once, &self.taken);
        format!(
            "{} tokens asked for, {} calls ({} cut off or unknown), {} replays, {} missing and listed, {} of them by a late request; \
             at most once: {} effects on {} tokens; with takeovers: {} effects on {} tokens, {} takeovers, {} repeats and all explained, {} late owners refused; {} notes",
            self.asked,
            once.calls + taken.calls,
            once.open_calls + taken.open_calls,
            once.replays + taken.replays,
            self.missing,
            self.late,
            once.effects,
            once.tokens,
            taken.effects,
            taken.tokens,
            taken.taken_over,
            taken.explained_repeats,
            once.lost + taken.lost,
            once.notes().count() + taken.notes().count(),
        )
    }
}

/// What is listed is unfinished, or may be. Returns how many a late request brought back after a
/// release.
fn check_listed(
    history: &History,
    once: &Report,
    taken: &Report,
    missing: &BTreeSet<String>,
    broken: &mut Vec<String>,
) -> usize {
    let reports = [once, taken];
    let unfinished = reports.iter().flat_map(|report| report.unfinished.iter().chain(&report.uncertain));
    let unfinished: BTreeSet<&str> = unfinished.map(String::as_str).collect();
    let calls: HashMap<_, _> = history.tokens().into_iter().collect();
    let mut late = 0;
    for token in missing.iter().filter(|token| !unfinished.contains(token.as_str())) {
        let calls = calls.get(token.as_str()).copied().unwrap_or_default();
        if calls.iter().any(|call| call.op == Op::Release) {
            late += 1;
        } else {
            broken.push(format!("{token}: listed, and its history says that it ended"));
        }
    }
    late
}

/// What needs an operator by `locker status`: overdue or in doubt, and held.
async fn reported(world: &World) -> (usize, usize) {
    let mut command = actors::locker(world);
    let output = command.args(["status", "--output", "json"]).output().await.expect("the report runs");
    let status: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(status["finished"], true, "the report read everything");
    let groups = status["groups"].as_array().expect("groups");
    let count = |needs: &[&str]| {
        let of = groups.iter().filter(|group| needs.contains(&group["need"].as_str().unwrap_or_default()));
        of.map(|group| group["count"].as_u64().unwrap_or_default() as usize).sum()
    };
    (count(&["overdue", "inDoubt"]), count(&["held"]))
}

/// What `locker scan` lists, and how many are held.
async fn scan(world: &World) -> (BTreeSet<String>, usize) {
    let mut command = actors::locker(world);
    let output = command.args(["scan", "--output", "json"]).output().await.expect("the scan runs");
    let scanned: Value = serde_json::from_slice(&output.stdout).expect("a report of the scan");
    assert_eq!(scanned["finished"], true, "the scan read everything");
    let missing = scanned["missing"].as_array().expect("missing").iter();
    let missing = missing.map(|record| record["lockToken"].as_str().expect("a key").to_owned()).collect();
    let held = scanned["held"]["atLeast"].as_u64().expect("a number");
    assert_eq!(scanned["held"]["exact"], true, "all held ones were counted");
    (missing, usize::try_from(held).expect("a number"))
}

fn history(world: &World) -> History {
    let mut history = History::default();
    for file in std::fs::read_dir(&world.directory).expect("the directory") {
        let file = file.expect("a file").path();
        if file.extension().is_some_and(|extension| extension == "history") {
            history.read(BufReader::new(File::open(file).expect("a history"))).expect("it can be read");
        }
    }
    history
}
