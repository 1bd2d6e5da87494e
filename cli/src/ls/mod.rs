//! `locker ls`: tokens, workflows and messages, a row for each.

mod rows;

use clap::Args;
use locker::message::MessageState;
use locker::operator::{Filter, Part};
use locker::workflow::List;
use locker::{TokenState, Work};

#[cfg(feature = "console")]
pub(crate) use rows::{place, waits};

use crate::connection::{Connection, Tables};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::select::{Kind, kinds};
use crate::options::{Needs, Output, Selection};
use crate::output::{self, Text};

/// The longest partition key of DynamoDB, in bytes.
const LONGEST_KEY: usize = 2048;

const EXAMPLES: &str = "\
Without a kind, lists all three: tokens in progress or held; workflows that are unfinished, failing
or in quarantine, and their late events; messages that are dead, waiting or unsent. A token with a result is in no list:
--text with its whole key finds it. Exits with 3 if --text finds nothing. Exits with 5 if --limit
was not reached, and a list was not read to its end.

Examples:
  locker ls tokens --due                        tokens that are overdue or in doubt
  locker ls workflows --need quarantined        workflows that wait for an operator
  locker ls workflows --need late               late events, which no code reads any more
  locker ls messages --need dead --topic order  dead messages of a topic
  locker ls --tenant cust8 --since 2026-11-01   everything of a customer that has waited since
  locker ls --text 8f5c2d17                     a pasted key, group, request id, cause or provider's key";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ls {
    /// Kind of the records [default: all].
    #[arg(value_enum)]
    kind: Option<Kind>,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    needs: Needs,

    /// Select tokens in progress, due or not.
    #[arg(long, help_heading = "Selection", conflicts_with_all = ["need", "due"])]
    in_progress: bool,

    /// Select finished workflows, which the reaper deletes after their retention.
    #[arg(long, help_heading = "Selection", conflicts_with_all = ["need", "due"])]
    finished: bool,

    /// Select archived messages.
    #[arg(long, help_heading = "Selection", conflicts_with_all = ["need", "due"])]
    archived: bool,

    /// List at most N records.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

