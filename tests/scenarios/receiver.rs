//! A receiver that remembers takes each message once, and its books are compared with those of
//! sender and broker.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::Update;
use locker::BoxError;
use locker::inbox::{Inbox, Incoming, ReceiveError, Taken};

use super::books::Books;
use super::funding::{RELEASED, TAKEN_BACK};
use super::shop::{Rows, number, text};

/// Take an event together with the rows of the receiver.
///
/// # Errors
///
/// It was not taken, or it is unknown whether it was.
///
/// # Panics
///
/// If it is no event.
pub async fn take(inbox: &Inbox, rows: &Rows, event: &str) -> Result<Taken, ReceiveError> {
    let message = Incoming::parse(event).expect("an event");
    let count = Update::builder().table_name(&rows.table).key("id", text(&heard(&message.id)));
    let count = count.update_expression("ADD times :one").expression_attribute_values(":one", number(1));
    let receive = inbox.atomic(&message).update(count.build().expect("an update"));
    let Some(released) = released(&message.kind) else { return receive.commit().await };
    // It has the whole state, and an older one says nothing new.
    let subject = message.subject.as_deref().unwrap_or_default();
    let seen = rows.change(&seen(subject), &[("released", text(released))], &[]);
    receive.latest().update(seen).commit().await
}

/// What a message says of a funding.
fn released(kind: &str) -> Option<&'static str> {
    match topic(kind).as_str() {
        RELEASED => Some("yes"),
        TAKEN_BACK => Some("no"),
        _ => None,
    }
}

fn topic(kind: &str) -> String {
    kind.replace('.', "/")
}

fn heard(id: &str) -> String {
    format!("heard/{id}")
}

/// What the receiver knows of a funding.
pub(super) fn seen(funding: &str) -> String {
    format!("seen/{funding}")
}

/// The topics that the broker has, by subject, each message once, in the order in which they first
/// came.
pub type Told = BTreeMap<String, Vec<String>>;

/// What the broker has; and what is wrong with what the receiver took of it.
///
/// # Errors
///
/// DynamoDB did not answer.
pub async fn reconcile(books: &Books, rows: &Rows) -> Result<(Told, Vec<String>), BoxError> {
    let (mut known, mut told, mut wrong) = (BTreeSet::new(), Told::new(), Vec::new());
    for event in &books.told {
        let message = Incoming::parse(event)?;
        if !known.insert(message.id.clone()) {
            continue;
        }
        let topic = topic(&message.kind);
        let times = rows.get(&heard(&message.id), "times").await?;
        // A newer one may have come before it.
        let is_superseded = topic == RELEASED && times.is_empty();
        if times != "1" && !is_superseded {
            wrong.push(format!("{topic} was taken {times:?} times"));
        }
        told.entry(message.subject.unwrap_or_default()).or_default().push(topic);
    }
    Ok((told, wrong))
}
