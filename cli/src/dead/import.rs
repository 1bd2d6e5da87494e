//! `locker dead import`: messages of a dead-letter queue, or of an export.

mod exported;

use std::collections::HashMap;
use std::io::BufRead as _;
use std::path::PathBuf;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::MessageSystemAttributeName;
use clap::Args;
use locker::Class;
use locker::aws::Sqs;
use locker::inbox::{Consumer, Delivery, Received};
use serde::Serialize;

use self::exported::Exported;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::Output;
use crate::output;

/// How long a message is hidden from others while it is brought into the table, in seconds.
const HIDDEN: i32 = 120;
/// The import ends after this many empty responses of a queue in a row.
const EMPTY: usize = 3;
/// The number of messages that Amazon SQS returns in one request.
const BATCH: usize = 10;
/// The cause of a message from a dead-letter queue.
const GIVEN_UP: &str = "its queue gave it up, and what its handler did is not known";

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// URL of a dead-letter queue of Amazon SQS; or a file that `locker dead export` wrote.
    from: String,

    /// Name of the consumer that processes the messages when they are redriven.
    #[arg(long, value_name = "NAME")]
    consumer: String,

    /// Record this cause, and the class in doubt [default: from a file, the exported cause and
    /// class; from a queue, "its queue gave it up, and what its handler did is not known"].
    #[arg(long, value_name = "TEXT")]
    cause: Option<String>,

    /// Import at most N messages.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
}

/// The counts of an import.
#[derive(Debug, Default, Serialize)]
struct Imported {
    imported: usize,
    /// They were imported before.
    known: usize,
    /// They stay in the queue or the file.
    left: usize,
    /// The queue could not be read to its end.
    stopped: bool,
    /// The limit was reached, and the queue was not read to its end.
    limited: bool,
}

impl Imported {
    const fn seen(&self) -> usize {
        self.imported + self.known + self.left
    }
}

/// Keeps messages in the table, in their order.
struct Keeper {
    consumer: Consumer,
    done: Imported,
    /// The first message of each group that stays in its place. Later messages of the group stay as
    /// well: if they were imported, they would be processed before it.
    left: HashMap<String, String>,
}

