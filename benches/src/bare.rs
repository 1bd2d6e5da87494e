//! The library's requests, written by hand with the SDK alone: the same items, the same conditions,
//! one attempt each. It leaves out what the library is for: interpreting every reply, retries,
//! logs, metrics, and all states except the few here.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    self, BehaviorVersion, Config, Credentials, Region, StalledStreamProtectionConfig,
};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue::{B, N, S};
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::answer;

const FREE: &str = "attribute_not_exists(#lockToken) OR (attribute_not_exists(#status) \
     AND ((#resolution = :released AND attribute_not_exists(#keyVersion) AND attribute_not_exists(#keySince)) OR (attribute_exists(#actualCompletion) AND #ttl < :now)))";
const MINE: &str = "#attempt = :attempt AND begins_with(#status, :inProgress)";
const DAY: i64 = 24 * 60 * 60;

/// A table of tokens, accessed with the bare SDK.
#[derive(Debug, Clone)]
pub struct Bare {
    client: Client,
    table: String,
    owner: String,
}

/// The outcome of a begin.
#[derive(Debug)]
pub enum Begun {
    /// The token is acquired, under this attempt id.
    Acquired(String),
    /// The stored answer, as JSON.
    Completed(String),
    /// Another caller's work is in progress, and is expected to be complete at this time.
    InProgress(DateTime<Utc>),
}

/// Creates a client with the settings of the library and this timeout for each attempt.
///
/// The library bounds its attempts without a timeout of the SDK.
#[must_use]
pub fn as_locker(config: config::Builder, longest: Duration) -> Client {
    let timeouts = TimeoutConfig::builder().connect_timeout(longest).operation_attempt_timeout(longest);
    let config = config
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .timeout_config(timeouts.build());
    Client::from_conf(config.build())
}

/// The SDK's default settings, except for the TLS stack, which has no default here.
#[must_use]
pub fn defaults(endpoint: Option<String>, region: String, credentials: Credentials) -> config::Builder {
    let http = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let mut config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(region))
        .credentials_provider(credentials)
        .http_client(http);
    config.set_endpoint_url(endpoint);
    config
}

impl Bare {
    /// Creates a table over a client.
    pub fn new(client: Client, table: impl Into<String>, owner: impl Into<String>) -> Self {
        Self { client, table: table.into(), owner: owner.into() }
    }

