//! The operator's command, `locker`, as a library: the stock command plus the code of your
//! workflows.
//!
//! The stock command knows no workflow code, so `locker complete` and `locker reap` exit with 78.
//! Your own command is the same with your code in its [`Registry`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use locker::Failure;
//! use locker::workflow::{Flow, Stop, Workflow};
//! use locker_cli::Registry;
//!
//! struct Greet;
//!
//! impl Workflow for Greet {
//!     const NAME: &'static str = "greet";
//!     type Input = String;
//!     type Output = String;
//!
//!     async fn run(&self, flow: &Flow, name: String) -> Result<String, Stop> {
//!         flow.step("greet").run(async |_| Ok(format!("hello, {name}"))).await
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     locker_cli::run(Registry::new().register(Greet)).await
//! }
//! ```
//!
//! [`Registry::register_with`] is for code that needs clients or options, and [`Registry::verb`]
//! for your own verbs.

#![warn(clippy::print_stderr, clippy::print_stdout)]

mod act;
mod bulk;
mod command;
mod connection;
#[cfg(feature = "console")]
mod console;
mod dead;
mod doctor;
mod engine;
mod exit;
mod guide;
mod hint;
mod ls;
mod options;
mod output;
mod policy;
mod registry;
mod run;
mod status;
mod table;
mod timeline;
mod token;
mod workflow;

use std::process::ExitCode;

pub use connection::Connection;
#[cfg(feature = "console")]
pub use console::WebConsole;
pub use exit::Exit;
pub use options::Output;
pub use registry::{Registry, Verb};

/// Runs the command line of this process, with what `registry` adds to the stock command.
///
/// `--help`, `--version` and mistakes on the command line exit at once, with 0 or 2.
///
/// `locker once` starts this program again, with `__exec` as its first argument, and that process
/// becomes the command. Call this before you read the arguments in another way.
pub async fn run(registry: Registry) -> ExitCode {
    if let Some(arguments) = token::waiting_arguments() {
        return Exit::code_of(Ok(token::wait_and_become(&arguments)));
    }
    Exit::code_of(Box::pin(command::execute(registry)).await)
}
