//! What watches the stack: alarms, dashboards and saved queries use what the code emits, in a form
//! that CloudWatch takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_yaml_ng::Value;

use crate::template::{resources, sample, substituted, template, yaml};

#[test]
fn an_alarm_watches_what_every_schedule_missed() {
    let template = template();
    let watched: BTreeSet<&str> = resources(&template, "AWS::CloudWatch::Alarm")
        .into_iter()
        .filter_map(|(_, alarm)| alarm["Properties"]["Dimensions"][0]["Value"]["Fn::GetAtt"][0].as_str())
        .collect();
    let mut scheduled = BTreeMap::new();
    for (name, schedule) in resources(&template, "AWS::Scheduler::Schedule") {
        let name = match name.trim_end_matches("Schedule") {
            "Consumer" => "Packer",
            name => name,
        };
        let target = &schedule["Properties"]["Target"];
        let lambda = &template["Resources"][name]["Properties"]["EventInvokeConfig"];
        assert_eq!(lambda["MaximumRetryAttempts"], 0, "{name}: the next run is the retry");
        let failed = &lambda["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0];
        assert_eq!(*failed, target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0], "{name}");
        assert_eq!(target["RetryPolicy"]["MaximumRetryAttempts"], 2, "{name}");
        let letters = target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0].as_str().expect("a queue");
        assert!(watched.contains(letters), "{name}: no alarm watches {letters}");
        scheduled.insert(name, schedule["Properties"]["ScheduleExpression"].as_str().expect("a rate"));
    }
    let expected = [
        ("Completer", "rate(1 minute)"),
        ("Packer", "rate(1 minute)"),
        ("Reaper", "rate(1 hour)"),
        ("Relay", "rate(1 minute)"),
        ("Scanner", "rate(5 minutes)"),
    ];
    assert_eq!(scheduled, BTreeMap::from(expected));
}

/// The stack of alarms is told of the resources that its parameters are named after.
#[test]
fn parameters_of_monitoring_refer_to_their_resources() {
    let sample = sample(true);
    for (name, value) in
        sample["Resources"]["Monitoring"]["Properties"]["Parameters"].as_mapping().expect("parameters")
    {
        let watched = [&value["Ref"], &value["Fn::GetAtt"][0], &value["Fn::If"][1]["Ref"]];
        let watched = watched.into_iter().find_map(Value::as_str);
        let expected = match name.as_str().expect("a name") {
            "Stack" => "AWS::StackName",
            "Table" => "Locks",
            "OrderRows" => "OrdersTable",
            "AlarmTopicArn" => "Topic",
            name => name,
        };
        assert_eq!(watched, Some(expected), "{name:?}");
    }
}

/// Whoever must report and is silent raises an alarm; of anything else, what is too much does.
#[test]
fn an_alarm_is_raised_by_what_is_too_much_or_by_silence() {
    let mut silent = 0;
    for (name, alarm) in resources(&template(), "AWS::CloudWatch::Alarm") {
        let alarm = &alarm["Properties"];
        let raised = [&alarm["ComparisonOperator"], &alarm["TreatMissingData"]];
        if name.ends_with("IsSilent") {
            assert_eq!(raised, ["LessThanThreshold", "breaching"], "{name}");
            assert_eq!((&alarm["Threshold"], &alarm["Statistic"]), (&1.into(), &"Maximum".into()), "{name}");
            silent += 1;
        } else {
            assert_eq!(raised, ["GreaterThanThreshold", "notBreaching"], "{name}");
        }
    }
    assert_eq!(silent, 4);
}

/// Times are in seconds, and the errors of the API are a part of its requests. One of anything else
/// is too much.
#[test]
fn threshold_of_an_alarm_is_in_the_unit_of_its_metric() {
    for (name, alarm) in resources(&template(), "AWS::CloudWatch::Alarm") {
        let alarm = &alarm["Properties"];
        let minutes = |minutes: u32| f64::from(minutes * 60);
        let expected = match name {
            "OldestMissingTask" => minutes(24 * 60),
            "MessagesStayUnsent" => minutes(5),
            "MessagesWaitForTheirConsumer" | "QueuedMessagesAreOld" | "MessagesAreOld" => minutes(15),
            "ApiFails" => {
                assert_eq!(alarm["Statistic"], "Average");
                0.01
            }
            "UnusuallyManyInProgress" => continue,
            name if name.ends_with("IsSilent") => continue,
            _ => 0.0,
        };
        assert_eq!(alarm["Threshold"].as_f64(), Some(expected), "{name}");
    }
}

