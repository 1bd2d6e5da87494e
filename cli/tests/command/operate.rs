//! What an operator does: list, show, resolve, release, check the table.

use aws_sdk_dynamodb::types::AttributeValue;
use lock_token_testing::Embedded;
use locker::{Begun, Locker};
use locker_tests::Counted;
use locker_tests::command::{Ran, until};
use serde_json::json;

use crate::place;

/// The name that the owner was given, without its machine and process.
fn owner(token: &serde_json::Value) -> Option<&str> {
    token["lockedBy"].as_str().and_then(|owner| owner.split(' ').next())
}

#[test]
fn failed_work_is_listed_shown_resolved_and_replayed() {
    let place = place();
    place.once("report/1", &["--hold-on-failure", "--as", "cron@one"], "echo half; exit 9");
    place.once("report/2", &["--hold-on-failure", "--as", "cron@two"], "exit 1");

    let listed = place.run(&["ls", "--output", "json"]).json();
    assert_eq!(listed["complete"], true);
    let tokens = listed["tokens"].as_array().expect("a list");
    let named: Vec<_> =
        tokens.iter().map(|token| (&token["lockToken"], &token["state"], owner(token))).collect();
    assert_eq!(
        named,
        [
            (&json!("report/1"), &json!("held"), Some("cron@one")),
            (&json!("report/2"), &json!("held"), Some("cron@two"))
        ]
    );
    let table = place.run(&["ls", "tokens", "--need", "held"]);
    let words: Vec<Vec<_>> = table.text().lines().map(|line| line.split_whitespace().collect()).collect();
    let header = ["TOKEN", "STATE", "LOCKED", "BY", "SINCE", "DUE", "ID", "NEED", "GROUP", "CAUSE"];
    assert_eq!(words[0], header);
    assert_eq!(words[1][..3], ["report/1", "held", "cron@one"]);

    let shown = place.show("report/1");
    assert_eq!(shown["result"], json!({"class": "needsOperator", "error": {"exit": 9, "stdout": "half\n"}}));
    let resolved = place.act(&[
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
    assert!(resolved.said.starts_with("locker: report/1 is held, by cron@one on "), "{}", resolved.said);
    let shown = place.show("report/1");
    assert_eq!(
        (&shown["state"], &shown["resolvedBy"], &shown["resolvedReason"]),
        (&json!("completed"), &json!("ada"), &json!("sent by hand"))
    );
    let replayed = place.once("report/1", &[], "echo ran twice");
    assert_eq!((replayed.code, replayed.text()), (0, "sent\n"));
    assert_eq!(place.run(&["ls", "--output", "json"]).json()["tokens"].as_array().map(Vec::len), Some(1));

    let again = place.run(&["resolve", "report/1", "--reason", "twice", "--result", r#"{"exit":0}"#]);
    assert_eq!(again.code, 4);
    assert!(again.said.ends_with("report/1 was left as it is: it is completed\n"), "{}", again.said);
}

#[test]
fn a_released_token_is_done_anew_and_shows_who_and_why_until_then() {
    let place = place();
    place.once("job", &[], "echo first");
    let released = place.act(&["release", "job", "--completed", "--reason", "wrong month", "--as", "ada"]);
    assert_eq!(released.code, 0, "{}", released.said);
    let shown = place.run(&["show", "job"]);
    for part in ["released by ada", "wrong month"] {
        assert!(shown.text().contains(part), "{part} is not in {}", shown.text());
    }
    let anew = place.once("job", &[], "echo second");
    assert_eq!(anew.text(), "second\n");
}

/// `locker show` does not print the effect of the act, so its id is refused.
#[test]
fn release_that_may_repeat_work_needs_the_id_of_its_dry_run() {
    let place = place();
    for (key, option) in [("one", "--new-key"), ("two", "--completed"), ("three", "--running"), ("four", "")]
    {
        let held: &[&str] = if option == "--completed" { &[] } else { &["--hold-on-failure"] };
        place.once(key, held, "exit 1");
        let revision = place.show(key)["revision"].as_str().expect("a revision").to_owned();
        let mut release = vec!["release", key, "--reason", "it never left", "--seen", &revision];
        release.extend(Some(option).filter(|it| !it.is_empty()));
        let released = place.run(&release);
        let (code, said) = match option {
            "" => (0, "released four"),
            _ => (4, "is not from a dry run of this verb with these arguments; nothing was written"),
        };
        assert_eq!((released.code, released.said.contains(said)), (code, true), "{key}: {}", released.said);
    }
    place.once("five", &["--hold-on-failure"], "exit 1");
    let revision = place.show("five")["revision"].as_str().expect("a revision").to_owned();
    let resolve = ["resolve", "five", "--running", "--reason", "it left", "--result", r#"{"exit":0}"#];
    assert_eq!(place.run(&[&resolve[..], &["--seen", &revision]].concat()).code, 4);
    assert_eq!(place.act(&resolve).code, 0);
}

/// The three steps of an operator who looked, while the owner was about to end.
#[test]
fn work_that_ended_after_the_operator_looked_is_not_done_twice() {
    let place = place();
    let effects = place.path("effects");
    let effects = effects.to_str().expect("a path");
    place.once("pay/7", &[], &format!("echo charged >> {effects}; echo receipt-1"));
    let revision = place.show("pay/7")["revision"].as_str().expect("a revision").to_owned();
    for (release, code) in [
        (vec!["release", "pay/7", "--reason", "it never left"], 4),
        (vec!["release", "pay/7", "--completed", "--reason", "it never left"], 6),
        (vec!["release", "pay/7", "--completed", "--seen", "0123456789", "--reason", "it never left"], 4),
        (vec!["release", "pay/7", "--running", "--seen", &revision, "--reason", "it never left"], 4),
    ] {
        let released = place.run(&release);
        assert_eq!(released.code, code, "{release:?}: {}", released.said);
    }
    let replayed = place.once("pay/7", &[], &format!("echo charged >> {effects}; echo receipt-1"));
    assert_eq!(replayed.text(), "receipt-1\n");
    assert_eq!(std::fs::read_to_string(effects).expect("effects"), "charged\n");
}

#[test]
fn a_mistyped_result_is_corrected_and_both_are_in_the_audit() {
    let place = place();
    place.once("mail", &["--hold-on-failure"], "echo 'relay denied' >&2; exit 1");
    let resolve = |verb: &str, result: &str, by: &str, seen: &[&str]| {
        let act = [verb, "mail", "--reason", "sent by hand", "--as", by, "--result", result];
        place.run(&[&act, seen].concat())
    };
    assert_eq!(resolve("correct", r#"{"exit":0}"#, "ada", &[]).code, 4, "nothing to correct yet");
    let revision = place.show("mail")["revision"].as_str().expect("a revision").to_owned();
    let wrong = resolve("resolve", r#"{"exit":0,"stdout":"wrong"}"#, "ada", &["--seen", &revision]);
    assert_eq!(wrong.code, 0, "{}", wrong.said);
    let right = r#"{"exit":0,"stdout":"right\n"}"#;
    let revision = place.show("mail")["revision"].as_str().expect("a revision").to_owned();
    for (seen, code, advice) in
        [(&[][..], 6, format!("--seen {revision}.")), (&["--seen", "0123456789"], 4, "Look again".to_owned())]
    {
        let unseen = resolve("correct", right, "ben", seen);
        assert_eq!(unseen.code, code, "{}", unseen.said);
        assert!(unseen.said.contains(&advice), "{}", unseen.said);
    }
    let corrected = resolve("correct", right, "ben", &["--seen", &revision]);
    assert_eq!(corrected.code, 0, "{}", corrected.said);
    assert_eq!(
        place.once("mail", &["--hold-on-failure"], "echo 'relay denied' >&2; exit 1").text(),
        "right\n"
    );
    let acts = place.run(&["audit", "--output", "json"]).json();
    let did: Vec<_> = acts["acts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|act| (&act["resolvedBy"], &act["resolution"]))
        .collect();
    assert_eq!(did, [(&json!("ada"), &json!("resolved")), (&json!("ben"), &json!("corrected"))]);
    assert!(place.run(&["audit"]).text().contains("sent by hand"));
}

#[test]
fn a_wrong_release_is_taken_back_until_the_work_has_begun_again() {
    let place = place();
    place.once("back", &["--hold-on-failure"], "exit 9");
    assert_eq!(place.act(&["release", "back", "--reason", "it never left"]).code, 0);
    let result = r#"{"exit":0,"stdout":"sent\n"}"#;
    let resolve = ["resolve", "back", "--reason", "it did leave", "--result", result];
    assert_eq!(place.run(&resolve).code, 6, "not without --seen");
    let revision = place.show("back")["revision"].as_str().expect("a revision").to_owned();
    let resolved = place.run(&[&resolve[..], &["--seen", &revision]].concat());
    assert_eq!(resolved.code, 0, "{}", resolved.said);
    assert_eq!(place.once("back", &["--hold-on-failure"], "exit 9").text(), "sent\n");
}

#[test]
fn a_held_failure_is_closed_and_stays_the_answer() {
    let place = place();
    place.once("odd", &["--hold-on-failure"], "exit 9");
    assert_eq!(place.act(&["close", "odd", "--reason", "the customer was told"]).code, 0);
    assert_eq!(place.run(&["ls", "--output", "json"]).json()["tokens"], json!([]));
    let replayed = place.once("odd", &["--hold-on-failure"], "exit 9");
    assert_eq!(replayed.code, 9, "{}", replayed.said);
    assert_eq!(place.run(&["close", "odd", "--reason", "again"]).code, 4);
}

#[test]
fn a_verb_advises_only_what_it_takes() {
    let place = place();
    let script = "echo x > started; until test -f go || ! test -f started; do sleep 0.05; done";
    let mut working = place.command(&["once", "works", "--expect", "1h", "--", "sh", "-c", script]);
    let mut working = working.spawn().expect("started");
    place.await_line("started");
    place.once("due", &["--expect", "1s"], "kill -9 $$");
    until(|| place.run(&["ls", "tokens", "--due"]).text().contains("due "));
    place.once("done", &[], "true");
    for key in ["works", "due", "done"] {
        let closed = place.run(&["close", key, "--reason", "x"]);
        assert_eq!(closed.code, 4, "{}", closed.said);
        assert!(closed.said.contains("only a held token"), "{}", closed.said);
        assert!(!closed.said.contains("--running"), "{}", closed.said);
    }
    std::fs::write(place.path("go"), "").expect("written");
    assert!(working.wait().expect("ended").success());
    // The answer is wrong, not the token: it is a mistake of the command line.
    let odd = place.run(&["resolve", "due", "--reason", "x", "--result", "null"]);
    assert_eq!(odd.code, 2, "{}", odd.said);
    assert!(odd.said.contains(r#"{"exit":0,"stdout":"..."}"#), "{}", odd.said);
    // The printed line cannot be run unchanged: its result is to be filled in.
    let shown = place.run(&["show", "due"]);
    let form = r#"{"exit":0,"stdout":JSON}"#;
    assert!(shown.text().contains(&format!("--result '{form}'")), "{}", shown.text());
    let unchanged = place.run(&["resolve", "due", "--reason", "x", "--result", form]);
    assert_eq!(unchanged.code, 2, "{}", unchanged.said);
    assert_eq!(place.show("due")["state"], "inProgress");
}

const ONE_SHARD: &str = "in the 1 shard that was read; if your functions set LOCKER_SHARDS, add --shards";

#[test]
fn nothing_to_list_says_so_on_standard_error() {
    let place = place();
    for (arguments, kinds) in [
        (&["ls"][..], "tokens, workflows and messages"),
        (&["ls", "tokens", "--due"], "tokens"),
        (&["ls", "--due"], "tokens and workflows"),
        (&["ls", "--in-progress"], "tokens"),
        (&["ls", "--need", "held"], "tokens"),
        (&["ls", "workflows", "--finished"], "workflows"),
        (&["ls", "messages"], "messages"),
    ] {
        for (more, read) in [(&[][..], ONE_SHARD), (&["--shards", "4"], "in the 4 shards that were read")] {
            let ran = place.run(&[arguments, more].concat());
            let said = format!("locker: no listed record fits ({kinds}: 0 entries {read})\n");
            assert_eq!((ran.code, ran.text(), ran.said.as_str()), (0, "", &*said), "{arguments:?}");
        }
    }
    let listed = place.run(&["ls", "tokens", "--output", "json"]).json();
    let expected =
        json!({ "tokens": [], "exact": [], "complete": true, "rowsRead": 0, "workflowsRead": true });
    assert_eq!(listed, expected);
}

#[test]
fn a_scan_tells_of_missing_tasks() {
    let place = place();
    place.once("held", &["--hold-on-failure"], "exit 1");
    let clean = place.run(&["scan"]);
    assert_eq!(
        (clean.code, clean.text(), clean.said.as_str()),
        (0, "", &*format!("locker: 0 missing, 0 listed in progress, 1 held {ONE_SHARD}\n"))
    );
    // Cut short by a signal, it stays in progress, and is due in a second.
    place.once("lost", &["--expect", "1s", "--as", "cron@one"], "kill -9 $$");
    until(|| place.run(&["scan"]).code == 5);
    let scanned = place.run(&["scan"]);
    let words: Vec<Vec<_>> = scanned.text().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((words[0][0], words[1][0], words[1][1]), ("MISSING", "lost", "cron@one"));
    let said = format!(
        "locker: 1 missing, 1 listed in progress, 1 held {ONE_SHARD}; see `locker ls tokens --due`\n"
    );
    assert_ne!(scanned.said, said, "it names the tables");
    assert_eq!(place.without_options(&scanned.said), said);
    let json = place.run(&["scan", "--output", "json"]).json();
    assert_eq!((&json["missing"][0]["lockToken"], &json["finished"]), (&json!("lost"), &json!(true)));
}

#[test]
fn doctor_says_what_is_well_and_what_to_change() {
    let place = place();
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
            "ok     workflows: reading (GetItem)",
            "ok     workflows: reading (Query)",
            "ok     workflows: listing (Query on byStatus)",
        ]);
    }
    assert_eq!(lines, expected, "{}", well.said);
    assert_eq!((well.code, well.said.as_str()), (0, "locker: no problems found\n"));
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
fn doctor_of_a_restored_table_checks_all_writes_and_leaves_nothing() {
    let place = place();
    let now = locker::Clock::now(&locker::SystemClock).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    for restored in ["2026-11-01", &now] {
        let ran = place.run(&["--restored", restored, "doctor"]);
        assert_eq!((ran.code, ran.said.as_str()), (0, "locker: no problems found\n"), "{}", ran.text());
        let writing = "ok     writing (PutItem, UpdateItem, DeleteItem)";
        assert!(ran.text().lines().any(|line| line == writing), "{}", ran.text());
        let left = place.run(&["ls", "--output", "json"]).json()["tokens"].as_array().map(Vec::len);
        assert_eq!(left, Some(0), "{restored}: it left a token");
    }
}

#[test]
fn doctor_finds_an_engine_whose_refusals_have_no_item() {
    let place = place();
    let engine = Embedded::memory().expect("an engine");
    let served = Counted::start(&engine);
    let at = ["--table", "locks", "--endpoint-url", served.endpoint()];
    let run = |verb: &[&str]| Ran::of(place.bare(&[verb, &at].concat()).output().expect("the command runs"));
    let made = run(&["table", "create"]);
    assert_eq!(made.code, 0, "{}", made.said);
    let writing = |ran: &Ran| {
        ran.text().lines().position(|line| line.ends_with("writing (PutItem, UpdateItem, DeleteItem)"))
    };
    let well = run(&["doctor"]);
    let number = writing(&well).expect("a line");
    assert!(well.text().lines().nth(number).expect("a line").starts_with("ok"), "{}", well.text());
    served.keep_items();
    let ran = run(&["doctor"]);
    assert_eq!((ran.code, writing(&ran)), (5, Some(number)), "{}", ran.text());
    let problem = ran.text().lines().nth(number + 1).expect("a problem");
    assert!(problem.contains("without returning the item"), "{problem}");
    let left = run(&["ls", "--output", "json"]);
    assert_eq!(left.json()["tokens"].as_array().map(Vec::len), Some(0), "it left nothing");
}

#[test]
fn damaged_related_record_does_not_hide_a_timeline() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = place.client();
        let locker = Locker::new(&client, place.table()).expect("a locker");
        let Ok(Begun::Acquired(outer)) = locker.token("outer").begin().await else { panic!("not acquired") };
        let inner = locker.token("inner").within(outer.attempt().work()).begin().await;
        let Ok(Begun::Acquired(inner)) = inner else { panic!("not acquired") };
        inner.hold("disk full").await.expect("held");
        outer.complete("done").await.expect("completed");
        let key = AttributeValue::S("outer".to_owned());
        let damage = client.update_item().table_name(place.table()).key("lockToken", key);
        damage.update_expression("REMOVE attempt").send().await.expect("damaged");
    });
    let shown = place.run(&["--verbose", "show", "inner"]);
    assert_eq!(shown.code, 0, "{}", shown.said);
    assert!(
        shown.text().contains("disk full") && shown.text().contains("cannot be read"),
        "{}",
        shown.text()
    );
    assert!(
        shown.said.contains("related work cannot be read") && shown.said.contains("outer"),
        "{}",
        shown.said
    );
    let damaged = place.run(&["show", "outer"]);
    assert_eq!(damaged.code, 65, "{}", damaged.said);
}

#[test]
fn a_listing_that_is_cut_says_so() {
    let place = place();
    for number in 0..3 {
        place.once(&format!("held/{number}"), &["--hold-on-failure"], "exit 1");
    }
    let cut = place.run(&["ls", "--limit", "2", "--output", "json"]);
    assert_eq!(
        (cut.json()["tokens"].as_array().map(Vec::len), cut.json()["complete"].clone()),
        (Some(2), json!(false))
    );
    assert!(cut.said.starts_with("locker: there may be more than these 2; raise --limit ("), "{}", cut.said);
}

#[test]
fn the_table_is_made_and_checked() {
    let place = place();
    let checked = place.run(&["table", "create"]);
    assert_eq!(checked.code, 0, "{}", checked.said);
    let checked = place.run(&["table", "check"]);
    assert_eq!((checked.code, checked.text()), (0, ""));
    assert!(checked.said.ends_with("matches what the code needs\n"), "{}", checked.said);
}

#[test]
fn control_characters_of_others_do_not_reach_the_terminal() {
    let place = place();
    let odd = place.run(&["once", "odd", "--as", "a\u{1b}[31mb", "--", "true"]);
    assert_eq!(odd.code, 2);
    assert!(
        odd.said.starts_with("locker: the owner must be 1 to 256 bytes without control characters"),
        "{}",
        odd.said
    );
    place.once("odd/output", &[], "printf '\\033[31mred'");
    let shown = place.run(&["show", "odd/output"]);
    assert!(!shown.text().contains('\u{1b}'), "{}", shown.text());
}

#[test]
fn table_of_workflows_that_was_not_named_is_named_as_not_read() {
    let place = place();
    let engine = Embedded::memory().expect("an engine");
    let served = Counted::start(&engine);
    let at = ["--table", "locks", "--endpoint-url", served.endpoint()];
    let run = |verb: &[&str]| Ran::of(place.bare(&[&at, verb].concat()).output().expect("the command runs"));
    assert_eq!(run(&["table", "create"]).code, 0);
    let unread =
        "only this was read: tokens; no table of workflows was named; for workflows, add --workflows NAME";
    let redact = ["plan", "redact", "--tenant", "cust8", "--reason", "the customer asked"];
    let nothing = run(&redact);
    assert!(nothing.code == 3 && nothing.said.contains(unread), "{}", nothing.said);
    for key in ["@cust8/mail", "order"] {
        assert_eq!(run(&["once", key, "--hold-on-failure", "--", "false"]).code, 1);
    }
    assert_eq!(run(&["close", "@cust8/mail", "--reason", "sent by hand"]).code, 6);
    let planned = run(&["plan", "close", "--need", "held", "--reason", "sent by hand"]);
    assert!(planned.code == 6 && planned.said.contains(unread), "{}", planned.said);
    // Only a token can be released.
    let planned = run(&["plan", "release", "--need", "held", "--reason", "sent by hand"]);
    assert!(planned.code == 6 && !planned.said.contains(unread), "{}", planned.said);
    let retry = run(&["plan", "retry", "--need", "quarantined", "--reason", "repaired"]);
    assert!(retry.code == 2 && retry.said.contains("name the table of workflows, too"), "{}", retry.said);
    let shown = run(&["show", "order"]);
    assert!(shown.code == 0 && shown.text().contains(unread), "{}", shown.text());
    let absent = run(&["show", "other"]);
    assert!(absent.code == 3 && absent.said.contains(unread), "{}", absent.said);
    let checked = run(&["doctor"]);
    assert!(checked.code == 0 && checked.said.contains(unread), "{}", checked.said);
}
