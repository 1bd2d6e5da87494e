//! The output of a command: passed on in full, kept in bounded memory, and replayed with its exit
//! status.

use std::process::Stdio;

use locker_tests::command::{Ran, until};

use crate::place;

#[test]
fn output_beyond_the_limit_is_cut_and_replayed_with_the_same_exit_status() {
    let place = place();
    for (key, length, code) in [("random", 3_000_000, 0), ("failed", 3_000_000, 4), ("fits/not", 900_000, 0)]
    {
        let script = format!("echo x >> effects; head -c {length} /dev/urandom; exit {code}");
        let first = place.once(key, &[], &script);
        assert_eq!((first.code, first.stdout.len()), (code, length), "{}", first.said);
        assert!(
            first.said.contains(&format!(" of {length} bytes of its output are kept\n")),
            "{}",
            first.said
        );
        let second = place.once(key, &[], &script);
        assert_eq!(second.code, code, "{}", second.said);
        assert!(second.stdout.len() >= 64 * 1024, "{} bytes", second.stdout.len());
        assert!(first.stdout.starts_with(&second.stdout));
        assert!(
            second.said.contains(&format!(" of {length} bytes of its output are kept\n")),
            "{}",
            second.said
        );
        let state = if code == 0 { "completed" } else { "failed" };
        assert_eq!(place.show(key)["state"], state);
    }
    assert_eq!(place.lines("effects"), 3);
}

#[test]
fn text_without_the_end_of_a_line_is_passed_on_at_once() {
    let place = place();
    // A question without an answer ends after a minute.
    let script = "for name in one two; do printf \"$name? \"; for n in $(seq 600); do \
                  test -f $name && continue 2; sleep 0.1; done; exit 1; done";
    let mut process = place
        .command(&["once", "asks", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut stdout = process.stdout.take().expect("a pipe");
    let read = std::sync::Arc::<std::sync::Mutex<Vec<u8>>>::default();
    let asked = read.clone();
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 5];
        while let Ok(()) = std::io::Read::read_exact(&mut stdout, &mut bytes) {
            asked.lock().expect("the text").extend(bytes);
        }
    });
    for (name, text) in [("one", "one? "), ("two", "one? two? ")] {
        until(|| *read.lock().expect("the text") == text.as_bytes() || reader.is_finished());
        assert!(!reader.is_finished(), "{name} was not asked in time");
        std::fs::write(place.path(name), "").expect("written");
    }
    assert!(process.wait().expect("ended").success());
    reader.join().expect("read");
}

#[test]
fn how_much_output_is_kept_can_be_said() {
    let place = place();
    for _ in 0..2 {
        let cut = place.once("cut", &["--keep-output", "5"], "printf 123456789; exit 2");
        assert_eq!(cut.code, 2);
        assert!(cut.said.contains("5 of 9 bytes of its output are kept"), "{}", cut.said);
    }
    assert_eq!(place.once("cut", &["--keep-output", "5"], "printf 123456789; exit 2").text(), "12345");
    let none = place.once("none", &["--no-output"], "echo out; echo secret >&2; exit 3");
    assert_eq!((none.code, none.text()), (3, "out\n"), "{}", none.said);
    assert!(none.said.starts_with("secret\n"), "{}", none.said);
    let again = place.once("none", &["--no-output"], "echo out; echo secret >&2; exit 3");
    assert_eq!((again.code, again.text()), (3, ""), "{}", again.said);
    assert!(again.said.contains("its output was not kept"), "{}", again.said);
    assert!(!place.show("none").to_string().contains("secret"));
    assert_eq!(place.once("both", &["--no-output", "--keep-output", "5"], "true").code, 2);
}

/// The most memory of a process, in KiB.
#[cfg(target_os = "linux")]
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
#[cfg(target_os = "linux")]
fn much_output_takes_little_memory() {
    let place = place();
    let run = |key: &str, script: &str| {
        let mut command = place.command(&["once", key, "--", "sh", "-c", script]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        let mut most = 0;
        while process.try_wait().expect("waited").is_none() {
            most = most.max(peak(process.id()).unwrap_or(0));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        most
    };
    let (little, much) = (run("little", "echo x"), run("much", "head -c 128M /dev/zero"));
    let replayed = place.run(&["once", "much", "--", "sh", "-c", "head -c 128M /dev/zero"]);
    assert_eq!(replayed.code, 0, "{}", replayed.said);
    assert!(!replayed.stdout.is_empty());
    assert!(little > 0 && much < little + 48 * 1024, "{little} KiB, and {much} KiB with 128 MiB of output");
}

#[test]
fn standard_error_passes_through_and_its_end_is_the_cause() {
    let place = place();
    let script = "printf 'b\\000\\033[31mytes' >&2; echo; seq 1 2000 >&2; echo '\\033[31msmtp: 550 relay denied' >&2; exit 5";
    let mut command = place.command(&["once", "mail", "--", "sh", "-c", script]);
    let ran: Ran = Ran::of(command.output().expect("the command runs"));
    assert_eq!(ran.code, 5);
    assert!(ran.said.starts_with("b\0\u{1b}[31mytes1\n2\n3\n"), "{:?}", &ran.said[..30]);
    assert_eq!(ran.said.lines().filter(|line| line.len() == 4).count(), 1001, "1000 to 2000");
    let shown = place.show("mail");
    let stderr = shown["result"]["stderr"].as_str().expect("the tail of standard error");
    assert!(stderr.ends_with("2000\n\u{1b}[31msmtp: 550 relay denied\n"), "{stderr}");
    assert!(stderr.len() <= 2048, "{}", stderr.len());
    let again = place.once("mail", &[], script);
    assert_eq!(again.code, 5);
    assert!(
        again.said.contains("failed with exit 5: \u{fffd}[31msmtp: 550 relay denied"),
        "{:?}",
        again.said
    );
    // A record of an earlier version has the same form without it.
    place.once("quiet", &[], "exit 6");
    assert_eq!(place.show("quiet")["result"].get("stderr"), None);
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_a_full_disk_refuses_is_a_failure_although_the_work_is_done() {
    let place = place();
    let into_full_disk = |code: u8| {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full disk");
        let script = format!("echo x >> effects; echo out; exit {code}");
        let key = format!("dump/{code}");
        let mut command = place.command(&["once", &key, "--", "sh", "-c", &script]);
        Ran::of(command.stdout(full).output().expect("the command runs"))
    };
    const LOST: &str = "its output could not be printed: No space left";
    for (code, effects) in [(0, 1), (3, 2)] {
        // The first call runs the command, and the second one replays it.
        for said in ["ran dump/", "replayed dump/"] {
            let ran = into_full_disk(code);
            assert_eq!(ran.code, i32::from(code.max(1)), "{}", ran.said);
            assert!(ran.said.contains(LOST) && ran.said.contains(said), "{}", ran.said);
        }
        assert_eq!(place.lines("effects"), effects);
        let again =
            place.once(&format!("dump/{code}"), &[], &format!("echo x >> effects; echo out; exit {code}"));
        assert_eq!((again.code, again.text()), (i32::from(code), "out\n"), "{}", again.said);
    }
}
