//! Wrappers that run a handler once for each key of its events.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use lambda_runtime::{Context, Diagnostic, LambdaEvent, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deadline::deadline;
use super::owner::owner;
#[cfg(feature = "messages")]
use super::{Deliveries, Undelivered, each_message, or_retry};
use crate::core::key::IntoKey;
use crate::error::{BoxError, Error};
use crate::failure::{self, Failure};
#[cfg(feature = "messages")]
use crate::inbox::Delivery;
use crate::token::{Answer, Attempt, BeginBuilder, Locker, RunError};

/// Time that is kept at the end of an invocation, to end the token and to reply.
const RESERVE: Duration = Duration::from_millis(500);

type Begin<P> = dyn Fn(&Locker, &P) -> Result<BeginBuilder, Error> + Send + Sync;
type Refine<P> = dyn Fn(BeginBuilder, &P) -> BeginBuilder + Send + Sync;

/// Runs a handler once for each key, however often Lambda delivers the event.
///
/// Pass it to `lambda_runtime::run`. `key` forms the key from the event. The handler receives the
/// event and the [`Attempt`]: send [`Attempt::idempotency_key`] with each effect. The token is
/// ended before Lambda receives the reply.
///
/// # Errors of the handler
///
/// An error of any type is **in doubt**: it is unknown whether the effect happened, and no attempt
/// repeats it before an operator has decided. You can set another class. If nothing happened, call
/// [`transient`](crate::OfClass::transient): the next delivery runs the handler again. If the
/// failure is the answer, call [`permanent`](crate::OfClass::permanent). Of the error types, only a
/// [`Failure`](crate::Failure) of text keeps its class. For another type that implements
/// [`Classify`](crate::Classify), use [`run`](crate::BeginBuilder::run).
///
/// # What Lambda receives
///
/// Lambda receives the answer of the handler, or the stored answer. Every other outcome is an error
/// of the invocation. The type of the error names the outcome, such as `locker.InProgress`. Lambda
/// retries an asynchronous invocation that ended with an error. A retry does not repeat work that
/// is in doubt, except with an option such as
/// [`take_over_after`](crate::BeginBuilder::take_over_after).
///
/// # Defaults
///
/// Owner, request id and deadline come from the context of the invocation. Half a second before the
/// deadline is kept for the reply. By default the key alone identifies a request.
/// [`same`](OncePerEvent::same) selects the fields that must be equal as well.
/// [`with`](OncePerEvent::with) sets every other option of the token.
///
/// # Examples
///
/// ```no_run
/// use locker::{Attempt, BoxError, Locker, OfClass as _, lambda};
/// # use serde::Deserialize;
///
/// # #[derive(Deserialize)] struct Order { id: u64, card: String }
/// # async fn charge(card: &str, key: &str) -> Result<String, std::io::Error> { todo!() }
/// async fn create(order: Order, attempt: Attempt) -> Result<String, BoxError> {
///     let card = order.card.parse::<u64>().permanent()?; // the answer: the card has no number
///     Ok(charge(&card.to_string(), &attempt.idempotency_key()).await?) // in doubt
/// }
///
/// # async fn example(locker: Locker) -> Result<(), lambda_runtime::Error> {
/// lambda_runtime::run(lambda::once(&locker, |order: &Order| ("order/create", order.id), create)).await
/// # }
/// ```
///
/// # Cost
///
/// Same as [`BeginBuilder::run`](crate::BeginBuilder::run): 2 requests and 4 write units; a replay
/// is 1 request and 1 write unit.
pub fn once<P, K: IntoKey, H>(
    locker: &Locker,
    key: impl Fn(&P) -> K + Send + Sync + 'static,
    handler: H,
) -> OncePerEvent<P, H> {
    OncePerEvent { work: Work::new(locker, key), handler: Arc::new(handler) }
}

/// A handler that runs once for each key of an event: see [`once`].
#[must_use = "a handler does nothing until the runtime calls it"]
pub struct OncePerEvent<P, H> {
    work: Work<P>,
    handler: Arc<H>,
}

