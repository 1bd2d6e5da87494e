//! Ends, starts, reapers and operators whose responses or requests are late.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::Failure;
use locker::Intervened;
use locker::workflow::{Completer, List, Outcome, Reaper, Reported, RetryPolicy, State, StepState};
use locker_tests::{Fate, ada};

use super::{Script, input, transient};
use crate::bench::{Desk, LATER};
use crate::reported::stored;

#[tokio::test]
async fn a_finished_workflow_keeps_its_retention_when_the_response_to_its_end_is_lost() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .run(|_| async {
                script.books.enter("charge");
                Ok("paid".to_owned())
            })
            .await
    });
    let (workflows, wire) = desk.machine_with(|settings, _| settings.give_up_after = Duration::from_secs(3));
    // Start, start of the step, fence, outcome, answer, end.
    wire.next([Fate::Ok, Fate::Ok, Fate::Ok, Fate::Ok, Fate::Ok, Fate::Hangs]);
    workflows.start(&script, "s/1", &input()).run().await.unwrap_err();
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), State::Completed);
    let kept = view.due() - view.ended().unwrap();
    desk.bench.clock.advance(LATER);
    let (workflows, _) = desk.machine();
    Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    workflows.start(&script, "s/1", &input()).run().await.unwrap();
    assert_eq!(script.books.count("charge"), 1, "kept for {kept}, then deleted and done again");
}

#[tokio::test]
async fn the_input_of_a_start_whose_reply_was_lost_is_kept() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.step("s")
            .retry(RetryPolicy::never())
            .run(|_| async { if script.call() == 0 { Err(transient()) } else { Ok("done".to_owned()) } })
            .await
    });
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(1));
    wire.next([Fate::Ok, Fate::Hangs]);
    let enqueued = tokio::spawn({
        let script = script.clone();
        let big: String = (0..3000).map(|n: u32| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
        async move { workflows.start(&script, "s/1", &big).enqueue().await.map(drop) }
    });
    while wire.count() < 2 {
        tokio::task::yield_now().await;
    }
    let (other, _) = desk.machine();
    desk.bench.clock.advance(Duration::from_secs(1));
    let done = Completer::new(&other).register(script.clone()).run().await.unwrap();
    assert_eq!(done.claimed, 1);
    enqueued.await.unwrap().unwrap();
    desk.settle(&script).await;
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), State::Completed, "{:?}", view.reason());
}

#[tokio::test]
async fn a_reaper_that_wakes_late_deletes_nothing_of_the_next_run() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.once("charge")
            .run(|_| async {
                script.books.enter("charge");
                Ok("paid".to_owned())
            })
            .await?;
        flow.step("s")
            .retry(RetryPolicy::never())
            .run(|_| async { if script.call() == 1 { Err(transient()) } else { Ok("done".to_owned()) } })
            .await
    });
    let run = async || {
        let (workflows, _) = desk.machine();
        workflows.start(&script, "s/1", &input()).run().await.unwrap()
    };
    run().await;
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(3));
    // Three listings, query, mark, ledger; its deletes are in flight for long.
    wire.next(std::iter::repeat_n(Fate::Ok, 6).chain([Fate::Stalls, Fate::Stalls]));
    let late = tokio::spawn({
        let reaper = Reaper::new(&Completer::new(&workflows).register(script.clone()));
        async move { reaper.run().await.map(drop) }
    });
    while wire.count() < 8 {
        tokio::task::yield_now().await;
    }
    assert_eq!(wire.take().last().unwrap().operation, "DeleteItem");
    desk.bench.clock.advance(LATER);
    let (workflows, _) = desk.machine();
    let reaped = Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    assert_eq!(reaped.deleted, 1);
    let outcome = run().await;
    assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
    assert_eq!(script.books.count("charge"), 2, "one for each run");
    drop(late.await.unwrap());
    desk.settle(&script).await;
    assert_eq!(script.books.count("charge"), 2, "the second run did it twice");
}

#[tokio::test]
async fn an_atomic_step_that_dynamodb_never_accepts_is_quarantined() {
    let desk = Desk::new().await;
    let rows = desk.rows.clone();
    let script = Script::new(move |flow, _| {
        let rows = rows.clone();
        async move {
            // Two puts of one item, which no check before the request finds.
            let row = || {
                Put::builder().table_name(&rows).item("id", AttributeValue::S("1".into())).build().unwrap()
            };
            flow.atomic("rows").put(row()).put(row()).commit(&()).await?;
            Ok("done".to_owned())
        }
    });
    let (workflows, _) = desk.machine_with(|_, limits| limits.attempts = 3);
    workflows.start(&script, "s/1", &input()).enqueue().await.unwrap();
    let completer = Completer::new(&workflows).register(script.clone());
    for _ in 0..12 {
        desk.bench.clock.advance(LATER);
        completer.run().await.unwrap();
    }
    let view = desk.view("s/1").await;
    assert_eq!(desk.quarantine().await, ["s/1"], "{} attempts: {:?}", view.attempts(), view.reason());
}

