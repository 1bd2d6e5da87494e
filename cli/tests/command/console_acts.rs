//! `locker console --allow-changes`: acts on one record, as an operator does them in a browser.

use locker_tests::command::Place;
use locker_tests::web::{Reply, Web};
use serde_json::Value;

use crate::console::open;
use crate::console_pages::{filled, has};
use crate::place;

/// A console whose pages have acts.
pub(crate) fn acting(place: &Place) -> Web {
    open(place, &["--allow-changes", "--as", "grace"])
}

pub(crate) fn act(work: &str, verb: &str, step: Option<&str>) -> String {
    let mut address = form_urlencoded::Serializer::new("/act?".to_owned());
    address.append_pair("work", work).append_pair("verb", verb);
    if let Some(step) = step {
        address.append_pair("step", step);
    }
    address.finish().replace("/act?&", "/act?")
}

/// The dry run of an act, with these fields.
#[track_caller]
pub(crate) fn dry_run(web: &Web, address: &str, fields: &[(&str, &str)]) -> Reply {
    let page = web.get(address);
    assert_eq!(page.status, 200, "{}", page.body);
    let form = fields.iter().fold(page.form("/act"), |form, (name, value)| form.with(name, value));
    let dry = web.send(&form);
    assert_eq!(dry.status, 200, "{}", dry.body);
    has(&dry.body, &["Dry run: ", "Nothing was written."]);
    dry
}

pub(crate) fn state_of(place: &Place, key: &str) -> Value {
    place.run(&["show", key, "--output", "json"]).json()["state"].clone()
}

pub(crate) fn acts_of(place: &Place) -> Vec<Value> {
    let audit = place.run(&["audit", "--output", "json"]).json();
    audit["acts"].as_array().expect("acts").clone()
}

#[test]
fn act_is_a_dry_run_first_and_is_audited_with_the_viewer() {
    let place = filled();
    let web = acting(&place);
    let page = web.get("/token?key=pay%2F1").body;
    let address = act("token pay/1", "release", None);
    has(&page, &[&format!("<a href=\"{}\">release</a>", address.replace('&', "&amp;"))]);
    let before = acts_of(&place).len();
    let dry = dry_run(&web, &address, &[("reason", "the bank has no charge")]);
    has(&dry.body, &["the next caller does the work", "grace", "the bank has no charge", "Unknown: "]);
    assert_eq!(acts_of(&place).len(), before, "a dry run writes nothing");
    let done = web.send(&dry.form("/act"));
    assert_eq!(done.status, 200, "{}", done.body);
    has(&done.body, &["Done: release token pay/1", "the audit has it"]);
    let acts = acts_of(&place);
    let last = acts
        .iter()
        .find(|act| act["resolvedReason"] == "the bank has no charge" && act["resolvedBy"] == "grace");
    assert_eq!(last.expect("audited")["resolution"], "released", "{acts:#?}");
}

#[test]
fn result_is_checked_and_what_was_typed_is_kept() {
    let place = filled();
    let web = acting(&place);
    let address = act("token pay/1", "resolve", None);
    let form =
        |result: &str| web.get(&address).form("/act").with("reason", "by the books").with("result", result);
    for (wrong, why) in
        [("sent", "is not JSON"), ("{\"a\":1,\"a\":2}", "name each member once"), ("", "result is missing")]
    {
        let refused = web.send(&form(wrong));
        assert_eq!(refused.status, 409, "{wrong}: {}", refused.body);
        has(&refused.body, &["Nothing was written.", why, "value=\"by the books\""]);
    }
    let no_reason = web.send(&form("\"ch_6\"").with("reason", " "));
    assert_eq!(no_reason.status, 409);
    has(&no_reason.body, &["reason", "&quot;ch_6&quot;"]);
    let dry = web.send(&form("\"ch_6\""));
    has(&dry.body, &["Dry run: resolve token pay/1", "<h2>Result</h2>", "<bdi>&quot;ch_6&quot;</bdi>"]);
    assert_eq!(web.send(&dry.form("/act")).status, 200);
    assert_eq!(state_of(&place, "pay/1"), "completed");
}

#[test]
fn stale_page_writes_nothing() {
    let place = filled();
    let web = acting(&place);
    let dry = dry_run(&web, &act("token pay/2", "release", None), &[("reason", "no charge")]);
    let seen = place.run(&["show", "pay/2", "--output", "json"]).json();
    let revision = seen["revision"].as_str().expect("a revision");
    let closed = place.run(&["close", "pay/2", "--reason", "lost", "--seen", revision]);
    assert_eq!(closed.code, 0, "{}", closed.said);
    let stale = web.send(&dry.form("/act"));
    // A closed token is no longer in a state that allows the act.
    assert_eq!(stale.status, 409, "{}", stale.body);
    has(&stale.body, &["Nothing was written"]);
    assert_eq!(state_of(&place, "pay/2"), "failed");
}

