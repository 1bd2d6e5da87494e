//! Names of steps.

use std::fmt;

use crate::core::name;

/// A value that can be the name of a step: a text, or a text and an id.
///
/// | value | name |
/// |---|---|
/// | `"charge"` | `charge` |
/// | `("fund", 7)` | `fund#7` |
/// | `("fund", "a b")` | `fund#a%20b` |
///
/// A name has at most 200 bytes of printable ASCII, without space, `/`, `~` and `:`. An id may
/// contain any character: characters that a name does not allow are percent-encoded. An invalid
/// name is refused before anything is written. In a [`map`](super::Flow::map), the branch is part
/// of the name: `fund#7:charge`.
pub trait IntoStepName {
    /// Converts the value into a name.
    fn into_step_name(self) -> String;
}

impl IntoStepName for &str {
    fn into_step_name(self) -> String {
        self.to_owned()
    }
}

impl IntoStepName for &String {
    fn into_step_name(self) -> String {
        self.clone()
    }
}

impl IntoStepName for String {
    fn into_step_name(self) -> String {
        self
    }
}

impl<S: AsRef<str>, I: fmt::Display> IntoStepName for (S, I) {
    fn into_step_name(self) -> String {
        name::with_id(self.0.as_ref(), &self.1.to_string())
    }
}
