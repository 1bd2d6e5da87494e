//! `locker dead import`: from a queue, and from an export.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::dead::{are_dead, groups, messages};
use crate::dead_said::{said, set_aside, shown_as_json};
use crate::place;
use crate::sqs::{Queue, import, received};

/// A message of a FIFO queue.
fn of_group(id: &str, group: &str, body: &str) -> Value {
    let attributes =
        json!({ "MessageGroupId": group, "SequenceNumber": "1", "ApproximateReceiveCount": "3" });
    json!({ "MessageId": id, "ReceiptHandle": id, "Body": body, "Attributes": attributes })
}

#[test]
fn imported_message_keeps_its_delivery_and_leaves_its_queue() {
    let place = place();
    let fifo = json!({ "MessageGroupId": "order/7", "SequenceNumber": "1" });
    let standard = json!({ "MessageGroupId": "order/7" });
    let queue = Queue::start(vec![received(1, &fifo), received(2, &standard)]);
    let imported = import(&place, &queue, &["--cause", "the function was killed"]);
    said(&imported, 0, "2 imported; look");
    let deleted = queue.asked("DeleteMessage");
    assert_eq!(deleted.iter().map(|it| it["ReceiptHandle"].clone()).collect::<Vec<_>>(), ["h1", "h2"]);
    let mut groups = BTreeSet::new();
    for listed in messages(&place, &["--consumer", "packer"]) {
        let one = shown_as_json(&place, listed["id"].as_str().expect("an id"), &[]);
        assert_eq!((&one["attempts"], &one["class"]), (&json!(7), &json!("inDoubt")), "{one}");
        assert_eq!(one["cause"], "the function was killed");
        assert_eq!(one["delivery"]["attributes"]["attributes"]["SentTimestamp"], "1", "{one}");
        groups.insert(one["delivery"]["group"].as_str().map(str::to_owned));
    }
    assert_eq!(
        groups,
        BTreeSet::from([None, Some("order/7".to_owned())]),
        "groups of a standard queue are no order"
    );
}

#[test]
fn no_more_are_imported_than_it_was_told_and_what_cannot_be_kept_stays() {
    let place = place();
    let queue = Queue::start((0..25).map(|number| received(number, &json!({}))).collect());
    let limited = import(&place, &queue, &["--limit", "3"]);
    said(&limited, 5, "3 imported; the limit was reached, and there may be more in the queue; look");
    assert_eq!(queue.asked("DeleteMessage").len(), 3);
    let mut huge = received(30, &json!({}));
    huge["Body"] = json!("x".repeat(400_000));
    let queue = Queue::start(vec![huge]);
    said(&import(&place, &queue, &[]), 5, "0 imported; 1 left where they are");
    assert_eq!(queue.asked("DeleteMessage").len(), 0);
}

#[test]
fn a_file_is_imported_as_far_as_it_was_told_and_not_at_all_if_a_line_is_wrong() {
    let place = place();
    set_aside(&place, "packer", 0..4, "it is no order");
    let exported = place.run(&["dead", "export"]);
    said(&exported, 0, "4 exported, with their bodies");
    let file = place.path("dead.jsonl").display().to_string();
    std::fs::write(&file, exported.text()).expect("a file");
    let other = crate::place();
    let import = ["dead", "import", &file, "--consumer", "packer"];
    let some = other.run(&[&import[..], &["--limit", "3", "--cause", "moved"]].concat());
    said(&some, 5, "3 imported; 1 left where they are");
    let groups = groups(&other);
    assert_eq!((&groups[0]["count"], &groups[0]["cause"]), (&json!(3), &json!("moved")));
    // The last line was committed, and not received.
    let line = exported.text().lines().next().expect("a line");
    let mut sent: Value = serde_json::from_str(line).expect("JSON");
    sent["delivery"] = Value::Null;
    let mut large: Value = serde_json::from_str(line).expect("JSON");
    large["bodyAt"] = json!("claim");
    for (wrong, why) in [
        ("tea".to_owned(), "it is not JSON"),
        (sent.to_string(), "it was not received"),
        (large.to_string(), "its body is in the claim-check store of its consumer"),
    ] {
        let third = crate::place();
        std::fs::write(&file, format!("{}{wrong}\n", exported.text())).expect("a file");
        let ran = third.run(&import);
        said(&ran, 2, &format!("line 5 of {file}: {why}"));
        are_dead(&third, 0);
    }
}

