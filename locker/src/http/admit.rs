//! Admission of a request: its key, its caller, its body, its token.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::request::Parts;
use http::{Request, Response};

use super::answer::answered;
use super::body::{Body, Read, read, rebuilt};
use super::disposition::Disposition;
use super::layer::{Deadline, IdempotencyLayer, Owner, RequestedAt};
use super::operation::{WrongKey, token_key};
use super::problem::Problem;
use super::settings::Required;
use crate::core::canonical::canonical;
use crate::core::form::Form;
use crate::core::key::Key;
use crate::error::BoxError;
use crate::token::{BeginBuilder, Begun, Lock};

/// Marks a request that a layer has admitted. A second layer around the same handler would find the
/// token of the first layer in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside;

/// A request that was read. Nothing has been sent for it.
pub(super) enum Asked<Req> {
    /// The request has a key.
    Keyed(Box<Keyed>),
    /// The request has no key and needs none.
    Unprotected(Request<Req>),
    /// The handler does not run.
    Answered(Response<Body>),
}

/// A request with a key.
pub(super) struct Keyed {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    key: Key,
}

impl Keyed {
    pub(super) fn deadline(&self) -> Option<DateTime<Utc>> {
        self.parts.extensions.get().map(|Deadline(deadline)| *deadline)
    }
}

impl IdempotencyLayer {
    /// Reads a request and its key. The future may be dropped, because nothing has been sent.
    pub(super) async fn read<Req>(&self, request: Request<Req>) -> Asked<Req>
    where
        Req: http_body::Body<Data = Bytes> + Default + From<String> + From<Vec<u8>> + Send + 'static,
        Req::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        if parts.extensions.get::<Inside>().is_some() {
            return Asked::Answered(nested());
        }
        // A key in the head is checked before the body is read.
        let mut key = None;
        if !self.key.needs_body() {
            key = match self.token_key(&parts, &[]) {
                Ok(None) => return Asked::Unprotected(Request::from_parts(parts, body)),
                Ok(key) => key,
                Err(problem) => return Asked::Answered(reported(&problem)),
            };
        }
        let within = parts.extensions.get().map(|Deadline(at)| self.locker.session().left_for_work(*at));
        let limit = self.settings.max_request_bytes;
        let body = match read(body, limit, within).await {
            Read::Whole(whole) => whole.bytes,
            Read::TooLarge(_) => return Asked::Answered(reported(&Problem::BodyTooLarge(limit))),
            Read::Late(_) | Read::Broken(_) => return Asked::Answered(reported(&Problem::BodyUnreadable)),
        };
        let key = match key {
            Some(key) => key,
            None => match self.token_key(&parts, &body) {
                Ok(None) => return Asked::Unprotected(Request::from_parts(parts, rebuilt(body))),
                Ok(Some(key)) => key,
                Err(problem) => return Asked::Answered(reported(&problem)),
            },
        };
        Asked::Keyed(Box::new(Keyed { parts, body, key }))
    }

    /// Begins the token of a request. The error is the response for a token that was not acquired.
    pub(super) async fn begin(&self, keyed: &Keyed) -> Result<Lock, Box<Response<Body>>> {
        let begun = match self.token(keyed).begin_or_withdraw().await {
            Ok(begun) => begun,
            Err(not_begun) => {
                let error = &not_begun.error;
                tracing::error!(
                    lock.token = self.locker.session().shown(keyed.key.as_str()),
                    %error,
                    cause = std::error::Error::source(error).map(ToString::to_string),
                    withdrawn = not_begun.is_withdrawn,
                    "a token could not be begun; the handler does not run"
                );
                return Err(Box::new(reported(&Problem::from(&not_begun))));
            }
        };
        let answered = match begun {
            Begun::Acquired(lock) => return Ok(lock),
            begun => answered(&begun).unwrap_or(Err(Problem::Internal)),
        };
        Err(Box::new(match answered {
            Ok(response) => response.map(Body::from),
            Err(problem) => reported(&problem),
        }))
    }

    /// The key of the token of a request. `None` if the request has no key and needs none.
    fn token_key(&self, parts: &Parts, body: &[u8]) -> Result<Option<Key>, Problem> {
        let Some(key) = self.key.read(parts, body)? else {
            return match self.settings.required {
                Required::No => Ok(None),
                Required::Yes => Err(Problem::KeyMissing(self.key.to_string())),
            };
        };
        let identity = self.identify.identify(parts).ok_or(Problem::Unidentified)?;
        token_key(&self.operation, &identity, parts, &key).map(Some).map_err(|wrong| match wrong {
            WrongKey::Key(error) => Problem::KeyInvalid(error.to_string()),
            WrongKey::Identity(error) => {
                tracing::warn!(%error, "the identity of a caller is not allowed in a key");
                Problem::Unidentified
            }
            WrongKey::Operation(error) => {
                tracing::error!(%error, "the name of an operation is not allowed in a key");
                Problem::Internal
            }
            WrongKey::IdentityTooLong(bytes) => {
                tracing::warn!(bytes, "the identity of a caller is too long for a key; use a digest of it");
                Problem::IdentityTooLong(bytes)
            }
            WrongKey::OperationTooLong(bytes) => Problem::PathTooLong(bytes),
        })
    }

    fn token(&self, keyed: &Keyed) -> BeginBuilder {
        let (settings, parts, body) = (&self.settings, &keyed.parts, &*keyed.body);
        let mut token = self.locker.token(&keyed.key).expect_within(settings.expect_within).form(Form::HTTP);
        if let Some(deadline) = keyed.deadline() {
            token = token.deadline(deadline);
        }
        if let Some(Owner(owner)) = parts.extensions.get() {
            token = token.owner(owner.clone());
        }
        if let Some(RequestedAt(time)) = parts.extensions.get() {
            token = token.requested_at(*time);
        }
        if let Some(resumable) = settings.resumable {
            token = token.take_over_after(resumable.grace);
            if let Some(recognised) = resumable.recognised {
                token = token.recognised_for(recognised);
            }
        }
        if settings.is_recorded_inside() {
            token = token.unlisted();
        }
        if let Some(same) = &*self.same {
            return token.fingerprint_bytes(same(parts, body));
        }
        // Two requests are the same if their queries and their bodies are equal.
        let query = in_order(parts.uri.query().unwrap_or_default());
        let json = str::from_utf8(body).ok().filter(|_| settings.canonical_json);
        let canonical = json.and_then(canonical);
        let body = canonical.as_deref().map_or(body, str::as_bytes);
        token.fingerprint_bytes([query.as_bytes(), b"\n", body].concat())
    }
}

/// The parameters of a query, ordered by name. Parameters with one name keep their order.
///
/// For a REST API and a load balancer, `lambda_http` builds the query from a map. So a repeated
/// request may have its parameters in another order.
fn in_order(query: &str) -> String {
    let mut pairs: Vec<&str> = query.split('&').collect();
    pairs.sort_by_key(|pair| pair.split('=').next());
    pairs.join("&")
}

pub(super) fn reported(problem: &Problem) -> Response<Body> {
    problem.response::<Bytes>().map(Body::read)
}

/// The response of the inner layer of two. The outer layer releases its token, because the handler
/// does not run.
fn nested() -> Response<Body> {
    tracing::error!("two idempotency layers are around one handler, which does not run; remove one of them");
    let mut response = reported(&Problem::Internal);
    response.extensions_mut().insert(Disposition::Release);
    response
}
