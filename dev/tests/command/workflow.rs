//! Workflows as an operator sees them: purchases of `locker dev` in quarantine, and what an
//! operator does to them.

use locker::workflow::{Flow, Stop, Workflow, Workflows};
use locker_tests::command::{Place, Ran, until};
use serde_json::{Value, json};

use crate::dev::Dev;
use crate::place;

fn key(id: u32) -> String {
    format!("@you/purchase/k{id}")
}

/// The workflow as a program sees it.
fn shown(place: &Place, id: u32) -> Value {
    place.run(&["workflow", "show", &key(id), "--content", "--output", "json"]).json()
}

fn step(workflow: &Value, name: &str) -> Value {
    let steps = workflow["steps"].as_array().expect("steps");
    steps.iter().find(|step| step["step"] == name).cloned().unwrap_or_default()
}

/// Acts on a workflow, with a reason.
fn act(place: &Place, verb: &str, id: u32, more: &[&str]) -> Ran {
    let key = key(id);
    let mut arguments = vec!["workflow", verb, &key, "--reason", "the provider was called", "--as", "ada"];
    arguments.extend(more);
    place.act(&arguments)
}

/// Waits until a workflow is in a state.
fn until_state(place: &Place, id: u32, state: &str) {
    until(|| shown(place, id)["state"] == state);
}

