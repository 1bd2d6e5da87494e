//! A workflow of eight steps that fails at its end, so that everything is compensated; one of its
//! steps is shared with a second workflow. Its books say which effect took place, under which key,
//! and what was undone.

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::workflow::{
    Compensated, Compensation, Flow, List, ProbeOutcome, State, StepState, Stop, Workflow, Workflows,
};
use locker::{BoxError, Failure, Intervened, Operator};
use locker_tests::DAY;

use crate::bench::{Books, Desk};

/// The effects outside, each with a compensation: `blind`, which cannot be looked up; `shared`;
/// `recognised` by its provider; and `probed`. The row is undone as well.
#[derive(Debug, Clone)]
pub(crate) struct Eight {
    pub(crate) books: Books,
    rows: String,
    client: aws_sdk_dynamodb::Client,
}

/// The second workflow: it wants the shared step as well, and does not fail.
#[derive(Debug, Clone)]
pub(crate) struct Mate(pub(crate) Eight);

impl Eight {
    pub(crate) fn new(desk: &Desk) -> Self {
        Self { books: Books::default(), rows: desk.rows.clone(), client: desk.bench.client.clone() }
    }

    /// An effect that no provider recognises.
    fn effect(&self, entry: &str) {
        self.books.enter(entry);
    }

    /// An effect at a provider that recognises its key.
    fn recognised(&self, entry: &str) {
        if self.books.count(entry) == 0 {
            self.effect(entry);
        }
    }

    fn happened(&self, entry: &str) -> bool {
        self.books.count(entry) > 0
    }

    async fn shared(&self, flow: &Flow, about: &str) -> Result<String, Stop> {
        let once = flow.once("shared").key(("eight/shared", about));
        let once = once.compensate(&"undo").run(|attempt| async move {
            self.effect(&format!("shared {}", attempt.idempotency_key()));
            Ok("shared".to_owned())
        });
        once.await
    }

    /// The entry of an effect, and that of its compensation.
    pub(crate) fn entries(step: &str, key: &str) -> (String, String) {
        (format!("{step} {key}"), format!("undo {step} {key}"))
    }

    /// What is wrong in the books: an effect twice, or not undone, or undone for nothing.
    pub(crate) fn wrong(&self, mate_has: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let entries = self.books.entries();
        let done: Vec<&String> = entries.iter().filter(|entry| !entry.starts_with("undo ")).collect();
        for entry in &done {
            let (times, undone) = (self.books.count(entry), self.books.count(&format!("undo {entry}")));
            let may_stand = mate_has && entry.starts_with("shared ");
            if times != 1 || undone > 1 || (undone == 0 && !may_stand) {
                wrong.push(format!("{entry}: {times} times, undone {undone} times"));
            }
        }
        for undone in entries.iter().filter_map(|entry| entry.strip_prefix("undo ")) {
            if !self.happened(undone) {
                wrong.push(format!("undone for nothing: {undone}"));
            }
        }
        let standing = done.iter().filter(|entry| !self.happened(&format!("undo {entry}"))).count();
        // The other workflow may have used a result that this one compensates later.
        if standing > usize::from(mate_has) {
            wrong.push(format!("{standing} effects stand"));
        }
        wrong
    }
}

impl Workflow for Eight {
    const NAME: &'static str = "eight";
    type Input = String;
    type Output = ();

    async fn run(&self, flow: &Flow, about: String) -> Result<(), Stop> {
        let blind = flow.once("blind").compensate(&"undo").run(|attempt| async move {
            self.effect(&format!("blind {}", attempt.idempotency_key()));
            Ok("blind".to_owned())
        });
        blind.await?;
        flow.step("plain").run(|_| async { Ok("plain".to_owned()) }).await?;
        self.shared(flow, &about).await?;
        let recognised = flow.once("recognised").recognised_for(DAY);
        let recognised = recognised.compensate_within(&"undo", DAY).run(|attempt| async move {
            self.recognised(&format!("recognised {}", attempt.idempotency_key()));
            Ok("recognised".to_owned())
        });
        recognised.await?;
        let id = AttributeValue::S(format!("{about}/row"));
        let row = Put::builder().table_name(&self.rows).item("id", id);
        let row = row.condition_expression("attribute_not_exists(id)").build().expect("a put");
        flow.atomic("row").put(row).compensate(&"undo").commit(&()).await?;
        let probed = flow
            .once("probed")
            .probe(|attempt| async move {
                let entry = format!("probed {}", attempt.idempotency_key());
                // Its provider does a request once, so that a late one does no harm.
                Ok(if self.happened(&entry) { ProbeOutcome::done(&"probed")? } else { ProbeOutcome::NotDone })
            })
            .compensate(&"undo");
        let probed = probed.run(|attempt| async move {
            self.recognised(&format!("probed {}", attempt.idempotency_key()));
            Ok("probed".to_owned())
        });
        probed.await?;
        flow.step("plain#2").run(|_| async { Ok(()) }).await?;
        flow.once("end")
            .recognised_for(DAY)
            .run(|_| async { Err::<(), _>(Failure::permanent("no seat".to_owned())) })
            .await
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let step = compensation.step();
        if step == "row" {
            let about = flow.key().as_str().to_owned();
            let id = AttributeValue::S(format!("{about}/row"));
            let gone = self.client.delete_item().table_name(&self.rows).key("id", id).send().await;
            gone.map_err(|_| Failure::transient("no answer".to_owned()))?;
            return Ok(Compensated::Done);
        }
        let (effect, undo) = Self::entries(step, compensation.tried_under());
        if !self.happened(&effect) {
            // It may come late, with the driver that sent it.
            return Ok(Compensated::Nothing);
        }
        match step {
            "recognised" | "probed" => self.recognised(&undo),
            _ => self.effect(&undo),
        }
        Ok(Compensated::Done)
    }

