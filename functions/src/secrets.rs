//! Secrets of a function: read from AWS Secrets Manager once, at start.
//!
//! A rotated secret is used by execution environments that start after the rotation.

use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_secretsmanager::config::retry::RetryConfig;
use aws_sdk_secretsmanager::config::timeout::TimeoutConfig;
use aws_sdk_secretsmanager::config::{BehaviorVersion, Config, Region};
use aws_sdk_secretsmanager::error::{DisplayErrorContext, ProvideErrorMetadata as _, SdkError};
use aws_sdk_secretsmanager::operation::get_secret_value::GetSecretValueError;
use locker::FingerprintKey;
use serde::Deserialize;

use crate::settings::{InvalidEnvironment, Variables, environment, optional, required};

/// The variable that names the secret with the payment provider's credential.
const PAYMENTS: &str = "PAYMENTS_SECRET_ARN";
/// The variable that names the secret with the keys of fingerprints.
const FINGERPRINTS: &str = "LOCKER_FINGERPRINT_SECRET_ARN";

/// What a function keeps from readers of its configuration. The default has no secrets.
#[derive(Default)]
pub struct Secrets {
    pub(crate) payments: Option<String>,
    pub(crate) fingerprints: Vec<FingerprintKey>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets")
            .field("payments", &self.payments.is_some())
            .field("fingerprints", &self.fingerprints)
            .finish()
    }
}

impl Secrets {
    /// Read the secrets that `PAYMENTS_SECRET_ARN` and `LOCKER_FINGERPRINT_SECRET_ARN` name. A variable that is not set
    /// or empty names none, and without both nothing is sent.
    ///
    /// The first is the payment provider's bearer token. The second is a JSON array of keys, such as
    /// `[{"id":"k2","secret":"..."},{"id":"k1","secret":"..."}]`: the first signs fingerprints, and the others verify what
    /// they signed before. A secret has at least 16 bytes; 32 random ones are better.
    ///
    /// # Errors
    ///
    /// [`InvalidEnvironment`], which names the variable, and never holds a secret.
    pub async fn read() -> Result<Self, InvalidEnvironment> {
        Self::of(&environment).await
    }

    async fn of(variables: Variables<'_>) -> Result<Self, InvalidEnvironment> {
        let (payments, fingerprints) = (optional(variables, PAYMENTS)?, optional(variables, FINGERPRINTS)?);
        if payments.is_none() && fingerprints.is_none() {
            return Ok(Self::default());
        }
        let store = Store::new(variables)?;
        let (payments, fingerprints) =
            tokio::try_join!(store.get(PAYMENTS, payments), store.get(FINGERPRINTS, fingerprints))?;
        let fingerprints = fingerprints.as_deref().map(keys).transpose()?;
        Ok(Self { payments, fingerprints: fingerprints.unwrap_or_default() })
    }
}

/// Secrets Manager.
struct Store(aws_sdk_secretsmanager::Client);

impl Store {
    fn new(variables: Variables<'_>) -> Result<Self, InvalidEnvironment> {
        let credentials = Credentials::new(
            required(variables, "AWS_ACCESS_KEY_ID")?,
            required(variables, "AWS_SECRET_ACCESS_KEY")?,
            optional(variables, "AWS_SESSION_TOKEN")?,
            None,
            "Lambda environment",
        );
        // Lambda gives an environment 10 seconds to start.
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(1))
            .operation_attempt_timeout(Duration::from_secs(2))
            .operation_timeout(Duration::from_secs(6));
        let mut config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(required(variables, "AWS_REGION")?))
            .credentials_provider(credentials)
            .retry_config(RetryConfig::standard())
            .timeout_config(timeouts.build())
            .http_client(locker::client::http_client());
        let endpoint = optional(variables, "AWS_ENDPOINT_URL_SECRETS_MANAGER")?;
        config.set_endpoint_url(
            endpoint.map_or_else(|| optional(variables, "AWS_ENDPOINT_URL"), |url| Ok(Some(url)))?,
        );
        Ok(Self(aws_sdk_secretsmanager::Client::from_conf(config.build())))
    }

    async fn get(
        &self,
        variable: &'static str,
        arn: Option<String>,
    ) -> Result<Option<String>, InvalidEnvironment> {
        let Some(arn) = arn else { return Ok(None) };
        let unreadable = |cause: String| InvalidEnvironment::Secret { variable, cause };
        let answer = self.0.get_secret_value().secret_id(arn).send().await;
        let answer = answer.map_err(|error| unreadable(cause(&error)))?;
        let text = answer.secret_string.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        text.map(Some).ok_or_else(|| unreadable("it holds no text".to_owned()))
    }
}

