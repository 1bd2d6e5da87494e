//! Each place has one text, and the text leads back to the place.

use proptest::option;
use proptest::prelude::*;

use super::*;

/// Every stored form with its text. A change of a text here is a change of the layout.
#[test]
fn stored_forms_keep_their_texts() {
    let at = time::from_text("2026-11-21T11:09:09.120Z").unwrap();
    let charge = Effect { step: "charge", version: 1 };
    let again = Effect { step: "charge", version: 2 };
    let former = Former { version: 1, digest: None };
    let second = Former { version: 1, digest: Some("0a1b2c3d4e") };
    let undo = |effect, late| Undo { effect, late };
    let nested = |effect, late, former| Place::Nested { step: "refund", within: undo(effect, late), former };
    let compensation = |effect, late, former| Place::Compensation { of: undo(effect, late), former };
    let message = Place::Message;
    for (text, place) in [
        ("#", Place::Header),
        ("#input/7", Place::Input("7")),
        ("#answer/7", Place::Answer("7")),
        ("!result/7", Place::Result("7")),
        ("step/charge", Place::Step("charge")),
        ("step/charge v1", Place::Former { of: "charge", outcome: former }),
        ("step/charge v1 0a1b2c3d4e", Place::Former { of: "charge", outcome: second }),
        ("step/refund~in~compensation:charge", nested(charge, false, None)),
        ("step/refund~in~compensation:charge~v2", nested(again, false, None)),
        ("step/refund~in~compensation-late:charge v1", nested(charge, true, Some(former))),
        ("compensation/charge", compensation(charge, false, None)),
        ("compensation/charge v2", compensation(again, false, None)),
        ("compensation-late/charge v2", compensation(again, true, None)),
        ("compensation/charge v1", compensation(charge, false, Some(former))),
        ("compensation/charge v2 v1", compensation(again, false, Some(former))),
        ("compensation/charge v2 v1 0a1b2c3d4e", compensation(again, false, Some(second))),
        ("once", Place::Shared),
        ("event/paid#7", Place::Event("paid#7")),
        ("~event/paid 0a1b2c3d4e", Place::Surplus { event: "paid", digest: "0a1b2c3d4e" }),
        (
            "~receipt/2026-11-21T11:09:09.120Z paid 0a1b2c3d4e",
            Place::Receipt { started: at, event: "paid", digest: Some("0a1b2c3d4e") },
        ),
        (
            "~receipt/2026-11-21T11:09:09.120Z paid#7",
            Place::Receipt { started: at, event: "paid#7", digest: None },
        ),
        ("compensation-late/event:paid", compensation(Effect { step: "event:paid", version: 1 }, true, None)),
        (
            "message/00000002/001/reserve",
            message(MessagePlace::Step { number: 2, position: 1, step: "reserve" }),
        ),
        (
            "message/0017952593491200000000003/000/a-1",
            message(MessagePlace::Outbox {
                millis: 1_795_259_349_120,
                number: 3,
                position: 0,
                attempt: "a-1",
            }),
        ),
        (
            "message/001795259349120/000/d1",
            message(MessagePlace::Dead { millis: 1_795_259_349_120, identity: "d1" }),
        ),
        (
            "archived/001795259349120/000/d1",
            Place::Archived(MessagePlace::Dead { millis: 1_795_259_349_120, identity: "d1" }),
        ),
        ("received", Place::Received),
        ("latest", Place::Latest),
        ("number", Place::Number),
        ("failures", Place::Failures),
        ("heard/d1", Place::Heard("d1")),
        ("~failed/2026-11-21T11:09:09.120Z 2", Place::FailedRuns { started: at, place: 2 }),
        ("~ledger/2026-11-21T11:09:09.120Z", Place::Ledger(at)),
        ("~audit/2026-11-21T11:09:09.120Z 7", Place::Audit { at, id: "7" }),
        ("~replaced/2026-11-21T11:09:09.120Z 7", Place::Replaced { at, id: "7" }),
    ] {
        assert_eq!(Place::parse(text), Ok(place), "{text}");
        assert_eq!(place.to_string(), text);
    }
    let (consumer, digest) = ("packer", "0a1b");
    for (text, partition) in [
        ("order/7", Partition::Workflow { key: "order/7", version: 1 }),
        ("order/7 v2", Partition::Workflow { key: "order/7", version: 2 }),
        ("locker outbox order/7", Partition::Outbox { subject: "order/7" }),
        ("locker inbox packer 0a1b", Partition::Inbox { consumer, digest }),
        ("locker dead packer 0a1b", Partition::Dead { consumer, digest }),
    ] {
        assert_eq!(Partition::parse(text), Ok(partition), "{text}");
        assert_eq!(partition.to_string(), text);
    }
    let run = Run { workflow: "order/7 v2", started: at };
    assert_eq!(Run::parse("order/7 v2 2026-11-21T11:09:09.120Z"), Ok(run));
}

