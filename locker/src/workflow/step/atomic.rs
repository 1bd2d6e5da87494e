//! A step that happens exactly once, inside DynamoDB.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::intent::intent;
use super::once_record::check_pivot;
use super::recorded::{self, failed};
use crate::core::answer;
use crate::core::class::Class;
use crate::core::fingerprint::Fingerprint;
use crate::core::message::letter::{Committed, Content, Letter, Origin};
use crate::core::message::ticks::Tick;
use crate::core::workflow::step::{Begin, End, Intent, NewStep, RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::message::NewMessage;
use crate::message::actions::{Actions, takes_actions};
use crate::metrics;
use crate::store::{Action, Written, check_actions, message_item, record_item, record_of};
use crate::workflow::flow::Flow;
use crate::workflow::send;
use crate::workflow::stop::{StepFailure, Stop, StopKind};

/// The first actions of the transaction: the record of the step, and the check of the header.
const OWN_ACTIONS: usize = 2;

/// Builds a step inside DynamoDB, which [`commit`](Self::commit) writes. See [`Flow::atomic`].
///
/// The actions are those of the SDK, with your own tables and conditions:
///
/// ```no_run
/// # async fn example(flow: &locker::workflow::Flow) -> Result<(), locker::workflow::Stop> {
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
#[derive(Debug)]
#[must_use = "nothing is written until it is committed"]
pub struct Atomic<'a> {
    flow: &'a Flow,
    name: String,
    input: Option<Result<Fingerprint, StopKind>>,
    actions: Actions,
    compensation: Option<Result<Intent, StopKind>>,
    pivot: bool,
    asks_again: bool,
}

impl<'a> Atomic<'a> {
    pub(crate) const fn new(flow: &'a Flow, name: String) -> Self {
        Self {
            flow,
            name,
            input: None,
            actions: Actions::NONE,
            compensation: None,
            pivot: false,
            asks_again: false,
        }
    }

