//! What can become of one request to DynamoDB.

use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;

use crate::Reply;

/// How long a frozen process is suspended: longer than others usually wait for it.
pub(crate) const FROZEN: Duration = Duration::from_secs(20 * 60);

/// What becomes of one request to DynamoDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It goes well.
    Ok,
    /// It never arrives.
    Lost,
    /// It is applied, and its reply never arrives.
    ReplyLost,
    /// The connection is lost, and it is applied later.
    Late,
    /// DynamoDB is too busy, and applies nothing.
    Throttled,
    /// The item is in a transaction, so nothing is applied.
    Conflict,
    /// DynamoDB answers 500, and applies nothing.
    ErrorBefore,
    /// DynamoDB applies it, and answers 500.
    ErrorAfter,
    /// DynamoDB answers 503, and applies nothing.
    UnavailableBefore,
    /// DynamoDB applies it, and answers 503.
    UnavailableAfter,
    /// The caller has no permission for it.
    Denied,
    /// It is applied, and the reply is 200 with half a body.
    Garbled,
    /// It is not applied, and there is no reply for an hour: your timeouts decide.
    Stalls,
    /// The same, and it is applied.
    Hangs,
    /// It waits until [`Wire::let_through`](crate::Wire::let_through), and is applied then.
    HeldBefore,
    /// It is applied, and its reply waits until [`Wire::let_through`](crate::Wire::let_through).
    HeldAfter,
    /// The process dies before it is sent. A [`Wire`](crate::Wire) has no process: its caller waits
    /// without end.
    DiesBefore,
    /// It is applied, and the process dies before it hears of it. A [`Wire`](crate::Wire) has no
    /// process: its caller waits without end.
    DiesAfter,
    /// The process is suspended for 20 minutes before it is sent, while others go on, and wakes. On
    /// a [`Wire`](crate::Wire), only the request waits.
    FrozenBefore,
    /// The same, after it was applied.
    FrozenAfter,
}

impl Fate {
    /// What [`sweep`](crate::sweep) plays at each request. To a table, a 503 is a 500.
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

    /// Whether DynamoDB applies it when it is sent.
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

    /// Whether the process dies of it.
    #[must_use]
    pub const fn kills(self) -> bool {
        matches!(self, Self::DiesBefore | Self::DiesAfter)
    }

    /// Whether the process is suspended by it.
    #[must_use]
    pub const fn freezes(self) -> bool {
        matches!(self, Self::FrozenBefore | Self::FrozenAfter)
    }

    /// What the caller hears, given the reply of DynamoDB if it was asked: for a wire of your own.
    ///
    /// # Errors
    ///
    /// The connection is lost, so that the caller knows nothing.
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
