//! The template deploys what the code needs: its tables, binaries, variables and parameters are
//! compared with the code.

use std::collections::BTreeSet;

use serde_yaml_ng::{Mapping, Value};

use crate::packers::resolved;

/// The nested stacks of the sample, by their name in it.
static PARTS: [(&str, &str); 4] = [
    ("Tokens", include_str!("../../../infra/tokens.yaml")),
    ("Workflows", include_str!("../../../infra/workflows.yaml")),
    ("Messages", include_str!("../../../infra/messages.yaml")),
    ("Monitoring", include_str!("../../../infra/monitoring.yaml")),
];

pub(crate) fn yaml(text: &str) -> Value {
    serde_yaml_ng::from_str(text).expect("YAML")
}

/// A part of the sample, which gives it the name of the stack.
pub(crate) fn part(name: &str, has_packers: bool) -> Value {
    let text = PARTS.iter().find(|(it, _)| *it == name).expect("a part").1;
    resolved(&yaml(text), has_packers)
}

/// The sample with and without packers. An output of a part is replaced with its value in the part.
pub(crate) fn sample(has_packers: bool) -> Value {
    let sample = resolved(&yaml(include_str!("../../../template.yaml")), has_packers);
    PARTS
        .iter()
        .fold(sample, |sample, (name, _)| with_outputs(&sample, name, &part(name, has_packers)["Outputs"]))
}

/// The value with the outputs of one part.
fn with_outputs(value: &Value, part: &str, outputs: &Value) -> Value {
    match value {
        Value::Mapping(fields) => {
            let output = fields.get("Fn::GetAtt").filter(|of| of[0] == part);
            let output = output.and_then(|of| of[1].as_str()).and_then(|it| it.strip_prefix("Outputs."));
            if let Some(output) = output {
                let value = &outputs[output]["Value"];
                assert!(!value.is_null(), "{part} has no output {output}");
                return value.clone();
            }
            let fields = fields.iter();
            let fields = fields.map(|(name, field)| (name.clone(), with_outputs(field, part, outputs)));
            Value::Mapping(fields.collect::<Mapping>())
        }
        Value::Sequence(entries) => {
            Value::Sequence(entries.iter().map(|entry| with_outputs(entry, part, outputs)).collect())
        }
        other => other.clone(),
    }
}

/// The sample with the resources of its parts, in place of the parts.
pub(crate) fn composed(has_packers: bool) -> Value {
    let mut sample = sample(has_packers);
    let all = sample["Resources"].as_mapping_mut().expect("resources");
    // All parts are taken out first: one has the name of its table.
    let made: Vec<_> = PARTS.iter().filter(|(name, _)| all.remove(*name).is_some()).collect();
    for (name, _) in made {
        for (resource, value) in part(name, has_packers)["Resources"].as_mapping().expect("resources") {
            let is_dashboard = value["Type"] == "AWS::CloudWatch::Dashboard";
            let own_name = Value::from(format!("{name}Dashboard"));
            all.insert(if is_dashboard { own_name } else { resource.clone() }, value.clone());
        }
    }
    sample
}

/// The sample with packers and with the resources of its parts.
pub(crate) fn template() -> Value {
    composed(true)
}