/// The metrics of our namespace that a text mentions.
fn metrics_of(text: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    let queried =
        text.split("SELECT ").skip(1).filter_map(|rest| rest.split_once('(')).map(|(_, rest)| word(rest));
    let plotted = text.split("[\"Locker\", \"").skip(1).map(word);
    let ditto = text.split("[\".\", \"").skip(1).map(word);
    let searched = text.split("MetricName=\\\"").skip(1).map(word);
    queried.chain(plotted).chain(ditto).chain(searched).collect()
}

/// The bodies of the dashboards, one for each part, as text and as JSON.
fn dashboards(template: &Value) -> Vec<(&str, serde_json::Value)> {
    let all = resources(template, "AWS::CloudWatch::Dashboard");
    assert_eq!(all.len(), 3);
    let bodies = all.into_iter().map(|(name, dashboard)| {
        let body = substituted(&dashboard["Properties"]["DashboardBody"]).expect("a body");
        (body, serde_json::from_str(body).unwrap_or_else(|error| panic!("{name}: {error}")))
    });
    bodies.collect()
}

#[test]
fn alarms_and_dashboards_use_metrics_that_the_code_emits() {
    let template = template();
    let known: BTreeSet<String> = locker::metrics::ALL.iter().map(|name| (*name).to_owned()).collect();
    let mut alarmed = BTreeSet::new();
    for (name, alarm) in resources(&template, "AWS::CloudWatch::Alarm") {
        let alarm = &alarm["Properties"];
        if alarm["Namespace"] == "Locker" {
            alarmed.insert(alarm["MetricName"].as_str().expect("a name").to_owned());
            let emitted_by = match alarm["MetricName"].as_str().expect("a name") {
                "workflowsInQuarantine"
                | "failingWorkflows"
                | "unfinishedWorkflows"
                | "workflowsWithoutCode"
                | "lateEvents"
                | "completerFinished" => "completer",
                "reaperFinished" => "reaper",
                "relayFinished" | "oldestUnsentMessage" | "oldestWaitingMessage" | "deadMessages" => "relay",
                _ => "scanner",
            };
            assert_eq!(alarm["Dimensions"][0]["Value"], emitted_by, "{name}");
            assert_eq!(
                alarm["Dimensions"][1],
                yaml("{ Name: stack, Value: { Ref: Stack } }"),
                "{name}: of this stack"
            );
        } else if let Some(query) = substituted(&alarm["Metrics"][0]["Expression"]) {
            let of_this_stack = "WHERE \"stack\" = '${Stack}'";
            assert!(query.ends_with(of_this_stack), "{name} listens to every stack: {query}");
            alarmed.extend(metrics_of(query));
        }
        let text = serde_yaml_ng::to_string(&alarm["AlarmDescription"]).expect("text");
        assert!(text.contains("Run first: locker "), "{name}: {text}");
        let verbs = ["locker ls workflows", "locker ls messages", "locker status"];
        let named = verbs.iter().any(|verb| text.contains(verb));
        assert_eq!(text.contains("--workflows ${Workflows}"), named, "{name}: which table? {text}");
        assert!(alarm["AlarmActions"].is_sequence(), "{name} has no action");
        assert_eq!(
            alarm["OKActions"], alarm["AlarmActions"],
            "{name}: who is told of it is told that it is over"
        );
    }
    // The article's triggers, and what must never go unnoticed.
    for metric in [
        "missingTasks",
        "tokensHeld",
        "tokensInProgress",
        "scanFinished",
        "lostOwnership",
        "unrecordedResults",
        "inDoubt",
        "workflowsInQuarantine",
        "failingWorkflows",
        "unfinishedWorkflows",
        "workflowsWithoutCode",
        "lateEvents",
        "completerFinished",
        "reaperFinished",
        "relayFinished",
        "oldestUnsentMessage",
        "messagesDead",
        "targetRefusals",
        "deadMessages",
        "oldestWaitingMessage",
    ] {
        assert!(alarmed.contains(metric), "no alarm on {metric}");
    }
    let bodies = dashboards(&template);
    let widgets = bodies.iter().map(|(_, it)| it["widgets"].as_array().map_or(0, Vec::len)).sum::<usize>();
    assert!(widgets >= 9, "{widgets}");
    let shown: BTreeSet<String> = bodies.iter().flat_map(|(body, _)| metrics_of(body)).collect();
    assert!(shown.len() >= 24, "{shown:?}");
    let unknown: Vec<_> = alarmed.union(&shown).filter(|metric| !known.contains(*metric)).collect();
    assert!(unknown.is_empty(), "no code emits {unknown:?}");
}

