//! Bad input gets a clear error that says what to do, before anything is written. The texts are
//! compared as a user sees them.

use std::error::Error as _;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, TimeToLiveSpecification,
};
use locker::{BeginBuilder, Error, FingerprintKey, Locker, Operator, Retention, Settings};
use locker_tests::{Bench, DAY, Gate, client_for, held_by, unhurried};

async fn refusal(token: BeginBuilder) -> String {
    token.begin().await.expect_err("it must be refused").to_string()
}

#[tokio::test(start_paused = true)]
async fn keys_and_durations_are_refused_before_any_request() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let cases = [
        (locker.token(""), "the key is empty; name what is to be done once, such as order/create/12345"),
        (
            locker.token(("order", "")),
            "the id is empty; name what is to be done once, such as order/create/12345",
        ),
        (
            locker.token("x".repeat(1025)),
            "the key has 1025 bytes, 1024 are allowed; use a digest of the long part",
        ),
        (
            locker.token("bestellung/käse"),
            "the key has a character outside ASCII at byte 12; keys are printable ASCII without spaces, so encode or hash it first",
        ),
        (
            locker.token(("order", "a\u{7}b")),
            "the id has a control character at byte 1; keys are printable ASCII without spaces, so encode or hash it first",
        ),
        (
            locker.token("a").expect_within(Duration::ZERO),
            "expect_within must be between 1s and 366 days, got 0ns",
        ),
        (
            locker.token("a").expect_within(DAY * 400),
            "expect_within must be between 1s and 366 days, got 400 days",
        ),
        (
            locker.token("a").retention(Retention::For(Duration::ZERO)),
            "retention must be between 60s and 3660 days, got 0ns; use forever to keep answers indefinitely",
        ),
        (
            locker.token("a").retention(Retention::For(Duration::MAX)),
            "retention must be between 60s and 3660 days, got 213503982334601 days; use forever to keep answers indefinitely",
        ),
        (locker.token("a").wait_for(Duration::ZERO), "wait_for must be between 1ms and 86400s, got 0ns"),
        (
            locker.token("a").take_over_after(Duration::MAX),
            "grace must be between 0ns and 366 days, got 213503982334601 days",
        ),
        (
            locker.token("a").owner(""),
            "the owner must be 1 to 256 bytes without control characters, such as order_update/<request id>",
        ),
        (
            locker.token("a").deadline(locker::Clock::now(&bench.clock)),
            "could not begin: the deadline has passed; nothing was written, call again with more time",
        ),
    ];
    for (token, text) in cases {
        assert_eq!(refusal(token).await, text);
    }
    let lock = held_by(locker.token("a")).await;
    wire.take();
    let end = lock.extend(Duration::ZERO).await.expect_err("too short");
    assert_eq!(end.to_string(), "expect_within must be between 1s and 366 days, got 0ns");
    end.into_lock().expect("the lock").release().await.expect("still held");
    assert_eq!(wire.count(), 1, "the release and nothing else");

    assert_eq!(
        Operator::new("ada", " ").expect_err("no reason").to_string(),
        "the reason must be 1 to 1000 bytes; say why, for the next reader of the record"
    );
    assert_eq!(
        FingerprintKey::new("k", "short").expect_err("short").to_string(),
        "the secret of a fingerprint key has 5 bytes; use 32 random bytes, at least 16"
    );
    let error = Locker::new(&bench.client, "a table").expect_err("not a name");
    assert_eq!(
        error.to_string(),
        "a table name must be 3 to 255 letters, digits, -, _ and ., or the ARN of a table"
    );
}

#[tokio::test(start_paused = true)]
async fn an_absent_table_says_how_to_make_it() {
    let bench = Bench::new().await;
    let locker = Locker::new(&bench.client, "nowhere").expect("a locker");
    let text = "the table nowhere does not exist in this account and region; create it, for example with `locker table create`";
    assert_eq!(refusal(locker.token("a")).await, format!("could not begin: {text}"));
    let error = locker.overdue().fetch().await.expect_err("no listing");
    assert_eq!(error.to_string(), format!("could not list: {text}"));
    let error = locker::check_table(&bench.client, "nowhere").await.expect_err("no table");
    assert_eq!(error.to_string(), format!("could not check the table: {text}"));
}

