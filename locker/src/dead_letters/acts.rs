//! Acts of operators on messages. Each act is one transaction with its audit record, and is
//! conditional on the message that the operator read.

use crate::core::answer;
use crate::core::argument::InvalidArgument;
use crate::core::message::event::{LetterAct, LetterEvent, Mark};
use crate::core::message::id::{self, InvalidMessage, MAX_BODY_BYTES};
use crate::core::message::letter::{Letter, MessageState, consumer_of};
use crate::core::message::receipt::heard_at;
use crate::core::message::window::WINDOW;
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;
use crate::core::workflow::audit::Deed;
use crate::error::Error;
use crate::inbox::Incoming;
use crate::inbox::consumer::left_receipt;
use crate::session::{Intervened, Operator};
use crate::store::{Action, message_item, receipt_item, replaced_item, workflow_audit_item};
use crate::workflow::{Message, Workflows};

impl Workflows {
    /// Sends a dead message again, or lets the consumer that received it process it again.
    ///
    /// The message keeps its id, so a receiver that remembers ids processes it once. It waits for
    /// earlier dead messages of its subject or group, and later messages of its subject or group
    /// wait for it.
    ///
    /// While [code that decides](crate::dead_letters::DeadLetters) holds the message, no act on it
    /// is possible.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`]: nothing was written. [`Error::Unknown`]: read the
    /// message again.
    ///
    /// # Cost
    ///
    /// 1 transaction of the message and an audit record: 2 write units for each KB of either, and 3
    /// for the index.
    pub async fn redrive(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        self.redrive_as(seen, operator, false).await
    }

    /// Archives a dead message: the table keeps it, but it is not counted or listed as dead, and
    /// blocks no other message.
    ///
    /// [`restore`](Self::restore) reverses this. A message whose body is [in its
    /// queue](Message::body_at) cannot be archived.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// 1 transaction that moves the message to another sort key and writes an audit record: 4 write
    /// units for each KB of the message, 2 for each KB of the record, and 3 for the index. Later
    /// requests about its subject or group do not read it.
    pub async fn archive(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        self.archive_as(seen, operator, false).await
    }

    /// Restores an archived message: it is dead again, at its place, and blocks the later messages
    /// of its subject.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// Same as [`archive`](Self::archive).
    pub async fn restore(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        self.simple_act(seen, Resolution::Restored, |by| LetterAct::Restore { by }, operator, false).await
    }

    /// Writes a note on a dead or archived message. The message shows the operator's reason until
    /// the next act.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// The same, and 1 write unit less for the index.
    pub async fn annotate(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        self.simple_act(seen, Resolution::Noted, |by| LetterAct::Note { by }, operator, false).await
    }

    /// Replaces the body of a dead message, which stays dead under the same id. A
    /// [`redrive`](Self::redrive) has the corrected message sent or processed.
    ///
    /// The audit record contains both bodies: see [`given`](Self::given) and
    /// [`replaced`](Self::replaced). If the replaced body is in a claim-check store, the audit
    /// record contains the claim. If it is [in its queue](Message::body_at), the message cannot be
    /// corrected.
    ///
    /// `body` is JSON of 256 KB at most for a message that is to be sent. A receiver that remembers
    /// ids skips the corrected message if an earlier attempt arrived. For a message that was
    /// received, `body` is the text that its consumer processes. If the message is an event, the
    /// corrected body must have the same `source` and `id`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the body is not allowed. Otherwise same as
    /// [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// 1 transaction of the message, both bodies and an audit record: 2 write units for each KB of
    /// each, and 2 for the index.
    pub async fn correct(
        &self,
        seen: &Message,
        body: &str,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let message = &seen.stored;
        let body = corrected(message, body)?;
        let as_text = |body: &str| answer::encode_for_item(answer::text(body));
        let (given, replaced) = (Some(as_text(&body)?), Some(as_text(&message.body)?));
        let place = audited(message);
        let deed = Deed { given, replaced, ..Deed::of_step(Resolution::Corrected, &place, None) };
        self.write_act(message, deed, |by| LetterAct::Correct { by, body }, operator, false).await
    }

    /// Deletes a dead or archived message.
    ///
    /// It is not sent or processed any more, and blocks no other message. But an attempt whose
    /// response was lost may have arrived, and a handler that crashed may have done a part. The
    /// audit record stays.
    ///
    /// If its consumer receives a copy later, the result is
    /// [`Duplicate`](crate::inbox::Received::Duplicate), for the
    /// [window](crate::inbox::Inbox::window) of its inbox from now on.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// 1 transaction of the message and an audit record: 2 write units for each KB of either, and 2
    /// for the index. For a received message also 1 read, 1 read unit, and 2 write units for its
    /// remembered id.
    pub async fn discard(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        self.discard_as(seen, operator, false).await
    }

    /// `holds`: for code that decides about it and holds it.
    pub(crate) async fn redrive_as(
        &self,
        seen: &Message,
        operator: &Operator,
        holds: bool,
    ) -> Result<Intervened, Error> {
        self.simple_act(seen, Resolution::Redriven, |by| LetterAct::Redrive { by }, operator, holds).await
    }

