//! Processes: where their programs are, and the signals they are sent.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

/// This program in another role.
pub(crate) fn own_role() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A program in the directory of this one.
pub(crate) fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    own.parent().expect("its directory").join(name)
}

/// Build the programs that are killed, if this one was started by cargo.
pub(crate) async fn build_others() {
    let Some(cargo) = std::env::var_os("CARGO") else { return };
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bins", "-p", "locker-functions", "-p", "locker-cli"]);
    if own_directory_is("release") {
        command.arg("--release");
    }
    let built = command.status().await.expect("cargo runs");
    assert!(built.success(), "the functions and the command could not be built");
}

fn own_directory_is(name: &str) -> bool {
    beside("").parent().is_some_and(|_| beside("").ends_with(Path::new(name)))
}

/// Send a signal to a child that has not been waited for, so that its id is still its own.
pub(crate) fn signal(pid: Option<u32>, signal: Signal) {
    if let Some(pid) = pid {
        let _ = kill(Pid::from_raw(i32::try_from(pid).expect("an id")), signal);
    }
}
