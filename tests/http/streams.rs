//! Responses that are streams: passed on while the handler sends them, and not kept.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use locker::http::{Deadline, Disposition, HttpSettings};
use locker::{Clock as _, TokenState};
use locker_tests::{Bench, Provider, record_of};
use tokio::sync::mpsc;

use super::doors::{Door, doors, received};
use super::{EXPECTED, Log, layer, listed, problem};

/// What a handler does next.
enum Next {
    Data(&'static str),
    Breaks,
    Panics,
}

/// A body whose frames the test sends, with the length that it declares.
struct Sent(mpsc::UnboundedReceiver<Next>, Option<u64>);

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.0.poll_recv(context).map(|next| match next? {
            Next::Data(text) => Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))),
            Next::Breaks => Some(Err("the model is gone")),
            Next::Panics => panic!("no such model"),
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.1.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// A handler that charges and then streams what the test sends.
struct Rig {
    bench: Bench,
    provider: Provider,
    /// Of the last handler that ran.
    handler: Arc<Mutex<Option<mpsc::UnboundedSender<Next>>>>,
    doors: [Door; 3],
}

/// The head of a response.
#[derive(Clone, Copy)]
struct Head {
    status: u16,
    of: &'static str,
    says: Option<Disposition>,
    /// The length that the body declares.
    bytes: Option<u64>,
    /// The length in the header.
    length: Option<u64>,
}

const EVENTS: Head = Head { status: 200, of: "text/event-stream", says: None, bytes: None, length: None };

impl Rig {
    async fn with(head: Head, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let bench = Bench::new().await;
        let provider = Provider::default();
        let handler = Arc::<Mutex<Option<mpsc::UnboundedSender<Next>>>>::default();
        let layer = layer(bench.machine().0, |settings| {
            settings.expect_within = EXPECTED;
            change(settings);
        });
        let (books, last) = (provider.clone(), handler.clone());
        let doors = doors(&layer, move |request: Request<Bytes>| {
            books.charge(request.uri().path());
            let (sender, frames) = mpsc::unbounded_channel();
            *last.lock().expect("the last handler") = Some(sender);
            let mut response = Response::new(Body::new(Sent(frames, head.bytes)));
            *response.status_mut() = StatusCode::from_u16(head.status).expect("a status");
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(head.of));
            if let Some(bytes) = head.length {
                response.headers_mut().insert(header::CONTENT_LENGTH, bytes.into());
            }
            if let Some(says) = head.says {
                response.extensions_mut().insert(says);
            }
            std::future::ready(response)
        });
        Self { bench, provider, handler, doors }
    }

    fn sends(&self, next: Next) {
        let handler = self.handler.lock().expect("the handler");
        // A dropped stream takes nothing any more.
        let _ = handler.as_ref().expect("a handler").send(next);
    }

    fn ends(&self) {
        self.handler.lock().expect("the handler").take();
    }

    async fn state(&self, door: &Door) -> (TokenState, bool) {
        let record = record_of(&self.bench.machine().0, &door.token()).await;
        (record.state(), record.is_in_doubt())
    }

    /// Wait for the end of a token that no caller waits for.
    async fn ended(&self, door: &Door, pause: Duration) -> (TokenState, bool) {
        loop {
            match self.state(door).await {
                (TokenState::InProgress, false) => tokio::time::sleep(pause).await,
                ended => return ended,
            }
        }
    }
}

async fn frame(body: &mut Body) -> Option<Bytes> {
    let frame = body.frame().await?;
    Some(frame.expect("a frame").into_data().expect("data"))
}

