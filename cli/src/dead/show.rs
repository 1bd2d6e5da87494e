//! `locker dead show`: one message.

use clap::Args;
use locker::message::MessageState;
use locker::workflow::Message;
use locker::{Class, Intervention};
use serde_json::{Value, json};

use super::which::read_one;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id of the message (see `locker ls messages`).
    id: String,

    /// Print the body too, which may be private.
    #[arg(long)]
    content: bool,
}

impl Show {
    pub(super) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let message = read_one(&connection.workflows()?, &self.id).await?;
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
        "expires": message.expires().map(output::time),
        "heldUntil": message.held_until().map(output::time),
        "revision": message.revision(),
        "operator": message.intervention().map(operator),
        "delivery": delivery,
        "body": content.then(|| message.body()),
        "bodyAt": message.body_at(),
    })
}

/// The facts of a message, without its body.
pub(crate) fn facts(message: &Message) -> Vec<(&'static str, String)> {
    let now = output::now();
    let when = |at| format!("{}  ({})", output::time(at), output::relative(at, now));
    let state = message.state().as_str();
    let due = match message.state() {
        MessageState::Dead | MessageState::Archived => "dead since",
        _ => "due",
    };
    let mut rows = vec![
        ("message", message.short_id()),
        ("its id", message.id().to_owned()),
        ("state", state.to_owned()),
        ("topic", message.topic().to_owned()),
        ("subject", message.subject().to_owned()),
        ("created", when(message.created())),
        (due, when(message.due())),
        ("attempts", message.attempts().to_string()),
        ("redriven", format!("{} times", message.redrives())),
    ];
    match message.consumer() {
        Some(consumer) => rows.insert(2, ("received by", consumer.to_owned())),
        None => rows.insert(2, ("committed in", message.work().key().to_owned())),
    }
    rows.extend(message.expires().map(|at| ("expires", when(at))));
    rows.extend(message.class().map(|class| ("class", class.as_str().to_owned())));
    rows.extend(message.cause().map(|cause| ("cause", cause.to_owned())));
    rows.extend(message.delivery().map(|said| ("its broker said", said.to_owned())));
    if let Some(until) = message.held_until() {
        let what = if until > now {
            "code decides about it"
        } else {
            "code did not return: it may have compensated"
        };
        rows.push(("held until", format!("{}; {what}", when(until))));
    }
    if let Some(operator) = message.intervention() {
        rows.push(("acted on by", format!("{}  {}", operator.by.clone(), when(operator.at))));
        rows.push(("who said", operator.reason.clone()));
    }
    rows
}

/// Where the body is, if it is not in the table.
pub(crate) fn body_elsewhere(message: &Message) -> Option<String> {
    match message.body_at() {
        Some("queue") => Some("in its queue".to_owned()),
        Some("claim") => Some(format!("in the claim-check store of its consumer: {}", message.body())),
        _ => None,
    }
}

fn print(message: &Message, content: bool, connection: &Connection) {
    let mut rows = facts(message);
    let body = body_elsewhere(message).unwrap_or_else(|| match content {
        true => message.body().to_owned(),
        false => format!("{} bytes; --content prints them", message.body().len()),
    });
    rows.push(("body", body));
    output::print(output::table(None, rows.into_iter().map(|(name, value)| [name.to_owned(), value])));
    output::print("");
    let choices = message.choices(output::now());
    if choices.is_empty() {
        output::print("No act is possible now.");
        return;
    }
    output::print("What may be done:");
    for (verb, effect) in choices {
        let line = Hint::ActOnMessage(verb, &message.short_id()).on(connection);
        output::print_choice(&line, &effect);
    }
}
