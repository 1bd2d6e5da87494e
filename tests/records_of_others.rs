//! Records written by others (the article's TypeScript library, Powertools, damage, the future)
//! decode to a value or a clear error: never a panic, and never "completed" where the outcome is
//! unknown.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use locker::operator::{Console, Filter};
use locker::{Begun, Class, Error, Intervened, Operator, TokenState};
use locker_tests::{Bench, record_of};
use serde_json::{Value, json};

type Item = HashMap<String, AttributeValue>;

/// An item from DynamoDB JSON, such as `{"status": {"S": "error"}}`.
fn item(json: &Value) -> Item {
    let fields = json.as_object().expect("an object");
    fields.iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
}

fn attribute(json: &Value) -> AttributeValue {
    let (kind, value) = json.as_object().and_then(|object| object.iter().next()).expect("a typed value");
    match kind.as_str() {
        "S" => AttributeValue::S(value.as_str().expect("text").to_owned()),
        "N" => AttributeValue::N(value.as_str().expect("digits").to_owned()),
        "BOOL" => AttributeValue::Bool(value.as_bool().expect("a truth")),
        "NULL" => AttributeValue::Null(true),
        "L" => AttributeValue::L(value.as_array().expect("a list").iter().map(attribute).collect()),
        "M" => AttributeValue::M(item(value)),
        "SS" => AttributeValue::Ss(
            value
                .as_array()
                .expect("a set")
                .iter()
                .map(|text| text.as_str().expect("text").to_owned())
                .collect(),
        ),
        other => panic!("no type {other}"),
    }
}

async fn begin(bench: &Bench, key: &str, mut json: Value) -> Result<Begun, Error> {
    json["lockToken"] = json!({"S": key});
    bench.put(item(&json)).await;
    let (locker, _) = bench.machine();
    let before = bench.items().await;
    let begun = locker.token(key).begin().await;
    assert_eq!(bench.items().await, before, "{key}: what others wrote is not touched");
    begun
}

/// A record as the article's library writes it: an ISO time with milliseconds, a native result,
/// NULL for none, a `ttl` in milliseconds.
fn article(status: Value, more: Value) -> Value {
    let mut record = json!({
        "lockedBy": {"S": "some-host"},
        "created": {"S": "2000-01-02T03:04:05.000Z"},
        "expectedCompletion": {"S": "2000-01-02T03:04:06.000Z"},
        "status": status,
        "actualCompletion": {"NULL": true},
        "result": {"NULL": true},
        "error": {"NULL": true},
        "ttl": {"N": "946785845000"},
    });
    record.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    if record["status"].is_null() {
        record.as_object_mut().expect("an object").remove("status");
    }
    record
}

#[tokio::test(start_paused = true)]
async fn the_articles_records_are_read_as_what_they_are() {
    let bench = Bench::new().await;
    let begun =
        begin(&bench, "ts/working", article(json!({"S": "inProgress"}), json!({}))).await.expect("an answer");
    let Begun::InProgress(holder) = begun else { panic!("{begun:?}") };
    assert_eq!((holder.locked_by(), holder.record().attempt()), ("some-host", None));

    let done = json!({
        "actualCompletion": {"S": "2000-01-02T03:04:05.500Z"},
        "result": {"M": {"data": {"S": "test"}, "n": {"N": "1.5"}, "l": {"L": [{"BOOL": false}, {"NULL": true}]}}},
    });
    let begun = begin(&bench, "ts/done", article(Value::Null, done)).await.expect("an answer");
    let Begun::Completed(replay) = begun else { panic!("{begun:?}") };
    assert_eq!(
        replay.result::<Value>().expect("JSON"),
        json!({"data": "test", "n": 1.5, "l": [false, null]})
    );

    let nothing = json!({"actualCompletion": {"S": "2000-01-02T03:04:05.500Z"}});
    let begun = begin(&bench, "ts/null", article(Value::Null, nothing)).await.expect("an answer");
    let Begun::Completed(replay) = begun else { panic!("{begun:?}") };
    assert_eq!(replay.result::<Value>().expect("JSON"), Value::Null);

    let failed = json!({
        "actualCompletion": {"S": "2000-01-02T03:04:05.500Z"},
        "error": {"S": "error message, or JSON payload"},
    });
    let begun = begin(&bench, "ts/failed", article(json!({"S": "error"}), failed)).await.expect("an answer");
    let Begun::Held(failure) = begun else { panic!("{begun:?}") };
    assert_eq!(failure.class(), Class::NeedsOperator);
    assert_eq!(failure.error::<String>().expect("text"), "error message, or JSON payload");
}

