//! `locker once`: a command, once per key.

use std::process::Stdio;

use lock_token_testing::Embedded;
use locker_tests::Counted;
use locker_tests::command::{Ran, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{bare, place};

#[test]
fn the_second_run_prints_the_first_ones_digits() {
    let place = place();
    let first = place.once("demo/1", &[], "date +%N");
    let second = place.once("demo/1", &[], "date +%N");
    assert_eq!((first.code, second.code), (0, 0));
    assert!(!first.stdout.is_empty());
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(first.said, "locker: ran demo/1 and stored its answer\n");
    assert!(second.said.starts_with("locker: replayed demo/1, done "), "{}", second.said);
}

#[test]
fn output_comes_back_byte_for_byte() {
    let place = place();
    for (key, script) in [
        ("bytes/empty", "true"),
        ("bytes/no-newline", "printf abc"),
        ("bytes/every", "printf '\\000\\001\\377\\n\\r'"),
        ("bytes/noise", "head -c 250000 /dev/urandom"),
        ("bytes/text", "yes line | head -n 200000"),
    ] {
        let first = place.once(key, &[], script);
        let second = place.once(key, &[], "echo ran twice");
        assert_eq!((first.code, second.code), (0, 0), "{key}: {} {}", first.said, second.said);
        assert!(first.stdout == second.stdout, "{key} differs");
    }
}

#[test]
fn a_failure_is_the_answer_unless_told_otherwise() {
    let place = place();
    for _ in 0..2 {
        let kept = place.once("fail/kept", &[], "echo x >> kept; echo out; exit 7");
        assert_eq!((kept.code, kept.text()), (7, "out\n"), "{}", kept.said);
        let retried = place.once("fail/retried", &["--retry-on-failure"], "echo x >> retried; exit 8");
        assert_eq!(retried.code, 8);
        assert_eq!(
            retried.said,
            "locker: fail/retried failed with exit 8; its token was released, so it can be run again\n"
        );
        let held = place.once("fail/held", &["--hold-on-failure"], "echo x >> held; echo out; exit 9");
        assert_eq!((held.code, held.text()), (9, "out\n"));
        assert!(held.said.contains("is held"), "{}", held.said);
    }
    assert_eq!((place.lines("kept"), place.lines("retried"), place.lines("held")), (1, 2, 1));
    assert_eq!(place.show("fail/kept")["state"], "failed");
    assert_eq!(place.show("fail/held")["state"], "held");
    assert_eq!(place.run(&["show", "fail/retried"]).code, 3);
}

#[test]
fn sixteen_processes_do_it_once_and_print_the_same() {
    let place = place();
    let script = "echo x >> effects; date +%N; sleep 0.5";
    let processes: Vec<_> = (0..16)
        .map(|_| {
            let mut command = place.command(&["once", "race", "--wait", "90s", "--", "sh", "-c", script]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
        })
        .collect();
    let ran: Vec<_> =
        processes.into_iter().map(|process| Ran::of(process.wait_with_output().expect("ended"))).collect();
    assert_eq!(place.lines("effects"), 1);
    for one in &ran {
        assert_eq!((one.code, &one.stdout), (0, &ran[0].stdout), "{}", one.said);
    }
    assert_eq!(ran.iter().filter(|one| one.said.contains("ran race")).count(), 1);
}

#[test]
fn a_caller_that_comes_while_it_runs_is_told_the_owner() {
    let place = place();
    let mut command =
        place.command(&["once", "busy", "--as", "the/first", "--", "sh", "-c", "echo x > started; sleep 3"]);
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    place.await_line("started");
    let second = place.once("busy", &[], "echo ran twice");
    assert_eq!((second.code, second.text()), (75, ""));
    assert!(second.said.starts_with("locker: busy is in progress: begun "), "{}", second.said);
    assert!(second.said.contains(" ago by the/first on "), "{}", second.said);
    assert!(second.said.ends_with("; its command is running\n"), "{}", second.said);
    let waited = place.once("busy", &["--wait", "60s"], "echo ran twice");
    assert_eq!((waited.code, waited.text()), (0, ""), "{}", waited.said);
    assert!(first.wait().expect("ended").success());
}

#[test]
fn command_on_a_restored_table_is_held_and_runs_after_release() {
    let place = place();
    let mut closed =
        place.command(&["--restored", "2026-11-01", "once", "backup", "--", "sh", "-c", "echo x >> effects"]);
    let held = Ran::of(closed.output().expect("the command runs"));
    assert_eq!((held.code, held.text()), (5, ""), "{}", held.said);
    assert_eq!(
        held.said,
        "locker: backup is held for an operator, and its command was not run: the table was restored and may have \
         forgotten an earlier run; use `locker resolve` if it ran before, or `locker release` to run it now\n"
    );
    let released = place.act(&["release", "backup", "--reason", "the backup is not there"]);
    assert_eq!(released.code, 0, "{}", released.said);
    let ran = Ran::of(closed.output().expect("the command runs"));
    assert_eq!((ran.code, place.lines("effects")), (0, 1), "{}", ran.said);
}

#[test]
fn a_command_that_cannot_be_started_leaves_nothing() {
    let place = place();
    let ran = place.run(&["once", "absent", "--", "/no/such/command"]);
    assert_eq!(ran.code, 127);
    assert!(
        ran.said.starts_with("locker: cannot start /no/such/command: No such file or directory"),
        "{}",
        ran.said
    );
    assert_eq!(place.run(&["show", "absent"]).code, 3);
}

#[test]
fn a_killed_process_stays_visible_and_its_work_is_not_repeated() {
    let place = place();
    // The script takes the place of its shell, so that killing it leaves nothing behind.
    let script = "echo x >> effects; echo $$ > child; exec sleep 60";
    let mut command = place.command(&["once", "killed", "--expect", "1s", "--", "sh", "-c", script]);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    place.await_line("child");
    process.kill().expect("SIGKILL");
    process.wait().expect("ended");
    let child = std::fs::read_to_string(place.path("child")).expect("a pid");
    kill(Pid::from_raw(child.trim().parse().expect("a number")), Signal::SIGKILL)
        .expect("the command ends too");

    until(|| {
        place.run(&["ls", "tokens", "--due", "--output", "json"]).json()["tokens"][0]["lockToken"] == "killed"
    });
    let again = place.once("killed", &[], "echo x >> effects");
    assert_eq!(again.code, 75, "{}", again.said);
    assert!(again.said.contains("overdue, see `locker ls tokens --due`"), "{}", again.said);
    assert_eq!(place.lines("effects"), 1);
}

#[test]
fn a_command_that_takes_longer_than_expected_is_not_overdue() {
    let place = place();
    let mut command =
        place.command(&["once", "slow", "--expect", "1s", "--", "sh", "-c", "echo x > started; sleep 4"]);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    place.await_line("started");
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let due = place.show("slow")["expectedCompletion"].as_str().expect("a time").to_owned();
        let created = place.show("slow")["created"].as_str().expect("a time").to_owned();
        assert!(due > created);
    }
    let extended = place.show("slow");
    assert!(process.wait().expect("ended").success());
    let apart = |name: &str| {
        chrono::DateTime::parse_from_rfc3339(extended[name].as_str().expect("a time")).expect("a time")
    };
    assert!(
        apart("expectedCompletion") - apart("created") > chrono::TimeDelta::milliseconds(2000),
        "{extended}"
    );
    assert_eq!(place.show("slow")["state"], "completed");
}

#[test]
fn an_interrupted_command_is_in_doubt() {
    let place = place();
    let script = "trap 'exit 3' TERM; echo x > started; while :; do sleep 0.1; done";
    let mut command = place.command(&["once", "stopped", "--", "sh", "-c", script]);
    let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    place.await_line("started");
    kill(Pid::from_raw(process.id().cast_signed()), Signal::SIGTERM).expect("SIGTERM");
    let ran = Ran::of(process.wait_with_output().expect("ended"));
    assert_eq!(ran.code, 3);
    assert!(ran.said.contains("locker: the outcome of stopped is unknown"), "{}", ran.said);
    assert_eq!(place.show("stopped")["state"], "inProgress");
}

#[test]
fn a_reader_that_goes_away_does_not_lose_the_answer() {
    let place = place();
    let mut command = place.command(&["once", "pipe", "--", "sh", "-c", "yes line | head -n 100000"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    drop(process.stdout.take());
    assert!(process.wait().expect("ended").success());
    assert_eq!(place.once("pipe", &[], "true").stdout.len(), 500_000);
}

#[test]
fn a_command_that_a_signal_ended_is_in_doubt_or_held() {
    let place = place();
    let killed = place.once("signal/default", &[], "echo out; kill -9 $$");
    assert_eq!((killed.code, killed.text()), (137, "out\n"), "{}", killed.said);
    assert!(killed.said.contains(" is unknown; it stays in progress"), "{}", killed.said);
    assert_eq!(place.show("signal/default")["state"], "inProgress");
    let retried = place.once("signal/retry", &["--retry-on-failure"], "kill -9 $$");
    assert_eq!((retried.code, place.show("signal/retry")["state"].as_str()), (137, Some("inProgress")));
    let held = place.once("signal/hold", &["--hold-on-failure"], "kill -9 $$");
    assert_eq!((held.code, place.show("signal/hold")["state"].as_str()), (137, Some("held")));
}

#[test]
fn token_whose_release_fails_stays_in_progress() {
    let place = place();
    let engine = Embedded::memory().expect("an engine");
    let served = Counted::start(&engine);
    let at = ["--table", "locks", "--endpoint-url", served.endpoint()];
    let run = |call: &[&str]| bare(&place, &[&at[..], call].concat(), &[]);
    assert_eq!(run(&["table", "create"]).code, 0);
    served.deny("DeleteItem");
    let ran = run(&["once", "mail", "--retry-on-failure", "--", "sh", "-c", "exit 8"]);
    assert_eq!(ran.code, 8, "{}", ran.said);
    assert!(ran.said.contains("mail ended with exit 8, but this could not be stored"), "{}", ran.said);
    assert!(!ran.said.contains("held"), "{}", ran.said);
    assert_eq!(run(&["show", "mail", "--output", "json"]).json()["state"], "inProgress");
}
