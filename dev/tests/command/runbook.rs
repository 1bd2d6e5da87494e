//! The runbook of the chapter *Operating*, followed by its own text, to the answer that the customer
//! ought to get.

mod refused;
mod text;

use std::time::Duration;

use locker_tests::command::{Place, until};
use serde_json::{Value, json};

use crate::dev::Dev;
use crate::place;
use text::{Given, Section};

const REQUEST: &str = "A request and the work inside it.";
const HAPPENED: &str = "It happened.";
const DID_NOT: &str = "It did not happen, and will not.";

/// The page of tokens that need an operator.
const TOKENS: &str = "operating/tokens.md";

fn overdue() -> Section {
    Section::read(TOKENS, "A token is overdue or in doubt")
}

/// Lists, until there are so many tokens, and shows each: the two lines that a section begins with.
/// A request comes after the work inside it.
fn look(section: &Section, place: &Place, tokens: usize) -> Vec<Value> {
    let lines = section.below("");
    let [list, show] = &lines[..] else { panic!("two lines to look") };
    let mut listed = Vec::new();
    until(|| {
        let json = section.run(place, list, Given::default()).json();
        listed = json["tokens"].as_array().expect("a list").clone();
        listed.len() >= tokens
    });
    assert_eq!(listed.len(), tokens, "{listed:?}");
    let shown = listed.iter().map(|token| {
        let key = token["lockToken"].as_str().expect("a key");
        let shown = section.run(place, show, Given { key, ..Given::default() });
        assert_eq!(shown.code, 0, "{}", shown.said);
        shown.json()
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort_by_key(|token| token["form"] == "http");
    shown
}

/// Runs the line below some bold words.
fn decide(section: &Section, place: &Place, lead: &str, token: &Value, result: &Value) {
    let lines = section.below(lead);
    let [line] = &lines[..] else { panic!("one line to decide") };
    let text = |name: &str| token[name].as_str().expect("text").to_owned();
    let (key, revision, result) = (text("lockToken"), text("revision"), result.to_string());
    let run = || section.run(place, line, Given { key: &key, revision: &revision, result: &result });
    let mut ran = run();
    // Refused for as long as its owner's clock may be behind.
    until(|| {
        if ran.said.contains("try again in some seconds") {
            ran = run();
        }
        ran.code == 0 || !ran.said.contains("try again in some seconds")
    });
    assert_eq!(ran.code, 0, "{lead} {}", ran.said);
}

/// What the provider charged under the key of a token.
fn charge(token: &Value, books: &[Value]) -> Option<Value> {
    let entry = books.iter().find(|entry| entry["key"] == token["lockToken"])?;
    Some(entry["receipt"]["charge"].clone())
}

/// The answer of an order in the form that the runbook gives as an example of a type.
fn order(section: &Section, token: &Value, charge: &Value) -> Value {
    assert_eq!(token["form"], "Order", "{token}");
    let mut order = section.example("the name of a type");
    let id = token["lockToken"].as_str().and_then(|key| key.rsplit('/').next()).expect("a key");
    for (name, value) in [("orderId", json!(id)), ("charge", charge.clone())] {
        *order.get_mut(name).expect("a field of an order") = value;
    }
    order
}

/// Acts on a token, as what is shown of it and the books of the provider say.
fn act(section: &Section, place: &Place, token: &Value, books: &[Value]) {
    match charge(token, books) {
        _ if token["form"] == "http" => decide(section, place, REQUEST, token, &Value::Null),
        Some(charge) => {
            decide(section, place, HAPPENED, token, &order(section, token, &charge));
        }
        None => decide(section, place, DID_NOT, token, &Value::Null),
    }
}

fn nothing_is_listed(place: &Place) {
    assert_eq!(place.run(&["ls", "--output", "json"]).json()["tokens"], json!([]));
}

/// The customer's order ends in doubt, and is put right by the runbook. Returns the provider's
/// books.
async fn in_doubt(section: &Section, mood: &str) -> Vec<Value> {
    let place = place();
    let dev = Dev::start(&place);
    dev.mood(mood).await;
    let (status, body) = dev.order("k7", 7).await;
    assert_eq!((status, &body["type"]), (504, &json!("urn:locker:orders:in-doubt")), "{mood}");
    dev.mood("well").await;
    assert_eq!(dev.order("k7", 7).await.0, 409, "{mood}");
    let before = dev.books().await;
    for token in look(section, &place, 1) {
        act(section, &place, &token, &before);
    }
    assert_eq!(dev.order("k7", 7).await, (201, json!({ "orderId": "7", "charge": "ch_1" })), "{mood}");
    nothing_is_listed(&place);
    let books = dev.books().await;
    assert_eq!((books.len(), &books[0]["asked"]), (1, &json!(1)), "{mood}");
    dev.stop();
    before
}

/// Three customers' requests are cut short by a kill after the charge.
async fn killed(section: &Section) {
    let place = place();
    let dev = Dev::start_with(&place, &["--patience", "60"]);
    dev.mood("slow").await;
    let customers = [("k1", 1), ("k2", 2), ("k3", 3)];
    let sent = customers.map(|(key, id)| tokio::spawn(dev.request("orders", key, id).send()));
    let mut books = Vec::new();
    while books.len() < customers.len() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        books = dev.books().await;
    }
    dev.kill();
    for request in sent {
        assert!(request.await.expect("a task").is_err(), "no response");
    }

    let dev = Dev::start(&place);
    // The requests have no line of their own.
    for token in look(section, &place, 3) {
        act(section, &place, &token, &books);
    }
    nothing_is_listed(&place);
    for (key, _) in customers {
        let request = &place.show(&format!("@you/POST/orders/{key}"));
        match key {
            // Somebody who looks one up can act on it all the same.
            "k1" => act(section, &place, request, &books),
            "k2" => {
                // As if nothing inside had a token.
                let answer = place.show("@you/order/create/2")["result"].clone();
                let mut response = section.example("`http`");
                response["body"] = json!(answer.to_string());
                decide(section, &place, HAPPENED, request, &response);
            }
            // The customer takes it over.
            _ => until_answered(&dev, "k3", 3).await,
        }
    }
    nothing_is_listed(&place);
    for (key, id) in customers {
        let inside = json!({ "lockToken": format!("@you/order/create/{id}") });
        let order = json!({ "orderId": id.to_string(), "charge": charge(&inside, &books) });
        assert_eq!(dev.order(key, id).await, (201, order));
    }
    nothing_is_listed(&place);
    let asked: Vec<_> = books.iter().map(|entry| entry["asked"].clone()).collect();
    assert_eq!(asked, vec![json!(1); 3], "one charge for each");
    // Beside a table elsewhere, the books end with their process.
    let kept = if place.is_embedded() { books } else { Vec::new() };
    assert_eq!(dev.books().await, kept, "and none since");
    dev.stop();
}

/// Repeats a request until it is not refused for that of the dead process.
async fn until_answered(dev: &Dev, key: &str, id: u32) {
    let answered = async {
        while dev.order(key, id).await.0 == 409 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), answered).await.expect("it is answered");
}

