//! Operators see events and waits, and act on them: dry run, reason, audit record, as shown.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use locker::operator::{
    About, Act, ApplyOptions, Console, Filter, Happening, Need, Part, Refusal, Status, Verb,
};
use locker::workflow::{Completer, Event, EventState, Flow, List, Signalled, State, Stop, Workflow};
use locker::{Error, Intervened, Resolution, Work};
use locker_tests::{DAY, Fate, MINUTE, Recorded, ada};
use serde_json::json;

use crate::bench::{Books, Desk, LATER};
use crate::events::{Order, PAID, answer, begun, signal, stored};
use crate::interleavings::{Script, input};
use crate::plan::{fast, goes_on};

fn console(desk: &Desk) -> Console {
    Console::new().workflows(&desk.machine().0)
}

async fn part(desk: &Desk, key: &str) -> Part {
    console(desk).get(key).await.unwrap().remove(0)
}

async fn status(desk: &Desk) -> Status {
    console(desk).status().await.unwrap()
}

/// The groups of late events: their causes and counts.
async fn late(desk: &Desk) -> BTreeMap<String, usize> {
    let groups = status(desk).await.groups.into_iter();
    groups.filter(|group| group.need == Need::Late).map(|group| (group.cause, group.count)).collect()
}

async fn refused(desk: &Desk, act: &Act) -> Refusal {
    let refusal = console(desk).check(&part(desk, "o/1").await, act).unwrap_err();
    // What the check refuses, the act refuses, too.
    let done = console(desk).act(&part(desk, "o/1").await, act, &ada()).await;
    assert!(matches!(done, Ok(Intervened::NotPossible) | Err(Error::Invalid(_))), "{done:?}");
    refusal
}

/// Acts on the workflow as it is now, and returns the effect that was shown.
async fn act(desk: &Desk, act: Act) -> String {
    // Acts of one instant have no order.
    desk.bench.clock.advance(MINUTE);
    let (console, part) = (console(desk), part(desk, "o/1").await);
    let shown = console.check(&part, &act).unwrap();
    assert_eq!(console.act(&part, &act, &ada()).await.unwrap(), Intervened::Done);
    shown.effect
}

/// The workflow of o/1 ended before the event came, so the event is late and nobody compensates it.
async fn after_the_end(desk: &Desk) {
    let code = Plain;
    begun(desk, &code).await;
    desk.settle(&code).await;
    assert_eq!(desk.view("o/1").await.state(), State::Completed);
    let late = signal(&desk.machine().0, "e-1", "17").await;
    assert!(matches!(late, Signalled::Late { compensates: false, .. }), "{late:?}");
}

/// It waits a minute, and declares no compensation.
#[derive(Clone)]
struct Plain;

impl Workflow for Plain {
    const NAME: &'static str = "plain";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        Ok(flow.wait_for(PAID, MINUTE).await?.unwrap_or_default())
    }
}

