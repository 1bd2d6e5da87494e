//! What an operator does: list, show, resolve, release, check the table.

use serde_json::json;

use crate::place::{Place, Ran, until};

#[test]
fn failed_work_is_listed_shown_resolved_and_replayed() {
    let place = Place::new();
    place.once("report/1", &["--hold-on-failure", "--as", "cron@one"], "echo half; exit 9");
    place.once("report/2", &["--hold-on-failure", "--as", "cron@two"], "exit 1");

    let listed = place.run(&["ls", "--output", "json"]).json();
    assert_eq!(listed["complete"], true);
    let tokens = listed["tokens"].as_array().expect("a list");
    let named: Vec<_> =
        tokens.iter().map(|token| (&token["lockToken"], &token["status"], &token["lockedBy"])).collect();
    assert_eq!(
        named,
        [
            (&json!("report/1"), &json!("error"), &json!("cron@one")),
            (&json!("report/2"), &json!("error"), &json!("cron@two"))
        ]
    );
    let table = place.run(&["ls", "--status", "error"]);
    let words: Vec<Vec<_>> = table.text().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["TOKEN", "STATUS", "LOCKED", "BY", "SINCE", "DUE"]);
    assert_eq!(words[1][..3], ["report/1", "error", "cron@one"]);

    let shown = place.show("report/1");
    assert_eq!(shown["result"], json!({"class": "needsPerson", "error": {"exit": 9, "stdout": "half\n"}}));
    let resolved = place.run(&[
        "resolve",
        "report/1",
        "--reason",
        "sent by hand",
        "--as",
        "ada",
        "--result",
        r#"{"exit":0,"stdout":"sent\n"}"#,
    ]);
    assert_eq!(resolved.code, 0, "{}", resolved.said);
    assert!(resolved.said.starts_with("locker: report/1 is error, by cron@one, begun "), "{}", resolved.said);
    let shown = place.show("report/1");
    assert_eq!(
        (&shown["status"], &shown["resolvedBy"], &shown["resolvedReason"]),
        (&json!("completed"), &json!("ada"), &json!("sent by hand"))
    );
    let replayed = place.once("report/1", &[], "echo ran twice");
    assert_eq!((replayed.code, replayed.text()), (0, "sent\n"));
    assert_eq!(place.run(&["ls", "--output", "json"]).json()["tokens"].as_array().map(Vec::len), Some(1));

    let again = place.run(&["resolve", "report/1", "--reason", "twice"]);
    assert_eq!(again.code, 4);
    assert!(
        again.said.ends_with("could not resolve: the token has ended already, as completed\n"),
        "{}",
        again.said
    );
}

#[test]
fn a_released_token_is_done_anew_and_shows_who_and_why_until_then() {
    let place = Place::new();
    place.once("job", &[], "echo first");
    let released = place.run(&["release", "job", "--reason", "wrong month", "--as", "ada"]);
    assert_eq!(released.code, 0, "{}", released.said);
    let shown = place.run(&["show", "job"]);
    for part in ["released by", "ada", "wrong month"] {
        assert!(shown.text().contains(part), "{part} is not in {}", shown.text());
    }
    let anew = place.once("job", &[], "echo second");
    assert_eq!(anew.text(), "second\n");
}

#[test]
fn nothing_to_list_says_so_on_standard_error() {
    let place = Place::new();
    for (arguments, said) in [
        (&["ls"][..], "locker: nothing is in progress, and nothing failed that waits for a person\n"),
        (&["ls", "--overdue"], "locker: nothing is overdue\n"),
        (&["ls", "--status", "inProgress"], "locker: nothing is in progress\n"),
        (&["ls", "--status", "error"], "locker: nothing failed that waits for a person\n"),
    ] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.text(), ran.said.as_str()), (0, "", said));
    }
    assert_eq!(place.run(&["ls", "--output", "json"]).json(), json!({"tokens": [], "complete": true}));
}

