//! Events from outside: a workflow waits for an event and receives it once.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::workflow::{
    Compensated, Compensation, Completer, Event, Flow, Outcome, Signalled, State, Stop, Workflow, Workflows,
};
use locker::{Error, Failure, Intervened};
use locker_tests::{DAY, ada};
use serde::{Deserialize, Serialize};

use crate::bench::{Books, Desk};
use crate::interleavings::{Script, input};

pub(crate) const PAID: Event<String> = Event::named("paid");

/// A workflow that waits three days for its payment.
#[derive(Clone, Default)]
pub(crate) struct Order(pub(crate) Books);

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let paid = flow.wait_for(PAID, 3 * DAY).on_late(&"refund").await?;
        Ok(paid.map_or("timeout".to_owned(), |paid| format!("paid {paid}")))
    }

    async fn compensate(&self, _: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        let paid = it.result::<String>()?.unwrap_or_default();
        self.0.enter(format!("{} {} {paid} of {:?}", it.name(), it.step(), it.tried_under()));
        assert!(it.is_late());
        Ok(Compensated::Done)
    }
}

pub(crate) async fn signal(workflows: &Workflows, id: &str, value: &str) -> Signalled {
    workflows.signal("o/1", PAID, &value.to_owned()).id(id).await.unwrap()
}

/// The text attribute of an item of the workflow, if the item has it.
pub(crate) async fn stored(desk: &Desk, item: &str, attribute: &str) -> Option<String> {
    let text = |value: &AttributeValue| value.as_s().ok().cloned();
    let items = desk.items().await;
    let found = items.iter().find(|found| found.get("item").and_then(text).as_deref() == Some(item))?;
    found.get(attribute).and_then(text)
}

pub(crate) async fn begun<W: Workflow<Input = ()>>(desk: &Desk, code: &W) {
    let outcome = desk.machine().0.start(code, "o/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::InProgress(_)));
}

pub(crate) async fn answer<W: Workflow<Input = (), Output = String>>(desk: &Desk, code: &W) -> String {
    match desk.machine().0.start(code, "o/1", &()).run().await.unwrap() {
        Outcome::Completed(answer) => answer.into_inner(),
        Outcome::Cancelled => "cancelled".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn event_resumes_the_workflow_that_waits_for_it() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let reason = desk.view("o/1").await.reason().unwrap().to_owned();
    assert!(reason.starts_with("it waits for event:paid until 2"), "{reason}");
    let waits = stored(&desk, "#", "step").await.unwrap();
    assert!(waits.starts_with("event:paid 2") && waits.ends_with(" +0"), "{waits}");
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Accepted);
    assert_eq!(stored(&desk, "#", "step").await, None, "it waits for nothing any more");
    desk.settle(&code).await;
    assert_eq!(answer(&desk, &code).await, "paid 17");
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("taken"));
    assert!(code.0.entries().is_empty());
}

#[tokio::test]
async fn event_before_the_wait_is_kept_for_it() {
    let desk = Desk::new().await;
    let workflows = desk.machine().0;
    let script = Script::new(move |flow, script| {
        let workflows = workflows.clone();
        async move {
            if script.call() == 0 {
                let signalled = workflows.signal("s/1", PAID, &"early".to_owned()).await?;
                script.books.enter(format!("{signalled:?}"));
            }
            Ok(flow.wait_for(PAID, DAY).await?.unwrap_or_default())
        }
    });
    let outcome = desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    let Outcome::Completed(answer) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        (answer.into_inner().as_str(), script.books.entries()),
        ("early", vec!["Accepted".to_owned()])
    );
}

#[tokio::test]
async fn wait_without_an_event_ends_with_none_for_ever() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(2 * DAY);
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.state(), State::Running, "a day is left");
    desk.bench.clock.advance(DAY);
    desk.settle(&code).await;
    assert_eq!(answer(&desk, &code).await, "timeout");
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("expired"));
}

/// One record decides, instead of two clocks.
#[tokio::test]
async fn event_after_the_time_counts_if_no_driver_has_noticed_the_time() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(4 * DAY);
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Accepted);
    desk.settle(&code).await;
    assert_eq!(answer(&desk, &code).await, "paid 17");
}