#[test]
fn second_of_two_operators_changes_nothing() {
    let place = filled();
    let (ada, ben) = (acting(&place), open(&place, &["--allow-changes", "--as", "ben"]));
    let address = act("workflow stuck/1", "retry", Some("call"));
    assert!(ada.get(&address).body.contains("name=\"new-key\""), "for the retry of a step");
    let of_whole = ada.get(&act("workflow stuck/1", "retry", None));
    assert!(!of_whole.body.contains("name=\"new-key\""), "{}", of_whole.body);
    let of_ada = dry_run(&ada, &address, &[("reason", "it works again")]);
    let of_ben = dry_run(&ben, &address, &[("reason", "so do I think")]);
    assert_eq!(ada.send(&of_ada.form("/act")).status, 200);
    let second = ben.send(&of_ben.form("/act"));
    assert_eq!(second.status, 409, "{}", second.body);
    has(&second.body, &["Nothing was written"]);
    let again = ada.send(&of_ada.form("/act"));
    assert_eq!(again.status, 409, "a form that is sent twice acts once: {}", again.body);
}

#[test]
fn act_with_another_argument_than_its_dry_run_is_refused() {
    let place = filled();
    let web = acting(&place);
    let dry = dry_run(&web, &act("token pay/1", "release", None), &[("reason", "no charge")]);
    let before = acts_of(&place).len();
    for (name, value) in [("reason", "another reason"), ("new-key", "yes"), ("seen", "0f3a9c51d2.9a8fac0a")] {
        let refused = web.send(&dry.form("/act").with(name, value));
        assert_eq!(refused.status, 409, "{name}: {}", refused.body);
        has(&refused.body, &["Nothing was written"]);
    }
    assert_eq!(acts_of(&place).len(), before);
}

#[test]
fn risk_is_an_option_of_its_own() {
    let place = filled();
    let web = acting(&place);
    // Its work may still run: the option appears only after the refusal.
    let begun = place.command(&["once", "slow/1", "--", "sleep", "600"]).spawn();
    let mut begun = begun.expect("started");
    locker_tests::command::until(|| place.run(&["show", "slow/1"]).code == 0);
    let address = act("token slow/1", "release", None);
    let page = web.get(&address);
    let form = page.form("/act").with("reason", "it hangs");
    let refused = web.send(&form);
    for option in ["running", "completed", "not-started"] {
        let field = format!("name=\"{option}\"");
        assert!(!page.body.contains(&field), "{option} before a refusal");
        assert_eq!(refused.body.contains(&field), option == "running", "{option}");
    }
    assert_eq!(refused.status, 409, "{}", refused.body);
    has(&refused.body, &["name=\"running\"", "It may be done twice."]);
    let dry = web.send(&refused.form("/act").with("running", "yes"));
    has(&dry.body, &["Dry run: release token slow/1"]);
    assert_eq!(web.send(&dry.form("/act")).status, 200);
    begun.kill().expect("killed");
    begun.wait().expect("ended");
}

#[test]
fn options_of_a_dry_run_are_those_of_the_act() {
    let place = filled();
    let web = acting(&place);
    for (address, option) in [
        (act("token pay/1", "release", None), "new-key"),
        (act("token pay/3", "release", None), "completed"),
        (act("workflow trip/waits", "skip", Some("later")), "not-started"),
    ] {
        let without = web.send(&web.get(&address).form("/act").with("reason", "as agreed"));
        let is_offered = without.body.contains(&format!("name=\"{option}\""));
        assert_eq!(
            (without.status, is_offered),
            if option == "new-key" { (200, false) } else { (409, true) }
        );
        let dry = dry_run(&web, &address, &[("reason", "as agreed"), (option, "yes")]);
        has(&dry.body, &[&format!("name=\"{option}\" value=\"yes\"")]);
        let done = web.send(&dry.form("/act"));
        assert_eq!(done.status, 200, "{option}: {}", done.body);
    }
}

