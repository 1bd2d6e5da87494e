//! Finding the shortest plan that shows a broken rule of workflows, for the table:
//! `FIND_PLANS=all cargo test -p locker-tests --test explored -- --nocapture shortest`, or the names of some mutants.
//!
//! A walk to depth 2 takes minutes. `FIND_IN` names the scenarios to walk over, and `FIND_FROM` a plan to begin a walk of that depth
//! with: what follows upon it is played first. `FIND_DEPTH` is how deep it goes.

use locker::mutants::{Mutant, switch};
use locker_tests::explorer::{
    Been, Bounds, Choices, FEW, Plan, Playable as _, Violation, WorkflowRig, WorkflowScenario,
    workflow_scenarios,
};

use super::workflow_mutants::WORKFLOW_ROWS;

/// How often something may go otherwise than usual.
const DEEPEST: usize = 2;
/// A deeper walk is not worth more than this.
const MOST: usize = 30_000;

fn walk(rig: &mut WorkflowRig, scenario: WorkflowScenario, depth: usize) -> Option<(Plan, Violation)> {
    let mut been = Been::default();
    let from = std::env::var("FIND_FROM").unwrap_or_else(|_| "-".to_owned());
    let mut choices = Choices::from_plan(&from.parse().expect("a plan"));
    for _ in 0..MOST {
        let bounds = Bounds { depth, fates: FEW };
        let (played, after) = scenario.play(rig, choices, bounds, Some(&mut been), false);
        choices = after;
        if let Some(violation) = played.violations.into_iter().next() {
            return Some((choices.plan(), violation));
        }
        if !choices.advance() {
            return None;
        }
    }
    None
}

fn shortest(
    rig: &mut WorkflowRig,
    all: &[WorkflowScenario],
) -> Option<(usize, WorkflowScenario, Plan, Violation)> {
    let deepest = std::env::var("FIND_DEPTH").map_or(DEEPEST, |depth| depth.parse().expect("a number"));
    let least = if std::env::var_os("FIND_FROM").is_some() { DEEPEST } else { 0 };
    (least..=deepest).find_map(|depth| {
        all.iter().find_map(|scenario| {
            walk(rig, *scenario, depth).map(|(plan, violation)| (depth, *scenario, plan, violation))
        })
    })
}

#[test]
fn the_shortest_plan_for_each_broken_rule_of_workflows_can_be_found() {
    let Ok(named) = std::env::var("FIND_PLANS") else { return };
    let all: Vec<_> = workflow_scenarios(1).into_iter().chain(workflow_scenarios(2)).collect();
    let all: Vec<_> = match std::env::var("FIND_IN") {
        Ok(names) => names.split(' ').map(|name| name.parse().expect("a scenario")).collect(),
        Err(_) => all,
    };
    let is_named = |mutant: &Mutant| {
        let name = format!("{mutant:?}");
        let in_table = WORKFLOW_ROWS.iter().any(|row| row.mutant == *mutant);
        (named == "all" && in_table) || named.split(' ').any(|named| named == name)
    };
    let mut rig = WorkflowRig::default();
    for mutant in Mutant::ALL.into_iter().filter(is_named) {
        switch(Some(mutant));
        match shortest(&mut rig, &all) {
            None => println!("{mutant:?}: none"),
            Some((depth, scenario, plan, violation)) => {
                println!("{mutant:?}: {scenario}, depth {depth}, plan {plan}: {violation}");
            }
        }
        switch(None);
    }
}
