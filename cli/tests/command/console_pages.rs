//! `locker console`: the content of its pages.

use locker_tests::command::{Place, until};
use locker_tests::filled::fill;

use crate::console::open;
use crate::hostile::{HOSTILE, hostile_place};
use crate::place;

pub(crate) fn filled() -> Place {
    let place = place();
    tokio::runtime::Runtime::new().expect("a runtime").block_on(fill(&place));
    place
}

#[track_caller]
pub(crate) fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn groups_by_cause_open_their_items() {
    let place = filled();
    let web = open(&place, &[]);
    let home = web.get("/").body;
    has(&home, &["inDoubt", "quarantined", "dead", "held", "no reply of the bank", "the card is unknown"]);
    has(
        &home,
        &["it is no order", "scanner", "has not run on this table", "read units", "waiting: 2 for an event"],
    );
    assert!(!home.contains("classified"), "{home}");
    let link = home.split("href=\"/group?").nth(1).and_then(|rest| rest.split('"').next()).expect("a group");
    let group = web.get(&format!("/group?{}", link.replace("&amp;", "&"))).body;
    has(
        &group,
        &[
            "<a href=\"/token?key=pay%2F1\"><bdi>pay/1</bdi></a>",
            "1 listed, and there are no more.",
            "ls --group",
        ],
    );
}

#[test]
fn page_without_groups_shows_when_each_function_ran() {
    let place = place();
    assert_eq!(place.run(&["scan"]).code, 0);
    let web = open(&place, &[]);
    let home = web.get("/").body;
    has(
        &home,
        &["nothing needs an operator", "sentence well", "scanner", "ran ", "completer", "reaper", "relay"],
    );
}

#[test]
fn workflow_is_drawn_with_steps_event_message_and_acts() {
    let place = filled();
    let web = open(&place, &[]);
    let waits = web.get("/workflow?key=trip%2Fwaits").body;
    has(
        &waits,
        &["<svg", "event:paid", "waiting", "waits for", "trip/charged", "trip/waits charge", "data-copy"],
    );
    let lines = place.without_options(&waits);
    assert_ne!(lines, waits, "the lines name the tables");
    has(&lines, &["locker workflow signal trip/waits --event paid --seen "]);
    has(&waits, &["workflow compensate trip/waits --seen", "the compensations of what its steps did"]);
    has(&waits, &["Not possible now: ", "its step charge is completed, which retry cannot change"]);
    assert!(!waits.contains("classified"), "{waits}");
    has(&web.get("/workflow?key=trip%2Fsleeps").body, &["night", "timer"]);
    let failed = web.get("/workflow?key=trip%2Ffails").body;
    has(
        &failed,
        &["compensation:charge", "no seat is left", "No act is possible now.", "it is failed, which"],
    );
    let stuck = web.get("/workflow?key=stuck%2F1").body;
    has(&stuck, &["quarantine", "the number 7 is wrong", "workflow retry stuck/1 --step call --seen"]);
}

#[test]
fn token_shows_its_acts_and_the_reason_of_the_others() {
    let place = filled();
    let web = open(&place, &[]);
    let doubt = place.without_options(&web.get("/token?key=pay%2F1").body);
    has(&doubt, &["in doubt", "no reply of the bank", "<svg", "locker release pay/1 --seen "]);
    has(&doubt, &["locker resolve pay/1 --seen ", "only a held token has a failure to close"]);
    let (outer, inner) = (web.get("/token?key=request%2F1").body, web.get("/token?key=inner%2F1").body);
    has(&outer, &["Related work", "href=\"/token?key=inner%2F1\"", "once token inner/1: in doubt"]);
    has(&inner, &["begun inside", "href=\"/token?key=request%2F1\"", "once token request/1: in doubt"]);
    let done = web.get("/token?key=pay%2F3").body;
    has(&done, &["completed", "No act is possible now.", "a release does its work again"]);
    assert!(!done.contains("classified"), "{done}");
}

#[test]
fn find_accepts_a_key_a_providers_key_a_message_and_a_cause() {
    let place = filled();
    let web = open(&place, &[]);
    let id = crate::dead::messages(&place, &[])[0]["id"].as_str().expect("an id").to_owned();
    let found = |text: &str| web.get(&format!("/find?text={text}"));
    for (text, part) in [
        ("pay%2F3", "href=\"/token?key=pay%2F3\""),
        ("trip%2Fwaits+charge", "href=\"/workflow?key=trip%2Fwaits\""),
        (id.as_str(), "it is no order"),
        ("NO+REPLY", "href=\"/token?key=pay%2F1\""),
        ("wrong", "href=\"/workflow?key=stuck%2F1\""),
    ] {
        let page = found(text);
        assert_eq!(page.status, 200, "{text}");
        has(&page.body, &[part]);
    }
    // In time, so no list of what needs an operator contains it.
    assert_eq!(found("event%3Apaid").status, 404);
    let nothing = found("nowhere");
    assert_eq!(nothing.status, 404);
    has(&nothing.body, &["Nothing was found", "/find?text=nowhere&amp;all=yes"]);
    has(&found("trip%2F&all=yes").body, &["trip/waits", "trip/sleeps"]);
}

