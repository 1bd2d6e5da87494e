//! The books of the provider: what really happened.

use std::collections::HashMap;
use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use crate::event::Time;

/// One thing that happened in the world: money that moved, a mail that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The token's key, as the history shows it.
    pub token: String,
    /// The attempt that asked for it, if the provider was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// When.
    pub at: Time,
}

impl Effect {
    /// Read books: one JSON line for each effect. They are sorted by time, for each token.
    ///
    /// # Errors
    ///
    /// If the reader fails, or a line is no effect: an oracle with holes proves nothing.
    pub fn read(books: impl BufRead) -> io::Result<HashMap<String, Vec<Self>>> {
        let mut effects: HashMap<String, Vec<Self>> = HashMap::new();
        for (number, line) in books.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let effect: Self = serde_json::from_str(&line)
                .map_err(|error| io::Error::other(format!("line {}: {error}", number + 1)))?;
            effects.entry(effect.token.clone()).or_default().push(effect);
        }
        for effects in effects.values_mut() {
            effects.sort_by_key(|effect| effect.at);
        }
        Ok(effects)
    }
}
