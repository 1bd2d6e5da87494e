//! The code of the workflows that are played.

use std::error::Error;
use std::task::Poll;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Put};
use locker::Failure;
use locker::workflow::{
    Compensated, Compensation, Flow, Once, ProbeOutcome, RetryPolicy, StepAttempt, Stop, Workflow,
};

use serde::{Deserialize, Serialize};

use super::super::invariant::Invariant;
use super::super::memory::TABLE;
use super::super::port::Shared;
use super::books::{Call, Said, Verb};
use super::provider::Answer;
use super::scenario::{Kind, PATIENCE, Shape, Step, WINDOW, Way, WorkflowScenario, event};
use super::world::World;

/// The row that a reservation needs.
pub(super) const STOCK: &str = "stock";
/// The row that a step puts.
pub(super) const ROW: &str = "row";

/// A workflow as one actor drives it.
#[derive(Debug, Clone)]
pub(super) struct Code {
    pub(super) shared: Shared<World>,
    pub(super) actor: usize,
    pub(super) scenario: WorkflowScenario,
}

/// A receipt, or nothing where an operator skipped the step.
type Receipt = Option<String>;

/// A step and its number in the scenario.
type Numbered = (usize, Step);

/// The input of a workflow.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) workflow: usize,
    /// The receipts of the earlier versions of the key.
    pub(super) receipts: Vec<Receipt>,
}

impl Workflow for Code {
    const NAME: &'static str = "play";
    type Input = Task;
    type Output = Vec<Receipt>;

    async fn run(&self, flow: &Flow, task: Task) -> Result<Vec<Receipt>, Stop> {
        let Task { workflow, mut receipts } = task;
        let (spec, version) = (self.scenario.0, flow.key_version());
        let all = spec.steps[workflow].iter().copied().enumerate();
        let steps: Vec<Numbered> = all.filter(|(_, step)| step.version == version).collect();
        match (spec.ways, spec.shape, &steps[..]) {
            (Some([one, other]), _, [(_, first), (_, second)]) => {
                let (first, second) = tokio::join!(
                    self.treat(flow, (workflow, 0), *first, one),
                    self.treat(flow, (workflow, 1), *second, other)
                );
                receipts.extend(first.into_iter().chain(second));
            }
            (_, Shape::SideBySide, [(_, first), (_, second)]) => {
                let (first, second) = tokio::try_join!(
                    self.step(flow, (workflow, 0), *first),
                    self.step(flow, (workflow, 1), *second)
                )?;
                receipts.extend([first, second]);
            }
            (_, Shape::Map, _) => receipts.extend(self.map(flow, workflow, steps).await?),
            _ => {
                for (number, step) in steps {
                    let receipt = self.step(flow, (workflow, number), step).await?;
                    if step.kind == Kind::Reserve && receipt.is_none() {
                        return Ok(receipts);
                    }
                    receipts.push(receipt);
                }
            }
        }
        if version < spec.versions(workflow) {
            return Err(flow.continue_as_new(&Task { workflow, receipts }));
        }
        if self.scenario.0.fails {
            return Err(Stop::fail("it fails in the end"));
        }
        Ok(receipts)
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        match self.shared.call(self.actor, call_of(&compensation, Verb::Undo)?).await {
            Answer::Said(Said::Done(_)) => Ok(Compensated::Done),
            Answer::Said(_) => Ok(Compensated::Nothing),
            Answer::Busy => Err(Failure::transient("busy".to_owned())),
            Answer::Refused => Err(Failure::permanent("refused".to_owned())),
            Answer::Unreadable => Err(Failure::needs_operator("unreadable".to_owned())),
            Answer::Silence => Err(Failure::in_doubt("no reply".to_owned())),
        }
    }

    async fn probe_compensation(
        &self,
        compensation: &Compensation,
    ) -> Result<ProbeOutcome, Box<dyn Error + Send + Sync>> {
        let call = call_of(compensation, Verb::ProbeUndo)?;
        outcome(self.shared.call(self.actor, call).await)
    }
}

/// How a step is compensated: by its place in the script.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Undo {
    Undo((usize, usize)),
}

fn call_of(compensation: &Compensation, verb: Verb) -> Result<Call, Failure> {
    let Undo::Undo(place) = compensation.undo()?;
    Ok(Call {
        verb,
        key: compensation.tried_under().to_owned(),
        under: compensation.idempotency_key().to_owned(),
        place,
        known: compensation.result::<Receipt>()?.is_some(),
        late: compensation.is_late(),
    })
}

fn outcome(answer: Answer) -> Result<ProbeOutcome, Box<dyn Error + Send + Sync>> {
    match answer {
        Answer::Said(Said::Done(receipt)) => Ok(ProbeOutcome::done(&receipt)?),
        Answer::Said(Said::Nothing) => Ok(ProbeOutcome::NotDone),
        Answer::Said(_) => Ok(ProbeOutcome::Unknown),
        _ => Err("no reply".into()),
    }
}

impl Code {
    /// Runs each step in a branch of a map.
    async fn map(&self, flow: &Flow, workflow: usize, steps: Vec<Numbered>) -> Result<Vec<Receipt>, Stop> {
        let numbers: Vec<usize> = steps.iter().map(|(number, _)| *number).collect();
        let items = steps.into_iter().map(|item| (item.0, item));
        let run = async |flow: Flow, (number, step): Numbered| {
            Ok((number, self.step(&flow, (workflow, number), step).await?))
        };
        let (of, receipts): (Vec<_>, Vec<_>) = flow.map("item", items, 2, run).await?.into_iter().unzip();
        if of != numbers {
            let seen = format!("a map of the steps {numbers:?} returned the results of {of:?}");
            self.shared.world().violated(Invariant::Stands, seen);
        }
        Ok(receipts)
    }

