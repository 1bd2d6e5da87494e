//! Acting on all that matches: the plan changes nothing, and running it twice does nothing twice.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use locker::workflow::Workflows;
use locker::{Begun, Locker};
use locker_tests::filled::Stuck;
use serde_json::json;

use crate::dead::shown;
use crate::{bare, place};

pub(crate) fn hold(place: &crate::Place, count: usize) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let locker = Locker::new(&place.client(), place.table()).expect("a locker");
        for number in 0..count {
            let Ok(Begun::Acquired(lock)) = locker.token(("mail", number)).tenant("cust8").begin().await
            else {
                panic!("not acquired")
            };
            lock.hold(&format!("relay denied for {number}0000")).await.expect("held");
        }
    });
}

#[test]
fn a_plan_is_shown_kept_run_and_gone_on_with() {
    let place = place();
    hold(&place, 12);
    let status = place.run(&["status", "--output", "json"]).json();
    let group = status["groups"][0]["id"].as_str().expect("an id").to_owned();
    let file = place.path("plan.json").display().to_string();
    let plan = |more: &[&str]| {
        let plan = ["plan", "release", "--as", "ada", "--reason", "relay repaired", "--group", &group];
        place.run(&[&plan, more].concat())
    };
    let shown = plan(&[]);
    assert_eq!(shown.code, 6, "{}", shown.said);
    for part in [
        "release: 12 of 12 found",
        "applied at: 100 per second",
        "the next caller does the work",
        "and 2 more",
    ] {
        assert!(shown.text().contains(part), "{part} is not in {}", shown.text());
    }
    assert!(
        shown.said.contains("nothing was changed. To do this, run the same command with --seen"),
        "{}",
        shown.said
    );
    assert_eq!(plan(&["--out", &file]).code, 6);
    let taken = plan(&["--out", &file]);
    assert_eq!(taken.code, 2, "{}", taken.said);
    assert_eq!(place.run(&["status", "--output", "json"]).json()["groups"][0]["count"], 12);

    // One is released by another operator before it is run.
    assert_eq!(place.act(&["release", "@cust8/mail/3", "--reason", "sent by hand"]).code, 0);
    let ran = place.run(&["apply", &file, "--as", "ben"]);
    assert_eq!(ran.code, 4, "{}", ran.said);
    assert!(ran.said.contains("11 done, 1 changed meanwhile"), "{}", ran.said);
    let again = place.run(&["apply", &file, "--output", "json"]);
    let report = again.json()["report"].clone();
    assert_eq!(
        (&report["done"], &report["doneBefore"], &report["changed"]),
        (&json!(11), &json!(11), &json!(1))
    );
    let results = std::fs::read_to_string(format!("{file}.results")).expect("results");
    assert_eq!(results.lines().count(), 12, "a line for each, once");
    let mode = std::fs::metadata(format!("{file}.results")).expect("results").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "they have keys and errors");
    let acts = place.run(&["audit", "--output", "json"]).json()["acts"].clone();
    assert_eq!(acts.as_array().expect("acts").len(), 12);
    let by_plan = |act: &&serde_json::Value| {
        let reason = act["resolvedReason"].as_str().unwrap_or_default();
        act["resolvedBy"] == "ben" && reason.starts_with("relay repaired; planned by ada (plan ")
    };
    assert_eq!(acts.as_array().expect("acts").iter().filter(by_plan).count(), 11, "{acts}");
}

#[test]
fn plans_of_the_last_month_are_kept_and_no_older_ones() {
    let place = place();
    hold(&place, 1);
    let plan = ["plan", "release", "--need", "held", "--reason", "repaired"];
    assert_eq!(place.run(&plan).code, 6);
    let plans = place.path("home/.local/state/locker/plans");
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    for (name, days) in [("01234567.json", 29), ("76543210.json", 31), ("76543210.json.results", 31)] {
        let file = std::fs::File::create(plans.join(name)).expect("a file");
        file.set_modified(std::time::SystemTime::now() - day * days).expect("a time");
    }
    assert_eq!(place.run(&plan).code, 6);
    let there = |name: &str| plans.join(name).exists();
    assert_eq!(
        [there("01234567.json"), there("76543210.json"), there("76543210.json.results")],
        [true, false, false]
    );
}

#[test]
fn results_of_a_plan_do_not_follow_a_link() {
    let place = place();
    hold(&place, 1);
    let (file, other) = (place.path("plan.json").display().to_string(), place.path("other"));
    let plan = ["plan", "release", "--need", "held", "--reason", "repaired", "--out", &file];
    assert_eq!(place.run(&plan).code, 6);
    std::fs::write(&other, "").expect("a file");
    std::os::unix::fs::symlink(&other, format!("{file}.results")).expect("a link");
    let refused = place.run(&["apply", &file]);
    assert_eq!(refused.code, 78, "{}", refused.said);
    assert_eq!(std::fs::read_to_string(&other).expect("text"), "");
}

