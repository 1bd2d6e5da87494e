//! Everything that two drivers, senders, a cancel, time, a crash and a lost reply can do to one
//! wait, breadth first, by the transitions.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::event_page::{event, new_wait, signal};
use super::header_page::header_in;
use super::sample::{SKEW, at, by};
use super::world::numbered;
use crate::core::workflow::event::{
    Decision, EventAct, EventData, EventRecord, EventState, Met, Reached, Signal, Signalled, owes,
};
use crate::core::workflow::header::{
    Claim, DriverAct, Events, Failures, Header, HeaderData, HeaderEvent, HeaderRefusal, OperatorAct, Pause,
    Stamp, State,
};

/// The times of a walk: in time, past the claim of a driver, past the time of the wait, and past
/// another claim.
const TIMES: [i64; 4] = [100, 200, 2000, 2100];

/// The behaviour of the workflow's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Waits,
    /// It returns without a wait.
    Skips,
    /// The workflow was cancelled, and a compensation waits.
    Undoes,
}

/// How often each of these happens.
#[derive(Debug, Clone, Copy)]
struct Most {
    cancels: u8,
    crashes: u8,
    losses: u8,
    claims: u8,
}

#[derive(Debug, Clone)]
struct World {
    time: usize,
    code: Code,
    header: Header,
    event: Option<EventRecord>,
    surplus: Vec<EventRecord>,
    drivers: [At; 2],
    senders: Vec<Sender>,
    most: Most,
    /// How often the effect of the compensation happened.
    compensated: u8,
    /// The value that the code returned when the workflow ended.
    outcome: Option<String>,
    ids: u32,
}

/// Where a driver is. `seen`: the record as it knows it.
#[allow(clippy::large_enum_variant, reason = "tests")]
#[derive(Debug, Clone)]
enum At {
    Out,
    Claimed { attempt: String },
    Inside { attempt: String, seen: Option<EventRecord>, task: Task },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Code,
    Compensate,
    /// The compensation of the late event is complete, and that is to be recorded.
    Mark,
    Release,
    End,
}

#[derive(Debug, Clone)]
struct Sender {
    id: &'static str,
    signal: Signal,
    /// The records that it read.
    read: Option<(Header, Option<EventRecord>, Vec<EventRecord>)>,
    answer: Option<Signalled>,
}

type Next = Vec<(String, World)>;

fn arrived(record: &EventRecord) -> Option<&str> {
    record.arrived.as_ref().and_then(|arrived| arrived.identity.id.as_deref())
}

fn state(record: Option<&EventRecord>) -> Option<EventState> {
    record.map(|record| record.state)
}

fn known(seen: Option<&EventRecord>) -> u32 {
    u32::from(seen.is_some_and(|seen| seen.arrived.is_some()))
}

impl World {
    fn new(code: Code, senders: &[(&'static str, &'static str)], most: Most) -> Self {
        let header = header_in(if code == Code::Undoes { "compensating, due" } else { "due" });
        let senders = senders.iter().map(|(id, call)| Sender {
            id,
            signal: signal(event(Some(id), "paid"), call),
            read: None,
            answer: None,
        });
        Self {
            time: 0,
            code,
            header,
            event: None,
            surplus: Vec::new(),
            drivers: [At::Out, At::Out],
            senders: senders.collect(),
            most,
            compensated: 0,
            outcome: None,
            ids: 0,
        }
    }

    fn now(&self) -> DateTime<Utc> {
        // A walk ends at the last of them, and completers may drive later.
        let last = TIMES.len() - 1;
        at(TIMES[self.time.min(last)] + 100 * self.time.saturating_sub(last) as i64)
    }

    fn stamp(&mut self) -> Stamp {
        self.ids += 1;
        Stamp {
            now: self.now(),
            skew: SKEW,
            revision: format!("id-{:04}-r", self.ids),
            attempt: format!("id-{:04}-a", self.ids),
        }
    }

