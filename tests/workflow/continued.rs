//! Workflows that continue under the next version of their key.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lock_token_testing::Fate;
use locker::operator::{Act, Console};
use locker::workflow::{
    Compensated, Compensation, Completer, Event, EventState, Flow, Outcome, Reaper, Signalled, State, Stop,
    Workflow, Workflows,
};
use locker::{Failure, Intervened, Retention, Work};
use locker_tests::{DAY, ada};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};

const PAID: Event<u32> = Event::named("paid");

/// The task of one version of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Round {
    number: u32,
    last: u32,
    /// Waits for the event `paid#NUMBER` in each round.
    waits: bool,
}

fn rounds(last: u32) -> Round {
    Round { number: 1, last, waits: false }
}

/// Charges once in each round, and continues until the last round.
#[derive(Clone, Default)]
struct Rounds(Books);

impl Workflow for Rounds {
    const NAME: &'static str = "rounds";
    type Input = Round;
    type Output = u32;

    async fn run(&self, flow: &Flow, round: Round) -> Result<u32, Stop> {
        let charge = flow.once("charge").compensate(&"refund");
        charge
            .run(async |attempt| {
                self.0.enter(format!("charge {} under {}", round.number, attempt.idempotency_key().len()));
                Ok(())
            })
            .await?;
        if round.waits {
            let paid = flow.wait_for(PAID.part(round.number), DAY).await?;
            self.0.enter(format!("paid {paid:?}"));
        }
        if round.number < round.last {
            return Err(flow.continue_as_new(&Round { number: round.number + 1, ..round }));
        }
        if round.last == 13 {
            return Err(Stop::fail("unlucky"));
        }
        Ok(round.number)
    }

    async fn compensate(&self, _: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        self.0.enter(it.name());
        Ok(Compensated::Done)
    }
}

async fn states(desk: &Desk, versions: u32) -> Vec<Option<State>> {
    let mut states = Vec::new();
    for version in 1..=versions {
        states.push(desk.machine().0.get("r/1", version).await.unwrap().map(|view| view.state()));
    }
    states
}

async fn begun(workflows: &Workflows, code: &Rounds, input: Round) {
    let start = workflows.start(code, "r/1", &input).retention(Retention::For(DAY));
    let outcome = start.enqueue().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
}

#[tokio::test]
async fn start_and_outcome_follow_the_latest_version() {
    let (desk, code) = (Desk::new().await, Rounds::default());
    let (workflows, _) = desk.machine();
    begun(&workflows, &code, rounds(3)).await;
    let outcome = workflows.outcome::<Rounds>("r/1").fetch().await.unwrap();
    assert!(matches!(outcome, Some(Outcome::InProgress(_))), "{outcome:?}");
    desk.settle(&code).await;
    for version in 1..=3 {
        let started = workflows.start(&code, "r/1", &rounds(3)).run().await.unwrap();
        assert!(matches!(&started, Outcome::Completed(answer) if **answer == 3), "{started:?}");
        let outcome = workflows.outcome::<Rounds>("r/1").key_version(version).fetch().await.unwrap();
        assert!(matches!(&outcome, Some(Outcome::Completed(answer)) if **answer == 3), "{outcome:?}");
    }
    assert_eq!(states(&desk, 3).await, [State::Continued, State::Continued, State::Completed].map(Some));
    assert_eq!(desk.view("r/1").await.continued_as(), Some(3));
    // The fingerprint is that of the first input.
    let other = workflows.start(&code, "r/1", &rounds(4)).run().await.unwrap();
    assert!(matches!(other, Outcome::Mismatch), "{other:?}");
    assert_eq!(code.0.entries().len(), 3, "each version charges once");
}

#[tokio::test]
async fn one_run_of_a_completer_drives_several_versions() {
    let (desk, code) = (Desk::new().await, Rounds::default());
    let (workflows, _) = desk.machine();
    begun(&workflows, &code, rounds(5)).await;
    desk.bench.clock.advance(LATER);
    let report = Completer::new(&workflows).register(code.clone()).run().await.unwrap();
    assert_eq!(states(&desk, 5).await[4], Some(State::Completed), "{report:?}");
    assert_eq!((report.claimed, report.waiting, report.completed), (5, 4, 1), "{report:?}");
}