    /// Sets the input of the step. Only a digest is recorded. If a resumed step has another input,
    /// the workflow is quarantined.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = Some(Flow::fingerprint(&self.name, input));
        self
    }

    takes_actions!();

    /// Adds a message about this workflow, committed with the step. Same as [`send`](Self::send)
    /// with [`NewMessage::new`].
    pub fn message(self, topic: impl Into<String>, body: &impl Serialize) -> Self {
        self.send(NewMessage::new(topic, body))
    }

    /// Adds a message, committed with the step.
    ///
    /// If the step is committed, the message is sent at least once. Otherwise it is never sent. The
    /// order is described in [`message`](crate::message). A workflow with unsent messages is not
    /// deleted.
    pub fn send(mut self, message: NewMessage) -> Self {
        self.actions.messages.push(message);
        self
    }

    /// Sets the compensation of the step, which runs if the workflow fails or is cancelled. Same as
    /// [`Once::compensate`](crate::workflow::Once::compensate).
    pub fn compensate(mut self, undo: &impl Serialize) -> Self {
        self.compensation = Some(intent(&self.name, undo, std::time::Duration::ZERO));
        self
    }

    /// Makes this step a pivot. Same as [`Once::pivot`](crate::workflow::Once::pivot).
    pub const fn pivot(mut self) -> Self {
        self.pivot = true;
        self
    }

    /// Sets that a refusal is not recorded: a run that resumes the workflow tries the commit again.
    ///
    /// That run may take another branch than the run before. Use this only if a refusal means "not
    /// now", such as a balance that is too low, and if the code runs no other steps because of the
    /// refusal.
    pub const fn ask_again(mut self) -> Self {
        self.asks_again = true;
        self
    }

    /// Commits the step, unless it is recorded, and returns the recorded value.
    ///
    /// Limits are checked before the transaction is sent: 100 actions including 2 of the step, 4
    /// MB, and one action for each item. The check of the items does not include puts, because a
    /// put does not name its key. The transaction is refused if this driver no longer owns the
    /// workflow.
    ///
    /// # Crash window
    ///
    /// None: the step is committed together with its record, or not at all.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the transaction may be committed. A resumed workflow finds the
    /// record of the step.
    ///
    /// # Errors
    ///
    /// [`Stop`], which determines the next state of the workflow. Return it. If one of your
    /// conditions failed, none of your writes was applied, and the workflow fails. The refusal is
    /// recorded, so a resumed workflow finds the same refusal, unless the step [asks
    /// again](Self::ask_again).
    ///
    /// # Cost
    ///
    /// 1 request. Each item costs 2 write units for each KB, as in any transaction: the record, the
    /// checked header, your rows, the messages; 1 write unit more for each message, for the index.
    /// Nothing if the step is recorded. A refusal: 1 more request and 1 write unit.
    ///
    /// - A value above 4 KB, as stored: 1 more request, and 1 write unit instead of 2 for each KB
    ///   of the value. A later run that needs the value reads it by 1 request.
    /// - Each message that is sent: a part of a request to its broker, 1 request to delete it, 1
    ///   write unit for each KB, and 1 for the index.
    pub async fn commit<T: Serialize + DeserializeOwned>(self, value: &T) -> Result<T, Stop> {
        let (flow, name) = (self.flow, self.name.clone());
        Ok(flow.call(&name, None, Box::pin(self.write(value))).await?)
    }

    /// Commits the step like [`commit`](Self::commit), and returns a refusal as a value.
    ///
    /// A refusal means that one of your conditions failed. The code can then take another branch.
    ///
    /// # Errors
    ///
    /// [`Stop`], if the step is neither committed nor refused. Return it.
    ///
    /// # Cost
    ///
    /// Same as [`commit`](Self::commit).
    pub async fn outcome<T>(self, value: &T) -> Result<Result<T, Refused>, Stop>
    where
        T: Serialize + DeserializeOwned,
    {
        let (flow, name) = (self.flow, self.name.clone());
        let committed = Box::pin(async {
            match self.write(value).await {
                Err(StopKind::Refused { writes, .. }) => Ok(Err(Refused { writes })),
                other => other.map(Ok),
            }
        });
        Ok(flow.call(&name, None, committed).await?)
    }

    async fn write<T: Serialize + DeserializeOwned>(self, value: &T) -> Result<T, StopKind> {
        let Self { flow, name, input, actions, compensation, pivot, asks_again } = self;
        let Actions { given, messages } = actions;
        let input = input.transpose()?;
        let id = RecordId::at(flow.workflow(), flow.place_of(&name));
        let known = flow.recorded(&id);
        let declared = || -> Result<NewStep, StopKind> {
            let compensation = compensation.transpose()?;
            check_pivot(&name, pivot, compensation.is_some())?;
            let new = flow.new_step(id, StepKind::Atomic, input.as_ref());
            Ok(NewStep { pivot, compensation, ..new })
        };
        if let Some(record) = known.as_ref().filter(|record| !record.is_free()) {
            let reached = recorded::reached(flow, record, declared).await?;
            return settled(flow, &name, reached.as_ref().unwrap_or(record), input.as_ref()).await;
        }
        let new = declared()?;
        let refusal = NewStep { pivot: false, compensation: None, ..new.clone() };
        // The value is encoded before anything is written, so a refusal changes nothing.
        let encoded = answer::to_json_and_back(value).and_then(|(json, _)| answer::encode_for_item(json));
        let odd = |error| StopKind::invalid(&name, format!("its value is refused: {error}"));
        let encoded = encoded.map_err(odd)?;
        let (source, key) = (flow.context().source(), flow.key().as_str());
        let messages = messages.into_iter().map(|message| message.checked(source, key));
        let messages: Vec<_> = messages
            .collect::<Result<_, _>>()
            .map_err(|error| StopKind::invalid(&name, format!("invalid message: {error}")))?;
        if new.compensation.is_some() || new.pivot {
            flow.touch();
        }
        let mut known = known;
        let result = flow.keep(&new.id, encoded).await?;
        let how = Begin::End(End::Completed(result.clone()));
        // A transaction is refused as a whole, and DynamoDB returns the items whose conditions
        // failed. Only the step record of an earlier workflow under this key leads to another
        // round.
        loop {
            let (record, outgoing, actions) =
                actions_of(flow, known.as_ref(), &new, &how, &given, &messages)?;
            check_actions(&actions).map_err(|reason| StopKind::invalid(&name, reason))?;
            let token = record.attempt.clone();
            flow.unsent().expect(&outgoing);
            let sent = flow.context().store().transact("commit the step", &actions, &token, flow.until());
            let (at, after_silence) = match Box::pin(sent).await? {
                Written::Done => {
                    metrics::count_step("atomic", record.state.as_str());
                    flow.remember(record.clone());
                    Box::pin(send::send(flow, outgoing)).await;
                    return settled(flow, &name, &record, input.as_ref()).await;
                }
                Written::Refused { found: at, after_silence } => (at, after_silence),
            };
            // A request whose reply was lost may still arrive and commit the messages. Later
            // messages of their subjects wait for them.
            if !after_silence {
                outgoing.iter().for_each(|message| flow.unsent().remove(message));
            }
            let refused = match refused(flow, at)? {
                Refusal::Recorded(record) => {
                    flow.drop_unused(&new.id, &result).await;
                    return settled(flow, &name, &record, input.as_ref()).await;
                }
                Refusal::Stale(stale) => {
                    known = Some(*stale);
                    continue;
                }
                Refusal::Of(writes) => writes,
            };
            // Such a request may also commit the record that refers to the large result.
            if !after_silence {
                flow.drop_unused(&new.id, &result).await;
            }
            if !asks_again {
                return record_refusal(flow, &name, known, &refusal, &refused, input.as_ref()).await;
            }
            // A request whose response was lost may still arrive and find its conditions met. The
            // next run of a driver fences it off.
            if after_silence {
                let source = "its conditions failed after a request whose response was lost".into();
                return Err(Error::Unknown { verb: "commit the step", tries: 2, source }.into());
            }
            return Err(StopKind::Refused { step: name, writes: refused });
        }
    }
}

