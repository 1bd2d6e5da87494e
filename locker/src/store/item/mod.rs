//! Conversion of records to items and back. Any program may have written an item: the result of a
//! conversion is a record or a clear error, never a guess.

mod audit;
#[cfg(feature = "workflow")]
mod event;
mod foreign_value;
#[cfg(feature = "workflow")]
mod header;
#[cfg(feature = "workflow")]
mod message;
mod reader;
mod size;
#[cfg(feature = "workflow")]
mod step;
mod token;
mod value;
#[cfg(feature = "workflow")]
mod writer;

pub(crate) use audit::audit_item;
#[cfg(feature = "messages")]
pub(crate) use audit::replaced_item;
#[cfg(feature = "workflow")]
pub(crate) use audit::workflow_audit_item;
#[cfg(feature = "workflow")]
pub(crate) use event::{event_item, event_of, event_receipt_item, event_receipt_of};
#[cfg(feature = "workflow")]
pub(crate) use header::{LedgerEntry, failed_runs_item, failed_runs_of, header_item, header_of, ledger_item};
#[cfg(feature = "messages")]
pub(crate) use message::{
    failures_item, failures_of, is_message, receipt_item, receipt_left, receipt_of, remembered_of,
};
#[cfg(feature = "workflow")]
pub(crate) use message::{message_item, message_of};
pub(crate) use size::{TokenSize, room_for_answer};
#[cfg(feature = "workflow")]
pub(crate) use step::{record_item, record_of};
pub(crate) use token::{from_token, to_record};
pub(crate) use value::{Item, answer_value, item_key, moment, number, text, to_answer, token_key};
#[cfg(feature = "workflow")]
pub(crate) use writer::beside_item;

#[cfg(feature = "workflow")]
#[cfg(test)]
mod workflow_properties;
