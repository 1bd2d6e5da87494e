//! `locker console` in headless Chromium: scripts in `tests/browser`, driven by Playwright, with
//! the accessibility rules of axe.
//!
//! `tests/chromium cargo test --workspace --locked --test browser` installs both from npm and runs
//! the tests. Without them, or without Chromium or Node, the tests pass with one line that names
//! what is missing. `BROWSER_TESTS=required` fails instead, and `BROWSER_TESTS=off`
//! skips them, with that line too.

#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "browser/tools.rs"]
mod tools;

use locker::inbox::Delivery;
use locker::workflow::Workflows;
use locker::{Begun, Class, Locker};
use locker_tests::command::Place;
use locker_tests::filled::fill;
use locker_tests::web::Web;
use tools::Tools;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_locker"))
}

/// A place with records in each state, and a token whose key is markup, and too long for a line.
fn filled() -> Place {
    let place = place();
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        fill(&place).await;
        let locker = Locker::new(&place.client(), place.table()).expect("a locker");
        let key = format!("long/<img/src=x/onerror=alert(1)>\"'{}", "k".repeat(160));
        let begun = locker.token(key).begin().await.expect("a valid key");
        let Begun::Acquired(lock) = begun else { panic!("not acquired: {begun:?}") };
        lock.hold(&"cause".repeat(60)).await.expect("held");
    });
    place
}

/// The same, with records for each act of `acts.mjs`: held tokens of four causes, and dead messages.
fn filled_to_act_on() -> Place {
    let place = filled();
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        let client = place.client();
        let locker = Locker::new(&client, place.table()).expect("a locker");
        let held =
            [("mail", 12, "relay denied"), ("print", 300, "no paper"), ("stale", 1, "the file is lost")];
        for (kind, count, cause) in held.into_iter().chain([("keys", 1, "the cable is cut")]) {
            for number in 1..=count {
                let begun = locker.token(format!("{kind}/{number}")).begin().await.expect("a valid key");
                let Begun::Acquired(lock) = begun else { panic!("not acquired: {begun:?}") };
                lock.hold(cause).await.expect("held");
            }
        }
        let workflows = Workflows::new(&client, place.workflows()).expect("workflows");
        let consumer = workflows.inbox("packer").expect("a name").consumer();
        for number in 1..=4 {
            let delivery = Delivery::new(format!("box {number}"), "order").group(format!("box/{number}"));
            consumer.dead_letter(&delivery, Class::Permanent, "there is no such box").await.expect("kept");
        }
    });
    place
}

/// Runs a script on consoles, by their names, and the command in one place.
fn run(tools: &Tools, script: &str, place: &Place, consoles: &[(&str, &Place, &[&str])]) {
    let opened: Vec<_> = consoles
        .iter()
        .map(|(name, of, options)| {
            let command = of.command(&[&["console"], *options].concat());
            (*name, Web::start(command, of.path(&format!("{name}.log"))))
        })
        .collect();
    let mut node = tools.script(script, &place.command(&[]), &opened, &place.path(""));
    let ran = node.output().expect("node runs");
    let said = [ran.stdout, ran.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    assert!(ran.status.success(), "{script}:\n{said}");
    println!("{said}");
}

#[test]
fn every_page_in_each_pair_of_modes() {
    let Some(tools) = Tools::found() else { return };
    let (place, empty) = (filled(), place());
    assert_eq!(empty.run(&["scan"]).code, 0);
    let consoles: [(_, _, &[_]); 4] = [
        ("filled", &place, &[]),
        ("acting", &place, &["--allow-changes", "--as", "grace"]),
        ("noData", &place, &["--no-data"]),
        ("empty", &empty, &[]),
    ];
    run(&tools, "pages.mjs", &place, &consoles);
}

#[test]
fn script_copies_and_updates() {
    let Some(tools) = Tools::found() else { return };
    let place = filled();
    run(&tools, "script.mjs", &place, &[("filled", &place, &[])]);
}

#[test]
fn keyboard_alone_opens_everything() {
    let Some(tools) = Tools::found() else { return };
    let place = filled();
    run(&tools, "keyboard.mjs", &place, &[("filled", &place, &[])]);
}

#[test]
fn acts_with_a_script() {
    act("script");
}

#[test]
fn acts_without_a_script() {
    act("plain");
}

fn act(mode: &str) {
    let Some(tools) = Tools::found() else { return };
    let place = filled_to_act_on();
    run(&tools, "acts.mjs", &place, &[(mode, &place, &["--allow-changes", "--as", "grace"])]);
}