#[tokio::test]
async fn same_event_is_stored_once_and_another_event_is_listed() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let (workflows, _) = desk.machine();
    for (id, value, signalled) in [
        ("e-1", "17", Signalled::Accepted),
        ("e-1", "17", Signalled::Duplicate),
        ("e-1", "another value", Signalled::Duplicate),
        ("e-2", "17", Signalled::AlreadyGiven),
        ("e-2", "17", Signalled::Duplicate),
        ("e-3", "18", Signalled::AlreadyGiven),
    ] {
        assert_eq!(signal(&workflows, id, value).await, signalled, "{id} {value}");
    }
    let without_id = workflows.signal("o/1", PAID, &"17".to_owned()).await.unwrap();
    assert_eq!(without_id, Signalled::Duplicate, "without an id, the values decide");
    let without_id = workflows.signal("o/1", PAID, &"18".to_owned()).await.unwrap();
    assert_eq!(without_id, Signalled::Duplicate, "of an event that is listed");
    desk.settle(&code).await;
    assert_eq!(answer(&desk, &code).await, "paid 17");
    let listed =
        desk.items().await.into_iter().filter(|item| {
            item.get("status").is_some_and(|status| status.as_s().unwrap().starts_with("late"))
        });
    let subjects: Vec<_> = listed.map(|item| item["subject"].as_s().unwrap().clone()).collect();
    assert_eq!(subjects.len(), 2, "{subjects:?}");
    assert!(subjects.iter().all(|subject| subject.starts_with("event:paid ")), "{subjects:?}");
    assert!(code.0.entries().is_empty(), "another event runs no compensation");
}

#[tokio::test]
async fn event_for_no_workflow_is_not_stored() {
    let desk = Desk::new().await;
    let signalled = signal(&desk.machine().0, "e-1", "17").await;
    assert_eq!((signalled, signalled.is_stored()), (Signalled::NotStarted, false));
    assert!(desk.items().await.is_empty());
    assert!(Signalled::Duplicate.is_stored() && Signalled::Accepted.is_stored());
}

#[tokio::test]
async fn event_goes_to_the_version_of_the_key_that_is_named() {
    let (desk, code) = (Desk::new().await, Order::default());
    let (workflows, _) = desk.machine();
    for version in [1, 2] {
        workflows.start(&code, "o/1", &()).key_version(version).run().await.unwrap();
    }
    let paid = || workflows.signal("o/1", PAID, &"17".to_owned());
    assert_eq!(paid().key_version(3).await.unwrap(), Signalled::NotStarted);
    assert_eq!(paid().key_version(2).await.unwrap(), Signalled::Accepted);
    desk.settle(&code).await;
    let state = |view: locker::workflow::View| view.state();
    let view = async |version| state(workflows.get("o/1", version).await.unwrap().unwrap());
    assert_eq!((view(1).await, view(2).await), (State::Running, State::Completed));
}

#[tokio::test]
async fn invalid_signals_are_refused_before_anything_is_sent() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let signal = |name: &'static str| workflows.signal("o/1", Event::named(name), &1);
    let long = "e".repeat(257);
    for (signal, why) in [
        (signal("paid").id(""), "the id of an event must be 1 to 256 bytes without control characters"),
        (signal("paid").id(long), "the id of an event must be 1 to 256 bytes"),
        (signal("paid").id("a\nb"), "the id of an event must be 1 to 256 bytes"),
        (signal("a/b"), "invalid event name: the name has a / at byte 1"),
        (signal("event:paid"), "invalid event name: a name cannot start with"),
        (signal("paid").key_version(0), "key_version must be at least 1, got 0"),
        (workflows.signal("", PAID, &String::new()), "key"),
    ] {
        let error = signal.await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let past = workflows.signal("o/1", PAID, &String::new()).deadline(desk.now() - Duration::from_secs(1));
    assert!(matches!(past.await, Err(Error::Expired { .. })));
    let one_way = workflows.signal("o/1", Event::named("odd"), &OneWay { left_out: 1 });
    assert!(matches!(one_way.await, Err(Error::Answer(_))), "the code could never read it");
    assert_eq!(wire.count(), 0);
}

/// A value that cannot be read back.
#[derive(Serialize, Deserialize)]
struct OneWay {
    #[serde(skip_serializing)]
    #[allow(dead_code, reason = "it is never read back")]
    left_out: u8,
}

#[tokio::test]
async fn value_that_the_code_cannot_read_waits_for_code_that_can() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let number: Event<u64> = Event::named("paid");
    assert_eq!(desk.machine().0.signal("o/1", number, &17).await.unwrap(), Signalled::Accepted);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"]);
    let view = desk.view("o/1").await;
    assert!(view.reason().unwrap().contains("event:paid cannot be read"), "{:?}", view.reason());
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("given"));
    // The next deployment reads numbers.
    #[derive(Clone)]
    struct Later;
    impl Workflow for Later {
        const NAME: &'static str = "order";
        type Input = ();
        type Output = String;
        async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
            let paid = flow.wait_for(Event::<u64>::named("paid"), 3 * DAY).await?;
            Ok(format!("{paid:?}"))
        }
    }
    assert_eq!(desk.machine().0.retry(&view, &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&Later).await;
    assert_eq!(answer(&desk, &Later).await, "Some(17)");
}

