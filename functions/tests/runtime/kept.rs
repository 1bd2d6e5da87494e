//! Events that are kept: each was, or may be, handled wrongly.

use locker_tests::sqs_message;
use serde_json::{Value, json};

use crate::orders::event;
use crate::till::order;

/// Members of an event, by their JSON pointers.
type Members<'a> = &'a [(&'a str, Value)];

/// Sets a member, which need not exist yet.
fn set(event: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    event.pointer_mut(parent).expect("the parent")[name] = value;
}

/// HTTP events by name, with the status of the response, or a part of the error.
pub(crate) fn http() -> Vec<(&'static str, Value, Value)> {
    const CALLER: &str = "/requestContext/authorizer/jwt/claims/sub";
    const KEY: &str = "/headers/idempotency-key";
    const METHOD: &str = "/requestContext/http/method";
    let no_event = "doesn't match any of those services' events";
    // An order in base64, for 1 cent.
    let base64 = "eyJvcmRlcklkIjoiYjY0IiwiY2VudHMiOjEsImN1cnJlbmN5IjoiRVVSIn0=";
    let huge = r#"{"orderId":"1","cents":1e400,"currency":"EUR"}"#;
    let posts: [(&'static str, Members, Value); 16] = [
        ("plain", &[], json!(201)),
        ("body_base64", &[("/body", json!(base64)), ("/isBase64Encoded", json!(true))], json!(201)),
        ("body_deep", &[("/body", json!("[".repeat(5000)))], json!(422)),
        (
            "body_not_base64",
            &[("/body", json!("!")), ("/isBase64Encoded", json!(true))],
            json!("failed to decode aws base64 encoded body"),
        ),
        ("body_null", &[("/body", Value::Null)], json!(400)),
        ("body_of_huge_number", &[("/body", json!(huge))], json!(400)),
        ("caller_empty", &[(CALLER, json!(""))], json!(401)),
        ("caller_not_ascii", &[(CALLER, json!("k\u{e4}the"))], json!(401)),
        ("caller_with_slash_and_percent", &[(CALLER, json!("a/b%2F"))], json!(201)),
        ("header_name_with_blank", &[("/headers/bad name", json!("x"))], json!(no_event)),
        ("header_with_line_break", &[("/headers/x-odd", json!("a\r\nb"))], json!(no_event)),
        ("key_joined_by_the_gateway", &[(KEY, json!("a,b"))], json!(400)),
        ("key_not_ascii", &[(KEY, json!("caf\u{e9}"))], json!(400)),
        ("method_of_its_own", &[(METHOD, json!("BREW"))], json!(405)),
        ("method_that_is_none", &[(METHOD, json!("PO ST"))], json!(no_event)),
        (
            "path_of_slashes",
            &[("/rawPath", json!("//orders//")), ("/requestContext/http/path", json!("//orders//"))],
            json!(404),
        ),
    ];
    let gets: [(&'static str, &str, Members, Value); 5] = [
        (
            "host_that_is_none",
            "/orders/1",
            &[("/headers/host", json!("["))],
            json!("called `Result::unwrap()` on an `Err` value"),
        ),
        ("path_of_dots", "/orders/../../orders/1", &[], json!(404)),
        ("path_with_blank", "/orders/a b", &[], json!(404)),
        ("path_with_newline", "/orders/a\nb", &[], json!(404)),
        (
            "query_with_quote",
            "/orders/1",
            &[("/rawQueryString", json!("a=\"<>"))],
            json!("failed to build request"),
        ),
    ];
    let posts = posts.into_iter().map(|(name, members, expected)| {
        (name, event("POST", "/orders", Some("alice"), Some(name), &order(name, 1000)), members, expected)
    });
    let gets = gets.into_iter().map(|(name, path, members, expected)| {
        (name, event("GET", path, Some("alice"), Some(name), ""), members, expected)
    });
    let changed = posts.chain(gets).map(|(name, mut event, members, expected)| {
        members.iter().for_each(|(pointer, value)| set(&mut event, pointer, value.clone()));
        (name, event, expected)
    });
    changed.chain([("empty", json!({}), json!(no_event))]).collect()
}

/// Batches by name: a record between two orders, or another event, with the ids that come back, or
/// a part of the error.
pub(crate) fn sqs() -> Vec<(&'static str, Value, Value)> {
    let order =
        |id: &str, order: Value| sqs_message(id, &json!({ "customer": "kept", "order": order }).to_string());
    let plain = |id: &str| order(id, json!({ "orderId": id, "cents": 1, "currency": "EUR" }));
    let with = |pointer: &str, value: Value| {
        let mut record = sqs_message("odd", "tea");
        set(&mut record, pointer, value);
        record
    };
    let binary = json!({ "dataType": "Binary", "binaryValue": "!" });
    let other =
        json!({ "customer": "k\u{e4}the", "order": { "orderId": "9", "cents": 1, "currency": "EUR" } });
    let long = json!({ "orderId": "9".repeat(1100), "cents": 1, "currency": "EUR" });
    let more = json!({ "orderId": "9", "cents": 1, "currency": "EUR", "coupon": "x" });
    let no_id = json!("a message without an id");
    let records = [
        ("attribute_not_base64", with("/messageAttributes/a", binary), json!(["odd"])),
        ("attribute_of_number", with("/attributes/ApproximateReceiveCount", json!(1)), json!(["odd"])),
        ("body_deep", with("/body", json!("[".repeat(5000))), json!(["odd"])),
        ("body_null", with("/body", Value::Null), json!(["odd"])),
        ("body_of_number", with("/body", json!(7)), json!(["odd"])),
        ("body_of_tea", with("/body", json!("tea")), json!(["odd"])),
        ("customer_not_ascii", with("/body", json!(other.to_string())), json!(["odd"])),
        ("id_of_number", json!({ "messageId": 7, "body": "tea" }), no_id.clone()),
        (
            "negative_amount",
            order("odd", json!({ "orderId": "9", "cents": -1, "currency": "EUR" })),
            json!(["odd"]),
        ),
        ("number_too_long", order("odd", long), json!(["odd"])),
        ("record_null", Value::Null, no_id),
        ("unknown_member", order("odd", more), json!(["odd"])),
    ];
    let between =
        |(name, record, reply)| (name, json!({ "Records": [plain(name), record, plain("after")] }), reply);
    let others = [
        ("empty_batch", json!({ "Records": [] }), json!([])),
        ("no_records", json!({ "records": [] }), json!("missing field `Records`")),
        ("records_of_text", json!({ "Records": "tea" }), json!("invalid type")),
    ];
    records.map(between).into_iter().chain(others).collect()
}

/// The event of a schedule.
pub(crate) fn scheduled() -> Value {
    json!({
        "version": "0",
        "id": "89d1a02d-5ec7-412e-82f5-13505f849b41",
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": "123456789012",
        "time": "2026-11-21T11:09:09Z",
        "region": "eu-west-1",
        "resources": ["arn:aws:scheduler:eu-west-1:123456789012:schedule/default/scanner"],
        "detail": "{}",
    })
}
