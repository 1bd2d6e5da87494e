//! A workflow that fails at its end, with a fault, a sleeping driver or an operator's cancel at
//! every exchange of its way there and back: each effect takes place at most once under its key,
//! and none of them stands.

use locker::workflow::{Outcome, State};
use locker::{Intervened, Operator};
use locker_tests::{Fate, Wire};
use tokio::task::JoinHandle;

use crate::bench::{Desk, LATER};
use crate::eight::{Eight, check, keys, put_right, start_mate};

/// One of each kind: not applied, applied without a word, applied with one, refused for now.
const FAULTS: [Fate; 4] = [Fate::Lost, Fate::ReplyLost, Fate::ErrorAfter, Fate::Conflict];

#[tokio::test]
async fn with_a_fault_at_any_exchange_everything_is_compensated_once() {
    let desk = Desk::new().await;
    let mut exchanges = 0;
    for fault in FAULTS {
        for n in 0.. {
            let play = format!("{fault:?}/{n}");
            let eight = Eight::new(&desk);
            let (workflows, wire) = desk.machine();
            wire.next(std::iter::repeat_n(Fate::Ok, n).chain([fault]));
            let [key, _] = keys(&play);
            let outcome = workflows.start(&eight, &key, &key).run().await;
            assert!(matches!(outcome, Ok(Outcome::Failed(_))), "{play}: {outcome:?}");
            let sent = wire.count();
            check(&desk, &eight, &play, &[State::Failed]).await;
            assert_eq!(eight.books.entries().len(), 8, "{play}: {:?}", eight.books.entries());
            start_mate(&workflows, &eight, &play).await;
            check(&desk, &eight, &play, &[State::Failed]).await;
            assert_eq!(eight.books.entries().len(), 9, "{play}: {:?}", eight.books.entries());
            if sent <= n {
                exchanges = n;
                break;
            }
        }
    }
    assert_eq!(exchanges, EXCHANGES);
}

/// Of the way there, and of the way back, with the cause of the failure.
const EXCHANGES: usize = 47;

/// A driver that sleeps at this exchange. `None`: it got to its end.
async fn asleep(
    desk: &Desk,
    eight: &Eight,
    play: &str,
    n: usize,
    fault: Fate,
) -> Option<(Wire, JoinHandle<()>)> {
    let (workflows, wire) = desk.machine();
    wire.next(std::iter::repeat_n(Fate::Ok, n).chain([fault]));
    let sleeper = tokio::spawn({
        let (eight, [key, _]) = (eight.clone(), keys(play));
        // Only its effects matter here, not its answer.
        async move { drop(workflows.start(&eight, &key, &key).run().await) }
    });
    while wire.held() == 0 && !sleeper.is_finished() {
        tokio::task::yield_now().await;
    }
    (!sleeper.is_finished()).then_some((wire, sleeper))
}

#[tokio::test]
async fn a_driver_that_sleeps_at_any_exchange_undoes_nothing_twice_and_leaves_nothing() {
    let desk = Desk::new().await;
    let (mut slept, mut acts) = (0, 0);
    for fault in [Fate::HeldBefore, Fate::HeldAfter] {
        for n in 0.. {
            let play = format!("{fault:?}/{n}");
            let eight = Eight::new(&desk);
            let Some((wire, sleeper)) = asleep(&desk, &eight, &play, n, fault).await else { break };
            slept += 1;
            desk.bench.clock.advance(LATER);
            // Two more, of which one takes it over.
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let (workflows, eight, [key, _]) = (desk.machine().0, eight.clone(), keys(&play));
                    tokio::spawn(async move { workflows.start(&eight, &key, &key).run().await.map(drop) })
                })
                .collect();
            for other in others {
                other.await.unwrap().unwrap();
            }
            start_mate(&desk.machine().0, &eight, &play).await;
            wire.let_through();
            sleeper.await.unwrap();
            acts += put_right(&desk, &eight, &play).await;
            check(&desk, &eight, &play, &[State::Failed]).await;
        }
    }
    assert_eq!(slept, EXCHANGES * 2);
    assert!(acts > 0, "a step whose driver sleeps is in doubt");
}

#[tokio::test]
async fn an_operator_who_cancels_at_any_exchange_gets_everything_compensated() {
    let desk = Desk::new().await;
    let (operator, mut cancelled) = (Operator::new("alice", "the customer called").unwrap(), 0);
    for (fault, early) in [(Fate::HeldBefore, false), (Fate::HeldAfter, true)] {
        for n in 0.. {
            let play = format!("cancel/{fault:?}/{early}/{n}");
            let (eight, [key, _]) = (Eight::new(&desk), keys(&play));
            let Some((wire, sleeper)) = asleep(&desk, &eight, &play, n, fault).await else { break };
            let (workflows, _) = desk.machine();
            let done = workflows.cancel(key.as_str(), 1, &operator).await.unwrap();
            cancelled += usize::from(done == Intervened::Done);
            if !early {
                // It wakes when its step was cancelled and its compensation has found nothing.
                desk.settle(&eight).await;
            }
            wire.let_through();
            sleeper.await.unwrap();
            put_right(&desk, &eight, &play).await;
            check(&desk, &eight, &play, &[State::Cancelled, State::Failed]).await;
        }
    }
    // At the last exchanges it has ended.
    assert!(cancelled > 2 * (EXCHANGES - 4), "{cancelled}");
}