#[tokio::test]
async fn steps_of_an_earlier_version_are_not_compensated() {
    let (desk, code) = (Desk::new().await, Rounds::default());
    let (workflows, _) = desk.machine();
    begun(&workflows, &code, Round { number: 12, last: 13, waits: false }).await;
    desk.settle(&code).await;
    let outcome = workflows.outcome::<Rounds>("r/1").fetch().await.unwrap();
    assert!(matches!(outcome, Some(Outcome::Failed(_))), "{outcome:?}");
    let refunds = code.0.entries().into_iter().filter(|entry| entry == "refund").count();
    assert_eq!(refunds, 1, "of the version that failed: {:?}", code.0.entries());
}

/// Plays each kind of fault at each exchange of the run that continues.
#[tokio::test]
async fn with_a_fault_at_any_exchange_each_version_charges_once() {
    let faults = [Fate::Lost, Fate::ReplyLost, Fate::ErrorBefore, Fate::ErrorAfter, Fate::Conflict];
    let mut played = 0;
    for fault in faults {
        for n in 0.. {
            let (desk, code) = (Desk::new().await, Rounds::default());
            begun(&desk.machine().0, &code, rounds(4)).await;
            let (workflows, wire) = desk.machine();
            wire.next(std::iter::repeat_n(Fate::Ok, n).chain([fault]));
            // From the third version on, the first version is written as well.
            drop(workflows.start(&code, "r/1", &rounds(4)).run().await);
            let exchanges = wire.count();
            desk.settle(&code).await;
            let all = states(&desk, 5).await;
            let continued = Some(State::Continued);
            let completed = Some(State::Completed);
            assert_eq!(all, [continued, continued, continued, completed, None], "{fault:?} {n}");
            assert_eq!(code.0.entries().len(), 4, "{fault:?} {n}: {:?}", code.0.entries());
            if exchanges <= n {
                break;
            }
            played += 1;
        }
    }
    assert!(played >= 5 * 8, "{played}");
}

#[tokio::test]
async fn event_that_the_code_has_not_read_is_given_to_the_next_version() {
    let (desk, code) = (Desk::new().await, Rounds::default());
    let (workflows, _) = desk.machine();
    begun(&workflows, &code, Round { number: 1, last: 3, waits: true }).await;
    let signal = async |part: u32, id: &str| {
        workflows.signal("r/1", PAID.part(part), &(part * 100)).id(id).await.unwrap()
    };
    // The events of later rounds come first.
    assert_eq!(signal(3, "e-3").await, Signalled::Accepted);
    assert_eq!(signal(2, "e-2").await, Signalled::Accepted);
    desk.settle(&code).await;
    assert_eq!(states(&desk, 2).await, [Some(State::Running), None]);
    assert_eq!(signal(1, "e-1").await, Signalled::Accepted);
    desk.settle(&code).await;
    assert_eq!(states(&desk, 3).await[2], Some(State::Completed));
    let paid: Vec<_> = code.0.entries().into_iter().filter(|entry| entry.starts_with("paid")).collect();
    assert_eq!(paid, ["paid Some(100)", "paid Some(200)", "paid Some(300)"]);
    // The next version has the event, so a repeated signal is a duplicate.
    assert_eq!(signal(3, "e-3").await, Signalled::Duplicate);
    let late = signal(1, "e-4").await;
    assert!(matches!(late, Signalled::Late { compensates: false, .. }), "{late:?}");
}

/// A sender is stopped before each of its requests, while a run continues the workflow.
#[tokio::test]
async fn signal_while_the_workflow_continues_reaches_one_version() {
    for n in 1..=4 {
        let (desk, code) = (Desk::new().await, Rounds::default());
        let input = Round { number: 1, last: 2, waits: true };
        begun(&desk.machine().0, &code, input).await;
        let first = desk.machine().0.signal("r/1", PAID.part(1), &100).id("e-1").await.unwrap();
        assert_eq!(first, Signalled::Accepted);
        let (sender, wire) = desk.machine();
        wire.nth(n, Fate::HeldBefore);
        let sends = tokio::spawn(async move { sender.signal("r/1", PAID.part(2), &200).id("e-2").await });
        while wire.held() == 0 && !sends.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        desk.bench.clock.advance(LATER);
        drop(desk.machine().0.start(&code, "r/1", &input).run().await.unwrap());
        wire.let_through();
        assert_eq!(sends.await.unwrap().unwrap(), Signalled::Accepted, "{n}");
        desk.settle(&code).await;
        let paid: Vec<_> = code.0.entries().into_iter().filter(|entry| entry.starts_with("paid")).collect();
        assert_eq!(paid, ["paid Some(100)", "paid Some(200)"], "{n}");
        assert_eq!(states(&desk, 2).await[1], Some(State::Completed), "{n}");
    }
}

