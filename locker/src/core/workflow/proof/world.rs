//! A workflow of two effects, its provider, and the statements that must hold at any time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use super::driver::{Driver, key_of};
use super::sample::{SKEW, at};
use crate::core::workflow::compensation::Compensated;
use crate::core::workflow::header::{Header, Stamp, State};
use crate::core::workflow::step::{StepRecord, StepState};

/// The steps of the workflow, each with a compensation.
pub(super) const STEPS: [&str; 2] = ["pay", "ship"];

/// The options of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    /// The provider recognises the idempotency keys of effects.
    pub(super) recognises: bool,
    /// The workflow fails after its steps.
    pub(super) fails: bool,
    pub(super) operator: bool,
}

/// All data that is stored, in flight, or known to a driver.
#[derive(Debug, Clone)]
pub(super) struct World {
    /// How often the clock has jumped.
    pub(super) jumps: i64,
    pub(super) header: Header,
    pub(super) records: BTreeMap<String, StepRecord>,
    pub(super) drivers: [Driver; 2],
    pub(super) provider: Provider,
    /// How often an operator may still act.
    pub(super) cancels: u8,
    pub(super) words: u8,
    ids: u32,
}

/// The books of the provider, by idempotency key.
#[derive(Debug, Clone, Default)]
pub(super) struct Provider {
    pub(super) effects: BTreeMap<String, u8>,
    /// Requests in flight, whose sender waits no more.
    pub(super) on_the_way: Vec<String>,
    /// Effects whose outcome a driver has reported.
    pub(super) reported: Vec<String>,
    /// Of each key, those of the compensations that gave something back.
    pub(super) refunds: BTreeMap<String, Vec<String>>,
    /// The result of each compensation. A repeated request receives the same result.
    answers: BTreeMap<String, Compensated>,
}

impl Provider {
    pub(super) fn apply(&mut self, key: &str, recognises: bool) {
        let effects = self.effects.entry(key.to_owned()).or_default();
        *effects = if recognises { 1 } else { *effects + 1 };
    }

    /// A provider that gives back whenever it is asked under another key.
    pub(super) fn refund(&mut self, key: &str, under: &str) -> Compensated {
        if let Some(known) = self.answers.get(under) {
            return *known;
        }
        let happened = self.effects.contains_key(key);
        if happened {
            self.refunds.entry(key.to_owned()).or_default().push(under.to_owned());
        }
        let answer = if happened { Compensated::Done } else { Compensated::Nothing };
        self.answers.insert(under.to_owned(), answer);
        answer
    }
}

impl World {
    pub(super) fn new(header: Header, cancels: u8, words: u8) -> Self {
        Self {
            jumps: 0,
            header,
            records: BTreeMap::new(),
            drivers: [Driver::default(), Driver::default()],
            provider: Provider::default(),
            cancels,
            words,
            ids: 0,
        }
    }

    /// A jump is past every due time and allowance.
    pub(super) fn now(&self) -> DateTime<Utc> {
        at(self.jumps * 1000)
    }

    pub(super) fn stamp(&mut self) -> Stamp {
        self.ids += 1;
        Stamp {
            now: self.now(),
            skew: SKEW,
            revision: format!("id-{:04}-r", self.ids),
            attempt: format!("id-{:04}-a", self.ids),
        }
    }

    /// Stores a record, if it breaks no rule of records.
    pub(super) fn put(&mut self, record: StepRecord) -> Result<(), String> {
        let item = record.id.item.clone();
        if let Some(before) = self.records.get(&item) {
            let same = before.key_version == record.key_version;
            if same && before.created != record.created {
                return Err(format!("{item}: its key is {} old, and was {}", record.created, before.created));
            }
            if same && before.number != record.number {
                return Err(format!("{item}: another place in the order"));
            }
            if record.key_version < before.key_version {
                return Err(format!("{item}: an older version of its key"));
            }
            let undone = matches!(record.state, StepState::Compensated);
            if before.state == StepState::Completed && !undone && record.result != before.result {
                return Err(format!("{item}: what is recorded changed to {:?}", record.state));
            }
        }
        self.records.insert(item, record);
        Ok(())
    }

    /// What holds in every world.
    pub(super) fn judge(&self, scene: Scene) -> Result<(), String> {
        let freed = u8::from(scene.operator && self.words == 0);
        for (key, effects) in &self.provider.effects {
            let most = if scene.recognises { 1 } else { 1 + freed };
            if *effects > most {
                return Err(format!("{key}: {effects} effects"));
            }
        }
        for (key, refunds) in &self.provider.refunds {
            if refunds.len() > 1 {
                return Err(format!("{key} is given back twice: {refunds:?}"));
            }
        }
        Ok(())
    }

    /// What holds when nothing more happens.
    pub(super) fn judge_end(&self, scene: Scene) -> Result<(), String> {
        self.judge(scene)?;
        let ended = self.header.state.is_final();
        if !ended && !self.header.is_quarantined() {
            return Err(format!("nothing more happens, and it is {:?}", self.header.listed));
        }
        for record in self.records.values() {
            // A driver that died before it read the header left a start that never ran.
            let ran = self.provider.effects.contains_key(&key_of(record));
            let open = record.state == StepState::Late || (record.state == StepState::Started && ran);
            if ended && open {
                return Err(format!("it ended with {} {}", record.id.item, record.state.as_str()));
            }
        }
        for key in self.provider.effects.keys() {
            let (name, version) = key.split_once(' ').unwrap_or((key, "1"));
            let refunded = self.provider.refunds.contains_key(key);
            let record = self.records.get(&format!("step/{name}"));
            let counts = record.is_some_and(|record| {
                record.state == StepState::Completed && record.key_version.to_string() == version
            });
            let stands = self.header.state == State::Completed && counts;
            let shown = self.header.is_quarantined();
            if refunded && stands {
                return Err(format!("{key} is given back, and its workflow completed with it"));
            }
            if !refunded && !stands && !shown && self.provider.reported.contains(key) {
                return Err(format!("{key} happened, and is neither given back nor counted nor shown"));
            }
        }
        Ok(())
    }

    /// The same text for worlds that differ in nothing but their ids.
    pub(super) fn place(&self) -> String {
        let text = format!(
            "{} {:?} {:?} {:?} {:?} {} {}",
            self.jumps, self.header, self.records, self.drivers, self.provider, self.cancels, self.words
        );
        numbered(&text)
    }
}

/// The same text for texts that differ in nothing but their ids.
pub(super) fn numbered(text: &str) -> String {
    let mut numbered = String::with_capacity(text.len());
    let mut ids: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(found) = rest.find("id-") {
        let (before, from) = rest.split_at(found);
        let (id, after) = from.split_at("id-0000".len());
        let number = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        });
        write!(numbered, "{before}<{number}>").expect("a string");
        rest = after;
    }
    numbered.push_str(rest);
    numbered
}
