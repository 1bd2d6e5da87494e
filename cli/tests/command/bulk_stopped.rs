//! A plan that is stopped: by Ctrl-C, and by a crash while a result was written.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use locker_tests::command::{Place, Ran, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::bulk::hold;
use crate::place;

fn interrupt(process: &Child) {
    kill(Pid::from_raw(process.id().cast_signed()), Signal::SIGINT).expect("SIGINT");
}

/// Plans the release of all held tokens, with this many acts per second.
fn plan_release(place: &Place, rate: &str) {
    let plan = ["plan", "release", "--reason", "relay repaired", "--need", "held"];
    let planned = place.run(&[&plan[..], &["--rate", rate, "--out", "plan.json"]].concat());
    assert_eq!(planned.code, 6, "{}", planned.said);
}

/// Keys by the lines of the results that can be read.
fn done(results: &str) -> Vec<String> {
    let lines = results.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["done"] == "done").map(|line| line["work"].to_string()).collect()
}

#[test]
fn the_first_ctrl_c_stops_and_the_same_command_goes_on_after_a_torn_line() {
    let place = place();
    hold(&place, 8);
    plan_release(&place, "2");
    let mut apply = place.command(&["apply", "plan.json"]);
    let mut process = apply.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    place.await_line("plan.json.results");
    interrupt(&process);
    until(|| process.try_wait().expect("a state").is_some());
    let ran = Ran::of(process.wait_with_output().expect("ended"));
    assert_eq!(ran.code, 5, "{}", ran.said);
    for part in [
        "stopping when the acts under way have ended",
        "not begun",
        "run it again to continue",
        "apply plan.json",
    ] {
        assert!(ran.said.contains(part), "{part} is not in {}", ran.said);
    }
    let results = place.path("plan.json.results");
    let before = done(&std::fs::read_to_string(&results).expect("results"));
    assert!((1..8).contains(&before.len()), "{before:?}");
    let left = place.run(&["status", "--output", "json"]).json()["groups"][0]["count"].clone();
    assert_eq!(left, json!(8 - before.len()), "what was told was done, and no more");

    // A crash while a line was written.
    let mut file = OpenOptions::new().append(true).open(&results).expect("results");
    file.write_all(br#"{"done":"done","work":{"tok"#).expect("written");
    for round in 0..2 {
        let again = place.run(&["apply", "plan.json"]);
        assert_eq!(again.code, 0, "{}", again.said);
        let known = if round == 0 { before.len() } else { 8 };
        assert!(again.said.contains(&format!("8 done, {known} of them before")), "{}", again.said);
        let text = std::fs::read_to_string(&results).expect("results");
        let all = done(&text);
        let works: BTreeSet<_> = all.iter().collect();
        assert_eq!((all.len(), works.len(), text.lines().count()), (8, 8, 9), "once each: {text}");
    }
}

#[test]
fn the_second_ctrl_c_ends_at_once() {
    let place = place();
    // It takes connections, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let apply = ["apply", "plan.json", "--table", "locks", "--endpoint-url", &endpoint];
    let plan = |place: &str| {
        json!({ "place": place, "shards": 1, "limit": 10, "options": {}, "plan": {
            "id": "00000000", "made": "2026-01-01T00:00:00.000Z", "act": { "verb": "release" }, "by": "ada",
            "reason": "x", "filter": { "need": "held" }, "found": 1, "complete": true, "leftOut": [],
            "items": [{ "work": "token a", "revision": "r", "since": null, "cause": null, "effect": "e" }]
        }})
    };
    std::fs::write(place.path("plan.json"), plan("odd").to_string()).expect("a plan");
    let refused = Ran::of(place.bare(&apply).output().expect("run"));
    let here = refused.said.split("this is ").nth(1).and_then(|rest| rest.split("; nothing").next());
    let here = here.unwrap_or_else(|| panic!("{}", refused.said));
    std::fs::write(place.path("plan.json"), plan(here).to_string()).expect("a plan");

    let mut process =
        place.bare(&apply).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut said = BufReader::new(process.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut until_said =
        |part: &str| said.find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}"));
    assert!(until_said("plan 00000000, made ").contains("release 1 (held): x; planned by ada"));
    until_said("warning: the plan was made");
    interrupt(&process);
    until_said("Ctrl-C again ends at once");
    assert_eq!(process.try_wait().expect("a state"), None, "it waits for what is under way");
    interrupt(&process);
    until_said("a new run finds out: locker");
    let mut ended = None;
    until(|| {
        ended = process.try_wait().expect("a state");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|ended| ended.code()), Some(130));
}

#[test]
#[cfg(target_os = "linux")]
fn results_that_cannot_be_written_do_not_hide_what_was_done() {
    let place = place();
    hold(&place, 8);
    plan_release(&place, "1");
    // The file has its largest size before the first result.
    const LARGEST: u64 = 16 << 20;
    let mut results = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(place.path("plan.json.results"))
        .expect("a file");
    results.set_len(LARGEST - 1).expect("a length");
    std::io::Seek::seek(&mut results, std::io::SeekFrom::End(0)).expect("the end");
    results.write_all(b"\n").expect("written");
    let locker = place.command(&["apply", "plan.json"]);
    let mut limited = std::process::Command::new("sh");
    limited.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", LARGEST / 512));
    limited.arg(locker.get_program()).args(locker.get_args()).current_dir(place.path("."));
    for (name, value) in locker.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let ran = Ran::of(limited.output().expect("the command runs"));
    assert_eq!(ran.code, 78, "{}", ran.said);
    let left = place.run(&["status", "--output", "json"]).json()["groups"][0]["count"].clone();
    let left = left.as_u64().expect("a count");
    assert!((1..8).contains(&left), "{left}");
    let counts = format!("{} done, {left} not begun; run it again to continue", 8 - left);
    for part in [&counts, "error: cannot write "] {
        assert!(ran.said.contains(part), "{part} is not in {}", ran.said);
    }
}
