//! Events from outside, and the waits of code for them.

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::flow::Flow;
use super::step::intent::intent;
use super::stop::{Stop, StopKind};
use crate::core::answer::{self, AnswerError};
use crate::core::name;
use crate::core::time;
use crate::core::workflow::event::{EventAct, EventRecord, EventRefusal, NewWait, Reached};
use crate::core::workflow::header::Awaited;
use crate::core::workflow::place::{Place, shown_event};
use crate::core::workflow::step::{Intent, RecordId};
use crate::error::Error;
use crate::store::{Changed, Until, Versioned, Written};

/// The most times that the record of an event may change while the code reaches its wait.
const ROUNDS: usize = 10;

/// The name and the type of an event from outside.
///
/// A workflow and the senders of the event use the same constant. A workflow has one event of each
/// name. For several events of one kind, see [`part`](Self::part).
///
/// ```
/// use locker::workflow::Event;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Payment {
///     cents: u64,
/// }
///
/// const PAID: Event<Payment> = Event::named("paid");
/// assert_eq!(PAID.part(7).name(), "paid#7");
/// ```
pub struct Event<T> {
    name: Cow<'static, str>,
    value: PhantomData<fn() -> T>,
}

impl<T> Event<T> {
    /// Creates an event with this name.
    ///
    /// A name has 1 to 200 bytes of printable ASCII without space, `/` and `~`. It must not start
    /// with `event:`, `compensation:` or `compensation-late:`, or end with `#`. A signal with an
    /// invalid name returns [`Error::Invalid`], and a wait with an invalid name quarantines the
    /// workflow. Neither writes the event.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), value: PhantomData }
    }

    /// Returns one of several events of this kind: `PAID.part(7)` has the name `paid#7`.
    ///
    /// The id may contain any character. Characters that a name does not allow are encoded, and the
    /// whole name has at most 200 bytes.
    #[must_use]
    pub fn part(self, id: impl fmt::Display) -> Self {
        let name = Cow::Owned(name::with_id(&self.name, &id.to_string()));
        Self { name, value: PhantomData }
    }

    /// Returns the name of the event.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Event").field(&self.name).finish()
    }
}

impl Flow {
    /// Waits for an event from outside, such as a webhook or an approval.
    ///
    /// Senders give the event with [`Workflows::signal`](super::Workflows::signal).
    ///
    /// The run ends at the wait. The workflow resumes when the event comes, or when `within` has
    /// passed since the first run that reached the wait. A completer resumes it at its next run, by
    /// default within a minute. An event that comes before the wait is kept for the wait. A wait
    /// uses up no attempts.
    ///
    /// Returns the value, or `None` if the time passed first. **The result never changes:** every
    /// later run receives it, and an event that comes after `None` is late. A late event is listed
    /// for an operator. If the wait declares [`on_late`](Wait::on_late), its compensation runs
    /// once.
    ///
    /// `within` is 1 millisecond to 366 days. The first run that reaches the wait records the time
    /// and `on_late`, so later changes of the code do not change them.
    ///
    /// To wait for the first of several events, use one event with an enum as its value. A wait
    /// returns at once, so the order of the branches would decide a `select!` over waits.
    ///
    /// ```no_run
    /// # use locker::workflow::{Event, Flow, Stop};
    /// # use std::time::Duration;
    /// const APPROVED: Event<bool> = Event::named("approved");
    ///
    /// # async fn example(flow: &Flow) -> Result<bool, Stop> {
    /// let within = Duration::from_secs(30 * 24 * 60 * 60);
    /// Ok(flow.wait_for(APPROVED, within).await?.unwrap_or(false))
    /// # }
    /// ```
    ///
    /// **`None` means that the event did not come in time.** Handle it: the code continues.
    ///
    /// # Errors
    ///
    /// [`Stop`] until the event has come or the time has passed; pass it on.
    ///
    /// The workflow is quarantined if the name or `within` is invalid, or if one run waits twice
    /// for the same name. It is also quarantined if the code cannot read the value. The event then
    /// stays stored: deploy code that can read it, and retry the workflow.
    ///
    /// # Cost
    ///
    /// - The first run that reaches the wait: 1 request and 1 write unit, then the end of the run.
    /// - The run that receives the event: 1 request and 4 write units for 1 KB.
    /// - The run that finds that the time has passed: 1 request and 1 write unit.
    /// - Each later run: nothing.
    ///
    /// # Crash window
    ///
    /// None: the wait records that the code has the event before it returns the value.
    pub fn wait_for<T>(&self, event: Event<T>, within: Duration) -> Wait<'_, T>
    where
        T: Serialize + DeserializeOwned,
    {
        Wait { flow: self, event, within, on_late: None }
    }
}

