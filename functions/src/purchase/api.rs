//! `POST /purchases`: the caller's `Idempotency-Key` becomes the workflow's key.

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use locker::http::{IDEMPOTENT_REPLAYED, Problem, key_of};
use locker::lambda::deadline;
use locker::workflow::{Failed, Outcome, Waiting};
use locker::{Error, Key};
use serde_json::json;

use super::{Purchases, Refusal};
use crate::orders::{Caller, Order, OrderRequest};
use crate::telemetry::shown;

/// Builds the API. On AWS, `caller` is [`caller`](crate::orders::caller).
pub fn router(purchases: Purchases, caller: Caller) -> Router {
    Router::new().route("/purchases", post(purchase)).layer(Extension(caller)).with_state(purchases)
}

async fn purchase(
    State(purchases): State<Purchases>,
    Extension(caller): Extension<Caller>,
    parts: Parts,
    request: Result<Json<OrderRequest>, JsonRejection>,
) -> Response {
    // Checked in the same order as by the layer in front of the orders.
    let key = match key_of(&parts.headers) {
        Ok(Some(key)) => key,
        Ok(None) => return Problem::KeyMissing("the header Idempotency-Key".to_owned()).response(),
        Err(problem) => return problem.response(),
    };
    let Some(customer) = caller(&parts) else { return Problem::Unidentified.response() };
    let request = match request {
        Ok(Json(request)) => request,
        Err(rejection) => return rejection.into_response(),
    };
    if let Err(error) = Key::new("order", &request.order_id) {
        return problem(StatusCode::BAD_REQUEST, "order-id", &error.to_string(), false);
    }
    let start = match purchases.start(&customer, &key, &request) {
        Ok(start) => start,
        Err(error) => return Problem::KeyInvalid(error.to_string()).response(),
    };
    let context = parts.extensions.get::<lambda_http::Context>();
    let start = context
        .into_iter()
        .fold(start, |start, context| start.owner(format!("orders/{}", context.request_id)));
    let until = context.and_then(|context| deadline(context, crate::RESERVE));
    let start = until.into_iter().fold(start, locker::workflow::StartBuilder::deadline);
    match start.run().await {
        Ok(outcome) => answered(outcome),
        Err(error) => {
            let workflow =
                Purchases::key(&customer, &key).map(|key| shown(purchases.workflows.settings(), &key));
            refused(&error, workflow.ok())
        }
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
            problem(StatusCode::CONFLICT, "cancelled", "The purchase was cancelled and compensated", false)
        }
        Outcome::InProgress(waiting) => in_progress(&waiting),
        Outcome::Quarantined(_) => problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "quarantine",
            "The purchase is in quarantine and waits for an operator",
            false,
        ),
        Outcome::Mismatch => Problem::KeyReused.response(),
        _ => Problem::Internal.response(),
    }
}

/// Builds the response to the first failure; the steps before it are compensated.
fn failure(failed: &Failed) -> Response {
    let failure = failed.failure();
    if failure.step() == Some("charge") {
        return problem(StatusCode::PAYMENT_REQUIRED, "declined", "The payment was declined", false);
    }
    match failure.error() {
        Ok(Refusal::OrderExists) => {
            problem(StatusCode::CONFLICT, "order-exists", "An order with this number already exists", false)
        }
        Ok(Refusal::NotPacked) => problem(
            StatusCode::CONFLICT,
            "not-packed",
            "The order was not packed in time and is refunded",
            false,
        ),
        Err(_) => problem(StatusCode::CONFLICT, "failed", "The purchase failed and was compensated", false),
    }
}

/// The purchase continues without the caller. The caller can repeat the request with the same key.
fn in_progress(waiting: &Waiting) -> Response {
    let seconds = waiting.retry_after().as_secs().max(1);
    let body = Json(json!({ "status": "inProgress", "retry_after": seconds }));
    (StatusCode::ACCEPTED, [(header::RETRY_AFTER, seconds.to_string())], body).into_response()
}

fn refused(error: &Error, workflow: Option<String>) -> Response {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(workflow.key = workflow, %error, cause, "a purchase could not be processed");
    Problem::from(error).response()
}

fn marked(mut response: Response, replayed: bool) -> Response {
    if replayed {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn problem(status: StatusCode, kind: &str, title: &str, is_transient: bool) -> Response {
    crate::problem(&format!("purchases:{kind}"), status, title, is_transient)
}
