//! Runs every example as a process, and compares its output.

#![allow(clippy::expect_used, clippy::panic, reason = "it is a test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use locker_tests::{Bench, Function, Reply};
use serde_json::json;

/// An example with its binary and its output.
struct Example {
    name: &'static str,
    binary: &'static str,
    prints: &'static str,
}

macro_rules! example {
    ($name:literal) => {
        Example {
            name: $name,
            binary: env!(concat!("CARGO_BIN_EXE_", $name)),
            prints: include_str!(concat!("prints/", $name, ".txt")),
        }
    };
}

const EXAMPLES: [Example; 20] = [
    example!("compensation"),
    example!("complete"),
    example!("console"),
    example!("dead_letters"),
    example!("dispatch"),
    example!("every_outcome"),
    example!("http_axum"),
    example!("http_lambda"),
    example!("http_webhook"),
    example!("lambda_function"),
    example!("queue"),
    example!("once"),
    example!("approval"),
    example!("one_act"),
    example!("own_broker"),
    example!("probe"),
    example!("quarantine"),
    example!("scan"),
    example!("service"),
    example!("take_over"),
];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Rust files of a folder, by their names without the ending.
fn rust_files(folder: &Path) -> BTreeSet<String> {
    let paths = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let rust = paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    rust.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect()
}

#[test]
fn every_example_prints_what_it_shows() {
    for Example { name, binary, prints } in EXAMPLES {
        let run = Command::new(binary).env_remove("AWS_LAMBDA_RUNTIME_API").output().expect("it starts");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{name}: {}\n{said}", run.status);
        assert_eq!(String::from_utf8_lossy(&run.stdout), prints, "{name}\n{said}");
    }
}

#[test]
fn every_example_is_run_short_and_in_the_index() {
    let listed = EXAMPLES.map(|example| example.name.to_owned()).into();
    assert_eq!(rust_files(folder()), listed, "the files, and those that are run here");
    let index = text(&folder().join("README.md"));
    for name in listed {
        let file = text(&folder().join(format!("{name}.rs")));
        assert!(
            file.contains(&format!("cargo run -p locker-examples --bin {name}")),
            "{name}: how to run it"
        );
        let lines = file.lines().count();
        assert!(lines <= 120, "{name} has {lines} lines");
        assert!(index.contains(&format!("]({name}.rs)")), "{name} is not in the index");
    }
    assert!(index.contains("](tests/sweep.rs)"), "the sweep is not in the index");
}

#[test]
fn the_readme_has_the_smallest_example() {
    let once = text(&folder().join("once.rs"));
    let (_, code) = once.split_once("\n\n").expect("a head comment, and the code");
    let readme = text(&folder().join("../README.md"));
    assert!(
        readme.contains(&format!("```rust\n{code}```\n")),
        "the README's first example is not this:\n\n{code}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lambda_function_handles_events_of_the_runtime_api() {
    let bench = Bench::new().await;
    let environment =
        [("LOCKER_TABLE", bench.table.as_str()), ("AWS_ENDPOINT_URL_DYNAMODB", bench.engine.endpoint())];
    let binary = env!("CARGO_BIN_EXE_lambda_function");
    let function = Function::start(binary, &environment, Duration::from_secs(60)).await;
    for id in ["request-1", "request-2"] {
        let reply = function.invoke(id, json!({ "id": 7, "cents": 1000 })).await;
        assert_eq!(reply, Reply::Response(json!("receipt of order 7")), "{id}");
    }
    let Reply::Error(error) = function.invoke("request-3", json!({ "id": 7, "cents": 1 })).await else {
        panic!("another amount under the same key was accepted")
    };
    assert_eq!(error["errorType"], "locker.Mismatch", "{error}");
}
