//! Transactions: a recovery point, rows of the caller's, and messages, all or nothing.

#![cfg_attr(not(feature = "workflow"), allow(dead_code, reason = "only workflows use all of it"))]

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::CancellationReason;

use super::action::Action;
use super::exchange::Failure;
use super::item::Item;
use super::schema::attribute as a;
use super::{Store, Until, Written, units};
use crate::core::reply;
use crate::core::retry::{Heard, Tries};
use crate::error::Error;
use crate::metrics;

/// The places whose conditions failed, counted from 0, with the item that is there.
pub(crate) type Places = Vec<(usize, Option<Item>)>;

impl Store {
    /// Commits all of the actions or none.
    ///
    /// `token`: the same for every request of this call, so that DynamoDB recognises it for ten
    /// minutes. Beyond them the revision of the first put does. Without the token: the transaction
    /// is applied, its reply is lost, another writer changes the items, and the next request is
    /// refused.
    pub(crate) async fn transact(
        &self,
        verb: &'static str,
        actions: &[Action],
        token: &str,
        until: Until,
    ) -> Result<Written<Places>, Error> {
        let mut tries = Tries::default();
        loop {
            metrics::count_request(verb);
            let failure =
                match self.exchange(tries, until, Box::pin(self.transact_once(verb, actions, token))).await {
                    Ok(None) => return Ok(Written::Done),
                    Ok(Some(reasons)) => match read(&reasons, actions) {
                        Read::Applied => return Ok(Written::Done),
                        Read::Refused(at) => {
                            return Ok(Written::Refused { found: at, after_silence: tries.silent });
                        }
                        Read::Busy(said) => busy(said),
                        Read::Denied { code, said } => {
                            Failure { heard: Heard::Denied, code: Some(code), cause: said.into(), item: None }
                        }
                    },
                    Err(failure) => failure,
                };
            if failure.heard == Heard::Silence {
                metrics::count_silence(verb);
            }
            self.after_failure(verb, &mut tries, until, failure).await?;
        }
    }

    async fn transact_once(
        &self,
        verb: &'static str,
        actions: &[Action],
        token: &str,
    ) -> Result<Option<Vec<CancellationReason>>, Failure> {
        let items = actions.iter().map(|action| action.build(&self.table)).collect::<Result<_, _>>()?;
        let sent = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items))
            .client_request_token(token)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await;
        match sent {
            Ok(output) => {
                for consumed in output.consumed_capacity.as_deref().unwrap_or_default() {
                    metrics::count_write_units(verb, units(Some(consumed)));
                }
                Ok(None)
            }
            Err(SdkError::ServiceError(error)) if error.err().is_transaction_canceled_exception() => {
                let TransactWriteItemsError::TransactionCanceledException(cancelled) = error.into_err()
                else {
                    return Ok(Some(Vec::new()));
                };
                Ok(Some(cancelled.cancellation_reasons.unwrap_or_default()))
            }
            Err(error) => Err(Failure::of(error, |_| None)),
        }
    }
}

enum Read {
    Applied,
    Refused(Places),
    Busy(String),
    Denied { code: String, said: String },
}

/// Classifies the reasons of a cancelled transaction, by the place of their action.
///
/// The library's own items decide first. Two transactions for one message conflict at its receipt.
/// The later transaction finds the receipt locked, and rows that the first one changed. Only the
/// receipt shows that the message was processed.
fn read(reasons: &[CancellationReason], actions: &[Action]) -> Read {
    let mut refused = Vec::new();
    let (mut busy, mut denied) = (None, None);
    let (mut own_refused, mut own_busy) = (false, false);
    for (place, reason) in reasons.iter().enumerate() {
        let Some(code) = reason.code().filter(|code| *code != "None") else { continue };
        let said = || format!("{code} at action {place}: {}", reason.message().unwrap_or("no message"));
        let is_own = !matches!(actions.get(place), None | Some(Action::Given(_)));
        match reply::class_of_reason(code) {
            Heard::Refused => {
                let mine = match actions.get(place) {
                    Some(Action::Put { item, .. } | Action::PutOver { item, .. }) => revision_of(item),
                    #[cfg(feature = "messages")]
                    Some(Action::Receive { receipt, .. }) => Some(&receipt.revision),
                    _ => None,
                };
                // An earlier request of this call was applied and its reply was lost. Without this,
                // the call would be refused by its own items.
                if mine.is_some() && mine == reason.item.as_ref().and_then(revision_of) {
                    return Read::Applied;
                }
                own_refused |= is_own;
                refused.push((place, reason.item.clone()));
            }
            Heard::Denied => {
                let code = code_of(code, actions.get(place)).to_owned();
                denied = denied.or(Some(Read::Denied { code, said: said() }));
            }
            _ => {
                own_busy |= is_own;
                busy = Some(said());
            }
        }
    }
    // Cancelled without a reason: nothing was applied.
    let busy =
        || Read::Busy(busy.unwrap_or_else(|| "the transaction was cancelled without a reason".to_owned()));
    match denied {
        _ if own_refused => Read::Refused(refused),
        _ if own_busy => busy(),
        Some(denied) => denied,
        None if refused.is_empty() => busy(),
        None => Read::Refused(refused),
    }
}

