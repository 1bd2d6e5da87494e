//! The payment provider, over HTTP: what it answered, and what that means.

use std::time::Duration;

use locker::{BoxError, Class, Failure};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};

/// What is charged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The amount, in cents.
    pub cents: u64,
    /// Three letters, such as EUR.
    pub currency: String,
}

/// What the provider answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The provider's number for the charge.
    pub charge: String,
}

/// A client of the provider.
#[derive(Debug, Clone)]
pub struct Payments {
    http: reqwest::Client,
    url: String,
}

impl Payments {
    /// A client of the provider at an address, that waits so long for a reply.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be built.
    pub fn new(url: impl Into<String>, timeout: Duration) -> Result<Self, BoxError> {
        // The process has one provider of cryptography. If another was chosen first, that one serves.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(timeout).connect_timeout(timeout).build()?;
        Ok(Self { http, url: url.into() })
    }

    /// Charge, under an idempotency key of the provider's own.
    ///
    /// # Errors
    ///
    /// By what is known: a connection that did not come about, 429 and 503 are transient (nothing happened);
    /// another 4xx is permanent (the provider said no); a timeout, a dropped connection, a 5xx and an answer
    /// that cannot be read are in doubt.
    pub async fn charge(&self, charge: &Charge, idempotency_key: String) -> Result<Receipt, Failure> {
        let request =
            self.http.post(format!("{}/charges", self.url)).header("Idempotency-Key", idempotency_key);
        let response = request.json(charge).send().await.map_err(|error| {
            let class = if error.is_connect() { Class::Transient } else { Class::InDoubt };
            Failure { class, error: format!("no answer from the provider: {}", without_url(error)) }
        })?;
        let status = response.status();
        if !status.is_success() {
            let said = response.text().await.unwrap_or_default();
            let said = said.chars().take(200).collect::<String>();
            return Err(Failure {
                class: class_of(status),
                error: format!("the provider answered {status}: {said}"),
            });
        }
        let receipt = response.json().await;
        receipt.map_err(|error| {
            Failure::in_doubt(format!("the provider's answer broke off: {}", without_url(error)))
        })
    }
}

/// What a refusal means.
#[must_use]
pub fn class_of(status: StatusCode) -> Class {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Class::Transient,
        // It heard us, and gave up waiting for itself or for us.
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT => Class::InDoubt,
        status if status.is_client_error() => Class::Permanent,
        _ => Class::InDoubt,
    }
}

/// The address may hold credentials.
fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}
