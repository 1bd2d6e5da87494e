//! The story of one key: the token or the workflow, what belongs to it, and what happened to each, in order.
//!
//! ```no_run
//! # async fn example(locker: locker::Locker, workflows: locker::workflow::Workflows) -> Result<(), locker::Error> {
//! let story = locker::operator::StoryBuilder::new().tokens(&locker).workflows(&workflows).read("@you/orders/7").await?;
//! for event in &story.events {
//!     println!("{} {}: {} {:?}", event.at, event.of.to_text(), event.what, event.cause);
//! }
//! for choice in &story.choices {
//!     println!("{}: {}", choice.verb, choice.effect);
//! }
//! # Ok(()) }
//! ```
//!
//! What belongs to it is the [`Work`](crate::Work) that it was begun inside; and whatever was begun inside it and is overdue, in doubt,
//! held or unfinished, or was acted on by an operator. What was begun inside it and ended by itself names it, and is not listed. The story has no input and no result: [`Locker::answer`](crate::Locker::answer),
//! [`View::result`](crate::workflow::View::result) and [`Workflows::input`](crate::workflow::Workflows::input) read them.

mod acts;
mod builder;
mod choice;
mod event;
mod of_message;
mod of_token;
mod of_workflow;

pub(super) use builder::choices_of;
pub use builder::{Part, Story, StoryBuilder};
pub use choice::{Choice, Verb};
pub use event::{Event, Happening};