/// The reason in the audit has at most 1,000 bytes, with the name of the maker and the plan.
#[test]
fn plan_with_a_long_reason_is_applied_by_a_second_operator() {
    let place = place();
    for (number, maker) in ["ada", &"a".repeat(1000)].into_iter().enumerate() {
        hold(&place, 1);
        let file = place.path(&format!("plan-{number}.json")).display().to_string();
        let reason = "\u{fc}".repeat((1000 - " (plan 9a8fac0a)".len()) / 2);
        let plan = ["plan", "release", "--need", "held", "--as", maker, "--reason", &reason, "--out", &file];
        assert_eq!(place.run(&plan).code, 6);
        let ran = place.run(&["apply", &file, "--as", "ben"]);
        assert_eq!(ran.code, 0, "{}", ran.said);
        let again = place.run(&["apply", &file, "--as", "ben", "--output", "json"]);
        assert_eq!(again.json()["report"]["doneBefore"], 1, "{}", again.said);
    }
    let acts = place.run(&["audit", "--output", "json"]).json()["acts"].clone();
    let is_named = |act: &&serde_json::Value| {
        let reason = act["resolvedReason"].as_str().unwrap_or_default();
        act["resolvedBy"] == "ben" && reason.contains("\u{fc}…; planned by ada (plan ")
    };
    assert_eq!(acts.as_array().expect("acts").iter().filter(is_named).count(), 1, "{acts}");
}

#[test]
fn contradicting_arguments_are_refused_before_any_read() {
    let place = place();
    hold(&place, 1);
    let reason = ["--reason", "x"];
    for (verb, code, says) in [
        (&["plan", "release"][..], 2, "select tokens or workflows"),
        (&["plan", "skip", "--tenant", "cust8"], 2, "name the step to skip"),
        (&["plan", "resolve", "--tenant", "cust8"], 2, "add --result JSON"),
        (&["plan", "close", "--tenant", "cust8", "--result", "1"], 2, "--result is for resolve only"),
        (
            &["plan", "compensate", "--tenant", "cust8"],
            3,
            "1 record was found, and compensate cannot change it",
        ),
        (&["plan", "cancel", "--tenant", "cust8"], 3, "nothing would be changed"),
        (&["plan", "cancel", "--tenant", "cust8", "--step", "a"], 2, "name no step"),
        (&["plan", "release", "--need", "odd"], 2, "expected one of inDoubt, quarantined"),
    ] {
        let ran = place.run(&[verb, &reason].concat());
        assert_eq!(ran.code, code, "{verb:?}: {}", ran.said);
        assert!(ran.said.contains(says), "{verb:?}: {}", ran.said);
    }
    let file = place.path("odd.json");
    std::fs::write(&file, "{}").expect("a file");
    let odd = place.run(&["apply", &file.display().to_string()]);
    assert_eq!((odd.code, odd.said.contains("is no plan")), (2, true), "{}", odd.said);
    let absent = place.run(&["apply", "absent.json"]);
    assert_eq!((absent.code, absent.said.contains("cannot read absent.json")), (78, true), "{}", absent.said);
    // A plan of another place.
    let elsewhere = json!({ "place": "table locks, eu-west-1", "shards": 1, "limit": 10, "options": {}, "plan": {
        "id": "00000000", "made": "2026-01-01T00:00:00.000Z", "act": { "verb": "release" }, "by": "ada", "reason": "x",
        "filter": {}, "found": 0, "complete": true, "items": [], "leftOut": []
    }});
    std::fs::write(&file, elsewhere.to_string()).expect("a file");
    let refused = place.run(&["apply", &file.display().to_string()]);
    assert_eq!(
        (refused.code, refused.said.contains("the plan is for table locks")),
        (2, true),
        "{}",
        refused.said
    );
}

