//! Order across workflows: only a counter that the senders keep in their transactions has one. An
//! automatic sequence is unique, and orders what one process commits.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use lock_token_testing::CallFate;
use locker::inbox::{Inbox, Incoming, ReceiveError, Taken};
use locker::message::NewMessage;
use locker::workflow::{Flow, Stop, Workflow};

use crate::post::{Letters, MINUTE, Post};

/// Two steps, each of which tells of a change of one subject, with its number.
#[derive(Debug, Clone)]
struct Change {
    rows: String,
    first: u64,
}

impl Change {
    /// The counter of the subject, in the transaction of the message.
    fn count(&self) -> Update {
        let number = |number: u64| AttributeValue::N(number.to_string());
        let update =
            Update::builder().table_name(&self.rows).key("id", AttributeValue::S("order/7".to_owned()));
        let update =
            update.update_expression("SET #count = :next").expression_attribute_names("#count", "count");
        let update = update.condition_expression("attribute_not_exists(#count) OR #count = :last");
        let update = update.expression_attribute_values(":last", number(self.first - 1));
        update.expression_attribute_values(":next", number(self.first)).build().unwrap()
    }
}

impl Workflow for Change {
    const NAME: &'static str = "change";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for step in 0..2 {
            let change = Self { first: self.first + step, ..self.clone() };
            let message = NewMessage::new("order/changed", &change.first).subject("order/7");
            let message = message.number(change.first);
            let told = flow.atomic(format!("change#{step}")).update(change.count()).send(message);
            told.commit(&()).await?;
        }
        Ok(())
    }
}

/// What the broker took, in its order: the numbers.
fn arrived(post: &Post) -> Vec<(u64, Incoming)> {
    let read = |envelope: locker::message::Envelope| {
        let message = Incoming::parse(&envelope.to_json().unwrap()).unwrap();
        (message.data().unwrap(), message)
    };
    post.broker.took().into_iter().map(read).collect()
}

