//! The file of a plan, and the file of its results beside it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use locker::bulk::{Acted, Plan};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::exit::Exit;
use crate::output;

/// A plan, and the tables that it is for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) place: String,
    pub(super) plan: Plan,
}

fn cannot(what: &str, path: &Path, error: impl std::fmt::Display) -> Exit {
    Exit::say(Exit::SETUP, format!("cannot {what} {}: {error}", path.display()))
}

impl Kept {
    /// Writes a new file. One that exists is another plan, and stays.
    pub(super) fn write(&self, path: &Path) -> Result<(), Exit> {
        let text = serde_json::to_string_pretty(self).map_err(|error| cannot("write", path, error))?;
        let mut file = File::create_new(path).map_err(|error| cannot("make", path, error))?;
        writeln!(file, "{text}").and_then(|()| file.sync_all()).map_err(|error| cannot("write", path, error))
    }

    pub(super) fn read(path: &Path) -> Result<Self, Exit> {
        let text = std::fs::read_to_string(path).map_err(|error| cannot("read", path, error))?;
        serde_json::from_str(&text).map_err(|error| {
            let why = format!("{error}; make the plan anew with `locker plan`");
            Exit::say(Exit::USAGE, format!("{} is no plan: {why}", path.display()))
        })
    }
}

/// A line for each result, as it becomes known.
pub(super) struct Results {
    path: PathBuf,
    file: File,
}

impl Results {
    pub(super) fn beside(plan: &Path) -> Result<Self, Exit> {
        let mut path = plan.as_os_str().to_owned();
        path.push(".results");
        let path = PathBuf::from(path);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| cannot("write", &path, error))?;
        Ok(Self { path, file })
    }

    pub(super) fn add(&mut self, outcome: &Acted) -> Result<(), Exit> {
        let mut line = json!(outcome);
        line["at"] = json!(output::time(output::now()));
        writeln!(self.file, "{line}").map_err(|error| cannot("write", &self.path, error))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
