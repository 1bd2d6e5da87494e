//! How the command ends: a code for programs, and a sentence for people.

use std::error::Error as _;
use std::process::ExitCode;

use locker::{Error, InvalidSetting};

/// An exit code, and what to say about it on standard error.
#[derive(Debug)]
pub(crate) struct Exit {
    code: u8,
    message: Option<String>,
}

impl Exit {
    pub(crate) const OK: u8 = 0;
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const NOT_FOUND: u8 = 3;
    pub(crate) const CHANGED: u8 = 4;
    pub(crate) const PROBLEMS: u8 = 5;
    pub(crate) const OTHER_REQUEST: u8 = 65;
    pub(crate) const UNAVAILABLE: u8 = 69;
    pub(crate) const UNKNOWN: u8 = 74;
    pub(crate) const IN_PROGRESS: u8 = 75;
    pub(crate) const SETUP: u8 = 78;

    /// Silent.
    pub(crate) const fn quiet(code: u8) -> Self {
        Self { code, message: None }
    }

    pub(crate) fn say(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    pub(crate) fn code_of(result: Result<Self, Self>) -> ExitCode {
        let exit = result.unwrap_or_else(|exit| exit);
        if let Some(message) = exit.message {
            eprintln!("locker: {message}");
        }
        ExitCode::from(exit.code)
    }
}

impl From<Error> for Exit {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Key(_) | Error::Setting(_) => Self::USAGE,
            Error::Denied { .. } => Self::SETUP,
            Error::Unavailable { .. } => Self::UNAVAILABLE,
            Error::Unknown { .. } => Self::UNKNOWN,
            Error::Changed { .. } | Error::Ended { .. } | Error::LostOwnership { .. } => Self::CHANGED,
            Error::Record(_) | Error::Fingerprint(_) => Self::OTHER_REQUEST,
            _ => Self::FAILED,
        };
        let mut message = error.to_string();
        if let Some(cause) = error.source() {
            message = format!("{message}\n  said: {}", first_line(&cause.to_string()));
        }
        Self::say(code, message)
    }
}

impl From<InvalidSetting> for Exit {
    fn from(error: InvalidSetting) -> Self {
        Error::from(error).into()
    }
}

/// The SDK appends the whole error in debug form; people need the first sentence.
fn first_line(text: &str) -> &str {
    let text = text.lines().next().unwrap_or_default();
    text.split_once(" (DispatchFailure(").map_or(text, |(first, _)| first)
}
