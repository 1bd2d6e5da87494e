//! Times that a workflow records, and pauses until them.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Flow;
use crate::core::time;
use crate::workflow::step::name::IntoStepName;
use crate::workflow::step::step::Step;
use crate::workflow::stop::{Stop, StopKind};

impl Flow {
    /// Pauses the workflow for this long, counted from the first run that reaches this point. The
    /// run ends here, and a completer resumes the workflow after that time.
    ///
    /// A pause costs no compute, uses up no attempts and does not count as failing, however long it
    /// is. The end of the pause is recorded: a later run does not begin it anew, also if the code
    /// now gives another duration. A pause beyond the year 9999 ends there.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use locker::workflow::{Flow, Stop};
    /// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    ///
    /// async fn remind(flow: &Flow) -> Result<(), Stop> {
    ///     for number in 1..=3 {
    ///         flow.sleep(("pause", number), DAY).await?;
    ///         flow.once(("mail", number)).run(async |_| Ok(())).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// The name is that of a step: no other step of the workflow may have it. The completer that
    /// resumes the workflow runs once a minute by default, so a pause may take a minute longer.
    ///
    /// # Errors
    ///
    /// [`Stop`] until the pause is over; pass it on. Otherwise as of a [`step`](Self::step).
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit to record the time, and nothing once it is recorded. The workflow
    /// is released and claimed once more than without a pause: 2 requests, 2 write units and 4 for
    /// the index, and 1 query.
    pub async fn sleep(&self, name: impl IntoStepName, pause: Duration) -> Result<(), Stop> {
        let until = self.record_time(name, |now| time::after(now, pause)).await?;
        self.wait_until(until)
    }

    /// Pauses the workflow until this time. Same as [`sleep`](Self::sleep): the first run that
    /// reaches this point records the time, and later runs keep it.
    ///
    /// # Errors
    ///
    /// Same as [`sleep`](Self::sleep).
    ///
    /// # Cost
    ///
    /// Same as [`sleep`](Self::sleep).
    pub async fn sleep_until(&self, name: impl IntoStepName, until: DateTime<Utc>) -> Result<(), Stop> {
        let until = self.record_time(name, |_| until).await?;
        self.wait_until(until)
    }

    /// The time at which the workflow reached this point first, in milliseconds. It is recorded, so
    /// each later run has the same time.
    ///
    /// # Errors
    ///
    /// Same as a [`step`](Self::step).
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit; nothing if it is recorded.
    pub async fn now(&self, name: impl IntoStepName) -> Result<DateTime<Utc>, Stop> {
        self.record_time(name, |now| now).await
    }

    /// Records a time at the first call, and returns it in each call.
    async fn record_time(
        &self,
        name: impl IntoStepName,
        of: impl Fn(DateTime<Utc>) -> DateTime<Utc>,
    ) -> Result<DateTime<Utc>, Stop> {
        let step = Step::timer(self, self.path(name));
        let millis = step.run(async |_| Ok(time::stored(of(self.time())).timestamp_millis())).await?;
        Ok(DateTime::from_timestamp_millis(millis).map_or(self.time(), time::stored))
    }

    fn wait_until(&self, until: DateTime<Utc>) -> Result<(), Stop> {
        if until <= self.time() {
            return Ok(());
        }
        let stop = StopKind::Waiting { until };
        self.note_need(None, &stop);
        Err(stop.into())
    }
}
