//! The layout of the two tables: attributes, keys and indexes; making a table, and comparing a live
//! one.

pub(crate) mod attribute;
mod layout;
mod table;
#[cfg(feature = "workflow")]
mod workflow_table;

pub(crate) use layout::Layout;
pub use table::{TableCheck, check_table, create_table};
#[cfg(feature = "workflow")]
pub(crate) mod workflow {
    //! The same two functions for the table of workflows.
    pub use super::workflow_table::{check_table, create_table};
}
