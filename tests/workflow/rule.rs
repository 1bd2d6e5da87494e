//! One rule for operators through every door: the single act, the timeline, a plan, its application,
//! and the verbs of the library.

use std::ops::ControlFlow;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::operator::{About, Act, Acted, Console, Done, Filter, Part, Refusal, Unless};
use locker::workflow::{Compensated, Compensation, Flow, Stop, View, Workflow, Workflows};
use locker::{Error, Failure, Form, Intervened, Locker, Record};
use locker_tests::{Fate, MINUTE, ada, held_by, record_of};
use serde_json::{Value, json};

use crate::bench::{Desk, LATER};
use crate::plan::{fast, goes_on};

const STATES: [&str; 8] =
    ["running", "overdue", "in doubt", "held", "completed", "failed", "resolved", "released"];

/// A token of the form of a string in this state. Time passes between the tokens that are due and
/// the others.
async fn token(locker: &Locker, state: &str, key: &str) {
    let begin = || locker.token(key).form(Form::of::<String>()).expect_within(MINUTE * 5);
    match state {
        "running" | "overdue" => drop(held_by(begin()).await),
        "in doubt" => held_by(begin()).await.leave_in_doubt("no reply").await,
        "held" | "resolved" | "released" => held_by(begin()).await.hold("odd").await.unwrap(),
        "completed" => held_by(begin()).await.complete(&"done").await.unwrap(),
        _ => drop(begin().run(|_| async { Err::<String, _>(Failure::permanent("no".to_owned())) }).await),
    }
    let record = async || record_of(locker, key).await;
    let done = match state {
        "resolved" => locker.resolve(&record().await, &json!("by hand"), &ada()).await,
        "released" => locker.release(&record().await, &ada()).await,
        _ => Ok(Intervened::Done),
    };
    assert_eq!(done.unwrap(), Intervened::Done, "{key}");
}

/// Every act on a token, with the options of a single act.
fn acts() -> Vec<(&'static str, Act)> {
    vec![
        ("release", Act::release()),
        ("release running", Act::release().running()),
        ("release completed", Act::release().completed()),
        ("release under another key", Act::release().new_key()),
        ("resolve", Act::resolve(json!("by hand"))),
        ("resolve running", Act::resolve(json!("by hand")).running()),
        ("resolve in another form", Act::resolve(json!(7))),
        ("correct", Act::correct(json!("corrected"))),
        ("close", Act::close()),
        ("retry", Act::retry()),
        ("redrive", Act::redrive()),
    ]
}

fn console(locker: &Locker, runs: Option<bool>) -> Console {
    Console::new().tokens(locker).running(move |_: &Record| runs)
}

pub(crate) async fn part(console: &Console, key: &str) -> Part {
    console.get(key).await.unwrap().pop().expect("a record")
}

/// Whether an act has no option that a plan refuses.
fn is_for_many(act: &Act) -> bool {
    !act.running && !act.completed && !act.new_key && act.verb != locker::operator::Verb::Correct
}

fn may_run(state: &str) -> bool {
    ["running", "overdue", "in doubt"].contains(&state)
}

/// Whether an act would end a token in progress, and is not explicitly for running work.
fn frees(act: &Act) -> bool {
    use locker::operator::Verb::{Release, Resolve};
    matches!(act.verb, Release | Resolve) && !act.running
}

/// The same act by the verb of the library for it.
async fn by_verb(locker: &Locker, record: &Record, act: &Act) -> Option<Result<Intervened, Error>> {
    use locker::operator::Verb::{Close, Correct, Release, Resolve};
    let result = act.result.clone().unwrap_or_default();
    Some(match act.verb {
        Release if act.new_key => locker.release_with_new_key(record, &ada()).await,
        Release if !act.running && !act.completed => locker.release(record, &ada()).await,
        Resolve if !act.running => locker.resolve(record, &result, &ada()).await,
        Correct => locker.correct(record, &result, &ada()).await,
        Close => locker.close(record, &ada()).await,
        _ => return None,
    })
}

#[tokio::test(start_paused = true)]
async fn every_act_on_every_token_has_one_answer_through_every_door() {
    let mut answers = 0;
    for state in STATES {
        answers += answers_on(state).await;
    }
    assert_eq!(answers, STATES.len() * acts().len() * 3);
}

