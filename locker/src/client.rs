//! An SDK client as a Lambda function should have it: one TLS stack, few parts, and nothing to look up.
//!
//! Region and credentials of a function stand in its environment, so the chain of `aws-config` and
//! its HTTP calls are not needed. TLS is rustls with ring: the SDK's own default, aws-lc, spends tens
//! of milliseconds of CPU on entropy at its first connection, which at 128 MB of memory is half a second.
//!
//! Elsewhere (servers, the command, tests) use `aws-config` and hand its client to
//! [`Locker::new`](crate::Locker::new), which sets its own timeouts and retries.

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Region, SharedHttpClient};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

/// Why there is no client: the environment is not that of a Lambda function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is not set; AWS Lambda sets it, and elsewhere aws-config finds its value")]
pub struct MissingVariable {
    variable: &'static str,
}

/// A client from the environment of a Lambda function: `AWS_REGION`, `AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, and `AWS_ENDPOINT_URL_DYNAMODB` or `AWS_ENDPOINT_URL`
/// if set.
///
/// Sends nothing. Make it once, outside the handler.
///
/// # Errors
///
/// [`MissingVariable`], which names it.
pub fn lambda() -> Result<Client, MissingVariable> {
    from_variables(|variable| std::env::var(variable).ok().filter(|value| !value.is_empty()))
}

fn from_variables(get: impl Fn(&'static str) -> Option<String>) -> Result<Client, MissingVariable> {
    let need = |variable| get(variable).ok_or(MissingVariable { variable });
    let credentials = Credentials::new(
        need("AWS_ACCESS_KEY_ID")?,
        need("AWS_SECRET_ACCESS_KEY")?,
        get("AWS_SESSION_TOKEN"),
        None,
        "Lambda environment",
    );
    let endpoint = get("AWS_ENDPOINT_URL_DYNAMODB").or_else(|| get("AWS_ENDPOINT_URL"));
    let mut config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(need("AWS_REGION")?))
        .credentials_provider(credentials)
        .retry_config(RetryConfig::disabled())
        .http_client(http_client());
    config.set_endpoint_url(endpoint);
    Ok(Client::from_conf(config.build()))
}

/// The HTTP client of [`lambda`], for a client of one's own: rustls with ring.
#[must_use]
pub fn http_client() -> SharedHttpClient {
    Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_variable_is_named() {
        let error = from_variables(|name| (name != "AWS_REGION").then(|| "x".to_owned())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "AWS_REGION is not set; AWS Lambda sets it, and elsewhere aws-config finds its value"
        );
    }

    #[test]
    fn the_client_takes_its_region_from_the_environment() {
        let client = from_variables(|name| Some(format!("{name}-1"))).unwrap();
        assert_eq!(client.config().region().map(Region::as_ref), Some("AWS_REGION-1"));
    }
}
