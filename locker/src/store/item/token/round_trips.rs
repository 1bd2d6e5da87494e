//! Written records are read back unchanged: in every state, with either kind of body, and after an
//! act of an operator.

use std::time::Duration;

use proptest::collection::hash_map;
use proptest::prelude::*;
use serde_json::Value;

use super::arbitrary::{any_number, any_value};
use super::*;
use crate::core::answer::{Codec, decode, encode, to_json};
use crate::core::token::decide::{self, Ended};
use crate::core::token::record::Intervention;
use crate::core::token::write::{Finish, NextKey, Write};
use crate::store::expression::{Change, Request};

/// Does to an item what DynamoDB does with our update expressions, which only set and remove.
fn apply(write: Write, item: &mut Item) {
    let request = Request::of(&write);
    let Change::Update { expression, .. } = &request.change else { panic!("not an update: {request:?}") };
    let (sets, removes) = expression.split_once(" REMOVE ").unwrap_or((expression, ""));
    for assignment in sets.strip_prefix("SET ").expect("an assignment").split(", ") {
        let (name, value) = assignment.split_once(" = ").expect("a value");
        item.insert(request.names[name].clone(), request.values[value].clone());
    }
    for name in removes.split(", ").filter(|name| !name.is_empty()) {
        item.remove(&request.names[name]);
    }
}

fn time() -> impl Strategy<Value = DateTime<Utc>> {
    (0_i64..253_402_300_799_999).prop_map(|ms| DateTime::from_timestamp_millis(ms).expect("a time"))
}

prop_compose! {
    fn token()(
        key in "[!-~]{1,1024}",
        locked_by in "[^\\p{Cc}]{1,60}",
        attempt in "[0-9a-f-]{36}",
        (created, expected_completion, expired_at) in (time(), time(), time()),
        shards in 1_u16..=1000,
        fingerprint in prop::option::of("sha256:[0-9a-f]{64}").prop_map(|text| text.as_deref().map(StoredFingerprint::unchecked)),
        form in prop::option::of("[a-z<>]{1,64}").prop_map(|form| form.as_deref().map(Form::stored)),
        key_use in (1_u32..4, prop::option::of(time())).prop_map(|(version, since)| KeyUse { version, since }),
        taken_over_from in prop::option::of("[0-9a-f-]{36}"),
        within in prop::option::of(("[!-~]{1,20}", any::<bool>())),
        unlisted in prop::option::of(1_i64..4_000_000_000),
        kept in prop::option::of(60_u64..=3660 * 86_400),
    ) -> NewToken {
        let status = shard::status(if unlisted.is_some() { shard::UNLISTED } else { shard::IN_PROGRESS }, &key, shards);
        let retention = kept.map_or(Retention::Forever, |kept| Retention::For(Duration::from_secs(kept)));
        let key = Key::parse(key).expect("a key");
        NewToken {
            key, locked_by, attempt, created, expected_completion, status, fingerprint, form, cause: None, held: None, requested: None, opened: None, key_use,
            taken_over_from, retention, expired_at, ttl: unlisted,
            within: within.map(|(key, token)| if token { Work::Token(key) } else { Work::Workflow(key) }),
        }
    }
}

fn body() -> impl Strategy<Value = Body> {
    let inline = (".{0,400}", 0_usize..300).prop_map(|(text, room)| {
        let json = to_json(&text).expect("JSON");
        Body::Inline(encode(json, room, usize::MAX).expect("it is small").0)
    });
    let codec = prop::sample::select(vec![Codec::Json, Codec::Gzip]);
    let beside = (codec, "[0-9a-f-]{36}", any::<u32>()).prop_map(|(codec, id, bytes)| Body::Beside {
        codec,
        id,
        bytes: bytes as usize,
    });
    prop_oneof![inline, beside]
}

fn finish() -> impl Strategy<Value = (Finish, TokenState)> {
    prop::sample::select(vec![
        (Finish::Success, TokenState::Completed),
        (Finish::Failure, TokenState::Failed),
        (Finish::Hold { status: "error".to_owned(), cause: "odd".to_owned() }, TokenState::Held),
        (Finish::Hold { status: "error_999".to_owned(), cause: "odd".to_owned() }, TokenState::Held),
    ])
}

