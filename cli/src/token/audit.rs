//! `locker audit`: what operators did.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use locker::operator::{AuditTrail, Console};
use locker::{AuditRecord, Resolution, Work};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{Output, duration};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Select acts on the token or the workflow with this key, or on the message with this id, and
    /// print their results.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    key: Option<String>,

    /// Select acts of the last DURATION.
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = duration)]
    since: Duration,

    /// Select operators whose name contains this text.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    by: Option<String>,

    /// Read at most N acts of each table.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
}

/// An act with its results.
struct Shown {
    act: AuditRecord,
    /// The result that the operator gave or found; for a corrected message, its new body.
    given: Option<Value>,
    /// The earlier body of a corrected message.
    replaced: Option<Value>,
}

/// The result of reading the audit.
struct Acts {
    /// The acts that were read, selected or not.
    read: usize,
    acts: Vec<Shown>,
    finished: bool,
    stopped_by: Option<locker::Error>,
}

impl Audit {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let with_workflows = connection.has_workflows().await?;
        let mut found = self.read(connection, with_workflows).await?;
        match output {
            Output::Json => print_json(&found, with_workflows),
            Output::Table => print_table(&found.acts, self.key.is_some()),
        }
        if let Some(error) = found.stopped_by.take() {
            return Err(Exit::from(error));
        }
        if !found.finished {
            return Ok(Exit::say(Exit::PROBLEMS, found.cut()));
        }
        if !found.acts.is_empty() || output == Output::Json {
            return Ok(Exit::quiet(Exit::OK));
        }
        let of =
            if with_workflows { "tokens, workflows and messages" } else { connection.without_workflows() };
        Ok(Exit::say(Exit::OK, format!("no such act in the last {} ({of})", output::rough(self.since))))
    }

    async fn read(&self, connection: &Connection, with_workflows: bool) -> Result<Acts, Exit> {
        let since = output::now() - self.since;
        let mut console = Console::new().tokens(&connection.locker).limit(self.limit);
        if with_workflows {
            console = console.workflows(&connection.workflows()?);
        }
        let AuditTrail { acts, finished, stopped_by, .. } = console.audit(since).await?;
        let read = acts.len();
        let acts = acts.into_iter().filter(|act| self.is_asked_for(act)).map(Shown::of).collect();
        let mut found = Acts { read, acts, finished, stopped_by };
        if self.key.is_some() {
            for Shown { act, given, replaced } in &mut found.acts {
                if act.is_of_workflow {
                    let workflows = connection.workflows()?;
                    *given = workflows.given(act).await?.map(value);
                    *replaced = workflows.replaced(act).await?.map(value);
                } else {
                    *given = connection.locker.given(act).await?.map(value);
                }
            }
        }
        Ok(found)
    }

    fn is_asked_for(&self, act: &AuditRecord) -> bool {
        // All versions of a workflow's key: no key has a space.
        let of_key = |key: &String| {
            act.key == *key || act.key.split(' ').next() == Some(key) || is_of_message(act, key)
        };
        let by_name = |name: &String| act.by.as_ref().is_some_and(|by| by.contains(name.as_str()));
        self.key.as_ref().is_none_or(of_key) && self.by.as_ref().is_none_or(by_name)
    }
}

impl Acts {
    /// The message for an audit that was not read to its end. The limit counts all acts, and the
    /// selection applies to those that were read.
    fn cut(&self) -> String {
        let selected = match self.acts.len() {
            1 => "1 act was selected".to_owned(),
            count => format!("{count} acts were selected"),
        };
        let read = self.read;
        format!(
            "{selected} of the {read} read, oldest first; there are more: raise --limit or shorten --since"
        )
    }
}

impl Shown {
    const fn of(act: AuditRecord) -> Self {
        Self { act, given: None, replaced: None }
    }
}

fn value(json: String) -> Value {
    serde_json::from_str(&json).unwrap_or(Value::String(json))
}

fn is_of_message(act: &AuditRecord, id: &str) -> bool {
    let work = act.work();
    matches!(work, Work::Message { .. }) && work.short_id() == id
}

fn print_table(acts: &[Shown], with_results: bool) {
    if acts.is_empty() {
        return;
    }
    let text = |text: &Option<String>| text.as_deref().unwrap_or("?").to_owned();
    let rows = acts.iter().map(|Shown { act, .. }| {
        [
            act.at.map_or_else(|| "?".to_owned(), output::time),
            text(&act.by),
            act.resolution.map_or("?", |done| done.as_str()).to_owned(),
            subject(act),
            text(&act.reason),
        ]
    });
    output::print(output::table(Some(["AT", "OPERATOR", "DID", "TO", "REASON"]), rows));
    for Shown { act, given, replaced } in acts.iter().filter(|_| with_results) {
        if let (Some(at), Some(replaced)) = (act.at, replaced) {
            let replaced = output::shortened(&replaced.to_string(), 500);
            output::print("");
            output::print(format_args!("{}  replaced this body: {replaced}", output::time(at)));
        }
        if let (Some(at), Some(given)) = (act.at, given) {
            let given = output::shortened(&given.to_string(), 500);
            let what = match act.resolution {
                Some(Resolution::Signalled) => "gave this event",
                Some(Resolution::Resolved | Resolution::Corrected | Resolution::Skipped) => {
                    "gave this result"
                }
                _ => "found this result",
            };
            output::print("");
            output::print(format_args!("{}  {what}: {}", output::time(at), given));
        }
    }
}

/// The record, and the step, of an act.
pub(crate) fn subject(act: &AuditRecord) -> String {
    let kind = if act.is_of_workflow { "workflow" } else { "token" };
    format!("{kind} {}{}", act.key, output::part(act.step.as_deref()))
}

fn print_json(found: &Acts, with_workflows: bool) {
    let acts: Vec<_> = found
        .acts
        .iter()
        .map(|Shown { act, given, replaced }| {
            json!({
                "of": if act.is_of_workflow { "workflow" } else { "token" },
                "key": act.key,
                "name": act.name,
                "step": act.step,
                "at": act.at.map(output::time),
                "resolution": act.resolution.map(|done| done.as_str()),
                "resolvedBy": act.by,
                "resolvedReason": act.reason,
                "lockedBy": act.locked_by,
                "attempt": act.attempt,
                "cause": act.cause,
                "result": given,
                "replaced": replaced,
            })
        })
        .collect();
    output::json(&json!({ "acts": acts, "complete": found.finished, "workflowsRead": with_workflows }));
}
