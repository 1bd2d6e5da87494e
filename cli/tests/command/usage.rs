//! Used wrongly on purpose: each mistake has its text and its code, and writes nothing.

use crate::place::{Place, Ran};

#[test]
fn mistakes_are_named_with_what_to_do() {
    let place = Place::new();
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["once", "", "--", "true"],
            2,
            "locker: the key is empty; name what is to be done once, such as order/create/12345\n",
        ),
        (
            &["once", "a b", "--", "true"],
            2,
            "locker: the key has a space at byte 1; keys are printable ASCII without spaces, so encode or hash it first\n",
        ),
        (
            &["once", "käse", "--", "true"],
            2,
            "locker: the key has a character outside ASCII at byte 1; keys are printable ASCII without spaces, so encode or hash it first\n",
        ),
        (
            &["once", "k", "--expect", "0s", "--", "true"],
            2,
            "locker: expect_within is 0ns; it must be from 1s to 366 days\n",
        ),
        (
            &["once", "k", "--retain", "1s", "--", "true"],
            2,
            "locker: the retention is 1s; it must be from 60s to 3660 days; to keep answers for ever, say so\n",
        ),
        (
            &["once", "k", "--wait", "0s", "--", "true"],
            2,
            "locker: wait_for is 0ns; it must be from 1ms to 86400s\n",
        ),
        (
            &["show", "nothing"],
            3,
            "locker: there is no token nothing; `locker ls` lists what is unfinished\n",
        ),
        (
            &["release", "nothing", "--reason", "x"],
            3,
            "locker: there is no token nothing; `locker ls` lists what is unfinished\n",
        ),
        (
            &["release", "nothing", "--reason", " "],
            2,
            "locker: the reason is 1 to 1000 bytes; say why, for whoever reads the record next\n",
        ),
        (
            &["resolve", "nothing", "--reason", "x", "--result", "sent"],
            2,
            "locker: --result is not JSON: expected value at line 1 column 1; a text needs quotes, as in --result '\"sent\"'\n",
        ),
    ];
    for (arguments, code, said) in cases {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.said.as_str(), ran.text()), (*code, *said, ""), "{arguments:?}");
    }
    for (arguments, part) in [
        (&["once", "k"][..], "<COMMAND>..."),
        (&["once", "k", "--expect", "soon", "--", "true"], "write it like 30s, 5m, 2h or 3d"),
        (&["once", "k", "--retain", "long", "--", "true"], "or say forever"),
        (&["once", "k", "--retry-on-failure", "--hold-on-failure", "--", "true"], "cannot be used with"),
        (&["release", "k"], "--reason <TEXT>"),
        (&["ls", "--status", "done"], "[possible values: inProgress, error]"),
        (&["ls", "--shards", "0"], "shards is 0; it must be from 1 to 1000"),
        (&["frobnicate"], "unrecognized subcommand"),
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.said);
        assert!(ran.said.contains(part), "{arguments:?}: {}", ran.said);
    }
    assert_eq!(place.run(&["ls", "--output", "json"]).json()["tokens"].as_array().map(Vec::len), Some(0));
}

fn bare(place: &Place, arguments: &[&str]) -> Ran {
    Ran::of(place.bare(arguments).output().expect("the command runs"))
}

#[test]
fn where_the_table_is_must_be_clear() {
    let place = Place::new();
    let both = bare(&place, &["ls", "--local", "here", "--table", "locks"]);
    assert_eq!(
        (both.code, both.said.as_str()),
        (2, "locker: --local keeps the table in a directory and --table uses one of DynamoDB; choose one\n")
    );
    let lost = bare(&place, &["ls", "--endpoint-url", "http://127.0.0.1:9"]);
    assert_eq!(
        (lost.code, lost.said.as_str()),
        (2, "locker: --endpoint-url is for a table of DynamoDB; add --table NAME\n")
    );
    let odd = bare(&place, &["ls", "--table", "a table"]);
    assert_eq!(
        (odd.code, odd.said.as_str()),
        (2, "locker: a table name is 3 to 255 letters, digits, -, _ and ., or the ARN of a table\n")
    );
    // What is typed beats what is exported.
    let mut typed = place.bare(&["ls", "--local", "here"]);
    let typed = Ran::of(typed.env("LOCKER_TABLE", "elsewhere").output().expect("the command runs"));
    assert_eq!(typed.code, 0, "{}", typed.said);
    assert!(place.path("here/locker.db").exists());
}

#[test]
fn a_directory_that_cannot_be_used_says_so() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").expect("written");
    let ran = bare(&place, &["ls", "--local", "file"]);
    assert_eq!(ran.code, 78);
    assert!(ran.said.starts_with("locker: cannot make the embedded table in file: "), "{}", ran.said);
    std::fs::create_dir(place.path("odd")).expect("made");
    std::fs::write(place.path("odd/locker.db"), "this is not a database, and long enough to tell")
        .expect("written");
    let ran = bare(&place, &["ls", "--local", "odd"]);
    assert_eq!(ran.code, 78);
    assert!(ran.said.starts_with("locker: cannot open the embedded table in odd: "), "{}", ran.said);
}

#[test]
fn an_aws_table_that_cannot_be_reached_says_why() {
    let place = Place::new();
    let unreachable = bare(&place, &["ls", "--table", "locks", "--endpoint-url", "http://127.0.0.1:9"]);
    assert_eq!(unreachable.code, 69);
    assert!(
        unreachable.said.starts_with("locker: could not list: DynamoDB was out of reach or too busy; nothing was changed, try again later: tries="),
        "{}",
        unreachable.said
    );
    let mut nobody = place.bare(&["ls", "--table", "locks", "--endpoint-url", "http://127.0.0.1:9"]);
    nobody
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY")
        .env("HOME", place.path("nobody"));
    let nobody = Ran::of(nobody.output().expect("the command runs"));
    assert_eq!(nobody.code, 78);
    assert!(
        nobody.said.starts_with("locker: could not list: no credentials were found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run under a role"),
        "{}",
        nobody.said
    );
    if !place.is_embedded() {
        let endpoint = std::env::var("LOCKER_TEST_ENDPOINT").expect("set");
        let absent = bare(&place, &["ls", "--table", "absent", "--endpoint-url", &endpoint]);
        assert_eq!(absent.code, 78);
        assert!(absent.said.contains("the table absent does not exist"), "{}", absent.said);
    }
}

#[test]
fn help_begins_with_what_it_is_and_has_examples() {
    let place = Place::new();
    let help = place.run(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.text().starts_with("Once-only execution with lock tokens on DynamoDB"), "{}", help.text());
    assert!(help.text().contains("locker once report/2026-11 -- ./send-report.sh"));
    assert!(help.text().contains("75 in progress"));
}