#[tokio::test]
async fn stream_reaches_its_caller_at_once_and_completes_its_token() {
    let rig = Rig::with(EVENTS, |_| {}).await;
    for door in &rig.doors {
        let response = door.ask(door.posted(), "").await;
        let (parts, mut body) = response.into_parts();
        assert_eq!(
            (parts.status.as_u16(), parts.headers[header::CONTENT_TYPE].as_bytes()),
            (200, &b"text/event-stream"[..])
        );
        for event in ["data: 1\n\n", "data: 2\n\n"] {
            rig.sends(Next::Data(event));
            assert_eq!(frame(&mut body).await.expect("an event"), event, "{}", door.name);
        }
        let meanwhile = door.send(door.posted(), "").await;
        assert_eq!(meanwhile.problem(), problem(409, "in-progress", true), "{}", door.name);
        rig.ends();
        assert!(frame(&mut body).await.is_none());
        // The caller has the end of the stream: the token has ended, too.
        assert_eq!(rig.state(door).await, (TokenState::Completed, false), "{}", door.name);
        let later = door.send(door.posted(), "").await;
        assert_eq!(later.problem(), problem(409, "not-kept", false), "{}", door.name);
        assert!(
            later.text().contains("processed") && later.text().contains("status 200"),
            "{}",
            later.text()
        );
        assert!(later.is_replay() && listed(&rig.bench.machine().0).await.is_empty(), "{}", door.name);
        assert_eq!(rig.provider.charges(&format!("/{}", door.name)), 1);
    }
}

#[tokio::test]
async fn handler_or_setting_names_other_streams() {
    let said = Head { status: 201, of: "text/plain", says: Some(Disposition::Stream), ..EVENTS };
    let listed = Head { status: 201, of: "application/x-ndjson; charset=utf-8", ..EVENTS };
    let grpc = Head { status: 201, of: "application/grpc+proto", ..EVENTS };
    for head in [said, listed, grpc] {
        let rig = Rig::with(head, |settings| settings.streams.push("application/x-ndjson".to_owned())).await;
        for door in &rig.doors {
            let mut body = door.ask(door.posted(), "").await.into_body();
            rig.sends(Next::Data("first"));
            assert_eq!(frame(&mut body).await.expect("a frame"), "first", "{}", door.name);
            rig.ends();
            assert!(frame(&mut body).await.is_none());
            let later = door.send(door.posted(), "").await;
            assert_eq!(later.problem(), problem(409, "not-kept", false), "{} {}", door.name, head.of);
        }
    }
}

#[tokio::test]
async fn stream_that_fails_or_panics_is_in_doubt() {
    let rig = Rig::with(EVENTS, |_| {}).await;
    for (door, breaks) in rig.doors.iter().zip([true, false, true]) {
        let (log, _guard) = Log::listen();
        let mut body = door.ask(door.posted(), "").await.into_body();
        rig.sends(Next::Data("part"));
        assert_eq!(frame(&mut body).await.expect("a frame"), "part");
        rig.sends(if breaks { Next::Breaks } else { Next::Panics });
        assert!(body.frame().await.expect("an end").is_err(), "{}: the caller gets an error", door.name);
        assert_eq!(rig.state(door).await, (TokenState::InProgress, true), "{}", door.name);
        let cause = if breaks { "cut off: the model is gone" } else { "no such model" };
        assert!(log.text().contains(cause), "{}", log.text());
        assert!(door.send(door.posted(), "").await.is_open(), "{}", door.name);
        assert_eq!(rig.provider.charges(&format!("/{}", door.name)), 1);
    }
}

#[tokio::test]
async fn stream_of_an_internal_error_is_held() {
    let rig = Rig::with(Head { status: 500, ..EVENTS }, |_| {}).await;
    for door in &rig.doors {
        let response = door.ask(door.posted(), "").await;
        rig.ends();
        assert_eq!(received(response).await.status, 500);
        assert_eq!(rig.state(door).await, (TokenState::Held, false), "{}", door.name);
        let later = door.send(door.posted(), "").await;
        assert_eq!(later.problem(), problem(409, "not-kept", false), "{}", door.name);
    }
}

#[tokio::test]
async fn work_of_a_stream_continues_if_its_caller_disconnects() {
    let rig = Rig::with(EVENTS, |_| {}).await;
    for door in &rig.doors {
        drop(door.ask(door.posted(), "").await);
        for _ in 0..3 {
            rig.sends(Next::Data("more"));
        }
        rig.ends();
        assert_eq!(
            rig.ended(door, Duration::from_millis(5)).await,
            (TokenState::Completed, false),
            "{}",
            door.name
        );
        assert_eq!(door.send(door.posted(), "").await.problem(), problem(409, "not-kept", false));
    }
}

