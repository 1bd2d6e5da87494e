//! What must hold in the end, by the provider's books and the stored items, which are read without
//! the library.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use locker::workflow::Signalled;
use serde_json::Value;

use super::super::invariant::Invariant;
use super::books::{Effect, Made, Sent, Verb};
use super::play::WORKFLOWS;
use super::program::{is_key_of, key, partition};
use super::scenario::{Kind, Shape, Step, Way, WorkflowScenario};
use super::world::{Life, World};

/// A stored item.
#[derive(Debug)]
pub(super) struct Row(Value);

impl Row {
    pub(super) fn text(&self, name: &str) -> &str {
        self.0[name]["S"].as_str().unwrap_or_default()
    }

    fn is_in(&self, states: &[&str]) -> bool {
        states.contains(&self.text("state"))
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.0[name]["N"].as_str().and_then(|number| number.parse().ok())
    }

    fn is_in_quarantine(&self) -> bool {
        self.text("status").starts_with("quarantine")
    }

    /// Whether it records a step with a key of its own under this version of the key.
    fn is_of_key(&self, under: &str) -> bool {
        let key = self.text("workflow");
        match self.0["keyVersion"]["N"].as_str() {
            None | Some("1") => under == key,
            Some(version) => under == format!("{key} ~v{version}"),
        }
    }

    fn has_ended(&self) -> bool {
        self.is_in(&["completed", "failed", "cancelled", "continued"])
    }
}

/// What a step can be that may have happened and waits for an operator.
const SHOWN: &[&str] = &["started", "held", "failed", "late", "cancelled", "completed"];

impl World {
    fn rows(&self) -> Vec<Row> {
        self.memory.rows(WORKFLOWS).into_iter().map(Row).collect()
    }

    pub(super) fn row(&self, partition: &str, item: &str) -> Option<Row> {
        self.rows().into_iter().find(|row| row.text("workflow") == partition && row.text("item") == item)
    }

    /// When this workflow was started.
    pub(super) fn created(&self, workflow: usize) -> DateTime<Utc> {
        let header = self.row(&key(workflow), "#").expect("a header");
        header.text("created").parse().expect("a time")
    }

    /// Judge a plan in which everything has settled.
    pub(super) fn judge(&mut self, scenario: WorkflowScenario) {
        for workflow in 0..scenario.0.steps.len() {
            self.judge_versions(scenario, workflow);
            for version in 1..=scenario.0.versions(workflow) {
                self.judge_end(&partition(workflow, version));
            }
            // A step that an operator completes while others are compensated comes after them.
            if scenario.0.shape == Shape::InTurn && self.books.by_operator.is_empty() {
                self.judge_order(workflow);
            }
        }
        let events = std::mem::take(&mut self.books.events);
        for (id, sent) in &events {
            self.judge_event(scenario, id, sent);
        }
        self.judge_given(&events);
        self.books.events = events;
        let effects = std::mem::take(&mut self.books.effects);
        for number in 0..effects.len() {
            self.judge_effect(scenario, number, &effects);
        }
        self.books.effects = effects;
    }

    /// One version of the key is the latest one. The first version names it, and each other version
    /// the next one.
    fn judge_versions(&mut self, scenario: WorkflowScenario, workflow: usize) {
        let most = scenario.0.versions(workflow) + 1;
        let found: Vec<(u32, Row)> = (1..=most)
            .filter_map(|version| Some((version, self.row(&partition(workflow, version), "#")?)))
            .collect();
        let latest = u32::try_from(found.len()).expect("few versions");
        let is_right = |(version, header): &(u32, Row)| {
            let names = match *version {
                version if version == latest => None,
                1 => Some(latest),
                version => Some(version + 1),
            };
            // The compensation of a late event may be in quarantine.
            let may_be: &[&str] = if names.is_some() {
                &["continued", "compensating"]
            } else {
                &["running", "compensating", "completed", "failed", "cancelled"]
            };
            *version <= latest && header.is_in(may_be) && header.number("continuedAs") == names
        };
        if !found.iter().all(is_right) {
            let named = |(version, header): &(u32, Row)| {
                (*version, header.text("state").to_owned(), header.number("continuedAs"))
            };
            let found: Vec<_> = found.iter().map(named).collect();
            self.violated(Invariant::OneLatest, format!("the versions of workflow {workflow}: {found:?}"));
        }
    }

