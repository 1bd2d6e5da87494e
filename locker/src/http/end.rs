//! The end of a lock, by what the handler returned.

use bytes::Bytes;
use http::{Response, StatusCode, response};

use super::body::{Body, Content, read};
use super::disposition::{Decided, Disposition, Ending, Returned};
use super::layer::IdempotencyLayer;
use super::problem::Problem;
use super::stored::StoredResponse;
use crate::error::{BoxError, Error};
use crate::token::{EndError, Lock};

/// A response, and what it means for the token.
pub(super) struct Worked<Res> {
    pub(super) parts: response::Parts,
    pub(super) decided: Decided,
    pub(super) content: Content<Res>,
}

impl IdempotencyLayer {
    pub(super) fn decided(&self, returned: Returned<'_>, unrouted: bool) -> Decided {
        let said = returned.ok().and_then(|parts| parts.extensions.get::<Disposition>().copied());
        said.or_else(|| self.rule.as_ref().and_then(|rule| rule(returned)))
            .map_or_else(|| Decided::default(self.settings.class(returned, unrouted)), Decided::said)
    }

    fn ending(&self, lock: &Lock, decided: Decided, status: Option<StatusCode>) -> Ending {
        self.settings.ending(decided, status, lock.predecessor().is_some())
    }

    /// Classify a response, and read its body if it may be stored.
    pub(super) async fn worked<Res>(&self, response: Response<Res>, unrouted: bool) -> Worked<Res>
    where
        Res: http_body::Body<Data = Bytes>,
        Res::Error: Into<BoxError>,
    {
        let (parts, body) = response.into_parts();
        // A fallback handler of the application may have acted; the one of axum answers with an
        // empty body.
        let decided = self.decided(Ok(&parts), unrouted && body.is_end_stream());
        let content = match decided.disposition {
            Disposition::Store | Disposition::Hold => read(body, self.settings.max_response_bytes).await,
            Disposition::Release | Disposition::InDoubt => Content::Unread(Body::all(body)),
        };
        Worked { parts, decided, content }
    }

    /// End the lock, and pass the response on: the work is done, whether or not its outcome can be
    /// stored.
    pub(super) async fn end<Res>(
        &self,
        lock: Lock,
        parts: response::Parts,
        decided: Decided,
        content: Content<Res>,
    ) -> Response<Body<Res>> {
        let status = parts.status;
        let ending = self.ending(&lock, decided, Some(status));
        match content {
            Content::All(bytes) => {
                match ending {
                    Ending::Store | Ending::Hold => {
                        self.store(lock, decided, ending, &parts, &bytes).await;
                    }
                    ending => self.end_unstored(lock, ending, answered(status)).await,
                }
                Response::from_parts(parts, Body::read(bytes))
            }
            Content::TooLarge(body) => {
                let limit = self.settings.max_response_bytes;
                self.too_large(lock, decided, status, format!("the limit is {limit} bytes")).await;
                Response::from_parts(parts, body)
            }
            Content::Broken(error) => {
                let ending = self.ending(&lock, decided.becomes(Disposition::InDoubt), None);
                let cause = format!("the body of the response broke off: {error}");
                self.end_unstored(lock, ending, cause).await;
                let resumable = self.settings.resumable.is_some();
                let problem = Problem::InDoubt { resumable, listed: ending == Ending::InDoubt };
                problem.response().map(Body::read)
            }
            Content::Unread(body) => {
                self.end_unstored(lock, ending, answered(status)).await;
                Response::from_parts(parts, body)
            }
        }
    }

    /// End the lock of a handler whose service returned an error.
    pub(super) async fn end_without_response(&self, lock: Lock, decided: Decided, error: String) {
        let decided = match decided.disposition {
            Disposition::Release => decided,
            _ => decided.becomes(Disposition::InDoubt),
        };
        let ending = self.ending(&lock, decided, None);
        self.end_unstored(lock, ending, format!("the service returned an error: {error}")).await;
    }

    /// End the lock of a handler that did not come to its end: it is unknown how far it came.
    pub(super) async fn cut_short(&self, lock: Lock, cause: String) {
        let ending = self.ending(&lock, Decided::default(Disposition::InDoubt), None);
        self.end_unstored(lock, ending, cause).await;
    }

    /// End the lock without a response.
    async fn end_unstored(&self, lock: Lock, ending: Ending, cause: String) {
        match ending {
            Ending::Release => self.release(lock).await,
            Ending::GiveBack => lock.give_back(cause).await,
            Ending::SetAside => {
                let grace = self.settings.resumable.map(|resumable| resumable.grace);
                lock.set_aside(cause, grace.unwrap_or_default()).await;
            }
            Ending::InDoubt | Ending::Store | Ending::Hold => lock.leave_in_doubt(cause).await,
        }
    }

    async fn store(
        &self,
        lock: Lock,
        decided: Decided,
        ending: Ending,
        parts: &response::Parts,
        body: &Bytes,
    ) {
        let attempt = lock.attempt();
        let stored = StoredResponse::of(parts, body, &self.settings);
        let ended = match ending {
            Ending::Hold => lock.hold(&stored).await,
            _ => lock.complete(&stored).await,
        };
        let Err(end) = ended else { return };
        if !matches!(end.error(), Error::Answer(_)) {
            self.locker.session().unrecorded(&attempt, end);
            return;
        }
        match end.into_parts() {
            (error, Some(lock)) => {
                self.too_large(lock, decided, parts.status, error.to_string()).await;
            }
            (error, None) => {
                self.locker.session().unrecorded(&attempt, EndError::lost(error));
            }
        }
    }

    /// The request was processed, but its response cannot be stored: hold the token, with a problem
    /// that says so. If a repeat is safe and nothing else was said, the next request gets the
    /// response from the handler instead.
    async fn too_large(&self, lock: Lock, decided: Decided, status: StatusCode, cause: String) {
        let attempt = lock.attempt();
        tracing::error!(
            lock.token = self.locker.session().shown(attempt.key().as_str()),
            http.status = status.as_u16(),
            cause,
            "a response is too large to be stored"
        );
        let ending = self.ending(&lock, decided.becomes(Disposition::Hold), Some(status));
        if ending != Ending::Hold {
            return self.end_unstored(lock, ending, format!("the response is too large: {cause}")).await;
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

fn answered(status: StatusCode) -> String {
    format!("the handler answered {status}")
}
