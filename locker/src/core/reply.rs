//! The class of an error reply of AWS: whether its request may have been applied, and whether a
//! retry may succeed.
//!
//! DynamoDB and the targets of messages share this table. The class describes one request. Whether
//! the outcome of a call is unknown depends on all of its requests
//! ([`Tries`](super::retry::Tries)).

use super::retry::Heard;

/// Codes of requests that were not applied and may be sent again unchanged.
const BUSY: [&str; 20] = [
    "Throttling",
    "ThrottlingException",
    "Throttled",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "EC2ThrottledException",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "ProvisionedThroughputExceededException",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "OverLimit",
    "SlowDown",
    "PriorRequestNotComplete",
    "KmsThrottled",
    "KMSThrottling",
    "KMSThrottlingException",
    "ReplicatedWriteConflictException",
    "TransactionConflictException",
];

/// Codes of requests whose credentials, signature or time were refused.
const UNSIGNED: [&str; 17] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "InvalidSecurityException",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestExpired",
    "RequestInTheFuture",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "UnrecognizedClientException",
];

/// Codes of requests that may have been applied.
const SILENCE: [&str; 10] = [
    "InternalError",
    "InternalException",
    "InternalFailure",
    "InternalServerError",
    "InternalServiceError",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    // The same transaction is in progress.
    "TransactionInProgressException",
];

/// Codes of targets of messages that lie in the message: no other message is refused for them.
///
/// Sources: Amazon SQS API Reference, `SendMessageBatch` and `SendMessage`; Amazon SNS API
/// Reference, `PublishBatch`; Amazon EventBridge API Reference, `PutEventsResultEntry`.
#[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
const OF_MESSAGE: [&str; 6] = [
    "BatchRequestTooLong",
    "BatchRequestTooLongException",
    "InvalidMessageContents",
    "MalformedDetail",
    "RequestEntityTooLarge",
    "RequestEntityTooLargeException",
];

/// The same, if they are about one entry of a batch. About the whole request they may be about the
/// target's address.
#[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
const OF_ENTRY: [&str; 4] = [
    "InvalidParameter",
    "InvalidParameterException",
    "InvalidParameterValue",
    "InvalidParameterValueException",
];

/// Codes of targets of messages that lie in the target: its address, its permissions, its account.
/// Codes of keys are in [`is_of_key`]. Sources as above.
#[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
const OF_TARGET: [&str; 21] = [
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "AuthorizationErrorException",
    "EndpointDisabled",
    "EndpointDisabledException",
    "InvalidAccountIdException",
    "InvalidAddress",
    "NonExistentQueue",
    "NotAuthorized",
    "NotAuthorizedForSourceException",
    "NotFound",
    "NotFoundException",
    "OptInRequired",
    "PlatformApplicationDisabled",
    "PlatformApplicationDisabledException",
    "QueueDeletedRecently",
    "QueueDoesNotExist",
    "ResourceNotFound",
    "ResourceNotFoundException",
    "UnsupportedOperation",
];

/// The part that a target of messages refused.
#[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Message,
    Target,
    /// The code is in no list.
    Unlisted,
}

/// Returns the part that a code refuses. `of_entry`: the code belongs to one entry of a batch, and
/// not to the request.
#[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
pub(crate) fn about(code: &str, of_entry: bool) -> About {
    match plain(code) {
        of if OF_MESSAGE.contains(&of) || of_entry && OF_ENTRY.contains(&of) => About::Message,
        of if OF_TARGET.contains(&of) || is_of_key(code) => About::Target,
        _ => About::Unlisted,
    }
}

/// Whether a code is of AWS KMS, such as `KMS.DisabledException`, `KMSDisabled` or `KmsDisabled`. A
/// queue or a topic has one key for all of its messages.
#[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
fn is_of_key(code: &str) -> bool {
    code.split(['#', '.']).any(|part| part.starts_with("KMS") || part.starts_with("Kms"))
}

/// Reasons of cancelled transactions that stay until something is changed.
const LASTING_REASONS: [&str; 5] = [
    "AccessDenied",
    "DuplicateItem",
    "ItemCollectionSizeLimitExceeded",
    "ResourceNotFound",
    "ValidationError",
];

/// Returns the class of a reason of a cancelled transaction.
///
/// The cancellation proves that nothing was applied. So no reason is silence, not even an internal
/// error. A reason that is not in the table may pass.
pub(crate) fn class_of_reason(code: &str) -> Heard {
    match plain(code) {
        "ConditionalCheckFailed" => Heard::Refused,
        code if LASTING_REASONS.contains(&code) => Heard::Denied,
        _ => Heard::Busy,
    }
}

/// Returns the class of an error reply, by its code, or by its status if the code is not in the
/// table.
pub(crate) fn class_of(code: Option<&str>, status: u16) -> Heard {
    match code.map(plain).filter(|code| !code.is_empty()) {
        Some("ConditionalCheckFailedException") => Heard::Refused,
        Some(code) if BUSY.contains(&code) => Heard::Busy,
        Some(code) if UNSIGNED.contains(&code) => Heard::Unsigned,
        Some(code) if SILENCE.contains(&code) => Heard::Silence,
        code => class_of_status(status, code.is_some()),
    }
}

