//! The code of the workflows. It is the code of a user: it stays as it is when Locker changes, since a
//! later version resumes what an earlier version began.

use std::sync::Arc;
use std::time::Duration;

use locker::Failure;
use locker::workflow::{
    Compensated, Compensation, Event, Flow, RetryPolicy, StepAttempt, Stop, Wait, Workflow,
};
use locker_tests::{DAY, HOUR, MINUTE};
use tokio::sync::Notify;

use crate::bench::Books;
use crate::stage::noise;

pub(crate) const PAID: Event<u32> = Event::named("paid");
/// A text of this length has a separate item.
pub(crate) const LARGE: usize = 8_000;

/// A trip, whose course is the input.
#[derive(Clone)]
pub(crate) struct Trip {
    /// The idempotency keys of all calls, in order.
    pub(crate) calls: Books,
    /// Whether it dies, and its calls fail, where its course says so.
    is_first: bool,
    died: Arc<Notify>,
}

impl Trip {
    /// The code on the first machine.
    pub(crate) fn first() -> Self {
        Self { calls: Books::default(), is_first: true, died: Arc::default() }
    }

    /// The same code on a machine without faults.
    pub(crate) fn later() -> Self {
        Self { is_first: false, ..Self::first() }
    }

    /// Waits until the process of this code is dead.
    pub(crate) async fn is_dead(&self) {
        self.died.notified().await;
    }

    async fn dies<T>(&self) -> T {
        self.died.notify_one();
        std::future::pending().await
    }

    fn call<T>(&self, attempt: &StepAttempt, result: T) -> Result<T, Failure> {
        self.calls.enter(attempt.idempotency_key());
        Ok(result)
    }

    async fn book(&self, attempt: StepAttempt, course: &str) -> Result<String, Failure> {
        self.calls.enter(attempt.idempotency_key());
        match course {
            _ if !self.is_first => Ok("seat 7".to_owned()),
            "dies-in-call" | "recognised" => self.dies().await,
            "failing" => Err(Failure::transient("the airline is down".to_owned())),
            "held" | "closed" => Err(Failure::needs_operator("the airline is unknown".to_owned())),
            _ => Err(Failure::in_doubt("no reply of the airline".to_owned())),
        }
    }

    /// A wait of this course.
    fn wait<'a>(&self, flow: &'a Flow, course: &str) -> Wait<'a, u32> {
        match course {
            "expired" | "late-listed" => flow.wait_for(PAID, MINUTE),
            "late-owed" | "late-handled" => flow.wait_for(PAID, MINUTE).on_late(&"repay"),
            _ => flow.wait_for(PAID, 30 * DAY).on_late(&"repay"),
        }
    }
}

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, course: String) -> Result<String, Stop> {
        let (course, _) = course.split_once(' ').unwrap_or((&course, ""));
        if course == "failed" {
            return Err(Stop::fail("no seat is left"));
        }
        let charge = flow.once("charge").compensate_within(&"refund", DAY);
        let charge = match course {
            "keyed" | "keyed-again" => charge.input(&"card 7").key(("card", 7)),
            course => charge.input(&course),
        };
        charge.run(async |attempt| self.call(&attempt, "receipt".to_owned())).await?;
        match course {
            "completed" | "redacted" | "enqueued" | "keyed" | "keyed-again" | "reaped" => {
                flow.now("time").await?;
                flow.step("note").run(async |attempt| self.call(&attempt, ())).await?;
                flow.atomic("record").pivot().commit(&1).await?;
                Ok("done".to_owned())
            }
            "large" => flow.step("photo").run(async |attempt| self.call(&attempt, noise(LARGE))).await,
            "compensated" | "refund-later" => Err(Stop::fail("the trip is cancelled")),
            "sleeps" => {
                flow.sleep("night", 12 * HOUR).await?;
                Ok("awake".to_owned())
            }
            "map" => {
                let seats = flow.map("seat", (0..4).map(|seat| (seat, seat)), 1, async |flow, seat| {
                    if self.is_first && seat == 2 {
                        self.dies::<()>().await;
                    }
                    flow.once("take").run(async |attempt| self.call(&attempt, seat)).await
                });
                Ok(format!("seats {:?}", seats.await?))
            }
            "continued" => {
                let paid = self.wait(flow, course).await?.unwrap_or_default();
                if flow.key_version() == 1 {
                    return Err(flow.continue_as_new(&"continued"));
                }
                Ok(format!("paid {paid} in version {}", flow.key_version()))
            }
            "waits" | "given" | "surplus" | "cancelled" | "expired" | "late-listed" | "late-owed"
            | "late-handled" => match self.wait(flow, course).await? {
                Some(paid) => Ok(format!("paid {paid}")),
                None => Ok("not paid".to_owned()),
            },
            _ => {
                if self.is_first && course == "dies" {
                    self.dies::<()>().await;
                }
                let book = flow.once("book").retry(RetryPolicy::never()).compensate(&"release");
                let book = if course == "recognised" { book.recognised_for(DAY) } else { book };
                book.run(async |attempt| self.book(attempt, course).await).await
            }
        }
    }

    async fn compensate(&self, flow: &Flow, it: Compensation) -> Result<Compensated, Failure> {
        if self.is_first && flow.key().as_str() == "trip/refund-later" {
            return Err(Failure::transient("the bank is down".to_owned()));
        }
        if flow.key().as_str() == "trip/compensated" {
            flow.step("tell").run(async |attempt| self.call(&attempt, ())).await?;
        }
        self.calls.enter(format!("{} under {}", it.name(), it.idempotency_key()));
        Ok(Compensated::Done)
    }
}

/// Code of version 2, with a branch that version 1 did not have.
#[derive(Clone)]
pub(crate) struct Renewed(pub(crate) Trip);

impl Workflow for Renewed {
    const NAME: &'static str = "renewed";
    const VERSION: u32 = 2;
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, _: String) -> Result<String, Stop> {
        let branch = flow.version("branch", 2).await?;
        flow.once("charge").run(async |attempt| self.0.call(&attempt, ())).await?;
        flow.sleep("night", Duration::from_secs(60)).await?;
        Ok(format!("branch {branch}"))
    }
}

/// The same code before that.
pub(crate) struct Old;

impl Workflow for Old {
    const NAME: &'static str = "renewed";
    type Input = String;
    type Output = String;

    async fn run(&self, _: &Flow, _: String) -> Result<String, Stop> {
        panic!("it ran")
    }
}