    /// Begins a token.
    ///
    /// # Panics
    ///
    /// On every error.
    pub async fn begin(&self, key: String) -> Begun {
        let now = now();
        let attempt = new_id();
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .item("lockToken", S(key.clone()))
            .item("lockedBy", S(self.owner.clone()))
            .item("attempt", S(attempt.clone()))
            .item("created", S(text(now)))
            .item("expectedCompletion", S(text(now + TimeDelta::seconds(60))))
            .item("status", S("inProgress".to_owned()))
            .item("version", N("1".to_owned()))
            .item("retention", N((30 * DAY).to_string()))
            .item("form", S("Answer".to_owned()))
            .condition_expression(FREE)
            .expression_attribute_names("#lockToken", "lockToken")
            .expression_attribute_names("#resolution", "resolution")
            .expression_attribute_names("#keyVersion", "keyVersion")
            .expression_attribute_names("#keySince", "keySince")
            .expression_attribute_names("#status", "status")
            .expression_attribute_names("#actualCompletion", "actualCompletion")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":released", S("released".to_owned()))
            .expression_attribute_values(":now", N((now.timestamp() - 5).to_string()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let refused = match put.send().await {
            Ok(_) => return Begun::Acquired(attempt),
            Err(error) => error.into_service_error(),
        };
        let PutItemError::ConditionalCheckFailedException(refused) = refused else { panic!("{refused:?}") };
        let mut item = refused.item.expect("the old item");
        if item.contains_key("status") {
            let due = item["expectedCompletion"].as_s().expect("text");
            return Begun::InProgress(due.parse().expect("a time"));
        }
        match (item.remove("result"), item.remove("resultId")) {
            (Some(S(json)), None) => Begun::Completed(json),
            (None, Some(S(id))) => Begun::Completed(self.answer(&key, &id).await),
            _ => panic!("no answer"),
        }
    }

    /// Stores a small answer in its token. A large one is accepted too, uncompressed; the library
    /// does not do that, since every replay would pay for its size.
    ///
    /// # Panics
    ///
    /// On every error.
    pub async fn complete(&self, key: String, attempt: String, json: String) {
        self.finish(key, attempt, "json", [("#result", ":result", S(json))], &["#resultId", "#resultBytes"])
            .await;
    }

    /// Stores a large answer in a separate item, compressed.
    ///
    /// # Panics
    ///
    /// On every error.
    pub async fn complete_beside(&self, key: String, attempt: String, json: &str) {
        let (packed, id) = (answer::gzip(json), new_id());
        let bytes = packed.len();
        self.client
            .put_item()
            .table_name(&self.table)
            .item("lockToken", S(format!("{key} result {id}")))
            .item("version", N("1".to_owned()))
            .item("resultCodec", S("json+gzip".to_owned()))
            .item("result", B(Blob::new(packed)))
            .item("ttl", N((now().timestamp() + 31 * DAY + 1).to_string()))
            .send()
            .await
            .expect("put");
        let pointer = [("#resultId", ":id", S(id)), ("#resultBytes", ":bytes", N(bytes.to_string()))];
        self.finish(key, attempt, "json+gzip", pointer, &["#result"]).await;
    }

    async fn finish<const N: usize>(
        &self,
        key: String,
        attempt: String,
        codec: &str,
        body: [(&str, &str, AttributeValue); N],
        remove: &[&str],
    ) {
        let now = now();
        let mut sets = "SET #actualCompletion = :at, #outcome = :outcome, #resultCodec = :codec".to_owned();
        let mut update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("lockToken", S(key))
            .condition_expression(MINE)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .expression_attribute_names("#actualCompletion", "actualCompletion")
            .expression_attribute_names("#outcome", "outcome")
            .expression_attribute_names("#resultCodec", "resultCodec")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_names("#status", "status")
            .expression_attribute_names("#attempt", "attempt")
            .expression_attribute_values(":at", S(text(now)))
            .expression_attribute_values(":outcome", S("success".to_owned()))
            .expression_attribute_values(":codec", S(codec.to_owned()))
            .expression_attribute_values(
                ":ttl",
                AttributeValue::N((now.timestamp() + 30 * DAY + 1).to_string()),
            )
            .expression_attribute_values(":attempt", S(attempt))
            .expression_attribute_values(":inProgress", S("inProgress".to_owned()));
        for (name, placeholder, value) in body {
            sets = format!("{sets}, {name} = {placeholder}");
            update = update
                .expression_attribute_names(name, &name[1..])
                .expression_attribute_values(placeholder, value);
        }
        for name in remove {
            update = update.expression_attribute_names(*name, &name[1..]);
        }
        let expression = format!("{sets}, #ttl = :ttl REMOVE #status, {}", remove.join(", "));
        update.update_expression(expression).send().await.expect("update");
    }

    async fn answer(&self, key: &str, id: &str) -> String {
        let key = S(format!("{key} result {id}"));
        let get = self.client.get_item().table_name(&self.table).key("lockToken", key).consistent_read(true);
        let item = get.send().await.expect("get").item.expect("the answer");
        answer::gunzip(item["result"].as_b().expect("bytes").as_ref())
    }
}

#[allow(clippy::disallowed_methods, reason = "no test here needs another clock")]
fn now() -> DateTime<Utc> {
    std::time::SystemTime::now().into()
}

#[allow(clippy::disallowed_methods, reason = "a hand-written caller does the same")]
fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