impl Ls {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let kinds = self.kinds()?;
        if !kinds.contains(&Kind::Tokens) {
            connection.workflows_table()?;
        }
        let console = connection.console().await?;
        let found = console.clone().limit(self.limit).list(&self.filter(&kinds)).await?;
        let mut exact = Vec::new();
        for key in self.selection.text().into_iter().flat_map(exact_keys) {
            exact.extend(console.get(key).await?.iter().map(Part::work));
        }
        let is_new = |work: &Work| !found.matches.iter().any(|it| it.work == *work);
        exact.retain(|work| is_new(work) && kinds.contains(&rows::kind_of(work)));
        let with_workflows = connection.has_workflows().await?;
        let first = found.matches.first().map(|it| it.work.clone()).or_else(|| exact.first().cloned());
        let count = found.matches.len() + exact.len();
        match output {
            Output::Json => output::json(&rows::to_json(&found, &exact, &kinds, with_workflows)),
            Output::Table => {
                let tables = rows::tables(&found.matches, &exact);
                if !tables.is_empty() {
                    output::print(Text::apart(tables));
                }
            }
        }
        if let Some(error) = found.stopped_by {
            return Err(error.into());
        }
        let read = self.read(connection, &kinds, with_workflows, found.rows_read);
        let hint = first.filter(|_| output == Output::Table).map(|work| look(&work, connection));
        let listed = |said: String| hint.into_iter().fold(Exit::say(Exit::OK, said), Exit::detail);
        Ok(match (count, found.finished) {
            (0, true) if self.selection.text().is_some() => {
                let more = "a token with a result is found by its whole key only";
                Exit::say(Exit::NOT_FOUND, format!("no listed record fits ({read}); {more}"))
            }
            (0, true) => Exit::say(Exit::OK, format!("no listed record fits ({read})")),
            (count, true) => listed(format!("{count} listed ({read})")),
            (count, false) if count >= self.limit.max(1) => {
                listed(format!("there may be more than these {count}; raise --limit ({read})"))
            }
            (count, false) => {
                let said =
                    format!("{count} found, and the lists were not read to their end: there may be more");
                Exit::say(Exit::PROBLEMS, format!("{said}; narrow the selection ({read})"))
            }
        })
    }

    /// The tables that have to exist in a local store.
    pub(crate) fn tables(&self) -> Tables {
        match self.kinds() {
            Ok(kinds) if !kinds.contains(&Kind::Tokens) => Tables::WORKFLOWS,
            _ => Tables::TOKENS,
        }
    }

    /// The kinds that can fit.
    fn kinds(&self) -> Result<Vec<Kind>, Exit> {
        let more: [(bool, &'static str, &'static [Kind]); 3] = [
            (self.in_progress, "--in-progress", &[Kind::Tokens]),
            (self.finished, "--finished", &[Kind::Workflows]),
            (self.archived, "--archived", &[Kind::Messages]),
        ];
        let kinds = kinds(self.kind, &self.selection, &self.needs, &more);
        kinds.map_err(|said| Exit::say(Exit::USAGE, said))
    }

    /// The filter, with only the lists that can fit.
    fn filter(&self, kinds: &[Kind]) -> Filter {
        let filter = self.needs.add_to(self.selection.filter());
        kinds.iter().fold(filter, |filter, kind| match kind {
            Kind::Tokens => filter.only_tokens(self.states()),
            Kind::Workflows if self.finished => filter.only_workflows(self.lists()),
            Kind::Workflows => filter.only_workflows(self.lists()).only_late_events(),
            Kind::Messages => filter.only_messages(self.message_states()),
        })
    }

    fn states(&self) -> Vec<TokenState> {
        match self.in_progress || self.needs.due {
            true => vec![TokenState::InProgress],
            false => vec![TokenState::InProgress, TokenState::Held],
        }
    }

    fn lists(&self) -> Vec<List> {
        match (self.finished, self.needs.due) {
            (true, _) => vec![List::Finished],
            (false, true) => vec![List::Failing, List::Unfinished],
            (false, false) => vec![List::Quarantine, List::Failing, List::Unfinished],
        }
    }

    fn message_states(&self) -> Vec<MessageState> {
        match self.archived {
            true => vec![MessageState::Archived],
            false => vec![MessageState::Dead, MessageState::Waiting, MessageState::Unsent],
        }
    }

    /// The lists that were read, for the last sentence.
    fn read(&self, connection: &Connection, kinds: &[Kind], with_workflows: bool, rows: u64) -> String {
        let what = match kinds {
            [Kind::Tokens] => "tokens".to_owned(),
            _ if !with_workflows => connection.without_workflows().to_owned(),
            [one, other] => format!("{} and {}", one.as_str(), other.as_str()),
            [one] => one.as_str().to_owned(),
            _ => "tokens, workflows and messages".to_owned(),
        };
        let shards = output::shards_read(connection.settings.shards);
        let entries = if rows == 1 { "entry" } else { "entries" };
        format!("{what}: {rows} {entries} in {shards}")
    }
}

/// Returns the keys that a text may be.
///
/// A provider's key begins with the key of the token or the workflow.
pub(crate) fn exact_keys(text: &str) -> Vec<&str> {
    let first = text.split(' ').next().filter(|key| *key != text && !key.is_empty());
    // DynamoDB rejects a longer key with an error that reads as if the table were wrong.
    [Some(text), first].into_iter().flatten().filter(|key| key.len() <= LONGEST_KEY).collect()
}

/// A line that shows the first record.
fn look(work: &Work, connection: &Connection) -> String {
    let id = work.short_id();
    let hint = match work {
        Work::Token(key) => Hint::Show(key),
        Work::Workflow(stored) => Hint::ShowWorkflow(stored),
        _ => Hint::ShowMessage(&id),
    };
    format!("  look at the first: {}", hint.on(connection))
}
