//! Messages that are too large for the table: their bodies go to a claim-check store, or stay in
//! their queue.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::again::Step;
use super::caught::Failed;
use super::keep::Heard;
use super::{Consumer, ConsumerReport};
use crate::core::class::Class;
use crate::core::message::event::{LetterAct, LetterEvent};
use crate::core::message::letter::{BodyAt, Letter, MessageState};
use crate::core::time;
use crate::error::Error;
use crate::failure::Failure;
use crate::inbox::batch::Handling;
use crate::inbox::error::ReceiveError;
use crate::inbox::{Delivery, Received};
use crate::message::{Bodies, Claim, ClaimCheck};
use crate::store::Changed;
use crate::workflow::send::write;

/// The pause of a message that stays in its queue for an operator. Each delivery counts towards the
/// `maxReceiveCount` of the queue.
pub(super) const IN_QUEUE: Duration = Duration::from_secs(60 * 60);
/// The longest time in which a queue delivers a message again: Amazon SQS hides one for 12 hours at
/// most.
const OVERDUE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a claim-check store may take.
const PATIENCE: Duration = Duration::from_secs(10);

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// A claim-check store as a trait object. It stores the data of the broker about a message, as
/// JSON, and the body.
pub(super) trait Claims: Send + Sync {
    fn put<'a>(&'a self, said_and_body: (&'a str, &'a str)) -> Boxed<'a, Claim>;
    fn get<'a>(&'a self, claim: &'a Claim) -> Boxed<'a, (String, String)>;
}

impl<B: Bodies> Claims for ClaimCheck<B> {
    fn put<'a>(&'a self, said_and_body: (&'a str, &'a str)) -> Boxed<'a, Claim> {
        Box::pin(async move { self.store(&said_and_body).await })
    }

    fn get<'a>(&'a self, claim: &'a Claim) -> Boxed<'a, (String, String)> {
        Box::pin(self.fetch(claim))
    }
}

impl Consumer {
    /// Stores the body of a message that is too large for the table in this claim-check store, if
    /// the message is dead-lettered or queued after other messages of its group.
    ///
    /// A message is too large with more than 350 KB, its attributes included. [`run`](Self::run)
    /// fetches the body when it processes the message, so give each consumer of this name the same
    /// store. The store must keep bodies for as long as dead letters may wait for an operator.
    ///
    /// Without a store, or if the store fails, the body stays in its queue: see
    /// [`receive`](Self::receive).
    ///
    /// ```no_run
    /// use locker::aws::Bucket;
    /// use locker::inbox::{Consumer, Inbox};
    /// use locker::message::ClaimCheck;
    ///
    /// # fn consumer(inbox: &Inbox, s3: &aws_sdk_s3::Client) -> Consumer {
    /// inbox.consumer().claim_check(ClaimCheck::new(Bucket::new(s3, "shop-bodies")))
    /// # }
    /// ```
    pub fn claim_check(mut self, bodies: ClaimCheck<impl Bodies + 'static>) -> Self {
        self.claims = Some(Arc::new(bodies));
        self
    }