impl Import {
    pub(super) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let inbox = connection.workflows()?.inbox(&self.consumer);
        let consumer = inbox.map_err(|error| Exit::say(Exit::USAGE, error.to_string()))?.consumer();
        let keeper = Keeper { consumer, done: Imported::default(), left: HashMap::new() };
        let is_queue = self.from.starts_with("http://") || self.from.starts_with("https://");
        let imported = if is_queue {
            self.read_queue(keeper, connection).await?
        } else {
            self.read_file(keeper).await?
        };
        if output == Output::Json {
            output::json(&imported);
        }
        let look = format!("look at them with: {}", Hint::ListConsumer(&self.consumer).on(connection));
        let Imported { imported, known, left, stopped, limited } = imported;
        if imported + known + left == 0 && !limited {
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
            said.push(format!("{left} left where they are"));
        }
        if stopped {
            said.push("there may be more in the queue".to_owned());
        }
        if limited {
            said.push("the limit was reached, and there may be more in the queue".to_owned());
        }
        said.push(look);
        let is_whole = left == 0 && !stopped && !limited;
        Ok(Exit::say(if is_whole { Exit::OK } else { Exit::PROBLEMS }, said.join("; ")))
    }

    /// Each is kept in the table, and then deleted from its queue.
    async fn read_queue(&self, mut keeper: Keeper, connection: &Connection) -> Result<Imported, Exit> {
        let client = connection.sqs().await?;
        let cause = self.cause.as_deref().unwrap_or(GIVEN_UP);
        let mut empty = 0;
        while empty < EMPTY && keeper.done.seen() < self.limit {
            let count = (self.limit - keeper.done.seen()).min(BATCH) as i32;
            let ask = client.receive_message().queue_url(&self.from).max_number_of_messages(count);
            let ask = ask.visibility_timeout(HIDDEN).wait_time_seconds(1);
            let ask = ask.message_system_attribute_names(MessageSystemAttributeName::All);
            let ask = ask.message_attribute_names("All");
            let received = match ask.send().await {
                Ok(received) => received,
                Err(error) if keeper.done.seen() == 0 => return Err(cannot("read the queue", error)),
                Err(error) => {
                    let error = aws_sdk_sqs::error::DisplayErrorContext(error);
                    output::say(format_args!("the queue cannot be read any further: {error}"));
                    keeper.done.stopped = true;
                    break;
                }
            };
            let messages = received.messages.unwrap_or_default();
            empty = if messages.is_empty() { empty + 1 } else { 0 };
            for message in messages {
                let delivery = Sqs::delivery(&message);
                if !keeper.keep(&delivery, Class::InDoubt, cause).await {
                    continue;
                }
                let Some(handle) = message.receipt_handle else { continue };
                let delete = client.delete_message().queue_url(&self.from).receipt_handle(handle);
                if let Err(error) = delete.send().await {
                    // It is remembered: if it is imported again, it is known.
                    let error = aws_sdk_sqs::error::DisplayErrorContext(error);
                    let id = &delivery.id;
                    output::say(format_args!("{id} is imported, and still in the queue: {error}"));
                }
            }
        }
        keeper.done.limited = empty < EMPTY && !keeper.done.stopped;
        Ok(keeper.done)
    }

    async fn read_file(&self, mut keeper: Keeper) -> Result<Imported, Exit> {
        let path = PathBuf::from(&self.from);
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Exit::say(Exit::SETUP, format!("cannot {what} {}: {error}", path.display()))
        };
        let file = std::fs::File::open(&path).map_err(|error| cannot("read", &error))?;
        let mut messages = Vec::new();
        for (number, line) in std::io::BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|error| cannot("read", &error))?;
            if !line.trim().is_empty() {
                let wrong = |why: String| {
                    let said =
                        format!("line {} of {}: {why}; nothing was imported", number + 1, path.display());
                    Exit::say(Exit::USAGE, said)
                };
                let Exported { delivery, consumer, created, class, cause } =
                    Exported::read(&line).map_err(wrong)?;
                self.is_for(consumer.as_deref()).map_err(wrong)?;
                let (class, cause) = match &self.cause {
                    Some(said) => (Class::InDoubt, said.clone()),
                    None => (
                        class,
                        cause.ok_or("it has no cause: set one with --cause".to_owned()).map_err(wrong)?,
                    ),
                };
                messages.push((created, (delivery, class, cause)));
            }
        }
        // An export is in the order in which they died, and a group in that in which they were set
        // aside.
        messages.sort_by(|one, other| one.0.cmp(&other.0));
        for (_, (delivery, class, cause)) in messages.iter().take(self.limit) {
            keeper.keep(delivery, *class, cause).await;
        }
        keeper.done.left += messages.len().saturating_sub(self.limit);
        Ok(keeper.done)
    }

    /// Refuses a message of another consumer, which may not be able to read it.
    fn is_for(&self, exported: Option<&str>) -> Result<(), String> {
        let given = &self.consumer;
        match exported.filter(|exported| exported != given) {
            None => Ok(()),
            Some(exported) => Err(format!(
                "its consumer is {exported}, and --consumer is {given}: import it with --consumer {exported}, or write \
                 {given} as its consumer into the file"
            )),
        }
    }
}

impl Keeper {
    /// Returns whether its queue may forget it.
    async fn keep(&mut self, delivery: &Delivery, class: Class, cause: &str) -> bool {
        let first = delivery.group.as_ref().and_then(|group| self.left.get(group));
        // The queue delivers the message again after the time for which it hides the message.
        let is_again = first.is_some_and(|first| *first == delivery.id);
        let is_behind = first.is_some() && !is_again;
        let why = if is_behind {
            "an earlier message of its group stays in its place, so this one stays too".to_owned()
        } else {
            match self.consumer.dead_letter(delivery, class, cause).await {
                Ok(Received::Duplicate) => {
                    self.done.known += 1;
                    return true;
                }
                Ok(_) => {
                    self.done.imported += 1;
                    return true;
                }
                Err(not_now) => not_now.to_string(),
            }
        };
        output::say(format_args!("{}: {why}", delivery.id));
        if !is_again {
            self.done.left += 1;
        }
        if let (Some(group), false) = (&delivery.group, is_behind) {
            self.left.insert(group.clone(), delivery.id.clone());
        }
        false
    }
}

fn cannot<E>(what: &str, error: SdkError<E>) -> Exit
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    let code = if is_for_a_while(&error) { Exit::UNAVAILABLE } else { Exit::SETUP };
    let error = aws_sdk_sqs::error::DisplayErrorContext(error);
    Exit::say(code, format!("cannot {what}: {error}"))
}

/// Whether the same request may succeed later. Amazon SQS refuses each request if a permission or
/// the queue is missing.
fn is_for_a_while<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    let SdkError::ServiceError(refused) = error else { return true };
    let code = error.code().unwrap_or_default();
    let status = refused.raw().status();
    status.is_server_error() || status.as_u16() == 429 || code.contains("Throttl") || code == "OverLimit"
}
