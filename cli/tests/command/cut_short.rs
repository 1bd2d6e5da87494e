//! Signals, and processes that outlive each other.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use locker_tests::command::{Place, Ran, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::place;

/// Starts `once` in a session of its own, which has no terminal. `setsid` becomes the command.
fn start(place: &Place, key: &str, options: &[&str], script: &str) -> Child {
    let call = place.command(&[&["once", key], options, &["--", "sh", "-c", script]].concat());
    let mut command = Command::new("setsid");
    command.arg(call.get_program()).args(call.get_args());
    for (name, value) in call.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(call.get_current_dir().expect("a directory"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
}

/// Waits for the end, and fails if it does not come.
fn ended(mut process: Child) -> Ran {
    until(|| process.try_wait().expect("waited").is_some());
    Ran::of(process.wait_with_output().expect("ended"))
}

/// A number that a script wrote.
fn pid(place: &Place, file: &str) -> Pid {
    place.await_line(file);
    let text = std::fs::read_to_string(place.path(file)).expect("text");
    Pid::from_raw(text.trim().parse().expect("a number"))
}

fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

/// Whether its parent has read how it ended. Until then it is a zombie.
#[cfg(target_os = "linux")]
fn is_reaped(pid: Pid) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}

fn signal(process: &Child, name: Signal) {
    kill(Pid::from_raw(process.id().cast_signed()), name).expect("a signal");
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_after_the_end_ends_the_waiting_and_changes_nothing() {
    let place = place();
    // The grandchild holds the pipe after the command has ended by itself.
    let script = "sleep 300 & echo $! > grandchild; echo $$ > command; echo out; exit 3";
    let mut process = start(&place, "held/pipe", &[], script);
    let (grandchild, command) = (pid(&place, "grandchild"), pid(&place, "command"));
    // A signal that arrives before `locker` reads the output and the end would be passed on.
    let mut out = [0; 4];
    process.stdout.as_mut().expect("a pipe").read_exact(&mut out).expect("the output");
    until(|| is_reaped(command));
    signal(&process, Signal::SIGTERM);
    let ran = ended(process);
    let survived = lives(grandchild);
    kill(grandchild, Signal::SIGKILL).expect("it ends");
    assert_eq!((ran.code, &out, ran.text()), (3, b"out\n", ""), "{}", ran.said);
    assert_eq!(place.show("held/pipe")["state"], "failed", "{}", ran.said);
    assert!(survived, "what the command left running was not signalled");
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_the_waiting_for_a_slow_reader() {
    let place = place();
    let script = "echo x > started; head -c 100000 /dev/zero; exit 3";
    let mut process = start(&place, "slow", &[], script);
    place.await_line("started");
    until(|| place.show("slow")["state"] == "failed");
    signal(&process, Signal::SIGTERM);
    until(|| process.try_wait().expect("waited").is_some());
    let ran = Ran::of(process.wait_with_output().expect("ended"));
    assert!(ran.code == 3 && ran.said.contains("which is stored as its answer"), "{}", ran.said);
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_reaches_what_the_command_started() {
    let place = place();
    let script = "sleep 300 & echo $! > grandchild; wait";
    let process = start(&place, "group", &[], script);
    let grandchild = pid(&place, "grandchild");
    signal(&process, Signal::SIGTERM);
    until(|| !lives(grandchild));
    let ran = ended(process);
    assert_eq!(ran.code, 143, "{}", ran.said);
    assert_eq!(place.show("group")["state"], "inProgress");
}

/// A call on a terminal of its own. What is written to standard input is typed there.
fn on_a_terminal(place: &Place, arguments: &[&str]) -> Command {
    let call = place.command(arguments);
    let quoted: Vec<_> = std::iter::once(call.get_program())
        .chain(call.get_args())
        .map(|word| format!("'{}'", word.to_str().expect("UTF-8")))
        .collect();
    // A shell that stayed in between would be ended by what is typed; one that a job in the
    // background started ignores it.
    let line = format!("exec env --default-signal=INT {}", quoted.join(" "));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::null());
    command.current_dir(place.path("")).env("SHELL", "/bin/sh");
    for (name, value) in call.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_on_a_terminal_stays_in_the_foreground() {
    let place = place();
    let script = "ps -o pgid= -p $$ > command; ps -o pgid= -p $PPID > locker; ps -o tpgid= -p $$ > terminal";
    let mut process = on_a_terminal(&place, &["once", "tty", "--", "sh", "-c", script])
        .spawn()
        .expect("script of util-linux");
    assert!(process.wait().expect("ended").success());
    let group = pid(&place, "command");
    assert_eq!((group, group), (pid(&place, "locker"), pid(&place, "terminal")));
}

#[test]
#[cfg(target_os = "linux")]
fn interrupt_on_a_terminal_reaches_the_command_once() {
    let place = place();
    let script =
        "trap \"echo x >> typed\" INT; echo x > started; until test -f stop; do sleep 0.05; done; exit 3";
    let mut process = on_a_terminal(&place, &["once", "typed", "--", "sh", "-c", script])
        .spawn()
        .expect("script of util-linux");
    let mut keyboard = process.stdin.take().expect("a pipe");
    place.await_line("started");
    keyboard.write_all(b"\x03").expect("typed");
    place.await_line("typed");
    std::fs::write(place.path("stop"), "").expect("written");
    assert_eq!(process.wait().expect("ended").code(), Some(3));
    assert_eq!(place.lines("typed"), 1);
    assert_eq!(place.show("typed")["state"], "inProgress", "it may have ended because of the signal");
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_whose_turn_never_came_is_not_run() {
    let place = place();
    let first = start(&place, "busy", &[], "echo x > started; exec sleep 300");
    place.await_line("started");
    let mut second = start(&place, "busy", &["--wait", "60s", "--no-fingerprint"], "echo x > ran");
    let child = || {
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &second.id().to_string()]).output();
        String::from_utf8(children.expect("ps").stdout).expect("text").trim().parse().ok().map(Pid::from_raw)
    };
    until(|| child().is_some());
    let waits = child().expect("the process that waits");
    second.kill().expect("SIGKILL");
    second.wait().expect("ended");
    until(|| !lives(waits));
    assert!(!place.path("ran").exists());
    signal(&first, Signal::SIGTERM);
    assert_eq!(ended(first).code, 143);
}

#[test]
fn exit_codes_by_which_a_shell_reports_a_signal_are_in_doubt() {
    let place = place();
    for (code, state) in [
        (129, "inProgress"),
        (130, "inProgress"),
        (137, "inProgress"),
        (143, "inProgress"),
        (159, "inProgress"),
        (128, "failed"),
        (160, "failed"),
        (255, "failed"),
    ] {
        let key = format!("exit/{code}");
        let ran = place.once(&key, &[], &format!("exit {code}"));
        assert_eq!((ran.code, place.show(&key)["state"].as_str()), (code, Some(state)), "{}", ran.said);
    }
    let retried = place.once("retry", &["--retry-on-failure"], "sh -c 'kill -9 $$'; exit $?");
    assert_eq!(retried.code, 137, "{}", retried.said);
    assert!(retried.said.contains(" is unknown; it stays in progress"), "{}", retried.said);
    assert_eq!(place.show("retry")["state"], "inProgress");
    for (code, state) in [(124, "inProgress"), (255, "inProgress"), (123, "absent"), (254, "absent")] {
        let key = format!("retry/{code}");
        let ran = place.once(&key, &["--retry-on-failure"], &format!("exit {code}"));
        let shown = place.run(&["show", &key, "--output", "json"]);
        let found = if shown.code == 0 { shown.json()["state"].clone() } else { "absent".into() };
        assert_eq!((ran.code, found), (code, state.into()), "{}", ran.said);
        let kept = format!("kept/{code}");
        let ran = place.once(&kept, &[], &format!("exit {code}"));
        assert_eq!((ran.code, place.show(&kept)["state"].as_str()), (code, Some("failed")), "{}", ran.said);
    }
    let help = place.run(&["once", "--help"]);
    assert!(help.text().contains("129 to 159") && help.text().contains("124 and 255"), "{}", help.text());
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_locker_leaves_a_record_that_names_the_command() {
    let place = place();
    for (key, options, owner) in
        [("killed", &[][..], "/"), ("killed/as", &["--as", "cron@one"], "cron@one on ")]
    {
        let file = key.replace('/', "-");
        let script = format!("echo $$ > {file}; exec sleep 300");
        let mut process = start(&place, key, options, &script);
        let command = pid(&place, &file);
        process.kill().expect("SIGKILL");
        process.wait().expect("ended");
        let shown = place.show(key);
        let by = shown["lockedBy"].as_str().expect("an owner").to_owned();
        let survived = lives(command);
        kill(command, Signal::SIGKILL).expect("it ends");
        assert!(survived, "it goes on");
        assert!(by.contains(owner) && by.contains(&format!("/{command} (started ")), "{by}");
        assert!(by.ends_with(&format!(", locker {})", process.id())), "{by}");
    }
}

/// `locker` was killed, and its command goes on: to release the token would have the work done
/// twice.
#[test]
#[cfg(target_os = "linux")]
fn a_token_whose_command_lives_is_not_released_unless_told_so() {
    let place = place();
    let script = "echo $$ > command; until test -f go || ! test -f command; do sleep 0.05; done; echo charged >> effects";
    let options = ["--expect", "1s", "--no-fingerprint"];
    let mut process = start(&place, "pay/8", &options, script);
    let command = pid(&place, "command");
    process.kill().expect("SIGKILL");
    process.wait().expect("ended");
    until(|| place.run(&["ls", "tokens", "--due"]).text().contains("pay/8"));
    let shown = place.show("pay/8");
    assert_eq!(shown["commandRuns"], true, "{shown}");
    let revision = shown["revision"].as_str().expect("a revision");
    let release = ["release", "pay/8", "--reason", "it is overdue"];
    let resolve = ["resolve", "pay/8", "--reason", "it is overdue", "--result", r#"{"exit":0}"#];
    for verb in [&release[..], &resolve] {
        for seen in [&[][..], &["--seen", revision]] {
            let ran = place.run(&[verb, seen].concat());
            assert_eq!(ran.code, 4, "{verb:?} {seen:?}: {}", ran.said);
            for part in ["its work is running", "anyway, add --running", &format!("process {command} of")] {
                assert!(ran.said.contains(part), "{part} is not in {}", ran.said);
            }
        }
        assert_eq!(place.run(&[verb, &["--running"]].concat()).code, 6);
    }
    // Neither does a plan, whenever it was made.
    let plan = ["plan", "release", "--due", "--prefix", "pay/", "--reason", "it is overdue"];
    let refused = place.run(&plan);
    assert_eq!(refused.code, 3, "{}", refused.said);
    assert!(refused.text().contains("left out: token pay/8: its work is running"), "{}", refused.text());
    let again = place.once("pay/8", &[], "echo charged >> effects");
    assert_eq!(again.code, 75, "{}", again.said);
    std::fs::write(place.path("go"), "").expect("written");
    until(|| !lives(command));
    assert_eq!(place.lines("effects"), 1);
    // Refused for as long as its owner's clock may be behind.
    until(|| place.act(&resolve).code == 0);
    assert_eq!((place.once("pay/8", &[], "echo charged >> effects").code, place.lines("effects")), (0, 1));
}

#[test]
#[cfg(target_os = "linux")]
fn a_token_whose_command_lives_is_released_by_a_flag_of_that_name() {
    let place = place();
    let mut process = start(&place, "pay/9", &["--expect", "1s"], "echo $$ > command; exec sleep 300");
    let command = pid(&place, "command");
    process.kill().expect("SIGKILL");
    process.wait().expect("ended");
    until(|| place.run(&["ls", "tokens", "--due"]).text().contains("pay/9"));
    let released = place.act(&["release", "pay/9", "--running", "--reason", "it hangs"]);
    kill(command, Signal::SIGKILL).expect("it ends");
    assert_eq!(released.code, 0, "{}", released.said);
}

/// A supervisor, bash after `trap '' CHLD`, or Python after `signal(SIGCHLD, SIG_IGN)` hands down
/// that the kernel reaps the command by itself, and forgets how it ended.
#[test]
fn a_command_is_done_once_also_where_the_end_of_processes_is_ignored() {
    let place = place();
    let once = |key: &str, options: &[&str]| {
        let script = "echo charged >> books; exit 0";
        let arguments = [&["once", key], options, &["--", "sh", "-c", script]].concat();
        let plain = place.command(&arguments);
        let mut command = std::process::Command::new("env");
        command.arg("--ignore-signal=CHLD").arg(plain.get_program()).args(plain.get_args());
        command.current_dir(place.path("."));
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ran::of(command.output().expect("the command runs"))
    };
    for (key, options) in [("kept", &[][..]), ("retried", &["--retry-on-failure"])] {
        for said in ["ran", "replayed"] {
            let ran = once(key, options);
            assert!(ran.code == 0 && ran.said.starts_with(&format!("locker: {said} {key}")), "{}", ran.said);
        }
    }
    assert_eq!(place.lines("books"), 2);
}