#[tokio::test]
async fn late_event_is_listed_until_an_operator_skips_it() {
    let desk = Desk::new().await;
    after_the_end(&desk).await;
    let (workflows, _) = desk.machine();
    assert_eq!(signal(&workflows, "e-2", "18").await, Signalled::AlreadyGiven);
    let causes = [("after its time", 1), ("another event under this name", 1)];
    assert_eq!(late(&desk).await, causes.map(|(cause, count)| (cause.to_owned(), count)).into());
    assert!(!status(&desk).await.is_well());

    let view = desk.view("o/1").await;
    let shown: Vec<_> =
        view.events().iter().map(|event| (event.state(), event.id(), event.value())).collect();
    let value = |text: &str| Some(format!("{text:?}"));
    assert_eq!(
        shown,
        [(EventState::Late, Some("e-1"), value("17")), (EventState::Late, Some("e-2"), value("18"))]
    );
    let names: Vec<_> = view.events().iter().map(|event| event.name()).collect();
    assert!(names[0] == "event:paid" && names[1].starts_with("event:paid "), "{names:?}");

    for (number, name) in names.iter().enumerate() {
        let skip = Act::skip().step(name);
        assert_eq!(act(&desk, skip.clone()).await, "it was dealt with by hand: it is listed no more");
        assert_eq!(late(&desk).await.len(), 1 - number, "{name}");
        let again = refused(&desk, &skip).await.because;
        assert_eq!(again, format!("its {name} is handled, which skip cannot change"));
    }
    assert!(status(&desk).await.is_well());
    let view = desk.view("o/1").await;
    for event in view.events() {
        let by = event.intervention().map(|by| (by.by.as_str(), by.reason.as_str()));
        assert_eq!((event.state(), by), (EventState::Handled, Some(("ada", "the provider's books say so"))));
    }
    let acts = workflows.acts("o/1").await.unwrap();
    let acts: Vec<_> = acts.iter().map(|act| (act.resolution.unwrap(), act.step.clone().unwrap())).collect();
    let expected: Vec<_> = names.into_iter().map(|name| (Resolution::Skipped, name)).collect();
    assert_eq!(acts, expected);
    let absent = refused(&desk, &Act::skip().step("event:packed")).await;
    assert_eq!(absent.about, About::Step);
    assert!(absent.because.starts_with("it has no event:packed; stored: event:paid, "), "{absent:?}");
}

#[tokio::test]
async fn skip_of_a_late_event_leaves_out_its_compensation() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&code).await;
    assert!(signal(&desk.machine().0, "e-1", "17").await.is_stored());
    let effect = act(&desk, Act::skip().step("event:paid")).await;
    assert!(effect.contains("its compensation refund does not run"), "{effect}");
    desk.settle(&code).await;
    assert!(code.0.entries().is_empty(), "{:?}", code.0.entries());
    assert_eq!(desk.view("o/1").await.state(), State::Completed);
    assert_eq!(answer(&desk, &code).await, "timeout");
    assert!(late(&desk).await.is_empty());
}

/// An operator closes the workflow with an accepted event that its code cannot read.
#[tokio::test]
async fn event_that_a_close_left_unread_is_skipped_after_the_end() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    assert!(desk.machine().0.signal("o/1", Event::<u64>::named("paid"), &17).await.unwrap().is_stored());
    desk.settle(&code).await;
    let closed = desk.machine().0.close(&desk.view("o/1").await, &ada()).await.unwrap();
    assert_eq!(closed, Intervened::Done);
    assert_eq!(late_causes(&desk).await, ["not read before the end"]);
    act(&desk, Act::skip().step("event:paid")).await;
    assert!(late(&desk).await.is_empty());
    assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
}

/// Between the look at a closed workflow and the skip, another event makes the workflow due again,
/// with both compensations.
#[tokio::test]
async fn skip_is_refused_after_a_closed_workflow_is_due_again() {
    let desk = Desk::new().await;
    let code = Script::new(|flow, script| async move {
        if script.call() > 0 {
            flow.step("not a name").run(async |_| Ok(())).await?;
        }
        let wait = |part: &str| flow.wait_for(PAID.part(part), 3 * DAY).on_late(&"refund").into_future();
        let (one, other) = tokio::join!(wait("a"), wait("b"));
        one.and(other)?;
        Ok("paid".to_owned())
    });
    let (workflows, _) = desk.machine();
    drop(workflows.start(&code, "o/1", &input()).run().await.unwrap());
    let paid = async |part| workflows.signal("o/1", PAID.part(part), &"17".to_owned()).await.unwrap();
    assert_eq!(paid("a").await, Signalled::Accepted);
    desk.settle(&code).await;
    let closed = workflows.close(&desk.view("o/1").await, &ada()).await.unwrap();
    assert_eq!(closed, Intervened::Done);
    let seen = part(&desk, "o/1").await;
    let late = paid("b").await;
    assert!(matches!(late, Signalled::Late { compensates: true, .. }), "{late:?}");
    let skip = Act::skip().step("event:paid#a");
    assert_eq!(console(&desk).act(&seen, &skip, &ada()).await.unwrap(), Intervened::Changed);
    // The operator repaired both effects. A decision about one is none about the other.
    for (part, listed) in [("a", List::Quarantine), ("b", List::Finished)] {
        act(&desk, Act::skip().step(format!("event:paid#{part}"))).await;
        desk.settle(&code).await;
        let view = desk.view("o/1").await;
        assert_eq!(
            (code.books.entries(), view.listed()),
            (vec![], Some(listed)),
            "{part}: {:?}",
            view.reason()
        );
    }
    assert_eq!(desk.view("o/1").await.state(), State::Cancelled);
}

