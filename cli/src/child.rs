//! The command that is run once, and what it answered.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use locker::Failure;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdout, Command};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What a command answered: its exit status and its standard output, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Value", into = "Form")]
pub(crate) struct Answer {
    pub(crate) exit: u8,
    pub(crate) stdout: Vec<u8>,
    /// Why the output is not here, if it is not.
    pub(crate) note: Option<String>,
}

impl Answer {
    pub(crate) const fn of(exit: u8, stdout: Vec<u8>) -> Self {
        Self { exit, stdout, note: None }
    }
}

/// How an answer is stored: text where it is text, so that people can read it.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Form {
    exit: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl From<Answer> for Form {
    fn from(answer: Answer) -> Self {
        let form = Self { exit: answer.exit, note: answer.note, ..Self::default() };
        match String::from_utf8(answer.stdout) {
            Ok(text) => Self { stdout: Some(text), ..form },
            Err(error) => Self { stdout_base64: Some(STANDARD.encode(error.as_bytes())), ..form },
        }
    }
}

/// A person may have resolved the token with any JSON: then that is the output.
impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        let bytes = |form: &Form| match (&form.stdout, &form.stdout_base64) {
            (Some(text), _) => Some(text.clone().into_bytes()),
            (None, Some(bytes)) => STANDARD.decode(bytes).ok(),
            (None, None) => Some(Vec::new()),
        };
        let form = Form::deserialize(&value).ok();
        if let Some((form, stdout)) = form.and_then(|form| bytes(&form).map(|stdout| (form, stdout))) {
            return Self { exit: form.exit, stdout, note: form.note };
        }
        let stdout = match value {
            Value::Null => Vec::new(),
            Value::String(text) => text.into_bytes(),
            other => format!("{other}\n").into_bytes(),
        };
        Self::of(0, stdout)
    }
}

/// What a failure of the command does to its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Keep,
    Retry,
    Hold,
}

/// Run a command to its end. Its output goes out while it runs, and is kept.
pub(crate) async fn run(command: Vec<OsString>, on_failure: OnFailure) -> Result<Answer, Failure<Answer>> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::transient(Answer::of(127, Vec::new())));
    };
    // Listening comes first: a signal that arrives with the command must not end this process.
    let mut stops = Stops::listen();
    let mut child = match Command::new(program).args(arguments).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return Err(not_started(program, &error)),
    };
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
    let stdout = child.stdout.take();
    let ended = async { tokio::join!(tee(stdout), child.wait()) };
    let mut ended = std::pin::pin!(ended);
    let mut interrupted = false;
    let (stdout, status) = loop {
        tokio::select! {
            // If both are ready, the command ended because of the signal.
            biased;
            signal = stops.next() => {
                interrupted = true;
                // A terminal sends its interrupt to the command as well.
                let already = signal == Signal::SIGINT && std::io::stdin().is_terminal();
                if let (Some(pid), false) = (pid, already) {
                    let _ = kill(pid, signal);
                }
            }
            ended = &mut ended => break ended,
        }
    };
    let cut_short = interrupted || status.as_ref().is_ok_and(|status| status.signal().is_some());
    let answer = Answer::of(status.map_or(1, code), stdout);
    Err(match (answer.exit, on_failure) {
        (0, _) => return Ok(answer),
        (_, OnFailure::Hold) => Failure::needs_person(answer),
        // It did not end by itself, so nobody knows how far it came.
        _ if cut_short => Failure::in_doubt(answer),
        (_, OnFailure::Keep) => Failure::permanent(answer),
        (_, OnFailure::Retry) => Failure::transient(answer),
    })
}

/// Nothing happened, so the token is released.
fn not_started(program: &OsString, error: &std::io::Error) -> Failure<Answer> {
    eprintln!("locker: cannot start {}: {error}", program.display());
    let exit = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
    Failure::transient(Answer::of(exit, Vec::new()))
}

/// Pass the output on, and keep it. If nobody reads it any more, it is still kept.
async fn tee(stdout: Option<ChildStdout>) -> Vec<u8> {
    let Some(mut from) = stdout else { return Vec::new() };
    let mut to = tokio::io::stdout();
    let (mut kept, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..read]);
        if to.write_all(&chunk[..read]).await.is_ok() {
            let _ = to.flush().await;
        }
    }
    kept
}

/// The signals that ask a process to stop.
struct Stops([(Option<Stream>, Signal); 3]);

impl Stops {
    fn listen() -> Self {
        let listen = |kind, name| (signal(kind).ok(), name);
        Self([
            listen(SignalKind::interrupt(), Signal::SIGINT),
            listen(SignalKind::terminate(), Signal::SIGTERM),
            listen(SignalKind::hangup(), Signal::SIGHUP),
        ])
    }

    async fn next(&mut self) -> Signal {
        let wait = async |(stream, name): &mut (Option<Stream>, Signal)| {
            match stream {
                Some(stream) => stream.recv().await,
                None => std::future::pending().await,
            };
            *name
        };
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            name = wait(interrupt) => name,
            name = wait(terminate) => name,
            name = wait(hangup) => name,
        }
    }
}

/// The code as a shell gives it: 128 and the signal, if a signal ended it.
fn code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(answer: &Answer) -> String {
        let json = serde_json::to_string(answer).unwrap();
        assert_eq!(&serde_json::from_str::<Answer>(&json).unwrap(), answer);
        json
    }

    #[test]
    fn output_is_stored_as_text_where_it_is_text() {
        let text = Answer::of(3, "käse\n".into());
        assert_eq!(there_and_back(&text), r#"{"exit":3,"stdout":"käse\n"}"#);
        let bytes = Answer::of(0, vec![0, 255, 10]);
        assert_eq!(there_and_back(&bytes), r#"{"exit":0,"stdoutBase64":"AP8K"}"#);
        there_and_back(&Answer::of(255, vec![]));
    }

    #[test]
    fn whatever_a_person_resolved_with_is_an_answer() {
        let read = |json: &str| serde_json::from_str::<Answer>(json).unwrap();
        assert_eq!(read("null"), Answer::of(0, vec![]));
        assert_eq!(read(r#"{"exit":0}"#), Answer::of(0, vec![]));
        assert_eq!(read(r#""sent""#), Answer::of(0, b"sent".to_vec()));
        assert_eq!(read(r#"{"id":7}"#), Answer::of(0, b"{\"id\":7}\n".to_vec()));
        assert_eq!(read(r#"{"exit":999}"#).exit, 0);
    }
}
