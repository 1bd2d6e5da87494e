//! The command on a terminal of some width: a pseudo-terminal, whose other end a test reads and types at.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};

const ROWS: u16 = 24;
/// More than any terminal here has, so that what is too wide is seen.
const WIDEST: u16 = 300;

pub(crate) struct Terminal {
    other_end: File,
    child: Child,
    shown: Vec<u8>,
    parser: vt100::Parser,
}

impl Terminal {
    /// Starts a call whose standard input and output are a terminal.
    pub(crate) fn start(command: &mut Command, columns: u16) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("cloned"));
        let child = command.stdin(end()).stdout(end()).stderr(Stdio::null()).spawn().expect("started");
        // As long as an end is open here, the other end waits for more.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let parser = vt100::Parser::new(ROWS, WIDEST, 0);
        Self { other_end: File::from(pty.master), child, shown: Vec::new(), parser }
    }

    /// How the terminal treats what is typed.
    pub(crate) fn mode(&self) -> Termios {
        tcgetattr(&self.other_end).expect("a mode")
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.other_end.write_all(keys.as_bytes()).expect("typed");
    }

    /// What its user sees.
    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Reads until its user sees a text.
    pub(crate) fn until(&mut self, text: &str) {
        while !self.screen().contents().contains(text) {
            assert!(self.read(), "{text} was not shown: {}", self.screen().contents());
        }
    }

    /// Reads all that is shown until the end.
    pub(crate) fn end(&mut self) -> (String, ExitStatus) {
        while self.read() {}
        (String::from_utf8_lossy(&self.shown).replace('\r', ""), self.child.wait().expect("ended"))
    }

    /// Reads what is there, or waits for it. `false`: it has ended.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // Linux reports an error when the last process has closed the terminal.
        let read = self.other_end.read(&mut bytes).unwrap_or_default();
        self.shown.extend(&bytes[..read]);
        self.parser.process(&bytes[..read]);
        read > 0
    }
}
