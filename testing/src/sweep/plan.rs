//! The faults of one play, as a text that can be played again.

use std::fmt;
use std::str::FromStr;

use super::places::{Counted, Places};
use crate::{CallFate, Fate};

/// The faults of one play. Its text, such as `d3=ReplyLost,c1=DiesAfter`, can be parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The fates of requests to DynamoDB, counted from 1 over all processes.
    pub(super) requests: Vec<(usize, Fate)>,
    /// The fates of calls to other services, counted in the same way.
    pub(super) calls: Vec<(usize, CallFate)>,
    /// Two callers at once, whose requests interleave by this seed.
    pub(super) two: Option<u64>,
    /// An operator cancels before this request.
    pub(super) cancel: Option<usize>,
    /// A late request or call arrives three requests later, and not at the end.
    pub(super) soon: bool,
}

impl Plan {
    pub(super) fn with_request(mut self, at: usize, fate: Fate) -> Self {
        self.requests.push((at, fate));
        self
    }

    pub(super) fn with_call(mut self, at: usize, fate: CallFate) -> Self {
        self.calls.push((at, fate));
        self
    }

    pub(super) fn request(&self, at: usize) -> Option<Fate> {
        self.requests.iter().find(|(n, _)| *n == at).map(|(_, fate)| *fate)
    }

    pub(super) fn call(&self, at: usize) -> Option<CallFate> {
        self.calls.iter().find(|(n, _)| *n == at).map(|(_, fate)| *fate)
    }

    /// Returns the number of faults and other events.
    pub(super) fn faults(&self) -> usize {
        let others = [self.two.is_some(), self.cancel.is_some(), self.soon];
        self.requests.len() + self.calls.len() + others.iter().filter(|is| **is).count()
    }

    /// Returns the plans with one fault less.
    pub(super) fn smaller(&self) -> Vec<Self> {
        let requests = (0..self.requests.len()).map(|at| {
            let mut plan = self.clone();
            plan.requests.remove(at);
            plan
        });
        let calls = (0..self.calls.len()).map(|at| {
            let mut plan = self.clone();
            plan.calls.remove(at);
            plan
        });
        let two = self.two.map(|_| Self { two: None, ..self.clone() });
        let cancel = self.cancel.map(|_| Self { cancel: None, ..self.clone() });
        let soon = self.soon.then(|| Self { soon: false, ..self.clone() });
        requests.chain(calls).chain(two).chain(cancel).chain(soon).collect()
    }

    /// Returns the faults that a play with this many requests and calls did not reach.
    pub(super) fn unreached(&self, sent: Counted) -> Self {
        let Counted { requests, calls } = sent;
        Self {
            requests: self.requests.iter().copied().filter(|(at, _)| !(1..=requests).contains(at)).collect(),
            calls: self.calls.iter().copied().filter(|(at, _)| !(1..=calls).contains(at)).collect(),
            cancel: self.cancel.filter(|at| *at > requests),
            ..Self::default()
        }
    }

    /// Returns plans with one fault at any place, with each interleaving of two callers, and with a
    /// cancellation at any place. The cancellations are also combined with each late call.
    pub(super) fn each(places: &Places, cancels: bool) -> Vec<Self> {
        let mut plans = vec![Self::default()];
        for &at in &places.requests {
            plans.extend(Fate::SWEPT.map(|fate| Self::default().with_request(at, fate)));
            plans.push(Self { soon: true, ..Self::default().with_request(at, Fate::Late) });
        }
        for &at in &places.calls {
            plans.extend(CallFate::SWEPT.map(|fate| Self::default().with_call(at, fate)));
            plans.push(Self { soon: true, ..Self::default().with_call(at, CallFate::Late) });
        }
        plans.extend((0..16).map(|seed| Self { two: Some(seed), ..Self::default() }));
        if cancels {
            let cancelled = |&at: &usize| Self { cancel: Some(at), ..Self::default() };
            plans.extend(places.requests.iter().map(cancelled));
            // These plans cancel while the effect of a late call has not taken place.
            plans.extend(places.requests.iter().map(cancelled).flat_map(|plan| {
                places.calls.iter().map(move |&at| plan.clone().with_call(at, CallFate::Late))
            }));
        }
        plans
    }

