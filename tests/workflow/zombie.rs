//! A driver that sleeps at every exchange of a workflow of ten steps, and wakes when another has
//! taken over.

use locker::workflow::{List, State, StepState};
use locker_tests::Fate;

use crate::bench::{Desk, LATER};
use crate::ten::{Ten, put_right};

#[tokio::test]
async fn a_driver_that_sleeps_at_any_exchange_and_wakes_late_does_no_step_twice() {
    let desk = Desk::new().await;
    let (mut slept, mut quarantined) = (0, 0);
    for fault in [Fate::HeldBefore, Fate::HeldAfter] {
        for n in 0.. {
            let key = format!("ten/{fault:?}/{n}");
            let ten = Ten::new(&desk);
            let (workflows, wire) = desk.machine();
            wire.next(std::iter::repeat_n(Fate::Ok, n).chain([fault]));
            let zombie = tokio::spawn({
                let (ten, key) = (ten.clone(), key.clone());
                async move { workflows.start(&ten, key, &()).run().await.map(drop) }
            });
            while wire.held() == 0 && !zombie.is_finished() {
                tokio::task::yield_now().await;
            }
            if zombie.is_finished() {
                break;
            }
            slept += 1;
            desk.bench.clock.advance(LATER);
            // Two more, of which one takes it over.
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let (workflows, ten, key) = (desk.machine().0, ten.clone(), key.clone());
                    tokio::spawn(async move { workflows.start(&ten, key, &()).run().await.map(drop) })
                })
                .collect();
            for other in others {
                other.await.unwrap().unwrap();
            }
            let before = desk.view(&key).await;
            wire.let_through();
            // Only its effects matter here, not its answer.
            let _ = zombie.await.unwrap();
            desk.settle(&ten).await;
            quarantined += usize::from(desk.view(&key).await.listed() == Some(List::Quarantine));
            put_right(&desk, &ten, &key).await;

            let view = desk.view(&key).await;
            assert_eq!(view.state(), State::Completed, "{key}");
            for number in 0..4 {
                assert_eq!(ten.books.count(&format!("once#{number}")), 1, "{key}: {:?}", ten.books.entries());
            }
            let results: Vec<String> = serde_json::from_str(view.result().unwrap()).unwrap();
            for step in before.steps().iter().filter(|step| step.state() == StepState::Completed) {
                let recorded: String = serde_json::from_str(&step.result().unwrap()).unwrap();
                assert!(results.contains(&recorded), "{key}: the recorded result of {} is kept", step.name());
            }
            assert_eq!(view.messages().len(), 2, "{key}");
        }
    }
    assert_eq!(slept, 21 * 2);
    assert!(quarantined > 0, "a step whose driver sleeps is in doubt");
}