/// Two parts of one kind of event.
#[derive(Clone)]
struct Both;

impl Workflow for Both {
    const NAME: &'static str = "both";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let (one, other) =
            tokio::join!(flow.wait_for(PAID.part(1), 2 * DAY), flow.wait_for(PAID.part("a b"), DAY));
        Ok(format!("{:?} {:?}", one?, other?))
    }
}

#[tokio::test]
async fn branches_wait_for_parts_and_any_of_them_wakes() {
    let desk = Desk::new().await;
    begun(&desk, &Both).await;
    let waits = stored(&desk, "#", "step").await.unwrap();
    assert!(waits.starts_with("event:paid#a%20b 2") && waits.ends_with(" +1"), "{waits}");
    let (workflows, _) = desk.machine();
    let signalled = workflows.signal("o/1", PAID.part(1), &"x".to_owned()).await.unwrap();
    assert_eq!(signalled, Signalled::Accepted);
    desk.settle(&Both).await;
    let waits = stored(&desk, "#", "step").await.unwrap();
    assert!(waits.starts_with("event:paid#a%20b 2") && waits.ends_with(" +0"), "{waits}");
    desk.bench.clock.advance(DAY);
    desk.settle(&Both).await;
    assert_eq!(answer(&desk, &Both).await, "Some(\"x\") None");
}

#[tokio::test]
async fn wait_whose_stop_the_code_ignores_holds_the_workflow() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let waited = flow.wait_for(PAID, DAY).await;
        script.books.enter(format!("{}", waited.is_ok()));
        Ok("done".to_owned())
    });
    desk.machine().0.start(&script, "o/1", &input()).run().await.unwrap();
    assert_eq!(desk.view("o/1").await.state(), State::Running);
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Accepted);
    desk.settle(&script).await;
    assert_eq!(desk.view("o/1").await.state(), State::Completed);
    assert_eq!(script.books.entries(), ["false", "true"]);
}

#[tokio::test]
async fn two_waits_for_one_name_at_once_are_a_mistake_in_the_code() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let (one, other) = tokio::join!(flow.wait_for(PAID, DAY), flow.wait_for(PAID, DAY));
        Ok(format!("{:?}{:?}", one?, other?))
    });
    desk.machine().0.start(&script, "o/1", &input()).run().await.unwrap();
    // The first wait returned a stop, so its name is free, and both wait for the same event.
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Accepted);
    desk.settle(&script).await;
    let reason = desk.view("o/1").await.reason().unwrap().to_owned();
    assert!(reason.contains("has the same name"), "{reason}");
}

#[tokio::test]
async fn wait_of_more_than_a_year_or_of_no_time_is_refused() {
    for within in [Duration::ZERO, 367 * DAY] {
        let desk = Desk::new().await;
        let script =
            Script::new(
                move |flow, _| async move { Ok(flow.wait_for(PAID, within).await?.unwrap_or_default()) },
            );
        let outcome = desk.machine().0.start(&script, "o/1", &input()).run().await.unwrap();
        let Outcome::Quarantined(why) = outcome else { panic!("{outcome:?}") };
        assert!(why.contains("within must be between 1ms and 366 days"), "{why}");
    }
}

/// A later deployment adds a branch before the wait.
#[derive(Clone)]
struct Branched;

impl Workflow for Branched {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let version = flow.version("checks", 2).await?;
        let paid = flow.wait_for(PAID, 3 * DAY).await?;
        Ok(format!("version {version}, paid {paid:?}"))
    }
}

#[tokio::test]
async fn workflow_that_waits_is_beyond_a_branch_before_the_wait() {
    let desk = Desk::new().await;
    begun(&desk, &Order::default()).await;
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Accepted);
    desk.settle(&Branched).await;
    assert_eq!(answer(&desk, &Branched).await, "version 1, paid Some(\"17\")");
}

#[tokio::test]
async fn outcome_of_an_event_is_not_reported() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let reported = desk.machine().0.report("o/1", "event:paid").completed(&"17").await;
    assert!(matches!(reported, Err(Error::Invalid(_))), "{reported:?}");
}