#[tokio::test(start_paused = true)]
async fn the_articles_work_in_progress_can_be_resolved_and_taken_over() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for key in ["ts/resolve", "ts/over"] {
        let begun =
            begin(&bench, key, article(json!({"S": "inProgress"}), json!({}))).await.expect("an answer");
        assert!(matches!(begun, Begun::InProgress(_)), "{key}: {begun:?}");
    }
    let record = locker_tests::record_of(&locker, "ts/resolve").await;
    let operator = locker::Operator::new("ada", "seen in the provider's books").expect("an operator");
    assert_eq!(
        locker.resolve(&record, &json!({"id": 7}), &operator).await.expect("resolved"),
        Intervened::Done
    );
    let begun = locker.token("ts/resolve").begin().await.expect("an answer");
    let Begun::Completed(replay) = begun else { panic!("{begun:?}") };
    assert_eq!(replay.json(), r#"{"id":7}"#);

    let lock =
        locker_tests::held_by(locker.token("ts/over").take_over_after(std::time::Duration::ZERO)).await;
    lock.complete("ours").await.expect("completed");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_token_can_be_ended_whatever_its_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let key = "order caf\u{e9} 7";
    let mut record = article(json!({"S": "inProgress"}), json!({}));
    record["lockToken"] = json!({"S": key});
    bench.put(item(&record)).await;
    let listed = locker.in_progress().fetch().await.expect("a listing");
    assert_eq!(listed.items[0].token, key);
    let existing = locker::Key::existing(&listed.items[0].token).expect("a key");
    let record = locker.get(existing).await.expect("an answer").expect("a record");
    let operator = locker::Operator::new("ada", "seen in the provider's books").expect("an operator");
    assert_eq!(locker.resolve(&record, &json!(7), &operator).await.expect("resolved"), Intervened::Done);
}

#[tokio::test(start_paused = true)]
async fn foreign_token_is_selected_by_its_whole_key() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for key in ["order caf\u{e9} 7", "order caf\u{e9} 70"] {
        let mut record = article(json!({"S": "inProgress"}), json!({}));
        record["lockToken"] = json!({"S": key});
        bench.put(item(&record)).await;
    }
    let console = Console::new().tokens(&locker);
    for (key, count) in [("order caf\u{e9} 7", 1), ("order", 0)] {
        let listing = console.list(&Filter::new().key(key)).await.expect("a listing");
        let keys: Vec<_> = listing.matches.iter().map(|it| it.work.key()).collect();
        assert_eq!(keys, vec![key; count]);
    }
}

#[tokio::test(start_paused = true)]
async fn powertools_records_are_reported_and_left_alone() {
    let bench = Bench::new().await;
    for status in ["INPROGRESS", "COMPLETED", "EXPIRED"] {
        let record = json!({
            "status": {"S": status},
            "expiration": {"N": "1795259349"},
            "in_progress_expiration": {"N": "1795259349000"},
            "data": {"S": "{\"id\": 7}"},
            "validation": {"S": "f3d1"},
        });
        let error = begin(&bench, &format!("pt/{status}"), record).await.expect_err("no answer");
        assert_eq!(
            error.to_string(),
            "the stored record was written by Powertools idempotency, which keeps no owner; give each library a table of its own"
        );
    }
}

/// A record as this version writes it, completed.
fn ours(change: Value) -> Value {
    let mut record = json!({
        "lockedBy": {"S": "order/1"},
        "attempt": {"S": "a776b9c5-9db2-40fd-b3ba-0732b5755f2f"},
        "created": {"S": "2026-11-21T11:09:09.120Z"},
        "expectedCompletion": {"S": "2026-11-21T11:10:09.120Z"},
        "actualCompletion": {"S": "2026-11-21T11:09:10.120Z"},
        "version": {"N": "1"},
        "outcome": {"S": "success"},
        "resultCodec": {"S": "json"},
        "result": {"S": "7"},
    });
    for (name, value) in change.as_object().expect("an object") {
        match value {
            Value::Null => record.as_object_mut().expect("an object").remove(name),
            value => record.as_object_mut().expect("an object").insert(name.clone(), value.clone()),
        };
    }
    record
}

