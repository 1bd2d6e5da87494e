//! The layout of the present version: the attributes of each kind of item in its folder, and of the
//! items that this code writes.

use std::collections::{BTreeMap, BTreeSet};

use locker_tests::Engine;
use serde_json::Value;

use crate::folder::{PRESENT, Tables, UPDATE, fresh, present, text};

/// The attributes of an item with their types, such as `ttl N`.
type Shape = BTreeSet<String>;

/// The kind of an item: its place, its kind and its state.
fn kind(item: &Value) -> String {
    let token = text(item, "lockToken");
    let place = match text(item, "item").split(['/', ' ']).next().unwrap_or_default() {
        "" if token.starts_with("locker runs ") => "last run of the scanner".to_owned(),
        "" if token.contains(" audit ") => "audit record of a token".to_owned(),
        "" if token.contains(" result ") => "answer of a token".to_owned(),
        "" => "token".to_owned(),
        place if text(item, "workflow") == "locker runs" => format!("last run of the {place}"),
        place => place.to_owned(),
    };
    let words = ["kind", "state", "status", "outcome", "resolution"].map(|name| text(item, name));
    // Tokens have no state, and workflows need no status.
    let words = if item["state"].is_null() { &words[..] } else { &words[..2] };
    let words = words.iter().filter(|word| !word.is_empty()).copied();
    std::iter::once(&*place).chain(words).collect::<Vec<_>>().join(" ")
}

fn shape(item: &Value) -> Shape {
    let attributes = item.as_object().expect("an item").iter();
    let typed = |(name, value): (&String, &Value)| {
        let of_type = value.as_object().and_then(|value| value.keys().next());
        format!("{name} {}", of_type.expect("a type"))
    };
    attributes.map(typed).collect()
}

fn shapes(tables: &Tables) -> BTreeMap<String, BTreeSet<Shape>> {
    let mut shapes = BTreeMap::<_, BTreeSet<_>>::new();
    for item in tables.tokens.iter().chain(&tables.workflows) {
        shapes.entry(kind(item)).or_default().insert(shape(item));
    }
    shapes
}

/// The shapes of one side that the other side does not have, one on each line.
fn missing(of: &BTreeMap<String, BTreeSet<Shape>>, other: &BTreeMap<String, BTreeSet<Shape>>) -> Vec<String> {
    let mut lines = Vec::new();
    for (kind, shapes) in of {
        for shape in shapes {
            if !other.get(kind).is_some_and(|shapes| shapes.contains(shape)) {
                lines.push(format!("  {kind}: {}", shape.iter().cloned().collect::<Vec<_>>().join(", ")));
            }
        }
    }
    lines
}

#[tokio::test]
async fn attributes_of_each_kind_are_those_of_the_present_folder() {
    let (stored, written) = (shapes(&present().await.tables), shapes(&Box::pin(fresh()).await));
    let (gone, new) = (missing(&stored, &written), missing(&written, &stored));
    assert!(
        gone.is_empty() && new.is_empty(),
        "this code writes other attributes than tests/upgrade/{PRESENT}.\n\
         only in the folder:\n{}\nonly written now:\n{}\n\
         If version {PRESENT} has a tag: raise the version in Cargo.toml, and never change its folder.\n\
         If old code must not read the new items: raise CURRENT_VERSION or WORKFLOW_VERSION in\n\
         locker/src/store/schema/attribute.rs.\n\
         Then write the folder of the present version, and commit it: {UPDATE}",
        gone.join("\n"),
        new.join("\n"),
    );
}

#[tokio::test]
async fn each_place_of_the_layout_is_in_the_present_folder() {
    let found = present().await;
    let items = found.tables.tokens.iter().chain(&found.tables.workflows);
    let kinds: BTreeSet<_> = items.map(kind).collect();
    let found: Vec<_> = kinds.iter().map(String::as_str).collect();
    assert_eq!(found, KINDS);
}

/// The kinds of items that `fill` writes: every place in a table and every state that lasts.
const KINDS: [&str; 70] = [
    "!result",
    "# cancelled",
    "# compensating",
    "# completed",
    "# continued",
    "# failed",
    "# running",
    "#answer",
    "#input",
    "answer of a token",
    "archived archived",
    "audit record of a token completed",
    "audit record of a token failed",
    "audit record of a token held",
    "audit record of a token inProgress",
    "compensation compensation completed",
    "compensation compensation withdrawn",
    "compensation-late compensation completed",
    "event expired",
    "event given",
    "event handled",
    "event late",
    "event taken",
    "event waiting",
    "failures",
    "heard",
    "last run of the completer success",
    "last run of the reaper success",
    "last run of the relay success",
    "last run of the scanner success",
    "latest",
    "message dead",
    "message unsent",
    "message waiting",
    "number",
    "once once completed",
    "received",
    "step atomic completed",
    "step once compensated",
    "step once completed",
    "step once freed",
    "step once held",
    "step once late",
    "step once started",
    "step once withdrawn",
    "step pointer started",
    "step step completed",
    "step timer completed",
    "token error failure",
    "token failure",
    "token failure closed",
    "token failure redacted",
    "token inProgress",
    "token inProgressUnlisted",
    "token released",
    "token success",
    "token success corrected",
    "token success redacted",
    "token success resolved",
    "~audit audit archived",
    "~audit audit cancelled",
    "~audit audit corrected",
    "~audit audit redriven",
    "~audit completed",
    "~audit running",
    "~event late",
    "~failed",
    "~ledger completed",
    "~receipt",
    "~replaced",
];

#[tokio::test]
async fn tables_are_filled_the_same_each_time() {
    if !Engine::start().await.is_embedded() {
        // Another engine recognises the transactions of another fill by their tokens.
        return;
    }
    assert_eq!(Box::pin(fresh()).await, Box::pin(fresh()).await);
}

#[tokio::test]
async fn folder_names_no_machine() {
    let Tables { tokens, workflows } = &present().await.tables;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let root = std::fs::canonicalize(root).expect("a path").display().to_string();
    for item in tokens.iter().chain(workflows) {
        let line = item.to_string();
        assert!(!line.contains(&root) && !line.contains("locks-"), "{line}");
    }
}