#[test]
fn audit_and_health_are_shown() {
    let place = filled();
    let web = open(&place, &[]);
    has(&web.get("/audit").body, &["ada", "released", "the bank has no charge", "token pay/2"]);
    assert_eq!(web.get("/audit?since=soon").status, 400);
    let health = web.get("/health").body;
    has(&health, &["table, index and TTL", "Table of workflows", "Backlog", "quarantined", "locker doctor"]);
}

#[test]
fn data_is_shown_on_request_only_and_the_viewer_is_logged() {
    let place = filled();
    let web = open(&place, &["--as", "grace"]);
    for (page, parts) in [
        ("/token/data?key=pay%2F3", &["classified answer"][..]),
        ("/workflow/data?key=trip%2Fwaits", &["classified receipt", "classified body", "waits"]),
    ] {
        has(&web.get(page).body, parts);
    }
    until(|| web.log().contains("trip/waits"));
    let log = web.log();
    has(&log, &["data was shown", "viewer=\"grace\"", "kind=\"token\" key=\"pay/3\"", "key=\"trip/waits\""]);
}

#[test]
fn console_without_data_refuses_it() {
    let place = filled();
    let web = open(&place, &["--no-data"]);
    for path in ["/token/data?key=pay%2F3", "/workflow/data?key=trip%2Fwaits"] {
        let refused = web.get(path);
        assert_eq!(refused.status, 403);
        has(&refused.body, &["started with --no-data"]);
    }
    for (path, page) in web.walk(&["/", "/find?text=trip&all=yes"]) {
        assert!(!page.body.contains("classified"), "{path}: {}", page.body);
        assert!(!page.body.contains("/data?"), "{path} links to data");
    }
}

#[test]
fn record_that_is_gone_is_a_404_with_what_to_do() {
    let place = place();
    let web = open(&place, &[]);
    for (path, part) in [
        ("/workflow?key=gone", "There is no workflow gone. It ended and was deleted after its retention"),
        ("/workflow/data?key=gone", "There is no workflow gone."),
        ("/token?key=gone", "There is no token gone. It ended"),
        ("/token/data?key=gone", "There is no token gone."),
        ("/group?id=9a8fac0a", "no item is in the group 9a8fac0a now"),
        ("/group?id=9a8fac0a&need=dead", "no item is in the group 9a8fac0a now"),
        ("/nothing", "there is no such page"),
    ] {
        let page = web.get(path);
        assert_eq!(page.status, 404, "{path}");
        has(&page.body, &[part, "lists everything that needs an operator now"]);
    }
    assert_eq!(web.get("/token").status, 400);
}

/// Each page that a link leads to, on a store whose every text is hostile.
#[test]
fn stored_text_is_text_on_every_page() {
    let place = hostile_place();
    let web = open(&place, &["--allow-changes"]);
    let mut pages = web.walk(&["/"]);
    let found = web.get("/find?text=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E&all=yes");
    pages.push(("/find".to_owned(), found));
    let of = |start: &str| pages.iter().filter(|(path, _)| path.starts_with(start)).count();
    assert!(
        of("/group") > 3 && of("/workflow?") > 6 && of("/token?") > 5 && of("/workflow/data") > 6,
        "{}",
        pages.len()
    );
    let mut evil = 0;
    for (path, page) in &pages {
        let body = &page.body;
        let odd: Vec<_> = body
            .chars()
            .filter(|it| it.is_control() && *it != '\n' || !it.is_ascii() && HOSTILE.contains(*it))
            .collect();
        assert!(odd.is_empty(), "{path}: {odd:?}");
        assert_eq!(body.matches("<script").count(), 1, "{path}: only the own script: {body}");
        assert!(!body.contains("<img"), "{path}: {body}");
        evil += usize::from(body.contains("evil&lt;script&gt;"));
        // Foreign text is isolated wherever it is an element's text.
        assert!(!body.contains("forged-evil</td>") && !body.contains("forged-evil</dd>"), "{path}");
    }
    assert!(evil > 20, "{evil} of {} pages show the text", pages.len());
}

/// GET changes nothing: the tables are the same after every page was read.
#[test]
fn no_page_changes_a_table_or_names_another_origin() {
    let place = filled();
    let items = || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let client = place.client();
            let mut all = Vec::new();
            for table in [place.table(), place.workflows()] {
                let items = client.scan().table_name(table).send().await.expect("items").items;
                let mut items: Vec<_> = items
                    .unwrap_or_default()
                    .iter()
                    .map(|item| format!("{:?}", std::collections::BTreeMap::from_iter(item)))
                    .collect();
                items.sort();
                all.push(items);
            }
            all
        })
    };
    let before = items();
    let web = open(&place, &["--allow-changes"]);
    let pages = web.walk(&["/", "/find?text=trip&all=yes"]);
    let forms = pages.iter().filter(|(_, page)| page.body.contains("method=\"post\"")).count();
    assert!(pages.len() > 40 && forms > 20, "{} pages, {forms} forms", pages.len());
    assert_eq!(items(), before);
    for (path, page) in &pages {
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        let body = place.endpoint().map_or(page.body.clone(), |endpoint| page.body.replace(endpoint, ""));
        for part in ["http://", "https://", " style=", " onclick=", "javascript:", "<style"] {
            assert!(!body.contains(part), "{path} has {part}");
        }
        let ids: Vec<_> =
            page.body.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), different.len(), "{path}: {ids:?}");
    }
}