    fn steps(&self) -> Next {
        let mut next = Next::new();
        if self.most.cancels > 0 {
            let mut world = self.clone();
            world.most.cancels -= 1;
            let (seen, by, stamp) = (self.header.revision.clone(), by(self.now()), world.stamp());
            let cancel = HeaderEvent::Operator { seen, by, act: OperatorAct::Compensate };
            if let (true, Ok(header)) = (self.header.is_forward(), self.header.on(&cancel, stamp)) {
                world.header = header;
                next.push(("an operator cancels".to_owned(), world));
            }
        }
        for number in 0..self.senders.len() {
            self.send(number, &mut next);
        }
        for number in 0..self.drivers.len() {
            if self.most.crashes > 0 && !matches!(self.drivers[number], At::Out) {
                let mut world = self.clone();
                world.most.crashes -= 1;
                world.drivers[number] = At::Out;
                next.push((format!("driver {number} crashes"), world));
            }
            self.drive(number, &mut next);
        }
        next
    }

    fn send(&self, number: usize, next: &mut Next) {
        let mut world = self.clone();
        let name = &self.senders[number].signal.by;
        let Sender { signal, read, answer: None, .. } = &self.senders[number] else { return };
        let Some((header, event, surplus)) = read else {
            world.senders[number].read =
                Some((self.header.clone(), self.event.clone(), self.surplus.clone()));
            next.push((format!("{name} reads"), world));
            return;
        };
        let met = Met {
            header: Some(header.clone()),
            event: event.clone(),
            surplus: Some(surplus.clone()),
            former: None,
        };
        let stamp = world.stamp();
        let (answer, over, record, header) = match signal.decide(&met, stamp) {
            Decision::Read(_) => return,
            Decision::Answer(answer) => {
                world.senders[number].answer = Some(answer);
                next.push((format!("{name} is answered {answer:?}"), world));
                return;
            }
            Decision::Write { answer, event: (over, record), header: (_, header) } => {
                (answer, over, *record, *header)
            }
        };
        world.senders[number].signal.answer = Some(answer);
        let is_main = answer != Signalled::AlreadyGiven;
        let stored = if is_main {
            self.event.as_ref()
        } else {
            self.surplus.iter().find(|stored| stored.id == record.id)
        };
        let revision = |record: &EventRecord| record.revision.clone();
        let is_same = over.map(revision) == stored.map(revision)
            && met.header.is_some_and(|seen| seen.revision == self.header.revision);
        if !is_same {
            world.senders[number].read = None;
            next.push((format!("{name} is refused, and reads again"), world));
            return;
        }
        world.header = header;
        if is_main {
            world.event = Some(record);
        } else {
            world.surplus.push(record);
        }
        if self.most.losses > 0 {
            let mut world = world.clone();
            world.most.losses -= 1;
            next.push((format!("{name} signals {answer:?}, and the reply is lost"), world));
        }
        world.senders[number].answer = Some(answer);
        next.push((format!("{name} signals {answer:?}"), world));
    }

    fn drive(&self, number: usize, next: &mut Next) {
        let mut world = self.clone();
        let mut push = |what: &str, world: Self| next.push((format!("driver {number} {what}"), world));
        match &self.drivers[number] {
            At::Out => {
                if self.most.claims == 0 {
                    return;
                }
                let claim = HeaderEvent::Claim(Claim {
                    name: self.header.name.clone(),
                    code: 1,
                    started: self.header.created,
                    owner: format!("machine {number}"),
                    is_named: false,
                    expected: None,
                    may_take: Duration::ZERO,
                    progressed: false,
                    most_crashes: None,
                    restored: None,
                });
                let stamp = world.stamp();
                if let Ok(header) = self.header.on(&claim, stamp) {
                    world.most.claims -= 1;
                    world.drivers[number] = At::Claimed { attempt: header.attempt.clone() };
                    world.header = header;
                    push("claims", world);
                }
            }
            At::Claimed { attempt } => {
                let is_lost = self.header.attempt != *attempt;
                let task = if self.header.is_forward() { Task::Code } else { Task::Compensate };
                let (attempt, seen) = (attempt.clone(), self.event.clone());
                world.drivers[number] = if is_lost { At::Out } else { At::Inside { attempt, seen, task } };
                push("queries", world);
            }
            At::Inside { attempt, seen, task } => {
                for (what, mut world, then) in self.inside(attempt, seen.as_ref(), *task) {
                    world.drivers[number] = match then {
                        None => At::Out,
                        Some((seen, task)) => At::Inside { attempt: attempt.clone(), seen, task },
                    };
                    push(&what, world);
                }
            }
        }
    }