/// DynamoDB isolates a query from a transaction only item by item. So the query of a run may return
/// the header as it is after a signal, without the event.
#[tokio::test]
async fn event_that_the_query_of_the_run_missed_moves_to_the_next_version() {
    let desk = Desk::new().await;
    let (client, table) = (desk.bench.client.clone(), desk.table.clone());
    let missed = Arc::new(Mutex::new(None));
    let item = missed.clone();
    let code = Script::new(move |flow, script| {
        let item = item.lock().unwrap().take();
        let put = client.put_item().table_name(&table).set_item(item.clone());
        async move {
            if item.is_some() {
                put.send().await.unwrap();
            }
            if flow.key_version() == 1 {
                return Err(flow.continue_as_new(&input()));
            }
            script.books.enter(format!("{:?}", flow.wait_for(PAID, DAY).await?));
            Ok("done".to_owned())
        }
    });
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "r/1", &input()).enqueue().await.unwrap());
    let signalled = workflows.signal("r/1", PAID, &100).await.unwrap();
    assert_eq!(signalled, Signalled::Accepted);
    let items = desk.items().await.into_iter();
    let event = items.into_iter().find(|item| item["item"].as_s().unwrap() == "event/paid").unwrap();
    let delete = desk.bench.client.delete_item().table_name(&desk.table);
    let delete = delete.key("workflow", event["workflow"].clone()).key("item", event["item"].clone());
    delete.send().await.unwrap();
    *missed.lock().unwrap() = Some(event);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["Some(100)"]);
    assert_eq!(states(&desk, 2).await, [Some(State::Continued), Some(State::Completed)]);
}

#[tokio::test]
async fn next_version_names_the_token_that_started_the_first() {
    let desk = Desk::new().await;
    let ((workflows, _), (locker, _)) = (desk.machine(), desk.bench.machine());
    let code = Script::new(|flow, _| async move {
        if flow.key_version() == 1 { Err(flow.continue_as_new(&input())) } else { Ok("done".to_owned()) }
    });
    let start = async |_| {
        drop(workflows.start(&code, "r/1", &input()).run().await.unwrap());
        Ok::<_, Failure>(())
    };
    locker.token("request").run(start).await.unwrap();
    let next = workflows.get("r/1", 2).await.unwrap().unwrap();
    assert_eq!(next.within(), Some(&Work::Token("request".to_owned())));
}

/// The second version reads the event that moved. Another event comes after the query of its run.
#[tokio::test]
async fn event_next_to_an_event_that_moved_is_late_by_the_end() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let sender = workflows.clone();
    let code = Script::new(move |flow, _| {
        let sender = sender.clone();
        async move {
            if flow.key_version() == 1 {
                return Err(flow.continue_as_new(&input()));
            }
            assert_eq!(flow.wait_for(PAID, DAY).await?, Some(100));
            let signalled = sender.signal("r/1", PAID.part("packed"), &100).await.unwrap();
            assert_eq!(signalled, Signalled::Accepted);
            Ok("done".to_owned())
        }
    });
    drop(workflows.start(&code, "r/1", &input()).enqueue().await.unwrap());
    assert_eq!(workflows.signal("r/1", PAID, &100).await.unwrap(), Signalled::Accepted);
    desk.settle(&code).await;
    let view = workflows.get("r/1", 2).await.unwrap().unwrap();
    let events: Vec<_> = view.events().iter().map(|event| (event.name(), event.state())).collect();
    let [paid, packed] = ["event:paid", "event:paid#packed"].map(str::to_owned);
    assert_eq!(events, [(paid, EventState::Taken), (packed, EventState::Late)]);
}

#[tokio::test]
async fn version_that_is_in_use_quarantines_the_workflow() {
    let (desk, code) = (Desk::new().await, Rounds::default());
    let (workflows, _) = desk.machine();
    let other = workflows.start(&code, "r/1", &rounds(1)).key_version(2).run().await.unwrap();
    assert!(matches!(other, Outcome::Completed(_)), "{other:?}");
    let outcome = workflows.start(&code, "r/1", &rounds(2)).run().await.unwrap();
    let Outcome::Quarantined(why) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        why,
        "cannot continue: version 2 of the key is in use; cancel that workflow, or close this one"
    );
    assert_eq!(states(&desk, 2).await, [Some(State::Running), Some(State::Completed)]);
}

#[tokio::test]
async fn input_of_another_type_quarantines_the_workflow() {
    struct Wrong;
    impl Workflow for Wrong {
        const NAME: &'static str = "wrong";
        type Input = u32;
        type Output = ();
        async fn run(&self, flow: &Flow, _: u32) -> Result<(), Stop> {
            Err(flow.continue_as_new(&"tea"))
        }
    }
    let desk = Desk::new().await;
    let outcome = desk.machine().0.start(&Wrong, "r/1", &1).run().await.unwrap();
    let Outcome::Quarantined(why) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("continue_as_new") && why.contains("give it the input type"), "{why}");
    assert_eq!(states(&desk, 2).await, [Some(State::Running), None]);
}

