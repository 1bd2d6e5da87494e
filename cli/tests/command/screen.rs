//! `locker top` on a terminal: it draws, fits, ends at once, and leaves the terminal as it was.

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::LocalFlags;
use nix::unistd::Pid;

use crate::place;
use crate::terminal::Terminal;

#[test]
fn it_fills_a_terminal_of_any_width_and_ends_at_once() {
    let place = place();
    let script = "echo the mail server answered nothing at all, and then closed the connection >&2; exit 9";
    assert_eq!(place.once("report/2026-11", &["--hold-on-failure"], script).code, 9);
    for (columns, key) in [(40, Some("q")), (80, Some("\x1b")), (120, Some("\x03")), (40, None)] {
        // It would draw again in an hour, and ends before.
        let mut command = place.command(&["top", "--every", "1h"]);
        let mut top = Terminal::start(command.env_remove("COLUMNS"), columns);
        top.until("mail server");
        let lines: Vec<_> = top.screen().contents().lines().map(str::to_owned).collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= usize::from(columns)),
            "{columns}: {lines:#?}"
        );
        let text = lines.join("\n");
        for part in ["q ends", "in progress", "inDoubt      0", "held         1"] {
            assert!(text.contains(part), "{columns}: {part}: {lines:#?}");
        }
        assert!(top.screen().alternate_screen() && top.screen().hide_cursor(), "{columns}");
        assert!(!top.mode().local_flags.contains(LocalFlags::ICANON), "keys without Enter");
        match key {
            Some(key) => top.types(key),
            None => {
                let process = Pid::from_raw(top.process().cast_signed());
                kill(process, Signal::SIGTERM).expect("SIGTERM");
            }
        }
        let (shown, status) = top.end();
        assert!(status.success(), "{columns}: {shown}");
        assert!(
            !top.screen().alternate_screen() && !top.screen().hide_cursor(),
            "the screen before, and a cursor"
        );
        assert!(top.mode().local_flags.contains(LocalFlags::ICANON), "the mode before");
    }
}
