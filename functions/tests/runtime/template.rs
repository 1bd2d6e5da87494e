//! The template deploys what the code needs: its tables, binaries, variables and parameters are
//! compared with the code.

use std::collections::BTreeSet;

use serde_yaml_ng::Value;

use crate::packers::resolved;

pub(crate) fn yaml(text: &str) -> Value {
    serde_yaml_ng::from_str(text).expect("YAML")
}

/// The template, with packers.
pub(crate) fn template() -> Value {
    resolved(&yaml(include_str!("../../../template.yaml")), true)
}

/// What watches a stack with packers.
pub(crate) fn monitoring() -> Value {
    resolved(&yaml(include_str!("../../../infra/monitoring.yaml")), true)
}

/// The resources of a type, with their names.
pub(crate) fn resources<'a>(template: &'a Value, kind: &str) -> Vec<(&'a str, &'a Value)> {
    let all = template["Resources"].as_mapping().expect("resources").iter();
    all.filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.as_str().expect("a name"), resource))
        .collect()
}

#[test]
fn every_binary_is_deployed_and_every_function_has_one() {
    let deployed: BTreeSet<String> = resources(&template(), "AWS::Serverless::Function")
        .into_iter()
        .map(|(_, function)| {
            assert_eq!(function["Metadata"]["BuildMethod"], "rust-cargolambda");
            function["Metadata"]["BuildProperties"]["Binary"].as_str().expect("a binary").to_owned()
        })
        .collect();
    let built = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin")).expect("binaries");
    let built: BTreeSet<String> = built
        .map(|file| file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(deployed, built);
}

#[test]
fn the_tables_are_what_the_code_checks_for() {
    let template = template();
    let keys = |keys: &Value| -> Vec<String> {
        let keys = keys.as_sequence().expect("keys").iter();
        keys.map(|key| key["AttributeName"].as_str().expect("a name").to_owned()).collect()
    };
    for (name, key, due, projected) in [
        (
            "Locks",
            &["lockToken"][..],
            "expectedCompletion",
            "[created, lockedBy, attempt, class, cause, resolution, resolvedBy, resolvedReason, within]",
        ),
        (
            "Workflows",
            &["workflow", "item"],
            "nextDue",
            "[name, subject, expires, code, state, created, lockedBy, attempts, lostInARow, since, reason, revision, class, cause, resolution, resolvedBy, resolvedReason, step, within]",
        ),
    ] {
        let table = &template["Resources"][name]["Properties"];
        assert_eq!(keys(&table["KeySchema"]), key);
        let index = &table["GlobalSecondaryIndexes"][0];
        assert_eq!(index["IndexName"], "byStatus");
        assert_eq!(keys(&index["KeySchema"]), ["status", due]);
        assert_eq!(index["Projection"]["NonKeyAttributes"], yaml(projected));
        assert_eq!(table["TimeToLiveSpecification"], yaml("{ AttributeName: ttl, Enabled: true }"));
    }
    assert_eq!(keys(&template["Resources"]["OrdersTable"]["Properties"]["KeySchema"]), ["id"]);
    let tables = resources(&template, "AWS::DynamoDB::Table");
    assert_eq!(tables.len(), 3);
    for (name, table) in tables {
        assert_eq!(table["DeletionPolicy"], "RetainExceptOnCreate", "{name}");
        let table = &table["Properties"];
        assert_eq!(table["BillingMode"], "PAY_PER_REQUEST", "{name}");
        assert_eq!(table["DeletionProtectionEnabled"], true, "{name}");
        assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true, "{name}");
    }
}

/// The variables that the functions with workflows read at start.
#[test]
fn functions_that_drive_purchases_get_their_tables() {
    for (name, function) in resources(&template(), "AWS::Serverless::Function") {
        let variables = &function["Properties"]["Environment"]["Variables"];
        let drives = ["Orders", "Completer", "Reaper"].contains(&name);
        let is_one_of = |names: &[&str]| drives || names.contains(&name);
        for (variable, resource, is_told) in [
            ("LOCKER_WORKFLOWS_TABLE", "Workflows", is_one_of(&["Relay", "Packer"])),
            ("ORDERS_TABLE", "OrdersTable", is_one_of(&["Packer"])),
            ("PACKING_QUEUE_URL", "Packing", is_one_of(&["Relay", "Packer"])),
        ] {
            assert_eq!(variables[variable]["Ref"] == resource, is_told, "{name}: {variable}");
        }
        let concurrency = &variables["LOCKER_CONCURRENCY"]["Ref"];
        assert_eq!(*concurrency == format!("{name}Concurrency"), drives && name != "Orders", "{name}");
        assert!(!drives || variables["PAYMENTS_URL"]["Ref"] == "PaymentsUrl", "{name}");
    }
}

/// What a deployment would otherwise only seem to have done.
#[test]
fn parameters_say_what_they_take_and_an_api_without_its_authorizer_is_not_made() {
    let template = template();
    assert_eq!(template["Resources"]["Api"]["Properties"]["FailOnWarnings"], true);
    for (url, pattern) in [("PaymentsUrl", "https://[^@]+"), ("JwtIssuer", "https://.+")] {
        assert_eq!(template["Parameters"][url]["AllowedPattern"], pattern, "{url}");
    }
    for (name, parameter) in template["Parameters"].as_mapping().expect("parameters") {
        assert!(parameter["Description"].is_string(), "{name:?} is not described");
        let is_bounded = ["AllowedPattern", "AllowedValues", "MinValue", "MaxValue", "Default"];
        assert!(is_bounded.iter().any(|bound| !parameter[*bound].is_null()), "{name:?} takes anything");
    }
}

