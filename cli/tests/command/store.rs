//! The embedded engine: one file for many processes, and no port.

use std::process::Stdio;

use locker_tests::command::{Place, Ran};

use crate::{bare, place};

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

/// What was changed of a file besides its content.
#[cfg(unix)]
fn mode(place: &Place, file: &str) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;

    std::fs::symlink_metadata(place.path(file)).expect("a file").permissions().mode() & 0o7777
}

#[cfg(unix)]
fn set_mode(place: &Place, file: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;

    std::fs::set_permissions(place.path(file), std::fs::Permissions::from_mode(mode)).expect("changed");
}

#[cfg(unix)]
#[test]
fn no_verb_changes_the_mode_of_a_file_that_is_no_store() {
    let place = place();
    std::fs::create_dir(place.path("store")).expect("made");
    std::fs::write(place.path("store/locker.db"), "another program's\n".repeat(500)).expect("written");
    std::fs::write(place.path("elsewhere"), "another program's\n".repeat(500)).expect("written");
    std::fs::create_dir(place.path("linked")).expect("made");
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("linked/locker.db")).expect("linked");
    set_mode(&place, "store/locker.db", 0o644);
    set_mode(&place, "elsewhere", 0o644);
    for (store, said) in
        [("store", "holds no embedded tables"), ("linked", "it is a link; name the directory")]
    {
        for verb in [&["ls"][..], &["once", "k", "--", "touch", "ran"], &["table", "create"]] {
            let ran = bare(&place, &[&[format!("--local={store}").as_str()], verb].concat(), &[]);
            assert!(ran.code == 78 && ran.said.contains(said), "{store} {verb:?}: {}", ran.said);
        }
    }
    assert_eq!((mode(&place, "store/locker.db"), mode(&place, "elsewhere")), (0o644, 0o644));
    assert!(!place.path("ran").exists());
}

#[cfg(unix)]
#[test]
fn a_store_that_others_may_read_becomes_its_users_alone() {
    let place = place();
    let create = bare(&place, &["table", "create", "--local=store"], &[]);
    assert_eq!(create.code, 0, "{}", create.said);
    set_mode(&place, "store/locker.db", 0o644);
    let ran = bare(&place, &["ls", "--local=store"], &[]);
    assert_eq!((ran.code, mode(&place, "store/locker.db")), (0, 0o600), "{}", ran.said);
}

#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_seen_is_not_reported_as_absent() {
    use std::os::unix::process::CommandExt as _;

    let place = place();
    std::fs::write(place.path("file"), "").expect("written");
    std::os::unix::fs::symlink("loop", place.path("loop")).expect("linked");
    let create = bare(&place, &["table", "create", "--local=store"], &[]);
    assert_eq!(create.code, 0, "{}", create.said);
    let store = place.path("store").display().to_string();
    let mut as_another = place.bare(&["ls", &format!("--local={store}")]);
    as_another.current_dir("/");
    if nix::unistd::geteuid().is_root() {
        // The place is readable by root alone.
        as_another.uid(65_534).gid(65_534);
    } else {
        set_mode(&place, "store", 0);
    }
    let as_another = Ran::of(as_another.output().expect("the command runs"));
    set_mode(&place, "store", 0o700);
    for ran in
        [as_another, bare(&place, &["ls", "--local=file"], &[]), bare(&place, &["ls", "--local=loop"], &[])]
    {
        assert_eq!(ran.code, 78, "{}", ran.said);
        assert!(ran.said.starts_with("locker: cannot open the embedded tables in "), "{}", ran.said);
        assert!(ran.said.ends_with("; run this as its owner, or name another directory\n"), "{}", ran.said);
    }
}

#[test]
fn a_clock_behind_the_last_use_of_a_store_is_refused() {
    let place = place();
    let verbs = [&["ls"][..], &["status"], &["once", "k", "--", "touch", "ran"]];
    let run = |verb: &[&str]| bare(&place, &[&["--local=store"], verb].concat(), &[]);
    assert_eq!(run(&["table", "create"]).code, 0);
    let file = place.path("store/locker.db");
    let open = || std::fs::File::options().append(true).open(&file).expect("a file");
    let changed = || file.metadata().and_then(|found| found.modified()).expect("a time");
    // Each use is remembered.
    let hour = std::time::Duration::from_secs(3600);
    for verb in verbs {
        let before = changed() - hour;
        open().set_modified(before).expect("set");
        assert_eq!(run(verb).code, 0);
        assert!(changed() > before, "{verb:?}");
    }
    std::fs::remove_file(place.path("ran")).expect("it ran");
    open().set_modified(changed() + hour).expect("set");
    for verb in verbs {
        let ran = run(verb);
        assert_eq!((ran.code, ran.text()), (78, ""), "{verb:?}: {}", ran.said);
        assert!(ran.said.contains("the clock of this machine is "), "{}", ran.said);
        assert!(ran.said.ends_with(&format!("run `touch {}`\n", file.display())), "{}", ran.said);
    }
    assert!(!place.path("ran").exists());
    open().set_modified(changed() - hour).expect("set");
    assert_eq!(run(&["ls"]).code, 0);
}
