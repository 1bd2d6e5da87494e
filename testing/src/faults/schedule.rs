//! The plan of faults for a series of requests or calls.

use std::collections::HashMap;

type Matches<T> = Box<dyn Fn(&T) -> bool + Send>;

/// The fates of a series of items, by number or by a condition on the item.
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
    /// Deletes the former plan, and plans the next items.
    pub(super) fn next(&mut self, fates: impl IntoIterator<Item = F>) {
        self.forget();
        self.numbered.extend((self.arrived + 1..).zip(fates));
    }

    /// Plans the n-th item from now, counted from 1.
    pub(super) fn nth(&mut self, n: usize, fate: F) {
        self.numbered.insert(self.arrived + n, fate);
    }

    /// Plans the next item that matches.
    pub(super) fn matching(&mut self, matches: impl Fn(&T) -> bool + Send + 'static, fate: F) {
        self.matched.push((Box::new(matches), fate));
    }

    /// Deletes the former plan, and plans this fate for all items.
    pub(super) fn always(&mut self, fate: F) {
        self.forget();
        self.always = Some(fate);
    }

    fn forget(&mut self) {
        self.numbered.clear();
        self.matched.clear();
        self.always = None;
    }

    /// Returns the fate of the next item. A number takes precedence over a match, and both over the
    /// fate of all items.
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