/// A wait for an event. See [`Flow::wait_for`].
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait<'a, T> {
    flow: &'a Flow,
    event: Event<T>,
    within: Duration,
    on_late: Option<Result<Intent, StopKind>>,
}

impl<T> Wait<'_, T> {
    /// Declares the compensation of the event. It runs once, and does not change the outcome of the
    /// workflow, in two cases:
    ///
    /// - The event comes too late: after the time of the wait, a cancel or the end, or if the
    ///   workflow ends before the code has read it.
    /// - The code received the event, and the workflow then fails or is cancelled. The
    ///   compensations of the steps run first.
    ///
    /// Pass a variant of an enum, as in [`Once::compensate`](super::Once::compensate).
    /// [`Compensation::result`](super::Compensation::result) returns the value of the event, and
    /// [`Compensation::tried_under`](super::Compensation::tried_under) the id that its sender set.
    ///
    /// An event that came before the wait, in a workflow that never reaches the wait, has no
    /// compensation. It is listed for an operator.
    pub fn on_late(mut self, undo: &impl Serialize) -> Self {
        self.on_late = Some(intent(&shown_event(self.event.name()), undo, Duration::ZERO));
        self
    }
}

impl<T> fmt::Debug for Wait<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("event", &self.event)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

impl<'a, T> IntoFuture for Wait<'a, T>
where
    T: Serialize + DeserializeOwned + 'a,
{
    type Output = Result<Option<T>, Stop>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { flow, event, within, on_late } = self;
        Box::pin(async move {
            let json =
                flow.awaited(event.name(), within, on_late, |json| answer::from_json::<T>(json).map(drop));
            let Some(json) = json.await? else { return Ok(None) };
            Ok(Some(answer::from_json(&json).map_err(Error::from)?))
        })
    }
}

impl Flow {
    /// Returns the value of an event as JSON. `reads` checks that the code can read it.
    async fn awaited(
        &self,
        name: &str,
        within: Duration,
        on_late: Option<Result<Intent, StopKind>>,
        reads: fn(&str) -> Result<(), AnswerError>,
    ) -> Result<Option<String>, Stop> {
        let id = RecordId::at(self.workflow(), Place::Event(name));
        let waiting = async {
            crate::settings::check_within(within).map_err(Error::from)?;
            let new = NewWait {
                id: id.clone(),
                workflow_name: self.lock_header().name.clone(),
                run: self.created(),
                until: time::after(self.time(), within),
                of_compensation: self.is_of_compensation(),
                on_late: on_late.transpose()?,
            };
            self.reach(&new, reads).await
        };
        Ok(self.call_event(name, &id, Box::pin(waiting)).await?)
    }

    async fn reach(
        &self,
        new: &NewWait,
        reads: fn(&str) -> Result<(), AnswerError>,
    ) -> Result<Option<String>, StopKind> {
        // A sender may write the record between any two writes of this run. Each write is
        // conditional on the revision that was read. So one write is applied, and the other writer
        // decides again.
        for _ in 0..ROUNDS {
            let known = self.event(&new.id);
            let record = match (Reached::of(known.as_ref(), self.time()), known) {
                (Reached::Begin, _) | (_, None) => {
                    self.begin_to_wait(new).await?;
                    continue;
                }
                (reached, Some(record)) => (reached, record),
            };
            match record {
                (Reached::Wait(until), record) => {
                    let since = record.wait.as_ref().map_or(until, |wait| wait.since);
                    return Err(StopKind::Awaits(Awaited { name: record.id.shown(), since, until }));
                }
                (Reached::Take, record) => {
                    // A value that the code cannot read must stay `given`, so it is decoded first.
                    let json = self.value_of(&record, reads)?;
                    if self.take(record, new).await? {
                        return Ok(Some(json));
                    }
                }
                (Reached::Return, record) => return self.value_of(&record, reads).map(Some),
                (Reached::Expire | Reached::Begin, record) => self.expire(record).await?,
                (Reached::Nothing, _) => return Ok(None),
            }
        }
        let shown = new.id.shown();
        Err(super::step::step::later(self, &shown, None, "its record changed on every attempt to read it"))
    }

