//! One request and its reply: what each of the SDK's errors proves about the request.

use std::error::Error as StdError;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};

use super::item::Item;
use super::schema::Layout;
use crate::core::reply;
use crate::core::retry::Heard;
use crate::error::BoxError;

/// The SDK's texts for missing configuration; it sent nothing.
const NO_REGION: &str = "Missing Region";
const NO_HTTP_CLIENT: &str = "HTTP client";

/// The failure of one exchange.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) heard: Heard,
    pub(crate) code: Option<String>,
    pub(crate) cause: BoxError,
    /// The stored item, if a condition failed and the item exists.
    pub(crate) item: Option<Item>,
}

impl Failure {
    /// No reply within the time that is left.
    pub(crate) fn timed_out() -> Self {
        Self { heard: Heard::Silence, code: None, cause: "no reply in time".into(), item: None }
    }

    /// Interprets an error of the SDK. The cause keeps its message, never the item.
    pub(crate) fn of<E>(error: SdkError<E, HttpResponse>, item: fn(E) -> Option<Item>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let heard = heard(&error);
        let error = match error {
            // The usual reply if another begin or an answer came first. The item contains all
            // facts.
            SdkError::ServiceError(service) if heard == Heard::Refused => {
                let item = item(service.into_err());
                return Self { heard, code: None, cause: "the condition failed".into(), item };
            }
            error => error,
        };
        let code = error.code().map(str::to_owned);
        let cause = if matches!(error, SdkError::ServiceError(_)) {
            let message = error.message().unwrap_or("no message");
            format!("{}: {message}", code.as_deref().unwrap_or("unknown error")).into()
        } else {
            DisplayErrorContext(&error).to_string().into()
        };
        Self { heard, code, cause, item: None }
    }

    /// A read changes nothing, so after silence it can be sent again.
    pub(crate) fn of_read(mut self) -> Self {
        if self.heard == Heard::Silence {
            self.heard = Heard::Busy;
        }
        self
    }

    /// The cause of a permanent refusal, and what to do about it.
    pub(crate) fn advice(&self, table: &str, layout: &Layout) -> String {
        let said = self.cause.to_string();
        let command = layout.command;
        match self.code.as_deref() {
            Some("ResourceNotFoundException") => {
                format!("the table {table} does not exist in this account and region; create it, for example with `{command} create`")
            }
            Some("AccessDeniedException") => {
                "access denied; `locker policy --help` shows how to print the permissions that a function or a person needs; a plan to redact needs Scan on the table".to_owned()
            }
            Some(_) if self.heard == Heard::Unsigned => {
                "the credentials are invalid or have expired, or the clock of this machine is wrong".to_owned()
            }
            Some("ValidationException") if said.contains("specified index") => {
                format!("the table {table} has no index byStatus; run `{command} check` to see what to change")
            }
            // The expressions of this library are constant, so the invalid one is the caller's.
            Some("ValidationException") if said.contains("Expression") => {
                format!("DynamoDB rejected an expression: {said}; correct the expressions of your own writes")
            }
            Some("ValidationException") if is_about_keys(&said) => {
                format!("the table {table} has another primary key; pass the name of the right table, or create a new table with `{command} create`")
            }
            Some("ValidationException") => {
                format!("DynamoDB rejected the request as invalid; run `{command} check` to compare the table {table} with the required layout")
            }
            Some(code) => format!("DynamoDB returned {code}"),
            None if is_about_credentials(&said) => {
                "no credentials were found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run under a role".to_owned()
            }
            None if said.contains(NO_HTTP_CLIENT) => {
                "the SDK client has no HTTP client; build it with locker::client, or enable a TLS feature of the SDK".to_owned()
            }
            None if said.contains(NO_REGION) => "no region is set; set AWS_REGION".to_owned(),
            None => "the request could not be sent".to_owned(),
        }
    }
}

/// Returns whether DynamoDB refused the primary key, such as that of a table of workflows.
/// The last text is that of DynamoDB Local.
fn is_about_keys(said: &str) -> bool {
    [
        "Missing the key",
        "key element does not match",
        "Type mismatch for key",
        "required keys was not given a value",
    ]
    .iter()
    .any(|part| said.contains(part))
}

/// Returns the class of an error of the SDK: whether its request may have been applied.
pub(crate) fn heard<E>(error: &SdkError<E, HttpResponse>) -> Heard
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    match error {
        SdkError::ConstructionFailure(_) => Heard::Denied,
        // The SDK reports a reply that it cannot parse as an error without a code, for every
        // status.
        SdkError::ServiceError(service) => {
            reply::class_of(service.err().code(), service.raw().status().as_u16())
        }
        SdkError::DispatchFailure(failure) => {
            let connector = failure.as_connector_error();
            let may_be_sent = connector
                .is_none_or(|error| error.is_io() || error.is_timeout() || error.as_other().is_some());
            let said = DisplayErrorContext(error).to_string();
            if is_not_connected(&said) {
                Heard::Busy
            } else if !may_be_sent && is_about_credentials(&said) {
                // The provider of the credentials may be out of reach for a moment.
                Heard::Unsigned
            } else if failure.is_user() || (!may_be_sent && is_about_setup(&said)) {
                Heard::Denied
            } else {
                Heard::Silence
            }
        }
        // Timeouts, broken replies, and any error that a later version of the SDK adds.
        _ => Heard::Silence,
    }
}

/// Whether no connection was established (unknown host, connection refused, failed TLS handshake),
/// so that nothing was sent. hyper reports this only in its message. If the message changes, the
/// failure counts as silence, which is always safe.
fn is_not_connected(said: &str) -> bool {
    said.contains("client error (Connect)")
}

fn is_about_setup(said: &str) -> bool {
    said.contains(NO_HTTP_CLIENT) || said.contains(NO_REGION)
}

fn is_about_credentials(said: &str) -> bool {
    said.to_ascii_lowercase().contains("credential") || said.contains("identity")
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ConnectorError;
    use aws_sdk_dynamodb::operation::put_item::PutItemError;

    use super::*;

    #[test]
    fn request_that_may_be_sent_is_silence_even_if_its_error_names_credentials() {
        let said = || "the connection of the credential proxy was reset".into();
        for (error, class) in [
            (ConnectorError::io(said()), Heard::Silence),
            (ConnectorError::timeout(said()), Heard::Silence),
            (ConnectorError::other(said(), None), Heard::Unsigned),
            (ConnectorError::user(said()), Heard::Unsigned),
        ] {
            let error = SdkError::<PutItemError, HttpResponse>::dispatch_failure(error);
            assert_eq!(heard(&error), class, "{error:?}");
        }
    }
}
