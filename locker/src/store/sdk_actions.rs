//! The actions of a transaction as a caller gives them: the SDK's own.

pub(crate) use aws_sdk_dynamodb::types::{ConditionCheck, Delete, Put, TransactWriteItem, Update};

pub(crate) fn put(put: Put) -> TransactWriteItem {
    TransactWriteItem::builder().put(put).build()
}

pub(crate) fn update(update: Update) -> TransactWriteItem {
    TransactWriteItem::builder().update(update).build()
}

pub(crate) fn delete(delete: Delete) -> TransactWriteItem {
    TransactWriteItem::builder().delete(delete).build()
}

pub(crate) fn check(check: ConditionCheck) -> TransactWriteItem {
    TransactWriteItem::builder().condition_check(check).build()
}
