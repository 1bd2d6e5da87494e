//! `locker ls`.

use locker::{Listed, Summary};
use serde_json::json;

use crate::args::{Ls, Output, Status};
use crate::connect::Connection;
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(connection: &Connection, ls: &Ls, output: Output) -> Result<Exit, Exit> {
    let locker = &connection.locker;
    let listings = match (ls.overdue, ls.status) {
        (true, _) => vec![locker.overdue()],
        (_, Some(Status::InProgress)) => vec![locker.in_progress()],
        (_, Some(Status::Error)) => vec![locker.failed()],
        (false, None) => vec![locker.in_progress(), locker.failed()],
    };
    let mut tokens = Vec::new();
    let mut complete = true;
    let mut stopped_by = None;
    for listing in listings {
        let listed: Listed = listing.limit(ls.limit - tokens.len()).fetch().await?;
        complete &= listed.is_complete();
        tokens.extend(listed.tokens);
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
        return Ok(Exit::say(Exit::OK, format!("there are more than these {}; raise --limit", tokens.len())));
    }
    let nothing = tokens.is_empty() && output == Output::Table;
    Ok(if nothing { Exit::say(Exit::OK, nothing_to_list(ls)) } else { Exit::quiet(Exit::OK) })
}

const fn nothing_to_list(ls: &Ls) -> &'static str {
    match (ls.overdue, ls.status) {
        (true, _) => "nothing is overdue",
        (_, Some(Status::InProgress)) => "nothing is in progress",
        (_, Some(Status::Error)) => "nothing failed that waits for a person",
        (false, None) => "nothing is in progress, and nothing failed that waits for a person",
    }
}

fn print_table(tokens: &[Summary]) {
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
        ]
    });
    output::print(output::table(Some(["TOKEN", "STATUS", "LOCKED BY", "SINCE", "DUE"]), rows));
}

fn print_json(tokens: &[Summary], complete: bool) {
    let tokens: Vec<_> = tokens
        .iter()
        .map(|token| {
            json!({
                "lockToken": token.token,
                "status": token.state.as_str(),
                "lockedBy": token.locked_by,
                "created": token.created.map(output::time),
                "expectedCompletion": token.expected_completion.map(output::time),
            })
        })
        .collect();
    output::print(format_args!("{:#}", json!({ "tokens": tokens, "complete": complete })));
}
