//! Text of others on a terminal: whatever is stored, no character that a terminal obeys is printed.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use locker::inbox::Delivery;
use locker::message::NewMessage;
use locker::workflow::Workflows;
use locker::{Begun, Class, Locker};
use locker_tests::command::{Place, Ran};
use locker_tests::filled::{Behind, Stuck};
use serde_json::Value;

use crate::dead::{messages, shown};
use crate::place;

/// Clears the screen, sets a title, reverses what follows, hides, and begins a line. In a page it
/// ends an attribute and begins elements that run a script.
pub(crate) const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;pwn\u{7}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{feff}\u{ad}\u{e0041}\u{2028}\u{2029}\u{85}\u{7f}\t\r\nforged-evil<script>alert(1)</script>\"><img/src=x/onerror=alert(2)>evil";
/// Stands for it until a record is stored.
const MARK: &str = "XQX";

/// Puts hostile text in the place of the mark. In JSON it is escaped.
fn hostile(text: &str) -> String {
    let is_json = serde_json::from_str::<Value>(text).is_ok_and(|value| !value.is_number());
    if is_json {
        let escaped = Value::from(HOSTILE).to_string();
        return text.replace(MARK, escaped.trim_matches('"'));
    }
    text.replace(MARK, HOSTILE)
}

fn replaced(value: &AttributeValue) -> AttributeValue {
    match value {
        AttributeValue::S(text) => AttributeValue::S(hostile(text)),
        AttributeValue::L(list) => AttributeValue::L(list.iter().map(replaced).collect()),
        AttributeValue::M(map) => {
            AttributeValue::M(map.iter().map(|(name, value)| (hostile(name), replaced(value))).collect())
        }
        other => other.clone(),
    }
}

/// Writes each item of a table again, as another program could.
async fn rewrite(client: &Client, table: &str, keys: &[&str]) {
    let items = client.scan().table_name(table).send().await.expect("items").items.unwrap_or_default();
    for item in items {
        let new: HashMap<_, _> = item.iter().map(|(name, value)| (name.clone(), replaced(value))).collect();
        if new == item {
            continue;
        }
        let mut delete = client.delete_item().table_name(table);
        for key in keys {
            delete = delete.key(*key, item[*key].clone());
        }
        delete.send().await.expect("deleted");
        client.put_item().table_name(table).set_item(Some(new)).send().await.expect("put");
    }
}

/// A place with tokens, workflows and messages whose every text is hostile.
pub(crate) fn hostile_place() -> Place {
    let place = place();
    prepare_once(&place);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        prepare(&place).await;
        rewrite(&place.client(), place.table(), &["lockToken"]).await;
        rewrite(&place.client(), place.workflows(), &["workflow", "item"]).await;
    });
    place
}

async fn prepare(place: &Place) {
    let client = place.client();
    let locker = Locker::new(&client, place.table()).expect("a locker");
    let begin = async |key: &str| {
        let token = locker.token(key).owner("owner XQX").expect_within(Duration::from_secs(1));
        match token.begin().await {
            Ok(Begun::Acquired(lock)) => lock,
            other => panic!("not acquired: {other:?}"),
        }
    };
    for key in ["XQX/held", "XQX/released", "XQX/resolved", "XQX/closed", "plain/held", "plain/closed"] {
        begin(key).await.hold("held for XQX").await.expect("held");
    }
    begin("XQX/doubt").await.leave_in_doubt("in doubt for XQX").await;
    begin("plain/doubt").await.leave_in_doubt("in doubt for XQX").await;
    begin("XQX/done").await.complete("done by XQX").await.expect("completed");
    let workflows = Workflows::new(&client, place.workflows()).expect("workflows");
    for key in [
        "XQX/shown",
        "XQX/retried",
        "XQX/skipped",
        "XQX/resolved",
        "XQX/compensated",
        "XQX/ended",
        "XQX/cancelled",
    ] {
        workflows.start(&Stuck, key, &key.to_owned()).run().await.expect("an outcome");
    }
    let consumer = workflows.inbox("packer").expect("a name").consumer();
    for number in 0..2 {
        let order = Delivery::new(format!("id {number} XQX"), "body XQX").group("group XQX");
        consumer.dead_letter(&order, Class::Permanent, "dead for XQX").await.expect("it is kept");
    }
    // As old as to be due.
    let behind = Workflows::builder(&client, place.workflows()).with_clock(Arc::new(Behind));
    let workflows = behind.source("/orders").build().expect("workflows");
    let message = NewMessage::new("topic/XQX", &"body XQX").subject("subject/XQX");
    let put = workflows.outbox().message(message).expect("a message");
    let put = TransactWriteItem::builder().put(put.put()).build();
    client.transact_write_items().transact_items(put).send().await.expect("committed");
}

