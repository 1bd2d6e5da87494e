//! The size of a header, by which each of its writes and each check of it is billed, and the causes
//! of failed runs, which lie outside of it.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::AttributeValue;
use locker::Failure;
use locker::workflow::{
    Compensated, Compensation, Completer, Flow, List, Outcome, Reaper, RetryPolicy, State, Stop, Workflow,
    Workflows,
};
use locker_tests::DAY;

use crate::bench::{Desk, LATER, price_of};

/// The bytes of one write unit.
const UNIT: usize = 1024;
/// As a function names itself with the id of its request.
const OWNER: &str = "order_update/8f5c7a4e-1d8b-4f0e-9d53-2b1f6f5f3c11";
const DEAD: &str = "order_update/0a5c7a4e-1d8b-4f0e-9d53-2b1f6f5f3c11";

/// Fails of each of these causes in turn, and notes the size of its header in each run.
#[derive(Clone)]
struct Unlucky {
    desk: Arc<Desk>,
    causes: Arc<Mutex<Vec<Failure>>>,
    sizes: Arc<Mutex<Vec<usize>>>,
}

impl Workflow for Unlucky {
    const NAME: &'static str = "order-update";
    type Input = ();
    type Output = u8;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u8, Stop> {
        let size = header_size(&self.desk).await;
        self.sizes.lock().unwrap().push(size);
        flow.once("reserve").compensate(&"free").run(|_| async { Ok(()) }).await?;
        let next = || {
            let mut causes = self.causes.lock().unwrap();
            if causes.is_empty() { Ok(7) } else { Err(causes.remove(0)) }
        };
        flow.once("pay").retry(RetryPolicy::never()).run(|_| async { next() }).await
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        let size = header_size(&self.desk).await;
        self.sizes.lock().unwrap().push(size);
        Ok(Compensated::Done)
    }
}

/// By the rules of DynamoDB.
fn size_of(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        AttributeValue::Bool(_) => 1,
        AttributeValue::L(items) => 3 + items.iter().map(|item| 1 + size_of(item)).sum::<usize>(),
        AttributeValue::M(items) => {
            3 + items.iter().map(|(name, item)| 1 + name.len() + size_of(item)).sum::<usize>()
        }
        other => panic!("no attribute of a header is {other:?}"),
    }
}

/// Of the header without its input.
async fn header_size(desk: &Desk) -> usize {
    let items = desk.items().await;
    let header = items.iter().find(|item| item["item"].as_s().unwrap() == "#").unwrap();
    let attributes = header.iter().filter(|(name, _)| *name != "input");
    attributes.map(|(name, value)| name.len() + size_of(value)).sum()
}

fn long(word: &str) -> String {
    format!("{word}: {}", "the provider does not answer, ".repeat(9))
}

fn transient(word: &str) -> Failure {
    Failure::transient(long(word))
}

struct Play {
    desk: Arc<Desk>,
    code: Unlucky,
    key: String,
}

impl Play {
    async fn new(causes: Vec<Failure>, key_bytes: usize) -> Self {
        let desk = Arc::new(Desk::new().await);
        let causes = Arc::new(Mutex::new(causes));
        let code = Unlucky { desk: Arc::clone(&desk), causes, sizes: Arc::default() };
        Self { desk, code, key: format!("o/{}", "k".repeat(key_bytes - 2)) }
    }

    fn machine(&self) -> Workflows {
        let change = |settings: &mut locker::Settings, limits: &mut locker::workflow::Limits| {
            settings.owner = OWNER.to_owned();
            limits.retry_for = 3 * DAY;
        };
        self.desk.machine_with(change).0
    }

    async fn started(&self) -> Outcome<u8> {
        self.machine().start(&self.code, self.key.as_str(), &()).run().await.unwrap()
    }

    fn completer(&self) -> Completer {
        Completer::new(&self.machine()).register(self.code.clone())
    }

    async fn go_on(&self) {
        self.desk.bench.clock.advance(LATER);
        self.completer().run().await.unwrap();
    }

    async fn note(&self, what: &str) {
        let size = header_size(&self.desk).await;
        self.code.sizes.lock().unwrap().push(size);
        println!("{what}: {size} bytes");
    }

    fn are_small(&self) {
        self.have_at_most(UNIT);
    }

    fn have_at_most(&self, bytes: usize) {
        let sizes = self.code.sizes.lock().unwrap();
        println!("all: {sizes:?}");
        assert!(sizes.iter().all(|size| *size <= bytes), "{sizes:?}");
    }
}

#[tokio::test]
async fn header_with_a_key_of_400_bytes_stays_under_1_kb() {
    let causes = ["refused", "unreachable", "busy", "closed"].map(transient).to_vec();
    let operator = Failure::needs_operator(long("blocked"));
    let no = Failure::permanent(long("declined"));
    let play = Play::new(causes.into_iter().chain([operator, no]).collect(), 400).await;
    play.started().await;
    play.note("failed once").await;
    for failed in 2..=4 {
        play.go_on().await;
        play.note(&format!("failed {failed} times")).await;
    }
    play.go_on().await;
    play.note("quarantined").await;
    let view = play.desk.view(&play.key).await;
    assert_eq!(view.listed(), Some(List::Quarantine));
    assert!(view.reason().unwrap().contains("blocked"), "{:?}", view.reason());
    let kept: Vec<_> = view.failed_runs().iter().map(|it| it.cause.split(':').nth(1).unwrap()).collect();
    assert_eq!(kept.len(), 3, "{kept:?}");
    play.are_small();
}