    fn value_of(
        &self,
        record: &EventRecord,
        reads: fn(&str) -> Result<(), AnswerError>,
    ) -> Result<String, StopKind> {
        let value = record.arrived.as_ref().map(|arrived| arrived.identity.value.clone());
        let value = value.ok_or(Error::from(AnswerError::Missing))?;
        let json = answer::decode(value).map_err(Error::from)?;
        reads(&json).map_err(|error| StopKind::Unreadable {
            step: record.id.shown(),
            error,
            item: record.id.reference(),
        })?;
        Ok(json)
    }

    async fn begin_to_wait(&self, new: &NewWait) -> Result<(), StopKind> {
        // A record of a deleted workflow would never be deleted: no reaper finds it.
        if self.is_deleted().await {
            return Err(StopKind::Lost);
        }
        let context = self.context();
        let rule = |stored: Option<&EventRecord>| EventRecord::wait(stored, new, context.stamp());
        let put = context.store().change("wait for the event", None, self.until_recorded(), rule);
        match Box::pin(put).await? {
            Changed::Done(record) | Changed::Refused { stored: Some(record), .. } => self.note_event(record),
            Changed::Refused { stored: None, .. } | Changed::Gone => {}
        }
        Ok(())
    }

    /// Records that the time of the wait has passed. An event that came first counts.
    async fn expire(&self, record: EventRecord) -> Result<(), StopKind> {
        let act = EventAct::Expire { by: self.attempt().to_owned() };
        let put = self.context().act_on_event("end the wait", record, &act, self.until_recorded());
        match Box::pin(put).await? {
            Changed::Done(record) | Changed::Refused { stored: Some(record), .. } => self.note_event(record),
            Changed::Refused { stored: None, .. } | Changed::Gone => return Err(StopKind::Lost),
        }
        Ok(())
    }

    /// Records that the code has the event. `false`: the record has changed since it was read.
    ///
    /// The transaction checks that this driver still has the workflow. If an operator has cancelled
    /// the workflow, its end must find out whether the event is late.
    async fn take(&self, record: EventRecord, new: &NewWait) -> Result<bool, StopKind> {
        let context = self.context();
        let act = EventAct::Take { by: self.attempt().to_owned(), at: Box::new(new.clone()) };
        let Ok(taken) = record.on(&record.revision, &act, context.stamp()) else { return Ok(false) };
        let store = context.store();
        let actions = [store.over(Some(&record), &taken), self.still_drives()];
        let token = context.new_id();
        match Box::pin(store.transact("take the event", &actions, &token, self.until_recorded())).await? {
            Written::Done => {
                self.note_event(taken);
                Ok(true)
            }
            Written::Refused { found, .. } if found.iter().any(|(place, _)| *place == 1) => {
                Err(StopKind::Lost)
            }
            Written::Refused { found, .. } => {
                for item in found.into_iter().filter_map(|(_, item)| item) {
                    self.note_event(EventRecord::of_item(&item).map_err(Error::from)?);
                }
                Ok(false)
            }
        }
    }
}

impl Context {
    /// Changes an event by this act, if it is still as it was read.
    pub(crate) async fn act_on_event(
        &self,
        verb: &'static str,
        seen: EventRecord,
        act: &EventAct,
        until: Until,
    ) -> Result<Changed<EventRecord, EventRefusal>, Error> {
        let revision = seen.revision.clone();
        let rule = |stored: Option<&EventRecord>| {
            stored.ok_or(EventRefusal::Changed)?.on(&revision, act, self.stamp())
        };
        Box::pin(self.store().change(verb, Some(seen), until, rule)).await
    }
}
