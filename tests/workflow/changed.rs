//! A step that differs from the recorded one, and other misuse: a clear stop, and nothing runs.

use locker::Failure;
use locker::workflow::{Flow, Outcome, Stop, Workflow};
use serde::Serialize;

use crate::bench::{Books, Desk, LATER};

/// The steps that the code makes in its first and its second run.
#[derive(Clone)]
struct Twice {
    books: Books,
    then: &'static str,
    now: &'static str,
}

impl Workflow for Twice {
    const NAME: &'static str = "twice";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let what = if self.books.entries().is_empty() { self.then } else { self.now };
        let work = |_| async {
            self.books.enter("ran");
            Ok(1)
        };
        match what {
            "step" => drop(flow.step("a").input(&1).run(work).await?),
            "step of another input" => drop(flow.step("a").input(&2).run(work).await?),
            "step without input" => drop(flow.step("a").run(work).await?),
            "once" => drop(flow.once("a").input(&1).run(work).await?),
            "once of another input" => drop(flow.once("a").input(&2).run(work).await?),
            "atomic" => drop(flow.atomic("a").input(&1).commit(&1).await?),
            other => panic!("{other}"),
        }
        flow.step("down").run(|_| async { Err::<(), _>(Failure::transient("down".to_owned())) }).await
    }
}

#[tokio::test]
async fn a_changed_step_is_a_clear_error_and_not_silence() {
    for (then, now, what) in [
        ("step", "step of another input", "input"),
        ("step", "step without input", "input"),
        ("step", "once", "kind"),
        ("once", "once of another input", "input"),
        ("once", "atomic", "kind"),
    ] {
        let desk = Desk::new().await;
        let code = Twice { books: Books::default(), then, now };
        let outcome = desk.machine().0.start(&code, "twice/1", &()).run().await.unwrap();
        assert!(matches!(outcome, Outcome::InProgress(_)), "{outcome:?}");
        desk.bench.clock.advance(LATER);
        let outcome = desk.machine().0.start(&code, "twice/1", &()).run().await.unwrap();
        let Outcome::Quarantined(reason) = outcome else { panic!("{then}, then {now}: {outcome:?}") };
        assert_eq!(
            reason,
            format!("step a is recorded with another {what}; give a changed step another name")
        );
        assert_eq!(code.books.entries(), ["ran"]);
    }
}

#[derive(Serialize)]
enum Undo {
    Undo(String),
}

struct Misused(&'static str);

impl Workflow for Misused {
    const NAME: &'static str = "misused";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let work = |_| async { Ok(()) };
        match self.0 {
            "a name twice" => {
                flow.once("a").run(work).await?;
                flow.once("a").run(work).await
            }
            "a bad name" => flow.step("a/b").run(work).await,
            "version zero" => flow.once("a").version(0).run(work).await,
            _ => {
                let large = "x".repeat(5000);
                flow.once("a").compensate(&Undo::Undo(large)).run(work).await
            }
        }
    }
}

#[tokio::test]
async fn misuse_is_an_error_that_says_what_to_do() {
    for (misuse, text) in [
        (
            "a name twice",
            "step a cannot run: another step of this workflow has the same name; make it unique, such as fund#7. A workflow that already ran the step under the old name runs it again under the new one",
        ),
        (
            "a bad name",
            "step a/b cannot run: the name has a / at byte 1; names are printable ASCII without space, / and ~, such as fund#7",
        ),
        ("version zero", "step a cannot run: the version of its key must be at least 1, got 0"),
        (
            "a large intent",
            "step a cannot run: its compensation has 5002 bytes, 4096 are allowed; pass a reference",
        ),
    ] {
        let desk = Desk::new().await;
        let outcome = desk.machine().0.start(&Misused(misuse), "misused/1", &()).run().await.unwrap();
        let Outcome::Quarantined(reason) = outcome else { panic!("{misuse}: {outcome:?}") };
        assert_eq!(reason, text);
    }
}

#[tokio::test]
async fn a_result_of_another_type_is_quarantined_and_its_step_does_not_run_again() {
    struct Typed(bool);
    impl Workflow for Typed {
        const NAME: &'static str = "typed";
        type Input = ();
        type Output = ();
        async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
            if self.0 {
                flow.once("a").run(|_| async { Ok("text".to_owned()) }).await?;
            } else {
                flow.once("a").run(|_| async { Ok(1_u32) }).await?;
            }
            flow.step("down").run(|_| async { Err::<(), _>(Failure::transient("down".to_owned())) }).await
        }
    }
    let desk = Desk::new().await;
    desk.machine().0.start(&Typed(true), "typed/1", &()).run().await.unwrap();
    desk.bench.clock.advance(LATER);
    let outcome = desk.machine().0.start(&Typed(false), "typed/1", &()).run().await.unwrap();
    let Outcome::Quarantined(reason) = outcome else { panic!("{outcome:?}") };
    assert!(
        reason.starts_with("the recorded result of step a cannot be read as the type asked for"),
        "{reason}"
    );
}
