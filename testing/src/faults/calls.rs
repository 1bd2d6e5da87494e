//! Calls to a service other than DynamoDB, with faults on demand.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use locker::Failure;

use super::call_fate::CallFate;
use super::fate::FROZEN;
use super::schedule::Schedule;

/// Calls to a service other than DynamoDB, such as a bank or a mail server, with faults on demand.
/// Clones share the plan.
///
/// ```
/// use lock_token_testing::{CallFate, Calls};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let calls = Calls::default();
/// calls.next([CallFate::Ok, CallFate::ReplyLost]);
/// let (sent, mut mails) = std::sync::mpsc::channel();
/// for mail in ["one", "two"] {
///     let sent = sent.clone();
///     let answer = calls.call(mail, move || sent.send(mail)).await;
///     assert_eq!(answer.is_ok(), mail == "one", "the second was sent, and its sender does not know");
/// }
/// assert_eq!(mails.try_iter().collect::<Vec<_>>(), ["one", "two"]);
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    schedule: Schedule<str, CallFate>,
    made: Vec<String>,
    late: Vec<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("made", &self.state().made).finish_non_exhaustive()
    }
}

impl Calls {
    /// Plans the fates of the next calls. The calls after them succeed. Deletes the former plan.
    pub fn next(&self, fates: impl IntoIterator<Item = CallFate>) {
        self.state().schedule.next(fates);
    }

    /// Plans the fate of the n-th call from now, counted from 1.
    pub fn nth(&self, n: usize, fate: CallFate) {
        self.state().schedule.nth(n, fate);
    }

    /// Plans the fate of the next call whose description matches.
    pub fn matching(&self, matches: impl Fn(&str) -> bool + Send + 'static, fate: CallFate) {
        self.state().schedule.matching(matches, fate);
    }

    /// Plans the fate of all calls from now on. Deletes the former plan.
    pub fn always(&self, fate: CallFate) {
        self.state().schedule.always(fate);
    }

    /// Returns the descriptions of the calls since the last [`take`](Self::take).
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.state().made)
    }

    /// Delivers the [late](CallFate::Late) calls. Returns their number.
    pub fn deliver_late(&self) -> usize {
        let late = std::mem::take(&mut self.state().late);
        let delivered = late.len();
        late.into_iter().for_each(|effect| effect());
        delivered
    }

    /// Makes a call. `effect` is its effect at the service: it runs at once, later, or never.
    ///
    /// # Errors
    ///
    /// The [`CallFate`] determines the error: a transient or permanent [`Failure`] if nothing
    /// happened, and a failure in doubt if that is unknown.
    pub async fn call<T: Send + 'static>(
        &self,
        what: &str,
        effect: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let fate = {
            let mut state = self.state();
            state.made.push(what.to_owned());
            state.schedule.arrives(what).unwrap_or(CallFate::Ok)
        };
        if fate == CallFate::FrozenBefore {
            tokio::time::sleep(FROZEN).await;
        }
        let came_to = if fate.happens() {
            Some(effect())
        } else {
            if fate == CallFate::Late {
                self.state().late.push(Box::new(|| drop(effect())));
            }
            None
        };
        if fate.kills() {
            return std::future::pending().await;
        }
        if fate == CallFate::FrozenAfter {
            tokio::time::sleep(FROZEN).await;
        }
        fate.heard(what, came_to)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The effect of a call at a provider. Returns a receipt, if there is one.
pub(crate) type Effect = Box<dyn FnOnce() -> Option<String> + Send>;
/// The result that the caller of a provider receives.
pub(crate) type Heard = Pin<Box<dyn Future<Output = Result<Option<String>, Failure>> + Send>>;

/// Delivers a call to a provider.
pub(crate) trait Line: fmt::Debug + Send + Sync {
    fn call(&self, what: String, effect: Effect) -> Heard;
}

impl Line for Calls {
    fn call(&self, what: String, effect: Effect) -> Heard {
        let calls = self.clone();
        Box::pin(async move { calls.call(&what, effect).await })
    }
}
