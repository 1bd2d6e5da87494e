//! How the command ends: an exit code, and a sentence on standard error.

use std::error::Error as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use locker::{Error, InvalidArgument};
use serde_json::json;

use crate::output::{self, Text};

static JSON: AtomicBool = AtomicBool::new(false);

/// An exit code, with the sentence that standard error gets.
#[derive(Debug)]
pub struct Exit {
    code: u8,
    message: Option<String>,
    /// Lines below the sentence.
    details: Vec<String>,
}

impl Exit {
    /// Done.
    pub const OK: u8 = 0;
    /// Failed for a reason without a separate code.
    pub const FAILED: u8 = 1;
    /// The command line, or a value on it, is not valid.
    pub const USAGE: u8 = 2;
    /// There is no such token, workflow, step or file.
    pub const NOT_FOUND: u8 = 3;
    /// Refused: the record is not as the verb needs it, or it has changed.
    pub const CHANGED: u8 = 4;
    /// A dry run: nothing was changed, and the id of the dry run is printed.
    pub const DRY_RUN: u8 = 6;
    /// Something needs attention, or was not finished.
    pub const PROBLEMS: u8 = 5;
    /// Fingerprint mismatch: the key was used for another request. Also a record that cannot be
    /// read.
    pub const OTHER_REQUEST: u8 = 65;
    /// DynamoDB was unreachable or too busy, or the time was over before the answer.
    pub const UNAVAILABLE: u8 = 69;
    /// It is unknown whether a write happened.
    pub const UNKNOWN: u8 = 74;
    /// The token is in progress.
    pub const IN_PROGRESS: u8 = 75;
    /// Permissions, tables, files, ports or registered code are missing.
    pub const SETUP: u8 = 78;

    /// An exit code without a sentence.
    #[must_use]
    pub const fn quiet(code: u8) -> Self {
        Self { code, message: None, details: Vec::new() }
    }

