//! The broken rules: one patch each in `tests/mutants`, with a header that names the plan or the
//! test that must fail. `tests/mutants/play` applies them. Here nothing is built again.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use locker_tests::explorer::{
    ALL, Bounds, Choices, FEW, Invariant, Plan, Playable, Scenario, Scene, WorkflowScenario,
};

pub(super) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const FOLDER: &str = "tests/mutants";

/// The header of a patch.
#[derive(Debug, Default)]
pub(super) struct Patch {
    pub(super) name: String,
    pub(super) rule: String,
    pub(super) broken: String,
    pub(super) story: String,
    /// The invariant that the plan breaks.
    pub(super) invariant: Option<String>,
    pub(super) caught: Vec<Caught>,
}

/// A command that must fail when the patch is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Caught {
    /// A plan of the explorer.
    Plan { workflows: bool, scenario: String, depth: usize, few: bool, plan: String },
    /// A scene of the explorer.
    Scene(String),
    /// A plan of the scenarios.
    Play(String),
    /// A test: its target and its name.
    Test { target: String, name: String },
}

impl Caught {
    fn parse(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let after = |option: &str| {
            let at = words.iter().position(|word| *word == option);
            words[at.unwrap_or_else(|| panic!("no {option}: {line}")) + 1].to_owned()
        };
        match words[..] {
            ["explorer", "--scene", scene] => Self::Scene(scene.to_owned()),
            ["explorer", ..] => Self::Plan {
                workflows: words.contains(&"--workflows"),
                scenario: after("--scenario"),
                depth: after("--depth").parse().expect("a depth"),
                few: words.contains(&"--few"),
                plan: after("--plan"),
            },
            ["scenarios", "play", plan] => Self::Play(plan.to_owned()),
            ["test", target, name] => Self::Test { target: target.to_owned(), name: name.to_owned() },
            _ => panic!("no such command: {line}"),
        }
    }
}

/// All patches, by name.
pub(super) fn patches() -> Vec<Patch> {
    let folder = Path::new(ROOT).join(FOLDER);
    let entries = std::fs::read_dir(&folder).expect("the folder of the patches");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut patches: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "patch"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            header(name, &std::fs::read_to_string(&path).expect("text"))
        })
        .collect();
    patches.sort_by(|one, other| one.name.cmp(&other.name));
    patches
}

fn header(name: String, text: &str) -> Patch {
    let (head, _) = text.split_once("\n\ndiff --git ").unwrap_or_else(|| panic!("{name} has no diff"));
    let mut patch = Patch { name, ..Patch::default() };
    for line in head.lines() {
        let (field, value) = line.split_once(": ").unwrap_or_else(|| panic!("{}: {line}", patch.name));
        let value = value.to_owned();
        match field {
            "rule" => patch.rule = value,
            "broken" => patch.broken = value,
            "story" => patch.story = value,
            "invariant" => patch.invariant = Some(value),
            "caught" => patch.caught.push(Caught::parse(&value)),
            _ => panic!("{}: {line}", patch.name),
        }
    }
    patch
}

#[test]
fn every_patch_has_a_whole_header() {
    let invariants: Vec<_> = Invariant::ALL.iter().map(|invariant| invariant.as_str()).collect();
    let patches = patches();
    assert!(patches.len() >= 73, "{}", patches.len());
    for Patch { name, rule, broken, story, invariant, caught } in &patches {
        for text in [rule, broken, story] {
            assert!(text.ends_with('.') && !text.contains('|'), "{name}: {text:?}");
        }
        assert!(!caught.is_empty(), "{name} names no command");
        let is_plan = matches!(caught[0], Caught::Plan { .. });
        assert_eq!(invariant.is_some(), is_plan, "{name}: a plan breaks an invariant");
        if let Some(invariant) = invariant {
            assert!(invariants.contains(&invariant.as_str()), "{name}: {invariant}");
        }
    }
}

#[test]
fn every_patch_applies() {
    let mut missed = Vec::new();
    for patch in patches() {
        let path = format!("{FOLDER}/{}.patch", patch.name);
        let done = Command::new("git").args(["apply", "--check", &path]).current_dir(ROOT).output();
        let done = done.expect("git");
        if !done.status.success() {
            missed.push(format!("{path}: {}", String::from_utf8_lossy(&done.stderr)));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_patch_names_tests_that_exist() {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"];
    let done = Command::new("git").args(list).current_dir(ROOT).output().expect("git");
    let listed = String::from_utf8(done.stdout).expect("paths");
    let mut missed = Vec::new();
    for patch in patches() {
        for caught in &patch.caught {
            let Caught::Test { name, .. } = caught else { continue };
            let (modules, test) = name.rsplit_once("::").expect("the module of a test");
            let modules = modules.strip_suffix("::tests").unwrap_or(modules);
            let module = modules.rsplit("::").next().unwrap_or(modules);
            let ends = [format!("/{module}.rs"), format!("/{module}/mod.rs")];
            let mut files = listed.lines().filter(|path| ends.iter().any(|end| path.ends_with(end)));
            let exists = files.any(|path| {
                let source = std::fs::read_to_string(Path::new(ROOT).join(path)).expect("source");
                source.contains(&format!("fn {test}("))
            });
            if !exists {
                missed.push(format!("{}: {name}", patch.name));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_plan_of_a_patch_passes_on_the_library() {
    let (mut rig, mut workflow_rig) = Default::default();
    let mut missed = Vec::new();
    for patch in patches() {
        for caught in &patch.caught {
            let Caught::Plan { workflows, scenario, depth, few, plan } = caught else { continue };
            let bounds = Bounds { depth: *depth, fates: if *few { FEW } else { ALL } };
            let wrong = if *workflows {
                play::<WorkflowScenario>(&mut workflow_rig, scenario.parse(), plan, bounds)
            } else {
                play::<Scenario>(&mut rig, scenario.parse(), plan, bounds)
            };
            missed.extend(wrong.map(|wrong| format!("{}: {wrong}", patch.name)));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Plays a plan, and returns the violations and the choices that do not occur.
fn play<S: Playable>(
    rig: &mut S::Rig,
    scenario: Result<S, String>,
    plan: &str,
    bounds: Bounds,
) -> Option<String> {
    let plan: Plan = plan.parse().expect("a plan");
    let scenario = scenario.expect("a scenario");
    let (played, choices) = scenario.play(rig, Choices::from_plan(&plan), bounds, None, true);
    let (violations, trace) = (&played.violations, played.trace.join("\n  "));
    let is_whole = choices.plan() == plan && violations.is_empty();
    (!is_whole).then(|| format!("{violations:?} after {}\n  {trace}", choices.plan()))
}

#[test]
fn every_scene_passes_on_the_library_and_has_a_patch() {
    let named: BTreeSet<_> = patches()
        .iter()
        .flat_map(|patch| patch.caught.clone())
        .filter_map(|caught| match caught {
            Caught::Scene(name) => Some(name),
            _ => None,
        })
        .collect();
    let scenes: BTreeSet<_> = Scene::all().map(|scene| scene.name.to_owned()).collect();
    assert_eq!(named, scenes);
    for scene in Scene::all() {
        assert_eq!((scene.play)(), Ok(()), "{}", scene.name);
    }
}