/// `is_of_service`: the reply has a code, so it comes from the service, and not from a proxy.
const fn class_of_status(status: u16, is_of_service: bool) -> Heard {
    match status {
        429 => Heard::Busy,
        // A proxy may have passed the request on before it gave up.
        408 => Heard::Silence,
        400..500 if is_of_service => Heard::Denied,
        400..500 => Heard::Busy,
        // An error with the status 200 is a reply that cannot be parsed.
        _ => Heard::Silence,
    }
}

/// A code without its namespace, such as that of a JSON protocol or `AWS.SimpleQueueService.`.
fn plain(code: &str) -> &str {
    code.rsplit(['#', '.']).next().unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_code_has_its_class_whatever_the_status() {
        for status in [200, 400, 403, 500, 503] {
            for (codes, class) in
                [(&BUSY[..], Heard::Busy), (&UNSIGNED, Heard::Unsigned), (&SILENCE, Heard::Silence)]
            {
                for code in codes {
                    assert_eq!(class_of(Some(code), status), class, "{code} {status}");
                }
            }
        }
        assert_eq!(class_of(Some("ConditionalCheckFailedException"), 400), Heard::Refused);
    }

    #[test]
    fn reason_of_a_cancelled_transaction_is_never_silence() {
        let reasons = [
            ("ConditionalCheckFailed", Heard::Refused),
            ("ItemCollectionSizeLimitExceeded", Heard::Denied),
            ("TransactionConflict", Heard::Busy),
            ("ProvisionedThroughputExceeded", Heard::Busy),
            ("ThrottlingError", Heard::Busy),
            ("ValidationError", Heard::Denied),
            ("AccessDenied", Heard::Denied),
            ("ResourceNotFound", Heard::Denied),
            ("DuplicateItem", Heard::Denied),
            ("RequestLimitExceeded", Heard::Busy),
            ("AddedLater", Heard::Busy),
        ];
        let internal = SILENCE.map(|code| (code, Heard::Busy));
        for (code, class) in reasons.into_iter().chain(internal) {
            assert_eq!(class_of_reason(code), class, "{code}");
        }
    }

    #[test]
    #[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
    fn refusal_is_about_its_message_or_its_target_only_if_its_code_is_listed() {
        for (code, alone, of_entry) in [
            ("AWS.SimpleQueueService.BatchRequestTooLong", About::Message, About::Message),
            ("InvalidMessageContents", About::Message, About::Message),
            ("InvalidParameterValue", About::Unlisted, About::Message),
            ("AWS.SimpleQueueService.NonExistentQueue", About::Target, About::Target),
            ("com.amazonaws.sqs#QueueDoesNotExist", About::Target, About::Target),
            ("KMS.DisabledException", About::Target, About::Target),
            ("KMSOptInRequired", About::Target, About::Target),
            ("com.amazonaws.sqs#KmsInvalidKeyUsage", About::Target, About::Target),
            ("NotAuthorizedForDetailTypeException", About::Unlisted, About::Unlisted),
            ("AddedLater", About::Unlisted, About::Unlisted),
            ("", About::Unlisted, About::Unlisted),
        ] {
            assert_eq!((about(code, false), about(code, true)), (alone, of_entry), "{code}");
        }
    }

    #[test]
    #[cfg(any(feature = "eventbridge", feature = "sns", feature = "sqs"))]
    fn no_refusal_is_about_two_things() {
        let lists = [&OF_MESSAGE[..], &OF_ENTRY, &OF_TARGET, &BUSY, &UNSIGNED, &SILENCE];
        let all: Vec<_> = lists.concat();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn no_code_is_in_two_classes() {
        let all: Vec<_> = BUSY.iter().chain(&UNSIGNED).chain(&SILENCE).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn namespace_of_a_code_makes_no_difference() {
        for code in ["com.amazonaws.dynamodb.v20120810#OverLimit", "AWS.SimpleQueueService.OverLimit"] {
            assert_eq!(class_of(Some(code), 400), Heard::Busy, "{code}");
        }
    }

    #[test]
    fn unknown_code_has_the_class_of_its_status() {
        let classes = [200, 302, 400, 403, 404, 408, 413, 429, 500, 502, 503, 504];
        let of = |code| classes.map(|status| class_of(code, status));
        use Heard::{Busy, Denied, Silence};
        let of_service = [
            Silence, Silence, Denied, Denied, Denied, Silence, Denied, Busy, Silence, Silence, Silence,
            Silence,
        ];
        assert_eq!(of(Some("ValidationException")), of_service);
        let of_proxy =
            [Silence, Silence, Busy, Busy, Busy, Silence, Busy, Busy, Silence, Silence, Silence, Silence];
        assert_eq!(of(None), of_proxy);
        assert_eq!(of(Some("")), of_proxy);
    }
}
