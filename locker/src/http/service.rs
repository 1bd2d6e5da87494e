//! The service: one request, from header to response.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tower_service::Service;

use super::body::{Body, Read, read};
use super::config::{Outcome, Required};
use super::header;
use super::layer::IdempotencyLayer;
use super::problem::Problem;
use super::stored::StoredResponse;
use crate::core::key::{InvalidKey, Key};
use crate::error::{BoxError, Error};
use crate::token::{Attempt, Begun, Lock};

/// A service whose requests are once-only. Made by [`IdempotencyLayer`].
#[derive(Debug, Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    layer: IdempotencyLayer,
}

impl<S> IdempotencyService<S> {
    pub(super) const fn new(inner: S, layer: IdempotencyLayer) -> Self {
        Self { inner, layer }
    }
}

type Answer<S, Req, Res> =
    Pin<Box<dyn Future<Output = Result<Response<Body<Res>>, <S as Service<Request<Req>>>::Error>> + Send>>;

impl<S, Req, Res> Service<Request<Req>> for IdempotencyService<S>
where
    S: Service<Request<Req>, Response = Response<Res>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    Req: http_body::Body<Data = Bytes> + From<Bytes> + Send + 'static,
    Req::Error: Into<BoxError>,
    Res: http_body::Body<Data = Bytes> + Send + 'static,
    Res::Error: Into<BoxError>,
{
    type Response = Response<Body<Res>>;
    type Error = S::Error;
    type Future = Answer<S, Req, Res>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Req>) -> Self::Future {
        // The one that was polled ready does the work; its clone waits for the next request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        if !layer.settings.methods.contains(request.method()) {
            return Box::pin(
                async move { inner.call(request).await.map(|response| response.map(Body::all)) },
            );
        }
        let work = async move {
            let (request, lock) = match layer.begin(request).await {
                Admitted::Held(request, lock) => (request, lock),
                Admitted::Free(request) => {
                    return inner.call(request).await.map(|response| response.map(Body::all));
                }
                Admitted::Answered(response) => return Ok(response.map(Body::read)),
            };
            match inner.call(request).await {
                Ok(response) => Ok(layer.end(*lock, response).await),
                Err(error) => {
                    // The handler did not get as far as a response, so nobody knows how far it got.
                    lock.leave_in_doubt();
                    Err(error)
                }
            }
        };
        // A server drops the future of a caller that hangs up. The work goes on without it: it holds a
        // token, and the caller will ask again.
        let work = tokio::spawn(work);
        Box::pin(async move {
            match work.await {
                Ok(response) => response,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Only a runtime that is shutting down cancels it.
                    Err(_) => std::future::pending().await,
                },
            }
        })
    }
}

/// What becomes of a request.
enum Admitted<Req> {
    /// The handler runs, and its response ends the lock.
    Held(Request<Req>, Box<Lock>),
    /// The handler runs unprotected: it has no key and needs none.
    Free(Request<Req>),
    /// The handler does not run.
    Answered(Response<Bytes>),
}

