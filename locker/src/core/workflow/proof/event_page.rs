//! Everything that can happen to an event, in every state of its record.

use super::header_page::header_in;
use super::page::{Table, cell};
use super::sample::{self, at, by, stamp, start, undo};
use crate::core::answer::Encoded;
use crate::core::workflow::event::{
    Arrived, Decision, EventAct, EventData, EventRecord, EventRefusal, EventState, Former, Identity, Met,
    NewWait, Reached, Signal, Signalled, fitting, owes, receipt_places,
};
use crate::core::workflow::header::{Header, HeaderData, HeaderEvent, OperatorAct, State};
use crate::core::workflow::place::Place;
use crate::core::workflow::step::RecordId;

const STATES: [&str; 9] = [
    "no record",
    "waiting",
    "waiting, of a compensation",
    "given",
    "given, waited for in a former version",
    "taken",
    "expired",
    "late",
    "handled",
];

/// The headers that a signal meets.
const HEADERS: [(&str, &str); 4] = [
    ("signal, workflow runs forward", "waiting"),
    ("signal, workflow is compensated", "compensating, due"),
    ("signal, workflow has ended", "completed"),
    ("signal, workflow is deleted", "reaping"),
];

pub(super) fn event(id: Option<&str>, value: &str) -> Identity {
    Identity { id: id.map(str::to_owned), value: sample::value(value) }
}

pub(super) fn signal(identity: Identity, by: &str) -> Signal {
    Signal { name: "paid".to_owned(), identity, by: by.to_owned(), answer: None }
}

pub(super) fn new_wait(of_compensation: bool) -> NewWait {
    NewWait {
        id: RecordId::at("order/7", Place::Event("paid")),
        workflow_name: "order".to_owned(),
        run: start(),
        until: at(600),
        of_compensation,
        on_late: Some(undo()),
    }
}

pub(super) fn take(by: String) -> EventAct {
    EventAct::Take { by, at: Box::new(new_wait(false)) }
}

fn given(over: Option<EventRecord>, header: &str) -> EventRecord {
    let met = Met { header: Some(header_in(header)), event: over, surplus: None, former: None };
    match signal(event(Some("1"), "paid"), "a-1").decide(&met, stamp(at(50), "given")) {
        Decision::Write { event: (_, next), .. } => *next,
        other => panic!("{other:?}"),
    }
}

fn record_in(state: &str) -> Option<EventRecord> {
    let waiting = |of_compensation| {
        EventRecord::wait(None, &new_wait(of_compensation), stamp(at(5), "wait")).expect("no record")
    };
    let on = |record: EventRecord, act, now| {
        record.on(&record.revision, &act, stamp(at(now), "on")).expect("a way there")
    };
    let by = || "run-1".to_owned();
    let late = || given(Some(on(waiting(false), EventAct::Expire { by: by() }, 700)), "waiting");
    Some(match state {
        "waiting" => waiting(false),
        "waiting, of a compensation" => waiting(true),
        "given" => given(Some(waiting(false)), "waiting"),
        "given, waited for in a former version" => {
            given(Some(waiting(false)), "waiting").moved("order/7", start(), stamp(at(20), "moved"))
        }
        "taken" => on(given(Some(waiting(false)), "waiting"), take(by()), 60),
        "expired" => on(waiting(false), EventAct::Expire { by: by() }, 700),
        "late" => late(),
        "handled" => on(late(), EventAct::Handle, 800),
        _ => return None,
    })
}

fn state_of(record: &EventRecord) -> &'static str {
    match (record.state, record.wait.as_ref().is_some_and(|wait| wait.of_compensation)) {
        (EventState::Waiting, true) => "waiting, of a compensation",
        (EventState::Given, _) if record.wait.as_ref().is_some_and(|wait| wait.former) => {
            "given, waited for in a former version"
        }
        (state, _) => state.as_str(),
    }
}