/// A purchase in quarantine: the provider charges and does not say so.
async fn quarantined(place: &Place, dev: &Dev, id: u32) {
    dev.mood("mute").await;
    assert_eq!(dev.purchase(&format!("k{id}"), id).await.0, 202);
    until(|| shown(place, id)["listed"] == "quarantine");
    dev.mood("well").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_is_shown_with_its_steps_and_messages() {
    let place = place();
    let dev = Dev::start(&place);
    let answer = json!({ "orderId": "1", "charge": "ch_1" });
    assert_eq!(dev.packed("k1", 1).await.1, answer);
    assert_eq!(dev.purchase("k1", 1).await, (200, answer.clone()));
    let workflow = shown(&place, 1);
    assert_eq!(
        (&workflow["name"], &workflow["state"], &workflow["listed"], &workflow["result"]),
        (&json!("purchase"), &json!("completed"), &json!("finished"), &answer)
    );
    let steps: Vec<_> = workflow["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| {
            (
                step["step"].as_str(),
                step["kind"].as_str(),
                step["state"].as_str(),
                step["compensation"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        steps,
        [
            (Some("place"), Some("atomic"), Some("completed"), Some("withdraw")),
            (Some("charge"), Some("once"), Some("completed"), Some("refund")),
            (Some("pay"), Some("atomic"), Some("completed"), None),
        ]
    );
    let packed = &workflow["events"][0];
    assert_eq!((&packed["event"], &packed["state"]), (&json!("event:packed"), &json!("taken")));
    assert_eq!(workflow["messages"], json!([]), "the packers were told");
    let text = place.run(&["workflow", "show", &key(1), "--content"]);
    for part in ["completed", "charge  once", r#"{"charge":"ch_1"}"#] {
        assert!(text.text().contains(part), "{part} is not in\n{}", text.text());
    }
    // What may be private is shown only when it is asked for.
    for output in ["table", "json"] {
        let shown = place.run(&["workflow", "show", &key(1), "--output", output]);
        assert!(!shown.text().contains(r#""ch_1""#), "{}", shown.text());
    }
    let nothing = place.run(&["ls", "workflows"]);
    assert_eq!((nothing.code, nothing.text()), (0, ""));
    assert!(nothing.said.starts_with("locker: no listed record fits (workflows: "), "{}", nothing.said);
    let finished = place.run(&["ls", "workflows", "--finished", "--output", "json"]).json();
    assert_eq!(finished["workflows"][0]["workflow"], key(1));
    // Nothing is due, and what is finished is kept for a while.
    let provider = ["--payments-url", dev.provider()];
    let completed = place.run(&[&["complete"][..], &provider].concat());
    assert_eq!(
        (completed.code, completed.said.as_str()),
        (0, "locker: 0 claimed: 0 completed, 0 compensated, 0 waiting, 0 in quarantine\n")
    );
    let reaped = place.run(&[&["reap", "--output", "json"][..], &provider].concat());
    assert_eq!((reaped.code, &reaped.json()["deleted"]), (0, &json!(0)), "{}", reaped.said);
    assert_eq!(shown(&place, 1), workflow, "reaping changed nothing");
    dev.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_in_quarantine_is_retried_and_another_is_resolved() {
    let place = place();
    let dev = Dev::start(&place);
    for id in [1, 2] {
        quarantined(&place, &dev, id).await;
        let (status, body) = dev.purchase(&format!("k{id}"), id).await;
        assert_eq!((status, &body["type"]), (503, &json!("urn:locker:purchases:quarantine")));
    }
    let listed = place.run(&["ls", "workflows", "--need", "quarantined"]);
    let words: Vec<Vec<_>> = listed.text().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0][..4], ["WORKFLOW", "NAME", "STATE", "LISTED"]);
    assert_eq!(words[1][..5], [&key(1), "purchase", "running", "quarantine", "3"]);
    assert!(
        listed.text().contains("step charge is in doubt: it may or may not have happened"),
        "{}",
        listed.text()
    );
    let text = place.run(&["workflow", "show", &key(1)]);
    assert!(text.text().contains("IN QUARANTINE"), "{}", text.text());
    assert_eq!(step(&shown(&place, 1), "charge")["state"], "started");

    let retried = act(&place, "retry", 1, &[]);
    assert_eq!(retried.code, 0, "{}", retried.said);
    assert!(
        retried.said.ends_with("retried @you/purchase/k1; a completer continues it\n"),
        "{}",
        retried.said
    );
    until_state(&place, 1, "completed");
    assert_eq!(shown(&place, 1)["operator"]["by"], "ada");

    let result = r#"{"charge":"ch_2"}"#;
    let resolved = act(&place, "resolve", 2, &["--step", "charge", "--result", result, "--output", "json"]);
    assert_eq!(resolved.code, 0, "{}", resolved.said);
    let charge = step(&resolved.json(), "charge");
    assert_eq!(
        (&charge["state"], &charge["operator"]["reason"]),
        (&json!("completed"), &json!("the provider was called"))
    );
    assert_eq!(step(&shown(&place, 2), "charge")["result"], json!({ "charge": "ch_2" }));
    until_state(&place, 2, "completed");
    let answer = json!({ "orderId": "2", "charge": "ch_2" });
    assert_eq!(dev.purchase("k2", 2).await, (200, answer));
    let charges: Vec<_> = dev.books().await.iter().map(|entry| entry["receipt"]["charge"].clone()).collect();
    assert_eq!(charges, ["ch_1", "ch_2"], "no double charge");
    dev.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_in_quarantine_is_compensated_and_one_that_has_not_started_is_blocked() {
    let place = place();
    let dev = Dev::start(&place);
    quarantined(&place, &dev, 1).await;
    let undone = act(&place, "compensate", 1, &[]);
    assert_eq!(undone.code, 0, "{}", undone.said);
    until_state(&place, 1, "cancelled");
    let (status, body) = dev.purchase("k1", 1).await;
    assert_eq!((status, &body["type"]), (409, &json!("urn:locker:purchases:cancelled")));
    let books = dev.books().await;
    assert_eq!((books.len(), &books[0]["refund"]), (1, &json!("re_1")), "the money is back");
    let workflow = shown(&place, 1);
    assert_eq!(step(&workflow, "compensation:charge")["state"], "completed");
    assert_eq!(step(&workflow, "compensation:place")["state"], "completed");

    let refused = act(&place, "cancel", 2, &["--not-started"]);
    assert_eq!(refused.code, 0, "{}", refused.said);
    assert_eq!(dev.purchase("k2", 2).await.0, 409, "it was blocked");
    assert_eq!(dev.books().await.len(), 1, "and nothing was charged");
    let again = act(&place, "cancel", 2, &["--not-started"]);
    assert_eq!((again.code, again.said.contains("is cancelled (ended ")), (4, true), "{}", again.said);
    let ended = act(&place, "cancel", 1, &[]);
    assert_eq!(ended.code, 4);
    assert!(ended.said.ends_with("it is cancelled, which cancel cannot change\n"), "{}", ended.said);
    dev.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_reset_skipped_or_blocked() {
    let place = place();
    let dev = Dev::start(&place);
    // The operator is wrong, and the provider, which is given the same key, recognises the charge.
    quarantined(&place, &dev, 1).await;
    assert_eq!(act(&place, "retry", 1, &["--step", "charge"]).code, 0);
    until_state(&place, 1, "completed");
    let charge = step(&shown(&place, 1), "charge");
    assert_eq!((&charge["keyVersion"], &charge["result"]), (&json!(1), &json!({ "charge": "ch_1" })));
    let keys = async || dev.books().await.iter().map(|entry| entry["key"].clone()).collect::<Vec<_>>();
    assert_eq!(keys().await, ["@you/purchase/k1 charge"]);
    // Under a new key it does not.
    quarantined(&place, &dev, 9).await;
    assert_eq!(act(&place, "retry", 9, &["--step", "charge", "--new-key"]).code, 0);
    until_state(&place, 9, "completed");
    assert_eq!(keys().await[1..], ["@you/purchase/k9 charge", "@you/purchase/k9 charge ~v1.2"]);

    // The code of a purchase does not accept null for the receipt, so it is quarantined again.
    quarantined(&place, &dev, 2).await;
    let before = shown(&place, 2);
    assert_eq!(act(&place, "skip", 2, &["--step", "charge"]).code, 0);
    until(|| shown(&place, 2)["listed"] == "quarantine");
    let skipped = shown(&place, 2);
    assert_eq!(step(&skipped, "charge")["result"], Value::Null);
    assert_ne!(skipped["reason"], before["reason"]);
    let done = act(&place, "skip", 2, &["--step", "charge"]);
    assert_eq!(done.code, 4);
    assert!(done.said.ends_with("its step charge is completed, which skip cannot change\n"), "{}", done.said);

    // The operator fixes it by hand, and closes it as it is.
    let closed = act(&place, "close", 2, &["--output", "json"]);
    assert_eq!((closed.code, &closed.json()["state"]), (0, &json!("cancelled")), "{}", closed.said);
    assert!(
        closed.json()["steps"].as_array().is_some_and(|steps| steps.len() == 2),
        "nothing was compensated"
    );

    quarantined(&place, &dev, 3).await;
    assert_eq!(act(&place, "cancel", 3, &["--step", "pay"]).code, 0);
    until_state(&place, 3, "failed");
    let refunds = dev.books().await.into_iter().filter(|entry| entry["refund"].is_string()).count();
    assert_eq!(refunds, 1, "a charge that could not be marked as paid was refunded");
    dev.stop();
}

/// A workflow whose code is not registered in the command.
struct Ship;

impl Workflow for Ship {
    const NAME: &'static str = "ship";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_completes_what_a_stopped_process_left_and_names_code_that_it_does_not_have() {
    let place = place();
    let dev = Dev::start(&place);
    dev.mood("busy").await;
    assert_eq!(dev.purchase("k1", 1).await.0, 202);
    dev.stop();
    // Another provider, and no other completer.
    let elsewhere = crate::place();
    let other = Dev::start(&elsewhere);
    let complete = || place.run(&["complete", "--payments-url", other.provider(), "--output", "json"]);
    // The packers have stopped, too, so it waits for its parcel, and their message for a relay.
    // They are there only beside a store of dev's own.
    let has_packers = place.is_embedded();
    until(|| {
        complete();
        let shown = shown(&place, 1);
        if has_packers { shown["waits"][0]["name"] == "event:packed" } else { shown["state"] == "completed" }
    });
    assert_eq!(other.books().await.len(), 1);
    let told = &shown(&place, 1)["messages"][0]["topic"];
    assert_eq!(*told, if has_packers { json!("order/placed") } else { json!(null) });

    let client = place.client();
    let workflows = Workflows::new(&client, place.workflows()).expect("workflows");
    workflows.start(&Ship, "ship/7", &()).enqueue().await.expect("an outcome");
    let unknown = complete();
    assert_eq!((unknown.code, &unknown.json()["unknown"]), (5, &json!({ "ship": 1 })));
    let said = "no code is registered here for 1 of ship: run the completer that has the code, or a newer version of this command";
    assert!(unknown.said.contains(said), "{}", unknown.said);
    let due = place.run(&["ls", "workflows", "--due", "--output", "json"]).json();
    let ship = &due["workflows"][0];
    assert_eq!((&ship["workflow"], &ship["attempts"]), (&json!("ship/7"), &json!(0)), "it was not changed");
    other.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_that_may_be_running_is_changed_only_as_it_was_seen() {
    let place = place();
    let client = place.client();
    let workflows = Workflows::new(&client, place.workflows()).expect("workflows");
    workflows.start(&Ship, "ship/7", &()).enqueue().await.expect("an outcome");
    let revision = || {
        let shown = place.run(&["workflow", "show", "ship/7", "--output", "json"]).json();
        shown["revision"].as_str().expect("a revision").to_owned()
    };
    let seen = revision();
    assert!(place.run(&["workflow", "show", "ship/7"]).text().contains(&seen));
    let act = |verb: &str, more: &[&str]| {
        place.run(&[&["workflow", verb, "ship/7", "--reason", "no longer wanted"], more].concat())
    };
    let steps: [(&str, &[&str]); 6] = [
        ("retry", &["--step", "pack"]),
        ("resolve", &["--step", "pack", "--not-started", "--result", "1"]),
        ("skip", &["--step", "pack", "--not-started"]),
        ("cancel", &["--step", "pack"]),
        ("compensate", &[]),
        ("cancel", &[]),
    ];
    for (verb, more) in steps {
        let shown = act(verb, more);
        // Its step pack has no record yet.
        let code = if (verb, more.len()) == ("retry", 2) { 3 } else { 6 };
        assert_eq!(shown.code, code, "{verb}: {}", shown.said);
        let hint = format!("To do this, run the same command with --seen {seen}.");
        assert!(code == 3 || shown.said.contains(&hint), "{verb}: {}", shown.said);
        if code == 3 {
            continue;
        }
        let other = act(verb, &[more, &["--seen", "0123456789"]].concat());
        assert_eq!(other.code, 4, "{verb}: {}", other.said);
        assert!(other.said.contains("has changed since it had the id 0123456789"), "{}", other.said);
    }
    assert_eq!(revision(), seen, "nothing was written");
    let blocked = act("cancel", &["--step", "pack", "--seen", &seen]);
    assert_eq!(blocked.code, 0, "{}", blocked.said);
    let stale = act("compensate", &["--seen", &seen]);
    assert_eq!(stale.code, 4, "a step of it is another one: {}", stale.said);
    let cancelled = act("compensate", &["--seen", &revision()]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.said);
    let sooner = act("retry", &["--seen", &revision()]);
    assert_eq!(sooner.code, 0, "it waits, and is only driven sooner: {}", sooner.said);
}
