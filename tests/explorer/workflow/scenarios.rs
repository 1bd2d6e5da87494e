//! The scenarios.

use std::sync::LazyLock;
use std::time::Duration;

use super::act::Act::{
    Cancel, Complete, Drive, Give, Hear, Redrive, Relay, Resolve, Restock, Retry, Signal, Skip,
};
use super::scenario::{FORGETS, Kind, RECOGNISES, Shape, Spec, Step, VOIDS, Way, WorkflowScenario, once};

/// After two of these a provider is about to forget a key.
const LONG: Duration = Duration::from_secs(285);

/// What comes a second later comes when the first driver's time is up, and not yet what clocks may
/// differ by.
const SOON: Duration = Duration::from_secs(31);

const SEAT: Step = once("seat").undone();
const CHARGE: Step = once("charge").undone();
const SEAT_SAFE: Step = SEAT.recognised();
const CHARGE_SAFE: Step = CHARGE.recognised();
const TICKET: Step = once("ticket").recognised();
const SHARED: Step = once("charge").recognised().keyed("pay/7").undone();
const RENAMED: Step = once("pay").recognised().keyed("pay/7").undone();
const TAKER: Step = once("charge").recognised().keyed("pay/7");
const ROW: Step = once("row").of(Kind::Put).undone();
const RESERVE: Step = once("reserve").of(Kind::Reserve);

const PLACED: Step = once("placed").of(Kind::Tell);
const PAID: Step = once("paid").of(Kind::Tell);

/// A wait whose late event is compensated, and one whose late event is only listed.
const WAIT: Step = once("paid").of(Kind::Wait).undone();
const LOOK: Step = once("paid").of(Kind::Wait);

/// The steps of a map over three items.
const ITEM_0: Step = once("item#0:charge").recognised().undone();
const ITEM_1: Step = once("item#1:charge").recognised().undone();
const ITEM_2: Step = once("item#2:charge").recognised().undone();
const ITEMS: &[Step] = &[ITEM_0, ITEM_1, ITEM_2];
/// The provider of these items recognises no keys.
const UNSAFE_ITEMS: &[Step] =
    &[once("item#0:charge").undone(), once("item#1:charge").undone(), once("item#2:charge").undone()];
const DECLINED_ITEMS: &[Step] = &[ITEM_0, ITEM_1.declined(), ITEM_2];

/// The first version waits until it may continue. The event of the second version may come before.
const GO: Step = once("go").of(Kind::Wait);
const EARLY: &[Step] = &[GO, WAIT.in_version(2), TICKET.in_version(2)];
/// Each version charges, and the last one waits.
const ROUNDS: &[Step] = &[CHARGE_SAFE, CHARGE_SAFE.in_version(2), WAIT.in_version(3)];
/// Each version waits for an event of its own.
const MONTHS: &[Step] = &[once("month#1").of(Kind::Wait), once("month#2").of(Kind::Wait).in_version(2)];
/// An event of the first version comes too late, while the second version waits.
const LATE: &[Step] = &[WAIT, GO.in_version(2), CHARGE.in_version(3)];
/// Each version waits for an event with the same name.
const SAME_NAME: &[Step] = &[LOOK, LOOK.in_version(2)];