    async fn probe_compensation(&self, compensation: &Compensation) -> Result<ProbeOutcome, BoxError> {
        let (_, undo) = Self::entries(compensation.step(), compensation.tried_under());
        Ok(match compensation.step() {
            // A delete may be repeated, and so may a request that is recognised.
            "row" | "recognised" | "probed" => ProbeOutcome::NotDone,
            _ if self.happened(&undo) => ProbeOutcome::compensated(),
            // Its driver may be about to undo it.
            _ => ProbeOutcome::Unknown,
        })
    }
}

impl Workflow for Mate {
    const NAME: &'static str = "mate";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, about: String) -> Result<String, Stop> {
        self.0.shared(flow, &about).await
    }

    async fn compensate(&self, flow: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        self.0.compensate(flow, compensation).await
    }
}

/// The keys of the two workflows of one play.
pub(crate) fn keys(play: &str) -> [String; 2] {
    [format!("eight/{play}"), format!("mate/{play}")]
}

/// Start the second workflow, whatever comes of it.
pub(crate) async fn start_mate(workflows: &Workflows, eight: &Eight, play: &str) {
    let [about, key] = keys(play);
    let _ = workflows.start(&Mate(eight.clone()), &key, &about).run().await;
}

/// Completers and an operator bring both workflows to their ends: what is in doubt is settled by
/// the books.
pub(crate) async fn put_right(desk: &Desk, eight: &Eight, play: &str) -> usize {
    let (workflows, _) = desk.machine();
    let operator = Operator::new("alice", "looked it up").unwrap();
    let mut acts = 0;
    for _ in 0..20 {
        desk.settle_with(|completer| completer.register(eight.clone()).register(Mate(eight.clone()))).await;
        let mut quarantined = false;
        for key in keys(play) {
            let Some(view) = workflows.get(&key, 1).await.unwrap() else { continue };
            if view.listed() != Some(List::Quarantine) {
                continue;
            }
            (quarantined, acts) = (true, acts + 1);
            let doubt = view.steps().iter().find(|step| step.state() == StepState::Started);
            let done = match doubt.map(locker::workflow::StepView::name) {
                // Its driver woke and recorded it.
                None => workflows.retry(&view, &operator).await,
                Some(name) => {
                    let step = name.rsplit(':').next().unwrap();
                    let of = view.steps().iter().find(|known| known.name() == step).unwrap();
                    let under = provider_key(step, &keys(play)[0], of.key_version());
                    let (effect, undo) = Eight::entries(step, &under);
                    let (entry, result) = if step == name { (effect, step) } else { (undo, "done") };
                    if eight.happened(&entry) {
                        workflows.resolve_step(&view, &name, &result.into(), &operator).await
                    } else {
                        workflows.retry_step(&view, &name, &operator).await
                    }
                }
            };
            // The other one may just have settled a shared step.
            assert!(matches!(done.unwrap(), Intervened::Done | Intervened::Changed), "{key}");
        }
        if !quarantined {
            return acts;
        }
    }
    panic!("{play}: quarantined again and again: {:?}", eight.books.entries());
}

/// The key of a step at its provider.
fn provider_key(step: &str, about: &str, version: u32) -> String {
    match (step, version) {
        ("shared", 1) => format!("eight/shared/{about}"),
        ("shared", _) => format!("eight/shared/{about} ~v{version}"),
        (_, 1) => format!("{about} {step}"),
        _ => format!("{about} {step} ~v1.{version}"),
    }
}

/// What must hold of a play that is over, whatever went wrong in it.
pub(crate) async fn check(desk: &Desk, eight: &Eight, play: &str, ends: &[State]) {
    let [key, mate] = keys(play);
    let mate = desk.machine().0.get(&mate, 1).await.unwrap();
    let mate_has = mate.is_some_and(|view| view.state() == State::Completed);
    assert_eq!(eight.wrong(mate_has), Vec::<String>::new(), "{play}: {:?}", eight.books.entries());
    let view = desk.view(&key).await;
    assert!(ends.contains(&view.state()), "{play}: {:?}", view.state());
    for step in view.steps() {
        assert_ne!(step.state(), StepState::Started, "{play}: {}", step.name());
    }
    assert_eq!(desk.row(&format!("{key}/row")).await, None, "{play}");
}
