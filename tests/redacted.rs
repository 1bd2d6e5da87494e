//! An erased result: the work has ended and is not done again, and no item of the table contains
//! the result.

use std::ops::ControlFlow;
use std::time::Duration;

use locker::message::MessageState;
use locker::operator::{Act, ApplyOptions, Console, Filter, Need, Plan};
use locker::workflow::List;
use locker::{
    AnswerError, Begun, Class, Clock as _, Error, Failure, Form, Intervened, Locker, Resolution, RunError,
    TokenState,
};
use locker_tests::{Bench, DAY, Fate, MINUTE, ada, held_by, record_of};
use serde_json::json;

const SECRET: &str = "4111-1111";

/// A text with the secret, which no token has room for.
fn large() -> String {
    let noise: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
    format!("{SECRET} {noise}")
}

/// The keys of the items that contain the secret, or a compressed text.
async fn traces(bench: &Bench) -> Vec<String> {
    let is_trace = |item: &std::collections::HashMap<String, _>| {
        let text = format!("{item:?}");
        text.contains(SECRET) || text.contains("json+gzip")
    };
    let items = bench.items().await.into_iter().filter(is_trace);
    items.map(|item| item["lockToken"].as_s().expect("a key").clone()).collect()
}

async fn redact(locker: &Locker, key: &str) -> Result<Intervened, Error> {
    locker.redact(&record_of(locker, key).await, &ada()).await
}

