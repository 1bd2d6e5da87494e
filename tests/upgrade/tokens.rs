//! Tokens in all states.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::request::Parts;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use locker::http::{IdempotencyLayer, Operation};
use locker::{
    BeginBuilder, Begun, FingerprintKey, Form, Locker, Record, Resolution, Retention, TokenState, Work,
};
use locker_tests::{DAY, HOUR, MINUTE, ada, held_by, record_of};
use serde_json::json;
use tower::ServiceExt as _;

use crate::folder::{Tables, folders, text};
use crate::stage::{Stage, done, noise};

/// An answer of this length has a separate item.
const LARGE: usize = 2_000;

fn secret() -> FingerprintKey {
    FingerprintKey::new("2050", [7_u8; 32]).unwrap()
}

async fn held(locker: &Locker, key: &str) -> Record {
    held_by(locker.token(key)).await.hold("the card is unknown").await.unwrap();
    record_of(locker, key).await
}

async fn in_doubt(locker: &Locker, key: &str) -> Record {
    let token = locker.token(key).expect_within(DAY);
    held_by(token).await.leave_in_doubt("no reply of the bank").await;
    record_of(locker, key).await
}

/// An API whose orders have tokens, and whose handler answers with `tea`.
fn api(locker: Locker, calls: &'static AtomicU32) -> Router {
    let user = |request: &Parts| request.headers.get("x-user")?.to_str().ok().map(str::to_owned);
    let handler = move || async move {
        calls.fetch_add(1, Ordering::SeqCst);
        (StatusCode::CREATED, [("location", "/orders/7")], "tea")
    };
    let layer = IdempotencyLayer::new(locker, Operation::method_and_path(), user);
    Router::new().route("/orders", post(handler)).layer(layer)
}

/// The status, the location and the body of a response, and whether it is a replay.
async fn ordered(api: Router) -> (u16, String, String, bool) {
    let request = Request::post("/orders").header("x-user", "alice").header("Idempotency-Key", "k1");
    let response = api.oneshot(request.body(Body::from("tea")).unwrap()).await.unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (location, replayed) = (header("location").unwrap_or_default(), header("idempotent-replayed"));
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, location, String::from_utf8(body.to_vec()).unwrap(), replayed.is_some())
}

pub(crate) async fn fill(stage: &Stage) {
    let locker = stage.locker();
    let begun = async |token: BeginBuilder| held_by(token).await;

    // Ended by their owners.
    begun(locker.token("done/small")).await.complete("small").await.unwrap();
    begun(locker.token("done/compressed")).await.complete(&"a".repeat(3_000)).await.unwrap();
    begun(locker.token("done/large")).await.complete(&noise(LARGE)).await.unwrap();
    begun(locker.token("done/forever").retention(Retention::Forever)).await.complete(&7).await.unwrap();
    begun(locker.token("done/day").retention(Retention::For(DAY))).await.complete(&8).await.unwrap();
    begun(locker.token("done/form").form(Form::of::<u32>())).await.complete(&9).await.unwrap();
    begun(locker.token("done/fingerprint").fingerprint(&7)).await.complete(&10).await.unwrap();
    let keyed = stage.locker_with(|locker| locker.with_fingerprint_keys([secret()]));
    begun(keyed.token("done/keyed").fingerprint(&7)).await.complete(&11).await.unwrap();
    begun(locker.token("failed/small")).await.fail("declined").await.unwrap();
    begun(locker.token("failed/large")).await.fail(&noise(LARGE)).await.unwrap();
    held(&locker, "held/small").await;
    begun(locker.token("held/large")).await.hold(&noise(LARGE)).await.unwrap();
    static CALLS: AtomicU32 = AtomicU32::new(0);
    assert_eq!(ordered(api(locker.clone(), &CALLS)).await.0, 201);

    // Not ended.
    drop(begun(locker.token("running/long").expect_within(DAY)).await);
    drop(begun(locker.token("running/fingerprint").expect_within(DAY).fingerprint(&7)).await);
    drop(begun(locker.token("running/overdue").expect_within(MINUTE)).await);
    let extended = begun(locker.token("running/extended").expect_within(MINUTE)).await;
    drop(extended.extend(DAY).await.unwrap());
    let unlisted = locker.token("running/unlisted").expect_within(MINUTE).take_over_after(Duration::ZERO);
    drop(begun(unlisted.unlisted()).await);
    in_doubt(&locker, "doubt/outer").await;
    let within = Work::Token("doubt/outer".to_owned());
    begun(locker.token("doubt/inner").within(within)).await.leave_in_doubt("no reply").await;
    let taken = || locker.token("running/taken").expect_within(MINUTE).recognised_for(30 * DAY);
    drop(begun(taken()).await);
    stage.advance(HOUR);
    drop(begun(taken().expect_within(DAY).take_over_after(Duration::ZERO)).await);
    let restored = stage.restored();
    assert!(matches!(restored.token("held/restored").begin().await.unwrap(), Begun::Restored(_)));

    // Changed by an operator, each act in its own second.
    let later = || stage.advance(Duration::from_secs(1));
    let record = held(&locker, "operator/closed").await;
    later();
    done(locker.close(&record, &ada()).await);
    let record = in_doubt(&locker, "operator/released").await;
    later();
    done(locker.release(&record, &ada()).await);
    let record = in_doubt(&locker, "operator/new-key").await;
    later();
    done(locker.release_with_new_key(&record, &ada()).await);
    for key in ["operator/resolved", "operator/corrected"] {
        let record = in_doubt(&locker, key).await;
        later();
        done(locker.resolve(&record, &json!(7), &ada()).await);
    }
    later();
    let record = record_of(&locker, "operator/corrected").await;
    done(locker.correct(&record, &json!(noise(LARGE)), &ada()).await);
    begun(locker.token("operator/redacted")).await.complete("4111-1111").await.unwrap();
    begun(locker.token("operator/redacted-failure")).await.fail("4111-1111").await.unwrap();
    for key in ["operator/redacted", "operator/redacted-failure"] {
        later();
        done(locker.redact(&record_of(&locker, key).await, &ada()).await);
    }
}

