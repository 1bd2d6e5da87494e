//! The engine in process, as the SDK meets it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, PutRequest,
    ScalarAttributeType, WriteRequest,
};
use lock_token_testing::{Database, Embedded, OpenError};

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

async fn create(client: &Client) {
    let id = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let create = client.create_table().table_name("things").billing_mode(BillingMode::PayPerRequest);
    let create = create.attribute_definitions(id.build().unwrap()).key_schema(key.build().unwrap());
    create.send().await.unwrap();
}

async fn memory() -> Client {
    let client = Embedded::memory().unwrap().client();
    create(&client).await;
    client
}

/// Waits for what has no other sign than that it happened.
async fn until(mut condition: impl FnMut() -> bool) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(tokio::time::Instant::now() < limit, "waited in vain");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_requests_at_once_have_one_winner_each_and_their_own_replies() {
    let client = memory().await;
    let puts: Vec<_> = (0..200)
        .map(|number: usize| {
            let client = client.clone();
            tokio::spawn(async move {
                let key = format!("key-{}", number / 4);
                let put = client.put_item().table_name("things").item("id", text(&key));
                let put = put.item("by", text(number.to_string()));
                let put = put.condition_expression("attribute_not_exists(id)").send().await;
                let got = client.get_item().table_name("things").key("id", text(&key)).send().await.unwrap();
                assert_eq!(got.item.unwrap()["id"], text(key));
                put.is_ok()
            })
        })
        .collect();
    let mut won = 0;
    for put in puts {
        won += usize::from(put.await.unwrap());
    }
    assert_eq!(won, 50);
}

#[tokio::test]
async fn errors_reach_the_sdk_by_name() {
    let client = memory().await;
    let put = |id: &str| client.put_item().table_name("things").item("id", text(id));
    put("a").send().await.unwrap();
    let refused = put("a").condition_expression("attribute_not_exists(id)").send().await.unwrap_err();
    assert_eq!(refused.raw_response().unwrap().status().as_u16(), 400);
    assert!(refused.into_service_error().is_conditional_check_failed_exception());
    let missing = client.put_item().table_name("nowhere").item("id", text("a")).send().await.unwrap_err();
    assert!(missing.into_service_error().is_resource_not_found_exception());
    let invalid = put("").send().await.unwrap_err().into_service_error();
    assert_eq!(invalid.code(), Some("ValidationException"));
    assert!(invalid.message().unwrap().contains("empty string value"), "{invalid:?}");
    let unknown = client.list_backups().send().await.unwrap_err().into_service_error();
    assert!(unknown.to_string().contains("unhandled") || unknown.code().is_some(), "{unknown:?}");
}

#[tokio::test]
async fn large_bodies_pass_both_ways() {
    let client = memory().await;
    let large = "x".repeat(390_000);
    let write = |number: usize| {
        let item = HashMap::from([
            ("id".to_owned(), text(number.to_string())),
            ("text".to_owned(), text(large.clone())),
        ]);
        WriteRequest::builder()
            .put_request(PutRequest::builder().set_item(Some(item)).build().unwrap())
            .build()
    };
    client.batch_write_item().request_items("things", (0..25).map(write).collect()).send().await.unwrap();
    let got = client.get_item().table_name("things").key("id", text("24")).send().await.unwrap();
    assert_eq!(got.item.unwrap()["text"], text(large.clone()));
    let too_large = client.put_item().table_name("things").item("id", text("a"));
    let too_large = too_large.item("text", text("x".repeat(500_000))).send().await.unwrap_err();
    assert_eq!(too_large.into_service_error().code(), Some("ValidationException"));
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_its_users_alone_and_closed_with_the_last_client() {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("engine.db");
    let engine = Embedded::open(&file).unwrap();
    let client = engine.client();
    create(&client).await;
    let log = directory.path().join("engine.db-wal");
    assert_eq!((mode(&file), mode(&log)), (0o600, 0o600));
    drop(engine);
    client.list_tables().send().await.unwrap();
    drop(client);
    // SQLite deletes it when the last connection is closed.
    until(|| !log.exists()).await;

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let again = Embedded::open(&file).unwrap().client();
    assert_eq!(mode(&file), 0o600);
    assert_eq!(again.list_tables().send().await.unwrap().table_names(), ["things"]);
}

#[test]
fn a_file_that_holds_no_tables_is_named_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    for content in ["short".to_owned(), "a text of another program\n".repeat(1000)] {
        let file = directory.path().join("locker.db");
        std::fs::write(&file, &content).unwrap();
        let error = Database::open(&file).unwrap_err();
        assert!(matches!(&error, OpenError::Foreign(named) if *named == file), "{error:?}");
        let said = error.to_string();
        for word in
            ["locker.db holds no embedded tables", "damaged", "nothing in it was changed", "move it away"]
        {
            assert!(said.contains(word), "{said}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
    let error = Database::open(directory.path()).unwrap_err();
    assert!(!error.to_string().contains("encryption"), "{error}");
}
