//! The table as a page of the docs.

use std::fmt::Write as _;

use super::table::{ACTIONS, Action, Condition, STATES, Table};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/evidence/state-machine.md");

/// Where the half of workflows begins.
const SECOND: &str = "# The states of a workflow, its steps and its messages";

/// Compare the page with the table, or write it where `UPDATE_DOCS` is set.
pub(super) fn compare(table: &Table) {
    let page = render(table);
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    // The second half is printed by a test of the library.
    let (first, second) = written.split_once(SECOND).unwrap_or((&written, ""));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let whole = if second.is_empty() { page } else { format!("{page}\n{SECOND}{second}") };
        std::fs::write(PAGE, whole).expect("the page is written");
        return;
    }
    assert_eq!(
        first.trim_end(),
        page.trim_end(),
        "docs/evidence/state-machine.md is not what the library does; if the library is right: UPDATE_DOCS=1 cargo test -p locker-tests --test model"
    );
}

fn render(table: &Table) -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("| |");
    for state in STATES {
        write!(page, " {} |", name(state)).expect("a string");
    }
    page.push_str("\n|---|");
    page.push_str(&"---|".repeat(STATES.len()));
    page.push('\n');
    for action in ACTIONS {
        write!(page, "| {} |", verb(action)).expect("a string");
        for state in STATES {
            let cell = match table.cells.get(&(action, state)) {
                None => "·".to_owned(),
                Some(outcome) if outcome.then == state => {
                    if outcome.told.is_empty() {
                        "=".to_owned()
                    } else {
                        outcome.told.to_owned()
                    }
                }
                Some(outcome) => {
                    format!("{} → **{}**", outcome.told, name(outcome.then)).trim_start().to_owned()
                }
            };
            write!(page, " {cell} |").expect("a string");
        }
        page.push('\n');
    }
    page.push_str("| *listed by* |");
    for state in STATES {
        let listed = match table.listed[&state] {
            "missing" => "`scan`, `overdue`",
            "held" => "`held`",
            _ => "",
        };
        write!(page, " {listed} |").expect("a string");
    }
    page.push_str(AFTERWORD);
    page
}

const INTRODUCTION: &str = "\
# The states of a token

A test generates this page from the library: each action in each state, on a real engine
(`UPDATE_DOCS=1 cargo test -p locker-tests --test model`). The test fails when the page and the
library differ.

A cell shows the outcome that the caller gets and, after the arrow, the new state of the token;
without an arrow the state does not change. `·` cannot occur, `=` changes nothing.

";

const AFTERWORD: &str = "

- *Owner*: its attempt is in the record. *Late owner*: began the token once; since then another
  attempt took it over, and brought it to the state of the column.
- *Overdue* is past the expected completion and the allowance for clock skew
  (`Settings::max_clock_skew`); *expired* is completed and past its `ttl` and that allowance.
  Between the expected completion and the end of the allowance a token is listed and cannot be taken
  over.
- *In doubt*: its owner ended without knowing whether the work happened, before the expected
  completion. It is listed at once, and can be taken over only when it would have been without the
  doubt; from then on it counts as overdue.
- *Refused*: the verb is not for this state, and nothing was written. `correct` is for answers that
  an operator gave, which have no separate column.
- *Taking over* is a choice of the caller (`BeginBuilder::take_over_after`); here with a grace of
  zero.

The same test explores everything that three actors, an operator, time, and DynamoDB's TTL can do
according to this table, with crashes between any two steps, and checks every reachable state: at
most one effect for a token without takeovers; the same answer for every caller that gets one; no
caller that got *done* with an answer other than the stored one; nothing unfinished that has neither
an owner at work nor a listing once it is overdue. For requests in flight, see the
[explorer](reliability.md).
";

const fn name(state: Condition) -> &'static str {
    match state {
        Condition::Absent => "absent",
        Condition::InProgress => "in progress",
        Condition::Overdue => "overdue",
        Condition::InDoubt => "in doubt",
        Condition::Completed => "completed",
        Condition::Failed => "failed",
        Condition::Held => "held",
        Condition::Released => "released by an operator",
        Condition::Expired => "expired",
    }
}

const fn verb(action: Action) -> &'static str {
    match action {
        Action::Begin => "`begin`",
        Action::TakeOver => "`begin`, taking over",
        Action::Complete => "owner: `complete`",
        Action::Fail => "owner: `fail`",
        Action::Hold => "owner: `hold`",
        Action::Release => "owner: `release`",
        Action::Doubt => "owner: `leave_in_doubt`",
        Action::Extend => "owner: `extend`",
        Action::LateComplete => "late owner: `complete`",
        Action::LateFail => "late owner: `fail`",
        Action::LateHold => "late owner: `hold`",
        Action::LateRelease => "late owner: `release`",
        Action::LateDoubt => "late owner: `leave_in_doubt`",
        Action::LateExtend => "late owner: `extend`",
        Action::Resolve => "operator: `resolve`",
        Action::ResolveRunning => "operator: `resolve_running`",
        Action::Correct => "operator: `correct`",
        Action::Close => "operator: `close`",
        Action::ReleaseByHand => "operator: `release`",
        Action::ReleaseRunning => "operator: `release_running`",
        Action::ReleaseCompleted => "operator: `release_completed`",
        Action::FallDue => "*the expected completion passes*",
        Action::Expire => "*the retention passes*",
        Action::Forget => "*DynamoDB's TTL*",
    }
}
