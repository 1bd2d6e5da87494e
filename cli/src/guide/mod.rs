//! What a shell and `man` know about the command: made from its own command line, with the verbs of
//! a registry.

mod completions;
mod man;

pub(crate) use completions::Completions;
pub(crate) use man::Man;
