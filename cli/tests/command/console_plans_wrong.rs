//! `locker console --allow-changes`: plans that go wrong, and what the page shows.

use std::time::Duration;

use lock_token_testing::Embedded;
use locker_tests::command::until;

use crate::bulk::hold;
use crate::console::open;
use crate::console_acts::acting;
use crate::console_pages::has;
use crate::console_plans::{await_text, follow, line, planned};
use crate::console_wrong::{over, with_unsure};
use crate::place;

#[test]
fn plan_that_another_run_applied_is_not_called_unapplied() {
    let place = place();
    hold(&place, 2);
    let web = acting(&place);
    let (path, page) = planned(&web, "held", &[("reason", "relay repaired")]);
    has(&page.body, &["The dry run wrote nothing."]);
    let applied = place.run(&["apply", &line(&page.body)]);
    assert_eq!(applied.code, 0, "{}", applied.said);
    // A console that is started again knows as much as another console.
    for web in [&web, &acting(&place)] {
        let page = web.get(&path).body;
        assert!(!page.contains("no result of it"), "{page}");
        has(&page, &["was applied before", "2 records have a result", "Continue the plan"]);
    }
}

#[test]
fn old_plan_is_shown_with_a_warning() {
    let place = place();
    hold(&place, 1);
    let web = acting(&place);
    let (path, page) = planned(&web, "held", &[("reason", "relay repaired")]);
    assert!(!page.body.contains("newer"), "{}", page.body);
    let file = line(&page.body);
    let mut kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("a plan")).expect("JSON");
    kept["plan"]["made"] = "2026-01-01T00:00:00.000Z".into();
    std::fs::write(&file, kept.to_string()).expect("written");
    has(
        &web.get(&path).body,
        &["records that changed since stay as they are, and newer ones are not included"],
    );
}

#[test]
fn numbers_of_a_plan_are_checked() {
    let place = place();
    hold(&place, 1);
    let web = acting(&place);
    let form = web.get("/plan/new?need=held").form("/plan").with("reason", "relay repaired");
    for (name, value, range) in [
        ("rate", "0", "from 1 to 10000"),
        ("rate", "-1", "from 1 to 10000"),
        ("rate", "10001", "from 1 to 10000"),
        ("rate", "1e9", "from 1 to 10000"),
        ("limit", "0", "from 1 to 100000"),
        ("limit", "99999999999999999999", "from 1 to 100000"),
        ("limit", "1.5", "from 1 to 100000"),
    ] {
        let refused = web.send(&form.clone().with(name, value));
        assert_eq!(refused.status, 409, "{name} {value}: {}", refused.body);
        has(&refused.body, &["Nothing was written.", range, &format!("value=\"{value}\"")]);
    }
    let dead = web.get("/plan/new?need=dead").form("/plan").with("reason", "repaired");
    for name in ["canary", "breaker"] {
        let refused = web.send(&dead.clone().with(name, "1001"));
        has(&refused.body, &["Nothing was written.", "from 0 to 1000"]);
    }
    // An empty field has the default that the form shows.
    let page = follow(&web, &web.send(&form.with("rate", ""))).1;
    has(&page.body, &["100 per second"]);
}

#[test]
fn result_of_a_plan_is_shown_on_request_only() {
    let place = place();
    hold(&place, 1);
    let fields = [("reason", "relay repaired"), ("verb", "resolve"), ("result", "\"classified\"")];
    let web = acting(&place);
    let form = web.get("/plan/new?need=held");
    let form = fields.iter().fold(form.form("/plan"), |form, (name, value)| form.with(name, value));
    let (path, page) = follow(&web, &web.send(&form));
    assert!(!page.body.contains("classified"), "{}", page.body);
    let data = path.replace("/plan?", "/plan/data?");
    has(&page.body, &[&format!("href=\"{data}\"")]);
    assert!(!web.log().contains("data was shown"), "{}", web.log());
    has(&web.get(&data).body, &["classified"]);
    until(|| web.log().contains("data was shown"));
    has(&web.log(), &["viewer=\"grace\"", "kind=\"plan\""]);
    let without = open(&place, &["--no-data"]);
    assert!(!without.get(&path).body.contains("classified"));
    assert_eq!(without.get(&data).status, 403);
}

