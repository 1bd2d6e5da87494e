//! The command on a terminal of some width: a pseudo-terminal, whose other end a test reads.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ROWS: u16 = 24;

pub(crate) struct Terminal {
    other_end: File,
    child: Child,
    shown: Vec<u8>,
}

impl Terminal {
    /// Starts a call whose standard input and output are a terminal.
    pub(crate) fn start(command: &mut Command, columns: u16) -> Self {
        Self::open(command, columns, false)
    }

    /// Starts a call whose standard error is the terminal, too.
    pub(crate) fn start_with_errors(command: &mut Command, columns: u16) -> Self {
        Self::open(command, columns, true)
    }

    fn open(command: &mut Command, columns: u16, with_errors: bool) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("cloned"));
        let errors = if with_errors { end() } else { Stdio::null() };
        let child = command.stdin(end()).stdout(end()).stderr(errors).spawn().expect("started");
        // As long as an end is open here, the other end waits for more.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { other_end: File::from(pty.master), child, shown: Vec::new() }
    }

    /// Interrupts the call, as Ctrl-C does on its controlling terminal.
    pub(crate) fn interrupt(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).expect("Ctrl-C");
    }

    /// What was printed so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).replace('\r', "")
    }

    /// Reads until a text was printed so many times.
    pub(crate) fn until(&mut self, text: &str, times: usize) {
        while self.shown().matches(text).count() < times {
            assert!(self.read(), "{text} was not printed: {}", self.shown());
        }
    }

    /// Reads all that is shown until the end.
    pub(crate) fn end(&mut self) -> (String, ExitStatus) {
        while self.read() {}
        (self.shown(), self.child.wait().expect("ended"))
    }

    /// Reads what is there, or waits for it. `false`: it has ended.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // Linux reports an error when the last process has closed the terminal.
        let read = self.other_end.read(&mut bytes).unwrap_or_default();
        self.shown.extend(&bytes[..read]);
        read > 0
    }
}