#[test]
fn event_is_given_and_a_message_is_corrected() {
    let place = filled();
    let web = acting(&place);
    let address = act("workflow trip/waits", "signal", Some("event:paid"));
    let dry = dry_run(&web, &address, &[("reason", "paid in cash"), ("result", "7"), ("id", "cash-1")]);
    let done = web.send(&dry.form("/act"));
    assert_eq!(done.status, 200, "{}", done.body);
    has(&done.body, &["Done: signal paid to workflow trip/waits"]);
    has(&web.get("/workflow?key=trip%2Fwaits").body, &["given", "cash-1"]);

    let messages = web.get("/messages").body;
    has(&messages, &["it is no order", "No message is archived."]);
    assert!(!messages.contains("the card is unknown"), "a token: {messages}");
    let group = messages.split("href=\"/group?").nth(1).and_then(|rest| rest.split('"').next());
    let group = web.get(&format!("/group?{}", group.expect("a group").replace("&amp;", "&"))).body;
    let message = group.split("href=\"/message?").nth(1).and_then(|rest| rest.split('"').next());
    let message = format!("/message?{}", message.expect("a message").replace("&amp;", "&"));
    let page = web.get(&message).body;
    has(&page, &["received by", "packer", "it is no order", "correct", "redrive", "dead redrive"]);
    assert!(!page.contains("classified"), "{page}");
    has(&web.get(&message.replace("/message?", "/message/data?")).body, &["classified order"]);
    let correct = page.split("href=\"/act?").find(|rest| rest.contains("verb=correct")).expect("an act");
    let correct = format!("/act?{}", correct.split('"').next().expect("an address").replace("&amp;", "&"));
    let dry = dry_run(&web, &correct, &[("reason", "mistyped"), ("result", "{\"order\":1}\r\n")]);
    has(&web.send(&dry.form("/act")).body, &["Done: correct message ", "Redrive it"]);
    has(&web.get(&message.replace("/message?", "/message/data?")).body, &["order"]);
    // A browser ends each line of a field with CR LF.
    let dry = dry_run(&web, &correct, &[("reason", "mistyped"), ("result", "two\r\nlines")]);
    has(&web.send(&dry.form("/act")).body, &["Done: correct message "]);
    let id = crate::dead::messages(&place, &[])[0]["id"].as_str().expect("an id").to_owned();
    let shown = place.run(&["dead", "show", &id, "--content", "--output", "json"]);
    assert!(shown.text().contains(r"two\nlines"), "{}", shown.text());
}

#[test]
fn console_that_only_reads_has_no_form_and_accepts_none() {
    let place = filled();
    let web = open(&place, &[]);
    let pages = web.walk(&["/", "/doubt", "/messages", "/workflows", "/find?text=trip&all=yes"]);
    for (path, page) in &pages {
        assert!(!page.body.contains("method=\"post\"") && !page.body.contains("/act?"), "{path}");
        assert!(page.body.contains("Read only"), "{path}");
    }
    for path in [act("token pay/1", "release", None), "/plan/new?need=held".to_owned()] {
        let refused = web.get(&path);
        assert_eq!(refused.status, 403, "{path}");
        has(&refused.body, &["start it with --allow-changes"]);
    }
    let token_of = |web: &Web| {
        let page = web.get("/").body;
        let token = page.split("name=\"token\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
        token.expect("a token").to_owned()
    };
    let acting = acting(&place);
    let form = acting.get(&act("token pay/1", "release", None)).form("/act");
    let refused = web.send(&form.with("token", &token_of(&web)).with("reason", "why"));
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD"));
    let (own, token) = (format!("http://{}", acting.host), token_of(&acting));
    let headers =
        [("host", &acting.host), ("cookie", &acting.cookie), ("origin", &own), ("x-locker-token", &token)];
    let refused = acting.ask("PUT", "/", &headers.map(|(name, value)| (name, value.as_str())), "");
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD, POST"));
}

#[test]
fn form_of_another_session_or_page_is_refused() {
    let place = filled();
    let (web, other) = (acting(&place), acting(&place));
    let dry = dry_run(&web, &act("token pay/1", "release", None), &[("reason", "no charge")]);
    let before = acts_of(&place).len();
    assert_eq!(other.send(&dry.form("/act")).status, 403, "the token of another session");
    let mut stranger = acting(&place);
    stranger.host = stranger.host.replace(&stranger.port.to_string(), "1");
    assert_eq!(stranger.send(&dry.form("/act")).status, 421);
    assert_eq!(acts_of(&place).len(), before);
}

#[test]
fn each_effect_in_doubt_has_its_question_and_three_answers() {
    let place = filled();
    let page = acting(&place).get("/doubt").body;
    for part in ["pay/1", "inner/1", "request/1", "no reply of the bank"] {
        has(&page, &[part]);
    }
    has(&page, &["was there an operation with the idempotency key", "It happened", "It did not happen"]);
    has(&page, &["I do not know", "verb=resolve", "verb=release"]);
    let read_only = open(&place, &[]).get("/doubt").body;
    assert!(!read_only.contains("It happened") && read_only.contains("What may be done"), "{read_only}");
    has(&acting(&crate::place()).get("/doubt").body, &["No token and no step"]);
}

#[test]
fn unfinished_workflows_are_listed_with_their_waits() {
    let place = filled();
    let page = acting(&place).get("/workflows").body;
    has(&page, &["trip/waits", "event:paid", "trip/sleeps", "timer night", "stuck/1", "quarantined"]);
    assert!(!page.contains("trip/fails"), "{page}");
    has(&acting(&crate::place()).get("/workflows").body, &["Each workflow has ended."]);
}

#[test]
fn act_on_a_record_that_is_gone_or_an_odd_verb_says_so() {
    let place = place();
    let web = acting(&place);
    for (address, status, why) in [
        (act("token gone", "release", None), 404, "There is no token gone."),
        (act("workflow gone", "retry", None), 404, "There is no workflow gone."),
        (act("nothing", "retry", None), 400, "is not `token KEY`"),
        ("/act?verb=release".to_owned(), 400, "the work is missing"),
    ] {
        let page = web.get(&address);
        assert_eq!(page.status, status, "{address}: {}", page.body);
        has(&page.body, &[why]);
    }
}
