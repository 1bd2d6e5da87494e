//! Items of a layout that is one version higher are refused, and nothing is written.
//!
//! Headers and steps have such tests in `tests/workflow/layouts.rs`, and tokens in
//! `tests/records_of_others.rs`.

use lock_token_testing::Broker;
use locker::inbox::{Delivery, ReceiveError, Received};
use locker::workflow::Workflows;
use locker::{Error, Failure};
use serde_json::{Value, json};

use crate::folder::{Tables, present, text};
use crate::messages::{delivery, inboxes, incoming, message_of, numbered, packer, relay};
use crate::trips::PAID;

/// Raises the version of the items in this place. Returns the version that they had.
fn raise(tables: &mut Tables, workflow: &str, item: &str) -> u32 {
    let is = |found: &&mut Value| {
        text(found, "workflow").starts_with(workflow) && text(found, "item").starts_with(item)
    };
    let mut version = None;
    for found in tables.workflows.iter_mut().filter(is) {
        let known: u32 = found["version"]["N"].as_str().expect("a version").parse().expect("a number");
        found["version"] = json!({"N": (known + 1).to_string()});
        version = Some(known);
    }
    version.unwrap_or_else(|| panic!("no item is in {workflow} {item}"))
}

async fn signal(workflows: &Workflows, course: &str, id: &str) -> Result<(), Error> {
    workflows.signal(format!("trip/{course}"), PAID, &100).id(id).await.map(drop)
}

fn of_locker<T>(taken: Result<T, ReceiveError>) -> Result<(), Error> {
    match taken {
        Ok(_) => Ok(()),
        Err(ReceiveError::Locker(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn newer_event_message_or_receipt_is_refused_by_its_reader() {
    for (workflow, item) in [
        ("trip/waits", "event/"),
        ("trip/surplus", "~event/"),
        ("trip/continued", "~receipt/"),
        ("letter/dead", "message/"),
        ("letter/archived", "archived/"),
        ("locker inbox each", "received"),
        ("locker inbox latest", "latest"),
        ("locker inbox gapless", "number"),
    ] {
        let mut tables = present().await.tables.clone();
        let version = raise(&mut tables, workflow, item);
        let stage = tables.load().await;
        let workflows = stage.workflows();
        let [each, latest, gapless] = inboxes(&workflows);
        let read = match workflow {
            "trip/waits" => signal(&workflows, "waits", "e-1").await,
            "trip/surplus" => signal(&workflows, "surplus", "e-2").await,
            "trip/continued" => signal(&workflows, "continued", "e-1").await,
            "letter/dead" => message_of(&workflows, "dead").await.map(drop),
            "letter/archived" => message_of(&workflows, "archived").await.map(drop),
            "locker inbox each" => of_locker(each.atomic(&incoming("m-1")).commit().await),
            "locker inbox latest" => of_locker(latest.atomic(&numbered("m-2", 2)).latest().commit().await),
            _ => of_locker(gapless.atomic(&numbered("m-1", 1)).gapless(1).commit().await),
        };
        let expected = format!("version {}, this code reads up to {version};", version + 1);
        let is_refused = matches!(&read, Err(Error::Record { reason }) if reason.contains(&expected));
        assert!(is_refused, "{workflow} {item}: {read:?}");
        assert_eq!(Tables::of(&stage).await, tables, "{workflow} {item}");
    }
}

/// The broker delivers the message again, later.
#[tokio::test]
async fn consumer_leaves_a_message_with_a_newer_record_in_its_queue() {
    for (item, id, receives) in [("failures", "m-4", 2), ("heard/", "m-3", 1)] {
        let mut tables = present().await.tables.clone();
        let dead = tables.workflows.iter().find(|it| text(it, "delivery").contains(&format!("sqs {id}")));
        let place = dead.map_or("locker inbox packer", |dead| text(dead, "workflow")).to_owned();
        let version = raise(&mut tables, &place, item);
        let stage = tables.load().await;
        let workflows = stage.workflows();
        let fails = async |_: Delivery| Err::<(), _>(Failure::transient("the store is closed".to_owned()));
        let again = delivery(id, None).receives(receives);
        let received: Result<Received, _> = packer(&workflows).receive(&again, fails).await;
        let Err(ReceiveError::Later { cause, .. }) = received else { panic!("{item}: {received:?}") };
        let expected = format!("version {}, this code reads up to {version};", version + 1);
        assert!(cause.contains(&expected), "{item}: {cause}");
        assert_eq!(Tables::of(&stage).await, tables, "{item}");
    }
}

#[tokio::test]
async fn relay_leaves_a_newer_message_and_sends_the_others() {
    let mut tables = present().await.tables.clone();
    raise(&mut tables, "letter/unsent", "message/");
    let (stage, broker) = (tables.load().await, Broker::new());
    let report = relay(&stage, &broker).run().await.unwrap();
    assert_eq!((report.sent, report.failed), (2, 1), "{report:?}");
    let is = |it: &&Value| text(it, "workflow") == "letter/unsent";
    let before: Vec<_> = tables.workflows.iter().filter(is).cloned().collect();
    let after = Tables::of(&stage).await;
    assert_eq!(after.workflows.iter().filter(is).cloned().collect::<Vec<_>>(), before);
    assert!(message_of(&stage.workflows(), "unsent").await.is_err());
}
