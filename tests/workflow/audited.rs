//! Each act of an operator on a workflow or a step leaves one audit record, which outlives the
//! workflow.

use locker::workflow::{Flow, Reaper, RetryPolicy, Stop, Workflow, Workflows};
use locker::{AuditRecord, Error, Failure, Intervened, Resolution, Work};
use locker_tests::{Fate, ada, held_by};
use serde_json::json;

use crate::bench::{Desk, LATER};

/// Its charge is in doubt.
#[derive(Clone)]
struct Doubtful;

impl Workflow for Doubtful {
    const NAME: &'static str = "doubtful";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let lost = |_| async { Err::<(), _>(Failure::in_doubt("no reply".to_owned())) };
        flow.once("charge").retry(RetryPolicy::never()).run(lost).await
    }
}

async fn listed(desk: &Desk, workflows: &Workflows) -> Vec<AuditRecord> {
    let page = workflows.audit(desk.now() - LATER * 24 * 30).fetch().await.unwrap();
    assert!(page.is_complete());
    page.items
}

#[tokio::test]
async fn every_verb_is_in_the_audit_with_what_was_seen_and_given() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let verbs = ["retry", "retry step", "new key", "resolve", "skip", "compensate", "close", "block"];
    for (number, verb) in verbs.into_iter().enumerate() {
        let key = format!("doubtful/{number}");
        workflows.start(&Doubtful, key.as_str(), &()).run().await.unwrap();
        let seen = desk.view(&key).await;
        let operator = ada();
        let done = match verb {
            "retry" => workflows.retry(&seen, &operator).await,
            "retry step" => workflows.retry_step(&seen, "charge", &operator).await,
            "new key" => workflows.retry_step_with_new_key(&seen, "charge", &operator).await,
            "resolve" => workflows.resolve_step(&seen, "charge", &json!("ch_7"), &operator).await,
            "skip" => workflows.skip_step(&seen, "charge", &operator).await,
            "compensate" => workflows.compensate(&seen, &operator).await,
            "close" => workflows.close(&seen, &operator).await,
            _ => workflows.cancel_step(&seen, "later", &operator).await,
        };
        assert_eq!(done.unwrap(), Intervened::Done, "{verb}");
        // On what was seen before, nothing is written and nothing is in the audit.
        assert_eq!(workflows.compensate(&seen, &operator).await.unwrap(), Intervened::Changed, "{verb}");
        desk.bench.clock.advance(LATER / 60);
    }
    assert_eq!(workflows.cancel("never/started", 1, &ada()).await.unwrap(), Intervened::Done);

    let acts = listed(&desk, &workflows).await;
    let shown: Vec<_> =
        acts.iter().map(|act| (act.key.as_str(), act.resolution.unwrap(), act.step.as_deref())).collect();
    use Resolution::{Cancelled, Closed, Compensated, Resolved, Retried, RetriedWithNewKey, Skipped};
    assert_eq!(
        shown,
        [
            ("doubtful/0", Retried, None),
            ("doubtful/1", Retried, Some("charge")),
            ("doubtful/2", RetriedWithNewKey, Some("charge")),
            ("doubtful/3", Resolved, Some("charge")),
            ("doubtful/4", Skipped, Some("charge")),
            ("doubtful/5", Compensated, None),
            ("doubtful/6", Closed, None),
            ("doubtful/7", Cancelled, Some("later")),
            ("never/started", Cancelled, None),
        ]
    );
    let resolved = &acts[3];
    assert!(resolved.is_of_workflow && resolved.at.is_some());
    assert!(workflows.acts("doubtful/3").await.unwrap()[0].attempt.is_some());
    assert_eq!(
        (resolved.by.as_deref(), resolved.reason.as_deref(), resolved.name.as_deref()),
        (Some("ada"), Some("the provider's books say so"), Some("doubtful"))
    );
    assert!(resolved.cause.as_deref().unwrap().contains("no reply"), "{:?}", resolved.cause);
    assert_eq!(workflows.given(resolved).await.unwrap().as_deref(), Some("\"ch_7\""));
    assert_eq!(workflows.given(&acts[0]).await.unwrap(), None);
    assert_eq!(acts[8].name, None);
    // A page begins where the last one ended, by the records of the audit as well.
    let mut page = workflows.audit(desk.now() - LATER * 24).limit(4).fetch().await.unwrap();
    let mut keys = Vec::new();
    loop {
        keys.extend(page.items.iter().map(|act| act.key.clone()));
        let Some(next) = page.next else { break };
        page = workflows.audit(desk.now() - LATER * 24).limit(4).from(next).fetch().await.unwrap();
    }
    assert_eq!(keys, acts.iter().map(|act| act.key.clone()).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_act_whose_reply_was_lost_is_in_the_audit_once() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    workflows.start(&Doubtful, "doubtful/1", &()).run().await.unwrap();
    let seen = desk.view("doubtful/1").await;
    wire.next(vec![Fate::ReplyLost]);
    let done = workflows.resolve_step(&seen, "charge", &json!("ch_7"), &ada()).await.unwrap();
    assert_eq!(done, Intervened::Done);
    assert_eq!(workflows.acts("doubtful/1").await.unwrap().len(), 1);

    wire.next(vec![Fate::Lost]);
    let seen = desk.view("doubtful/1").await;
    assert_eq!(workflows.retry(&seen, &ada()).await.unwrap(), Intervened::Done);
    let acts = workflows.acts("doubtful/1").await.unwrap();
    assert_eq!(acts.iter().map(|act| act.resolution).collect::<Vec<_>>().len(), 2);
}

