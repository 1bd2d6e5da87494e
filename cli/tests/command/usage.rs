//! Used wrongly on purpose: each mistake has its text and its code, and writes nothing.

use locker_tests::command::Ran;

use crate::{bare, place};

#[test]
fn mistakes_are_named_with_what_to_do() {
    let place = place();
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
            "locker: expect_within must be between 1s and 366 days, got 0ns\n",
        ),
        (
            &["once", "k", "--retain", "1s", "--", "true"],
            2,
            "locker: retention must be between 60s and 3660 days, got 1s; use forever to keep answers indefinitely\n",
        ),
        (
            &["once", "k", "--wait", "0s", "--", "true"],
            2,
            "locker: wait_for must be between 1ms and 86400s, got 0ns\n",
        ),
        (
            &["show", "nothing"],
            3,
            "locker: there is no token nothing; `locker ls tokens` lists unfinished tokens\n",
        ),
        (
            &["release", "nothing", "--reason", "x"],
            3,
            "locker: there is no token nothing; `locker ls tokens` lists unfinished tokens\n",
        ),
        (
            &["release", "nothing", "--reason", " "],
            2,
            "locker: the reason must be 1 to 1000 bytes; say why, for the next reader of the record\n",
        ),
        (
            &["resolve", "nothing", "--reason", "x", "--result", "sent"],
            2,
            "locker: --result is not JSON: expected value at line 1 column 1; a string needs quotes, as in --result '\"sent\"'\n",
        ),
        (
            &["resolve", "nothing", "--reason", "x", "--result", r#"{"exit":0,"exit":5}"#],
            2,
            "locker: --result is not clear: the member \"exit\" is there twice at line 1 column 19; name each member once\n",
        ),
    ];
    for (arguments, code, said) in cases {
        let ran = place.run(arguments);
        let found = place.without_options(&ran.said);
        assert_eq!((ran.code, found.as_str(), ran.text()), (*code, *said, ""), "{arguments:?}");
    }
    for (arguments, part) in [
        (&["once", "k"][..], "<COMMAND>..."),
        (&["once", "k", "--expect", "soon", "--", "true"], "write it like 30s, 5m, 2h or 3d"),
        (&["once", "k", "--retain", "long", "--", "true"], ", or forever"),
        (&["once", "k", "--retry-on-failure", "--hold-on-failure", "--", "true"], "cannot be used with"),
        (&["release", "k"], "--reason <TEXT>"),
        (&["ls", "letters"], "[possible values: tokens, workflows, messages]"),
        (&["ls", "--need", "needsoperator"], "expected one of inDoubt, quarantined"),
        (&["ls", "--need", "held", "--due"], "cannot be used with"),
        (&["ls", "--finished", "--need", "held"], "cannot be used with"),
        (&["ls", "--text", "a", "b"], "invalid value 'b'"),
        (&["ls", "tokens", "--topic", "order"], "--topic selects messages only, so nothing can fit"),
        (&["ls", "--need", "dead", "--within", "k"], "--within selects tokens and workflows only"),
        (&["ls", "messages", "--finished"], "--finished selects workflows only"),
        (&["status", "--every", "often"], "write it like 30s, 5m, 2h or 3d"),
        (&["status", "--every", "584542046090y"], "it is longer than 1000 years"),
        (&["audit", "--since", "9999999999d"], "it is longer than 1000 years"),
        (&["ls", "--at-least-for", "300000000y"], "it is longer than 1000 years"),
        (&["find", "relay"], "`locker find` was removed; use `locker ls --text TEXT`"),
        (&["workflow", "ls", "--due"], "use `locker ls workflows --due`"),
        (&["ls", "--shards", "0"], "shards must be between 1 and 1000, got 0"),
        (&["frobnicate"], "unrecognized subcommand"),
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.said);
        assert!(ran.said.contains(part), "{arguments:?}: {}", ran.said);
    }
    // Values of which there are a few are read in any case.
    let listed = place.run(&["ls", "Tokens", "--need", "IN-DOUBT", "--output", "Json"]);
    assert_eq!((listed.code, listed.json()["complete"].as_bool()), (0, Some(true)), "{}", listed.said);
    assert_eq!(place.run(&["ls", "--output", "json"]).json()["tokens"].as_array().map(Vec::len), Some(0));
}