#[tokio::test(start_paused = true)]
async fn damage_is_reported_and_never_read_as_an_answer() {
    let bench = Bench::new().await;
    let undamaged = begin(&bench, "damage/none", ours(json!({}))).await.expect("an answer");
    assert!(matches!(undamaged, Begun::Completed(_)), "{undamaged:?}");

    let gone = |attribute: &str| json!({ attribute: null });
    let is = |attribute: &str, value: Value| json!({ attribute: value });
    let look = "inspect and repair the item";
    let cases = [
        (gone("lockedBy"), format!("it has no lockedBy; {look}")),
        (gone("created"), format!("it has no created; {look}")),
        (gone("expectedCompletion"), format!("it has no expectedCompletion; {look}")),
        (gone("attempt"), format!("it has no attempt; {look}")),
        (gone("outcome"), format!("it has no outcome; {look}")),
        (gone("result"), format!("it has no result; {look}")),
        (gone("resultCodec"), format!("it has no resultCodec; {look}")),
        (is("lockedBy", json!({"N": "7"})), format!("its lockedBy is not text; {look}")),
        (is("created", json!({"S": "yesterday"})), format!("its created is not an RFC 3339 time; {look}")),
        (is("actualCompletion", json!({"N": "1"})), format!("its actualCompletion is not text; {look}")),
        (is("status", json!({"S": "done"})), format!("its status is not inProgress or error; {look}")),
        (is("status", json!({"S": "COMPLETED"})), format!("its status is not inProgress or error; {look}")),
        (
            is("status", json!({"S": "inProgress_many"})),
            format!("its status is not inProgress or error; {look}"),
        ),
        (is("outcome", json!({"S": "perhaps"})), format!("its outcome is not success or failure; {look}")),
        (is("resultCodec", json!({"S": "zip"})), format!("its resultCodec is not json or json+gzip; {look}")),
        (
            is("resultCodec", json!({"S": "json+gzip"})),
            format!("its result is not encoded as resultCodec; {look}"),
        ),
        (is("result", json!({"M": {}})), format!("its result is not encoded as resultCodec; {look}")),
        (is("ttl", json!({"S": "soon"})), format!("its ttl is not a whole number in range; {look}")),
        (is("ttl", json!({"N": "99999999999.5"})), format!("its ttl is not a whole number in range; {look}")),
        (is("version", json!({"S": "1"})), format!("its version is not a whole number in range; {look}")),
        (is("version", json!({"N": "-1"})), format!("its version is not a whole number in range; {look}")),
    ];
    for (number, (change, text)) in cases.into_iter().enumerate() {
        let error = begin(&bench, &format!("damage/{number}"), ours(change.clone())).await;
        let error = error.expect_err(&text).to_string();
        assert_eq!(error, format!("the stored record cannot be read: {text}"), "{change}");
    }

    let stateless =
        ours(json!({"actualCompletion": null, "outcome": null, "result": null, "resultCodec": null}));
    let error = begin(&bench, "damage/stateless", stateless).await.expect_err("no answer");
    assert_eq!(
        error.to_string(),
        "the stored record has neither a status nor a completion; inspect and repair the item"
    );
    let error = begin(&bench, "damage/empty", json!({})).await.expect_err("no answer");
    assert!(matches!(error, Error::Record { .. }), "{error:?}");
    let odd = article(
        Value::Null,
        json!({"actualCompletion": {"S": "2000-01-02T03:04:05.500Z"}, "result": {"SS": ["a"]}}),
    );
    let error = begin(&bench, "damage/set", odd).await.expect_err("no answer");
    assert_eq!(
        error.to_string(),
        format!("the stored record cannot be read: its result is not a value that JSON has; {look}")
    );
}

#[tokio::test(start_paused = true)]
async fn a_newer_version_is_not_guessed_at() {
    let bench = Bench::new().await;
    let newer = ours(json!({"version": {"N": "2"}, "shape": {"S": "unheard of"}}));
    let error = begin(&bench, "newer", newer).await.expect_err("no answer");
    assert_eq!(
        error.to_string(),
        "the stored record has version 2, this code reads up to 1; update the code that reads it"
    );
}

