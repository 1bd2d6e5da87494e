//! The stack with its packers and without them: what depends on the parameter `Packers`.

use std::collections::BTreeSet;

use serde_yaml_ng::{Mapping, Value};

use crate::template::{composed, resources, yaml};

/// A template as it is when the condition `HasPackers` holds, or does not. The stack has a name, and is
/// no trial. What other conditions decide stays as it is written.
pub(crate) fn resolved(template: &Value, holds: bool) -> Value {
    let mut template = chosen(template, holds).expect("a template");
    for part in ["Resources", "Outputs"] {
        let Some(entries) = template[part].as_mapping_mut() else { continue };
        entries.retain(|_, entry| {
            (holds || entry["Condition"] != "HasPackers") && entry["Condition"] != "IsTrial"
        });
        for entry in entries.values_mut().filter_map(Value::as_mapping_mut) {
            if entry.get("Condition").is_some_and(|condition| condition == "HasPackers") {
                entry.remove("Condition");
            }
        }
    }
    template["Conditions"].as_mapping_mut().expect("conditions").remove("HasPackers");
    template
}

fn is_decided(condition: &Value) -> bool {
    ["HasPackers", "NamesStack", "IsTrial"].iter().any(|name| *condition == *name)
}

/// `None`: it is left out.
fn chosen(value: &Value, holds: bool) -> Option<Value> {
    match value {
        Value::Mapping(_) if is_decided(&value["Fn::If"][0]) => {
            let condition = &value["Fn::If"][0];
            let holds_here = *condition == "NamesStack" || (*condition == "HasPackers" && holds);
            let choice = &value["Fn::If"][if holds_here { 1 } else { 2 }];
            (choice["Ref"] != "AWS::NoValue").then(|| chosen(choice, holds)).flatten()
        }
        Value::Mapping(fields) => {
            let fields =
                fields.iter().filter_map(|(name, field)| Some((name.clone(), chosen(field, holds)?)));
            Some(Value::Mapping(fields.collect::<Mapping>()))
        }
        Value::Sequence(entries) => {
            Some(Value::Sequence(entries.iter().filter_map(|entry| chosen(entry, holds)).collect()))
        }
        other => Some(other.clone()),
    }
}

/// What a template refers to.
fn referred(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Mapping(fields) => {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    (Some("Ref"), Value::String(name)) => found.extend([name.clone()]),
                    (Some("Fn::GetAtt"), of) => {
                        found.extend([of[0].as_str().expect("a resource").to_owned()]);
                    }
                    (Some("Fn::Sub"), Value::String(text)) => {
                        let names = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
                        let name = |(name, _): (&str, _)| name.split('.').next().unwrap_or(name).to_owned();
                        found.extend(names.map(name));
                    }
                    (_, field) => referred(field, found),
                }
            }
        }
        Value::Sequence(entries) => entries.iter().for_each(|entry| referred(entry, found)),
        _ => {}
    }
}

#[test]
fn without_packers_nothing_of_messages_is_made_or_referred_to() {
    let whole = yaml(include_str!("../../../template.yaml"));
    let watching = yaml(include_str!("../../../infra/monitoring.yaml"));
    for (template, of_messages) in
        [(&whole, &["Messages", "Packer", "PackerLog", "Relay", "RelayLog"][..]), (&watching, &[])]
    {
        let (with, without) = (resolved(template, true), resolved(template, false));
        let names = |template: &Value| -> BTreeSet<String> {
            let names = template["Resources"].as_mapping().expect("resources").keys();
            names.map(|name| name.as_str().expect("a name").to_owned()).collect()
        };
        let (with_names, without_names) = (names(&with), names(&without));
        let gone: Vec<&str> = with_names.difference(&without_names).map(String::as_str).collect();
        if !of_messages.is_empty() {
            assert_eq!(gone, of_messages);
        }
        for (template, made) in [(&with, with_names), (&without, without_names.clone())] {
            let mut found = BTreeSet::new();
            referred(&template["Resources"], &mut found);
            referred(&template["Outputs"], &mut found);
            let parameters = template["Parameters"].as_mapping().expect("parameters");
            let known = |name: &str| {
                name.starts_with("AWS::") || made.contains(name) || parameters.contains_key(name)
            };
            let unknown: Vec<_> = found.iter().filter(|name| !known(name)).collect();
            assert!(unknown.is_empty(), "nothing makes {unknown:?}");
        }
    }
}

/// An alarm on what is not there would be raised for ever, or never.
#[test]
fn without_packers_no_alarm_watches_messages() {
    let (with, without) = (composed(true), composed(false));
    let alarms = |template: &Value| resources(template, "AWS::CloudWatch::Alarm").len();
    assert_eq!(alarms(&with) - alarms(&without), 16);
    for (name, resource) in without["Resources"].as_mapping().expect("resources") {
        assert_ne!(resource["Properties"]["Dimensions"][0]["Value"], "relay", "{name:?}");
    }
    // Purchases still end, and say so by the same alarms.
    for name in ["WorkflowsInQuarantine", "CompleterIsSilent", "MissingTasks"] {
        assert!(!without["Resources"][name].is_null(), "{name}");
    }
}