/// Runs a handler once for the key of each message of an SQS queue, and reports the messages that
/// failed.
///
/// The body of each message is read as JSON of `P`. The message returns to the queue if the body
/// cannot be read, if another request has its key, or if a later delivery may have another outcome:
/// see [`or_retry`](super::or_retry). So the queue needs a dead-letter queue. A permanent failure
/// and a held token are logged, and the message leaves the queue. After an operator has released a
/// held token, send the message again. For batches, FIFO groups and the time of the invocation, see
/// [`each_message`](super::each_message).
///
/// Set `FunctionResponseTypes: [ReportBatchItemFailures]` on the event source.
///
/// # Examples
///
/// ```no_run
/// use locker::{Attempt, BoxError, Locker, lambda};
/// # use serde::Deserialize;
///
/// # #[derive(Deserialize)] struct Order { id: u64 }
/// async fn pack(order: Order, attempt: Attempt) -> Result<(), BoxError> {
///     println!("pack {} under {}", order.id, attempt.idempotency_key());
///     Ok(())
/// }
///
/// # async fn example(locker: Locker) -> Result<(), lambda_runtime::Error> {
/// lambda_runtime::run(lambda::once_each(&locker, |order: &Order| ("order/pack", order.id), pack)).await
/// # }
/// ```
///
/// # Cost
///
/// Same as [`once`] for each message.
#[cfg(feature = "messages")]
pub fn once_each<P, K: IntoKey, H>(
    locker: &Locker,
    key: impl Fn(&P) -> K + Send + Sync + 'static,
    handler: H,
) -> OncePerMessage<P, H> {
    OncePerMessage { once: once(locker, key, handler), needs: Duration::from_secs(5) }
}

/// A handler that runs once for the key of each message of a queue: see [`once_each`].
#[cfg(feature = "messages")]
#[must_use = "a handler does nothing until the runtime calls it"]
pub struct OncePerMessage<P, H> {
    once: OncePerEvent<P, H>,
    needs: Duration,
}

/// The token of an event.
struct Work<P> {
    locker: Locker,
    begin: Arc<Begin<P>>,
    refine: Vec<Arc<Refine<P>>>,
}

impl<P> Work<P> {
    fn new<K: IntoKey>(locker: &Locker, key: impl Fn(&P) -> K + Send + Sync + 'static) -> Self {
        let begin = move |locker: &Locker, event: &P| Ok(locker.token(key(event).into_key()?));
        Self { locker: locker.clone(), begin: Arc::new(begin), refine: Vec::new() }
    }

    fn token(&self, event: &P, context: &Context) -> Result<BeginBuilder, Error> {
        let token = (self.begin)(&self.locker, event)?.owner(owner(context));
        let token = deadline(context, RESERVE).into_iter().fold(token, BeginBuilder::deadline);
        Ok(self.refine.iter().fold(token, |token, refine| refine(token, event)))
    }

    async fn run<T, E, Fut>(
        &self,
        (event, context): (P, &Context),
        handler: impl FnOnce(P, Attempt) -> Fut,
    ) -> Result<Answer<T>, RunError<Failure>>
    where
        T: Serialize + DeserializeOwned,
        E: Into<BoxError>,
        Fut: Future<Output = Result<T, E>>,
    {
        let token = self.token(&event, context)?;
        let work = |attempt| async { handler(event, attempt).await.map_err(failure::of_any) };
        token.run(work).await
    }
}

impl<P> Clone for Work<P> {
    fn clone(&self) -> Self {
        let Self { locker, begin, refine } = self;
        Self { locker: locker.clone(), begin: Arc::clone(begin), refine: refine.clone() }
    }
}

impl<P, H> OncePerEvent<P, H> {
    /// Selects the fields that identify a request.
    ///
    /// If a later event with the same key differs in these fields, the handler does not run, and
    /// the outcome is `locker.Mismatch`.
    pub fn same<F: Serialize>(self, fields: impl Fn(&P) -> F + Send + Sync + 'static) -> Self {
        self.with(move |token, event| token.fingerprint(&fields(event)))
    }

