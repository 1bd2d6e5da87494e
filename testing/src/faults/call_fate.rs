//! The fates of one call to a service other than DynamoDB.

use std::time::Duration;

use locker::Failure;

/// The fate of one call to a service other than DynamoDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallFate {
    /// The call succeeds.
    Ok,
    /// The call is refused for now and has no effect: a transient failure.
    Refused,
    /// The call is refused for now, and the reply asks the caller to retry after two seconds.
    Busy,
    /// The call is declined and has no effect: a permanent failure.
    Declined,
    /// The call never arrives, and the caller receives no reply: a failure in doubt.
    Lost,
    /// The call takes effect, and its reply is lost: a failure in doubt.
    ReplyLost,
    /// The caller receives no reply, and the call takes effect later: a failure in doubt.
    Late,
    /// The process dies before the call. Outside a [`sweep`](crate::sweep) there is no process: the
    /// caller waits without end.
    DiesBefore,
    /// The call takes effect, and the process dies before it receives the reply. Outside a
    /// [`sweep`](crate::sweep) the caller waits without end.
    DiesAfter,
    /// The process is suspended for 20 minutes before the call, while others continue. Then it
    /// resumes.
    FrozenBefore,
    /// The same, after the call took effect.
    FrozenAfter,
}

impl CallFate {
    /// The fates that [`sweep`](crate::sweep) plays at each call.
    pub const SWEPT: [Self; 8] = [
        Self::Refused,
        Self::Lost,
        Self::ReplyLost,
        Self::Late,
        Self::DiesBefore,
        Self::DiesAfter,
        Self::FrozenBefore,
        Self::FrozenAfter,
    ];

    /// Whether the call takes effect when it is made.
    #[must_use]
    pub const fn happens(self) -> bool {
        matches!(self, Self::Ok | Self::ReplyLost | Self::DiesAfter | Self::FrozenBefore | Self::FrozenAfter)
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

    /// Returns the result that the caller receives. `came_to`: the result of the effect, if it took
    /// place.
    pub(crate) fn heard<T>(self, what: &str, came_to: Option<T>) -> Result<T, Failure> {
        match (self, came_to) {
            (Self::Ok | Self::FrozenBefore | Self::FrozenAfter, Some(came_to)) => Ok(came_to),
            (Self::Refused, _) => Err(Failure::transient(format!("{what} was refused for now"))),
            (Self::Busy, _) => {
                Err(Failure::transient(format!("too busy for {what}")).after(Duration::from_secs(2)))
            }
            (Self::Declined, _) => Err(Failure::permanent(format!("{what} was declined"))),
            _ => Err(Failure::in_doubt(format!("nothing was heard of {what}"))),
        }
    }
}
