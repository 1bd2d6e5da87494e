//! `locker dead`: dead messages are listed, shown, and acted on as they were shown.

use locker::Class;
use locker::inbox::Delivery;
use locker::workflow::Workflows;
use locker_tests::command::Place;
use serde_json::Value;

use crate::place;

/// Orders that a packer cannot pack, each of a group of its own.
fn set_aside(place: &Place, orders: std::ops::Range<u32>, cause: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        let consumer = workflows.inbox("packer").expect("a name").consumer();
        for order in orders {
            let delivery = Delivery::new(format!("sqs-{order}"), format!("order {order}"));
            let delivery = delivery.group(format!("order/{order}"));
            consumer.dead_letter(&delivery, Class::Permanent, cause).await.expect("it is kept");
        }
    });
}

pub(crate) fn with_five() -> Place {
    let place = place();
    assert_eq!(place.run(&["workflow", "table", "create"]).code, 0);
    assert_eq!(place.run(&["table", "create"]).code, 0);
    set_aside(&place, 0..4, "[packing.unreadable] it is no order");
    set_aside(&place, 4..5, "the warehouse is closed");
    place
}

/// The groups of dead messages, as `status` has them, each with the id of its first message.
pub(crate) fn groups(place: &Place) -> Vec<Value> {
    let status = place.run(&["status", "--output", "json"]).json();
    let groups = status["groups"].as_array().expect("groups").iter();
    let groups = groups.filter(|group| group["need"] == "dead").cloned();
    let with_sample = groups.map(|mut group| {
        let id = group["id"].as_str().expect("an id").to_owned();
        group["sample"] = messages(place, &["--group", &id])[0]["id"].clone();
        group
    });
    with_sample.collect()
}

/// The dead messages that fit.
pub(crate) fn messages(place: &Place, selection: &[&str]) -> Vec<Value> {
    let ls = ["ls", "messages", "--need", "dead", "--output", "json"];
    let listed = place.run(&[&ls[..], selection].concat()).json();
    listed["messages"].as_array().expect("messages").clone()
}

/// As many are dead.
pub(crate) fn are_dead(place: &Place, count: usize) {
    assert_eq!(messages(place, &[]).len(), count);
}

/// The id by which a dry run says what it showed.
pub(crate) fn shown(said: &str) -> String {
    let (_, id) = said.trim_end().rsplit_once("--seen ").expect("it says how to go on");
    id.to_owned()
}

#[test]
fn dead_messages_are_listed_by_cause_and_shown() {
    let place = with_five();
    let status = place.run(&["status"]);
    assert_eq!(status.code, 5, "{}", status.said);
    let groups = groups(&place);
    let id = groups[0]["id"].as_str().expect("an id");
    assert!(status.text().contains(&format!("ls messages --need dead --group {id}")), "{}", status.text());
    assert!(status.text().contains("message unreadable at packer"), "{}", status.text());

    let lines: Vec<_> = status.text().lines().collect();
    assert!(
        lines[1].starts_with(&format!("{id}  4      dead  message unreadable at packer")),
        "{}",
        lines[1]
    );
    let listed = place.run(&["ls", "messages", "--need", "dead"]);
    let header = "MESSAGE   STATE  OF                    IN  SINCE";
    assert!(
        listed.text().starts_with(header) && listed.said.contains("5 listed"),
        "{}{}",
        listed.text(),
        listed.said
    );
    let of_group = place.run(&["ls", "messages", "--group", id]);
    assert!(of_group.said.starts_with("locker: 4 listed (messages: "), "{}", of_group.said);

    let sample = groups[1]["sample"].as_str().expect("an id");
    let one = place.run(&["dead", "show", sample]);
    for part in
        ["received by      packer", "the warehouse is closed", "7 bytes; --content prints them", "redrive"]
    {
        assert!(one.text().contains(part), "{part} is not in {}", one.text());
    }
    let content = place.run(&["dead", "show", sample, "--content", "--output", "json"]).json();
    assert_eq!((&content["body"], &content["subject"]), (&"order 4".into(), &"order/4".into()));
    let absent = place.run(&["dead", "show", "00000000"]);
    assert_eq!(absent.code, 3, "{}", absent.said);
    assert!(listed.said.contains("look at the first: locker --") && listed.said.contains(" dead show "));
}

