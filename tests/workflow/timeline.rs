//! The timeline of a key: all that belongs together, what happened in order, and choices each of
//! which is possible.

use std::sync::{Arc, Mutex};

use locker::operator::{Choice, Console, Happening, Timeline, Verb};
use locker::workflow::{
    Compensated, Compensation, Flow, Reported, RetryPolicy, StartBuilder, Stop, Workflow, Workflows,
};
use locker::{Begun, Failure, Intervened, Locker, Work};
use locker_tests::{MINUTE, ada, held_by, record_of};
use serde_json::json;

use crate::bench::{Desk, LATER};
use crate::corrected::Counts;
use crate::reported::{Order, Reply, report};

async fn timeline_of(desk: &Desk, key: &str) -> Timeline {
    let (locker, _) = desk.bench.machine();
    Console::new().tokens(&locker).workflows(&desk.machine().0).timeline(key).await.unwrap()
}

/// Its charge fails as the field states.
#[derive(Clone)]
struct Purchase(Failure);

impl Workflow for Purchase {
    const NAME: &'static str = "purchase";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("reserve").compensate(&"free").run(|_| async { Ok(()) }).await?;
        let charge = |_| async { Err::<(), _>(self.0.clone()) };
        flow.once("charge").retry(RetryPolicy::never()).run(charge).await
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        Err(Failure::needs_operator("the seat is gone".to_owned()))
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_its_order_and_its_workflow_are_one_timeline_from_any_of_them() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let (workflows, _) = desk.machine();
    let request = async |_| {
        let order = async |_| {
            let code = Purchase(Failure::in_doubt("no reply to ch_1".to_owned()));
            workflows.start(&code, "purchase/1", &()).run().await.unwrap();
            Err::<(), _>(Failure::in_doubt("the purchase is in quarantine".to_owned()))
        };
        let _in_doubt = locker.token("order/1").run(order).await;
        Err::<(), _>(Failure::in_doubt("the order is in doubt".to_owned()))
    };
    let _in_doubt = locker.token("request/1").run(request).await;
    // Of another customer.
    held_by(locker.token("order/2")).await.leave_in_doubt("no reply").await;
    desk.bench.clock.advance(MINUTE);

    let (token, workflow) = (|key: &str| Work::Token(key.into()), |key: &str| Work::Workflow(key.into()));
    for key in ["request/1", "order/1", "purchase/1"] {
        let timeline = timeline_of(&desk, key).await;
        let mut parts: Vec<_> = timeline.parts.iter().map(|part| part.work()).collect();
        assert_eq!(parts[0].key(), key);
        parts.sort_by_key(|work| work.key().to_owned());
        assert_eq!(parts, [token("order/1"), workflow("purchase/1"), token("request/1")], "{key}");
        assert!(timeline.complete && timeline.events.is_sorted_by_key(|event| event.at));
        let what: Vec<_> =
            timeline.events.iter().map(|event| (event.of.key(), event.step.as_deref(), event.what)).collect();
        for expected in [
            ("request/1", None, Happening::Begun),
            ("request/1", None, Happening::InDoubt),
            ("order/1", None, Happening::InDoubt),
            ("purchase/1", Some("reserve"), Happening::Completed),
            ("purchase/1", Some("charge"), Happening::Begun),
            ("purchase/1", None, Happening::Quarantined),
        ] {
            assert!(what.contains(&expected), "{expected:?} of {what:?}");
        }
        let causes: Vec<_> = timeline.events.iter().filter_map(|event| event.cause.as_deref()).collect();
        assert!(causes.iter().any(|cause| cause.contains("no reply to ch_1")), "{causes:?}");
    }

    // What operators did is in it, of each of them.
    let seen = desk.view("purchase/1").await;
    assert_eq!(
        workflows.resolve_step(&seen, "charge", &json!(null), &ada()).await.unwrap(),
        Intervened::Done
    );
    let record = record_of(&locker, "order/1").await;
    assert_eq!(locker.resolve(&record, &json!(null), &ada()).await.unwrap(), Intervened::Done);
    let timeline = timeline_of(&desk, "request/1").await;
    let acts = timeline.events.iter().filter(|event| matches!(event.what, Happening::Operator(_))).count();
    assert_eq!(acts, 2, "{:?}", timeline.events);
    let nothing = timeline_of(&desk, "request/3").await;
    assert!(nothing.parts.is_empty() && nothing.events.is_empty() && nothing.choices.is_empty());
}

