//! `locker console --allow-changes`: acts on all records that match, with progress and a stop.

use std::sync::Arc;
use std::time::Duration;

use locker::Locker;
use locker_tests::command::until;
use locker_tests::web::{Reply, Web};

use crate::bulk::hold;
use crate::console::open;
use crate::console_acts::acting;
use crate::console_pages::has;
use crate::dead::{are_dead, with_five};
use crate::place;

/// The page to which a form leads.
#[track_caller]
pub(crate) fn follow(web: &Web, reply: &Reply) -> (String, Reply) {
    assert_eq!(reply.status, 303, "{}", reply.body);
    let path = reply.header("location").to_owned();
    (path.clone(), web.get(&path))
}

/// The plan of an act on all records of a need.
#[track_caller]
pub(crate) fn planned(web: &Web, need: &str, fields: &[(&str, &str)]) -> (String, Reply) {
    let page = web.get(&format!("/plan/new?need={need}"));
    let form = fields.iter().fold(page.form("/plan"), |form, (name, value)| form.with(name, value));
    follow(web, &web.send(&form))
}

/// The page of the most urgent group.
fn first_group(web: &Web) -> String {
    let home = web.get("/").body;
    let group = home.split("href=\"/group?").nth(1).and_then(|rest| rest.split('"').next());
    web.get(&format!("/group?{}", group.expect("a group").replace("&amp;", "&"))).body
}

/// Waits until the page of a plan has a text.
pub(crate) fn await_text(web: &Web, path: &str, text: &str) -> String {
    until(|| web.get(path).body.contains(text));
    web.get(path).body
}

/// The command line on the page that continues the plan.
pub(crate) fn line(page: &str) -> String {
    let line = page.split("apply ").nth(1).expect("a line");
    line.split('<').next().expect("its end").to_owned()
}

#[test]
fn plan_is_stored_before_it_is_applied_and_the_line_continues_it() {
    let place = place();
    hold(&place, 12);
    let web = acting(&place);
    let group = first_group(&web);
    let form = group.split("href=\"/plan/new?").nth(1).and_then(|rest| rest.split('"').next());
    let form = web.get(&format!("/plan/new?{}", form.expect("a plan").replace("&amp;", "&")));
    has(&form.body, &["Act on all held tokens of the group ", "release", "resolve", "close"]);
    let form = form.form("/plan").with("reason", "relay repaired").with("rate", "10000");
    let (path, page) = follow(&web, &web.send(&form));
    has(
        &page.body,
        &["The dry run wrote nothing.", "release 12 records", "12 of 12 found", "relay repaired"],
    );
    has(&page.body, &["write units", "relay denied for", "10000 per second", "planned by"]);
    let file = line(&page.body);
    assert!(std::path::Path::new(&file).is_file(), "{file} is not on disk");
    assert_eq!(place.run(&["status"]).code, 5, "nothing is released yet");

    let (path, _) = (path, web.send(&page.form("/plan/apply")));
    let page = await_text(&web, &path, "Finished: ");
    has(&page, &["12 of 12, 12 done", "Finished: 12 done."]);
    assert!(!page.contains("action=\"/plan/apply\""), "{page}");
    has(&web.get("/audit").body, &["grace", "relay repaired (plan "]);
    let again = place.run(&["apply", &file]);
    assert_eq!(again.code, 0, "{}", again.said);
    assert!(again.said.contains("12 done, 12 of them before"), "{}", again.said);
}

#[test]
fn group_without_a_cause_offers_no_plan_of_the_whole_group() {
    let place = place();
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        let clock = locker_tests::TestClock::new().behind(Duration::from_secs(3600));
        let locker = Locker::builder(&place.client(), place.table()).with_clock(Arc::new(clock));
        drop(locker_tests::held_by(locker.build().expect("a locker").token("pay/1")).await);
    });
    let web = acting(&place);
    let group = first_group(&web);
    has(&group, &["pay/1", "may be different work", "href=\"/find\""]);
    assert!(!group.contains("Plan an act on the whole group"), "{group}");
    let form = web.get("/plan/new?need=overdue").form("/plan").with("reason", "relay repaired");
    let refused = web.send(&form);
    assert_eq!(refused.status, 409);
    has(&refused.body, &["it has no cause"]);
}

#[test]
fn records_that_changed_since_the_plan_are_left_as_they_are() {
    let place = place();
    hold(&place, 3);
    let web = acting(&place);
    let (path, page) = planned(&web, "held", &[("reason", "relay repaired")]);
    let key = "@cust8/mail/1";
    let seen = place.run(&["show", key, "--output", "json"]).json();
    let revision = seen["revision"].as_str().expect("a revision");
    let closed = place.run(&["close", key, "--reason", "never sent", "--seen", revision]);
    assert_eq!(closed.code, 0, "{}", closed.said);
    assert_eq!(web.send(&page.form("/plan/apply")).status, 303);
    let page = await_text(&web, &path, "Finished: ");
    has(&page, &["3 of 3, 2 done", "Finished: 2 done", "Not done", key, "left as"]);
}

