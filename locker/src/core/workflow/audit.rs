//! The audit record of an operator's act on a workflow: a separate item, which outlives the
//! workflow.

use super::header::Header;
use super::place::Place;
use super::step::RecordId;
use crate::core::answer::Encoded;
use crate::core::shard;
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;

/// The largest result that an audit record repeats, in bytes as it is stored. A record of a
/// corrected message contains each body in full.
const LARGEST: usize = 100_000;

/// An act of an operator, before it is applied.
#[derive(Debug, Clone)]
pub(crate) struct Deed<'a> {
    pub(crate) resolution: Resolution,
    /// The name of the step or the event, and its state as the operator saw it.
    pub(crate) step: Option<(&'a str, Option<&'static str>)>,
    /// The result that the operator gave.
    pub(crate) given: Option<Encoded>,
    /// The body of a message that `given` replaces.
    pub(crate) replaced: Option<Encoded>,
}

/// An audit record as it is written.
#[derive(Debug, Clone)]
pub(crate) struct WorkflowAudit {
    pub(crate) id: RecordId,
    pub(crate) status: String,
    pub(crate) resolution: Resolution,
    pub(crate) step: Option<String>,
    pub(crate) step_state: Option<&'static str>,
    pub(crate) operator: Intervention,
    /// The workflow that the operator read. `None`: nothing had started.
    pub(crate) found: Option<Header>,
    pub(crate) given: Option<Encoded>,
    /// Stored next to the record, because two bodies may exceed an item.
    #[cfg_attr(not(feature = "messages"), allow(dead_code, reason = "only messages have bodies"))]
    pub(crate) replaced: Option<(RecordId, Encoded)>,
    pub(crate) ttl: Option<i64>,
}

impl<'a> Deed<'a> {
    pub(crate) const fn of_workflow(resolution: Resolution) -> Self {
        Self { resolution, step: None, given: None, replaced: None }
    }

    pub(crate) const fn of_step(resolution: Resolution, step: &'a str, found: Option<&'static str>) -> Self {
        Self { resolution, step: Some((step, found)), given: None, replaced: None }
    }
}

impl WorkflowAudit {
    pub(crate) fn new(
        deed: Deed<'_>,
        (workflow, found): (&str, Option<&Header>),
        operator: Intervention,
        (id, shards, ttl): (&str, u16, Option<i64>),
    ) -> Self {
        // In the order of their times, as a query of the workflow reads them.
        let at = operator.at;
        let place = Place::Audit { at, id };
        let is_whole = deed.replaced.is_some();
        let replaced = deed.replaced.map(|body| (RecordId::at(workflow, Place::Replaced { at, id }), body));
        Self {
            id: RecordId::at(workflow, place),
            status: shard::status(shard::AUDIT, workflow, shards),
            resolution: deed.resolution,
            step: deed.step.map(|(name, _)| name.to_owned()),
            step_state: deed.step.and_then(|(_, state)| state),
            operator,
            found: found.cloned(),
            given: deed.given.filter(|given| is_whole || given.bytes.len() <= LARGEST),
            replaced,
            ttl,
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    #[test]
    fn large_result_is_repeated_only_if_it_replaces_a_body() {
        let operator = Intervention {
            by: "ada".to_owned(),
            reason: "to see".to_owned(),
            at: DateTime::from_timestamp_millis(1_795_259_349_120).unwrap(),
        };
        let repeated = |bytes: usize, replaced: Option<Encoded>| {
            let given = Some(Encoded::plain("7".repeat(bytes)));
            let deed = Deed { given, replaced, ..Deed::of_workflow(Resolution::Corrected) };
            let audit = WorkflowAudit::new(deed, ("order/7", None), operator.clone(), ("7", 1, None));
            audit.given.map(|given| given.bytes.len())
        };
        assert_eq!((repeated(LARGEST, None), repeated(LARGEST + 1, None)), (Some(LARGEST), None));
        let body = Encoded::plain("1".to_owned());
        assert_eq!(repeated(LARGEST + 1, Some(body)), Some(LARGEST + 1));
    }
}
