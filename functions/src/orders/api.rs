//! The HTTP API: `POST /orders`, `GET /orders/{id}`.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use chrono::{DateTime, Utc};
use lambda_http::request::RequestContext;
use locker::http::{Deadline, Disposition, HttpSettings, IdempotencyLayer, Operation, Owner, Resumable};
use locker::lambda::deadline;
use locker::{AnswerError, Class, Clock as _, Error, Failure, RunError, SystemClock};

use super::{OrderRequest, OrderState, Shop};

/// Identifies the caller of a request.
pub type Caller = fn(&Parts) -> Option<String>;

/// Builds the API with the idempotency layer around it. On AWS, `caller` is [`caller`](fn@caller).
pub fn router(shop: Shop, caller: Caller) -> Router {
    let mut settings = HttpSettings::default();
    settings.expect_within = shop.locker.settings().expect_within;
    // An order has its own token, and a purchase is a workflow: a request that was cut short may
    // run again.
    settings.resumable = Some(Resumable::one_effect(Duration::ZERO));
    let layer = IdempotencyLayer::new(shop.locker.clone(), Operation::method_and_path(), caller);
    Router::new()
        .route("/orders", post(create))
        .layer(layer.settings(settings))
        .layer(map_request(invocation))
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
    subject.or_else(|| authorizer.iam.as_ref()?.user_arn.as_deref().and_then(without_session))
}

/// Removes the session from the ARN of an assumed role: another task of the same service has
/// another session, and its retry must find the order of the first task. A session of IAM Identity
/// Center is a person, so it stays. `None`: the caller is a user of a Cognito identity pool, and
/// all users of a pool have one session name. Other roles whose sessions are persons, such as with
/// SAML, need a rule of their own.
fn without_session(arn: &str) -> Option<String> {
    let (before, role) = arn.split_once(":assumed-role/").unwrap_or((arn, ""));
    match role.rsplit_once('/') {
        Some((_, "CognitoIdentityCredentials")) => None,
        Some((role, _)) if !role.starts_with("AWSReservedSSO_") => {
            Some(format!("{before}:assumed-role/{role}"))
        }
        _ => Some(arn.to_owned()),
    }
}

/// Passes the Lambda invocation of the request to the idempotency layer.
async fn invocation(mut request: Request) -> Request {
    if let Some(context) = request.extensions().get::<lambda_http::Context>() {
        let owner = Owner(format!("orders/{}", context.request_id));
        let deadline = deadline(context, crate::RESERVE);
        request.extensions_mut().insert(owner);
        if let Some(deadline) = deadline {
            request.extensions_mut().insert(Deadline(deadline));
        }
    }
    request
}

async fn create(
    State(shop): State<Shop>,
    Extension(caller): Extension<Caller>,
    parts: Parts,
    Json(request): Json<OrderRequest>,
) -> Response {
    // The layer has already identified the caller.
    let Some(customer) = caller(&parts) else { return StatusCode::UNAUTHORIZED.into_response() };
    let owner = parts.extensions.get().map(|Owner(owner)| owner.clone());
    let deadline = parts.extensions.get().map(|Deadline(deadline)| *deadline);
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
        Ok(OrderState::Created(order)) => Json(order).into_response(),
        Ok(OrderState::Absent) => {
            problem(StatusCode::NOT_FOUND, "no-order", "POST /orders created no such order", false)
        }
        Ok(OrderState::Declined) => declined(),
        Ok(OrderState::InProgress { due }) => {
            let left = (due - SystemClock.now()).to_std().unwrap_or_default();
            in_progress(due, left.clamp(Duration::from_secs(1), Duration::from_secs(60)))
        }
        Ok(OrderState::InDoubt) => in_doubt(),
        Ok(OrderState::Restored) => restored(),
        Err(Error::Invalid(error)) if error.is_key() => {
            problem(StatusCode::BAD_REQUEST, "order-id", &error.to_string(), false)
        }
        Err(error) => failed(&RunError::Locker(error)),
    }
}

/// Builds the response to a failure.
///
/// The order has its own token, which records the outcome. So unless the failure is the answer, the
/// layer keeps the request's token for a retry of the same request, which gets the outcome. A
/// request that found the order in progress, or held after a restore, did nothing, so its response
/// releases the request's token.
fn failed(error: &RunError<Failure>) -> Response {
    use StatusCode as S;
    let (status, kind, title, transient) = match error {
        RunError::Failed { class: Class::Permanent, .. } => return declined(),
        // An attempt before this one may have charged under the same key: an operator's release
        // keeps it.
        RunError::Failed { class: Class::Transient, .. } => {
            (S::SERVICE_UNAVAILABLE, "not-now", "The payment could not be made now; try again", true)
        }
        RunError::Failed { .. } => return in_doubt(),
        RunError::InProgress(holder) => {
            let mut response = in_progress(holder.due(), holder.retry_after());
            response.extensions_mut().insert(Disposition::Release);
            return response;
        }
        RunError::Mismatch(_) => {
            return problem(
                S::UNPROCESSABLE_ENTITY,
                "order-differs",
                "A different order exists under this number",
                false,
            );
        }
        RunError::Restored(_) => {
            let mut response = restored();
            response.extensions_mut().insert(Disposition::Release);
            return response;
        }
        RunError::Locker(Error::Unavailable { .. } | Error::Contended { .. } | Error::Unknown { .. }) => {
            (S::SERVICE_UNAVAILABLE, "unavailable", "Nothing is known yet; try again", true)
        }
        // An operator erased the result. The order is not done again.
        RunError::Locker(Error::Answer(AnswerError::Redacted)) => {
            return problem(S::GONE, "order-not-kept", "The order was processed; it is not kept", false);
        }
        RunError::Locker(Error::Invalid(error)) if error.is_key() => {
            return problem(S::BAD_REQUEST, "order-id", "The order number is not allowed", false);
        }
        _ => (S::INTERNAL_SERVER_ERROR, "internal", "The order could not be looked up", false),
    };
    problem(status, kind, title, transient)
}

fn declined() -> Response {
    problem(StatusCode::PAYMENT_REQUIRED, "declined", "The payment was declined", false)
}

fn in_doubt() -> Response {
    let title = "It is unknown whether the payment was made; an operator has to investigate";
    problem(StatusCode::GATEWAY_TIMEOUT, "in-doubt", title, false)
}

fn in_progress(due: DateTime<Utc>, retry_after: Duration) -> Response {
    if due <= SystemClock.now() {
        let title = "The order has not ended as expected; an operator has to investigate";
        return problem(StatusCode::CONFLICT, "order-overdue", title, false);
    }
    let retry_after = [(header::RETRY_AFTER, retry_after.as_secs().to_string())];
    let problem = problem(StatusCode::CONFLICT, "order-in-progress", "The order is in progress", true);
    (retry_after, problem).into_response()
}

fn restored() -> Response {
    let title = "The order may have been processed before data was restored; an operator decides";
    problem(StatusCode::CONFLICT, "order-restored", title, false)
}

fn problem(status: StatusCode, kind: &str, title: &str, is_transient: bool) -> Response {
    crate::problem(&format!("orders:{kind}"), status, title, is_transient)
}