#[tokio::test]
async fn step_in_doubt_keeps_the_workflow_from_continuing() {
    #[derive(Clone)]
    struct Doubts;
    impl Workflow for Doubts {
        const NAME: &'static str = "doubts";
        type Input = u32;
        type Output = ();
        async fn run(&self, flow: &Flow, round: u32) -> Result<(), Stop> {
            let lost = async |_| Err::<(), _>(Failure::in_doubt("no reply".to_owned()));
            drop(flow.once("charge").run(lost).await);
            Err(flow.continue_as_new(&(round + 1)))
        }
    }
    let desk = Desk::new().await;
    let outcome = desk.machine().0.start(&Doubts, "r/1", &1).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    assert_eq!(states(&desk, 2).await, [Some(State::Running), None]);
}

#[tokio::test]
async fn first_version_is_kept_until_the_latest_one_is_deleted() {
    let (desk, code) = (Desk::new().await, Rounds::default());
    let (workflows, _) = desk.machine();
    begun(&workflows, &code, Round { number: 1, last: 3, waits: true }).await;
    for part in 1..=2 {
        let signalled = workflows.signal("r/1", PAID.part(part), &part).await.unwrap();
        assert_eq!(signalled, Signalled::Accepted);
    }
    desk.settle(&code).await;
    let reap = async || {
        let completer = Completer::new(&workflows).register(code.clone());
        desk.bench.clock.advance(2 * DAY);
        Reaper::new(&completer).run().await.unwrap()
    };
    let running = Some(State::Running);
    assert_eq!(states(&desk, 3).await, [Some(State::Continued), Some(State::Continued), running]);
    let reaped = reap().await;
    assert_eq!((reaped.deleted, reaped.kept), (1, 0), "the second version: {reaped:?}");
    // The wait of the third version ends here, and it completes.
    desk.settle(&code).await;
    assert_eq!(states(&desk, 3).await, [Some(State::Continued), None, Some(State::Completed)]);
    let outcome = workflows.start(&code, "r/1", &Round { number: 1, last: 3, waits: true }).run().await;
    assert!(matches!(outcome.unwrap(), Outcome::Completed(_)));
    for _ in 0..2 {
        reap().await;
    }
    assert_eq!(states(&desk, 3).await, [None, None, None]);
}

/// The price of a lookup does not depend on the number of versions.
#[tokio::test]
async fn two_hundred_versions_cost_a_reader_one_read_more() {
    let (desk, code) = (Desk::new().await, Rounds::default());
    let (workflows, wire) = desk.machine();
    begun(&workflows, &code, rounds(200)).await;
    let outcome = workflows.start(&code, "r/1", &rounds(200)).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)), "one call drives 100 versions: {outcome:?}");
    assert_eq!(code.0.entries().len(), 100);
    while states(&desk, 200).await[199] != Some(State::Completed) {
        desk.settle(&code).await;
    }
    wire.take();
    let outcome = workflows.outcome::<Rounds>("r/1").fetch().await.unwrap();
    assert!(matches!(&outcome, Some(Outcome::Completed(answer)) if **answer == 200), "{outcome:?}");
    assert_eq!(wire.take().len(), 3, "the first version, the latest one, and the answer");
    let signalled = workflows.signal("r/1", PAID, &1).await.unwrap();
    assert!(matches!(signalled, Signalled::Late { .. }), "{signalled:?}");
    assert_eq!(wire.take().len(), 4, "both versions, the event, the transaction");
    let signal = workflows.signal("r/1", PAID.part(1), &1).id("e-1").await.unwrap();
    assert!(matches!(signal, Signalled::Late { .. }), "{signal:?}");
    assert_eq!(wire.take().len(), 5, "and the receipt of the event");
    // A version in between leads to the latest one by the first one.
    let outcome = workflows.outcome::<Rounds>("r/1").key_version(50).fetch().await.unwrap();
    assert!(matches!(&outcome, Some(Outcome::Completed(answer)) if **answer == 200), "{outcome:?}");
    assert_eq!(wire.take().len(), 4);
}