/// Its refund waits for the end of the test; or its code does, after the time of its wait.
#[derive(Clone, Default)]
struct Slow(std::sync::Arc<tokio::sync::Notify>, bool);

impl Workflow for Slow {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let paid = flow.wait_for(PAID, 3 * DAY).on_late(&"refund").await?;
        if self.1 {
            self.0.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(paid.unwrap_or_default())
    }

    async fn compensate(
        &self,
        _: &Flow,
        _: locker::workflow::Compensation,
    ) -> Result<locker::workflow::Compensated, locker::Failure> {
        self.0.notify_one();
        std::future::pending().await
    }
}

/// A driver that has the workflow until the end of the test.
async fn driven(desk: &Desk, code: &Slow) -> tokio::task::JoinHandle<()> {
    desk.bench.clock.advance(MINUTE);
    let completer = Completer::new(&desk.machine().0).register(code.clone());
    let driver = tokio::spawn(async move { drop(completer.run().await) });
    code.0.notified().await;
    driver
}

#[tokio::test]
async fn event_is_not_skipped_once_its_compensation_has_begun() {
    let (desk, code) = (Desk::new().await, Slow::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&code).await;
    let (workflows, _) = desk.machine();
    assert!(signal(&workflows, "e-1", "17").await.is_stored());
    let seen = part(&desk, "o/1").await;
    let driver = driven(&desk, &code).await;
    let skip = Act::skip().step("event:paid");
    assert_eq!(console(&desk).act(&seen, &skip, &ada()).await.unwrap(), Intervened::Changed);
    let because = refused(&desk, &skip).await.because;
    assert!(because.ends_with("has begun: decide about the step compensation-late:event:paid"), "{because}");
    driver.abort();
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("late"));
    assert_eq!(workflows.acts("o/1").await.unwrap().len(), 0);
}

/// The refund of its event may or may not have happened.
#[derive(Clone)]
struct Doubtful;

impl Workflow for Doubtful {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        Ok(flow.wait_for(PAID, 3 * DAY).on_late(&"refund").await?.unwrap_or_default())
    }

    async fn compensate(
        &self,
        _: &Flow,
        _: locker::workflow::Compensation,
    ) -> Result<locker::workflow::Compensated, locker::Failure> {
        Err(locker::Failure::needs_operator("the provider does not know".to_owned()))
    }
}

#[tokio::test]
async fn event_is_not_skipped_while_its_compensation_is_held() {
    let desk = Desk::new().await;
    begun(&desk, &Doubtful).await;
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&Doubtful).await;
    assert!(signal(&desk.machine().0, "e-1", "17").await.is_stored());
    desk.settle(&Doubtful).await;
    assert_eq!(desk.quarantine().await, ["o/1"]);
    let because = refused(&desk, &Act::skip().step("event:paid")).await.because;
    assert!(because.ends_with("has begun: decide about the step compensation-late:event:paid"), "{because}");
}

#[tokio::test]
async fn event_is_not_skipped_while_a_driver_may_compensate_it() {
    let (desk, code) = (Desk::new().await, Slow(std::sync::Arc::default(), true));
    begun(&desk, &code).await;
    desk.bench.clock.advance(3 * DAY);
    let driver = driven(&desk, &code).await;
    let (workflows, _) = desk.machine();
    assert!(signal(&workflows, "e-1", "17").await.is_stored());
    let because = refused(&desk, &Act::skip().step("event:paid")).await.because;
    assert!(
        because.starts_with("a driver may be running the compensation of event:paid until "),
        "{because}"
    );
    driver.abort();
    assert_eq!(late_causes(&desk).await, ["after its time"]);
}

