//! The signals that ask this process to stop, and whom they reach.

use std::fs::File;

use nix::sys::signal::Signal;
use nix::unistd::{getpgrp, tcgetpgrp};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// The signals that ask this process to stop, from the time on when it listens.
pub(super) struct Stops([(Option<Stream>, Signal); 4]);

impl Stops {
    pub(super) fn listen() -> Self {
        let listen = |kind, name| (signal(kind).ok(), name);
        Self([
            listen(SignalKind::interrupt(), Signal::SIGINT),
            listen(SignalKind::terminate(), Signal::SIGTERM),
            listen(SignalKind::hangup(), Signal::SIGHUP),
            listen(SignalKind::quit(), Signal::SIGQUIT),
        ])
    }

    pub(super) async fn next(&mut self) -> Signal {
        let wait = async |(stream, name): &mut (Option<Stream>, Signal)| {
            match stream {
                Some(stream) => stream.recv().await,
                None => std::future::pending().await,
            };
            *name
        };
        let [interrupt, terminate, hangup, quit] = &mut self.0;
        tokio::select! {
            name = wait(interrupt) => name,
            name = wait(terminate) => name,
            name = wait(hangup) => name,
            name = wait(quit) => name,
        }
    }
}

/// Makes the exit codes of commands available, even if the parent process made this process ignore
/// SIGCHLD. With an ignored SIGCHLD, the kernel reaps the commands and drops their exit codes.
pub(super) fn listen_for_ends() {
    // Listening replaces the ignoring. Where it cannot, the end of a command is unknown.
    let _ = signal(SignalKind::child());
}

/// The terminal that controls this process, if there is one.
pub(super) struct Terminal(Option<File>);

impl Terminal {
    pub(super) fn of_this_process() -> Self {
        Self(File::open("/dev/tty").ok())
    }

    pub(super) const fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the terminal has sent this signal to the command as well: it sends a typed signal to
    /// every process in the foreground.
    pub(super) fn has_sent(&self, signal: Signal) -> bool {
        let is_typed = matches!(signal, Signal::SIGINT | Signal::SIGQUIT);
        is_typed && self.0.as_ref().and_then(|terminal| tcgetpgrp(terminal).ok()) == Some(getpgrp())
    }
}
