//! The console of an operator on the tables of an earlier version.

use std::collections::BTreeSet;

use locker::operator::{Act, Console, Filter, Part};
use locker::workflow::{EventState, State};
use locker::{Intervened, Operator, TokenState};
use locker_tests::ada;
use serde_json::json;

use crate::folder::{Tables, folders, text};
use crate::messages::message_of;
use crate::stage::Stage;
use crate::trips::PAID;

fn console(stage: &Stage) -> Console {
    Console::new().tokens(&stage.locker()).workflows(&stage.workflows()).event(&PAID)
}

/// Each group of the status: its need, its items, and the cause.
#[rustfmt::skip]
const GROUPS: [&str; 19] = [
    "inDoubt Tokens: no reply of the bank",
    "inDoubt Tokens: no reply",
    r#"quarantined Workflows("trip"): step book is in doubt: it may or may not have happened: no reply of the airline"#,
    r#"quarantined Workflows("trip"): step book failed and needs an operator: the airline is unknown"#,
    r#"quarantined Workflows("trip"): the recorded result of step book cannot be read as the type asked for: the stored answer does not match the requested type: invalid type, expected a string at line 1 column 1; read it as the type that"#,
    r#"dead Received { consumer: "packer", topic: "placed" }: the order is unknown"#,
    r#"dead Messages("dead"): send dead about letter/dead was declined"#,
    r#"dead Messages("corrected"): send corrected about letter/corrected was declined"#,
    r#"dead Received { consumer: "packer", topic: "placed" }: its body is left to its queue, too large for the table (set a claim check, redrive or discard it): the order is unknown"#,
    "held Tokens: #…",
    "held Tokens: the card is unknown",
    "held Tokens: the table was restored and may have forgotten this work, requested at an unknown time",
    r#"late Workflows("trip"): after its time"#,
    r#"late Workflows("trip"): another event under this name"#,
    "overdue Tokens: ",
    r#"unsent Messages("redriven"): send redriven about letter/redriven was declined"#,
    r#"unsent Messages("outbox"): "#,
    r#"unsent Messages("unsent"): "#,
    r#"unsent Received { consumer: "packer", topic: "placed" }: "#,
];

#[tokio::test]
async fn status_contains_all_that_needs_an_operator() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        let status = console(&stage).status().await.unwrap();
        assert!(status.finished);
        let groups = status.groups.iter();
        let groups = groups.map(|group| format!("{} {:?}: {}", group.need, group.subject, group.cause));
        folder.contains(&groups.collect::<Vec<_>>(), &GROUPS.map(str::to_owned));
        let runs: Vec<_> = status.runs.iter().map(|run| (run.machine.as_str(), run.finished)).collect();
        let expected = ["scanner", "completer", "reaper", "relay"].map(|machine| (machine, true));
        assert_eq!(runs, expected, "{}", folder.version);
        for run in &status.runs {
            assert!(run.at.is_some() && run.by.as_deref() == Some("first/machine"), "{run:?}");
        }
        // The list contains the same items.
        let listing = console(&stage).list(&Filter::new()).await.unwrap();
        assert!(listing.finished);
        assert_eq!(listing.matches.iter().filter(|it| it.need.is_some()).count(), status.count());
    }
}

/// Each event of a timeline: its step, what happened, and the operator who did it.
#[rustfmt::skip]
const TIMELINES: [(&str, &[&str]); 2] = [
    ("operator/corrected", &["begun", "resolved by ada", "corrected by ada", "forgotten"]),
    ("trip/corrected", &["begun", "charge: begun", "charge: completed", "book: begun", "run failed", "book: resolved by ada", "run failed", "book: corrected by ada", "book: completed", "progressed", "driven next"]),
];

