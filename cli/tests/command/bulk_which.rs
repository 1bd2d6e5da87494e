//! The selection of `ls` and `plan`, and the words of a plan.

use serde_json::{Value, json};

use crate::bulk::hold;
use crate::place;

#[test]
fn a_list_a_class_a_text_and_times_say_which() {
    let place = place();
    hold(&place, 2);
    for (which, expected) in [
        (&["--need", "held"][..], 2),
        (&["--need", "needsoperator"], -2),
        (&["--need", "in-doubt"], 0),
        (&["--need", "overdue"], 0),
        (&["--need", "quarantined"], 0),
        (&["--need", "failing"], 0),
        (&["--due"], 0),
        (&["--class", "needsOperator"], 2),
        (&["--class", "inDoubt"], 0),
        (&["--class", "odd"], -2),
        (&["--text", "for 1000"], 1),
        (&["--since", "2020-01-01"], 2),
        (&["--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02"], 0),
        (&["--since", "yesterday"], -2),
        (&["--until", "2026-13-01"], -2),
    ] {
        let plan = place.run(&[&["plan", "release", "--reason", "x", "--output", "json"], which].concat());
        let find = place.run(&[&["ls", "--output", "json"], which].concat());
        if expected < 0 {
            assert_eq!((plan.code, find.code), (2, 2), "{which:?}: {}", plan.said);
            continue;
        }
        let planned =
            if plan.code == 3 { 0 } else { plan.json()["plan"]["items"].as_array().map_or(0, Vec::len) };
        assert_eq!(planned, usize::try_from(expected).expect("a count"), "{which:?}");
        let listed = find.json()["tokens"].as_array().map_or(0, Vec::len);
        assert_eq!(listed, usize::try_from(expected).expect("a count"), "{which:?}");
    }
}

#[test]
fn a_plan_says_in_words_what_it_is_for_what_it_costs_and_how_old_it_is() {
    let place = place();
    hold(&place, 2);
    let which = ["--need", "held", "--text", "relay", "--since", "2020-01-01"];
    let plan = [&["plan", "release", "--reason", "x", "--out", "plan.json"], &which[..]].concat();
    let shown = place.run(&plan);
    let words = "held; mentions \"relay\"; since 2020-01-01T00:00:00.000Z or later";
    for part in [words, "at least 4 requests and 12 write units"] {
        assert!(shown.text().contains(part), "{part} is not in {}", shown.text());
    }
    let file = place.path("plan.json");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("a plan")).expect("JSON");
    for (at, bad) in [("/plan/items/0/since", "soon"), ("/plan/filter/since", "soon"), ("/plan/made", "")] {
        let mut odd = kept.clone();
        *odd.pointer_mut(at).expect("a time") = json!(bad);
        std::fs::write(place.path("odd.json"), odd.to_string()).expect("a file");
        let refused = place.run(&["apply", "odd.json"]);
        assert_eq!((refused.code, refused.said.contains("is no time")), (2, true), "{at}: {}", refused.said);
    }
    let mut old = kept.clone();
    old["plan"]["made"] = json!("2026-01-01T00:00:00.000Z");
    std::fs::write(place.path("old.json"), old.to_string()).expect("a file");
    for (file, is_old) in [("plan.json", false), ("old.json", true)] {
        let ran = place.run(&["apply", file]);
        assert!(ran.said.lines().next().is_some_and(|first| first.contains(words)), "{}", ran.said);
        assert_eq!(ran.said.contains("warning: the plan was made"), is_old, "{}", ran.said);
    }
}
