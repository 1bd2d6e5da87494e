//! What a client does with the library, and what it makes of each verdict.

use std::time::Duration;

use locker::{Begun, EndError, Error, Lock, Locker};

use super::invariant::Invariant;
use super::port::Shared;
use super::scenario::{Scenario, Verb};
use super::world::{Kind, World};

/// How long the work is expected to take, at first and when extended. An extension without a reply
/// is followed by a longer one.
pub(super) const EXPECTED: Duration = Duration::from_secs(60);
const EXTENDED: [Duration; 2] = [Duration::from_secs(600), Duration::from_secs(1200)];

/// How often a client begins, whatever the outcome.
const ASKS: usize = 2;
/// How often a client sends an end again.
const AGAIN: usize = 2;

/// One client of a plan.
pub(super) struct Program {
    pub(super) shared: Shared<World>,
    pub(super) locker: Locker,
    pub(super) client: usize,
    pub(super) scenario: Scenario,
}

impl Program {
    /// Ask, work, end; and ask again where the first time did not come to an answer.
    pub(super) async fn run(self) {
        for ask in 0..ASKS {
            if let Some(lock) = self.begin(ask).await
                && self.work(ask, lock).await
            {
                return;
            }
            if self.shared.world().clients[self.client].answered {
                return;
            }
        }
    }

    async fn begin(&self, ask: usize) -> Option<Lock> {
        let key = self.shared.world().key.clone();
        self.shared.world().calls(self.client, ("begin", ask, 0));
        let token = self.locker.token(key).expect_within(EXPECTED);
        let token = if self.scenario.take_over { token.take_over_after(Duration::ZERO) } else { token };
        let begun = token.begin().await;
        let mut world = self.shared.world();
        world.note(|| format!("client {} was told {}", self.client, word(&begun)));
        match begun {
            Ok(Begun::Acquired(lock)) => {
                if !world.wrote(self.client, Kind::Begin) {
                    world.violated(Invariant::TrueYes, "acquired without a token".to_owned());
                }
                return Some(lock);
            }
            Ok(Begun::Completed(replay)) => world.told_answer(self.client, replay.json().to_owned()),
            Ok(Begun::Failed(failure) | Begun::Held(failure)) => {
                world.told_answer(self.client, failure.json().to_owned())
            }
            Ok(Begun::InProgress(_) | Begun::Mismatch(_) | Begun::Restored(_)) => {}
            Err(Error::Unknown { .. }) => return None,
            Err(error) => {
                if world.may_have_written(self.client) {
                    world.violated(Invariant::TrueNo, format!("not sure, and told: {error}"));
                }
                return None;
            }
        }
        if world.holds(self.client) {
            world.violated(Invariant::TrueNo, "told of another's token while holding it".to_owned());
        }
        None
    }

    /// Whether the work is done and stored.
    async fn work(&self, ask: usize, lock: Lock) -> bool {
        let lock = match self.scenario.verb {
            Verb::Extend => match self.extend(ask, lock).await {
                Some(lock) => lock,
                None => return false,
            },
            Verb::Release if ask == 0 => {
                self.end(ask, lock, Verb::Release).await;
                return false;
            }
            _ => lock,
        };
        let attempt = lock.attempt().id().to_owned();
        self.shared.world().effects.push(attempt);
        if self.scenario.verb == Verb::Doubt && ask == 0 {
            self.shared.world().calls(self.client, ("doubt", ask, 0));
            lock.leave_in_doubt("no reply").await;
            return false;
        }
        let verb = if self.scenario.verb == Verb::Release { Verb::Complete } else { self.scenario.verb };
        self.end(ask, lock, verb).await
    }

