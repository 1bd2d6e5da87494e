//! An erased workflow: it has ended and does not run again, and its items contain neither its input
//! nor its answer.

use std::ops::ControlFlow;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::operator::{Act, ApplyOptions, Console, Filter};
use locker::workflow::{Flow, Outcome, RetryPolicy, State, Stop, Workflow};
use locker::{AnswerError, Error, Failure, Intervened, Resolution};
use locker_tests::{Fate, ada, held_by};

use crate::bench::Desk;

const SECRET: &str = "4111-1111";

/// A text with the secret, for a separate item.
fn large() -> String {
    let mut random = fastrand::Rng::with_seed(7);
    let noise: String = (0..20_000).map(|_| random.alphanumeric()).collect();
    format!("{SECRET} {noise}")
}

/// Returns its input, or fails with it.
#[derive(Clone)]
struct Echo;

impl Workflow for Echo {
    const NAME: &'static str = "echo";
    type Input = (String, bool);
    type Output = String;

    async fn run(&self, _: &Flow, (text, fails): (String, bool)) -> Result<String, Stop> {
        if fails { Err(Failure::permanent(text).into()) } else { Ok(text) }
    }
}

/// Its charge is in doubt.
#[derive(Clone)]
struct Doubtful;

impl Workflow for Doubtful {
    const NAME: &'static str = "doubtful";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let lost = |_| async { Err::<(), _>(Failure::in_doubt("no reply".to_owned())) };
        flow.once("charge").retry(RetryPolicy::never()).run(lost).await
    }
}

/// The sort keys of the items that contain the secret, or a compressed text.
async fn traces(desk: &Desk) -> Vec<String> {
    let items = desk.items().await.into_iter().filter(|item| {
        let text = format!("{item:?}");
        text.contains(SECRET) || text.contains("json+gzip")
    });
    items.map(|item| item["item"].as_s().expect("a sort key").clone()).collect()
}

#[tokio::test]
async fn erased_workflow_is_nowhere_and_does_not_run_again() {
    for (text, fails) in [(SECRET.to_owned(), false), (large(), false), (SECRET.to_owned(), true)] {
        let desk = Desk::new().await;
        let (workflows, wire) = desk.machine();
        let input = (text, fails);
        let ran = workflows.start(&Echo, "echo/1", &input).run().await.unwrap();
        assert!(matches!(ran, Outcome::Completed(_)) != fails, "{ran:?}");
        assert!(!traces(&desk).await.is_empty());
        let seen = desk.view("echo/1").await;
        wire.next([Fate::ReplyLost]);
        assert_eq!(workflows.redact(&seen, &ada()).await.unwrap(), Intervened::Done);
        assert_eq!(traces(&desk).await, Vec::<String>::new());

        let view = desk.view("echo/1").await;
        let state = if fails { State::Failed } else { State::Completed };
        assert_eq!((view.state(), view.is_redacted(), view.result()), (state, true, None));
        assert_eq!((view.due(), view.listed()), (seen.due(), seen.listed()), "the retention stays");
        assert_ne!(view.revision(), seen.revision());
        let again = workflows.start(&Echo, "echo/1", &input).run().await;
        assert!(matches!(again, Err(Error::Answer(AnswerError::Redacted))), "{again:?}");
        let content = workflows.input(&view).await;
        assert!(matches!(content, Err(Error::Answer(AnswerError::Redacted))), "{content:?}");
        let acts = workflows.acts("echo/1").await.unwrap();
        assert_eq!(acts.iter().map(|act| act.resolution).collect::<Vec<_>>(), [Some(Resolution::Redacted)]);
        // It was erased once, and on what was seen before nothing is written.
        assert_eq!(workflows.redact(&view, &ada()).await.unwrap(), Intervened::NotPossible);
        assert_eq!(workflows.redact(&seen, &ada()).await.unwrap(), Intervened::Changed);
    }
}

#[tokio::test]
async fn reader_of_an_erased_answer_learns_that_it_was_erased() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let (other, _) = desk.machine();
    let input = (large(), false);
    workflows.start(&Echo, "echo/1", &input).run().await.unwrap();
    wire.matching(
        |exchange| exchange.operation == "GetItem" && exchange.request.to_string().contains("#answer"),
        Fate::HeldBefore,
    );
    let reading = tokio::spawn(async move { workflows.start(&Echo, "echo/1", &input).run().await });
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    let seen = desk.view("echo/1").await;
    assert_eq!(other.redact(&seen, &ada()).await.unwrap(), Intervened::Done);
    wire.let_through();
    let read = reading.await.expect("no panic");
    assert!(matches!(read, Err(Error::Answer(AnswerError::Redacted))), "{read:?}");
}

