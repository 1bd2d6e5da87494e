//! Which of the things that arrive one after the other goes wrong, and how.

use std::collections::HashMap;

type Matches<T> = Box<dyn Fn(&T) -> bool + Send>;

/// The fates of what arrives, by its number or by what it is.
pub(super) struct Schedule<T: ?Sized, F> {
    arrived: usize,
    numbered: HashMap<usize, F>,
    matched: Vec<(Matches<T>, F)>,
    always: Option<F>,
}

impl<T: ?Sized, F> Default for Schedule<T, F> {
    fn default() -> Self {
        Self { arrived: 0, numbered: HashMap::new(), matched: Vec::new(), always: None }
    }
}

impl<T: ?Sized, F: Copy> Schedule<T, F> {
    /// Forget what was planned, and plan the next ones.
    pub(super) fn next(&mut self, fates: impl IntoIterator<Item = F>) {
        self.forget();
        self.numbered.extend((self.arrived + 1..).zip(fates));
    }

    /// Plan the n-th from now, counted from 1.
    pub(super) fn nth(&mut self, n: usize, fate: F) {
        self.numbered.insert(self.arrived + n, fate);
    }

    /// Plan the next one that matches.
    pub(super) fn matching(&mut self, matches: impl Fn(&T) -> bool + Send + 'static, fate: F) {
        self.matched.push((Box::new(matches), fate));
    }

    /// Forget what was planned, and let all go like this.
    pub(super) fn always(&mut self, fate: F) {
        self.forget();
        self.always = Some(fate);
    }

    fn forget(&mut self) {
        self.numbered.clear();
        self.matched.clear();
        self.always = None;
    }

    /// Something arrives. A number goes before a match, and both before what always happens.
    pub(super) fn arrives(&mut self, it: &T) -> Option<F> {
        self.arrived += 1;
        if let Some(fate) = self.numbered.remove(&self.arrived) {
            return Some(fate);
        }
        match self.matched.iter().position(|(matches, _)| matches(it)) {
            Some(at) => Some(self.matched.remove(at).1),
            None => self.always,
        }
    }
}
