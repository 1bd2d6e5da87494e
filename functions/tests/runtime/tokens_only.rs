//! The template with tokens and scanner only has what the whole template has of them.

use serde_yaml_ng::Value;

use crate::template::{monitoring, resources, template, yaml};

pub(crate) fn tokens() -> Value {
    yaml(include_str!("../../../infra/tokens.yaml"))
}

#[test]
fn table_and_scanner_are_those_of_the_whole_template() {
    let (tokens, template) = (tokens(), template());
    for name in ["Locks", "Scanner", "MissedScans", "ScannerLog"] {
        assert_eq!(tokens["Resources"][name], template["Resources"][name], "{name}");
    }
    for (name, mut parameter) in tokens["Parameters"].as_mapping().expect("parameters").clone() {
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
