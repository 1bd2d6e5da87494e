//! The workflow that a verb is about.

use clap::Args;
use locker::Key;
use locker::workflow::{View, Workflows};

use crate::exit::Exit;

/// Which workflow.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Key of the workflow.
    key: String,

    /// Version of the key.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) key_version: u32,
}

impl Which {
    pub(super) fn key(&self) -> Result<Key, Exit> {
        Key::existing(&self.key).map_err(|error| locker::Error::from(error).into())
    }

    /// The workflow as the command line names it.
    pub(super) fn said(&self) -> String {
        let version = (self.key_version > 1).then(|| format!(" --key-version {}", self.key_version));
        format!("{}{}", self.key, version.unwrap_or_default())
    }

    /// Reads the workflow as it is now. `None` if there is none.
    pub(super) async fn find(&self, workflows: &Workflows) -> Result<Option<View>, Exit> {
        Ok(workflows.get(self.key()?, self.key_version).await?)
    }

    /// Reads the workflow as it is now. An error if there is none.
    pub(super) async fn read(&self, workflows: &Workflows) -> Result<View, Exit> {
        self.find(workflows).await?.ok_or_else(|| self.absent())
    }

    /// The workflow as it is stored.
    pub(super) fn stored(&self) -> Result<String, Exit> {
        let key = self.key()?;
        let version = (self.key_version > 1).then(|| format!(" v{}", self.key_version));
        Ok(format!("{}{}", key.as_str(), version.unwrap_or_default()))
    }

    pub(super) fn absent(&self) -> Exit {
        let said = self.said();
        let unknown =
            format!("there is no workflow {said}; `locker ls workflows` lists unfinished workflows");
        Exit::say(Exit::NOT_FOUND, unknown)
    }
}
