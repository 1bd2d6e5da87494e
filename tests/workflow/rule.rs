//! One rule for operators through every door: the single act, the timeline, a plan, its application,
//! and the verbs of the library.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType,
    Projection, ProjectionType, ScalarAttributeType,
};
use locker::operator::{About, Act, Acted, Console, Done, Filter, Need, Part, Plan, Refusal, Unless};
use locker::workflow::{Compensated, Compensation, Completer, Flow, Stop, View, Workflow, Workflows};
use locker::{Error, Failure, Form, Intervened, Locker, Operator, Record};
use locker_tests::{Fate, MINUTE, ada, held_by, record_of};
use serde_json::{Value, json};

use crate::bench::{Desk, LATER};
use crate::plan::{fast, goes_on, hold, in_turn};

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

async fn part(console: &Console, key: &str) -> Part {
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
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let doors = ["act", "plan", "apply", "verb"];
    let mut cases = Vec::new();
    for state in STATES {
        for (name, act) in acts() {
            for runs in [None, Some(false), Some(true)] {
                cases.push((state, name, act.clone(), runs));
            }
        }
    }
    let key = |state: &str, name: &str, runs: Option<bool>, door: &str| {
        format!("{state}/{name}/{runs:?}/{door}").replace(' ', "-")
    };
    for running in [false, true] {
        for (state, name, _, runs) in cases.iter().filter(|(state, ..)| (*state == "running") == running) {
            for door in doors {
                token(&locker, state, &key(state, name, *runs, door)).await;
            }
        }
        // Those that are begun last are not overdue.
        desk.bench.clock.advance(if running { MINUTE } else { MINUTE * 10 });
    }
    let mut answers = 0;
    for (state, name, act, runs) in cases {
        let console = console(&locker, runs);
        let case = format!("{name} on {state}, {runs:?}");
        let of = |door: &str| key(state, name, runs, door);

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
    assert_eq!(answers, STATES.len() * acts().len() * 3);
}

/// Its step `pay` is in doubt, fails, or needs an operator.
#[derive(Clone)]
struct Trip(&'static str);

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        flow.once("book").compensate("give-back", &1).run(|_| async { Ok::<_, Failure>(1) }).await?;
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

async fn workflow(desk: &Desk, workflows: &Workflows, state: &'static str, key: &str) -> View {
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

/// A plan for one cause of doubt. After its list and before its read, the token is taken over and
/// left in doubt for another cause.
async fn plan_during_a_takeover(desk: &Desk, other_cause: &str) -> Plan {
    let (locker, _) = desk.bench.machine();
    let (asking, wire) = desk.bench.machine();
    let doubt = async |cause: &str| {
        let token = locker.token("pay/1").expect_within(MINUTE).take_over_after(MINUTE);
        held_by(token).await.leave_in_doubt(cause).await;
        desk.bench.clock.advance(MINUTE * 10);
    };
    doubt("the mail relay refused").await;
    wire.matching(|exchange| exchange.operation == "GetItem", Fate::HeldBefore);
    let console = Console::new().tokens(&asking);
    let filter = Filter::new().cause("mail relay");
    let operator = ada();
    let planning = console.plan(filter, Act::release(), &operator);
    let changing = async {
        while wire.held() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        doubt(other_cause).await;
        wire.let_through();
    };
    tokio::join!(planning, changing).0.unwrap()
}

/// The card may have been charged.
const CHARGED: &str = "the card was sent to the provider, no reply";

#[tokio::test(start_paused = true)]
async fn record_that_changes_between_list_and_reading_is_left_out() {
    for other_cause in [CHARGED, "the mail relay closed the connection"] {
        let plan = plan_during_a_takeover(&Desk::new().await, other_cause).await;
        assert!(plan.items.is_empty(), "{plan:?}");
        assert_eq!(plan.left_out[0].because, "it has changed since it was listed; plan again");
        assert_eq!(plan.left_out[0].work.key(), "pay/1");
    }
}

/// A table whose index has no attempts, so that its entries have no revision.
async fn with_an_older_index(desk: &mut Desk) {
    let (client, table) = (&desk.bench.client, format!("{}-older", desk.bench.table));
    let text =
        |name| AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
    let key = |name, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let projection = Projection::builder().projection_type(ProjectionType::Include);
    let projection = ["created", "lockedBy", "class", "cause"]
        .into_iter()
        .fold(projection, |projection, name| projection.non_key_attributes(name));
    let index = GlobalSecondaryIndex::builder()
        .index_name("byStatus")
        .key_schema(key("status", KeyType::Hash))
        .key_schema(key("expectedCompletion", KeyType::Range))
        .projection(projection.build());
    let names = ["lockToken", "status", "expectedCompletion"];
    let created = client
        .create_table()
        .table_name(&table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(names.map(|name| text(name).build().unwrap()).to_vec()))
        .key_schema(key("lockToken", KeyType::Hash))
        .global_secondary_indexes(index.build().unwrap());
    created.send().await.unwrap();
    desk.bench.table = table;
}

#[tokio::test(start_paused = true)]
async fn record_of_an_older_index_that_no_longer_fits_is_left_out() {
    let mut desk = Desk::new().await;
    with_an_older_index(&mut desk).await;
    let plan = plan_during_a_takeover(&desk, CHARGED).await;
    assert!(plan.items.is_empty(), "{plan:?}");
    assert_eq!(plan.left_out[0].because, "it has changed since it was listed; plan again");
}

#[tokio::test(start_paused = true)]
async fn unreadable_record_is_left_out_by_name_and_the_others_are_planned() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 4).await;
    let mut newer = desk.bench.item("mail/3").await.unwrap();
    newer.insert("version".to_owned(), AttributeValue::N("9".to_owned()));
    desk.bench.put(newer).await;
    let console = Console::new().tokens(&locker);
    let plan = console.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    assert_eq!((plan.found, plan.items.len(), plan.left_out.len()), (4, 3, 1));
    let left_out = &plan.left_out[0];
    assert_eq!(left_out.work.key(), "mail/3");
    assert!(
        left_out.because.starts_with("it cannot be read: the stored record has version 9"),
        "{left_out:?}"
    );
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 3);
}

