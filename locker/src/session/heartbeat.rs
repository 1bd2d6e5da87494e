//! The last runs of the scheduled functions.

#![cfg_attr(
    not(feature = "operator"),
    allow(dead_code, unreachable_pub, reason = "only the console reads it")
)]

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::core::time;
use crate::error::Error;
use crate::metrics;
use crate::session::Session;
use crate::store::{StoredBeat, TableOf};

/// The time to write down a run whose deadline has passed.
const LAST_CHANCE: Duration = Duration::from_millis(500);

/// A scheduled function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Machine {
    /// Reports overdue tokens: [`Scanner`](crate::Scanner).
    Scanner,
    /// Drives workflows that are due: [`Completer`](crate::workflow::Completer).
    Completer,
    /// Deletes finished workflows: [`Reaper`](crate::workflow::Reaper).
    Reaper,
    /// Sends messages that were not sent right after their commit: [`Relay`](crate::relay::Relay).
    Relay,
}

impl Machine {
    #[cfg(feature = "workflow")]
    pub(crate) const OF_WORKFLOWS: [Self; 3] = [Self::Completer, Self::Reaper, Self::Relay];

    /// The name, as shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scanner => "scanner",
            Self::Completer => "completer",
            Self::Reaper => "reaper",
            Self::Relay => "relay",
        }
    }

    /// How long after its last run that saw everything it counts as silent: three runs of its usual
    /// schedule, and at least 5 minutes.
    #[must_use]
    pub const fn silent_after(self) -> Duration {
        match self {
            // Every five minutes.
            Self::Scanner => Duration::from_secs(15 * 60),
            // Every minute; less than five minutes could be one long run.
            Self::Completer | Self::Relay => Duration::from_secs(5 * 60),
            // Every hour.
            Self::Reaper => Duration::from_secs(3 * 60 * 60),
        }
    }

    /// The gauge that shows whether its last run saw everything.
    pub(crate) const fn gauge(self) -> &'static str {
        match self {
            Self::Scanner => metrics::SCAN_FINISHED,
            Self::Completer => metrics::COMPLETER_FINISHED,
            Self::Reaper => metrics::REAPER_FINISHED,
            Self::Relay => metrics::RELAY_FINISHED,
        }
    }

    const fn place(self) -> (TableOf, &'static str) {
        let table = match self {
            Self::Scanner => TableOf::Tokens,
            Self::Completer | Self::Reaper | Self::Relay => TableOf::Workflows,
        };
        (table, self.as_str())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The last run of a scheduled function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LastRun {
    /// The function.
    pub machine: Machine,
    /// When it ended. `None`: none has ended in this table.
    #[serde(serialize_with = "as_text")]
    pub at: Option<DateTime<Utc>>,
    /// When a run last saw everything that it had to see; if none has, when the first run ended.
    #[serde(serialize_with = "as_text")]
    pub saw_all: Option<DateTime<Utc>>,
    /// Its owner, such as a function or the user of the command.
    pub by: Option<String>,
    /// Whether it saw everything that it had to see.
    pub finished: bool,
    /// Whether it has run before, and none has seen everything for [`Machine::silent_after`]: **its
    /// schedule may have stopped**, or there is more than it can do.
    pub is_silent: bool,
}

fn as_text<S: Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(time::to_text).serialize(serializer)
}

fn not_written(machine: Machine, error: &Error) {
    tracing::info!(machine = machine.as_str(), %error, "the run could not be written down");
}

impl Session {
    /// Records that a run has ended. A failed write affects only the report.
    pub(crate) async fn ran(&self, machine: Machine, finished: bool, deadline: Option<DateTime<Utc>>) {
        // A run that was cut short is recorded as well: the write has some time after the deadline.
        let until = deadline.map(|deadline| deadline.max(time::after(self.now(), LAST_CHANCE)));
        let now = self.now();
        // An unfinished run keeps the time of the last run that saw everything.
        let before = match finished {
            true => Ok(None),
            false => self.store().read_beat(machine.place(), self.until(until)).await,
        };
        let saw_all = match before {
            Ok(before) => before.map_or(now, |before| before.saw_all),
            Err(error) => return not_written(machine, &error),
        };
        let beat = StoredBeat { at: now, by: self.settings().owner.clone(), finished, saw_all };
        let written = self.store().write_beat(machine.place(), &beat, self.until(until)).await;
        if let Err(error) = written {
            not_written(machine, &error);
        }
    }

    pub(crate) async fn last_run(
        &self,
        machine: Machine,
        deadline: Option<DateTime<Utc>>,
    ) -> Result<LastRun, Error> {
        let beat = self.store().read_beat(machine.place(), self.until(deadline)).await?;
        let silent = |beat: &StoredBeat| time::between(beat.saw_all, self.now()) > machine.silent_after();
        Ok(LastRun {
            machine,
            at: beat.as_ref().map(|beat| beat.at),
            saw_all: beat.as_ref().map(|beat| beat.saw_all),
            is_silent: beat.as_ref().is_some_and(silent),
            finished: beat.as_ref().is_some_and(|beat| beat.finished),
            by: beat.map(|beat| beat.by),
        })
    }
}
