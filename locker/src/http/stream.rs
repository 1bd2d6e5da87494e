//! A response that is a stream: it is passed on while the handler sends it, and its end ends the
//! token.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::StatusCode;
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use super::body::Body;
use super::disposition::{Decided, Ending};
use super::layer::IdempotencyLayer;
use super::problem::Problem;
use crate::error::BoxError;
use crate::session;
use crate::token::Lock;

type Sender = mpsc::Sender<Result<Frame<Bytes>, BoxError>>;

impl IdempotencyLayer {
    /// Pass a body on while the handler sends it. Its caller gets the end of the body, or the
    /// error, once the token has ended.
    pub(super) fn pass_on(
        &self,
        mut lock: Lock,
        (status, decided, ending): (StatusCode, Decided, Ending),
        body: Body,
        deadline: Option<DateTime<Utc>>,
    ) -> Body {
        let (sender, frames) = mpsc::channel(1);
        let layer = self.clone();
        let within = deadline.map(|deadline| self.locker.session().left_for_work(deadline));
        let relay = relay(body, sender.clone(), within, self.settings.expect_within);
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
                Ok(()) => layer.mark(lock, ending, &Problem::NotKept(status)).await,
                Err(error) => {
                    layer.cut_off(lock, decided, &error).await;
                    // The caller may be gone.
                    let _ = sender.send(Err(error)).await;
                }
            }
        };
        tokio::spawn(ended.in_current_span());
        Body::relayed(frames)
    }
}

/// Send the frames of a body to the caller until the body ends or `within` has passed. If the
/// caller is gone, read the rest of the body for `alone` at most. The work continues like that of a
/// handler, but a stream without a reader may never end.
async fn relay(
    mut body: Body,
    sender: Sender,
    within: Option<Duration>,
    alone: Duration,
) -> Result<(), BoxError> {
    let all = async {
        if has_ended(&mut body, &sender).await? {
            return Ok(());
        }
        let rest = async {
            while let Some(frame) = body.frame().await {
                frame?;
            }
            Ok::<(), BoxError>(())
        };
        let late = || Err("the caller disconnected, and the stream did not end".into());
        timeout(alone, rest).await.unwrap_or_else(|_| late())
    };
    let Some(within) = within else { return all.await };
    timeout(within, all).await.unwrap_or_else(|_| Err("the deadline passed before the stream ended".into()))
}

/// Send frames until the body has ended, or the caller is gone.
async fn has_ended(body: &mut Body, sender: &Sender) -> Result<bool, BoxError> {
    loop {
        let frame = tokio::select! {
            biased;
            () = sender.closed() => return Ok(false),
            frame = body.frame() => frame,
        };
        let Some(frame) = frame else { return Ok(true) };
        if sender.send(Ok(frame?)).await.is_err() {
            return Ok(false);
        }
    }
}
