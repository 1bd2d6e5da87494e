//! `locker console --allow-changes`: acts on one record that go wrong, and what the page shows.

use std::time::Duration;

use lock_token_testing::Embedded;
use locker::workflow::{Flow, Signalled, StepAttempt, Stop, Workflow, Workflows};
use locker::{Begun, Failure, Locker};
use locker_tests::Counted;
use locker_tests::command::Place;
use locker_tests::filled::Stuck;
use locker_tests::web::{Reply, Web};

use crate::console::open;
use crate::console_acts::{act, acting, acts_of, dry_run, state_of};
use crate::console_pages::{filled, has};
use crate::events::{sent, waiting};
use crate::hostile::{HOSTILE, hostile_place};
use crate::place;

/// A console of an engine whose requests the test can refuse. These tokens are held.
pub(crate) fn over(engine: &Embedded, place: &Place, keys: &[&str]) -> (Counted, Web) {
    let client = engine.client();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        locker::create_table(&client, "locks").await.expect("a table");
        locker::workflow::create_table(&client, "flows").await.expect("a table");
        let locker = Locker::new(&client, "locks").expect("a locker");
        for key in keys {
            let Ok(Begun::Acquired(lock)) = locker.token(*key).begin().await else { panic!("not acquired") };
            lock.hold("disk full").await.expect("held");
        }
    });
    let served = Counted::start(engine);
    let tables = ["--table", "locks", "--workflows", "flows", "--endpoint-url", served.endpoint()];
    let console = ["console", "--allow-changes", "--as", "grace"];
    let web = Web::start(place.bare(&[&console[..], &tables].concat()), place.path("console.log"));
    (served, web.entered())
}

/// Sends a form as the script of the console does.
fn posted(web: &Web, form: &str) -> Reply {
    let page = web.get("/").body;
    let token = page.split("name=\"token\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
    let origin = format!("http://{}", web.host);
    let headers = [
        ("host", web.host.as_str()),
        ("cookie", web.cookie.as_str()),
        ("origin", &origin),
        ("x-locker-token", token.expect("a token")),
    ];
    web.ask("POST", "/act", &headers, form)
}

/// `locker show` prints the revision of a record, which is the first part of an id.
#[test]
fn revision_is_no_id_of_a_dry_run() {
    let place = filled();
    let web = acting(&place);
    let seen = place.run(&["show", "pay/1", "--output", "json"]).json();
    let revision = seen["revision"].as_str().expect("a revision");
    let before = acts_of(&place).len();
    let form = web.get(&act("token pay/1", "release", None)).form("/act").with("reason", "no charge");
    for seen in [revision.to_owned(), format!("{revision}.")] {
        let refused = web.send(&form.clone().with("seen", &seen));
        assert_eq!(refused.status, 409, "{seen}: {}", refused.body);
        has(&refused.body, &["Nothing was written"]);
    }
    assert_eq!((acts_of(&place).len(), state_of(&place, "pay/1")), (before, "inProgress".into()));
}

/// A redact cannot be undone, and only the command has it.
#[test]
fn redact_is_refused_as_an_unknown_act() {
    let place = place();
    place.once("report/7", &[], "echo 4111-1111");
    let web = acting(&place);
    for verb in ["redact", "tidy"] {
        let refused = web.get(&act("token report/7", verb, None));
        assert_eq!(refused.status, 400, "{}", refused.body);
        has(&refused.body, &["there is no act", verb]);
        assert!(!refused.body.contains("name=\"reason\""), "{}", refused.body);
    }
    let form = "work=token+report%2F7&verb=redact&reason=books";
    let refused = posted(&web, form);
    assert_eq!(refused.status, 400, "{}", refused.body);
    has(&refused.body, &["there is no act"]);
    assert_eq!(state_of(&place, "report/7"), "completed");
}

#[test]
fn viewer_without_permission_to_write_is_told_that_nothing_was_written() {
    let (engine, place) = (Embedded::memory().expect("an engine"), place());
    let (served, web) = over(&engine, &place, &["odd"]);
    let dry = dry_run(&web, &act("token odd", "release", None), &[("reason", "books")]);
    served.deny("TransactWriteItems");
    let denied = web.send(&dry.form("/act"));
    assert_eq!(denied.status, 403, "{}", denied.body);
    has(
        &denied.body,
        &["<h1>Nothing was written</h1>", "shows how to print the permissions", "href=\"/token?key=odd\""],
    );
    assert!(!denied.body.contains("Could not show this"), "{}", denied.body);
}

#[test]
fn act_whose_reply_is_lost_is_unknown_and_was_done_once() {
    let (engine, place) = (Embedded::memory().expect("an engine"), place());
    let (served, web) = over(&engine, &place, &["odd"]);
    let dry = dry_run(&web, &act("token odd", "close", None), &[("reason", "books")]);
    served.blind_after_a_transaction();
    served.lose_replies_of_transactions();
    let lost = web.send(&dry.form("/act"));
    assert_eq!(lost.status, 502, "{}", lost.body);
    has(
        &lost.body,
        &["It is unknown whether this was written", "Look at the record", "href=\"/token?key=odd\""],
    );
    assert!(!lost.body.contains("Nothing was written"), "{}", lost.body);
    // Its page shows the act. The form writes nothing again.
    let (_again, web) = {
        let served = Counted::start(&engine);
        let tables = ["--table", "locks", "--workflows", "flows", "--endpoint-url", served.endpoint()];
        let console = ["console", "--allow-changes", "--as", "grace"];
        let web = Web::start(place.bare(&[&console[..], &tables].concat()), place.path("again.log"));
        (served, web.entered())
    };
    has(&web.get("/token?key=odd").body, &["acted on", "grace: books"]);
    assert_eq!(web.get("/audit").body.matches("<bdi>books</bdi>").count(), 1);
}

#[test]
fn effects_in_doubt_beyond_the_first_records_are_not_denied() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        for number in 0..26 {
            let started = workflows.start(&Stuck, format!("stuck/{number}").as_str(), &"7".to_owned());
            started.run().await.expect("an outcome");
        }
    });
    let page = open(&place, &[]).get("/doubt").body;
    assert!(!page.contains("No token and no step"), "{page}");
    has(&page, &["There may be more", "25"]);
}

