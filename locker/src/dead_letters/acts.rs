//! What operators do about messages: each is one transaction with its audit record, and depends on
//! what was shown.

use crate::core::message::event::{LetterAct, LetterEvent, Mark};
use crate::core::message::letter::{Letter, MessageState, consumer_of};
use crate::core::message::receipt::heard_at;
use crate::core::message::window::WINDOW;
use crate::core::token::record::Intervention;
use crate::core::token::resolution::Resolution;
use crate::core::workflow::audit::Deed;
use crate::error::Error;
use crate::inbox::consumer::left_receipt;
use crate::session::{Intervened, Operator};
use crate::store::{Action, message_item, receipt_item, workflow_audit_item};
use crate::workflow::{Message, Workflows};

impl Workflows {
    /// Have a dead message sent again, or handled again by the consumer that received it, under the
    /// same id: a receiver that remembers ids takes it once. It waits for those before it in its
    /// subject or group that are dead, and those behind it wait for it.
    ///
    /// While [code that decides](crate::dead_letters::DeadLetters) has it, no act on it is
    /// possible.
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

    /// Set a dead message aside, and keep it: it is in no count and no list of what is dead, and
    /// holds nothing up. [`restore`](Self::restore) takes it back.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// The same.
    pub async fn archive(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        self.archive_as(seen, operator, false).await
    }

    /// Take an archived message back: it is dead again, at its place, and holds up those of its
    /// subject behind it.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// The same.
    pub async fn restore(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        self.write_act(seen, Resolution::Restored, |by| LetterAct::Restore { by }, operator, false).await
    }

    /// Write a note on a dead or archived message: the operator's reason stands beside it until the
    /// next act.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// The same, and 1 write unit less for the index.
    pub async fn annotate(&self, seen: &Message, operator: &Operator) -> Result<Intervened, Error> {
        self.write_act(seen, Resolution::Noted, |by| LetterAct::Note { by }, operator, false).await
    }

    /// Delete a dead or archived message. It is not sent or handled any more, but an attempt whose
    /// response was lost may have arrived, and a handler that ended without a word may have done a
    /// part. It holds nothing up any more. The audit record stays.
    ///
    /// A copy of a received one that comes later is [known](crate::inbox::Received::Known), and not
    /// handled, for the [window](crate::inbox::Inbox::window) of its inbox from now on.
    ///
    /// # Errors
    ///
    /// Same as [`redrive`](Self::redrive).
    ///
    /// # Cost
    ///
    /// 1 transaction of the message and an audit record: 2 write units for each KB of either, and 2
    /// for the index. Of a received one, 1 read, 1 read unit, and 2 write units for what is
    /// remembered of it.
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
        self.write_act(seen, Resolution::Redriven, |by| LetterAct::Redrive { by }, operator, holds).await
    }

    pub(crate) async fn archive_as(
        &self,
        seen: &Message,
        operator: &Operator,
        holds: bool,
    ) -> Result<Intervened, Error> {
        self.write_act(seen, Resolution::Archived, |by| LetterAct::Archive { by }, operator, holds).await
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
        let delete = Action::DeleteOver {
            workflow: message.at.workflow.clone(),
            item: message.at.item.clone(),
            seen: message.revision.clone(),
        };
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
        let actions = std::iter::once(delete).chain(remembered).collect();
        self.act_on_message(message, actions, Resolution::Discarded, operator).await
    }

    async fn write_act(
        &self,
        seen: &Message,
        resolution: Resolution,
        act: impl FnOnce(Intervention) -> LetterAct,
        operator: &Operator,
        holds: bool,
    ) -> Result<Intervened, Error> {
        let context = self.context();
        let message = &seen.stored;
        let act = act(operator.at(context.now()));
        let event = LetterEvent { seen: message.revision.clone(), act, holds };
        let mark = Mark { now: context.now(), revision: context.new_id() };
        let Ok(next) = message.on(&event, mark) else { return Ok(Intervened::NotPossible) };
        let item = message_item(&next, context.settings().shards);
        let put = Action::PutOver { item, seen: message.revision.clone() };
        self.act_on_message(message, vec![put], resolution, operator).await
    }

    async fn act_on_message(
        &self,
        message: &Letter,
        mut actions: Vec<Action>,
        resolution: Resolution,
        operator: &Operator,
    ) -> Result<Intervened, Error> {
        let verb = "act on the message";
        let context = self.context();
        let place = message.work().to_audited(&message.topic, &message.id);
        let deed = Deed::of_step(resolution, &place, None);
        let audit = self.audited(deed, (&message.at.workflow, None), operator.at(context.now()));
        actions.push(Action::Put { item: workflow_audit_item(&audit), absent: true });
        let (token, until) = (context.new_id(), context.until(None));
        Intervened::of(verb, &Box::pin(context.store().transact(verb, &actions, &token, until)).await?)
    }
}