#[test]
fn an_act_shows_first_what_it_would_do_and_does_what_was_shown_only() {
    let place = with_five();
    let group = groups(&place)[0]["id"].as_str().expect("an id").to_owned();
    let archive = ["dead", "archive", "--group", &group, "--reason", "no orders"];
    let dry = place.run(&archive);
    assert_eq!(dry.code, 6, "{}", dry.said);
    assert!(dry.text().contains("archive: 4 of 4 found"), "{}", dry.text());
    assert!(
        dry.said.contains("nothing was changed. To do this, run the same command with --seen"),
        "{}",
        dry.said
    );
    assert_eq!(groups(&place)[0]["count"], 4);

    // One more comes, and is not in the plan that was seen.
    let seen = shown(&dry.said);
    set_aside(&place, 9..10, "[packing.unreadable] nor this");
    let done = place.run(&[&archive[..], &["--seen", &seen]].concat());
    assert_eq!((done.code, done.said.contains("4 done")), (0, true), "{}", done.said);
    let of_packing = |group: &Value| group["cause"] == "[packing.unreadable]";
    assert_eq!(groups(&place).into_iter().find(of_packing).expect("a group")["count"], 1);
    // The same id again finds that all is done.
    let again = place.run(&[&archive[..], &["--seen", &seen]].concat());
    assert_eq!((again.code, again.said.contains("4 done, 4 of them before")), (0, true), "{}", again.said);
    assert_eq!(place.act(&archive).code, 0);
    assert_eq!(groups(&place).len(), 1);

    // Archived ones are in no `all` but that of a restore.
    let all = place.run(&["dead", "discard", "--all", "--reason", "x"]);
    assert!(all.text().contains("discard: 1 of 1 found"), "{}", all.text());
    let archived = place.run(&["ls", "messages", "--archived"]);
    assert!(archived.said.starts_with("locker: 5 listed"), "{}", archived.said);
    let restore = ["dead", "restore", "--all", "--reason", "they are orders after all"];
    let seen = shown(&place.run(&restore).said);
    assert_eq!(place.run(&[&restore[..], &["--seen", &seen]].concat()).code, 0);
    let acts = place.run(&["audit", "--output", "json"]).json()["acts"].clone();
    assert_eq!(acts.as_array().expect("acts").len(), 10);

    for (arguments, code, said) in [
        (vec!["dead", "redrive", "--reason", "x"], 2, "select messages"),
        (vec!["dead", "redrive", "--all"], 2, "--reason"),
        (vec!["dead", "redrive", "--topic", "no", "--reason", "x"], 3, "nothing would be changed"),
        (
            vec!["dead", "redrive", "--topic", "no", "--reason", "x", "--output", "json"],
            3,
            "nothing would be changed",
        ),
    ] {
        let ran = place.run(&arguments);
        assert!(ran.code == code && ran.said.contains(said), "{arguments:?}: {} {}", ran.code, ran.said);
        let is_json = arguments.contains(&"json");
        assert!(code != 3 || ran.text().starts_with('{') == is_json, "{}", ran.text());
    }
}

#[test]
fn a_redrive_waits_for_its_canary_and_says_that_nothing_was_heard() {
    let place = with_five();
    let redrive = ["dead", "redrive", "--consumer", "packer", "--reason", "repaired", "--patience", "1s"];
    let seen = shown(&place.run(&redrive).said);
    let done = place.run(&[&redrive[..], &["--seen", &seen]].concat());
    assert_eq!(done.code, 5, "{}", done.said);
    let said = "stopped: 1 done, 1 of them not known to be sent or handled yet, 4 not begun";
    assert!(done.said.contains(said), "{}", done.said);
    let rest = [&redrive[..], &["--canary", "0"]].concat();
    let seen = shown(&place.run(&rest).said);
    let done = place.run(&[&rest[..], &["--seen", &seen, "--output", "json"]].concat());
    assert_eq!((done.code, &done.json()["report"]["done"]), (0, &4.into()), "{}", done.said);
    are_dead(&place, 0);
}

