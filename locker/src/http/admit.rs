//! Admission of a request: its key, its caller, its token.

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::header;
use super::layer::{Deadline, IdempotencyLayer, Owner};
use super::operation::{WrongKey, token_key};
use super::problem::Problem;
use super::settings::Required;
use super::stored::StoredResponse;
use crate::core::canonical::canonical;
use crate::core::form::Form;
use crate::core::key::Key;
use crate::error::BoxError;
use crate::token::{BeginBuilder, Begun, Holder, Lock};

/// How a request is handled.
pub(super) enum Admitted<Req> {
    /// The handler runs, and what it returns ends the lock.
    Acquired(Request<Req>, Box<Lock>),
    /// The handler runs unprotected: the request has no key and needs none.
    Unprotected(Request<Req>),
    /// The handler does not run.
    Answered(Response<Bytes>),
}

impl IdempotencyLayer {
    pub(super) async fn admit<Req>(&self, request: Request<Req>) -> Admitted<Req>
    where
        Req: http_body::Body<Data = Bytes> + From<Bytes>,
        Req::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let key = match header::key_of(&parts.headers) {
            Ok(Some(key)) => self.key(&parts, &key),
            Ok(None) if self.settings.required == Required::No => {
                return Admitted::Unprotected(Request::from_parts(parts, body));
            }
            Ok(None) => Err(Problem::KeyMissing),
            Err(problem) => Err(problem),
        };
        let key = match key {
            Ok(key) => key,
            Err(problem) => return Admitted::Answered(problem.response()),
        };
        // Read before it is hashed, and no more than the limit.
        let bytes = match Limited::new(body, self.settings.max_request_bytes).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Admitted::Answered(self.unread(&*error).response()),
        };
        match self.token(&key, &parts, &bytes).begin().await {
            Ok(Begun::Acquired(lock)) => {
                Admitted::Acquired(Request::from_parts(parts, Req::from(bytes)), Box::new(lock))
            }
            Ok(begun) => Admitted::Answered(self.answered(begun)),
            Err(error) => {
                tracing::error!(
                    lock.token = self.locker.session().shown(key.as_str()),
                    %error,
                    cause = std::error::Error::source(&error).map(ToString::to_string),
                    "a token could not be begun"
                );
                Admitted::Answered(Problem::from(&error).response())
            }
        }
    }

    fn key(&self, parts: &Parts, key: &str) -> Result<Key, Problem> {
        let identity = self.identify.identify(parts).ok_or(Problem::Unidentified)?;
        token_key(&self.operation, &identity, parts, key).map_err(|wrong| match wrong {
            WrongKey::Header(error) => Problem::KeyInvalid(error.to_string()),
            WrongKey::Identity(error) => {
                tracing::warn!(%error, "the identity of a caller is not allowed in a key");
                Problem::Unidentified
            }
            WrongKey::Operation(error) => {
                tracing::error!(%error, "the name of an operation is not allowed in a key");
                Problem::Internal
            }
        })
    }

    fn unread(&self, error: &(dyn std::error::Error + 'static)) -> Problem {
        if error.is::<LengthLimitError>() {
            Problem::BodyTooLarge(self.settings.max_request_bytes)
        } else {
            Problem::BodyUnreadable
        }
    }

    fn token(&self, key: &Key, parts: &Parts, body: &Bytes) -> BeginBuilder {
        let settings = &self.settings;
        let mut token = self.locker.token(key).expect_within(settings.expect_within).form(Form::HTTP);
        if let Some(Deadline(deadline)) = parts.extensions.get() {
            token = token.deadline(*deadline);
        }
        if let Some(Owner(owner)) = parts.extensions.get() {
            token = token.owner(owner.clone());
        }
        if let Some(resumable) = settings.resumable {
            token = token.take_over_after(resumable.grace);
        }
        if settings.is_recorded_inside() {
            token = token.unlisted();
        }
        // What two equal requests share: the query and the body.
        let query = parts.uri.query().unwrap_or_default();
        let json = str::from_utf8(body).ok().filter(|_| settings.canonical_json);
        let canonical = json.and_then(canonical);
        let body = canonical.as_deref().map_or(&body[..], str::as_bytes);
        token.fingerprint_bytes([query.as_bytes(), b"\n", body].concat())
    }

    /// The response to a request whose key was used before.
    fn answered(&self, begun: Begun) -> Response<Bytes> {
        let (stored, otherwise) = match begun {
            Begun::Completed(replay) => (replay.result().ok(), Problem::NoResponse),
            Begun::Failed(failure) => (failure.error().ok(), Problem::NoResponse),
            Begun::Held(failure) => (failure.error().ok(), Problem::Held),
            Begun::InProgress(holder) => (None, self.in_progress(&holder)),
            Begun::Mismatch(_) => (None, Problem::KeyReused),
            Begun::Acquired(_) => (None, Problem::Internal),
        };
        stored.and_then(StoredResponse::replay).unwrap_or_else(|| otherwise.response())
    }

    fn in_progress(&self, holder: &Holder) -> Problem {
        let overdue = (self.locker.session().now() - holder.due()).to_std();
        match overdue {
            Ok(overdue) => Problem::Overdue {
                since: overdue,
                resumable: self.settings.resumable.is_some(),
                listed: holder.record.is_listed(),
            },
            Err(_) => Problem::InProgress(holder.retry_after()),
        }
    }
}