#[tokio::test]
async fn workflow_that_has_not_ended_is_not_redacted() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Doubtful, "doubtful/1", &()).run().await.unwrap();
    let view = desk.view("doubtful/1").await;
    assert_eq!(workflows.redact(&view, &ada()).await.unwrap(), Intervened::NotPossible);
    assert!(!desk.view("doubtful/1").await.is_redacted());
}

#[tokio::test]
async fn plan_erases_the_results_of_ended_workflows() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    for key in ["echo/1", "echo/2", "other/1"] {
        workflows.start(&Echo, key, &(SECRET.to_owned(), false)).run().await.unwrap();
    }
    workflows.start(&Doubtful, "echo/doubt", &()).run().await.unwrap();
    let console = Console::new().workflows(&workflows);
    let plan = console.plan(Filter::new().prefix("echo/"), Act::redact(), &ada()).await.unwrap();
    let keys: std::collections::BTreeSet<_> = plan.items.iter().map(|item| item.work.key()).collect();
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["echo/1", "echo/2"]);
    let report = console.apply(&plan, &ApplyOptions::default(), |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((report.done, report.failed), (2, 0));
    for (key, is_redacted) in [("echo/1", true), ("echo/2", true), ("other/1", false), ("echo/doubt", false)]
    {
        assert_eq!(desk.view(key).await.is_redacted(), is_redacted, "{key}");
    }
    let again = console.plan(Filter::new().prefix("echo/"), Act::redact(), &ada()).await.unwrap();
    assert_eq!((again.items.len(), again.left_out.len()), (0, 0));
}

#[tokio::test]
async fn plan_continues_after_its_limit() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    for number in 0..7 {
        workflows.start(&Echo, format!("echo/{number}"), &(SECRET.to_owned(), false)).run().await.unwrap();
    }
    let console = Console::new().workflows(&workflows).limit(5);
    for (count, complete) in [(5, false), (2, true), (0, true)] {
        let plan = console.plan(Filter::new().prefix("echo/"), Act::redact(), &ada()).await.unwrap();
        assert_eq!((plan.items.len(), plan.complete), (count, complete));
        console.apply(&plan, &ApplyOptions::default(), |_| ControlFlow::Continue(())).await.unwrap();
    }
    assert_eq!(traces(&desk).await, Vec::<String>::new());
}

#[tokio::test]
async fn unreadable_workflows_do_not_count_against_the_limit() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    for number in 0..5 {
        workflows.start(&Echo, format!("echo/{number}"), &(SECRET.to_owned(), false)).run().await.unwrap();
    }
    for mut damaged in desk.items().await.into_iter().filter(|item| item.contains_key("state")).take(3) {
        damaged.insert("version".to_owned(), AttributeValue::N("99".to_owned()));
        let put = desk.bench.client.put_item().table_name(&desk.table).set_item(Some(damaged));
        put.send().await.unwrap();
    }
    let console = Console::new().workflows(&workflows).limit(2);
    for (count, left_out) in [(2, 3), (0, 3)] {
        let plan = console.plan(Filter::new().prefix("echo/"), Act::redact(), &ada()).await.unwrap();
        assert_eq!((plan.items.len(), plan.left_out.len(), plan.complete), (count, left_out, true));
        console.apply(&plan, &ApplyOptions::default(), |_| ControlFlow::Continue(())).await.unwrap();
    }
}

#[tokio::test]
async fn plan_selects_by_the_begin_of_a_workflow() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Echo, "echo/1", &(SECRET.to_owned(), false)).run().await.unwrap();
    let begun = desk.view("echo/1").await.created();
    let (console, second) = (Console::new().workflows(&workflows), chrono::TimeDelta::seconds(1));
    for (filter, count) in [
        (Filter::new().since(begun), 1),
        (Filter::new().until(begun), 0),
        (Filter::new().until(begun + second), 1),
        (Filter::new().since(begun + second), 0),
    ] {
        let plan = console.plan(filter.clone(), Act::redact(), &ada()).await.unwrap();
        assert_eq!(plan.items.len(), count, "{filter}");
    }
}

/// The table of tokens has two pages. The plan is for both tables.
#[tokio::test]
async fn plan_does_not_hide_that_the_tokens_were_not_all_read() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Echo, "echo/1", &(SECRET.to_owned(), false)).run().await.unwrap();
    for number in 0..8 {
        let noise: String = (0..200_000).map(|_| fastrand::alphanumeric()).collect();
        let (locker, _) = desk.bench.machine();
        held_by(locker.token(("paid", number))).await.complete(&noise).await.unwrap();
    }
    let (locker, wire) = desk.bench.machine();
    wire.nth(2, Fate::Denied);
    let console = Console::new().tokens(&locker).workflows(&workflows);
    let stopped = console.plan(Filter::new(), Act::redact(), &ada()).await;
    assert!(matches!(stopped, Err(Error::Denied { .. })), "{stopped:?}");
}