    /// The body of a message as the table keeps it, and its place.
    pub(super) async fn body_of<'a>(&self, delivery: &'a Delivery, heard: &Heard) -> (Cow<'a, str>, BodyAt) {
        if !heard.is_large {
            return (Cow::Borrowed(&delivery.body), BodyAt::Item);
        }
        match self.claim(delivery).await {
            Some(claim) => (Cow::Owned(claim), BodyAt::Claim),
            None => (Cow::Borrowed(""), BodyAt::Queue),
        }
    }

    /// Stores the body of a message. Returns the claim on it as JSON.
    async fn claim(&self, delivery: &Delivery) -> Option<String> {
        let claims = self.claims.as_ref()?;
        let said = serde_json::to_string(delivery).ok()?;
        let stored = in_time(claims.put((&said, &delivery.body))).await;
        let stored = stored.map_err(|error| {
            tracing::warn!(message.id = delivery.id, %error, "the body of a message stays in its queue");
        });
        serde_json::to_string(&stored.ok()?).ok()
    }

    /// Fetches the stored data of a message: the data of its broker, as JSON, and the body.
    pub(super) async fn fetch(&self, message: &Letter) -> Result<(String, String), Failed> {
        let Some(claims) = &self.claims else {
            let cause = "its body is in a claim-check store, and this consumer has none: set it, and redrive the message";
            return Err(Failed::at_once(Class::NeedsOperator, cause.to_owned()));
        };
        let claim = serde_json::from_str(&message.body).map_err(Failed::unreadable)?;
        in_time(claims.get(&claim)).await.map_err(|error| Failed::of(&error))
    }

    /// Leaves a message in its queue for this pause.
    pub(super) async fn stays(&self, delivery: &Delivery, cause: String, pause: Duration) -> ReceiveError {
        self.hide(delivery, pause).await;
        ReceiveError::Later { cause, pause: Some(pause) }
    }

    /// Receives a message again whose body is still in its queue. Its dead letter in the table
    /// decides: after a redrive the message is handled, and until then it stays in its queue.
    pub(super) async fn receive_in_queue<'h>(
        &self,
        delivery: &Delivery,
        mut letter: Letter,
        handle: impl FnOnce(Delivery) -> Handling<'h, Failed>,
    ) -> Result<Received, ReceiveError> {
        if self.is_its_turn(&letter).await.map_err(ReceiveError::later)? {
            let mut done = ConsumerReport::default();
            let handled = Box::pin(self.handle_one(&letter, Some(delivery), handle, &mut done)).await;
            match handled {
                Step::Next => return Ok(Received::Done),
                Step::Ends(Some(now)) => letter = *now,
                Step::Ends(None) => {
                    let cause = "another run has it, or its outcome could not be written";
                    return Err(ReceiveError::later(cause));
                }
            }
        }
        if let Some(received) = self.move_body(delivery, &letter).await {
            return Ok(received);
        }
        let left = time::between(self.context.now(), letter.next_due);
        let pause = if left.is_zero() { IN_QUEUE } else { left };
        let cause = letter.cause.as_deref().unwrap_or("a message before it in its group is not done");
        Err(self.stays(delivery, cause.to_owned(), pause).await)
    }

    /// Whether a message was redriven, is due, and is the first of its group.
    async fn is_its_turn(&self, letter: &Letter) -> Result<bool, Error> {
        let context = &self.context;
        if letter.state != MessageState::Waiting || letter.next_due > context.now() {
            return Ok(false);
        }
        let first = context.store().read_first_messages(&letter.at.workflow, 1, context.until(None));
        let (first, _) = Box::pin(first).await?;
        Ok(first.first().is_some_and(|first| letter.is_unchanged(first)))
    }

    /// Moves the body of a dead letter from its queue to the claim-check store. The queue may then
    /// delete the message.
    pub(super) async fn move_body(&self, delivery: &Delivery, letter: &Letter) -> Option<Received> {
        if letter.state != MessageState::Dead {
            return None;
        }
        let (context, claim) = (&self.context, Box::pin(self.claim(delivery)).await?);
        let event = LetterEvent::new(&letter.revision, LetterAct::MoveBody { claim });
        let written = write(context, "move the body", letter.clone(), &event, || context.new_id()).await;
        // Unknown: the next delivery reads where the body is.
        matches!(written, Ok(Changed::Done(_))).then_some(Received::DeadLettered)
    }

    /// Dead-letters a redriven message again that its queue does not deliver. The queue may have
    /// moved or deleted it.
    pub(super) async fn undelivered(&self, message: &Letter, done: &mut ConsumerReport) {
        if time::after(message.next_due, OVERDUE) <= self.context.now() {
            let cause = "its queue did not deliver it for 24 hours".to_owned();
            let class = message.class.or(Some(Class::NeedsOperator));
            self.end(message, LetterAct::Refused { class, cause }, done).await;
        }
    }
}

async fn in_time<T>(call: Boxed<'_, T>) -> Result<T, Failure> {
    let late = || Failure::transient("the claim-check store did not answer within 10 s".to_owned());
    timeout(PATIENCE, call).await.unwrap_or_else(|_| Err(late()))
}