type Row = (&'static str, Box<dyn Fn(&str) -> Result<&'static str, String>>);

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (name, header) in HEADERS {
        rows.push((name, Box::new(move |state| signalled(state, header, &event(Some("1"), "paid")))));
    }
    let other = |state: &str| signalled(state, "waiting", &event(Some("2"), "paid"));
    rows.push(("another event, workflow runs forward", Box::new(other)));
    rows.push(("code reaches its wait in time", Box::new(|state| reached(state, 50))));
    rows.push(("code reaches its wait, the time is past", Box::new(|state| reached(state, 700))));
    let leaves = |undoes| move |state: &str| acted(state, &EventAct::Leave { undoes });
    rows.push(("the workflow completes, or is closed", Box::new(leaves(false))));
    rows.push(("the workflow has failed or is cancelled", Box::new(leaves(true))));
    rows.push((
        "the workflow continues as the next version",
        Box::new(|state| acted(state, &EventAct::Move)),
    ));
    rows.push(("its compensation is complete", Box::new(|state| acted(state, &EventAct::Handle))));
    let operator = || by(at(890));
    rows.push((
        "operator skips it",
        Box::new(move |state| acted(state, &EventAct::Dismiss { by: operator() })),
    ));
    let corrected = move || EventAct::Correct { by: operator(), value: sample::value("corrected") };
    rows.push((
        "operator corrects it, the code cannot read it",
        Box::new(move |state| acted(state, &corrected())),
    ));
    rows
}

pub(super) fn table() -> Table {
    let rows = rows()
        .into_iter()
        .map(|(name, come_of)| (name, STATES.iter().map(|state| cell(state, come_of(state))).collect()));
    Table { states: STATES.to_vec(), rows: rows.collect() }
}

fn signalled(state: &str, header: &str, identity: &Identity) -> Result<&'static str, String> {
    let met = Met {
        header: Some(header_in(header)),
        event: record_in(state),
        surplus: Some(Vec::new()),
        former: None,
    };
    match signal(identity.clone(), "a-2").decide(&met, stamp(at(55), "signal")) {
        Decision::Write { answer: Signalled::AlreadyGiven, .. } => Err("**late** next to it".to_owned()),
        Decision::Write { event: (_, next), .. } => Ok(state_of(&next)),
        Decision::Answer(Signalled::Duplicate) => Err("duplicate".to_owned()),
        Decision::Answer(Signalled::NotStarted) => Err("not started".to_owned()),
        other => panic!("{state}, {header}: {other:?}"),
    }
}

fn reached(state: &str, now: i64) -> Result<&'static str, String> {
    let record = record_in(state);
    let stamp = stamp(at(now), "reached");
    let on = |act| {
        let record = record.clone().expect("a record");
        let next = record.on(&record.revision.clone(), &act, stamp.clone()).expect("it is allowed");
        state_of(&next)
    };
    let by = "run-2".to_owned();
    match Reached::of(record.as_ref(), at(now)) {
        Reached::Begin => Ok("waiting"),
        Reached::Wait(_) => Err("waits".to_owned()),
        Reached::Expire => Ok(on(EventAct::Expire { by })),
        Reached::Take => Ok(on(take(by))),
        Reached::Return => Err("its value".to_owned()),
        Reached::Nothing => Err("no value".to_owned()),
    }
}

fn acted(state: &str, act: &EventAct) -> Result<&'static str, String> {
    let record = record_in(state).ok_or("·")?;
    match record.on(&record.revision, act, stamp(at(900), "act")) {
        Ok(next) => Ok(state_of(&next)),
        Err(EventRefusal::Found(_) | EventRefusal::Changed) => Err("·".to_owned()),
    }
}

