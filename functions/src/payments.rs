//! The payment provider, over HTTP: what it answered, and what that means.

use std::time::Duration;

use locker::{BoxError, Class, Failure};
use reqwest::StatusCode;
use serde::de::DeserializeOwned;
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

/// What is given back: whatever was charged under this key, and nothing ever will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundRequest {
    /// The idempotency key of the charge.
    pub charge_key: String,
}

/// What the provider answers to that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The provider's number for the refund. `None`: nothing had been charged, and a charge that comes late is refused.
    pub refund: Option<String>,
}

/// A client of the provider.
#[derive(Debug, Clone)]
pub struct Payments {
    http: reqwest::Client,
    charges: reqwest::Url,
    refunds: reqwest::Url,
    timeout: Duration,
}

impl Payments {
    /// A client of the provider at an address, that waits so long for a reply.
    ///
    /// # Errors
    ///
    /// If the address is not `http` or `https` and a host, or the HTTP client cannot be built.
    pub fn new(url: impl Into<String>, timeout: Duration) -> Result<Self, BoxError> {
        // The process has one provider of cryptography. If another was chosen first, that one serves.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = url.into();
        let (charges, refunds) = (address(&url, "charges")?, address(&url, "refunds")?);
        // A redirect would be a second request, whose failure says nothing about the first.
        let redirect = reqwest::redirect::Policy::none();
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .connect_timeout(timeout)
            .redirect(redirect)
            .build()?;
        Ok(Self { http, charges, refunds, timeout })
    }

    /// How long it waits for a reply.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Charge, under an idempotency key of the provider's own.
    ///
    /// # Errors
    ///
    /// By what is known: a connection that did not come about, 429, 503, and what says that *we* are wrong (401,
    /// 403, 404 and the like) are transient: nothing happened, and it works once that is mended. 400, 402 and 422
    /// are permanent: the provider said no. All else (a timeout, a dropped connection, a redirect, another 5xx,
    /// an answer that cannot be read) is in doubt.
    pub async fn charge(&self, charge: &Charge, idempotency_key: String) -> Result<Receipt, Failure> {
        self.post(&self.charges, charge, idempotency_key).await
    }

    /// Give back what was charged under a key, and see to it that nothing ever is.
    ///
    /// # Errors
    ///
    /// As of [`charge`](Self::charge).
    pub async fn refund(&self, request: &RefundRequest, idempotency_key: String) -> Result<Refund, Failure> {
        self.post(&self.refunds, request, idempotency_key).await
    }

    /// What was charged under a key. `None`: nothing; then the same key may be sent again, whatever of it is still
    /// on its way, since the provider charges once for each key.
    ///
    /// # Errors
    ///
    /// If the provider does not say.
    pub async fn find(&self, idempotency_key: &str) -> Result<Option<Receipt>, BoxError> {
        let mut url = self.charges.clone();
        url.path_segments_mut().map_err(|()| "the address takes no path")?.push(idempotency_key);
        let response = self.http.get(url).send().await.map_err(without_url)?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(response.json().await.map_err(without_url)?)),
            status => Err(format!("the provider answered {status}").into()),
        }
    }

    async fn post<T: DeserializeOwned>(
        &self,
        url: &reqwest::Url,
        body: &(impl Serialize + Sync),
        idempotency_key: String,
    ) -> Result<T, Failure> {
        let request = self.http.post(url.clone()).header("Idempotency-Key", idempotency_key);
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
            Failure::in_doubt(format!("the provider's answer broke off: {}", without_url(error)))
        })
    }
}

/// Where something is asked for. What a client would only find out when it sends is found out here.
fn address(url: &str, path: &str) -> Result<reqwest::Url, BoxError> {
    let wrong =
        "an address is http or https, a host and at most a path, such as https://payments.example.com";
    let base = reqwest::Url::parse(url).map_err(|error| format!("{error}; {wrong}"))?;
    let is_plain = base.query().is_none() && base.fragment().is_none();
    if !["http", "https"].contains(&base.scheme()) || !is_plain {
        return Err(wrong.into());
    }
    Ok(reqwest::Url::parse(&format!("{}/{path}", url.trim_end_matches('/')))?)
}

/// What a refusal means.
#[must_use]
pub fn class_of(status: StatusCode) -> Class {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYMENT_REQUIRED | StatusCode::UNPROCESSABLE_ENTITY => {
            Class::Permanent
        }
        // It never came to a charge: too busy, or not for us, which somebody has to mend.
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::UNSUPPORTED_MEDIA_TYPE => Class::Transient,
        _ => Class::InDoubt,
    }
}

/// The address may hold credentials.
fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_no_is_kept_and_only_what_never_began_is_tried_again() {
        let classes = |codes: &[u16], class| {
            for code in codes {
                assert_eq!(class_of(StatusCode::from_u16(*code).unwrap()), class, "{code}");
            }
        };
        classes(&[400, 402, 422], Class::Permanent);
        classes(&[401, 403, 404, 405, 415, 429, 503], Class::Transient);
        classes(&[301, 303, 307, 408, 409, 410, 500, 502, 504], Class::InDoubt);
    }

    #[tokio::test]
    async fn what_was_never_sent_is_transient_and_an_odd_address_is_found_at_start() {
        for odd in [
            "",
            "payments.example.com",
            "localhost:4001",
            "ftp://example.com",
            "https://",
            "http://a?b=c",
            "http://a#b",
        ] {
            let error = Payments::new(odd, Duration::from_secs(1)).unwrap_err().to_string();
            assert!(error.contains("such as https://payments.example.com"), "{odd}: {error}");
        }
        let nobody = Payments::new("http://127.0.0.1:9/", Duration::from_secs(1)).unwrap();
        let charge = Charge { cents: 1, currency: "EUR".to_owned() };
        assert_eq!(nobody.charge(&charge, "key".to_owned()).await.unwrap_err().class, Class::Transient);
    }
}
