//! The books of the provider: the effects that happened.

use std::collections::HashMap;
use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use crate::history::event::Time;

/// One effect outside the system, such as money that moved or a mail that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The token's key, as the history shows it.
    pub token: String,
    /// The attempt that asked for it, if the provider was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// The time at which it happened.
    pub at: Time,
}

impl Effect {
    /// Reads books: one JSON line for each effect. The effects of each token are sorted by time.
    ///
    /// # Errors
    ///
    /// If the reader fails, or a line is not an effect: books with gaps prove nothing.
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