#[tokio::test]
async fn header_of_a_compensated_workflow_stays_under_1_kb() {
    let causes = vec![transient("refused"), Failure::permanent(long("declined"))];
    let play = Play::new(causes, 400).await;
    play.started().await;
    play.go_on().await;
    play.note("compensated").await;
    assert_eq!(play.desk.view(&play.key).await.state(), State::Failed);
    play.are_small();
}

/// The requests of a run, and the write units of the last one.
async fn price(causes: Vec<Failure>) -> (usize, f64) {
    let play = Play::new(causes, 400).await;
    let (workflows, wire) = play.desk.machine();
    workflows.start(&play.code, play.key.as_str(), &()).run().await.unwrap();
    let exchanges = wire.take();
    (exchanges.len(), price_of(exchanges.last().unwrap()))
}

#[tokio::test]
async fn only_a_run_that_fails_writes_its_cause() {
    // The start, two steps of three requests, and the end with its answer, which is an item.
    assert_eq!(price(Vec::new()).await, (9, 3.0));
    // The second step is withdrawn instead; then the release, and the cause.
    assert_eq!(price(vec![transient("busy")]).await, (9, 1.0));
}

#[tokio::test]
async fn causes_are_deleted_with_their_workflow_and_no_later_one_shows_them() {
    let causes = ["refused", "refused", "busy", "closed", "unreachable"].map(transient).to_vec();
    let play = Play::new(causes, 20).await;
    play.started().await;
    for _ in 0..5 {
        play.go_on().await;
    }
    let view = play.desk.view(&play.key).await;
    assert_eq!(view.state(), State::Completed);
    let failed = view.failed_runs();
    let shown: Vec<_> = failed.iter().map(|it| (it.runs, it.by.as_str())).collect();
    assert_eq!(shown, [(1, OWNER); 3], "{failed:?}");
    for (failed, word) in failed.iter().zip(["busy", "closed", "unreachable"]) {
        assert!(failed.cause.contains(word), "{failed:?}");
    }
    assert!(failed.is_sorted_by_key(|it| it.first), "{failed:?}");
    play.desk.bench.clock.advance(400 * DAY);
    assert_eq!(Reaper::new(&play.completer()).run().await.unwrap().deleted, 1);
    let left = play.desk.items().await;
    let left = left.iter().filter(|item| item["workflow"].as_s().unwrap() == &play.key);
    let left: Vec<_> = left.map(|item| item["item"].as_s().unwrap().as_str()).collect();
    assert!(left.iter().all(|item| item.starts_with("~ledger/")), "{left:?}");
    play.started().await;
    assert!(play.desk.view(&play.key).await.failed_runs().is_empty());
}

async fn desk_has_causes(play: &Play) -> bool {
    play.desk.items().await.iter().any(|item| item["item"].as_s().unwrap().starts_with("~failed/"))
}

/// The driver of the first run dies.
async fn lost_driver(causes: Vec<Failure>, key_bytes: usize) -> Play {
    let play = Play::new(causes, key_bytes).await;
    play.machine().start(&play.code, play.key.as_str(), &()).enqueue().await.unwrap();
    let (dying, wire) = play.desk.machine_with(|settings, _| settings.owner = DEAD.to_owned());
    wire.next([locker_tests::Fate::Ok, locker_tests::Fate::Ok, locker_tests::Fate::Hangs]);
    let dead = tokio::spawn({
        let (code, key) = (play.code.clone(), play.key.clone());
        async move { dying.start(&code, key.as_str(), &()).run().await.map(drop) }
    });
    while wire.count() < 3 {
        tokio::task::yield_now().await;
    }
    dead.abort();
    play
}

#[tokio::test]
async fn lost_driver_and_the_next_failure_are_both_among_the_causes() {
    let play = lost_driver(vec![transient("busy")], 20).await;
    play.go_on().await;
    let view = play.desk.view(&play.key).await;
    let causes: Vec<_> = view.failed_runs().iter().map(|it| it.by.as_str()).collect();
    assert_eq!(causes, [DEAD, OWNER]);
}

#[tokio::test]
async fn lost_driver_is_among_the_causes_without_a_record() {
    let play = lost_driver(Vec::new(), 20).await;
    play.go_on().await;
    let view = play.desk.view(&play.key).await;
    let [lost] = view.failed_runs() else { panic!("{:?}", view.failed_runs()) };
    assert_eq!((lost.by.as_str(), lost.cause.as_str()), (DEAD, "its driver did not come back"));
    assert!(!desk_has_causes(&play).await, "a run that succeeds writes none");
}

/// The counts of lost drivers come on top of all that a compensation stores.
#[tokio::test]
async fn header_after_a_lost_driver_and_a_compensation_stays_under_1050_bytes() {
    let play = lost_driver(vec![Failure::permanent(long("declined"))], 400).await;
    play.go_on().await;
    play.note("compensated").await;
    play.have_at_most(1050);
}
