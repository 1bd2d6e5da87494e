//! The scenarios as a page of the docs: the requests of each case in order, and what a crash after
//! each leads to.

use std::fmt::Write as _;

use locker_tests::explorer::Fate;
use locker_tests::scenarios::{Answer, CallFate, Case, Fault, Plan, Played, Rig};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/evidence/scenarios.md");

/// Compare the page with what the code does, or write it if `UPDATE_DOCS` is set.
pub(super) fn compare() {
    let page = render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert_eq!(
        written, page,
        "docs/evidence/scenarios.md is not what the scenarios do; if they are right: UPDATE_DOCS=1 cargo test -p locker-tests --test scenarios"
    );
}

fn render() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (title, about, file, paths) in SCENARIOS {
        write!(page, "\n## {title}\n\n{about}\n[The code](../../tests/scenarios/{file}).\n")
            .expect("a string");
        for (case, path) in paths {
            write!(page, "\n{path}\n\n```text\n{}```\n", diagram(case)).expect("a string");
        }
    }
    page
}

fn diagram(case: Case) -> String {
    let well = Rig::new().play(&Plan::new(case));
    assert_eq!(well.wrong, Vec::<String>::new(), "{case}");
    let mut lines = String::new();
    let (mut exchanges, mut calls) = (0, 0);
    for line in &well.trace {
        let (_, told) = line.split_once(": ").expect("a sender and a request");
        let (fault, shown) = if line.starts_with('c') {
            calls += 1;
            (Plan::new(case).with(calls, Fault::Call(CallFate::DiesAfter)), call(told, case))
        } else {
            exchanges += 1;
            if exchanges > well.exchanges.0 {
                break;
            }
            let died = Fault::Exchange(Fate::DiesAfter);
            (Plan::new(case).with(exchanges, died), exchange(told, case))
        };
        let then = then(&Rig::new().play(&fault));
        writeln!(lines, "{shown:<92} {then}").expect("a string");
    }
    writeln!(lines, "{:<92}", format!("caller   ◀── {}", answer(&well))).expect("a string");
    lines.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

fn exchange(told: &str, case: Case) -> String {
    let (what, status) = told.rsplit_once(": ").expect("a status");
    let refused = if status == "200" { "" } else { "  REFUSED" };
    let what = what
        .split_once("#answer/")
        .map_or(what, |(before, _)| if before == "put " { "put answer" } else { "get answer" });
    let what = if what.starts_with("put ~failed/") { "put cause" } else { what };
    let what =
        what.replace("put #", "put header").replace("get #", "get header").replace("check #", "check header");
    format!("driver   ──▶ {}{refused}", plain(&what, case))
}

fn call(told: &str, case: Case) -> String {
    let (what, reply) = told.split_once(": ").expect("a reply");
    let reply = reply.trim_start_matches("Said(Done(").trim_start_matches("Said(Refused(");
    let reply = reply.trim_matches(|character: char| !character.is_alphanumeric());
    format!("provider      ◀── {} ──▶ {reply}", plain(what, case))
}

/// Replace the key of the play.
fn plain(text: &str, case: Case) -> String {
    let key = case.key(1);
    let dotted = format!("{}.", key.replace('/', "."));
    text.replace(&format!("/{key}"), "")
        .replace(&dotted, "funding ")
        .replace(&format!(" {key}"), "")
        .replace(" completed", "")
}

fn then(played: &Played) -> &'static str {
    assert_eq!(played.wrong, Vec::<String>::new());
    match played.answer {
        _ if played.quarantined => "quarantined",
        Answer::Completed(_) => "completed",
        Answer::Failed(_) => "failed",
        _ => "cancelled",
    }
}

fn answer(played: &Played) -> String {
    match &played.answer {
        Answer::Completed(_) => "completed".to_owned(),
        Answer::Failed(json) => {
            let error: serde_json::Value = serde_json::from_str(json).expect("JSON");
            format!("failed: {}", error["error"].as_str().map_or_else(|| error.to_string(), str::to_owned))
        }
        other => format!("{other:?}"),
    }
}

const INTRODUCTION: &str = "\
# Seven scenarios

Seven example workflows to copy. Each has a provider that records its effects. A test generates this
page from the requests of the code, and fails if the page and the code differ
(`UPDATE_DOCS=1 cargo test -p locker-tests --test scenarios`).

