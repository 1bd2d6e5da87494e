//! Does anything need an operator: one command, and one exit code.

use locker::{Begun, Locker};

use crate::place;

const OK: i32 = 0;
const PROBLEMS: i32 = 5;

#[test]
fn one_command_says_what_needs_an_operator_and_how_to_look_at_it() {
    let place = place();
    let well = place.run(&["status"]);
    assert_eq!(well.code, OK, "{}", well.said);
    let lines: Vec<_> = well.text().lines().map(str::to_owned).collect();
    let machines = ["scanner ", "completer ", "reaper "];
    assert!(lines.iter().zip(machines).all(|(line, machine)| line.starts_with(machine)), "{lines:?}");
    assert!(lines.len() == 3 && lines[0].ends_with("has not run on this table"), "{lines:?}");
    assert!(well.said.contains("nothing needs an operator"), "{}", well.said);

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let locker = Locker::new(&place.client(), place.table()).expect("a locker");
        for order in 0..5 {
            let Ok(Begun::Acquired(lock)) = locker.token(("order", order)).begin().await else {
                panic!("not acquired")
            };
            match order {
                0 => lock.hold("disk full").await.expect("held"),
                1 => lock.complete("done").await.expect("completed"),
                order => lock.leave_in_doubt(&format!("no reply to ch_{order}a7b7c7")).await,
            }
        }
    });
    let ran = place.run(&["status"]);
    assert_eq!(ran.code, PROBLEMS, "{}", ran.said);
    assert!(ran.said.contains("4 need an operator"), "{}", ran.said);
    let text = ran.text();
    let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[1][1..4], ["3", "inDoubt", "token"], "{text}");
    assert!(text.contains("no reply to #") && text.contains("disk full"), "{text}");
    // Each group has a line that can be pasted.
    let shown =
        text.lines().find(|line| line.starts_with(lines[1][0]) && line.contains(" show ")).expect("a line");
    assert!(shown.ends_with("show order/2"), "{text}");

    let json = place.run(&["status", "--output", "json"]).json();
    assert_eq!((&json["groups"][0]["count"], &json["groups"][0]["id"]), (&3.into(), &lines[1][0].into()));
    assert_eq!((&json["finished"], json["place"].is_string()), (&true.into(), true));

    assert_eq!(json["runs"][0]["at"], serde_json::Value::Null);
    assert_eq!(place.run(&["scan"]).code, PROBLEMS);
    let json = place.run(&["status", "--output", "json"]).json();
    let run = &json["runs"][0];
    assert_eq!((&run["machine"], &run["isSilent"]), (&"scanner".into(), &false.into()));
    assert!(run["at"].is_string() && run["finished"] == true && run["by"].is_string(), "{run}");
}