    pub(crate) async fn archive_as(
        &self,
        seen: &Message,
        operator: &Operator,
        holds: bool,
    ) -> Result<Intervened, Error> {
        self.simple_act(seen, Resolution::Archived, |by| LetterAct::Archive { by }, operator, holds).await
    }

    pub(crate) async fn discard_as(
        &self,
        seen: &Message,
        operator: &Operator,
        holds: bool,
    ) -> Result<Intervened, Error> {
        let message = &seen.stored;
        let is_held = message.is_held(self.context().now()) && !holds;
        if is_held || !matches!(message.state, MessageState::Dead | MessageState::Archived) {
            return Ok(Intervened::NotPossible);
        }
        let remembered = match consumer_of(&message.at.workflow) {
            Some(_) => {
                let (context, at) = (self.context(), heard_at(&message.at.workflow, message.identity()));
                let remembered = context.store().remembered_from_now(&at, context.now(), context.until(None));
                // Nothing is left of it if a machine with a wrong clock, or another program, had it
                // forgotten.
                let anew = || {
                    let receipt = left_receipt(context, message, WINDOW);
                    Action::Put { item: receipt_item(&receipt), absent: true }
                };
                Some(Box::pin(remembered).await?.unwrap_or_else(anew))
            }
            None => None,
        };
        let actions = std::iter::once(deleted(message)).chain(remembered).collect();
        let place = audited(message);
        let deed = Deed::of_step(Resolution::Discarded, &place, None);
        self.act_on_message(message, actions, deed, operator).await
    }

    /// Writes an act whose audit record contains nothing but the act.
    async fn simple_act(
        &self,
        seen: &Message,
        resolution: Resolution,
        act: impl FnOnce(Intervention) -> LetterAct,
        operator: &Operator,
        holds: bool,
    ) -> Result<Intervened, Error> {
        let place = audited(&seen.stored);
        let deed = Deed::of_step(resolution, &place, None);
        self.write_act(&seen.stored, deed, act, operator, holds).await
    }

    async fn write_act(
        &self,
        message: &Letter,
        deed: Deed<'_>,
        act: impl FnOnce(Intervention) -> LetterAct,
        operator: &Operator,
        holds: bool,
    ) -> Result<Intervened, Error> {
        let context = self.context();
        let act = act(operator.at(context.now()));
        let event = LetterEvent { seen: message.revision.clone(), act, holds };
        let mark = Mark { now: context.now(), revision: context.new_id() };
        let Ok(next) = message.on(&event, mark) else { return Ok(Intervened::NotPossible) };
        let (item, seen) = (message_item(&next, context.settings().write_shards()), message.revision.clone());
        let actions = if next.at == message.at {
            vec![Action::PutOver { item, seen }]
        } else {
            vec![deleted(message), Action::Put { item, absent: true }]
        };
        self.act_on_message(message, actions, deed, operator).await
    }

    async fn act_on_message(
        &self,
        message: &Letter,
        mut actions: Vec<Action>,
        deed: Deed<'_>,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let verb = "act on the message";
        let context = self.context();
        let audit = self.audited(deed, (&message.at.workflow, None), operator.at(context.now()));
        let records = std::iter::once(workflow_audit_item(&audit)).chain(replaced_item(&audit));
        actions.extend(records.map(|item| Action::Put { item, absent: true }));
        let (token, until) = (context.new_id(), context.until(None));
        Intervened::of(verb, &Box::pin(context.store().transact(verb, &actions, &token, until)).await?)
    }
}

/// Deletes the message as it was seen.
fn deleted(message: &Letter) -> Action {
    Action::DeleteOver {
        workflow: message.at.workflow.clone(),
        item: message.at.item.clone(),
        seen: message.revision.clone(),
    }
}

/// The message as an audit record names it.
fn audited(message: &Letter) -> String {
    message.work().to_audited(&message.topic, &message.id)
}

/// Checks the corrected body of a message, and returns it in the stored form.
///
/// The identity of a received event is in its body. With another identity the corrected event would
/// be processed although the message, or a copy of it, was.
pub(crate) fn corrected(message: &Letter, body: &str) -> Result<String, InvalidArgument> {
    if message.delivery.is_none() {
        return Ok(id::corrected(body)?);
    }
    // Only an event has a source.
    if !message.source.is_empty() {
        let is_same = |event: Incoming| event.source == message.source && event.id == message.id;
        if !Incoming::parse(body).is_ok_and(is_same) {
            let (expected_source, id) = (message.source.clone(), message.id.clone());
            return Err(InvalidMessage::OtherEvent { expected_source, id }.into());
        }
    }
    // The stored body fits into its item, with all that the broker reported.
    let most = MAX_BODY_BYTES.max(message.body.len());
    if body.len() > most {
        return Err(InvalidMessage::Correction { bytes: body.len(), most }.into());
    }
    Ok(body.to_owned())
}
