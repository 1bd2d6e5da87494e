//! Every exchange of a workflow of ten steps fails once, in every way: it still completes, with
//! each effect once.

use locker::workflow::Outcome;
use locker_tests::Fate;

use crate::bench::Desk;
use crate::ten::Ten;

const FAULTS: [Fate; 7] = [
    Fate::Lost,
    Fate::ReplyLost,
    Fate::ErrorBefore,
    Fate::ErrorAfter,
    Fate::Throttled,
    Fate::Conflict,
    Fate::Garbled,
];

#[tokio::test]
async fn with_a_fault_at_any_exchange_it_completes_and_each_effect_takes_place_once() {
    let desk = Desk::new().await;
    let mut played = 0;
    for fault in FAULTS {
        for n in 0.. {
            let key = format!("ten/{fault:?}/{n}");
            let ten = Ten::new(&desk);
            let (workflows, wire) = desk.machine();
            wire.next(std::iter::repeat_n(Fate::Ok, n).chain([fault]));
            let outcome = workflows.start(&ten, &key, &()).run().await;
            let Ok(Outcome::Completed(results)) = &outcome else { panic!("{key}: {outcome:?}") };
            assert_eq!((results.len(), results.is_replay()), (10, false), "{key}");
            assert_eq!(ten.books.entries().len(), 8, "{key}: {:?}", ten.books.entries());
            assert_eq!(desk.view(&key).await.messages().len(), 2, "{key}");
            if wire.count() <= n {
                break;
            }
            played += 1;
        }
    }
    // Start, four steps, three for each of four once-only steps, two transactions, answer and end.
    assert_eq!(played, 21 * FAULTS.len());
}