#[tokio::test(start_paused = true)]
async fn erased_answer_is_nowhere_and_its_work_is_not_done_again() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for (key, answer) in [("small", SECRET.to_owned()), ("large", large())] {
        let token = || locker.token(key).fingerprint(&7);
        held_by(token()).await.complete(&answer).await.expect("completed");
        let before = record_of(&locker, key).await;
        assert!(!traces(&bench).await.is_empty());
        assert_eq!(redact(&locker, key).await.expect("redacted"), Intervened::Done);
        assert_eq!(traces(&bench).await, Vec::<String>::new(), "{key}");

        let record = record_of(&locker, key).await;
        assert_eq!((record.state(), record.is_redacted()), (TokenState::Completed, true));
        assert_eq!(record.resolution(), Some(Resolution::Redacted));
        assert_eq!(record.expires(), before.expires(), "the retention stays");
        assert_ne!(record.revision(), before.revision());
        let Begun::Completed(replay) = token().begin().await.expect("an answer") else {
            panic!("{key} is free")
        };
        assert_eq!((replay.json(), replay.result::<String>()), ("", Err(AnswerError::Redacted)));
        let ran = token().run(async |_| -> Result<String, Failure> { panic!("it ran") }).await;
        let Err(RunError::Locker(error)) = ran else { panic!("{ran:?}") };
        assert!(error.to_string().contains("the work has ended, and its result is not kept"), "{error}");
        let response =
            token().begin().await.expect("an answer").response::<bytes::Bytes>().expect("a response");
        assert_eq!(response.status(), 409);
        let problem: serde_json::Value = serde_json::from_slice(response.body()).expect("a problem");
        assert_eq!(problem["type"], "urn:locker:problem:not-kept");
        let other = locker.token(key).fingerprint(&8).begin().await;
        assert!(matches!(other.expect("an answer"), Begun::Mismatch(_)), "the fingerprint stays");
        let content = locker.answer(&record).await;
        assert!(matches!(content, Err(Error::Answer(AnswerError::Redacted))), "{content:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn erased_failure_stays_a_failure_and_its_cause_is_erased() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("failed")).await.fail(SECRET).await.expect("failed");
    let lock = held_by(locker.token("closed")).await;
    lock.hold(SECRET).await.expect("held");
    let held = record_of(&locker, "closed").await;
    assert_eq!(locker.close(&held, &ada()).await.expect("closed"), Intervened::Done);
    for key in ["failed", "closed"] {
        assert_eq!(redact(&locker, key).await.expect("redacted"), Intervened::Done);
        let Begun::Failed(failure) = locker.token(key).begin().await.expect("an answer") else {
            panic!("{key} is no failure")
        };
        assert_eq!((failure.json(), failure.error::<String>()), ("", Err(AnswerError::Redacted)));
    }
    assert_eq!(traces(&bench).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn copies_in_earlier_audit_records_are_erased() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for (key, first, second) in
        [("small", json!(SECRET), json!("4111-1111 b")), ("large", json!(large()), json!(large()))]
    {
        held_by(locker.token(key)).await.hold(SECRET).await.expect("held");
        let record = record_of(&locker, key).await;
        assert_eq!(locker.resolve(&record, &first, &ada()).await.expect("resolved"), Intervened::Done);
        bench.clock.advance(Duration::from_secs(1));
        let record = record_of(&locker, key).await;
        assert_eq!(locker.correct(&record, &second, &ada()).await.expect("corrected"), Intervened::Done);
        assert_eq!(redact(&locker, key).await.expect("redacted"), Intervened::Done);
    }
    // An earlier result of a key whose work was done again.
    held_by(locker.token("again")).await.complete(&large()).await.expect("completed");
    let record = record_of(&locker, "again").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
    held_by(locker.token("again")).await.complete(SECRET).await.expect("completed");
    let early = redact(&locker, "again").await;
    assert!(matches!(early, Err(Error::Unavailable { .. })), "the release may not be listed yet: {early:?}");
    bench.clock.advance(MINUTE);
    assert_eq!(redact(&locker, "again").await.expect("redacted"), Intervened::Done);
    assert_eq!(traces(&bench).await, Vec::<String>::new());

    let since = bench.clock.now() - chrono::TimeDelta::days(1);
    let acts = locker.audit(since).fetch().await.expect("a listing").items;
    let of = |key| acts.iter().filter(move |act| act.key == key).filter_map(|act| act.resolution);
    assert_eq!(of("small").collect::<Vec<_>>().len(), 3, "who acted, and why, stays");
    for act in &acts {
        assert_eq!(locker.given(act).await.expect("a read"), None, "{act:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failure_that_a_resolve_replaced_is_nowhere() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    held_by(locker.token("held")).await.hold(&large()).await.expect("held");
    let record = record_of(&locker, "held").await;
    wire.take();
    assert_eq!(locker.resolve(&record, &json!(1), &ada()).await.expect("resolved"), Intervened::Done);
    assert_eq!(wire.count(), 1, "the failure is deleted in the transaction, so no fault leaves it");
    assert_eq!(redact(&locker, "held").await.expect("redacted"), Intervened::Done);
    assert_eq!(traces(&bench).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn copy_of_an_operator_with_a_slow_clock_is_erased() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let clock = std::sync::Arc::new(bench.clock.behind(Duration::from_secs(600)));
    let client = bench.engine.client_over(&wire);
    let slow = Locker::builder(&client, &bench.table).with_clock(clock).build().expect("a locker");
    held_by(locker.token("t")).await.hold("no reply").await.expect("held");
    let record = record_of(&locker, "t").await;
    assert_eq!(slow.resolve(&record, &json!(SECRET), &ada()).await.expect("resolved"), Intervened::Done);
    assert_eq!(redact(&locker, "t").await.expect("redacted"), Intervened::Done);

    held_by(locker.token("again")).await.hold(SECRET).await.expect("held");
    let record = record_of(&locker, "again").await;
    assert_eq!(slow.release(&record, &ada()).await.expect("released"), Intervened::Done);
    held_by(locker.token("again")).await.complete("done").await.expect("completed");
    bench.clock.advance(MINUTE);
    assert_eq!(redact(&locker, "again").await.expect("redacted"), Intervened::Done);
    assert_eq!(traces(&bench).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn copy_under_the_first_version_of_a_key_is_erased() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.fail(SECRET).await.expect("failed");
    bench.clock.advance(Duration::from_secs(3600));
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
    // Longer than the clock of an operator may be behind.
    bench.clock.advance(DAY * 2);
    held_by(locker.token("t")).await.complete("done").await.expect("completed");
    bench.clock.advance(MINUTE);
    assert_eq!(redact(&locker, "t").await.expect("redacted"), Intervened::Done);
    assert_eq!(traces(&bench).await, Vec::<String>::new());
}

/// The index is eventually consistent, so it may not list the last act yet.
#[tokio::test(start_paused = true)]
async fn redact_fails_until_the_index_lists_the_last_act() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("t")).await.hold("no reply").await.expect("held");
    let record = record_of(&locker, "t").await;
    assert_eq!(locker.resolve(&record, &json!(SECRET), &ada()).await.expect("resolved"), Intervened::Done);
    let is_audit = |item: &&std::collections::HashMap<String, aws_sdk_dynamodb::types::AttributeValue>| {
        item["lockToken"].as_s().expect("a key").contains(" audit ")
    };
    let audit = bench.items().await.iter().find(is_audit).expect("an audit record").clone();
    bench.delete(audit["lockToken"].as_s().expect("a key")).await;
    let early = redact(&locker, "t").await;
    assert!(matches!(early, Err(Error::Unavailable { .. })), "{early:?}");
    assert!(!record_of(&locker, "t").await.is_redacted());
    bench.put(audit).await;
    assert_eq!(redact(&locker, "t").await.expect("redacted"), Intervened::Done);
    assert_eq!(traces(&bench).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn only_a_token_with_a_result_is_redacted() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let running = held_by(locker.token("running")).await;
    held_by(locker.token("doubt")).await.leave_in_doubt("no reply").await;
    held_by(locker.token("held")).await.hold("odd").await.expect("held");
    held_by(locker.token("released")).await.hold("odd").await.expect("held");
    let record = record_of(&locker, "released").await;
    assert_eq!(locker.release(&record, &ada()).await.expect("released"), Intervened::Done);
    held_by(locker.token("done")).await.complete(SECRET).await.expect("completed");
    let seen = record_of(&locker, "done").await;
    assert_eq!(redact(&locker, "done").await.expect("redacted"), Intervened::Done);
    let before = bench.items().await;
    for key in ["running", "doubt", "held", "released", "done"] {
        assert_eq!(redact(&locker, key).await.expect("an answer"), Intervened::NotPossible, "{key}");
    }
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(locker.redact(&seen, &ada()).await.expect("an answer"), Intervened::Changed);
    let record = record_of(&locker, "done").await;
    assert_eq!(locker.correct(&record, &json!(1), &ada()).await.expect("an answer"), Intervened::NotPossible);
    assert_eq!(bench.items().await, before, "and no audit record of what was not done");
    running.complete("done").await.expect("still held");
}

#[tokio::test(start_paused = true)]
async fn reader_that_is_about_to_fetch_an_erased_answer_learns_that() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let (other, _) = bench.machine();
    held_by(locker.token("large")).await.complete(&large()).await.expect("completed");
    let seen = record_of(&locker, "large").await;
    wire.matching(|exchange| exchange.operation == "GetItem", Fate::HeldBefore);
    let begin = locker.token("large");
    let reading = tokio::spawn(async move { begin.begin().await });
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(redact(&other, "large").await.expect("redacted"), Intervened::Done);
    wire.let_through();
    let Begun::Completed(replay) = reading.await.expect("no panic").expect("an answer") else {
        panic!("it is free")
    };
    assert_eq!(replay.result::<String>(), Err(AnswerError::Redacted));
    let content = locker.answer(&seen).await;
    assert!(matches!(content, Err(Error::Answer(AnswerError::Redacted))), "{content:?}");
}

/// A begin has read a held token, and an operator resolves it, which deletes its large failure.
#[tokio::test(start_paused = true)]
async fn reader_of_a_failure_that_a_resolve_replaces_gets_the_answer() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let (other, _) = bench.machine();
    held_by(locker.token("large")).await.hold(&large()).await.expect("held");
    wire.matching(|exchange| exchange.operation == "GetItem", Fate::HeldBefore);
    let begin = locker.token("large");
    let reading = tokio::spawn(async move { begin.begin().await });
    while wire.held() == 0 {
        tokio::task::yield_now().await;
    }
    let record = record_of(&other, "large").await;
    assert_eq!(other.resolve(&record, &json!("by hand"), &ada()).await.expect("resolved"), Intervened::Done);
    wire.let_through();
    let Begun::Completed(replay) = reading.await.expect("no panic").expect("an answer") else {
        panic!("an operator resolved it")
    };
    assert_eq!(replay.result::<String>(), Ok("by hand".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn redact_recognises_itself_after_each_fault() {
    use Fate::{ErrorAfter, ErrorBefore, Garbled, Lost, ReplyLost, Throttled, UnavailableAfter};
    let faults = [ReplyLost, Lost, ErrorAfter, ErrorBefore, UnavailableAfter, Garbled, Throttled];
    let bench = Bench::new().await;
    for fault in faults {
        // The requests of a redact of a token that an operator resolved: the audit, its records,
        // and the transaction.
        for faulty in 0..5 {
            let (locker, wire) = bench.machine();
            let key = format!("redact/{fault:?}/{faulty}");
            held_by(locker.token(&key)).await.leave_in_doubt("no reply").await;
            let record = record_of(&locker, &key).await;
            let resolved = locker.resolve(&record, &json!(large()), &ada()).await;
            assert_eq!(resolved.expect("resolved"), Intervened::Done);
            let record = record_of(&locker, &key).await;
            wire.next(std::iter::repeat_n(Fate::Ok, faulty).chain([fault, fault]));
            let redacted = locker.redact(&record, &ada()).await;
            assert_eq!(redacted.expect("redacted"), Intervened::Done, "{fault:?} at {faulty}");
            wire.next([]);
            assert!(record_of(&locker, &key).await.is_redacted());
        }
    }
    assert_eq!(traces(&bench).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn unknown_redact_is_found_in_the_record() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.impatient_machine();
    held_by(locker.token("order/7")).await.complete(SECRET).await.expect("completed");
    let record = record_of(&locker, "order/7").await;
    wire.always(Fate::ReplyLost);
    let error = locker.redact(&record, &ada()).await.expect_err("no answer");
    assert!(matches!(error, Error::Unknown { verb: "redact", .. }), "{error:?}");
    wire.next([]);
    assert!(record_of(&locker, "order/7").await.is_redacted(), "it was applied");
    assert_eq!(traces(&bench).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn released_after_a_redact_gives_the_same_key_again() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("order/7").form(Form::HTTP)).await.fail(SECRET).await.expect("failed");
    assert_eq!(redact(&locker, "order/7").await.expect("redacted"), Intervened::Done);
    let record = record_of(&locker, "order/7").await;
    assert_eq!(record.form(), Some(&Form::HTTP));
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
    let lock = held_by(locker.token("order/7")).await;
    assert_eq!(lock.attempt().idempotency_key(), "order/7");
    lock.complete("done").await.expect("completed");
    assert_eq!(traces(&bench).await, Vec::<String>::new());
}

/// The tokens that a plan to redact contains.
async fn planned(locker: &Locker, filter: Filter) -> Plan {
    let console = Console::new().tokens(locker);
    let mut plan = console.plan(filter, Act::redact(), &ada()).await.expect("a plan");
    plan.items.sort_by(|one, other| one.work.key().cmp(other.work.key()));
    plan
}

fn keys(plan: &Plan) -> Vec<&str> {
    plan.items.iter().map(|item| item.work.key()).collect()
}

#[tokio::test(start_paused = true)]
async fn plan_erases_all_results_of_a_tenant_and_no_other() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    let of = |tenant: &str, key: &str| locker.token(key).tenant(tenant);
    for number in 0..30 {
        held_by(of("cust8", &format!("paid/{number:02}"))).await.complete(&large()).await.expect("done");
    }
    held_by(of("cust8", "refused")).await.fail(SECRET).await.expect("failed");
    held_by(of("cust8", "held")).await.hold("odd").await.expect("held");
    let _running = held_by(of("cust8", "running")).await;
    held_by(of("cust80", "paid")).await.complete("other").await.expect("completed");
    held_by(locker.token("plain")).await.complete("other").await.expect("completed");

    let before = bench.items().await;
    let plan = planned(&locker, Filter::new().tenant("cust8")).await;
    assert_eq!((plan.items.len(), plan.left_out.len(), plan.complete), (31, 0, true));
    assert_eq!((keys(&plan)[0], keys(&plan)[30]), ("@cust8/paid/00", "@cust8/refused"));
    assert_eq!(bench.items().await, before, "a plan changes nothing");

    // One of them gets another result before the plan is applied.
    let record = record_of(&locker, "@cust8/paid/07").await;
    assert_eq!(locker.release_completed(&record, &ada()).await.expect("released"), Intervened::Done);
    held_by(of("cust8", "paid/07")).await.complete("another").await.expect("completed");
    let console = Console::new().tokens(&locker);
    let options = ApplyOptions { per_second: 10_000, ..ApplyOptions::default() };
    let report = console.apply(&plan, &options, |_| ControlFlow::Continue(())).await.expect("applied");
    assert_eq!((report.done, report.changed), (30, 1));
    for item in &plan.items {
        let record = record_of(&locker, item.work.key()).await;
        assert_eq!(record.is_redacted(), item.work.key() != "@cust8/paid/07", "{}", item.work.key());
    }
    let left = traces(&bench).await;
    assert!(left.iter().all(|key| key.starts_with("@cust8/paid/07 ")), "{left:?}");
    assert_eq!(keys(&planned(&locker, Filter::new().tenant("cust8")).await), ["@cust8/paid/07"]);
    assert_eq!(keys(&planned(&locker, Filter::new().prefix("pl")).await), ["plain"]);
    let all = planned(&locker, Filter::new().with_result()).await;
    assert_eq!(keys(&all), ["@cust8/paid/07", "@cust80/paid", "plain"]);
}

#[tokio::test(start_paused = true)]
async fn plan_of_results_stops_at_its_limit_and_goes_on_later() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    for number in 0..7 {
        held_by(locker.token(("paid", number))).await.complete(SECRET).await.expect("completed");
        bench.clock.advance(Duration::from_secs(60));
    }
    let console = Console::new().tokens(&locker).limit(5);
    for (count, complete) in [(5, false), (2, true), (0, true)] {
        let plan = console.plan(Filter::new().prefix("paid"), Act::redact(), &ada()).await.expect("a plan");
        assert_eq!((plan.items.len(), plan.complete), (count, complete));
        let report = console.apply(&plan, &ApplyOptions::default(), |_| ControlFlow::Continue(())).await;
        assert_eq!(report.expect("applied").done, count);
    }
    assert_eq!(traces(&bench).await, Vec::<String>::new());

    held_by(locker.token("late")).await.complete(SECRET).await.expect("completed");
    let since = bench.clock.now();
    assert_eq!(keys(&planned(&locker, Filter::new().since(since)).await), ["late"]);
    assert_eq!(keys(&planned(&locker, Filter::new().until(since)).await), Vec::<&str>::new());
    wire.next([Fate::Denied]);
    let denied = console.plan(Filter::new().prefix("late"), Act::redact(), &ada()).await;
    let error = denied.expect_err("denied");
    assert!(error.to_string().contains("a plan to redact needs Scan on the table"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn plan_of_results_reads_all_pages_of_the_table() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    for number in 0..12 {
        let noise: String = (0..150_000).map(|_| fastrand::alphanumeric()).collect();
        held_by(locker.token(("paid", number))).await.complete(&noise).await.expect("completed");
    }
    let before = wire.count();
    assert_eq!(planned(&locker, Filter::new().prefix("paid")).await.items.len(), 12);
    assert!(wire.count() - before > 12 + 1, "more than one page, and a read of each");
}

#[tokio::test(start_paused = true)]
async fn condition_that_no_result_has_is_refused_before_a_request() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let console = Console::new().tokens(&locker);
    for filter in [
        Filter::new().only_tokens([TokenState::Held]),
        Filter::new().only_workflows([List::Finished]),
        Filter::new().only_late_events(),
        Filter::new().only_messages([MessageState::Dead]),
        Filter::new().need(Need::Held),
        Filter::new().class(Class::Permanent),
        Filter::new().due(),
        Filter::new().group("9a8fac0a"),
        Filter::new().topic("order"),
        Filter::new().consumer("mailer"),
        Filter::new().message("9a8fac0a"),
    ] {
        let refused = console.plan(filter.clone().prefix("paid"), Act::redact(), &ada()).await;
        let error = refused.expect_err("a plan would select too much or nothing");
        assert!(error.to_string().contains("does not select work with a result"), "{filter}: {error}");
    }
    assert_eq!(wire.count(), 0);
}

/// The results of all tokens have the group of a token that needs no operator.
#[tokio::test(start_paused = true)]
async fn group_in_a_text_does_not_select_all_results() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("paid")).await.complete(SECRET).await.expect("completed");
    let _running = held_by(locker.token("running")).await;
    let listing = Console::new().tokens(&locker).list(&Filter::new()).await.expect("a listing");
    let group = listing.matches[0].group.clone();
    assert_eq!(keys(&planned(&locker, Filter::new().text("paid")).await), ["paid"]);
    assert_eq!(keys(&planned(&locker, Filter::new().text(group)).await), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn tenant_that_no_key_has_is_refused_before_a_request() {
    let bench = Bench::new().await;
    let (locker, wire) = bench.machine();
    let console = Console::new().tokens(&locker);
    let filter = || Filter::new().tenant("m\u{fc}ller");
    let planned = console.plan(filter(), Act::redact(), &ada()).await.expect_err("it would find nothing");
    let listed = console.list(&filter()).await.expect_err("it would find nothing");
    for error in [planned, listed] {
        assert!(matches!(&error, Error::Invalid(refused) if refused.is_key()), "{error}");
        let text = "the tenant has a character outside ASCII at byte 1";
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(wire.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn unreadable_tokens_do_not_count_against_the_limit() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    for number in 0..6 {
        held_by(locker.token(("paid", number))).await.complete(SECRET).await.expect("completed");
    }
    for mut damaged in bench.items().await.into_iter().filter(|item| item.contains_key("lockedBy")).take(4) {
        damaged.remove("lockedBy").expect("an owner");
        bench.put(damaged).await;
    }
    let console = Console::new().tokens(&locker).limit(2);
    for (count, left_out) in [(2, 4), (0, 4)] {
        let plan = console.plan(Filter::new().prefix("paid"), Act::redact(), &ada()).await.expect("a plan");
        assert_eq!((plan.items.len(), plan.left_out.len(), plan.complete), (count, left_out, true));
        let report = console.apply(&plan, &ApplyOptions::default(), |_| ControlFlow::Continue(())).await;
        assert_eq!(report.expect("applied").done, count);
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_token_is_named_by_a_plan_for_any_time() {
    let bench = Bench::new().await;
    let (locker, _) = bench.machine();
    held_by(locker.token("paid")).await.complete(SECRET).await.expect("completed");
    let mut damaged = bench.items().await.remove(0);
    damaged.remove("lockedBy").expect("an owner");
    bench.put(damaged).await;
    for filter in
        [Filter::new(), Filter::new().since(bench.clock.now()), Filter::new().until(bench.clock.now())]
    {
        let plan = planned(&locker, filter.prefix("pa")).await;
        let left_out: Vec<_> = plan.left_out.iter().map(|it| it.because.as_str()).collect();
        assert!(plan.items.is_empty() && left_out.len() == 1, "{left_out:?}");
        assert!(left_out[0].starts_with("it cannot be read: "), "{left_out:?}");
    }
}