/// No character stays that a terminal obeys, and no line of others begins.
fn is_clean(ran: &Ran, call: &str) {
    let place = ran.place.clone().unwrap_or_default();
    for text in [ran.text(), &ran.said, &place] {
        let odd = |it: &char| it.is_control() && *it != '\n' || HOSTILE.contains(*it) && !it.is_ascii();
        let found: Vec<_> = text.chars().filter(odd).collect();
        assert!(found.is_empty(), "{call}: {found:?} in {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{call}: {text}");
    }
}

/// It is clean, and printed some of the hostile text: else nothing would be shown here.
fn is_shown(ran: &Ran, call: &str) {
    is_clean(ran, call);
    assert!(format!("{}{}", ran.text(), ran.said).contains("evil"), "{call}: {}{}", ran.text(), ran.said);
}

fn words(call: &str) -> Vec<String> {
    call.split(' ').map(|word| word.replace(MARK, HOSTILE)).collect()
}

fn run(place: &Place, call: &str) -> Ran {
    let words = words(call);
    place.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Calls that print text of others.
const CALLS: [&str; 47] = [
    "status",
    "status --output json",
    "ls",
    "ls --output json",
    "ls tokens",
    "ls workflows",
    "ls messages",
    "ls --text evil",
    "ls --key XQX/held",
    "-vv ls",
    "scan",
    "scan --output json",
    "show XQX/held",
    "show XQX/held --content",
    "show XQX/held --output json",
    "show XQX/doubt",
    "show XQX/done --content",
    "show XQX/absent",
    "show XQX/absent --output json",
    "workflow show XQX/shown",
    "workflow show XQX/shown --content",
    "workflow show XQX/shown --output json",
    "workflow show XQX/absent",
    "workflow show XQX/absent --output json",
    "plan release --need held --reason XQX",
    "plan release --need held --reason x --output json",
    "plan compensate --need quarantined --reason x",
    "release XQX/released --reason x",
    "release XQX/done --reason x",
    "release XQX/done --reason x --output json",
    "resolve XQX/resolved --reason x --result 1",
    "correct XQX/held --reason x --result 1",
    "close XQX/closed --reason x",
    "close XQX/doubt --reason x",
    "workflow retry XQX/retried --reason x",
    "workflow skip XQX/skipped --step XQX --reason x",
    "workflow skip XQX/skipped --step XQX --reason x --output json",
    "workflow skip XQX/skipped --step call --reason x",
    "workflow resolve XQX/resolved --step call --result 1 --reason x",
    "workflow compensate XQX/compensated --reason x",
    "workflow close XQX/ended --reason x",
    "workflow cancel XQX/cancelled --reason x",
    "audit",
    "audit --output json",
    "audit XQX/released",
    "relay --route nothing=http://127.0.0.1:9/q",
    "ls --need XQX",
];

#[test]
fn no_stored_text_moves_the_cursor_or_begins_a_line() {
    let place = hostile_place();
    for call in CALLS {
        let call_with_history = format!("--history history {call}");
        let ran = run(&place, &call_with_history);
        is_shown(&ran, call);
        if ran.code == 6 && !call.starts_with("plan") {
            let act = format!("{call_with_history} --seen {}", shown(&ran.said));
            is_shown(&run(&place, &act), &act);
        }
    }
    history(&place);
    is_clean(&run(&place, "doctor"), "doctor");
    is_clean(&run(&place, "table check"), "table check");
    dead(&place);
    pasted(&place);
    planned(&place);
    once(&place);
}

/// The events of the acts have the keys of others.
fn history(place: &Place) {
    let text = std::fs::read_to_string(place.path("history")).expect("a history");
    assert!(!text.chars().any(|it| !it.is_ascii() && HOSTILE.contains(it)), "a file is escaped: {text:?}");
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let released = events.filter(|event| event["op"] == "releaseByOperator");
    let tokens: Vec<_> = released.map(|event| event["token"].clone()).collect();
    assert!(tokens.contains(&format!("{HOSTILE}/released").into()), "each character is kept: {tokens:?}");
}

fn dead(place: &Place) {
    let listed = messages(place, &[]);
    let id = listed[0]["id"].as_str().expect("an id");
    for more in ["", " --content", " --output json", " --content --output json"] {
        is_shown(&run(place, &format!("dead show {id}{more}")), more);
    }
    for verb in ["note", "archive", "restore", "discard"] {
        let act = format!("dead {verb} --all --reason x");
        let dry = run(place, &act);
        is_shown(&dry, &act);
        if verb != "discard" {
            is_clean(&run(place, &format!("{act} --seen {}", shown(&dry.said))), &act);
        }
    }
    let exported = run(place, "dead export");
    is_shown(&exported, "dead export");
    std::fs::write(place.path("exported"), exported.text()).expect("a file");
    is_clean(&run(place, "dead import exported --consumer books"), "dead import");
    std::fs::write(place.path("broken"), "{\"body\":\"evil\u{202e}\"}\n").expect("a file");
    is_clean(&run(place, "dead import broken --consumer books"), "dead import");
    let redrive = "dead redrive --all --reason x --patience 1ms";
    let dry = run(place, redrive);
    is_shown(&dry, redrive);
    is_clean(&run(place, &format!("{redrive} --seen {}", shown(&dry.said))), redrive);
}

/// A plan may come from another person.
fn planned(place: &Place) {
    let call = "plan release --need held --reason x --out plan.json";
    assert_eq!(run(place, call).code, 6);
    let text = std::fs::read_to_string(place.path("plan.json")).expect("a plan");
    assert!(!text.chars().any(|it| !it.is_ascii() && HOSTILE.contains(it)), "a file is escaped: {text:?}");
    let mut plan: Value = serde_json::from_str(&text).expect("JSON");
    assert!(text.contains("evil") && plan.to_string().contains('\u{202e}'), "and keeps each character");
    for field in ["id", "by", "reason"] {
        plan["plan"][field] = HOSTILE.into();
    }
    for item in plan["plan"]["items"].as_array_mut().expect("items") {
        item["effect"] = HOSTILE.into();
    }
    let left_out = serde_json::json!({ "work": plan["plan"]["items"][0]["work"], "because": HOSTILE });
    let mut left_out = vec![left_out];
    std::mem::swap(plan["plan"]["leftOut"].as_array_mut().expect("left out"), &mut left_out);
    std::fs::write(place.path("odd.json"), plan.to_string()).expect("a plan");
    let applied = run(place, "apply odd.json");
    is_shown(&applied, "apply");
    assert!(
        applied.said.contains("evil, made ") && applied.text().contains("left out: "),
        "{}",
        applied.text()
    );
    plan["place"] = HOSTILE.into();
    std::fs::write(place.path("odd.json"), plan.to_string()).expect("a plan");
    is_shown(&run(place, "apply odd.json"), "apply elsewhere");
    is_shown(&run(place, "apply plan.json"), "apply");
    let results = std::fs::read_to_string(place.path("plan.json.results")).expect("results");
    assert!(!results.contains('\u{202e}') && results.contains("\\u202e"), "{results}");
}

/// A line for a hostile key names that key.
fn pasted(place: &Place) {
    let status = run(place, "status");
    let line = status.text().lines().find_map(|line| Some(line.split_once(" show $'")?.1)).expect("a hint");
    let script = format!("exec \"$LOCKER\" --local=.locker show $'{line}");
    let call = place.command(&[]);
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(place.path("")).env("LOCKER", call.get_program());
    if place.is_embedded() {
        let ran = Ran::of(shell.output().expect("bash"));
        assert_eq!(ran.code, 0, "{script}: {}", ran.said);
        is_shown(&ran, &script);
    }
}

/// Records under keys that `once` takes, with hostile text in all that it prints of them.
fn prepare_once(place: &Place) {
    let owner = ["--as", "owner XQX"];
    assert_eq!(place.once("plain/failed", &owner, "echo XQX >&2; exit 3").code, 3);
    assert_eq!(place.run(&[&["once", "plain/printed"], &owner[..], &["--", "true"]].concat()).code, 0);
    assert_eq!(place.once("plain/noted", &["--hold-on-failure"], "exit 1").code, 1);
    let result = r#"{"exit":0,"note":"note XQX"}"#;
    let resolved = place.act(&["resolve", "plain/noted", "--reason", "x", "--result", result]);
    assert_eq!(resolved.code, 0, "{}", resolved.said);
}

fn once(place: &Place) {
    for (key, options, code) in [
        ("plain/failed", &["--no-fingerprint"][..], 3),
        ("plain/noted", &["--no-fingerprint"], 0),
        ("plain/doubt", &["--no-fingerprint"], 75),
        ("plain/printed", &["--fingerprint", "another"], 65),
    ] {
        let ran = place.run(&[&["once", key], options, &["--", "true"]].concat());
        assert_eq!(ran.code, code, "{key}: {}", ran.said);
        is_shown(&ran, key);
    }
    is_clean(&place.run(&["once", "plain/held", "--no-fingerprint", "--", "true"]), "plain/held");
}
