//! The embedded engine answers in process as it does behind its own server.

#![allow(clippy::expect_used, clippy::panic)]

use lock_token_testing::Database;
use serde_json::{Value, json};

/// Requests in order: good ones, conditions that fail, and what DynamoDB refuses.
fn requests() -> Vec<(&'static str, Value)> {
    let key = |id: &str| json!({ "id": { "S": id } });
    let put = |item: Value| ("PutItem", json!({ "TableName": "things", "Item": item }));
    let update = |expression: &str, values: Value| {
        let key = key("a");
        let update = json!({
            "TableName": "things", "Key": key, "UpdateExpression": expression, "ExpressionAttributeValues": values,
            "ReturnValues": "ALL_NEW"
        });
        ("UpdateItem", update)
    };
    let not_there = |id: &str| {
        json!({ "Put": { "TableName": "things", "Item": key(id), "ConditionExpression": "attribute_not_exists(id)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD" } })
    };
    vec![
        (
            "CreateTable",
            json!({ "TableName": "things", "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": "S" }],
                "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }] }),
        ),
        ("CreateTable", json!({ "TableName": "a" })),
        ("DescribeTimeToLive", json!({ "TableName": "things" })),
        put(json!({ "id": { "S": "a" }, "n": { "N": "1" } })),
        put(json!({ "id": { "S": "" } })),
        put(json!({ "id": { "N": "1" } })),
        put(json!({ "id": { "S": "a" }, "n": { "N": "1e999" } })),
        put(json!({ "id": { "S": "a" }, "n": { "N": "one" } })),
        put(json!({ "id": { "S": "a" }, "n": { "N": "" } })),
        put(json!({ "id": { "S": "a" }, "s": { "SS": [] } })),
        put(json!({ "id": { "S": "a" }, "s": { "SS": ["x", "x"] } })),
        put(json!({ "id": { "S": "a" }, "s": {} })),
        put(json!({ "id": { "S": "a" }, "s": { "S": "x", "N": "1" } })),
        put(json!({ "id": { "S": "a" }, "s": { "NULL": false } })),
        put(json!({ "id": { "S": "a" }, "s": { "B": "not base64!" } })),
        put(json!({ "id": { "S": "a" }, "s": { "S": 1 } })),
        put(json!({ "id": { "S": "a" }, "s": { "S": "x".repeat(410_000) } })),
        ("PutItem", json!({ "TableName": "nowhere", "Item": key("a") })),
        ("PutItem", json!({ "TableName": "t", "Item": key("a") })),
        ("PutItem", json!({ "Item": key("a") })),
        ("PutItem", json!({ "TableName": 7, "Item": key("a") })),
        (
            "PutItem",
            json!({ "TableName": "things", "Item": key("a"), "ReturnConsumedCapacity": "TOTAL",
                "ConditionExpression": "attribute_not_exists(id)",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD" }),
        ),
        update("SET n = n + :one", json!({ ":one": { "N": "1" } })),
        update("SET n = :one", json!({ ":one": { "N": "x" } })),
        update("SET n = :missing", json!({ ":one": { "N": "1" } })),
        update("SET id = :one", json!({ ":one": { "S": "1" } })),
        update("SETT", json!({ ":one": { "S": "1" } })),
        ("GetItem", json!({ "TableName": "things", "Key": key("a"), "ReturnConsumedCapacity": "INDEXES" })),
        ("GetItem", json!({ "TableName": "things", "Key": key("none") })),
        ("GetItem", json!({ "TableName": "things", "Key": { "id": { "N": "1" } } })),
        ("TransactWriteItems", json!({ "TransactItems": [not_there("b"), not_there("c")] })),
        ("TransactWriteItems", json!({ "TransactItems": [not_there("d"), not_there("a")] })),
        ("TransactWriteItems", json!({ "TransactItems": [not_there("d"), not_there("d")] })),
        ("TransactWriteItems", json!({ "TransactItems": [] })),
        ("BatchWriteItem", json!({ "RequestItems": { "things": [] } })),
        (
            "BatchWriteItem",
            json!({ "RequestItems": { "things": [{ "PutRequest": { "Item": { "id": { "S": "" } } } }] } }),
        ),
        (
            "Query",
            json!({ "TableName": "things", "KeyConditionExpression": "id = :id",
                "ExpressionAttributeValues": { ":id": { "S": "a" } } }),
        ),
        (
            "Query",
            json!({ "TableName": "things", "IndexName": "byStatus", "KeyConditionExpression": "id = :id",
                "ExpressionAttributeValues": { ":id": { "S": "a" } } }),
        ),
        ("Scan", json!({ "TableName": "things", "Limit": 0 })),
        ("Scan", json!({ "TableName": "things", "ReturnConsumedCapacity": "TOTAL" })),
        ("DeleteItem", json!({ "TableName": "things", "Key": key("a"), "ReturnValues": "ALL_OLD" })),
        ("DeleteItem", json!({ "TableName": "things", "Key": {} })),
        ("DeleteTable", json!({ "TableName": "things" })),
        ("DeleteTable", json!({ "TableName": "things" })),
    ]
}

/// Without what differs from table to table, and without the text for a member of a wrong type,
/// which no SDK sends.
fn comparable(status: u16, body: &str) -> (u16, Value) {
    let mut body: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
    for table in ["TableDescription", "Table"] {
        for name in ["CreationDateTime", "TableId"] {
            if let Some(table) = body.get_mut(table).and_then(Value::as_object_mut) {
                table.remove(name);
            }
        }
    }
    let is_wrong_type = body["__type"].as_str().is_some_and(|name| name.ends_with("#SerializationException"));
    if let Some(body) = body.as_object_mut().filter(|_| is_wrong_type) {
        body.remove("Message");
    }
    (status, body)
}

async fn served(requests: &[(&str, Value)]) -> Vec<(u16, Value)> {
    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let database = dynoxide::Database::memory().expect("an engine");
    tokio::spawn(dynoxide::server::serve_on(listener, database));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let mut replies = Vec::new();
    for (operation, body) in requests {
        let post = client.post(&endpoint).header("x-amz-target", format!("DynamoDB_20120810.{operation}"));
        let post = post.header("content-type", "application/x-amz-json-1.0").header("authorization", SIGNED);
        let reply = post.header("x-amz-date", "20260101T000000Z").body(body.to_string()).send().await;
        let reply = reply.expect("a reply");
        let status = reply.status().as_u16();
        replies.push(comparable(status, &reply.text().await.expect("text")));
    }
    replies
}

#[tokio::test]
async fn it_answers_in_process_as_it_does_behind_its_server() {
    let requests = requests();
    let database = Database::memory().expect("an engine");
    let served = served(&requests).await;
    let mut differ = Vec::new();
    for ((operation, request), over_http) in requests.iter().zip(served) {
        let reply = database.ask(operation, request.to_string().as_bytes());
        let in_process = comparable(reply.status, &reply.body);
        if in_process != over_http {
            let request: String = request.to_string().chars().take(200).collect();
            differ.push(format!(
                "{operation} {request}\n  in process {in_process:?}\n  over HTTP  {over_http:?}"
            ));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
