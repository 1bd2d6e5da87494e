//! Every plan of faults to a small depth, and every rule broken once. Deeper, and by chance:
//! `cargo run --release -p locker-tests --bin explorer -- --help`.

#[path = "explored/mutants.rs"]
mod mutants;

use locker_tests::explorer::{ALL, Bounds, Choices, Explored, FEW, Plan, explore, play_random, scenarios};

fn holds(explored: &Explored, least: u64) {
    println!("{} plans, {} exchanges", explored.plans, explored.exchanges);
    for (scenario, plan, violation) in &explored.broken {
        println!("{violation}: --scenario {scenario} --plan {plan}");
    }
    assert!(explored.broken.is_empty(), "{} scenarios are broken", explored.broken.len());
    assert!(explored.plans >= least, "only {} plans", explored.plans);
}

#[test]
fn one_client_with_every_fate_of_its_first_exchanges() {
    holds(&explore(&scenarios(1), Bounds { depth: 2, fates: ALL }, || ()), 3_000);
}

#[test]
fn two_clients_that_interleave() {
    holds(&explore(&scenarios(2), Bounds { depth: 2, fates: FEW }, || ()), 4_000);
}

#[test]
fn longer_plans_by_chance() {
    for clients in [1, 2] {
        for scenario in scenarios(clients) {
            holds(&play_random(scenario, Bounds { depth: 16, fates: ALL }, 1, 60), 60);
        }
    }
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
