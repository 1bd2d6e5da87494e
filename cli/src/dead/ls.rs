//! `locker dead ls`: what is dead, by cause.

use std::collections::BTreeMap;

use clap::Args;
use locker::operator::Match;
use serde_json::{Value, json};

use super::which::{Which, workflows};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    which: Which,

    /// Archived messages, and not those that are dead.
    #[arg(long)]
    archived: bool,

    /// Maximum number of messages that are shown one by one.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

impl Ls {
    pub(super) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let found = self.which.find(&workflows(connection)?, self.archived).await?;
        let groups = grouped(&found.matches);
        let by_one = !self.which.is_empty();
        match output {
            Output::Json => output::json(&json!({
                "groups": groups.iter().map(|group| to_json(group)).collect::<Vec<_>>(),
                "messages": found.matches.iter().take(self.limit).map(one_to_json).collect::<Vec<_>>(),
                "complete": found.finished && found.matches.len() <= self.limit,
            })),
            Output::Table if found.matches.is_empty() => {}
            Output::Table if by_one => print_each(&found.matches, self.limit, connection),
            Output::Table => print_groups(&groups, connection),
        }
        if let Some(error) = found.stopped_by {
            return Err(error.into());
        }
        let state = if self.archived { "archived" } else { "dead" };
        let more = if found.finished { "" } else { ", and there may be more" };
        Ok(match (found.matches.len(), found.finished) {
            (0, true) if by_one => Exit::say(Exit::OK, format!("no such message is {state}")),
            (0, true) => Exit::say(Exit::OK, format!("no message is {state}")),
            (0, false) => {
                let said = "no such message was found, and the lists were not read to their end";
                Exit::say(Exit::PROBLEMS, format!("{said}: there may be some"))
            }
            (count, _) => {
                let causes = groups.len();
                let s = if causes == 1 { "" } else { "s" };
                let code = if found.finished { Exit::OK } else { Exit::PROBLEMS };
                Exit::say(code, format!("{count} {state}, of {causes} cause{s}{more}"))
            }
        })
    }
}

/// The groups, the largest first.
fn grouped(matches: &[Match]) -> Vec<Vec<&Match>> {
    let mut groups: BTreeMap<&str, Vec<&Match>> = BTreeMap::new();
    for it in matches {
        groups.entry(&it.group).or_default().push(it);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort_by_key(|it| it.since));
    groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), group[0].since));
    groups
}

fn of(it: &Match) -> String {
    let topic = output::plain(it.topic.as_deref().unwrap_or_default());
    match &it.name {
        Some(consumer) => format!("{topic} at {}", output::plain(consumer)),
        None => topic,
    }
}

/// The workflow that committed it, or the subject of its outbox. What a consumer set aside has a digest, which says nothing.
fn place(it: &Match) -> String {
    let place = match (&it.name, it.work.key().strip_prefix("locker outbox ")) {
        (Some(_), _) => "-",
        (None, Some(subject)) => subject,
        (None, None) => it.work.key(),
    };
    output::plain(place)
}

/// The beginning of a long text.
fn short(text: Option<&str>, most: usize) -> String {
    let text = output::plain(text.unwrap_or("-"));
    match text.char_indices().nth(most) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn since(it: &Match) -> String {
    it.since.map_or_else(|| "?".to_owned(), |since| output::relative(since, output::now()))
}

fn cause(it: &Match) -> String {
    short(it.cause.as_deref(), 90)
}

fn print_groups(groups: &[Vec<&Match>], connection: &Connection) {
    let rows = groups.iter().map(|group| {
        let (first, last) = (group[0], group[group.len() - 1]);
        [first.group.clone(), group.len().to_string(), of(first), since(first), since(last), cause(first)]
    });
    output::print(output::table(Some(["GROUP", "COUNT", "OF", "FIRST", "LAST", "CAUSE"]), rows));
    if let Some(first) = groups.first() {
        let (options, group) = (&connection.options, &first[0].group);
        output::print(format_args!("\nThe messages of the first:  locker dead{options} ls --group {group}"));
    }
}

fn print_each(matches: &[Match], limit: usize, connection: &Connection) {
    let rows = matches.iter().take(limit).map(|it| {
        [it.work.short_id(), of(it), place(it), since(it), cause(it), short(it.note.as_deref(), 40)]
    });
    output::print(output::table(Some(["MESSAGE", "OF", "IN", "SINCE", "CAUSE", "LAST SAID"]), rows));
    if matches.len() > limit {
        output::print(format_args!("and {} more; raise --limit", matches.len() - limit));
    }
    if let Some(first) = matches.first() {
        let (options, id) = (&connection.options, first.work.short_id());
        output::print(format_args!("\nThe first:  locker dead{options} show {id}"));
    }
}

fn to_json(group: &[&Match]) -> Value {
    let time = |it: &Match| it.since.map(output::time);
    json!({
        "group": group[0].group,
        "count": group.len(),
        "topic": group[0].topic,
        "consumer": group[0].name,
        "cause": group[0].cause,
        "first": time(group[0]),
        "last": time(group[group.len() - 1]),
        "sample": group[0].work.short_id(),
    })
}

fn one_to_json(it: &Match) -> Value {
    let mut shown = json!(it);
    shown["id"] = json!(it.work.short_id());
    shown
}