    /// Returns the possible steps of a driver, and its state after each.
    fn inside(&self, attempt: &str, seen: Option<&EventRecord>, task: Task) -> Vec<Inside> {
        let is_mine = self.header.attempt == *attempt;
        let home = if self.header.is_forward() { Task::Code } else { Task::Compensate };
        let mut world = self.clone();
        let stay = |task| Some((seen.cloned(), task));
        let owed = seen.is_some_and(|seen| seen.owed().is_some());
        match task {
            Task::Code | Task::Compensate if owed => {
                // The compensation is a separate step, which runs once.
                world.compensated = 1;
                vec![("compensates the late event".to_owned(), world, stay(Task::Mark))]
            }
            Task::Code if self.code == Code::Skips => {
                vec![("returns".to_owned(), world, stay(Task::End))]
            }
            Task::Code => self.wait(attempt, seen, Task::Code),
            Task::Compensate => {
                let waits = matches!(state(seen), None | Some(EventState::Waiting | EventState::Given));
                if self.code == Code::Undoes && waits && self.header.ended.is_none() {
                    return self.wait(attempt, seen, Task::Compensate);
                }
                vec![("has compensated".to_owned(), world, stay(Task::End))]
            }
            Task::Mark => vec![self.change(seen, &EventAct::Handle, home)],
            Task::Release => {
                let act = DriverAct::Release {
                    at: at(600),
                    pause: Pause::Chosen,
                    reason: "it waits".to_owned(),
                    progressed: false,
                    failing_after: Duration::from_secs(3600),
                    waits: None,
                };
                let events = Events { known: known(seen), owed: false };
                let stamp = world.stamp();
                let released =
                    self.header.on(&HeaderEvent::Driver { attempt: attempt.to_owned(), events, act }, stamp);
                if let Ok(header) = released {
                    world.header = header;
                }
                vec![("releases the workflow".to_owned(), world, None)]
            }
            Task::End if !is_mine => vec![("is lost".to_owned(), world, None)],
            Task::End => vec![self.end(attempt, seen, home)],
        }
    }

    /// Writes the result of an act on the record, if it is unchanged since the driver read it.
    fn change(&self, seen: Option<&EventRecord>, act: &EventAct, task: Task) -> Inside {
        let mut world = self.clone();
        let stamp = world.stamp();
        let revision = seen.map_or("", |seen| seen.revision.as_str());
        let changed = self.event.as_ref().map(|stored| stored.on(revision, act, stamp));
        if let Some(Ok(next)) = changed {
            world.event = Some(next);
            let seen = world.event.clone();
            return (format!("writes {:?}", state(seen.as_ref())), world, Some((seen, task)));
        }
        ("reads the event again".to_owned(), world, Some((self.event.clone(), task)))
    }

    fn wait(&self, attempt: &str, seen: Option<&EventRecord>, task: Task) -> Vec<Inside> {
        let mut world = self.clone();
        let stay = |task| Some((seen.cloned(), task));
        let run = attempt.to_owned();
        let lost = |mut written: Inside| {
            if self.most.losses > 0 && written.0.starts_with("writes") {
                written.0.push_str(", and the reply is lost");
                written.1.most.losses -= 1;
                written.2 = stay(task);
                return Some(written);
            }
            None
        };
        match Reached::of(seen, self.now()) {
            Reached::Begin => {
                let stamp = world.stamp();
                let new = new_wait(task == Task::Compensate);
                if let Ok(waiting) = EventRecord::wait(self.event.as_ref(), &new, stamp) {
                    world.event = Some(waiting);
                }
                let seen = world.event.clone();
                vec![("begins to wait".to_owned(), world, Some((seen, task)))]
            }
            Reached::Wait(_) => vec![("stops to wait".to_owned(), world, stay(Task::Release))],
            Reached::Expire => {
                let written = self.change(seen, &EventAct::Expire { by: run }, task);
                lost(written.clone()).into_iter().chain([written]).collect()
            }
            // The event and a condition on the header are one transaction.
            Reached::Take if self.header.attempt != attempt => vec![("is lost".to_owned(), world, None)],
            Reached::Take => {
                let at = Box::new(new_wait(task == Task::Compensate));
                let written = self.change(seen, &EventAct::Take { by: run, at }, task);
                lost(written.clone()).into_iter().chain([written]).collect()
            }
            Reached::Return | Reached::Nothing => vec![("has its answer".to_owned(), world, stay(Task::End))],
        }
    }