/// Does what a choice says.
async fn take(desk: &Desk, choice: &Choice) -> Intervened {
    let (locker, _) = desk.bench.machine();
    let (workflows, _) = desk.machine();
    let (operator, result) = (ada(), json!(null));
    let done = match (&choice.of, &choice.step) {
        (Work::Token(key), _) => {
            let record = record_of(&locker, key).await;
            assert_eq!(record.revision(), choice.revision);
            match choice.verb {
                Verb::Resolve => locker.resolve(&record, &result, &operator).await,
                Verb::Release => locker.release(&record, &operator).await,
                Verb::Close => locker.close(&record, &operator).await,
                Verb::Correct => locker.correct(&record, &result, &operator).await,
                other => panic!("{other} is no verb of tokens"),
            }
        }
        (Work::Workflow(key), step) => {
            let seen = desk.view(key).await;
            assert_eq!(seen.revision(), choice.revision);
            match (choice.verb, step) {
                (Verb::Resolve, Some(step)) => workflows.resolve_step(&seen, step, &result, &operator).await,
                (Verb::Retry, Some(step)) => workflows.retry_step(&seen, step, &operator).await,
                (Verb::Skip, Some(step)) => workflows.skip_step(&seen, step, &operator).await,
                (Verb::Correct, Some(step)) => workflows.correct_step(&seen, step, &result, &operator).await,
                (Verb::Retry, None) => workflows.retry(&seen, &operator).await,
                (Verb::Compensate, None) => workflows.compensate(&seen, &operator).await,
                (Verb::Close, None) => workflows.close(&seen, &operator).await,
                other => panic!("{other:?} is no verb of workflows"),
            }
        }
        other => panic!("{other:?}"),
    };
    done.unwrap()
}

/// A token or a workflow called `it`, in some state.
async fn in_state(state: &str) -> Desk {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let (workflows, _) = desk.machine();
    let token = || locker.token("it").expect_within(MINUTE);
    let start = async |failure| {
        workflows.start(&Purchase(failure), "it", &()).run().await.unwrap();
    };
    let release = async |locker: &Locker| {
        let record = record_of(locker, "it").await;
        assert_eq!(locker.release(&record, &ada()).await.unwrap(), Intervened::Done);
    };
    match state {
        "in doubt" => held_by(token()).await.leave_in_doubt("no reply").await,
        "overdue" => {
            let _late = held_by(token()).await;
            desk.bench.clock.advance(MINUTE * 5);
        }
        "held" => held_by(token()).await.hold("odd").await.unwrap(),
        "resolved" => {
            held_by(token()).await.leave_in_doubt("no reply").await;
            let record = record_of(&locker, "it").await;
            assert_eq!(locker.resolve(&record, &json!(1), &ada()).await.unwrap(), Intervened::Done);
        }
        "released" => {
            held_by(token()).await.leave_in_doubt("no reply").await;
            release(&locker).await;
        }
        "running" => drop(held_by(token()).await),
        "completed" => held_by(token()).await.complete("done").await.unwrap(),
        "failed" => held_by(token()).await.fail("declined").await.unwrap(),
        "workflow in doubt" => start(Failure::in_doubt("no reply".to_owned())).await,
        "workflow held" => start(Failure::needs_operator("odd".to_owned())).await,
        "compensation held" => start(Failure::permanent("declined".to_owned())).await,
        "workflow waits" => start(Failure::transient("busy".to_owned())).await,
        "result not readable" => {
            workflows.start(&Counts, "it", &()).run().await.unwrap();
            let seen = desk.view("it").await;
            let given = workflows.resolve_step(&seen, "charge", &json!("1000"), &ada()).await.unwrap();
            assert_eq!(given, Intervened::Done);
            desk.settle(&Counts).await;
        }
        "late after its end" => {
            Order::new(&[Reply::Silent]).run_to_quarantine(&desk, "it").await;
            let seen = desk.view("it").await;
            assert_eq!(workflows.close(&seen, &ada()).await.unwrap(), Intervened::Done);
            assert_eq!(report(&desk, "it", "ch-1").await, Reported::Compensates);
        }
        other => panic!("{other}"),
    }
    desk
}