#[tokio::test]
async fn plan_skips_the_late_events_of_a_group() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    for number in 0..3 {
        workflows.start(&Plain, ("o", number), &()).run().await.unwrap();
    }
    desk.settle(&Plain).await;
    for number in 0..3 {
        let signalled = workflows.signal(("o", number), PAID, &"17".to_owned()).await.unwrap();
        assert!(matches!(signalled, Signalled::Late { .. }));
    }
    let group = status(&desk).await.groups.remove(0);
    assert_eq!((group.need, group.count), (Need::Late, 3));
    let console = console(&desk);
    let filter = || Filter::new().group(&group.id);
    let listed = console.list(&filter()).await.unwrap();
    let names: Vec<_> = listed.matches.iter().map(|it| it.event.as_deref()).collect();
    assert_eq!(names, [Some("event:paid"); 3]);
    let other = console.plan(filter(), Act::cancel(), &ada()).await.unwrap();
    assert_eq!((other.items.len(), other.left_out.len()), (0, 3), "{other:?}");
    let invalid = console.plan(filter(), Act::signal("paid", json!("17")), &ada()).await.unwrap_err();
    assert!(invalid.to_string().contains("a plan contains no signal"), "{invalid}");

    let plan = console.plan(filter(), Act::skip().step("event:paid"), &ada()).await.unwrap();
    assert_eq!((plan.items.len(), plan.left_out.len(), plan.write_units()), (3, 0, 18), "{plan:?}");
    assert_eq!(plan.causes(), [("after its time".to_owned(), 3)]);
    // One of them is handled before the plan is applied.
    let seen = part(&desk, "o/1").await;
    let skip = Act::skip().step("event:paid");
    assert_eq!(console.act(&seen, &skip, &ada()).await.unwrap(), Intervened::Done);
    let report = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.changed), (2, 1));
    // The second run finds that the acts are its own.
    let report = console.apply(&plan, &ApplyOptions { per_second: 1000, ..fast() }, goes_on).await.unwrap();
    assert_eq!((report.done, report.changed), (2, 1));
    assert!(status(&desk).await.is_well());
}

#[tokio::test]
async fn signal_of_an_operator_has_a_reason_and_an_audit_record() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let (workflows, wire) = desk.machine();
    desk.bench.clock.advance(MINUTE);
    let give = Act::signal("paid", json!("17")).event_id("e-1");
    let (console, seen) = (Console::new().workflows(&workflows), part(&desk, "o/1").await);
    let shown = console.check(&seen, &give).unwrap();
    assert_eq!(shown.effect, "the code waits for the event: a completer resumes the workflow with it");
    assert_eq!(shown.unknown, ["the type of event:paid is not registered here, so the value is not checked"]);
    let typed = console.clone().event(&PAID);
    assert_eq!(typed.check(&seen, &give).unwrap().unknown, Vec::<String>::new());
    wire.take();
    assert_eq!(typed.act(&seen, &give, &ada()).await.unwrap(), Intervened::Done);
    assert_eq!(wire.count(), 1, "event, workflow and audit record are one transaction");

    let acts = workflows.acts("o/1").await.unwrap();
    let [by_ada] = &acts[..] else { panic!("{acts:?}") };
    assert_eq!(
        (by_ada.resolution, by_ada.step.as_deref()),
        (Some(Resolution::Signalled), Some("event:paid"))
    );
    assert_eq!(by_ada.reason.as_deref(), Some("the provider's books say so"));
    assert_eq!(by_ada.work(), Work::Workflow("o/1".to_owned()));
    assert_eq!(workflows.given(by_ada).await.unwrap().as_deref(), Some("\"17\""));
    let view = desk.view("o/1").await;
    assert_eq!(view.events()[0].intervention().map(|by| by.by.as_str()), Some("ada"));
    // The sender sends the event, too.
    assert_eq!(signal(&workflows, "e-1", "17 of the sender").await, Signalled::Duplicate);
    desk.settle(&code).await;
    assert_eq!(answer(&desk, &code).await, "paid 17");
    let timeline = console.timeline("o/1").await.unwrap();
    let what: Vec<_> =
        timeline.events.iter().filter(|event| event.step.is_some()).map(|event| event.what).collect();
    assert_eq!(
        what,
        [Happening::Begun, Happening::Operator(Resolution::Signalled), Happening::Signalled],
        "{timeline:?}"
    );
}