fn operator() -> impl Strategy<Value = Intervention> {
    (".{1,40}", ".{1,80}", time()).prop_map(|(by, reason, at)| Intervention { by, reason, at })
}

/// Attributes of another writer's, under names that are not ours.
fn unknown() -> impl Strategy<Value = Item> {
    hash_map("x[a-zA-Z0-9_.]{0,8}", any_value(), 0..4)
}

fn check_token(record: &Record, token: &NewToken) -> Result<(), TestCaseError> {
    prop_assert_eq!(&record.key.as_str(), &token.key.as_str());
    prop_assert_eq!(&record.locked_by, &token.locked_by);
    prop_assert_eq!(record.created, token.created);
    prop_assert_eq!(record.retention, Some(token.retention));
    prop_assert_eq!(&record.taken_over_from, &token.taken_over_from);
    prop_assert_eq!(&record.fingerprint, &token.fingerprint);
    prop_assert_eq!(&record.form, &token.form);
    prop_assert_eq!(&record.within, &token.within);
    Ok(())
}

fn expiry(ttl: Option<i64>) -> Option<DateTime<Utc>> {
    ttl.and_then(|ttl| DateTime::from_timestamp(ttl, 0))
}

proptest! {
    #[test]
    fn a_token_that_was_begun_finished_and_judged_reads_as_it_was_written(
        token in token(),
        (finish, state) in finish(),
        (body, other_body) in (body(), body()),
        (at, due) in (time(), time()),
        ttl in prop::option::of(0_i64..4_000_000_000),
        operator in operator(),
        unknown in unknown(),
        resolves: bool,
    ) {
        let mut item = from_token(&token);
        item.extend(unknown.clone());
        let begun = to_record(&item).expect("a record");
        check_token(&begun, &token)?;
        prop_assert!(begun.is_held_by(&token.attempt) && begun.body.is_none());
        prop_assert_eq!(begun.expected_completion, token.expected_completion);
        prop_assert_eq!(begun.expires.map(|expires| expires.timestamp()), token.ttl);
        prop_assert_eq!(begun.is_listed(), token.ttl.is_none());

        let (key, attempt) = (token.key.clone(), token.attempt.clone());
        let cause = "no reply".to_owned();
        let promised = token.expected_completion;
        let list_as = token.ttl.map(|_| shard::IN_PROGRESS.to_owned());
        let write = Write::Doubt { key: key.clone(), attempt: attempt.clone(), due: at, promised, cause, list_as };
        let mut doubted = item.clone();
        apply(write.clone(), &mut doubted);
        let doubted = to_record(&doubted).expect("a record");
        check_token(&doubted, &token)?;
        prop_assert!(doubted.is_in_doubt() && doubted.is_listed() && doubted.expires.is_none());
        prop_assert_eq!((doubted.expected_completion, doubted.promised_completion()), (at, promised));
        prop_assert_eq!((doubted.class, doubted.cause.as_deref()), (Some(Class::InDoubt), Some("no reply")));
        prop_assert_eq!(decide::ended(&write, Some(&doubted), true), Ended::Done);

        let write = Write::Extend { key: key.clone(), attempt: attempt.clone(), due, ttl: token.ttl.map(|ttl| ttl + 1) };
        apply(write.clone(), &mut item);
        let extended = to_record(&item).expect("a record");
        prop_assert_eq!(extended.expected_completion, due);
        prop_assert_eq!(extended.expires.map(|expires| expires.timestamp()), token.ttl.map(|ttl| ttl + 1));
        prop_assert_eq!(decide::ended(&write, Some(&extended), true), Ended::Done);

        let write = Write::Finish { key: key.clone(), attempt, at, finish, body: body.clone(), ttl };
        apply(write.clone(), &mut item);
        let ended = to_record(&item).expect("a record");
        check_token(&ended, &token)?;
        prop_assert_eq!((ended.state, ended.actual_completion, ended.expires), (state, Some(at), expiry(ttl)));
        prop_assert_eq!(&ended.body, &Some(body));
        prop_assert_eq!(decide::ended(&write, Some(&ended), true), Ended::Done);

        let seen_revision = ended.revision();
        let seen = ended.seen;
        let write = if resolves {
            Write::Resolve { key, attempt: "new".to_owned(), seen, operator: operator.clone(), body: other_body.clone(), ttl, verb: Resolution::Resolved }
        } else {
            Write::Free {
                key,
                attempt: "new".to_owned(),
                seen,
                operator: operator.clone(),
                ttl,
                next_key: NextKey::Next { version: 7 },
            }
        };
        apply(write.clone(), &mut item);
        let judged = to_record(&item).expect("a record");
        check_token(&judged, &token)?;
        prop_assert_eq!(judged.intervention.as_ref(), Some(&operator));
        // A new attempt id excludes the former owner, and changes the revision.
        prop_assert_eq!(judged.attempt.as_deref(), Some("new"));
        prop_assert_ne!(judged.revision(), seen_revision);
        prop_assert_eq!(decide::ended(&write, Some(&judged), true), Ended::Done);
        let expected = if resolves { (TokenState::Completed, Some(other_body)) } else { (TokenState::Released, None) };
        prop_assert_eq!((judged.state, judged.body), expected);
        prop_assert_eq!(judged.expires, expiry(ttl));

        for (name, value) in &unknown {
            prop_assert_eq!(item.get(name), Some(value), "an attribute of another writer's is gone");
        }
    }

    #[test]
    fn a_native_value_of_the_article_is_its_json_digit_by_digit(value in any_value()) {
        let mut item = from_dynamodb_article();
        item.insert(a::RESULT.to_owned(), value.clone());
        let Ok(record) = to_record(&item) else {
            prop_assert!(!has_json(&value), "refused: {:?}", value);
            return Ok(());
        };
        prop_assert!(has_json(&value));
        let Some(Body::Inline(encoded)) = record.body else { panic!("{:?}", record.body) };
        let json = decode(encoded).expect("JSON");
        serde_json::from_str::<Value>(&json).expect("JSON");
        let mut digits = Vec::new();
        numbers(&value, &mut digits);
        for digits in digits {
            prop_assert!(json.contains(&digits), "{} is not in {}", digits, json);
        }
    }

    #[test]
    fn a_number_of_38_digits_keeps_them(digits in any_number()) {
        let mut item = from_dynamodb_article();
        item.insert(a::RESULT.to_owned(), AttributeValue::N(digits.clone()));
        if let Ok(record) = to_record(&item) {
            let Some(Body::Inline(encoded)) = record.body else { panic!("{:?}", record.body) };
            prop_assert_eq!(decode(encoded).expect("JSON"), digits);
        }
    }
}