    fn end(&self, attempt: &str, seen: Option<&EventRecord>, home: Task) -> Inside {
        let mut world = self.clone();
        let again = |world: Self| {
            let seen = world.event.clone();
            ("reads the events again".to_owned(), world, Some((seen, Task::End)))
        };
        let mut last = seen.cloned();
        let undoes = home == Task::Compensate && self.header.ending != Some(State::Completed);
        let is_left = match state(seen) {
            Some(EventState::Given) => true,
            Some(EventState::Taken) => undoes && self.code != Code::Undoes,
            _ => false,
        };
        if is_left {
            let stamp = world.stamp();
            let revision = seen.map_or("", |seen| seen.revision.as_str());
            match self.event.as_ref().map(|stored| stored.on(revision, &EventAct::Leave { undoes }, stamp)) {
                Some(Ok(left)) => {
                    last = Some(left.clone());
                    world.event = Some(left);
                }
                _ => return again(world),
            }
        }
        let owed = owes(last.as_slice());
        let act = match home {
            Task::Compensate => DriverAct::EndCompensated,
            _ => DriverAct::Complete { result: None, note: None },
        };
        let events = Events { known: known(seen), owed };
        let stamp = world.stamp();
        match self.header.on(&HeaderEvent::Driver { attempt: attempt.to_owned(), events, act }, stamp) {
            Ok(header) => {
                world.header = header;
                let returned = match state(seen) {
                    Some(EventState::Taken) => format!("paid {}", seen.and_then(arrived).unwrap_or_default()),
                    _ if self.code == Code::Skips => "other".to_owned(),
                    _ => "timeout".to_owned(),
                };
                world.outcome.get_or_insert(if home == Task::Compensate {
                    "cancelled".to_owned()
                } else {
                    returned
                });
                ("ends".to_owned(), world, None)
            }
            Err(HeaderRefusal::Signalled) => again(self.clone()),
            Err(_) => ("is lost".to_owned(), self.clone(), None),
        }
    }

    /// What holds after each step.
    fn judge(&self, before: &Self) -> Result<(), String> {
        let refuse = |why: &str| Err(why.to_owned());
        if before.header.answered().is_some() && before.header.answered() != self.header.answered() {
            return refuse("the outcome changed");
        }
        let (was, is) = (state(before.event.as_ref()), state(self.event.as_ref()));
        if self.header.state.is_final() && is == Some(EventState::Given) {
            return refuse("it ended with an event that nobody reads and nothing lists");
        }
        if let Some(id) = self.outcome.as_deref().and_then(|outcome| outcome.strip_prefix("paid ")) {
            let is_it = self.event.as_ref().and_then(arrived) == Some(id);
            if is != Some(EventState::Taken) || !is_it {
                return refuse("it is paid by an event that is not taken");
            }
        }
        if self.outcome.as_deref() == Some("timeout") && is == Some(EventState::Taken) {
            return refuse("its time is past, and the event is taken");
        }
        let id = |world: &Self| world.event.as_ref().and_then(arrived).map(str::to_owned);
        if id(before).is_some() && id(before) != id(self) {
            return refuse("an event was overwritten");
        }
        let is_cancelled = self.header.state == State::Compensating
            && !matches!(self.header.ending, None | Some(State::Completed));
        if was == Some(EventState::Taken) && is != was && !(is == Some(EventState::Late) && is_cancelled) {
            return refuse("a taken event became something else");
        }
        if was != is && is == Some(EventState::Taken) {
            let by = self.event.as_ref().and_then(|event| event.ended_by.as_ref());
            if by != Some(&self.header.attempt) {
                return refuse("it was taken by a run that has lost the workflow");
            }
        }
        if self.compensated > 0 && is == Some(EventState::Taken) {
            return refuse("it is compensated and taken");
        }
        let is_closed = before.header.state != State::Running && self.code != Code::Undoes;
        if is_closed && was == Some(EventState::Waiting) && is == Some(EventState::Given) {
            return refuse("it was accepted by a wait that is closed");
        }
        self.judge_answers()
    }

