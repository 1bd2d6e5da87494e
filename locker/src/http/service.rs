//! The service. The handler runs in a separate task, and the lock stays outside of it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument as _;

use super::admit::{Asked, Inside, Keyed};
use super::body::{Body, rebuilt};
use super::disposition::HandlerError;
use super::layer::IdempotencyLayer;
use super::operation::is_unrouted;
use crate::core::panicked;
use crate::error::BoxError;
use crate::session;
use crate::token::Lock;

/// A service whose requests are once-only. Created by [`IdempotencyLayer`].
#[derive(Debug, Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    layer: IdempotencyLayer,
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> IdempotencyService<S> {
        IdempotencyService { inner, layer: self.clone() }
    }
}

type Answer<S, Req> =
    Pin<Box<dyn Future<Output = Result<Response<Body>, <S as Service<Request<Req>>>::Error>> + Send>>;

impl<S, Req, Res> Service<Request<Req>> for IdempotencyService<S>
where
    S: Service<Request<Req>, Response = Response<Res>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: fmt::Display + Send + 'static,
    Req: http_body::Body<Data = Bytes> + Default + From<String> + From<Vec<u8>> + Send + 'static,
    Req::Error: Into<BoxError>,
    Res: http_body::Body<Data = Bytes> + Send + 'static,
    Res::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answer<S, Req>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Req>) -> Self::Future {
        // The one that was polled ready does the work; its clone waits for the next request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        if !layer.settings.methods.contains(request.method()) {
            return Box::pin(async move { Ok(inner.call(request).await?.map(Body::unread)) });
        }
        Box::pin(async move {
            // Nothing is sent before the request is read, so this future may be dropped until then.
            let keyed = match layer.read(request).await {
                Asked::Keyed(keyed) => keyed,
                Asked::Unprotected(request) => return Ok(inner.call(request).await?.map(Body::unread)),
                Asked::Answered(response) => return Ok(response),
            };
            // A server drops the future of a request when its caller disconnects. The work
            // continues: it owns a token, and the caller is expected to retry.
            let work = async move {
                match layer.begin(&keyed).await {
                    Ok(lock) => run(&layer, lock, inner, *keyed).await,
                    Err(response) => Done::Response(response),
                }
            };
            match tokio::spawn(work.in_current_span()).await {
                Ok(Done::Response(response)) => Ok(*response),
                Ok(Done::Error(error)) => Err(error),
                Ok(Done::Panicked(panic)) => std::panic::resume_unwind(panic),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Only a runtime that is shutting down cancels it.
                    Err(_) => std::future::pending().await,
                },
            }
        })
    }
}

/// The outcome for the caller.
enum Done<E> {
    Response(Box<Response<Body>>),
    Error(E),
    Panicked(Box<dyn Any + Send>),
}

/// Runs the handler in a separate task. However the handler ends, the lock can still be ended.
async fn run<S, Req, Res>(layer: &IdempotencyLayer, lock: Lock, mut inner: S, keyed: Keyed) -> Done<S::Error>
where
    S: Service<Request<Req>, Response = Response<Res>> + Send + 'static,
    S::Future: Send,
    S::Error: fmt::Display + Send + 'static,
    Req: Default + From<String> + From<Vec<u8>> + Send + 'static,
    Res: http_body::Body<Data = Bytes> + Send + 'static,
    Res::Error: Into<BoxError>,
{
    let (outer, attempt, deadline) = (layer.clone(), lock.attempt(), keyed.deadline());
    let handler = async move {
        let Keyed { mut parts, body, .. } = keyed;
        let unrouted = is_unrouted(&parts);
        parts.extensions.insert(attempt);
        parts.extensions.insert(Inside);
        match inner.call(Request::from_parts(parts, rebuilt(body))).await {
            Ok(response) => Ok(outer.worked(response, unrouted, deadline).await),
            Err(error) => {
                let decided = outer.decided(Err(&HandlerError::of(&error)), unrouted);
                Err((error.to_string(), decided, error))
            }
        }
    };
    let handler = session::inside(lock.attempt().request(), handler);
    match tokio::spawn(handler.in_current_span()).await {
        Ok(Ok(worked)) => Done::Response(Box::new(layer.end(lock, worked, deadline).await)),
        Ok(Err((text, decided, error))) => {
            layer.end_without_response(lock, decided, text).await;
            Done::Error(error)
        }
        Err(error) => match error.try_into_panic() {
            Ok(panic) => {
                layer.cut_short(lock, format!("the handler panicked: {}", panicked::text_of(&*panic))).await;
                Done::Panicked(panic)
            }
            Err(cancelled) => {
                layer.cut_short(lock, "the runtime cancelled the handler".to_owned()).await;
                Done::Panicked(Box::new(cancelled.to_string()))
            }
        },
    }
}