#[tokio::test]
async fn event_that_no_code_waits_for_does_not_shorten_a_backoff() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, _| async move {
        flow.step("mail").run(async |_| Err::<(), _>(Failure::transient("503".to_owned()))).await?;
        Ok(flow.wait_for(PAID, DAY).await?.unwrap_or_default())
    });
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "o/1", &input()).run().await.unwrap());
    let due = desk.view("o/1").await.due();
    assert!(due > desk.now());
    assert_eq!(signal(&workflows, "e-1", "17").await, Signalled::Accepted);
    assert_eq!(desk.view("o/1").await.due(), due);
}

/// A workflow whose compensation waits for an event.
#[derive(Clone, Default)]
struct Returned(Books);

const CAME_BACK: Event<String> = Event::named("came-back");

impl Workflow for Returned {
    const NAME: &'static str = "returned";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        flow.once("ship").compensate(&"recall").run(async |_| Ok(())).await?;
        Ok(flow.wait_for(PAID, 3 * DAY).await?.unwrap_or_default())
    }

    async fn compensate(&self, flow: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        let came = flow.wait_for(CAME_BACK, DAY).on_late(&"resend").await?;
        self.0.enter(format!("{} {came:?}", it.name()));
        Ok(Compensated::Done)
    }
}

#[tokio::test]
async fn compensation_waits_for_an_event_of_its_own() {
    for comes in [true, false] {
        let (desk, code) = (Desk::new().await, Returned::default());
        begun(&desk, &code).await;
        let (workflows, _) = desk.machine();
        assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done);
        desk.settle(&code).await;
        let view = desk.view("o/1").await;
        assert_eq!(view.state(), State::Compensating, "it waits");
        let late = signal(&workflows, "e-1", "17").await;
        assert!(matches!(late, Signalled::Late { compensates: false, .. }), "the forward wait is closed");
        assert_eq!(desk.view("o/1").await.due(), view.due(), "the compensation does not wait for it");
        if comes {
            let signalled = workflows.signal("o/1", CAME_BACK, &"yes".to_owned()).await.unwrap();
            assert_eq!(signalled, Signalled::Accepted, "and the wait of the compensation is open");
        } else {
            desk.bench.clock.advance(DAY);
        }
        desk.settle(&code).await;
        assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
        let came = if comes { "Some(\"yes\")" } else { "None" };
        assert_eq!(code.0.entries(), [format!("recall {came}")]);
    }
}

/// A workflow that waits a month for an approval.
#[derive(Clone)]
struct Approval;

const APPROVED: Event<bool> = Event::named("approved");

impl Workflow for Approval {
    const NAME: &'static str = "approval";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        Ok(match flow.wait_for(APPROVED, 30 * DAY).await? {
            Some(true) => "approved".to_owned(),
            Some(false) => "rejected".to_owned(),
            None => "nobody decided".to_owned(),
        })
    }
}

#[tokio::test]
async fn approval_within_a_month_costs_nothing_while_it_waits() {
    for (decides, expected) in [(Some(true), "approved"), (Some(false), "rejected"), (None, "nobody decided")]
    {
        let desk = Desk::new().await;
        begun(&desk, &Approval).await;
        let before = stored(&desk, "#", "revision").await;
        for _ in 0..29 {
            desk.bench.clock.advance(DAY - crate::bench::LATER);
            desk.settle(&Approval).await;
        }
        assert_eq!(stored(&desk, "#", "revision").await, before, "no run has touched it");
        if let Some(decision) = decides {
            let signalled = desk.machine().0.signal("o/1", APPROVED, &decision).await.unwrap();
            assert_eq!(signalled, Signalled::Accepted);
        }
        desk.bench.clock.advance(DAY);
        desk.settle(&Approval).await;
        assert_eq!(answer(&desk, &Approval).await, expected);
    }
}

#[tokio::test]
async fn waiting_workflows_add_no_request_to_a_run_of_the_completer() {
    const WAITING: usize = 1000;
    let desk = Desk::new().await;
    let requests = async || {
        let (workflows, wire) = desk.machine();
        let completer = Completer::new(&workflows).register(Approval);
        desk.bench.clock.advance(crate::bench::LATER);
        let report = completer.run().await.unwrap();
        assert_eq!(report.claimed, 0);
        wire.take().into_iter().map(|exchange| exchange.operation).collect::<Vec<_>>()
    };
    let without = requests().await;
    for number in 0..WAITING {
        desk.machine().0.start(&Approval, ("o", number), &()).run().await.unwrap();
    }
    assert_eq!(requests().await, without);
}
