//! The options that select messages.

use clap::Args;
use locker::message::MessageState;
use locker::operator::{Console, Filter, Listing, Match};
use locker::workflow::{Message, Workflows};

use crate::exit::Exit;
use crate::options::Selection;

/// Every state of a message.
const ALL: [MessageState; 4] =
    [MessageState::Dead, MessageState::Waiting, MessageState::Unsent, MessageState::Archived];

#[derive(Debug, Args)]
pub(super) struct Which {
    /// Select a single message by its id (see `locker ls messages`).
    #[arg(value_name = "ID", conflicts_with = "Selection")]
    message: Option<String>,

    #[command(flatten)]
    selection: Selection,
}

impl Which {
    /// Whether no option is set, so that all messages are selected.
    pub(super) fn is_empty(&self) -> bool {
        self.filter().is_empty()
    }

    pub(super) fn filter(&self) -> Filter {
        self.message.iter().fold(self.selection.filter(), Filter::message)
    }

    /// Lists the dead messages that fit; or the archived ones.
    pub(super) async fn find(&self, workflows: &Workflows, archived: bool) -> Result<Listing, Exit> {
        let state = if archived { MessageState::Archived } else { MessageState::Dead };
        let filter = self.filter().only_messages([state]);
        Ok(Console::new().workflows(workflows).list(&filter).await?)
    }
}

/// Reads a message by its id, in whatever state it is.
pub(super) async fn read_one(workflows: &Workflows, id: &str) -> Result<Message, Exit> {
    let filter = Filter::new().message(id).only_messages(ALL);
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
