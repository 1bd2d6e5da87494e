//! The history of calls, and its check.

use std::process::Stdio;

use locker_tests::command::{Place, Ran};

use crate::place;

const FILE: &str = "history.jsonl";

fn check(place: &Place, options: &[&str]) -> Ran {
    let arguments = ["history", "check", FILE];
    place.run(&[arguments.as_slice(), options].concat())
}

#[test]
fn many_processes_share_a_file_and_what_they_did_is_in_order() {
    let place = place();
    let script =
        "echo '{\"token\":\"race\",\"at\":\"'$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)'\"}' >> books; sleep 0.2";
    let processes: Vec<_> = (0..8)
        .map(|_| {
            let mut command = place.command(&["once", "race", "--wait", "90s", "--", "sh", "-c", script]);
            command.env("LOCKER_HISTORY", FILE).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("started")
        })
        .collect();
    for mut process in processes {
        assert!(process.wait().expect("ended").success());
    }
    let checked = check(&place, &["--effects", "books", "--at-most-once", "--output", "json"]);
    assert_eq!(checked.code, 0, "{}{}", checked.text(), checked.said);
    let report = &checked.json()["report"];
    assert_eq!(
        (&report["acquired"], &report["replays"], &report["effects"]),
        (&1.into(), &7.into(), &1.into())
    );
    assert!(checked.said.ends_with("; 0 broken promises\n"), "{}", checked.said);

    // The provider says otherwise.
    place.run(&["once", "other", "--", "sh", "-c", "tail -n 1 books >> books"]);
    let checked = check(&place, &["--effects", "books"]);
    assert_eq!(checked.code, 5);
    assert!(checked.text().starts_with("BROKEN  race: it happened 2 times: at "), "{}", checked.text());
    assert!(checked.said.ends_with("; 1 broken promises\n"), "{}", checked.said);
    assert_eq!(check(&place, &["--effects", "books", "--only", "elsewhere"]).code, 3);
}

#[test]
fn what_is_left_unfinished_is_listed() {
    let place = place();
    let ran = place.run(&["--history", FILE, "once", "cut/short", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ran.code, 137);
    let checked = check(&place, &[]);
    assert_eq!((checked.code, checked.text()), (0, "unfinished  cut/short\n"), "{}", checked.said);
    let result = r#"{"exit":0,"stdout":"sent\n"}"#;
    let resolve = ["--history", FILE, "resolve", "cut/short", "--reason", "it was sent", "--result", result];
    let resolved = place.run(&resolve);
    assert_eq!(resolved.code, 0, "{}", resolved.said);
    let after = place.run(&["--history", FILE, "once", "cut/short", "--no-fingerprint", "--", "true"]);
    assert_eq!(after.text(), "sent\n");
    assert_eq!((check(&place, &[]).code, check(&place, &[]).text()), (0, ""));
}

#[test]
fn what_cannot_be_read_says_so() {
    let place = place();
    assert_eq!(check(&place, &[]).code, 3);
    std::fs::write(place.path(FILE), "a log without a history\n").expect("written");
    let none = check(&place, &[]);
    assert_eq!(none.code, 3);
    assert!(none.said.starts_with("locker: no history found; "), "{}", none.said);
    let nowhere = place.run(&["--history", "no/such/directory", "once", "k", "--", "true"]);
    assert_eq!(nowhere.code, 78);
    assert!(
        nowhere.said.starts_with("locker: cannot write the history to no/such/directory: "),
        "{}",
        nowhere.said
    );
    assert_eq!(place.run(&["show", "k"]).code, 3);
}