const ALL: &[Spec] = &[
    Spec::new("map", ITEMS, RECOGNISES).shape(Shape::Map),
    Spec::new("map/unsafe", UNSAFE_ITEMS, FORGETS).shape(Shape::Map),
    Spec::new("map/declined", DECLINED_ITEMS, RECOGNISES).shape(Shape::Map),
    Spec::new("map/cancel", ITEMS, RECOGNISES).shape(Shape::Map).acts(&[Drive(0), Cancel(0)]),
    Spec::new("map/drivers", ITEMS, RECOGNISES).shape(Shape::Map).two(&[Drive(0), Drive(0)]),
    Spec::new("map/drivers/unsafe", UNSAFE_ITEMS, FORGETS).shape(Shape::Map).two(&[Drive(0), Drive(0)]),
    Spec::new("continued", ROUNDS, RECOGNISES).acts(&[Drive(0), Signal("paid", "e-1")]),
    Spec::new("continued/early", EARLY, RECOGNISES).acts(&[
        Drive(0),
        Signal("paid", "e-1"),
        Signal("go", "e-2"),
        Complete,
    ]),
    Spec::new("continued/months", MONTHS, FORGETS).pausing(SOON).acts(&[
        Drive(0),
        Signal("month#1", "e-1"),
        Complete,
        Signal("month#2", "e-2"),
    ]),
    Spec::new("continued/same-name", SAME_NAME, FORGETS).acts(&[
        Drive(0),
        Signal("paid", "e-1"),
        Complete,
        Signal("paid", "e-2"),
    ]),
    Spec::new("continued/again", SAME_NAME, FORGETS).acts(&[
        Drive(0),
        Signal("paid", "e-1"),
        Complete,
        Signal("paid", "e-1"),
    ]),
    Spec::new("continued/late", LATE, FORGETS).acts(&[
        Drive(0),
        Complete,
        Complete,
        Signal("paid", "e-1"),
        Complete,
    ]),
    Spec::new("continued/cancel", ROUNDS, RECOGNISES).acts(&[Drive(0), Cancel(0), Signal("paid", "e-1")]),
    Spec::new("continued/soon", EARLY, RECOGNISES).pausing(SOON).two(&[
        Drive(0),
        Signal("go", "e-2"),
        Drive(0),
        Signal("paid", "e-1"),
    ]),
    Spec::new("continued/drivers", ROUNDS, RECOGNISES).two(&[Drive(0), Drive(0), Signal("paid", "e-1")]),
    Spec::new("given", &[WAIT, TICKET], RECOGNISES).acts(&[
        Drive(0),
        Give("paid", "e-1"),
        Signal("paid", "e-1"),
    ]),
    Spec::new("given/other", &[WAIT], FORGETS).acts(&[Drive(0), Signal("paid", "e-1"), Give("paid", "e-2")]),
    Spec::new("given/late", &[WAIT], FORGETS).acts(&[Drive(0), Complete, Complete, Give("paid", "e-1")]),
    Spec::new("given/continued", EARLY, RECOGNISES).acts(&[
        Drive(0),
        Give("paid", "e-1"),
        Signal("go", "e-2"),
        Complete,
    ]),
    Spec::new("given/former", MONTHS, FORGETS).acts(&[
        Drive(0),
        Give("month#1", "e-1"),
        Complete,
        Signal("month#1", "e-1"),
    ]),
    Spec::new("given/soon", &[WAIT], FORGETS).pausing(SOON).two(&[
        Drive(0),
        Give("paid", "e-1"),
        Signal("paid", "e-1"),
        Complete,
    ]),
    Spec::new("given/drivers", &[WAIT], FORGETS).two(&[
        Drive(0),
        Drive(0),
        Give("paid", "e-1"),
        Signal("paid", "e-2"),
    ]),
    Spec::new("event", &[WAIT, TICKET], RECOGNISES).acts(&[Drive(0), Signal("paid", "e-1")]),
    Spec::new("event/again", &[LOOK], FORGETS).acts(&[
        Drive(0),
        Signal("paid", "e-1"),
        Signal("paid", "e-1"),
    ]),
    Spec::new("event/two", &[WAIT], FORGETS).acts(&[Drive(0), Signal("paid", "e-1"), Signal("paid", "e-2")]),
    Spec::new("event/cancel", &[SEAT_SAFE, WAIT], RECOGNISES).acts(&[
        Drive(0),
        Signal("paid", "e-1"),
        Cancel(0),
    ]),
    Spec::new("event/late", &[WAIT], FORGETS).acts(&[Drive(0), Complete, Complete, Signal("paid", "e-1")]),
    Spec::new("event/failing", &[SEAT_SAFE, WAIT], RECOGNISES)
        .failing()
        .acts(&[Drive(0), Signal("paid", "e-1")]),
    Spec::new("event/soon", &[WAIT], FORGETS).pausing(SOON).two(&[Drive(0), Signal("paid", "e-1"), Complete]),
    Spec::new("event/drivers", &[WAIT], FORGETS).two(&[Drive(0), Drive(0), Signal("paid", "e-1")]),
    Spec::new("undo", &[SEAT, CHARGE], FORGETS).failing(),
    Spec::new("undo/recognised", &[SEAT_SAFE.twice(), CHARGE_SAFE.twice()], RECOGNISES).failing(),
    Spec::new("probe", &[once("charge").probed().undone(), once("mail").probed()], FORGETS),
    Spec::new("two-names", &[SHARED, RENAMED], RECOGNISES).failing(),
    Spec::new("side-by-side", &[SEAT_SAFE, ROW], RECOGNISES).shape(Shape::SideBySide).failing(),
    Spec::new("side-by-side/declined", &[SEAT.declined(), ROW], FORGETS).shape(Shape::SideBySide),
    Spec::new("window", &[TICKET], RECOGNISES).pausing(LONG).acts(&[Drive(0), Complete]),
    Spec::new("refused", &[RESERVE, TICKET], RECOGNISES).acts(&[Drive(0), Restock]),
    Spec::new("cancel", &[SEAT_SAFE, TICKET], RECOGNISES).acts(&[Drive(0), Cancel(0)]),
    Spec::new("cancel/soon", &[SEAT], FORGETS).pausing(SOON).acts(&[Drive(0), Cancel(0)]),
    Spec::new("cancel/voids", &[SEAT_SAFE, TICKET], VOIDS).acts(&[Drive(0), Cancel(0)]),
    Spec::new("cancel/failing", &[SEAT_SAFE, CHARGE_SAFE], RECOGNISES).failing().acts(&[Drive(0), Cancel(0)]),
    Spec::new("resolve", &[SEAT.twice(), CHARGE.twice()], FORGETS).acts(&[Drive(0), Resolve]),
    Spec::new("skip", &[SEAT, CHARGE], FORGETS).failing().acts(&[Drive(0), Skip]),
    Spec::new("tell", &[PLACED, PAID], FORGETS).acts(&[Drive(0), Relay]),
    Spec::new("tell/redrive", &[PLACED, PAID], FORGETS).acts(&[Drive(0), Redrive]),
    Spec::new("tell/hear", &[PLACED], FORGETS).acts(&[Drive(0), Hear, Hear]),
    Spec::new("tell/cancel", &[PLACED, TICKET, PAID], RECOGNISES).acts(&[Drive(0), Cancel(0)]),
    Spec::new("take-over", &[SEAT, once("mail")], FORGETS).two(&[Drive(0), Drive(0)]),
    Spec::new("take-over/completer", &[SEAT_SAFE, TICKET], RECOGNISES).two(&[Drive(0), Complete]),
    Spec::new("take-over/undo", &[SEAT, CHARGE], FORGETS).failing().two(&[Drive(0), Drive(0)]),
    Spec::new("take-over/probe", &[once("charge").probed().undone()], FORGETS).two(&[Drive(0), Drive(0)]),
    Spec::new("take-over/cancel", &[CHARGE_SAFE], RECOGNISES).two(&[Drive(0), Drive(0), Cancel(0)]),
    Spec::new("take-over/window", &[TICKET], RECOGNISES).pausing(LONG).two(&[Drive(0), Drive(0)]),
    Spec::new("take-over/tell", &[PLACED, PAID], FORGETS).two(&[Drive(0), Drive(0)]),
    Spec::new("tell/relays", &[PLACED, PAID], FORGETS).two(&[Drive(0), Relay, Relay]),
    Spec::new("shared", &[SHARED], RECOGNISES).failing().beside(&[SHARED]).two(&[Drive(0), Drive(1)]),
    Spec::new("shared/cancel", &[SHARED], RECOGNISES).beside(&[SHARED]).two(&[Drive(0), Drive(1), Cancel(0)]),
    Spec::new("shared/taker", &[SHARED], RECOGNISES).beside(&[TAKER]).two(&[
        Drive(0),
        Drive(1),
        Cancel(1),
        Cancel(0),
    ]),
    Spec::new("shared/after", &[SHARED], RECOGNISES).beside(&[SHARED]).two(&[Drive(0), Cancel(0), Drive(1)]),
];