#[test]
fn late_events_state_why_they_are_late() {
    let cause = |state: &str, header: &str| {
        let met = Met {
            header: Some(header_in(header)),
            event: record_in(state),
            surplus: Some(Vec::new()),
            former: None,
        };
        match signal(event(Some("2"), "paid"), "a-2").decide(&met, stamp(at(55), "signal")) {
            Decision::Write { event: (_, next), answer, .. } => {
                (next.cause.map(|cause| cause.as_str()), answer)
            }
            other => panic!("{state}, {header}: {other:?}"),
        }
    };
    let late = |compensates| Signalled::Late { compensates };
    assert_eq!(cause("expired", "waiting"), (Some("after its time"), late(true)));
    assert_eq!(cause("waiting", "compensating, due"), (Some("after the cancel"), late(true)));
    assert_eq!(cause("waiting", "completed"), (Some("after the end"), late(true)));
    assert_eq!(cause("no record", "completed"), (Some("after the end"), late(false)));
    assert_eq!(cause("waiting", "ended, late event due"), (Some("after the end"), late(true)));
    assert_eq!(cause("given", "waiting"), (Some("another event under this name"), Signalled::AlreadyGiven));
    assert_eq!(cause("waiting, of a compensation", "ended, late event due"), (None, Signalled::Accepted));
    let left = record_in("given")
        .map(|given| given.on(&given.revision, &EventAct::Leave { undoes: false }, stamp(at(60), "end")));
    let left = left.expect("a record").expect("it is allowed");
    assert_eq!(
        (left.cause.map(|cause| cause.as_str()), left.owed().is_some()),
        (Some("not read before the end"), true)
    );
}

#[test]
fn code_awaits_an_event_until_its_wait_is_closed() {
    for (state, header, expected) in [
        ("waiting", "waiting", true),
        ("waiting", "compensating, due", false),
        ("waiting", "completed", false),
        ("waiting, of a compensation", "compensating, due", true),
        ("waiting, of a compensation", "completed", false),
        ("given", "waiting", false),
        ("taken", "waiting", false),
    ] {
        let event = record_in(state).expect("a record");
        assert_eq!(event.is_awaited(&header_in(header)), expected, "{state}, {header}");
    }
    let reached = |state| record_in(state).expect("a record").is_reached();
    assert_eq!(["waiting", "taken", "waiting, of a compensation"].map(reached), [true, true, false]);
}

#[test]
fn workflow_that_is_deleted_keeps_no_further_event() {
    let kept = |state| header_in(state).on(&HeaderEvent::Surplus, stamp(at(60), "surplus"));
    assert_eq!(kept("waiting").expect("it is allowed").surplus, header_in("waiting").surplus + 1);
    assert!(kept("reaping").is_err());
}

#[test]
fn value_of_an_event_counts_once_it_has_come() {
    let bytes = |state| record_in(state).expect("a record").bytes();
    let value = event(None, "paid").value.bytes.len();
    assert!(value > 1);
    assert_eq!(["waiting", "expired", "given", "taken"].map(bytes), [0, 0, value, value]);
}

#[test]
fn event_that_the_code_received_is_undone_only_as_forward_code_declared() {
    let left = |of_compensation, on_late| {
        let wait = NewWait { on_late, ..new_wait(of_compensation) };
        let waiting = EventRecord::wait(None, &wait, stamp(at(5), "wait")).expect("no record");
        let declared = waiting.has_compensation();
        let given = given(Some(waiting), "waiting");
        let take = EventAct::Take { by: "run-1".to_owned(), at: Box::new(wait) };
        let taken = given.on(&given.revision, &take, stamp(at(60), "take")).expect("in time");
        let left = taken.on(&taken.revision, &EventAct::Leave { undoes: true }, stamp(at(70), "end"));
        (declared, left.map(|left| left.state).ok())
    };
    assert_eq!(left(false, Some(undo())), (true, Some(EventState::Late)));
    assert_eq!(left(false, None), (false, None));
    assert_eq!(left(true, Some(undo())), (true, None));
}

/// The code of the next version declares its own compensation at its own wait.
#[test]
fn wait_of_the_next_version_replaces_the_former_one() {
    let moved = record_in("given, waited for in a former version").expect("a record");
    assert!(!moved.is_reached());
    let at_its_wait = NewWait { on_late: None, until: at(900), ..new_wait(false) };
    let act = EventAct::Take { by: "run-2".to_owned(), at: Box::new(at_its_wait) };
    let taken = moved.on(&moved.revision, &act, stamp(at(60), "take")).expect("it is allowed");
    let wait = taken.wait.clone().expect("a wait");
    assert_eq!((wait.until, wait.on_late, wait.former), (at(900), None, false));
    let late = moved.on(&moved.revision, &EventAct::Leave { undoes: false }, stamp(at(60), "end"));
    assert!(late.expect("it is allowed").owed().is_some());
}

