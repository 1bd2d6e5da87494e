//! A `locker` command with a workflow of your own:
//! `cargo run -p locker-cli --example own_workflows -- complete`.

use std::process::ExitCode;
use std::time::Duration;

use locker::workflow::{Event, Flow, Stop, Workflow};
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

const APPROVED: Event<bool> = Event::named("approved");

struct Approve;

impl Workflow for Approve {
    const NAME: &'static str = "approve";
    type Input = ();
    type Output = Option<bool>;

    async fn run(&self, flow: &Flow, (): ()) -> Result<Option<bool>, Stop> {
        flow.wait_for(APPROVED, Duration::from_secs(30 * 24 * 60 * 60)).await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    // `register_with` is for code that needs clients, table names or options of its own.
    let registry = Registry::new().register(Greet).register(Approve).log("own_workflows");
    // `locker workflow signal` refuses an approval that is no `bool`.
    locker_cli::run(registry.event(&APPROVED)).await
}
