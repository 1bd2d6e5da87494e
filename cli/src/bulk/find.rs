//! `locker find`: tokens and workflows by what an operator knows of them.

use clap::Args;
use locker::message::MessageState;
use locker::operator::{Console, Match, Part};
use locker::workflow::List;
use locker::{TokenState, Work};
use serde_json::json;

use super::filter::Filter;
use crate::connection::{Connection, quoted};
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

/// The longest partition key of DynamoDB, in bytes.
const LONGEST_KEY: usize = 2048;

#[derive(Debug, Args)]
pub(crate) struct Find {
    /// A key, or a part of one; a group, a name, a cause, an owner, a request id, or the key that a provider was given.
    #[arg(conflicts_with = "mentions")]
    text: Option<String>,

    #[command(flatten)]
    filter: Filter,

    /// Also search finished workflows.
    #[arg(long)]
    finished: bool,

    /// Maximum number of matches.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

impl Find {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let with_workflows = connection.has_workflows().await?;
        let filter = self.text.iter().fold(self.filter.read(), locker::operator::Filter::text);
        let filter = if self.finished {
            let lists = [List::Quarantine, List::Failing, List::Unfinished, List::Finished];
            let filter = filter.only_tokens([TokenState::InProgress, TokenState::Held]).only_workflows(lists);
            filter.only_messages([MessageState::Dead, MessageState::Waiting, MessageState::Unsent])
        } else {
            filter
        };
        let mut console = Console::new().tokens(&connection.locker).limit(self.limit);
        if with_workflows {
            console = console.workflows(&connection.workflows()?);
        }
        let found = console.list(&filter).await?;
        let mut exact = self.exact(&console).await?;
        exact.retain(|work| !found.matches.iter().any(|it| it.work == *work));
        match output {
            Output::Json => {
                let mut shown = json!(found);
                shown["exact"] = json!(exact);
                shown["workflowsRead"] = json!(with_workflows);
                output::json(&shown);
            }
            Output::Table => print(&found.matches, &exact, connection),
        }
        if let Some(error) = found.stopped_by {
            return Err(error.into());
        }
        let what =
            if with_workflows { "tokens, workflows and messages" } else { connection.without_workflows() };
        let read = format!("{what}: {} entries were read", found.rows_read);
        match (found.matches.len() + exact.len(), found.finished) {
            (0, true) => Err(Exit::say(
                Exit::NOT_FOUND,
                format!("nothing fits ({read}); a token with its answer is found by its whole key only"),
            )),
            (count, true) => Ok(Exit::say(Exit::OK, format!("{count} found ({read})"))),
            (0, false) => Err(Exit::say(
                Exit::PROBLEMS,
                format!(
                    "nothing was found as far as it was looked; raise --limit, or narrow the search ({read})"
                ),
            )),
            (count, false) => Ok(Exit::say(
                Exit::OK,
                format!("{count} found, and there may be more; raise --limit, or narrow the search ({read})"),
            )),
        }
    }

    /// The token and the workflow with this key, whatever their state.
    async fn exact(&self, console: &Console) -> Result<Vec<Work>, Exit> {
        let Some(text) = self.text.as_deref().filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
        let mut exact = Vec::new();
        // A provider's key begins with the key of the token or the workflow.
        let keys = [Some(text), text.split(' ').next().filter(|key| *key != text)];
        // DynamoDB refuses to look for a longer one, as if the table were wrong.
        for key in keys.into_iter().flatten().filter(|key| key.len() <= LONGEST_KEY) {
            exact.extend(console.get(key).await?.iter().map(Part::work));
        }
        Ok(exact)
    }
}

fn print(matches: &[Match], exact: &[Work], connection: &Connection) {
    let now = output::now();
    let exact = exact.iter().map(|work| {
        [
            output::plain(&work.to_text()),
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            String::new(),
            String::new(),
        ]
    });
    let rows = matches.iter().map(|it| {
        [
            output::plain(&it.work.to_text()),
            it.need.map_or("-", |need| need.as_str()).to_owned(),
            it.group.clone(),
            it.since.map_or_else(|| "?".to_owned(), |since| output::relative(since, now)),
            output::plain(it.owner.as_deref().unwrap_or("-")),
            output::plain(it.cause.as_deref().unwrap_or_default()),
        ]
    });
    let rows: Vec<_> = exact.chain(rows).collect();
    if rows.is_empty() {
        return;
    }
    output::print(output::table(Some(["FOUND", "NEED", "GROUP", "SINCE", "OWNER", "CAUSE"]), rows));
    if let Some(first) = matches.first() {
        let options = &connection.options;
        let line = match &first.work {
            work @ Work::Message { .. } => {
                format!("The first:  locker{options} dead show {}", work.short_id())
            }
            work => format!(
                "The timeline of the first:  locker{options} show {}",
                quoted(&output::plain(work.key()))
            ),
        };
        output::print(format_args!("\n{line}"));
    }
}
