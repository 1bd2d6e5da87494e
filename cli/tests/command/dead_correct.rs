//! `locker dead correct`: another body for one dead message, and both bodies in the audit.

use locker_tests::command::Place;
use serde_json::Value;

use crate::place;

/// One dead message of the packer. Returns its id.
fn with_one() -> (Place, String) {
    let place = place();
    let line = r#"{"body":"order 1","delivery":{"id":"1","group":"a","receives":1,"attributes":null},"class":"permanent","cause":"no order"}"#;
    std::fs::write(place.path("dead.jsonl"), line).expect("a file");
    let file = place.path("dead.jsonl").display().to_string();
    let imported = place.run(&["dead", "import", &file, "--consumer", "packer"]);
    assert_eq!(imported.code, 0, "{}", imported.said);
    let id = crate::dead::messages(&place, &[])[0]["id"].as_str().expect("an id").to_owned();
    (place, id)
}

fn body_of(place: &Place, id: &str) -> Value {
    place.run(&["dead", "show", id, "--content", "--output", "json"]).json()["body"].clone()
}

#[test]
fn corrected_message_stays_dead_and_the_audit_prints_both_bodies() {
    let (place, id) = with_one();
    let file = place.path("right.txt").display().to_string();
    std::fs::write(&file, "order 2\n").expect("a file");
    let correct = ["dead", "correct", &id, "--body", &file, "--reason", "the order was mistyped"];
    let dry = place.run(&correct);
    assert_eq!((dry.code, body_of(&place, &id)), (6, "order 1".into()), "{}", dry.said);
    assert!(dry.text().contains("its body is replaced"), "{}", dry.text());
    let seen = crate::dead::shown(&dry.said);
    let done = place.run(&[&correct[..], &["--seen", &seen]].concat());
    assert_eq!((done.code, body_of(&place, &id)), (0, "order 2".into()), "{}", done.said);
    crate::dead::are_dead(&place, 1);
    // The dry run was of the earlier body.
    assert_eq!(place.run(&[&correct[..], &["--seen", &seen]].concat()).code, 4);
    let audit = place.run(&["audit", &id]);
    let printed = audit.text();
    assert!(printed.contains("replaced this body: \"order 1\""), "{printed}");
    assert!(printed.contains("gave this result: \"order 2\""), "{printed}");
}

#[test]
fn correction_without_a_file_or_a_dead_message_writes_nothing() {
    let (place, id) = with_one();
    let correct = |id: &str, file: &str| {
        place.run(&["dead", "correct", id, "--body", file, "--reason", "the order was mistyped"])
    };
    let absent = correct(&id, "absent.txt");
    assert_eq!(absent.code, 2, "{}", absent.said);
    assert!(absent.said.contains("could not read the body from absent.txt"), "{}", absent.said);
    std::fs::write(place.path("right.txt"), "order 2").expect("a file");
    let file = place.path("right.txt").display().to_string();
    let unknown = correct("0a0a0a0a", &file);
    assert_eq!(unknown.code, 3, "{}", unknown.said);
    assert_eq!(body_of(&place, &id), "order 1");
}
