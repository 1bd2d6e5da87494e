//! The replies: the key of a request determines what the table contains.
//!
//! | key | the table contains |
//! |---|---|
//! | `replay/...` | a token with a small answer |
//! | `replay-large/...` | a token whose answer is in a separate item, compressed |
//! | `replay-raw/...` | a token that contains a large answer, which the library would not store |
//! | `conflict/...` | a token in progress |
//! | any other | nothing, so every write succeeds |

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::answer;

/// Size of a small answer, in bytes.
pub const SMALL: usize = 200;
/// Size of a large answer, in bytes.
pub const LARGE: usize = 100 * 1024;

const ATTEMPT: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
/// Placeholder for the key, until a request names it.
const KEY: &str = "THE KEY";

#[derive(Debug)]
pub(super) struct Replies {
    small: Refusal,
    large: Refusal,
    raw: Refusal,
    in_progress: Refusal,
    /// The item that contains the large answer.
    beside: Vec<u8>,
}

impl Default for Replies {
    fn default() -> Self {
        let small = answer::to_json(&answer::of_size(SMALL));
        let large = answer::to_json(&answer::of_size(LARGE));
        let packed = answer::gzip(&large);
        let result = json!({ "B": BASE64_STANDARD.encode(&packed) });
        let beside = json!({ "Item": {
            "lockToken": { "S": "of an answer" }, "version": { "N": "1" },
            "resultCodec": { "S": "json+gzip" }, "result": result, "ttl": { "N": "1800000000" },
        }});
        let inline = |json: String| json!({ "resultCodec": { "S": "json" }, "result": { "S": json } });
        let pointer = json!({
            "resultCodec": { "S": "json+gzip" }, "resultId": { "S": ATTEMPT },
            "resultBytes": { "N": packed.len().to_string() },
        });
        Self {
            small: Refusal::of(completed(), &inline(small)),
            large: Refusal::of(completed(), &pointer),
            raw: Refusal::of(completed(), &inline(large)),
            in_progress: Refusal::of(token(), &json!({ "status": { "S": "inProgress" } })),
            beside: http(200, &beside.to_string()),
        }
    }
}

impl Replies {
    pub(super) fn to(&self, operation: &str, body: &str) -> Vec<u8> {
        let key = key_of(body);
        match (operation, key.split('/').next()) {
            ("GetItem", Some("replay-large")) => self.beside.clone(),
            ("PutItem", Some("replay")) => self.small.about(key),
            ("PutItem", Some("replay-large")) => self.large.about(key),
            ("PutItem", Some("replay-raw")) => self.raw.about(key),
            ("PutItem", Some("conflict")) => self.in_progress.about(key),
            ("Query", _) => http(200, r#"{"Count":0,"Items":[],"ScannedCount":0}"#),
            _ => http(200, "{}"),
        }
    }
}

/// The reply for a failed condition, with the stored item.
#[derive(Debug)]
struct Refusal {
    before_key: String,
    after_key: String,
}

impl Refusal {
    fn of(mut item: Value, more: &Value) -> Self {
        let (item_fields, more) = (item.as_object_mut().expect("an item"), more.as_object().expect("more"));
        item_fields.extend(more.clone());
        let body = json!({
            "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "Item": item, "message": "The conditional request failed",
        });
        let body = body.to_string();
        let (before, after) = body.split_once(KEY).expect("a key");
        Self { before_key: before.to_owned(), after_key: after.to_owned() }
    }

    fn about(&self, key: &str) -> Vec<u8> {
        http(400, &[&self.before_key, key, &self.after_key].concat())
    }
}

fn token() -> Value {
    json!({
        "lockToken": { "S": KEY }, "lockedBy": { "S": "orders/2026-11-21" }, "attempt": { "S": ATTEMPT },
        "created": { "S": "2026-11-21T11:09:09.120Z" }, "expectedCompletion": { "S": "2026-11-21T11:10:09.120Z" },
        "version": { "N": "1" }, "retention": { "N": "2592000" },
    })
}

fn completed() -> Value {
    let mut item = token();
    item["actualCompletion"] = json!({ "S": "2026-11-21T11:09:10.007Z" });
    item["outcome"] = json!({ "S": "success" });
    // A year that no run of this reaches.
    item["ttl"] = json!({ "N": "9999999999" });
    item
}

pub(super) fn http(status: u16, body: &str) -> Vec<u8> {
    let reason = if status == 200 { "OK" } else { "Bad Request" };
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {reason}\r\nserver: Server\r\ndate: Sat, 21 Nov 2026 11:09:09 GMT\r\n\
         content-type: application/x-amz-json-1.0\r\ncontent-length: {length}\r\n\
         x-amzn-requestid: 0KV3QOMN9A5EDRBQ4V7GF1H2SRVV4KQNSO5AEMVJF66Q9ASUAAJG\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The SDK writes JSON without spaces, so the key can be found without parsing it.
fn key_of(body: &str) -> &str {
    let key = body.split_once(r#""lockToken":{"S":""#).map_or("", |(_, rest)| rest);
    key.split('"').next().unwrap_or_default()
}