/// A provider receives these names. If a name changed, running workflows would repeat their
/// effects.
#[test]
fn names_for_providers_and_operators_stay() {
    for (text, provider, shown) in [
        ("step/charge", "charge", "charge"),
        ("step/charge v1", "charge", "charge v1"),
        (
            "step/refund~in~compensation:charge~v2",
            "refund~in~compensation:charge~v2",
            "refund~in~compensation:charge~v2",
        ),
        (
            "step/refund~in~compensation-late:charge v1",
            "refund~in~compensation-late:charge",
            "refund~in~compensation-late:charge v1",
        ),
        ("compensation/charge", "charge~compensate", "compensation:charge"),
        ("compensation/charge v2", "charge v2~compensate", "compensation:charge v2"),
        ("compensation-late/charge", "charge~compensate-late", "compensation-late:charge"),
        ("compensation/charge v2 v1", "charge v2~compensate", "compensation:charge v2 v1"),
        ("compensation-late/event:paid", "event:paid~compensate-late", "compensation-late:event:paid"),
        ("event/paid", "", "event:paid"),
        ("~event/paid 0a1b", "", "event:paid 0a1b"),
        ("once", "", "once"),
        ("#", "", "#"),
    ] {
        let place = Place::parse(text).expect(text);
        assert_eq!((place.provider_step().as_ref(), place.shown().as_str()), (provider, shown), "{text}");
    }
    assert_eq!((step_name("step/charge v1"), step_name("once")), ("charge", "once"));
}

#[test]
fn unknown_forms_are_invalid_records() {
    for text in [
        "",
        "#x",
        "#input/",
        "step",
        "step/",
        "step/charge ",
        "step/charge v",
        "step/charge v0",
        "step/charge v01",
        "step/charge v+1",
        "step/charge v1 ",
        "step/charge v1 x",
        "step/charge v1 0a 0b",
        "step/a~b",
        "step/refund~in~charge",
        "step/refund~in~compensation:",
        "step/refund~in~compensation:charge~v1",
        "compensation/",
        "compensation/charge v1 v1",
        "compensation/charge x",
        "timer/charge",
        "message/2/001/reserve",
        "message/00000002/01/reserve",
        "message/00000002/001/",
        "message/001795259349120/001/d1",
        "message/00000000000000002/001/reserve",
        "heard/",
        "event/",
        "event/paid 0a1b",
        "event/a~b",
        "~event/paid",
        "~event/paid x",
        "~event/paid 0a 0b",
        "~ledger/yesterday",
        "~audit/2026-11-21T11:09:09.120Z",
    ] {
        let refused = Place::parse(text).expect_err(text);
        assert!(matches!(refused, InvalidRecord::Form { attribute: "item", .. }), "{text}: {refused}");
    }
    for text in [
        "",
        "order/7 ",
        "order/7 v1",
        "order/7 v2 ",
        "order/7 x",
        "locker outbox ",
        "locker dead a",
        "locker dead  0a1b",
        "locker inbox packer 0a1b 0a1b",
    ] {
        let refused = Partition::parse(text).expect_err(text);
        assert!(matches!(refused, InvalidRecord::Form { attribute: "workflow", .. }), "{text}: {refused}");
    }
    assert!(Run::parse("order/7").is_err() && Run::parse("order/7 now").is_err());
}

/// `compensation/charge v2` is the one text with two readings.
#[test]
fn version_of_a_compensation_key_reads_as_version_of_its_effect() {
    let of = Undo { effect: Effect { step: "charge", version: 1 }, late: false };
    let former = Place::Compensation { of, former: Some(Former { version: 2, digest: None }) };
    let effect = Effect { step: "charge", version: 2 };
    let read = Place::Compensation { of: Undo { effect, late: false }, former: None };
    assert_eq!(Place::parse(&former.to_string()), Ok(read));
    // Both readings show the same name.
    assert_eq!(former.shown(), read.shown());
}

#[test]
fn shown_name_of_a_step_is_read_back() {
    let of = |version, late| Undo { effect: Effect { step: "charge", version }, late };
    let nested = |within| Place::Nested { step: "refund", within, former: None };
    let compensation = |of| Place::Compensation { of, former: None };
    for (shown, place) in [
        ("charge", Place::Step("charge")),
        ("fund#7", Place::Step("fund#7")),
        ("event:paid", Place::Event("paid")),
        ("event:paid 0a1b", Place::Surplus { event: "paid", digest: "0a1b" }),
        (
            "compensation-late:event:paid",
            compensation(Undo { effect: Effect { step: "event:paid", version: 1 }, late: true }),
        ),
        ("compensation:charge", compensation(of(1, false))),
        ("compensation:charge v2", compensation(of(2, false))),
        ("compensation-late:charge", compensation(of(1, true))),
        ("refund~in~compensation:charge", nested(of(1, false))),
        ("refund~in~compensation-late:charge~v2", nested(of(2, true))),
    ] {
        assert_eq!((Place::parse_shown(shown), place.shown().as_str()), (Ok(place), shown));
    }
    for wrong in [
        "",
        "a b",
        "a/b",
        "a~b",
        "charge v1",
        "compensation:",
        "compensation:a~b",
        "compensation:charge v1",
        "compensation:charge v2 v1",
        "compensation:compensation:charge",
        "event:",
        "event:a~b",
        "event:event:paid",
        "event:paid x",
        "refund~in~charge",
        "refund~in~compensation:charge v1",
        "a/b~in~compensation:charge",
        "refund~in~compensation:a/b",
        "~in~compensation:charge",
    ] {
        assert!(Place::parse_shown(wrong).is_err(), "{wrong}");
    }
}