#[test]
fn where_the_table_is_must_be_clear() {
    let place = place();
    for (local, code) in [(None, 78), (Some("--local"), 2)] {
        let arguments = ["ls", "--endpoint-url", "http://127.0.0.1:9"].into_iter().chain(local);
        let lost = bare(&place, &arguments.collect::<Vec<_>>(), &[]);
        assert_eq!(
            (lost.code, lost.said.as_str()),
            (code, "locker: --endpoint-url is for a table of DynamoDB; add --table NAME\n")
        );
    }
    let odd = bare(&place, &["ls", "--table", "a table"], &[]);
    assert_eq!(
        (odd.code, odd.said.as_str()),
        (2, "locker: a table name must be 3 to 255 letters, digits, -, _ and ., or the ARN of a table\n")
    );
}

#[test]
fn a_directory_that_cannot_be_used_says_so() {
    let place = place();
    std::fs::write(place.path("file"), "").expect("written");
    let cannot = |directory: &str| {
        format!("locker: cannot open the embedded tables in {}: ", place.path(directory).display())
    };
    let ran = bare(&place, &["once", "k", "--local=file", "--", "true"], &[]);
    assert_eq!(ran.code, 78);
    assert!(ran.said.starts_with(&cannot("file")), "{}", ran.said);
    std::fs::create_dir(place.path("odd")).expect("made");
    std::fs::write(place.path("odd/locker.db"), "this is not a database, and long enough to tell")
        .expect("written");
    let ran = bare(&place, &["ls", "--local=odd"], &[]);
    assert_eq!(ran.code, 78);
    assert!(ran.said.starts_with(&cannot("odd")), "{}", ran.said);
}

#[test]
fn an_aws_table_that_cannot_be_reached_says_why() {
    let place = place();
    let unreachable = bare(&place, &["ls", "--table", "locks", "--endpoint-url", "http://127.0.0.1:9"], &[]);
    assert_eq!(unreachable.code, 69);
    assert!(
        unreachable.said.contains("locker: could not list: DynamoDB was out of reach or too busy; no token or workflow was changed, try again later: tries="),
        "{}",
        unreachable.said
    );
    let mut unknown_user = place.bare(&["ls", "--table", "locks", "--endpoint-url", "http://127.0.0.1:9"]);
    unknown_user
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY")
        .env("HOME", place.path("unknown_user"));
    let unknown_user = Ran::of(unknown_user.output().expect("the command runs"));
    assert_eq!(unknown_user.code, 78);
    assert!(
        unknown_user.said.starts_with("locker: could not list: no credentials were found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run under a role"),
        "{}",
        unknown_user.said
    );
    if !place.is_embedded() {
        let endpoint = std::env::var("LOCKER_TEST_ENDPOINT").expect("set");
        let absent = bare(&place, &["ls", "--table", "absent", "--endpoint-url", &endpoint], &[]);
        assert_eq!(absent.code, 78);
        assert!(absent.said.contains("the table absent does not exist"), "{}", absent.said);
    }
}

#[test]
fn help_begins_with_what_it_is_and_has_examples() {
    let place = place();
    let help = place.run(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.text().starts_with("Once-only execution with lock tokens on DynamoDB"), "{}", help.text());
    assert!(help.text().contains("locker once report/2026-11 -- ./send-report.sh"));
    assert!(help.text().contains("75 in progress"));
    for verb in ["release", "once"] {
        let help = place.run(&[verb, "--help"]);
        let (own, shared) = help.text().split_once("Options of every verb:").expect("two parts");
        assert!(!own.contains("--output"), "{own}");
        assert!(shared.contains("--output") && shared.contains("--table"), "{shared}");
    }
    assert!(place.run(&["release", "--help"]).text().contains("--seen 0f3a9c51d2"));
}