impl IdempotencyLayer {
    async fn begin<Req>(&self, request: Request<Req>) -> Admitted<Req>
    where
        Req: http_body::Body<Data = Bytes> + From<Bytes>,
        Req::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let key = match header::key_of(&parts.headers) {
            Ok(Some(key)) => key,
            Ok(None) if self.settings.required == Required::No => {
                return Admitted::Free(Request::from_parts(parts, body));
            }
            Ok(None) => return Admitted::Answered(Problem::KeyMissing.response()),
            Err(error) => return Admitted::Answered(Problem::KeyInvalid(error.to_string()).response()),
        };
        let Some(identity) = self.identify.identify(&parts) else {
            return Admitted::Answered(Problem::Unidentified.response());
        };
        let key = match token_key(&identity, &parts, &key) {
            Ok(key) => key,
            Err(error) => return Admitted::Answered(Problem::KeyInvalid(error.to_string()).response()),
        };
        // Read before it is hashed, and no more than is allowed.
        let bytes = match Limited::new(body, self.settings.max_request_bytes).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Admitted::Answered(self.unread(&*error).response()),
        };
        let request = fingerprinted(&parts, &bytes);
        let token =
            self.locker.token(key).expect_within(self.settings.expect_within).fingerprint_bytes(request);
        match token.begin().await {
            Ok(Begun::Acquired(lock)) => {
                Admitted::Held(Request::from_parts(parts, Req::from(bytes)), Box::new(lock))
            }
            Ok(begun) => Admitted::Answered(answered(begun)),
            Err(error) => Admitted::Answered(refused(&error)),
        }
    }

    fn unread(&self, error: &(dyn std::error::Error + 'static)) -> Problem {
        if error.is::<LengthLimitError>() {
            Problem::BodyTooLarge(self.settings.max_request_bytes)
        } else {
            Problem::BodyUnreadable
        }
    }

    /// End the lock as the response says, and pass the response on: the work is done, whatever becomes
    /// of its record.
    async fn end<Res>(&self, lock: Lock, response: Response<Res>) -> Response<Body<Res>>
    where
        Res: http_body::Body<Data = Bytes>,
        Res::Error: Into<BoxError>,
    {
        let said = response.extensions().get::<Outcome>().copied();
        let attempt = lock.attempt();
        let ended = match said.unwrap_or_else(|| (self.settings.outcomes)(response.status())) {
            Outcome::Store => return self.store(lock, &attempt, response).await,
            Outcome::Release => lock.release().await,
            Outcome::InDoubt => {
                lock.leave_in_doubt();
                Ok(())
            }
        };
        if let Err(end) = ended {
            self.locker.unrecorded(&attempt, end);
        }
        response.map(Body::all)
    }

    async fn store<Res>(&self, lock: Lock, attempt: &Attempt, response: Response<Res>) -> Response<Body<Res>>
    where
        Res: http_body::Body<Data = Bytes>,
        Res::Error: Into<BoxError>,
    {
        let (parts, body) = response.into_parts();
        match read(body, self.settings.max_response_bytes).await {
            Read::All(bytes) => {
                let stored = StoredResponse::of(&parts, &bytes, &self.settings);
                if let Err(end) = lock.complete(&stored).await {
                    self.locker.unrecorded(attempt, end);
                }
                Response::from_parts(parts, Body::read(bytes))
            }
            Read::TooLarge(body) => {
                tracing::error!(
                    limit = self.settings.max_response_bytes,
                    "a response is too large to be stored"
                );
                lock.leave_in_doubt();
                Response::from_parts(parts, body)
            }
            Read::Broken(error) => {
                tracing::error!(%error, "a response broke off before it could be stored");
                lock.leave_in_doubt();
                Problem::InProgress(self.settings.expect_within).response().map(Body::read)
            }
        }
    }
}

/// `@caller/METHOD/path/key`.
fn token_key(identity: &str, parts: &Parts, key: &str) -> Result<Key, InvalidKey> {
    let path = parts.uri.path();
    let path = path.strip_prefix('/').unwrap_or(path);
    // An empty segment would not make a scope, so it is shown as what no path can hold.
    let path = path.split('/').map(|segment| if segment.is_empty() { "<>" } else { segment });
    let scope: String = std::iter::once(parts.method.as_str()).chain(path).collect::<Vec<_>>().join("/");
    // Metrics are told the method: a path may hold an id, and each id would be a metric of its own.
    Ok(Key::new(&scope, key)?.tenant(identity)?.operation(format!("http/{}", parts.method)))
}

/// What must be the same for two requests to be the same: the query, and the body.
fn fingerprinted(parts: &Parts, body: &Bytes) -> Vec<u8> {
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    [query, b"\n", body].concat()
}

fn answered(begun: Begun) -> Response<Bytes> {
    let problem = match begun {
        Begun::Completed(replay) => {
            match replay.result::<StoredResponse>().ok().and_then(StoredResponse::replay) {
                Some(response) => return response,
                // Resolved by hand with something else: the work is done, and there is no response to give.
                None => Problem::Held,
            }
        }
        Begun::Failed(_) => Problem::Held,
        Begun::InProgress(holder) => Problem::InProgress(holder.retry_after()),
        Begun::Mismatch(_) => Problem::KeyReused,
        Begun::Acquired(_) => Problem::Internal,
    };
    problem.response()
}

fn refused(error: &Error) -> Response<Bytes> {
    tracing::error!(%error, cause = std::error::Error::source(error).map(ToString::to_string), "a token could not be begun");
    match error {
        // Unknown too: the same key finds out what became of it.
        Error::Unavailable { .. } | Error::Unknown { .. } => Problem::Unavailable.response(),
        Error::Key(error) => Problem::KeyInvalid(error.to_string()).response(),
        _ => Problem::Internal.response(),
    }
}

#[cfg(test)]
mod properties;