    /// Returns this plan with one more fault, at any place: a reply that does not arrive, because
    /// it is lost or because the process dies.
    pub(super) fn each_beside<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = Self> + 'a {
        let fates = [Fate::ReplyLost, Fate::DiesAfter];
        let requests = places.requests.iter().flat_map(move |&at| fates.map(|fate| (at, fate)));
        let is_free = |at: &&usize| self.calls.iter().all(|(taken, _)| taken != *at);
        let fates = [CallFate::ReplyLost, CallFate::DiesAfter];
        let calls = places.calls.iter().filter(is_free).flat_map(move |&at| fates.map(|fate| (at, fate)));
        let with_request = requests.map(|(at, fate)| self.clone().with_request(at, fate));
        with_request.chain(calls.map(|(at, fate)| self.clone().with_call(at, fate)))
    }

    /// Returns plans with one declined call, at any place.
    pub(super) fn each_declined(places: &Places) -> impl Iterator<Item = Self> {
        places.calls.iter().map(|&at| Self::default().with_call(at, CallFate::Declined))
    }

    /// Returns a plan with several random faults.
    pub(super) fn random(seed: u64, places: &Places, cancels: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut plan = Self::default();
        // The place may be a request or call that only a play with faults reaches.
        let place = |places: &[usize], answered: usize, more: usize, rng: &mut fastrand::Rng| {
            let at = rng.usize(0..places.len() + more);
            places.get(at).copied().unwrap_or_else(|| answered + 1 + at - places.len())
        };
        for _ in 0..rng.usize(1..=3) {
            if !places.calls.is_empty() && rng.u32(0..3) == 0 {
                let fate = CallFate::SWEPT[rng.usize(0..CallFate::SWEPT.len())];
                plan = plan.with_call(place(&places.calls, places.answered.calls, 2, &mut rng), fate);
            } else {
                let fate = Fate::SWEPT[rng.usize(0..Fate::SWEPT.len())];
                plan =
                    plan.with_request(place(&places.requests, places.answered.requests, 8, &mut rng), fate);
            }
        }
        plan.two = (rng.u32(0..3) == 0).then(|| rng.u64(0..1000));
        plan.cancel = (cancels && rng.u32(0..3) == 0)
            .then(|| place(&places.requests, places.answered.requests, 4, &mut rng));
        plan.soon = rng.bool();
        plan
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.requests.iter().map(|(at, fate)| format!("d{at}={fate:?}"));
        let calls = self.calls.iter().map(|(at, fate)| format!("c{at}={fate:?}"));
        let two = self.two.map(|seed| format!("two={seed}"));
        let cancel = self.cancel.map(|at| format!("cancel={at}"));
        let soon = self.soon.then(|| "soon".to_owned());
        let words: Vec<String> = requests.chain(calls).chain(two).chain(cancel).chain(soon).collect();
        f.write_str(if words.is_empty() { "none" } else { "" })?;
        f.write_str(&words.join(","))
    }
}

/// The text is not a valid plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no fault of a plan; a plan looks like d3=ReplyLost,c1=DiesAfter,two=7,cancel=4,soon; requests (d) take {requests:?}, calls (c) {calls:?} and Declined",
    requests = Fate::SWEPT, calls = CallFate::SWEPT
)]
pub struct InvalidPlan(String);

impl FromStr for Plan {
    type Err = InvalidPlan;

    fn from_str(text: &str) -> Result<Self, InvalidPlan> {
        let mut plan = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "none") {
            plan.add(word).ok_or_else(|| InvalidPlan(word.to_owned()))?;
        }
        Ok(plan)
    }
}

impl Plan {
    fn add(&mut self, word: &str) -> Option<()> {
        if word == "soon" {
            self.soon = true;
            return Some(());
        }
        let (what, value) = word.split_once('=')?;
        match what {
            "two" => self.two = Some(value.parse().ok()?),
            "cancel" => self.cancel = Some(value.parse().ok()?),
            _ => {
                let named = |name: String| name.eq_ignore_ascii_case(value);
                if let Some(at) = what.strip_prefix('d') {
                    let fate = Fate::SWEPT.into_iter().find(|fate| named(format!("{fate:?}")))?;
                    self.requests.push((at.parse().ok()?, fate));
                } else {
                    let mut fates = CallFate::SWEPT.into_iter().chain([CallFate::Declined]);
                    let fate = fates.find(|fate| named(format!("{fate:?}")))?;
                    self.calls.push((what.strip_prefix('c')?.parse().ok()?, fate));
                }
            }
        }
        Some(())
    }
}