/// Plays each act on tokens in this state, and returns the number of answers. Each state has its own
/// tables, because each plan reads all tokens.
async fn answers_on(state: &str) -> usize {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let mut cases = Vec::new();
    for (name, act) in acts() {
        for runs in [None, Some(false), Some(true)] {
            cases.push((name, act.clone(), runs));
        }
    }
    let key = |name: &str, runs: Option<bool>, door: &str| {
        format!("{state}/{name}/{runs:?}/{door}").replace(' ', "-")
    };
    for (name, _, runs) in &cases {
        for door in ["act", "plan", "apply", "verb"] {
            token(&locker, state, &key(name, *runs, door)).await;
        }
    }
    // Each token expects its end within five minutes.
    desk.bench.clock.advance(if state == "running" { MINUTE } else { MINUTE * 10 });
    let mut answers = 0;
    for (name, act, runs) in cases {
        let console = console(&locker, runs);
        let case = format!("{name} on {state}, {runs:?}");
        let of = |door: &str| key(name, runs, door);

        // The single act.
        let seen = part(&console, &of("act")).await;
        let answer = console.check(&seen, &act);
        if runs == Some(true) && may_run(state) && frees(&act) {
            assert!(answer.is_err(), "{case}: its work is running");
        }
        let before = desk.bench.item(&of("act")).await;
        match (&answer, console.act(&seen, &act, &ada()).await.unwrap()) {
            (Ok(meaning), Intervened::Done) => assert!(!meaning.effect.is_empty(), "{case}"),
            (Err(_), Intervened::NotPossible) => {
                assert_eq!(desk.bench.item(&of("act")).await, before, "{case}")
            }
            other => panic!("{case}: {other:?}"),
        }

        // The timeline offers an act without an option, and only if it is possible.
        if is_for_many(&act) && name != "resolve in another form" {
            let timeline = console.timeline(&of("plan")).await.unwrap();
            let is_offered = timeline.choices.iter().any(|choice| choice.verb == act.verb);
            assert_eq!(is_offered, answer.is_ok(), "{case}: the timeline");
        }

        // A plan contains a listed record, or leaves it out for the same reason.
        if is_for_many(&act) {
            let is_listed = ["running", "overdue", "in doubt", "held"].contains(&state);
            let plan = console.plan(Filter::new().key(of("plan")), act.clone(), &ada()).await;
            match plan {
                // Messages are in lists of their own.
                Ok(plan) if !is_listed || name == "redrive" => assert_eq!(plan.found, 0, "{case}"),
                Ok(plan) => {
                    let planned = match &answer {
                        Ok(meaning) => {
                            Ok((meaning.effect.replace("/act as", "/plan as"), meaning.unknown.clone()))
                        }
                        Err(refusal) => Err(refusal.because.clone()),
                    };
                    let items = plan.items.iter().map(|it| Ok((it.effect.clone(), it.unknown.clone())));
                    let left_out = plan.left_out.iter().map(|it| Err(it.because.clone()));
                    assert_eq!(items.chain(left_out).collect::<Vec<_>>(), [planned], "{case}: the plan");
                }
                Err(error) => panic!("{case}: {error}"),
            }
            // The rule is asked again when the plan is applied: the work may run by now.
            let idle = self::console(&locker, Some(false));
            let plan = idle.plan(Filter::new().key(of("apply")), act.clone(), &ada()).await.unwrap();
            for _ in &plan.items {
                let mut because = Vec::new();
                let each = |acted: &Acted| {
                    because.push((acted.done, acted.because.clone()));
                    ControlFlow::Continue(())
                };
                console.apply(&plan, &fast(), each).await.unwrap();
                let expected = match &answer {
                    Ok(_) => (Done::Done, None),
                    Err(refusal) => (Done::NotPossible, Some(refusal.because.clone())),
                };
                assert_eq!(because, [expected], "{case}: applied");
            }
        }

        // The verb of the library knows nothing of the process.
        if runs.is_none()
            && let Some(done) = by_verb(&locker, &record_of(&locker, &of("verb")).await, &act).await
        {
            match (&answer, done) {
                (Ok(_), Ok(Intervened::Done)) | (Err(_), Ok(Intervened::NotPossible)) => {}
                (Err(Refusal { about: About::Result, .. }), Err(Error::Form { .. })) => {}
                // The verb is for tokens with a result as well.
                (Err(Refusal { unless: Some(Unless::Completed), .. }), Ok(Intervened::Done)) => {
                    assert_eq!(name, "release under another key", "{case}");
                }
                other => panic!("{case}: {other:?}"),
            }
        }
        answers += 1;
    }
    answers
}

