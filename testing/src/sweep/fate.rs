//! What can become of one request to DynamoDB, and of one call to something else.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;

use crate::Reply;

/// What becomes of one request to DynamoDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It never arrives.
    Lost,
    /// It is applied, and its reply never arrives.
    ReplyLost,
    /// Nothing is heard, and it is applied later.
    Late,
    /// DynamoDB is too busy, and applies nothing.
    Throttled,
    /// The item is in a transaction, so nothing is applied.
    Conflict,
    /// DynamoDB answers 500, and applies nothing.
    ErrorBefore,
    /// DynamoDB applies it, and answers 500.
    ErrorAfter,
    /// The process dies before it is sent.
    DiesBefore,
    /// It is applied, and the process dies before it hears of it.
    DiesAfter,
    /// The process is suspended for 20 minutes before it is sent, while others go on, and wakes.
    FrozenBefore,
    /// The same, after it was applied.
    FrozenAfter,
}

/// What becomes of one call to something other than DynamoDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallFate {
    /// It is refused for now, and nothing happens: a transient failure.
    Refused,
    /// It never arrives, and the caller does not know: a failure in doubt.
    Lost,
    /// It happens, and the caller does not hear of it: a failure in doubt.
    ReplyLost,
    /// The caller hears nothing, and it happens later: a failure in doubt.
    Late,
    /// The process dies before the call.
    DiesBefore,
    /// It happens, and the process dies before it hears of it.
    DiesAfter,
    /// The process is suspended for 20 minutes before the call, while others go on, and wakes.
    FrozenBefore,
    /// The same, after it happened.
    FrozenAfter,
}

impl Fate {
    pub(super) const ALL: [Self; 11] = [
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

    /// Whether DynamoDB applies it now.
    pub(super) const fn applies(self) -> bool {
        matches!(
            self,
            Self::ReplyLost | Self::ErrorAfter | Self::DiesAfter | Self::FrozenBefore | Self::FrozenAfter
        )
    }

    pub(super) const fn kills(self) -> bool {
        matches!(self, Self::DiesBefore | Self::DiesAfter)
    }

    pub(super) const fn freezes(self) -> bool {
        matches!(self, Self::FrozenBefore | Self::FrozenAfter)
    }
}

impl CallFate {
    pub(super) const ALL: [Self; 8] = [
        Self::Refused,
        Self::Lost,
        Self::ReplyLost,
        Self::Late,
        Self::DiesBefore,
        Self::DiesAfter,
        Self::FrozenBefore,
        Self::FrozenAfter,
    ];

    /// Whether it happens now.
    pub(super) const fn happens(self) -> bool {
        matches!(self, Self::ReplyLost | Self::DiesAfter | Self::FrozenBefore | Self::FrozenAfter)
    }

    pub(super) const fn kills(self) -> bool {
        matches!(self, Self::DiesBefore | Self::DiesAfter)
    }

    pub(super) const fn freezes(self) -> bool {
        matches!(self, Self::FrozenBefore | Self::FrozenAfter)
    }
}

/// What the process hears of its request. `None`: no fault.
pub(super) fn heard(fate: Option<Fate>, reply: Option<Reply>) -> Result<HttpResponse, ConnectorError> {
    match (fate, reply) {
        (None | Some(Fate::FrozenBefore | Fate::FrozenAfter), Some(reply)) => {
            response(reply.status, reply.body)
        }
        (Some(Fate::Throttled), _) => error(400, "ProvisionedThroughputExceededException"),
        (Some(Fate::Conflict), _) => error(400, "TransactionConflictException"),
        (Some(Fate::ErrorBefore | Fate::ErrorAfter), _) => error(500, "InternalServerError"),
        _ => {
            let lost = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "nothing was heard");
            Err(ConnectorError::io(lost.into()))
        }
    }
}

fn error(status: u16, code: &str) -> Result<HttpResponse, ConnectorError> {
    let body = format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{code}\",\"message\":\"injected\"}}");
    response(status, body)
}

fn response(status: u16, body: String) -> Result<HttpResponse, ConnectorError> {
    let status = status.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))?;
    Ok(HttpResponse::new(status, SdkBody::from(body)))
}