/// Sets an attribute of a dead message.
async fn set(place: &locker_tests::command::Place, dead: usize, attribute: &str, value: &str) {
    let (client, table) = (place.client(), place.workflows());
    let items = client.scan().table_name(table).send().await.expect("items").items.unwrap_or_default();
    let item = items.into_iter().filter(|item| item.contains_key("body")).nth(dead).expect("a message");
    let key = ["workflow", "item"].map(|name| (name.to_owned(), item[name].clone()));
    let update = client.update_item().table_name(table).set_key(Some(key.into()));
    let update = update.update_expression("SET #attribute = :value");
    let update = update.expression_attribute_names("#attribute", attribute);
    let update = update.expression_attribute_values(":value", AttributeValue::S(value.to_owned()));
    update.send().await.expect("it is set");
}

#[test]
fn export_counts_what_it_lacks() {
    let place = place();
    set_aside(&place, "packer", 0..4, "it is no order");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(set(&place, 0, "bodyAt", "claim"));
    let without = place.run(&["dead", "export"]);
    said(&without, 5, "4 exported; 1 of them without their body");
    runtime.block_on(set(&place, 1, "created", "long ago"));
    let unread = place.run(&["dead", "export"]);
    assert_eq!((unread.code, unread.text().lines().count()), (5, 3), "{}", unread.said);
    for part in
        [" cannot be read: ", "3 exported; 1 of them without", "; 1 cannot be read, and are not exported"]
    {
        assert!(unread.said.contains(part), "{part} is not in {}", unread.said);
    }
}

#[test]
fn messages_after_an_unimported_message_of_their_group_stay() {
    let place = place();
    // Too large to be kept.
    let large = "x".repeat(400_000);
    let bodies =
        [("1", "a", large.as_str()), ("2", "a", "order 2"), ("3", "b", "order 3"), ("4", "a", "order 4")];
    let queue = Queue::start(bodies.map(|(id, group, body)| of_group(id, group, body)).into());
    let imported = import(&place, &queue, &[]);
    assert_eq!(imported.code, 5, "{}", imported.said);
    assert!(imported.said.contains("1 imported; 3 left where they are"), "{}", imported.said);
    let line = "locker: 2: an earlier message of its group stays in its place, so this one stays too";
    assert!(imported.said.contains(line), "{}", imported.said);
    let deleted = queue.asked("DeleteMessage");
    assert_eq!(deleted.iter().map(|it| it["ReceiptHandle"].clone()).collect::<Vec<_>>(), ["3"]);
}

#[test]
fn refused_queue_is_setup_and_a_busy_queue_is_unavailable() {
    let place = place();
    for (error, code) in [("QueueDoesNotExist", 78), ("AccessDeniedException", 78), ("RequestThrottled", 69)]
    {
        let queue = Queue::start(Vec::new());
        queue.kept.lock().expect("no panic").refuses = Some(error);
        said(&import(&place, &queue, &[]), code, "cannot read the queue");
    }
}

#[test]
fn import_reports_its_count_if_the_queue_fails() {
    let place = place();
    let queue = Queue::start((0..12).map(|number| received(number, &json!({}))).collect());
    queue.kept.lock().expect("no panic").ends_with = Some("QueueDoesNotExist");
    let imported = import(&place, &queue, &[]);
    said(&imported, 5, "12 imported; there may be more in the queue; look");
    said(&imported, 5, "the queue cannot be read any further");
    assert_eq!(queue.asked("DeleteMessage").len(), 12);
}
