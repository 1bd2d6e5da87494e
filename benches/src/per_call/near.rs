//! A DynamoDB in this process: it keeps what is put, and checks no condition but that an item is
//! new. Both sides pay for it alike.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

#[derive(Debug, Clone, Default)]
pub(crate) struct Near(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    /// By workflow and item.
    items: BTreeMap<[String; 2], Value>,
    /// The requests since they were last taken, if they are kept.
    pub(crate) kept: Option<Vec<(String, Value)>>,
    requests: u64,
    bytes: u64,
}

impl Near {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while it is locked")
    }

    /// The requests so far, and the size of their bodies.
    pub(crate) fn sent(&self) -> (u64, u64) {
        let state = self.state();
        (state.requests, state.bytes)
    }

    pub(crate) fn clear(&self) {
        self.state().items.clear();
    }

    /// Stores what the other stores.
    pub(crate) fn copy(&self, other: &Self) {
        let items = other.state().items.clone();
        self.state().items = items;
    }

    pub(crate) fn http_client(&self) -> SharedHttpClient {
        let near = self.clone();
        http_client_fn(move |_, _| SharedHttpConnector::new(near.clone()))
    }
}

impl HttpConnector for Near {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        let (status, reply) = self.state().answer(operation, request.body().bytes().unwrap_or_default());
        let status = status.try_into().expect("a status");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(reply.to_string()))))
    }
}

impl State {
    fn answer(&mut self, operation: &str, body: &[u8]) -> (u16, Value) {
        self.requests += 1;
        self.bytes += body.len() as u64;
        let request: Value = serde_json::from_slice(body).expect("JSON");
        if let Some(kept) = &mut self.kept {
            kept.push((operation.to_owned(), request.clone()));
        }
        match operation {
            "PutItem" => self.put(&request),
            "GetItem" => match self.items.get(&key(&request["Key"])) {
                Some(item) => (200, json!({ "Item": item })),
                None => (200, json!({})),
            },
            "Query" => {
                let items: Vec<&Value> = self.items.values().collect();
                (200, json!({ "Count": items.len(), "ScannedCount": items.len(), "Items": items }))
            }
            "TransactWriteItems" => {
                for action in request["TransactItems"].as_array().expect("actions") {
                    if !action["Put"].is_null() {
                        let _ = self.put(&action["Put"]);
                    }
                }
                (200, json!({}))
            }
            other => panic!("{other} is not part of this bench"),
        }
    }

    fn put(&mut self, request: &Value) -> (u16, Value) {
        let (item, condition) = (&request["Item"], request["ConditionExpression"].as_str());
        let is_new = condition.is_some_and(|condition| condition.starts_with("attribute_not_exists"));
        if let Some(known) = self.items.get(&key(item)).filter(|_| is_new) {
            let refused = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
            return (400, json!({ "__type": refused, "Item": known, "message": "refused" }));
        }
        self.items.insert(key(item), item.clone());
        (200, json!({}))
    }
}

fn key(item: &Value) -> [String; 2] {
    ["workflow", "item"].map(|name| item[name]["S"].as_str().unwrap_or_default().to_owned())
}
