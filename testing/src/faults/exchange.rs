//! One request to DynamoDB, and the data of its reply.

use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use serde_json::Value;

/// One exchange with DynamoDB.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Exchange {
    /// The operation, such as `PutItem`.
    pub operation: String,
    /// The JSON of the request, in the low-level API.
    pub request: Value,
    /// The HTTP status of DynamoDB's reply, if the request reached DynamoDB.
    pub status: Option<u16>,
    /// `ConsumedCapacity` of the reply.
    pub consumed: Option<Value>,
}

impl Exchange {
    pub(super) fn of(request: &HttpRequest) -> Self {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().and_then(|bytes| serde_json::from_slice(bytes).ok());
        Self { operation, request: body.unwrap_or_default(), status: None, consumed: None }
    }

    /// Whether the request reads or writes a table, alone or as part of a transaction or batch.
    #[must_use]
    pub fn touches(&self, table: &str) -> bool {
        let is_it = |part: &Value| part["TableName"].as_str() == Some(table);
        let actions = self.request["TransactItems"].as_array().into_iter().flatten();
        let mut parts = actions.filter_map(Value::as_object).flat_map(|action| action.values());
        is_it(&self.request) || parts.any(is_it) || self.request["RequestItems"].get(table).is_some()
    }

    /// Records the data of a reply.
    pub(super) fn replied(&mut self, status: u16, body: &[u8]) {
        self.status = Some(status);
        let body = serde_json::from_slice(body).ok();
        self.consumed = body.and_then(|mut body: Value| body.get_mut("ConsumedCapacity").map(Value::take));
    }
}
