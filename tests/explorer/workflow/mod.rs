//! The same for workflows: drivers, operators, a completer and a provider with books of its own.
//!
//! Every request to the table and every call of the provider is an exchange. A plan goes well and
//! one actor after another, but for as many choices as its depth says: what becomes of an exchange,
//! who comes when, who sleeps at which exchange while the others go on, when a late request
//! arrives. In the end everything settles, and the books and the stored items are judged.

mod act;
mod books;
mod broker;
mod code;
mod judge;
mod options;
mod place;
mod play;
mod program;
mod provider;
mod scenario;
mod scenarios;
mod settle;
mod told;
mod world;

pub use play::WorkflowRig;
pub use scenario::WorkflowScenario;
pub use scenarios::{endings, workflow_scenarios};
