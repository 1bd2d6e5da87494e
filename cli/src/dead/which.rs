//! The options that say which messages are meant.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use locker::message::MessageState;
use locker::operator::{Console, Filter, Listing, Match};
use locker::workflow::{Message, Workflows};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{duration, moment};

#[derive(Debug, Args)]
pub(super) struct Which {
    /// This message, by the id that `locker dead ls` shows.
    #[arg(value_name = "ID", conflicts_with_all = ["group", "topic", "consumer", "cause", "key"])]
    message: Option<String>,

    /// Of this group, as `locker dead ls` shows it.
    #[arg(long, value_name = "ID", help_heading = "Which")]
    group: Option<String>,

    /// Of this topic, or of events of this type.
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    topic: Option<String>,

    /// Set aside by this consumer.
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    consumer: Option<String>,

    /// Causes that contain this.
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    cause: Option<String>,

    /// Of the workflow with exactly this key, in all of its versions.
    #[arg(long, value_name = "KEY", help_heading = "Which")]
    key: Option<String>,

    /// Dead for at least this long.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Which")]
    at_least_for: Option<Duration>,

    /// Dead since this time or later: a day or a time in UTC, such as 2026-11-01 or 2026-11-01T08:30:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Which")]
    since: Option<DateTime<Utc>>,
}

impl Which {
    /// Whether it says nothing, so that all are meant.
    pub(super) fn is_empty(&self) -> bool {
        self.filter().is_empty()
    }

    pub(super) fn filter(&self) -> Filter {
        let filter = self.message.iter().fold(Filter::new(), Filter::message);
        let filter = self.group.iter().fold(filter, Filter::group);
        let filter = self.topic.iter().fold(filter, Filter::topic);
        let filter = self.consumer.iter().fold(filter, Filter::consumer);
        let filter = self.cause.iter().fold(filter, Filter::cause);
        let filter = self.key.iter().fold(filter, Filter::key);
        let filter = self.at_least_for.into_iter().fold(filter, Filter::at_least_for);
        self.since.into_iter().fold(filter, Filter::since)
    }

    /// What fits of the dead messages; or, if they are asked for, of the archived ones.
    pub(super) async fn find(&self, workflows: &Workflows, archived: bool) -> Result<Listing, Exit> {
        let state = if archived { MessageState::Archived } else { MessageState::Dead };
        Ok(Console::new().workflows(workflows).list(&self.filter().only_messages([state])).await?)
    }
}

/// Reads the one message that is meant, in whatever state it is.
pub(super) async fn read_one(workflows: &Workflows, id: &str) -> Result<Message, Exit> {
    let states = [MessageState::Dead, MessageState::Waiting, MessageState::Unsent, MessageState::Archived];
    let filter = Filter::new().message(id).only_messages(states);
    let found = Console::new().workflows(workflows).list(&filter).await?;
    let gone = || {
        let said = format!("no message has the id {id}: it was sent, handled or discarded, or never was");
        Exit::say(Exit::NOT_FOUND, said)
    };
    let absent = || match found.finished {
        true => gone(),
        false => {
            let said = "was found, and the lists were not read to their end: there may be one";
            Exit::say(Exit::PROBLEMS, format!("no message with the id {id} {said}"))
        }
    };
    let it: &Match = found.matches.first().ok_or_else(absent)?;
    workflows.message(&it.work).await?.ok_or_else(gone)
}

/// The table of workflows has the messages.
pub(super) fn workflows(connection: &Connection) -> Result<Workflows, Exit> {
    connection.workflows()
}
