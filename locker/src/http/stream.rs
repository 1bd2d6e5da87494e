//! Responses that are passed on while the handler sends them: streams, and bodies over the limit.
//! The end of such a response ends its token.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::StatusCode;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use super::body::Body;
use super::disposition::Decided;
use super::end::Unstored;
use super::layer::IdempotencyLayer;
use crate::error::BoxError;
use crate::session;
use crate::token::Lock;

type Sender = mpsc::Sender<Result<Frame<Bytes>, BoxError>>;

impl IdempotencyLayer {
    /// Passes a body on while the handler sends it. Its caller gets the end of the body, or the
    /// error, once the token has ended. `declared` is the length in its header, if it has one.
    pub(super) fn pass_on(
        &self,
        mut lock: Lock,
        (status, decided, why): (StatusCode, Decided, Unstored),
        (body, declared): (Body, Option<u64>),
        deadline: Option<DateTime<Utc>>,
    ) -> Body {
        let (sender, frames) = mpsc::channel(1);
        let size = body.size_hint();
        let declared = declared.or(size.exact());
        let layer = self.clone();
        let within = deadline.map(|deadline| self.locker.session().left_for_work(deadline));
        let relay = relay((body, declared), sender.clone(), within, self.settings.expect_within);
        let relay = session::inside(lock.attempt().request(), relay).in_current_span();
        let (begun_at, began) = (self.locker.session().now(), Instant::now());
        let ended = async move {
            // A separate task, as for the handler: if it panics, this task ends the lock.
            let relayed = tokio::spawn(relay);
            let relayed = tokio::select! {
                biased;
                relayed = relayed => relayed,
                never = lock.stay_ahead(begun_at, began) => match never {},
            };
            match relayed.unwrap_or_else(|error| Err(error.into())) {
                Ok(last) => {
                    layer.passed_on(lock, decided, status, why).await;
                    for frame in last {
                        let _ = sender.send(Ok(frame)).await;
                    }
                }
                Err(error) => {
                    layer.cut_off(lock, decided, &error).await;
                    // The caller may be gone.
                    let _ = sender.send(Err(error)).await;
                }
            }
        };
        tokio::spawn(ended.in_current_span());
        Body::relayed(frames, size)
    }
}

/// Sends the frames of a body to the caller until the body ends or `within` has passed. If the
/// caller is gone, reads the rest of the body for at most `alone`. The work continues like that of
/// a handler, but a stream without a reader may never end.
///
/// Returns the frames from the one that reaches the declared length, which are not sent: a server
/// takes that length for the end.
async fn relay(
    (mut body, declared): (Body, Option<u64>),
    sender: Sender,
    within: Option<Duration>,
    alone: Duration,
) -> Result<Vec<Frame<Bytes>>, BoxError> {
    let all = async {
        if let Some(last) = pass(&mut body, declared, &sender).await? {
            return Ok(last);
        }
        let rest = async {
            while let Some(frame) = body.frame().await {
                frame?;
            }
            Ok(Vec::new())
        };
        let late = || Err("the caller disconnected, and the stream did not end".into());
        timeout(alone, rest).await.unwrap_or_else(|_| late())
    };
    let Some(within) = within else { return all.await };
    timeout(within, all).await.unwrap_or_else(|_| Err("the deadline passed before the stream ended".into()))
}

/// Sends frames until the body has ended, and returns the last ones: see [`relay`]. `None`: the
/// caller is gone.
async fn pass(
    body: &mut Body,
    declared: Option<u64>,
    sender: &Sender,
) -> Result<Option<Vec<Frame<Bytes>>>, BoxError> {
    let (mut passed, mut last) = (0, Vec::new());
    loop {
        let frame = tokio::select! {
            biased;
            () = sender.closed() => return Ok(None),
            frame = body.frame() => frame,
        };
        let Some(frame) = frame else { return Ok(Some(last)) };
        let frame = frame?;
        passed += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
        if declared.is_some_and(|declared| passed >= declared) {
            last.push(frame);
        } else if sender.send(Ok(frame)).await.is_err() {
            return Ok(None);
        }
    }
}
