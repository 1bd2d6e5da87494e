//! The provider's books: what it was asked, what took place, and what was given back.

use std::collections::{BTreeMap, BTreeSet};

use locker::workflow::Signalled;

use super::program::is_key_of;
use super::scenario::Provider;

/// What the provider is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub(super) verb: Verb,
    /// The idempotency key of the effect.
    pub(super) key: String,
    /// The idempotency key of this call.
    pub(super) under: String,
    /// The workflow and its step.
    pub(super) place: (usize, usize),
    /// For a compensation: whether the step is known to have happened, and whether its outcome came
    /// late.
    pub(super) known: bool,
    pub(super) late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Do,
    Undo,
    /// Whether an effect took place.
    Probe,
    /// Whether a compensation took place.
    ProbeUndo,
}

/// What the provider says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Said {
    /// It took place, with this receipt.
    Done(String),
    Nothing,
    Unknown,
    /// The key was made void.
    Void,
}

#[derive(Debug)]
pub(super) struct Effect {
    pub(super) key: String,
    pub(super) receipt: String,
    pub(super) place: (usize, usize),
    /// When the provider forgets its key.
    forgotten: i64,
    /// Who heard of it and could still tell.
    pub(super) heard: BTreeSet<usize>,
    /// Whether a compensation had been told before that there is nothing.
    pub(super) after_nothing: bool,
    /// The compensations that gave it back.
    pub(super) undone: Vec<String>,
}

/// A call as it was made, whatever became of it.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) call: Call,
    pub(super) actor: usize,
    pub(super) at: i64,
    /// Whether it may have taken place, for all that its caller knows.
    pub(super) open: bool,
    /// Whether it may yet take place.
    pub(super) coming: bool,
    /// Whether its caller heard anything.
    pub(super) answered: bool,
}

#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) effects: Vec<Effect>,
    pub(super) made: Vec<Made>,
    /// When an actor last wrote that it starts a step: the actor, and the partition and the item of
    /// the record.
    pub(super) started: BTreeMap<(usize, String, String), i64>,
    /// The compensations that took place, by their keys, and what was said.
    pub(super) undone: BTreeMap<String, Said>,
    void: BTreeSet<String>,
    /// The keys whose compensation was told that there is nothing.
    nothing: BTreeSet<String>,
    /// The keys for which an operator allowed more.
    pub(super) by_operator: BTreeSet<String>,
    /// Whether an operator said that the workflow goes on without a step.
    pub(super) skipped: bool,
    /// The events that were sent, by their ids.
    pub(super) events: BTreeMap<String, Sent>,
}

/// An event that was sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The answers that its senders received.
    pub(super) answers: Vec<Signalled>,
    /// How many acts of operators gave it.
    pub(super) given: usize,
    /// The compensations that took place for it.
    pub(super) undone: Vec<String>,
}

impl Books {
    /// Do what a call asks, now.
    pub(super) fn apply(&mut self, call: &Call, provider: Provider, now: i64) -> Said {
        match call.verb {
            Verb::Do => self.take(call, provider, now),
            Verb::Undo => self.give_back(call, provider),
            Verb::Probe => self.effects.iter().find(|effect| effect.key == call.key).map_or_else(
                || if self.is_on_its_way(&call.key, Verb::Do) { Said::Unknown } else { Said::Nothing },
                |effect| Said::Done(effect.receipt.clone()),
            ),
            Verb::ProbeUndo => match self.undone.get(&call.under) {
                Some(Said::Nothing) => Said::Done("nothing".to_owned()),
                Some(_) => Said::Done("done".to_owned()),
                None if self.is_on_its_way(&call.under, Verb::Undo) => Said::Unknown,
                None => Said::Nothing,
            },
        }
    }

    fn is_on_its_way(&self, under: &str, verb: Verb) -> bool {
        self.made.iter().any(|made| made.call.under == under && made.call.verb == verb && made.coming)
    }

    fn take(&mut self, call: &Call, provider: Provider, now: i64) -> Said {
        if self.void.contains(&call.key) {
            return Said::Void;
        }
        let known = self.effects.iter().find(|effect| effect.key == call.key && now < effect.forgotten);
        if let Some(known) = known {
            return Said::Done(known.receipt.clone());
        }
        let receipt = format!("receipt {}", self.effects.len() + 1);
        self.effects.push(Effect {
            key: call.key.clone(),
            receipt: receipt.clone(),
            place: call.place,
            forgotten: now + i64::try_from(provider.recognises.as_millis()).expect("a short time"),
            heard: BTreeSet::new(),
            after_nothing: self.nothing.contains(&call.key),
            undone: Vec::new(),
        });
        Said::Done(receipt)
    }

    /// It gives back whatever it is asked to, unless it recognises the request.
    fn give_back(&mut self, call: &Call, provider: Provider) -> Said {
        if !provider.recognises.is_zero()
            && let Some(said) = self.undone.get(&call.under)
        {
            return said.clone();
        }
        let mut found = false;
        for effect in self.effects.iter_mut().filter(|effect| effect.key == call.key) {
            effect.undone.push(call.under.clone());
            found = true;
        }
        if let Some(event) = self.events.get_mut(&call.key) {
            event.undone.push(call.under.clone());
            found = true;
        }
        let said = if found || provider.voids { Said::Done(String::new()) } else { Said::Nothing };
        if !found {
            self.nothing.insert(call.key.clone());
        }
        if provider.voids {
            self.void.insert(call.key.clone());
        }
        self.undone.insert(call.under.clone(), said.clone());
        said
    }

    /// What is known of the calls under a key counts no more: more is allowed.
    pub(super) fn clear(&mut self, under: &str) {
        for made in self.made.iter_mut().filter(|made| made.call.under == under) {
            made.open = false;
        }
    }

    /// Note a record that an actor wrote, if it is the start of a step.
    pub(super) fn starts(&mut self, actor: usize, body: &[u8], now: i64) {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| body["Item"][name]["S"].as_str().unwrap_or_default().to_owned();
        if text("state") == "started" {
            self.started.insert((actor, text("workflow"), text("item")), now);
        }
    }

    /// When an actor last started the step of this key.
    pub(super) fn started(&self, actor: usize, key: &str) -> Option<i64> {
        let is_of = |partition: &str, item: &str| match item {
            "once" => partition == key,
            item => is_key_of(partition, item, key),
        };
        let of =
            self.started.iter().filter(|((by, partition, item), _)| *by == actor && is_of(partition, item));
        of.map(|(_, at)| *at).max()
    }

    /// An actor can no longer tell what it heard.
    pub(super) fn forget(&mut self, actor: usize) {
        for effect in &mut self.effects {
            effect.heard.remove(&actor);
        }
    }
}