#[tokio::test(start_paused = true)]
async fn every_choice_that_is_offered_is_possible_and_where_something_waits_there_is_one() {
    use Verb::{Close, Compensate, Correct, Release, Resolve, Retry, Skip};
    let step = |verbs: &[Verb], of: &str| verbs.iter().map(|verb| (*verb, Some(of.to_owned()))).collect();
    let whole = |verbs: &[Verb]| -> Vec<_> { verbs.iter().map(|verb| (*verb, None)).collect() };
    let both = |steps: Vec<(Verb, Option<String>)>, verbs: &[Verb]| [steps, whole(verbs)].concat();
    for (state, expected) in [
        ("in doubt", whole(&[Resolve, Release])),
        ("overdue", whole(&[Resolve, Release])),
        ("held", whole(&[Resolve, Release, Close])),
        ("resolved", whole(&[Correct])),
        ("released", whole(&[Resolve])),
        ("running", Vec::new()),
        ("completed", Vec::new()),
        ("failed", Vec::new()),
        ("workflow in doubt", both(step(&[Resolve, Retry, Skip], "charge"), &[Retry, Compensate, Close])),
        ("workflow held", both(step(&[Resolve, Retry, Skip], "charge"), &[Retry, Compensate, Close])),
        ("compensation held", both(step(&[Resolve, Retry, Skip], "compensation:reserve"), &[Retry, Close])),
        ("workflow waits", whole(&[Compensate])),
        ("result not readable", both(step(&[Correct], "charge"), &[Retry, Compensate, Close])),
        ("late after its end", both(step(&[Skip], "charge"), &[Retry, Close])),
    ] {
        let timeline = timeline_of(&in_state(state).await, "it").await;
        let offered: Vec<_> =
            timeline.choices.iter().map(|choice| (choice.verb, choice.step.clone())).collect();
        assert_eq!(offered, expected, "{state}");
        for place in 0..offered.len() {
            let desk = in_state(state).await;
            let choice = &timeline_of(&desk, "it").await.choices[place];
            // A compensation comes to "done" or "nothing".
            if choice.verb == Resolve && choice.step.as_deref() == Some("compensation:reserve") {
                continue;
            }
            assert_eq!(take(&desk, choice).await, Intervened::Done, "{state}: {choice:?}");
        }
    }
}

async fn effect_of(state: &str, verb: Verb, step: Option<&str>) -> String {
    let timeline = timeline_of(&in_state(state).await, "it").await;
    let choice = timeline.choices.iter().find(|choice| choice.verb == verb && choice.step.as_deref() == step);
    choice.unwrap_or_else(|| panic!("{state}: {:?}", timeline.choices)).effect.clone()
}

#[tokio::test(start_paused = true)]
async fn a_choice_about_what_is_compensated_does_not_promise_that_the_workflow_goes_on() {
    let skip = effect_of("late after its end", Verb::Skip, Some("charge")).await;
    assert!(skip.starts_with("it happened") && skip.contains("no compensation of it runs"), "{skip}");
    let skip = effect_of("compensation held", Verb::Skip, Some("compensation:reserve")).await;
    assert!(skip.starts_with("nothing is to be compensated") && !skip.contains("null"), "{skip}");
    for state in ["late after its end", "compensation held"] {
        let retry = effect_of(state, Verb::Retry, None).await;
        assert!(retry.contains("compensate"), "{retry}");
    }
    let retry = effect_of("workflow in doubt", Verb::Retry, None).await;
    assert!(!retry.contains("compensate"), "{retry}");
}

