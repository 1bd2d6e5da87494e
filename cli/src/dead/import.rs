//! `locker dead import`: messages that died without a word, from where their broker put them.

use std::io::BufRead as _;
use std::path::PathBuf;

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use clap::Args;
use locker::Class;
use locker::inbox::{Consumer, Delivery, Received};
use serde::Serialize;
use serde_json::{Value, json};

use super::which::workflows;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

/// How long a message is hidden from others while it is brought into the table, in seconds.
const HIDDEN: i32 = 120;
/// Requests in a row to which a queue says that it has nothing.
const EMPTY: usize = 3;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// URL of a dead-letter queue of Amazon SQS; or a file with lines of `locker dead export`.
    from: String,

    /// The consumer whose messages they are: it handles them when they are redriven.
    #[arg(long, value_name = "NAME")]
    consumer: String,

    /// Why they are dead.
    #[arg(long, value_name = "TEXT", default_value = "its handler ended without a word")]
    cause: String,

    /// Maximum number of messages.
    #[arg(long = "max", value_name = "N", default_value_t = 10_000)]
    most: usize,
}

/// What became of the messages.
#[derive(Debug, Default, Serialize)]
struct Imported {
    imported: usize,
    /// They were set aside before.
    known: usize,
    /// They are where they were.
    left: usize,
}

impl Imported {
    const fn seen(&self) -> usize {
        self.imported + self.known + self.left
    }
}

impl Import {
    pub(super) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let inbox = workflows(connection)?.inbox(&self.consumer);
        let consumer = inbox.map_err(|error| Exit::say(Exit::USAGE, error.to_string()))?.consumer();
        let is_queue = self.from.starts_with("http://") || self.from.starts_with("https://");
        let imported = if is_queue {
            self.read_queue(&consumer, connection).await?
        } else {
            self.read_file(&consumer).await?
        };
        if output == Output::Json {
            output::json(&imported);
        }
        let (options, name) = (&connection.options, &self.consumer);
        let look = format!("look at them with: locker dead{options} ls --consumer {name}");
        let Imported { imported, known, left } = imported;
        if imported + known + left == 0 {
            return Ok(Exit::say(
                Exit::NOT_FOUND,
                "there is no message to import; what another process has in hand is hidden for a while",
            ));
        }
        let mut said = vec![format!("{imported} imported")];
        if known > 0 {
            said.push(format!(
                "{known} known before: each waits in the table, or was handled, archived or discarded"
            ));
        }
        if left > 0 {
            said.push(format!("{left} left where they are, see above"));
        }
        said.push(look);
        Ok(Exit::say(if left > 0 { Exit::PROBLEMS } else { Exit::OK }, said.join("; ")))
    }

    /// Each is kept in the table, and then deleted from its queue.
    async fn read_queue(&self, consumer: &Consumer, connection: &Connection) -> Result<Imported, Exit> {
        let client = connection.sqs().await?;
        let (mut done, mut empty) = (Imported::default(), 0);
        while empty < EMPTY && done.seen() < self.most {
            let ask = client.receive_message().queue_url(&self.from).max_number_of_messages(10);
            let ask = ask.visibility_timeout(HIDDEN).wait_time_seconds(1);
            let ask = ask.message_system_attribute_names(MessageSystemAttributeName::All);
            let ask = ask.message_attribute_names("All");
            let received = ask.send().await.map_err(|error| cannot("read the queue", error))?;
            let messages = received.messages.unwrap_or_default();
            empty = if messages.is_empty() { empty + 1 } else { 0 };
            for message in messages {
                let delivery = delivery_of(&message);
                if !self.keep(consumer, &delivery, &mut done).await {
                    continue;
                }
                let Some(handle) = message.receipt_handle else { continue };
                let delete = client.delete_message().queue_url(&self.from).receipt_handle(handle);
                if let Err(error) = delete.send().await {
                    // It is remembered: if it is imported again, it is known.
                    let error = aws_sdk_sqs::error::DisplayErrorContext(error);
                    eprintln!(
                        "locker: {} is imported, and still in the queue: {error}",
                        output::plain(&delivery.id)
                    );
                }
            }
        }
        Ok(done)
    }

    async fn read_file(&self, consumer: &Consumer) -> Result<Imported, Exit> {
        let path = PathBuf::from(&self.from);
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Exit::say(Exit::SETUP, format!("cannot {what} {}: {error}", path.display()))
        };
        let file = std::fs::File::open(&path).map_err(|error| cannot("read", &error))?;
        let mut deliveries = Vec::new();
        for (number, line) in std::io::BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|error| cannot("read", &error))?;
            if !line.trim().is_empty() {
                let wrong = |why: String| {
                    let said =
                        format!("line {} of {}: {why}; nothing was imported", number + 1, path.display());
                    Exit::say(Exit::USAGE, said)
                };
                deliveries.push(exported(&line).map_err(wrong)?);
            }
        }
        let mut done = Imported::default();
        for delivery in deliveries.iter().take(self.most) {
            self.keep(consumer, delivery, &mut done).await;
        }
        done.left += deliveries.len().saturating_sub(self.most);
        Ok(done)
    }

    /// Returns whether its queue may forget it.
    async fn keep(&self, consumer: &Consumer, delivery: &Delivery, done: &mut Imported) -> bool {
        match consumer.set_aside(delivery, Class::InDoubt, &self.cause).await {
            Ok(Received::Known) => done.known += 1,
            Ok(_) => done.imported += 1,
            Err(not_now) => {
                eprintln!("locker: {}: {not_now}", output::plain(&delivery.id));
                done.left += 1;
                return false;
            }
        }
        true
    }
}

fn cannot(what: &str, error: impl std::error::Error) -> Exit {
    let error = aws_sdk_sqs::error::DisplayErrorContext(error);
    Exit::say(Exit::UNAVAILABLE, format!("cannot {what}: {error}"))
}

/// A message of a queue, as a function is given it.
fn delivery_of(message: &Message) -> Delivery {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let delivery = Delivery::new(text(message.message_id()), text(message.body()));
    let system = message.attributes();
    let attribute = |name| system.and_then(|all| all.get(&name)).map(String::as_str);
    let receives = attribute(MessageSystemAttributeName::ApproximateReceiveCount);
    let group = attribute(MessageSystemAttributeName::MessageGroupId);
    // Groups of a standard queue are no order, and a dead-letter queue is of the kind of its queue: a FIFO queue gives numbers.
    let is_fifo = attribute(MessageSystemAttributeName::SequenceNumber).is_some();
    let delivery = delivery.receives(receives.and_then(|count| count.parse().ok()).unwrap_or(1));
    let mut delivery = match group.filter(|_| is_fifo) {
        Some(group) => delivery.group(group),
        None => delivery,
    };
    let own = message.message_attributes().into_iter().flatten();
    delivery.attributes = json!({
        "attributes": system
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>(),
        "messageAttributes": own
            .map(|(name, value)| (name.clone(), json!(value.string_value())))
            .collect::<serde_json::Map<_, _>>(),
    });
    delivery
}

/// A line of an export.
fn exported(line: &str) -> Result<Delivery, String> {
    let line: Value = serde_json::from_str(line).map_err(|error| format!("it is not JSON: {error}"))?;
    let body = line["body"].as_str().ok_or("it has no body: export prints it")?;
    let mut delivery: Delivery = match &line["delivery"] {
        Value::Null => {
            return Err("it was not received: only what a consumer set aside can be imported".to_owned());
        }
        delivery => serde_json::from_value(delivery.clone()).map_err(|error| error.to_string())?,
    };
    body.clone_into(&mut delivery.body);
    Ok(delivery)
}
