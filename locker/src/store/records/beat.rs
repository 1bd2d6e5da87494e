//! The last run of each scheduled function: one item in the table that it works on.

use chrono::{DateTime, Utc};

use crate::core::time;
use crate::error::Error;
use crate::store::item::{Item, item_key, moment, number, text, token_key};
use crate::store::read::Freshness;
use crate::store::schema::attribute as a;
use crate::store::{Guard, Store, Until};

/// No key has a space, so this is no token and no workflow.
const RUNS: &str = "locker runs";

/// The table that an item is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableOf {
    Tokens,
    Workflows,
}

/// The last run of a scheduled function.
#[derive(Debug, Clone)]
pub(crate) struct StoredBeat {
    pub(crate) at: DateTime<Utc>,
    pub(crate) by: String,
    pub(crate) finished: bool,
    /// When a run last saw everything; if none has, when the first run ended.
    pub(crate) saw_all: DateTime<Utc>,
}

fn key(table: TableOf, name: &str) -> Item {
    match table {
        TableOf::Tokens => token_key(&format!("{RUNS} {name}")),
        TableOf::Workflows => item_key(RUNS, name),
    }
}

impl Store {
    /// Writes down a run.
    pub(crate) async fn write_beat(
        &self,
        (table, name): (TableOf, &str),
        beat: &StoredBeat,
        until: Until,
    ) -> Result<(), Error> {
        let item = || {
            let mut item = key(table, name);
            let state = if beat.finished { a::SUCCESS } else { a::UNFINISHED };
            item.extend(
                [
                    (a::VERSION, number(a::CURRENT_VERSION)),
                    (a::ACTUAL_COMPLETION, moment(beat.at)),
                    (a::LOCKED_BY, text(&beat.by)),
                    (a::OUTCOME, text(state)),
                    (a::SINCE, moment(beat.saw_all)),
                ]
                .map(|(name, value)| (name.to_owned(), value)),
            );
            item
        };
        let written = Box::pin(self.put_item("write down the run", &item, None, Guard::None, until)).await?;
        drop(written);
        Ok(())
    }

    /// The last run that was written down.
    pub(crate) async fn read_beat(
        &self,
        (table, name): (TableOf, &str),
        until: Until,
    ) -> Result<Option<StoredBeat>, Error> {
        let item = self.get("read the last run", key(table, name), Freshness::Eventual, until).await?;
        Ok(item.as_ref().and_then(beat_of))
    }
}

fn beat_of(item: &Item) -> Option<StoredBeat> {
    let get = |name: &str| item.get(name).and_then(|value| value.as_s().ok());
    let at = time::from_text(get(a::ACTUAL_COMPLETION)?)?;
    Some(StoredBeat {
        at,
        saw_all: get(a::SINCE).and_then(|text| time::from_text(text)).unwrap_or(at),
        by: get(a::LOCKED_BY).cloned().unwrap_or_default(),
        finished: get(a::OUTCOME).is_some_and(|outcome| outcome == a::SUCCESS),
    })
}
