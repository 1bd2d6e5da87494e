//! The history of calls that `--history` writes.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::process::Stdio;

use locker_tests::command::Place;
use locker_tests::history::{Effect, History, Report, Rule, Rules, check};

use crate::place;

const FILE: &str = "history.jsonl";

fn report(place: &Place, effects: &HashMap<String, Vec<Effect>>) -> Report {
    let mut history = History::default();
    let file = File::open(place.path(FILE)).expect("a history");
    history.read(BufReader::new(file)).expect("it can be read");
    assert_eq!((history.damaged_lines, history.other_lines, history.repeated), (0, 0, 0));
    check(&history, effects, Rules { at_most_once: true }, |_| true)
}

fn books(place: &Place) -> HashMap<String, Vec<Effect>> {
    let file = File::open(place.path("books")).expect("the books");
    Effect::read(BufReader::new(file)).expect("they can be read")
}

#[test]
fn eight_processes_share_a_file_and_break_no_promise() {
    let place = place();
    let script =
        "echo '{\"token\":\"race\",\"at\":\"'$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)'\"}' >> books; sleep 0.2";
    let processes: Vec<_> = (0..8)
        .map(|_| {
            let mut command = place.command(&["once", "race", "--wait", "90s", "--", "sh", "-c", script]);
            command.env("LOCKER_HISTORY", FILE).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("started")
        })
        .collect();
    for mut process in processes {
        assert!(process.wait().expect("ended").success());
    }
    let once = report(&place, &books(&place));
    assert!(once.findings.is_empty(), "{:?}", once.findings);
    assert_eq!((once.acquired, once.replays, once.effects), (1, 7, 1));

    // A second entry in the books breaks a promise.
    place.run(&["once", "other", "--", "sh", "-c", "tail -n 1 books >> books"]);
    let twice = report(&place, &books(&place));
    let broken: Vec<_> = twice.violations().map(|finding| finding.rule).collect();
    assert_eq!(broken, [Rule::DuplicateEffect], "{:?}", twice.findings);
    assert!(twice.findings[0].to_string().starts_with("race: it happened 2 times: at "));
}

#[test]
fn an_unfinished_token_is_unfinished_until_it_is_resolved() {
    let place = place();
    let ran = place.run(&["--history", FILE, "once", "cut/short", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ran.code, 137);
    assert_eq!(report(&place, &HashMap::new()).unfinished, ["cut/short"]);
    let result = r#"{"exit":0,"stdout":"sent\n"}"#;
    let resolve = ["--history", FILE, "resolve", "cut/short", "--reason", "it was sent", "--result", result];
    let resolved = place.act(&resolve);
    assert_eq!(resolved.code, 0, "{}", resolved.said);
    let after = place.run(&["--history", FILE, "once", "cut/short", "--no-fingerprint", "--", "true"]);
    assert_eq!(after.text(), "sent\n");
    let report = report(&place, &HashMap::new());
    assert!(report.findings.is_empty() && report.unfinished.is_empty(), "{report:?}");
}

#[test]
fn a_history_that_cannot_be_written_stops_the_command() {
    let place = place();
    let nowhere = place.run(&["--history", "no/such/directory", "once", "k", "--", "true"]);
    assert_eq!(nowhere.code, 78);
    assert!(
        nowhere.said.starts_with("locker: cannot write the history to no/such/directory: "),
        "{}",
        nowhere.said
    );
    assert_eq!(place.run(&["show", "k"]).code, 3);
}
