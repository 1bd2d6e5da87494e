//! The same steps for each of many items, several items at a time.

#[path = "map/killed.rs"]
mod killed;
#[path = "map/scopes.rs"]
mod scopes;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use locker::workflow::{Flow, Outcome, RetryPolicy, State, Stop, Workflow};
use locker::{Class, Classify, Failure};
use locker_tests::{DAY, Fate};
use serde::{Deserialize, Serialize};

use crate::bench::{Books, Desk, LATER};
use crate::interleavings::{Script, input};

const HOUR: Duration = Duration::from_secs(3600);

/// Items that are their own ids.
fn items(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).map(|number| (number, number))
}

async fn run(desk: &Desk, script: &Script) -> Outcome<String> {
    desk.machine().0.start(script, "m/1", &input()).run().await.unwrap()
}

fn completed(outcome: Outcome<String>) -> String {
    let Outcome::Completed(answer) = outcome else { panic!("{outcome:?}") };
    answer.into_inner()
}

async fn steps(desk: &Desk) -> Vec<String> {
    let mut steps: Vec<_> = desk.view("m/1").await.steps().iter().map(|step| step.name()).collect();
    steps.sort();
    steps
}

#[tokio::test]
async fn results_keep_the_order_of_the_items() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let results = flow.map("fund", items(4), 4, async |flow, item| {
            let charged = flow.once("charge").run(async |it| Ok(it.idempotency_key().to_owned())).await?;
            // The last item ends first.
            script.until(3 - item).await;
            script.call();
            Ok(charged)
        });
        Ok(results.await?.join(", "))
    });
    let keys = "m/1 fund#0:charge, m/1 fund#1:charge, m/1 fund#2:charge, m/1 fund#3:charge";
    assert_eq!(completed(run(&desk, &script).await), keys);
    assert_eq!(steps(&desk).await, ["fund#0:charge", "fund#1:charge", "fund#2:charge", "fund#3:charge"]);
}

#[tokio::test]
async fn width_is_used_and_never_exceeded() {
    let desk = Desk::new().await;
    let most = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&most);
    let script = Script::new(move |flow, script| {
        let (now, most) = (AtomicUsize::new(0), Arc::clone(&noted));
        async move {
            let results = flow.map("fund", items(20), 4, async |flow, item| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // The first four items begin before any of these items ends.
                script.call();
                script.until(4).await;
                flow.step("note").run(async |_| Ok(item)).await?;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(item)
            });
            Ok(results.await?.iter().sum::<usize>().to_string())
        }
    });
    assert_eq!(completed(run(&desk, &script).await), "190");
    assert_eq!(most.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn branches_end_and_no_other_begins_before_a_failure_returns() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let funded = flow.map("fund", items(5), 2, async |flow, item| {
            let charge = flow.once("charge").compensate(&"undo");
            let charged = charge.run(async |_| {
                if item == 1 {
                    return Err(Failure::permanent("declined".to_owned()));
                }
                script.until(1).await;
                script.books.enter(format!("charge {item}"));
                Ok(item)
            });
            let charged = charged.await;
            script.call();
            charged
        });
        let failed = funded.await.unwrap_err();
        script.books.enter("returned");
        Err(failed)
    });
    let outcome = run(&desk, &script).await;
    let Outcome::Failed(failed) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(failed.failure().step(), Some("fund#1:charge"));
    assert_eq!(script.books.entries(), ["charge 0", "returned", "undo fund#0:charge"]);
    let begun = ["compensation:fund#0:charge", "fund#0:charge", "fund#1:charge"];
    assert_eq!(steps(&desk).await, begun);
}

/// The code must resolve the steps that an earlier run left in doubt, even if another branch fails
/// first in this run.
#[tokio::test]
async fn branch_that_an_earlier_run_began_begins_after_a_failure() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let run = script.call();
        let funded = flow.map("fund", items(4), 2, async |flow, item| {
            if item == 0 && run > 0 {
                // The failure of the next item is noticed before another branch begins.
                for _ in 0..9 {
                    tokio::task::yield_now().await;
                }
            }
            let charge = flow.once("charge").recognised_for(DAY).compensate(&"undo");
            charge
                .run(async |_| match item {
                    1 => {
                        script.gate.acquire().await.unwrap().forget();
                        Err(Failure::permanent("declined".to_owned()))
                    }
                    2 => {
                        script.books.enter(format!("charge 2 in run {run}"));
                        script.gate.add_permits(1);
                        // The first run is killed here.
                        if run == 0 { std::future::pending().await } else { Ok(()) }
                    }
                    _ => Ok(()),
                })
                .await
        });
        funded.await?;
        Ok(String::new())
    });
    let first = tokio::spawn({
        let (workflows, script) = (desk.machine().0, script.clone());
        async move { workflows.start(&script, "m/1", &input()).run().await.map(drop) }
    });
    loop {
        let view = desk.machine().0.get("m/1", 1).await.unwrap();
        let failed = view.and_then(|view| {
            let step = view.steps().iter().find(|step| step.name() == "fund#1:charge")?;
            Some(step.state() == locker::workflow::StepState::Failed)
        });
        if failed == Some(true) {
            break;
        }
        tokio::task::yield_now().await;
    }
    first.abort();
    drop(first.await);
    desk.bench.clock.advance(LATER);
    let outcome = run(&desk, &script).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let books = ["charge 2 in run 0", "charge 2 in run 1", "undo fund#2:charge", "undo fund#0:charge"];
    assert_eq!(script.books.entries(), books);
}