/// Each token, its state, and what a begin of today's code returns.
const TOKENS: [(&str, TokenState, &str); 29] = [
    ("@alice/POST/orders/k1", TokenState::Completed, "completed: a response"),
    ("done/compressed", TokenState::Completed, "completed: 3,000 times a"),
    ("done/day", TokenState::Completed, "completed: 8"),
    ("done/fingerprint", TokenState::Completed, "completed: 10"),
    ("done/forever", TokenState::Completed, "completed: 7"),
    ("done/form", TokenState::Completed, "completed: 9"),
    ("done/keyed", TokenState::Completed, "completed: 11"),
    ("done/large", TokenState::Completed, "completed: the large text"),
    ("done/small", TokenState::Completed, "completed: \"small\""),
    ("doubt/inner", TokenState::InProgress, "taken over under doubt/inner"),
    ("doubt/outer", TokenState::InProgress, "in progress"),
    ("failed/large", TokenState::Failed, "failed: the large text"),
    ("failed/small", TokenState::Failed, "failed: \"declined\""),
    ("held/large", TokenState::Held, "held: the large text"),
    ("held/restored", TokenState::Held, "restored"),
    ("held/small", TokenState::Held, "held: \"the card is unknown\""),
    ("operator/closed", TokenState::Failed, "failed: \"the card is unknown\""),
    ("operator/corrected", TokenState::Completed, "completed: the large text"),
    ("operator/new-key", TokenState::Released, "acquired under operator/new-key ~v2"),
    ("operator/redacted", TokenState::Completed, "completed: erased"),
    ("operator/redacted-failure", TokenState::Failed, "failed: erased"),
    ("operator/released", TokenState::Released, "acquired under operator/released"),
    ("operator/resolved", TokenState::Completed, "completed: 7"),
    ("running/extended", TokenState::InProgress, "in progress"),
    ("running/fingerprint", TokenState::InProgress, "in progress"),
    ("running/long", TokenState::InProgress, "in progress"),
    ("running/overdue", TokenState::InProgress, "taken over under running/overdue"),
    ("running/taken", TokenState::InProgress, "in progress"),
    ("running/unlisted", TokenState::InProgress, "taken over under running/unlisted"),
];

/// A result in one line.
fn shown(record: &Record, json: &str) -> String {
    let is = |text: String| *json == *format!("\"{text}\"");
    match json {
        _ if record.is_redacted() => "erased",
        _ if record.form() == Some(&Form::HTTP) => "a response",
        _ if is(noise(LARGE)) => "the large text",
        _ if is("a".repeat(3_000)) => "3,000 times a",
        json => json,
    }
    .to_owned()
}

/// What a begin returns, and then a begin that takes over overdue work.
async fn begin(locker: &Locker, key: &str) -> String {
    let refused = match locker.token(key).begin().await.unwrap() {
        Begun::Acquired(lock) => return format!("acquired under {}", lock.attempt().idempotency_key()),
        Begun::Completed(replay) => format!("completed: {}", shown(replay.record(), replay.json())),
        Begun::Failed(failure) => format!("failed: {}", shown(failure.record(), failure.json())),
        Begun::Held(failure) => format!("held: {}", shown(failure.record(), failure.json())),
        Begun::InProgress(_) => "in progress".to_owned(),
        Begun::Restored(_) => "restored".to_owned(),
        other => panic!("{key}: {other:?}"),
    };
    match locker.token(key).take_over_after(Duration::ZERO).begin().await.unwrap() {
        Begun::Acquired(lock) => {
            assert_eq!(refused, "in progress", "{key}");
            format!("taken over under {}", lock.attempt().idempotency_key())
        }
        _ => refused,
    }
}

