//! What can become of one call to something other than DynamoDB.

use std::time::Duration;

use locker::Failure;

/// What becomes of one call to something other than DynamoDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallFate {
    /// It goes well.
    Ok,
    /// It is refused for now, and nothing happens: a transient failure.
    Refused,
    /// The same, and the caller is told to come again in two seconds.
    Busy,
    /// It is declined, and nothing happens: a permanent failure.
    Declined,
    /// It never arrives, and the caller does not know: a failure in doubt.
    Lost,
    /// It happens, and the caller does not hear of it: a failure in doubt.
    ReplyLost,
    /// The caller hears nothing, and it happens later: a failure in doubt.
    Late,
    /// The process dies before the call. Outside a [`sweep`](crate::sweep) there is no process: the
    /// caller waits without end.
    DiesBefore,
    /// It happens, and the process dies before it hears of it. Outside a [`sweep`](crate::sweep)
    /// the caller waits without end.
    DiesAfter,
    /// The process is suspended for 20 minutes before the call, while others go on, and wakes.
    FrozenBefore,
    /// The same, after it happened.
    FrozenAfter,
}

impl CallFate {
    /// What [`sweep`](crate::sweep) plays at each call.
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

    /// Whether it happens when it is made.
    #[must_use]
    pub const fn happens(self) -> bool {
        matches!(self, Self::Ok | Self::ReplyLost | Self::DiesAfter | Self::FrozenBefore | Self::FrozenAfter)
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

    /// What the caller hears, given what it came to if it happened.
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