/// Why there is no secret. A reply that cannot be read may hold it, so it is not shown.
fn cause(error: &SdkError<GetSecretValueError>) -> String {
    match (error, error.code()) {
        (_, Some(code)) => format!("{code}: {}", error.message().unwrap_or_default()),
        (SdkError::ServiceError(_) | SdkError::ResponseError(_), None) => {
            "the answer of Secrets Manager cannot be read".to_owned()
        }
        _ => DisplayErrorContext(error).to_string(),
    }
}

#[derive(Deserialize)]
struct StoredKey {
    id: String,
    secret: String,
}

fn keys(text: &str) -> Result<Vec<FingerprintKey>, InvalidEnvironment> {
    let wrong = |cause: String| InvalidEnvironment::Secret { variable: FINGERPRINTS, cause };
    // The parser's own message may quote the text.
    let stored: Vec<StoredKey> = serde_json::from_str(text).map_err(|_| {
        wrong(
            r#"it is not a JSON array of keys, such as [{"id":"k1","secret":"32 random bytes"}]"#.to_owned(),
        )
    })?;
    if stored.is_empty() {
        return Err(wrong("it has no key".to_owned()));
    }
    for (number, key) in stored.iter().enumerate() {
        if stored[..number].iter().any(|before| before.id == key.id) {
            return Err(wrong(format!("two of its keys have the id {}", key.id)));
        }
    }
    let keys = stored.into_iter().map(|key| FingerprintKey::new(key.id, key.secret));
    keys.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn without_variables_there_are_no_secrets() {
        let secrets = Secrets::of(&|_| None).await.unwrap();
        assert!(secrets.payments.is_none() && secrets.fingerprints.is_empty());
        let empty = Secrets::of(&|name| name.ends_with("_ARN").then(Default::default)).await.unwrap();
        assert!(empty.payments.is_none() && empty.fingerprints.is_empty());
    }

    #[tokio::test]
    async fn a_reply_that_cannot_be_read_is_not_shown() {
        const TOKEN: &str = "a-token-of-the-provider";
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.read(&mut [0; 4096]).await;
                let body = format!(r#"{{"SecretString":"{TOKEN}","CreatedDate":"yesterday"}}"#);
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        let variables = move |name: &'static str| -> Option<OsString> {
            Some(match name {
                PAYMENTS => "arn:aws:secretsmanager:eu-west-1:123456789012:secret:provider".into(),
                "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => "test".into(),
                "AWS_REGION" => "eu-west-1".into(),
                "AWS_ENDPOINT_URL_SECRETS_MANAGER" => url.clone().into(),
                _ => return None,
            })
        };
        let error = Secrets::of(&variables).await.unwrap_err().to_string();
        assert!(error.contains(PAYMENTS), "{error}");
        assert!(!error.contains(TOKEN), "{error}");
    }

    #[test]
    fn keys_are_taken_in_their_order_or_refused_without_being_shown() {
        let secret = "0123456789abcdef";
        let key = |id: &str, secret: &str| format!(r#"{{"id":"{id}","secret":"{secret}"}}"#);
        let two = format!("[{},{}]", key("k2", secret), key("k1", secret));
        assert_eq!(format!("{:?}", keys(&two).unwrap()), "[FingerprintKey(k2), FingerprintKey(k1)]");
        for (text, says) in [
            (secret.to_owned(), "it is not a JSON array"),
            (format!("\"{secret}\""), "it is not a JSON array"),
            (key("k1", secret), "it is not a JSON array"),
            ("[]".to_owned(), "it has no key"),
            (format!("[{},{}]", key("k1", secret), key("k1", secret)), "two of its keys have the id k1"),
            (format!("[{}]", key("k 1", secret)), "the name of a fingerprint key must be"),
            (format!("[{}]", key("k1", &secret[1..])), "has 15 bytes"),
        ] {
            let error = keys(&text).unwrap_err().to_string();
            assert!(error.contains(FINGERPRINTS) && error.contains(says), "{text}: {error}");
            assert!(!error.contains(&secret[1..]), "{text}: {error}");
        }
    }
}