#[test]
fn request_of_the_script_is_bounded_too() {
    let place = place();
    let web = acting(&place);
    let large = format!("work=token+a&verb=release&more={}", "x".repeat(70_000));
    let refused = posted(&web, &large);
    assert_eq!(refused.status, 403, "{}", refused.body);
    has(&refused.body, &["too large"]);
    assert_eq!(posted(&web, "work=token+a&verb=release").status, 404);
}

/// A skip of a late event continues nothing: the page has the effect that the library names.
#[test]
fn page_of_an_act_that_is_done_names_its_effect() {
    let place = waiting();
    assert_eq!(sent(&place, "e-1", true), Signalled::Accepted);
    assert_eq!(sent(&place, "e-2", false), Signalled::AlreadyGiven);
    let json = place.run(&["ls", "--need", "late", "--output", "json"]).json();
    let event = json["workflows"][0]["event"].as_str().expect("an event").to_owned();
    let web = acting(&place);
    let dry = dry_run(&web, &act("workflow order/7", "skip", Some(&event)), &[("reason", "mistyped")]);
    let done = web.send(&dry.form("/act"));
    assert_eq!(done.status, 200, "{}", done.body);
    has(&done.body, &["Done: skip event:approved ", "the audit has it"]);
    assert!(!done.body.contains("completer"), "{}", done.body);
    has(&web.get("/audit").body, &["mistyped"]);
}

/// A workflow whose step is in doubt.
struct Unsure;

impl Workflow for Unsure {
    const NAME: &'static str = "unsure";
    type Input = ();
    type Output = String;

    async fn run(&self, flow: &Flow, (): ()) -> Result<String, Stop> {
        let call = |_: StepAttempt| async { Err::<String, _>(Failure::in_doubt("no reply".to_owned())) };
        flow.once("pay").run(call).await
    }
}