/// Returns the record of the step, the messages to send, and all actions of the transaction.
fn actions_of(
    flow: &Flow,
    known: Option<&StepRecord>,
    new: &NewStep,
    how: &Begin,
    given: &[Action],
    messages: &[Content],
) -> Result<(StepRecord, Vec<Letter>, Vec<Action>), StopKind> {
    let Ok(record) = StepRecord::begin(known, new, how, flow.context().stamp()) else {
        return Err(StopKind::Lost);
    };
    let item = record_item(&record);
    let mut actions = vec![
        match known {
            None => Action::Put { item, absent: true },
            Some(known) => Action::PutOver { item, seen: known.revision.clone() },
        },
        // Another driver takes the workflow over, or an operator cancels it, before this commit.
        // Without the check, rows would be written that no compensation has read.
        flow.still_drives(),
    ];
    actions.extend(given.iter().cloned());
    let (context, now) = (flow.context(), flow.time());
    let tick = context.tick(now);
    let tick = Tick { at: tick.at.max(flow.latest_commit()), ..tick };
    let name = record.id.step_name();
    let outgoing = |(place, content): (usize, &Content)| {
        Letter::committed(Committed {
            origin: Origin::Step { workflow: flow.workflow(), number: record.number, name },
            place,
            attempt: &record.attempt,
            revision: context.new_id(),
            content,
            now,
            tick,
        })
    };
    let mut outgoing: Vec<_> = messages.iter().enumerate().map(outgoing).collect();
    let shards = context.settings().write_shards();
    // The key of the item is unique: it contains the step, which is recorded once, or is made for
    // this message. So the put needs no condition.
    let put = |message: &Letter| Action::Put { item: message_item(message, shards), absent: false };
    actions.extend(outgoing.iter().map(put));
    // A delayed message is not in the partition of the workflow. A relay sends it.
    outgoing.retain(|message| message.at.workflow == flow.workflow());
    Ok((record, outgoing, actions))
}

/// Records a refusal. If a request whose response was lost arrives later, the record refuses it.
async fn record_refusal<T: DeserializeOwned>(
    flow: &Flow,
    name: &str,
    known: Option<StepRecord>,
    new: &NewStep,
    writes: &[usize],
    input: Option<&Fingerprint>,
) -> Result<T, StopKind> {
    let failure = StepFailure::of(Some(name), Class::Permanent, &Refused { writes: writes.to_vec() });
    let json = failure.to_stored().map_err(Error::from)?;
    let end = End::Failed(Flow::encode(name, json)?.into());
    // If the step is committed, or another driver has recorded a refusal, that record counts.
    let record = recorded::end(flow, "record the refusal", known, new, end).await?;
    settled(flow, name, &record, input).await
}

/// A refusal: conditions of your writes failed, and nothing of the step was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refused {
    /// The writes whose conditions failed, counted from 0 in the order in which they were added.
    #[serde(rename = "refused")]
    pub writes: Vec<usize>,
}

/// The reason of a refused transaction.
enum Refusal {
    /// The step is recorded. This record counts.
    Recorded(Box<StepRecord>),
    /// The record is of an earlier workflow under this key.
    Stale(Box<StepRecord>),
    /// The conditions of these writes of the code failed.
    Of(Vec<usize>),
}

/// Returns the reason of the refusal, from the items whose conditions failed.
fn refused(flow: &Flow, at: Vec<(usize, Option<crate::store::Item>)>) -> Result<Refusal, StopKind> {
    let mut writes = Vec::new();
    for (place, item) in at {
        match (place, item) {
            (0, Some(item)) => {
                let record = record_of(&item).map_err(Error::from)?;
                if !record.is_of(flow.created()) {
                    return Ok(Refusal::Stale(Box::new(record)));
                }
                flow.remember(record.clone());
                return Ok(Refusal::Recorded(Box::new(record)));
            }
            (0 | 1, _) => return Err(StopKind::Lost),
            (place, _) => writes.push(place - OWN_ACTIONS),
        }
    }
    Ok(Refusal::Of(writes))
}

async fn settled<T: DeserializeOwned>(
    flow: &Flow,
    name: &str,
    record: &StepRecord,
    input: Option<&Fingerprint>,
) -> Result<T, StopKind> {
    flow.check_same(name, record, StepKind::Atomic, input)?;
    match record.state {
        StepState::Completed => flow.result_of(record).await,
        StepState::Failed | StepState::Held => Err(refusal(name, record)),
        _ => Err(StopKind::Cancelled { step: name.to_owned() }),
    }
}

/// Returns the stop for a recorded refusal.
fn refusal(name: &str, record: &StepRecord) -> StopKind {
    match failed(record) {
        StopKind::Failed(failure) => match failure.error::<Refused>() {
            Ok(Refused { writes }) => StopKind::Refused { step: name.to_owned(), writes },
            Err(_) => StopKind::Failed(failure),
        },
        stop => stop,
    }
}
