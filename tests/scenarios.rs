//! The seven scenarios under faults at every request: nothing twice, nothing half, or quarantined
//! and listed. For all plans and random ones:
//! `cargo run --release -p locker-tests --bin scenarios -- --help`.

// A test fails by panicking.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "scenarios/document.rs"]
mod document;

use locker_tests::scenarios::{Answer, CASES, Plan, Rig, Swept, random, singles, sweep};

fn holds(swept: &Swept, least: usize) {
    println!("{swept:?}");
    if let Some((plan, wrong)) = swept.wrong.first() {
        panic!("{wrong}; play it again: cargo run -p locker-tests --bin scenarios -- play {plan}");
    }
    assert!(swept.plays >= least, "only {} plays", swept.plays);
    assert!(swept.ended.iter().all(|count| *count > 0), "not every outcome occurred: {:?}", swept.ended);
}

#[test]
fn one_fault_at_any_request() {
    let plans = singles(&mut Rig::new(), 4);
    holds(&sweep(plans), 700);
}

#[test]
fn several_faults_at_random() {
    holds(&sweep((1..=400).map(random).collect()), 400);
}

/// Each of these plans once failed the check.
#[test]
fn plans_that_once_failed() {
    let plans = [
        // The doubt about a charge was lost when the attempt that took it over did not happen.
        "purchase/bought,c1=DiesAfter,c2=Refused,c3=Refused,c4=Refused,cancel=20",
        // The same, when the driver that took it over lost the workflow.
        "funding/paid,d28=Lost,c8=DiesAfter,c5=FrozenAfter,cancel=18,soon,idle",
    ];
    for text in plans {
        let played = Rig::new().play(&text.parse().expect("a plan"));
        assert_eq!(played.wrong, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn without_faults_every_caller_gets_the_answer() {
    let mut rig = Rig::new();
    for (case, name) in CASES {
        let played = rig.play(&Plan::new(case));
        assert_eq!(played.wrong, Vec::<String>::new(), "{name}");
        assert!(!played.quarantined, "{name}");
        let completed = matches!(played.answer, Answer::Completed(_));
        let fails = ["refused", "declined", "poor", "nowhere", "closed", "unpaid"]
            .iter()
            .any(|end| name.ends_with(end));
        assert_eq!(completed, !fails, "{name}: {:?}", played.answer);
    }
}

/// A confirmation after the cancellation: the driver hangs in its charge, an operator cancels the
/// booking, and its compensation finds no charge; then it is charged after all, and the driver
/// records it.
#[test]
fn a_charge_after_a_cancel_is_refunded_once() {
    let played = Rig::new().play(&"seats/sold,d4=FrozenAfter,cancel=5".parse().expect("a plan"));
    assert_eq!(played.wrong, Vec::<String>::new());
    let refunds = played.trace.iter().filter(|line| line.contains("Refund ")).count();
    assert_eq!(refunds, 1, "{:#?}", played.trace);
    assert!(played.trace.iter().any(|line| line.contains("step/charge late")), "{:#?}", played.trace);
}

/// A release is taken back, and the message about it is refused at first: it arrives after the one
/// that is newer.
#[test]
fn late_message_does_not_undo_a_newer_message() {
    let plan = "funding/paid,c3=Declined,c4=Declined".parse().expect("a plan");
    let played = Rig::new().play(&plan);
    assert_eq!(played.wrong, Vec::<String>::new());
    let told = |line: &&String| line.contains("Tell ") && line.contains("Done");
    let told: Vec<_> = played.trace.iter().filter(told).map(|line| line.contains("taken-back")).collect();
    assert_eq!(told, [true], "{:#?}", played.trace);
}

#[test]
fn a_plan_reads_back() {
    for seed in 0..200 {
        let plan = random(seed);
        assert_eq!(plan.to_string().parse::<Plan>(), Ok(plan));
    }
    assert!("purchase/bought,x3=Lost".parse::<Plan>().is_err());
}

#[test]
fn the_diagrams_in_the_docs_are_what_the_code_does() {
    document::compare();
}
