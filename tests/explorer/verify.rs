//! What is left of a plan once faults have stopped.

use std::time::Duration;

use locker::operator::{Console, Need};
use locker::{Begun, Error};

use super::invariant::Invariant;
use super::play::{Rig, VERIFIER};
use super::scenario::Scenario;
use super::stored::StoredState;

/// Past every due time and every allowance.
const LONG: Duration = Duration::from_secs(3600);

impl Rig {
    /// Judge the end of a plan, with the library's own begin and listing.
    pub(super) async fn verify(&self, scenario: Scenario) {
        let (key, stored) = {
            let mut world = self.shared.world();
            world.depth = 0;
            let effects = world.effects.len();
            if !scenario.take_over && effects > 1 {
                world.violated(Invariant::OneEffect, format!("{effects} effects"));
            }
            (world.key.clone(), world.token())
        };
        let state = stored.map(|stored| stored.state);
        if state == Some(StoredState::InProgress) {
            self.shared.world().clock.advance(LONG);
        }
        self.must_be_reported(&key, state).await;
        match state {
            None | Some(StoredState::Released) => self.must_be_free(&key, scenario).await,
            Some(StoredState::InProgress) => self.must_be_listed(&key).await,
            Some(state) => self.must_be_replayed(&key, state).await,
        }
    }

    /// It was never begun, or it was released: then nothing has happened. A client that takes over
    /// and releases answers for what the first owner did as well.
    async fn must_be_free(&self, key: &str, scenario: Scenario) {
        let begun = self.lockers[VERIFIER].token(key).begin().await;
        let mut world = self.shared.world();
        if !matches!(begun, Ok(Begun::Acquired(_))) {
            world.violated(Invariant::Visible, format!("a free token cannot be begun: {begun:?}"));
        }
        let (effects, answers) = (world.effects.len(), world.answers.len());
        if effects > 0 && !scenario.take_over {
            world.violated(Invariant::OneEffect, format!("{effects} effects, and the token is free"));
        }
        if answers > 0 {
            world.violated(Invariant::OneAnswer, "an answer was told, and the token is free".to_owned());
        }
    }

    /// The report of what needs an operator has it if it waits for one, and nothing otherwise.
    async fn must_be_reported(&self, key: &str, state: Option<StoredState>) {
        let status = Console::new().tokens(&self.lockers[VERIFIER]).status().await;
        let fits = |need: Need| match state {
            Some(StoredState::InProgress) => matches!(need, Need::InDoubt | Need::Overdue),
            Some(StoredState::Failed) => need == Need::Held,
            _ => false,
        };
        let is_right = status.as_ref().is_ok_and(|status| match status.groups.as_slice() {
            [] => !matches!(state, Some(StoredState::InProgress | StoredState::Failed)) && status.is_well(),
            [group] => fits(group.need) && group.count == 1 && group.sample == key && status.finished,
            _ => false,
        });
        if !is_right {
            let seen = format!("{state:?} in the table, and reported as {status:?}");
            self.shared.world().violated(Invariant::Visible, seen);
        }
    }

    /// A client died while working on it.
    async fn must_be_listed(&self, key: &str) {
        let listed = self.lockers[VERIFIER].overdue().fetch().await;
        let mut world = self.shared.world();
        let found = listed.as_ref().is_ok_and(|listed| listed.items.iter().any(|token| token.token == key));
        if !found {
            world.violated(Invariant::Visible, format!("unfinished, and not listed: {listed:?}"));
        }
        if !world.answers.is_empty() {
            world.violated(
                Invariant::OneAnswer,
                "an answer was told, and the token is in progress".to_owned(),
            );
        }
    }

    /// It was done, so every client gets that answer.
    async fn must_be_replayed(&self, key: &str, state: StoredState) {
        if state == StoredState::Failed {
            let listed = self.lockers[VERIFIER].held().fetch().await;
            let is_listed =
                listed.as_ref().is_ok_and(|listed| listed.items.iter().any(|token| token.token == key));
            if !is_listed {
                let seen = format!("waits for an operator, and not listed: {listed:?}");
                self.shared.world().violated(Invariant::Visible, seen);
            }
        }
        let begun = self.lockers[VERIFIER].token(key).begin().await;
        let mut world = self.shared.world();
        let json = match begun {
            Ok(Begun::Completed(replay)) => replay.json().to_owned(),
            Ok(Begun::Failed(failure) | Begun::Held(failure)) => failure.json().to_owned(),
            Err(Error::Answer(error)) => {
                return world.violated(Invariant::OneAnswer, format!("the answer cannot be read: {error}"));
            }
            other => return world.violated(Invariant::Visible, format!("finished, and told {other:?}")),
        };
        if let Some(other) = world.answers.iter().find(|told| **told != json) {
            let seen = format!("told {other:.60}, and stored {json:.60}");
            world.violated(Invariant::OneAnswer, seen);
        }
    }
}
