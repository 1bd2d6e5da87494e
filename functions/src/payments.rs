//! The payment provider, over HTTP: its responses, and how they are classified.

use std::net::IpAddr;
use std::time::Duration;

use locker::{BoxError, Class, Failure};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An amount to charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The amount, in cents.
    pub cents: u64,
    /// Three letters, such as EUR.
    pub currency: String,
}

/// The provider's response to a charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The provider's number for the charge.
    pub charge: String,
}

/// A request to refund the charge of a key, if there is one, and to refuse every later charge under
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundRequest {
    /// The idempotency key of the charge.
    pub charge_key: String,
}

/// The provider's response to a refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The provider's number for the refund. `None`: the provider knows no charge under the key,
    /// and refuses a late one.
    pub refund: Option<String>,
}

/// A client of the provider.
#[derive(Debug, Clone)]
pub struct Payments {
    http: reqwest::Client,
    charges: reqwest::Url,
    refunds: reqwest::Url,
    timeout: Duration,
    authorization: Option<HeaderValue>,
}

impl Payments {
    /// Creates a client of the provider at this address, with a timeout for each reply.
    ///
    /// # Errors
    ///
    /// If the address is not `https` with a host, or `http` of this machine, or holds a credential,
    /// which logs and the function's configuration would show; or the HTTP client cannot be built.
    pub fn new(url: impl Into<String>, timeout: Duration) -> Result<Self, BoxError> {
        // The process has one provider of cryptography. An earlier installation has precedence.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = url.into();
        let (charges, refunds) = (address(&url, "charges")?, address(&url, "refunds")?);
        // A redirect would be a second request, whose failure proves nothing about the first.
        let redirect = reqwest::redirect::Policy::none();
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .connect_timeout(timeout)
            .redirect(redirect)
            // A connection that was kept open, across a freeze of the environment for example, may
            // have been closed by the provider: a charge written on it would be in doubt. A new
            // connection costs each charge a handshake.
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self { http, charges, refunds, timeout, authorization: None })
    }

    /// Sends this bearer token with each request.
    ///
    /// # Errors
    ///
    /// If a header cannot hold it. The error does not, either.
    pub fn with_credential(mut self, token: &str) -> Result<Self, BoxError> {
        let mut header = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| "the credential has characters that a header cannot hold")?;
        header.set_sensitive(true);
        self.authorization = Some(header);
        Ok(self)
    }

    /// The timeout for a reply.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Charges an amount, under an idempotency key that the provider recognises.
    ///
    /// # Errors
    ///
    /// The class depends on the evidence; see [`class_of`]. A failed connect is transient: nothing
    /// was sent. A timeout, a dropped connection and an unreadable response are in doubt.
    pub async fn charge(&self, charge: &Charge, idempotency_key: String) -> Result<Receipt, Failure> {
        self.post(&self.charges, charge, idempotency_key).await
    }

    /// Refunds the charge of a key. The provider refuses every later charge under it.
    ///
    /// # Errors
    ///
    /// Same as [`charge`](Self::charge).
    pub async fn refund(&self, request: &RefundRequest, idempotency_key: String) -> Result<Refund, Failure> {
        self.post(&self.refunds, request, idempotency_key).await
    }

    /// Finds the charge of a key. `None`: nothing yet, or the provider has forgotten the charge. An
    /// earlier request may still be in flight.
    ///
    /// # Errors
    ///
    /// If the provider gives no clear answer.
    pub async fn find(&self, idempotency_key: &str) -> Result<Option<Receipt>, BoxError> {
        let mut url = self.charges.clone();
        url.path_segments_mut().map_err(|()| "the address takes no path")?.push(idempotency_key);
        let response = self.request(self.http.get(url)).send().await.map_err(without_url)?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(response.json().await.map_err(without_url)?)),
            status => Err(format!("the provider answered {status}").into()),
        }
    }

    /// Adds the credential, and the trace of the invocation, so that the provider's log and ours
    /// can be laid side by side.
    fn request(&self, request: RequestBuilder) -> RequestBuilder {
        // `lambda_runtime` sets the variable at every invocation.
        let trace =
            std::env::var("_X_AMZN_TRACE_ID").ok().and_then(|trace| HeaderValue::try_from(trace).ok());
        let trace = trace.map(|trace| (HeaderName::from_static("x-amzn-trace-id"), trace));
        let authorization = self.authorization.clone().map(|token| (AUTHORIZATION, token));
        request.headers(authorization.into_iter().chain(trace).collect())
    }

    async fn post<T: DeserializeOwned>(
        &self,
        url: &reqwest::Url,
        body: &(impl Serialize + Sync),
        idempotency_key: String,
    ) -> Result<T, Failure> {
        let request = self.request(self.http.post(url.clone())).header("Idempotency-Key", idempotency_key);
        let response = request.json(body).send().await.map_err(|error| {
            let unsent = error.is_connect() || error.is_builder();
            let class = if unsent { Class::Transient } else { Class::InDoubt };
            Failure::of(class, format!("no answer from the provider: {}", without_url(error)))
        })?;
        let status = response.status();
        if !status.is_success() {
            let said = response.text().await.unwrap_or_default();
            let said = said.chars().take(200).collect::<String>();
            let error = format!("the provider answered {status}: {said}");
            return Err(Failure::of(class_of(status), error));
        }
        let answer = response.json().await;
        answer.map_err(|error| {
            Failure::in_doubt(format!("the provider's answer could not be read: {}", without_url(error)))
        })
    }
}

