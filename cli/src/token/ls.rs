//! `locker ls`: the tokens that are unfinished or held.

use clap::{Args, ValueEnum};
use locker::{Page, TokenSummary};
use serde_json::json;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Only tokens in this state; those in doubt are in progress.
    #[arg(long, alias = "status", value_enum)]
    state: Option<Listable>,

    /// Only tokens that are overdue or in doubt.
    #[arg(long, conflicts_with = "state")]
    overdue: bool,

    /// Maximum number of tokens.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Listable {
    /// Acquired, and not ended; its owner works, or died at work.
    #[value(name = "inProgress", help = None)]
    InProgress,
    /// Failed, and waiting for an operator.
    #[value(name = "held", alias = "error", help = None)]
    Held,
}

impl Ls {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let locker = &connection.locker;
        let listings = match (self.overdue, self.state) {
            (true, _) => vec![locker.overdue()],
            (_, Some(Listable::InProgress)) => vec![locker.in_progress()],
            (_, Some(Listable::Held)) => vec![locker.held()],
            (false, None) => vec![locker.in_progress(), locker.held()],
        };
        let mut tokens = Vec::new();
        let mut complete = true;
        let mut stopped_by = None;
        for listing in listings {
            let listed: Page<TokenSummary> = listing.limit(self.limit - tokens.len()).fetch().await?;
            complete &= listed.is_complete();
            tokens.extend(listed.items);
            stopped_by = stopped_by.or(listed.stopped_by);
        }
        match output {
            Output::Json => print_json(&tokens, complete),
            Output::Table => print_table(&tokens),
        }
        if let Some(error) = stopped_by {
            return Err(Exit::from(error));
        }
        if !complete {
            let said = format!("there are more than these {}; raise --limit", tokens.len());
            return Ok(Exit::say(Exit::OK, said));
        }
        if !tokens.is_empty() || output == Output::Json {
            return Ok(Exit::quiet(Exit::OK));
        }
        let read = output::shards_read(connection.settings.shards);
        Ok(Exit::say(Exit::OK, format!("{} in {read}", self.nothing_to_list())))
    }

    /// Tokens that were begun without being listed are in no shard.
    const fn nothing_to_list(&self) -> &'static str {
        match (self.overdue, self.state) {
            (true, _) => "no listed token is overdue",
            (_, Some(Listable::InProgress)) => "no listed token is in progress",
            (_, Some(Listable::Held)) => "no token is held for an operator",
            (false, None) => "no listed token is in progress or held for an operator",
        }
    }
}

fn print_table(tokens: &[TokenSummary]) {
    if tokens.is_empty() {
        return;
    }
    let now = output::now();
    let when = |at: Option<_>| at.map_or_else(|| "?".to_owned(), |at| output::relative(at, now));
    let rows = tokens.iter().map(|token| {
        [
            output::plain(&token.token),
            token.state.as_str().to_owned(),
            output::plain(token.locked_by.as_deref().unwrap_or("?")),
            when(token.created),
            when(token.expected_completion),
            token.revision.clone().unwrap_or_else(|| "?".to_owned()),
            output::plain(token.cause.as_deref().unwrap_or_default()),
        ]
    });
    output::print(output::table(
        Some(["TOKEN", "STATE", "LOCKED BY", "SINCE", "DUE", "REVISION", "CAUSE"]),
        rows,
    ));
}

fn print_json(tokens: &[TokenSummary], complete: bool) {
    let tokens: Vec<_> = tokens
        .iter()
        .map(|token| {
            json!({
                "lockToken": token.token,
                "state": token.state.as_str(),
                "revision": token.revision,
                "class": token.class.map(|class| class.as_str()),
                "cause": token.cause,
                "lockedBy": token.locked_by,
                "created": token.created.map(output::time),
                "expectedCompletion": token.expected_completion.map(output::time),
            })
        })
        .collect();
    output::print(format_args!("{:#}", json!({ "tokens": tokens, "complete": complete })));
}
