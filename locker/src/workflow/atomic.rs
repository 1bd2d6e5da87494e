//! A step that happens exactly once, inside DynamoDB.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::flow::Flow;
use super::starting::intent;
use super::stop::Stop;
use crate::core::answer;
use crate::core::fingerprint::Fingerprint;
use crate::core::workflow::name;
use crate::core::workflow::record::{Intent, MESSAGE, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::metrics;
use crate::store::workflow::given::{self, ConditionCheck, Delete, Put, TransactWriteItem, Update};
use crate::store::workflow::{
    Action, Message, Transacted, check_actions, message_item, record_item, record_of,
};

/// The recovery point and the fence come first.
const OWN_ACTIONS: usize = 2;

/// A step inside DynamoDB, about to be committed. See [`Flow::atomic`].
///
/// The actions are the SDK's, with the caller's own tables and conditions:
///
/// ```no_run
/// # async fn example(flow: &locker::workflow::Flow) -> Result<(), Box<dyn std::error::Error>> {
/// use aws_sdk_dynamodb::types::{AttributeValue, Update};
///
/// let take = Update::builder()
///     .table_name("stock")
///     .key("sku", AttributeValue::S("book".into()))
///     .update_expression("SET held = held + :one")
///     .condition_expression("held < stock")
///     .expression_attribute_values(":one", AttributeValue::N("1".into()))
///     .build()?;
/// flow.atomic("reserve").update(take).message("stock/reserved", &"book").commit(&()).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is written until it is committed"]
pub struct Atomic<'a> {
    flow: &'a Flow,
    name: String,
    input: Option<Result<Fingerprint, Stop>>,
    given: Vec<Action>,
    messages: Vec<(String, Result<String, Stop>)>,
    undo: Option<Result<Intent, Stop>>,
    pivot: bool,
}

