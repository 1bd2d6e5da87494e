//! A value that a file keeps, if it has one.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

#[derive(Debug, Default)]
pub(super) struct Kept<T> {
    pub(super) value: T,
    file: Option<PathBuf>,
}

impl<T: Default + Serialize + DeserializeOwned> Kept<T> {
    /// Reads the value from a file, which need not exist yet.
    pub(super) fn open(file: &Path) -> io::Result<Self> {
        let value = match std::fs::read(file) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => T::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { value, file: Some(file.to_owned()) })
    }

    /// Replaces the file as a whole: if the process is killed, the file has the value before or
    /// after a change.
    pub(super) fn write(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let new = file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(&self.value)?)?;
        std::fs::rename(&new, file)
    }

    /// Writes the file, and logs an error.
    pub(super) fn save(&self) {
        if let Err(error) = self.write() {
            tracing::error!(%error, file = ?self.file, "a file of the sandbox could not be written");
        }
    }
}
