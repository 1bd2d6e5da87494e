//! Opening the file of an engine.

use std::path::{Path, PathBuf};

use dynoxide::{Database, DynoxideError};

/// An embedded DynamoDB could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The engine names files by text.
    #[error("the path {} is not UTF-8; choose another", .0.display())]
    Path(PathBuf),
    /// The file or its directory cannot be used.
    #[error("{} cannot be used: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
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

/// Opens the file, or creates it for its user alone.
///
/// SQLite gives the files beside it the same permissions.
pub(crate) fn open(file: &Path) -> Result<Database, OpenError> {
    let name = file.to_str().ok_or_else(|| OpenError::Path(file.to_owned()))?;
    make_private(file).map_err(|source| OpenError::File { file: file.to_owned(), source })?;
    Database::new(name).map_err(|error| refused(file, &error))
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
fn make_private(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

    const OWNER_ONLY: u32 = 0o700;
    let create = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    match create {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        created => return created.map(drop),
    }
    let mode = std::fs::metadata(file)?.permissions().mode();
    if mode & !OWNER_ONLY & 0o777 != 0 {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode & OWNER_ONLY))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> std::io::Result<()> {
    Ok(())
}
