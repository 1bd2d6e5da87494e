//! The lines that `locker dev` prints, pasted into a shell: each prints what the text above it
//! says.

use std::collections::BTreeSet;
use std::process::Command;

use locker_tests::command::Place;
use serde_json::Value;

use crate::dev::{Dev, ON_FREE_PORTS};
use crate::place;

/// A line to paste, and the parts that its output has to have.
#[derive(Debug)]
struct Line {
    prints: Vec<String>,
    line: String,
}

/// `locker dev` in a directory, with no place named.
fn start(place: &Place, options: &[&str]) -> Dev {
    let mut command = place.bare(&[&ON_FREE_PORTS, options].concat());
    command.current_dir(shop(place)).env_remove("CARGO");
    Dev::spawn(place, command)
}

fn lines(dev: &Dev) -> Vec<Line> {
    let mut prints = None;
    let mut lines = Vec::new();
    for line in dev.text().iter().filter_map(|line| line.strip_prefix("  ")) {
        if let Some(comment) = line.strip_prefix("# ") {
            let (_, parts) = comment.split_once(" Prints: ").expect("what it prints");
            let safe = |c: char| c.is_alphanumeric() || " ,.:@/_-".contains(c);
            assert!(comment.chars().all(safe), "a shell that reads no comments reads this: {comment}");
            prints = Some(parts.split(", ").map(str::to_owned).collect());
        } else {
            lines
                .push(Line { prints: prints.take().expect("each line has its text"), line: line.to_owned() });
        }
    }
    lines
}

fn shop(place: &Place) -> std::path::PathBuf {
    let directory = place.path("shop");
    std::fs::create_dir_all(&directory).expect("made");
    directory
}

/// What a line prints, in a shell in which `locker` is the command of this workspace.
fn pasted(place: &Place, line: &str) -> String {
    let binaries = place.path("bin");
    std::fs::create_dir_all(&binaries).expect("made");
    let locker = binaries.join("locker");
    if !locker.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_locker-dev"), &locker).expect("linked");
    }
    let variables = place.bare(&[]);
    let mut shell = Command::new("bash");
    for (name, value) in variables.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", binaries.display());
    let ran = shell.args(["-c", line]).current_dir(shop(place)).env("PATH", path).output().expect("bash");
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

/// Pastes each line in order, and returns the charges that the text names.
fn play(place: &Place, running: &Dev) -> BTreeSet<String> {
    let lines = lines(running);
    assert_eq!(lines.len(), 29, "{lines:#?}");
    let mut charges = BTreeSet::new();
    for Line { prints, line } in &lines {
        let printed = pasted(place, line);
        for part in prints {
            assert!(printed.contains(part.as_str()), "{line}\nprints: {part}\nbut it printed:\n{printed}");
            charges.extend(part.starts_with("ch_").then(|| part.clone()));
        }
        if line.contains("xargs") {
            let statuses: Vec<_> = printed.split_whitespace().skip(1).step_by(2).collect();
            assert!(statuses.iter().all(|status| ["201", "409"].contains(status)), "{printed}");
            let requests =
                printed.split_whitespace().step_by(2).map(|count| count.parse::<u32>().expect("a count"));
            assert_eq!(requests.sum::<u32>(), 50, "{printed}");
        }
    }
    charges
}

fn books(place: &Place) -> Vec<Value> {
    let books = std::fs::read(shop(place).join(".locker/books.json")).expect("books");
    let books: Value = serde_json::from_slice(&books).expect("JSON");
    books["entries"].as_object().expect("entries").values().cloned().collect()
}

fn charges(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    numbers.into_iter().map(|number| format!("ch_{number}")).collect()
}

#[test]
fn each_line_prints_what_its_text_says_also_after_a_restart_and_from_the_beginning() {
    let place = place();
    let running = start(&place, &[]);
    assert_eq!(play(&place, &running), charges(1..=5));
    // The charge of this purchase stays in doubt, and is sent again under its key.
    let in_doubt = "@you/purchase/k4 charge";
    let books_of_the_first = books(&place);
    let once = books_of_the_first.iter().filter(|charge| charge["asked"] == 1).count();
    assert!(
        once == 4 && books_of_the_first.iter().any(|charge| charge["key"] == in_doubt),
        "{books_of_the_first:#?}"
    );
    is_quiet(&place, &running);
    running.stop();

    let running = start(&place, &[]);
    assert_eq!(play(&place, &running), charges(6..=10), "new orders, and the books go on");
    assert_eq!(books(&place).len(), 10);
    running.stop();

    let running = start(&place, &["--fresh"]);
    assert!(books(&place).is_empty());
    let listed = pasted(
        &place,
        "locker ls tokens --local=.locker --output json; locker ls workflows --finished --local=.locker",
    );
    assert!(
        listed.contains("\"tokens\": []") && listed.contains("no listed record fits (workflows"),
        "{listed}"
    );
    assert_eq!(play(&place, &running), charges(1..=5));
    running.stop();
    // No other verb has a place of its own.
    let scanned = place.bare(&["scan"]).current_dir(shop(&place)).output().expect("the command runs");
    assert_eq!(scanned.status.code(), Some(78));
}

/// The log has a line for each request, and none for a round that found nothing.
fn is_quiet(place: &Place, running: &Dev) {
    let log = std::fs::read_to_string(place.path("log")).expect("a log");
    let requests = log.lines().filter(|line| line.contains("POST /")).count();
    let sent = lines(running).iter().filter(|line| line.line.contains("Idempotency-Key")).count();
    assert!(requests >= sent - 1 + 50, "{sent} {log}");
    for noise in ["scanned", "completed what was due", "reaped"] {
        assert!(!log.contains(noise), "{log}");
    }
}

#[test]
fn a_demo_that_is_run_by_cargo_names_cargo() {
    let place = place();
    let mut command = place.bare(&ON_FREE_PORTS);
    command.current_dir(shop(&place)).env("CARGO", "cargo");
    let dev = Dev::spawn(&place, command);
    let scan = dev.text().iter().find(|line| line.contains(" scan ")).map(String::as_str);
    assert_eq!(scan, Some("  cargo run -q -- scan --local=.locker"));
    dev.kill();
}
