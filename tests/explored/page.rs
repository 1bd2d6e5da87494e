//! The page of the docs that lists the broken rules.

use std::fmt::Write as _;

use locker_tests::explorer::Scene;

use super::patches::{Caught, Patch, ROOT, patches};

/// A rule that was broken by hand, and the test that failed.
struct ByHand {
    rule: &'static str,
    broken: &'static str,
    file: &'static str,
    test: &'static str,
}

#[rustfmt::skip]
const BY_HAND: &[ByHand] = &[
    ByHand { rule: "The longest pause between retries is not below the first pause.", broken: "It may be below.", file: "locker/src/settings.rs", test: "zero_and_absurd_durations_say_what_is_allowed" },
    ByHand { rule: "A store that other members of its group may write is refused.", broken: "It is used.", file: "testing/src/private.rs", test: "path_that_other_members_of_its_group_may_write_is_found" },
    ByHand { rule: "A scan counts what it cannot read as missing in its report.", broken: "The scan omits it.", file: "functions/tests/runtime/scanner.rs", test: "a_token_that_cannot_be_read_is_missing_in_the_report_and_in_the_metric" },
    ByHand { rule: "An order is kept for ever.", broken: "An order is kept for a minute.", file: "functions/tests/runtime/worker.rs", test: "an_order_is_kept_for_ever_so_that_its_number_is_never_charged_again" },
    ByHand { rule: "A worker begins only an order that can end in time.", broken: "The worker begins every order.", file: "functions/tests/runtime/doubt/time.rs", test: "a_message_that_comes_too_late_begins_nothing_and_returns_to_the_queue" },
    ByHand { rule: "A worker checks the time again after it acquired the token.", broken: "The worker does not check it again.", file: "functions/tests/runtime/doubt/time.rs", test: "a_charge_is_not_sent_if_its_begin_took_the_time_and_the_token_is_released" },
    ByHand { rule: "A function with a timeout too short for an order does not start.", broken: "The function starts.", file: "functions/tests/runtime/doubt/time.rs", test: "a_provider_that_may_answer_after_the_functions_end_is_refused_at_start" },
    ByHand { rule: "A charge follows no redirect.", broken: "A charge follows a redirect.", file: "functions/tests/runtime/doubt/payments.rs", test: "a_redirected_charge_is_not_sent_a_second_time" },
    ByHand { rule: "A charge has a connection of its own.", broken: "Connections are kept open.", file: "functions/tests/runtime/doubt/payments.rs", test: "a_provider_that_closes_a_connection_it_kept_open_leaves_no_charge_in_doubt" },
    ByHand { rule: "A 503 of the provider is in doubt.", broken: "A 503 is transient.", file: "functions/tests/runtime/doubt/payments.rs", test: "proxy_error_after_a_lost_provider_is_in_doubt" },
    ByHand { rule: "An order that cannot be read is logged.", broken: "The order is not logged.", file: "functions/tests/runtime/orders.rs", test: "an_order_that_cannot_be_read_is_logged" },
];

#[test]
fn every_rule_broken_by_hand_names_a_test_that_exists() {
    for row in BY_HAND {
        let source = std::fs::read_to_string(format!("{ROOT}/{}", row.file)).expect("a file");
        assert!(source.contains(&format!("fn {}()", row.test)), "{} has no test {}", row.file, row.test);
    }
}

#[test]
fn the_tables_in_the_docs_list_every_patch() {
    let (path, page) = (format!("{ROOT}/docs/evidence/mutants.md"), render());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/evidence/mutants.md differs from the patches: UPDATE_DOCS=1 cargo test --test explored"
    );
}

