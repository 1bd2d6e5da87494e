//! A `locker` command with a workflow of your own:
//! `cargo run -p locker-cli --example own_workflows -- complete`.

use std::process::ExitCode;

use locker::workflow::{Flow, Stop, Workflow};
use locker_cli::Registry;

struct Greet;

impl Workflow for Greet {
    const NAME: &'static str = "greet";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: &Flow, name: String) -> Result<String, Stop> {
        let greet = |_| async {
            tracing::info!(%name, "greeting");
            Ok(format!("hello, {name}"))
        };
        flow.step("greet").run(greet).await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    // `register_with` is for code that needs clients, table names or options of its own.
    locker_cli::run(Registry::new().register(Greet).log("own_workflows")).await
}