#[tokio::test(start_paused = true)]
async fn added_attributes_do_no_harm() {
    let bench = Bench::new().await;
    let more = ours(json!({"tenantPlan": {"S": "gold"}, "seen": {"BOOL": true}}));
    let begun = begin(&bench, "more", more).await.expect("an answer");
    let Begun::Completed(replay) = begun else { panic!("{begun:?}") };
    assert_eq!((replay.json(), replay.record().state()), ("7", TokenState::Completed));
}

/// As this library wrote tokens before it stored causes, forms and the age of keys.
#[tokio::test(start_paused = true)]
async fn records_of_earlier_code_are_read_as_before() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let item = |key: &str, more: &[(&str, &str)]| {
        let always = [
            ("lockToken", key),
            ("lockedBy", "orders/1"),
            ("attempt", "a-1"),
            ("created", "2025-01-02T03:04:05.000Z"),
            ("expectedCompletion", "2025-01-02T03:05:05.000Z"),
        ];
        let mut item: HashMap<_, _> =
            always.iter().chain(more).map(|(name, value)| ((*name).to_owned(), text(value))).collect();
        item.insert("version".to_owned(), AttributeValue::N("1".to_owned()));
        item.insert("retention".to_owned(), AttributeValue::N("2592000".to_owned()));
        item
    };
    let ended =
        [("actualCompletion", "2025-01-02T03:04:06.000Z"), ("resultCodec", "json"), ("result", "\"r\"")];
    let with = |more: &[(&'static str, &'static str)]| [&ended[..], more].concat();
    let released = [
        ("resolution", "released"),
        ("resolvedBy", "ada"),
        ("resolvedReason", "it never left"),
        ("resolvedAt", "2025-01-02T03:06:05.000Z"),
    ];
    bench.put(item("running", &[("status", "inProgress")])).await;
    bench.put(item("completed", &with(&[("outcome", "success")]))).await;
    bench.put(item("failed", &with(&[("outcome", "failure")]))).await;
    bench.put(item("held", &with(&[("outcome", "failure"), ("status", "error")]))).await;
    bench.put(item("released", &released)).await;

    let begun = async |key: &str| locker.token(key).begin().await.expect("an answer");
    assert!(matches!(begun("running").await, Begun::InProgress(_)));
    assert!(matches!(begun("completed").await, Begun::Completed(_)));
    assert!(matches!(begun("failed").await, Begun::Failed(_)));
    assert!(matches!(begun("held").await, Begun::Held(_)));
    let Begun::Acquired(lock) = begun("released").await else { panic!("it is free") };
    assert_eq!(lock.attempt().idempotency_key(), "released");
    lock.complete("done").await.expect("completed");
    let operator = Operator::new("ada", "books").expect("an operator");
    for (key, done) in [
        ("running", locker.release(&record_of(&locker, "running").await, &operator).await),
        ("held", locker.close(&record_of(&locker, "held").await, &operator).await),
    ] {
        assert_eq!(done.expect("an answer"), Intervened::Done, "{key}");
    }
    let taken =
        locker.token("running").take_over_after(std::time::Duration::ZERO).begin().await.expect("an answer");
    assert!(matches!(taken, Begun::Acquired(_)), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_record_without_an_attempt_has_a_revision_that_changes_with_it() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let mut revisions = std::collections::BTreeSet::new();
    for (status, due) in [
        (json!({"S": "inProgress"}), "2000-01-02T03:04:06.000Z"),
        (json!({"S": "inProgress"}), "2000-01-02T03:04:07.000Z"),
        (json!({"S": "error"}), "2000-01-02T03:04:06.000Z"),
        (Value::Null, "2000-01-02T03:04:06.000Z"),
    ] {
        let done = json!({"S": "2000-01-02T03:04:05.500Z"});
        let mut record = article(status, json!({"expectedCompletion": {"S": due}, "actualCompletion": done}));
        record["lockToken"] = json!({"S": "t"});
        bench.put(item(&record)).await;
        let record = record_of(&locker, "t").await;
        assert_eq!(record.attempt(), None);
        let revision = record.revision();
        assert!(revision.len() == 10 && revision.bytes().all(|byte| byte.is_ascii_hexdigit()), "{revision}");
        assert!(revisions.insert(revision), "{record:?}");
    }
}
