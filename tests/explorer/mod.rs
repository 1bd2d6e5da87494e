//! Every plan of faults, to a depth: the real library on the real SDK, an engine in the same
//! process, and a scheduler that decides what becomes of each exchange, who goes next, when a late
//! request arrives and who dies.
//!
//! A plan is a list of choices. All plans of a scenario form a tree, and [`explore`] walks it;
//! nothing in it depends on chance, so a plan that breaks an invariant is printed and can be played
//! again.

mod been;
mod choices;
mod explore;
mod fate;
mod ids;
mod invariant;
mod memory;
mod play;
mod port;
mod program;
mod scenario;
mod scenes;
mod stored;
mod verify;
mod workflow;
mod world;

pub use been::Been;
pub use choices::{Choices, Plan};
pub use explore::{Explored, Playable, explore, explore_random};
pub(crate) use fate::heard;
pub use fate::{ALL, FEW, Fate};
pub use invariant::{Invariant, Violation};
pub use memory::{Memory, Reply};
pub use play::{Bounds, Played, Rig};
pub use scenario::{Scenario, Verb, scenarios};
pub use scenes::Scene;
pub use workflow::{WorkflowRig, WorkflowScenario, endings, workflow_scenarios};
