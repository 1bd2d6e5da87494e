//! `locker policy`: what is printed, and what is refused. `infra/tests/stack.py` compares it with
//! the policies of the stacks.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{bare, place};

const ROLES: [&str; 8] =
    ["function", "scanner", "completer", "reaper", "relay", "consumer", "operator", "viewer"];
const WHERE: [&str; 8] =
    ["--account", "123456789012", "--region", "eu-west-1", "--table", "locks", "--workflows", "flows"];

/// Each action with the end of its resource, such as `Query locks/index/byStatus`.
fn allowed(role: &str, more: &[&str]) -> BTreeSet<String> {
    let ran = bare(&place(), &[&["policy", role], &WHERE[..], more].concat(), &[]);
    assert_eq!(ran.code, 0, "{role}: {}", ran.said);
    let document = ran.json();
    assert_eq!(document["Version"], "2012-10-17");
    let mut allowed = BTreeSet::new();
    for statement in document["Statement"].as_array().expect("statements") {
        assert_eq!(statement["Effect"], "Allow");
        let resource = statement["Resource"].as_str().expect("one resource");
        let table = resource.strip_prefix("arn:aws:dynamodb:eu-west-1:123456789012:table/");
        for action in statement["Action"].as_array().expect("actions") {
            let action = action.as_str().and_then(|it| it.strip_prefix("dynamodb:")).expect("an action");
            let is_new = allowed.insert(format!("{action} {}", table.expect("an ARN")));
            assert!(is_new, "{role}: {action} twice");
        }
    }
    assert!(!allowed.iter().any(|it| it.contains('*')), "{allowed:?}");
    // Only a plan to redact reads a whole table.
    let scans: Vec<_> = allowed.iter().filter(|it| it.contains("Scan")).collect();
    assert_eq!(scans, if role == "operator" { vec!["Scan locks"] } else { vec![] }, "{role}");
    allowed
}

#[test]
fn each_role_has_a_policy_without_wildcards() {
    for role in ROLES {
        assert!(!allowed(role, &[]).is_empty(), "{role}");
    }
    let viewer = allowed("viewer", &[]);
    assert!(viewer.is_subset(&allowed("operator", &[])));
    assert!(!viewer.iter().any(|it| it.starts_with("Put") || it.starts_with("Delete")), "{viewer:?}");
}

#[test]
fn viewer_without_data_reads_only_indexes_and_last_runs() {
    let reads: Vec<_> = allowed("viewer", &["--no-data"]).into_iter().collect();
    let described = reads.iter().filter(|it| it.starts_with("Describe"));
    assert_eq!(described.count(), 4);
    let others: Vec<_> = reads.iter().filter(|it| !it.starts_with("Describe")).collect();
    let of_indexes = ["Query flows/index/byStatus", "Query locks/index/byStatus"];
    assert_eq!(others, [&["GetItem flows", "GetItem locks"], &of_indexes[..]].concat());
    assert_eq!(on_items("viewer", &["--no-data"]), ["GetItem locker runs scanner", "GetItem locker runs"]);
}

#[test]
fn scanner_may_write_its_run_only() {
    assert_eq!(on_items("scanner", &[]), ["PutItem locker runs scanner"]);
    let writes = allowed("scanner", &[]).into_iter().filter(|it| it.starts_with("Put"));
    assert_eq!(writes.collect::<Vec<_>>(), ["PutItem locks"]);
}

/// The actions that are allowed on items with one partition key only, each with the key.
fn on_items(role: &str, more: &[&str]) -> Vec<String> {
    let document = bare(&place(), &[&["policy", role], &WHERE[..], more].concat(), &[]).json();
    let statements = document["Statement"].as_array().expect("statements").iter();
    let limited = statements.filter(|it| !it["Condition"].is_null()).map(|it| {
        assert_eq!(it["Condition"]["Null"]["dynamodb:LeadingKeys"], "false");
        let action = it["Action"][0].as_str().and_then(|it| it.strip_prefix("dynamodb:"));
        let keys = &it["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"];
        assert_eq!((&it["Action"][1], &keys[1]), (&Value::Null, &Value::Null), "one action, one key");
        format!("{} {}", action.expect("an action"), keys[0].as_str().expect("a key"))
    });
    limited.collect()
}

#[test]
fn key_of_the_tables_may_be_used_through_dynamodb_only() {
    let key = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd";
    let document = bare(&place(), &[&["policy", "viewer", "--key", key], &WHERE[..]].concat(), &[]).json();
    let last = document["Statement"].as_array().and_then(|it| it.last()).expect("statements");
    assert_eq!((&last["Action"][0], &last["Action"][1]), (&Value::from("kms:Decrypt"), &Value::Null));
    assert_eq!(last["Resource"], key);
    let service = &last["Condition"]["StringEquals"]["kms:ViaService"];
    assert_eq!(*service, "dynamodb.eu-west-1.amazonaws.com");
}

#[test]
fn policy_names_the_missing_part() {
    let place = place();
    let table = ["--table", "locks"];
    let account = ["--account", "123456789012"];
    let region = ["--region", "eu-west-1"];
    let cases: [(&str, &[&[&str]], &str); 6] = [
        ("function", &[&account, &region], "--table"),
        ("relay", &[&account, &region, &table], "--workflows"),
        ("scanner", &[&account, &table], "--region"),
        ("scanner", &[&["--account", "1234"], &region, &table], "12 digits"),
        ("operator", &[&account, &region, &table, &["--no-data"]], "--no-data is for a viewer"),
        ("scanner", &[&region, &table], "--account"),
    ];
    for (role, words, said) in cases {
        let nowhere = [("AWS_REGION", ""), ("AWS_DEFAULT_REGION", "")];
        let ran = bare(&place, &[&["policy", role], &words.concat()[..]].concat(), &nowhere);
        assert_eq!(ran.code, 2, "{role} {words:?}");
        assert!(ran.stdout.is_empty() && ran.said.contains(said), "{said}: {}", ran.said);
    }
    let elsewhere = [&["policy", "scanner"], &account[..], &table[..], &["--region", "cn-north-1"]].concat();
    assert!(
        String::from_utf8_lossy(&bare(&place, &elsewhere, &[]).stdout)
            .contains("arn:aws-cn:dynamodb:cn-north-1:")
    );
}
