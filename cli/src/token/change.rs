//! The verbs with which an operator ends a token: `release`, `resolve`, `correct`, `close`. Each
//! depends on the token as it was shown.

use clap::Args;
use locker::{Error, Form, Intervened, Key, Record, TokenState};
use serde_json::json;

use super::seen::{self, Target};
use super::show;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{self, Act, Output, Seen};
use crate::output::{self, UNREAD};

const RELEASE: &str = "\
Without a flag, it acts on a token that is overdue, in doubt or held. Work that may still be running
is not overdue, or its command is running on this machine. A refusal exits with 4 and changes nothing.

Examples:
  locker show report/2026-11      its state, its cause, and the revision for --seen
  locker release report/2026-11 --seen 0f3a9c51d2 --reason 'the mail server never had it'";

const RESOLVE: &str = "\
The result is what later callers get. Its form is that of `locker show`; of what `locker once` ran,
it is the exit code, and optionally the output. A refusal exits with 4 and changes nothing.

Examples:
  locker show report/2026-11      its state, its form, and the revision for --seen
  locker resolve report/2026-11 --seen 0f3a9c51d2 --reason 'sent by hand' \\
      --result '{\"exit\":0,\"stdout\":\"sent\\n\"}'";

/// What every verb on a token takes: which, who acts and why, and what was seen of it.
#[derive(Debug, Args)]
struct Change {
    /// Key of the token.
    key: String,

    #[command(flatten)]
    act: Act,

    #[command(flatten)]
    seen: Seen,
}

impl Change {
    async fn read(&self, connection: &Connection) -> Result<Record, Exit> {
        show::read(connection, &self.key).await
    }
}

#[derive(Debug, Args)]
#[command(after_help = RELEASE)]
pub(crate) struct Release {
    #[command(flatten)]
    change: Change,

    /// Release a token whose work may still be running: it may be done twice. Takes --seen.
    #[arg(long)]
    running: bool,

    /// Release a token that has an answer: its work is done again. Takes --seen.
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

    /// Resolve a token whose work may still be running: what it comes to is refused. Takes --seen.
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

impl Release {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let operator = self.change.act.operator()?;
        let record = self.change.read(connection).await?;
        let target = Target::of(&connection.locker, &record, self.running, self.completed);
        seen::check(&self.change.seen, &record, target, "release")?;
        let locker = &connection.locker;
        let released = match target {
            _ if self.new_key => locker.release_with_new_key(&record, &operator).await?,
            Target::Running => locker.release_running(&record, &operator).await?,
            Target::Completed => locker.release_completed(&record, &operator).await?,
            _ => locker.release(&record, &operator).await?,
        };
        done((connection, output), "released", &record, released).await
    }
}

impl Resolve {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let operator = self.change.act.operator()?;
        let result = options::result(&self.result)?;
        let record = self.change.read(connection).await?;
        // A release that was wrong is taken back, unless the work has begun since.
        let is_released = record.state() == TokenState::Released;
        let target = if is_released {
            Target::Answered
        } else {
            Target::of(&connection.locker, &record, self.running, false)
        };
        seen::check(&self.change.seen, &record, target, "resolve")?;
        let locker = &connection.locker;
        let resolved = match target {
            Target::Running => locker.resolve_running(&record, &result, &operator).await?,
            _ => locker.resolve(&record, &result, &operator).await?,
        };
        say_form(&record, resolved);
        done((connection, output), "resolved", &record, resolved).await
    }
}

impl Correct {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let operator = self.change.act.operator()?;
        let result = options::result(&self.result)?;
        let record = self.change.read(connection).await?;
        if !record.is_answered_by_operator() {
            let key = record.key().as_str();
            let said = format!(
                "{key} has no answer of an operator, so there is nothing to correct: an answer of the work never changes"
            );
            return Err(Exit::say(Exit::CHANGED, said));
        }
        seen::check(&self.change.seen, &record, Target::Answered, "correct")?;
        let corrected = connection.locker.correct(&record, &result, &operator).await?;
        say_form(&record, corrected);
        done((connection, output), "corrected", &record, corrected).await
    }
}

impl Close {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let operator = self.change.act.operator()?;
        let record = self.change.read(connection).await?;
        seen::check(&self.change.seen, &record, Target::held(&record), "close")?;
        let closed = connection.locker.close(&record, &operator).await?;
        done((connection, output), "closed", &record, closed).await
    }
}

/// Says what could not be checked of the answer.
fn say_form(record: &Record, done: Intervened) {
    if done != Intervened::Done {
        return;
    }
    match record.form().map(Form::as_str) {
        None => output::say("the token has no form; check that its callers can read the result"),
        Some(form) if form != Form::HTTP.as_str() && form != Form::ONCE.as_str() => {
            let form = output::plain(form);
            output::say(format_args!(
                "callers read the result as {form}; if they cannot, `locker correct` it"
            ));
        }
        Some(_) => {}
    }
}

/// Says what was done; for programs, prints the token as it is now.
async fn done(
    (connection, output): (&Connection, Output),
    verb: &str,
    seen: &Record,
    done: Intervened,
) -> Result<Exit, Exit> {
    let key = seen.key().as_str();
    if done != Intervened::Done && done != Intervened::Changed {
        let said = format!("{key} is {}; it was not {verb}", seen.state().as_str());
        return Err(Exit::say(Exit::CHANGED, said));
    }
    if done == Intervened::Done && output == Output::Table {
        return Ok(Exit::say(Exit::OK, format!("{verb} {key}")));
    }
    let existing = Key::existing(key).map_err(Error::from)?;
    let now = connection.locker.get(existing).await;
    if done == Intervened::Done {
        // It is done, whatever comes of a look at it: an error would say that nothing was.
        let Ok(now) = now else {
            output::json(&json!({ "lockToken": key }));
            return Ok(Exit::say(Exit::OK, format!("{verb} {key}; {UNREAD}")));
        };
        let gone = || json!({ "lockToken": key, "state": null });
        output::json(&now.map_or_else(gone, |record| show::to_json(&record, None)));
        return Ok(Exit::say(Exit::OK, format!("{verb} {key}")));
    }
    let now = now?.map_or("gone", |record| record.state().as_str());
    let said = format!("{key} changed meanwhile and is now {now}; it was not {verb}, look again");
    Err(Exit::say(Exit::CHANGED, said))
}
