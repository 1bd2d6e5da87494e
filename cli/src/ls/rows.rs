//! The rows of a listing, as tables and as JSON: one form for each kind.

use chrono::{DateTime, Utc};
use locker::operator::{IndexEntry, Listing, Match};
use locker::workflow::{Awaited, List, Summary};
use locker::{TokenSummary, Work};
use serde_json::{Value, json};

use crate::options::select::Kind;
use crate::output::{self, Text};

/// The longest cause and note of a message, in characters.
const LONGEST: (usize, usize) = (90, 40);

/// Returns a table for each kind that has rows, and a table for records that were found only by
/// their whole key.
pub(super) fn tables(matches: &[Match], exact: &[Work]) -> Vec<Text> {
    let (mut tokens, mut workflows, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    let mut late = Vec::new();
    for it in matches {
        match &it.entry {
            _ if it.event.is_some() => late.push(of_late_event(it)),
            Some(IndexEntry::Token(token)) => tokens.push(of_token(it, token)),
            Some(IndexEntry::Workflow(list, workflow)) => workflows.push(of_workflow(it, *list, workflow)),
            _ => messages.push(of_message(it)),
        }
    }
    let of_tokens = ["TOKEN", "STATE", "LOCKED BY", "SINCE", "DUE", "ID", "NEED", "GROUP", "CAUSE"];
    let of_workflows = [
        "WORKFLOW",
        "NAME",
        "STATE",
        "LISTED",
        "ATTEMPTS",
        "LOCKED BY",
        "SINCE",
        "DUE",
        "NEED",
        "GROUP",
        "WAITS FOR",
        "REASON",
    ];
    let of_late = ["LATE EVENT", "WORKFLOW", "NAME", "CAME", "NEED", "GROUP", "CAUSE"];
    let of_messages = ["MESSAGE", "STATE", "OF", "IN", "SINCE", "NEED", "GROUP", "NOTE", "CAUSE"];
    let exact: Vec<_> = exact.iter().map(|work| [work.to_text()]).collect();
    let mut tables = Vec::new();
    tables.extend((!exact.is_empty()).then(|| output::table(Some(["FOUND BY ITS KEY"]), exact)));
    tables.extend((!tokens.is_empty()).then(|| output::table(Some(of_tokens), tokens)));
    tables.extend((!workflows.is_empty()).then(|| output::table(Some(of_workflows), workflows)));
    tables.extend((!late.is_empty()).then(|| output::table(Some(of_late), late)));
    tables.extend((!messages.is_empty()).then(|| output::table(Some(of_messages), messages)));
    tables
}

fn when(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(|| "?".to_owned(), |at| output::relative(at, output::now()))
}

fn or(text: Option<&str>, none: &str) -> String {
    text.unwrap_or(none).to_owned()
}

fn need(it: &Match) -> String {
    or(it.need.map(|need| need.as_str()), "-")
}

fn of_token(it: &Match, token: &TokenSummary) -> [String; 9] {
    [
        token.token.clone(),
        token.state.as_str().to_owned(),
        or(token.locked_by.as_deref(), "?"),
        when(token.created),
        when(token.expected_completion),
        or(token.revision.as_deref(), "?"),
        need(it),
        it.group.clone(),
        or(token.cause.as_deref(), ""),
    ]
}

fn of_workflow(it: &Match, list: List, workflow: &Summary) -> [String; 12] {
    [
        workflow.workflow.clone(),
        or(workflow.name.as_deref(), "?"),
        or(workflow.state.map(|state| state.as_str()), "?"),
        list.as_str().to_owned(),
        workflow.attempts.unwrap_or_default().to_string(),
        or(workflow.locked_by.as_deref(), "-"),
        when(workflow.created),
        when(workflow.due),
        need(it),
        it.group.clone(),
        workflow.waits_for.as_ref().map_or_else(|| "-".to_owned(), |on| waits(on, workflow.other_waits)),
        or(workflow.reason.as_deref(), ""),
    ]
}

/// `event:paid since 2h, until in 3d (+2)`.
pub(crate) fn waits(on: &Awaited, others: u32) -> String {
    let now = output::now();
    let (since, until) = (output::relative(on.since, now), output::relative(on.until, now));
    let others = if others == 0 { String::new() } else { format!(" (+{others})") };
    format!("{on} since {since}, until {until}{others}")
}

fn of_late_event(it: &Match) -> [String; 7] {
    [
        or(it.event.as_deref(), "?"),
        it.work.key().to_owned(),
        or(it.name.as_deref(), "?"),
        when(it.since),
        need(it),
        it.group.clone(),
        or(it.cause.as_deref(), ""),
    ]
}

fn of_message(it: &Match) -> [String; 9] {
    let topic = or(it.topic.as_deref(), "");
    [
        it.work.short_id(),
        or(it.state.map(|state| state.as_str()), "?"),
        it.name.as_ref().map_or_else(|| topic.clone(), |consumer| format!("{topic} at {consumer}")),
        place(it),
        when(it.since),
        need(it),
        it.group.clone(),
        short(it.note.as_deref(), LONGEST.1),
        short(it.cause.as_deref(), LONGEST.0),
    ]
}

/// The workflow that committed a message, or the subject of its outbox. A received message is
/// stored under a digest, which means nothing to a reader.
pub(crate) fn place(it: &Match) -> String {
    match (&it.name, it.work.key().strip_prefix("locker outbox ")) {
        (Some(_), _) => "-".to_owned(),
        (None, Some(subject)) => subject.to_owned(),
        (None, None) => it.work.key().to_owned(),
    }
}

/// The beginning of a long text.
fn short(text: Option<&str>, most: usize) -> String {
    let text = text.unwrap_or("-");
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// One object: an array for each kind that was asked for.
pub(super) fn to_json(found: &Listing, exact: &[Work], kinds: &[Kind], with_workflows: bool) -> Value {
    let mut shown = json!({
        "complete": found.finished,
        "rowsRead": found.rows_read,
        "workflowsRead": with_workflows,
        "exact": exact,
    });
    for kind in kinds {
        let rows = found.matches.iter().filter(|it| kind_of(&it.work) == *kind);
        shown[kind.as_str()] = rows.map(row_to_json).collect();
    }
    shown
}

pub(super) fn kind_of(work: &Work) -> Kind {
    match work {
        Work::Token(_) => Kind::Tokens,
        Work::Workflow(_) => Kind::Workflows,
        _ => Kind::Messages,
    }
}

/// Returns the row in the form of the library, with the attributes that the index stores for its
/// kind.
fn row_to_json(it: &Match) -> Value {
    let time = |at: Option<DateTime<Utc>>| json!(at.map(output::time));
    let mut row = json!(it);
    let own = match &it.entry {
        Some(IndexEntry::Token(token)) => json!({
            "lockToken": token.token,
            "state": token.state.as_str(),
            "revision": token.revision,
            "lockedBy": token.locked_by,
            "created": time(token.created),
            "expectedCompletion": time(token.expected_completion),
        }),
        Some(IndexEntry::Workflow(list, workflow)) => json!({
            "workflow": workflow.workflow,
            "name": workflow.name,
            "state": workflow.state.map(|state| state.as_str()),
            "listed": list.as_str(),
            "attempts": workflow.attempts,
            "lockedBy": workflow.locked_by,
            "created": time(workflow.created),
            "since": time(workflow.since),
            "due": time(workflow.due),
            "reason": workflow.reason,
            "waitsFor": workflow.waits_for,
            "otherWaits": workflow.other_waits,
        }),
        _ if it.event.is_some() => json!({ "workflow": it.work.key() }),
        _ => json!({ "id": it.work.short_id() }),
    };
    if let (Value::Object(row), Value::Object(own)) = (&mut row, own) {
        row.extend(own);
    }
    row
}