/// The header of a version that continues the first one.
fn second_version() -> Header {
    let mut data = HeaderData::clone(&header_in("waiting"));
    data.continues = Some(1);
    Header::stored(data)
}

fn former(has_event: bool, last: Option<&str>) -> Former {
    let last = last.and_then(record_in).map(|event| (header_in("continued"), event));
    Former { has_event, first: None, last }
}

#[test]
fn next_version_reads_what_former_versions_know() {
    let met = |state, former| Met {
        header: Some(second_version()),
        event: record_in(state),
        surplus: Some(Vec::new()),
        former,
    };
    let decide = |state, id, former| {
        let met = met(state, former);
        match signal(event(Some(id), "paid"), "a-2").decide(&met, stamp(at(55), "signal")) {
            Decision::Read(read) => format!("{read:?}"),
            Decision::Answer(answer) | Decision::Write { answer, .. } => format!("{answer:?}"),
        }
    };
    for state in ["no record", "waiting", "given", "taken", "expired", "late"] {
        let is_known = matches!(state, "given" | "taken" | "late");
        let (own, other) = (decide(state, "1", None), decide(state, "2", None));
        assert_eq!(own, if is_known { "Duplicate" } else { "Former" }, "{state}");
        assert_eq!(other, "Former", "{state}");
        assert_eq!(decide(state, "2", Some(former(true, None))), "Duplicate", "{state}");
    }
    for last in ["waiting", "taken", "expired", "late"] {
        let is_late = matches!(last, "expired" | "late");
        let unreached = decide("no record", "2", Some(former(false, Some(last))));
        assert_eq!(unreached, if is_late { "Nothing" } else { "Accepted" }, "{last}");
        // The code waits again under the name.
        assert_eq!(decide("waiting", "2", Some(former(false, Some(last)))), "Accepted", "{last}");
    }
    let there = met("no record", Some(former(false, Some("expired")))).into_former();
    let decided = signal(event(Some("2"), "paid"), "a-2").decide(&there, stamp(at(55), "signal"));
    let Decision::Write { answer: Signalled::Late { compensates: true }, header: (_, then), .. } = decided
    else {
        panic!("{decided:?}")
    };
    assert_eq!((then.stands, then.ending), (true, Some(State::Continued)));
}

#[test]
fn event_without_an_id_is_known_by_the_call_that_stored_it() {
    let first = signal(event(None, "paid"), "a-1");
    assert_eq!(first.receipt(), None, "no version has it");
    let again = Signal { answer: Some(Signalled::Accepted), ..first.clone() };
    let record = given(None, "waiting");
    let own = EventRecord::stored(EventData {
        arrived: Some(Arrived { identity: event(None, "paid"), at: at(50), by: "a-1".to_owned() }),
        ..EventData::clone(&record)
    });
    let places = receipt_places(&own, start(), false);
    let is_its = |signal: &Signal| {
        let digest = signal.receipt().expect("a round has written it");
        places.iter().any(|place| place.ends_with(&format!(" paid {digest}")))
    };
    assert!(is_its(&again));
    let other = Signal { by: "a-2".to_owned(), ..again };
    assert!(!is_its(&other), "the same amount is paid every month");
}

/// A later version may have replaced the receipt of a wait, so it is written only on request.
#[test]
fn event_and_requested_wait_have_a_receipt_each() {
    let receipts = |record: Option<EventRecord>| {
        let record = record.expect("a record");
        [false, true].map(|of_waits| receipt_places(&record, start(), of_waits).len())
    };
    assert_eq!(receipts(record_in("waiting")), [0, 1]);
    assert_eq!(receipts(record_in("given")), [1, 2]);
    assert_eq!(receipts(Some(given(None, "waiting"))), [1, 1], "no code waits");
}