#[tokio::test]
async fn large_input_has_an_item_of_the_next_version() {
    #[derive(Clone)]
    struct Large;
    impl Workflow for Large {
        const NAME: &'static str = "large";
        type Input = Vec<u64>;
        type Output = usize;
        async fn run(&self, flow: &Flow, input: Vec<u64>) -> Result<usize, Stop> {
            if input.len() > 1 {
                return Ok(input.len());
            }
            let next: Vec<u64> = (0..2_000).map(|n| n * 7_919 % 10_007).collect();
            Err(flow.continue_as_new(&next))
        }
    }
    let desk = Desk::new().await;
    drop(desk.machine().0.start(&Large, "r/1", &vec![]).run().await.unwrap());
    desk.settle(&Large).await;
    let outcome = desk.machine().0.outcome::<Large>("r/1").fetch().await.unwrap();
    assert!(matches!(&outcome, Some(Outcome::Completed(answer)) if **answer == 2_000), "{outcome:?}");
    let inputs = desk.items().await.into_iter().filter(|item| {
        let of = |name: &str| item.get(name).and_then(|it: &AttributeValue| it.as_s().ok().cloned());
        of("item").is_some_and(|item| item.starts_with("#input"))
            && of("workflow").as_deref() == Some("r/1 v2")
    });
    assert_eq!(inputs.count(), 1);
}

#[tokio::test]
async fn cancelled_workflow_does_not_continue() {
    let (desk, code) = (Desk::new().await, Rounds::default());
    let input = Round { number: 1, last: 2, waits: true };
    begun(&desk.machine().0, &code, input).await;
    assert_eq!(desk.machine().0.cancel("r/1", 1, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&code).await;
    assert_eq!(states(&desk, 2).await, [Some(State::Cancelled), None]);
}

/// Waits for the same event in two versions of the key.
fn twice_paid() -> Script {
    Script::new(|flow, script| async move {
        let paid = flow.wait_for(PAID, DAY).await?;
        script.books.enter(format!("version {}: {paid:?}", flow.key_version()));
        if flow.key_version() == 2 { Ok("done".to_owned()) } else { Err(flow.continue_as_new(&input())) }
    })
}

async fn given_by_operator(desk: &Desk, partition: &str) -> Intervened {
    let console = Console::new().workflows(&desk.machine().0).event(&PAID);
    let part = console.get(partition).await.unwrap().remove(0);
    console.act(&part, &Act::signal("paid", json!(100)).event_id("e-1"), &ada()).await.unwrap()
}

async fn signalled(desk: &Desk) -> Signalled {
    desk.machine().0.signal("r/1", PAID, &100).id("e-1").await.unwrap()
}

/// An operator gives the event to the first version, which is shown under the key, and then the
/// sender sends the same event.
#[tokio::test]
async fn operator_gives_an_event_to_a_former_version_once() {
    let (desk, code) = (Desk::new().await, twice_paid());
    drop(desk.machine().0.start(&code, "r/1", &input()).run().await.unwrap());
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    assert_eq!(states(&desk, 2).await, [Some(State::Continued), Some(State::Running)]);
    let given = given_by_operator(&desk, "r/1").await;
    let answer = signalled(&desk).await;
    desk.settle(&code).await;
    let stored = desk.items().await.into_iter().filter(|item| item.contains_key("eventId")).count();
    assert_eq!(stored, 1, "{given:?}, {answer:?}, {:?}", code.books.entries());
}

/// A former version has read the event, and the sender who sends it again is answered that it is a
/// duplicate.
#[tokio::test]
async fn operator_does_not_give_again_what_a_version_read() {
    let (desk, code) = (Desk::new().await, twice_paid());
    drop(desk.machine().0.start(&code, "r/1", &input()).run().await.unwrap());
    assert_eq!(signalled(&desk).await, Signalled::Accepted);
    desk.settle(&code).await;
    assert_eq!(signalled(&desk).await, Signalled::Duplicate);
    let console = Console::new().workflows(&desk.machine().0).event(&PAID);
    let part = console.get("r/1 v2").await.unwrap().remove(0);
    let signal = Act::signal("paid", json!(100));
    let unread = "a former version may have an event with this id; if so, nothing is written";
    let unknown = |act: &Act| console.check(&part, act).unwrap().unknown;
    assert_eq!(
        (unknown(&signal.clone().event_id("e-1")), unknown(&signal)),
        (vec![unread.to_owned()], vec![])
    );
    let given = given_by_operator(&desk, "r/1 v2").await;
    assert_eq!(given, Intervened::NotPossible);
    desk.settle(&code).await;
    let read = code.books.entries().into_iter().filter(|entry| entry.ends_with("Some(100)")).count();
    assert_eq!(read, 1, "{given:?}: {:?}", code.books.entries());
}