/// What the API answered by itself is found by the request that a function's log names.
#[test]
fn the_api_logs_each_request_and_no_caller() {
    let template = template();
    let log = &template["Resources"]["Api"]["Properties"]["AccessLogSettings"];
    assert_eq!(log["DestinationArn"]["Fn::GetAtt"][0], "ApiLog");
    let format = log["Format"].as_str().expect("a format");
    let fields: serde_json::Value = serde_json::from_str(format).expect("JSON");
    assert_eq!(fields["functionRequestId"], "$context.integration.requestId");
    for private in ["claims", "sourceIp", "userAgent", "$context.path"] {
        assert!(!format.contains(private), "{private}: {format}");
    }
    for (name, group) in resources(&template, "AWS::Logs::LogGroup") {
        assert_eq!(group["Properties"]["RetentionInDays"]["Ref"], "LogRetentionDays", "{name}");
    }
}

/// The timeout that a function compares with the provider's is the one that Lambda has.
#[test]
fn functions_that_charge_know_their_timeout() {
    let template = template();
    let all = template["Globals"]["Function"]["Timeout"].as_u64();
    let mut told = 0;
    for (name, function) in resources(&template, "AWS::Serverless::Function") {
        let function = &function["Properties"];
        let timeout = function["Timeout"].as_u64().or(all).map(|seconds| seconds * 1000);
        let variable = &function["Environment"]["Variables"]["FUNCTION_TIMEOUT_MS"];
        if !variable.is_null() {
            assert_eq!(variable.as_u64(), timeout, "{name}");
            told += 1;
        }
    }
    assert_eq!(told, 2, "the orders API and the worker");
}

/// Lambda takes a list of failures for success without the first; a second delivery beside the
/// first needs the second.
#[test]
fn a_message_that_is_not_done_comes_back_later_and_is_kept_in_the_end() {
    let template = template();
    let all = &template["Resources"];
    let timeout = template["Globals"]["Function"]["Timeout"].as_u64().expect("seconds");
    for (name, event, waiting, dead) in
        [("Worker", "Queue", "Queue", "DeadLetters"), ("Packer", "Packing", "Packing", "PackingDeadLetters")]
    {
        let source = &all[name]["Properties"]["Events"][event]["Properties"];
        assert_eq!(source["FunctionResponseTypes"], yaml("[ReportBatchItemFailures]"));
        assert_eq!(source["Queue"]["Fn::GetAtt"][0], waiting);
        let queue = &all[waiting]["Properties"];
        assert!(all[name]["Properties"]["Timeout"].is_null(), "it has that of all");
        assert!(queue["VisibilityTimeout"].as_u64().is_some_and(|hidden| hidden >= 6 * timeout), "{queue:?}");
        let last = &queue["RedrivePolicy"];
        assert_eq!(last["deadLetterTargetArn"]["Fn::GetAtt"][0], dead);
        assert!(last["maxReceiveCount"].as_u64().is_some_and(|tries| tries >= 5), "{last:?}");
        assert_eq!(all[dead]["Properties"]["FifoQueue"], queue["FifoQueue"], "AWS takes no other");
    }
    assert_eq!(all["Packing"]["Properties"]["FifoQueue"], true);
    for (name, queue) in resources(&template, "AWS::SQS::Queue") {
        assert_eq!(queue["Properties"]["MessageRetentionPeriod"], 14 * 24 * 60 * 60, "{name}");
    }
}

#[test]
fn every_route_has_its_authorizer_and_its_throttle() {
    let template = template();
    let api = &template["Resources"]["Api"]["Properties"];
    let callers = api["Auth"]["DefaultAuthorizer"].as_str().expect("an authorizer");
    let jwt = &api["Auth"]["Authorizers"][callers]["JwtConfiguration"];
    assert_eq!(*jwt, yaml("{ issuer: { Ref: JwtIssuer }, audience: [{ Ref: JwtAudience }] }"));
    let throttle =
        "{ ThrottlingRateLimit: { Ref: RequestsPerSecond }, ThrottlingBurstLimit: { Ref: RequestsAtOnce } }";
    assert_eq!(api["DefaultRouteSettings"], yaml(throttle));
    assert!(api["RouteSettings"].is_null(), "they hold for all");
    let mut routes = 0;
    for (name, function) in resources(&template, "AWS::Serverless::Function") {
        for event in
            function["Properties"]["Events"].as_mapping().into_iter().flat_map(|events| events.values())
        {
            if event["Type"] == "HttpApi" {
                assert_eq!(event["Properties"]["ApiId"]["Ref"], "Api", "{name}");
                assert!(event["Properties"]["Auth"].is_null(), "{name}: a route without the authorizer");
                routes += 1;
            }
        }
    }
    assert_eq!(routes, 3);
}

/// However busy the API is, what runs on a schedule only runs.
#[test]
fn scheduled_functions_have_reserved_concurrency() {
    let reserved =
        yaml("{ 'Fn::If': [ReservesConcurrency, { Ref: ReservedConcurrency }, { Ref: AWS::NoValue }] }");
    for (name, function) in resources(&template(), "AWS::Serverless::Function") {
        let is_scheduled = ["Scanner", "Completer", "Reaper", "Relay"].contains(&name);
        assert_eq!(
            function["Properties"]["ReservedConcurrentExecutions"] == reserved,
            is_scheduled,
            "{name}"
        );
    }
}