#[tokio::test]
async fn signal_whose_reply_was_lost_is_in_the_audit_once() {
    for fate in [Fate::ReplyLost, Fate::Lost] {
        let (desk, code) = (Desk::new().await, Order::default());
        begun(&desk, &code).await;
        let (workflows, wire) = desk.machine();
        let seen = part(&desk, "o/1").await;
        wire.next(vec![fate]);
        let console = Console::new().workflows(&workflows);
        let done = console.act(&seen, &Act::signal("paid", json!("17")), &ada()).await.unwrap();
        assert_eq!(done, Intervened::Done, "{fate:?}");
        assert_eq!(workflows.acts("o/1").await.unwrap().len(), 1, "{fate:?}");
    }
}

#[tokio::test]
async fn signal_is_refused_if_the_workflow_is_not_as_it_was_shown() {
    let give = Act::signal("paid", json!("18"));
    // The sender gives the event, another operator acts, the time passes.
    for change in 0..3 {
        let (desk, code) = (Desk::new().await, Order::default());
        begun(&desk, &code).await;
        let (workflows, _) = desk.machine();
        let seen = part(&desk, "o/1").await;
        match change {
            0 => assert_eq!(signal(&workflows, "e-1", "17").await, Signalled::Accepted),
            1 => assert_eq!(workflows.cancel("o/1", 1, &ada()).await.unwrap(), Intervened::Done),
            _ => {
                desk.bench.clock.advance(3 * DAY);
                desk.settle(&code).await;
            }
        }
        let acts = workflows.acts("o/1").await.unwrap().len();
        assert_ne!(part(&desk, "o/1").await.revision(), seen.revision(), "the dry run has another id");
        assert_eq!(console(&desk).act(&seen, &give, &ada()).await.unwrap(), Intervened::Changed);
        assert_eq!(workflows.acts("o/1").await.unwrap().len(), acts, "nothing was written");
        let events =
            desk.view("o/1").await.events().iter().filter_map(|event| event.value()).collect::<Vec<_>>();
        assert_eq!(events, if change == 0 { vec!["\"17\""] } else { Vec::new() });
    }
}

/// The record of an event may change without its workflow.
#[tokio::test]
async fn revision_contains_the_events() {
    let desk = Desk::new().await;
    after_the_end(&desk).await;
    let (before, skip) = (part(&desk, "o/1").await, Act::skip().step("event:paid"));
    assert_eq!(console(&desk).act(&before, &skip, &ada()).await.unwrap(), Intervened::Done);
    assert_ne!(part(&desk, "o/1").await.revision(), before.revision());
    assert_eq!(console(&desk).act(&before, &skip, &ada()).await.unwrap(), Intervened::Changed);
}

