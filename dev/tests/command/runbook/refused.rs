//! What the verbs refuse, by the table of the runbook: each row is brought about, refused, and done
//! as the row says.

use std::process::{Child, Stdio};

use locker_tests::command::{Place, until};
use serde_json::json;

use super::text::{Given, Section};
use crate::place;

/// Starts a command that ends once `go` exists, or its folder is deleted, and waits until it runs.
fn start(place: &Place, key: &str, expect: &str) -> Child {
    let script = format!("echo x > {key}; until test -f go || ! test -f {key}; do sleep 0.05; done");
    let mut command = place.command(&["once", key, "--expect", expect, "--", "sh", "-c", &script]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    place.await_line(key);
    child
}

fn revision(place: &Place, key: &str) -> String {
    place.show(key)["revision"].as_str().expect("a revision").to_owned()
}

/// Brings about what a row tells of. Returns the key of the token, and the options that the former
/// `--seen` adds.
fn bring_about(place: &Place, row: &str, processes: &mut Vec<Child>) -> (&'static str, Vec<String>) {
    let hold = |key: &str| assert_eq!(place.once(key, &["--hold-on-failure"], "exit 1").code, 1);
    match row {
        "has changed since you saw it" => {
            hold("changed");
            let seen = revision(place, "changed");
            assert_eq!(place.act(&["release", "changed", "--reason", "x"]).code, 0);
            hold("changed");
            ("changed", vec!["--seen".to_owned(), seen])
        }
        "is in progress and not overdue: its work may be running" => {
            processes.push(start(place, "working", "1h"));
            ("working", Vec::new())
        }
        "is overdue, and its command is running on this machine" => {
            let mut process = start(place, "killed", "1s");
            process.kill().expect("SIGKILL");
            process.wait().expect("ended");
            until(|| place.run(&["ls", "tokens", "--due"]).text().contains("killed"));
            ("killed", Vec::new())
        }
        "has an answer, and you want the work done again" => {
            assert_eq!(place.once("done", &[], "true").code, 0);
            ("done", Vec::new())
        }
        "has an answer of the work, and you want another" => {
            assert_eq!(place.once("final", &[], "true").code, 0);
            ("final", Vec::new())
        }
        "has an answer that an operator gave, and you want another" => {
            hold("corrected");
            let resolve = ["resolve", "corrected", "--reason", "x", "--result", r#"{"exit":3}"#];
            assert_eq!(place.act(&resolve).code, 0);
            ("corrected", Vec::new())
        }
        _ => panic!("no test brings about {row:?}"),
    }
}

#[test]
#[cfg(target_os = "linux")]
fn refused_verbs_follow_the_table_of_the_chapter() {
    const RESULT: &str = r#"{"exit":0,"stdout":"right"}"#;

    let section = Section::read("operating.md", "What the verbs refuse");
    let place = place();
    let mut processes = Vec::new();
    for row in section.rows() {
        let (key, seen) = bring_about(&place, row, &mut processes);
        let shown = place.show(key);
        let acts = [
            &["release"][..],
            &["resolve", "--result", RESULT],
            &["correct", "--result", RESULT],
            &["close"],
        ];
        for act in acts {
            let mut act = [act, &[key, "--reason", "x"]].concat();
            act.extend(seen.iter().map(String::as_str));
            let ran = place.run(&act);
            // Without an id, an act that is possible is only shown.
            assert!([4, 6].contains(&ran.code), "{row}: {act:?}: {}", ran.said);
        }
        assert_eq!(place.show(key), shown, "{row}: it was changed");
        let revision = revision(&place, key);
        for line in section.calls_in(row) {
            let ran = section.run(&place, &line, Given { key, revision: &revision, result: RESULT });
            assert_eq!(ran.code, 0, "{row}: {}", ran.said);
        }
    }
    let states = ["changed", "working", "killed", "done", "final", "corrected"]
        .map(|key| place.show(key)["state"].clone());
    assert_eq!(json!(states), json!(["held", "released", "released", "released", "completed", "completed"]));
    assert_eq!(place.once("corrected", &[], "true").text(), "right");
    let lines = section.below("");
    let [audit] = &lines[..] else { panic!("one line") };
    let acts = section.run(&place, audit, Given::default()).json();
    assert_eq!(acts["acts"].as_array().map(Vec::len), Some(6), "{acts}");
    std::fs::write(place.path("go"), "").expect("written");
    for mut process in processes {
        process.wait().expect("ended");
    }
    section.is_followed();
}
