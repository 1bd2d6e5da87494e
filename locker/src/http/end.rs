//! The end of a lock, by the response of the handler.

use chrono::{DateTime, Utc};
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode, response};

use super::admit::reported;
use super::body::{Body, Read, Whole, read};
use super::disposition::{Decided, Disposition, Ending, Returned};
use super::layer::IdempotencyLayer;
use super::problem::Problem;
use super::stored::StoredResponse;
use crate::error::{BoxError, Error};
use crate::token::{EndError, Lock};

/// A response, and how it ends the token.
pub(super) struct Worked {
    pub(super) parts: response::Parts,
    pub(super) decided: Decided,
    pub(super) content: Content,
}

/// Why a response that is passed on is not stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unstored {
    Stream,
    /// It has more bytes than may be read into memory.
    TooLarge,
}

/// The result of reading the body of a response.
pub(super) enum Content {
    /// It was not read, because nothing of it is stored.
    Unread(Body),
    Whole(Whole),
    /// It is passed on while the handler sends it, and is not stored.
    Stream(Body, Unstored),
    Broken(BoxError),
}

impl IdempotencyLayer {
    pub(super) fn decided(&self, returned: Returned<'_>, unrouted: bool) -> Decided {
        let said = returned.ok().and_then(|parts| parts.extensions.get::<Disposition>().copied());
        said.or_else(|| self.rule.as_ref().and_then(|rule| rule(returned)))
            .map_or_else(|| self.settings.class(returned, unrouted), Decided::said)
    }

    pub(super) fn ending(&self, lock: &Lock, decided: Decided, status: Option<StatusCode>) -> Ending {
        self.settings.ending(decided, status, lock.predecessor().is_some())
    }

    /// Classifies a response, and reads its body if it may be stored.
    pub(super) async fn worked<Res>(
        &self,
        response: Response<Res>,
        unrouted: bool,
        deadline: Option<DateTime<Utc>>,
    ) -> Worked
    where
        Res: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        Res::Error: Into<BoxError>,
    {
        let (parts, body) = response.into_parts();
        // A fallback handler of the application may have acted; the one of axum answers with an
        // empty body.
        let decided = self.decided(Ok(&parts), unrouted && body.is_end_stream());
        let content = match decided.disposition {
            Disposition::Release | Disposition::InDoubt => Content::Unread(Body::unread(body)),
            Disposition::Stream => Content::Stream(Body::unread(body), Unstored::Stream),
            _ if self.settings.is_stream(&parts.headers) => {
                Content::Stream(Body::unread(body), Unstored::Stream)
            }
            Disposition::Store | Disposition::Hold => {
                let within = deadline.map(|deadline| self.locker.session().left_for_work(deadline));
                let (limit, expected) = (self.settings.max_response_bytes, self.settings.expect_within);
                match read(body, limit, Some(within.unwrap_or(expected))).await {
                    Read::Whole(whole) => Content::Whole(whole),
                    Read::TooLarge(body) => Content::Stream(body, Unstored::TooLarge),
                    // The caller does not wait any longer, and the handler continues.
                    Read::Late(body) if within.is_none() => Content::Stream(body, Unstored::Stream),
                    Read::Late(_) => Content::Broken("the deadline passed before it ended".into()),
                    Read::Broken(error) => Content::Broken(error),
                }
            }
        };
        Worked { parts, decided, content }
    }

    /// Ends the lock, and passes the response on: the work is done, whether or not its outcome can
    /// be stored.
    pub(super) async fn end(
        &self,
        lock: Lock,
        Worked { parts, decided, content }: Worked,
        deadline: Option<DateTime<Utc>>,
    ) -> Response<Body> {
        let status = parts.status;
        let ending = self.ending(&lock, decided, Some(status));
        match content {
            Content::Whole(whole) => {
                match ending {
                    Ending::Store | Ending::Hold => {
                        self.store(lock, decided, ending, &parts, &whole).await;
                    }
                    ending => self.end_unstored(lock, ending, answered(status)).await,
                }
                Response::from_parts(parts, whole.into())
            }
            Content::Stream(body, why) if matches!(ending, Ending::Store | Ending::Hold) => {
                let declared = parts.headers.get(CONTENT_LENGTH);
                let declared = declared.and_then(|bytes| bytes.to_str().ok()?.parse().ok());
                let body = self.pass_on(lock, (status, decided, why), (body, declared), deadline);
                Response::from_parts(parts, body)
            }
            Content::Broken(error) => {
                let resumable = lock.is_continued();
                let listed = self.cut_off(lock, decided, &error).await == Ending::InDoubt;
                reported(&Problem::InDoubt { resumable, listed })
            }
            Content::Unread(body) | Content::Stream(body, _) => {
                self.end_unstored(lock, ending, answered(status)).await;
                Response::from_parts(parts, body)
            }
        }
    }

