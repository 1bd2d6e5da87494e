//! Fifteen small programs with a defect, and their repaired forms: the sweep finds the first, and
//! nothing in the second.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "sweep/after.rs"]
mod after;
#[path = "sweep/again.rs"]
mod again;
#[path = "sweep/balance.rs"]
mod balance;
#[path = "sweep/itself.rs"]
mod itself;
#[path = "sweep/suspended.rs"]
mod suspended;
#[path = "sweep/tokens.rs"]
mod tokens;
#[path = "sweep/vacuous.rs"]
mod vacuous;
#[path = "sweep/workflows.rs"]
mod workflows;

use std::time::Duration;

use lock_token_testing::sweep::{Subject, Sweep, World};
use tokio::time::Instant;

/// A provider that knows no idempotency keys.
const KNOWS_NO_KEYS: Duration = Duration::ZERO;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A defect is found, by this plan.
fn finds<S: Subject>(
    name: &str,
    recognises_for: Duration,
    broken: impl Fn() -> S + Sync + 'static,
) -> String {
    let begun = Instant::now();
    let swept = Sweep::new(broken).recognises_for(recognises_for).stop_at_first().run();
    let (played, took) = (swept.plans(), begun.elapsed().as_secs_f64());
    let found = swept.found().first().unwrap_or_else(|| panic!("{name}: nothing found in {played} plans"));
    assert_eq!(found.plan().to_string().parse(), Ok(found.plan().clone()), "{name}: it can be played again");
    let (plan, wrong) = (found.plan(), &found.wrong()[0]);
    println!("| {name} | found | {played} | {took:.1} s | `{plan}`: {wrong} |");
    plan.to_string()
}

/// The repaired form passes.
fn passes<S: Subject>(
    name: &str,
    at_least: usize,
    recognises_for: Duration,
    repaired: impl Fn() -> S + Sync + 'static,
) {
    let begun = Instant::now();
    let swept =
        Sweep::new(repaired).recognises_for(recognises_for).random(40, 1).run().expect_nothing_wrong();
    let (played, took) = (swept.plans(), begun.elapsed().as_secs_f64());
    assert!(played >= at_least, "{name}: only {played} plans");
    println!("| {name} | passes | {played} | {took:.1} s | |");
}

/// One charge at most; and one, if the client has an answer.
fn charged_once(world: &World, answer: Option<&str>) -> Vec<String> {
    let charges = world.provider().count("charge");
    let expected = if answer.is_some() { 1..=1 } else { 0..=1 };
    if expected.contains(&charges) {
        return Vec::new();
    }
    vec![format!("{charges} charges, and the answer is {answer:?}")]
}