fn from_dynamodb_article() -> Item {
    [(a::LOCK_TOKEN, "ts/done"), (a::LOCKED_BY, "host"), (a::CREATED, "2000-01-02T03:04:05.000Z")]
        .into_iter()
        .chain([
            (a::EXPECTED_COMPLETION, "2000-01-02T03:04:06.000Z"),
            (a::ACTUAL_COMPLETION, "2000-01-02T03:04:05.500Z"),
        ])
        .map(|(name, value)| (name.to_owned(), text(value)))
        .collect()
}

fn has_json(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::L(items) => items.iter().all(has_json),
        AttributeValue::M(fields) => fields.values().all(has_json),
        AttributeValue::N(digits) => {
            serde_json::from_str::<serde_json::Number>(digits).is_ok() && digits.trim() == digits
        }
        AttributeValue::S(_) | AttributeValue::Bool(_) | AttributeValue::Null(_) => true,
        _ => false,
    }
}

fn numbers(value: &AttributeValue, found: &mut Vec<String>) {
    match value {
        AttributeValue::L(items) => items.iter().for_each(|item| numbers(item, found)),
        AttributeValue::M(fields) => fields.values().for_each(|field| numbers(field, found)),
        AttributeValue::N(digits) => found.push(digits.clone()),
        _ => {}
    }
}
