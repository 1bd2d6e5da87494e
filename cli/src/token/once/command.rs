//! The command while it runs: its output, its end, and the signals for it.

use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;

use super::answer::Answer;
use super::failure::{Failed, OnFailure, class_of, code};
use super::pass::{End, Start, pass};
use super::shim::{self, Waiting};
use super::stops::{Stops, Terminal, listen_for_ends};
use crate::output;

/// How much of standard error is kept.
const STDERR: usize = 2048;

/// What is kept of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing: the command writes to where this process writes.
    Nothing,
    /// The first bytes of standard output, and the end of standard error.
    AtMost(usize),
}

/// A command that waits to be run.
pub(super) struct Prepared {
    waiting: Waiting,
    terminal: Terminal,
    kept: Kept,
}

impl Prepared {
    /// Starts the process that will be the command.
    pub(super) fn new(command: &[std::ffi::OsString], kept: Kept) -> std::io::Result<Self> {
        listen_for_ends();
        let terminal = Terminal::of_this_process();
        let is_kept = kept != Kept::Nothing;
        // A command whose errors go to a terminal keeps the terminal, with its colours and
        // progress.
        let is_stderr_kept = is_kept && !std::io::stderr().is_terminal();
        let to = |is_kept| if is_kept { Stdio::piped() } else { Stdio::inherit() };
        // A group of its own could not read from the terminal.
        let start = shim::Start {
            command,
            stdout: to(is_kept),
            stderr: to(is_stderr_kept),
            own_group: !terminal.exists(),
        };
        Ok(Self { waiting: Waiting::start(start)?, terminal, kept })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.waiting.pid()
    }

    /// Runs the command to its end. Its output is passed on while it runs, and kept. `total` gets
    /// the length of its output.
    pub(super) async fn run(
        self,
        program: &std::ffi::OsStr,
        on_failure: OnFailure,
        total: &std::cell::Cell<u64>,
    ) -> Result<Answer, Failed> {
        let Self { waiting, terminal, kept } = self;
        // Listen first: a signal that arrives while the command starts must not end this process.
        let mut stops = Stops::listen();
        let mut running = match waiting.go().await {
            Ok(child) => Running { child, is_group: !terminal.exists() },
            Err(error) => {
                output::say(format_args!("cannot start {}: {error}", program.display()));
                return Err(Failed::to_start(&error));
            }
        };
        let mut stdout = Start::of(if let Kept::AtMost(most) = kept { most } else { 0 });
        let mut stderr = End::of(STDERR);
        let (from, errors) = (running.child.stdout.take(), running.child.stderr.take());
        let ended = {
            let passing = async {
                let stdout = pass(from, tokio::io::stdout(), &mut stdout);
                tokio::join!(stdout, pass(errors, tokio::io::stderr(), &mut stderr))
            };
            running.follow(passing, &mut stops, &terminal).await
        };
        total.set(stdout.total);
        let status = match ended.status {
            Ok(status) => status,
            Err(error) => return Err(Failed::of_unknown_end(&error)),
        };
        let exit = code(status);
        let (length, is_cut) = (stdout.bytes.len(), stdout.is_cut());
        let mut answer = Answer::of(exit, stdout.bytes);
        if is_cut {
            answer = answer.cut(length, total.get());
        } else if kept == Kept::Nothing {
            answer.note = Some("its output was not kept".to_owned());
        }
        match class_of(exit, ended.interrupted, on_failure) {
            None => Ok(answer),
            Some(class) => Err(Failed { class, error: answer, stderr: stderr.into_text() }),
        }
    }
}

/// A command that runs, or has ended.
struct Running {
    child: Child,
    is_group: bool,
}

/// How it ended.
struct Ended {
    status: std::io::Result<ExitStatus>,
    /// Whether this process was asked to stop before the command had ended.
    interrupted: bool,
}

impl Running {
    /// Waits for the end of the command, and then for the last writer of its output. A signal is
    /// passed on before the end; after it, it ends the waiting for processes that the command has
    /// left behind.
    async fn follow<T>(
        &mut self,
        passing: impl Future<Output = T>,
        stops: &mut Stops,
        terminal: &Terminal,
    ) -> Ended {
        let mut passing = pin!(passing);
        let (mut has_passed, mut interrupted) = (false, false);
        let status = loop {
            tokio::select! {
                // If both are ready, the command ended because of the signal.
                biased;
                signal = stops.next() => {
                    interrupted = true;
                    if !terminal.has_sent(signal) {
                        self.signal(signal);
                    }
                }
                status = self.child.wait() => break status,
                _ = &mut passing, if !has_passed => has_passed = true,
            }
        };
        if !has_passed {
            tokio::select! {
                biased;
                _ = &mut passing => {}
                _ = stops.next() => {}
            }
        }
        let interrupted = interrupted || status.as_ref().is_ok_and(|status| status.signal().is_some());
        Ended { status, interrupted }
    }

    /// Sends a signal to the command, or to its group, unless it has been reaped: then its number
    /// may be another process's. Reaping happens in this task alone, so it cannot come in between.
    fn signal(&self, signal: Signal) -> bool {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let target = pid.map(|pid| Pid::from_raw(if self.is_group { -pid } else { pid }));
        target.is_some_and(|target| kill(target, signal).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_command_that_was_reaped_is_not_signalled() {
        for is_group in [false, true] {
            let mut command = Command::new("sleep");
            let child = command.arg("300").process_group(0).spawn().unwrap();
            let mut running = Running { child, is_group };
            assert!(running.signal(Signal::SIGTERM), "it runs");
            let status = running.child.wait().await.unwrap();
            assert_eq!(status.signal(), Some(15));
            assert!(!running.signal(Signal::SIGTERM), "its number may be another process's");
        }
    }
}