#[tokio::test(start_paused = true)]
async fn endless_stream_is_in_doubt_after_its_caller_disconnects() {
    let rig = Rig::with(EVENTS, |_| {}).await;
    for door in &rig.doors {
        drop(door.ask(door.posted(), "").await);
        assert_eq!(rig.ended(door, EXPECTED / 4).await, (TokenState::InProgress, true), "{}", door.name);
        assert!(rig.handler.lock().expect("the handler").as_ref().expect("a handler").is_closed());
    }
}

#[tokio::test(start_paused = true)]
async fn endless_stream_is_in_doubt_at_the_deadline() {
    let rig = Rig::with(EVENTS, |_| {}).await;
    for door in &rig.doors {
        let deadline = Deadline(rig.bench.clock.now() + Duration::from_secs(8));
        let began = tokio::time::Instant::now();
        let mut body = door.ask(door.posted().extension(deadline), "").await.into_body();
        assert!(body.frame().await.expect("an end").is_err(), "{}", door.name);
        assert!(began.elapsed() <= Duration::from_secs(8), "{}", door.name);
        assert_eq!(rig.state(door).await, (TokenState::InProgress, true), "{}", door.name);
    }
}

#[tokio::test(start_paused = true)]
async fn token_of_an_open_stream_is_extended() {
    let rig = Rig::with(EVENTS, |_| {}).await;
    for door in &rig.doors {
        let mut body = door.ask(door.posted(), "").await.into_body();
        for _ in 0..4 {
            rig.bench.clock.advance(EXPECTED / 2);
            tokio::time::sleep(EXPECTED / 2).await;
            rig.sends(Next::Data("tick"));
            assert_eq!(frame(&mut body).await.expect("a frame"), "tick");
            let later = door.send(door.posted(), "").await;
            assert_eq!(later.problem(), problem(409, "in-progress", true), "{}", door.name);
        }
        rig.ends();
        assert!(frame(&mut body).await.is_none());
        assert_eq!(rig.state(door).await, (TokenState::Completed, false), "{}", door.name);
    }
}

/// A response of another type that does not end.
#[tokio::test(start_paused = true)]
async fn body_that_does_not_end_in_time_becomes_a_stream() {
    let rig = Rig::with(Head { of: "application/json", ..EVENTS }, |_| {}).await;
    for door in &rig.doors {
        let began = tokio::time::Instant::now();
        let ask = door.ask(door.posted(), "");
        let sends = async {
            while rig.provider.charges(&format!("/{}", door.name)) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            rig.sends(Next::Data("[1,"));
        };
        let (response, ()) = tokio::join!(ask, sends);
        let waited = began.elapsed();
        assert!(waited >= EXPECTED && waited < EXPECTED * 2, "{}: {waited:?}", door.name);
        let mut body = response.into_body();
        assert_eq!(frame(&mut body).await.expect("what was read"), "[1,", "{}", door.name);
        rig.sends(Next::Data("2]"));
        assert_eq!(frame(&mut body).await.expect("the rest"), "2]", "{}", door.name);
        rig.ends();
        assert!(frame(&mut body).await.is_none());
        assert_eq!(door.send(door.posted(), "").await.problem(), problem(409, "not-kept", false));
    }
}

/// A part of the body is beyond the limit, and the handler has not sent the rest.
#[tokio::test]
async fn response_beyond_the_limit_is_held_only_once_it_is_whole() {
    for next in [None, Some(true), Some(false)] {
        let head = Head { of: "application/json", ..EVENTS };
        let rig = Rig::with(head, |settings| settings.max_response_bytes = 3).await;
        for door in &rig.doors {
            let sends = async {
                while rig.provider.charges(&format!("/{}", door.name)) == 0 {
                    tokio::task::yield_now().await;
                }
                rig.sends(Next::Data("[1,2,"));
            };
            let (response, ()) = tokio::join!(door.ask(door.posted(), ""), sends);
            let mut body = response.into_body();
            assert_eq!(frame(&mut body).await.expect("what was read"), "[1,2,", "{}", door.name);
            assert_eq!(rig.state(door).await, (TokenState::InProgress, false), "{}", door.name);
            let Some(breaks) = next else {
                rig.ends();
                assert!(frame(&mut body).await.is_none());
                assert_eq!(rig.state(door).await, (TokenState::Held, false), "{}", door.name);
                let later = door.send(door.posted(), "").await;
                assert_eq!(later.problem(), problem(409, "response-too-large", false), "{}", door.name);
                continue;
            };
            rig.sends(if breaks { Next::Breaks } else { Next::Panics });
            assert!(body.frame().await.expect("an end").is_err(), "{}: the caller gets an error", door.name);
            assert_eq!(rig.state(door).await, (TokenState::InProgress, true), "{}", door.name);
            assert!(door.send(door.posted(), "").await.is_open(), "{}", door.name);
        }
    }
}

