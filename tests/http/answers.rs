//! The responses of a handler that begins a token itself.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use locker::http::Problem;
use locker::{AnswerError, BeginBuilder, Begun, Error, Failure, Form, Locker, RunError};
use locker_tests::{Bench, Fate, MINUTE, SECOND, held_by};
use serde_json::json;

use super::doors::received;
use super::{Got, problem};

async fn got(response: Response<Bytes>) -> Got {
    received(response.map(Body::from)).await
}

/// The response of a begin, or `None` if it acquired the token.
async fn begun(token: BeginBuilder) -> Option<Got> {
    Some(got(token.begin().await.expect("an outcome").response()?).await)
}

#[tokio::test]
async fn begin_that_acquires_has_no_response_and_every_other_has_one() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let token = |key: &str| locker.token(key).expect_within(MINUTE).fingerprint("tea").form(Form::HTTP);
    assert!(begun(token("acquired")).await.is_none());

    bench.clock.advance(7 * SECOND);
    let running = begun(token("acquired")).await.expect("a response");
    assert_eq!(running.problem(), problem(409, "in-progress", true));
    assert_eq!(running.headers["retry-after"], "7");
    bench.clock.advance(MINUTE);
    assert_eq!(begun(token("acquired")).await.expect("a response").problem(), problem(409, "overdue", false));
    let continued = token("acquired").take_over_after(MINUTE);
    assert_eq!(begun(continued).await.expect("a response").problem(), problem(409, "overdue", true));
    let other = begun(token("acquired").fingerprint("milk")).await.expect("a response");
    assert_eq!(other.problem(), problem(422, "key-reused", false));

    let response = json!({"status": 402, "headers": [["etag", "7"]], "body": "declined"});
    held_by(token("completed")).await.complete(&response).await.expect("completed");
    held_by(token("failed")).await.fail(&response).await.expect("failed");
    held_by(token("held")).await.hold(&response).await.expect("held");
    for key in ["completed", "failed", "held"] {
        let replay = begun(token(key)).await.expect("a response");
        assert_eq!((replay.status, replay.text(), replay.is_replay()), (402, "declined", true), "{key}");
        assert_eq!(replay.headers["etag"], "7", "{key}");
    }
    // An answer of another type that has a status, too.
    let typed = |key: &str| locker.token(key).form(Form::of::<Vec<u8>>());
    held_by(typed("typed")).await.complete(&response).await.expect("completed");
    assert_eq!(
        begun(typed("typed")).await.expect("a response").problem(),
        problem(409, "no-response", false)
    );
    held_by(typed("typed-held")).await.hold(&7).await.expect("held");
    assert_eq!(begun(typed("typed-held")).await.expect("a response").problem(), problem(409, "held", false));
}

#[tokio::test]
async fn response_has_the_body_of_each_service() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let token = || locker.token("order/7").form(Form::HTTP);
    let body = json!({"status": 200, "body": "tea"});
    held_by(token()).await.complete(&body).await.expect("completed");
    let begun: Begun = token().begin().await.expect("an outcome");
    let of_lambda = begun.response::<lambda_http::Body>().expect("a response");
    assert_eq!(of_lambda.body(), &lambda_http::Body::Text("tea".to_owned()));
    let of_axum = begun.response::<Body>().expect("a response");
    assert_eq!(received(of_axum).await.text(), "tea");
    let problem = Problem::Unavailable.response::<lambda_http::Body>();
    assert!(matches!(problem.body(), lambda_http::Body::Text(text) if text.contains("unavailable")));
}

type Failed = RunError<Failure>;

async fn run(token: BeginBuilder, failure: &Failure) -> Failed {
    token.run(async |_| Err::<(), _>(failure.clone())).await.expect_err("a failure")
}

async fn of(error: &Failed) -> (u16, String, bool) {
    got(error.response()).await.problem()
}

