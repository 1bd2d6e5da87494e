//! The process of a command, as the owner of its token names it:
//! `ada@web1/4711 (started 12345678.1a2b3c4d.effffffc, locker 4710)`.
//!
//! The text after `started` contains the start of the process in ticks since the machine started,
//! the start of the machine, and the namespace of the process number. Two processes are the same
//! only if all three are equal.

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::output;

/// The owner of a token whose command is this process. A name of the user's own is given the
/// machine.
pub(super) fn owner(name: Option<&str>, pid: u32) -> String {
    let user = output::operator();
    let who = match name {
        None => user,
        Some(name) => format!("{name} on {}", user.rsplit('@').next().unwrap_or_default()),
    };
    let started = match (i32::try_from(pid).ok().and_then(start_of), machine()) {
        (Some(Stat { start, .. }), Some(machine)) => format!("started {start}.{machine}, "),
        _ => String::new(),
    };
    format!("{who}/{pid} ({started}locker {})", std::process::id())
}

/// Whether the command of a token's owner is running: `None` if that cannot be known here, such as
/// for a command on another machine.
pub(crate) fn alive(locked_by: &str) -> Option<bool> {
    let (pid, stamp) = read(locked_by)?;
    let (start, machine_then) = stamp.split_once('.')?;
    if machine()? != machine_then {
        return None;
    }
    match start_of(pid) {
        Some(now) => Some(now.start.to_string() == start && !now.has_ended),
        // It may be there and not be shown to this user.
        None => {
            kill(Pid::from_raw(pid), None).is_err_and(|error| error == nix::Error::ESRCH).then_some(false)
        }
    }
}

/// The number of the process of a command, as the owner of its token names it.
pub(crate) fn number(locked_by: &str) -> Option<i32> {
    read(locked_by).map(|(pid, _)| pid)
}

fn read(locked_by: &str) -> Option<(i32, &str)> {
    let (who, details) = locked_by.strip_suffix(')')?.rsplit_once(" (started ")?;
    Some((who.rsplit_once('/')?.1.parse().ok()?, details.split_once(", locker ")?.0))
}

/// The status of a process in the system.
struct Stat {
    /// In ticks since the machine started.
    start: u64,
    has_ended: bool,
}

/// Fields 3 and 22 of `/proc/PID/stat`. The name in field 2 may have any character.
fn start_of(pid: i32) -> Option<Stat> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X" | "x");
    Some(Stat { start: fields.nth(18)?.parse().ok()?, has_ended })
}

/// This start of this machine, and the namespace of its process numbers.
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let number = namespace.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse::<u64>().ok()?;
    Some(format!("{}.{number:x}", boot.get(..8)?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let mut process = Command::new("sleep").arg("300").spawn().unwrap();
        let owner = owner(None, process.id());
        assert!(owner.len() < 200 && !owner.chars().any(char::is_control), "{owner}");
        assert_eq!(alive(&owner), Some(true), "{owner}");
        assert_eq!(number(&owner), Some(process.id().cast_signed()));
        assert_eq!(alive(&super::owner(Some("cron@one/2 (daily)"), process.id())), Some(true));
        // The number of a process that began at another time.
        let start = start_of(process.id().cast_signed()).unwrap().start;
        let reused = owner.replace(&format!("started {start}."), &format!("started {}.", start + 1));
        assert_ne!(reused, owner);
        assert_eq!(alive(&reused), Some(false));
        process.kill().unwrap();
        // It has ended, and is not reaped.
        until(|| alive(&owner) == Some(false));
        process.wait().unwrap();
        assert_eq!(alive(&owner), Some(false));
    }

    #[test]
    fn nothing_is_said_of_another_machine_or_another_owner() {
        let here = owner(None, std::process::id());
        let machine = machine().unwrap();
        assert_eq!(alive(&here), Some(true));
        assert_eq!(alive(&here.replace(&machine, "00000000.effffffc")), None);
        for other in ["", "ada@web1/4711", "orders/3f2a", "a/b (started 1, locker 2)", "a/1 (locker 2)", ")"]
        {
            assert_eq!(alive(other), None, "{other}");
        }
    }

    fn until(condition: impl Fn() -> bool) {
        let waited = (0..3000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            condition()
        });
        assert!(waited, "waited in vain");
    }
}
