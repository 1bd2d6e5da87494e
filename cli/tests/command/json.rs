//! `--output json`: each verb prints at most one JSON object on standard output. If the exit code
//! is not 0, the last line of standard error is an object that says why.

use std::collections::BTreeSet;

use locker::Class;
use locker::inbox::Delivery;
use locker::workflow::Workflows;
use locker_tests::command::{Place, Ran};
use locker_tests::filled::Stuck;
use serde_json::Value;

use crate::dead::shown;
use crate::guide::verbs;
use crate::{bare, place};

/// A call of every verb that does what it is asked, on records that are there for it. `{}` is the
/// revision that the call before it printed.
const CALLS: [&str; 38] = [
    "table create",
    "table check",
    "workflow table create",
    "workflow table check",
    "status",
    "plan release --need held --reason x --out plan",
    "apply plan",
    "ls",
    "scan",
    "doctor",
    "show released",
    "release released --completed --reason x",
    "resolve resolved --reason x --result {\"exit\":0}",
    "correct resolved --seen {} --reason x --result {\"exit\":1}",
    "redact resolved --reason x",
    "close closed --reason x",
    "audit",
    "ls workflows",
    "workflow show shown",
    "workflow signal shown --event paid --value 17 --reason x",
    "workflow retry retried --reason x",
    "workflow skip skipped --step call --reason x",
    "workflow resolve resolved --step call --result \"\" --reason x",
    "workflow compensate compensated --reason x",
    "workflow close closed --reason x",
    "workflow redact closed --reason x",
    "workflow cancel cancelled --reason x",
    "ls messages --need dead",
    "dead show {}",
    "dead correct {} --body exported --reason x",
    "dead note {} --reason seen",
    "dead redrive --all --reason x",
    "dead archive --all --reason x",
    "dead restore --all --reason x",
    "dead discard --all --reason x",
    "dead import exported --consumer packer",
    "relay --route *=http://127.0.0.1:9/q",
    "once once -- false",
];
/// It corrects what a completer found to be unreadable, which the stock command cannot find.
const REFUSED: &str = "workflow correct shown --step call --result null --reason x";
const TOKENS: [&str; 3] = ["planned", "resolved", "closed"];
const WORKFLOWS: [&str; 7] =
    ["shown", "retried", "skipped", "resolved", "compensated", "closed", "cancelled"];

/// What prints no JSON, or nothing else, has no code in the stock command, or runs until it is
/// stopped.
const OTHERS: [&str; 8] = ["completions", "man", "help", "complete", "reap", "export", "console", "policy"];

fn words<'a>(call: &'a str, revision: &'a str) -> Vec<&'a str> {
    let (verb, command) = call.split_once(" -- ").map_or((call, None), |(verb, rest)| (verb, Some(rest)));
    let verb = verb.split(' ').map(|word| if word == "{}" { revision } else { word });
    let mut words: Vec<_> = verb.chain(["--output", "json"]).collect();
    words.extend(command.into_iter().flat_map(|command| ["--", command]));
    words
}

fn prepare(place: &Place) {
    for key in TOKENS {
        let failing = ["once", key, "--hold-on-failure", "--", "false"];
        assert_eq!(place.run(&failing).code, 1);
    }
    assert_eq!(place.once("released", &[], "true").code, 0);
    let client = place.client();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&client, place.workflows()).expect("workflows");
        for key in WORKFLOWS {
            workflows.start(&Stuck, key, &key.to_owned()).run().await.expect("an outcome");
        }
        let consumer = workflows.inbox("packer").expect("a name").consumer();
        let order = Delivery::new("1", "no order");
        consumer.dead_letter(&order, Class::Permanent, "it is no order").await.expect("it is kept");
        let books = workflows.inbox("books").expect("a name").consumer();
        books.dead_letter(&order, Class::Permanent, "it is no order").await.expect("it is kept");
    });
    let archive = ["dead", "archive", "--consumer", "books", "--reason", "x"];
    let seen = shown(&place.run(&archive).said);
    assert_eq!(place.run(&[&archive[..], &["--seen", &seen]].concat()).code, 0);
    std::fs::write(place.path("exported"), place.run(&["dead", "export"]).text()).expect("a file");
}