// A name does not end with `#`.
const NAME: &str = "[!-.0-9:-}]{0,39}[$-.0-9:-}]";

fn a_time() -> impl Strategy<Value = DateTime<Utc>> {
    (0_i64..253_402_300_799_999)
        .prop_map(|millis| DateTime::from_timestamp_millis(millis).expect("a time that is stored"))
}

/// Calls `check` with each form of a place that is made of these parts.
fn each_place(
    (one, other, id): (&str, &str, &str),
    (version, number, position): (u32, u32, usize),
    (at, millis): (DateTime<Utc>, u64),
    (late, digest): (bool, Option<&str>),
    check: impl Fn(Place<'_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let outcome = Former { version, digest };
    check(Place::Header)?;
    check(Place::Input(id))?;
    check(Place::Answer(id))?;
    check(Place::Step(one))?;
    check(Place::Former { of: one, outcome })?;
    for effect in [Effect { step: other, version: 1 }, Effect { step: other, version: number.max(2) }] {
        let of = Undo { effect, late };
        check(Place::Nested { step: one, within: of, former: None })?;
        check(Place::Nested { step: one, within: of, former: Some(outcome) })?;
        check(Place::Compensation { of, former: None })?;
        let has_two_readings = effect.version == 1 && version > 1 && digest.is_none();
        if !has_two_readings {
            check(Place::Compensation { of, former: Some(outcome) })?;
        }
    }
    check(Place::Shared)?;
    check(Place::Message(MessagePlace::Step { number, position, step: one }))?;
    check(Place::Message(MessagePlace::Outbox { millis, number, position, attempt: id }))?;
    check(Place::Message(MessagePlace::Dead { millis, identity: id }))?;
    check(Place::Event(one))?;
    if let Some(digest) = digest {
        check(Place::Surplus { event: one, digest })?;
    }
    check(Place::Received)?;
    check(Place::Latest)?;
    check(Place::Number)?;
    check(Place::Failures)?;
    check(Place::Heard(id))?;
    check(Place::Ledger(at))?;
    check(Place::Audit { at, id })
}

proptest! {
    #[test]
    fn every_place_is_read_from_its_text(
        names in (NAME, NAME, "[!-~]{1,40}"),
        numbers in (1_u32.., any::<u32>(), 0_usize..200),
        times in (a_time(), 0_u64..9_999_999_999_999_999),
        rest in (any::<bool>(), option::of("[0-9a-f]{10}")),
    ) {
        let (one, other, id) = (&names.0, &names.1, &names.2);
        each_place((one, other, id), numbers, times, (rest.0, rest.1.as_deref()), |place| {
            let text = place.to_string();
            prop_assert_eq!(Place::parse(&text), Ok(place));
            let is_step = matches!(
                place,
                Place::Step(_)
                    | Place::Event(_)
                    | Place::Surplus { .. }
                    | Place::Nested { former: None, .. }
                    | Place::Compensation { former: None, .. }
            );
            if is_step {
                let shown = place.shown();
                prop_assert_eq!(Place::parse_shown(&shown), Ok(place));
            }
            Ok(())
        })?;
    }

    #[test]
    fn every_partition_is_read_from_its_text(
        key in "[!-~]{1,40}",
        consumer in NAME,
        digest in "[0-9a-f]{64}",
        version in 1_u32..,
        at in a_time(),
    ) {
        let (consumer, digest) = (consumer.as_str(), digest.as_str());
        for partition in [
            Partition::Workflow { key: &key, version: 1 },
            Partition::Workflow { key: &key, version },
            Partition::Outbox { subject: &key },
            Partition::Inbox { consumer, digest },
            Partition::Dead { consumer, digest },
        ] {
            let text = partition.to_string();
            prop_assert_eq!(Partition::parse(&text), Ok(partition));
            let run = Run { workflow: &text, started: at };
            let named = run.to_string();
            prop_assert_eq!(Run::parse(&named), Ok(run));
        }
        let workflow = Partition::Workflow { key: &key, version }.to_string();
        prop_assert_eq!(workflow_key(&workflow), &key);
    }

    #[test]
    fn any_text_is_a_place_or_an_error_and_never_another_text(
        kind in "(|#|step/|compensation/|compensation-late/|message/|heard/|event/|~event/|~ledger/|~audit/|#input/)",
        rest in "[a-c0-9v~ /:#]{0,30}",
    ) {
        let text = format!("{kind}{rest}");
        if let Ok(place) = Place::parse(&text) {
            prop_assert_eq!(&place.to_string(), &text);
            let _ = (place.shown(), place.provider_step());
        }
        if let Ok(partition) = Partition::parse(&text) {
            prop_assert_eq!(&partition.to_string(), &text);
        }
    }
}
