//! Results of steps above 4 KB are stored in separate items. Only code that uses a result reads its
//! item.

use locker::workflow::{
    Compensated, Compensation, Completer, Flow, Outcome, Reaper, Reported, State, StepState, Stop, Workflow,
};
use locker::{Failure, Intervened};
use locker_tests::{DAY, Exchange, Fate, Wire, ada};

use tokio::task::JoinHandle;

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};

/// A text of this many bytes that does not compress.
pub(crate) fn noise(bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    (0..bytes).map(|_| random.alphanumeric()).collect()
}

/// Returns the sort keys of the results in separate items.
async fn beside(desk: &Desk) -> Vec<String> {
    let items = desk.items().await;
    let keys = items.iter().filter_map(|item| item.get("item").and_then(|key| key.as_s().ok()).cloned());
    keys.filter(|key| key.starts_with("!result/")).collect()
}

/// A script with one `once` whose result has this many bytes, and then `rest`.
fn large(bytes: usize) -> Script {
    Script::new(move |flow, script| async move {
        let read = flow.once("read").run(async |_| {
            script.books.enter("read");
            Ok(noise(bytes))
        });
        let read = read.await?;
        flow.sleep("nap", DAY).await?;
        Ok(read)
    })
}

async fn ran(desk: &Desk, script: &Script) -> (Outcome<String>, Wire) {
    let (workflows, wire) = desk.machine();
    let outcome = workflows.start(script, "l/1", &input()).run().await.unwrap();
    (outcome, wire)
}

fn is_of_result(exchange: &Exchange) -> bool {
    exchange.request.to_string().contains("!result/")
}

#[tokio::test]
async fn result_above_four_kilobytes_is_beside_and_the_others_are_not() {
    // With the quotes of JSON, and compressed: random text has about three quarters of its bytes.
    for (bytes, count) in [(1000, 0), (4000, 0), (7000, 1), (20_000, 1)] {
        let (desk, script) = (Desk::new().await, large(bytes));
        ran(&desk, &script).await;
        assert_eq!(beside(&desk).await.len(), count, "{bytes}");
        desk.bench.clock.advance(DAY);
        let (outcome, _) = ran(&desk, &script).await;
        let Outcome::Completed(answer) = outcome else { panic!("{bytes}: {outcome:?}") };
        assert_eq!((answer.into_inner(), script.books.count("read")), (noise(bytes), 1));
    }
}

#[tokio::test]
async fn resume_reads_a_large_result_only_if_its_code_asks_for_it() {
    for asks in [false, true] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, script| async move {
            if script.call() == 0 || asks {
                flow.step("read").run(async |_| Ok(noise(9000))).await?;
            }
            flow.sleep("nap", DAY).await?;
            Ok(String::new())
        });
        let (_, wire) = ran(&desk, &script).await;
        let read = |wire: &Wire| {
            let exchanges = wire.take();
            let of_result = exchanges.iter().filter(|exchange| is_of_result(exchange));
            of_result.filter(|exchange| exchange.operation == "GetItem").count()
        };
        assert_eq!(read(&wire), 0, "the run that wrote it has it");
        desk.bench.clock.advance(DAY);
        let (outcome, wire) = ran(&desk, &script).await;
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        assert_eq!(read(&wire), usize::from(asks));
    }
}

#[tokio::test]
async fn operator_sees_a_large_result() {
    let (desk, script) = (Desk::new().await, large(9000));
    ran(&desk, &script).await;
    let view = desk.view("l/1").await;
    let result = view.steps().iter().find(|step| step.name() == "read").unwrap().result();
    assert_eq!(result, Some(format!("\"{}\"", noise(9000))));
}

/// If the code reads another type, the workflow is quarantined. An operator then gives a result
/// that the code can read.
#[tokio::test]
async fn corrected_result_replaces_a_large_one() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        if script.call() == 0 {
            flow.step("read").run(async |_| Ok(noise(9000))).await?;
        } else {
            let number = flow.step("read").run(async |_| Ok(0_u64)).await?;
            return Ok(number.to_string());
        }
        flow.sleep("nap", DAY).await?;
        Ok(String::new())
    });
    ran(&desk, &script).await;
    desk.bench.clock.advance(DAY);
    let (outcome, _) = ran(&desk, &script).await;
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("the recorded result of step read cannot be read"), "{reason}");
    let view = desk.view("l/1").await;
    let workflows = desk.machine().0;
    let corrected = workflows.correct_step(&view, "read", &7.into(), &ada()).await.unwrap();
    assert_eq!(corrected, Intervened::Done);
    let (outcome, _) = ran(&desk, &script).await;
    let Outcome::Completed(answer) = outcome else { panic!("{outcome:?}") };
    assert_eq!(answer.into_inner(), "7");
}

/// A charge with a large receipt, which its compensation receives.
#[derive(Clone, Default)]
struct Charge(Books);

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("charge").compensate(&"refund").run(async |_| Ok(noise(9000))).await?;
        flow.sleep("nap", DAY).await?;
        Err(Stop::fail("no stock"))
    }

    async fn compensate(&self, _: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        self.0.enter(it.result::<String>()?.unwrap_or_default());
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn compensation_receives_a_large_result() {
    let (desk, code) = (Desk::new().await, Charge::default());
    desk.machine().0.start(&code, "l/1", &()).run().await.unwrap();
    desk.bench.clock.advance(DAY);
    let outcome = desk.machine().0.start(&code, "l/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(code.0.entries(), [noise(9000)]);
}

#[tokio::test]
async fn atomic_step_has_a_large_value_beside() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let value = flow.atomic("note").message("noted", &1).commit(&noise(9000)).await?;
        flow.sleep("nap", DAY).await?;
        Ok(value)
    });
    ran(&desk, &script).await;
    assert_eq!(beside(&desk).await.len(), 1);
    desk.bench.clock.advance(DAY);
    let (outcome, _) = ran(&desk, &script).await;
    let Outcome::Completed(answer) = outcome else { panic!("{outcome:?}") };
    assert_eq!(answer.into_inner(), noise(9000));
}

