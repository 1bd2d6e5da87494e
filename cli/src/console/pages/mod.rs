//! The pages. Each reads by the library's console, and returns the content of its page.

mod act;
mod acts;
mod attention;
mod audit;
mod data;
mod doubt;
mod drawing;
mod find;
mod health;
mod html;
mod layout;
mod life;
mod listed;
mod messages;
mod plan;
mod token;
mod workflow;
mod workflows;

use std::collections::HashMap;

pub(super) use act::{act, act_form};
pub(super) use attention::{attention, group};
pub(super) use audit::audit;
pub(super) use data::{message_data, token_data, workflow_data};
pub(super) use doubt::doubt;
pub(super) use find::find;
pub(super) use health::health;
pub(super) use layout::Page;
pub(super) use messages::{message, messages};
pub(super) use plan::{apply_plan, make_plan, plan, plan_data, plan_form, stop_plan};
pub(super) use token::token;
pub(super) use workflow::workflow;
pub(super) use workflows::workflows;

use locker::operator::Need;

use super::server::Desk;
use crate::exit::Exit;

/// The parameters of an address, or the fields of a form.
type Asked = HashMap<String, String>;

/// A request for a page with a form that changes something, or the content of such a form.
pub(super) struct Visit<'a> {
    pub(super) desk: &'a Desk,
    pub(super) asked: &'a Asked,
    /// The token of the session, which each form contains.
    pub(super) token: &'a str,
}

/// A parameter that has a value.
fn given<'a>(asked: &'a Asked, name: &str) -> Option<&'a str> {
    asked.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// A parameter that a page needs.
fn needed<'a>(asked: &'a Asked, name: &str) -> Result<&'a str, Exit> {
    given(asked, name).ok_or_else(|| Exit::say(Exit::USAGE, format!("the {name} is missing")))
}

/// The need with this name.
fn need_named(name: &str) -> Option<Need> {
    Need::ALL.into_iter().find(|need| need.as_str() == name)
}

/// The advice for a reader if a record does not exist.
const ABSENT: &str = "It ended and was deleted after its retention, it never existed, or the key is mistyped. Find searches \
                      everything that is listed; Audit has the acts of operators on deleted records, too.";
