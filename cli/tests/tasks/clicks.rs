//! The ten tasks by clicks in Chromium.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use locker_tests::web::Web;
use serde_json::Value;

use crate::Night;
use crate::tools::Tools;

/// Plays `browser/tasks.mjs`, and adds a row for each task.
pub(crate) fn play(tools: &Tools, night: &mut Night) {
    let directory = night.store.directory.path();
    let command = night.command(&["console", "--allow-changes", "--as", "grace"]);
    let consoles = [("console", Web::start(command, directory.join("console.log")))];
    let mut script = tools.script("tasks.mjs", &night.command(&[]), &consoles, directory);
    let mut node = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node runs");
    let mut answers = node.stdin.take().expect("a pipe");
    let mut said = String::new();
    for line in BufReader::new(node.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        if line == "begin" {
            let _before = night.counted.take();
            answers.write_all(b"\n").expect("it waits");
        } else if let Some(task) = line.strip_prefix("end ") {
            let asked = night.counted.take();
            let task: Value = serde_json::from_str(task).expect("JSON");
            let number = |name: &str| task[name].as_f64().expect("a number");
            let name = task["name"].as_str().expect("a name");
            let [clicks, seconds, units] = ["clicks", "seconds", "units"].map(number);
            // A plan is made by a page that leads to another, and applied by no page.
            assert!(units <= asked.read_units + 0.5, "{name}: {units}, {} were read", asked.read_units);
            night
                .rows
                .push(format!("| {name} | {clicks} | {seconds:.1} | {units:.1} | {:.1} |", asked.read_units));
            answers.write_all(b"\n").expect("it waits");
        } else {
            println!("{line}");
            said = said + &line + "\n";
        }
    }
    assert!(node.wait().expect("it ends").success(), "{said}");
}