#[test]
fn record_of_a_former_life_is_no_event() {
    let mut header = Header::clone(&header_in("waiting"));
    let mut data = HeaderData::clone(&header);
    data.created = at(1000);
    header = Header::stored(data);
    for state in STATES.into_iter().skip(1) {
        let met = Met { header: Some(header.clone()), event: record_in(state), surplus: None, former: None };
        let decided = signal(event(Some("1"), "paid"), "a-2").decide(&met, stamp(at(1055), "signal"));
        let Decision::Write { answer: Signalled::Accepted, event: (Some(_), next), .. } = decided else {
            panic!("{state}: {decided:?}")
        };
        assert_eq!((next.run, next.wait.is_none()), (at(1000), true), "{state}");
        let new = NewWait { run: at(1000), ..new_wait(false) };
        assert!(EventRecord::wait(record_in(state).as_ref(), &new, stamp(at(1001), "w")).is_ok(), "{state}");
    }
}

#[test]
fn act_on_a_changed_record_is_refused() {
    for state in STATES {
        let Some(record) = record_in(state) else { continue };
        for act in [
            EventAct::Leave { undoes: false },
            EventAct::Handle,
            take(String::new()),
            EventAct::Dismiss { by: by(at(890)) },
            EventAct::Correct { by: by(at(890)), value: sample::value("corrected") },
        ] {
            let refused = record.on("another", &act, stamp(at(900), "act"));
            assert_eq!(refused.err(), Some(EventRefusal::Changed), "{state}: {act:?}");
        }
    }
}

#[test]
fn wait_over_any_record_is_refused() {
    for state in STATES.into_iter().skip(1) {
        let refused = EventRecord::wait(record_in(state).as_ref(), &new_wait(false), stamp(at(60), "wait"));
        assert!(matches!(refused, Err(EventRefusal::Found(_))), "{state}");
    }
}

#[test]
fn sender_recognises_its_own_event_after_a_lost_reply() {
    let mut again = signal(event(None, "paid"), "a-1");
    for (state, first) in [("given", Signalled::Accepted), ("late", Signalled::Late { compensates: true })] {
        let met =
            Met { header: Some(header_in("waiting")), event: record_in(state), surplus: None, former: None };
        again.answer = Some(first);
        let Decision::Answer(answer) = again.decide(&met, stamp(at(60), "again")) else { panic!("{state}") };
        assert_eq!(answer, first);
        let other = Signal { by: "a-2".to_owned(), ..again.clone() };
        let Decision::Answer(answer) = other.decide(&met, stamp(at(60), "other")) else { panic!("{state}") };
        assert_eq!(answer, Signalled::Duplicate, "another call stored it");
        again.answer = None;
        let Decision::Answer(answer) = again.decide(&met, stamp(at(60), "again")) else { panic!("{state}") };
        assert_eq!(answer, Signalled::Duplicate);
    }
}

#[test]
fn late_event_leaves_the_outcome() {
    let ended = header_in("ended, late event due");
    assert_eq!(ended.answered().map(|state| state.as_str()), Some("completed"));
    // An operator's cancel, and an effect that should not stand, may change what callers receive.
    let cancel = HeaderEvent::Operator {
        seen: ended.revision.clone(),
        by: super::sample::by(at(60)),
        act: OperatorAct::Compensate,
    };
    for event in
        [HeaderEvent::Late { item: "step/pay".to_owned() }, HeaderEvent::Twice { why: "twice" }, cancel]
    {
        let next = ended.on(&event, stamp(at(60), "event")).expect("it is allowed");
        assert_eq!(next.answered(), None, "{event:?}");
    }
}

#[test]
fn signal_without_a_workflow_is_not_stored() {
    let signalled = |header| {
        let met = Met { header, event: None, surplus: None, former: None };
        match signal(event(Some("1"), "paid"), "a-1").decide(&met, stamp(at(55), "signal")) {
            Decision::Answer(answer) | Decision::Write { answer, .. } => answer,
            other => panic!("{other:?}"),
        }
    };
    for (header, is_stored) in
        [(None, false), (Some(header_in("reaping")), false), (Some(header_in("waiting")), true)]
    {
        assert_eq!(signalled(header).is_stored(), is_stored);
    }
}

