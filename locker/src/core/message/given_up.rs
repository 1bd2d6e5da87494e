//! A message whose attempts end without an outcome is not tried for ever.

use super::letter::Letter;

impl Letter {
    /// Why it is given up before another attempt. `None`: it is handled.
    ///
    /// A handler that says that it failed releases the message; one that ends with its process does
    /// not, nor a run that was suspended before its handler began. Which of the two it was is not
    /// known.
    pub(crate) fn given_up(&self, attempts: u32) -> Option<String> {
        let is_without_outcome = self.locked_by.is_some();
        (is_without_outcome && self.attempts >= attempts)
            .then(|| format!("given up after attempt {}, whose outcome is not known", self.attempts))
    }
}
