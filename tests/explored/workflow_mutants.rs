//! Each rule of workflows broken once, the plan that shows it, and the invariant that it breaks.

use locker::mutants::{Mutant, switch};
use locker_tests::explorer::{Bounds, Choices, FEW, Invariant, Playable as _, WorkflowRig, WorkflowScenario};

pub(super) struct WorkflowRow {
    pub(super) mutant: Mutant,
    pub(super) rule: &'static str,
    pub(super) broken: &'static str,
    pub(super) scenario: &'static str,
    /// How often something goes otherwise than usual.
    depth: usize,
    pub(super) plan: &'static str,
    /// What happens in the plan.
    pub(super) story: &'static str,
    pub(super) caught_by: Invariant,
}

#[rustfmt::skip]
pub(super) const WORKFLOW_ROWS: &[WorkflowRow] = &[
    WorkflowRow { mutant: Mutant::CompensatesInOrder, rule: "steps are compensated in the reverse order of their starts", broken: "in the order of their starts", scenario: "1/undo", depth: 0, plan: "-", story: "a workflow fails after two steps", caught_by: Invariant::Reverse },
    WorkflowRow { mutant: Mutant::CompensatesPerName, rule: "a shared step is one effect under all its names", broken: "it is compensated for each name", scenario: "1/two-names", depth: 0, plan: "-", story: "a workflow asks for one key under two names, and fails", caught_by: Invariant::OneCompensation },
    WorkflowRow { mutant: Mutant::KeepsTheVersion, rule: "what was compensated runs again under the next version of its key", broken: "under the same version", scenario: "2/shared", depth: 0, plan: "-", story: "two workflows share a step, and each fails", caught_by: Invariant::OneCompensation },
    WorkflowRow { mutant: Mutant::StepWithoutMargin, rule: "a step's time ends with the allowance for clock skew", broken: "without it", scenario: "1/cancel/soon", depth: 1, plan: "0.0.0.5", story: "a driver dies in a call, and an operator cancels 32 s later", caught_by: Invariant::NotEarly },
    WorkflowRow { mutant: Mutant::CancelsTheBusy, rule: "a cancel waits for the step's time", broken: "it does not", scenario: "1/cancel", depth: 1, plan: "0.0.0.9", story: "an operator cancels while a driver is in a call", caught_by: Invariant::NotEarly },
    WorkflowRow { mutant: Mutant::SettledAnyway, rule: "a compensation that found nothing does not settle a step in doubt", broken: "it does", scenario: "1/cancel", depth: 1, plan: "0.0.0.10", story: "a call takes place after the workflow was cancelled", caught_by: Invariant::Accounted },
    WorkflowRow { mutant: Mutant::FenceSkipped, rule: "after a start was written, a driver checks that it still has the workflow", broken: "it does not", scenario: "1/cancel", depth: 1, plan: "0.7", story: "a driver sleeps before a start, and an operator cancels", caught_by: Invariant::NoLooseEnd },
    WorkflowRow { mutant: Mutant::ReaperForgetsEvidence, rule: "a workflow with a step in doubt is not deleted", broken: "it is", scenario: "1/cancel", depth: 1, plan: "0.0.0.0.0.0.0.0.3", story: "the start of a step arrives after the cancellation", caught_by: Invariant::NothingExpires },
    WorkflowRow { mutant: Mutant::RefusalForgotten, rule: "a refusal of an atomic step is recorded", broken: "it is not", scenario: "1/refused", depth: 1, plan: "0.0.0.3", story: "a driver dies after a refusal, and the stock is refilled", caught_by: Invariant::Stands },
    WorkflowRow { mutant: Mutant::WithdrawnIsDone, rule: "a start that was withdrawn is none", broken: "the step counts as completed", scenario: "1/undo", depth: 1, plan: "0.0.0.0.0.0.0.4", story: "the provider is too busy", caught_by: Invariant::TrueYes },
    WorkflowRow { mutant: Mutant::InDoubtIsFree, rule: "a step in doubt is not started anew", broken: "it is", scenario: "1/undo", depth: 1, plan: "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3", story: "no reply comes to a compensation", caught_by: Invariant::OneCompensation },
    WorkflowRow { mutant: Mutant::ProbeUnknownIsNo, rule: "a probe without an answer proves nothing", broken: "it counts as *not done*", scenario: "1/probe", depth: 1, plan: "0.0.0.0.0.0.0.3", story: "a call is on its way when the provider is asked about it", caught_by: Invariant::OneEffect },
    WorkflowRow { mutant: Mutant::AnswersForOthers, rule: "a workflow compensates only a shared step that it answers for", broken: "any that it has a pointer to", scenario: "2/shared/cancel", depth: 1, plan: "0.0.0.0.0.3", story: "another workflow takes over a shared step, and then the first one is cancelled", caught_by: Invariant::Accounted },
    WorkflowRow { mutant: Mutant::TakeOverRenewsTheKey, rule: "a takeover does not renew the time for which the provider recognises the key", broken: "it does", scenario: "1/window", depth: 2, plan: "0.0.0.0.3.0.0.0.0.0.0.0.0.0.0.3", story: "a step is taken over, and its outcome is not recorded until the provider has forgotten the key", caught_by: Invariant::OneEffect },
    WorkflowRow { mutant: Mutant::RecognisesToTheEnd, rule: "a key is not used again shortly before the provider forgets it", broken: "it is used to the end", scenario: "1/window", depth: 2, plan: "0.0.0.0.3.0.0.0.0.0.0.0.0.0.0.3", story: "a step is taken over 29 s before the provider forgets its key", caught_by: Invariant::OneEffect },
    WorkflowRow { mutant: Mutant::TrustsALaterFailure, rule: "a later failure proves nothing about an earlier attempt in doubt", broken: "it is recorded", scenario: "1/undo/recognised", depth: 2, plan: "0.0.0.0.0.0.0.1.0.7", story: "no reply comes to a call, and the next one is refused", caught_by: Invariant::Accounted },
    WorkflowRow { mutant: Mutant::WithdrawsInDoubt, rule: "a start over one in doubt leaves it in doubt", broken: "it is withdrawn as if nothing had been done", scenario: "2/take-over/cancel", depth: 2, plan: "0.0.0.6.0.0.0.0.0.1", story: "a driver dies in a call, and the one that takes the step over cannot check that it has the workflow", caught_by: Invariant::Accounted },
    WorkflowRow { mutant: Mutant::DropsFormerOutcomes, rule: "a late outcome counts whichever attempt the record is of", broken: "only that of the recorded attempt does", scenario: "2/take-over/cancel", depth: 2, plan: "0.0.0.10.0.0.0.0.0.2", story: "the first driver's call takes place after another took the step over and the workflow was cancelled", caught_by: Invariant::Accounted },
    WorkflowRow { mutant: Mutant::CompensatesUnderTheSameAttempt, rule: "compensation begins under another attempt", broken: "under the same", scenario: "1/side-by-side/declined", depth: 2, plan: "0.0.4.0.0.0.0.0.7", story: "a commit arrives after the workflow's steps were read to be compensated", caught_by: Invariant::NoLooseEnd },
    WorkflowRow { mutant: Mutant::EndsSecond, rule: "a compensation that was begun ends before a late outcome is compensated", broken: "the late one is compensated at once", scenario: "1/cancel", depth: 2, plan: "0.0.0.0.8.0.0.0.0.0.0.0.0.0.0.0.0.0.3", story: "the compensation of a cancelled step is in doubt when the step's outcome comes", caught_by: Invariant::OneCompensation },
    WorkflowRow { mutant: Mutant::LateLeavesTheDriver, rule: "a late outcome stops a driver that compensates", broken: "that one ends the workflow", scenario: "1/cancel", depth: 2, plan: "0.0.0.10.0.0.0.0.0.0.0.0.0.0.0.0.0.7", story: "an outcome comes between the compensation and the workflow's end", caught_by: Invariant::NoLooseEnd },
    WorkflowRow { mutant: Mutant::TellsInTwoWrites, rule: "a late outcome and its workflow's header are written together", broken: "one after the other", scenario: "1/cancel", depth: 2, plan: "0.0.0.10.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3", story: "a driver tells its outcome after the cancellation, and its second write is lost", caught_by: Invariant::NoLooseEnd },
    WorkflowRow { mutant: Mutant::StartsOverCancelled, rule: "a shared step that another workflow cancelled in doubt is not started anew", broken: "it is", scenario: "2/shared/after", depth: 2, plan: "0.0.0.0.6.0.0.0.0.0.0.0.0.0.0.0.0.0.5", story: "drivers die in a call and after the step was cancelled, and another workflow asks for it before it is compensated", caught_by: Invariant::Accounted },
    WorkflowRow { mutant: Mutant::AnswersWithoutACompensation, rule: "only a workflow with a compensation comes to answer for a shared step", broken: "every one that starts it does", scenario: "2/shared/taker", depth: 2, plan: "0.0.0.0.6.0.0.0.0.0.0.0.7", story: "a workflow without a compensation takes over a shared step, and both are cancelled", caught_by: Invariant::Accounted },
    WorkflowRow { mutant: Mutant::SendsTheUncommitted, rule: "a message is sent after its step is committed", broken: "before", scenario: "1/tell/cancel", depth: 1, plan: "0.0.0.0.0.0.0.0.0.0.0.0.3", story: "the commit of a step is lost, and the workflow is cancelled", caught_by: Invariant::Sent },
    WorkflowRow { mutant: Mutant::DeletesBeforeItSends, rule: "a message is deleted after it was sent", broken: "before", scenario: "1/tell", depth: 1, plan: "0.0.0.0.0.0.0.2", story: "a message is lost on its way to the broker", caught_by: Invariant::Sent },
    WorkflowRow { mutant: Mutant::SilenceIsSent, rule: "a message that no reply came to is sent again", broken: "it counts as sent", scenario: "1/tell", depth: 1, plan: "0.0.0.0.0.2", story: "a message is lost on its way to the broker", caught_by: Invariant::Sent },
    WorkflowRow { mutant: Mutant::DriverHoldsUpNothing, rule: "a driver sends no message of a subject behind one that was not sent", broken: "it does", scenario: "1/tell", depth: 1, plan: "0.0.2", story: "the first of two messages is lost on its way to the broker", caught_by: Invariant::InOrder },
    WorkflowRow { mutant: Mutant::RelayHoldsUpNothing, rule: "a relay sends no message of a subject behind one that is dead", broken: "it does", scenario: "1/tell", depth: 1, plan: "0.0.7", story: "the broker refuses the first of two messages", caught_by: Invariant::InOrder },
    WorkflowRow { mutant: Mutant::InboxForgets, rule: "an inbox takes a message only if it does not remember it", broken: "it takes any", scenario: "1/tell", depth: 1, plan: "0.0.0.0.0.0.3", story: "a message that was sent cannot be deleted, and is sent again", caught_by: Invariant::TakenOnce },
    WorkflowRow { mutant: Mutant::ReaperForgetsMessages, rule: "a workflow with a message that is not sent is not deleted", broken: "it is", scenario: "1/tell", depth: 1, plan: "0.0.0.0.0.7", story: "the broker refuses a message", caught_by: Invariant::NothingExpires },
];

#[test]
fn every_broken_rule_of_workflows_is_noticed_and_the_whole_library_is_not() {
    let mut rig = WorkflowRig::default();
    let mut missed = Vec::new();
    for row in WORKFLOW_ROWS {
        for mutant in [None, Some(row.mutant)] {
            switch(mutant);
            let choices = Choices::from_plan(&row.plan.parse().expect("a plan"));
            let bounds = Bounds { depth: row.depth, fates: FEW };
            let scenario: WorkflowScenario = row.scenario.parse().expect("a scenario");
            let (played, choices) = scenario.play(&mut rig, choices, bounds, None, true);
            let first = played.violations.first().map(|violation| violation.invariant);
            let expected = mutant.map(|_| row.caught_by);
            if first != expected || choices.plan().to_string() != row.plan {
                missed.push(format!(
                    "{mutant:?} of {:?} {} {}: {first:?}\n  {}",
                    row.mutant,
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
