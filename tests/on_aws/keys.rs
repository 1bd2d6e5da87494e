//! Twenty processes begin the same keys at the same time. The work of each key runs once.

use std::collections::BTreeMap;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use locker::{Failure, Origin, RunError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::account::{self, Account};
use crate::meter::Meter;
use crate::row::Row;

const PROCESSES: usize = 20;
/// Long enough for the other processes to find the key in progress.
const WORK: Duration = Duration::from_millis(30);

/// This program in another role.
pub(crate) fn role(arguments: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().expect("a process starts")
}

/// The next line of a process.
pub(crate) async fn line(child: &mut Child) -> String {
    let mut text = String::new();
    // The process prints a line only when it is asked for, so nothing is lost with the buffer.
    let mut lines = BufReader::new(child.stdout.as_mut().expect("a pipe"));
    lines.read_line(&mut text).await.expect("a line");
    text.trim().to_owned()
}

/// Sends an empty line to a process.
pub(crate) async fn go(child: &mut Child) {
    child.stdin.as_mut().expect("a pipe").write_all(b"\n").await.expect("it reads");
}

pub(crate) async fn run(account: &Account) {
    let keys = account.run.keys;
    let mut children: Vec<_> =
        (0..PROCESSES).map(|_| role(&["keys", &account.run.table, &keys.to_string()])).collect();
    for child in &mut children {
        assert_eq!(line(child).await, "ready");
    }
    for child in &mut children {
        go(child).await;
    }
    let mut outcomes = Vec::new();
    for child in &mut children {
        let outcome: Value = serde_json::from_str(&line(child).await).expect("a process prints its outcomes");
        account.meter.add_all(&outcome["counts"]);
        outcomes.push(outcome);
    }
    let (mut runs, mut answers, mut stored) = (BTreeMap::<_, u32>::new(), BTreeMap::new(), 0);
    let mut count = BTreeMap::<_, usize>::new();
    for it in outcomes.iter().flat_map(|it| it["outcomes"].as_array().expect("a list")) {
        let (key, kind) = (it["key"].as_u64().expect("a key"), it["kind"].as_str().expect("a kind"));
        *count.entry(kind.to_owned()).or_default() += 1;
        if kind == "ran" {
            *runs.entry(key).or_default() += 1;
        }
        if let Some(answer) = it["answer"].as_str() {
            let first = answers.entry(key).or_insert_with(|| answer.to_owned());
            stored += usize::from(first != answer);
        }
    }
    let expected = account.run.runs_per_key;
    let right = runs.values().filter(|runs| **runs == expected).count();
    let wrong_kinds: usize = count
        .iter()
        .filter(|(kind, _)| !["ran", "replay", "inProgress"].contains(&kind.as_str()))
        .map(|it| it.1)
        .sum();
    Row::new(format!("{PROCESSES} processes begin {keys} keys"))
        .expected(format!("{expected} run for each of {keys} keys, one answer, no other outcome"))
        .seen(format!("{right} keys; {count:?}; {stored} other answers"))
        .is(right == keys as usize && stored == 0 && wrong_kinds == 0);
}

/// Begins the keys when a line comes, and prints each outcome.
pub(crate) async fn child(table: &str, keys: u32) -> ExitCode {
    let meter = Meter::default();
    let locker = account::locker(&account::client(&meter), table);
    println!("ready");
    let mut start = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut start).await.expect("a line");
    let (own, mut outcomes) = (std::process::id(), Vec::new());
    for key in 0..keys {
        let token = locker.token(("on-aws", key)).expect_within(Duration::from_secs(120));
        let ran = token.run(async |_| {
            tokio::time::sleep(WORK).await;
            Ok::<_, Failure>(format!("{own}/{key}"))
        });
        outcomes.push(match ran.await {
            Ok(receipt) => {
                let kind = match receipt.origin() {
                    Origin::Fresh => "ran",
                    Origin::Replayed(_) => "replay",
                    Origin::Unrecorded(_) => "unrecorded",
                };
                json!({ "key": key, "kind": kind, "answer": receipt.into_inner() })
            }
            Err(RunError::InProgress(_)) => json!({ "key": key, "kind": "inProgress" }),
            Err(error) => json!({ "key": key, "kind": format!("{error}") }),
        });
    }
    println!("{}", json!({ "outcomes": outcomes, "counts": meter.counts() }));
    ExitCode::SUCCESS
}