/// The code of the error for a reason that stays until something is changed.
///
/// For an action of the library, the advice of the exception applies: it is about the table of the
/// store. An action of the caller may name another table.
fn code_of<'a>(reason: &'a str, action: Option<&Action>) -> &'a str {
    match reason {
        _ if matches!(action, None | Some(Action::Given(_))) => reason,
        "AccessDenied" => "AccessDeniedException",
        "ResourceNotFound" => "ResourceNotFoundException",
        "ValidationError" => "ValidationException",
        reason => reason,
    }
}

fn revision_of(item: &Item) -> Option<&String> {
    item.get(a::REVISION)?.as_s().ok()
}

fn busy(said: String) -> Failure {
    Failure {
        heard: Heard::Busy,
        code: Some("TransactionCanceledException".to_owned()),
        cause: said.into(),
        item: None,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::TransactWriteItem;

    use super::*;

    fn reason(code: &str) -> CancellationReason {
        CancellationReason::builder().code(code).message("said").build()
    }

    #[test]
    fn reason_that_may_pass_is_busy_whatever_its_code() {
        for code in [
            "TransactionConflict",
            "ProvisionedThroughputExceeded",
            "ThrottlingError",
            "RequestLimitExceeded",
            "InternalServerError",
            "InternalFailure",
            "ServiceUnavailable",
            "AddedLater",
        ] {
            let Read::Busy(said) = read(&[reason("None"), reason(code)], &[]) else { panic!("{code}") };
            assert_eq!(said, format!("{code} at action 1: said"));
        }
    }

    #[test]
    fn items_of_the_library_decide_before_those_of_the_caller() {
        let own = Action::Put { item: Item::new(), absent: true };
        let given = Action::Given(Box::new(TransactWriteItem::builder().build()));
        let read =
            |of_own, of_given| match read(&[reason(of_own), reason(of_given)], &[own.clone(), given.clone()])
            {
                Read::Applied => "applied".to_owned(),
                Read::Refused(at) => {
                    format!("refused {:?}", at.iter().map(|(place, _)| *place).collect::<Vec<_>>())
                }
                Read::Busy(_) => "busy".to_owned(),
                Read::Denied { .. } => "denied".to_owned(),
            };
        let (refused, busy, denied) = ("ConditionalCheckFailed", "TransactionConflict", "ValidationError");
        for (of_own, of_given, decided) in [
            ("None", refused, "refused [1]"),
            ("None", busy, "busy"),
            ("None", denied, "denied"),
            (refused, "None", "refused [0]"),
            (refused, refused, "refused [0, 1]"),
            (refused, busy, "refused [0]"),
            (refused, denied, "refused [0]"),
            (busy, "None", "busy"),
            (busy, refused, "busy"),
            (busy, busy, "busy"),
            (busy, denied, "busy"),
            (denied, "None", "denied"),
            (denied, refused, "denied"),
            (denied, busy, "denied"),
        ] {
            assert_eq!(read(of_own, of_given), decided, "{of_own}, {of_given}");
        }
    }

    #[test]
    fn lasting_reason_gives_advice_about_the_table_only_for_an_action_of_the_library() {
        let own = Action::Put { item: Item::new(), absent: true };
        let given = Action::Given(Box::new(TransactWriteItem::builder().build()));
        for (reason_code, code) in [
            ("ValidationError", "ValidationException"),
            ("AccessDenied", "AccessDeniedException"),
            ("ResourceNotFound", "ResourceNotFoundException"),
            ("ItemCollectionSizeLimitExceeded", "ItemCollectionSizeLimitExceeded"),
        ] {
            for (place, action_code) in [(0, code), (1, reason_code)] {
                let mut reasons = [reason("None"), reason("None")];
                reasons[place] = reason(reason_code);
                let Read::Denied { code, said } = read(&reasons, &[own.clone(), given.clone()]) else {
                    panic!("{reason_code}")
                };
                assert_eq!(
                    (code.as_str(), said),
                    (action_code, format!("{reason_code} at action {place}: said"))
                );
            }
        }
    }
}