/// A server takes the declared length for the end of the body.
#[tokio::test(start_paused = true)]
async fn response_of_a_declared_length_reaches_its_caller_once_its_token_has_ended() {
    for (head, state) in [
        (Head { of: "application/json", bytes: Some(9), ..EVENTS }, TokenState::Held),
        (Head { bytes: Some(9), ..EVENTS }, TokenState::Completed),
        (Head { length: Some(9), ..EVENTS }, TokenState::Completed),
    ] {
        let rig = Rig::with(head, |settings| settings.max_response_bytes = 8).await;
        for door in &rig.doors {
            let mut body = door.ask(door.posted(), "").await.into_body();
            assert_eq!(body.size_hint().exact(), head.bytes, "{}", door.name);
            rig.sends(Next::Data("12345"));
            assert_eq!(frame(&mut body).await.expect("a part"), "12345", "{}", door.name);
            assert_eq!(body.size_hint().exact(), head.bytes.map(|bytes| bytes - 5), "{}", door.name);
            rig.sends(Next::Data("6789"));
            let early = tokio::time::timeout(EXPECTED, frame(&mut body)).await;
            assert!(early.is_err(), "{}: {early:?}", door.name);
            rig.ends();
            assert_eq!(frame(&mut body).await.expect("the last part"), "6789", "{}", door.name);
            assert_eq!(rig.state(door).await, (state, false), "{}", door.name);
        }
    }
}

/// The token is overdue when the response becomes a stream.
#[tokio::test(start_paused = true)]
async fn stream_that_begins_late_extends_its_token_at_once() {
    let rig = Rig::with(Head { of: "application/json", ..EVENTS }, |_| {}).await;
    for door in &rig.doors {
        let ask = door.ask(door.posted(), "");
        let sends = async {
            while rig.provider.charges(&format!("/{}", door.name)) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            rig.sends(Next::Data("[1,"));
            rig.bench.clock.advance(EXPECTED * 2);
        };
        let (response, ()) = tokio::join!(ask, sends);
        let mut body = response.into_body();
        assert_eq!(frame(&mut body).await.expect("what was read"), "[1,", "{}", door.name);
        tokio::time::sleep(EXPECTED / 10).await;
        let later = door.send(door.posted(), "").await;
        assert_eq!(later.problem(), problem(409, "in-progress", true), "{}", door.name);
        rig.ends();
        assert!(frame(&mut body).await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn body_that_does_not_end_before_the_deadline_is_in_doubt() {
    let rig = Rig::with(Head { of: "application/json", ..EVENTS }, |_| {}).await;
    for door in &rig.doors {
        let deadline = Deadline(rig.bench.clock.now() + Duration::from_secs(8));
        let began = tokio::time::Instant::now();
        let got = door.send(door.posted().extension(deadline), "").await;
        assert_eq!(got.problem(), problem(500, "in-doubt", false), "{}", door.name);
        assert!(began.elapsed() <= Duration::from_secs(8), "{}", door.name);
        assert_eq!(rig.state(door).await, (TokenState::InProgress, true), "{}", door.name);
    }
}

/// The layer reads a body for the expected duration at most.
#[tokio::test(start_paused = true)]
async fn response_declared_beyond_the_limit_is_not_read_first() {
    for (bytes, is_read) in [(8, true), (9, false)] {
        let head = Head { of: "application/json", bytes: Some(bytes), ..EVENTS };
        let rig = Rig::with(head, |settings| settings.max_response_bytes = 8).await;
        for door in &rig.doors {
            let began = tokio::time::Instant::now();
            let body = door.ask(door.posted(), "").await.into_body();
            assert_eq!(began.elapsed() >= EXPECTED, is_read, "{} {bytes}", door.name);
            assert_eq!(body.size_hint().exact(), Some(bytes), "{}", door.name);
        }
    }
}
