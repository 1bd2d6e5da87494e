//! The broker as a target of messages: a call to the provider's books, with the faults of any
//! other.

use locker::message::{Envelope, MessageState, Router, Sent, Target};
use locker::workflow::Workflows;
use locker::{Error, Operator};

use super::books::{Call, Said, Verb};
use super::provider::{Provider, Reply};

/// Where all messages go.
pub fn broker(provider: &Provider) -> Router {
    Router::new().route("*", Broker(provider.clone()))
}

#[derive(Debug)]
struct Broker(Provider);

impl Target for Broker {
    async fn send(&self, batch: &[Envelope]) -> Vec<Sent> {
        let mut sent = Vec::new();
        for envelope in batch {
            let call = Call {
                verb: Verb::Tell,
                about: envelope.topic.clone(),
                account: String::new(),
                amount: 0,
                key: None,
                event: Some(envelope.to_json().expect("an event")),
                valid_until: None,
            };
            sent.push(match self.0.call(call).await {
                Reply::Said(Said::Done(_)) => Sent::Done,
                Reply::Said(Said::Refused(why)) => Sent::MessageRefused(why),
                Reply::Said(Said::Expired) | Reply::Busy(_) | Reply::Down => {
                    Sent::Later("not now".to_owned())
                }
                Reply::Silence => Sent::Unknown("no reply".to_owned()),
            });
        }
        sent
    }
}

/// Have everything sent again that is dead.
///
/// # Errors
///
/// DynamoDB did not answer.
///
/// # Panics
///
/// Never.
pub async fn redrive(workflows: &Workflows) -> Result<(), Error> {
    let operator = Operator::new("operator", "the broker is back").expect("a reason");
    for listed in workflows.messages(MessageState::Dead).fetch().await?.items {
        if let Some(dead) = workflows.message(&listed.work).await? {
            // Changed meanwhile: it is sent.
            let _ = workflows.redrive(&dead, &operator).await?;
        }
    }
    Ok(())
}