/// The example of the form `once`, as the answer of a command.
fn once(section: &Section) {
    let place = place();
    place.once("report", &["--expect", "1s"], "kill -9 $$");
    for token in look(section, &place, 1) {
        decide(section, &place, HAPPENED, &token, &section.example("`once`"));
    }
    let replayed = place.once("report", &[], "echo again >> effects");
    assert_eq!((replayed.code, replayed.text(), place.lines("effects")), (0, "...", 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_overdue_or_in_doubt() {
    let section = overdue();
    for mood in ["dropping", "mute"] {
        assert_eq!(in_doubt(&section, mood).await.len(), 1, "{mood}: it was charged");
    }
    assert_eq!(in_doubt(&section, "deaf").await.len(), 0, "it was not charged");
    killed(&section).await;
    once(&section);
    section.is_followed();
}

#[test]
fn a_token_is_held() {
    let (section, overdue) = (Section::read(TOKENS, "A token is held"), overdue());
    let place = place();
    let fails = |key: &str| place.once(key, &["--hold-on-failure"], "echo x >> effects; exit 9").code;
    let keys = ["a", "b", "c"];
    assert_eq!(keys.map(fails), [9, 9, 9]);
    let held = look(&section, &place, 3);
    let token = |key: &str| held.iter().find(|token| token["lockToken"] == key).expect("listed");
    decide(&section, &place, "The failure is the answer.", token("a"), &Value::Null);
    decide(&overdue, &place, HAPPENED, token("b"), &json!({ "exit": 0, "stdout": "sent" }));
    decide(&overdue, &place, DID_NOT, token("c"), &Value::Null);
    nothing_is_listed(&place);
    assert_eq!((keys.map(fails), place.lines("effects")), ([9, 0, 9], 4));
    assert_eq!(place.once("b", &[], "true").text(), "sent");
    section.is_followed();
}
