//! `POST /purchases`: the caller's `Idempotency-Key` is the workflow's key.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use locker::http::{IDEMPOTENT_REPLAYED, Problem, key_of};
use locker::workflow::{Failed, Outcome, Waiting};
use locker::{Error, Key};
use serde_json::json;

use super::{Purchases, Refusal};
use crate::deadline::deadline;
use crate::orders::{Caller, Order, OrderRequest};

/// Left at the end of an invocation, for its answer.
const RESERVE: Duration = Duration::from_secs(1);

/// The API. `caller` is [`caller`](crate::orders::caller) on AWS.
pub fn router(purchases: Purchases, caller: Caller) -> Router {
    Router::new().route("/purchases", post(purchase)).layer(Extension(caller)).with_state(purchases)
}

async fn purchase(
    State(purchases): State<Purchases>,
    Extension(caller): Extension<Caller>,
    parts: Parts,
    request: Result<Json<OrderRequest>, JsonRejection>,
) -> Response {
    // In the order of the layer that stands before the orders.
    let key = match key_of(&parts.headers) {
        Ok(Some(key)) => key,
        Ok(None) => return general(&Problem::KeyMissing),
        Err(error) => return general(&Problem::KeyInvalid(error.to_string())),
    };
    let Some(customer) = caller(&parts) else { return general(&Problem::Unidentified) };
    let request = match request {
        Ok(Json(request)) => request,
        Err(rejection) => return rejection.into_response(),
    };
    if let Err(error) = Key::new("order", &request.order_id) {
        return problem(StatusCode::BAD_REQUEST, "order-id", &error.to_string(), false);
    }
    let start = match purchases.start(&customer, &key, &request) {
        Ok(start) => start,
        Err(error) => return general(&Problem::KeyInvalid(error.to_string())),
    };
    let context = parts.extensions.get::<lambda_http::Context>();
    let start = context
        .into_iter()
        .fold(start, |start, context| start.owner(format!("orders/{}", context.request_id)));
    let until = context.and_then(|context| deadline(context, RESERVE));
    let start = until.into_iter().fold(start, locker::workflow::Start::deadline);
    match start.run().await {
        Ok(outcome) => answered(outcome),
        Err(error) => refused(&error),
    }
}

fn answered(outcome: Outcome<Order>) -> Response {
    match outcome {
        Outcome::Completed(order) => {
            let replayed = order.is_replay();
            let status = if replayed { StatusCode::OK } else { StatusCode::CREATED };
            marked((status, Json(order.into_inner())).into_response(), replayed)
        }
        Outcome::Failed(failed) => marked(failure(&failed), failed.is_replay()),
        Outcome::Cancelled => {
            problem(StatusCode::CONFLICT, "cancelled", "The purchase was cancelled and undone", false)
        }
        Outcome::InProgress(waiting) => in_progress(&waiting),
        Outcome::Quarantined(_) => problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "quarantine",
            "The purchase does not come to an end by itself; a person is looking into it",
            false,
        ),
        Outcome::Mismatch => general(&Problem::KeyReused),
        _ => general(&Problem::Internal),
    }
}

/// By the first failure; what was done before it is undone.
fn failure(failed: &Failed) -> Response {
    let failure = failed.failure();
    if failure.step() == Some("charge") {
        return problem(StatusCode::PAYMENT_REQUIRED, "declined", "The payment was declined", false);
    }
    match failure.error() {
        Ok(Refusal::OrderExists) => problem(
            StatusCode::CONFLICT,
            "order-exists",
            "There is an order under this number already",
            false,
        ),
        Err(_) => problem(StatusCode::CONFLICT, "failed", "The purchase failed and was undone", false),
    }
}

/// It goes on without the caller, who may ask again with the same key.
fn in_progress(waiting: &Waiting) -> Response {
    let seconds = waiting.retry_after().as_secs().max(1);
    let body = Json(json!({ "status": "inProgress", "retry_after": seconds }));
    (StatusCode::ACCEPTED, [(header::RETRY_AFTER, seconds.to_string())], body).into_response()
}

fn refused(error: &Error) -> Response {
    tracing::error!(%error, cause = std::error::Error::source(error).map(ToString::to_string), "a purchase could not be driven");
    general(&match error {
        // Unknown too: the same key finds out what became of it.
        Error::Unavailable { .. } | Error::Unknown { .. } => Problem::Unavailable,
        Error::Key(error) => Problem::KeyInvalid(error.to_string()),
        _ => Problem::Internal,
    })
}

fn marked(mut response: Response, replayed: bool) -> Response {
    if replayed {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn general(problem: &Problem) -> Response {
    problem.response().map(Body::from)
}

fn problem(status: StatusCode, kind: &str, title: &str, is_transient: bool) -> Response {
    let body = json!({
        "type": format!("urn:locker:purchases:{kind}"),
        "title": title,
        "status": status.as_u16(),
        "is_transient": is_transient,
    });
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    (status, headers, body.to_string()).into_response()
}