#[tokio::test]
async fn value_of_the_wrong_type_is_refused() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let typed = console(&desk).event(&PAID);
    let part = part(&desk, "o/1").await;
    // The type is that of each event of the kind.
    for event in ["paid", "paid#7"] {
        let refusal = typed.check(&part, &Act::signal(event, json!(17))).unwrap_err();
        assert_eq!(refusal.about, About::Result, "{refusal:?}");
        assert!(refusal.because.starts_with(&format!("the value is not of the type of event:{event}: ")));
        let done = typed.act(&part, &Act::signal(event, json!(17)), &ada()).await.unwrap();
        assert_eq!(done, Intervened::NotPossible);
        assert!(typed.check(&part, &Act::signal(event, json!("17"))).is_ok());
    }
    assert_eq!(stored(&desk, "event/paid", "state").await.as_deref(), Some("waiting"));
    for (event, id) in [("a b", "e-1"), ("", "e-1"), ("paid", "")] {
        let give = Act::signal(event, json!("17")).event_id(id);
        assert!(typed.check(&part, &give).is_err(), "{event:?} {id:?}");
        assert!(typed.act(&part, &give, &ada()).await.is_ok_and(|done| done == Intervened::NotPossible));
    }
    for wrong in [Act::skip().step("pay").event_id("e-1"), Act::signal("paid", json!(1)).step("pay")] {
        assert!(matches!(typed.act(&part, &wrong, &ada()).await, Err(Error::Invalid(_))), "{wrong:?}");
    }
}

#[tokio::test]
async fn dry_run_of_a_signal_states_its_answer() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let effect = |act: Act| {
        let desk = &desk;
        async move { console(desk).check(&part(desk, "o/1").await, &act).map(|meaning| meaning.effect) }
    };
    let (e1, e2) =
        (Act::signal("paid", json!("17")).event_id("e-1"), Act::signal("paid", json!("18")).event_id("e-2"));
    let early = effect(Act::signal("packed", json!(1))).await.unwrap();
    assert!(early.contains("does not wait for it yet"), "{early}");
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Accepted);
    let same = effect(e1.clone()).await.unwrap_err().because;
    assert_eq!(same, "it has this event already, which is given: nothing would be written");
    let other = effect(e2.clone()).await.unwrap();
    assert!(other.starts_with("its name has another event"), "{other}");
    desk.settle(&code).await;
    let late = effect(Act::signal("packed", json!(1))).await.unwrap();
    assert_eq!(late, "the event is late and changes no outcome: it is listed until it is skipped");
    // The answer is what happens.
    act(&desk, e2).await;
    assert_eq!(late_causes(&desk).await, ["another event under this name"]);
    desk.bench.clock.advance(400 * DAY);
    let (workflows, _) = desk.machine();
    for event in desk.view("o/1").await.events() {
        if event.state() == EventState::Late {
            act(&desk, Act::skip().step(event.name())).await;
        }
    }
    let reaper = locker::workflow::Reaper::new(&Completer::new(&workflows).register(code));
    assert_eq!(reaper.run().await.unwrap().deleted, 1);
    assert!(
        console(&desk).get("o/1").await.unwrap().is_empty(),
        "a workflow that is deleted cannot be shown"
    );
}

async fn late_causes(desk: &Desk) -> Vec<String> {
    late(desk).await.into_keys().collect()
}

#[tokio::test]
async fn late_signal_of_an_operator_runs_the_compensation_of_its_wait() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&code).await;
    let effect = act(&desk, Act::signal("paid", json!("17")).event_id("e-1")).await;
    assert!(effect.ends_with("it is listed until its compensation refund is complete"), "{effect}");
    assert_eq!(late_causes(&desk).await, ["after its time"]);
    desk.settle(&code).await;
    assert_eq!(code.0.entries(), ["refund event:paid 17 of \"e-1\""]);
    assert!(late(&desk).await.is_empty());
}

