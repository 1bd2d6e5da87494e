//! The page of the docs that lists the broken rules.

use std::fmt::Write as _;

use super::mutants::ROWS;
use super::scenes::SCENES;
use super::workflow_mutants::WORKFLOW_ROWS;
use super::workflow_scenes::WORKFLOW_SCENES;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A rule that was broken by hand, in a place that has no switch, and the test that failed.
struct ByHand {
    rule: &'static str,
    broken: &'static str,
    file: &'static str,
    test: &'static str,
}

#[rustfmt::skip]
const BY_HAND: &[ByHand] = &[
    ByHand { rule: "the longest pause between retries is not below the first", broken: "it may be", file: "locker/src/settings.rs", test: "zero_and_absurd_durations_say_what_is_allowed" },
    ByHand { rule: "what a scan cannot read is missing in its report", broken: "it is left out", file: "functions/tests/runtime/scanner.rs", test: "a_token_that_cannot_be_read_is_missing_in_the_report_and_in_the_metric" },
    ByHand { rule: "an order is kept for ever", broken: "for a minute", file: "functions/tests/runtime/worker.rs", test: "an_order_is_kept_for_ever_so_that_its_number_is_never_charged_again" },
    ByHand { rule: "a message begins only what can end in time", broken: "it begins whenever it comes", file: "functions/tests/runtime/doubt/time.rs", test: "a_message_that_comes_too_late_begins_nothing_and_returns_to_the_queue" },
    ByHand { rule: "the time is asked for again once the token is acquired", broken: "it is not", file: "functions/tests/runtime/doubt/time.rs", test: "a_charge_is_not_sent_if_its_begin_took_the_time_and_the_token_is_released" },
    ByHand { rule: "a function in whose timeout an order does not fit does not start", broken: "it starts", file: "functions/tests/runtime/doubt/time.rs", test: "a_provider_that_may_answer_after_the_functions_end_is_refused_at_start" },
    ByHand { rule: "a charge follows no redirect", broken: "it does", file: "functions/tests/runtime/doubt/payments.rs", test: "a_redirected_charge_is_not_sent_a_second_time" },
    ByHand { rule: "a charge has a connection of its own", broken: "connections are kept open", file: "functions/tests/runtime/doubt/payments.rs", test: "a_provider_that_closes_a_connection_it_kept_open_leaves_no_charge_in_doubt" },
    ByHand { rule: "a provider's 503 is in doubt", broken: "it is transient", file: "functions/tests/runtime/doubt/payments.rs", test: "what_a_proxy_answers_after_it_lost_the_provider_is_in_doubt" },
    ByHand { rule: "an order that cannot be read is logged", broken: "it is not", file: "functions/tests/runtime/orders.rs", test: "an_order_that_cannot_be_read_is_logged" },
    ByHand { rule: "a completer keeps a reserve for a step that does not say how long it takes", broken: "it keeps none", file: "tests/workflow/time_left.rs", test: "a_completer_begins_nothing_that_it_may_have_no_time_for" },
    ByHand { rule: "the record of a shared step with a retention expires", broken: "it has no `ttl`", file: "tests/workflow/shared.rs", test: "after_its_retention_and_what_clocks_may_differ_it_happens_again_under_another_key" },
    ByHand { rule: "a record expires once all clocks agree on it", broken: "by the reader's own", file: "tests/workflow/shared.rs", test: "after_its_retention_and_what_clocks_may_differ_it_happens_again_under_another_key" },
    ByHand { rule: "a transaction that was refused after a lost one is no refusal, if it may be asked again", broken: "it is", file: "tests/workflow/refused.rs", test: "what_asks_again_takes_no_other_way_while_its_transaction_may_still_arrive" },
    ByHand { rule: "a driver that took a step over looks at the provider's time again before the call", broken: "it does not", file: "tests/workflow/in_doubt.rs", test: "a_driver_that_was_suspended_as_it_took_over_sends_no_key_that_the_provider_has_forgotten" },
];

#[test]
fn every_rule_broken_by_hand_names_a_test_that_exists() {
    for row in BY_HAND {
        let source = std::fs::read_to_string(format!("{ROOT}/{}", row.file)).expect("a file");
        assert!(source.contains(&format!("fn {}()", row.test)), "{} has no test {}", row.file, row.test);
    }
}

#[test]
fn the_tables_in_the_docs_list_every_broken_rule() {
    let (path, page) = (format!("{ROOT}/docs/mutants.md"), render());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "write it anew: UPDATE_DOCS=1 cargo test -p locker-tests --test explored");
}

fn render() -> String {
    let mut page = INTRODUCTION.to_owned();
    for row in ROWS {
        let (rule, broken, story, caught_by) = (row.rule, row.broken, row.story, row.caught_by.as_str());
        let (scenario, plan) = (row.scenario, row.plan);
        writeln!(page, "| {rule} | {broken} | {story} | **{caught_by}** | `{scenario}` | `{plan}` |")
            .expect("a string");
    }
    page.push_str(SCENES_INTRODUCTION);
    for scene in SCENES {
        writeln!(page, "| {} | {} | {} |", scene.rule, scene.broken, scene.story).expect("a string");
    }
    page.push_str(WORKFLOWS_INTRODUCTION);
    for row in WORKFLOW_ROWS {
        let (rule, broken, story, caught_by) = (row.rule, row.broken, row.story, row.caught_by.as_str());
        let (scenario, plan) = (row.scenario, row.plan);
        writeln!(page, "| {rule} | {broken} | {story} | **{caught_by}** | `{scenario}` | `{plan}` |")
            .expect("a string");
    }
    page.push_str(WORKFLOW_SCENES_INTRODUCTION);
    for scene in WORKFLOW_SCENES {
        writeln!(page, "| {} | {} | {} |", scene.rule, scene.broken, scene.story).expect("a string");
    }
    page.push_str(BY_HAND_INTRODUCTION);
    for row in BY_HAND {
        writeln!(page, "| {} | {} | `{}` | `{}` |", row.rule, row.broken, row.file, row.test)
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
this page (`UPDATE_DOCS=1`). The variants are compiled with the feature `__mutants` only, which no product turns on.

| rule | broken: | in the plan | caught by | scenario | plan |
|---|---|---|---|---|---|
";

const SCENES_INTRODUCTION: &str = "
## In scenes

No plan reaches these rules: they need an operator, another writer, or the time of a run. Each has a scene in
`tests/explored/scenes.rs`, which is also played with the rule and without.

| rule | broken: | in the scene |
|---|---|---|
";

const WORKFLOWS_INTRODUCTION: &str = "
## Of workflows

The same for the rules of workflows. A plan's depth is how often something goes otherwise than usual, at most twice here:
`cargo run -p locker-tests --bin explorer -- --workflows --few --scenario SCENARIO --depth 2 --plan PLAN` plays it.
`FIND_PLANS=all cargo test -p locker-tests --test explored -- --nocapture shortest` looks for a shortest plan of each.

| rule | broken: | in the plan | caught by | scenario | plan |
|---|---|---|---|---|---|
";

const WORKFLOW_SCENES_INTRODUCTION: &str = "
In scenes, in `tests/explored/workflow_scenes.rs`:

| rule | broken: | in the scene |
|---|---|---|
";

const BY_HAND_INTRODUCTION: &str = "
## By hand

These have no switch: each was broken in the source once, and the test that is named failed.

| rule | broken: | in | test |
|---|---|---|---|
";
