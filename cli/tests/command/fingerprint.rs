//! A key stands for one command line, unless told otherwise.

use locker_tests::command::{Place, Ran};

use crate::place;

fn once(place: &Place, options: &[&str], command: &[&str]) -> Ran {
    place.run(&[&["once", "k"], options, &["--"], command].concat())
}

#[test]
fn another_command_under_the_same_key_is_refused_and_not_run() {
    let place = place();
    assert_eq!(once(&place, &[], &["echo", "a b"]).text(), "a b\n");
    assert_eq!(once(&place, &[], &["echo", "a b"]).text(), "a b\n");
    for other in [&["echo", "a", "b"][..], &["echo", "a b", ""], &["touch", "ran"], &["echoa b"]] {
        let ran = once(&place, &[], other);
        assert_eq!((ran.code, ran.text()), (65, ""), "{other:?}: {}", ran.said);
        assert!(ran.said.contains(": the command line differs, and nothing was run; "), "{}", ran.said);
        assert!(ran.said.contains("--no-fingerprint") && !ran.said.contains("new key"), "{}", ran.said);
    }
    assert!(!place.path("ran").exists());
    let replayed = once(&place, &["--no-fingerprint"], &["touch", "ran"]);
    assert_eq!((replayed.code, replayed.text()), (0, "a b\n"), "{}", replayed.said);
}

#[test]
fn a_fingerprint_of_ones_own_replaces_the_command_line() {
    let place = place();
    let text = ["--fingerprint", "100 to alice"];
    assert_eq!(once(&place, &text, &["echo", "paid"]).text(), "paid\n");
    assert_eq!(once(&place, &text, &["echo", "paid", "on another host"]).text(), "paid\n");
    let other = once(&place, &["--fingerprint", "999 to alice"], &["echo", "paid"]);
    assert_eq!((other.code, other.text()), (65, ""));
    assert!(other.said.contains(": the --fingerprint differs, and nothing was run; "), "{}", other.said);
    assert!(!other.said.contains("new key"), "{}", other.said);
    let both = once(&place, &["--no-fingerprint", "--fingerprint", "x"], &["true"]);
    assert_eq!(both.code, 2, "{}", both.said);
}
