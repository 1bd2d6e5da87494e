//! Workflow code that the command runs: none in the stock command, one's own in the example.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use locker::workflow::{Flow, Stop, Workflow, Workflows};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::place;

/// The same workflow as in the example, for starting it with an input of this type.
struct Greet<I>(PhantomData<I>);

impl<I: Serialize + DeserializeOwned + Send + Sync + 'static> Workflow for Greet<I> {
    const NAME: &'static str = "greet";
    type Input = I;
    type Output = String;

    async fn run(&self, _: &Flow, _: I) -> Result<String, Stop> {
        Err(Stop::fail("the example runs it"))
    }
}

/// `cargo test` builds the examples beside the command, unless it was given one test target.
fn example() -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_locker")).parent().expect("a directory");
    let example = directory.join("examples/own_workflows");
    assert!(example.exists(), "build it first: cargo build -p locker-cli --example own_workflows");
    example
}

#[test]
fn the_stock_command_has_no_code_and_says_how_to_build_one_that_has() {
    let place = place();
    for verb in ["complete", "reap"] {
        let ran = place.bare(&[verb]).output();
        let ran = locker_tests::command::Ran::of(ran.expect("the command runs"));
        assert_eq!((ran.code, ran.text()), (78, ""), "{verb}");
        assert_eq!(
            ran.said,
            "locker: no workflow code is registered in this command, so nothing was read or changed; to build a command \
             with your workflows, see the example own_workflows of locker-cli (cli/examples/own_workflows.rs)\n"
        );
        let help = place.run(&[verb, "--help"]);
        assert_eq!(help.code, 0);
        for part in ["no workflow code is registered in this command", "own_workflows"] {
            assert!(help.text().contains(part), "{}", help.text());
        }
        let help = place.run_by(example(), &[verb, "--help"]);
        assert!(!help.text().contains("own_workflows"), "{}", help.text());
    }
    assert!(!place.path("home").exists(), "nothing was created");
}

#[test]
fn a_command_with_its_own_code_completes_and_reaps() {
    let place = place();
    assert_eq!(place.run(&["workflow", "table", "create"]).code, 0);
    let client = place.client();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&client, place.workflows()).expect("workflows");
        workflows
            .start(&Greet(PhantomData), "greet/7", &"Ada".to_owned())
            .enqueue()
            .await
            .expect("an outcome");
    });
    let completed = place.run_by(example(), &["complete", "--output", "json"]);
    assert_eq!((completed.code, &completed.json()["completed"]), (0, &json!(1)), "{}", completed.said);
    assert_eq!(completed.said, "locker: 1 claimed: 1 completed, 0 compensated, 0 waiting, 0 in quarantine\n");
    let shown = place.run(&["workflow", "show", "greet/7", "--content", "--output", "json"]).json();
    assert_eq!((&shown["state"], &shown["result"]), (&json!("completed"), &json!("hello, Ada")));
    let reaped = place.run_by(example(), &["reap"]);
    assert_eq!(
        (reaped.code, reaped.said.as_str()),
        (0, "locker: 0 deleted, 0 kept, 0 completed, 0 in quarantine\n")
    );
}

/// Its input is of another type than the code's.
#[test]
fn run_that_quarantines_a_workflow_exits_with_5() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        workflows.start(&Greet(PhantomData), "greet/7", &7_u32).enqueue().await.expect("an outcome");
    });
    let completed = place.run_by(example(), &["complete"]);
    assert_eq!(completed.code, 5, "{}", completed.said);
    let said = place.without_options(&completed.said);
    assert!(
        said != completed.said && said.contains("see `locker ls workflows --need quarantined`"),
        "{said}"
    );
}

#[test]
fn event_of_own_code_is_logged_without_control_characters() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        let name = "Ada\u{1b}[2J\u{202e}\u{200b}\r\nforged".to_owned();
        workflows.start(&Greet(PhantomData), "greet/7", &name).enqueue().await.expect("an outcome");
    });
    let completed = place.run_by(example(), &["-v", "complete"]);
    assert_eq!(completed.code, 0, "{}", completed.said);
    let event = completed.said.lines().find(|line| line.contains("greeting"));
    let event = event.unwrap_or_else(|| panic!("{}", completed.said));
    assert!(event.contains("name=Ada") && event.contains("forged"), "the event is one line: {event}");
    let is_odd = |it: char| it.is_control() && it != '\n' || ['\u{202e}', '\u{200b}'].contains(&it);
    assert!(!completed.said.contains(is_odd), "{:?}", completed.said);
}