#[tokio::test]
async fn event_that_the_code_cannot_read_is_corrected() {
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let correct = Act::correct(json!("17")).step("event:paid");
    let odd = Event::<u64>::named("paid");
    assert_eq!(desk.machine().0.signal("o/1", odd, &17).id("e-1").await.unwrap(), Signalled::Accepted);
    let before = refused(&desk, &correct).await.because;
    assert!(before.contains("its code has not stopped since it cannot read the value"), "{before}");
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["o/1"]);
    let choices = console(&desk).timeline("o/1").await.unwrap().choices;
    assert_eq!((choices[0].verb, choices[0].step.as_deref()), (Verb::Correct, Some("event:paid")));
    let typed = console(&desk).event(&PAID);
    let wrong = typed.check(&part(&desk, "o/1").await, &Act::correct(json!(18)).step("event:paid"));
    assert_eq!(wrong.unwrap_err().about, About::Result);

    act(&desk, correct.clone()).await;
    desk.settle(&code).await;
    assert_eq!(answer(&desk, &code).await, "paid 17");
    assert_eq!(signal(&desk.machine().0, "e-1", "again").await, Signalled::Duplicate);
    let after = refused(&desk, &correct).await.because;
    assert_eq!(after, "its event:paid is taken, which correct cannot change");
    let acts = desk.machine().0.acts("o/1").await.unwrap();
    assert_eq!(acts[0].resolution, Some(Resolution::Corrected));
    for act in [
        Act::retry().step("event:paid"),
        Act::resolve(json!(1)).step("event:paid"),
        Act::cancel().step("event:paid"),
    ] {
        let because = refused(&desk, &act).await.because;
        assert!(because.starts_with("event:paid is an event: "), "{because}");
    }
}

/// It waits for an event, another one and a timer at the same time.
#[derive(Clone)]
struct Several;

impl Workflow for Several {
    const NAME: &'static str = "several";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.now("begun").await?;
        let (paid, packed, pause) = tokio::join!(
            flow.wait_for(PAID, 3 * DAY).into_future(),
            flow.wait_for(PAID.part("packed"), 2 * DAY).into_future(),
            flow.sleep("pause", 5 * DAY),
        );
        paid?;
        packed?;
        pause
    }
}

#[tokio::test]
async fn waits_are_shown_with_their_times() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Several, "several/1", &()).run().await.unwrap();
    let from = desk.now();
    let listed = workflows.list(List::Unfinished).fetch().await.unwrap().items.remove(0);
    let on = listed.waits_for.unwrap();
    assert_eq!(
        (on.name.as_str(), on.since, on.until, listed.other_waits),
        ("event:paid#packed", from, from + 2 * DAY, 2)
    );
    let waits = desk.view("several/1").await.waits();
    let waits: Vec<_> = waits.iter().map(|on| (on.to_string(), on.since, on.until)).collect();
    let expected = [("event:paid#packed", 2), ("event:paid", 3), ("timer pause", 5)];
    assert_eq!(waits, expected.map(|(name, days)| (name.to_owned(), from, from + days * DAY)));
    let counted = status(&desk).await.waiting.unwrap();
    assert_eq!((counted.at_least, counted.exact), (1, true));
    let choices = console(&desk).timeline("several/1").await.unwrap().choices;
    let signals = choices.iter().filter(|choice| choice.verb == Verb::Signal);
    let signals: Vec<_> = signals.map(|choice| choice.step.as_deref().unwrap()).collect();
    assert_eq!(signals, ["event:paid", "event:paid#packed"]);

    desk.bench.clock.advance(2 * DAY);
    desk.settle(&Several).await;
    let waits = desk.view("several/1").await.waits();
    assert_eq!(waits.iter().map(|on| on.name.as_str()).collect::<Vec<_>>(), ["event:paid", "pause"]);
    desk.bench.clock.advance(3 * DAY);
    desk.settle(&Several).await;
    let view = desk.view("several/1").await;
    assert_eq!((view.state(), view.waits()), (State::Completed, Vec::new()));
    assert_eq!(status(&desk).await.waiting.unwrap().at_least, 0);
}

#[tokio::test]
async fn workflow_that_a_driver_has_is_listed_without_a_wait() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let lists = workflows.clone();
    let code = Script::new(move |flow, script| {
        let lists = lists.clone();
        async move {
            let listed = lists.list(List::Unfinished).fetch().await.unwrap().items.remove(0);
            script.books.enter(format!("{:?}", listed.waits_for.map(|on| on.name)));
            flow.sleep("pause", DAY).await?;
            Ok("done".to_owned())
        }
    });
    drop(workflows.start(&code, "s/1", &input()).run().await.unwrap());
    let listed = workflows.list(List::Unfinished).fetch().await.unwrap().items.remove(0);
    assert_eq!(listed.waits_for.map(|on| on.name).as_deref(), Some("pause"));
    desk.bench.clock.advance(DAY);
    desk.settle(&code).await;
    assert_eq!(code.books.entries(), ["None", "None"]);
}