    fn judge_end(&mut self, workflow: &str) {
        let Some(header) = self.row(workflow, "#") else { return };
        let (state, status) = (header.text("state").to_owned(), header.text("status").to_owned());
        if !header.has_ended() && !header.is_in_quarantine() {
            let seen = format!("{workflow} is {state}, and listed as {status:?}");
            self.violated(Invariant::Visible, seen);
        }
        if !header.has_ended() {
            return;
        }
        let steps = self.rows().into_iter().filter(|row| {
            let item = row.text("item");
            row.text("workflow") == workflow && item.starts_with("step/") && !item.contains('~')
        });
        for step in steps {
            let uncompensated = !header.is_in(&["completed", "continued"])
                && step.text("kind") != "pointer"
                && step.is_in(&["completed"])
                && !step.text("compensation").is_empty();
            let held = step.is_in(&["held"]) && self.books.by_operator.is_empty();
            if step.is_in(&["late"]) || held || uncompensated || self.is_loose(&step) {
                let seen = format!("{workflow} is {state}, its {} {}", step.text("item"), step.text("state"));
                self.violated(Invariant::NoLooseEnd, seen);
            }
        }
    }

    /// The records of an event, by its id. The records of the versions from which it moved do not
    /// count.
    fn event(&self, scenario: WorkflowScenario, id: &str) -> Vec<Row> {
        let of_version = |version: u32| {
            let of = partition(0, version);
            let is_its = |row: &Row| {
                row.text("workflow") == of
                    && row.text("eventId") == id
                    && ["event/", "~event/"].iter().any(|place| row.text("item").starts_with(place))
            };
            self.rows().into_iter().filter(is_its).collect::<Vec<Row>>()
        };
        let mut found: Vec<Vec<Row>> = (1..=scenario.0.versions(0)).map(of_version).collect();
        for version in 1..found.len() {
            if !found[version].is_empty() {
                found[version - 1].retain(|row| !row.is_in(&["handled"]));
            }
        }
        found.into_iter().flatten().collect()
    }

    /// An event that is stored is received once by one version, or is listed as late, and is
    /// compensated at most once.
    fn judge_event(&mut self, scenario: WorkflowScenario, id: &str, sent: &Sent) {
        if self.row(&key(0), "#").is_none() {
            return;
        }
        let found = self.event(scenario, id);
        let is_stored = sent.given > 0 || sent.answers.iter().any(|answer| answer.is_stored());
        let is_refused = sent.answers.contains(&Signalled::NotStarted);
        if sent.undone.len() > 1 {
            self.violated(Invariant::OneCompensation, format!("event {id}, under {:?}", sent.undone));
        }
        let [event] = &found[..] else {
            if is_stored || found.len() > 1 {
                let seen = format!("event {id}: {:?}, in {} records", sent.answers, found.len());
                self.violated(Invariant::Accounted, seen);
            }
            return;
        };
        if is_refused && !is_stored {
            self.violated(Invariant::TrueNo, format!("event {id}: {:?}, and stored", sent.answers));
        }
        let (state, item) = (event.text("state"), event.text("item"));
        let Some(header) = self.row(event.text("workflow"), "#") else { return };
        let is_owed = item.starts_with("event/") && !event.text("compensation").is_empty();
        let is_wait = |place: &usize| {
            let step = scenario.0.steps[0][*place];
            let is_its = item.strip_prefix("event/") == Some(step.name);
            step.kind == Kind::Wait && is_its && event.text("workflow") == partition(0, step.version)
        };
        let told = self.told.places(0, &format!("{:?}", Some(id)));
        let is_right = match state {
            "taken" => {
                let is_undone = header.is_in(&["failed", "cancelled"]) && is_owed;
                sent.undone.is_empty()
                    && !is_undone
                    && told.iter().all(is_wait)
                    && (told.len() == 1 || (told.is_empty() && self.may_be_untold()))
            }
            "given" => !header.has_ended() && sent.undone.is_empty(),
            "late" => !is_owed || !header.has_ended(),
            "handled" => is_owed && sent.undone.len() == 1,
            _ => false,
        };
        if !is_right {
            let seen = format!(
                "event {id} is {state} in a workflow that is {}, the steps {told:?} received it, and it was \
                 compensated {} times",
                header.text("state"),
                sent.undone.len()
            );
            self.violated(Invariant::Accounted, seen);
        }
    }

