//! The HTTP API: `POST /orders`, `GET /orders/{id}`.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use lambda_http::request::RequestContext;
use locker::http::{HttpSettings, IdempotencyLayer, Outcome};
use locker::{Class, Error, Failure, RunError};
use serde_json::json;

use super::{OrderRequest, Shop};
use crate::deadline::deadline;

/// Says who calls.
pub type Caller = fn(&Parts) -> Option<String>;

/// The API, behind the idempotency layer. `caller` is [`caller`](fn@caller) on AWS.
pub fn router(shop: Shop, caller: Caller) -> Router {
    let mut settings = HttpSettings::default();
    settings.expect_within = shop.expect_within;
    let layer = IdempotencyLayer::new(shop.locker.clone(), caller).settings(settings);
    Router::new()
        .route("/orders", post(create))
        .layer(layer)
        .route("/orders/{id}", get(read))
        .layer(Extension(caller))
        .with_state(shop)
}

/// The caller as the authoriser of API Gateway proved it: the subject of a JWT, or an IAM identity.
#[must_use]
pub fn caller(request: &Parts) -> Option<String> {
    let RequestContext::ApiGatewayV2(context) = request.extensions.get::<RequestContext>()? else {
        return None;
    };
    let authorizer = context.authorizer.as_ref()?;
    let subject = authorizer.jwt.as_ref().and_then(|jwt| jwt.claims.get("sub").cloned());
    subject.or_else(|| authorizer.iam.as_ref()?.user_arn.clone())
}

async fn create(
    State(shop): State<Shop>,
    Extension(caller): Extension<Caller>,
    parts: Parts,
    Json(request): Json<OrderRequest>,
) -> Response {
    // The layer in front has identified the caller already.
    let Some(customer) = caller(&parts) else { return StatusCode::UNAUTHORIZED.into_response() };
    let context = parts.extensions.get::<lambda_http::Context>();
    let owner = context.map(|context| format!("orders/{}", context.request_id));
    let deadline = context.and_then(|context| deadline(context, Duration::ZERO));
    match shop.create(&customer, &request, owner, deadline).await {
        Ok(order) => {
            let location = format!("/orders/{}", order.order_id);
            (StatusCode::CREATED, [(header::LOCATION, location)], Json(order.into_inner())).into_response()
        }
        Err(error) => failed(&error),
    }
}

async fn read(
    State(shop): State<Shop>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    parts: Parts,
) -> Response {
    let Some(customer) = caller(&parts) else { return StatusCode::UNAUTHORIZED.into_response() };
    match shop.read(&customer, &id).await {
        Ok(Some(order)) => Json(order).into_response(),
        Ok(None) => problem(StatusCode::NOT_FOUND, "no-order", "There is no such order", false),
        Err(Error::Key(error)) => problem(StatusCode::BAD_REQUEST, "order-id", &error.to_string(), false),
        Err(error) => failed(&RunError::Locker(error)),
    }
}

/// The order has a token of its own, which knows what happened. So unless the failure is the answer, the
/// request's token is released: the same request may ask again, and is told.
fn failed(error: &RunError<Failure>) -> Response {
    use StatusCode as S;
    let (status, kind, title, transient) = match error {
        RunError::Failed { class: Class::Permanent, .. } => {
            return problem(S::PAYMENT_REQUIRED, "declined", "The payment was declined", false);
        }
        RunError::Failed { class: Class::Transient, .. } => (
            S::SERVICE_UNAVAILABLE,
            "provider-busy",
            "The payment provider is busy; nothing was charged",
            true,
        ),
        RunError::Failed { .. } => (
            S::GATEWAY_TIMEOUT,
            "in-doubt",
            "It is not known whether the payment was made; it is being looked into",
            false,
        ),
        RunError::InProgress(_) => (S::CONFLICT, "order-in-progress", "The order is being worked on", true),
        RunError::Mismatch(_) => {
            return problem(
                S::UNPROCESSABLE_ENTITY,
                "order-differs",
                "There is another order under this number",
                false,
            );
        }
        RunError::Locker(Error::Unavailable { .. } | Error::Unknown { .. }) => {
            (S::SERVICE_UNAVAILABLE, "unavailable", "Nothing is known yet; try again", true)
        }
        RunError::Locker(Error::Key(_)) => {
            return problem(S::BAD_REQUEST, "order-id", "The order's number is not allowed", false);
        }
        _ => (S::INTERNAL_SERVER_ERROR, "internal", "The order could not be looked up", false),
    };
    let mut response = problem(status, kind, title, transient);
    response.extensions_mut().insert(Outcome::Release);
    response
}

fn problem(status: StatusCode, kind: &str, title: &str, is_transient: bool) -> Response {
    let body = json!({
        "type": format!("urn:locker:orders:{kind}"),
        "title": title,
        "status": status.as_u16(),
        "is_transient": is_transient,
    });
    (status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