#[tokio::test]
async fn failure_of_the_work_is_reported_by_its_class() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let failure = || "the card 4711".to_owned();
    for (failure, first, again) in [
        (Failure::transient(failure()), problem(503, "not-now", true), problem(503, "not-now", true)),
        (Failure::permanent(failure()), problem(409, "failed", false), problem(409, "failed", false)),
        (Failure::needs_operator(failure()), problem(409, "held", false), problem(409, "held", false)),
        (Failure::in_doubt(failure()), problem(500, "in-doubt", false), problem(409, "overdue", false)),
    ] {
        let token = || locker.token(first.1.as_str());
        let error = run(token(), &failure).await;
        let response = got(error.response()).await;
        assert_eq!(response.problem(), first);
        assert!(
            !response.text().contains("the card 4711"),
            "the failure may be private: {}",
            response.text()
        );
        assert_eq!(response.headers.contains_key("retry-after"), first.2);
        bench.clock.advance(SECOND);
        assert_eq!(of(&run(token(), &failure).await).await, again);
    }
}

#[tokio::test(start_paused = true)]
async fn failure_that_could_not_be_recorded_claims_no_record() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine_with(|settings| settings.give_up_after = 2 * SECOND);
    for (failure, expected) in [
        (Failure::transient("busy".to_owned()), problem(503, "not-now", false)),
        (Failure::permanent("declined".to_owned()), problem(409, "failed", false)),
        (Failure::needs_operator("odd".to_owned()), problem(500, "in-doubt", false)),
    ] {
        wire.next(std::iter::once(Fate::Ok).chain(std::iter::repeat_n(Fate::Throttled, 10_000)));
        let error = run(locker.token(expected.1.as_str()), &failure).await;
        wire.next([]);
        let response = got(error.response()).await;
        assert_eq!(response.problem(), expected);
        assert!(!response.text().contains("listed"), "{}", response.text());
    }
}

async fn in_progress(locker: &Locker, due: Duration) -> Failed {
    let token = || locker.token("order/7").expect_within(due).fingerprint("tea");
    drop(token().begin().await);
    run(token(), &Failure::permanent(String::new())).await
}

#[tokio::test]
async fn work_that_did_not_run_is_reported_by_its_cause() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    assert_eq!(of(&in_progress(&locker, MINUTE).await).await, problem(409, "in-progress", true));
    let other = run(locker.token("order/7").fingerprint("milk"), &Failure::permanent(String::new())).await;
    assert_eq!(of(&other).await, problem(422, "key-reused", false));
    bench.clock.advance(2 * MINUTE);
    assert_eq!(of(&in_progress(&locker, MINUTE).await).await, problem(409, "overdue", false));

    let verb = "begin";
    let key = locker::Key::new("order", "").expect_err("an empty id");
    for (error, expected) in [
        (Error::from(key), problem(400, "key-invalid", false)),
        (
            Error::Denied { verb, code: None, advice: "a".to_owned(), source: "b".into() },
            problem(500, "internal", false),
        ),
        (Error::Expired { verb }, problem(503, "unavailable", true)),
        (Error::Unavailable { verb, tries: 1, source: "busy".into() }, problem(503, "unavailable", true)),
        (Error::Contended { verb, tries: 4 }, problem(503, "unavailable", true)),
        (Error::Gone { verb }, problem(503, "unavailable", true)),
        (Error::Deleted { verb }, problem(503, "unknown", true)),
        (Error::NotReady { table: "locks".to_owned() }, problem(500, "internal", false)),
        (Error::Unknown { verb, tries: 1, source: "no reply".into() }, problem(503, "not-run", false)),
        (Error::LostOwnership { verb, record: None }, problem(500, "internal", false)),
        (Error::Record { reason: "odd".to_owned() }, problem(500, "record-unreadable", false)),
        (Error::Fingerprint { reason: "odd".to_owned() }, problem(500, "fingerprint-unreadable", false)),
        (Error::Answer(AnswerError::Missing), problem(500, "answer-unreadable", false)),
        (Error::Form { reason: "odd".to_owned() }, problem(500, "internal", false)),
        (Error::Probe { source: "no".into() }, problem(503, "unavailable", true)),
    ] {
        let text = error.to_string();
        assert_eq!(of(&RunError::Locker(error)).await, expected, "{text}");
    }
    // The start of a workflow may go on without its caller.
    let start = Error::Unknown { verb: "start", tries: 1, source: "no reply".into() };
    let start = Problem::from(&start).response::<Bytes>();
    assert_eq!(got(start).await.problem(), problem(503, "unknown", true));
}