Each line is a request. `driver ──▶` goes to DynamoDB: `header` is the workflow, `step/…` the record
of a step, `compensation/…` the record of its compensation, `cause` the cause of a failed run. All
other items are rows and messages of the scenario. `provider ◀──` is a call to another service. The
last word of a line is measured: **the end of the workflow if its driver dies right after this
request** and completers resume it.

The result of a crash depends on the kind of step:

| step | the driver dies before the record | because |
|---|---|---|
| `step` | it is sent again | sending it twice is harmless |
| `once`, the provider recognises its key | it is sent again under the same key | the provider does it once |
| `once` with a probe | the probe reports the outcome, or it stays unknown | it is never sent again on a guess |
| `once` with neither | quarantined: an operator checks the provider's records | the same |
| `atomic` | all of it happened, or nothing | rows, messages and record are one transaction |

The same scenarios are played with every fault at every request, with several random faults, with an
operator who cancels before each request, with two callers at once, and with a driver that is
suspended at each request while others continue. They also run in real processes that are killed.
After each play, the records of the provider, the broker and the receiver are compared with the rows
and with the answer of the caller.
";

type Scenario = (&'static str, &'static str, &'static str, [(Case, &'static str); 2]);

const SCENARIOS: [Scenario; 7] = [
    (
        "Contract funding",
        "An account at a bank is opened once for a contract, by any of its workflows. After a refusal, the
bank is asked again under the next version of the key. Each funding makes pending entries, marks the
row as released, sends a message to the holder, and posts the entries. If the workflow fails,
pending entries are archived, and a second message to the holder takes the release back. This
message is not the workflow's, so both have a number. The receiver processes no older message after
a newer message.",
        "funding.rs",
        [
            (Case::FundingPaid, "Two fundings."),
            (Case::FundingRefused, "The second funding is refused. The first is posted, so it stays."),
        ],
    ),
    (
        "Purchase",
        "One transaction places the order and takes the stock. The card is charged under a key that the
provider recognises for a day. Another transaction finishes the order and commits the message to the
packers. If no stock is left, the workflow returns this answer and charges nothing.",
        "purchase.rs",
        [
            (Case::PurchaseBought, "Bought."),
            (Case::PurchaseDeclined, "The card is declined, and the stock is returned."),
        ],
    ),
    (
        "Seat reservation",
        "The wallet recognises no keys, but reports its charges. The house receives a message about each sold
seat. A charge that is not found may still arrive, so it is not sent again. After some attempts an
operator investigates, or has the workflow compensated. If the driver that sent the charge reports
it after that, it is refunded once.",
        "seats.rs",
        [
            (Case::SeatsSold, "Sold."),
            (Case::SeatsPoor, "The wallet has too little money, and the seat is free again."),
        ],
    ),
    (
        "Shipment",
        "The address is checked, and labels are printed under a key that the carrier recognises. Invoice,
order, tracking and messages are one transaction. Every retry of the request receives the same
answer. A different request under its key is a mismatch.",
        "shipment.rs",
        [
            (Case::ShipmentSent, "Sent."),
            (Case::ShipmentClosed, "The order was closed during the run, so the labels are voided."),
        ],
    ),
    (
        "Order",
        "One charge at a provider that recognises no keys and has no query: it happens at most once, and an
operator decides if its outcome is unknown. The shipper receives a message only about a charge.",
        "order.rs",
        [(Case::OrderCharged, "Charged."), (Case::OrderDeclined, "Declined.")],
    ),
    (
        "Room",
        "A room is held, and the workflow waits for the deposit: the bank's webhook signals the event. If no
deposit arrives within an hour, the room is free again an hour later. If the deposit arrives, the
room is booked after a day, in which the guest may withdraw. A deposit that arrives too late is
returned once. The requests of the webhook are shown as requests of a driver.",
        "room.rs",
        [
            (Case::RoomBooked, "The deposit arrives in time, and the webhook is sent twice."),
            (Case::RoomUnpaid, "The deposit arrives after the time of the wait, and is returned."),
        ],
    ),
    (
        "Payouts",
        "The payments of a batch are the items of a map, two at a time. Each has a key that the bank
recognises for a day. After a batch the workflow continues as the next version of its key. If a
payment is refused, the workflow takes back the other payments of its batch.",
        "payouts.rs",
        [
            (Case::PayoutsPaid, "Three payments in two batches."),
            (Case::PayoutsRefused, "The second payment is refused."),
        ],
    ),
];