#[test]
fn export_is_imported_into_another_table_once() {
    let place = with_five();
    let exported = place.run(&["dead", "export"]);
    assert_eq!(exported.text().lines().count(), 5, "{}", exported.said);
    let file = place.path("dead.jsonl");
    std::fs::write(&file, exported.text()).expect("a file");
    let file = file.display().to_string();
    let other = crate::place();
    assert_eq!(other.run(&["workflow", "table", "create"]).code, 0);
    for said in ["5 imported; look", "0 imported; 5 known before: each waits in the table"] {
        let imported = other.run(&["dead", "import", &file, "--consumer", "packer"]);
        assert_eq!(imported.code, 0, "{}", imported.said);
        assert!(imported.said.contains(said), "{}", imported.said);
        let groups = groups(&other);
        let of = |group: &Value| (group["count"].clone(), group["sampleCause"].clone());
        let unreadable = (4.into(), "[packing.unreadable] it is no order".into());
        let closed = (1.into(), "the warehouse is closed".into());
        assert_eq!(groups.iter().map(of).collect::<Vec<_>>(), [unreadable, closed]);
    }
    let one = groups(&other)[0]["sample"].as_str().expect("an id").to_owned();
    let one = other.run(&["dead", "show", &one, "--content", "--output", "json"]).json();
    assert!(one["body"].as_str().is_some_and(|body| body.starts_with("order ")), "{one}");
    std::fs::write(&file, "tea\n").expect("a file");
    let wrong = other.run(&["dead", "import", &file, "--consumer", "packer"]);
    assert!(wrong.code == 2 && wrong.said.contains("line 1 of"), "{}", wrong.said);
    let name = other.run(&["dead", "import", &file, "--consumer", "a packer"]);
    assert_eq!(name.code, 2, "{}", name.said);
}

#[test]
fn a_relay_without_routes_says_what_to_name() {
    let place = with_five();
    let none = place.run(&["relay"]);
    assert_eq!(none.code, 78, "{}", none.said);
    assert!(none.said.contains("--route TOPICS=URL"), "{}", none.said);
    let wrong = place.run(&["relay", "--route", "order/*=queue"]);
    assert!(wrong.code == 2 && wrong.said.contains("is no URL of a queue"), "{}", wrong.said);
    let nothing = place.run(&["relay", "--route", "*=http://127.0.0.1:9/q"]);
    assert_eq!(nothing.code, 0, "{}", nothing.said);
    assert!(nothing.said.contains("0 sent, 0 waiting, 0 dead"), "{}", nothing.said);
}

#[test]
fn listing_that_is_cut_short_is_marked_as_incomplete() {
    let place = with_five();
    for (limit, complete) in [("2", false), ("5", true)] {
        let listed =
            place.run(&["ls", "messages", "--need", "dead", "--limit", limit, "--output", "json"]).json();
        assert_eq!(listed["complete"], complete, "{listed}");
    }
    let planned = place.run(&["dead", "discard", "--all", "--limit", "2", "--reason", "why"]);
    assert!(planned.text().contains("2 of 5 found"), "{}\n{}", planned.text(), planned.said);
    let never = place.run(&["dead", "show", "ffffffff"]);
    assert!(never.said.contains("handled or discarded, or never was"), "{}", never.said);
}

#[test]
#[cfg(target_os = "linux")]
fn export_fails_on_a_full_disk_and_not_without_a_reader() {
    let place = with_five();
    let into = |line: &[&str], stdout: std::process::Stdio| {
        let ran = place.command(line).stdout(stdout).output();
        locker_tests::command::Ran::of(ran.expect("the command runs"))
    };
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a full disk").into();
    for line in [&["ls", "messages"][..], &["ls", "messages", "--output", "json"]] {
        let failed = into(line, full());
        assert_eq!(failed.code, 1, "{}", failed.said);
        assert!(failed.said.contains("its output could not be printed: No space left"), "{}", failed.said);
    }
    let export = |stdout| into(&["dead", "export"], stdout);
    let failed = export(full());
    assert_eq!(failed.code, 1, "{}", failed.said);
    assert!(failed.said.contains("could not print a message: No space left"), "{}", failed.said);
    assert!(failed.said.contains("; 0 exported, so export again"), "{}", failed.said);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let unread = export(writer.into());
    assert_eq!(unread.code, 0, "{}", unread.said);
    assert!(unread.said.contains("0 exported, with their bodies"), "{}", unread.said);
}
