//! `locker once`: runs a command once per key.

mod answer;
mod command;
mod failure;
mod pass;
mod said;
mod shim;
mod stops;
mod store;

use std::cell::Cell;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use locker::{Attempt, BeginBuilder, Form, Origin, RunError};

use answer::Answer;
use command::{Kept as KeptOutput, Passed, Prepared};
use failure::{Failed, OnFailure};
pub(crate) use shim::{arguments as waiting_arguments, wait_and_become};

use super::process;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{Kept, duration, moment};
use crate::output;

const DETAILS: &str = "\
What is stored:
  The exit code and the start of standard output, byte for byte; later calls get both.
  Of a command that failed, also the last 2 KB of standard error, unless it is a terminal.
  Standard output is a pipe, and so is standard error unless it is a terminal: `test -t 1`
  fails, and the order between the two is not kept. With --no-output the command has those
  of locker.
  The outcome is stored at most a second after the end of the command. If a process that it left
  running has the output open, the record states that output may be missing. locker passes later
  output on until it is closed, or until a signal arrives.
  Redirect the output of a process that keeps running.

What a failure does:
  An exit code other than 0 is the answer, unless you set --retry-on-failure or
  --hold-on-failure.
  A command that a signal ended did not end by itself, so its outcome is unknown: its token
  stays in progress until an operator acts, even with --retry-on-failure. With
  --hold-on-failure it is held.
  The exit codes 129 to 159 count as signals, since a shell reports a signal as 128 and its
  number: 130 SIGINT, 137 SIGKILL (also when memory runs out), 139 SIGSEGV, 143 SIGTERM.
  With --retry-on-failure, the outcome is unknown after 124 and 255 as well: `timeout` exits
  with 124 if it cut the command short, and `ssh` with 255 if it lost the other machine.
  SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the command; without a terminal, to
  all processes that it started. After the end of the command, they only end the waiting for
  its output.
  If locker itself is killed, the command continues, and `locker show` names its process.";

#[derive(Debug, Args)]
#[command(after_help = DETAILS)]
pub(crate) struct Once {
    /// Key that names what is done once, such as report/2026-11.
    key: String,

    /// Expected duration, after which the token is overdue. Extended while the command runs.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    expect: Duration,

    /// Retention of the result, such as 3d, or forever.
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    retain: Kept,

    /// Text identifying the request; a different value for the same key is rejected [default: the
    /// command line].
    #[arg(long, value_name = "TEXT")]
    fingerprint: Option<String>,

    /// Do not compare requests: any command for the same key gets its result.
    #[arg(long, conflicts_with = "fingerprint")]
    no_fingerprint: bool,

    /// If the key is in progress, wait up to this long for its result.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,

    /// Name of the owner of the token, before the machine and the process of the command [default:
    /// USER@HOST].
    #[arg(long = "as", value_name = "NAME")]
    owner: Option<String>,

    /// When this was requested first, for restored tables (see --restored): 2026-11-01 or
    /// 2026-11-01T08:30:00Z, in UTC.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    requested_at: Option<DateTime<Utc>>,

    /// If the command fails, release the token, so that it may be run again.
    #[arg(long, conflicts_with = "hold_on_failure")]
    retry_on_failure: bool,

    /// If the command fails, hold the token for an operator.
    #[arg(long)]
    hold_on_failure: bool,

    /// How much of standard output is kept; the rest is passed on only. Cut further if it cannot be
    /// stored.
    #[arg(long, value_name = "BYTES", default_value_t = 1024 * 1024, value_parser = clap::value_parser!(u32).range(..=16 * 1024 * 1024))]
    keep_output: u32,

    /// Keep no output: only the exit code is stored.
    #[arg(long, conflicts_with = "keep_output")]
    no_output: bool,