    /// Each event that an operator gave has one audit record, with a reason, and no other event has
    /// one.
    fn judge_given(&mut self, events: &BTreeMap<String, Sent>) {
        let is_act =
            |row: &&Row| row.text("item").starts_with("~audit/") && row.text("step").starts_with("event:");
        let rows = self.rows();
        let acts: Vec<&Row> = rows.iter().filter(is_act).collect();
        let done: usize = events.values().map(|sent| sent.given).sum();
        let by_operator = |row: &&Row| {
            ["event/", "~event/"].iter().any(|place| row.text("item").starts_with(place))
                && !row.text("resolvedBy").is_empty()
        };
        let mut given: Vec<&str> = rows.iter().filter(by_operator).map(|row| row.text("eventId")).collect();
        given.sort_unstable();
        given.dedup();
        let have_reasons = acts.iter().all(|act| !act.text("resolvedReason").is_empty());
        if acts.len() != given.len() || done > acts.len() || !have_reasons {
            let seen = format!(
                "operators gave {given:?} and learned of {done}; the audit has {} acts, all with reasons: \
                 {have_reasons}",
                acts.len()
            );
            self.violated(Invariant::Audited, seen);
        }
    }

    /// Whether a driver may have died between its record and the code.
    fn may_be_untold(&self) -> bool {
        self.actors.iter().any(|actor| actor.life == Life::Died)
    }

    /// A step that is in doubt for ever. A step that was started
    /// after the end was never run: its driver saw the end, died before, or never heard of its
    /// start.
    fn is_loose(&self, step: &Row) -> bool {
        let starter = step.text("attempt").split('-').nth(1).and_then(|actor| actor.parse::<usize>().ok());
        let ran = |made: &Made| {
            made.call.verb == Verb::Do
                && Some(made.actor) == starter
                && is_key_of(step.text("workflow"), step.text("item"), &made.call.key)
        };
        let lives =
            starter.and_then(|actor| self.actors.get(actor)).is_some_and(|actor| actor.life != Life::Died);
        let is_once = step.text("kind") == "once";
        step.is_in(&["started"]) && is_once && lives && self.books.made.iter().any(ran)
    }

    /// Compensations of what took place begin in the reverse order of the steps. A start may arrive
    /// after the steps before it were compensated; it was never run.
    fn judge_order(&mut self, workflow: usize) {
        let of = |made: &&Made| {
            let took_place = self.books.effects.iter().any(|effect| effect.key == made.call.key);
            made.call.verb == Verb::Undo && made.call.place.0 == workflow && !made.call.late && took_place
        };
        let mut known = BTreeSet::new();
        let order: Vec<usize> = self.books.made.iter().filter(of).map(|made| made.call.place.1).collect();
        let first: Vec<usize> = order.into_iter().filter(|step| known.insert(*step)).collect();
        if !first.is_sorted_by(|one, other| one > other) {
            self.violated(Invariant::Reverse, format!("workflow {workflow} compensated its steps {first:?}"));
        }
    }

    fn judge_effect(&mut self, scenario: WorkflowScenario, number: usize, all: &[Effect]) {
        let effect = &all[number];
        let Effect { key: under, receipt, place, undone, .. } = effect;
        if undone.len() > 1 {
            self.violated(Invariant::OneCompensation, format!("{receipt} of {under}, under {undone:?}"));
        }
        let is_again = all.iter().any(|other| other.key == *under && other.receipt != *receipt);
        if is_again || (self.books.by_operator.contains(under) && self.provider.recognises.is_zero()) {
            // That it was called again was judged then.
            return;
        }
        let step = scenario.0.steps[place.0][place.1];
        let askers: Vec<usize> = match step.key {
            None => vec![place.0],
            Some(key) => (0..2).filter(|asker| asks(scenario, *asker, key).is_some()).collect(),
        };
        let record = match step.key {
            None => self.row(&partition(place.0, step.version), &format!("step/{}", step.name)),
            Some(key) => self.row(key, "once"),
        };
        // A step with a key of its own that was compensated may run again, under the next version.
        let of_step = |other: &Effect| scenario.0.steps[other.place.0][other.place.1].key == step.key;
        let is_former = step.key.is_some() && all[number + 1..].iter().any(of_step);
        let record = record.filter(|_| !is_former);
        let header = |asker: &usize| self.row(&partition(*asker, step.version), "#");
        let headers: Vec<Row> = askers.iter().filter_map(header).collect();
        let completed = record.as_ref().is_some_and(|record| record.is_in(&["completed"]));
        let of_version = record.as_ref().filter(|record| record.is_of_key(under));
        let answerer = of_version.map(|record| record.text("startedFor")).unwrap_or_default();
        let is_of = |under: &&String| answerer.is_empty() || is_by(under, answerer);
        if let Some(other) = undone.iter().find(|under| !is_of(under)) {
            let seen =
                format!("{receipt} of {under} is answered for by {answerer}, and given back by {other}");
            self.violated(Invariant::Accounted, seen);
        }
        let in_answer = askers.iter().any(|asker| self.told.is_in_the_end(*asker, receipt));
        // Code that drops a step in a call does not learn the outcome, and answers without it.
        let drops =
            scenario.0.ways.is_some_and(|ways| matches!(ways[place.1], Way::Dropped | Way::Unreached));
        // A later version of the key has the receipt, whatever it answers.
        let is_counted = |header: &Row| {
            header.is_in(&["continued"]) || ((in_answer || drops) && header.is_in(&["completed"]))
        };
        let counts = completed && headers.iter().any(is_counted);
        if !undone.is_empty() {
            // While its compensation waits for an operator, the record does not say yet what came
            // of it.
            if counts && !headers.iter().any(Row::is_in_quarantine) {
                self.violated(
                    Invariant::Accounted,
                    format!("{receipt} of {under} counts, and was given back"),
                );
            }
            return;
        }
        let shown = record.as_ref().is_some_and(|record| record.is_in(SHOWN))
            && headers.iter().any(Row::is_in_quarantine);
        // A provider that does it after it said that there is nothing is the user's, if no driver
        // can tell.
        let is_excused = (effect.heard.is_empty() || drops) && effect.after_nothing;
        if counts || shown || is_excused || self.needs_nothing(scenario, effect, &headers) {
            return;
        }
        let states: Vec<_> = headers.iter().map(|header| header.text("state")).collect();
        let record = record.as_ref().map(|record| record.text("state"));
        let seen =
            format!("{receipt} of {under} took place; its step is {record:?}, its workflow {states:?}");
        self.violated(Invariant::Accounted, seen);
    }

