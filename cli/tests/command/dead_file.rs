//! `locker dead import` of an export: what was known of each message is known where it comes to.

use locker_tests::command::{Place, Ran};
use serde_json::{Value, json};

use crate::place;

fn import(place: &Place, lines: &[Value], options: &[&str]) -> Ran {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let file = place.path("dead.jsonl");
    std::fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    place.run(&[&["dead", "import", &file, "--consumer", "packer"][..], options].concat())
}

fn line(id: &str, group: &str, body: &str) -> Value {
    json!({
        "body": body,
        "delivery": { "id": id, "group": group, "receives": 1, "attributes": null },
        "class": "permanent",
        "cause": "[packing.unreadable] it is no order",
        "attempts": 4,
    })
}

/// The only one that is dead.
fn the_dead(place: &Place) -> Value {
    let messages = crate::dead::messages(place, &[]);
    let id = messages[0]["id"].as_str().expect("an id");
    place.run(&["dead", "show", id, "--output", "json"]).json()
}

#[test]
fn class_cause_and_attempts_are_those_of_the_export() {
    let place = place();
    let imported = import(&place, &[line("1", "a", "order 1")], &[]);
    assert_eq!(imported.code, 0, "{}", imported.said);
    let one = the_dead(&place);
    assert_eq!((&one["class"], &one["attempts"]), (&"permanent".into(), &4.into()), "{one}");
    assert_eq!(one["cause"], "[packing.unreadable] it is no order");
}

#[test]
fn a_cause_that_is_given_stands_for_that_of_the_export() {
    let place = place();
    let mut without = line("1", "a", "order 1");
    without["cause"] = Value::Null;
    let refused = import(&place, &[without.clone()], &[]);
    assert_eq!(refused.code, 2, "{}", refused.said);
    assert!(refused.said.contains("line 1 of") && refused.said.contains("--cause"), "{}", refused.said);
    let imported = import(&place, &[without], &["--cause", "the queue was moved"]);
    assert_eq!(imported.code, 0, "{}", imported.said);
    let one = the_dead(&place);
    assert_eq!((&one["class"], &one["cause"]), (&"inDoubt".into(), &"the queue was moved".into()), "{one}");
}

#[test]
fn messages_after_an_unimported_message_of_their_group_stay() {
    let place = place();
    let lines = [line("1", "a", &"x".repeat(400_000)), line("2", "a", "order 2"), line("3", "b", "order 3")];
    let imported = import(&place, &lines, &[]);
    assert_eq!(imported.code, 5, "{}", imported.said);
    assert!(imported.said.contains("1 imported; 2 left where they are"), "{}", imported.said);
    assert_eq!(the_dead(&place)["subject"], "b");
}

#[test]
fn an_archived_one_is_shown_with_the_time_since_when_it_is_dead() {
    let place = place();
    assert_eq!(import(&place, &[line("1", "a", "order 1")], &[]).code, 0);
    let archive = ["dead", "archive", "--all", "--reason", "no order"];
    let seen = crate::dead::shown(&place.run(&archive).said);
    assert_eq!(place.run(&[&archive[..], &["--seen", &seen]].concat()).code, 0);
    let archived = place.run(&["ls", "messages", "--archived", "--output", "json"]).json();
    let id = archived["messages"][0]["id"].as_str().expect("an id");
    let shown = place.run(&["dead", "show", id]);
    assert!(shown.text().contains("dead since") && !shown.text().contains("due"), "{}", shown.text());
}

#[test]
fn file_of_another_consumer_is_refused_before_anything_is_imported() {
    let place = place();
    let (own, mut other) = (line("1", "a", "order 1"), line("2", "b", "order 2"));
    other["consumer"] = "biller".into();
    let refused = import(&place, &[own, other.clone()], &[]);
    assert_eq!(refused.code, 2, "{}", refused.said);
    for part in ["line 2 of", "its consumer is biller, and --consumer is packer", "nothing was imported"] {
        assert!(refused.said.contains(part), "{part} is not in {}", refused.said);
    }
    crate::dead::are_dead(&place, 0);
    other["consumer"] = "packer".into();
    assert_eq!(import(&place, &[other], &[]).code, 0);
}

/// An export is in the order in which messages died.
#[test]
fn a_group_is_imported_in_the_order_in_which_it_was_set_aside() {
    let place = place();
    let mut lines = [line("2", "a", "order 2"), line("1", "a", "order 1")];
    lines[0]["created"] = "2026-11-24T09:05:00.000Z".into();
    lines[1]["created"] = "2026-11-24T09:00:00.000Z".into();
    assert_eq!(import(&place, &lines, &[]).code, 0);
    let exported = place.run(&["dead", "export"]);
    let created = |order: &str| {
        let mut lines =
            exported.text().lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let line = lines.find(|line| line["body"] == order).expect("it was imported");
        line["created"].as_str().expect("a time").to_owned()
    };
    assert!(created("order 1") < created("order 2"), "{}", exported.text());
}
