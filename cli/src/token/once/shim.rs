//! A process that waits to become the command, so that a token names its command before that runs.
//!
//! `locker once` starts this program again as `__exec GO STATUS COMMAND...`. It writes `r` to the
//! pipe STATUS, waits for a byte from the pipe GO, and then becomes the command. If it cannot, it
//! writes the error's number to STATUS. If GO is closed without a byte, because the token was not
//! acquired or `locker once` was killed, it ends.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use nix::unistd::{close, dup};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

use crate::exit::Exit;

const VERB: &str = "__exec";
const READY: &str = "r";

/// A process that waits to become the command. Dropped, it ends without having run anything.
pub(super) struct Waiting {
    child: Child,
    go: PipeWriter,
    status: Receiver,
}

/// How the command is started.
pub(super) struct Start<'a> {
    pub(super) command: &'a [OsString],
    pub(super) stdout: Stdio,
    pub(super) stderr: Stdio,
    /// Whether it gets a separate process group, which can be signalled as a whole.
    pub(super) own_group: bool,
}

impl Waiting {
    pub(super) fn start(start: Start<'_>) -> io::Result<Self> {
        let (waits, go) = io::pipe()?;
        let (status, says) = io::pipe()?;
        // Copies that are not closed when this process starts another.
        let (waits, says) = (dup(waits)?, dup(says)?);
        // `/proc/self/exe` is this executable, even if another file has replaced it on disk.
        let this = OsStr::new("/proc/self/exe");
        let this = if cfg!(target_os = "linux") { this.to_owned() } else { std::env::current_exe()?.into() };
        let mut command = Command::new(this);
        command.arg0("locker").arg(VERB).arg(waits.as_raw_fd().to_string()).arg(says.as_raw_fd().to_string());
        command.args(start.command).stdout(start.stdout).stderr(start.stderr);
        if start.own_group {
            command.process_group(0);
        }
        let child = command.spawn()?;
        Ok(Self { child, go, status: Receiver::from_owned_fd(OwnedFd::from(status))? })
    }

    /// The process that will be the command.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Lets it become the command. An error means that the command did not start.
    pub(super) async fn go(self) -> io::Result<Child> {
        let Self { child, mut go, mut status } = self;
        // If the process has ended, the write fails and the read of its status below finds the
        // reason.
        let _ = go.write_all(b"g");
        drop(go);
        let mut said = String::new();
        status.read_to_string(&mut said).await?;
        match said.strip_prefix(READY).map(str::parse) {
            Some(Ok(number)) => Err(Error::from_raw_os_error(number)),
            // The pipe was closed because the process became the command, or because it was killed.
            // The pipe does not show which.
            Some(Err(_)) => Ok(child),
            None => Err(Error::new(ErrorKind::BrokenPipe, "the process that waits to become it ended")),
        }
    }
}

/// The arguments of this process, if it was started to wait.
pub(crate) fn arguments() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == VERB).then(|| arguments.collect())
}

/// Waits, and becomes the command. Returns only if there is nothing to become.
pub(crate) fn wait_and_become(arguments: &[OsString]) -> Exit {
    let [go, status, command @ ..] = arguments else { return unusable() };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<RawFd>().ok());
    let (Some(go), Some(status)) = (number(go), number(status)) else { return unusable() };
    let opened = (
        File::open(format!("/dev/fd/{go}")),
        OpenOptions::new().write(true).open(format!("/dev/fd/{status}")),
    );
    // The command must not inherit these descriptors. The files opened above are closed when it
    // begins.
    let _ = (close(go), close(status));
    let ((Ok(mut go), Ok(mut status)), Some((program, arguments))) = (opened, command.split_first()) else {
        return unusable();
    };
    if status.write_all(READY.as_bytes()).is_err() || go.read_exact(&mut [0]).is_err() {
        return Exit::quiet(Exit::FAILED);
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    let _ = write!(status, "{}", error.raw_os_error().unwrap_or(0));
    Exit::quiet(Exit::FAILED)
}

fn unusable() -> Exit {
    Exit::say(Exit::USAGE, format!("{VERB} is how `locker once` starts a command; it is not for use by hand"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test cannot be started as `__exec`, so a shell stands for the process that waits.
    fn waiting(script: &str) -> Waiting {
        let (waits, go) = io::pipe().unwrap();
        let (status, says) = io::pipe().unwrap();
        let mut command = Command::new("sh");
        let child = command.args(["-c", script]).stdin(waits).stdout(says).spawn().unwrap();
        drop(command);
        Waiting { child, go, status: Receiver::from_owned_fd(OwnedFd::from(status)).unwrap() }
    }

    #[tokio::test]
    async fn only_what_said_so_has_started() {
        let started = waiting("printf r; head -c 1 > /dev/null; exec >&-; exit 7").go().await;
        assert_eq!(started.unwrap().wait().await.unwrap().code(), Some(7));
        let absent = waiting("printf r; head -c 1 > /dev/null; printf 2").go().await;
        assert_eq!(absent.unwrap_err().kind(), ErrorKind::NotFound);
        let killed = waiting("exit 1").go().await;
        assert_eq!(killed.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