#[tokio::test(start_paused = true)]
async fn empty_condition_of_a_filter_is_refused_before_a_request() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    hold(&locker, 2).await;
    wire.take();
    let console = Console::new().tokens(&locker);
    let new = Filter::new;
    for (name, filter) in [
        ("prefix", new().prefix("")),
        ("key", new().key("")),
        ("tenant", new().tenant("")),
        ("workflow", new().workflow("")),
        ("topic", new().topic("")),
        ("consumer", new().consumer("")),
        ("message", new().message("")),
        ("group", new().group("")),
        ("cause", new().cause("")),
        ("owner", new().owner("")),
        ("within", new().within("")),
        ("text", new().text("")),
    ] {
        let filter = filter.need(Need::Held);
        let listed = console.list(&filter).await.unwrap_err();
        let planned = console.plan(filter, Act::release(), &ada()).await.unwrap_err();
        for error in [listed, planned] {
            assert!(matches!(error, Error::Invalid(_)), "{name}: {error}");
            assert!(error.to_string().contains(&format!("the {name} of a filter is empty")), "{error}");
        }
    }
    assert_eq!(wire.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_runs_by_now_is_left_by_a_plan_that_was_made_before() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let _lock = held_by(locker.token("pay/1").expect_within(MINUTE)).await;
    desk.bench.clock.advance(MINUTE * 10);
    let runs = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&runs);
    let console =
        Console::new().tokens(&locker).running(move |_: &Record| Some(asked.load(Ordering::SeqCst)));
    let plan = console.plan(Filter::new().need(Need::Overdue), Act::release(), &ada()).await.unwrap();
    assert_eq!((plan.items.len(), plan.items[0].unknown.len()), (1, 0));
    runs.store(true, Ordering::SeqCst);
    let report = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.not_possible), (0, 1), "{report:?}");
    runs.store(false, Ordering::SeqCst);
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 1);

    // Without the fact, the plan states that it is unknown.
    let _lock = held_by(locker.token("pay/2").expect_within(MINUTE)).await;
    desk.bench.clock.advance(MINUTE * 10);
    let unknowing = Console::new().tokens(&locker);
    let plan = unknowing.plan(Filter::new().key("pay/2"), Act::release(), &ada()).await.unwrap();
    assert_eq!(plan.items[0].unknown, ["whether its work is still running is unknown here"]);
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_plan_at_once_both_report_their_acts_as_done() {
    let desk = Desk::new().await;
    let (one, wire) = desk.bench.machine();
    let (other, _) = desk.bench.machine();
    hold(&one, 1).await;
    let (first, second) = (Console::new().tokens(&one), Console::new().tokens(&other));
    let plan = first.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    // The first run has read the record, and its write waits.
    wire.matching(|exchange| exchange.operation == "TransactWriteItems", Fate::HeldBefore);
    let options = in_turn();
    let late = first.apply(&plan, &options, goes_on);
    let meanwhile = async {
        while wire.held() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // At another time, so that the first run cannot take this act for its own.
        desk.bench.clock.advance(MINUTE);
        let report = second.apply(&plan, &in_turn(), goes_on).await.unwrap();
        wire.let_through();
        report
    };
    let (late, report) = tokio::join!(late, meanwhile);
    assert_eq!((report.done, report.changed), (1, 0));
    let late = late.unwrap();
    assert_eq!((late.done, late.changed), (1, 0), "its own plan changed the record: {late:?}");
}