    /// Sets options of the token, such as [`expect_within`](crate::BeginBuilder::expect_within).
    pub fn with(
        mut self,
        options: impl Fn(BeginBuilder, &P) -> BeginBuilder + Send + Sync + 'static,
    ) -> Self {
        self.work.refine.push(Arc::new(options));
        self
    }
}

impl<P, H> Clone for OncePerEvent<P, H> {
    fn clone(&self) -> Self {
        Self { work: self.work.clone(), handler: Arc::clone(&self.handler) }
    }
}

impl<P, H> fmt::Debug for OncePerEvent<P, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OncePerEvent").field("locker", &self.work.locker).finish_non_exhaustive()
    }
}

impl<P, T, E, H, Fut> Service<LambdaEvent<P>> for OncePerEvent<P, H>
where
    P: Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Into<BoxError> + 'static,
    H: Fn(P, Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
{
    type Response = T;
    type Error = Diagnostic;
    type Future = Pin<Box<dyn Future<Output = Result<T, Diagnostic>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Diagnostic>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, event: LambdaEvent<P>) -> Self::Future {
        let Self { work, handler } = self.clone();
        Box::pin(async move {
            let LambdaEvent { payload, context } = event;
            let ran = work.run((payload, &context), |event, attempt| handler(event, attempt)).await;
            Ok(ran?.into_inner())
        })
    }
}

#[cfg(feature = "messages")]
impl<P, H> OncePerMessage<P, H> {
    /// Selects the fields that identify a request: see [`OncePerEvent::same`].
    pub fn same<F: Serialize>(mut self, fields: impl Fn(&P) -> F + Send + Sync + 'static) -> Self {
        self.once = self.once.same(fields);
        self
    }

    /// Sets options of the token: see [`OncePerEvent::with`].
    pub fn with(
        mut self,
        options: impl Fn(BeginBuilder, &P) -> BeginBuilder + Send + Sync + 'static,
    ) -> Self {
        self.once = self.once.with(options);
        self
    }

    /// Sets the time that a message needs (default: 5 seconds).
    ///
    /// A message is begun only if the invocation has more time left.
    pub const fn needs(mut self, time: Duration) -> Self {
        self.needs = time;
        self
    }
}

#[cfg(feature = "messages")]
impl<P, H> Clone for OncePerMessage<P, H> {
    fn clone(&self) -> Self {
        Self { once: self.once.clone(), needs: self.needs }
    }
}

#[cfg(feature = "messages")]
impl<P, H> fmt::Debug for OncePerMessage<P, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OncePerMessage").field("once", &self.once).finish_non_exhaustive()
    }
}

#[cfg(feature = "messages")]
impl<P, E, H, Fut> Service<LambdaEvent<Deliveries>> for OncePerMessage<P, H>
where
    P: DeserializeOwned + Send + 'static,
    E: Into<BoxError> + 'static,
    H: Fn(P, Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
{
    type Response = Undelivered;
    type Error = lambda_runtime::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Undelivered, lambda_runtime::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, event: LambdaEvent<Deliveries>) -> Self::Future {
        let (once, context) = (self.once.clone(), event.context.clone());
        Box::pin(each_message(event, self.needs, move |delivery| {
            message_once(once.clone(), context.clone(), delivery)
        }))
    }
}

