//! One handler for each type of event.

use std::collections::HashMap;
use std::fmt;

use super::batch::Handling;
use super::{Delivery, Incoming};
use crate::failure::Failure;

type OfType<'a> = Box<dyn Fn(Incoming) -> Handling<'a, Failure> + Send + Sync + 'a>;

/// The handlers of a consumer, by the type of the event.
///
/// ```
/// use locker::Failure;
/// use locker::inbox::{Delivery, Handlers, Received};
/// use locker::workflow::Workflows;
///
/// #[tokio::main]
/// async fn main() -> Result<(), locker::BoxError> {
///     let dynamodb = lock_token_testing::Embedded::memory()?.client();
///     locker::workflow::create_table(&dynamodb, "workflows").await?;
///     let inbox = Workflows::new(&dynamodb, "workflows")?.inbox("packer")?;
///     let handlers = Handlers::new()
///         .on("order.placed", async |message| inbox.atomic(&message).commit().await?.done())
///         .on("order.cancelled", async |_| Ok(()));
///     let event = r#"{"specversion":"1.0","id":"1","source":"/orders","type":"order.placed","data":7}"#;
///     let (consumer, delivery) = (inbox.consumer(), Delivery::new("1", event));
///     let received = consumer.receive(&delivery, async |it| handlers.handle(it).await).await?;
///     assert_eq!(received, Received::Done);
///     Ok(())
/// }
/// ```
#[derive(Default)]
#[must_use = "handlers do nothing until they handle a message"]
pub struct Handlers<'a> {
    of_type: HashMap<String, OfType<'a>>,
}

impl fmt::Debug for Handlers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut types: Vec<_> = self.of_type.keys().collect();
        types.sort();
        f.debug_struct("Handlers").field("types", &types).finish_non_exhaustive()
    }
}

impl<'a> Handlers<'a> {
    /// Creates handlers for no type.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the handler of events of this type, such as `order.placed`. It replaces an earlier
    /// handler of the same type.
    pub fn on<Fut>(
        mut self,
        kind: impl Into<String>,
        handle: impl Fn(Incoming) -> Fut + Send + Sync + 'a,
    ) -> Self
    where
        Fut: Future<Output = Result<(), Failure>> + Send + 'a,
    {
        let handle: OfType<'a> =
            Box::new(move |message| -> Handling<'a, Failure> { Box::pin(handle(message)) });
        self.of_type.insert(kind.into(), handle);
        self
    }

    /// Reads the event of a delivery and calls the handler of its type.
    ///
    /// # Errors
    ///
    /// The failure of the handler. Permanent, with the code `inbox.unreadable`, if the body is not
    /// an event, and with the code `inbox.unknownType` if the type has no handler: a
    /// [`Consumer`](super::Consumer) dead-letters the message. Deploy a handler of the type, then
    /// redrive the message.
    pub async fn handle(&self, delivery: Delivery) -> Result<(), Failure> {
        let message = Incoming::parse(&delivery.body)?;
        let Some(handle) = self.of_type.get(&message.kind) else {
            let cause = format!("there is no handler for messages of the type {}", message.kind);
            return Err(Failure::permanent(cause).code("inbox.unknownType"));
        };
        handle(message).await
    }
}
