//! The rows and messages that a caller adds to a transaction.

use super::NewMessage;
use crate::core::private::Private;
use crate::store::Action;
use crate::store::sdk_actions::TransactWriteItem;

/// The rows and messages that a caller adds to a transaction. Rows may be private.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) given: Private<Vec<Action>>,
    pub(crate) messages: Vec<NewMessage>,
}

impl Actions {
    pub(crate) const NONE: Self = Self { given: Private(Vec::new()), messages: Vec::new() };

    pub(crate) fn add(&mut self, action: TransactWriteItem) {
        self.given.push(Action::Given(Box::new(action)));
    }
}

/// The builder methods of a type with a field `actions: Actions`. They are inherent methods, so
/// that callers import no trait.
macro_rules! takes_actions {
    () => {
        /// Adds any action of a transaction.
        pub fn action(mut self, action: $crate::store::sdk_actions::TransactWriteItem) -> Self {
            self.actions.add(action);
            self
        }

        /// Adds a put of a row.
        pub fn put(self, put: $crate::store::sdk_actions::Put) -> Self {
            self.action($crate::store::sdk_actions::put(put))
        }

        /// Adds an update of a row.
        pub fn update(self, update: $crate::store::sdk_actions::Update) -> Self {
            self.action($crate::store::sdk_actions::update(update))
        }

        /// Adds a delete of a row.
        pub fn delete(self, delete: $crate::store::sdk_actions::Delete) -> Self {
            self.action($crate::store::sdk_actions::delete(delete))
        }

        /// Adds a condition on a row that the commit depends on.
        pub fn check(self, check: $crate::store::sdk_actions::ConditionCheck) -> Self {
            self.action($crate::store::sdk_actions::check(check))
        }
    };
}

pub(crate) use takes_actions;