#[tokio::test(start_paused = true)]
async fn an_absent_table_of_workflows_says_how_to_make_it() {
    let bench = Bench::new().await;
    let workflows = locker::workflow::Workflows::new(&bench.client, "nowhere").expect("workflows");
    let text = "the table nowhere does not exist in this account and region; create it, for example with `locker workflow table create`";
    let error = workflows.get("a", 1).await.expect_err("no table");
    assert!(error.to_string().ends_with(text), "{error}");
    let error = locker::workflow::check_table(&bench.client, "nowhere").await.expect_err("no table");
    assert_eq!(error.to_string(), format!("could not check the table: {text}"));
}

/// A table that was created by hand.
async fn make(bench: &Bench, name: &str, key: &str, index: Option<(&str, ProjectionType)>) {
    let attribute = |name: &str| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .expect("built")
    };
    let element = |name: &str, kind| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("built")
    };
    let mut request = bench
        .client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute(key))
        .key_schema(element(key, KeyType::Hash));
    if let Some((sort, projection)) = index {
        if sort != key {
            request = request.attribute_definitions(attribute(sort));
        }
        request = request.attribute_definitions(attribute("status")).global_secondary_indexes(
            GlobalSecondaryIndex::builder()
                .index_name("byStatus")
                .key_schema(element("status", KeyType::Hash))
                .key_schema(element(sort, KeyType::Range))
                .projection(Projection::builder().projection_type(projection).build())
                .build()
                .expect("built"),
        );
    }
    request.send().await.expect("a table");
}

async fn problems(bench: &Bench, table: &str) -> Vec<String> {
    locker::check_table(&bench.client, table).await.expect("a check").problems
}

#[tokio::test(start_paused = true)]
async fn index_that_is_being_built_is_a_problem() {
    let bench = Bench::new().await;
    let gate = Gate::default();
    let built = r#""IndexStatus":"ACTIVE""#;
    gate.replace_in_replies(built, &built.replace("ACTIVE", "CREATING"));
    let table = locker::check_table(&bench.engine.client_behind(&gate), &bench.table).await.expect("a check");
    let said = "the index byStatus is still being built; listings are incomplete until it is active";
    assert_eq!(table.problems, [said]);
}

#[tokio::test(start_paused = true)]
async fn a_table_that_is_not_right_says_what_to_change() {
    let bench = Bench::new().await;
    assert_eq!(problems(&bench, &bench.table).await, Vec::<String>::new());
    let named = |what: &str| format!("{}-{what}", bench.table);
    let no_ttl = "TTL is disabled, so answers are never deleted; enable it for the attribute ttl";

    make(&bench, &named("bare"), "lockToken", None).await;
    let no_index = "the index byStatus is missing; add it with partition key status, sort key expectedCompletion and the projected attributes created, lockedBy, attempt, class, cause, resolution, resolvedBy, resolvedReason, within";
    assert_eq!(problems(&bench, &named("bare")).await, [no_index, no_ttl]);

    make(&bench, &named("article"), "lockToken", Some(("lockToken", ProjectionType::All))).await;
    let sorted = "the index byStatus has the keys status and lockToken; it must have status and expectedCompletion: delete the index and create it again";
    assert_eq!(problems(&bench, &named("article")).await, [sorted, no_ttl]);

    make(&bench, &named("all"), "lockToken", Some(("expectedCompletion", ProjectionType::All))).await;
    let all = "the index byStatus projects all attributes, so it stores every failure a second time; project only created, lockedBy, attempt, class, cause, resolution, resolvedBy, resolvedReason, within";
    assert_eq!(problems(&bench, &named("all")).await, [all, no_ttl]);

    make(&bench, &named("keys"), "lockToken", Some(("expectedCompletion", ProjectionType::KeysOnly))).await;
    let keys = "the index byStatus does not project created, lockedBy, attempt, class, cause, resolution, resolvedBy, resolvedReason, within, so listings cannot show them; delete the index and create it again";
    assert_eq!(problems(&bench, &named("keys")).await, [keys, no_ttl]);

    make(&bench, &named("id"), "id", None).await;
    let id = "the table's key is id; it must be the partition key lockToken alone: create a new table, because keys cannot be changed";
    assert_eq!(problems(&bench, &named("id")).await, [id, no_index, no_ttl]);

    let other = "TTL is enabled for the attribute expiry; it must be ttl: disable it, wait an hour, and enable it for ttl";
    let ttl =
        TimeToLiveSpecification::builder().attribute_name("expiry").enabled(true).build().expect("built");
    let update = bench.client.update_time_to_live().table_name(named("id")).time_to_live_specification(ttl);
    update.send().await.expect("enabled");
    assert_eq!(problems(&bench, &named("id")).await, [id, no_index, other]);

    // The errors that begin and list return for such tables.
    let locker = Locker::new(&bench.client, named("bare")).expect("a locker");
    held_by(locker.token("a")).await.release().await.expect("released");
    let error = locker.overdue().fetch().await.expect_err("no index").to_string();
    assert_eq!(
        error,
        format!(
            "could not list: the table {} has no index byStatus; run `locker table check` to see what to change",
            named("bare")
        )
    );
    let locker = Locker::new(&bench.client, named("id")).expect("a locker");
    assert_eq!(
        refusal(locker.token("a")).await,
        format!(
            "could not begin: the table {} has another primary key; pass the name of the right table, or create a new table with `locker table create`",
            named("id")
        )
    );
}

