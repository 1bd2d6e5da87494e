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
    let machines = ["scanner ", "completer ", "reaper ", "relay "];
    assert!(lines.iter().zip(machines).all(|(line, machine)| line.starts_with(machine)), "{lines:?}");
    assert!(lines.len() == 4 && lines[0].ends_with("has not run on this table"), "{lines:?}");
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
    let revision = place.run(&["show", "order/2", "--output", "json"]).json()["revision"].clone();
    let id = format!("its id is {}", revision.as_str().expect("a revision"));
    assert!(text.lines().any(|line| line.trim() == id), "{text}");

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

/// Three days behind.
#[derive(Debug)]
struct Behind;

impl locker::Clock for Behind {
    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        locker::Clock::now(&locker::SystemClock) - std::time::Duration::from_secs(3 * 86_400)
    }
}

#[test]
fn a_scheduled_function_that_is_silent_exits_with_5() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let builder = Locker::builder(&place.client(), place.table()).with_clock(std::sync::Arc::new(Behind));
        let scanned =
            locker::Scanner::new(&builder.build().expect("a locker")).run().await.expect("a report");
        assert!(scanned.finished && scanned.missing.is_empty());
    });
    for options in [&[][..], &["--output", "json"]] {
        let ran = place.run(&[&["status"], options].concat());
        assert_eq!(ran.code, PROBLEMS, "{}", ran.said);
        assert!(ran.said.contains("no run of the scanner has seen everything for 3d; "), "{}", ran.said);
        assert!(ran.said.contains("nothing needs an operator"), "{}", ran.said);
    }
    assert!(place.run(&["status"]).text().contains("SILENT"));
    assert_eq!(place.run(&["scan"]).code, OK);
    assert_eq!(place.run(&["status"]).code, OK, "it ran again");
}

#[test]
fn a_line_that_can_be_pasted_reads_the_shards_that_were_read() {
    let place = place();
    place.once("odd", &["--hold-on-failure"], "exit 9");
    let all = |ran: &locker_tests::command::Ran| format!("{}{}", ran.text(), ran.said);
    for arguments in [&["status"][..], &["ls", "--text", "odd"], &["show", "odd"]] {
        let said = all(&place.run(&[arguments, &["--shards", "4"]].concat()));
        let lines: Vec<_> = said.lines().filter(|line| line.contains("locker --")).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| line.contains(" --shards 4 ")), "{said}");
        let one = all(&place.run(arguments));
        assert!(!one.contains(" --shards 1"), "{one}");
    }
}

#[test]
fn with_json_what_fails_is_json_too() {
    let place = place();
    for (arguments, code, with_data) in [
        (&["show", "absent"][..], 3, false),
        (&["release", "absent", "--reason", "x"], 3, false),
        (&["workflow", "show", "absent"], 3, false),
        (&["ls", "--text", "absent"], 3, true),
        (&["plan", "release", "--need", "held", "--reason", "x"], 3, true),
        (&["complete"], 78, false),
    ] {
        let ran = place.run(&[arguments, &["--output", "json"]].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.said);
        let last = ran.said.lines().last().expect("a line");
        let error: serde_json::Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(error["error"]["exit"], code, "{arguments:?}: {last}");
        assert!(error["error"]["message"].is_string(), "{last}");
        assert_eq!(!ran.text().is_empty(), with_data, "{arguments:?}: {}", ran.text());
        assert!(!with_data || ran.json().is_object());
    }
}

#[test]
fn doctor_says_once_that_dynamodb_cannot_be_reached() {
    let place = place();
    let elsewhere = ["--table", "locks", "--workflows", "flows", "--endpoint-url", "http://127.0.0.1:9"];
    let ran = crate::bare(&place, &[&elsewhere[..], &["doctor"]].concat(), &[]);
    assert_eq!(ran.code, 69, "{}", ran.said);
    assert_eq!(ran.said.matches("cannot be reached").count(), 1, "{}", ran.said);
    assert_eq!(ran.text(), "");
}
