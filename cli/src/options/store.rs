//! Where the store of a user is, if `--local` names no directory.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::connection::Where;
use crate::exit::Exit;

/// Returns the store of this user on this machine. It is the same in every working directory, so
/// that cron jobs share it.
pub(super) fn of_user() -> Result<Where, Exit> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let directory = directory(std::env::var_os("XDG_DATA_HOME"), home.or_else(home_on_record));
    let nowhere = "--local needs a home directory, and HOME is not set; use --local=DIR";
    let directory = directory.ok_or_else(|| Exit::say(Exit::SETUP, nowhere))?;
    Ok(Where::Local { directory, typed: None })
}

/// The home directory that the system knows for this user.
fn home_on_record() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.dir)
}

/// The XDG specification has relative paths ignored.
fn directory(data: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
    let data = data.map(PathBuf::from).filter(|data| data.is_absolute());
    data.or_else(|| home.map(|home| home.join(usual))).map(|data| data.join("locker"))
}