#[test]
fn tenant_text_and_key_find_their_records() {
    let place = place();
    hold(&place, 2);
    place.once("done/1", &[], "echo sent");
    for (words, expected) in [
        (&["--tenant", "cust8"][..], 2),
        (&["--text", "relay denied for 10000"], 1),
        (&["--text", "@cust8/mail/1"], 1),
        (&["--key", "@cust8/mail/1"], 1),
        (&["--text", "done/1"], 1),
        (&["--text", "done/1 step"], 1),
        (&["--need", "held", "--cause", "RELAY"], 2),
    ] {
        let found = place.run(&[&["ls", "--output", "json"], words].concat());
        assert_eq!(found.code, 0, "{words:?}: {}", found.said);
        let json = found.json();
        let count = ["tokens", "workflows", "messages", "exact"]
            .iter()
            .map(|list| json[*list].as_array().map_or(0, Vec::len))
            .sum::<usize>();
        assert_eq!(count, expected, "{words:?}: {json}");
    }
    // A whole page of a log is no key.
    for text in ["nowhere".to_owned(), "log ".repeat(1000), "x".repeat(3000)] {
        let nothing = place.run(&["ls", "--text", &text]);
        assert_eq!(
            (nothing.code, nothing.said.contains("no listed record fits")),
            (3, true),
            "{}",
            nothing.said
        );
    }
    let found = place.run(&["ls", "--text", "relay"]);
    assert!(
        found.text().contains("@cust8/mail/0") && found.said.contains("show @cust8/mail/0"),
        "{}",
        found.said
    );
}

#[test]
fn plan_that_another_user_could_write_is_refused() {
    let place = place();
    hold(&place, 1);
    let plan = ["plan", "release", "--need", "held", "--reason", "repaired"];
    let dry = place.run(&plan);
    let id = dry.said.trim_end().rsplit_once("--seen ").expect("an id").1.to_owned();
    let plans = place.path("home/.local/state/locker/plans");
    let file = plans.join(format!("{id}.json"));
    let seen = [&plan[..], &["--seen", &id]].concat();
    let mode = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    assert_eq!(std::fs::metadata(&file).expect("a plan").permissions().mode() & 0o777, 0o600);
    for (path, open, closed) in [
        (&file, 0o622, 0o600),
        (&file, 0o620, 0o600),
        (&file, 0o602, 0o600),
        (&plans, 0o777, 0o700),
        (&plans, 0o770, 0o700),
    ] {
        mode(path, open);
        let refused = place.run(&seen);
        assert_eq!(refused.code, 78, "{}", refused.said);
        assert!(refused.said.contains("other users may write it"), "{}", refused.said);
        mode(path, closed);
    }
    let unknown = place.run(&[&plan[..], &["--seen", "01234567"]].concat());
    assert_eq!((unknown.code, unknown.said.contains("no dry run of yours")), (4, true), "{}", unknown.said);
    let odd = place.run(&[&plan[..], &["--seen", "../plan"]].concat());
    assert_eq!((odd.code, odd.said.contains("is no id of a dry run")), (2, true), "{}", odd.said);
    let other = place.run(&[&seen[..], &["--rate", "7"]].concat());
    assert_eq!((other.code, other.said.contains("another value for --rate")), (4, true), "{}", other.said);
    assert_eq!(place.run(&seen).code, 0);
}

#[test]
fn id_of_a_block_is_for_one_workflow_only() {
    fn block(key: &str) -> [&str; 6] {
        ["workflow", "cancel", key, "--not-started", "--reason", "it is not wanted"]
    }

    let place = place();
    let dry = place.run(&block("order/1"));
    assert_eq!(dry.code, 6, "{}", dry.said);
    let id = dry.said.trim_end().rsplit_once("--seen ").expect("an id").1.to_owned();
    for other in [&block("order/2")[..], &[&block("order/1")[..], &["--key-version", "2"]].concat()] {
        let refused = place.run(&[other, &["--seen", &id]].concat());
        assert_eq!(refused.code, 4, "{other:?}: {}", refused.said);
    }
    assert_eq!(place.run(&[&block("order/1")[..], &["--seen", "absent"]].concat()).code, 4);
    assert_eq!(place.run(&[&block("order/1")[..], &["--seen", &id]].concat()).code, 0);
}

#[test]
fn second_block_of_a_workflow_reports_the_first() {
    let place = place();
    let block =
        ["workflow", "cancel", "order/1", "--not-started", "--as", "ada", "--reason", "it is not wanted"];
    assert_eq!(place.act(&block).code, 0);
    let again = place.run(&block);
    assert_eq!(again.code, 4, "{}", again.said);
    for part in ["order/1 is cancelled", "by ada: it is not wanted; nothing was written"] {
        assert!(again.said.contains(part), "{part} is not in {}", again.said);
    }
}

