//! The page of the docs that lists the broken rules.

use std::fmt::Write as _;

use locker_tests::explorer::Scene;

use super::patches::{Caught, Patch, ROOT, patches};

#[test]
fn the_tables_in_the_docs_list_every_patch() {
    let (path, page) = (format!("{ROOT}/docs/mutants.md"), render());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/mutants.md differs from the patches: UPDATE_DOCS=1 cargo test -p locker-tests --test explored"
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

Each row is a rule of the library. The patch of the same name in `tests/mutants` breaks the rule. The last
columns name the plan of faults, the scene or the test that must fail when the patch is applied.

`tests/mutants/play` applies each patch to a copy of the tree, builds the copy, and requires the failure:

- `tests/mutants/play --only NAME` plays one patch.
- `tests/mutants/play --all` plays all patches. CI plays the patches of changed files (`--changed`).

`cargo test -p locker-tests --test explored` checks the headers and applies each patch without a build. It also plays
each plan on the library as it is, and compares this page with the headers (`UPDATE_DOCS=1` writes the page).

## Tokens

A plan of the [explorer](reliability.md) shows these rules. The command is
`cargo run -p locker-tests --bin explorer -- --scenario SCENARIO --depth DEPTH --plan PLAN`.

| rule | broken | in the plan | invariant | scenario | depth | plan | patch |
|---|---|---|---|---|---|---|---|
";

const SCENES_INTRODUCTION: &str = "
### Scenes of tokens

No plan reaches these rules: they need an operator, another writer, or the time of a run. Each has a scene, which
`cargo run -p locker-tests --bin explorer -- --scene SCENE` plays.

| rule | broken | in the scene | scene | patch |
|---|---|---|---|---|
";

const WORKFLOWS_INTRODUCTION: &str = "
## Workflows

The depth of a plan of workflows is the number of faults in it. The command is
`cargo run -p locker-tests --bin explorer -- --workflows --few --scenario SCENARIO --depth DEPTH --plan PLAN`.

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

A test of its own shows each of these rules.

| rule | broken | test binary | test | patch |
|---|---|---|---|---|
";