    /// Whether none of the workflows that called for the effect declared a compensation, and none
    /// completed.
    fn needs_nothing(&self, scenario: WorkflowScenario, effect: &Effect, headers: &[Row]) -> bool {
        // One that was refused is no cause of it.
        let of = |made: &&Made| made.call.verb == Verb::Do && made.call.key == effect.key && made.open;
        let mut callers = self.books.made.iter().filter(of).map(|made| made.call.place);
        !headers.iter().any(|header| header.is_in(&["completed", "continued"]))
            && !callers.any(|(workflow, number)| scenario.0.steps[workflow][number].undo)
    }

    /// A step that completed took place, unless an operator skipped it.
    pub(super) fn judge_receipt(&mut self, step: &str, receipt: Option<&str>) {
        let took_place = match receipt {
            Some(receipt) => self.books.effects.iter().any(|effect| effect.receipt == receipt),
            None => self.books.skipped,
        };
        if !took_place {
            self.violated(Invariant::TrueYes, format!("step {step} completed with {receipt:?}"));
        }
    }

    /// What a reaper must not delete: what waits for an operator, and evidence.
    pub(super) fn must_be_kept(&self) -> Vec<(String, String)> {
        let tells = |partition: &str| {
            let of =
                |row: &Row| row.text("workflow") == partition && row.text("item").starts_with("message/");
            self.rows().iter().any(of)
        };
        let kept = |row: &Row| match row.text("item") {
            "#" => !row.has_ended() || tells(row.text("workflow")) || self.names_unfinished(row),
            item if item.starts_with("message/") => true,
            item => {
                let is_event = item.starts_with("event/") || item.starts_with("~event/");
                let is_step = (item.starts_with("step/") || item == "once") && row.text("kind") != "pointer";
                is_event && row.is_in(&["late"]) || is_step && row.is_in(&["started", "late"])
            }
        };
        let name = |row: Row| (row.text("workflow").to_owned(), row.text("item").to_owned());
        self.rows().into_iter().filter(kept).map(name).collect()
    }

    /// Whether it is the first version of a key, and the latest version has not ended.
    fn names_unfinished(&self, header: &Row) -> bool {
        let latest = header.number("continuedAs").filter(|_| header.number("continues").is_none());
        let latest = latest.map(|version| format!("{} v{version}", header.text("workflow")));
        latest.and_then(|latest| self.row(&latest, "#")).is_some_and(|latest| !latest.has_ended())
    }

    pub(super) fn judge_kept(&mut self, kept: &[(String, String)]) {
        for (partition, item) in kept {
            if self.row(partition, item).is_none() {
                self.violated(Invariant::NothingExpires, format!("{partition} {item} was deleted"));
            }
        }
    }
}

/// Whether a compensation with this key is by the workflow with this run.
fn is_by(under: &str, run: &str) -> bool {
    under.split(' ').next() == run.split(' ').next()
}

/// The step of a workflow with such a key.
fn asks(scenario: WorkflowScenario, workflow: usize, key: &str) -> Option<&'static Step> {
    scenario.0.steps[workflow].iter().find(|step| step.key == Some(key))
}
