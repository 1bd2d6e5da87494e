//! `locker console` in headless Chromium: scripts in `tests/browser`, driven by Playwright, with
//! the accessibility rules of axe.
//!
//! `tests/chromium cargo test --workspace --locked --test browser` installs both from npm and runs
//! the tests. Without them, or without Chromium or Node, the tests pass with one line that names
//! what is missing. `LOCKER_BROWSER_TESTS=required` fails instead, and `LOCKER_BROWSER_TESTS=off`
//! skips them, with that line too.

#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use locker::{Begun, Locker};
use locker_tests::command::Place;
use locker_tests::filled::fill;
use locker_tests::web::Web;
use serde_json::json;

/// What the scripts need beside the console.
struct Tools {
    node: PathBuf,
    chromium: PathBuf,
    /// The npm packages and the pictures.
    home: PathBuf,
}

impl Tools {
    /// The tools, or the name of the first that is missing.
    fn find() -> Result<Self, String> {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/browser");
        let on_path = |name: &str| {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&folders).map(|it| it.join(name)).find(|it| it.is_file());
            found.ok_or_else(|| format!("there is no {name}"))
        };
        let (node, chromium) = (on_path("node")?, on_path("chromium")?);
        for package in ["playwright-core", "axe-core"] {
            if !home.join("node_modules").join(package).is_dir() {
                return Err(format!("{package} is not in target/browser: run tests/chromium"));
            }
        }
        Ok(Self { node, chromium, home })
    }

    /// `None`, and one line for all tests: they are skipped.
    fn found() -> Option<Self> {
        static SAID: Once = Once::new();
        let asked = std::env::var("LOCKER_BROWSER_TESTS").unwrap_or_default();
        let found = match asked.as_str() {
            "off" => Err("LOCKER_BROWSER_TESTS=off".to_owned()),
            _ => Self::find(),
        };
        match found {
            Ok(tools) => Some(tools),
            Err(missing) if asked == "required" => panic!("the browser tests cannot run: {missing}"),
            // Written past the capture of test output.
            Err(missing) => {
                SAID.call_once(|| {
                    writeln!(std::io::stderr(), "skipped the browser tests: {missing}").expect("written");
                });
                None
            }
        }
    }
}

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

/// Runs a script on consoles, by their names, and the command in one place.
fn run(tools: &Tools, script: &str, place: &Place, consoles: &[(&str, &Place, &[&str])]) {
    let opened: Vec<_> = consoles
        .iter()
        .map(|(name, of, options)| {
            let command = of.command(&[&["console"], *options].concat());
            (name, Web::start(command, of.path(&format!("{name}.log"))))
        })
        .collect();
    let call = place.command(&[]);
    let words = [call.get_program()].into_iter().chain(call.get_args()).map(|it| it.to_str().expect("text"));
    let mut node = Command::new(&tools.node);
    for (name, value) in call.get_envs() {
        match value {
            Some(value) => node.env(name, value),
            None => node.env_remove(name),
        };
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(script);
    let ran = node
        .current_dir(call.get_current_dir().expect("a directory"))
        .arg(file)
        .args(opened.iter().map(|(name, web)| format!("{name}=http://{}{}", web.host, web.first)))
        // The profile of Chromium is deleted with the place.
        .env("TMPDIR", place.path(""))
        .env("LOCKER_BROWSER_HOME", &tools.home)
        .env("LOCKER_BROWSER_CHROMIUM", &tools.chromium)
        .env("LOCKER_BROWSER_ONLY", std::env::var("LOCKER_BROWSER_ONLY").unwrap_or_default())
        .env("LOCKER_BROWSER_COMMAND", json!(words.collect::<Vec<_>>()).to_string())
        .output()
        .expect("node runs");
    let said = [ran.stdout, ran.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    assert!(ran.status.success(), "{script}:\n{said}");
    println!("{said}");
}

#[test]
fn every_page_in_every_mode() {
    let Some(tools) = Tools::found() else { return };
    let (place, empty) = (filled(), place());
    assert_eq!(empty.run(&["scan"]).code, 0);
    let consoles: [(_, _, &[_]); 3] =
        [("filled", &place, &[]), ("noData", &place, &["--no-data"]), ("empty", &empty, &[])];
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
