//! The embedded DynamoDB: an engine in this process over a file that several processes may share.

use std::path::Path;

use aws_sdk_dynamodb::Client;
use lock_token_testing::Embedded;

use crate::exit::Exit;

/// The table of the embedded engine.
pub(crate) const TABLE: &str = "locks";
/// The table of workflows of the embedded engine.
pub(crate) const WORKFLOWS: &str = "workflows";

/// Starts the engine over `DIR/locker.db` and returns a client for it.
///
/// The engine serves this process only, without a port, for as long as the client lives.
pub(crate) async fn start(directory: &Path) -> Result<Client, Exit> {
    let cannot = |what: &str, error: &dyn std::error::Error| {
        let directory = directory.display();
        Exit::say(Exit::SETUP, format!("cannot {what} the embedded tables in {directory}: {error}"))
    };
    make_private(directory).map_err(|error| cannot("create", &error))?;
    let engine = Embedded::open(&directory.join("locker.db")).map_err(|error| cannot("open", &error))?;
    Ok(engine.client())
}

/// Creates the directory for its user alone: stored output may be private.
fn make_private(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