    fn judge_answers(&self) -> Result<(), String> {
        let main = self.event.as_ref().and_then(arrived);
        let others: BTreeSet<_> = self.surplus.iter().filter_map(arrived).collect();
        let mut firsts: Vec<&str> = Vec::new();
        for sender in &self.senders {
            let Some(answer) = sender.answer else { continue };
            let id = sender.id;
            if !answer.is_stored() || (main != Some(id) && !others.contains(id)) {
                return Err(format!("{id} was answered {answer:?}, and is stored nowhere"));
            }
            if answer != Signalled::Duplicate {
                if firsts.contains(&id) {
                    return Err(format!("{id} was stored as two events"));
                }
                firsts.push(id);
            }
            let is_main = matches!(answer, Signalled::Accepted | Signalled::Late { .. });
            if is_main && main != Some(id) {
                return Err("two events are the event".to_owned());
            }
        }
        if self.header.signals != u32::from(main.is_some()) || self.header.surplus != others.len() as u32 {
            return Err("the header has another number of events".to_owned());
        }
        Ok(())
    }

    /// What holds when nothing more happens.
    fn judge_end(&self) -> Result<(), String> {
        if !self.header.state.is_final() {
            return Err(format!("nothing more happens, and it has not ended: {:?}", self.header));
        }
        if self.event.as_ref().is_some_and(|event| event.owed().is_some()) {
            return Err("the compensation of a late event never runs".to_owned());
        }
        if state(self.event.as_ref()) == Some(EventState::Handled) && self.compensated != 1 {
            return Err("it is handled, and was not compensated".to_owned());
        }
        for sender in &self.senders {
            let mut same = self.senders.iter().filter(|other| other.id == sender.id);
            if same.all(|sender| sender.answer == Some(Signalled::Duplicate)) {
                return Err(format!("each sender of {} was answered that it is a duplicate", sender.id));
            }
        }
        Ok(())
    }

    fn place(&self) -> String {
        let mut world = self.clone();
        world.ids = 0;
        world.header = without_history(&world.header);
        world.event = world.event.map(without_times);
        for sender in &mut world.senders {
            if let Some((header, event, _)) = &mut sender.read {
                *header = without_history(header);
                *event = event.take().map(without_times);
            }
        }
        for driver in &mut world.drivers {
            if let At::Inside { seen, .. } = driver {
                *seen = seen.take().map(without_times);
            }
        }
        numbered(&format!("{world:?}"))
    }
}

/// Removes the counts, reasons and causes of runs, which make no difference here.
fn without_history(header: &Header) -> Header {
    Header::stored(HeaderData {
        attempts: 0,
        lost_in_a_row: 0,
        lost_without_progress: 0,
        lost_in_all: 0,
        since: header.created,
        ended: header.ended.map(|_| header.created),
        reason: None,
        intervention: None,
        failures: Failures::default(),
        ..HeaderData::clone(header)
    })
}

/// No decision depends on when an event came or since when the code waits.
fn without_times(event: EventRecord) -> EventRecord {
    let mut data = EventData::clone(&event);
    if let Some(arrived) = &mut data.arrived {
        arrived.at = data.run;
    }
    if let Some(wait) = &mut data.wait {
        wait.since = data.run;
    }
    EventRecord::stored(data)
}

