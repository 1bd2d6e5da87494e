//! What can become of one exchange.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;

use super::memory::Reply;

/// What becomes of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes well.
    Ok,
    /// The request never arrives.
    RequestLost,
    /// The request is applied, and its reply never arrives.
    ReplyLost,
    /// The server answers 500 and applies nothing.
    ErrorBefore,
    /// The server applies the request and answers 500.
    ErrorAfter,
    /// The server is too busy and applies nothing.
    Throttled,
    /// The item is in a transaction, so nothing is applied.
    Conflict,
    /// Nothing is heard, and the request is applied later: at any later exchange, or after everybody is done.
    AppliedLate,
    /// The client dies before the request is sent.
    CrashBefore,
    /// The request is applied, and the client dies before it hears of it.
    CrashAfter,
    /// The server answers 503 and applies nothing.
    UnavailableBefore,
    /// The server applies the request and answers 503.
    UnavailableAfter,
}

/// Everything that can happen.
pub const ALL: &[Fate] = &[
    Fate::Ok,
    Fate::RequestLost,
    Fate::ReplyLost,
    Fate::ErrorBefore,
    Fate::ErrorAfter,
    Fate::Throttled,
    Fate::Conflict,
    Fate::AppliedLate,
    Fate::CrashBefore,
    Fate::CrashAfter,
    Fate::UnavailableBefore,
    Fate::UnavailableAfter,
];

/// One of each kind that the server cannot tell apart, for greater depths: to the table a 500 or 503 before
/// applying is a lost request, a 500 after it a lost reply, and a conflict is a throttle.
pub const FEW: &[Fate] = &[
    Fate::Ok,
    Fate::RequestLost,
    Fate::ReplyLost,
    Fate::Throttled,
    Fate::AppliedLate,
    Fate::CrashBefore,
    Fate::CrashAfter,
];

/// What the client learns from an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learned {
    Answer,
    NotApplied,
    Nothing,
}

impl Fate {
    /// Whether the engine is asked now.
    pub(crate) const fn applies(self) -> bool {
        matches!(
            self,
            Self::Ok | Self::ReplyLost | Self::ErrorAfter | Self::UnavailableAfter | Self::CrashAfter
        )
    }

    /// Whether the client dies of it.
    pub(crate) const fn kills(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter)
    }

    /// What the client learns: that it was not applied, an answer, or nothing.
    pub(super) const fn learned(self) -> Learned {
        match self {
            Self::Throttled | Self::Conflict => Learned::NotApplied,
            Self::Ok => Learned::Answer,
            _ => Learned::Nothing,
        }
    }

    /// What the client hears; nothing if it is dead.
    pub(crate) fn heard(self, reply: Option<Reply>) -> Result<HttpResponse, ConnectorError> {
        match (self, reply) {
            (Self::Ok, Some(reply)) => Ok(response(reply.status, reply.body)),
            (Self::ErrorBefore | Self::ErrorAfter, _) => Ok(error(500, "InternalServerError")),
            (Self::UnavailableBefore | Self::UnavailableAfter, _) => Ok(error(503, "ServiceUnavailable")),
            (Self::Throttled, _) => Ok(error(400, "ProvisionedThroughputExceededException")),
            (Self::Conflict, _) => Ok(error(400, "TransactionConflictException")),
            _ => {
                let lost = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "nothing was heard");
                Err(ConnectorError::io(lost.into()))
            }
        }
    }
}

fn error(status: u16, code: &str) -> HttpResponse {
    response(
        status,
        format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{code}\",\"message\":\"injected\"}}"),
    )
}

fn response(status: u16, body: String) -> HttpResponse {
    HttpResponse::new(status.try_into().expect("a status"), SdkBody::from(body))
}
