//! The pages. Each reads by the library's console, and returns the content of its page.

mod acts;
mod attention;
mod audit;
mod data;
mod drawing;
mod find;
mod health;
mod html;
mod layout;
mod listed;
mod token;
mod workflow;

use std::collections::HashMap;

pub(super) use attention::{attention, group};
pub(super) use audit::audit;
pub(super) use data::{token_data, workflow_data};
pub(super) use find::find;
pub(super) use health::health;
pub(super) use layout::Page;
pub(super) use token::token;
pub(super) use workflow::workflow;

use crate::exit::Exit;

/// The parameters of an address.
type Asked = HashMap<String, String>;

/// A parameter that a page needs.
fn needed<'a>(asked: &'a Asked, name: &str) -> Result<&'a str, Exit> {
    let missing = || Exit::say(Exit::USAGE, format!("the address has no {name}; begin with Needs attention"));
    asked.get(name).map(String::as_str).filter(|value| !value.is_empty()).ok_or_else(missing)
}

/// What a reader does about a record that is not there.
const ABSENT: &str = "It ended and was deleted after its retention, it never existed, or the key is mistyped. Find searches \
                      everything that is listed; Audit has the acts of operators on deleted records, too.";
