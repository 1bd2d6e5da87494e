//! The table as a page of the docs.

use std::fmt::Write as _;

use super::table::{ACTIONS, Action, STATES, Table, TokenState};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/state-machine.md");

/// Compare the page with the table, or write it where `UPDATE_DOCS` is set.
pub(super) fn compare(table: &Table) {
    let page = render(table);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert_eq!(
        written, page,
        "docs/state-machine.md is not what the library does; if the library is right: UPDATE_DOCS=1 cargo test -p locker-tests --test model"
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
            "failed" => "`failed`",
            _ => "",
        };
        write!(page, " {listed} |").expect("a string");
    }
    page.push_str(AFTERWORD);
    page
}

const INTRODUCTION: &str = "\
# The states of a token

This page is written by a test from what the library does: each action in each state, on a real engine
(`UPDATE_DOCS=1 cargo test -p locker-tests --test model`). The test fails when the page and the library differ.

A cell says what the caller is told and, after the arrow, what the token has become; without an arrow nothing has
changed. `·` cannot occur, `=` changes nothing.

";

const AFTERWORD: &str = "

- *Holder*: whose attempt the record bears. *Late owner*: began the token once; since then another attempt took it over, and
  brought it to the state of the column.
- *Overdue* is past the due time and the allowance for clock skew (`Settings::max_clock_skew`); *expired* is completed and past
  its `ttl` and that allowance. Between a due time and the end of the allowance a token is listed and cannot be taken over.
- *Taking over* is a choice of the caller (`Token::take_over_after`); here with a grace of zero.

The same test walks over everything that three actors, a person, time, and DynamoDB's deleter can do by this table, with
crashes between any two steps, and judges every state that can be reached: at most one effect for a token where nobody takes
over; one answer for everybody who is told one; nobody told *done* whose answer is not the stored one; nothing unfinished
that is neither held nor listed once it is due. What becomes of the requests on their way, the
[explorer](reliability.md) shows.
";

const fn name(state: TokenState) -> &'static str {
    match state {
        TokenState::Absent => "absent",
        TokenState::InProgress => "in progress",
        TokenState::Overdue => "overdue",
        TokenState::Completed => "completed",
        TokenState::CompletedErr => "completed with an error",
        TokenState::Failed => "failed",
        TokenState::Released => "released by hand",
        TokenState::Expired => "expired",
    }
}

const fn verb(action: Action) -> &'static str {
    match action {
        Action::Begin => "`begin`",
        Action::TakeOver => "`begin`, taking over",
        Action::Complete => "holder: `complete`",
        Action::CompleteErr => "holder: `complete_err`",
        Action::Fail => "holder: `fail`",
        Action::Release => "holder: `release`",
        Action::Extend => "holder: `extend`",
        Action::LateComplete => "late owner: `complete`",
        Action::LateCompleteErr => "late owner: `complete_err`",
        Action::LateFail => "late owner: `fail`",
        Action::LateRelease => "late owner: `release`",
        Action::LateExtend => "late owner: `extend`",
        Action::Resolve => "person: `resolve`",
        Action::ReleaseByHand => "person: `release`",
        Action::FallDue => "*the due time passes*",
        Action::Expire => "*the retention passes*",
        Action::Forget => "*DynamoDB's TTL*",
    }
}