    /// Ends the lock of a response that was passed on completely.
    pub(super) async fn passed_on(&self, lock: Lock, decided: Decided, status: StatusCode, why: Unstored) {
        match why {
            Unstored::Stream => {
                let ending = self.ending(&lock, decided, Some(status));
                self.mark(lock, ending, &Problem::NotKept(status)).await;
            }
            Unstored::TooLarge => {
                let limit = self.settings.max_response_bytes;
                self.too_large(lock, decided, status, format!("the limit is {limit} bytes")).await;
            }
        }
    }

    /// Ends the lock of a handler whose service returned an error.
    pub(super) async fn end_without_response(&self, lock: Lock, decided: Decided, error: String) {
        let decided = match decided.disposition {
            Disposition::Release => decided,
            _ => decided.becomes(Disposition::InDoubt),
        };
        let ending = self.ending(&lock, decided, None);
        self.end_unstored(lock, ending, format!("the service returned an error: {error}")).await;
    }

    /// Ends the lock of a handler that was cut short: its effects are unknown.
    pub(super) async fn cut_short(&self, lock: Lock, cause: String) {
        let ending = self.ending(&lock, Decided::default(Disposition::InDoubt), None);
        self.end_unstored(lock, ending, cause).await;
    }

    /// Ends the lock of a handler whose response was cut off.
    pub(super) async fn cut_off(&self, lock: Lock, decided: Decided, error: &BoxError) -> Ending {
        let ending = self.ending(&lock, decided.becomes(Disposition::InDoubt), None);
        self.end_unstored(lock, ending, format!("the body of the response was cut off: {error}")).await;
        ending
    }

    /// Ends the lock without a response.
    async fn end_unstored(&self, lock: Lock, ending: Ending, cause: String) {
        match ending {
            Ending::Release => self.release(lock).await,
            Ending::GiveBack => drop(lock.give_back(cause).await),
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
        whole: &Whole,
    ) {
        let Some(stored) = StoredResponse::of(parts, whole, &self.settings) else {
            return self.mark(lock, ending, &Problem::NotKept(parts.status)).await;
        };
        let attempt = lock.attempt();
        let ended = match ending {
            // The response may contain data of a person, which must not be in a log or an index.
            Ending::Hold => lock.hold_because(&stored, &answered(parts.status)).await,
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
    /// as its answer. If the handler is resumable and no disposition was set, the token is not
    /// held: the next request runs the handler again.
    async fn too_large(&self, lock: Lock, decided: Decided, status: StatusCode, cause: String) {
        tracing::error!(
            lock.token = self.locker.session().shown(lock.attempt().key().as_str()),
            http.status = status.as_u16(),
            cause,
            "a response is too large to be stored"
        );
        match self.ending(&lock, decided.becomes(Disposition::Hold), Some(status)) {
            Ending::Hold => self.mark(lock, Ending::Hold, &Problem::ResponseTooLarge(status)).await,
            ending => self.end_unstored(lock, ending, format!("the response is too large: {cause}")).await,
        }
    }

    /// Stores a problem that later requests get instead of the response.
    async fn mark(&self, lock: Lock, ending: Ending, problem: &Problem) {
        let attempt = lock.attempt();
        let marker = StoredResponse::of_problem(problem);
        let ended = match ending {
            Ending::Hold => lock.hold_because(&marker, problem.title()).await,
            _ => lock.complete(&marker).await,
        };
        if let Err(end) = ended {
            self.locker.session().unrecorded(&attempt, end);
        }
    }

    async fn release(&self, lock: Lock) {
        let attempt = lock.attempt();
        if let Err(end) = lock.release().await {
            self.locker.session().not_stored(&attempt, end);
        }
    }
}

fn answered(status: StatusCode) -> String {
    format!("the handler answered {status}")
}