#[test]
fn plan_seen_in_one_store_is_not_applied_to_another() {
    let place = place();
    let hold = ["--local=one", "once", "mail", "--hold-on-failure", "--", "false"];
    assert_eq!(bare(&place, &hold, &[]).code, 1);
    // A copy has the same records with the same revisions.
    let copy = Command::new("cp").args(["-a", "one", "two"]).current_dir(place.path("")).status();
    assert!(copy.expect("cp").success());
    let plan = |store: &str, more: &[&str]| {
        let plan = ["plan", "release", "--need", "held", "--reason", "repaired"];
        bare(&place, &[&[store], &plan[..], more].concat(), &[])
    };
    let seen = shown(&plan("--local=one", &[]).said);
    let refused = plan("--local=two", &["--seen", &seen]);
    assert_eq!(refused.code, 2, "{}", refused.said);
    for part in ["the plan is for ", "/one, and this is ", "/two; nothing was changed"] {
        assert!(refused.said.contains(part), "{part} is not in {}", refused.said);
    }
    for store in ["--local=one", "--local=two"] {
        let token = bare(&place, &[store, "show", "mail", "--output", "json"], &[]);
        assert_eq!(token.json()["state"], "held", "{store}");
    }
    assert_eq!(plan("--local=one", &["--seen", &seen]).code, 0);
}

#[test]
fn plan_of_another_number_of_shards_is_refused() {
    let place = place();
    hold(&place, 1);
    let plan = |more: &[&str]| {
        place.run(&[&["plan", "release", "--need", "held", "--reason", "repaired"], more].concat())
    };
    let seen = shown(&plan(&["--shards", "1"]).said);
    assert_eq!(plan(&["--out", "plan.json"]).code, 6);
    for refused in
        [plan(&["--seen", &seen, "--shards", "4"]), place.run(&["apply", "plan.json", "--shards", "4"])]
    {
        assert_eq!(refused.code, 2, "{}", refused.said);
        let said = "the plan was made with --shards 1, and this is --shards 4; nothing was changed";
        assert!(refused.said.contains(said), "{}", refused.said);
    }
    assert_eq!(place.show("@cust8/mail/0")["state"], "held");
    assert_eq!(plan(&["--seen", &seen]).code, 0);
}

#[test]
fn workflow_that_has_started_is_not_blocked() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        workflows.start(&Stuck, "order/1", &"7".to_owned()).run().await.expect("an outcome");
    });
    let block = ["workflow", "cancel", "order/1", "--not-started", "--reason", "it is not wanted"];
    for seen in [&[][..], &["--seen", "0f3a9c51d2.9a8fac0a"]] {
        let refused = place.run(&[&block[..], seen].concat());
        assert_eq!(refused.code, 4, "{}", refused.said);
        assert!(
            refused.said.contains("order/1 has already started; cancel it without --not-started"),
            "{}",
            refused.said
        );
    }
}

/// Writes a plan over two held tokens, changed by `change`.
fn planned(place: &crate::Place, change: impl FnOnce(&mut serde_json::Value)) {
    let plan = ["plan", "release", "--need", "held", "--reason", "repaired", "--out", "plan.json"];
    assert_eq!(place.run(&plan).code, 6);
    let file = place.path("plan.json");
    let text = std::fs::read_to_string(&file).expect("a plan");
    let mut plan = serde_json::from_str(&text).expect("JSON");
    change(&mut plan);
    std::fs::write(&file, plan.to_string()).expect("a plan");
}

#[test]
fn applied_plan_of_unread_lists_exits_with_problems() {
    let place = place();
    hold(&place, 2);
    planned(&place, |plan| plan["plan"]["complete"] = json!(false));
    for done in ["2 done (", "2 done, 2 of them before ("] {
        let ran = place.run(&["apply", "plan.json"]);
        assert_eq!(ran.code, 5, "{}", ran.said);
        assert!(ran.said.contains(done), "{}", ran.said);
        assert!(ran.said.contains("the lists were not read to their end"), "{}", ran.said);
    }
}

#[test]
fn applied_plan_with_an_impossible_act_exits_with_changed() {
    let place = place();
    hold(&place, 2);
    let resolve = ["resolve", "@cust8/mail/1", "--reason", "sent by hand", "--result", "1"];
    planned(&place, |plan| {
        assert_eq!(place.act(&resolve).code, 0);
        let items = plan["plan"]["items"].as_array_mut().expect("items");
        let item = items.iter_mut().find(|item| item["work"] == "token @cust8/mail/1").expect("an item");
        // The plan is for the record as it is now, and a completed token is not released.
        item["revision"] = place.show("@cust8/mail/1")["revision"].clone();
    });
    let ran = place.run(&["apply", "plan.json"]);
    assert_eq!(ran.code, 4, "{}", ran.said);
    assert!(ran.said.contains("1 done, 1 not possible ("), "{}", ran.said);
    assert_eq!(place.show("@cust8/mail/1")["state"], "completed");
}
