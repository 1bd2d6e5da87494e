//! The files of `dev` next to the tables: the books of its provider, its queue, and a lock.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use locker_cli::{Connection, Exit};
use locker_functions::sandbox::{Queue, Sandbox};

use crate::rows;

/// The provider of a store, for as long as no other `dev` serves it.
pub(crate) struct Store {
    pub(crate) provider: Sandbox,
    pub(crate) queue: Queue,
    /// Unlocked when it is closed. A table of DynamoDB has none.
    lock: Option<File>,
}

impl Store {
    /// Opens the books of the store, and keeps any other `dev` from it: two would have two books.
    ///
    /// A table of DynamoDB may have users elsewhere, so it has no lock, is never emptied, and its
    /// books are in memory.
    pub(crate) async fn open(connection: &Connection, orders_table: &str, fresh: bool) -> Result<Self, Exit> {
        let Some(directory) = &connection.directory else {
            if fresh {
                let said = "--fresh is for a store on this machine; a table of DynamoDB is never emptied";
                return Err(Exit::say(Exit::USAGE, said));
            }
            return Ok(Self { provider: Sandbox::default(), queue: Queue::default(), lock: None });
        };
        let lock = lock(directory)?;
        let (books, queue) = (directory.join("books.json"), directory.join("queue.json"));
        if fresh {
            empty(connection, orders_table, [&books, &queue]).await?;
        }
        let unreadable = |file: &Path, error: std::io::Error| {
            let advice = "move the file away, or begin again with --fresh";
            Exit::say(Exit::SETUP, format!("cannot read {}: {error}; {advice}", file.display()))
        };
        let provider = Sandbox::open(&books).map_err(|error| unreadable(&books, error))?;
        provider.save().map_err(|error| cannot("write", &books, &error))?;
        let queue = Queue::open(&queue).map_err(|error| unreadable(&queue, error))?;
        Ok(Self { provider, queue, lock: Some(lock) })
    }

    /// Writes down where it serves, for a second `dev`.
    pub(crate) fn serves_at(&mut self, address: &str) -> Result<(), Exit> {
        let Some(lock) = &mut self.lock else { return Ok(()) };
        let said = format!("process {}, at {address}", std::process::id());
        let written =
            lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| lock.write_all(said.as_bytes()));
        written.map_err(|error| Exit::say(Exit::FAILED, format!("cannot write the lock: {error}")))
    }
}

fn lock(directory: &Path) -> Result<File, Exit> {
    let path = directory.join("dev.lock");
    let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(|error| cannot("open", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = if holder.is_empty() { "a process that is starting" } else { &holder };
            let said = format!(
                "another `dev` serves the store in {}: {holder}; stop it, or name another store with --local=DIR",
                directory.display()
            );
            Err(Exit::say(Exit::SETUP, said))
        }
        Err(TryLockError::Error(error)) => Err(cannot("lock", &path, &error)),
    }
}

/// Empties the tables and the provider's records. Only in a store that `dev` has served, or that is
/// empty: another store may contain data that its user wants to keep.
async fn empty(connection: &Connection, orders_table: &str, files: [&PathBuf; 2]) -> Result<(), Exit> {
    let client = &connection.client;
    let failed = |error: &dyn std::error::Error| {
        Exit::say(Exit::FAILED, format!("cannot empty the tables in {}: {error}", connection.place))
    };
    let [books, _] = files;
    if !books.exists() {
        let scan = client.scan().table_name(&connection.table).limit(1).send().await;
        if scan.map_err(|error| failed(&error))?.count() > 0 {
            let said = format!(
                "the store in {} has tokens that are not of `dev`; --fresh empties only a store of `dev`",
                connection.place
            );
            return Err(Exit::say(Exit::CHANGED, said));
        }
    }
    let workflows = connection.workflows_table()?;
    rows::create(client, orders_table).await?;
    for table in [&connection.table, workflows, orders_table] {
        client.delete_table().table_name(table).send().await.map_err(|error| failed(&error))?;
    }
    locker::create_table(client, &connection.table).await?;
    locker::workflow::create_table(client, workflows).await?;
    rows::create(client, orders_table).await?;
    for file in files {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot("remove", file, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn cannot(what: &str, file: &Path, error: &std::io::Error) -> Exit {
    Exit::say(Exit::SETUP, format!("cannot {what} {}: {error}", file.display()))
}
