//! Workflows under plans of faults to a small depth. Deeper ones:
//! `cargo run --release -p locker-tests --bin explorer -- --workflows --clients 2 --depth 2 --few`.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic)]

use locker_tests::explorer::{
    ALL, Bounds, Explored, FEW, WorkflowScenario, endings, explore, explore_random, workflow_scenarios,
};

fn holds(explored: &[Explored<WorkflowScenario>], least: u64) {
    for Explored { scenario, plans, broken, .. } in explored {
        if let Some((plan, violation)) = broken {
            panic!("{violation}: --workflows --scenario {scenario} --plan {plan}");
        }
        assert!(*plans >= least, "{scenario}: only {plans} plans");
    }
}

#[test]
fn one_thing_goes_wrong_with_one_driver() {
    let named = ["1/two-names", "1/refused", "1/cancel"];
    let all = named.map(|name| name.parse().expect("a scenario"));
    holds(&explore(&all, Bounds { depth: 1, fates: FEW }, true, |_| ()), 40);
}

#[test]
fn one_thing_goes_wrong_and_another_driver_comes() {
    let named = ["2/take-over/probe", "2/take-over/cancel"];
    let all = named.map(|name| name.parse().expect("a scenario"));
    holds(&explore(&all, Bounds { depth: 1, fates: FEW }, true, |_| ()), 40);
}

#[test]
fn one_thing_goes_wrong_with_a_message() {
    let named = ["1/tell", "1/tell/redrive", "1/tell/hear", "2/tell/relays"];
    let all = named.map(|name| name.parse().expect("a scenario"));
    holds(&explore(&all, Bounds { depth: 1, fates: FEW }, true, |_| ()), 40);
}

#[test]
fn one_thing_goes_wrong_with_events_maps_and_versions() {
    let named = ["1/event", "1/map/unsafe", "1/continued/early", "1/continued/months", "1/given/other"];
    let all = named.map(|name| name.parse().expect("a scenario"));
    holds(&explore(&all, Bounds { depth: 1, fates: FEW }, true, |_| ()), 30);
}

#[test]
fn several_things_go_wrong_at_random() {
    let both = [workflow_scenarios(1), workflow_scenarios(2)].concat();
    let bounds = Bounds { depth: 4, fates: ALL };
    holds(&explore_random(&both, bounds, 1, 2, |_| ()), 2);
}

#[test]
fn no_pair_of_branches_ends_with_an_unknown_effect() {
    let all = endings();
    assert_eq!(all.len(), 6 * 6 * 4);
    // A larger depth: `explorer --endings --depth 1`.
    holds(&explore(&all, Bounds { depth: 0, fates: FEW }, true, |_| ()), 1);
}
