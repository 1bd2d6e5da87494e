//! Times that a workflow records, and pauses until them.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Flow;
use crate::core::time;
use crate::core::workflow::header::Awaited;
use crate::core::workflow::step::RecordId;
use crate::workflow::step::name::IntoStepName;
use crate::workflow::step::step::Step;
use crate::workflow::stop::{Stop, StopKind};

impl Flow {
    /// Pauses the workflow for this long, counted from the first run that reaches this point.
    ///
    /// The run ends here. A completer resumes the workflow at its first run after the pause. It
    /// runs once a minute by default, so a pause may take a minute longer.
    ///
    /// A pause of any length costs no compute and uses up no attempts, and the workflow does not
    /// count as failing. The first run records the end of the pause. A later run does not start the
    /// pause again, even if the code then sets another duration. A pause ends in the year 9999 at
    /// the latest.
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
    /// The name is the name of a step: no other step of the workflow may have it.
    ///
    /// # Errors
    ///
    /// [`Stop`] until the pause is over; pass it on. Otherwise the same as a [`step`](Self::step).
    ///
    /// # Cost
    ///
    /// - 1 request and 1 write unit to record the time. Nothing if the time is recorded.
    /// - The end of the run and the next claim: 2 requests, 2 write units, 4 write units for the
    ///   index, and 1 query.
    pub async fn sleep(&self, name: impl IntoStepName, pause: Duration) -> Result<(), Stop> {
        let path = self.path(name);
        let until = self.record_time(path.clone(), |now| time::after(now, pause)).await?;
        self.wait_until(&path, until)
    }

    /// Pauses the workflow until this time.
    ///
    /// The first run that reaches this point records the time, and later runs use the recorded
    /// time, as with [`sleep`](Self::sleep). A time in the past does not pause.
    ///
    /// # Errors
    ///
    /// Same as [`sleep`](Self::sleep).
    ///
    /// # Cost
    ///
    /// Same as [`sleep`](Self::sleep).
    pub async fn sleep_until(
        &self,
        name: impl IntoStepName,
        until: impl Into<DateTime<Utc>>,
    ) -> Result<(), Stop> {
        let until = until.into();
        let path = self.path(name);
        let until = self.record_time(path.clone(), |_| until).await?;
        self.wait_until(&path, until)
    }

    /// Returns the time at which the workflow first reached this point, in whole milliseconds.
    ///
    /// The time is recorded, so each later run returns the same time. The name is the name of a
    /// step: no other step of the workflow may have it.
    ///
    /// # Errors
    ///
    /// Same as a [`step`](Self::step).
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit. Nothing if the time is recorded.
    pub async fn now(&self, name: impl IntoStepName) -> Result<DateTime<Utc>, Stop> {
        self.record_time(self.path(name), |now| now).await
    }

    /// Records a time at the first call, and returns it in each call.
    async fn record_time(
        &self,
        path: String,
        of: impl Fn(DateTime<Utc>) -> DateTime<Utc>,
    ) -> Result<DateTime<Utc>, Stop> {
        let step = Step::timer(self, path);
        let millis = step.run(async |_| Ok(time::stored(of(self.time())).timestamp_millis())).await?;
        Ok(DateTime::from_timestamp_millis(millis).map_or(self.time(), time::stored))
    }

    fn wait_until(&self, path: &str, until: DateTime<Utc>) -> Result<(), Stop> {
        if until <= self.time() {
            return Ok(());
        }
        let id = RecordId::at(self.workflow(), self.place_of(path));
        let since = self.recorded(&id).map_or(self.time(), |record| record.created);
        let stop = StopKind::Awaits(Awaited { name: id.shown(), since, until });
        self.note_need(None, &stop);
        Err(stop.into())
    }
}