/// Not walked with the others: an operator whose word may be wrong, so that an effect may be lost.
const BY_NAME: &[Spec] = &[Spec::new("retry-step", &[CHARGE], RECOGNISES).acts(&[Drive(0), Retry])];

/// Every scenario of workflows with this many drivers.
#[must_use]
pub fn workflow_scenarios(drivers: usize) -> Vec<WorkflowScenario> {
    ALL.iter().filter(|spec| spec.drivers == drivers).map(WorkflowScenario).collect()
}

/// Every pair of ways in which code treats two steps, with every way in which a workflow ends:
/// success, failure, cancel, and the end of a compensation.
#[must_use]
pub fn endings() -> Vec<WorkflowScenario> {
    static SPECS: LazyLock<Vec<Spec>> = LazyLock::new(|| {
        let pairs = Way::ALL.into_iter().flat_map(|one| Way::ALL.map(|other| [one, other]));
        pairs
            .flat_map(|[one, other]| {
                let spec = |end: &str, steps| {
                    let name = format!("ends/{}-{}/{end}", one.as_str(), other.as_str());
                    Spec::new(name.leak(), steps, FORGETS).ways([one, other])
                };
                const PLAIN: &[Step] = &[once("seat"), once("charge")];
                const UNDONE: &[Step] = &[SEAT, CHARGE];
                [
                    spec("success", PLAIN),
                    spec("failure", PLAIN).failing(),
                    spec("cancel", PLAIN).acts(&[Drive(0), Cancel(0)]),
                    spec("compensation", UNDONE).failing().acts(&[Drive(0), Cancel(0)]),
                ]
            })
            .collect()
    });
    SPECS.iter().map(WorkflowScenario).collect()
}

impl std::str::FromStr for WorkflowScenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = ALL.iter().chain(BY_NAME).map(Self).chain(endings());
        all.find(|scenario| scenario.to_string() == name)
            .ok_or_else(|| format!("{name} is not a scenario of workflows; one is 2/take-over/cancel"))
    }
}
