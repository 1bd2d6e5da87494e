//! The command on a terminal of some width: a pseudo-terminal, whose other end a test reads.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, ExitStatus, Stdio};

use nix::pty::{Winsize, openpty};

/// Runs a call whose standard input and output are a terminal. Returns what it shows there.
pub(crate) fn on_terminal(command: &mut Command, columns: u16) -> (String, ExitStatus) {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&size, None).expect("a terminal");
    let end = || Stdio::from(pty.slave.try_clone().expect("cloned"));
    let mut child = command.stdin(end()).stdout(end()).stderr(Stdio::null()).spawn().expect("started");
    // As long as an end is open here, the other end waits for more.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    drop(pty.slave);
    let mut shown = Vec::new();
    // Linux reports an error when the last process has closed the terminal.
    let _ = File::from(pty.master).read_to_end(&mut shown);
    let status = child.wait().expect("ended");
    (String::from_utf8_lossy(&shown).replace('\r', ""), status)
}