/// Its step `pay` is in doubt, fails, or needs an operator.
#[derive(Clone)]
pub(crate) struct Trip(pub(crate) &'static str);

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        flow.once("book").compensate(&"give-back").run(|_| async { Ok(1) }).await?;
        let pay = |_| async {
            match self.0 {
                "completed" => Ok(2),
                "failing" => Err(Failure::transient("HTTP 503".to_owned())),
                "doubtful" => Err(Failure::in_doubt("no reply".to_owned())),
                _ => Err(Failure::needs_operator("no account".to_owned())),
            }
        };
        flow.once("pay").run(pay).await
    }

    async fn compensate(&self, _: &Flow, _: Compensation) -> Result<Compensated, Failure> {
        Err(Failure::needs_operator("the refund was refused".to_owned()))
    }
}

const WORKFLOWS: [&str; 6] = ["completed", "failing", "doubtful", "held", "compensating", "closed"];

pub(crate) async fn workflow(desk: &Desk, workflows: &Workflows, state: &'static str, key: &str) -> View {
    workflows.start(&Trip(state), key, &()).run().await.unwrap();
    let seen = desk.view(key).await;
    match state {
        "compensating" => {
            assert_eq!(workflows.compensate(&seen, &ada()).await.unwrap(), Intervened::Done);
        }
        "closed" => assert_eq!(workflows.close(&seen, &ada()).await.unwrap(), Intervened::Done),
        _ => {}
    }
    desk.view(key).await
}

fn acts_on_workflows() -> Vec<(&'static str, Act)> {
    let result = || json!(2);
    vec![
        ("retry", Act::retry()),
        ("compensate", Act::compensate()),
        ("cancel", Act::cancel()),
        ("close", Act::close()),
        ("retry step", Act::retry().step("pay")),
        ("retry step under another key", Act::retry().step("pay").new_key()),
        ("resolve step", Act::resolve(result()).step("pay")),
        ("skip step", Act::skip().step("pay")),
        ("correct step", Act::correct(result()).step("pay")),
        ("block step", Act::cancel().step("pay")),
        ("block another step", Act::cancel().step("ship")),
        ("resolve another step", Act::resolve(result()).step("ship")),
        ("resolve another step first", Act::resolve(result()).step("ship").not_started()),
        ("skip another step", Act::skip().step("ship")),
        ("skip another step first", Act::skip().step("ship").not_started()),
        ("release", Act::release()),
        ("resolve", Act::resolve(result())),
    ]
}

/// The same act by the verb of the library for it.
async fn by_verb_of_workflows(
    workflows: &Workflows,
    view: &View,
    act: &Act,
) -> Option<Result<Intervened, Error>> {
    use locker::operator::Verb::{Cancel, Close, Compensate, Correct, Resolve, Retry, Skip};
    let (result, ada) = (act.result.clone().unwrap_or_default(), ada());
    Some(match (act.verb, act.step.as_deref()) {
        (Retry, None) => workflows.retry(view, &ada).await,
        (Compensate | Cancel, None) => workflows.compensate(view, &ada).await,
        (Close, None) => workflows.close(view, &ada).await,
        (Retry, Some(step)) if act.new_key => workflows.retry_step_with_new_key(view, step, &ada).await,
        (Retry, Some(step)) => workflows.retry_step(view, step, &ada).await,
        (Resolve, Some(step)) => workflows.resolve_step(view, step, &result, &ada).await,
        (Skip, Some(step)) => workflows.skip_step(view, step, &ada).await,
        (Correct, Some(step)) => workflows.correct_step(view, step, &result, &ada).await,
        (Cancel, Some(step)) => workflows.cancel_step(view, step, &ada).await,
        _ => return None,
    })
}