fn impatient(client: &Client) -> Locker {
    let mut settings = Settings::default();
    settings.give_up_after = Duration::from_secs(2);
    Locker::builder(client, "locks").settings(settings).build().expect("a locker")
}

#[tokio::test(start_paused = true)]
async fn no_credentials_says_where_they_come_from() {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .endpoint_url("http://127.0.0.1:9")
        .http_client(locker::client::http_client())
        .build();
    let locker = impatient(&Client::from_conf(config));
    assert_eq!(
        refusal(locker.token("a")).await,
        "could not begin: no credentials were found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run under a role"
    );
}

#[tokio::test(start_paused = true)]
async fn no_region_and_no_http_client_say_so() {
    let config = || {
        Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
    };
    let locker = impatient(&Client::from_conf(config().http_client(locker::client::http_client()).build()));
    assert_eq!(refusal(locker.token("a")).await, "could not begin: no region is set; set AWS_REGION");
    let locker = impatient(&Client::from_conf(config().region(Region::new("eu-west-1")).build()));
    assert_eq!(
        refusal(locker.token("a")).await,
        "could not begin: the SDK client has no HTTP client; build it with locker::client, or enable a TLS feature of the SDK"
    );
}

#[tokio::test(start_paused = true)]
async fn no_network_says_that_nothing_was_changed() {
    // Nothing listens on the port of `discard`, and no host has this name.
    for endpoint in ["http://127.0.0.1:9", "http://nobody.invalid"] {
        let locker = impatient(&client_for(endpoint, unhurried(locker::client::http_client())));
        let error = locker.token("a").begin().await.expect_err("no network");
        let Error::Unavailable { tries, .. } = &error else { panic!("{endpoint}: {error:?}") };
        assert_eq!(
            error.to_string(),
            format!(
                "could not begin: DynamoDB was out of reach or too busy; no token or workflow was changed, try again later: tries={tries}"
            )
        );
        assert!(error.source().is_some_and(|source| source.to_string().contains("onnect")), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_message_and_no_debug_print_shows_a_key_an_answer_or_a_fingerprint() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mut shown = String::new();
    let mut see = |thing: &dyn std::fmt::Debug| shown.push_str(&format!("{thing:?}\n"));
    let token = || locker.token(("card", "4111111111111111")).fingerprint("pin of the card");
    let lock = held_by(token()).await;
    see(&lock);
    see(&lock.attempt());
    see(&token());
    see(&token().begin().await);
    see(&locker.overdue().fetch().await);
    see(&locker.in_progress().fetch().await);
    see(&locker.token(("card", "4111111111111111")).fingerprint("other").begin().await);
    lock.complete(&"secret answer").await.expect("completed");
    see(&token().begin().await);
    see(&token().run(async |_| Ok::<u32, locker::Failure>(1)).await.map(locker::Answer::into_inner));
    see(&locker.get("card/4111111111111111").await);
    bench
        .client
        .update_item()
        .table_name(&bench.table)
        .key("lockToken", aws_sdk_dynamodb::types::AttributeValue::S("card/4111111111111111".into()))
        .update_expression("REMOVE lockedBy")
        .send()
        .await
        .expect("damaged");
    see(&token().begin().await);
    for secret in ["4111111111111111", "secret answer", "pin of the card"] {
        assert!(!shown.contains(secret), "{secret} is in {shown}");
    }
}
