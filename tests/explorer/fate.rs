//! Which fates the explorer plays, and what a client learns of each.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
pub use lock_token_testing::Fate;

use super::memory::Reply;

/// Everything that can happen.
pub const ALL: &[Fate] = &[
    Fate::Ok,
    Fate::Lost,
    Fate::ReplyLost,
    Fate::ErrorBefore,
    Fate::ErrorAfter,
    Fate::Throttled,
    Fate::Conflict,
    Fate::Late,
    Fate::DiesBefore,
    Fate::DiesAfter,
    Fate::UnavailableBefore,
    Fate::UnavailableAfter,
];

/// One of each kind that the server cannot tell apart, for greater depths: to the table a 500 or
/// 503 before applying is a lost request, a 500 after it a lost reply, and a conflict is a
/// throttle.
pub const FEW: &[Fate] =
    &[Fate::Ok, Fate::Lost, Fate::ReplyLost, Fate::Throttled, Fate::Late, Fate::DiesBefore, Fate::DiesAfter];

/// What the client learns from an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learned {
    Answer,
    NotApplied,
    Nothing,
}

impl Learned {
    /// What the client learns: that it was not applied, an answer, or nothing.
    pub(super) const fn of(fate: Fate) -> Self {
        match fate {
            Fate::Throttled | Fate::Conflict => Self::NotApplied,
            Fate::Ok => Self::Answer,
            _ => Self::Nothing,
        }
    }
}

/// What the client hears; nothing if it is dead.
pub(crate) fn heard(
    fate: Fate,
    request: &[u8],
    reply: Option<Reply>,
) -> Result<HttpResponse, ConnectorError> {
    fate.heard(request, reply.map(Reply::into_response).transpose()?)
}
