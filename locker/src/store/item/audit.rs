//! From the audit record of an act on a token or a workflow to an item.

use super::value::{Item, answer_value, moment, number, text, token_key};
#[cfg(feature = "workflow")]
use super::writer::Writer;
#[cfg(feature = "messages")]
use super::writer::beside_item;
use crate::core::answer::{Body, REDACTED};
use crate::core::token::audit::Audit;
#[cfg(feature = "workflow")]
use crate::core::token::resolution::Resolution;
#[cfg(feature = "workflow")]
use crate::core::token::work::Work;
#[cfg(feature = "workflow")]
use crate::core::workflow::audit::WorkflowAudit;
use crate::store::schema::attribute as a;

pub(crate) fn audit_item(audit: &Audit) -> Item {
    let mut item = token_key(&audit.key);
    let mut put = |name: &str, value| item.insert(name.to_owned(), value);
    put(a::VERSION, number(a::CURRENT_VERSION));
    put(a::STATUS, text(&audit.status));
    // The index lists an act by its time.
    put(a::EXPECTED_COMPLETION, moment(audit.operator.at));
    put(a::RESOLUTION, text(audit.resolution.as_str()));
    put(a::RESOLVED_BY, text(&audit.operator.by));
    put(a::RESOLVED_REASON, text(&audit.operator.reason));
    put(a::RESOLVED_AT, moment(audit.operator.at));
    let found = &audit.found;
    put(a::STATE, text(found.state.as_str()));
    put(a::LOCKED_BY, text(&found.locked_by));
    put(a::CREATED, moment(found.created));
    for (name, value) in [(a::ATTEMPT, &found.attempt), (a::CAUSE, &found.cause)] {
        if let Some(value) = value {
            put(name, text(value));
        }
    }
    if let Some(class) = found.class {
        put(a::CLASS, text(class.as_str()));
    }
    if let Some(within) = &found.within {
        put(a::WITHIN, text(within.to_text()));
    }
    match &audit.answer {
        None => {}
        Some(Body::Inline(encoded)) => {
            put(a::RESULT_CODEC, text(encoded.codec.name()));
            put(a::RESULT, answer_value(encoded));
        }
        Some(Body::Beside { codec, id, bytes }) => {
            put(a::RESULT_CODEC, text(codec.name()));
            put(a::RESULT_ID, text(id));
            put(a::RESULT_BYTES, number(bytes));
        }
        Some(Body::Redacted) => {
            put(a::RESULT_CODEC, text(REDACTED));
        }
    }
    if let Some(ttl) = audit.ttl {
        put(a::TTL, number(ttl));
    }
    item
}

/// The body that the act of an audit record replaced.
#[cfg(feature = "messages")]
pub(crate) fn replaced_item(audit: &WorkflowAudit) -> Option<Item> {
    let (id, body) = audit.replaced.as_ref()?;
    let mut item = beside_item(&id.workflow, &id.item, body);
    if let Some(ttl) = audit.ttl {
        item.insert(a::TTL.to_owned(), number(ttl));
    }
    Some(item)
}

#[cfg(feature = "workflow")]
pub(crate) fn workflow_audit_item(audit: &WorkflowAudit) -> Item {
    let mut item = Writer::at(&audit.id.workflow, &audit.id.item);
    item.put(a::STATUS, text(&audit.status));
    item.put(a::NEXT_DUE, moment(audit.operator.at));
    item.put(a::RESOLUTION, text(audit.resolution.as_str()));
    item.intervention(Some(&audit.operator));
    item.text(a::STEP, audit.step.as_deref());
    item.text(a::STEP_STATE, audit.step_state);
    if let Some(found) = &audit.found {
        item.put(a::NAME, text(&found.name));
        item.put(a::STATE, text(found.state.as_str()));
        item.put(a::CREATED, moment(found.created));
        item.put(a::ATTEMPT, text(&found.attempt));
        item.text(a::LOCKED_BY, found.locked_by.as_deref());
        // It may repeat the failure that the act erased.
        let is_kept = audit.resolution != Resolution::Redacted;
        item.text(a::CAUSE, found.reason.as_deref().filter(|_| is_kept));
        item.text(a::WITHIN, found.within.as_ref().map(Work::to_text).as_deref());
    }
    if let Some(given) = &audit.given {
        item.put(a::RESULT_CODEC, text(given.codec.name()));
        item.put(a::RESULT, answer_value(given));
    }
    if let Some(ttl) = audit.ttl {
        item.put(a::TTL, number(ttl));
    }
    item.item()
}