#[tokio::test]
async fn waits_keep_no_branch_from_beginning() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, script| async move {
        let mailed = flow.map("remind", items(3), 1, async |flow, item| {
            flow.sleep("nap", HOUR).await?;
            let mail = async |_| {
                script.books.enter(format!("mail {item}"));
                Ok(())
            };
            flow.once("mail").run(mail).await
        });
        Ok(mailed.await?.len().to_string())
    });
    let Outcome::InProgress(waiting) = run(&desk, &script).await else { panic!("it sleeps") };
    assert_eq!(waiting.due(), desk.now() + HOUR);
    assert_eq!(steps(&desk).await, ["remind#0:nap", "remind#1:nap", "remind#2:nap"]);
    desk.bench.clock.advance(HOUR);
    desk.settle(&script).await;
    assert_eq!(completed(run(&desk, &script).await), "3");
    assert_eq!(script.books.entries(), ["mail 0", "mail 1", "mail 2"]);
}

/// How the second branch stops, while the first one sleeps for a month.
#[derive(Debug, Clone, Copy)]
enum Other {
    Transient,
    Code,
    Step,
}

/// Each branch holds the workflow, not only the branch whose stop the map returns.
#[tokio::test]
async fn stop_of_each_branch_decides_when_the_workflow_is_due() {
    for other in [Other::Transient, Other::Code, Other::Step] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, script| async move {
            let run = script.call();
            let branches = flow.map("part", items(2), 2, async |flow, item| {
                match (item, other) {
                    (0, _) => flow.sleep("month", 30 * DAY).await?,
                    (_, _) if run > 0 => {}
                    (_, Other::Transient) => Err(Failure::<String>::transient("busy".to_owned()))?,
                    (_, Other::Code) => drop("seven".parse::<u64>()?),
                    (_, Other::Step) => {
                        let step = flow.step("ask").retry(RetryPolicy::never());
                        step.run(async |_| Err::<(), _>(Failure::transient("busy".to_owned()))).await?;
                    }
                }
                Ok(())
            });
            branches.await?;
            Ok(String::new())
        });
        let outcome = run(&desk, &script).await;
        match (other, outcome) {
            (Other::Code, Outcome::Quarantined(reason)) => {
                assert!(reason.contains("invalid digit found in string"), "{reason}");
            }
            (Other::Transient | Other::Step, Outcome::InProgress(waiting)) => {
                assert!(waiting.due() < desk.now() + HOUR, "{other:?}: {}", waiting.due());
                desk.settle(&script).await;
                assert!(desk.view("m/1").await.due() > desk.now() + 29 * DAY);
            }
            (_, outcome) => panic!("{other:?}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn invalid_map_is_refused_before_anything_is_written() {
    const LONG: &str = "x";
    for (name, ids, width, reason) in [
        ("fund", ["7", "7"], 2, "step fund cannot run: the item at position 1 has the id of an earlier item"),
        ("fund", ["7", "8"], 0, "step fund cannot run: the width of a map must be at least 1, got 0"),
        (
            "fund",
            ["7", ""],
            2,
            "step fund cannot run: the id of the item at position 1: the name ends with #, so its id is empty",
        ),
        (
            "fund",
            ["7", LONG],
            2,
            "step fund cannot run: the id of the item at position 1: a name must have 1 to 200 bytes, this one has 205",
        ),
        ("fund:a", ["7", "8"], 2, "step fund:a cannot run: the name has a : at byte 4"),
        ("fund a", ["7", "8"], 2, "step fund a cannot run: the name has a space at byte 4"),
    ] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, script| async move {
            let ids = ids.map(|id| if id == LONG { LONG.repeat(200) } else { id.to_owned() });
            let map = flow.map(
                name,
                ids.into_iter().enumerate().map(|(at, id)| (id, at)),
                width,
                async |flow, _| {
                    script.books.enter("a branch began");
                    flow.step("note").run(async |_| Ok(())).await
                },
            );
            map.await?;
            Ok(String::new())
        });
        let Outcome::Quarantined(text) = run(&desk, &script).await else { panic!("{reason}") };
        assert!(text.starts_with(reason), "{text}");
        assert!(script.books.entries().is_empty() && steps(&desk).await.is_empty(), "{reason}");
    }
}