#[tokio::test]
async fn reported_result_is_compared_wherever_it_is_stored() {
    let desk = Desk::new().await;
    let no_reply = async |_| Err::<String, _>(Failure::in_doubt("no reply".to_owned()));
    let script = Script::new(move |flow, _| async move { flow.once("pack").run(no_reply).await });
    ran(&desk, &script).await;
    desk.bench.clock.advance(LATER);
    let workflows = desk.machine().0;
    let report = async |text: &str| workflows.report("l/1", "pack").completed(&text).await.unwrap();
    assert_eq!(report(&noise(9000)).await, Reported::Recorded);
    assert_eq!(report(&noise(9000)).await, Reported::Known);
    assert_eq!(beside(&desk).await.len(), 1, "the second one is deleted");
    assert_eq!(report(&noise(9001)).await, Reported::Twice);
    assert_eq!(beside(&desk).await.len(), 2);
}

/// The item is written before the record, so a record never refers to a missing item.
#[tokio::test]
async fn fault_at_any_exchange_leaves_the_result_readable() {
    use Fate::{Conflict, ErrorAfter, ErrorBefore, Garbled, Lost, ReplyLost, Throttled};
    let (bytes, mut played) = (9000, 0);
    let desk = Desk::new().await;
    for fault in [Lost, ReplyLost, ErrorBefore, ErrorAfter, Throttled, Conflict, Garbled] {
        for n in 0.. {
            let (key, script) = (format!("l/{fault:?}/{n}"), large(bytes));
            let (workflows, wire) = desk.machine();
            wire.next(std::iter::repeat_n(Fate::Ok, n).chain([fault]));
            let outcome = workflows.start(&script, &key, &input()).run().await;
            assert!(matches!(outcome, Ok(Outcome::InProgress(_))), "{key}: {outcome:?}");
            let sent = wire.count();
            desk.bench.clock.advance(DAY);
            let outcome = desk.machine().0.start(&script, &key, &input()).run().await.unwrap();
            let Outcome::Completed(answer) = outcome else { panic!("{key}: {outcome:?}") };
            assert_eq!((answer.into_inner(), script.books.count("read")), (noise(bytes), 1), "{key}");
            if sent <= n {
                break;
            }
            played += 1;
        }
    }
    // Start; the step, its check, its result and its end; the time; the release.
    assert_eq!(played, 7 * 7);
}

/// Runs the script until a request that contains this text is held.
async fn held_at(desk: &Desk, script: &Script, text: &'static str) -> (Wire, JoinHandle<()>) {
    let (workflows, wire) = desk.machine();
    wire.matching(move |exchange| exchange.request.to_string().contains(text), Fate::HeldBefore);
    let held = tokio::spawn({
        let script = script.clone();
        // Only the items that the run leaves matter.
        async move { drop(workflows.start(&script, "l/1", &input()).run().await) }
    });
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    (wire, held)
}

#[tokio::test]
async fn record_never_refers_to_a_result_that_is_not_stored() {
    let (desk, script) = (Desk::new().await, large(9000));
    let (_, dies) = held_at(&desk, &script, "!result/").await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let states: Vec<_> = desk.view("l/1").await.steps().iter().map(|step| step.state()).collect();
    assert_eq!(states, [StepState::Started]);
    dies.abort();
}

#[tokio::test]
async fn result_that_came_second_is_deleted() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let first = script.call() == 0;
        let read = flow.step("read").run(async |_| Ok(if first { noise(9000) } else { noise(8000) }));
        Ok(read.await?.len().to_string())
    });
    let (wire, sleeps) = held_at(&desk, &script, "step/read").await;
    desk.bench.clock.advance(LATER);
    let (outcome, _) = ran(&desk, &script).await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(beside(&desk).await.len(), 2);
    wire.let_through();
    sleeps.await.unwrap();
    assert_eq!(beside(&desk).await.len(), 1);
    let result = desk.view("l/1").await.steps()[0].result().unwrap();
    assert_eq!(result.len(), 8002);
}

/// A driver that crashes between the two writes leaves an item without a record.
#[tokio::test]
async fn result_without_a_record_is_deleted_with_its_workflow() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let first = script.call() == 0;
        let read = flow.step("read").run(async |_| Ok(if first { noise(9000) } else { noise(8000) }));
        Ok(read.await?[..1].to_owned())
    });
    held_at(&desk, &script, "step/read").await.1.abort();
    assert_eq!(beside(&desk).await.len(), 1);
    desk.bench.clock.advance(LATER);
    let (outcome, _) = ran(&desk, &script).await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(beside(&desk).await.len(), 2, "the code ran again");
    assert_eq!(desk.view("l/1").await.state(), State::Completed);
    desk.bench.clock.advance(400 * DAY);
    let completer = Completer::new(&desk.machine().0).register(script);
    assert_eq!(Reaper::new(&completer).run().await.unwrap().deleted, 1);
    assert_eq!(beside(&desk).await, Vec::<String>::new());
    let items = desk.items().await;
    let of_workflow = items.iter().filter(|item| item["workflow"].as_s().unwrap() == "l/1");
    let left: Vec<_> = of_workflow.map(|item| item["item"].as_s().unwrap().split('/').next()).collect();
    assert_eq!(left, [Some("~ledger")]);
}