    /// An exit code with a sentence. `locker: ` is printed before the sentence; with
    /// `--output json`, a failure is a line `{"error":{"exit":4,"message":"..."}}` on standard
    /// error. A control character in the sentence, such as a line break, is replaced.
    pub fn say(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()), details: Vec::new() }
    }

    /// Adds a line below the sentence.
    pub(crate) fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// Puts this sentence first, and its own sentence below it.
    pub(crate) fn below(mut self, sentence: String) -> Self {
        let own = self.message.replace(sentence);
        self.details.splice(0..0, own.map(|own| format!("  error: {own}")));
        self
    }

    /// Adds that output could not be printed. After 0 and 6, a script takes the output for
    /// complete, so these codes become [`Exit::FAILED`].
    fn unprinted(self, error: &std::io::Error) -> Self {
        let said = format!("its output could not be printed: {error}");
        let (code, said) = match self.code {
            Self::OK => (Self::FAILED, format!("the command is done, and {said}")),
            Self::DRY_RUN => (Self::FAILED, said),
            code => (code, said),
        };
        let own = self.message.into_iter().chain(self.details).map(|line| format!("  {line}"));
        own.fold(Self::say(code, said), Self::detail)
    }

    /// A mistake on the command line. `--help` and `--version` are no mistakes: they end the
    /// process here.
    pub(crate) fn of_command_line(error: &clap::Error) -> Self {
        let said = error.render().to_string();
        let is_plain = std::env::args_os().all(|word| {
            let word = word.to_string_lossy();
            output::plain(&word) == word
        });
        if !error.use_stderr() || !JSON.load(Ordering::Relaxed) && is_plain {
            error.exit();
        }
        let said = said.strip_prefix("error: ").unwrap_or(&said);
        Self::say(Self::USAGE, said.split("\n\nUsage:").next().unwrap_or_default().trim())
    }

    /// The class of an error as an exit code: the only such classification.
    pub(crate) const fn code_of_error(error: &Error) -> u8 {
        match error {
            Error::Invalid(_) | Error::Form { .. } => Self::USAGE,
            Error::Denied { .. } => Self::SETUP,
            Error::Unavailable { .. }
            | Error::Contended { .. }
            | Error::NotReady { .. }
            | Error::Expired { .. } => Self::UNAVAILABLE,
            Error::Unknown { .. } | Error::Deleted { .. } => Self::UNKNOWN,
            Error::LostOwnership { .. } | Error::Gone { .. } => Self::CHANGED,
            Error::Record { .. } | Error::Fingerprint { .. } => Self::OTHER_REQUEST,
            _ => Self::FAILED,
        }
    }

    #[cfg(any(test, feature = "console"))]
    pub(crate) const fn code(&self) -> u8 {
        self.code
    }

    /// The sentence, and the lines below it.
    #[cfg(any(test, feature = "console"))]
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.message.iter().chain(&self.details).map(String::as_str)
    }

    /// The sentence and the lines below it, in one line.
    #[cfg(feature = "console")]
    pub(crate) fn in_one_line(&self) -> String {
        self.lines().collect::<Vec<_>>().join("; ")
    }

    #[cfg(test)]
    pub(crate) fn said(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    pub(crate) const fn is_ok(&self) -> bool {
        self.code == Self::OK
    }

    /// Sets whether a failure is printed as JSON.
    pub(crate) fn as_json(json: bool) {
        JSON.store(json, Ordering::Relaxed);
    }

    pub(crate) fn code_of(result: Result<Self, Self>) -> ExitCode {
        ExitCode::from(Self::print(result))
    }

    /// Ends the process at once, although a task or a thread of it may wait.
    pub(crate) fn leave(result: Result<Self, Self>) -> ! {
        std::process::exit(Self::print(result).into())
    }

    /// Prints the sentence, and returns the exit code.
    fn print(result: Result<Self, Self>) -> u8 {
        let mut exit = result.unwrap_or_else(|exit| exit);
        if let Some(error) = output::unprinted() {
            exit = exit.unprinted(error);
        }
        match exit.message {
            Some(message)
                if ![Self::OK, Self::DRY_RUN].contains(&exit.code) && JSON.load(Ordering::Relaxed) =>
            {
                let message = [vec![message], exit.details].concat().join("\n");
                output::say_json(&json!({ "error": { "exit": exit.code, "message": message } }));
            }
            Some(message) => {
                let lines = std::iter::once(message).chain(exit.details);
                output::say(Text::below(lines.map(Text::from)));
            }
            None => {}
        }
        exit.code
    }
}

impl From<Error> for Exit {
    fn from(error: Error) -> Self {
        let exit = Self::say(Self::code_of_error(&error), error.to_string());
        let exit =
            cause_of(&error).into_iter().fold(exit, |exit, cause| exit.detail(format!("  cause: {cause}")));
        match error {
            Error::Unknown { .. } => exit.detail("  read the record before you repeat the command"),
            _ => exit,
        }
    }
}

impl From<InvalidArgument> for Exit {
    fn from(error: InvalidArgument) -> Self {
        Error::from(error).into()
    }
}

/// The cause of an error, in one line.
pub(crate) fn cause_of(error: &Error) -> Option<String> {
    Some(first_line(&error.source()?.to_string()).to_owned())
}

/// The first sentence: the SDK appends the whole error in debug form.
pub(crate) fn first_line(text: &str) -> &str {
    let text = text.lines().next().unwrap_or_default();
    text.split_once(" (DispatchFailure(").map_or(text, |(first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_the_code_that_scripts_rely_on() {
        let verb = "complete";
        let cases = [
            (Error::Unknown { verb, tries: 2, source: "no reply".into() }, 74),
            (Error::LostOwnership { verb, record: None }, 4),
            (Error::Gone { verb }, 4),
            (Error::Deleted { verb }, 74),
            (Error::Record { reason: "it has no state".to_owned() }, 65),
            (Error::Contended { verb, tries: 4 }, 69),
            (Error::Expired { verb }, 69),
        ];
        for (error, code) in cases {
            let (said, is_unknown) = (error.to_string(), matches!(error, Error::Unknown { .. }));
            let exit = Exit::from(error);
            assert_eq!(exit.code, code, "{said}");
            let advice = "  read the record before you repeat the command";
            assert_eq!(exit.details.iter().any(|line| line == advice), is_unknown, "{said}");
        }
    }
}
