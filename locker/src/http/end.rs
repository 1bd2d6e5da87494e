//! The end of a lock, by what the handler returned.

use bytes::Bytes;
use http::{Response, StatusCode, response};

use super::body::{Body, Content, read};
use super::disposition::{Disposition, Returned};
use super::layer::IdempotencyLayer;
use super::problem::Problem;
use super::stored::StoredResponse;
use crate::error::{BoxError, Error};
use crate::token::{EndError, Lock};

/// A response, and what it means for the token.
pub(super) struct Worked<Res> {
    pub(super) parts: response::Parts,
    pub(super) disposition: Disposition,
    pub(super) content: Content<Res>,
}

impl IdempotencyLayer {
    pub(super) fn disposition(&self, returned: Returned<'_>, unrouted: bool) -> Disposition {
        let said = returned.ok().and_then(|parts| parts.extensions.get::<Disposition>().copied());
        said.or_else(|| self.rule.as_ref().and_then(|rule| rule(returned)))
            .unwrap_or_else(|| self.settings.class(returned, unrouted))
    }

    /// Classify a response, and read its body if it is to be stored.
    pub(super) async fn worked<Res>(&self, response: Response<Res>, unrouted: bool) -> Worked<Res>
    where
        Res: http_body::Body<Data = Bytes>,
        Res::Error: Into<BoxError>,
    {
        let (parts, body) = response.into_parts();
        // A fallback handler of the application may have acted; the one of axum answers with an empty body.
        let disposition = self.disposition(Ok(&parts), unrouted && body.is_end_stream());
        let content = match disposition {
            Disposition::Store | Disposition::Hold => read(body, self.settings.max_response_bytes).await,
            Disposition::Release | Disposition::InDoubt => Content::Unread(Body::all(body)),
        };
        Worked { parts, disposition, content }
    }

    /// End the lock, and pass the response on: the work is done, whether or not its outcome can be stored.
    pub(super) async fn end<Res>(
        &self,
        lock: Lock,
        parts: response::Parts,
        disposition: Disposition,
        content: Content<Res>,
    ) -> Response<Body<Res>> {
        let status = parts.status;
        match content {
            Content::All(bytes) => {
                self.store(lock, disposition, &parts, &bytes).await;
                Response::from_parts(parts, Body::read(bytes))
            }
            Content::TooLarge(body) => {
                let limit = self.settings.max_response_bytes;
                self.too_large(lock, status, format!("the limit is {limit} bytes")).await;
                Response::from_parts(parts, body)
            }
            Content::Broken(error) => {
                self.cut_short(lock, format!("the body of the response broke off: {error}")).await;
                Problem::InDoubt.response().map(Body::read)
            }
            Content::Unread(body) => {
                match disposition {
                    Disposition::Release => self.release(lock).await,
                    _ => lock.leave_in_doubt(format!("the handler answered {status}")).await,
                }
                Response::from_parts(parts, body)
            }
        }
    }

    /// End the lock of a handler whose service returned an error.
    pub(super) async fn end_without_response(&self, lock: Lock, disposition: Disposition, error: String) {
        match disposition {
            Disposition::Release => self.release(lock).await,
            _ => lock.leave_in_doubt(format!("the service returned an error: {error}")).await,
        }
    }

    /// End the lock of a handler that did not come to its end: it is unknown how far it came.
    pub(super) async fn cut_short(&self, lock: Lock, cause: String) {
        if self.settings.is_recorded_inside() {
            tracing::warn!(cause, "a handler was cut short; its effect has a record of its own");
            self.release(lock).await;
        } else {
            lock.leave_in_doubt(cause).await;
        }
    }

    async fn store(&self, lock: Lock, disposition: Disposition, parts: &response::Parts, body: &Bytes) {
        let attempt = lock.attempt();
        let stored = StoredResponse::of(parts, body, &self.settings);
        let ended = match disposition {
            Disposition::Hold => lock.hold(&stored).await,
            _ => lock.complete(&stored).await,
        };
        let Err(end) = ended else { return };
        if !matches!(end.error(), Error::Answer(_)) {
            self.locker.session().unrecorded(&attempt, end);
            return;
        }
        match end.into_parts() {
            (error, Some(lock)) => self.too_large(lock, parts.status, error.to_string()).await,
            (error, None) => {
                self.locker.session().unrecorded(&attempt, EndError::lost(error));
            }
        }
    }

    /// The request was processed, but its response cannot be stored: hold the token, with a problem that says so.
    async fn too_large(&self, lock: Lock, status: StatusCode, cause: String) {
        let attempt = lock.attempt();
        tracing::error!(
            lock.token = self.locker.session().shown(attempt.key().as_str()),
            http.status = status.as_u16(),
            cause,
            "a response is too large to be stored"
        );
        if self.settings.is_recorded_inside() {
            return self.release(lock).await;
        }
        let marker = StoredResponse::of_problem(&Problem::ResponseTooLarge(status));
        if let Err(end) = lock.hold(&marker).await {
            self.locker.session().unrecorded(&attempt, end);
        }
    }

    async fn release(&self, lock: Lock) {
        let attempt = lock.attempt();
        if let Err(end) = lock.release().await {
            self.locker.session().unrecorded(&attempt, end);
        }
    }
}