/// Otherwise an event would shorten the backoff of a retry.
#[test]
fn event_that_the_code_waits_for_makes_its_workflow_due() {
    let due = |state| {
        let met =
            Met { header: Some(header_in("waiting")), event: record_in(state), surplus: None, former: None };
        match signal(event(Some("1"), "paid"), "a-1").decide(&met, stamp(at(55), "signal")) {
            Decision::Write { header: (_, then), .. } => then.next_due,
            other => panic!("{state}: {other:?}"),
        }
    };
    assert_eq!((due("waiting"), due("no record")), (at(55), at(600)));
}

#[test]
fn surplus_event_replaces_only_the_record_in_its_own_place() {
    let written = |id: &str, surplus| {
        let (header, main) = (Some(header_in("waiting")), record_in("given"));
        let met = Met { header, event: main, surplus: Some(surplus), former: None };
        match signal(event(Some(id), "paid"), "a-2").decide(&met, stamp(at(55), "signal")) {
            Decision::Write { event: (over, next), .. } => (over.map(|over| over.run), *next),
            other => panic!("{id}: {other:?}"),
        }
    };
    let (over, second) = written("2", Vec::new());
    assert_eq!(over, None);
    // An earlier workflow under the key left the record of the same event.
    let former = EventRecord::stored(EventData { run: at(-1), ..EventData::clone(&second) });
    assert_eq!(written("2", vec![former.clone()]).0, Some(at(-1)));
    assert_eq!(written("3", vec![former]).0, None);
}

#[test]
fn wait_expires_at_its_time_and_not_before() {
    let waiting = record_in("waiting").expect("a record");
    let expired = |now| {
        let act = EventAct::Expire { by: "run-1".to_owned() };
        waiting.on(&waiting.revision, &act, stamp(at(now), "expire")).map(|next| next.state)
    };
    assert_eq!(expired(599), Err(EventRefusal::Found(EventState::Waiting)));
    assert_eq!(expired(600), Ok(EventState::Expired));
}

#[test]
fn moved_event_is_stored_with_the_next_version() {
    let given = record_in("given").expect("a record");
    let moved = given.moved("order/7 v2", at(1000), stamp(at(1000), "moved"));
    assert_eq!(moved.id, RecordId::at("order/7 v2", Place::Event("paid")));
    assert_eq!((moved.run, moved.revision.as_str()), (at(1000), "r-moved"));
    assert_eq!((moved.state, moved.bytes()), (EventState::Given, given.bytes()));
}

#[test]
fn transaction_takes_ninety_records_and_three_megabytes() {
    const MEGABYTE: usize = 1024 * 1024;
    let sized = |bytes: usize| {
        let identity = Identity { id: None, value: Encoded::plain("7".repeat(bytes)) };
        let arrived = Some(Arrived { identity, at: at(50), by: "a-1".to_owned() });
        let given = record_in("given").expect("a record");
        EventRecord::stored(EventData { arrived, ..EventData::clone(&given) })
    };
    let small = vec![sized(1); 100];
    let taken = [0, 60, 90, 99].map(|others| fitting(&small, others));
    assert_eq!((taken, fitting(&small[..20], 60)), ([90, 30, 0, 0], 20));
    let large = [MEGABYTE, MEGABYTE, MEGABYTE, 1].map(sized);
    assert_eq!((fitting(&large, 0), fitting(&large, 88)), (3, 2));
}

/// An unread event may still be taken.
#[test]
fn only_a_late_event_owes_its_compensation() {
    let owing: Vec<&str> = STATES.into_iter().filter(|state| owes(record_in(state).as_slice())).collect();
    assert_eq!(owing, ["late"]);
    let events = ["taken", "late", "handled"].map(|state| record_in(state).expect("a record"));
    assert!(owes(&events), "one of them is enough");
}
