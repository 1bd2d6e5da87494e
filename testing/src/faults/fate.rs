//! The fates of one request to DynamoDB.

use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;

use crate::Reply;

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
    /// The item is in a transaction, so nothing is applied.
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

    /// Returns the result that the caller receives. `reply`: the reply of DynamoDB, if the request
    /// reached it. For a custom wire.
    ///
    /// # Errors
    ///
    /// The connection is lost, so the outcome is unknown to the caller.
    pub fn heard(self, reply: Option<HttpResponse>) -> Result<HttpResponse, ConnectorError> {
        let said = match self {
            Self::Throttled => error(400, "ProvisionedThroughputExceededException"),
            Self::Conflict => error(400, "TransactionConflictException"),
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

fn error(status: u16, code: &str) -> Reply {
    let body = format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{code}\",\"message\":\"injected\"}}");
    Reply { status, body }
}
