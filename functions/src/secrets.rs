//! Secrets of a function: read from AWS Secrets Manager once, at start.
//!
//! A rotated secret is used by execution environments that start after the rotation.

use std::time::Duration;

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::config::retry::RetryConfig;
use aws_sdk_secretsmanager::config::{Builder, timeout::TimeoutConfig};
use aws_sdk_secretsmanager::error::{DisplayErrorContext, ProvideErrorMetadata as _, SdkError};
use locker::FingerprintKey;
use serde::Deserialize;

use crate::environment::{CannotStart, Environment};

/// The secrets of a function, which readers of its configuration do not see.
#[derive(Default)]
pub(crate) struct Secrets {
    /// The bearer token for the payment provider.
    pub(crate) payments: Option<String>,
    /// The first key signs fingerprints. The others verify fingerprints that they signed before.
    pub(crate) fingerprints: Vec<FingerprintKey>,
}

impl Secrets {
    /// Reads the secrets that `PAYMENTS_SECRET_ARN` and `LOCKER_FINGERPRINT_SECRET_ARN` name.
    /// Without both, nothing is sent. An error names the variable, and never contains a secret.
    pub(crate) async fn read(environment: &Environment) -> Result<Self, CannotStart> {
        let Environment { payments_secret, fingerprint_secret, secrets_endpoint, .. } = environment;
        if payments_secret.is_empty() && fingerprint_secret.is_empty() {
            return Ok(Self::default());
        }
        // Lambda gives an execution environment 10 seconds to start.
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(1))
            .operation_attempt_timeout(Duration::from_secs(2))
            .operation_timeout(Duration::from_secs(6));
        let mut config = Builder::from(&locker::client::config().map_err(CannotStart::of)?)
            .retry_config(RetryConfig::standard())
            .timeout_config(timeouts.build());
        if !secrets_endpoint.is_empty() {
            config.set_endpoint_url(Some(secrets_endpoint.clone()));
        }
        let client = Client::from_conf(config.build());
        let (payments, fingerprints) =
            tokio::join!(get(&client, payments_secret), get(&client, fingerprint_secret));
        let unusable = |variable: &'static str| {
            move |cause| {
                let advice = "correct the secret or the template";
                CannotStart(format!("the secret that {variable} names cannot be used: {cause}; {advice}"))
            }
        };
        let fingerprints = fingerprints.and_then(|text| text.map_or(Ok(Vec::new()), |text| keys(&text)));
        Ok(Self {
            payments: payments.map_err(unusable("PAYMENTS_SECRET_ARN"))?,
            fingerprints: fingerprints.map_err(unusable("LOCKER_FINGERPRINT_SECRET_ARN"))?,
        })
    }
}

/// The text of a secret, or why there is none.
async fn get(client: &Client, arn: &str) -> Result<Option<String>, String> {
    if arn.is_empty() {
        return Ok(None);
    }
    let answer = client.get_secret_value().secret_id(arn).send().await.map_err(|error| {
        match (&error, error.code()) {
            (_, Some(code)) => format!("{code}: {}", error.message().unwrap_or_default()),
            // The reply may contain the secret.
            (SdkError::ServiceError(_) | SdkError::ResponseError(_), None) => {
                "the answer of Secrets Manager cannot be read".to_owned()
            }
            _ => DisplayErrorContext(&error).to_string(),
        }
    })?;
    let text = answer.secret_string.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    text.map(Some).ok_or_else(|| "it holds no text".to_owned())
}

#[derive(Deserialize)]
struct StoredKey {
    id: String,
    secret: String,
}

/// The keys of a secret such as `[{"id":"k2","secret":"..."},{"id":"k1","secret":"..."}]`.
fn keys(text: &str) -> Result<Vec<FingerprintKey>, String> {
    // The parser's own message may quote the text.
    let stored: Vec<StoredKey> = serde_json::from_str(text).map_err(|_| {
        r#"it is not a JSON array of keys, such as [{"id":"k1","secret":"32 random bytes"}]"#.to_owned()
    })?;
    if stored.is_empty() {
        return Err("it has no key".to_owned());
    }
    for (number, key) in stored.iter().enumerate() {
        if stored[..number].iter().any(|before| before.id == key.id) {
            return Err(format!("two of its keys have the id {}", key.id));
        }
    }
    let keys = stored.into_iter().map(|key| FingerprintKey::new(key.id, key.secret));
    keys.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_in_their_order_or_refused_without_being_shown() {
        let secret = "0123456789abcdef";
        let key = |id: &str, secret: &str| format!(r#"{{"id":"{id}","secret":"{secret}"}}"#);
        let two = format!("[{},{}]", key("k2", secret), key("k1", secret));
        let shown = format!("{:?}", keys(&two).unwrap());
        assert!(shown.find("k2") < shown.find("k1") && !shown.contains(secret), "{shown}");
        for (text, says) in [
            (secret.to_owned(), "it is not a JSON array"),
            (key("k1", secret), "it is not a JSON array"),
            ("[]".to_owned(), "it has no key"),
            (format!("[{},{}]", key("k1", secret), key("k1", secret)), "two of its keys have the id k1"),
            (format!("[{}]", key("k 1", secret)), "the name of a fingerprint key must be"),
            (format!("[{}]", key("k1", &secret[1..])), "has 15 bytes"),
        ] {
            let error = keys(&text).unwrap_err();
            assert!(error.contains(says) && !error.contains(&secret[1..]), "{text}: {error}");
        }
    }
}
