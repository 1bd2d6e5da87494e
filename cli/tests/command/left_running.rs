//! What a command leaves running, and readers that go away.

use std::process::{Child, Command, Stdio};

use locker_tests::command::{Place, Ran, until};

use crate::place;

/// Starts `once` with a command that exits with 3, and leaves a process running that writes when
/// the file `go` is there. That process ends with the place.
fn start(place: &Place, key: &str, options: &[&str]) -> Child {
    let script = "echo x > started; (until test -f go || ! test -f started; do sleep 0.05; done; echo later) & \
                  echo soon; exit 3";
    let call = [&["once", key], options, &["--no-fingerprint", "--", "sh", "-c", script]].concat();
    let process = place.command(&call).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    place.await_line("started");
    process.expect("started")
}

fn go(place: &Place) {
    std::fs::write(place.path("go"), "").expect("written");
}

#[test]
fn an_outcome_is_stored_while_a_process_that_was_left_running_has_the_output() {
    let place = place();
    let mut process = start(&place, "left", &["--expect", "1s"]);
    until(|| place.show("left")["state"] == "failed");
    assert!(process.try_wait().expect("waited").is_none(), "it passes the output on");
    let stored = place.show("left");
    let replayed = place.once("left", &[], "true");
    assert_eq!((replayed.code, replayed.text()), (3, "soon\n"), "{}", replayed.said);
    let note = "a process that it started had its output open, and 5 bytes of the output are kept";
    assert!(replayed.said.contains(note), "{}", replayed.said);
    assert_eq!(stored["result"]["error"]["note"], note, "{stored}");
    go(&place);
    let ran = Ran::of(process.wait_with_output().expect("ended"));
    assert_eq!((ran.code, ran.text()), (3, "soon\nlater\n"), "{}", ran.said);
    assert!(ran.said.contains("a process that it left running has its output open"), "{}", ran.said);
    assert!(ran.said.ends_with(&format!("which is stored as its answer; {note}\n")), "{}", ran.said);
    assert_eq!(place.show("left"), stored, "it was neither extended nor stored again");
}

#[test]
fn output_is_stored_whole_without_a_reader() {
    let place = place();
    let script = "echo x > started; for n in $(seq 20); do echo $n; sleep 0.02; done; exit 3";
    let call = ["once", "slow", "--expect", "1s", "--", "sh", "-c", script];
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // More than the pipe holds, so that no output of the command has room.
    let mut other = writer.try_clone().expect("a writer");
    let fills = std::thread::spawn(move || std::io::Write::write_all(&mut other, &[b'-'; 1 << 21]));
    let process = place.command(&call).stdout(writer).stderr(Stdio::piped()).spawn().expect("started");
    place.await_line("started");
    until(|| place.show("slow")["state"] == "failed");
    let lines = (1..=20).map(|n| format!("{n}\n")).collect::<String>();
    let replayed = place.run(&call);
    assert_eq!((replayed.code, replayed.text()), (3, &*lines), "{}", replayed.said);
    let mut passed = String::new();
    std::io::Read::read_to_string(&mut reader, &mut passed).expect("text");
    fills.join().expect("ended").expect("written");
    let ran = Ran::of(process.wait_with_output().expect("ended"));
    assert_eq!((ran.code, passed.replace('-', "")), (3, lines), "{}", ran.said);
    for said in [&ran.said, &replayed.said] {
        assert!(!said.contains("open") && !said.contains("are kept"), "{said}");
    }
}

#[test]
fn a_locker_that_is_killed_while_it_passes_output_on_loses_no_outcome() {
    let place = place();
    let mut process = start(&place, "left", &[]);
    until(|| place.show("left")["state"] == "failed");
    process.kill().expect("SIGKILL");
    process.wait().expect("ended");
    go(&place);
    assert_eq!(place.once("left", &[], "true").code, 3);
}

#[test]
fn a_failure_that_is_released_is_released_while_the_output_is_open() {
    let place = place();
    let process = start(&place, "left", &["--retry-on-failure"]);
    until(|| place.run(&["show", "left"]).code == 3);
    go(&place);
    let ran = Ran::of(process.wait_with_output().expect("ended"));
    assert!(ran.code == 3 && ran.said.contains("its token was released"), "{}", ran.said);
}

/// The exit code of a call whose output nobody reads.
fn unread(command: &mut Command, stdout: bool, stderr: bool) -> Option<i32> {
    let gone = |is_gone: bool| {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        if is_gone {
            Stdio::from(writer)
        } else {
            drop(reader);
            Stdio::null()
        }
    };
    command.stdin(Stdio::null()).stdout(gone(stdout)).stderr(gone(stderr));
    command.status().expect("it ends").code()
}

#[test]
fn readers_that_go_away_change_no_exit_code() {
    let place = place();
    for code in [0, 3, 7] {
        for (number, (stdout, stderr)) in [(false, true), (true, false), (true, true)].into_iter().enumerate()
        {
            let (key, script) =
                (format!("unread/{code}/{number}"), format!("echo out; echo err >&2; exit {code}"));
            let call = ["once", &key, "--", "sh", "-c", &script];
            for round in ["ran", "replayed"] {
                let ended = unread(&mut place.command(&call), stdout, stderr);
                assert_eq!(ended, Some(code), "{round} {key}");
            }
            assert_eq!(place.run(&call).text(), "out\n");
        }
    }
    assert_eq!(place.once("held", &["--hold-on-failure"], "exit 1").code, 1);
    for call in [
        &["status"][..],
        &["ls"],
        &["-vv", "ls"],
        &["ls", "--output", "json"],
        &["scan"],
        &["doctor"],
        &["show", "held"],
        &["show", "absent"],
        &["show", "absent", "--output", "json"],
        &["audit"],
        &["plan", "release", "--need", "held", "--reason", "x"],
        &["release", "absent", "--reason", "x"],
        &["workflow", "show", "absent"],
        &["dead", "export"],
        &["table", "check"],
        &["complete"],
        &["relay"],
        &["frobnicate"],
        &["--help"],
        &["man"],
        &["completions", "bash"],
    ] {
        let read = place.run(call).code;
        for (stdout, stderr) in [(false, true), (true, false), (true, true)] {
            assert_eq!(
                unread(&mut place.command(call), stdout, stderr),
                Some(read),
                "{call:?} {stdout} {stderr}"
            );
        }
    }
}
