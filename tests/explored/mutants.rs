//! Each rule of the library broken once, the plan that shows it, and the invariant that it breaks.

use std::fmt::Write as _;

use locker::mutants::{Mutant, switch};
use locker_tests::explorer::{ALL, Bounds, Choices, Invariant, Rig};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/mutants.md");

struct Row {
    mutant: Mutant,
    rule: &'static str,
    broken: &'static str,
    scenario: &'static str,
    depth: usize,
    plan: &'static str,
    /// What happens in the plan.
    story: &'static str,
    caught_by: Invariant,
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { mutant: Mutant::NoAttemptCheck, rule: "ends are conditional on the attempt", broken: "they are conditional on the state only", scenario: "2/complete/take-over", depth: 3, plan: "0.0.0.2.1.0.1", story: "an owner wakes up after another took over", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::UnconditionalRelease, rule: "a release is conditional on the attempt", broken: "it deletes whatever is there", scenario: "2/release/take-over", depth: 1, plan: "2.1", story: "an owner lets go after another completed", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::UnconditionalBegin, rule: "a begin is a conditional put", broken: "it puts over whatever is there", scenario: "2/complete", depth: 0, plan: "-", story: "two clients ask", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::TtlFromTheBegin, rule: "unfinished work has no `ttl`", broken: "it has one from its begin on", scenario: "1/complete", depth: 0, plan: "-", story: "a client asks", caught_by: Invariant::NothingExpires },
    Row { mutant: Mutant::TtlOnFailed, rule: "what waits for a person has no `ttl`", broken: "it has one", scenario: "1/fail", depth: 0, plan: "-", story: "the work fails", caught_by: Invariant::NothingExpires },
    Row { mutant: Mutant::UnknownShard, rule: "a token enters a shard that is listed", broken: "it enters another one", scenario: "1/complete", depth: 1, plan: "9", story: "a client dies after its begin", caught_by: Invariant::Visible },
    Row { mutant: Mutant::TakeOverUnseen, rule: "a takeover is conditional on the record that was seen", broken: "it is conditional on any record", scenario: "2/complete/take-over", depth: 2, plan: "0.0.0.2.1", story: "the owner completes between the look and the takeover", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::TakeOverWithoutMargin, rule: "a takeover waits for the allowance for clock skew", broken: "it does not", scenario: "1/complete/take-over", depth: 2, plan: "0.9.1", story: "the due time passed 2 s ago", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::BeginForgetsItself, rule: "a refused begin recognises its own token", broken: "it takes it for another's", scenario: "1/complete", depth: 1, plan: "2", story: "the reply to a begin is lost", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::AttemptOfTheProcess, rule: "each call has an attempt id of its own", broken: "the process has one", scenario: "1/complete", depth: 2, plan: "0.8", story: "a client dies between its work and its end, and asks again", caught_by: Invariant::OneEffect },
    Row { mutant: Mutant::ConflictIsAnAnswer, rule: "work in progress is no answer", broken: "it is read as completed", scenario: "2/complete", depth: 2, plan: "0.0.1", story: "two clients ask", caught_by: Invariant::OneAnswer },
    Row { mutant: Mutant::EndForgetsItself, rule: "a refused end recognises its own success", broken: "it is told as lost", scenario: "1/complete", depth: 2, plan: "0.2", story: "the reply to an end is lost", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::RefusedIsDone, rule: "a refused end of another attempt is lost", broken: "it is told as done", scenario: "2/complete/take-over", depth: 3, plan: "0.0.0.2.1.0.1", story: "an owner wakes up after another took over", caught_by: Invariant::TrueYes },
    Row { mutant: Mutant::SilenceIsNo, rule: "no reply is no answer", broken: "it counts as not applied", scenario: "1/complete", depth: 3, plan: "2.2.2", story: "every reply to a begin is lost", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::ForgetsSilence, rule: "a clear answer does not hide an earlier silence", broken: "it does", scenario: "1/complete", depth: 3, plan: "2.5.5", story: "the reply to a begin is lost, then the table is busy", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::ReadBackIsProof, rule: "reading back proves nothing", broken: "an absent record counts as proof", scenario: "1/complete", depth: 3, plan: "7.0.7.0.0.7", story: "a begin arrives after the look", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::ConflictIsRefusal, rule: "a conflict with a transaction is sent again", broken: "it is read as a refused condition", scenario: "1/release", depth: 2, plan: "0.6", story: "a transaction holds the item", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::OneAnswerKey, rule: "each end has its own key for a large answer", broken: "all ends of a token share one", scenario: "2/complete-large/take-over", depth: 2, plan: "0.1.0.2", story: "an owner stores its answer after another completed", caught_by: Invariant::OneAnswer },
    Row { mutant: Mutant::SilenceIsStored, rule: "a token points to an answer that is surely stored", broken: "no reply counts as stored", scenario: "1/complete-large", depth: 4, plan: "0.1.1.1", story: "every request to store the answer is lost", caught_by: Invariant::OneAnswer },
    Row { mutant: Mutant::DropAnswerInDoubt, rule: "an end in doubt keeps its answer", broken: "the answer is dropped", scenario: "1/complete-large", depth: 5, plan: "0.0.2.2.2", story: "every reply to an end is lost, then it is sent again", caught_by: Invariant::OneAnswer },
];

#[test]
fn every_broken_rule_is_noticed_and_the_whole_library_is_not() {
    let mut rig = Rig::new();
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        assert!(ROWS.iter().any(|row| row.mutant == mutant), "{mutant:?} is in no row");
    }
    for row in ROWS {
        for mutant in [None, Some(row.mutant)] {
            switch(mutant);
            let choices = Choices::from_plan(&row.plan.parse().expect("a plan"));
            let bounds = Bounds { depth: row.depth, fates: ALL };
            let (played, choices) =
                rig.play(row.scenario.parse().expect("a scenario"), choices, bounds, None, true);
            let first = played.violations.first().map(|violation| violation.invariant);
            let expected = mutant.map(|_| row.caught_by);
            if first != expected || choices.plan().to_string() != row.plan {
                missed.push(format!(
                    "{mutant:?} {} {}: {first:?}\n  {}",
                    row.scenario,
                    row.plan,
                    played.trace.join("\n  ")
                ));
            }
        }
    }
    switch(None);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn the_table_in_the_docs_lists_every_mutant() {
    let page = render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert_eq!(written, page, "write it anew: UPDATE_DOCS=1 cargo test -p locker-tests --test explored");
}

fn render() -> String {
    let mut page = INTRODUCTION.to_owned();
    for row in ROWS {
        writeln!(
            page,
            "| {} | {} | {} | **{}** | `{}` | `{}` |",
            row.rule,
            row.broken,
            row.story,
            row.caught_by.as_str(),
            row.scenario,
            row.plan
        )
        .expect("a string");
    }
    page
}

const INTRODUCTION: &str = "\
# The rules, each broken once

A checker that never says no proves nothing. Each row is a rule of the library, a broken variant of it, and the shortest plan of
faults in which the [explorer](reliability.md) notices: the invariant that is broken, the scenario, and the plan, which
`cargo run -p locker-tests --bin explorer -- --scenario SCENARIO --depth 5 --plan PLAN` plays (on the library as it is, which
passes). `cargo test -p locker-tests --test explored` plays each row twice, with the rule and without, and writes
this page (`UPDATE_DOCS=1`). The variants are compiled with the feature `mutants` only, which no product turns on.

| rule | broken: | in the plan | caught by | scenario | plan |
|---|---|---|---|---|---|
";
