//! The file of a plan, and the file of its results next to it.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
#[cfg(feature = "console")]
use std::io::ErrorKind;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use locker::operator::{Acted, ApplyOptions, Plan};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::output;

/// The results of at most this time are lost if the machine fails. The tables contain every act
/// that was done.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How long the plan of a dry run is kept.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The mode of a plan that only its user can read.
const PRIVATE: u32 = 0o600;

/// A plan, its tables, and the options of its application.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) place: String,
    /// The shards of the index that were read.
    pub(crate) shards: u16,
    pub(crate) limit: usize,
    pub(crate) options: ApplyOptions,
    pub(crate) plan: Plan,
}

/// The directory of the plans of dry runs. Only its user can read it.
pub(crate) struct Store(PathBuf);

impl Store {
    /// `$XDG_STATE_HOME/locker/plans`, or `~/.local/state/locker/plans`.
    pub(crate) fn of_user() -> Result<Self, Exit> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
        let none = "there is no place for the plan: set HOME or XDG_STATE_HOME, or name a file with `locker plan --out FILE`";
        let directory = state.ok_or_else(|| Exit::say(Exit::SETUP, none))?.join("locker/plans");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|error| cannot("make", &directory, error))?;
        is_own(&directory)?;
        Ok(Self(directory))
    }

    /// Reads the plan of a dry run of this user.
    pub(crate) fn read(&self, id: &str) -> Result<(PathBuf, Kept), Exit> {
        let path = self.path(id)?;
        if !path.exists() {
            let said = format!("no dry run of yours has the id {id}; run the command without --seen");
            return Err(Exit::say(Exit::CHANGED, said));
        }
        is_own(&path)?;
        let kept = Kept::read(&path)?;
        Ok((path, kept))
    }

    /// The file of the plan with this id.
    pub(crate) fn path(&self, id: &str) -> Result<PathBuf, Exit> {
        if id.len() != 8 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let said = format!(
                "{id:?} is no id of a dry run: it has 8 hexadecimal digits; run the command without --seen"
            );
            return Err(Exit::say(Exit::USAGE, said));
        }
        Ok(self.0.join(format!("{id}.json")))
    }

    /// Removes old plans and their results. The audit still contains the acts.
    pub(super) fn remove_old(&self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let age = modified.and_then(|at| at.elapsed().ok()).unwrap_or_default();
            if age > KEPT_FOR {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

fn cannot(what: &str, path: &Path, error: impl std::fmt::Display) -> Exit {
    Exit::say(Exit::SETUP, format!("cannot {what} {}: {error}", path.display()))
}

/// Refuses a directory or a file that another user may have written.
fn is_own(path: &Path) -> Result<(), Exit> {
    let found = std::fs::symlink_metadata(path).map_err(|error| cannot("read", path, error))?;
    let is_own = found.uid() == nix::unistd::geteuid().as_raw() && !found.is_symlink();
    if is_own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let said = format!(
        "{} belongs to another user, or other users may write it; remove it, and run the command without --seen",
        path.display()
    );
    Err(Exit::say(Exit::SETUP, said))
}

impl Kept {
    pub(super) fn new(connection: &Connection, limit: usize, options: ApplyOptions, plan: Plan) -> Self {
        let (place, shards) = (connection.place.clone(), connection.settings.shards);
        Self { place, shards, limit, options, plan }
    }

    /// Stores the plan of a dry run under its id, and removes old plans.
    pub(crate) fn keep(&self) -> Result<(), Exit> {
        let store = Store::of_user()?;
        store.remove_old();
        self.write(&store.path(&self.plan.id)?, PRIVATE)
    }

    /// Refuses a plan for other tables, or for another number of shards.
    pub(crate) fn is_for(&self, connection: &Connection) -> Result<(), Exit> {
        let (place, shards) = (&connection.place, connection.settings.shards);
        let differs = if self.place != *place {
            format!("the plan is for {}, and this is {place}", self.place)
        } else if self.shards != shards {
            format!("the plan was made with --shards {}, and this is --shards {shards}", self.shards)
        } else {
            return Ok(());
        };
        Err(Exit::say(Exit::USAGE, format!("{differs}; nothing was changed")))
    }

    /// Writes a new file. An existing file is not replaced, because it may be another plan.
    pub(super) fn write(&self, path: &Path, mode: u32) -> Result<(), Exit> {
        let text = serde_json::to_string_pretty(self).map_err(|error| cannot("write", path, error))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
        let mut file = file.map_err(|error| cannot("make", path, error))?;
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

fn path_of_results(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".results");
    PathBuf::from(path)
}

/// The last result of each record that the lines of a file have.
fn told(text: &[u8], plan: &Plan) -> HashMap<String, Value> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let lines = lines.filter(|line| line["plan"] == plan.id);
    lines.map(|line| (line["work"].to_string(), line["done"].clone())).collect()
}

/// The number of records of a stored plan that have a result in the file next to it.
#[cfg(feature = "console")]
pub(crate) fn results(path: &Path, plan: &Plan) -> Result<usize, Exit> {
    let path = path_of_results(path);
    match std::fs::read(&path) {
        Ok(text) => Ok(told(&text, plan).len()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(cannot("read", &path, error)),
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
        let path = path_of_results(path);
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(&path);
        let mut file = file.map_err(|error| cannot("write", &path, error))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| cannot("read", &path, error))?;
        if text.last().is_some_and(|last| *last != b'\n') {
            // A crash cut the last line off. The next record is not to be a part of it.
            file.write_all(b"\n").map_err(|error| cannot("write", &path, error))?;
        }
        let told = told(&text, plan);
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