#[tokio::test]
async fn name_in_a_branch_is_checked_and_used_once() {
    for (step, twice, reason) in [
        ("a:b", false, "step fund#0:a:b cannot run: the name has a : at byte 1"),
        ("", false, "step fund#0: cannot run: a name must have 1 to 200 bytes, this one has 0"),
        ("a", true, "step fund: cannot run: another step of this workflow has the same name"),
    ] {
        let desk = Desk::new().await;
        let script = Script::new(move |flow, _| async move {
            for _ in 0..=u8::from(twice) {
                flow.map("fund", items(1), 1, async |flow, _| flow.step(step).run(async |_| Ok(())).await)
                    .await?;
            }
            Ok(String::new())
        });
        let Outcome::Quarantined(text) = run(&desk, &script).await else { panic!("{reason}") };
        assert!(text.starts_with(reason), "{text}");
        assert_eq!(steps(&desk).await.len(), usize::from(twice), "{reason}");
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Declined(usize);

impl Classify for Declined {
    fn class(&self) -> Class {
        Class::Permanent
    }
}

#[tokio::test]
async fn failure_as_a_value_keeps_the_other_items() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let charged = flow.map("fund", items(6), 2, async |flow, item| {
            let charge = flow.once("charge");
            charge.outcome(async |_| if item % 2 == 0 { Ok(item) } else { Err(Declined(item)) }).await
        });
        let (paid, declined): (Vec<_>, Vec<_>) = charged.await?.into_iter().partition(Result::is_ok);
        Ok(format!("{} paid, {} declined", paid.len(), declined.len()))
    });
    assert_eq!(completed(run(&desk, &script).await), "3 paid, 3 declined");
}

#[tokio::test]
async fn map_of_no_items_is_empty() {
    let desk = Desk::new().await;
    let script = Script::new(|flow, _| async move {
        let none = flow.map("fund", items(0), 16, async |flow, _| flow.step("a").run(async |_| Ok(1)).await);
        Ok(format!("{:?}", none.await?))
    });
    assert_eq!(completed(run(&desk, &script).await), "[]");
}

/// Three items, two at a time, each with a `step` and a `once`.
#[derive(Clone, Default)]
struct Small(Books);

impl Workflow for Small {
    const NAME: &'static str = "small";
    type Input = ();
    type Output = Vec<String>;

    async fn run(&self, flow: &Flow, (): ()) -> Result<Vec<String>, Stop> {
        flow.map("fund", ["a", "b", "c"].into_iter().enumerate(), 2, async |flow, item| {
            let effect = |step: &str| {
                self.0.enter(format!("{step} {item}"));
                Ok(format!("{item}:{}", self.0.entries().len()))
            };
            flow.step("look").run(async |_| effect("look")).await?;
            flow.once("charge").run(async |_| effect("charge")).await
        })
        .await
    }
}

#[tokio::test]
async fn with_a_fault_at_any_exchange_each_effect_takes_place_once() {
    use Fate::{Conflict, ErrorAfter, ErrorBefore, Garbled, Lost, ReplyLost, Throttled};
    const FAULTS: [Fate; 7] = [Lost, ReplyLost, ErrorBefore, ErrorAfter, Throttled, Conflict, Garbled];
    let desk = Desk::new().await;
    let mut played = 0;
    for fault in FAULTS {
        for n in 0.. {
            let (key, small) = (format!("small/{fault:?}/{n}"), Small::default());
            let (workflows, wire) = desk.machine();
            wire.next(std::iter::repeat_n(Fate::Ok, n).chain([fault]));
            let outcome = workflows.start(&small, &key, &()).run().await;
            let Ok(Outcome::Completed(results)) = &outcome else { panic!("{key}: {outcome:?}") };
            let ids: Vec<_> = results.iter().map(|result| &result[..2]).collect();
            assert_eq!(ids, ["a:", "b:", "c:"], "{key}");
            let mut entries = small.0.entries();
            entries.sort();
            let once = ["charge a", "charge b", "charge c", "look a", "look b", "look c"];
            assert_eq!(entries, once, "{key}");
            if wire.count() <= n {
                break;
            }
            played += 1;
        }
    }
    // Start, a step and three for a once-only step of each item, answer and end.
    assert_eq!(played, 15 * FAULTS.len());
    assert_eq!(desk.view("small/Lost/0").await.state(), State::Completed);
}
