//! The provider's books: its charges and refunds, in memory, and in a file if it has one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Entry, Mood};
use crate::payments::{Charge, Receipt};

#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) mood: Mood,
    pub(super) kept: Kept,
    file: Option<PathBuf>,
}

/// What a provider keeps when it stops.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) entries: BTreeMap<String, Entry>,
    /// Keys under which every charge is refused.
    banned: BTreeSet<String>,
}

impl Books {
    /// The books in a file, which need not exist yet.
    pub(super) fn open(file: &Path) -> io::Result<Self> {
        let kept = match std::fs::read(file) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { mood: Mood::default(), kept, file: Some(file.to_owned()) })
    }

    /// Charge once per key, as an idempotent provider does. `None`: charges under this key are refused.
    pub(super) fn enter(&mut self, key: &str, charge: Charge) -> Option<Receipt> {
        if self.kept.banned.contains(key) {
            return None;
        }
        let number = self.kept.entries.len() + 1;
        let entry = self.kept.entries.entry(key.to_owned()).or_insert_with(|| Entry {
            key: key.to_owned(),
            receipt: Receipt { charge: format!("ch_{number}") },
            charge,
            asked: 0,
            refund: None,
        });
        entry.asked += 1;
        let receipt = entry.receipt.clone();
        self.save();
        Some(receipt)
    }

    /// Refund what was charged under a key, once, and refuse charges under it from now on.
    pub(super) fn give_back(&mut self, key: &str) -> Option<String> {
        self.kept.banned.insert(key.to_owned());
        let refund = self.kept.entries.get_mut(key).map(|entry| {
            let number = entry.receipt.charge.trim_start_matches("ch_");
            let refund = format!("re_{number}");
            entry.refund.get_or_insert(refund).clone()
        });
        self.save();
        refund
    }

    fn save(&self) {
        if let Err(error) = self.write() {
            tracing::error!(%error, "the provider's books could not be written");
        }
    }

    /// Replaces the file as a whole, so that a process that is killed leaves the books before or after a charge.
    pub(super) fn write(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let new = file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(&self.kept)?)?;
        std::fs::rename(&new, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_in_a_file_are_those_of_the_next_provider() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("books.json");
        let charge = || Charge { cents: 1000, currency: "EUR".to_owned() };
        let mut books = Books::open(&file).expect("none yet");
        let first = books.enter("one", charge()).expect("charged");
        books.enter("two", charge());
        assert_eq!(books.give_back("two").as_deref(), Some("re_2"));
        drop(books);
        let mut books = Books::open(&file).expect("the same books");
        assert_eq!(books.enter("one", charge()), Some(first), "one charge for each key");
        assert_eq!(books.enter("two", charge()), None, "banned");
        assert_eq!(books.enter("three", charge()).map(|receipt| receipt.charge).as_deref(), Some("ch_3"));
        std::fs::write(&file, "no books").expect("written");
        assert_eq!(Books::open(&file).expect_err("damaged").kind(), io::ErrorKind::InvalidData);
    }
}
