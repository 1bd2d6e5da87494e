//! The verbs with which an operator ends a token: `release`, `resolve`, `correct`, `close`, and
//! `redact`, which erases a result. Each depends on the token as it was shown.

use clap::Args;
use locker::operator::{Act, Part};
use locker::{Error, Intervened, Key, Record};
use serde_json::json;

use super::show;
use crate::act::{Acted, One};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::{self, Output, Seen};
use crate::output::{self, UNREAD};

const RELEASE: &str = "\
Without --seen, nothing is changed: the verb prints its effect and the id for --seen, and
exits with 6. Without another option, it is for a token that is overdue, in doubt or held. With
--running, --completed or --new-key, --seen accepts only the id of the dry run, not the id of
`locker show`. A refusal exits with 4 and changes nothing.

Examples:
  locker show report/2026-11      its state, its cause, and the id for --seen
  locker release report/2026-11 --seen 0f3a9c51d2 --reason 'the mail server never had it'";

const RESOLVE: &str = "\
Without --seen, nothing is changed: the verb prints its effect and the id for --seen, and
exits with 6. The result is what later callers get. `locker show` names its form; for a command of
`locker once`, it is the exit code, and optionally the output. With --running, --seen accepts only
the id of the dry run. A refusal exits with 4 and changes nothing.

Examples:
  locker show report/2026-11      its state, its form, and the id for --seen
  locker resolve report/2026-11 --seen 0f3a9c51d2 --reason 'sent by hand' \\
      --result '{\"exit\":0,\"stdout\":\"sent\\n\"}'";

const REDACT: &str = "\
Without --seen, nothing is changed: the verb prints its effect and the id for --seen, and
exits with 6. The result is erased from the token, from its separate item, and from the audit
records of earlier acts on the token. It cannot be restored. The key stays used: later callers learn
that the work has ended and its result is not kept. The key, the fingerprint and the reasons of
operators stay. --seen accepts only the id of the dry run, not the revision that `locker show` prints.

Examples:
  locker redact report/2026-11 --reason 'request 4711 to erase data'
  locker redact report/2026-11 --reason 'request 4711 to erase data' --seen 0f3a9c51d2.9a8fac0a";

/// The options of every verb on a token: its key, who acts and why, and what was seen of it.
#[derive(Debug, Args)]
struct Change {
    /// Key of the token.
    key: String,

    #[command(flatten)]
    act: options::Act,

    #[command(flatten)]
    seen: Seen,
}

impl Change {
    /// Acts on the token, or prints the effect of the act. `past`: the verb for the message after
    /// the act.
    async fn run(
        &self,
        (connection, output): (&Connection, Output),
        act: Act,
        past: &str,
    ) -> Result<Exit, Exit> {
        let operator = self.act.operator()?;
        let record = show::read(connection, &self.key).await?;
        describe(&record);
        let key = record.key().as_str().to_owned();
        let look = Hint::Show(&key).on(connection);
        let one = One { connection, output, said: &key, look, seen: &self.seen, operator: &operator };
        let part = Part::Token(Box::new(record));
        match one.act(&part, &act).await? {
            Acted::DryRun(exit) => Ok(exit),
            Acted::Ran(intervened) => done((connection, output), past, &key, intervened).await,
        }
    }
}

/// Prints the facts that the decision depends on.
fn describe(record: &Record) {
    let now = output::now();
    let since = output::relative(record.created(), now);
    let by = record.locked_by();
    let overdue = if record.is_in_doubt() {
        ", in doubt"
    } else if record.is_overdue(now) {
        ", overdue"
    } else {
        ""
    };
    let cause = record.cause().map(|cause| format!(": {cause}")).unwrap_or_default();
    let (key, state) = (record.key().as_str(), record.state().as_str());
    output::say(format_args!("{key} is {state}{overdue}, by {by}, begun {since}{cause}"));
}

#[derive(Debug, Args)]
#[command(after_help = RELEASE)]
pub(crate) struct Release {
    #[command(flatten)]
    change: Change,

    /// Release a token whose work may still be running: it may be done twice.
    #[arg(long)]
    running: bool,

    /// Release a token that has a result: its work is done again.
    #[arg(long, conflicts_with = "running")]
    completed: bool,

    /// Give the provider another key: if the work did happen, the provider no longer recognises it.
    #[arg(long, conflicts_with = "running")]
    new_key: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RESOLVE)]
pub(crate) struct Resolve {
    #[command(flatten)]
    change: Change,

    /// Result that later callers get, as JSON of the form that `locker show` names.
    #[arg(long, value_name = "JSON")]
    result: String,

    /// Resolve a token whose work may still be running: its own result is refused.
    #[arg(long)]
    running: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Correct {
    #[command(flatten)]
    change: Change,

    /// Result that later callers get from now on, as JSON of the form that `locker show` names.
    #[arg(long, value_name = "JSON")]
    result: String,
}

#[derive(Debug, Args)]
pub(crate) struct Close {
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
#[command(after_help = REDACT)]
pub(crate) struct Redact {
    #[command(flatten)]
    change: Change,
}

impl Release {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let mut act = Act::release();
        (act.running, act.completed, act.new_key) = (self.running, self.completed, self.new_key);
        self.change.run((connection, output), act, "released").await
    }
}

impl Resolve {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let mut act = Act::resolve(options::result(&self.result)?);
        act.running = self.running;
        self.change.run((connection, output), act, "resolved").await
    }
}

impl Correct {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let act = Act::correct(options::result(&self.result)?);
        self.change.run((connection, output), act, "corrected").await
    }
}

impl Close {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        self.change.run((connection, output), Act::close(), "closed").await
    }
}

impl Redact {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        self.change.run((connection, output), Act::redact(), "redacted").await
    }
}

/// Reports the act. With `--output json`, prints the token as it is now.
async fn done(
    (connection, output): (&Connection, Output),
    past: &str,
    key: &str,
    done: Intervened,
) -> Result<Exit, Exit> {
    if done == Intervened::Done && output == Output::Table {
        return Ok(Exit::say(Exit::OK, format!("{past} {key}")));
    }
    let existing = Key::existing(key).map_err(Error::from)?;
    let now = connection.locker.get(existing).await;
    if done == Intervened::Done {
        // The act is done even if the token cannot be read again. An error would claim that nothing
        // was done.
        let Ok(now) = now else {
            output::json(&json!({ "lockToken": key }));
            return Ok(Exit::say(Exit::OK, format!("{past} {key}; {UNREAD}")));
        };
        let gone = || json!({ "lockToken": key, "state": null });
        output::json(&now.map_or_else(gone, |record| show::to_json(&record, None)));
        return Ok(Exit::say(Exit::OK, format!("{past} {key}")));
    }
    let now = now?.map_or("gone", |record| record.state().as_str());
    let said = format!("{key} changed meanwhile and is now {now}; it was not {past}, look again");
    Err(Exit::say(Exit::CHANGED, said))
}
