//! Tables that an earlier version wrote, and this version reads.
//!
//! `fill` writes tokens, workflows and messages in all states. The folder `upgrade/VERSION` contains
//! the items that the `fill` of that version wrote. Each test below reads all folders.
//!
//! `UPDATE_FIXTURES=1 cargo test --workspace --locked --test upgrade` writes the folder of the present
//! version, and no other folder.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "workflow/bench.rs"]
#[allow(dead_code, reason = "shared with the tests of workflows")]
mod bench;

#[path = "upgrade/folder.rs"]
mod folder;
#[path = "upgrade/messages.rs"]
mod messages;
#[path = "upgrade/newer.rs"]
mod newer;
#[path = "upgrade/operators.rs"]
mod operators;
#[path = "upgrade/shapes.rs"]
mod shapes;
#[path = "upgrade/stage.rs"]
mod stage;
#[path = "upgrade/tokens.rs"]
mod tokens;
#[path = "upgrade/trips.rs"]
mod trips;
#[path = "upgrade/workflows.rs"]
mod workflows;

use stage::Stage;

/// Writes tokens, workflows and messages in all states through the public API.
///
/// Add each new row to the table of its kind as well, and remove no row: each folder has the rows of
/// 0.1.0. The tables allow that the folder of an earlier version lacks a row.
async fn fill(stage: &Stage) {
    tokens::fill(stage).await;
    workflows::fill(stage).await;
    messages::fill(stage).await;
    // The last write, whose time is the time of the table.
    locker::Scanner::new(&stage.locker()).run().await.unwrap();
}