/// Deliver each until it is taken or superseded, as a queue does. Returns the numbers in the order
/// in which they were taken.
async fn taken(inbox: &Inbox, arrived: &[(u64, Incoming)], gapless: bool) -> Vec<u64> {
    let (mut taken, mut left) = (Vec::new(), arrived.to_vec());
    for _ in 0..arrived.len() {
        let mut again = Vec::new();
        for (number, message) in left {
            let take = inbox.atomic(&message);
            let take = if gapless { take.gapless(message.number().unwrap()) } else { take.latest() };
            match take.commit().await.unwrap() {
                Taken::Now => taken.push(number),
                Taken::Early { expects } => {
                    assert!(expects < number);
                    again.push((number, message));
                }
                Taken::Before | Taken::Superseded => {}
                other => panic!("{other:?}"),
            }
        }
        left = again;
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn messages_of_two_workflows_arrive_in_the_order_of_each_and_are_taken_in_that_of_the_counter() {
    // Whose first send fails: of the first workflow, of the second, of both, of none.
    let mut orders = std::collections::BTreeSet::new();
    for failing in [[true, false], [false, true], [true, true], [false, false]] {
        let post = Post::new().await;
        for (number, fails) in failing.into_iter().enumerate() {
            if fails {
                post.calls.next([CallFate::Refused]);
            }
            let code = Change { rows: post.desk.rows.clone(), first: 1 + 2 * number as u64 };
            let (workflows, _) = post.sender();
            workflows.start(&code, format!("change/{number}"), &()).run().await.unwrap();
        }
        post.desk.bench.clock.advance(MINUTE);
        assert!(post.relay().0.run().await.unwrap().finished);
        assert_eq!(post.unsent().await, 0);
        let arrived = arrived(&post);
        let numbers: Vec<_> = arrived.iter().map(|(number, _)| *number).collect();
        // Within each workflow, the order is that of its commits.
        for workflow in [[1, 2], [3, 4]] {
            let of: Vec<_> = numbers.iter().filter(|number| workflow.contains(number)).copied().collect();
            assert_eq!(of, workflow, "{numbers:?}");
        }
        let (workflows, _) = post.desk.machine();
        assert_eq!(
            taken(&workflows.inbox("all").unwrap(), &arrived, true).await,
            [1, 2, 3, 4],
            "{numbers:?}"
        );
        let latest = taken(&workflows.inbox("newest").unwrap(), &arrived, false).await;
        assert_eq!(latest.last(), numbers.iter().max(), "{numbers:?}");
        assert!(latest.is_sorted(), "an older one is never taken after a newer one: {latest:?}");
        orders.insert(numbers);
    }
    // The first workflow's messages may come last.
    assert!(orders.contains(&vec![3, 4, 1, 2]), "{orders:?}");
    assert!(orders.contains(&vec![1, 2, 3, 4]), "{orders:?}");
}

fn told() -> NewMessage {
    NewMessage::new("told", &7).subject("order/7")
}

/// All clocks stand still, so the commits are made in one millisecond.
#[tokio::test(start_paused = true)]
async fn commits_of_many_processes_in_one_millisecond_have_different_sequences() {
    let post = Post::new().await;
    for _ in 0..20 {
        let (workflows, _) = post.desk.machine();
        post.commit([workflows.outbox().message(told()).unwrap()]).await;
    }
    post.settle().await;
    let sequences: BTreeSet<_> = post.broker.took().into_iter().map(|it| it.sequence).collect();
    assert_eq!((post.topics().len(), sequences.len()), (20, 20), "{sequences:?}");
}

#[tokio::test(start_paused = true)]
async fn commits_of_one_process_in_one_millisecond_are_in_order() {
    let post = Post::new().await;
    let (workflows, _) = post.desk.machine();
    let told = |topic: &str| NewMessage::new(topic, &7).subject("order/7");
    let inbox = workflows.inbox("packer").unwrap();
    let rounds = [["told/00", "told/01", "told/02", "told/03"], ["told/10", "told/11", "told/12", "told/13"]];
    for (round, [by_outbox, by_step, first, second]) in rounds.into_iter().enumerate() {
        post.commit([workflows.outbox().message(told(by_outbox)).unwrap()]).await;
        let letters = Letters(vec![(by_step, Some("order/7"))]);
        workflows.start(&letters, format!("letters/{round}"), &()).run().await.unwrap();
        let received = Incoming::new("/legacy", round.to_string(), "order.placed", "7");
        let receive = inbox.atomic(&received).send(told(first)).send(told(second));
        receive.commit().await.unwrap().done().unwrap();
    }
    post.settle().await;
    let mut took = post.broker.took();
    took.sort_by_key(|envelope| envelope.sequence.clone());
    let topics: Vec<_> = took.into_iter().map(|envelope| envelope.topic).collect();
    assert_eq!(topics, rounds.concat());
}

fn numbered(id: &str, sequence: &str) -> Incoming {
    let mut message = Incoming::new("/orders", id, "order.changed", "7");
    message.subject = Some("order/7".to_owned());
    message.sequence = Some(sequence.to_owned());
    message
}

#[tokio::test(start_paused = true)]
async fn latest_compares_numbers_and_not_texts() {
    let post = Post::new().await;
    let inbox = post.desk.machine().0.inbox("newest").unwrap();
    for (id, sequence, taken) in [
        ("a", "9", Taken::Now),
        ("b", "10", Taken::Now),
        ("c", "00000000000000000009", Taken::Superseded),
        ("d", "0", Taken::Superseded),
        ("b", "10", Taken::Before),
        ("e", "18446744073709551615", Taken::Now),
    ] {
        assert_eq!(inbox.atomic(&numbered(id, sequence)).latest().commit().await.unwrap(), taken, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn latest_refuses_what_is_no_number_of_its_sender() {
    let post = Post::new().await;
    let (workflows, wire) = post.sender();
    let message = workflows.outbox().message(told()).unwrap();
    post.commit([message.clone()]).await;
    workflows.outbox().send([message]).await;
    let (_, automatic) = arrived(&post).remove(0);
    assert_eq!(automatic.number(), None);
    let inbox = workflows.inbox("newest").unwrap();
    wire.take();
    for message in [automatic, numbered("a", "+7"), numbered("a", "2026-11-26T00:00:00Z")] {
        let error = inbox.atomic(&message).latest().commit().await.unwrap_err();
        assert!(matches!(error, ReceiveError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains("let its sender assign one by `NewMessage::number`"), "{error}");
    }
    assert_eq!(wire.count(), 0);
}
