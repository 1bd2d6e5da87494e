//! Every plan of faults to a small depth, and the patches that break each rule. For deeper plans:
//! `cargo run --release -p locker-tests --bin explorer -- --help`.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic)]

#[path = "explored/page.rs"]
mod page;
#[path = "explored/patches.rs"]
mod patches;

use locker_tests::explorer::{
    ALL, Bounds, Choices, Explored, FEW, Plan, Scenario, explore, explore_random, scenarios,
};

fn holds(explored: &[Explored<Scenario>], least: u64) {
    for Explored { scenario, plans, broken, .. } in explored {
        if let Some((plan, violation)) = broken {
            panic!("{violation}: --scenario {scenario} --plan {plan}");
        }
        assert!(*plans >= least, "{scenario}: only {plans} plans");
    }
}

#[test]
fn one_client_with_every_fate_of_its_first_exchanges() {
    let bounds = Bounds { depth: 2, fates: ALL };
    holds(&explore(&scenarios(1), bounds, true, |_| ()), 50);
}

#[test]
fn two_clients_that_interleave() {
    let bounds = Bounds { depth: 1, fates: FEW };
    holds(&explore(&scenarios(2), bounds, true, |_| ()), 10);
}

#[test]
fn longer_plans_at_random() {
    let both = [scenarios(1), scenarios(2)].concat();
    let bounds = Bounds { depth: 16, fates: ALL };
    holds(&explore_random(&both, bounds, 1, 10, |_| ()), 10);
}

#[test]
fn every_leaf_of_a_tree_is_visited_once() {
    let mut choices = Choices::from_plan(&Plan::default());
    let mut leaves = Vec::new();
    loop {
        let first = choices.pick(3);
        let second = if first == 1 { choices.pick(2) } else { 9 };
        leaves.push((first, second));
        if !choices.advance() {
            break;
        }
    }
    assert_eq!(leaves, [(0, 9), (1, 0), (1, 1), (2, 9)]);
}

#[test]
fn a_plan_reads_back() {
    for text in ["-", "0.3.1", "7"] {
        assert_eq!(text.parse::<Plan>().expect("a plan").to_string(), text);
    }
    assert!("0.x".parse::<Plan>().is_err());
}