/// Runs the handler for one message. The error is the reason why the message returns to the queue.
#[cfg(feature = "messages")]
async fn message_once<P, E, H, Fut>(
    OncePerEvent { work, handler }: OncePerEvent<P, H>,
    context: Context,
    delivery: Delivery,
) -> Result<(), String>
where
    P: DeserializeOwned,
    E: Into<BoxError>,
    H: Fn(P, Attempt) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let event =
        serde_json::from_str(&delivery.body).map_err(|error| format!("the body cannot be read: {error}"))?;
    let ran = work.run((event, &context), |event, attempt| handler(event, attempt)).await;
    match or_retry(ran).map_err(|diagnostic| diagnostic.error_message)? {
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(message.id = delivery.id, %error, "a message failed for good and leaves the queue");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde::Deserialize;

    use super::*;
    use crate::clock::{Clock as _, SystemClock};
    use crate::failure::OfClass as _;

    #[derive(Clone, Deserialize)]
    struct Order {
        id: u64,
        cents: u64,
        outcome: String,
    }

    fn order(id: u64, outcome: &str) -> Order {
        Order { id, cents: 1000, outcome: outcome.to_owned() }
    }

    type Charging = Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>>;

    /// A handler, and how often it ran.
    #[derive(Clone, Default)]
    struct Charges(Arc<AtomicU32>);

    impl Charges {
        fn handler(&self) -> impl Fn(Order, Attempt) -> Charging + use<> {
            let runs = Arc::clone(&self.0);
            move |order, attempt| {
                runs.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    match order.outcome.as_str() {
                        "charged" => Ok(format!("charged under {}", attempt.idempotency_key())),
                        "not sent" => Err("not sent").transient()?,
                        "declined" => Err("declined").permanent()?,
                        other => Err(other.into()),
                    }
                })
            }
        }

        fn runs(&self) -> u32 {
            self.0.load(Ordering::SeqCst)
        }
    }

    async fn locker() -> Locker {
        let dynamodb = lock_token_testing::Embedded::memory().unwrap().client();
        crate::create_table(&dynamodb, "locks").await.unwrap();
        Locker::new(&dynamodb, "locks").unwrap()
    }

    fn event(order: Order) -> LambdaEvent<Order> {
        let mut context = Context::default();
        context.request_id = "request-1".to_owned();
        LambdaEvent::new(order, context)
    }

    const fn key(order: &Order) -> (&'static str, u64) {
        ("order/create", order.id)
    }

    #[tokio::test]
    async fn class_of_the_error_decides_about_the_next_delivery() {
        let locker = locker().await;
        for (id, outcome, kind, runs) in [
            (1, "charged", None, 1),
            (2, "not sent", Some("locker.Transient"), 2),
            (3, "declined", Some("locker.Permanent"), 1),
            // It is unknown whether the charge happened.
            (4, "no reply", Some("locker.InDoubt"), 1),
        ] {
            let charges = Charges::default();
            let mut once = once(&locker, key, charges.handler());
            for delivery in 1..=2 {
                let came_to = once.call(event(order(id, outcome))).await;
                let kind = match (kind, delivery) {
                    (Some("locker.InDoubt"), 2) => Some("locker.InProgress"),
                    _ => kind,
                };
                let found = came_to.as_ref().err().map(|error| error.error_type.as_str());
                assert_eq!(found, kind, "{outcome}, delivery {delivery}");
                if let Ok(answer) = came_to {
                    assert_eq!(answer, "charged under order/create/1");
                }
            }
            assert_eq!(charges.runs(), runs, "{outcome}");
            // A release of the first attempt leaves no record.
            if let Some(record) = locker.get(("order/create", id)).await.unwrap() {
                assert_eq!(record.locked_by(), "local/request-1", "{outcome}");
            }
        }
    }

    #[tokio::test]
    async fn only_selected_fields_identify_a_request() {
        let locker = locker().await;
        let charges = Charges::default();
        let mut any = once(&locker, key, charges.handler());
        let mut cents = once(&locker, key, charges.handler()).same(|order| order.cents);
        any.call(event(order(1, "charged"))).await.unwrap();
        cents.call(event(order(2, "charged"))).await.unwrap();
        let other = |id| event(Order { cents: 7, ..order(id, "charged") });
        assert!(any.call(other(1)).await.is_ok());
        assert_eq!(cents.call(other(2)).await.unwrap_err().error_type, "locker.Mismatch");
        assert_eq!(charges.runs(), 2);
    }

    #[tokio::test]
    async fn handler_does_not_run_without_a_key_or_without_time() {
        let locker = locker().await;
        let charges = Charges::default();
        let mut nameless = once(&locker, |_: &Order| "", charges.handler());
        let refused = nameless.call(event(order(1, "charged"))).await.unwrap_err();
        assert_eq!(refused.error_type, "locker.NoOutcome");
        // The reply needs the last 500 milliseconds.
        for left in [0, 400] {
            let mut late = event(order(1, "charged"));
            late.context.deadline = u64::try_from(SystemClock.now().timestamp_millis()).unwrap() + left;
            let refused = once(&locker, key, charges.handler()).call(late).await.unwrap_err();
            assert!(refused.error_message.contains("the deadline has passed"), "{left} ms: {refused:?}");
        }
        assert_eq!(charges.runs(), 0);
    }

    #[cfg(feature = "messages")]
    type Packing = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

    #[cfg(feature = "messages")]
    impl Charges {
        fn packing(&self) -> impl Fn(Order, Attempt) -> Packing + use<> {
            let handler = self.handler();
            move |order, attempt| {
                let charged = handler(order, attempt);
                Box::pin(async move { charged.await.map(drop) })
            }
        }
    }

    /// A record of SQS.
    #[cfg(feature = "messages")]
    fn record(id: u64, outcome: &str) -> serde_json::Value {
        let body = format!(r#"{{"id":{id},"cents":1,"outcome":"{outcome}"}}"#);
        serde_json::json!({ "messageId": format!("{id} {outcome}"), "body": body })
    }

    #[tokio::test]
    #[cfg(feature = "messages")]
    async fn message_without_enough_time_returns_to_the_queue() {
        let locker = locker().await;
        let runs = Charges::default();
        let by_default = once_each(&locker, key, runs.packing());
        let long = by_default.clone().needs(Duration::from_secs(3600));
        for (id, mut each, left, begins) in [
            (1, by_default.clone(), Duration::from_secs(4), false),
            (1, by_default, Duration::from_secs(600), true),
            (2, long.clone(), Duration::from_secs(600), false),
            (2, long, Duration::from_secs(7200), true),
        ] {
            let mut context = Context::default();
            context.deadline = u64::try_from((SystemClock.now() + left).timestamp_millis()).unwrap();
            let event = LambdaEvent::new(Deliveries { records: vec![record(id, "charged")] }, context);
            let before = runs.runs();
            let undelivered = each.call(event).await.unwrap();
            let returned = undelivered.ids().count();
            assert_eq!((runs.runs() - before, returned), if begins { (1, 0) } else { (0, 1) }, "{left:?}");
        }
    }

    #[tokio::test]
    #[cfg(feature = "messages")]
    async fn messages_that_may_still_succeed_return_to_the_queue() {
        let locker = locker().await;
        let runs = Charges::default();
        let mut each = once_each(&locker, key, runs.packing());
        let mut records = vec![
            record(1, "charged"),
            record(1, "charged"),
            record(2, "not sent"),
            record(3, "declined"),
            record(4, "no reply"),
        ];
        records.push(serde_json::json!({ "messageId": "odd", "body": "tea" }));
        let event = LambdaEvent::new(Deliveries { records }, Context::default());
        let undelivered = each.call(event).await.unwrap();
        assert_eq!(undelivered.ids().collect::<Vec<_>>(), ["2 not sent", "4 no reply", "odd"]);
        assert_eq!(runs.runs(), 4, "the second message of order 1 is a replay");

        let mut same = once_each(&locker, key, runs.packing()).same(|order| order.outcome.clone());
        let records = vec![record(5, "charged"), record(5, "another order")];
        let event = LambdaEvent::new(Deliveries { records }, Context::default());
        let undelivered = same.call(event).await.unwrap();
        assert_eq!(undelivered.ids().collect::<Vec<_>>(), ["5 another order"]);
        assert_eq!(runs.runs(), 5, "another request has its key");
    }
}
