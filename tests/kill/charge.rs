//! What asks the provider, other than the functions, which do it their own way.

use std::process::ExitCode;
use std::time::Duration;

use locker::{Class, Failure};
use nix::sys::signal::{Signal, raise};
use serde_json::Value;

/// Charge for a token, and say what is known if that fails.
pub(crate) async fn charge(
    http: &reqwest::Client,
    provider: &str,
    token: &str,
    attempt: Option<&str>,
) -> Result<String, Failure> {
    let url = format!("{provider}/charges");
    let mut request = http.post(url).header("Idempotency-Key", token).timeout(Duration::from_secs(4));
    if let Some(attempt) = attempt {
        request = request.header("X-Attempt", attempt);
    }
    let request = request.json(&serde_json::json!({ "cents": 1000, "currency": "EUR" }));
    let response = request.send().await.map_err(|error| match error.is_connect() {
        true => Failure::transient("not sent".to_owned()),
        false => Failure::in_doubt("no answer".to_owned()),
    })?;
    match response.status().as_u16() {
        200 => {}
        402 => return Err(Failure::permanent("declined".to_owned())),
        503 => return Err(Failure::transient("busy".to_owned())),
        _ => return Err(Failure::in_doubt("an odd answer".to_owned())),
    }
    let receipt: Value = response.json().await.map_err(|_| Failure::in_doubt("it broke off".to_owned()))?;
    Ok(receipt["charge"].as_str().expect("a receipt").to_owned())
}

/// The child of `locker once --retry-on-failure`.
pub(crate) async fn run(provider: &str, token: &str) -> ExitCode {
    match charge(&reqwest::Client::new(), provider, token, None).await {
        Ok(receipt) => {
            println!("{receipt}");
            ExitCode::SUCCESS
        }
        Err(failure) if failure.class == Class::InDoubt => {
            // A command that a signal ends is in doubt.
            let _ = raise(Signal::SIGKILL);
            ExitCode::FAILURE
        }
        Err(_) => ExitCode::FAILURE,
    }
}