/// A workflow with a step in doubt, and a workflow with a step that failed.
pub(crate) fn with_unsure() -> Place {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let workflows = Workflows::new(&place.client(), place.workflows()).expect("workflows");
        workflows.start(&Unsure, "unsure/1", &()).run().await.expect("an outcome");
        workflows.start(&Stuck, "stuck/1", &"7".to_owned()).run().await.expect("an outcome");
    });
    place
}

#[test]
fn step_in_doubt_has_its_question_and_a_step_that_failed_has_none() {
    let place = with_unsure();
    let web = acting(&place);
    let page = web.get("/doubt").body;
    has(&page, &["unsure/1", "unsure/1 pay", "was there an operation with the idempotency key"]);
    for verb in ["resolve", "retry"] {
        let address = act("workflow unsure/1", verb, Some("pay"));
        has(&page, &[&format!("href=\"{}\"", address.replace('&', "&amp;"))]);
        let fields = [("reason", "asked the bank"), ("result", "\"ch_1\"")];
        let _ = dry_run(&web, &address, &fields[..if verb == "resolve" { 2 } else { 1 }]);
    }
    assert!(!page.contains("stuck/1") && !page.contains("verb=release"), "{page}");
}

/// Both operators read the record before either write arrives.
#[test]
fn second_of_two_writes_at_once_changes_nothing() {
    let (engine, place) = (Embedded::memory().expect("an engine"), place());
    let (served, web) = over(&engine, &place, &["odd"]);
    let form =
        |reason: &str| dry_run(&web, &act("token odd", "release", None), &[("reason", reason)]).form("/act");
    let forms = [form("books"), form("logs")];
    served.slow_down("TransactWriteItems", Duration::from_secs(2));
    let replies = std::thread::scope(|scope| {
        let sent = forms.each_ref().map(|form| scope.spawn(|| web.send(form)));
        sent.map(|it| it.join().expect("a reply"))
    });
    let mut statuses = replies.each_ref().map(|reply| reply.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{replies:?}");
    let refused = replies.iter().find(|reply| reply.status == 409).expect("a refusal");
    has(&refused.body, &["Nothing was written", "has changed since the dry run"]);
}

/// The answers to forms on a store whose every text is hostile.
#[test]
fn stored_text_is_text_on_the_answer_of_every_form() {
    let place = hostile_place();
    let web = acting(&place);
    let pages = web.walk(&["/", "/messages", "/doubt"]);
    let mut plans = 0;
    for (path, page) in pages.iter().filter(|(path, _)| path.starts_with("/plan/new?")) {
        let made = web.send(&page.form("/plan").with("reason", "books"));
        if made.status == 303 {
            plans += 1;
            is_safe(path, &web.get(made.header("location")));
        } else {
            is_safe(path, &made);
        }
    }
    assert!(plans > 0, "{} pages", pages.len());
    let (mut dry_runs, mut done, mut refused) = (0, 0, 0);
    for (path, page) in pages.iter().filter(|(path, _)| path.starts_with("/act?")) {
        let form = page.form("/act").with("reason", "books");
        let form = if page.body.contains("id=\"result\"") { form.with("result", "\"done\"") } else { form };
        let dry = web.send(&form);
        is_safe(path, &dry);
        if dry.status != 200 {
            refused += 1;
            continue;
        }
        dry_runs += 1;
        let act = web.send(&dry.form("/act"));
        is_safe(path, &act);
        done += usize::from(act.status == 200);
        is_safe(path, &web.send(&dry.form("/act")));
    }
    assert!(dry_runs > 10 && done > 5, "{dry_runs} dry runs, {done} done, {refused} refused");
}

#[track_caller]
fn is_safe(path: &str, page: &Reply) {
    let body = &page.body;
    assert!(page.status < 500, "{path}: {body}");
    let is_odd = |it: &char| it.is_control() && *it != '\n' || !it.is_ascii() && HOSTILE.contains(*it);
    let odd: Vec<_> = body.chars().filter(is_odd).collect();
    assert!(odd.is_empty(), "{path}: {odd:?}");
    assert_eq!(body.matches("<script").count(), 1, "{path}: only the own script: {body}");
    assert!(!body.contains("<img"), "{path}: {body}");
}