#[tokio::test]
async fn an_operator_action_that_was_applied_does_not_say_that_nothing_was_written() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        flow.step("s")
            .run(|_| async {
                if script.call() == 0 {
                    Err(Failure::needs_operator("look".to_owned()))
                } else {
                    Ok("done".to_owned())
                }
            })
            .await
    });
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(1));
    workflows.start(&script, "s/1", &input()).run().await.unwrap();
    let seen = desk.view("s/1").await;
    wire.take();
    wire.next([Fate::Hangs]);
    let retried = tokio::spawn(async move { workflows.retry(&seen, &ada()).await });
    while wire.count() < 1 {
        tokio::task::yield_now().await;
    }
    let (other, _) = desk.machine();
    desk.bench.clock.advance(Duration::from_secs(1));
    Completer::new(&other).register(script.clone()).run().await.unwrap();
    assert_eq!(script.calls.load(Ordering::SeqCst), 2, "the operator's write released it");
    let said = retried.await.unwrap();
    assert!(!matches!(said, Ok(Intervened::Changed)), "{said:?}");
}

#[tokio::test]
async fn debug_shows_no_input_and_no_result() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        flow.once("a").compensate(&"undo").run(|_| async { Ok("secret".to_owned()) }).await
    });
    let (workflows, _) = desk.machine();
    let start = workflows.start(&script, "s/1", &input());
    let mut shown = vec![("Start", format!("{:?}", start.owner("me").run().await.map(drop)))];
    let view = desk.view("s/1").await;
    shown.push(("View", format!("{view:?}")));
    shown.push(("StepView", format!("{:?}", view.steps())));
    let leaks: Vec<_> =
        shown.iter().filter(|(_, text)| text.contains("secret")).map(|(what, _)| what).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[tokio::test]
async fn an_error_after_an_effect_does_not_say_that_nothing_was_changed() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine_with(|settings, _| settings.give_up_after = Duration::from_secs(2));
    let script = Script::new({
        let wire = wire.clone();
        move |flow, script| {
            let wire = wire.clone();
            async move {
                flow.once("charge")
                    .run(|_| async {
                        script.books.enter("charged");
                        wire.always(Fate::Throttled);
                        Ok("paid".to_owned())
                    })
                    .await
            }
        }
    });
    let error = workflows.start(&script, "s/1", &input()).run().await.unwrap_err();
    assert_eq!(script.books.count("charged"), 1);
    assert!(!error.to_string().contains("nothing was changed"), "{error}");
}

#[tokio::test]
async fn the_reaper_does_not_delete_the_input_of_the_next_run() {
    let desk = Desk::new().await;
    let script = Script::new(|_, _| async { Ok("done".to_owned()) });
    desk.machine().0.start(&script, "s/1", &input()).run().await.unwrap();
    desk.bench.clock.advance(Duration::from_secs(366 * 24 * 3600));
    let (workflows, wire) =
        desk.machine_with(|settings, _| settings.attempt_timeout = Duration::from_secs(2));
    wire.next([Fate::Ok, Fate::Stalls]);
    let next = tokio::spawn({
        let script = script.clone();
        let big: String = (0..3000).map(|n: u32| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
        async move { workflows.start(&script, "s/1", &big).run().await.unwrap() }
    });
    while wire.count() < 2 {
        tokio::task::yield_now().await;
    }
    let (workflows, _) = desk.machine();
    let reaped = Reaper::new(&Completer::new(&workflows).register(script.clone())).run().await.unwrap();
    assert_eq!(reaped.deleted, 1);
    let outcome = next.await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_finished_workflow_is_not_quarantined_by_the_completer_that_interrupted_its_end() {
    let desk = Desk::new().await;
    let script = Script::new(|_, _| async { Ok("done".to_owned()) });
    let (workflows, wire) = desk.machine_with(|_, limits| limits.attempts = 1);
    workflows.start(&script, "s/1", &input()).enqueue().await.unwrap();
    desk.bench.clock.advance(LATER);
    // Two listings, header, claim, query, answer, end.
    wire.next(std::iter::repeat_n(Fate::Ok, 6).chain([Fate::Hangs]));
    let completer = Completer::new(&workflows).register(script.clone()).drive_for(Duration::from_secs(1));
    completer.run().await.unwrap();
    let view = desk.view("s/1").await;
    assert_eq!(view.state(), State::Completed);
    assert_eq!(desk.quarantine().await, Vec::<String>::new(), "{:?}", view.reason());
}

#[tokio::test]
async fn no_shard_starves_another() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        if flow.key().as_str().starts_with("well") {
            return Ok("done".to_owned());
        }
        let row = Put::builder().table_name("no-such-table").item("id", AttributeValue::S("1".into()));
        flow.atomic("row").put(row.build().unwrap()).commit(&"done".to_owned()).await
    });
    let (workflows, _) = desk.machine_with(|settings, _| settings.shards = 2);
    let text = |text: &str| AttributeValue::S(text.to_owned());
    for (kind, shard) in [("poison", "unfinished_0"), ("well", "unfinished_1")] {
        for number in 0.. {
            let key = format!("{kind}/{number}");
            workflows.start(&script, key.as_str(), &input()).enqueue().await.unwrap();
            let mine =
                |item: &&std::collections::HashMap<String, AttributeValue>| item["workflow"] == text(&key);
            if desk.items().await.iter().find(mine).unwrap()["status"] == text(shard) {
                break;
            }
            let delete = desk.bench.client.delete_item().table_name(&desk.table);
            delete.key("workflow", text(&key)).key("item", text("#")).send().await.unwrap();
        }
    }
    let completer = Completer::new(&workflows).register(script.clone()).limit(1);
    let mut completed = 0;
    for _ in 0..12 {
        desk.bench.clock.advance(LATER);
        completed += completer.run().await.unwrap().completed;
    }
    assert_eq!(completed, 1, "12 runs never came to the second shard");
}

