//! Workflows in DynamoDB: items, conditional puts, transactions, the one query that resumes.

mod attribute;
pub(crate) mod given;
mod item;
mod list;
mod put;
mod query;
mod reap;
mod table;
mod transact;

pub(crate) use item::{
    LedgerEntry, Message, beside_item, header_item, header_of, ledger_item, message_item, record_item,
    record_of,
};
pub(crate) use list::{WorkflowCursor, WorkflowRow};
pub(crate) use put::{Guard, Put};
pub(crate) use query::Everything;
pub use table::{check_workflow_table, create_workflow_table};
pub(crate) use transact::{Action, Transacted, check_actions};

pub(crate) use super::item::Item;
