//! `locker status --every`: the same report again, on a terminal and elsewhere, until Ctrl-C.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use lock_token_testing::Embedded;
use locker_tests::Counted;
use locker_tests::command::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::place;
use crate::terminal::Terminal;

#[test]
fn on_a_terminal_reports_follow_each_other_until_ctrl_c() {
    let place = place();
    place.once("odd", &["--hold-on-failure"], "exit 9");
    for columns in [40, 120] {
        let mut command = place.command(&["status", "--every", "200ms"]);
        let mut status = Terminal::start(command.env_remove("COLUMNS"), columns);
        // A narrow terminal wraps longer texts.
        status.until("1 needs an operator", 3);
        status.interrupt();
        let (shown, ended) = status.end();
        assert!(ended.success(), "{columns}: {shown}");
        assert!(!shown.contains('\u{1b}'), "no sequence for the terminal: {shown}");
    }
}

#[test]
fn reports_are_at_least_200_ms_apart() {
    let place = place();
    let began = Instant::now();
    let mut command = place.command(&["status", "--every", "0s", "--output", "json"]);
    let mut running = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.take(21).filter(Result::is_ok).count(), 21);
    assert!(began.elapsed() >= 20 * Duration::from_millis(200), "{:?}", began.elapsed());
    // Its reader has gone.
    assert!(running.wait().expect("it ends").success());
}

#[test]
fn repeated_report_contains_the_error_that_stopped_it() {
    let engine = Embedded::memory().expect("an engine");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(locker::create_table(&engine.client(), "locks")).expect("a table");
    let (served, place) = (Counted::start(&engine), place());
    served.deny_after("Query", 1);
    let at = ["--table", "locks", "--endpoint-url", served.endpoint()];
    let mut command = place.bare(&[&at[..], &["status", "--every", "200ms"]].concat());
    let mut status = Terminal::start(command.env_remove("COLUMNS"), 200);
    status.until("run on this table", 1);
    status.interrupt();
    let (shown, _) = status.end();
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].contains("at least 0 need an operator, and there may be more"), "{shown}");
    assert!(lines[1].starts_with("could not ") && lines[2].starts_with("  cause: "), "{shown}");
}

#[test]
fn without_a_terminal_each_report_is_text_or_a_line_of_json() {
    let place = place();
    place.once("odd", &["--hold-on-failure"], "exit 9");
    let start = |more: &[&str]| {
        let mut command = place.command(&[&["status", "--every", "200ms"], more].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let mut running = start(&["--output", "json"]);
    let lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    let reports: Vec<Value> =
        lines.take(2).map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect();
    let once = place.run(&["status", "--output", "json"]).json();
    for report in &reports {
        assert_eq!(report["groups"], once["groups"], "the same report");
        assert!(report["at"].is_string(), "{report}");
    }
    assert!(reports[0]["at"].as_str() < reports[1]["at"].as_str(), "{reports:?}");
    // Its reader has gone.
    assert!(running.wait().expect("it ends").success());

    let mut running = start(&[]);
    let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    let text: Vec<_> = lines.by_ref().take(20).map(|line| line.expect("a line")).collect();
    let reports = text.iter().filter(|line| line.ends_with("add --shards)")).count();
    assert!(reports >= 1 && text[0].contains("  1 needs an operator ("), "{text:#?}");
    assert!(!text.iter().any(|line| line.chars().any(char::is_control)), "{text:#?}");
    let process = Pid::from_raw(running.id().cast_signed());
    kill(process, Signal::SIGINT).expect("Ctrl-C");
    lines.for_each(drop);
    assert!(running.wait().expect("it ends").success());
}

#[test]
fn a_long_interval_ends_at_once_when_its_reader_has_gone() {
    let place = place();
    let mut command = place.command(&["status", "--every", "1h"]);
    let mut running = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut reader = BufReader::new(running.stdout.take().expect("a pipe"));
    reader.read_line(&mut String::new()).expect("a line");
    assert_eq!(running.try_wait().expect("a state"), None);
    drop(reader);
    let mut ended = None;
    until(|| {
        ended = running.try_wait().expect("a state");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|ended| ended.code()), Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn report_that_a_full_disk_refuses_fails() {
    let place = place();
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full disk");
    let mut command = place.command(&["status", "--every", "1h"]);
    let ran = locker_tests::command::Ran::of(command.stdout(full).output().expect("the command runs"));
    assert_eq!(ran.code, 1, "{}", ran.said);
    assert!(ran.said.contains("could not print the report: No space left"), "{}", ran.said);
}