#[tokio::test(start_paused = true)]
async fn act_that_the_audit_does_not_show_yet_is_found_in_the_record() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 2).await;
    let console = Console::new().tokens(&locker);
    let plan = console.plan(Filter::new().need(Need::Held), Act::close(), &ada()).await.unwrap();
    assert_eq!(console.apply(&plan, &fast(), goes_on).await.unwrap().done, 2);
    // As long as the index lacks its entries, the audit is empty.
    for item in desk.bench.items().await {
        let key = item["lockToken"].as_s().unwrap();
        if key.contains(" audit ") {
            desk.bench.delete(key).await;
        }
    }
    let again = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((again.done, again.done_before, again.changed), (2, 0, 0), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn reason_without_room_for_the_plan_is_refused_when_planned() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 1).await;
    let console = Console::new().tokens(&locker);
    let plan = async |bytes: usize| {
        let operator = Operator::new("ada", "x".repeat(bytes)).unwrap();
        console.plan(Filter::new().need(Need::Held), Act::release(), &operator).await
    };
    // A blank and the mark of the plan: ` (plan 9a8fac0a)`.
    let room = 1000 - " (plan 9a8fac0a)".len();
    assert_eq!(plan(room).await.unwrap().items.len(), 1);
    let refused = plan(room + 1).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn until_excludes_records_that_wait_since_its_own_time() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    hold(&locker, 1).await;
    let since = record_of(&locker, "mail/0").await.created();
    let console = Console::new().tokens(&locker);
    let find = async |filter: Filter| console.list(&filter).await.unwrap().matches.len();
    assert_eq!(find(Filter::new().until(since)).await, 0);
    assert_eq!(find(Filter::new().until(since + Duration::from_millis(1))).await, 1);
    assert_eq!(find(Filter::new().since(since)).await, 1);
    assert_eq!(find(Filter::new().since(since + Duration::from_millis(1))).await, 0);
}