#[tokio::test]
async fn timeline_contains_the_events_of_a_token_and_of_a_workflow() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        for (key, expected) in TIMELINES {
            let timeline = console(&stage).timeline(key).await.unwrap();
            assert!(timeline.complete && timeline.parts.len() == 1, "{key}");
            let events = timeline.events.iter().map(|event| {
                let step = event.step.iter().map(|step| format!("{step}: "));
                let by = event.by.iter().filter(|by| *by == "ada").map(|by| format!(" by {by}"));
                step.chain([event.what.to_string()]).chain(by).collect::<String>()
            });
            assert_eq!(events.collect::<Vec<_>>(), expected, "{key} of {}", folder.version);
        }
        // The rest is shown as well.
        let keys = folder.tables.tokens.iter().map(|item| text(item, "lockToken"));
        let headers = folder.tables.workflows.iter();
        let headers = headers.filter(|item| text(item, "item") == "#");
        let headers = headers.map(|item| text(item, "workflow"));
        let known = keys.filter(|key| !key.contains(' ')).chain(headers).collect::<BTreeSet<_>>();
        for key in known {
            let timeline = console(&stage).timeline(key).await.unwrap();
            assert!(!timeline.parts.is_empty() && !timeline.events.is_empty(), "{key}");
        }
    }
}

/// The part with this key: a token, a workflow, or the message that a workflow or a consumer has.
async fn part_of(stage: &Stage, key: &str) -> Part {
    if let Some(topic) = key.strip_prefix("message ") {
        return Part::Message(Box::new(message_of(&stage.workflows(), topic).await.unwrap()));
    }
    console(stage).get(key).await.unwrap().remove(0)
}

#[tokio::test]
async fn operator_acts_on_a_record_of_each_kind() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        for (key, act) in [
            ("held/small", Act::resolve(json!(7))),
            ("held/large", Act::close()),
            ("held/restored", Act::release()),
            ("doubt/outer", Act::release().new_key()),
            ("doubt/inner", Act::resolve(json!("done"))),
            ("operator/resolved", Act::correct(json!(8))),
            ("done/large", Act::redact()),
            ("done/small", Act::release().completed()),
            ("trip/held", Act::resolve(json!("seat 1")).step("book")),
            ("trip/doubt", Act::retry().step("book").new_key()),
            ("trip/unreadable", Act::correct(json!("seat 2")).step("book")),
            ("trip/waits", Act::signal("paid", json!(5)).event_id("e-1")),
            ("trip/late-listed", Act::skip().step("event:paid")),
            ("trip/sleeps", Act::cancel()),
            ("trip/completed", Act::redact()),
            ("message dead", Act::note()),
            ("message corrected", Act::correct(json!("9"))),
            ("message archived", Act::restore()),
            ("message placed", Act::discard()),
        ] {
            let at = format!("{key} of {}", folder.version);
            let (console, part) = (console(&stage), part_of(&stage, key).await);
            let meaning = console.check(&part, &act);
            assert!(meaning.is_ok(), "{at}: {meaning:?}");
            assert_eq!(console.act(&part, &act, &ada()).await.unwrap(), Intervened::Done, "{at}");
            // Another operator saw it before.
            let (ben, before) =
                (Operator::new("ben", "the bank has no charge").unwrap(), Tables::of(&stage).await);
            let again = console.act(&part, &act, &ben).await.unwrap();
            assert!(matches!(again, Intervened::Changed | Intervened::NotPossible), "{at}: {again:?}");
            assert_eq!(Tables::of(&stage).await, before, "{at}");
        }
        let token = async |key: &str| locker_tests::record_of(&stage.locker(), key).await.state();
        assert_eq!(token("held/small").await, TokenState::Completed);
        assert_eq!(token("held/large").await, TokenState::Failed);
        assert_eq!(token("held/restored").await, TokenState::Released);
        assert_eq!(token("done/small").await, TokenState::Released);
        assert_eq!(stage.view("trip/sleeps").await.state(), State::Compensating);
        assert_eq!(stage.view("trip/waits").await.events()[0].state(), EventState::Given);
        assert_eq!(stage.view("trip/late-listed").await.events()[0].state(), EventState::Handled);
        assert!(stage.view("trip/completed").await.is_redacted());
    }
}
