//! The state machine of a token, measured: each action in each state on the real library, as a
//! table that is in the docs; and a walk over everything that three actors, an operator, time and
//! the scanner can do by that table.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "model/document.rs"]
mod document;
#[path = "model/table.rs"]
mod table;
#[path = "model/walk.rs"]
mod walk;

use table::Table;

#[tokio::test]
async fn the_table_in_the_docs_is_what_the_library_does() {
    document::compare(&Table::measure().await);
}

#[tokio::test]
async fn nothing_that_three_actors_do_breaks_a_promise() {
    let table = Table::measure().await;
    for take_over in [false, true] {
        let walked = walk::everything(&table, take_over);
        println!("take over: {take_over}, {} states, {} steps", walked.states, walked.steps);
        assert!(walked.states > 1_000, "the walk did not get anywhere: {walked:?}");
    }
}

#[tokio::test]
async fn a_table_that_is_wrong_in_one_cell_does_not_pass_the_walk() {
    use table::{Action, Condition};
    let wrong = [
        (Action::Begin, Condition::InProgress, "acquired", Condition::InProgress),
        (Action::Begin, Condition::Completed, "acquired", Condition::InProgress),
        (Action::TakeOver, Condition::InProgress, "acquired", Condition::InProgress),
        (Action::TakeOver, Condition::Held, "acquired", Condition::InProgress),
        (Action::TakeOver, Condition::InDoubt, "acquired", Condition::InProgress),
        (Action::Doubt, Condition::InProgress, "", Condition::Absent),
        (Action::LateDoubt, Condition::InProgress, "", Condition::InDoubt),
        (Action::Close, Condition::Held, "done", Condition::Released),
        (Action::LateComplete, Condition::InProgress, "done", Condition::Completed),
        (Action::LateComplete, Condition::Completed, "done", Condition::Completed),
        (Action::LateRelease, Condition::InProgress, "done", Condition::Absent),
        (Action::Complete, Condition::InProgress, "done", Condition::InProgress),
        (Action::Forget, Condition::InProgress, "", Condition::Absent),
    ];
    let measured = Table::measure().await;
    for (action, state, told, then) in wrong {
        let mut table = measured.clone();
        table.set(action, state, told, then);
        let passes = |take_over| std::panic::catch_unwind(|| walk::everything(&table, take_over)).is_ok();
        assert!(!(passes(false) && passes(true)), "{action:?} in {state:?} told {told} passed");
    }
}
