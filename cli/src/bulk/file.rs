//! The file of a plan, and the file of its results beside it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use locker::operator::{Acted, Plan};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::exit::Exit;
use crate::output;

/// What a failure of the machine takes of the results, at most. The tables have what was done in
/// any case.
const SYNC_EVERY: Duration = Duration::from_secs(1);

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
        let text = output::escaped(&text);
        writeln!(file, "{text}").and_then(|()| file.sync_all()).map_err(|error| cannot("write", path, error))
    }

    pub(super) fn read(path: &Path) -> Result<Self, Exit> {
        let text = std::fs::read_to_string(path).map_err(|error| cannot("read", path, error))?;
        serde_json::from_str(&text).map_err(|error| {
            let why = format!("{error}; make the plan again with `locker plan`");
            Exit::say(Exit::USAGE, format!("{} is no plan: {why}", path.display()))
        })
    }
}

/// A line for each result, as it becomes known.
pub(super) struct Results {
    path: PathBuf,
    file: File,
    plan: String,
    /// The last result of each record that the file has.
    told: HashMap<String, Value>,
    synced: Instant,
}

impl Results {
    pub(super) fn beside(path: &Path, plan: &Plan) -> Result<Self, Exit> {
        let mut path = path.as_os_str().to_owned();
        path.push(".results");
        let path = PathBuf::from(path);
        let file = OpenOptions::new().create(true).read(true).append(true).open(&path);
        let mut file = file.map_err(|error| cannot("write", &path, error))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| cannot("read", &path, error))?;
        if text.last().is_some_and(|last| *last != b'\n') {
            // A crash cut the last line off. The next record is not to be a part of it.
            file.write_all(b"\n").map_err(|error| cannot("write", &path, error))?;
        }
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let lines = lines.filter(|line| line["plan"] == plan.id);
        let told = lines.map(|line| (line["work"].to_string(), line["done"].clone())).collect();
        Ok(Self { path, file, plan: plan.id.clone(), told, synced: Instant::now() })
    }

    /// Adds a result, unless the file ends with the same for this record.
    pub(super) fn add(&mut self, outcome: &Acted) -> Result<(), Exit> {
        let mut line = json!(outcome);
        let (work, done) = (line["work"].to_string(), line["done"].clone());
        if self.told.get(&work) == Some(&done) {
            return Ok(());
        }
        line["plan"] = json!(self.plan);
        line["at"] = json!(output::time(output::now()));
        // In one write, so that no other process writes into it.
        let line = output::escaped(&line.to_string());
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| cannot("write", &self.path, error))?;
        self.told.insert(work, done);
        if self.synced.elapsed() >= SYNC_EVERY { self.sync() } else { Ok(()) }
    }

    pub(super) fn sync(&mut self) -> Result<(), Exit> {
        self.synced = Instant::now();
        self.file.sync_data().map_err(|error| cannot("write", &self.path, error))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