/// Builds the address of a resource, and reports a bad address now rather than at the first
/// request.
fn address(url: &str, path: &str) -> Result<reqwest::Url, BoxError> {
    let wrong = "the address must be http or https with a host and at most a path, such as https://payments.example.com";
    let base = reqwest::Url::parse(url).map_err(|error| format!("{error}; {wrong}"))?;
    let is_plain = base.query().is_none() && base.fragment().is_none();
    if !["http", "https"].contains(&base.scheme()) || !is_plain {
        return Err(wrong.into());
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err("the address must not hold a credential; put it in a secret".into());
    }
    if base.scheme() == "http" && !is_of_this_machine(&base) {
        return Err(
            "http is for a provider on this machine; use https, such as https://payments.example.com".into(),
        );
    }
    Ok(reqwest::Url::parse(&format!("{}/{path}", url.trim_end_matches('/')))?)
}

fn is_of_this_machine(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The class of a failure with this status.
///
/// 400, 402 and 422 are permanent: the provider refused. 429 and a status that reports a mistake of
/// this client (401, 403, 404 and similar) are transient: nothing happened, and a retry works once
/// the cause is fixed. The provider, or a proxy before it, counts requests before it acts on one or
/// passes it on, and no proxy turns a lost connection into 429. Everything else is in doubt, 503
/// included: a proxy that lost the provider after it passed the charge on answers 502, 503 or 504.
#[must_use]
pub fn class_of(status: StatusCode) -> Class {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYMENT_REQUIRED | StatusCode::UNPROCESSABLE_ENTITY => {
            Class::Permanent
        }
        // Refused before any charge: too many requests, or a mistake in the configuration.
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::UNSUPPORTED_MEDIA_TYPE => Class::Transient,
        _ => Class::InDoubt,
    }
}

/// The error and its cause, without the address, which may contain credentials.
fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_is_permanent_and_only_what_never_began_is_transient() {
        let classes = |codes: &[u16], class| {
            for code in codes {
                assert_eq!(class_of(StatusCode::from_u16(*code).unwrap()), class, "{code}");
            }
        };
        classes(&[400, 402, 422], Class::Permanent);
        classes(&[401, 403, 404, 405, 415, 429], Class::Transient);
        classes(&[301, 303, 307, 408, 409, 410, 425, 500, 502, 503, 504], Class::InDoubt);
    }

    #[tokio::test]
    async fn a_request_never_sent_is_transient_and_a_bad_address_is_found_at_start() {
        for odd in [
            "",
            "payments.example.com",
            "localhost:4001",
            "ftp://example.com",
            "https://",
            "http://a?b=c",
            "http://a#b",
            "http://payments.example.com",
            "http://127.0.0.1.example.com",
            "http://10.0.0.1",
        ] {
            let error = Payments::new(odd, Duration::from_secs(1)).unwrap_err().to_string();
            assert!(error.contains("such as https://payments.example.com"), "{odd}: {error}");
        }
        let error = Payments::new("https://shop:pass@example.com", Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "the address must not hold a credential; put it in a secret");
        for here in ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
            assert!(Payments::new(here, Duration::from_secs(1)).is_ok(), "{here}");
        }
        let unreachable = Payments::new("http://127.0.0.1:9/", Duration::from_secs(1)).unwrap();
        let charge = Charge { cents: 1, currency: "EUR".to_owned() };
        assert_eq!(unreachable.charge(&charge, "key".to_owned()).await.unwrap_err().class, Class::Transient);
    }
}