// Rows and messages may be private.
impl std::fmt::Debug for Atomic<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Atomic").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Atomic<'a> {
    pub(super) const fn new(flow: &'a Flow, name: String) -> Self {
        Self { flow, name, input: None, given: Vec::new(), messages: Vec::new(), undo: None, pivot: false }
    }

    /// What it is given. Only a digest is recorded; a resumed step with another input is [`Stop::Changed`].
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(self.flow.fingerprint(input));
        self
    }

    /// Any action of a transaction.
    pub fn action(mut self, action: TransactWriteItem) -> Self {
        self.given.push(Action::Given(Box::new(action)));
        self
    }

    /// Put a row.
    pub fn put(self, put: Put) -> Self {
        self.action(given::put(put))
    }

    /// Update a row.
    pub fn update(self, update: Update) -> Self {
        self.action(given::update(update))
    }

    /// Delete a row.
    pub fn delete(self, delete: Delete) -> Self {
        self.action(given::delete(delete))
    }

    /// Make the commit depend on a row.
    pub fn check(self, check: ConditionCheck) -> Self {
        self.action(given::check(check))
    }

    /// Commit a message with it. It is kept with the workflow until it is reported as sent, and a workflow that
    /// has unsent messages is not forgotten.
    pub fn message(mut self, topic: impl Into<String>, body: &impl Serialize) -> Self {
        let body = answer::to_json(body).map_err(|error| Error::from(error).into());
        self.messages.push((topic.into(), body));
        self
    }

    /// How it is undone, should the workflow fail or be cancelled, as of
    /// [`Once::compensate`](super::Once::compensate).
    pub fn compensate(mut self, undo: impl Into<String>, input: &impl Serialize) -> Self {
        self.undo = Some(intent(undo.into(), input, std::time::Duration::ZERO));
        self
    }

    /// Past this step there is no way back, as of [`Once::pivot`](super::Once::pivot).
    pub const fn pivot(mut self) -> Self {
        self.pivot = true;
        self
    }

    /// Commit all of it, or find it committed; the recorded value is given back.
    ///
    /// Limits are checked before anything is sent: 100 actions with its own two, 4 MB, and one action for each item
    /// as far as actions name their keys (a put does not).
    /// The transaction also depends on this drive still holding the workflow.
    ///
    /// **Crash window:** none. It is committed with its recovery point, or not at all.
    ///
    /// # Errors
    ///
    /// [`Stop::Refused`] with the places of the caller's conditions that failed: nothing was written, nothing is
    /// recorded, and the workflow may go another way. Other [`Stop`]s say what becomes of the workflow.
    ///
    /// # Cost
    ///
    /// 1 request. Each item costs 2 write units for each KB, as in any transaction: the record, the header that is
    /// checked, the caller's rows, the messages. Nothing if it is recorded.
    pub async fn commit<T: Serialize + DeserializeOwned>(self, value: &T) -> Result<T, Stop> {
        let Self { flow, name, input, given, messages, undo, pivot } = self;
        flow.take_name(&name, None)?;
        let input = input.transpose()?;
        let id = RecordId::step(flow.workflow(), &flow.full_name(&name));
        if let Some(record) = flow.recorded(&id) {
            return settled(flow, &name, &record, input.as_ref());
        }
        let mut record = flow.new_record(id, StepKind::Atomic, input.as_ref());
        record.state = StepState::Completed;
        record.ended = Some(flow.now());
        record.undo = undo.transpose()?;
        record.pivot = pivot;
        record.result = Some(flow.encode(answer::to_json(value).map_err(Error::from)?)?);
        let mut actions = vec![
            Action::Put { item: record_item(&record), absent: true },
            Action::DrivenBy { workflow: flow.workflow().to_owned(), attempt: flow.attempt().to_owned() },
        ];
        actions.extend(given);
        for (number, (topic, body)) in messages.into_iter().enumerate() {
            actions.push(Action::Put {
                item: message(flow, &flow.full_name(&name), number, topic, body?)?,
                absent: false,
            });
        }
        check_actions(&actions).map_err(|reason| Stop::invalid(&name, reason))?;
        if record.undo.is_some() || record.pivot {
            flow.touch();
        }
        let token = record.attempt.clone();
        let sent = flow.workflows().store().transact("commit the step", &actions, &token, flow.until());
        match Box::pin(sent).await? {
            Transacted::Done => {
                metrics::count_step("atomic", record.state.as_str());
                flow.remember(record.clone());
                settled(flow, &name, &record, input.as_ref())
            }
            Transacted::Refused { at, after_silence } => {
                let refused = refused(flow, &name, at, input.as_ref());
                // A request that nobody heard may yet arrive, and find the conditions to hold. The next drive
                // shuts it out.
                if after_silence && matches!(refused, Err(Stop::Refused { .. })) {
                    let source = "its conditions failed after a request that nobody heard".into();
                    return Err(Error::Unknown { verb: "commit the step", tries: 2, source }.into());
                }
                refused
            }
        }
    }
}

fn message(
    flow: &Flow,
    step: &str,
    number: usize,
    topic: String,
    body: String,
) -> Result<crate::store::workflow::Item, Stop> {
    name::check(&topic.replace('/', "."))
        .map_err(|error| Stop::invalid(step, format!("the topic of a message: {error}")))?;
    let id = RecordId { workflow: flow.workflow().to_owned(), item: format!("{MESSAGE}{step}/{number}") };
    Ok(message_item(&Message { id, topic, body, created: flow.now() }))
}

/// Whose condition failed?
fn refused<T: DeserializeOwned>(
    flow: &Flow,
    name: &str,
    at: Vec<(usize, Option<crate::store::workflow::Item>)>,
    input: Option<&Fingerprint>,
) -> Result<T, Stop> {
    let mut writes = Vec::new();
    for (place, item) in at {
        match (place, item) {
            // Somebody was first: that commit counts.
            (0, Some(item)) => {
                let record = record_of(&item).map_err(Error::from)?;
                flow.remember(record.clone());
                return settled(flow, name, &record, input);
            }
            (0 | 1, _) => return Err(Stop::Lost),
            (place, _) => writes.push(place - OWN_ACTIONS),
        }
    }
    Err(Stop::Refused { step: name.to_owned(), writes })
}

fn settled<T: DeserializeOwned>(
    flow: &Flow,
    name: &str,
    record: &StepRecord,
    input: Option<&Fingerprint>,
) -> Result<T, Stop> {
    flow.check_same(name, record, StepKind::Atomic, input)?;
    if record.state != StepState::Completed {
        return Err(Stop::Cancelled { step: name.to_owned() });
    }
    Flow::result_of(record)
}
