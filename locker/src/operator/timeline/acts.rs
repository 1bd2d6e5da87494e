//! What operators did, as events.

use super::event::{Event, Happening};
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;
use crate::core::token::work::Work;
use crate::session::AuditRecord;

pub(super) fn event(act: &AuditRecord) -> Option<Event> {
    let event =
        Event::new(act.at?, act.work(), Happening::Operator(act.resolution?)).because(act.reason.as_deref());
    let event = act.by.iter().fold(event, |event, by| event.by(by));
    Some(act.step.iter().fold(event, |event, step| event.at_step(step)))
}

/// An act that its record has, and the audit no longer.
pub(super) fn of_record(of: Work, done: Resolution, by: &Intervention) -> Event {
    Event::new(by.at, of, Happening::Operator(done)).by(&by.by).because(Some(&by.reason))
}