#[tokio::test]
async fn answer_of_an_end_without_reply_survives_another_change() {
    let desk = Desk::new().await;
    let script =
        Script::new(
            |flow, _| async move { flow.once("charge").run(|_| async { Ok("paid".to_owned()) }).await },
        );
    let (workflows, wire) = desk.machine();
    // Start, start of the step, fence, outcome, answer, end.
    wire.next([Fate::Ok, Fate::Ok, Fate::Ok, Fate::Ok, Fate::Ok, Fate::ReplyLost, Fate::HeldBefore]);
    let ends = tokio::spawn({
        let script = script.clone();
        async move { workflows.start(&script, "s/1", &input()).run().await.unwrap() }
    });
    while wire.held() == 0 && !ends.is_finished() {
        tokio::task::yield_now().await;
    }
    assert_eq!(desk.view("s/1").await.state(), State::Completed);
    let told = desk.machine().0.report("s/1", "charge").completed(&"paid again").await.unwrap();
    assert_eq!(told, Reported::Twice);
    // The retry of the end finds another attempt in the header, and the answer of its own.
    wire.let_through();
    let outcome = ends.await.unwrap();
    assert!(matches!(outcome, Outcome::Quarantined(_)), "{outcome:?}");
    let view = desk.view("s/1").await;
    assert_eq!((view.listed(), view.result()), (Some(List::Quarantine), Some("\"paid\"")));
}

#[tokio::test]
async fn driver_that_lost_a_closed_workflow_changes_no_step() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let odd = |_| async { Err::<String, _>(Failure::needs_operator("odd".to_owned())) };
        flow.once("charge").compensate(&"refund").run(odd).await
    });
    let (first, wire) = desk.machine();
    first.start(&script, "s/1", &input()).run().await.unwrap();
    let seen = desk.view("s/1").await;
    assert_eq!(first.compensate(&seen, &ada()).await.unwrap(), Intervened::Done);
    // Refused start, claim and query; then the query of what is to be compensated.
    wire.next([Fate::Ok, Fate::Ok, Fate::Ok, Fate::HeldBefore]);
    let late = tokio::spawn({
        let script = script.clone();
        async move { first.start(&script, "s/1", &input()).run().await.unwrap() }
    });
    while wire.held() == 0 && !late.is_finished() {
        tokio::task::yield_now().await;
    }
    desk.bench.clock.advance(LATER);
    let (others, _) = desk.machine_with(|_, limits| limits.attempts = 1);
    let report = Completer::new(&others).register(script.clone()).run().await.unwrap();
    assert_eq!(report.quarantined, 1, "{report:?}");
    let seen = desk.view("s/1").await;
    assert_eq!(others.close(&seen, &ada()).await.unwrap(), Intervened::Done);
    let before = stored(&desk).await;
    wire.let_through();
    let outcome = late.await.unwrap();
    assert!(matches!(outcome, Outcome::Cancelled), "{outcome:?}");
    assert_eq!(desk.view("s/1").await.steps()[0].state(), StepState::Held);
    assert_eq!(stored(&desk).await, before);
    assert!(script.books.entries().is_empty());
}
