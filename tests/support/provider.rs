//! A provider that keeps its own books: what it was really asked to do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Counts what happens in the world, by key.
#[derive(Debug, Clone, Default)]
pub struct Provider(Arc<Mutex<HashMap<String, u64>>>);

impl Provider {
    /// Do the thing that must happen once. Gives a receipt that no other call gets.
    pub fn charge(&self, key: &str) -> String {
        let mut books = self.books();
        let times = books.entry(key.to_owned()).or_default();
        *times += 1;
        format!("receipt {times} for {key}")
    }

    /// How often it was done.
    #[must_use]
    pub fn charges(&self, key: &str) -> u64 {
        self.books().get(key).copied().unwrap_or_default()
    }

    fn books(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().expect("no test panics while it holds the books")
    }
}