#[test]
fn plan_is_stopped_and_continued() {
    let place = place();
    hold(&place, 6);
    let web = acting(&place);
    let (path, page) = planned(&web, "held", &[("reason", "relay repaired"), ("rate", "1")]);
    assert_eq!(web.send(&page.form("/plan/apply")).status, 303);
    let page = web.get(&path);
    has(&page.body, &["The plan is being applied.", "<progress", "data-refresh"]);
    let twice = web.send(&page.form("/plan/stop").with("id", "00000000"));
    assert_eq!(twice.status, 303, "a plan that is not applied needs no stop");
    has(&web.get("/").body, &["is being applied: "]);
    until(|| web.get(&path).body.contains("1 done"));
    assert_eq!(web.send(&page.form("/plan/stop")).status, 303);
    let stopped = await_text(&web, &path, "Not finished: ");
    has(&stopped, &["not begun", "Continue the plan"]);
    let file = line(&stopped);
    let results = std::fs::read_to_string(format!("{file}.results")).expect("results");
    let before = results.lines().count();
    assert!((1..6).contains(&before), "{results}");
    let ran = place.run(&["apply", &file]);
    assert_eq!(ran.code, 0, "{}", ran.said);
    assert!(ran.said.contains("6 done, "), "{}", ran.said);
    let again = web.send(&web.get(&path).form("/plan/apply"));
    assert_eq!(again.status, 303);
    has(&await_text(&web, &path, "Finished: "), &["6 of them before"]);
}

#[test]
fn plan_that_is_being_applied_is_not_applied_twice() {
    let place = place();
    hold(&place, 4);
    let web = acting(&place);
    let (path, page) = planned(&web, "held", &[("reason", "relay repaired"), ("rate", "1")]);
    assert_eq!(web.send(&page.form("/plan/apply")).status, 303);
    until(|| web.get(&path).body.contains("1 done"));
    let second = web.send(&page.form("/plan/apply"));
    assert_eq!(second.status, 409, "{}", second.body);
    has(&second.body, &["is being applied already"]);
    let other = acting(&place);
    let of_other = other.get(&path);
    assert!(!of_other.body.contains("wrote nothing"), "its results show it: {}", of_other.body);
    has(&of_other.body, &["was applied before, and may be applied now"]);
    assert_eq!(web.send(&web.get(&path).form("/plan/stop")).status, 303);
    await_text(&web, &path, "finished: ");
}

#[test]
fn dead_messages_are_redriven_with_a_canary() {
    let place = with_five();
    let web = acting(&place);
    let form = web.get("/plan/new?need=dead");
    has(&form.body, &["redrive", "archive", "discard", "note", "name=\"canary\"", "name=\"breaker\""]);
    let (_, page) = planned(&web, "dead", &[("verb", "archive"), ("reason", "of the old shop")]);
    has(&page.body, &["archive 5 records", "<dd>10 per second</dd>"]);
    let path = follow(&web, &web.send(&page.form("/plan/apply"))).0;
    await_text(&web, &path, "Finished: 5 done");
    are_dead(&place, 0);
    let archived = web.get("/messages").body;
    has(&archived, &["Restore all archived messages", "it is no order", "of the old shop"]);
    let read_only = open(&place, &[]).get("/messages").body;
    assert!(read_only.contains("of the old shop") && !read_only.contains("Restore all"), "{read_only}");
    let form = web.get("/plan/new").form("/plan").with("reason", "after all");
    let (_, page) = follow(&web, &web.send(&form));
    let path = follow(&web, &web.send(&page.form("/plan/apply"))).0;
    await_text(&web, &path, "Finished: 5 done");
    are_dead(&place, 5);
    let (_, page) = planned(&web, "dead", &[("reason", "the packer is repaired")]);
    has(&page.body, &["redrive 5 records", "canary 1", "breaker 10"]);
}

#[test]
fn plan_of_nothing_or_of_a_wrong_field_is_refused() {
    let place = place();
    hold(&place, 1);
    let web = acting(&place);
    for (need, fields, why) in [
        ("dead", &[("reason", "why")][..], "Nothing would be changed"),
        ("held", &[("reason", "why"), ("verb", "resolve")], "A resolve takes a result"),
        ("held", &[("reason", "why"), ("verb", "redrive")], "Choose an act"),
        ("held", &[("reason", "why"), ("rate", "many")], "many is not a whole number"),
        ("held", &[("reason", "")], "reason"),
        ("quarantined", &[("reason", "why"), ("verb", "skip")], "step"),
    ] {
        let form = web.get(&format!("/plan/new?need={need}")).form("/plan");
        let form = fields.iter().fold(form, |form, (name, value)| form.with(name, value));
        let refused = web.send(&form);
        assert_eq!(refused.status, 409, "{need} {fields:?}: {}", refused.body);
        has(&refused.body, &["Nothing was written.", why]);
    }
    assert_eq!(web.get("/plan/new?need=unsent").status, 400);
    assert_eq!(web.get("/plan/new?need=nothing").status, 400);
    for (id, status) in [("0f3a9c51", 409), ("../../x", 400), ("", 400)] {
        assert_eq!(web.get(&format!("/plan?id={id}")).status, status, "{id}");
    }
}

#[test]
fn plan_of_other_tables_is_refused() {
    let (place, other) = (place(), place());
    hold(&place, 1);
    let web = acting(&place);
    let (_, page) = planned(&web, "held", &[("reason", "relay repaired")]);
    let file = line(&page.body);
    let plan: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("a plan")).expect("JSON");
    let mut moved = plan.clone();
    moved["place"] = "elsewhere".into();
    std::fs::write(&file, moved.to_string()).expect("written");
    let refused = web.send(&page.form("/plan/apply"));
    assert_eq!(refused.status, 400, "{}", refused.body);
    has(&refused.body, &["the plan is for elsewhere"]);
    drop(other);
}
