//! Opening the file of an engine.

use std::io;
use std::path::{Path, PathBuf};

use dynoxide::{Database, DynoxideError};

#[cfg(unix)]
use crate::private::exposed;

/// An embedded DynamoDB could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path is not UTF-8. The engine accepts only UTF-8 paths.
    #[error("the path {} is not UTF-8; choose another", .0.display())]
    Path(PathBuf),
    /// The file or its directory cannot be used.
    #[error("{} cannot be used: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A user other than the owner of the file and root may write the file or a directory above it.
    /// Nothing was changed. The text names the path, the users, and what to do.
    #[error("{0}")]
    Exposed(String),
    /// The file is damaged, or belongs to another program. Nothing in it was changed.
    #[error(
        "{} holds no embedded tables: it is damaged, or another program made it; nothing in it was changed; \
         restore it from a copy, or move it away to start with empty tables",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The engine refuses to start.
    #[error("the engine cannot start: {0}")]
    Engine(String),
}

/// Opens the file, or creates it and its directory for their user alone.
pub(crate) fn open(file: &Path) -> Result<Database, OpenError> {
    let name = file.to_str().ok_or_else(|| OpenError::Path(file.to_owned()))?;
    let unusable = |source| OpenError::File { file: file.to_owned(), source };
    refuse_exposed(file)?;
    create(file).map_err(unusable)?;
    // Another user may have made the directory before this process did.
    refuse_exposed(file)?;
    let database = Database::new(name).map_err(|error| refused(file, &error))?;
    make_private(file).map_err(unusable)?;
    Ok(database)
}

/// The file is not opened to look at it: to close it again would end the locks that this process
/// has on it.
fn refused(file: &Path, error: &DynoxideError) -> OpenError {
    let said = error.to_string();
    // The engine finds this when it reads the first page, before it writes.
    if said.contains("not a valid SQLite database") {
        return OpenError::Foreign(file.to_owned());
    }
    OpenError::Engine(said)
}

#[cfg(unix)]
fn refuse_exposed(file: &Path) -> Result<(), OpenError> {
    match exposed(file) {
        Ok(None) => Ok(()),
        Ok(Some(exposed)) => Err(OpenError::Exposed(exposed.to_string())),
        Err(source) => Err(OpenError::File { file: file.to_owned(), source }),
    }
}

#[cfg(not(unix))]
fn refuse_exposed(_: &Path) -> Result<(), OpenError> {
    Ok(())
}

/// Creates the file and its directory if they are missing. Refuses a link: the engine would write
/// to another file.
fn create(file: &Path) -> io::Result<()> {
    let mut directory = std::fs::DirBuilder::new();
    directory.recursive(true);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

        directory.mode(0o700);
        options.mode(0o600);
    }
    if let Some(above) = file.parent().filter(|above| !above.as_os_str().is_empty()) {
        directory.create(above)?;
    }
    match options.open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created.map(drop),
    }
    let found = std::fs::symlink_metadata(file)?;
    if found.is_symlink() {
        return Err(io::Error::other("it is a link; name the directory of the file that it points to"));
    }
    if found.is_file() { Ok(()) } else { Err(io::Error::other("it is no file")) }
}

/// Removes the permissions of other users from the file and from the log of SQLite. Called only for
/// a file that the engine has opened: a file of another program keeps its mode.
#[cfg(unix)]
fn make_private(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    const OWNER_ONLY: u32 = 0o700;
    for ending in ["", "-wal", "-shm"] {
        let mut path = file.as_os_str().to_owned();
        path.push(ending);
        let path = PathBuf::from(path);
        let found = match std::fs::symlink_metadata(&path) {
            // SQLite deletes its log when the last process closes the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        let mode = found.permissions().mode();
        if found.is_file() && mode & !OWNER_ONLY & 0o777 != 0 {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode & OWNER_ONLY))?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}
