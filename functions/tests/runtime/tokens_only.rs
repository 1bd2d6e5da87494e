//! The template with tokens and scanner only has what the whole template has of them.

use serde_yaml_ng::Value;

use crate::template::{monitoring, resources, template, yaml};

pub(crate) fn tokens() -> Value {
    yaml(include_str!("../../../infra/tokens.yaml"))
}

/// The same without a key of the user's, which the whole template does not have.
fn without_key(value: &Value) -> Value {
    let is_for_key = |value: &Value| value["Fn::If"][0] == "HasKey";
    match value {
        Value::Mapping(fields) => {
            let kept = fields.iter().filter(|(_, field)| !is_for_key(field));
            Value::Mapping(kept.map(|(name, field)| (name.clone(), without_key(field))).collect())
        }
        Value::Sequence(entries) => {
            Value::Sequence(entries.iter().filter(|it| !is_for_key(it)).map(without_key).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn key_of_the_user_encrypts_the_table_and_each_policy_may_use_it() {
    let tokens = tokens();
    let encryption = yaml(
        "{ 'Fn::If': [HasKey, { SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: { Ref: KmsKeyArn } }, \
         { Ref: AWS::NoValue }] }",
    );
    assert_eq!(tokens["Resources"]["Locks"]["Properties"]["SSESpecification"], encryption);
    let policy = &tokens["Resources"]["TokenPolicy"]["Properties"]["PolicyDocument"]["Statement"];
    let scanner = &tokens["Resources"]["Scanner"]["Properties"]["Policies"][0]["Statement"];
    for statements in [policy, scanner] {
        let statements = statements.as_sequence().expect("statements");
        let with_key: Vec<_> = statements.iter().filter(|it| it["Fn::If"][0] == "HasKey").collect();
        let [with_key] = with_key[..] else { panic!("one statement: {with_key:?}") };
        let allowed = &with_key["Fn::If"][1];
        assert_eq!(allowed["Action"], yaml("['kms:Decrypt']"));
        assert_eq!(allowed["Resource"], yaml("{ Ref: KmsKeyArn }"));
        assert!(!allowed["Condition"]["StringEquals"]["kms:ViaService"].is_null());
    }
}

#[test]
fn policy_for_tokens_allows_the_requests_of_a_function_of_the_sample() {
    let (tokens, template) = (tokens(), template());
    let policy = &tokens["Resources"]["TokenPolicy"]["Properties"]["PolicyDocument"]["Statement"][0];
    assert_eq!(*policy, template["Resources"]["Orders"]["Properties"]["Policies"][0]["Statement"][0]);
}

#[test]
fn table_and_scanner_are_those_of_the_whole_template() {
    let (tokens, template) = (without_key(&tokens()), template());
    for name in ["Locks", "Scanner", "MissedScans", "ScannerLog"] {
        assert_eq!(tokens["Resources"][name], template["Resources"][name], "{name}");
    }
    for (name, mut parameter) in tokens["Parameters"].as_mapping().expect("parameters").clone() {
        if name == "KmsKeyArn" {
            continue;
        }
        let mut of_all = template["Parameters"][&name].clone();
        if name == "ReservedConcurrency" {
            // It says which functions it is for.
            parameter["Description"] = Value::Null;
            of_all["Description"] = Value::Null;
        }
        assert_eq!(parameter, of_all, "{name:?}");
    }
    let (mut globals, mut of_all) = (tokens["Globals"].clone(), template["Globals"].clone());
    assert_eq!(globals["Function"]["CodeUri"], "..", "seen from its folder");
    for differs in ["CodeUri", "Timeout"] {
        globals["Function"][differs] = Value::Null;
        of_all["Function"][differs] = Value::Null;
    }
    assert_eq!(globals, of_all);
}

/// The same with what is a parameter there.
fn as_there(value: &Value) -> Value {
    match value {
        Value::Mapping(fields) if fields.contains_key("Fn::GetAtt") => {
            yaml(&format!("{{ Ref: {} }}", value["Fn::GetAtt"][0].as_str().expect("a resource")))
        }
        Value::Mapping(fields) => {
            Value::Mapping(fields.iter().map(|(name, field)| (name.clone(), as_there(field))).collect())
        }
        Value::Sequence(entries) => Value::Sequence(entries.iter().map(as_there).collect()),
        Value::String(text) if text == "AWS::StackName" => "Stack".into(),
        Value::String(text) if text == "Locks" => "Table".into(),
        Value::String(text) => text.replace("${Locks}", "${Table}").into(),
        other => other.clone(),
    }
}

#[test]
fn its_alarms_are_those_of_the_whole_stack() {
    let (tokens, monitoring) = (tokens(), monitoring());
    let alarms = resources(&tokens, "AWS::CloudWatch::Alarm");
    assert_eq!(alarms.len(), 11);
    for (name, alarm) in &alarms {
        assert_eq!(as_there(alarm), monitoring["Resources"][*name], "{name}");
    }
    for name in ["Topic", "Email"] {
        assert_eq!(tokens["Resources"][name], monitoring["Resources"][name], "{name}");
    }
    for (name, condition) in monitoring["Conditions"].as_mapping().expect("conditions") {
        assert_eq!(tokens["Conditions"][name], *condition, "{name:?}");
    }
    // Whatever the scanner and the table raise there is raised here.
    for (name, alarm) in resources(&monitoring, "AWS::CloudWatch::Alarm") {
        let of = serde_yaml_ng::to_string(&alarm["Properties"]["Dimensions"]).expect("text");
        let is_ours = ["Ref: Scanner", "Ref: Table", "Ref: MissedScans", "Value: scanner"];
        if is_ours.iter().any(|part| of.contains(part)) {
            assert!(alarms.iter().any(|(ours, _)| *ours == name), "{name} is missing");
        }
    }
}