fn failed(call: &str, ran: &Ran, code: i32) {
    assert_eq!((ran.code, ran.text()), (code, ""), "{call}: {}", ran.said);
    let last = ran.said.lines().last().unwrap_or_default();
    let error: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{call}: {error}: {last}"));
    assert_eq!(error["error"]["exit"], code, "{call}: {last}");
    assert!(error["error"]["message"].as_str().is_some_and(|said| !said.is_empty()), "{call}: {last}");
}

#[test]
fn every_verb_prints_one_object() {
    let place = place();
    prepare(&place);
    let mut revision = String::new();
    let mut called = BTreeSet::new();
    // The plan releases what is held, so it comes after what acts on one of them.
    let (bulk, calls): (Vec<&str>, Vec<&str>) =
        CALLS.iter().partition(|call| call.starts_with("plan") || call.starts_with("apply"));
    for call in calls.into_iter().chain(bulk) {
        let words = words(call, &revision);
        let mut ran = place.run(&words);
        if ran.code == 6 {
            let shown = ran.json();
            assert!(shown.is_object(), "{call}: {shown}");
            // The acts on messages would leave nothing to the next act.
            if call.contains("--all") || call.contains("--out") {
                called.insert(call.split(' ').take(2).collect::<Vec<_>>().join(" "));
                called.insert(call.split(' ').take(1).collect());
                continue;
            }
            let seen = shown["seen"].as_str().unwrap_or_else(|| panic!("{call}: {shown}"));
            ran = place.run(&[&words[..], &["--seen", seen]].concat());
        }
        if call.starts_with("once") {
            // Standard output is that of the command, and the exit code, too.
            failed(call, &ran, 1);
        } else {
            assert!([0, 5].contains(&ran.code), "{call}: {}", ran.said);
            let object: Value = serde_json::from_slice(&ran.stdout)
                .unwrap_or_else(|error| panic!("{call}: {error}: {}", ran.text()));
            assert!(object.is_object(), "{call}: {object}");
            let of_dead = [&object["messages"][0]["id"], &object["id"]];
            let of_dead = of_dead.into_iter().find(|it| it.is_string());
            revision = of_dead.unwrap_or(&object["revision"]).as_str().unwrap_or_default().to_owned();
        }
        let of_call: Vec<_> = call.split(' ').collect();
        called.extend([of_call[0].to_owned(), of_call.get(..2).unwrap_or(&of_call).join(" ")]);
    }
    failed(REFUSED, &place.run(&words(REFUSED, "")), 4);
    called.insert("workflow correct".to_owned());
    for group in [&[][..], &["workflow"], &["table"], &["dead"]] {
        for verb in verbs(&place, group) {
            let verb = [group, &[&verb]].concat().join(" ");
            let is_other = verb.split(' ').any(|word| OTHERS.contains(&word));
            assert!(is_other || called.contains(&verb), "no call of {verb} is here");
        }
    }
}

#[test]
fn failed_command_prints_its_cause_as_one_object() {
    let place = place();
    for call in CALLS {
        let words = words(call, "0f3a9c51d2");
        failed(call, &bare(&place, &words, &[]), 78);
        let odd = [&words[..1], &["--no-such-option", "--output=JSON"]].concat();
        failed(call, &place.run(&odd), 2);
    }
    for verb in ["complete", "reap"] {
        failed(verb, &place.run(&[verb, "--output", "json"]), 78);
    }
    failed("no verb", &place.run(&["--output", "json"]), 2);
    failed("odd variable", &bare(&place, &["ls", "--output", "json"], &[("LOCKER_TABEL", "x")]), 78);
    let help = place.run(&["ls", "--output", "json", "--help"]);
    assert!(help.code == 0 && help.text().contains("Usage:"), "{}", help.said);
    // The options of a command that is run once are not those of locker.
    let text = bare(&place, &["once", "k", "--", "echo", "--output", "json"], &[]);
    assert!(text.code == 78 && text.said.starts_with("locker: name the place"), "{}", text.said);
}
