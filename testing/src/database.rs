//! The engine on the thread that asks.

use std::fmt;
use std::path::Path;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;

use crate::dispatch::dispatch;
use crate::open::{OpenError, open};

/// An embedded DynamoDB that answers on the thread that asks.
///
/// A request blocks that thread, also while another process has the lock of the file. For an async
/// program use [`Embedded`](crate::Embedded).
#[derive(Clone)]
pub struct Database(dynoxide::Database);

/// A reply as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// JSON.
    pub body: String,
}

impl Reply {
    /// The reply as an HTTP client of the SDK gives it.
    ///
    /// # Errors
    ///
    /// The status is no status of HTTP.
    pub fn into_response(self) -> Result<HttpResponse, ConnectorError> {
        let status = self.status.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))?;
        let mut response = HttpResponse::new(status, SdkBody::from(self.body));
        response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
        Ok(response)
    }
}

impl Database {
    /// Creates an engine in memory. It is gone when its last clone is dropped.
    ///
    /// # Errors
    ///
    /// [`OpenError::Engine`] if there is no memory for it.
    pub fn memory() -> Result<Self, OpenError> {
        dynoxide::Database::memory().map(Self).map_err(|error| OpenError::Engine(error.to_string()))
    }

    /// Opens an engine over a file, which other processes may use at the same time. Creates the
    /// file, for its user alone, if there is none.
    ///
    /// Blocks while another process creates the tables of the engine.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says what is wrong with the file and what to do.
    pub fn open(file: &Path) -> Result<Self, OpenError> {
        open(file).map(Self)
    }

    /// Does what a request asks, such as `PutItem` with its JSON.
    #[must_use]
    pub fn ask(&self, operation: &str, body: &[u8]) -> Reply {
        match dispatch(&self.0, operation, body) {
            Ok(body) => Reply { status: 200, body },
            Err(error) => Reply { status: error.status_code(), body: error.to_json() },
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}
