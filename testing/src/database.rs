//! The engine on the thread of the caller.

use std::fmt;
use std::path::Path;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;

use dynoxide::DynoxideError;

use crate::dispatch::dispatch;
use crate::open::{OpenError, open};

/// An embedded DynamoDB that answers on the thread of the caller.
///
/// A request blocks that thread, even while another process has the lock of the file. For an async
/// program use [`Embedded`](crate::Embedded).
#[derive(Clone)]
pub struct Database(dynoxide::Database);

const DISK_FULL: &str = "com.amazonaws.dynamodb.v20120810#DiskFull";

/// A reply in the format of DynamoDB's HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The body, as JSON.
    pub body: String,
}

impl Reply {
    /// Returns the status, and the name of an error other than a failed condition.
    #[cfg(feature = "sweep")]
    pub(crate) fn shown(&self) -> String {
        if self.status == 200 {
            return self.status.to_string();
        }
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        let name = body["__type"].as_str().and_then(|name| name.rsplit('#').next());
        match name.filter(|name| {
            !matches!(*name, "ConditionalCheckFailedException" | "TransactionCanceledException")
        }) {
            Some(name) => format!("{} {name}", self.status),
            None => self.status.to_string(),
        }
    }

    /// Returns the reply as an HTTP client of the SDK returns it.
    ///
    /// # Errors
    ///
    /// The number is not a valid HTTP status.
    pub fn into_response(self) -> Result<HttpResponse, ConnectorError> {
        let status = self.status.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))?;
        let mut response = HttpResponse::new(status, SdkBody::from(self.body));
        response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
        Ok(response)
    }
}

impl Database {
    /// Creates an engine in memory. Dropping its last clone deletes the data.
    ///
    /// # Errors
    ///
    /// [`OpenError::Engine`] if there is no memory for it.
    pub fn memory() -> Result<Self, OpenError> {
        dynoxide::Database::memory().map(Self).map_err(|error| OpenError::Engine(error.to_string()))
    }

    /// Opens an engine over a file, which other processes may use at the same time. If the file and
    /// its directory do not exist, creates them for their user alone.
    ///
    /// Refuses a file that a user other than its owner and root may write or move away. The
    /// directories above it count as well, except a sticky directory above the directory of the
    /// file.
    ///
    /// Blocks while another process creates the tables of the engine.
    ///
    /// # Errors
    ///
    /// [`OpenError`] contains the problem with the file and the remedy.
    pub fn open(file: &Path) -> Result<Self, OpenError> {
        open(file).map(Self)
    }

    /// Executes a request: an operation such as `PutItem`, and its JSON.
    #[must_use]
    pub fn ask(&self, operation: &str, body: &[u8]) -> Reply {
        match dispatch(&self.0, operation, body) {
            Ok(body) => Reply { status: 200, body },
            Err(error) => refusal(&error),
        }
    }
}

/// Returns the reply to a request that was not executed.
fn refusal(error: &DynoxideError) -> Reply {
    let said = error.to_string();
    // If a change does not fit on the disk, SQLite rolls it back, so nothing was applied. DynamoDB
    // has no such error. Its error 500 would leave open whether the change was applied.
    if said.contains("disk is full") && !said.contains("rollback also failed") {
        let message = "the disk of the embedded tables is full, and nothing was written; free some space";
        let body = serde_json::json!({ "__type": DISK_FULL, "message": message });
        return Reply { status: 400, body: body.to_string() };
    }
    Reply { status: error.status_code(), body: error.to_json() }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_certain_refusal_unless_the_change_was_not_taken_back() {
        let full = "Internal error: database or disk is full";
        for (said, status) in [
            (full.to_owned(), 400),
            (format!("operation failed ({full}) and rollback also failed (disk I/O error)"), 500),
            ("Internal error: disk I/O error".to_owned(), 500),
        ] {
            let reply = refusal(&DynoxideError::InternalServerError(said));
            assert_eq!(reply.status, status, "{}", reply.body);
            assert_eq!(reply.body.contains("#DiskFull"), status == 400, "{}", reply.body);
        }
    }
}