fn render() -> String {
    let patches = patches();
    let mut page = INTRODUCTION.to_owned();
    plans(&mut page, &patches, false);
    page.push_str(SCENES_INTRODUCTION);
    scenes(&mut page, &patches, false);
    page.push_str(WORKFLOWS_INTRODUCTION);
    plans(&mut page, &patches, true);
    page.push_str(WORKFLOW_SCENES_INTRODUCTION);
    scenes(&mut page, &patches, true);
    page.push_str(TESTS_INTRODUCTION);
    for patch in &patches {
        if let Some(Caught::Test { target, name }) = patch.caught.first() {
            let Patch { rule, broken, name: patch, .. } = patch;
            writeln!(page, "| {rule} | {broken} | `{target}` | `{name}` | `{patch}` |").expect("a string");
        }
    }
    page.push_str(BY_HAND_INTRODUCTION);
    for row in BY_HAND {
        let ByHand { rule, broken, file, test } = row;
        writeln!(page, "| {rule} | {broken} | `{file}` | `{test}` |").expect("a string");
    }
    page
}

fn plans(page: &mut String, patches: &[Patch], of_workflows: bool) {
    for patch in patches {
        let Some(Caught::Plan { workflows, scenario, depth, plan, .. }) = patch.caught.first() else {
            continue;
        };
        if *workflows == of_workflows {
            let Patch { rule, broken, story, name, .. } = patch;
            let invariant = patch.invariant.as_deref().unwrap_or_default();
            let what = format!("| {rule} | {broken} | {story} | **{invariant}** |");
            writeln!(page, "{what} `{scenario}` | {depth} | `{plan}` | `{name}` |").expect("a string");
        }
    }
}

fn scenes(page: &mut String, patches: &[Patch], of_workflows: bool) {
    for patch in patches {
        let Some(Caught::Scene(scene)) = patch.caught.first() else { continue };
        if Scene::named(scene).is_some_and(|scene| scene.is_of_workflows() == of_workflows) {
            let Patch { rule, broken, story, name, .. } = patch;
            writeln!(page, "| {rule} | {broken} | {story} | `{scene}` | `{name}` |").expect("a string");
        }
    }
}

const INTRODUCTION: &str = "\
# Broken rules

Each row is a rule of the library. The patch of the same name in `tests/mutants` breaks the rule.
The last columns name the plan of faults, the scene or the test that must fail when the patch is
applied.

`tests/mutants/play` applies each patch to a copy of the tree, builds the copy, and requires the
failure:

- `tests/mutants/play --only NAME` plays one patch.
- `tests/mutants/play --all` plays all patches. CI plays the patches of changed files (`--changed`).

`cargo test --test explored` checks the headers and applies each patch without a build. It also
plays each plan on the library as it is, and compares this page with the headers (`UPDATE_DOCS=1`
writes the page).

## Tokens

A plan of the [explorer](reliability.md) shows these rules. To play it:
`cargo run -p locker-tests --bin explorer -- --scenario SCENARIO --depth DEPTH --plan PLAN`

| rule | broken | in the plan | invariant | scenario | depth | plan | patch |
|---|---|---|---|---|---|---|---|
";

const SCENES_INTRODUCTION: &str = "
### Scenes of tokens

No plan reaches these rules: they need an operator, another writer, or the time of a run. Each has a
scene, which `cargo run -p locker-tests --bin explorer -- --scene SCENE` plays.

| rule | broken | in the scene | scene | patch |
|---|---|---|---|---|
";

const WORKFLOWS_INTRODUCTION: &str = "
## Workflows

The depth of a plan of workflows is the number of faults in it. To the command above, add
`--workflows --few`.

| rule | broken | in the plan | invariant | scenario | depth | plan | patch |
|---|---|---|---|---|---|---|---|
";

const WORKFLOW_SCENES_INTRODUCTION: &str = "
### Scenes of workflows

| rule | broken | in the scene | scene | patch |
|---|---|---|---|---|
";

const TESTS_INTRODUCTION: &str = "
## Tests

A test of its own shows each of these rules. The binary `locker` contains the unit tests and proofs
of the library.

| rule | broken | test binary | test | patch |
|---|---|---|---|---|
";

const BY_HAND_INTRODUCTION: &str = "
## By hand

These rules have no patch: each was broken in the source once, and the named test failed.

| rule | broken | in | test |
|---|---|---|---|
";