    /// The command, after --.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Once {
    pub(crate) async fn run(self, connection: &Connection) -> Result<Exit, Exit> {
        let Some(program) = self.command.first() else { return Ok(Exit::quiet(Exit::USAGE)) };
        // Before begin, so that the token names the process.
        let prepared = Prepared::new(&self.command, self.kept()).map_err(|error| {
            Exit::say(126, format!("cannot start {}: {error}; nothing was done", program.display()))
        })?;
        let token = self.token(connection, prepared.pid().unwrap_or_default());
        let on_failure = self.on_failure();
        let passed = Cell::new(Passed::default());
        let work = async |attempt: Attempt| {
            let ended = prepared.run(program, on_failure, &passed).await;
            let output = passed.take();
            let length = output.length;
            passed.set(output);
            store::fitting(&attempt, ended, length)
        };
        let ran = Box::pin(token.run(work)).await;
        let Passed { rest, .. } = passed.take();
        let key = &self.key;
        let token = (connection, key.as_str());
        let exit = match ran {
            Ok(answer) => {
                let (answer, origin) = answer.into_parts();
                finish(token, answer, None, origin).await
            }
            Err(RunError::Failed { error, origin, .. }) => {
                finish(token, error.error.clone(), Some(error), origin).await
            }
            Err(RunError::InProgress(holder)) => Err(said::in_progress(key, &holder)),
            Err(RunError::Mismatch(record)) => {
                Err(said::other_request(key, &record, self.fingerprint.is_some()))
            }
            Err(RunError::Restored(_)) => Err(said::restored(key)),
            Err(RunError::Locker(error)) => Err(error.into()),
            Err(error) => Err(Exit::say(Exit::FAILED, error.to_string())),
        };
        if let Some(rest) = rest {
            if rest.is_open {
                output::say(format_args!(
                    "the command of {key} has ended, and a process that it left running has its output open: \
                     the output is passed on until it is closed, or until a signal"
                ));
            }
            if !rest.has_passed().await {
                // A write that waits for its reader would delay the end.
                Exit::leave(exit);
            }
        }
        exit
    }

    const fn kept(&self) -> KeptOutput {
        if self.no_output { KeptOutput::Nothing } else { KeptOutput::AtMost(self.keep_output as usize) }
    }

    const fn on_failure(&self) -> OnFailure {
        match (self.retry_on_failure, self.hold_on_failure) {
            (true, _) => OnFailure::Retry,
            (_, true) => OnFailure::Hold,
            _ => OnFailure::Keep,
        }
    }

    fn token(&self, connection: &Connection, pid: u32) -> BeginBuilder {
        let mut token = connection
            .locker
            .token(&self.key)
            .owner(process::owner(self.owner.as_deref(), pid))
            .expect_within(self.expect)
            .form(Form::ONCE)
            .keep_extended()
            .retention(self.retain.0);
        token = match &self.fingerprint {
            Some(text) => token.fingerprint_bytes(text),
            None if self.no_fingerprint => token,
            None => token.fingerprint_bytes(command_line(&self.command)),
        };
        if let Some(time) = self.requested_at {
            token = token.requested_at(time);
        }
        match self.wait {
            Some(wait) => token.wait_for(wait),
            None => token,
        }
    }
}

/// The words of a command, each with its length: `"a b"` is another command than `"a" "b"`.
fn command_line(command: &[OsString]) -> Vec<u8> {
    let mut bytes = b"argv\0".to_vec();
    for word in command {
        bytes.extend_from_slice(format!("{}:", word.len()).as_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes
}

/// Prints a replayed answer, and returns the exit with the state of the token.
async fn finish(
    (connection, key): (&Connection, &str),
    answer: Answer,
    failed: Option<Failed>,
    origin: Origin,
) -> Result<Exit, Exit> {
    let exit = answer.exit;
    let class = failed.as_ref().map(|failed| failed.class);
    let said = match origin {
        Origin::Replayed(record) => {
            // A reader that has gone away is not a failure: the work is done.
            let mut stdout = std::io::stdout().lock();
            output::note_passed(stdout.write_all(&answer.stdout).and_then(|()| stdout.flush()));
            let failed = failed.map(|failed| (failed.class, failed.last_line()));
            said::replayed(key, &answer, failed, &record)
        }
        Origin::Unrecorded(end) => store::held((connection, key), &answer, class, *end).await,
        Origin::Fresh => said::ran(key, &answer, class),
    };
    Ok(Exit::say(exit, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_line_has_bytes_of_its_own() {
        let of = |words: &[&str]| command_line(&words.iter().map(OsString::from).collect::<Vec<_>>());
        let lines =
            [&["a b"][..], &["a", "b"], &["a", "b", ""], &["", "a", "b"], &["ab"], &["1:a"], &["a1:b"]];
        for (at, one) in lines.iter().enumerate() {
            for other in &lines[at + 1..] {
                assert_ne!(of(one), of(other), "{one:?} {other:?}");
            }
        }
    }
}
