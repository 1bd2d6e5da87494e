//! An SDK client suited to a Lambda function: one TLS stack, few dependencies, no lookup of
//! credentials.
//!
//! The settings of [`lambda`], and the reasons:
//!
//! | setting | instead of | saves | gives up |
//! |---|---|---|---|
//! | region and credentials from the environment | the chain of `aws-config` | its SDKs for STS and SSO, about 1 MB, and 0.4 ms | assumed roles, profiles |
//! | rustls with ring | aws-lc, the SDK's default | 38 ms of CPU at the first connection, which gathers entropy from jitter in the processor's timing; half a second at 128 MB of memory; and 2 MB | that second source of entropy: ring uses the entropy of the kernel; no FIPS |
//! | one attempt for each request | the SDK's three | nothing; see below | retries of your own calls through this client |
//! | a connect timeout of 1 second | 3.1 seconds | a second TLS handshake: connections are shared only between clients with equal timeouts, and a [`Locker`](crate::Locker) uses 1 second | tolerance of a slow network |
//! | a fixed behaviour version | the latest | changed behaviour when the SDK is updated | new defaults, until this library adopts them |
//!
//! A [`Locker`](crate::Locker) derives its own client from this client. The derived client has the
//! same HTTP client, credentials and endpoint. It makes one attempt for each request, since the
//! locker retries itself. It has the timeouts of the locker's [`Settings`](crate::Settings). It has
//! no protection against stalled streams, since a timeout ends the whole attempt, including its
//! body. Your own calls keep that protection.
//!
//! Further savings:
//!
//! - Use a runtime of one thread (`#[tokio::main(flavor = "current_thread")]`): a function handles
//!   one event at a time, and waking another thread is a large part of the cost of a call.
//! - Load fewer root certificates. They are read and parsed when the client is made. A file is
//!   cheaper than a directory, and a short file is cheaper still: set the variable `SSL_CERT_FILE`
//!   to a file, such as the system's bundle. A custom file has to contain the roots that AWS uses
//!   now and later, so it needs maintenance.
//! - Make the client once, outside the handler: Lambda gives a function a whole processor during
//!   initialisation, at any memory size.
//!
//! For figures and how they were measured, see `docs/evidence/performance.md`.
//!
//! Elsewhere (servers, the command, tests) use `aws-config` and pass its client to
//! [`Locker::new`](crate::Locker::new), which sets its own timeouts and retries.

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Region, SharedHttpClient};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_types::SdkConfig;

use crate::core::argument::{InvalidArgument, InvalidSetting};
use crate::settings::ATTEMPT_TIMEOUT;

/// Creates a client from the environment of a Lambda function.
///
/// It reads `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, and
/// `AWS_ENDPOINT_URL_DYNAMODB` or `AWS_ENDPOINT_URL` if set.
///
/// Sends nothing. Make it once, outside the handler.
///
/// # Errors
///
/// [`InvalidArgument`] if a variable is not set. The text names the variable.
pub fn lambda() -> Result<Client, InvalidArgument> {
    from_variables(variable)
}

/// Returns the configuration of [`lambda`] for clients of other services, such as the targets of
/// messages.
///
/// It reads the same variables, except `AWS_ENDPOINT_URL_DYNAMODB`. Clients that are made from one
/// configuration share its connections to one host.
///
/// # Errors
///
/// [`InvalidArgument`] if a variable is not set. The text names the variable.
pub fn config() -> Result<SdkConfig, InvalidArgument> {
    config_from(variable)
}

fn variable(variable: &'static str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

fn from_variables(get: impl Fn(&'static str) -> Option<String>) -> Result<Client, InvalidArgument> {
    let mut config = Config::from(&config_from(&get)?).to_builder();
    if let Some(url) = get("AWS_ENDPOINT_URL_DYNAMODB") {
        config.set_endpoint_url(Some(url));
    }
    Ok(Client::from_conf(config.build()))
}

fn config_from(get: impl Fn(&'static str) -> Option<String>) -> Result<SdkConfig, InvalidArgument> {
    let need = |variable| get(variable).ok_or(InvalidSetting::Variable { variable });
    let credentials = Credentials::new(
        need("AWS_ACCESS_KEY_ID")?,
        need("AWS_SECRET_ACCESS_KEY")?,
        get("AWS_SESSION_TOKEN"),
        None,
        "Lambda environment",
    );
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(need("AWS_REGION")?))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().connect_timeout(ATTEMPT_TIMEOUT).build())
        .http_client(http_client());
    config.set_endpoint_url(get("AWS_ENDPOINT_URL"));
    Ok(config.build())
}

/// The HTTP client that [`lambda`] uses, for a client that you build yourself: rustls with ring.
#[must_use]
pub fn http_client() -> SharedHttpClient {
    Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::ProvideCredentials as _;

    use super::*;

    #[test]
    fn a_missing_variable_is_named() {
        let error = from_variables(|name| (name != "AWS_REGION").then(|| "x".to_owned())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "AWS_REGION is not set; AWS Lambda sets it; outside Lambda, build the client with aws-config"
        );
    }

    #[tokio::test]
    async fn client_signs_with_all_three_credentials_of_the_environment() {
        let config = config_from(|name| Some(format!("{name}-1"))).unwrap();
        let found = config.credentials_provider().unwrap().provide_credentials().await.unwrap();
        let found = [Some(found.access_key_id()), Some(found.secret_access_key()), found.session_token()];
        let expected = ["AWS_ACCESS_KEY_ID-1", "AWS_SECRET_ACCESS_KEY-1", "AWS_SESSION_TOKEN-1"];
        assert_eq!(found, expected.map(Some));
    }

    #[test]
    fn a_locker_shares_the_clients_connections() {
        let client = from_variables(|name| Some(format!("{name}-1"))).unwrap();
        let timeouts = client.config().timeout_config().unwrap();
        assert_eq!(timeouts.connect_timeout(), Some(crate::Settings::default().attempt_timeout));
        // A different read timeout would separate them as well.
        assert_eq!(timeouts.read_timeout(), None);
    }

    #[test]
    fn the_client_takes_its_region_from_the_environment() {
        let client = from_variables(|name| Some(format!("{name}-1"))).unwrap();
        assert_eq!(client.config().region().map(Region::as_ref), Some("AWS_REGION-1"));
    }
}