    async fn step(&self, flow: &Flow, place: (usize, usize), step: Step) -> Result<Receipt, Stop> {
        let receipt = match step.kind {
            Kind::Once => self.once(flow, place, step).await?,
            Kind::Put => self.put(flow, place, step).await?,
            Kind::Reserve => self.reserve(flow, step).await?,
            Kind::Tell => self.tell(flow, step).await?,
            Kind::Wait => {
                let wait = flow.wait_for(event(step.local()), PATIENCE);
                let wait = if step.undo { wait.on_late(&Undo::Undo(place)) } else { wait };
                wait.await?
            }
        };
        if step.kind == Kind::Once {
            self.shared.world().judge_receipt(step.name, receipt.as_deref());
        }
        // What another workflow ran, it may compensate; then it is run again.
        if self.scenario.0.steps[1].is_empty() {
            let mut world = self.shared.world();
            let told = world.told.step(place, format!("{receipt:?}"));
            world.judged(told);
        }
        Ok(receipt)
    }

    /// Treats a step in this way. The result is a receipt that the step may still have returned.
    async fn treat(&self, flow: &Flow, place: (usize, usize), step: Step, way: Way) -> Option<Receipt> {
        let is_called = || {
            let world = self.shared.world();
            world.books.made.iter().any(|made| made.call.verb == Verb::Do && made.call.place == place)
        };
        let failing = |failure: fn(String) -> Failure| {
            let once = flow.once(step.name).retry(RetryPolicy::never());
            let once = if step.undo { once.compensate(&Undo::Undo(place)) } else { once };
            once.run(move |_| async move { Err::<Receipt, _>(failure("no".to_owned())) })
        };
        match way {
            Way::Unreached if is_called() => None,
            Way::Dropped | Way::Unreached => {
                // Polled with the step, so that it sees the call before the outcome is recorded.
                let called = std::future::poll_fn(|_| match is_called() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                });
                tokio::select! {
                    biased;
                    () = called => None,
                    done = self.step(flow, place, step) => done.ok(),
                }
            }
            Way::Swallowed => self.step(flow, place, step).await.ok(),
            Way::Held => failing(Failure::needs_operator).await.ok(),
            Way::Failed => failing(Failure::permanent).await.ok(),
            Way::Waiting => {
                // Longer than a completer takes to come.
                let created = self.shared.world().created(place.0);
                flow.sleep_until(("pause", step.name), created + Duration::from_secs(100)).await.ok();
                None
            }
        }
    }

    async fn once(&self, flow: &Flow, place: (usize, usize), step: Step) -> Result<Receipt, Stop> {
        let mut once: Once<'_> =
            flow.once(step.local()).retry(RetryPolicy::default().max_attempts(step.tries));
        if let Some(key) = step.key {
            once = once.key(key);
        }
        if step.recognised {
            once = once.recognised_for(WINDOW);
        }
        once = match (step.undo, step.recognised) {
            (false, _) => once,
            (true, false) => once.compensate(&Undo::Undo(place)),
            (true, true) => once.compensate_within(&Undo::Undo(place), WINDOW),
        };
        if step.probe {
            once = once.probe(move |attempt| async move {
                outcome(self.shared.call(self.actor, call(&attempt, Verb::Probe, place)).await)
            });
        }
        once.run(|attempt| async move {
            if step.declined {
                return Err(Failure::permanent("declined".to_owned()));
            }
            match self.shared.call(self.actor, call(&attempt, Verb::Do, place)).await {
                Answer::Said(Said::Done(receipt)) => Ok(Some(receipt)),
                Answer::Said(_) => Err(Failure::permanent("void".to_owned())),
                Answer::Busy => Err(Failure::transient("busy".to_owned())),
                Answer::Refused => Err(Failure::permanent("refused".to_owned())),
                Answer::Unreadable => Err(Failure::needs_operator("unreadable".to_owned())),
                Answer::Silence => Err(Failure::in_doubt("no reply".to_owned())),
            }
        })
        .await
    }

    async fn put(&self, flow: &Flow, place: (usize, usize), step: Step) -> Result<Receipt, Stop> {
        let put = Put::builder().table_name(TABLE).item("lockToken", AttributeValue::S(ROW.to_owned()));
        let put = put.build().expect("a table and a key");
        flow.atomic(step.local()).put(put).compensate(&Undo::Undo(place)).commit(&Some(ROW.to_owned())).await
    }

    async fn tell(&self, flow: &Flow, step: Step) -> Result<Receipt, Stop> {
        let told = flow.atomic(step.local()).message(format!("told/{}", step.name), &step.name);
        told.commit(&Some(step.name.to_owned())).await
    }

    async fn reserve(&self, flow: &Flow, step: Step) -> Result<Receipt, Stop> {
        let check = ConditionCheck::builder()
            .table_name(TABLE)
            .key("lockToken", AttributeValue::S(STOCK.to_owned()))
            .condition_expression("attribute_exists(lockToken)");
        let check = check.build().expect("a table and a key");
        let reserved = flow.atomic(step.local()).check(check).outcome(&Some(STOCK.to_owned())).await?;
        Ok(reserved.unwrap_or_default())
    }
}

fn call(attempt: &StepAttempt, verb: Verb, place: (usize, usize)) -> Call {
    let key = attempt.idempotency_key().to_owned();
    Call { verb, under: key.clone(), key, place, known: false, late: false }
}