#[tokio::test(start_paused = true)]
async fn plan_counts_each_distinct_cause() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    for (number, cause) in ["\"declined\"", "\"accepted\"", "\"declined\""].into_iter().enumerate() {
        let lock = held_by(locker.token(("pay", number))).await;
        lock.hold(&format!("the provider said: {cause}")).await.unwrap();
    }
    let console = Console::new().tokens(&locker);
    let status = console.status().await.unwrap();
    let counts: Vec<_> = status.groups.iter().map(|group| group.count).collect();
    assert_eq!(counts, [2, 1], "accepted is another cause than declined: {:?}", status.groups);
    let plan = console.plan(Filter::new().need(Need::Held), Act::release(), &ada()).await.unwrap();
    let causes = plan.causes();
    let expected = [("the provider said: \"declined\"", 2), ("the provider said: \"accepted\"", 1)];
    assert_eq!(causes, expected.map(|(cause, count)| (cause.to_owned(), count)));
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
async fn cancel_is_for_the_planned_workflow_and_not_for_another_with_its_key() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    workflow(&desk, &workflows, "failing", "trip/1").await;
    let console = Console::new().workflows(&workflows);
    let plan = console.plan(Filter::new().key("trip/1"), Act::cancel(), &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 1);
    let of_another = |plan: &locker::operator::Plan| {
        let mut other = plan.clone();
        other.items[0].started = other.items[0].started.map(|at| at - Duration::from_secs(1));
        other.items[0].revision = "0123456789".to_owned();
        other
    };
    let report = console.apply(&of_another(&plan), &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.changed), (0, 1), "another workflow had the key: {report:?}");
    desk.bench.clock.advance(LATER);
    Completer::new(&workflows).register(Trip("failing")).run().await.unwrap();
    let report = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.changed), (1, 0), "{report:?}");
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
async fn act_for_one_record_is_refused_in_a_plan_before_a_request() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    let console = Console::new().tokens(&locker);
    for act in [
        Act::release().running(),
        Act::release().completed(),
        Act::release().new_key(),
        Act::resolve(json!(1)).step("ship").not_started(),
        Act::correct(json!(1)),
        Act::cancel().step("ship"),
    ] {
        let planned = console.plan(Filter::new(), act.clone(), &ada()).await;
        assert!(matches!(planned, Err(Error::Invalid(_))), "{act:?}: {planned:?}");
    }
    assert_eq!(wire.count(), 0);
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
    for act in [Act::cancel(), Act::compensate()] {
        let unknown = console.check(&seen, &act).unwrap().unknown;
        let says = "it is unknown whether a driver runs it now; that driver has time until ";
        assert_eq!(unknown, [format!("{says}{due}")], "{act:?}");
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

async fn header(desk: &Desk, workflow: &str) -> Option<HashMap<String, AttributeValue>> {
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let got = desk.bench.client.get_item().table_name(&desk.table).consistent_read(true);
    let got = got.key("workflow", key(workflow)).key("item", key("#"));
    got.send().await.unwrap().item
}

/// Its charge says that it has begun, and waits for its provider.
#[derive(Clone)]
struct Charged {
    begun: Arc<tokio::sync::Semaphore>,
    replies: Arc<tokio::sync::Semaphore>,
}

impl Workflow for Charged {
    const NAME: &'static str = "charged";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let charge = |_| async {
            self.begun.add_permits(1);
            drop(self.replies.acquire().await);
            Ok::<_, Failure>("ch_1".to_owned())
        };
        flow.once("charge").compensate("refund", &1).run(charge).await
    }
}

#[tokio::test]
async fn late_outcome_of_a_step_changes_what_an_operator_saw() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let console = Console::new().workflows(&workflows);
    let none = || Arc::new(tokio::sync::Semaphore::new(0));
    let code = Charged { begun: none(), replies: none() };
    let (sleeper, wire) = desk.machine();
    let late = tokio::spawn({
        let code = code.clone();
        async move { sleeper.start(&code, "order/1", &()).run().await.map(drop) }
    });
    drop(code.begun.acquire().await);
    desk.settle(&code).await;
    assert_eq!(desk.quarantine().await, ["order/1"]);
    let seen = part(&console, "order/1").await;
    let (skip, stored) = (Act::skip().step("charge"), header(&desk, "order/1").await);
    let plan = console.plan(Filter::new().key("order/1"), skip.clone(), &ada()).await.unwrap();
    assert_eq!(plan.items.len(), 1, "{plan:?}");

    // The provider replies. The first driver records the outcome of its step, and crashes before it
    // writes the workflow.
    wire.matching(|exchange| exchange.request["Item"]["item"]["S"] == "#", Fate::HeldBefore);
    code.replies.add_permits(1);
    while wire.held() == 0 {
        assert!(!late.is_finished(), "it ended without a write of the workflow");
        tokio::task::yield_now().await;
    }
    late.abort();
    assert_eq!(header(&desk, "order/1").await, stored, "only the step is written");
    let now = part(&console, "order/1").await;
    assert_ne!(skip.id(&now.revision(), &ada()), skip.id(&seen.revision(), &ada()));
    let report = console.apply(&plan, &fast(), goes_on).await.unwrap();
    assert_eq!((report.done, report.changed, report.not_possible), (0, 1, 0), "{report:?}");
}