/// Its seat cannot be given back once it is paid, and it fails after that.
#[derive(Clone)]
struct PastItsPivot;

impl Workflow for PastItsPivot {
    const NAME: &'static str = "pivoted";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.once("reserve").compensate(&"free").run(|_| async { Ok(()) }).await?;
        flow.once("pay").pivot().run(|_| async { Ok(()) }).await?;
        let lost = |_| async { Err::<(), _>(Failure::in_doubt("no reply".to_owned())) };
        flow.once("send").compensate(&"recall").retry(RetryPolicy::never()).run(lost).await
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        Ok(Compensated::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_ends_at_a_pivot_is_not_offered_as_one_of_everything() {
    let desk = Desk::new().await;
    desk.machine().0.start(&PastItsPivot, "it", &()).run().await.unwrap();
    let timeline = timeline_of(&desk, "it").await;
    let compensate = timeline.choices.iter().find(|choice| choice.verb == Verb::Compensate).unwrap();
    assert!(compensate.effect.contains("down to its pivot"), "{compensate:?}");
    assert_eq!(take(&desk, compensate).await, Intervened::Done);
    desk.settle(&PastItsPivot).await;
    let left = desk.view("it").await;
    assert!(left.reason().unwrap().contains("past its pivot pay"), "{:?}", left.reason());
}

/// Notes the keys that its steps give the provider.
#[derive(Clone, Default)]
struct Keyed(Arc<Mutex<Vec<(String, String)>>>);

impl Keyed {
    fn note(&self, step: &str, key: &str) {
        self.0.lock().unwrap().push((step.to_owned(), key.to_owned()));
    }
}

impl Workflow for Keyed {
    const NAME: &'static str = "keyed";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        for step in ["plain", "own"] {
            let once = flow.once(step).compensate(&"undo");
            let once = if step == "own" { once.key("elsewhere/7") } else { once };
            let work = async |attempt: locker::workflow::StepAttempt| {
                self.note(step, attempt.idempotency_key());
                Ok(())
            };
            once.run(work).await?;
        }
        let work = async |attempt: locker::workflow::StepAttempt| {
            self.note("again", attempt.idempotency_key());
            Ok(())
        };
        flow.step("again").run(work).await?;
        flow.once("refused").run(|_| async { Err::<(), _>(Failure::permanent("declined".to_owned())) }).await
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.note(&format!("compensation:{}", compensation.step()), compensation.idempotency_key());
        Ok(Compensated::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn the_keys_that_a_timeline_names_are_those_that_the_provider_was_given() {
    for version in [1, 2] {
        let desk = Desk::new().await;
        let code = Keyed::default();
        let (workflows, _): (Workflows, _) = desk.machine();
        let start: StartBuilder<'_, _> = workflows.start(&code, "keyed/1", &());
        start.key_version(version).run().await.unwrap();
        let seen = workflows.get("keyed/1", version).await.unwrap().unwrap();
        let given = code.0.lock().unwrap().clone();
        assert_eq!(given.len(), 5, "{given:?}");
        for (step, key) in given {
            let shown = seen.steps().iter().find(|shown| shown.name() == step).unwrap();
            assert_eq!(shown.idempotency_key(), key, "{step}");
        }
    }
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let Begun::Acquired(lock) = locker.token("it").begin().await.unwrap() else { panic!("not acquired") };
    let given = lock.attempt().idempotency_key();
    lock.leave_in_doubt("no reply").await;
    desk.bench.clock.advance(LATER);
    let timeline = timeline_of(&desk, "it").await;
    assert!(timeline.choices.iter().any(|choice| choice.effect.contains(&given)), "{:?}", timeline.choices);
}

#[tokio::test(start_paused = true)]
async fn a_timeline_has_the_failure_that_an_operator_let_stand() {
    let desk = in_state("held").await;
    let (locker, _) = desk.bench.machine();
    let failed = desk.now();
    desk.bench.clock.advance(MINUTE);
    let record = record_of(&locker, "it").await;
    assert_eq!(locker.close(&record, &ada()).await.unwrap(), Intervened::Done);
    let timeline = timeline_of(&desk, "it").await;
    let ended = timeline.events.iter().find(|event| event.what == Happening::Failed);
    let ended = ended.unwrap_or_else(|| panic!("{:?}", timeline.events));
    assert_eq!((ended.at, ended.by.as_deref()), (failed, Some(record.locked_by())));
    let last = timeline.events.iter().rfind(|event| event.at <= desk.now()).unwrap();
    assert_eq!(last.what, Happening::Operator(locker::Resolution::Closed));
}

/// Fails in one way, then in another, then is in quarantine.
#[derive(Clone)]
struct Unlucky(Arc<Mutex<Vec<Failure>>>);

impl Workflow for Unlucky {
    const NAME: &'static str = "unlucky";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let fail = |_| async { Err::<(), _>(self.0.lock().unwrap().remove(0)) };
        flow.once("pay").retry(RetryPolicy::never()).run(fail).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeline_has_what_every_run_failed_of() {
    let desk = Desk::new().await;
    let down = |order| Failure::transient(format!("HTTP 503 for order {order}"));
    let odd = Failure::needs_operator("no such account".to_owned());
    let failures = vec![down(7781), down(9921), Failure::transient("no route".to_owned()), odd];
    let code = Unlucky(Arc::new(Mutex::new(failures)));
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    workflows.start(&code, "unlucky/1", &()).owner("web/1").run().await.unwrap();
    for _ in 0..3 {
        desk.bench.clock.advance(LATER);
        locker::workflow::Completer::new(&workflows).register(code.clone()).run().await.unwrap();
    }
    let timeline = timeline_of(&desk, "unlucky/1").await;
    let failed: Vec<_> = timeline
        .events
        .iter()
        .filter(|event| event.what == Happening::RunFailed)
        .map(|event| (event.by.as_deref().unwrap(), event.cause.as_deref().unwrap()))
        .collect();
    let [twice, once, last] = failed.as_slice() else { panic!("{failed:?}") };
    assert!(twice.1.contains("order 9921 (2 runs since 2"), "{twice:?}");
    assert!(once.1.contains("no route") && last.1.contains("no such account"), "{failed:?}");
    let view = desk.view("unlucky/1").await;
    assert_eq!(view.failed_runs().iter().map(|it| it.runs).collect::<Vec<_>>(), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_timeline_has_last_nights_acts_also_behind_a_long_audit() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let (workflows, _) = desk.machine();
    let odd = Purchase(Failure::needs_operator("odd".to_owned()));
    for number in 0..5 {
        held_by(locker.token(("bulk", number))).await.hold("x").await.unwrap();
        let record = record_of(&locker, &format!("bulk/{number}")).await;
        assert_eq!(locker.release(&record, &ada()).await.unwrap(), Intervened::Done);
        workflows.start(&odd, ("purchase", number), &()).run().await.unwrap();
        let seen = desk.view(&format!("purchase/{number}")).await;
        assert_eq!(workflows.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
    }
    desk.bench.clock.advance(MINUTE);
    workflows.start(&odd, "purchase/9", &()).run().await.unwrap();
    held_by(locker.token("order/9")).await.hold("x").await.unwrap();
    for result in [json!(1), json!(2)] {
        desk.bench.clock.advance(MINUTE);
        let record = record_of(&locker, "order/9").await;
        let done = match record.is_answered_by_operator() {
            false => locker.resolve(&record, &result, &ada()).await,
            true => locker.correct(&record, &result, &ada()).await,
        };
        assert_eq!(done.unwrap(), Intervened::Done);
        let seen = desk.view("purchase/9").await;
        assert_eq!(workflows.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
    }
    for key in ["order/9", "purchase/9"] {
        let console = Console::new().tokens(&locker).workflows(&workflows).limit(3);
        let timeline = console.timeline(key).await.unwrap();
        let acts = timeline.events.iter().filter(|event| matches!(event.what, Happening::Operator(_)));
        assert_eq!(acts.count(), 2, "{key}: {timeline:?}");
    }
}
