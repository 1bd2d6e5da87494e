//! A gate in front of an engine: it refuses requests with an error of AWS, checks who signed them,
//! changes replies, and answers some requests itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpClient as _, HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use serde_json::json;

use crate::served::without_item;

/// The gate of one client. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    refusals: HashMap<usize, (u16, String)>,
    lost: Option<(usize, String)>,
    signers: Vec<String>,
    only_signed_by: Option<String>,
    keeps_items: bool,
    reads_are_behind: bool,
    leaves_batch: bool,
    replaced: Option<[String; 2]>,
}

impl State {
    /// The error in the place of the reply to this request.
    fn loses_this(&mut self) -> Option<String> {
        self.lost.take_if(|(place, _)| *place == self.arrived).map(|(_, says)| says)
    }

    /// The answer of the gate to this request.
    fn answers(&mut self, request: &HttpRequest) -> Option<serde_json::Value> {
        let target = request.headers().get("x-amz-target")?;
        let asked: serde_json::Value = serde_json::from_slice(request.body().bytes()?).ok()?;
        if target.ends_with(".GetItem") && self.reads_are_behind && asked["ConsistentRead"] != true {
            return Some(json!({}));
        }
        if target.ends_with(".BatchWriteItem") && std::mem::take(&mut self.leaves_batch) {
            return Some(json!({ "UnprocessedItems": asked["RequestItems"] }));
        }
        None
    }
}

impl Gate {
    /// Refuse these requests, counted from 0 from now, with this status and code.
    pub fn refuse(&self, places: impl IntoIterator<Item = usize>, (status, code): (u16, &str)) {
        let mut state = self.state();
        let from = state.arrived;
        state.refusals = places.into_iter().map(|place| (from + place, (status, code.to_owned()))).collect();
    }

    /// Lose the reply to this request, counted from 0 from now, with this text of the error. The
    /// request is passed on.
    pub fn lose_reply(&self, place: usize, says: &str) {
        let mut state = self.state();
        state.lost = Some((state.arrived + place, says.to_owned()));
    }

    /// Refuse every request that is signed with another access key than this, as expired.
    pub fn only_signed_by(&self, access_key: &str) {
        self.state().only_signed_by = Some(access_key.to_owned());
    }

    /// Answer as an engine that returns no item with a failed condition.
    pub fn keep_items(&self) {
        self.state().keeps_items = true;
    }

    /// Answer each eventually consistent read as if the item had not been written yet.
    pub fn keep_reads_behind(&self) {
        self.state().reads_are_behind = true;
    }

    /// Answer the next batch as if DynamoDB had processed nothing of it.
    pub fn leave_batch(&self) {
        self.state().leaves_batch = true;
    }

    /// Replace this text in each reply.
    pub fn replace_in_replies(&self, text: &str, with: &str) {
        self.state().replaced = Some([text, with].map(str::to_owned));
    }

    /// How many requests arrived.
    #[must_use]
    pub fn arrived(&self) -> usize {
        self.state().arrived
    }

    /// The access keys that signed the requests since the last call of this.
    #[must_use]
    pub fn signers(&self) -> Vec<String> {
        std::mem::take(&mut self.state().signers)
    }

    /// An HTTP client that speaks through this gate.
    #[must_use]
    pub fn over(&self, real: SharedHttpClient) -> SharedHttpClient {
        let gate = self.clone();
        http_client_fn(move |settings, components| {
            let real = real.http_connector(settings, components);
            SharedHttpConnector::new(Gated { gate: gate.clone(), real })
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics while it holds the gate")
    }

    /// The refusal of a request that arrives.
    fn arrives(&self, request: &HttpRequest) -> Option<(u16, String)> {
        let signed = request.headers().get("authorization").unwrap_or_default();
        let signer = signed.split("Credential=").nth(1).and_then(|rest| rest.split('/').next());
        let signer = signer.unwrap_or_default().to_owned();
        let mut state = self.state();
        let place = state.arrived;
        state.arrived += 1;
        let is_expired = state.only_signed_by.as_ref().is_some_and(|only| *only != signer);
        state.signers.push(signer);
        if is_expired {
            return Some((400, "ExpiredTokenException".to_owned()));
        }
        state.refusals.remove(&place)
    }
}

#[derive(Debug)]
struct Gated {
    gate: Gate,
    real: SharedHttpConnector,
}

impl HttpConnector for Gated {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let lost = self.gate.state().loses_this();
        if let Some((status, code)) = self.gate.arrives(&request) {
            let body =
                json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "refused" });
            return HttpConnectorFuture::ready(Ok(reply(status, body.to_string())));
        }
        if let Some(answer) = self.gate.state().answers(&request) {
            return HttpConnectorFuture::ready(Ok(reply(200, answer.to_string())));
        }
        let keeps_items = self.gate.state().keeps_items;
        let replaced = self.gate.state().replaced.clone();
        let passed = self.real.call(request);
        HttpConnectorFuture::new(async move {
            let mut reply = passed.await?;
            if let Some(says) = lost {
                return Err(ConnectorError::io(says.into()));
            }
            let body = std::mem::replace(reply.body_mut(), SdkBody::taken());
            let bytes = ByteStream::new(body).collect().await.expect("a body").into_bytes();
            let mut text = String::from_utf8(bytes.to_vec()).expect("text");
            if keeps_items && reply.status().as_u16() == 400 {
                text = without_item(&text);
            }
            if let Some([from, to]) = replaced {
                text = text.replace(&from, &to);
            }
            *reply.body_mut() = SdkBody::from(text);
            Ok(reply)
        })
    }
}

fn reply(status: u16, body: String) -> HttpResponse {
    HttpResponse::new(status.try_into().expect("a status"), SdkBody::from(body))
}
