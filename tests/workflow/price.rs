//! The price of a workflow: requests and write units of each verb and kind of step, including the
//! index.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::Intervened;
use locker::operator::{Act, Console, Part};
use locker::workflow::{Event, Flow, Outcome, Signalled, Stop, Workflow};
use locker_tests::{Wire, ada};

use crate::bench::{Desk, LATER, price_of};

#[derive(Debug, Clone, Copy)]
enum Shape {
    Nothing,
    Step,
    Once,
    OnceShared,
    Atomic,
    /// This many once-only steps with results of this many bytes that do not compress.
    Onces(usize, usize),
    /// A map with this many once-only steps.
    Map(usize),
}

struct Priced(Shape, String);

impl Workflow for Priced {
    const NAME: &'static str = "priced";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let work = |_| async { Ok(1) };
        match self.0 {
            Shape::Nothing => {}
            Shape::Step => drop(flow.step("a").input(&1).run(work).await?),
            Shape::Once => drop(flow.once("a").input(&1).compensate(&"undo").run(work).await?),
            Shape::OnceShared => {
                flow.once("a").key(("card/charge", flow.key().as_str())).run(work).await?;
            }
            Shape::Atomic => {
                let row = Put::builder().table_name(&self.1).item("id", AttributeValue::S("row".into()));
                flow.atomic("a").put(row.build().unwrap()).message("told", &1).commit(&1).await?;
            }
            Shape::Onces(count, bytes) => {
                for number in 0..count {
                    let noise =
                        |_| async { Ok((0..bytes).map(|_| fastrand::alphanumeric()).collect::<String>()) };
                    flow.once(format!("step#{number}")).run(noise).await?;
                }
            }
            Shape::Map(count) => {
                let items = (0..count).map(|item| (item, item));
                let map = flow.map("fund", items, 16, async |flow, _| flow.once("a").run(work).await);
                map.await?;
                flow.sleep("nap", LATER * 24).await?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Price {
    requests: usize,
    write_units: f64,
    read_units: f64,
}

fn bill(wire: &Wire) -> Price {
    let exchanges = wire.take();
    let mut price = Price { requests: exchanges.len(), write_units: 0.0, read_units: 0.0 };
    for exchange in exchanges {
        let reads = ["GetItem", "Query"].contains(&exchange.operation.as_str());
        *(if reads { &mut price.read_units } else { &mut price.write_units }) += price_of(&exchange);
    }
    price
}

async fn price(desk: &Desk, shape: Shape) -> Price {
    let (workflows, wire) = desk.machine();
    let outcome = workflows.start(&Priced(shape, desk.rows.clone()), "priced/1", &()).run().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    bill(&wire)
}

#[tokio::test]
async fn the_price_of_each_kind_of_step_is_known() {
    let none = price(&Desk::new().await, Shape::Nothing).await;
    // Start: the header and its entry in the index. End: the header, and the entry moves.
    assert_eq!(none, Price { requests: 2, write_units: 5.0, read_units: 0.0 });
    for (shape, requests, write_units, read_units) in [
        (Shape::Step, 1, 1.0, 0.0),
        (Shape::Once, 3, 2.0, 1.0),
        (Shape::OnceShared, 4, 3.0, 1.0),
        // Two units each for the record, the header that is checked, the row and the message, and
        // one for its index entry.
        (Shape::Atomic, 1, 9.0, 0.0),
    ] {
        let desk = Desk::new().await;
        let with = price(&desk, shape).await;
        let step = Price {
            requests: with.requests - none.requests,
            write_units: with.write_units - none.write_units,
            read_units: with.read_units - none.read_units,
        };
        // DynamoDB Local reports four; the published rule is two units for each KB of each item.
        let is_local = matches!(shape, Shape::Atomic) && !desk.bench.engine.is_embedded();
        let write_units = if is_local { step.write_units } else { write_units };
        assert_eq!(step, Price { requests, write_units, read_units }, "{shape:?}");
    }
}

#[tokio::test]
async fn ten_once_only_steps_of_two_kilobytes_stay_within_the_budget() {
    let price = price(&Desk::new().await, Shape::Onces(10, 2048)).await;
    // Alone, the items of the steps: a start of one unit, and an outcome of two, since it is
    // compressed. The budget is 42 units for them and the header, and 2 for the index.
    assert_eq!(price, Price { requests: 32, write_units: 35.0, read_units: 10.0 });
    assert!(price.write_units <= 42.0 + 2.0);
}

/// A step whose result has this many bytes that do not compress, and a pause.
struct Large(usize);

impl Workflow for Large {
    const NAME: &'static str = "large";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let noise = async |_| Ok((0..self.0).map(|_| fastrand::alphanumeric()).collect::<String>());
        flow.step("read").run(noise).await?;
        flow.sleep("nap", LATER * 24).await
    }
}

#[tokio::test]
async fn large_result_costs_one_request_more_and_one_where_it_is_used() {
    // About three quarters of the bytes are stored.
    for (bytes, beside) in [(4500, false), (20_000, true)] {
        let desk = Desk::new().await;
        if !desk.bench.engine.is_embedded() {
            return;
        }
        let (workflows, wire) = desk.machine();
        workflows.start(&Large(bytes), "large/1", &()).run().await.unwrap();
        // Start; the step; the recorded time; the release.
        let written = bill(&wire);
        assert_eq!(written.requests, 4 + usize::from(beside), "{bytes}");
        desk.bench.clock.advance(LATER * 24);
        workflows.start(&Large(bytes), "large/1", &()).run().await.unwrap();
        // Refused, claimed, read; the result, if it is not in the record; the end.
        let resumed = bill(&wire);
        assert_eq!(resumed.requests, 4 + usize::from(beside), "{bytes}");
        // The query reads the records, and the small result with them. A result beside is a read of
        // its own, and the header is one as well.
        let kilobytes = written.write_units - (2.0 + 1.0 + 3.0) - f64::from(u8::from(beside));
        let expected = 1.0 + (kilobytes / 4.0).ceil();
        assert_eq!(resumed.read_units, expected, "{bytes}: {written:?}");
    }
}

#[tokio::test]
async fn map_costs_its_steps_and_one_query_when_it_resumes() {
    for (items, pages) in [(3, 1), (200, 1), (4000, 2)] {
        let desk = Desk::new().await;
        if !desk.bench.engine.is_embedded() {
            return;
        }
        let (workflows, wire) = desk.machine();
        let priced = Priced(Shape::Map(items), desk.rows.clone());
        workflows.start(&priced, "priced/1", &()).run().await.unwrap();
        // Start; three requests for each step; the recorded time, and the release of the workflow.
        let (count, units) = (items as f64, 2.0 + 1.0 + 3.0);
        let price = Price { requests: items * 3 + 3, write_units: count * 2.0 + units, read_units: count };
        assert_eq!(bill(&wire), price, "{items}");
        desk.bench.clock.advance(LATER * 24);
        workflows.start(&priced, "priced/1", &()).run().await.unwrap();
        let operations: Vec<_> = wire.take().into_iter().map(|exchange| exchange.operation).collect();
        // Refused, claimed, read, ended.
        assert_eq!(operations.iter().filter(|operation| *operation == "Query").count(), pages, "{items}");
        assert_eq!(operations.len(), 3 + pages, "{items}: {operations:?}");
    }
}

/// It waits for one event.
struct Awaits;

const PACKED: Event<String> = Event::named("packed");

impl Workflow for Awaits {
    const NAME: &'static str = "awaits";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        drop(flow.wait_for(PACKED, Duration::from_secs(24 * 3600)).on_late(&"unpack").await?);
        Ok(())
    }
}

#[tokio::test]
async fn events_have_a_price() {
    let desk = Desk::new().await;
    if !desk.bench.engine.is_embedded() {
        return;
    }
    let (workflows, wire) = desk.machine();
    let signal = async |key: &'static str, id: &'static str| {
        workflows.signal(key, PACKED, &"p-1".to_owned()).id(id).await.unwrap()
    };
    assert_eq!(signal("awaits/1", "e-1").await, Signalled::NotStarted);
    assert_eq!(bill(&wire), Price { requests: 1, write_units: 0.0, read_units: 1.0 });
    workflows.start(&Awaits, "awaits/1", &()).run().await.unwrap();
    // Start; the wait; the header, whose entry in the index moves.
    assert_eq!(bill(&wire), Price { requests: 3, write_units: 2.0 + 1.0 + 3.0, read_units: 0.0 });
    // Both items are read, and written together with the entry that moves.
    assert_eq!(signal("awaits/1", "e-1").await, Signalled::Accepted);
    assert_eq!(bill(&wire), Price { requests: 3, write_units: 4.0 + 2.0, read_units: 2.0 });
    assert_eq!(signal("awaits/1", "e-1").await, Signalled::Duplicate);
    assert_eq!(bill(&wire), Price { requests: 2, write_units: 0.0, read_units: 2.0 });
    // The other events are read; the event, its entry in the index, and the header with its entry.
    assert_eq!(signal("awaits/1", "e-2").await, Signalled::AlreadyGiven);
    assert_eq!(bill(&wire), Price { requests: 4, write_units: 4.0 + 2.0, read_units: 3.0 });
    // Refused, claimed and read, as any that goes on; the event is taken, and the end.
    workflows.start(&Awaits, "awaits/1", &()).run().await.unwrap();
    let price = Price { requests: 5, write_units: 1.0 + 3.0 + 4.0 + 3.0, read_units: 1.0 };
    assert_eq!(bill(&wire), price);
    workflows.start(&Awaits, "awaits/2", &()).run().await.unwrap();
    desk.bench.clock.advance(LATER * 24);
    wire.take();
    workflows.start(&Awaits, "awaits/2", &()).run().await.unwrap();
    let price = Price { requests: 5, write_units: 1.0 + 3.0 + 1.0 + 3.0, read_units: 1.0 };
    assert_eq!(bill(&wire), price, "the time is past");
    let late = signal("awaits/2", "e-1").await;
    assert!(matches!(late, Signalled::Late { compensates: true, .. }), "{late:?}");
    assert_eq!(bill(&wire), Price { requests: 3, write_units: 4.0 + 3.0, read_units: 2.0 });
}

#[tokio::test]
async fn acts_of_operators_on_events_have_a_price() {
    let desk = Desk::new().await;
    if !desk.bench.engine.is_embedded() {
        return;
    }
    let (workflows, wire) = desk.machine();
    let console = Console::new().workflows(&workflows);
    workflows.start(&Awaits, "awaits/1", &()).run().await.unwrap();
    let part = async || console.get("awaits/1").await.unwrap().remove(0);
    let act = async |part: Part, act: Act| {
        wire.take();
        assert_eq!(console.act(&part, &act, &ada()).await.unwrap(), Intervened::Done);
        bill(&wire)
    };
    // The event, the workflow and its entry that moves, and the audit record with its entry.
    let given = act(part().await, Act::signal("packed", "p-1".into())).await;
    assert_eq!(given, Price { requests: 1, write_units: 6.0 + 3.0, read_units: 0.0 });
    let signalled = workflows.signal("awaits/1", PACKED, &"p-2".to_owned()).await.unwrap();
    assert_eq!(signalled, Signalled::AlreadyGiven);
    wire.take();
    let surplus = part().await;
    // The workflow and its steps, and the other events.
    assert_eq!(bill(&wire), Price { requests: 2, write_units: 0.0, read_units: 2.0 });
    let Part::Workflow(view) = &surplus else { panic!("{surplus:?}") };
    let name = view.events()[1].name();
    // The event, whose entry goes, and the audit record with its entry.
    let skipped = act(surplus, Act::skip().step(name)).await;
    assert_eq!(skipped, Price { requests: 1, write_units: 4.0 + 2.0, read_units: 0.0 });
}

#[tokio::test]
async fn resuming_and_replaying_have_a_price_too() {
    let desk = Desk::new().await;
    let (workflows, wire) = desk.machine();
    let priced = Priced(Shape::Step, desk.rows.clone());
    workflows.start(&priced, "priced/1", &()).enqueue().await.unwrap();
    assert_eq!(bill(&wire), Price { requests: 1, write_units: 2.0, read_units: 0.0 });
    desk.bench.clock.advance(LATER);
    workflows.start(&priced, "priced/1", &()).run().await.unwrap();
    // Refused, claimed (the entry of the index moves), read; the step; the end (it moves again).
    assert_eq!(bill(&wire), Price { requests: 5, write_units: 1.0 + 3.0 + 1.0 + 3.0, read_units: 1.0 });
    workflows.start(&priced, "priced/1", &()).run().await.unwrap();
    assert_eq!(bill(&wire), Price { requests: 1, write_units: 1.0, read_units: 0.0 });
}
