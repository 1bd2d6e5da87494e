//! Scenes of rules that no plan of faults reaches: they need an operator, another writer or the
//! time of a run.

mod paused;
mod tokens;
mod workflows;

use std::time::Duration;

use lock_token_testing::Wire;

/// A scene that shows whether a rule holds.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// The name of the scene.
    pub name: &'static str,
    /// Plays it. An error describes what was seen instead.
    pub play: fn() -> Result<(), String>,
}

impl Scene {
    /// The scenes of tokens and of workflows.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        tokens::SCENES.iter().chain(workflows::SCENES)
    }

    /// The scene with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|scene| scene.name == name)
    }

    /// Whether it shows a rule of workflows.
    #[must_use]
    pub fn is_of_workflows(&self) -> bool {
        workflows::SCENES.iter().any(|scene| scene.name == self.name)
    }
}

/// Plays a scene over a served engine, with the library on this thread.
fn served<T>(scene: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(scene)
}

fn seen(holds: bool, seen: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(seen()) }
}

async fn is_held_back(wire: &Wire) {
    while wire.held() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
