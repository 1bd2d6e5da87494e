//! From records to items and back. Any program may have written an item: whatever it holds, the outcome is a
//! record or a clear error, never a guess.

mod audit;
mod foreign_value;
mod header;
mod message;
mod reader;
mod size;
mod step;
mod token;
mod value;
mod writer;

pub(crate) use audit::{audit_item, workflow_audit_item};
pub(crate) use header::{LedgerEntry, header_item, header_of, ledger_item};
pub(crate) use message::{
    is_message, kept_until, message_item, message_of, receipt_item, receipt_left, receipt_of,
};
pub(crate) use size::{TokenSize, room_for_answer};
pub(crate) use step::{record_item, record_of};
pub(crate) use token::{from_token, to_record};
pub(crate) use value::{Item, answer_value, item_key, moment, number, text, to_answer, token_key};
pub(crate) use writer::beside_item;

#[cfg(test)]
mod workflow_properties;
