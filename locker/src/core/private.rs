//! Values that no log may show.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A value that may be private, such as a body or a result. Its `Debug` prints `..`, so a type that
/// contains one can derive `Debug`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Private<T>(pub(crate) T);

impl<T> fmt::Debug for Private<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<T> Deref for Private<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Private<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_two_dots() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "read by Debug")]
        struct Letter {
            topic: &'static str,
            body: Private<&'static str>,
        }
        let letter = Letter { topic: "order/placed", body: Private("12 Main Street") };
        assert_eq!(format!("{letter:?}"), r#"Letter { topic: "order/placed", body: .. }"#);
    }
    #[test]
    fn value_is_read_and_changed_in_its_place() {
        let mut letter = Private("12 Main Street".to_owned());
        letter.push_str(", York");
        assert_eq!(letter.as_str(), "12 Main Street, York");
    }
}