#[tokio::test]
async fn the_audit_outlives_the_workflow() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Doubtful, "doubtful/1", &()).run().await.unwrap();
    let seen = desk.view("doubtful/1").await;
    assert_eq!(workflows.skip_step(&seen, "charge", &ada()).await.unwrap(), Intervened::Done);
    desk.settle(&Doubtful).await;
    desk.bench.clock.advance(LATER * 24 * 60);
    let completer = locker::workflow::Completer::new(&workflows).register(Doubtful);
    assert_eq!(Reaper::new(&completer).run().await.unwrap().deleted, 1);

    assert!(workflows.get("doubtful/1", 1).await.unwrap().is_none());
    let acts = workflows.acts("doubtful/1").await.unwrap();
    assert_eq!(acts.iter().map(|act| act.resolution).collect::<Vec<_>>(), [Some(Resolution::Skipped)]);
    // It begins anew, and reads nothing of what went before.
    workflows.start(&Doubtful, "doubtful/1", &()).run().await.unwrap();
    assert_eq!(desk.view("doubtful/1").await.steps().len(), 1);
}

/// Begins a token and starts a workflow in a step.
#[derive(Clone)]
struct Parent {
    locker: locker::Locker,
    workflows: Workflows,
}

impl Workflow for Parent {
    const NAME: &'static str = "parent";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let begun = |_| async {
            held_by(self.locker.token("child")).await.leave_in_doubt("no reply").await;
            let started = self.workflows.start(&Doubtful, "child", &()).run().await;
            started.map(|_| ()).map_err(|error: Error| Failure::transient(error.to_string()))
        };
        flow.step("begin").run(begun).await
    }
}

#[tokio::test]
async fn record_names_the_workflow_or_token_that_began_it() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    let (locker, _) = desk.bench.machine();
    let parent = Parent { locker: locker.clone(), workflows: workflows.clone() };
    let start = async |_| {
        workflows.start(&parent, "parent", &()).run().await.unwrap();
        Ok::<_, Failure>(())
    };
    locker.token("request").run(start).await.unwrap();

    let within = |key: &str| Some(Work::Workflow(key.to_owned()));
    assert_eq!(desk.view("parent").await.within(), Some(&Work::Token("request".to_owned())));
    assert_eq!(desk.view("child").await.within().cloned(), within("parent"));
    let token = locker.overdue().fetch().await.unwrap().items;
    assert_eq!(token.iter().map(|token| token.within.clone()).collect::<Vec<_>>(), [within("parent")]);
    let listed = workflows.list(locker::workflow::List::Quarantine).fetch().await.unwrap().items;
    assert_eq!(listed[0].within, within("parent"));
    assert_eq!(locker.get("request").await.unwrap().unwrap().within(), None);
}
