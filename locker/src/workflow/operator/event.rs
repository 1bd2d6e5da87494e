//! Events as operators see them, and their acts on events.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::view::View;
use super::workflow::Prepared;
use crate::core::answer::{self, Encoded};
use crate::core::argument::InvalidSetting;
use crate::core::name;
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;
use crate::core::workflow::audit::Deed;
use crate::core::workflow::event::{
    Decision, EventAct, EventRecord, EventState, Former, Identity, LateCause, Met, Signal,
};
use crate::core::workflow::header::{Awaited, Header, HeaderEvent, OperatorAct};
use crate::core::workflow::place::{Effect, Place, Undo, shown_event};
use crate::core::workflow::step::{RecordId, StepState};
use crate::error::Error;
use crate::session::Operator;
use crate::settings;
use crate::store::Until;
use crate::workflow::workflows::Workflows;

/// An event as it was read, and the wait of the code for it.
#[derive(Clone)]
pub struct EventView {
    pub(crate) record: EventRecord,
}

impl std::fmt::Debug for EventView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventView")
            .field("name", &self.name())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl EventView {
    /// Returns the name, such as `event:paid`. A further event under a name that has its event has
    /// a digest after the name. An operator acts on the event by this name.
    #[must_use]
    pub fn name(&self) -> String {
        self.record.id.shown()
    }

    /// The state of the event.
    #[must_use]
    pub fn state(&self) -> EventState {
        self.record.state
    }

    /// When the code reached its wait first. `None`: it has not reached it.
    #[must_use]
    pub fn since(&self) -> Option<DateTime<Utc>> {
        self.record.wait.as_ref().map(|wait| wait.since)
    }

    /// When the wait ends, if the event does not come.
    #[must_use]
    pub fn until(&self) -> Option<DateTime<Utc>> {
        self.record.wait.as_ref().map(|wait| wait.until)
    }

    /// When the event came.
    #[must_use]
    pub fn arrived(&self) -> Option<DateTime<Utc>> {
        self.record.arrived.as_ref().map(|arrived| arrived.at)
    }

    /// The id that its sender gave.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.record.arrived.as_ref()?.identity.id.as_deref()
    }

    /// The value of the event, as JSON text. It may be private.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        answer::decode(self.record.arrived.as_ref()?.identity.value.clone()).ok()
    }

    /// Why the event is late, or was.
    #[must_use]
    pub fn cause(&self) -> Option<&'static str> {
        self.record.cause.map(LateCause::as_str)
    }

    /// The name of the compensation that runs if the event is late.
    #[must_use]
    pub fn compensation(&self) -> Option<&str> {
        Some(self.record.wait.as_ref()?.on_late.as_ref()?.name.as_str())
    }

    /// The operator who gave, corrected or skipped the event, and the reason.
    #[must_use]
    pub fn intervention(&self) -> Option<&Intervention> {
        self.record.intervention.as_ref()
    }

    /// Whether its compensation is to run, unless the workflow was closed.
    pub(crate) fn is_owed(&self) -> bool {
        self.record.owed().is_some()
    }

    /// The wait, if the code may still receive the event.
    pub(crate) fn awaited(&self, header: &Header) -> Option<Awaited> {
        let wait = self.record.wait.as_ref().filter(|_| self.record.is_awaited(header))?;
        Some(Awaited { name: self.name(), since: wait.since, until: wait.until })
    }
}

/// Whether the name of a step, as an operator gives it, is that of an event.
pub(crate) fn is_event(step: &str) -> bool {
    step.starts_with(name::EVENT_PREFIX)
}

/// The compensation of a late event, which has a record as a step has.
fn compensation_of(event: &EventRecord) -> String {
    let undo = Undo { effect: Effect { step: &event.id.shown(), version: 1 }, late: true };
    RecordId::compensation(&event.id.workflow, undo).shown()
}

impl View {
    /// The compensation of a late event that has begun, and whose outcome an operator decides
    /// about, or a driver.
    pub(crate) fn open_compensation(&self, event: &EventView) -> Option<String> {
        let name = compensation_of(&event.record);
        let is_open = |state| !matches!(state, StepState::Completed | StepState::Compensated);
        self.step(&name).filter(|step| is_open(step.state())).map(|_| name)
    }

    /// Whether the workflow is in quarantine since its code cannot read this event.
    pub(crate) fn cannot_read(&self, event: &EventView) -> bool {
        self.header.awaits(&event.record.id.reference())
    }
}

/// An event that an operator gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEvent<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a Value,
    pub(crate) id: Option<&'a str>,
}

