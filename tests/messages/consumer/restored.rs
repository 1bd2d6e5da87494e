//! A restored table: messages that it may have forgotten are dead letters, and an operator's
//! redrive processes them.

use std::sync::Mutex;

use chrono::{DateTime, Utc};
use lock_token_testing::CallFate;
use locker::dead_letters::{DeadLetters, Decision};
use locker::inbox::{Consumer, Delivery, Incoming, ReceiveError, Received, Taken};
use locker::message::{MessageState, NewMessage};
use locker::relay::Relay;
use locker::workflow::{Message, Workflows};
use locker::{Class, Failure, Intervened, RunError};
use locker_tests::{HOUR, ada};

use super::{in_state, the_dead};
use crate::post::{MINUTE, Post};

fn event(id: &str, time: Option<DateTime<Utc>>) -> String {
    let time = time.map(|time| format!(r#","time":"{}""#, time.to_rfc3339())).unwrap_or_default();
    format!(r#"{{"specversion":"1.0","id":"{id}","source":"/orders","type":"paid","data":1{time}}}"#)
}

fn delivery(id: &str, time: Option<DateTime<Utc>>) -> Delivery {
    Delivery::new(id, event(id, time)).group("order/7")
}

struct Closed {
    post: Post,
    workflows: Workflows,
    consumer: Consumer,
    before: DateTime<Utc>,
    packed: Mutex<Vec<String>>,
}

impl Closed {
    async fn new() -> Self {
        Self::after(async |_, _| {}).await
    }

    /// `snapshot` is processed before the backup.
    async fn after(snapshot: impl AsyncFnOnce(&Workflows, &Consumer)) -> Self {
        let post = Post::new().await;
        let open = post.desk.machine().0;
        snapshot(&open, &open.inbox("packer").unwrap().consumer()).await;
        let before = post.desk.now();
        post.desk.bench.clock.advance(HOUR);
        let end = post.desk.now();
        post.desk.bench.clock.advance(MINUTE);
        let workflows = post.desk.machine_with(|settings, _| settings.restored = Some(end)).0;
        let consumer = workflows.inbox("packer").unwrap().consumer();
        Self { post, workflows, consumer, before, packed: Mutex::default() }
    }

    /// Takes the message in its inbox.
    async fn pack(&self, delivery: Delivery) -> Result<(), Failure> {
        let message = Incoming::parse(&delivery.body)?;
        self.workflows.inbox("packer").unwrap().atomic(&message).commit().await?.done()?;
        self.packed.lock().unwrap().push(message.id);
        Ok(())
    }

    async fn receive(&self, delivery: &Delivery) -> Received {
        self.consumer.receive(delivery, async |delivery| self.pack(delivery).await).await.unwrap()
    }

    async fn run(&self) {
        self.post.desk.bench.clock.advance(MINUTE);
        let done = self.consumer.run(async |delivery| self.pack(delivery).await).await.unwrap();
        assert!(done.finished);
    }

    async fn redrive(&self) {
        for dead in the_dead(&self.workflows).await {
            assert_eq!(self.workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
        }
    }

    fn packed(&self) -> Vec<String> {
        self.packed.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn old_message_is_dead_until_an_operator_redrives_it() {
    let table = Closed::new().await;
    for (id, time) in [("old", Some(table.before)), ("no-time", None)] {
        assert_eq!(table.receive(&delivery(id, time)).await, Received::DeadLettered, "{id}");
        assert_eq!(table.receive(&delivery(id, time)).await, Received::Duplicate, "{id}");
    }
    // A new message of the group waits for them.
    assert_eq!(table.receive(&delivery("new", Some(table.post.desk.now()))).await, Received::Queued);
    table.run().await;
    assert_eq!(table.packed(), [""; 0]);
    let dead = the_dead(&table.workflows).await;
    assert_eq!(dead.len(), 2);
    for message in &dead {
        assert_eq!(message.class(), Some(Class::InDoubt));
        assert!(message.cause().is_some_and(|cause| cause.contains("may have forgotten this work")));
    }
    table.redrive().await;
    table.run().await;
    assert_eq!(table.packed(), ["old", "no-time", "new"]);
}

#[tokio::test(start_paused = true)]
async fn new_message_is_processed_at_once() {
    let table = Closed::new().await;
    let new = delivery("new", Some(table.post.desk.now()));
    assert_eq!(table.receive(&new).await, Received::Done);
    assert_eq!(table.packed(), ["new"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_message_of_the_backup_is_not_processed_by_a_run() {
    let table = Closed::after(async |workflows, consumer| {
        let refuse = async |_: Delivery| Err(Failure::permanent("there is no order".to_owned()));
        for id in ["first", "second"] {
            consumer.receive(&delivery(id, None), refuse).await.unwrap();
        }
        // Redriven before the backup: both are due.
        for dead in the_dead(workflows).await {
            assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
        }
    })
    .await;
    assert_eq!(in_state(&table.workflows, MessageState::Waiting).await.len(), 2);
    table.run().await;
    assert_eq!(table.packed(), [""; 0]);
    assert_eq!(the_dead(&table.workflows).await.len(), 1);
    for _ in 0..2 {
        table.redrive().await;
        table.run().await;
    }
    assert_eq!(table.packed(), ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn inbox_refuses_an_old_message_in_each_form() {
    let table = Closed::new().await;
    let inbox = table.workflows.inbox("packer").unwrap();
    let now = table.post.desk.now();
    for (time, is_old) in [(None, true), (Some(table.before), true), (Some(now), false)] {
        let mut message = Incoming::parse(&event("7", time)).unwrap();
        (message.subject, message.sequence) = (Some("order/7".to_owned()), Some("1".to_owned()));
        let refused = |error: Option<ReceiveError>| matches!(error, Some(ReceiveError::Restored { .. }));
        assert_eq!(refused(inbox.key(&message).err()), is_old, "{time:?}");
        for taken in [
            inbox.atomic(&message).commit().await,
            inbox.atomic(&message).gapless(1).commit().await,
            inbox.atomic(&message).latest().commit().await,
        ] {
            assert!(!matches!(taken, Ok(Taken::Refused { .. })));
            assert_eq!(refused(taken.err()), is_old, "{time:?}");
        }
    }
}

/// Work that a new request began receives an old message, such as a webhook that is sent again.
#[tokio::test(start_paused = true)]
async fn newer_work_does_not_make_an_old_message_new() {
    let table = Closed::new().await;
    let inbox = table.workflows.inbox("packer").unwrap();
    let tokens = table.post.desk.bench.machine().0;
    for time in [None, Some(table.before)] {
        let message = Incoming::parse(&event("7", time)).unwrap();
        let webhook = tokens.token(("webhook", time.is_some())).requested_at(table.post.desk.now());
        let taken = webhook.run(async |_| {
            let is_refused = matches!(inbox.key(&message), Err(ReceiveError::Restored { .. }));
            let taken = inbox.atomic(&message).commit().await;
            Ok::<_, Failure>(is_refused && matches!(taken, Err(ReceiveError::Restored { .. })))
        });
        assert!(*taken.await.unwrap(), "{time:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn redriven_message_allows_work_with_the_time_of_the_message() {
    let table = Closed::new().await;
    let end = table.post.desk.now() - MINUTE;
    let tokens = table.post.desk.bench.machine_with(|settings| settings.restored = Some(end)).0;
    assert_eq!(table.receive(&delivery("old", Some(table.before))).await, Received::DeadLettered);
    table.redrive().await;
    table.post.desk.bench.clock.advance(MINUTE);
    let done = table.consumer.run(async |delivery: Delivery| {
        let time = Incoming::parse(&delivery.body)?.time.unwrap();
        let token = tokens.token("charge").requested_at(time);
        let ran = token.run(async |_| Ok::<_, Failure>(())).await;
        ran.map(|_| ()).map_err(|error: RunError<Failure>| Failure::permanent(error.to_string()))
    });
    assert_eq!(done.await.unwrap().handled, 1);
}

/// Only the table of tokens was restored. A message of before the restore waits behind another.
#[tokio::test(start_paused = true)]
async fn message_that_waited_has_its_own_time() {
    let post = Post::new().await;
    let before = post.desk.now();
    post.desk.bench.clock.advance(HOUR);
    let end = post.desk.now();
    post.desk.bench.clock.advance(MINUTE);
    let tokens = post.desk.bench.machine_with(|settings| settings.restored = Some(end)).0;
    let workflows = post.desk.machine().0;
    let consumer = workflows.inbox("packer").unwrap().consumer();
    let refuse = async |_: Delivery| Err(Failure::permanent("there is no order".to_owned()));
    assert_eq!(consumer.receive(&delivery("1", Some(before)), refuse).await.unwrap(), Received::DeadLettered);
    assert_eq!(consumer.receive(&delivery("2", Some(before)), refuse).await.unwrap(), Received::Queued);
    for dead in the_dead(&workflows).await {
        assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    post.desk.bench.clock.advance(MINUTE);
    let charged = Mutex::new(Vec::new());
    let done = consumer.run(async |delivery: Delivery| {
        let id = Incoming::parse(&delivery.body)?.id;
        let ran = tokens.token(("charge", &id)).run(async |_| Ok::<_, Failure>(())).await;
        let ran = ran.map(|_| ()).map_err(|error: RunError<Failure>| Failure::permanent(error.to_string()));
        charged.lock().unwrap().extend(ran.is_ok().then_some(id));
        ran
    });
    done.await.unwrap();
    assert_eq!(*charged.lock().unwrap(), ["1"]);
}

async fn refuse(_: Delivery) -> Result<(), Failure> {
    Err(Failure::permanent("there is no order".to_owned()))
}

/// Runs code that redrives each dead message. Returns how many it redrove, and how many were left.
async fn redriven_by_code(workflows: &Workflows) -> (usize, usize) {
    let redrive = async |_: &Message| Decision::Redrive;
    let done = DeadLetters::new(workflows, ada()).run(redrive).await.unwrap();
    assert!(done.finished, "{done:?}");
    (done.redriven, done.left)
}

/// The redrive of code would open the key: the handler would run again, and no person decided.
#[tokio::test(start_paused = true)]
async fn code_redrives_no_message_that_the_table_may_have_forgotten() {
    let table = Closed::after(async |_, consumer| {
        let received = consumer.receive(&delivery("backup", None), refuse).await;
        assert_eq!(received.unwrap(), Received::DeadLettered);
    })
    .await;
    // The rule for an older message makes it dead.
    let held = delivery("held", Some(table.before)).group("order/8");
    assert_eq!(table.receive(&held).await, Received::DeadLettered);
    assert_eq!(redriven_by_code(&table.workflows).await, (0, 2));
    // A note decides nothing.
    for dead in the_dead(&table.workflows).await {
        assert_eq!(table.workflows.annotate(&dead, &ada()).await.unwrap(), Intervened::Done);
    }
    assert_eq!(redriven_by_code(&table.workflows).await, (0, 2));
    // A new message that fails is decided by code.
    let new = delivery("new", Some(table.post.desk.now())).group("order/9");
    assert_eq!(table.consumer.receive(&new, refuse).await.unwrap(), Received::DeadLettered);
    assert_eq!(redriven_by_code(&table.workflows).await, (1, 2));
    table.redrive().await;
    table.run().await;
    let mut packed = table.packed();
    packed.sort();
    assert_eq!(packed, ["backup", "held", "new"]);
}

/// The message was sent after the snapshot, and now its target refuses the copy.
#[tokio::test(start_paused = true)]
async fn code_leaves_an_unsent_message_of_the_backup_that_dies() {
    let post = Post::new().await;
    let commit = async |workflows: &Workflows, topic: &str| {
        let told = NewMessage::new(topic, &1).subject(topic);
        post.commit([workflows.outbox().message(told).unwrap()]).await;
    };
    commit(&post.desk.machine().0, "told/backup").await;
    post.desk.bench.clock.advance(HOUR);
    let end = post.desk.now();
    post.desk.bench.clock.advance(MINUTE);
    let workflows = post.desk.machine_with(|settings, _| settings.restored = Some(end)).0;
    commit(&workflows, "told/new").await;
    post.desk.bench.clock.advance(MINUTE);
    post.calls.always(CallFate::Declined);
    assert_eq!(Relay::new(&workflows, post.router()).run().await.unwrap().dead, 2);
    assert_eq!(redriven_by_code(&workflows).await, (1, 1));
    let left = the_dead(&workflows).await;
    assert_eq!(left.iter().map(Message::topic).collect::<Vec<_>>(), ["told/backup"]);
}
