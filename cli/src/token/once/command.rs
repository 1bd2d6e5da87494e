//! The command while it runs: its output, its end, and the signals for it.

use std::cell::Cell;
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::answer::Answer;
use super::failure::{Failed, OnFailure, class_of, code};
use super::pass::{End, Length, Pipe, Start, locked, pass};
use super::shim::{self, Waiting};
use super::stops::{Stops, Terminal, listen_for_ends};
use crate::output;

/// How much of standard error is kept.
const STDERR: usize = 2048;

/// How long the last output is awaited when the command has ended. A process that the command left
/// running can keep the output open for ever, and a reader can be slow. A crash loses an outcome
/// that is not stored.
const GRACE: Duration = Duration::from_secs(1);

/// The part of the output that is kept.
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
        // A separate process group could not read from the terminal.
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

    /// Runs the command to its end. Its output is passed on while it runs, and kept. `passed`
    /// receives the length of the output, and the rest that is not passed on yet.
    pub(super) async fn run(
        self,
        program: &std::ffi::OsStr,
        on_failure: OnFailure,
        passed: &Cell<Passed>,
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
        let start = Start::of(if let Kept::AtMost(most) = kept { most } else { 0 });
        let (stdout, stderr) = (Arc::new(Pipe::of(start)), Arc::new(Pipe::of(End::of(STDERR))));
        let (runs, has_ended) = watch::channel(());
        let mut passing = {
            let (from, errors) = (running.child.stdout.take(), running.child.stderr.take());
            let (stdout, stderr) = (Arc::clone(&stdout), Arc::clone(&stderr));
            Box::pin(async move {
                let stdout = pass(from, tokio::io::stdout(), &stdout, has_ended.clone());
                tokio::join!(stdout, pass(errors, tokio::io::stderr(), &stderr, has_ended));
            })
        };
        let ended = running.follow(passing.as_mut(), runs, &mut stops, &terminal).await;
        let (bytes, length) = locked(&stdout).take();
        let is_abandoned = ended.output == Output::Abandoned;
        let is_open = !is_abandoned && (length.is_open || locked(&stderr).is_open);
        let stderr = locked(&stderr).kept.text();
        let rest = (ended.output != Output::Passed).then(|| Rest {
            is_open,
            is_abandoned,
            passing: tokio::spawn(passing),
            stops,
        });
        passed.set(Passed { length, rest });
        let status = match ended.status {
            Ok(status) => status,
            Err(error) => return Err(Failed::of_unknown_end(&error)),
        };
        let exit = code(status);
        let mut answer = Answer::of(exit, bytes).cut(usize::MAX, length);
        if kept == Kept::Nothing {
            answer.note = Some("its output was not kept".to_owned());
        }
        match class_of(exit, ended.interrupted, on_failure) {
            None => Ok(answer),
            Some(class) => Err(Failed { class, error: answer, stderr }),
        }
    }
}

/// The output of a command that has ended.
#[derive(Default)]
pub(super) struct Passed {
    /// The length of standard output.
    pub(super) length: Length,
    /// The output that is not passed on yet.
    pub(super) rest: Option<Rest>,
}

/// Output that is not passed on when the outcome is stored.
pub(super) struct Rest {
    /// Whether a process that the command left running has it open. Otherwise its reader is slow.
    pub(super) is_open: bool,
    /// Whether a signal has ended the waiting for it.
    is_abandoned: bool,
    passing: JoinHandle<()>,
    stops: Stops,
}

impl Rest {
    /// Passes the output on until its last writer has closed it and its reader has read it. Returns
    /// false if a signal arrives before.
    pub(super) async fn has_passed(mut self) -> bool {
        if self.is_abandoned {
            return false;
        }
        tokio::select! {
            biased;
            _ = &mut self.passing => true,
            _ = self.stops.next() => false,
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
    output: Output,
}

/// The output of a command that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Its last writer has closed it, and all of it was passed on.
    Passed,
    /// A process that the command left running has it open, or its reader is slow.
    Late,
    /// A signal ended the waiting for it.
    Abandoned,
}

impl Running {
    /// Waits for the end of the command, and then for the last output, for [`GRACE`] at most.
    /// Before the end, a signal is passed on to the command. After the end, a signal ends the
    /// waiting.
    async fn follow(
        &mut self,
        mut passing: Pin<&mut impl Future>,
        runs: watch::Sender<()>,
        stops: &mut Stops,
        terminal: &Terminal,
    ) -> Ended {
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
        drop(runs);
        let output = if has_passed { Output::Passed } else { settle(passing, stops.next()).await };
        let interrupted = interrupted || status.as_ref().is_ok_and(|status| status.signal().is_some());
        Ended { status, interrupted, output }
    }

    /// Sends a signal to the command, or to its group, unless it has been reaped: then its number
    /// may be another process's. Reaping happens in this task alone, so it cannot come in between.
    fn signal(&self, signal: Signal) -> bool {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let target = pid.map(|pid| Pid::from_raw(if self.is_group { -pid } else { pid }));
        target.is_some_and(|target| kill(target, signal).is_ok())
    }
}

/// Waits until the output of a command that has ended is passed on, for the time of [`GRACE`] at
/// most.
async fn settle(passing: impl Future, stop: impl Future) -> Output {
    // Output that has arrived is read before the time is checked, even on a slow machine: the
    // runtime polls for output before it checks the time.
    tokio::select! {
        biased;
        _ = passing => Output::Passed,
        _ = stop => Output::Abandoned,
        () = tokio::time::sleep(GRACE) => Output::Late,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::process::Command;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outcome_waits_a_second_for_output_and_no_longer() {
        let began = Instant::now();
        let soon = || sleep(Duration::from_millis(300));
        assert_eq!(settle(async {}, pending::<()>()).await, Output::Passed);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(settle(soon(), pending::<()>()).await, Output::Passed);
        assert_eq!(settle(pending::<()>(), soon()).await, Output::Abandoned);
        assert_eq!(began.elapsed().as_millis(), 600);
        assert_eq!(settle(pending::<()>(), pending::<()>()).await, Output::Late);
        assert_eq!(began.elapsed().as_millis(), 1600);
        // Output that has arrived when the time is over is passed.
        assert_eq!(settle(sleep(GRACE), pending::<()>()).await, Output::Passed);
    }

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
