//! `locker dead show`: one message.

use clap::Args;
use locker::message::MessageState;
use locker::workflow::Message;
use locker::{Class, Intervention};
use serde_json::{Value, json};

use super::which::{read_one, workflows};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The id that `locker dead ls` shows.
    id: String,

    /// Also print its body, which may be private.
    #[arg(long)]
    content: bool,
}

impl Show {
    pub(super) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let message = read_one(&workflows(connection)?, &self.id).await?;
        match output {
            Output::Json => output::json(&to_json(&message, self.content)),
            Output::Table => print(&message, self.content, connection),
        }
        Ok(Exit::quiet(Exit::OK))
    }
}

/// `content`: with its body, which may be private.
pub(super) fn to_json(message: &Message, content: bool) -> Value {
    let operator = |it: &Intervention| json!({ "by": it.by, "reason": it.reason, "at": output::time(it.at) });
    let delivery = message.delivery().and_then(|text| serde_json::from_str::<Value>(text).ok());
    json!({
        "id": message.short_id(),
        "name": message.work().to_text(),
        "messageId": message.id(),
        "state": message.state().as_str(),
        "topic": message.topic(),
        "subject": message.subject(),
        "consumer": message.consumer(),
        "class": message.class().map(Class::as_str),
        "cause": message.cause(),
        "attempts": message.attempts(),
        "redrives": message.redrives(),
        "created": output::time(message.created()),
        "due": output::time(message.due()),
        "heldUntil": message.held_until().map(output::time),
        "revision": message.revision(),
        "operator": message.intervention().map(operator),
        "delivery": delivery,
        "body": content.then(|| message.body()),
    })
}

fn print(message: &Message, content: bool, connection: &Connection) {
    let now = output::now();
    let when = |at| format!("{}  ({})", output::time(at), output::relative(at, now));
    let state = message.state().as_str();
    let due = match message.state() {
        MessageState::Dead | MessageState::Archived => "dead since",
        _ => "due",
    };
    let mut rows = vec![
        ("message", message.short_id()),
        ("its id", output::plain(message.id())),
        ("state", state.to_owned()),
        ("topic", output::plain(message.topic())),
        ("subject", output::plain(message.subject())),
        ("created", when(message.created())),
        (due, when(message.due())),
        ("attempts", message.attempts().to_string()),
        ("redriven", format!("{} times", message.redrives())),
    ];
    match message.consumer() {
        Some(consumer) => rows.insert(2, ("received by", output::plain(consumer))),
        None => rows.insert(2, ("committed in", output::plain(message.work().key()))),
    }
    rows.extend(message.class().map(|class| ("class", class.as_str().to_owned())));
    rows.extend(message.cause().map(|cause| ("cause", output::plain(cause))));
    rows.extend(message.delivery().map(|said| ("its broker said", output::plain(said))));
    if let Some(until) = message.held_until() {
        let what = if until > now {
            "code decides about it"
        } else {
            "code did not come back: it may have compensated"
        };
        rows.push(("held until", format!("{}; {what}", when(until))));
    }
    if let Some(operator) = message.intervention() {
        rows.push(("acted on by", format!("{}  {}", output::plain(&operator.by), when(operator.at))));
        rows.push(("who said", output::plain(&operator.reason)));
    }
    let bytes = message.body().len();
    rows.push(if content {
        ("body", output::plain(message.body()))
    } else {
        ("body", format!("{bytes} bytes; --content prints them"))
    });
    output::print(output::table(None, rows.into_iter().map(|(name, value)| [name.to_owned(), value])));
    output::print("\nWhat may be done:");
    for (verb, effect) in message.choices() {
        let (options, id) = (&connection.options, message.short_id());
        output::print(format_args!("\n  locker dead{options} {verb} {id} --reason TEXT\n      {effect}"));
    }
}