type Inside = (String, World, Option<(Option<EventRecord>, Task)>);

/// Nothing more goes wrong, and completers drive until nothing moves.
fn settle(mut world: World) -> Result<(), String> {
    world.most = Most { cancels: 0, crashes: 0, losses: 0, claims: 20 };
    world.drivers = [At::Out, At::Out];
    for _ in 0..100 {
        let Some((_, after)) = world.steps().into_iter().next() else {
            let sleeps = state(world.event.as_ref()) == Some(EventState::Given)
                && world.header.locked_by.is_none()
                && !world.header.state.is_final();
            if sleeps && world.now() < at(600) {
                return Err("it sleeps although its event is there".to_owned());
            }
            if world.time == TIMES.len() + 3 {
                return world.judge_end();
            }
            world.time += 1;
            continue;
        };
        after.judge(&world)?;
        world = after;
    }
    Err("it does not settle".to_owned())
}

/// The number of worlds, and the way to what broke a rule.
fn walk(start: World, most: usize) -> (usize, bool, Option<String>) {
    let mut from: HashMap<String, Option<(String, String)>> = HashMap::from([(start.place(), None)]);
    let mut queue = VecDeque::from([start]);
    let mut worlds = 0;
    while let Some(world) = queue.pop_front() {
        if worlds >= most {
            return (worlds, false, None);
        }
        worlds += 1;
        let place = world.place();
        if let Err(broken) = settle(world.clone()) {
            return (
                worlds,
                false,
                Some(format!("{broken}, if nothing more goes wrong after{}", way(&place, &from))),
            );
        }
        let mut next = world.steps();
        if world.time + 1 < TIMES.len() {
            let mut later = world.clone();
            later.time += 1;
            next.push(("time passes".to_owned(), later));
        }
        for (step, after) in next {
            if let Err(broken) = after.judge(&world) {
                return (worlds, false, Some(format!("{step}: {broken}, after{}", way(&place, &from))));
            }
            if let Entry::Vacant(entry) = from.entry(after.place()) {
                entry.insert(Some((place.clone(), step)));
                queue.push_back(after);
            }
        }
    }
    (worlds, true, None)
}

fn way(place: &str, from: &HashMap<String, Option<(String, String)>>) -> String {
    let mut way = Vec::new();
    let mut at = place;
    while let Some(Some((before, step))) = from.get(at) {
        way.push(step.clone());
        at = before;
    }
    way.reverse();
    format!("\n  {}", way.join("\n  "))
}

/// How many worlds a scene may have in a test; more with `WALK_WORLDS`.
fn most() -> usize {
    std::env::var("WALK_WORLDS").ok().and_then(|most| most.parse().ok()).unwrap_or(400)
}

#[test]
fn no_order_of_an_event_and_its_drivers_breaks_a_promise() {
    let bare = Most { cancels: 0, crashes: 0, losses: 0, claims: 2 };
    let budgets = [
        bare,
        Most { cancels: 1, ..bare },
        Most { crashes: 1, losses: 1, ..bare },
        Most { cancels: 1, crashes: 1, losses: 1, claims: 3 },
    ];
    let all = [("1", "a"), ("1", "a2"), ("2", "b")];
    for code in [Code::Waits, Code::Skips, Code::Undoes] {
        for (budget, senders) in budgets
            .iter()
            .flat_map(|budget| [&all[..1], &all[..2], &all[1..]].map(|senders| (budget, senders)))
        {
            // Without faults, each order of one event and forward code is played.
            let faults = budget.cancels + budget.crashes + budget.losses;
            let is_small = senders.len() == 1 && faults == 0 && code != Code::Undoes;
            let most = if is_small { usize::MAX } else { most() };
            let (worlds, whole, broken) = walk(World::new(code, senders, *budget), most);
            println!("{code:?}, {} senders, {budget:?}: {worlds} worlds, whole: {whole}", senders.len());
            if let Some(broken) = broken {
                panic!("{code:?}: {broken}");
            }
        }
    }
}
