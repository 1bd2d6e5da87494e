//! Requests that were seen once, sent again with the bare SDK: the same items and expressions,
//! built anew each time.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Put, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem,
};
use serde_json::Value;

type Values = HashMap<String, AttributeValue>;

/// One request.
#[derive(Debug)]
pub(crate) struct Again {
    operation: String,
    table: String,
    /// The item of a put, or the key of a get.
    item: Values,
    parts: Parts,
    actions: Vec<Self>,
    consistent: Option<bool>,
    consumed: Option<ReturnConsumedCapacity>,
    token: Option<String>,
    key_condition: Option<String>,
}

#[derive(Debug, Clone)]
struct Parts {
    condition: Option<String>,
    names: Option<HashMap<String, String>>,
    values: Option<Values>,
    on_failure: Option<ReturnValuesOnConditionCheckFailure>,
}

impl Again {
    pub(crate) fn of(operation: &str, request: &Value) -> Self {
        let text = |name: &str| request[name].as_str().map(str::to_owned);
        let actions = request["TransactItems"].as_array().map(Vec::as_slice).unwrap_or_default();
        let action = |action: &Value| {
            let (verb, action) = action.as_object().and_then(|it| it.iter().next()).expect("an action");
            Self::of(verb, action)
        };
        Self {
            operation: operation.to_owned(),
            table: text("TableName").unwrap_or_default(),
            item: values(&request[if request["Item"].is_null() { "Key" } else { "Item" }])
                .unwrap_or_default(),
            parts: Parts {
                condition: text("ConditionExpression"),
                names: request["ExpressionAttributeNames"].as_object().map(|names| {
                    let name = |value: &Value| value.as_str().expect("a name").to_owned();
                    names.iter().map(|(alias, value)| (alias.clone(), name(value))).collect()
                }),
                values: values(&request["ExpressionAttributeValues"]),
                on_failure: text("ReturnValuesOnConditionCheckFailure").map(|it| it.as_str().into()),
            },
            actions: actions.iter().map(action).collect(),
            consistent: request["ConsistentRead"].as_bool(),
            consumed: text("ReturnConsumedCapacity").map(|it| it.as_str().into()),
            token: text("ClientRequestToken"),
            key_condition: text("KeyConditionExpression"),
        }
    }

    /// Sends it. A put may be refused.
    pub(crate) async fn send(&self, client: &Client) {
        let (table, parts) = (&self.table, self.parts.clone());
        match self.operation.as_str() {
            "PutItem" => {
                let put = client.put_item().table_name(table).set_item(Some(self.item.clone()));
                let put = put
                    .set_condition_expression(parts.condition)
                    .set_expression_attribute_names(parts.names)
                    .set_expression_attribute_values(parts.values)
                    .set_return_values_on_condition_check_failure(parts.on_failure)
                    .set_return_consumed_capacity(self.consumed.clone());
                let _ = std::hint::black_box(put.send().await);
            }
            "GetItem" => {
                let get = client.get_item().table_name(table).set_key(Some(self.item.clone()));
                let get = get
                    .set_consistent_read(self.consistent)
                    .set_return_consumed_capacity(self.consumed.clone());
                let _ = std::hint::black_box(get.send().await.expect("an answer"));
            }
            "Query" => {
                let query = client.query().table_name(table).set_consistent_read(self.consistent);
                let query = query
                    .set_key_condition_expression(self.key_condition.clone())
                    .set_expression_attribute_names(parts.names)
                    .set_expression_attribute_values(parts.values)
                    .set_return_consumed_capacity(self.consumed.clone());
                let _ = std::hint::black_box(query.send().await.expect("an answer"));
            }
            "TransactWriteItems" => {
                let actions = self.actions.iter().map(Self::action).collect();
                let write = client.transact_write_items().set_transact_items(Some(actions));
                let write = write
                    .set_client_request_token(self.token.clone())
                    .set_return_consumed_capacity(self.consumed.clone());
                let _ = std::hint::black_box(write.send().await.expect("an answer"));
            }
            other => panic!("{other} is not part of this bench"),
        }
    }

    fn action(&self) -> TransactWriteItem {
        let Parts { condition, names, values, on_failure } = self.parts.clone();
        let action = TransactWriteItem::builder();
        let action = if self.operation == "Put" {
            let put = Put::builder().table_name(&self.table).set_item(Some(self.item.clone()));
            let put = put.set_condition_expression(condition).set_expression_attribute_names(names);
            let put = put.set_expression_attribute_values(values);
            action.put(put.set_return_values_on_condition_check_failure(on_failure).build().expect("a put"))
        } else {
            let check = ConditionCheck::builder().table_name(&self.table).set_key(Some(self.item.clone()));
            let check = check.set_condition_expression(condition).set_expression_attribute_names(names);
            let check = check.set_expression_attribute_values(values);
            let check = check.set_return_values_on_condition_check_failure(on_failure);
            action.condition_check(check.build().expect("a check"))
        };
        action.build()
    }
}

fn values(json: &Value) -> Option<Values> {
    let value = |value: &Value| {
        let (kind, value) = value.as_object().and_then(|it| it.iter().next()).expect("a typed value");
        match (kind.as_str(), value) {
            ("S", Value::String(text)) => AttributeValue::S(text.clone()),
            ("N", Value::String(digits)) => AttributeValue::N(digits.clone()),
            ("BOOL", Value::Bool(truth)) => AttributeValue::Bool(*truth),
            (other, _) => panic!("{other} is not part of this bench"),
        }
    };
    Some(json.as_object()?.iter().map(|(name, it)| (name.clone(), value(it))).collect())
}