#[test]
fn a_scan_tells_of_missing_tasks() {
    let place = Place::new();
    place.once("held", &["--hold-on-failure"], "exit 1");
    let clean = place.run(&["scan"]);
    assert_eq!(
        (clean.code, clean.text(), clean.said.as_str()),
        (0, "", "locker: 0 missing, 0 in progress, 1 failed\n")
    );
    // Cut short by a signal, it stays in progress, and is due in a second.
    place.once("lost", &["--expect", "1s", "--as", "cron@one"], "kill -9 $$");
    until(|| place.run(&["scan"]).code == 5);
    let scanned = place.run(&["scan"]);
    let words: Vec<Vec<_>> = scanned.text().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((words[0][0], words[1][0], words[1][1]), ("MISSING", "lost", "cron@one"));
    assert_eq!(scanned.said, "locker: 1 missing, 1 in progress, 1 failed\n");
    let json = place.run(&["scan", "--output", "json"]).json();
    assert_eq!((&json["missing"][0]["lockToken"], &json["finished"]), (&json!("lost"), &json!(true)));
}

#[test]
fn top_counts_and_names_the_oldest() {
    let place = Place::new();
    place.once("held", &["--hold-on-failure"], "exit 1");
    place.once("lost", &["--expect", "1s"], "kill -9 $$");
    until(|| place.run(&["top", "--looks", "1"]).text().contains("overdue      1"));
    let top = place.run(&["top", "--looks", "2", "--every", "200ms"]);
    assert_eq!(top.text().lines().count(), 2);
    for line in top.text().lines() {
        assert!(
            line.contains("in progress      1  overdue      1  failed      1  oldest lost due "),
            "{line}"
        );
    }
}

#[test]
fn doctor_says_what_is_well_and_what_to_change() {
    let place = Place::new();
    let well = place.run(&["doctor"]);
    let lines: Vec<_> = well.text().lines().collect();
    let mut expected = vec![
        "ok     table, index and TTL",
        "ok     reading (GetItem)",
        "ok     listing (Query on byStatus)",
        "ok     writing (PutItem, UpdateItem, DeleteItem)",
        "ok     clock",
    ];
    // The embedded table of workflows is not named, and is made when it is first used.
    if !place.is_embedded() {
        expected.extend([
            "ok     workflows: table, index and TTL",
            "ok     workflows: reading (Query)",
            "ok     workflows: listing (Query on byStatus)",
        ]);
    }
    assert_eq!(lines, expected, "{}", well.said);
    assert_eq!((well.code, well.said.as_str()), (0, "locker: all is well\n"));
    assert_eq!(
        place.run(&["ls", "--output", "json"]).json()["tokens"].as_array().map(Vec::len),
        Some(0),
        "it left nothing"
    );
    if !place.is_embedded() {
        let endpoint = std::env::var("LOCKER_TEST_ENDPOINT").expect("set");
        let absent = place
            .bare(&["doctor", "--table", "absent", "--endpoint-url", &endpoint, "--output", "json"])
            .output();
        let absent = Ran::of(absent.expect("the command runs"));
        assert_eq!((absent.code, absent.json()["findings"].as_array().map(Vec::len)), (5, Some(1)));
    }
}

#[test]
fn a_listing_that_is_cut_says_so() {
    let place = Place::new();
    for number in 0..3 {
        place.once(&format!("held/{number}"), &["--hold-on-failure"], "exit 1");
    }
    let cut = place.run(&["ls", "--limit", "2", "--output", "json"]);
    assert_eq!(
        (cut.json()["tokens"].as_array().map(Vec::len), cut.json()["complete"].clone()),
        (Some(2), json!(false))
    );
    assert_eq!(cut.said, "locker: there are more than these 2; raise --limit\n");
}

#[test]
fn the_table_is_made_and_checked() {
    let place = Place::new();
    let checked = place.run(&["table", "create"]);
    assert_eq!(checked.code, 0, "{}", checked.said);
    let checked = place.run(&["table", "check"]);
    assert_eq!((checked.code, checked.text()), (0, ""));
    assert!(checked.said.ends_with("is as the code needs it\n"), "{}", checked.said);
}

#[test]
fn control_characters_of_others_do_not_reach_the_terminal() {
    let place = Place::new();
    let odd = place.run(&["once", "odd", "--as", "a\u{1b}[31mb", "--", "true"]);
    assert_eq!(odd.code, 2);
    assert!(
        odd.said.starts_with("locker: the owner is 1 to 256 bytes without control characters"),
        "{}",
        odd.said
    );
    place.once("odd/output", &[], "printf '\\033[31mred'");
    let shown = place.run(&["show", "odd/output"]);
    assert!(!shown.text().contains('\u{1b}'), "{}", shown.text());
}
