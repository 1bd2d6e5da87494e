//! Handlers with a lock token, or without one where there should be one.

use std::time::Duration;

use lock_token_testing::sweep::{Subject, World};
use locker::{Attempt, BeginBuilder, Failure, Locker};

use crate::{DAY, KNOWS_NO_KEYS, charged_once, finds, passes};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Handler {
    /// As it should be.
    Once,
    /// No token at all.
    NoToken,
    /// The charge comes before the token.
    EffectBefore,
    /// The token is completed, and then comes the charge.
    EffectAfter,
    /// What is in doubt is passed on as transient.
    CallsDoubtTransient,
    /// Looks whether there is an answer, and writes one afterwards.
    ChecksFirst,
    /// Taken over, though the provider does not know the key.
    TakesOver,
    /// Taken over, and the provider is given another key each time.
    OtherKey,
    /// Taken over under the same key.
    TakesOverWithKey,
}

struct Order(Handler);

fn token(locker: &Locker) -> BeginBuilder {
    locker.token(("order", 7)).expect_within(Duration::from_secs(60))
}

async fn charge(world: &World, key: String) -> Result<String, Failure> {
    world.provider().apply(&key, "charge").await
}

impl Subject for Order {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        let locker = world.locker("locks").build().unwrap();
        let run = async |token: BeginBuilder, key: fn(&Attempt) -> String| {
            let charged = token.run(|attempt| charge(world, key(&attempt))).await;
            charged.ok().map(|receipt| receipt.into_inner())
        };
        match self.0 {
            Handler::Once => run(token(&locker), Attempt::idempotency_key).await,
            Handler::NoToken => charge(world, "order/7".to_owned()).await.ok(),
            Handler::EffectBefore => {
                let receipt = charge(world, "order/7".to_owned()).await.ok()?;
                let done = token(&locker).run(|_| async { Ok::<_, Failure>(receipt) }).await;
                done.ok().map(|receipt| receipt.into_inner())
            }
            Handler::EffectAfter => {
                let done = token(&locker).run(|_| async { Ok::<_, Failure>("accepted".to_owned()) }).await;
                let done = done.ok()?;
                if !done.is_replay() {
                    let _ = charge(world, "order/7".to_owned()).await;
                }
                Some(done.into_inner())
            }
            Handler::CallsDoubtTransient => {
                let charged = token(&locker)
                    .run(|attempt| async move {
                        let charged = charge(world, attempt.idempotency_key()).await;
                        charged.map_err(|failure| Failure::transient(failure.error))
                    })
                    .await;
                charged.ok().map(|receipt| receipt.into_inner())
            }
            Handler::ChecksFirst => {
                if let Some(record) = locker.get("order/7").await.ok()? {
                    let answer = locker.answer(&record).await.ok()??;
                    return serde_json::from_str(&answer).ok();
                }
                let receipt = charge(world, "order/7".to_owned()).await.ok()?;
                let done = token(&locker).run(|_| async { Ok::<_, Failure>(receipt) }).await;
                done.ok().map(|receipt| receipt.into_inner())
            }
            Handler::TakesOver | Handler::TakesOverWithKey => {
                run(token(&locker).take_over_after(Duration::from_secs(60)), Attempt::idempotency_key).await
            }
            Handler::OtherKey => {
                let token = token(&locker).take_over_after(Duration::from_secs(60));
                run(token, |attempt| attempt.id().to_owned()).await
            }
        }
    }

    async fn check(&self, world: &World, answer: Option<&str>) -> Vec<String> {
        charged_once(world, answer)
    }
}

fn finds_in(name: &str, recognises_for: Duration, broken: Handler) {
    let _ = finds(name, recognises_for, move || Order(broken));
}

#[test]
fn work_without_a_token() {
    finds_in("no token", KNOWS_NO_KEYS, Handler::NoToken);
}

#[test]
fn an_effect_before_its_token() {
    finds_in("effect before the token", KNOWS_NO_KEYS, Handler::EffectBefore);
}

#[test]
fn an_effect_after_its_token_is_completed() {
    finds_in("effect after the token", KNOWS_NO_KEYS, Handler::EffectAfter);
}

#[test]
fn doubt_that_is_called_transient() {
    finds_in("doubt called transient", KNOWS_NO_KEYS, Handler::CallsDoubtTransient);
}

#[test]
fn a_look_and_then_a_write() {
    finds_in("checks first", KNOWS_NO_KEYS, Handler::ChecksFirst);
}

#[test]
fn a_takeover_where_the_provider_knows_no_keys() {
    finds_in("takes over", KNOWS_NO_KEYS, Handler::TakesOver);
}

#[test]
fn another_key_for_each_attempt() {
    finds_in("another key", 10 * DAY, Handler::OtherKey);
}

#[test]
fn the_same_with_a_token_around_it_passes() {
    passes("once", 80, KNOWS_NO_KEYS, || Order(Handler::Once));
}

#[test]
fn a_takeover_under_the_same_key_passes() {
    passes("takes over with the key", 80, 10 * DAY, || Order(Handler::TakesOverWithKey));
}
