//! The scenarios as a page of the docs: what each way through them asks for, in order, and what a death there leads to.

use std::fmt::Write as _;

use locker_tests::explorer::Fate;
use locker_tests::scenarios::{Answer, CallFate, Case, Fault, Plan, Played, Rig};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scenarios.md");

/// Compare the page with what the code does, or write it where `UPDATE_DOCS` is set.
pub(super) fn compare() {
    let page = render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert_eq!(
        written, page,
        "docs/scenarios.md is not what the scenarios do; if they are right: UPDATE_DOCS=1 cargo test -p locker-tests --test scenarios"
    );
}

fn render() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (title, about, file, paths) in SCENARIOS {
        write!(page, "\n## {title}\n\n{about} [The code](../tests/scenarios/{file}).\n").expect("a string");
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
        let (_, told) = line.split_once(": ").expect("who, and what");
        let (fault, shown) = if line.starts_with('c') {
            calls += 1;
            (Plan::new(case).with(calls, Fault::Call(CallFate::DiesAfter)), call(told, case))
        } else {
            exchanges += 1;
            if exchanges > well.exchanges.0 {
                break;
            }
            let died = Fault::Exchange(Fate::CrashAfter);
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

/// Without the key of the play.
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
        _ if played.parked => "parked",
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
# Five scenarios

Five workflows to copy, each with a provider that keeps its own books. This page is written by a test from what the code
does (`UPDATE_DOCS=1 cargo test -p locker-tests --test scenarios`), and the test fails when the page and the code differ.

Each line is a request. `driver ──▶` goes to DynamoDB: `header` is the workflow, `step/…` the recovery point of a step,
`undo/…` that of its undoing; the rest are rows and messages of the scenario. `provider ◀──` goes outside. The last word of a
line is measured: **what becomes of the workflow if its driver dies right after this request**, and the completers go on.

What a crash means depends on the kind of step:

| step | dies before its record | because |
|---|---|---|
| `step` | it is asked again | asking twice is harmless |
| `once`, the provider recognises its key | sent again under the same key | the provider does it once |
| `once` with a probe | the probe says how it ended, or nobody knows yet | it is never sent again on a guess |
| `once` with neither | parked: a person looks at the provider's books | the same |
| `atomic` | nothing happened, or all of it | rows, messages and record are one transaction |

The same scenarios are played with every fault at every request, with an operator who cancels before each request, with a driver
that stands still at each while others go on, with two callers at once, and with several faults by chance; and with real
processes that are killed. After each play the books are compared with the rows and with what the caller was told.
";

type Scenario = (&'static str, &'static str, &'static str, [(Case, &'static str); 2]);

const SCENARIOS: [Scenario; 5] = [
    (
        "Contract funding",
        "An account at a bank is opened once for a contract, whichever workflow asks; what the bank refuses is asked anew under the next \
version of the key. Each funding makes pending entries, marks the row released, and posts the entries; pending entries are \
archived if it cannot go on.",
        "funding.rs",
        [
            (Case::FundingPaid, "Two fundings."),
            (Case::FundingRefused, "The second is refused. The first is posted, so it stays."),
        ],
    ),
    (
        "Purchase",
        "The order and the stock are taken in one transaction, the card is charged under a key that the provider recognises for a day, \
and the order is finished together with the message to the packers. Nothing left is an answer, and no money is asked for.",
        "purchase.rs",
        [
            (Case::PurchaseBought, "Bought."),
            (Case::PurchaseDeclined, "The card is declined, and the stock is given back."),
        ],
    ),
    (
        "Seat reservation",
        "The wallet recognises no keys and can be asked what it did. A charge that is not found may still come, so it is not sent again: \
after some attempts a person looks, or has it undone. If it comes after that with the driver that sent it, it is refunded once.",
        "seats.rs",
        [
            (Case::SeatsSold, "Sold."),
            (Case::SeatsPoor, "The wallet is short of money, and the seat is free again."),
        ],
    ),
    (
        "Shipment",
        "The address is checked, labels are printed under a key that the carrier recognises, and invoice, order, tracking and messages are \
one transaction. The answer is the response to every retry of the request; another request under its key is a mismatch.",
        "shipment.rs",
        [
            (Case::ShipmentSent, "Sent."),
            (Case::ShipmentClosed, "The order was closed meanwhile, and the labels are voided."),
        ],
    ),
    (
        "Order",
        "One charge at a provider that recognises nothing and cannot be asked: at most once, and a person where nobody knows.",
        "order.rs",
        [(Case::OrderCharged, "Charged."), (Case::OrderDeclined, "Declined.")],
    ),
];
