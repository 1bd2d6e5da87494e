//! A full screen on a terminal. However it ends, the terminal is as it was before.

use std::io::{self, IsTerminal as _, stdin, stdout};

use crossterm::event::{Event, EventStream, KeyCode, KeyModifiers};
use futures_util::StreamExt as _;
use ratatui::DefaultTerminal;
use ratatui::widgets::Paragraph;

pub(crate) struct Screen {
    terminal: DefaultTerminal,
    events: EventStream,
}

/// What its user did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// Typed q, Esc or Ctrl-C, or closed the terminal.
    Leave,
    /// Made the terminal larger or smaller.
    Resize,
}

impl Screen {
    /// `None`: standard input or output is no terminal.
    pub(crate) fn open() -> io::Result<Option<Self>> {
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            return Ok(None);
        }
        // Its hook restores the terminal before a panic is printed.
        let terminal = ratatui::try_init().inspect_err(|_| restore())?;
        Ok(Some(Self { terminal, events: EventStream::new() }))
    }

    /// Draws a text from the top. What has no room is cut.
    ///
    /// # Errors
    ///
    /// If the terminal has gone.
    pub(crate) fn draw(&mut self, text: &str) -> io::Result<()> {
        self.terminal.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area())).map(|_| ())
    }

    /// Waits for what its user does that matters here.
    pub(crate) async fn event(&mut self) -> Did {
        loop {
            match self.events.next().await {
                Some(Ok(Event::Key(key))) => {
                    let is_interrupt =
                        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                    if is_interrupt || [KeyCode::Char('q'), KeyCode::Esc].contains(&key.code) {
                        return Did::Leave;
                    }
                }
                Some(Ok(Event::Resize(..))) => return Did::Resize,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Did::Leave,
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // After a panic that was done, and would move the cursor back over what was printed.
        if !std::thread::panicking() {
            restore();
        }
    }
}

fn restore() {
    // A terminal that has gone needs nothing.
    let _ = ratatui::try_restore();
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use nix::pty::openpty;

    use super::*;

    /// Set in the process that has a terminal.
    const PANICS: &str = "PANICS_ON_A_TERMINAL";

    #[test]
    fn a_panic_is_printed_on_the_terminal_as_it_was_before() {
        if std::env::var_os(PANICS).is_some() {
            let mut screen = Screen::open().expect("opened").expect("a terminal");
            screen.draw("a frame").expect("drawn");
            panic!("odd on purpose");
        }
        let size = nix::pty::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("cloned"));
        let this =
            ["--exact", "screen::tests::a_panic_is_printed_on_the_terminal_as_it_was_before", "--nocapture"];
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        let mut child = command
            .args(this)
            .env(PANICS, "1")
            .env("RUST_BACKTRACE", "0")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("started");
        drop((command, pty.slave));
        let (mut other_end, mut parser, mut bytes) =
            (File::from(pty.master), vt100::Parser::new(24, 80, 0), [0; 4096]);
        // Linux reports an error when the last process has closed the terminal.
        while let Some(read) = other_end.read(&mut bytes).ok().filter(|read| *read > 0) {
            parser.process(&bytes[..read]);
        }
        assert!(!child.wait().expect("ended").success());
        let screen = parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        assert!(screen.contents().contains("odd on purpose"), "{}", screen.contents());
        assert!(!screen.contents().contains("a frame"), "{}", screen.contents());
    }
}