/// The tokens of a folder, without answers, audit records and last runs.
fn tokens_of(tables: &Tables) -> BTreeSet<&str> {
    let keys = tables.tokens.iter().map(|item| text(item, "lockToken"));
    keys.filter(|key| !key.contains(' ')).collect()
}

#[tokio::test]
async fn each_token_is_replayed_held_refused_or_taken_over() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        let locker = stage.locker();
        let mut tokens = tokens_of(&folder.tables);
        for (key, state, expected) in TOKENS {
            // A later version may have added the row.
            if !tokens.remove(key) {
                assert!(!folder.is_present(), "{key} is not in the folder");
                continue;
            }
            let at = format!("{key} of {}", folder.version);
            assert_eq!(record_of(&locker, key).await.state(), state, "{at}");
            assert_eq!(begin(&locker, key).await, expected, "{at}");
        }
        assert!(tokens.is_empty(), "{}: {tokens:?} are in no table", folder.version);
    }
}

#[tokio::test]
async fn fingerprints_forms_and_times_are_read() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        let keyed = stage.locker_with(|locker| locker.with_fingerprint_keys([secret()]));
        for key in ["done/fingerprint", "done/keyed", "running/fingerprint"] {
            for (request, is_other) in [(7, false), (8, true)] {
                let begun = keyed.token(key).fingerprint(&request).begin().await.unwrap();
                assert_eq!(matches!(begun, Begun::Mismatch(_)), is_other, "{key}: {begun:?}");
            }
        }
        let locker = stage.locker();
        let record = async |key: &str| record_of(&locker, key).await;
        let form = record("done/form").await.form().cloned();
        assert_eq!(form, Some(Form::of::<u32>()));
        assert_eq!(record("@alice/POST/orders/k1").await.form(), Some(&Form::HTTP));
        let kept = async |key: &str| {
            let record = record(key).await;
            record.expires().map(|expires| (expires - record.actual_completion().unwrap()).num_days())
        };
        assert_eq!(kept("done/small").await, Some(30));
        assert_eq!(kept("done/day").await, Some(1));
        assert_eq!(kept("done/forever").await, None);
        let inner = record("doubt/inner").await;
        assert_eq!(inner.within(), Some(&Work::Token("doubt/outer".to_owned())));
        assert_eq!((inner.is_in_doubt(), inner.cause()), (true, Some("no reply")));
        assert!(record("held/restored").await.is_held_by_restore());
        assert!(record("running/taken").await.taken_over_from().is_some());
        assert!(!record("running/unlisted").await.is_listed());
        let overdue = record("running/overdue").await;
        assert!(overdue.is_overdue(stage.now()) && overdue.is_listed());
        // The result expires at its time by the clock of the reader.
        stage.advance(DAY);
        assert!(matches!(locker.token("done/day").begin().await.unwrap(), Begun::Acquired(_)));
        assert!(matches!(locker.token("done/small").begin().await.unwrap(), Begun::Completed(_)));
    }
}

#[tokio::test]
async fn stored_response_is_sent_again_without_its_handler() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    for folder in folders().await {
        let stage = folder.tables.load().await;
        let expected = (201, "/orders/7".to_owned(), "tea".to_owned(), true);
        assert_eq!(ordered(api(stage.locker(), &CALLS)).await, expected, "{}", folder.version);
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 0);
}

/// The resolution, the token, and the result that the operator gave or that was there before.
const ACTS: [(Resolution, &str, Option<&str>); 8] = [
    (Resolution::Closed, "operator/closed", Some("\"the card is unknown\"")),
    (Resolution::Released, "operator/released", None),
    (Resolution::Released, "operator/new-key", None),
    (Resolution::Resolved, "operator/resolved", Some("7")),
    (Resolution::Resolved, "operator/corrected", Some("7")),
    (Resolution::Corrected, "operator/corrected", Some("the large text")),
    (Resolution::Redacted, "operator/redacted", None),
    (Resolution::Redacted, "operator/redacted-failure", None),
];

#[tokio::test]
async fn acts_of_operators_are_listed_with_their_results() {
    for folder in folders().await {
        let stage = folder.tables.load().await;
        let locker = stage.locker();
        let page = locker.audit(stage.now() - chrono::TimeDelta::days(1)).fetch().await.unwrap();
        assert!(page.is_complete());
        let mut found = Vec::new();
        for act in page.items {
            assert_eq!((act.by.as_deref(), act.reason.is_some()), (Some("ada"), true), "{act:?}");
            let given = locker.given(&act).await.unwrap();
            let is_large = given.as_ref() == Some(&json!(noise(LARGE)).to_string());
            let given = if is_large { Some("the large text".to_owned()) } else { given };
            found.push((act.resolution.unwrap(), act.key, given));
        }
        let expected = ACTS.map(|(act, key, given)| (act, key.to_owned(), given.map(str::to_owned)));
        folder.contains(&found, &expected);
    }
}
