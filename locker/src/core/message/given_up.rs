//! Limits the attempts of a message that end without an outcome.

use super::letter::Letter;

impl Letter {
    /// Returns why the message is given up before another attempt. `None`: it is processed.
    ///
    /// A handler that returns a failure releases the message. If the process ends in the handler,
    /// or the run is suspended before the handler begins, the message is not released. The table
    /// does not show which of the two happened.
    pub(crate) fn given_up(&self, attempts: u32) -> Option<String> {
        let is_without_outcome = self.locked_by.is_some();
        (is_without_outcome && self.attempts >= attempts)
            .then(|| format!("given up after attempt {}, whose outcome is not known", self.attempts))
    }
}

#[cfg(test)]
mod tests {
    use crate::core::message::letter::tests::committed;
    use crate::core::message::letter::{Letter, LetterData};

    #[test]
    fn only_attempts_without_an_outcome_are_given_up() {
        let given_up = |attempts, locked_by: Option<&str>| {
            let locked_by = locked_by.map(str::to_owned);
            Letter::stored(LetterData { attempts, locked_by, ..LetterData::clone(&committed()) }).given_up(3)
        };
        assert_eq!([given_up(2, Some("packer")), given_up(3, None), given_up(4, None)], [None, None, None]);
        let why = "given up after attempt 3, whose outcome is not known";
        assert_eq!(given_up(3, Some("packer")).as_deref(), Some(why));
        assert!(given_up(4, Some("packer")).is_some());
    }
}
