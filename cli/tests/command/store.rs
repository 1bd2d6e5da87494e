//! The embedded engine: one file for many processes, and no port.

use std::process::Stdio;

use locker_tests::command::{Place, Ran};

use crate::place;

fn all_at_once(place: &Place, arguments: impl Fn(usize) -> Vec<String>) -> Vec<Ran> {
    let started = (0..16).map(|number| {
        let arguments = arguments(number);
        let mut command = place.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    });
    let started: Vec<_> = started.collect();
    started.into_iter().map(|process| Ran::of(process.wait_with_output().expect("ended"))).collect()
}

#[test]
fn sixteen_processes_on_one_new_file_see_no_error() {
    let place = place();
    for round in 0..2 {
        let ran = all_at_once(&place, |number| {
            let key = format!("each/{round}/{number}");
            let script = format!("echo {number} >> effects; echo {number}");
            ["once", &key, "--", "sh", "-c", &script].map(str::to_owned).to_vec()
        });
        for (number, ran) in ran.iter().enumerate() {
            let said = format!("locker: ran each/{round}/{number} and stored its answer\n");
            assert_eq!(
                (ran.code, ran.text(), ran.said.as_str()),
                (0, format!("{number}\n").as_str(), &*said)
            );
        }
        assert_eq!(place.lines("effects"), 16 * (round + 1));
    }
    // The same keys again, and one that is new to all.
    let ran = all_at_once(&place, |number| {
        // The command line is the fingerprint, so all who use a key name the same command.
        let (key, script) = if number % 2 == 0 {
            ("one".to_owned(), "echo one >> ones; cat go".to_owned())
        } else {
            (format!("each/0/{number}"), format!("echo {number} >> effects; echo {number}"))
        };
        ["once", &key, "--wait", "60s", "--", "sh", "-c", &script].map(str::to_owned).to_vec()
    });
    let codes: Vec<i32> = ran.iter().map(|ran| ran.code).collect();
    assert!(
        ran.iter().step_by(2).all(|one| (one.code, &one.stdout) == (codes[0], &ran[0].stdout)),
        "{codes:?}"
    );
    for (number, ran) in ran.iter().enumerate().skip(1).step_by(2) {
        assert_eq!((ran.code, ran.text()), (0, format!("{number}\n").as_str()), "{}", ran.said);
    }
    assert_eq!((place.lines("ones"), place.lines("effects")), (1, 32));
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_else_reaches_the_tables_of_a_running_command() {
    let place = place();
    let script = "echo x > started; until [ -e go ]; do sleep 0.05; done";
    let mut command = place.command(&["once", "quiet", "--expect", "5m", "--", "sh", "-c", script]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    place.await_line("started");
    let ports = locker_tests::command::listening(running.id());
    std::fs::write(place.path("go"), "").expect("written");
    assert!(running.wait().expect("ended").success());
    assert!(ports.is_empty(), "it listens on {ports:?}");
}

#[cfg(unix)]
#[test]
fn the_file_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = place();
    let mode = |file: &str| std::fs::metadata(place.path(file)).expect("a file").permissions().mode() & 0o777;
    let table =
        Ran::of(place.bare(&["table", "create", "--local=store"]).output().expect("the command runs"));
    assert_eq!(table.code, 0, "{}", table.said);
    assert_eq!((mode("store"), mode("store/locker.db")), (0o700, 0o600));
}

#[test]
fn a_file_that_is_damaged_is_named_and_left_as_it_is() {
    let place = place();
    std::fs::create_dir(place.path("store")).expect("made");
    let damaged = "not what it was\n".repeat(500);
    std::fs::write(place.path("store/locker.db"), &damaged).expect("written");
    let ran = Ran::of(place.bare(&["ls", "--local=store"]).output().expect("the command runs"));
    let store = place.path("store").display().to_string();
    let said = format!(
        "locker: cannot open the embedded tables in {store}: {store}/locker.db holds no embedded tables: it is damaged, \
         or another program made it; nothing in it was changed; restore it from a copy, or move it away to start \
         with empty tables\n"
    );
    assert_eq!((ran.code, ran.said), (78, said));
    assert_eq!(std::fs::read_to_string(place.path("store/locker.db")).expect("text"), damaged);
}
