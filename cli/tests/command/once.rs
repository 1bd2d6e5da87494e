//! `locker once`: `flock` for the cloud.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::place::{Place, Ran, until};

#[test]
fn the_second_run_prints_the_first_ones_digits() {
    let place = Place::new();
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
    let place = Place::new();
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
    let place = Place::new();
    for _ in 0..2 {
        let kept = place.once("fail/kept", &[], "echo x >> kept; echo out; exit 7");
        assert_eq!((kept.code, kept.text()), (7, "out\n"), "{}", kept.said);
        let retried = place.once("fail/retried", &["--retry-on-failure"], "echo x >> retried; exit 8");
        assert_eq!(retried.code, 8);
        assert_eq!(
            retried.said,
            "locker: fail/retried failed with exit 8; it was released and may be tried again\n"
        );
        let held = place.once("fail/held", &["--hold-on-failure"], "echo x >> held; echo out; exit 9");
        assert_eq!((held.code, held.text()), (9, "out\n"));
        assert!(held.said.contains("is held"), "{}", held.said);
    }
    assert_eq!((place.lines("kept"), place.lines("retried"), place.lines("held")), (1, 2, 1));
    assert_eq!(place.show("fail/kept")["status"], "completedErr");
    assert_eq!(place.show("fail/held")["status"], "error");
    assert_eq!(place.run(&["show", "fail/retried"]).code, 3);
}

#[test]
fn sixteen_processes_do_it_once_and_print_the_same() {
    let place = Place::new();
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
fn who_comes_while_it_runs_is_told_who_holds_it() {
    let place = Place::new();
    let mut command =
        place.command(&["once", "busy", "--as", "the/first", "--", "sh", "-c", "echo x > started; sleep 3"]);
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    place.await_line("started");
    let second = place.once("busy", &[], "echo ran twice");
    assert_eq!((second.code, second.text()), (75, ""));
    assert!(second.said.starts_with("locker: busy is in progress: by the/first, since "), "{}", second.said);
    assert!(second.said.contains(" ago, due in "), "{}", second.said);
    let waited = place.once("busy", &["--wait", "60s"], "echo ran twice");
    assert_eq!((waited.code, waited.text()), (0, ""), "{}", waited.said);
    assert!(first.wait().expect("ended").success());
}

#[test]
fn another_request_under_the_same_key_is_refused() {
    let place = Place::new();
    assert_eq!(place.once("pay/7", &["--fingerprint", "100 to alice"], "echo paid").code, 0);
    assert_eq!(place.once("pay/7", &["--fingerprint", "100 to alice"], "echo paid").text(), "paid\n");
    let other = place.once("pay/7", &["--fingerprint", "999 to alice"], "echo paid");
    assert_eq!((other.code, other.text()), (65, ""));
    assert!(other.said.starts_with("locker: pay/7 was used for another request, by "), "{}", other.said);
}

#[test]
fn a_command_that_cannot_be_started_leaves_nothing() {
    let place = Place::new();
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
fn a_killed_process_stays_visible_and_nobody_repeats_its_work() {
    let place = Place::new();
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
        place.run(&["ls", "--overdue", "--output", "json"]).json()["tokens"][0]["lockToken"] == "killed"
    });
    let again = place.once("killed", &[], "echo x >> effects");
    assert_eq!(again.code, 75, "{}", again.said);
    assert!(again.said.contains("overdue, see `locker ls --overdue`"), "{}", again.said);
    assert_eq!(place.lines("effects"), 1);
}

#[test]
fn a_command_that_takes_longer_than_expected_is_not_overdue() {
    let place = Place::new();
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
    assert_eq!(place.show("slow")["status"], "completed");
}

#[test]
fn an_interrupted_command_is_in_doubt() {
    let place = Place::new();
    let script = "trap 'exit 3' TERM; echo x > started; while :; do sleep 0.1; done";
    let mut command = place.command(&["once", "stopped", "--", "sh", "-c", script]);
    let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    place.await_line("started");
    kill(Pid::from_raw(process.id().cast_signed()), Signal::SIGTERM).expect("SIGTERM");
    let ran = Ran::of(process.wait_with_output().expect("ended"));
    assert_eq!(ran.code, 3);
    assert!(
        ran.said.starts_with("locker: stopped was cut short, and nobody knows how far it came"),
        "{}",
        ran.said
    );
    assert_eq!(place.show("stopped")["status"], "inProgress");
}

#[test]
fn output_too_large_to_store_is_passed_on_and_held_for_a_person() {
    let place = Place::new();
    let first = place.once("large", &[], "echo x >> effects; head -c 3000000 /dev/urandom");
    assert_eq!((first.code, first.stdout.len()), (0, 3_000_000));
    assert!(first.said.contains("could not be stored: the answer has "), "{}", first.said);
    assert!(first.said.contains("it is held for a person"), "{}", first.said);
    let second = place.once("large", &[], "echo x >> effects");
    assert_eq!((second.code, second.stdout.len()), (1, 0), "{}", second.said);
    assert!(
        second.said.contains("it ended with exit 0, but its output could not be stored"),
        "{}",
        second.said
    );
    assert_eq!(place.lines("effects"), 1);
}

#[test]
fn a_reader_that_goes_away_does_not_lose_the_answer() {
    let place = Place::new();
    let mut command = place.command(&["once", "pipe", "--", "sh", "-c", "yes line | head -n 100000"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    drop(process.stdout.take());
    assert!(process.wait().expect("ended").success());
    assert_eq!(place.once("pipe", &[], "true").stdout.len(), 500_000);
}

#[test]
fn a_command_that_a_signal_ended_is_in_doubt_or_held() {
    let place = Place::new();
    let killed = place.once("signal/default", &[], "echo out; kill -9 $$");
    assert_eq!((killed.code, killed.text()), (137, "out\n"), "{}", killed.said);
    assert!(killed.said.contains("nobody knows how far it came"), "{}", killed.said);
    assert_eq!(place.show("signal/default")["status"], "inProgress");
    let retried = place.once("signal/retry", &["--retry-on-failure"], "kill -9 $$");
    assert_eq!((retried.code, place.show("signal/retry")["status"].as_str()), (137, Some("inProgress")));
    let held = place.once("signal/hold", &["--hold-on-failure"], "kill -9 $$");
    assert_eq!((held.code, place.show("signal/hold")["status"].as_str()), (137, Some("error")));
}
