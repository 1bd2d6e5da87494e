//! Each rule of the library broken once, the plan that shows it, and the invariant that it breaks.

use locker::mutants::{Mutant, switch};
use locker_tests::explorer::{ALL, Bounds, Choices, Invariant, Rig};

use super::scenes::SCENES;
use super::workflow_mutants::WORKFLOW_ROWS;
use super::workflow_scenes::WORKFLOW_SCENES;

pub(super) struct Row {
    mutant: Mutant,
    pub(super) rule: &'static str,
    pub(super) broken: &'static str,
    pub(super) scenario: &'static str,
    depth: usize,
    pub(super) plan: &'static str,
    /// The events of the plan.
    pub(super) story: &'static str,
    pub(super) caught_by: Invariant,
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    Row { mutant: Mutant::NoAttemptCheck, rule: "ends are conditional on the attempt", broken: "they are conditional on the state only", scenario: "2/complete/take-over", depth: 3, plan: "0.0.0.2.1.0.1", story: "an owner wakes up after another took over", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::UnconditionalRelease, rule: "a release is conditional on the attempt", broken: "it deletes whatever is there", scenario: "2/release/take-over", depth: 1, plan: "2.1", story: "an owner releases after another completed", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::UnconditionalBegin, rule: "a begin is a conditional put", broken: "it puts over whatever is there", scenario: "2/complete", depth: 0, plan: "-", story: "two clients begin", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::TtlFromTheBegin, rule: "unfinished work has no `ttl`", broken: "it has one from its begin on", scenario: "1/complete", depth: 0, plan: "-", story: "a client begins", caught_by: Invariant::NothingExpires },
    Row { mutant: Mutant::TtlOnFailed, rule: "a token that waits for an operator has no `ttl`", broken: "it has one", scenario: "1/hold", depth: 0, plan: "-", story: "the work fails", caught_by: Invariant::NothingExpires },
    Row { mutant: Mutant::UnknownShard, rule: "a token enters a shard that listings read", broken: "it enters another one", scenario: "1/complete", depth: 1, plan: "9", story: "a client dies after its begin", caught_by: Invariant::Visible },
    Row { mutant: Mutant::TakeOverUnseen, rule: "a takeover is conditional on the record that was seen", broken: "it is conditional on any record", scenario: "2/complete/take-over", depth: 2, plan: "0.0.0.2.1", story: "the owner completes between the read and the takeover", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::TakeOverWithoutMargin, rule: "a takeover waits for the allowance for clock skew", broken: "it does not", scenario: "1/complete/take-over", depth: 2, plan: "0.9.1", story: "the expected completion passed 2 s ago", caught_by: Invariant::OwnRecord },
    Row { mutant: Mutant::BeginForgetsItself, rule: "a refused begin recognises its own token", broken: "it reads it as another's", scenario: "1/complete", depth: 1, plan: "2", story: "the reply to a begin is lost", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::AttemptOfTheProcess, rule: "each call has its own attempt id", broken: "the process has one", scenario: "1/complete", depth: 2, plan: "0.8", story: "a client dies between its work and its end, and begins again", caught_by: Invariant::OneEffect },
    Row { mutant: Mutant::ConflictIsAnAnswer, rule: "work in progress is not an answer", broken: "it is read as completed", scenario: "2/complete", depth: 2, plan: "0.0.1", story: "two clients begin", caught_by: Invariant::OneAnswer },
    Row { mutant: Mutant::EndForgetsItself, rule: "a refused end recognises its own success", broken: "it is reported as lost", scenario: "1/complete", depth: 2, plan: "0.2", story: "the reply to an end is lost", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::RefusedIsDone, rule: "a refused end of another attempt is lost", broken: "it is reported as done", scenario: "2/complete/take-over", depth: 3, plan: "0.0.0.2.1.0.1", story: "an owner wakes up after another took over", caught_by: Invariant::TrueYes },
    Row { mutant: Mutant::SilenceIsNo, rule: "no reply means unknown", broken: "it counts as not applied", scenario: "1/complete", depth: 3, plan: "2.2.2", story: "every reply to a begin is lost", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::ForgetsSilence, rule: "a clear reply does not hide an earlier lost one", broken: "it does", scenario: "1/complete", depth: 3, plan: "2.5.5", story: "the reply to a begin is lost, then the table is busy", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::ReadBackIsProof, rule: "an absent record proves nothing", broken: "it counts as proof that nothing was applied", scenario: "1/complete", depth: 3, plan: "7.0.7.0.0.7", story: "a begin arrives after the read", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::ConflictIsRefusal, rule: "a conflict with a transaction is sent again", broken: "it is read as a refused condition", scenario: "1/release", depth: 2, plan: "0.6", story: "a transaction holds the item", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::OneAnswerKey, rule: "each end has its own key for a large answer", broken: "all ends of a token share one", scenario: "2/complete-large/take-over", depth: 2, plan: "0.1.0.2", story: "an owner stores its answer after another completed", caught_by: Invariant::OneAnswer },
    Row { mutant: Mutant::SilenceIsStored, rule: "a token refers only to an answer that is certainly stored", broken: "no reply counts as stored", scenario: "1/complete-large", depth: 4, plan: "0.1.1.1", story: "every request to store the answer is lost", caught_by: Invariant::OneAnswer },
    Row { mutant: Mutant::DropAnswerInDoubt, rule: "an end in doubt keeps its answer", broken: "the answer is dropped", scenario: "1/complete-large", depth: 5, plan: "0.0.2.2.2", story: "every reply to an end is lost, then it is sent again", caught_by: Invariant::OneAnswer },
    Row { mutant: Mutant::UnavailableIsNo, rule: "a 503 means unknown, too", broken: "it counts as not applied", scenario: "1/complete", depth: 3, plan: "11.11.11", story: "a begin is applied, and every reply is a 503", caught_by: Invariant::TrueNo },
    Row { mutant: Mutant::ExtendComesNearer, rule: "an extension never brings the due time nearer", broken: "it sets what it was asked for", scenario: "1/extend", depth: 6, plan: "0.7.0.1.0.1.0.0.1", story: "an extension arrives after a longer one", caught_by: Invariant::NeverNearer },
    Row { mutant: Mutant::DoubtComesDue, rule: "takeovers of a token in doubt count from the due time that it had", broken: "they count from the doubt", scenario: "1/doubt", depth: 0, plan: "-", story: "the work ends in doubt", caught_by: Invariant::NeverNearer },
];

#[test]
fn every_broken_rule_is_noticed_and_the_whole_library_is_not() {
    let mut rig = Rig::new();
    let mut missed = Vec::new();
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
fn every_scene_shows_its_broken_rule_and_passes_on_the_whole_library() {
    let mut missed = Vec::new();
    for scene in SCENES.iter().chain(WORKFLOW_SCENES) {
        for mutant in [None, Some(scene.mutant)] {
            switch(mutant);
            let played = (scene.play)();
            if played.is_ok() != mutant.is_none() {
                missed.push(format!("{mutant:?} of {:?}: {played:?}", scene.mutant));
            }
        }
    }
    switch(None);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_mutant_is_caught_somewhere() {
    for mutant in Mutant::ALL {
        let rows = ROWS.iter().map(|row| row.mutant).chain(WORKFLOW_ROWS.iter().map(|row| row.mutant));
        let rows = rows.chain(SCENES.iter().chain(WORKFLOW_SCENES).map(|scene| scene.mutant));
        assert_eq!(rows.filter(|other| *other == mutant).count(), 1, "{mutant:?}");
    }
}
