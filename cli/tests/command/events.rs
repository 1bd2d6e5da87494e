//! Events from outside: what a workflow waits for, the signal of an operator, and late events.

use std::path::{Path, PathBuf};
use std::time::Duration;

use locker::workflow::{Event, Flow, Signalled, Stop, Workflow, Workflows};
use locker_tests::command::{Place, Ran};
use serde_json::json;

use crate::place;

const APPROVED: Event<bool> = Event::named("approved");

/// The same workflow as in the example, for starting it.
struct Approve;

impl Workflow for Approve {
    const NAME: &'static str = "approve";
    type Input = ();
    type Output = Option<bool>;

    async fn run(&self, flow: &Flow, (): ()) -> Result<Option<bool>, Stop> {
        flow.wait_for(APPROVED, Duration::from_secs(30 * 24 * 60 * 60)).await
    }
}

/// A workflow that waits for its approval.
pub(crate) fn waiting() -> Place {
    let place = place();
    assert_eq!(place.run(&["workflow", "table", "create"]).code, 0);
    block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        let outcome = workflows.start(&Approve, "order/7", &()).run().await;
        let _waits = outcome.expect("an outcome");
    });
    place
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(work)
}

pub(crate) fn sent(place: &Place, id: &str, value: bool) -> Signalled {
    block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        workflows.signal("order/7", APPROVED, &value).id(id).await.expect("an answer")
    })
}

/// `cargo test` builds the examples beside the command, unless it was given one test target.
fn example() -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_locker")).parent().expect("a directory");
    let example = directory.join("examples/own_workflows");
    assert!(example.exists(), "build it first: cargo build -p locker-cli --example own_workflows");
    example
}

const SIGNAL: [&str; 6] =
    ["workflow", "signal", "order/7", "--event=approved", "--reason=by the board", "--id=e-1"];

fn signal(place: &Place, value: &str, more: &[&str]) -> Ran {
    place.run(&[&SIGNAL[..], &["--value", value], more].concat())
}

#[test]
fn workflow_that_waits_is_shown_with_its_event() {
    let place = waiting();
    let listed = place.run(&["ls", "workflows"]);
    assert!(listed.text().contains("WAITS FOR"), "{}", listed.text());
    for part in ["event:approved since ", "s ago, until in 29d 23h"] {
        assert!(listed.text().contains(part), "{part} is not in {}", listed.text());
    }
    let json = place.run(&["ls", "workflows", "--output", "json"]).json();
    assert_eq!(json["workflows"][0]["waitsFor"]["name"], "event:approved");
    let status = place.run(&["status"]);
    assert_eq!(status.code, 0, "{}", status.said);
    assert!(status.text().starts_with("waiting: 1 for an event or a timer\n"), "{}", status.text());
    let shown = place.run(&["workflow", "show", "order/7"]);
    for part in ["waits for", "event:approved", "waiting", "workflow signal order/7 --event approved --seen"]
    {
        assert!(shown.text().contains(part), "{part} is not in {}", shown.text());
    }
}

#[test]
fn signal_shows_its_effect_and_acts_on_what_was_shown() {
    let place = waiting();
    let shown = signal(&place, "true", &[]);
    assert_eq!(shown.code, 6, "{}", shown.said);
    assert_eq!(
        shown.text(),
        "would signal event:approved to order/7: the code waits for the event: a completer resumes the workflow with it\n  \
         unknown: the type of event:approved is not registered here, so the value is not checked\n"
    );
    let id = shown.said.rsplit_once("--seen ").expect("an id").1.trim().to_owned();
    // The id is for this event, this value and this reason.
    assert_eq!(signal(&place, "false", &["--seen", &id]).code, 4);
    let done = signal(&place, "true", &["--seen", &id, "--as", "ada"]);
    assert_eq!(done.code, 4, "another operator did not see it: {}", done.said);
    let done = signal(&place, "true", &["--seen", &id]);
    assert_eq!(done.code, 0, "{}", done.said);
    assert!(done.said.ends_with("gave event:approved to order/7\n"), "{}", done.said);
    let audit = place.run(&["audit", "order/7"]);
    for part in ["signalled", "event:approved", "by the board", "gave this event: true"] {
        assert!(audit.text().contains(part), "{part} is not in {}", audit.text());
    }
    let again = signal(&place, "true", &[]);
    assert_eq!(again.code, 4);
    assert!(again.said.contains("it has this event already, which is given"), "{}", again.said);
    assert_eq!(sent(&place, "e-1", true), Signalled::Duplicate);
    let completed = place.run_by(example(), &["complete"]);
    assert_eq!(completed.code, 0, "{}", completed.said);
    let shown = place.run(&["workflow", "show", "order/7", "--content", "--output", "json"]).json();
    assert_eq!((&shown["state"], &shown["result"]), (&json!("completed"), &json!(true)));
    let event = &shown["events"][0];
    assert_eq!(
        (&event["state"], &event["value"], &event["id"]),
        (&json!("taken"), &json!(true), &json!("e-1"))
    );
}

#[test]
fn command_with_the_type_of_the_event_refuses_another_value() {
    let place = waiting();
    let own = |value: &str| place.run_by(example(), &[&SIGNAL[..], &["--value", value]].concat());
    let wrong = own("\"yes\"");
    assert_eq!((wrong.code, wrong.text()), (2, ""), "{}", wrong.said);
    assert!(wrong.said.contains("the value is not of the type of event:approved"), "{}", wrong.said);
    let right = own("true");
    assert_eq!(right.code, 6);
    assert!(!right.text().contains("unknown:"), "{}", right.text());
    let absent =
        place.run(&["workflow", "signal", "order/8", "--event=approved", "--reason=r", "--value=true"]);
    assert_eq!(absent.code, 3, "nothing is stored for a workflow that has not started: {}", absent.said);
    let bad = signal(&place, "yes", &[]);
    assert_eq!(bad.code, 2);
    assert!(bad.said.contains("--value is not JSON"), "{}", bad.said);
}

#[test]
fn late_event_is_listed_until_it_is_skipped() {
    let place = waiting();
    assert_eq!(sent(&place, "e-1", true), Signalled::Accepted);
    assert_eq!(sent(&place, "e-2", false), Signalled::AlreadyGiven);
    let status = place.run(&["status"]);
    assert_eq!(status.code, 5, "{}", status.said);
    assert!(status.text().contains("another event under this name"), "{}", status.text());
    let listed = place.run(&["ls", "workflows", "--need", "late"]);
    assert!(
        listed.text().starts_with("LATE EVENT") && !listed.text().contains("WAITS FOR"),
        "{}",
        listed.text()
    );
    let json = place.run(&["ls", "--need", "late", "--output", "json"]).json();
    let event = json["workflows"][0]["event"].as_str().expect("an event").to_owned();
    assert!(event.starts_with("event:approved "), "{json}");
    let shown = place.run(&["workflow", "show", "order/7"]);
    for part in [event.as_str(), "late", "another event under this name", "e-2"] {
        assert!(shown.text().contains(part), "{part} is not in {}", shown.text());
    }
    let skip = ["workflow", "skip", "order/7", "--step", &event, "--reason", "mistyped"];
    let skipped = place.act(&skip);
    assert_eq!(skipped.code, 0, "{}", skipped.said);
    assert!(skipped.said.ends_with(&format!("skipped {event} of order/7\n")), "{}", skipped.said);
    assert_eq!(place.run(&["status"]).code, 0);
    assert_eq!(place.run(&skip).code, 4, "it is handled");
}