/// The audit of earlier runs is read first.
#[test]
fn plan_that_cannot_begin_is_said_to_change_nothing() {
    let (engine, place) = (Embedded::memory().expect("an engine"), place());
    let (served, web) = over(&engine, &place, &["odd/1"]);
    let (path, page) = planned(&web, "held", &[("reason", "relay repaired")]);
    served.deny("Query");
    assert_eq!(web.send(&page.form("/plan/apply")).status, 303);
    has(&await_text(&web, &path, "alert"), &["This run changed nothing."]);
}

#[test]
fn ctrl_c_stops_the_plans_and_begins_none() {
    let place = place();
    hold(&place, 40);
    let web = acting(&place);
    let reason = ("reason", "relay repaired");
    let (first, page) = planned(&web, "held", &[reason, ("rate", "1")]);
    let (_, other) = planned(&web, "held", &[reason, ("rate", "1")]);
    assert_eq!(web.send(&page.form("/plan/apply")).status, 303);
    until(|| web.get(&first).body.contains("1 done"));
    let mut kept = web.connect();
    assert_eq!(kept.get(&web, "/audit"), Some(200));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(web.process().cast_signed()),
        nix::sys::signal::Signal::SIGINT,
    )
    .expect("SIGINT");
    until(|| web.log().contains("is stopped when the acts under way have ended"));
    let begun = kept.send(&web, &other.form("/plan/apply"));
    assert_ne!(begun, Some(303), "a plan begins while the console ends");
    has(&web.log(), &["to continue it: locker", &line(&page.body)]);
    let mut web = web;
    assert_eq!(web.ended(), 0);
    let results = std::fs::read_to_string(format!("{}.results", line(&page.body))).expect("results");
    assert!((1..40).contains(&results.lines().count()), "{results}");
    assert!(!std::path::Path::new(&format!("{}.results", line(&other.body))).exists());
}

#[test]
fn plan_file_of_another_user_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    hold(&place, 1);
    let web = acting(&place);
    let (path, page) = planned(&web, "held", &[("reason", "relay repaired")]);
    let file = line(&page.body);
    let set = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    set(0o622);
    assert_eq!(web.get(&path).status, 403);
    let refused = web.send(&page.form("/plan/apply"));
    assert_eq!(refused.status, 403, "{}", refused.body);
    has(&refused.body, &["other users may write it"]);
    set(0o600);
    let moved = format!("{file}.moved");
    std::fs::rename(&file, &moved).expect("moved");
    std::os::unix::fs::symlink(&moved, &file).expect("a link");
    assert_eq!(web.send(&page.form("/plan/apply")).status, 403);
    assert_eq!(place.run(&["status"]).code, 5, "nothing is released");
}

/// A page may read for ten seconds. A plan of 200 records takes more here, as one of 50,000 does on
/// DynamoDB.
#[test]
fn plan_may_read_for_longer_than_a_page() {
    let (engine, place) = (Embedded::memory().expect("an engine"), place());
    let keys: Vec<_> = (0..200).map(|number| format!("odd/{number}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let (served, web) = over(&engine, &place, &keys);
    served.slow_down("GetItem", Duration::from_millis(900));
    let page = planned(&web, "held", &[("reason", "books")]).1;
    has(&page.body, &["release 200 records"]);
}

#[test]
fn plan_of_a_group_has_the_records_of_this_group() {
    let place = place();
    hold(&place, 2);
    place.once("other", &["--hold-on-failure"], "exit 1");
    let groups = place.run(&["status", "--output", "json"]).json()["groups"].clone();
    let group = groups.as_array().expect("groups").iter().find(|group| group["count"] == 2);
    let group = group.expect("a group")["id"].as_str().expect("an id");
    let web = acting(&place);
    let form = web.get(&format!("/plan/new?need=held&group={group}")).form("/plan");
    let page = follow(&web, &web.send(&form.with("reason", "relay repaired"))).1;
    has(&page.body, &["release 2 records", "2 of 2 found", group]);
    let form = web.get("/plan/new?need=held").form("/plan").with("limit", "1");
    let page = follow(&web, &web.send(&form.with("reason", "relay repaired"))).1;
    has(&page.body, &["release 1 record<", "More may fit: the lists were not read to their end."]);
}

#[test]
fn record_without_the_step_is_left_out_with_the_reason() {
    let place = with_unsure();
    let web = acting(&place);
    let fields = [("reason", "the bank has no charge"), ("step", "pay")];
    let page = planned(&web, "quarantined", &fields).1.body;
    has(&page, &["retry pay of 1 record<", "1 of 2 found, 1 left out", "Left out", "stuck/1"]);
    has(&page, &["it has no record of step pay"]);
}
