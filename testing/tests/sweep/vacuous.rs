//! A sweep that would prove nothing is wrong by itself, and so is a final answer that does not
//! stay.

use std::sync::atomic::{AtomicUsize, Ordering};

use lock_token_testing::sweep::{Subject, Sweep, World};
use locker::Failure;

/// What its client does, from the n-th time on.
#[derive(Clone, Copy)]
enum Asks {
    Nothing,
    WithoutAnAnswer,
    AndForgets,
    AndAnswersAnew,
    AnotherTable,
}

struct Odd(Asks, AtomicUsize);

impl Subject for Odd {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let number = self.1.fetch_add(1, Ordering::SeqCst);
        if matches!(self.0, Asks::Nothing) {
            return Some("done".to_owned());
        }
        let table = if matches!(self.0, Asks::AnotherTable) { "elsewhere" } else { "locks" };
        let locker = world.locker(table).build().unwrap();
        let answer = locker.token("it").run(async |_| Ok::<_, Failure>("done".to_owned())).await.ok()?;
        match self.0 {
            Asks::WithoutAnAnswer => None,
            Asks::AndForgets => (number == 0).then(|| answer.into_inner()),
            _ => Some(number.to_string()),
        }
    }

    async fn check(&self, _: &World, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn sweep_without_requests_or_stable_answers_is_wrong() {
    for (asks, says) in [
        (Asks::Nothing, "nothing was asked of DynamoDB"),
        (Asks::WithoutAnAnswer, "there is no final answer"),
        (Asks::AndForgets, r#"was told "done", and later that there is no answer"#),
        (Asks::AndAnswersAnew, r#"was told "0", and later "#),
    ] {
        let swept = Sweep::new(move || Odd(asks, AtomicUsize::new(0))).random(0, 1).run();
        let found = swept.found().first().expect(says);
        assert_eq!(found.plan().to_string(), "none", "it takes no fault");
        assert!(found.wrong()[0].contains(says), "{says}: {:?}", found.wrong());
    }
}

/// Plays with an operator who does not cancel.
struct WithoutCancel;

impl Subject for WithoutCancel {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let locker = world.locker("locks").build().unwrap();
        let answer = locker.token("it").run(async |_| Ok::<_, Failure>("done".to_owned())).await;
        answer.ok().map(locker::Answer::into_inner)
    }

    const CANCELS: bool = true;

    async fn check(&self, _: &World, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn operator_who_does_not_cancel_fails_the_play() {
    let swept = Sweep::new(|| WithoutCancel).over(vec!["cancel=1".parse().unwrap()]);
    let found = swept.found().first().expect("a wrong play");
    assert!(found.wrong()[0].contains("implement `Subject::cancel`"), "{:?}", found.wrong());
}

#[test]
fn a_trace_names_the_errors_of_dynamodb() {
    let swept = Sweep::new(|| Odd(Asks::AnotherTable, AtomicUsize::new(0))).random(0, 1).run();
    let found = swept.found().first().expect("a wrong play");
    assert!(
        found.trace().iter().any(|line| line.contains("400 ResourceNotFoundException")),
        "{:?}",
        found.trace()
    );
}
