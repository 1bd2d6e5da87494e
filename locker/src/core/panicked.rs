//! The text of a panic in a user's code.

use std::any::Any;

/// Returns the message of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_panic_is_its_message() {
        let panics: [(Box<dyn Any + Send>, &str); 3] = [
            (Box::new("a bug"), "a bug"),
            (Box::new("a bug".to_owned()), "a bug"),
            (Box::new(7), "no message"),
        ];
        for (panic, text) in panics {
            assert_eq!(text_of(&*panic), text);
        }
    }
}