impl Workflows {
    /// Gives an event as a sender does, with an audit record.
    pub(super) fn signal_of<'a>(
        &self,
        seen: &'a View,
        event: NewEvent<'_>,
        operator: &Operator,
    ) -> Result<Option<Prepared<'a>>, Error> {
        const VERB: &str = "signal the workflow";
        let NewEvent { name, value, id } = event;
        name::check(name).map_err(InvalidSetting::EventName)?;
        if let Some(id) = id {
            settings::check_event_id(id)?;
        }
        let (context, header) = (self.context(), &seen.header);
        let value = answer::encode_for_item(answer::to_json(value)?)?;
        let identity = Identity { id: id.map(str::to_owned), value: value.clone() };
        let given = Signal { name: name.to_owned(), identity, by: context.new_id(), answer: None };
        let at = |place: Place<'_>| RecordId::at(&header.workflow, place);
        let main = at(Place::Event(name));
        let records = || seen.events.iter().map(|event| &event.record).chain(&seen.former_events);
        let is_surplus = |record: &&EventRecord| match record.id.place() {
            Ok(Place::Surplus { event, .. }) => event == name,
            _ => false,
        };
        let met = Met {
            header: Some(header.clone()),
            event: records().find(|record| record.id == main).cloned(),
            surplus: Some(records().filter(is_surplus).cloned().collect()),
            // An operator decides about this version, so former versions are not read.
            former: Some(Former::default()),
        };
        let state = met.event.as_ref().map(|event| event.state.as_str());
        // The latest version receives the event.
        if header.continued_as.is_some() {
            return Ok(None);
        }
        let Decision::Write { answer, event: (_, next), header: (_, then) } =
            given.decide(&met, context.stamp())
        else {
            return Ok(None);
        };
        let by = operator.at(context.now());
        let shown = shown_event(name);
        let deed = Deed { given: Some(value), ..Deed::of_step(Resolution::Signalled, &shown, state) };
        let over = records().find(|record| record.id == next.id);
        let events = vec![(over, next.given_by(by.clone()))];
        let audit = self.audited(deed, (&header.workflow, Some(header)), by);
        Ok(Some(Prepared { header: Some(*then), events, answer: Some(answer), ..Prepared::of(VERB, audit) }))
    }

    /// Returns whether a former version has the event that an operator gives to this version.
    pub(super) async fn is_known_before(
        &self,
        seen: &View,
        event: NewEvent<'_>,
        until: Until,
    ) -> Result<bool, Error> {
        let (NewEvent { name, id, .. }, context) = (event, self.context());
        if seen.header.continues.is_none() || id.is_none() {
            return Ok(false);
        }
        let identity = Identity { id: id.map(str::to_owned), value: Encoded::plain("null".to_owned()) };
        let given = Signal { name: name.to_owned(), identity, by: context.new_id(), answer: None };
        Ok(Box::pin(context.former(&seen.header, None, &given, until)).await?.has_event)
    }

    /// Handles a late event without its compensation. If the compensation may run, or has begun, it
    /// is not possible.
    pub(super) fn skip_of_event<'a>(
        &self,
        seen: &'a View,
        event: &str,
        operator: &Operator,
    ) -> Option<Prepared<'a>> {
        let view = seen.event(event)?;
        let by = operator.at(self.context().now());
        // The write also depends on the header: a driver that claims the workflow between the read
        // and this write might begin the compensation.
        let is_owed = view.is_owed() && !seen.header.state.is_final();
        if is_owed && seen.open_compensation(view).is_some() {
            return None;
        }
        let act = is_owed.then_some(OperatorAct::Dismiss);
        let deed = Deed::of_step(Resolution::Skipped, event, Some(view.state().as_str()));
        let skipped = self.on_event(seen, view, (EventAct::Dismiss { by: by.clone() }, act), deed, by)?;
        // Another late event may reopen a closed workflow, and a retry would run this compensation.
        let depends = skipped.header.is_none() && view.is_owed();
        Some(Prepared { depends, ..skipped })
    }

    /// Replaces the value of an event that the code has not read and cannot read.
    pub(super) fn correction_of_event<'a>(
        &self,
        seen: &'a View,
        event: &str,
        value: &Value,
        operator: &Operator,
    ) -> Result<Option<Prepared<'a>>, Error> {
        let Some(view) = seen.event(event).filter(|view| seen.cannot_read(view)) else { return Ok(None) };
        let by = operator.at(self.context().now());
        let value = answer::encode_for_item(answer::to_json(value)?)?;
        let deed = Deed {
            given: Some(value.clone()),
            ..Deed::of_step(Resolution::Corrected, event, Some(view.state().as_str()))
        };
        let act = EventAct::Correct { by: by.clone(), value };
        Ok(self.on_event(seen, view, (act, Some(OperatorAct::Decide)), deed, by))
    }

    fn on_event<'a>(
        &self,
        seen: &'a View,
        event: &'a EventView,
        (act, of_header): (EventAct, Option<OperatorAct>),
        deed: Deed<'_>,
        by: Intervention,
    ) -> Option<Prepared<'a>> {
        const VERB: &str = "change the event";
        let (context, header) = (self.context(), &seen.header);
        let next = event.record.on(&event.record.revision, &act, context.stamp()).ok()?;
        let then = match of_header {
            Some(act) => {
                let happened = HeaderEvent::Operator { seen: header.revision.clone(), by: by.clone(), act };
                Some(header.on(&happened, context.stamp()).ok()?)
            }
            None => None,
        };
        let audit = self.audited(deed, (&header.workflow, Some(header)), by);
        let events = vec![(Some(&event.record), next)];
        Some(Prepared { header: then, events, ..Prepared::of(VERB, audit) })
    }
}