/// CloudWatch takes one Metrics Insights query in a widget, and none with a reserved word that is
/// not quoted.
#[test]
fn queries_are_such_as_cloudwatch_takes() {
    let template = template();
    let bodies = dashboards(&template);
    for widget in bodies.iter().flat_map(|(_, body)| body["widgets"].as_array().expect("widgets")) {
        let text = widget.to_string();
        assert!(text.matches("SELECT ").count() <= 1, "{text}");
        let expressions = widget["properties"]["metrics"].as_array().into_iter().flatten();
        for expression in expressions.filter_map(|metric| metric[0]["expression"].as_str()) {
            assert!(expression.contains(" stack=\"${Stack}\"'"), "it shows every stack: {expression}");
            assert_eq!(expression.matches('(').count(), expression.matches(')').count(), "{expression}");
        }
    }
    for (name, alarm) in resources(&template, "AWS::CloudWatch::Alarm") {
        let Some(query) = substituted(&alarm["Properties"]["Metrics"][0]["Expression"]) else {
            continue;
        };
        let schema =
            query.split_once("SCHEMA(").and_then(|(_, rest)| rest.split_once(')')).expect("a schema").0;
        for dimension in schema.split(", ") {
            assert!(
                dimension.starts_with('"') && dimension.ends_with('"'),
                "{name}: {dimension} may be reserved"
            );
        }
    }
}

/// The alarms that the chapter lists, each with the page that it names.
fn listed(chapter: &str) -> BTreeMap<&str, &str> {
    let mut listed = BTreeMap::new();
    for line in chapter.lines().filter(|line| line.starts_with("| [")) {
        let (page, alarms) = line.split_once(") | ").expect("two cells");
        let (_, page) = page.split_once("](").expect("a link");
        for alarm in alarms.split('`').skip(1).step_by(2) {
            assert_eq!(listed.insert(alarm, page), None, "{alarm} is listed twice");
        }
    }
    listed
}

/// The entries of a page: the name and the urgency of each alarm.
fn entries(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let (urgency, _) = rest.split_once(" | ")?;
        name.starts_with(char::is_uppercase).then_some((name, urgency))
    })
}

#[test]
fn every_alarm_says_how_urgent_it_is_and_leads_to_one_page() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src");
    let chapter = std::fs::read_to_string(book.join("operating.md")).expect("the chapter");
    let mut listed = listed(&chapter);
    let mut found = BTreeMap::new();
    for page in std::fs::read_dir(book.join("operating")).expect("a folder") {
        let path = page.expect("an entry").path();
        let page = path.strip_prefix(&book).expect("below it").display().to_string();
        for (name, urgency) in entries(&std::fs::read_to_string(&path).expect("text")) {
            let former = found.insert(name.to_owned(), (page.clone(), urgency.to_owned()));
            assert_eq!(former, None, "{name} has a second entry in {page}");
        }
    }
    let template = template();
    for (name, alarm) in resources(&template, "AWS::CloudWatch::Alarm") {
        let text = alarm["Properties"]["AlarmDescription"]["Fn::Sub"].as_str().expect("a text");
        let action = serde_yaml_ng::to_string(&alarm["Properties"]["AlarmActions"]).expect("text");
        let is_urgent = action.contains("UrgentTopicArn");
        assert!(text.starts_with(if is_urgent { "Urgent. " } else { "Soon. " }), "{name}: {text}");
        let urgency = if is_urgent { "urgent" } else { "soon" };
        let page = listed.remove(name).unwrap_or_else(|| panic!("operating.md does not list {name}"));
        assert_eq!(found.remove(name), Some((page.to_owned(), urgency.to_owned())), "{name}: its entry");
        assert!(text.ends_with(&format!(" see docs/book/src/{page}")), "{name}: {text}");
    }
    assert!(listed.is_empty() && found.is_empty(), "no such alarm: {listed:?} {found:?}");
}

#[test]
fn saved_queries_look_for_what_the_code_logs() {
    let template = template();
    let queries = resources(&template, "AWS::Logs::QueryDefinition");
    assert_eq!(queries.len(), 7);
    let source = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../locker/src"));
    for (name, query) in queries {
        let query = query["Properties"]["QueryString"].as_str().expect("a query");
        if let Some((_, rest)) = query.split_once("fields.message = \"") {
            let message = rest.split('"').next().expect("a message");
            assert!(source.contains(message), "{name}: no code logs {message:?}");
        }
    }
}

/// Every source file below a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries
        .map(|path| if path.is_dir() { sources(&path) } else { std::fs::read_to_string(path).expect("text") })
        .collect()
}