#[tokio::test(start_paused = true)]
async fn every_act_on_every_workflow_has_one_answer_through_every_door() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let console = Console::new().workflows(&workflows);
    for state in WORKFLOWS {
        for (name, act) in acts_on_workflows() {
            let key = |door: &str| format!("{state}/{name}/{door}").replace(' ', "-");
            let case = format!("{name} on {state}");
            let view = workflow(&desk, &workflows, state, &key("act")).await;
            let seen = Part::Workflow(Box::new(view));
            let answer = console.check(&seen, &act);
            // The name of the step may be mistyped.
            let is_unrecorded = ["resolve another step", "skip another step"].contains(&name);
            let asks = Err((About::Step, Some(Unless::NotStarted)));
            let found = answer.as_ref().map(|_| ()).map_err(|no| (no.about, no.unless));
            assert_eq!(found == asks, is_unrecorded, "{case}: {answer:?}");
            match (&answer, console.act(&seen, &act, &ada()).await.unwrap()) {
                (Ok(_), Intervened::Done) => {}
                (Err(_), Intervened::NotPossible) => {
                    assert_eq!(part(&console, &key("act")).await.revision(), seen.revision(), "{case}");
                }
                other => panic!("{case}: {other:?}"),
            }

            let view = workflow(&desk, &workflows, state, &key("verb")).await;
            if let Some(done) = by_verb_of_workflows(&workflows, &view, &act).await {
                match (&answer, done.unwrap()) {
                    (Ok(_), Intervened::Done) | (Err(_), Intervened::NotPossible) => {}
                    // A name that may be mistyped is refused by every door but the verb.
                    (Err(Refusal { about: About::Step, .. }), _) => {}
                    other => panic!("{case}: {other:?}"),
                }
            }

            // The timeline and a plan are for workflows that need an operator. What they have is
            // possible, and the single act says the same.
            let view = workflow(&desk, &workflows, state, &key("plan")).await;
            let timeline = console.timeline(&key("plan")).await.unwrap();
            let is_offered = timeline
                .choices
                .iter()
                .any(|choice| choice.verb == act.verb && choice.step == act.step && !act.new_key);
            assert!(!is_offered || answer.is_ok(), "{case}: the timeline");
            if act.not_started || (name.starts_with("block") || name.starts_with("correct")) {
                continue;
            }
            let plan = console.plan(Filter::new().key(key("plan")), act.clone(), &ada()).await.unwrap();
            let is_quarantined = view.listed() == Some(locker::workflow::List::Quarantine);
            let may_be_planned = is_quarantined || name == "cancel";
            let expected = usize::from(answer.is_ok() && may_be_planned);
            assert_eq!(plan.items.len(), expected, "{case}: {plan:?}");
            if expected == 1 {
                let applied = console.apply(&plan, &fast(), goes_on).await.unwrap();
                assert_eq!(applied.done, 1, "{case}: applied");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn block_of_a_workflow_that_has_started_changes_nothing() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let seen = workflow(&desk, &workflows, "failing", "trip/1").await;
    assert_eq!(workflows.block("trip/1", 1, &ada()).await.unwrap(), Intervened::Changed);
    assert_eq!(desk.view("trip/1").await.revision(), seen.revision());
    assert_eq!(workflows.block("trip/2", 1, &ada()).await.unwrap(), Intervened::Done);
    let late = workflows.start(&Trip("completed"), "trip/2", &()).run().await.unwrap();
    assert!(matches!(late, locker::workflow::Outcome::Cancelled), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn cancel_of_a_workflow_that_cannot_be_read_does_not_call_it_changed() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    workflow(&desk, &workflows, "failing", "trip/1").await;
    for mut item in desk.items().await {
        item.insert("version".to_owned(), AttributeValue::N("9".to_owned()));
        let put = desk.bench.client.put_item().table_name(&desk.table).set_item(Some(item));
        put.send().await.unwrap();
    }
    let cancel = workflows.cancel("trip/1", 1, &ada()).await;
    assert!(matches!(cancel, Err(locker::Error::Record { .. })), "{cancel:?}");
    let block = workflows.block("trip/1", 1, &ada()).await;
    assert!(matches!(block, Err(locker::Error::Record { .. })), "{block:?}");
    // The request whose response was lost may have been applied.
    wire.next([Fate::Lost]);
    let cancel = workflows.cancel("trip/1", 1, &ada()).await;
    assert!(matches!(cancel, Err(locker::Error::Unknown { .. })), "{cancel:?}");
    let started = workflows.start(&Trip("failing"), "trip/1", &()).run().await;
    assert!(matches!(started, Err(locker::Error::Record { .. })), "{started:?}");
    wire.next([Fate::Lost]);
    let started = workflows.start(&Trip("failing"), "trip/1", &()).run().await;
    assert!(matches!(started, Err(locker::Error::Unknown { .. })), "{started:?}");
}

#[tokio::test(start_paused = true)]
async fn release_shows_the_key_that_the_provider_receives() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let console = Console::new().tokens(&locker);
    for (key, fails, act, is_new) in [
        ("refused", true, Act::release().completed(), true),
        ("charged", false, Act::release().completed(), false),
        ("asked", false, Act::release().completed().new_key(), true),
    ] {
        let lock = held_by(locker.token(key)).await;
        let before = lock.attempt().idempotency_key();
        if fails {
            lock.fail("declined").await.unwrap()
        } else {
            lock.complete("ch_1").await.unwrap()
        }
        let part = Part::Token(Box::new(record_of(&locker, key).await));
        let effect = console.check(&part, &act).unwrap().effect;
        assert_eq!(effect.contains("another key"), is_new, "{key}: {effect}");
        assert_eq!(console.act(&part, &act, &ada()).await.unwrap(), Intervened::Done, "{key}");
        let after = held_by(locker.token(key)).await.attempt().idempotency_key();
        assert_eq!(after != before, is_new, "{key}: {effect}");
    }
}

#[tokio::test(start_paused = true)]
async fn unrecorded_step_is_refused_unless_the_act_is_for_it() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let console = Console::new().workflows(&workflows);
    for (act, key) in [(Act::skip(), "trip/1"), (Act::resolve(json!(2)), "trip/2")] {
        workflow(&desk, &workflows, "held", key).await;
        let seen = part(&console, key).await;
        let before = desk.items().await;
        let typo = act.step("pya");
        let refusal = console.check(&seen, &typo).expect_err("it has no such record");
        assert_eq!((refusal.about, refusal.unless), (About::Step, Some(Unless::NotStarted)), "{refusal:?}");
        assert_eq!(refusal.because, "it has no record of step pya; recorded: book, pay");
        assert_eq!(console.act(&seen, &typo, &ada()).await.unwrap(), Intervened::NotPossible);
        assert_eq!(desk.items().await, before, "{typo:?}");
        let meant = typo.not_started();
        assert_eq!(console.act(&seen, &meant, &ada()).await.unwrap(), Intervened::Done, "{meant:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_act_is_an_error_through_every_door_and_writes_nothing() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let console = Console::new().tokens(&locker).workflows(&workflows);
    for state in ["running", "held", "completed"] {
        token(&locker, state, state).await;
    }
    workflow(&desk, &workflows, "held", "trip/1").await;
    let with = |mut act: Act, result: Option<Value>| {
        act.result = result;
        act
    };
    let resolve = || Act::resolve(json!("by hand"));
    let of_one = [
        ("running", Act::release().running().new_key()),
        ("running", Act::close().running()),
        ("running", resolve().running().new_key()),
        ("held", Act::release().running().new_key()),
        ("held", Act::release().step("")),
        ("held", Act::release().not_started()),
        ("held", Act::close().completed()),
        ("held", Act::close().new_key()),
        ("held", with(Act::close(), Some(json!(1)))),
        ("held", with(resolve(), None)),
        ("completed", resolve().completed()),
        ("completed", Act::release().completed().running().new_key()),
        ("trip/1", Act::retry().new_key()),
        ("trip/1", Act::retry().running()),
        ("trip/1", Act::retry().not_started()),
        ("trip/1", Act::retry().step("pay").running()),
        ("trip/1", Act::retry().step("pay").completed()),
        ("trip/1", Act::skip().step("pay").new_key()),
        ("trip/1", Act::skip()),
        ("trip/1", with(resolve(), None).step("pay")),
        ("trip/1", Act::redrive().step("pay")),
    ];
    let before = (desk.bench.items().await, desk.items().await);
    let is_invalid = |error: &Error| matches!(error, Error::Invalid(_));
    for (key, act) in of_one {
        let seen = part(&console, key).await;
        assert!(console.check(&seen, &act).is_err(), "{key}: {act:?}");
        let acted = console.act(&seen, &act, &ada()).await;
        assert!(acted.as_ref().is_err_and(is_invalid), "{key}: {act:?}: {acted:?}");
        let planned = console.plan(Filter::new().key(key), act.clone(), &ada()).await;
        assert!(planned.as_ref().is_err_and(is_invalid), "{key}: {act:?}: {planned:?}");
    }
    assert_eq!((desk.bench.items().await, desk.items().await), before);
}

#[tokio::test(start_paused = true)]
async fn refusal_names_the_option_that_makes_the_act_possible() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    for state in ["running", "completed"] {
        token(&locker, state, state).await;
    }
    let console = Console::new().tokens(&locker);
    for (key, act, option) in [
        ("running", Act::release(), Unless::Running),
        ("running", Act::release().completed(), Unless::Running),
        ("running", Act::resolve(json!("by hand")), Unless::Running),
        ("completed", Act::release(), Unless::Completed),
        ("completed", Act::release().running(), Unless::Completed),
    ] {
        let seen = part(&console, key).await;
        let refusal = console.check(&seen, &act).expect_err("refused");
        assert_eq!(refusal.unless, Some(option), "{key}: {act:?}");
        let act = if option == Unless::Running { act.running() } else { act.completed() };
        assert!(console.check(&seen, &act).is_ok(), "{key}: {act:?}");
    }
}

#[tokio::test]
async fn act_on_a_driven_workflow_names_the_time_of_its_driver() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let console = Console::new().workflows(&workflows);
    // Its driver waits for a response of the table.
    wire.next([Fate::Ok, Fate::HeldBefore]);
    let driver = tokio::spawn({
        let workflows = workflows.clone();
        async move { workflows.start(&Trip("completed"), "trip/1", &()).run().await.map(drop) }
    });
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    let seen = part(&console, "trip/1").await;
    let Part::Workflow(view) = &seen else { panic!("{seen:?}") };
    let due = view.due().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    for act in [Act::cancel(), Act::compensate(), Act::retry()] {
        let unknown = console.check(&seen, &act).unwrap().unknown;
        let says = format!(
            "it is unknown whether a driver runs it now, with time until {due}; that driver loses the workflow, and \
             its step may then be in doubt"
        );
        assert_eq!(unknown, [says], "{act:?}");
    }
    wire.let_through();
    driver.await.unwrap().unwrap();

    let quarantined = Part::Workflow(Box::new(workflow(&desk, &workflows, "held", "trip/2").await));
    assert_eq!(console.check(&quarantined, &Act::cancel()).unwrap().unknown, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn result_that_code_reads_is_named_as_not_checked() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let console = Console::new().workflows(&workflows);
    let unknown = async |key: &str, act: Act| {
        let seen = part(&console, key).await;
        console.check(&seen, &act).unwrap_or_else(|no| panic!("{key} {act:?}: {no:?}")).unknown
    };
    workflow(&desk, &workflows, "held", "trip/1").await;
    let says = ["the code of the workflow reads the result, and it is not checked whether it can"];
    assert_eq!(unknown("trip/1", Act::resolve(json!(2)).step("pay")).await, says);
    assert_eq!(unknown("trip/1", Act::skip().step("pay")).await, Vec::<String>::new());

    // The result of a compensation is one of two words.
    workflow(&desk, &workflows, "compensating", "trip/2").await;
    desk.settle(&Trip("held")).await;
    let result = Act::resolve(json!(Compensated::Done)).step("compensation:book");
    assert_eq!(unknown("trip/2", result).await, Vec::<String>::new());
}