#[tokio::test]
async fn workflow_that_is_retried_or_driven_is_not_counted_as_waiting() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let busy = Busy(Books::default());
    workflows.start(&busy, "busy/1", &()).run().await.unwrap();
    assert_eq!(busy.0.count("tried"), 1);
    begun(&desk, &Order::default()).await;
    let counted = status(&desk).await.waiting.unwrap();
    assert_eq!((counted.at_least, counted.exact), (1, true));
}

/// Its provider is down.
#[derive(Clone)]
struct Busy(Books);

impl Workflow for Busy {
    const NAME: &'static str = "busy";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let policy = locker::workflow::RetryPolicy::never();
        flow.step("call")
            .retry(policy)
            .run(async |_| {
                self.0.enter("tried");
                Err::<(), _>(locker::Failure::transient("503".to_owned()))
            })
            .await
    }
}

/// Writes copies of the header of a waiting workflow.
async fn copies(desk: &Desk, number: std::ops::Range<usize>) {
    let items = desk.items().await;
    let of_first = |item: &&std::collections::HashMap<String, AttributeValue>| {
        item["workflow"].as_s().is_ok_and(|key| key == "o/1")
            && item["item"].as_s().is_ok_and(|item| item == "#")
    };
    let header = items.iter().find(of_first).unwrap();
    let copies = number.map(|number| {
        let mut item = header.clone();
        item.insert("workflow".to_owned(), AttributeValue::S(format!("copy/{number}")));
        let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
        WriteRequest::builder().put_request(put).build()
    });
    let copies: Vec<_> = copies.collect();
    for batch in copies.chunks(25) {
        let write = desk.bench.client.batch_write_item().request_items(&desk.table, batch.to_vec());
        write.send().await.unwrap();
    }
}

#[tokio::test]
async fn ten_thousand_waiting_workflows_add_no_request_to_a_completer_run() {
    let recorded = Recorded::start();
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    let (workflows, wire) = desk.machine();
    let mut requests = Vec::new();
    for (copied, counted) in [(0..0, 1.0), (0..10_000, 1000.0)] {
        copies(&desk, copied).await;
        wire.take();
        let report = Completer::new(&workflows).register(code.clone()).run().await.unwrap();
        assert_eq!((report.claimed, report.finished), (0, true));
        requests.push(wire.count());
        assert_eq!(recorded.take().gauge("workflowsWaiting"), Some(counted));
    }
    assert_eq!(requests[0], requests[1], "the gauge reads one page");
    let counted = status(&desk).await.waiting.unwrap();
    assert_eq!((counted.at_least, counted.exact), (1000, false));
}

#[tokio::test]
async fn events_are_counted_by_what_became_of_them() {
    let recorded = Recorded::start();
    let (desk, code) = (Desk::new().await, Order::default());
    begun(&desk, &code).await;
    act(&desk, Act::signal("paid", json!("17")).event_id("e-1")).await;
    assert_eq!(signal(&desk.machine().0, "e-2", "18").await, Signalled::AlreadyGiven);
    assert_eq!(signal(&desk.machine().0, "e-1", "17").await, Signalled::Duplicate);
    act(&desk, Act::signal("packed", json!(1))).await;
    desk.settle(&code).await;
    act(&desk, Act::signal("sent", json!(1))).await;
    let expected = [("accepted", 2), ("late", 1), ("surplus", 1), ("unread", 1)];
    let expected = expected.map(|(outcome, count)| (outcome.to_owned(), count));
    assert_eq!(recorded.take().counts("events", "outcome"), expected.into());
}
