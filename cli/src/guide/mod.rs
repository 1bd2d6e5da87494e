//! Completions for a shell and pages for `man`, generated from the command line with the verbs of a
//! registry.

mod completions;
mod man;

pub(crate) use completions::Completions;
pub(crate) use man::Man;