    async fn extend(&self, ask: usize, lock: Lock) -> Option<Lock> {
        let mut lock = lock;
        for (again, expected) in EXTENDED.into_iter().enumerate() {
            self.shared.world().calls(self.client, ("extend", ask, again));
            match lock.extend(expected).await {
                Ok(lock) => {
                    self.told_done(Kind::Extend);
                    return Some(lock);
                }
                Err(end) => {
                    self.told_error(Kind::Extend, end.error());
                    lock = end.into_lock()?;
                }
            }
        }
        // Without a clear answer the lock still holds, and the work goes on.
        Some(lock)
    }

    async fn end(&self, ask: usize, lock: Lock, verb: Verb) -> bool {
        let (kind, answer) =
            (if verb == Verb::Release { Kind::Release } else { Kind::Finish }, answer(verb, &lock));
        self.shared.world().calls(self.client, ("end", ask, 0));
        let mut ended = apply(lock, verb, &answer).await;
        for again in 1..=AGAIN {
            let Err(end) = ended else { break };
            self.told_error(kind, end.error());
            ended = match end.error() {
                Error::Unknown { .. } => {
                    self.shared.world().calls_again(self.client, ("end again", ask, again));
                    end.again().await
                }
                _ => {
                    let Some(lock) = end.into_lock() else { return false };
                    self.shared.world().calls(self.client, ("end", ask, again));
                    apply(lock, verb, &answer).await
                }
            };
        }
        match ended {
            Ok(()) => {
                self.told_done(kind);
                if verb != Verb::Release {
                    self.shared.world().answers.push(serde_json::to_string(&answer).expect("JSON"));
                }
                true
            }
            Err(end) => {
                self.told_error(kind, end.error());
                false
            }
        }
    }

    fn told_done(&self, kind: Kind) {
        let mut world = self.shared.world();
        world.note(|| format!("client {} was told {kind:?}: done", self.client));
        if !world.wrote(self.client, kind) {
            world.violated(Invariant::TrueYes, format!("{kind:?} was said to be done"));
        }
    }

    fn told_error(&self, kind: Kind, error: &Error) {
        let mut world = self.shared.world();
        world.note(|| format!("client {} was told {kind:?}: {error}", self.client));
        let lie = match error {
            Error::Unknown { .. } => false,
            Error::LostOwnership { .. } => {
                // An extension that was applied may have been lost since; an end cannot.
                world.holds(self.client) || (kind != Kind::Extend && world.wrote(self.client, kind))
            }
            _ => world.may_have_written(self.client),
        };
        if lie {
            world.violated(Invariant::TrueNo, format!("{kind:?} was applied, and told: {error}"));
        }
    }
}

async fn apply(lock: Lock, verb: Verb, answer: &str) -> Result<(), EndError> {
    match verb {
        Verb::Complete | Verb::CompleteLarge | Verb::Extend | Verb::Doubt => lock.complete(answer).await,
        Verb::Fail => lock.fail(answer).await,
        Verb::Hold => lock.hold(answer).await,
        Verb::Release => lock.release().await,
    }
}

/// No two attempts have the same answer. A large one does not compress into the token.
fn answer(verb: Verb, lock: &Lock) -> String {
    let attempt = lock.attempt();
    let attempt = attempt.id();
    if verb != Verb::CompleteLarge {
        return format!("done by {attempt}");
    }
    let seed = attempt.bytes().fold(0_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let mut noise = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| noise.alphanumeric()).take(2_000).collect()
}

fn word(begun: &Result<Begun, Error>) -> String {
    match begun {
        Ok(Begun::Acquired(lock)) => format!("acquired {}", lock.attempt().id()),
        Ok(Begun::Completed(_)) => "completed".to_owned(),
        Ok(Begun::Failed(_)) => "failed".to_owned(),
        Ok(Begun::Held(_)) => "held".to_owned(),
        Ok(Begun::InProgress(holder)) => format!("in progress since {}", holder.since()),
        Ok(Begun::Mismatch(_)) => "mismatch".to_owned(),
        Ok(Begun::Restored(_)) => "restored".to_owned(),
        Err(error) => error.to_string(),
    }
}
