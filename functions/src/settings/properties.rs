//! Any environment yields settings, or an error that names the variable and says what to do.

use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt as _;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 11] = [
    "LOCKER_TABLE",
    "LOCKER_WORKFLOWS_TABLE",
    "ORDERS_TABLE",
    "LOCKER_SHARDS",
    "LOCKER_ATTEMPTS",
    "LOCKER_RETRY_HOURS",
    "LOCKER_CONCURRENCY",
    "LOCKER_KEYS_IN_LOGS",
    "PAYMENTS_URL",
    "PAYMENTS_TIMEOUT_MS",
    "FUNCTION_TIMEOUT_MS",
];

type Environment = HashMap<&'static str, OsString>;

fn value() -> impl Strategy<Value = OsString> {
    let known = prop::sample::select(vec![
        "locks",
        "1",
        "0",
        "1000",
        "1001",
        "65536",
        "-1",
        "+4",
        " 4",
        "4 ",
        "1e3",
        "0x10",
        "NaN",
        "900000",
        "900001",
        "18446744073709551615",
        "18446744073709551616",
        "http://127.0.0.1:9",
        "clear",
        "digest",
        "Digest",
        "https://a.example/b/",
        "localhost:4001",
        "http://",
        "//a",
        "http://[",
        "http://a:99999",
        "file:///etc/passwd",
        "http://a?b",
        "arn:aws:dynamodb:eu-west-1:1:table/x",
    ]);
    let bytes = prop::collection::vec(1_u8.., 0..12).prop_map(OsString::from_vec);
    prop_oneof![6 => known.prop_map(OsString::from), 2 => "\\PC{0,20}".prop_map(OsString::from), 1 => bytes]
}

fn environment() -> impl Strategy<Value = Environment> {
    prop::collection::hash_map(prop::sample::select(NAMES.to_vec()), value(), 0..=NAMES.len())
}

/// Whether the error names the variable and says what to do.
fn says_what_to_do(error: &InvalidEnvironment) -> bool {
    let said = error.to_string();
    match error {
        InvalidEnvironment::Missing(name) => said == format!("{name} is not set; the template sets it"),
        InvalidEnvironment::Value(name, _) => {
            said.starts_with(name) && said.ends_with("; correct it in the template")
        }
        InvalidEnvironment::Payments(_) => {
            said.contains("PAYMENTS_URL")
                && (said.contains("such as https://") || said.contains("in a secret"))
        }
        InvalidEnvironment::Locker(_) => said.starts_with("a table name must be 3 to 255 letters"),
        InvalidEnvironment::Timeouts { .. } => {
            said.starts_with("PAYMENTS_TIMEOUT_MS and FUNCTION_TIMEOUT_MS")
                && said.ends_with("; correct them in the template")
        }
        InvalidEnvironment::Client(_) | InvalidEnvironment::Secret { .. } => false,
    }
}

proptest! {
    #[test]
    fn any_environment_is_settings_or_says_what_to_do(environment in environment()) {
        let variables = |name: &'static str| environment.get(name).cloned();
        let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        match payments_of(&variables) {
            Ok(payments) => {
                prop_assert!((1..=900_000).contains(&payments.timeout().as_millis()));
                prop_assert!(set("PAYMENTS_URL").is_some_and(|url| url.to_string_lossy().starts_with("http")));
                let client = locker_tests::client_for("http://127.0.0.1:9", locker::client::http_client());
                let shop = Shop::new(Locker::new(&client, "locks").expect("a locker"), payments);
                if let Err(error) = fits(&variables, &shop) {
                    prop_assert!(says_what_to_do(&error), "{}", error);
                }
            }
            Err(error) => prop_assert!(says_what_to_do(&error), "{}", error),
        }
        match limits(&variables) {
            Ok(limits) => prop_assert!((1..=1000).contains(&limits.attempts)),
            Err(error) => prop_assert!(says_what_to_do(&error), "{}", error),
        }
        match concurrency_of(&variables) {
            Ok(concurrency) => prop_assert!(concurrency.is_none_or(|many| (1..=1000).contains(&many))),
            Err(error) => prop_assert!(says_what_to_do(&error), "{}", error),
        }
        match rows(&variables) {
            Ok(table) => prop_assert_eq!(set("ORDERS_TABLE").and_then(|table| table.to_str()), Some(table.as_str())),
            Err(error) => prop_assert!(says_what_to_do(&error), "{}", error),
        }
        match table(&variables, "LOCKER_TABLE") {
            Ok((table, settings)) => {
                prop_assert_eq!(set("LOCKER_TABLE").and_then(|table| table.to_str()), Some(table.as_str()));
                prop_assert!(set("LOCKER_SHARDS").is_some() || settings.shards == 1, "a number that was not set");
                let client = locker_tests::client_for("http://127.0.0.1:9", locker::client::http_client());
                if let Err(error) = Locker::builder(&client, table).settings(settings).build() {
                    prop_assert!(says_what_to_do(&error.into()));
                }
            }
            Err(error) => prop_assert!(says_what_to_do(&error), "{}", error),
        }
    }
}

#[test]
fn a_value_out_of_range_is_refused_and_not_replaced() {
    let refusal = |name: &'static str, value: &[u8]| {
        let value = OsString::from_vec(value.to_vec());
        let others = |other: &str| (other == "PAYMENTS_URL").then(|| "http://127.0.0.1:9".into());
        let variables = |asked: &'static str| if asked == name { Some(value.clone()) } else { others(asked) };
        let errors = [
            table(&variables, "LOCKER_TABLE").err(),
            payments_of(&variables).err(),
            limits(&variables).err(),
            concurrency_of(&variables).err(),
        ];
        let said = errors.into_iter().flatten().map(|error| error.to_string());
        said.filter(|said| !said.starts_with("LOCKER_TABLE")).collect::<String>()
    };
    assert_eq!(
        refusal("LOCKER_SHARDS", b"70000"),
        "LOCKER_SHARDS is not a number from 1 to 1000; correct it in the template"
    );
    assert_eq!(refusal("LOCKER_SHARDS", b"4\xff"), "LOCKER_SHARDS is not UTF-8; correct it in the template");
    assert_eq!(
        refusal("LOCKER_KEYS_IN_LOGS", b"none"),
        "LOCKER_KEYS_IN_LOGS is not clear or digest; correct it in the template"
    );
    for attempts in ["0", "1001", "-1"] {
        assert_eq!(
            refusal("LOCKER_ATTEMPTS", attempts.as_bytes()),
            "LOCKER_ATTEMPTS is not a number from 1 to 1000; correct it in the template"
        );
    }
    let wrong =
        "PAYMENTS_TIMEOUT_MS is not a number of milliseconds from 1 to 900000; correct it in the template";
    for timeout in ["0", "900001", "18446744073709551615", "5s"] {
        assert_eq!(refusal("PAYMENTS_TIMEOUT_MS", timeout.as_bytes()), wrong);
    }
    assert!(
        refusal("PAYMENTS_URL", b"localhost:4001")
            .starts_with("PAYMENTS_URL cannot be used: the address must be http")
    );
}