/// The text of a substitution, with or without values of its own.
pub(crate) fn substituted(value: &Value) -> Option<&str> {
    let text = &value["Fn::Sub"];
    text.as_str().or_else(|| text[0].as_str())
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
        assert_eq!(table["UpdateReplacePolicy"], "Retain", "{name}");
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
            ("PACKING_QUEUE_URL", "Messages", is_one_of(&["Relay", "Packer"])),
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
    let jwt = &template["Resources"]["Callers"]["Properties"]["JwtConfiguration"];
    assert_eq!(*jwt, yaml("{ Issuer: { Ref: JwtIssuer }, Audience: [{ Ref: JwtAudience }] }"));
    let rule = &template["Rules"]["NeedsProviderAndIssuer"]["Assertions"][0]["Assert"]["Fn::Not"][0];
    for (place, parameter) in ["PaymentsUrl", "JwtIssuer", "JwtAudience"].iter().enumerate() {
        assert_eq!(rule["Fn::Or"][place]["Fn::Equals"][0]["Ref"], *parameter);
    }
    for (url, pattern) in [("PaymentsUrl", "(https://[^@]+)?"), ("JwtIssuer", "(https://.+)?")] {
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
    let log = &template["Resources"]["ApiStage"]["Properties"]["AccessLogSettings"];
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
    let messages = part("Messages", true);
    let timeout = template["Globals"]["Function"]["Timeout"].as_u64().expect("seconds");
    // A consumer gives up after 10 attempts. Receives that begin no handler count as well.
    for (name, event, waiting, dead, receives) in [
        ("Worker", "Queue", "Queue", "DeadLetters", 5),
        ("Packer", "Packing", "Messages", "MessagesDeadLetters", 5 * 10),
    ] {
        let source = &all[name]["Properties"]["Events"][event]["Properties"];
        assert_eq!(source["FunctionResponseTypes"], yaml("[ReportBatchItemFailures]"));
        assert_eq!(source["Queue"]["Fn::GetAtt"][0], waiting);
        let queue = &all[waiting]["Properties"];
        assert!(all[name]["Properties"]["Timeout"].is_null(), "it has that of all");
        let hidden = &queue["VisibilityTimeout"];
        // The sample leaves the parameter of its part as it is.
        let hidden = hidden["Ref"].as_str().map_or(hidden, |name| &messages["Parameters"][name]["Default"]);
        assert!(hidden.as_u64().is_some_and(|hidden| hidden >= 6 * timeout), "{queue:?}");
        let last = &queue["RedrivePolicy"];
        assert_eq!(last["deadLetterTargetArn"]["Fn::GetAtt"][0], dead);
        assert_eq!(last["maxReceiveCount"], receives, "{name}");
        assert_eq!(all[dead]["Properties"]["FifoQueue"], queue["FifoQueue"], "AWS takes no other");
    }
    assert_eq!(all["Messages"]["Properties"]["FifoQueue"], true);
    for (name, queue) in resources(&template, "AWS::SQS::Queue") {
        assert_eq!(queue["Properties"]["MessageRetentionPeriod"], 14 * 24 * 60 * 60, "{name}");
    }
}

#[test]
fn every_route_has_its_authorizer_and_its_throttle() {
    let template = template();
    let stage = &template["Resources"]["ApiStage"]["Properties"];
    let throttle =
        "{ ThrottlingRateLimit: { Ref: RequestsPerSecond }, ThrottlingBurstLimit: { Ref: RequestsAtOnce } }";
    assert_eq!(stage["DefaultRouteSettings"], yaml(throttle));
    assert!(stage["RouteSettings"].is_null(), "they hold for all");
    let routes = resources(&template, "AWS::ApiGatewayV2::Route");
    for (name, route) in &routes {
        let route = &route["Properties"];
        assert_eq!(route["AuthorizationType"], "JWT", "{name}");
        assert_eq!(route["AuthorizerId"]["Ref"], "Callers", "{name}");
        assert_eq!(route["ApiId"]["Ref"], "Api", "{name}");
    }
    let keys: BTreeSet<_> = routes.iter().map(|(_, it)| it["Properties"]["RouteKey"].as_str()).collect();
    let expected = ["GET /orders/{id}", "POST /orders", "POST /purchases"];
    assert_eq!(keys, BTreeSet::from(expected.map(Some)));
    // No function has a route of its own, which would have no authorizer.
    for (name, function) in resources(&template, "AWS::Serverless::Function") {
        let events = function["Properties"]["Events"].as_mapping().into_iter().flat_map(|it| it.values());
        assert!(events.into_iter().all(|event| event["Type"] != "HttpApi"), "{name}");
    }
}

/// A trial has a provider, and an API that IAM authorises.
#[test]
fn every_route_of_a_trial_is_authorised_by_iam() {
    let sample = yaml(include_str!("../../../template.yaml"));
    for (name, route) in resources(&sample, "AWS::ApiGatewayV2::Route") {
        let kind = yaml("{ 'Fn::If': [IsTrial, AWS_IAM, JWT] }");
        assert_eq!(route["Properties"]["AuthorizationType"], kind, "{name}");
    }
    assert_eq!(sample["Resources"]["Sandbox"]["Condition"], "IsTrial");
    assert_eq!(sample["Parameters"]["Trial"]["Default"], "off");
}

/// The parts have the names of functions as parameters, and so depend on no function.
#[test]
fn the_parts_invoke_the_functions_that_the_sample_makes() {
    let (sample, all) = (sample(true), template());
    for (part, parameter, function) in [
        ("Workflows", "Completer", "Completer"),
        ("Workflows", "Reaper", "Reaper"),
        ("Messages", "Relay", "Relay"),
        ("Messages", "Consumer", "Packer"),
    ] {
        let name = &all["Resources"][function]["Properties"]["FunctionName"];
        assert!(!name.is_null(), "{function}");
        assert_eq!(sample["Resources"][part]["Properties"]["Parameters"][parameter], *name, "{function}");
    }
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
