//! The second half of `docs/evidence/state-machine.md`.

use std::fmt::Write as _;

use super::{ending, event_page, header_page, report_page, step_page};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/evidence/state-machine.md");
/// Where this half begins; the first one is of tokens.
const BEGINS: &str = "# The states of a workflow, its steps and its messages\n";

const INTRODUCTION: &str = "
A test generates this half from the transitions themselves
(`UPDATE_DOCS=1 cargo test -p lock-token --lib proof`), each event in each state. `·` means that the
event is refused there; after the arrow is the new state, and `=` writes the same state again. A
word without an arrow is the answer to the code or the caller, and nothing is written.

";

const STEP: &str = "
- *Started* may be running; *in doubt* is the same past its due time and the allowance for clock
  skew. *Withdrawn*: surely nothing was done; *freed*: by an operator, under the same version of its
  key or the next.
- A *holder* is the attempt that started the step. Whatever shuts it out changes the attempt or the
  state.
- *Compensation owes*: the act of a compensating workflow on a step in this state.
";

const REPORT: &str = "
- A *report* is an outcome of another attempt than the recorded one, or from outside. Step and
  workflow are written in one transaction.
- An arrow is a write of the step. The workflow is due, unless a driver has it or it is quarantined
  for something else.
- ***Late* next to it**: the outcome gets a separate record and is compensated. ***Twice***: so does
  a second result, and the workflow is quarantined. The same report again is *known*.
- Results are compared as canonical JSON: the order of members makes no difference, the text of a
  number does.
- *Known* and all other words write nothing. One exception: a workflow that is quarantined for the
  step is due. An equal outcome never changes a workflow that ended.
";

const EVENT: &str = "
- A signal writes the event and the workflow in one transaction. It does not look at the clock: the
  record decides.
- *Late* is listed until it is *handled*. If the wait declared a compensation, the compensation runs
  once.
- ***Late* next to it**: another event under the name is listed, and has no compensation.
- A signal of an operator is the one of a sender, of a workflow and an event that are as they were
  shown, with an audit record. An operator does not skip an event whose compensation a driver may be
  running.
- *Waits*, *its value*, *no value*: the answer to the code. *Taken* also depends on the attempt of
  the driver.
";

const HEADER: &str = "
- *Driven*: a driver has it and is not overdue. *Waiting*: for its next run. *Closed*: ended by an
  operator as it was.
- *Late*: a step happened that should not stand. *Settled*: a step in doubt has its outcome, for
  which the workflow may wait.
- *Ended, late event due*: the outcome stands, and the compensation of a late event is due. *Not
  read*: since the query of the driver.
- A *stale* driver, operator or reaper acts on an attempt or a revision that is no longer the stored
  one.
";

const ENDING: &str = "
- A row is the state of one branch of the code, a column is how the code returned. With several
  branches, the graver one decides, in the order: nothing is written, quarantine, fail, retry, wait.
  A failure waits while an effect is at work or in doubt.
- *Retry* and *wait* wake at the earliest time of all branches; a retry waits at least for the
  backoff. If the attempts are exhausted, the workflow is quarantined, or fails if its type
  compensates then.
- Another test checks every pair of branches with every way to return: no pair ends a workflow with
  an unknown effect, and the order of the branches does not matter.
";

const MESSAGE: &str = "
- *Unsent*: it is to be sent; *waiting*: it was received, and its consumer is to process it. A
  message that was sent or processed is deleted, if its record is the record that was taken.
- *Taken*: a relay or a consumer owns it, with the later messages of its subject, until its lease
  ends.
- A dead message blocks the later messages of its subject. An archived message blocks no message.
- Another test walks a subject with the process that committed it, two relays, a broker, an
  operator, time and late requests through these transitions. No message is lost, and no message is
  sent before an earlier message of its subject unless an operator archived or discarded the earlier
  message. Without any of seven rules of the senders, the same walk finds a loss or a wrong order.
";

#[test]
fn the_second_half_of_the_page_is_what_the_transitions_do() {
    let half = format!(
        "{BEGINS}{INTRODUCTION}## A step\n\n{}{STEP}\n## A report of an outcome\n\n{}{REPORT}\n## An event from outside\n\n{}{EVENT}\n## A workflow\n\n{}{HEADER}\n## The end of a run\n\n{}{ENDING}\n## A message\n\n{}{MESSAGE}",
        table(&step_page::table()),
        table(&report_page::table()),
        table(&event_page::table()),
        table(&header_page::table()),
        table(&ending::table()),
        table(&crate::core::message::proof::table()),
    );
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let (first, written) =
        page.split_once(BEGINS).map_or((page.as_str(), ""), |(first, _)| (first, &page[first.len()..]));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let whole = format!("{}\n\n{half}", first.trim_end());
        std::fs::write(PAGE, whole).expect("the page is written");
        return;
    }
    assert!(
        written == half,
        "docs/evidence/state-machine.md is not what the transitions do; if they are right: UPDATE_DOCS=1 cargo test -p lock-token --lib proof"
    );
}

/// Events, and what each makes of each state.
pub(in crate::core) struct Table {
    pub(in crate::core) states: Vec<&'static str>,
    pub(in crate::core) rows: Vec<(&'static str, Vec<String>)>,
}

fn table(table: &Table) -> String {
    let mut text = format!("| | {} |\n|---|", table.states.join(" | "));
    text.push_str(&"---|".repeat(table.states.len()));
    text.push('\n');
    for (event, cells) in &table.rows {
        writeln!(text, "| {event} | {} |", cells.join(" | ")).expect("a string");
    }
    text
}

/// A cell: the new state, or what refused it.
pub(in crate::core) fn cell(state: &str, then: Result<&str, String>) -> String {
    match then {
        Ok(then) if then == state => "=".to_owned(),
        Ok(then) => format!("→ **{then}**"),
        Err(answer) => answer,
    }
}
