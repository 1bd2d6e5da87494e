//! The fates of one request to DynamoDB.

use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use serde_json::{Value, json};

use crate::Reply;

/// The start of the name of each error.
const SERVICE: &str = "com.amazonaws.dynamodb.v20120810#";

/// The suspension of a frozen process. It is longer than other processes usually wait for it.
pub(crate) const FROZEN: Duration = Duration::from_secs(20 * 60);

/// The fate of one request to DynamoDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// The request succeeds.
    Ok,
    /// The request never arrives.
    Lost,
    /// The request is applied, and its reply never arrives.
    ReplyLost,
    /// The connection is lost, and the request is applied later.
    Late,
    /// DynamoDB is too busy and applies nothing.
    Throttled,
    /// An item is in another transaction, so nothing is applied. A transaction is cancelled with
    /// the reason `TransactionConflict` for its first action.
    Conflict,
    /// DynamoDB returns 500 and applies nothing.
    ErrorBefore,
    /// DynamoDB applies the request and returns 500.
    ErrorAfter,
    /// DynamoDB returns 503 and applies nothing.
    UnavailableBefore,
    /// DynamoDB applies the request and returns 503.
    UnavailableAfter,
    /// The caller has no permission for the request.
    Denied,
    /// The request is applied, and the reply is 200 with half a body.
    Garbled,
    /// The request is not applied, and there is no reply for an hour: your timeouts decide.
    Stalls,
    /// The request is applied, and there is no reply for an hour.
    Hangs,
    /// The request waits until [`Wire::let_through`](crate::Wire::let_through). Then it is applied.
    HeldBefore,
    /// The request is applied, and its reply waits until
    /// [`Wire::let_through`](crate::Wire::let_through).
    HeldAfter,
    /// The process dies before it sends the request. A [`Wire`](crate::Wire) has no process: its
    /// caller waits without end.
    DiesBefore,
    /// The request is applied, and the process dies before it receives the reply. A
    /// [`Wire`](crate::Wire) has no process: its caller waits without end.
    DiesAfter,
    /// The process is suspended for 20 minutes before it sends the request, while others continue.
    /// Then it resumes. On a [`Wire`](crate::Wire), only the request waits.
    FrozenBefore,
    /// The same, after the request was applied.
    FrozenAfter,
}

impl Fate {
    /// The fates that [`sweep`](crate::sweep) plays at each request. To a table, a 503 is a 500.
    pub const SWEPT: [Self; 11] = [
        Self::Lost,
        Self::ReplyLost,
        Self::Late,
        Self::Throttled,
        Self::Conflict,
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::DiesBefore,
        Self::DiesAfter,
        Self::FrozenBefore,
        Self::FrozenAfter,
    ];

    /// Whether DynamoDB applies the request when it is sent.
    #[must_use]
    pub const fn applies(self) -> bool {
        !matches!(
            self,
            Self::Lost
                | Self::Late
                | Self::Throttled
                | Self::Conflict
                | Self::ErrorBefore
                | Self::UnavailableBefore
                | Self::Denied
                | Self::Stalls
                | Self::DiesBefore
        )
    }

    /// Whether the process dies.
    #[must_use]
    pub const fn kills(self) -> bool {
        matches!(self, Self::DiesBefore | Self::DiesAfter)
    }

    /// Whether the process is suspended.
    #[must_use]
    pub const fn freezes(self) -> bool {
        matches!(self, Self::FrozenBefore | Self::FrozenAfter)
    }

    /// Returns the result that the caller receives. `request`: the JSON of the request. `reply`:
    /// the reply of DynamoDB, if the request reached it. For a custom wire.
    ///
    /// # Errors
    ///
    /// The connection is lost, so the outcome is unknown to the caller.
    pub fn heard(self, request: &[u8], reply: Option<HttpResponse>) -> Result<HttpResponse, ConnectorError> {
        let said = match self {
            Self::Throttled => error(400, "ProvisionedThroughputExceededException"),
            Self::Conflict => conflict(request),
            Self::ErrorBefore | Self::ErrorAfter => error(500, "InternalServerError"),
            Self::UnavailableBefore | Self::UnavailableAfter => error(503, "ServiceUnavailable"),
            Self::Denied => error(400, "AccessDeniedException"),
            Self::Garbled => Reply { status: 200, body: "{\"Attri".to_owned() },
            Self::Ok | Self::HeldBefore | Self::HeldAfter | Self::FrozenBefore | Self::FrozenAfter => {
                return reply.ok_or_else(lost);
            }
            _ => return Err(lost()),
        };
        said.into_response()
    }
}

fn lost() -> ConnectorError {
    ConnectorError::io(std::io::Error::new(std::io::ErrorKind::ConnectionReset, "nothing was heard").into())
}

/// A transaction is cancelled, with a reason for each of its actions. Another request is refused.
fn conflict(request: &[u8]) -> Reply {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    let Some(actions) = request["TransactItems"].as_array().filter(|actions| !actions.is_empty()) else {
        return error(400, "TransactionConflictException");
    };
    let mut reasons = vec![json!({ "Code": "None" }); actions.len()];
    reasons[0] = json!({ "Code": "TransactionConflict", "Message": "Transaction is ongoing for the item" });
    let body = json!({
        "__type": format!("{SERVICE}TransactionCanceledException"),
        "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons",
        "CancellationReasons": reasons,
    });
    Reply { status: 400, body: body.to_string() }
}

fn error(status: u16, code: &str) -> Reply {
    let body = json!({ "__type": format!("{SERVICE}{code}"), "message": "injected" });
    Reply { status, body: body.to_string() }
}
