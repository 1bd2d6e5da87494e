//! Each kind of broken promise is found; histories that are in order, or may be, have no violation.

use std::collections::HashMap;

use locker_tests::history::{Effect, Event, History, Op, Outcome, Phase, Report, Rule, Rules, Time, check};

/// A history of one token, told in seconds.
#[derive(Default)]
struct Story {
    history: History,
    effects: Vec<Effect>,
    rules: Rules,
    calls: u32,
}

struct Said<'a> {
    found: Option<&'a str>,
    digest: Option<&'a str>,
    ttl: Option<i64>,
}

const NOTHING: Said<'static> = Said { found: None, digest: None, ttl: None };

fn found(found: &str) -> Said<'_> {
    Said { found: Some(found), ..NOTHING }
}

fn answer<'a>(found: &'a str, digest: &'a str) -> Said<'a> {
    Said { found: Some(found), digest: Some(digest), ttl: None }
}

fn digest(digest: &str) -> Said<'_> {
    Said { digest: Some(digest), ..NOTHING }
}

fn seconds(at: i64) -> Time {
    Time(at * 1_000_000)
}

impl Story {
    /// A call of an attempt from one second to another, or without an end.
    fn call(mut self, op: Op, attempt: &str, from: i64, to: Option<(i64, Outcome)>, said: Said<'_>) -> Self {
        self.calls += 1;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (is_begin, own) = (op == Op::Begin, owned(said.digest));
        let mut event = Event {
            history: Phase::Invoke,
            call: format!("c{}", self.calls),
            op,
            token: "pay/7".to_owned(),
            owner: "me".to_owned(),
            attempt: Some(attempt.to_owned()),
            outcome: None,
            found: None,
            digest: own.clone().filter(|_| !is_begin),
            ttl: said.ttl,
            at: seconds(from),
        };
        self.history.add(event.clone());
        if let Some((at, outcome)) = to {
            event.history = Phase::Outcome;
            event.digest = own.filter(|_| is_begin);
            (event.outcome, event.found, event.at) = (Some(outcome), owned(said.found), seconds(at));
            self.history.add(event);
        }
        self
    }

    fn begin(self, attempt: &str, at: i64, outcome: Outcome, said: Said<'_>) -> Self {
        self.call(Op::Begin, attempt, at, Some((at + 1, outcome)), said)
    }

    fn acquired(self, attempt: &str, at: i64) -> Self {
        self.begin(attempt, at, Outcome::Acquired, NOTHING)
    }

    fn ok(self, op: Op, attempt: &str, at: i64, said: Said<'_>) -> Self {
        self.call(op, attempt, at, Some((at + 1, Outcome::Ok)), said)
    }

    fn open(self, op: Op, attempt: &str, at: i64, said: Said<'_>) -> Self {
        self.call(op, attempt, at, None, said)
    }

    fn effect(mut self, attempt: Option<&str>, at: i64) -> Self {
        let attempt = attempt.map(str::to_owned);
        self.effects.push(Effect { token: "pay/7".to_owned(), attempt, at: seconds(at) });
        self
    }

    fn rules(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(&mut self.rules);
        self
    }

    fn report(&self) -> Report {
        let effects = HashMap::from([("pay/7".to_owned(), self.effects.clone())]);
        check(&self.history, &effects, self.rules, |_| true)
    }

    #[track_caller]
    fn is(&self, rules: &[Rule]) -> Report {
        let report = self.report();
        let found: Vec<_> = report.violations().map(|finding| finding.rule).collect();
        assert_eq!(found, rules, "{:#?}", report.findings);
        report
    }

    #[track_caller]
    fn is_clean(&self) -> Report {
        self.is(&[])
    }

    #[track_caller]
    fn is_noted(&self, rule: Rule) {
        let report = self.is_clean();
        assert!(report.notes().any(|note| note.rule == rule), "{:#?}", report.findings);
    }
}

/// Acquired at 0, done at 5, answered at 10.
fn done() -> Story {
    Story::default().acquired("a", 0).effect(Some("a"), 5).ok(Op::Complete, "a", 10, digest("d"))
}

#[test]
fn correct_history_has_no_findings() {
    let report = done()
        .begin("b", 3, Outcome::InProgress, found("a"))
        .begin("c", 20, Outcome::Completed, answer("a", "d"))
        .begin("d", 21, Outcome::Mismatch, found("a"))
        .is_clean();
    assert_eq!((report.acquired, report.replays, report.effects), (1, 1, 1));
    assert!(report.unfinished.is_empty() && report.uncertain.is_empty() && report.findings.is_empty());
    let released = Story::default().acquired("a", 0).ok(Op::Release, "a", 2, NOTHING).acquired("b", 5);
    let report = released.ok(Op::Fail, "b", 7, digest("no")).is_clean();
    assert_eq!(report.acquired, 2);
    done()
        .ok(Op::ReleaseByOperator, "a", 20, NOTHING)
        .acquired("b", 30)
        .ok(Op::Complete, "b", 40, digest("e"))
        .is_clean();
    let failed = Story::default().acquired("a", 0).ok(Op::Hold, "a", 2, digest("f"));
    failed
        .begin("b", 5, Outcome::Held, answer("a", "f"))
        .ok(Op::Resolve, "p", 10, digest("d"))
        .begin("c", 20, Outcome::Completed, answer("p", "d"))
        .is_clean();
}

#[test]
fn a_takeover_explains_two_effects_and_a_late_owner_is_told() {
    let story = Story::default()
        .acquired("a", 0)
        .effect(Some("a"), 5)
        .begin("b", 10, Outcome::TookOver, found("a"))
        .effect(Some("b"), 15)
        .call(Op::Complete, "a", 16, Some((17, Outcome::Lost)), Said { found: Some("b"), ..digest("x") })
        .ok(Op::Complete, "b", 20, digest("d"));
    let report = story.is_clean();
    assert_eq!((report.taken_over, report.explained_repeats, report.lost), (1, 1, 1));
    story.rules(|rules| rules.at_most_once = true).is(&[Rule::DuplicateEffect]);
}

#[test]
fn a_second_effect_needs_a_second_holder() {
    done().effect(None, 12).is(&[Rule::DuplicateEffect]);
    done().effect(Some("a"), 12).is(&[Rule::DuplicateEffect]);
    // The same attempt twice is not explained by a takeover.
    done()
        .begin("b", 6, Outcome::TookOver, found("a"))
        .effect(Some("a"), 9)
        .report()
        .violations()
        .find(|finding| finding.rule == Rule::DuplicateEffect)
        .expect("found");
}

#[test]
fn an_effect_needs_a_holder_that_knew_it() {
    done().effect(Some("b"), 12).is(&[Rule::EffectWithoutHolder]);
    Story::default().effect(None, 5).is(&[Rule::EffectWithoutHolder]);
    let early = Story::default().effect(Some("a"), 1).acquired("a", 3).ok(Op::Complete, "a", 10, digest("d"));
    early.is(&[Rule::EffectWithoutHolder]);
}

#[test]
fn two_answers_are_found() {
    done()
        .begin("b", 20, Outcome::Completed, answer("a", "other"))
        .is(&[Rule::DifferentAnswers, Rule::UnstoredAnswer]);
    let two = done().begin("b", 11, Outcome::Acquired, NOTHING).ok(Op::Complete, "b", 15, digest("e"));
    two.is(&[Rule::TwoHolders, Rule::DifferentAnswers]);
}

#[test]
fn an_answer_that_was_not_stored_is_found() {
    let none = || Story::default().acquired("a", 0);
    none().begin("b", 5, Outcome::Completed, answer("a", "d")).is(&[Rule::UnstoredAnswer]);
    none().begin("b", 5, Outcome::Held, answer("a", "d")).is(&[Rule::UnstoredAnswer]);
    none().begin("b", 5, Outcome::Failed, digest("d")).is(&[Rule::UnstoredAnswer]);
    let too_early =
        none().begin("b", 5, Outcome::Completed, answer("a", "d")).ok(Op::Complete, "a", 9, digest("d"));
    too_early.is(&[Rule::UnstoredAnswer]);
    let lost = none().call(Op::Complete, "a", 3, Some((4, Outcome::Lost)), digest("d"));
    lost.begin("b", 5, Outcome::Completed, answer("a", "d")).is(&[Rule::UnstoredAnswer]);
    // One whose reply never came may have been stored.
    let open =
        none().open(Op::Complete, "a", 3, digest("d")).begin("b", 5, Outcome::Completed, answer("a", "d"));
    open.is_clean();
    let before = Story::default().begin("b", 5, Outcome::Completed, answer("old", "d"));
    before.is(&[Rule::UnstoredAnswer]);
}

#[test]
fn no_owner_comes_after_the_answer() {
    done().begin("b", 20, Outcome::InProgress, found("a")).is(&[Rule::AfterTheAnswer]);
    done().acquired("b", 20).is(&[Rule::TwoHolders, Rule::AfterTheAnswer]);
    done().begin("b", 20, Outcome::TookOver, found("a")).is(&[Rule::BadTakeover, Rule::AfterTheAnswer]);
    // Known to a reader is known, even if the writer never heard.
    Story::default()
        .acquired("a", 0)
        .open(Op::Complete, "a", 3, digest("d"))
        .begin("b", 5, Outcome::Completed, answer("a", "d"))
        .begin("c", 9, Outcome::InProgress, found("a"))
        .is(&[Rule::AfterTheAnswer]);
    // At the same time is not after.
    let during = done().call(Op::Begin, "b", 10, Some((12, Outcome::InProgress)), found("a"));
    during.is_clean();
    let within = done().begin("b", 12, Outcome::InProgress, found("a"));
    within.is(&[Rule::AfterTheAnswer]);
}

#[test]
fn a_forgotten_answer_may_be_followed_by_another() {
    let kept = |ttl| {
        Story::default()
            .acquired("a", 0)
            .ok(Op::Complete, "a", 5, Said { ttl: Some(ttl), ..digest("d") })
            .acquired("b", 100)
            .ok(Op::Complete, "b", 105, digest("e"))
    };
    kept(90).is_clean();
    kept(900).is(&[Rule::TwoHolders, Rule::AfterTheAnswer, Rule::DifferentAnswers]);
}

#[test]
fn two_holders_are_found() {
    Story::default().acquired("a", 0).acquired("b", 5).is(&[Rule::TwoHolders]);
    // Begun at the same time, without any end: no order explains it.
    let race = Story::default().call(Op::Begin, "a", 0, Some((9, Outcome::Acquired)), NOTHING);
    race.call(Op::Begin, "b", 1, Some((8, Outcome::Acquired)), NOTHING).is(&[Rule::TwoHolders]);
    // A release frees once, and after it was invoked.
    let once =
        Story::default().acquired("a", 0).ok(Op::Release, "a", 3, NOTHING).acquired("b", 5).acquired("c", 7);
    once.is(&[Rule::TwoHolders]);
    Story::default()
        .acquired("a", 0)
        .acquired("b", 5)
        .ok(Op::Release, "a", 9, NOTHING)
        .is(&[Rule::TwoHolders]);
    Story::default().acquired("a", 0).open(Op::Release, "a", 3, NOTHING).acquired("b", 50).is_clean();
}

#[test]
fn a_takeover_needs_a_predecessor() {
    let over = |before: &str| Story::default().begin("b", 10, Outcome::TookOver, found(before));
    over("nobody").is(&[Rule::BadTakeover]);
    over("a").acquired("a", 20).is(&[Rule::BadTakeover]);
    over("a").open(Op::Begin, "a", 0, NOTHING).is_clean();
    over("a").acquired("a", 0).begin("c", 12, Outcome::TookOver, found("a")).is(&[Rule::BadTakeover]);
    over("a").acquired("a", 0).ok(Op::Release, "a", 5, NOTHING).is_noted(Rule::BadTakeover);
}

#[test]
fn a_late_end_is_found() {
    let over = || Story::default().acquired("a", 0).begin("b", 10, Outcome::TookOver, found("a"));
    for op in [Op::Complete, Op::Fail, Op::Hold] {
        over()
            .ok(op, "a", 20, digest("d"))
            .report()
            .violations()
            .find(|finding| finding.rule == Rule::LateEnd)
            .expect("found");
    }
    for op in [Op::Release, Op::Extend] {
        over().ok(op, "a", 20, NOTHING).is(&[Rule::LateEnd]);
    }
    over().ok(Op::Extend, "a", 5, NOTHING).is_clean();
    let resolved = Story::default().acquired("a", 0).ok(Op::Resolve, "p", 10, digest("d"));
    resolved.ok(Op::Complete, "a", 20, digest("d")).is(&[Rule::LateEnd, Rule::DifferentAnswers]);
}

#[test]
fn a_false_no_is_found() {
    let told = |outcome| {
        Story::default().begin("a", 0, outcome, NOTHING).begin("b", 5, Outcome::InProgress, found("a"))
    };
    told(Outcome::Unavailable).is(&[Rule::FalseNo]);
    told(Outcome::Denied).is(&[Rule::FalseNo]);
    told(Outcome::InProgress).is_noted(Rule::FalseNo);
    told(Outcome::Unknown).is_clean();
    Story::default().begin("a", 0, Outcome::InProgress, found("a")).is(&[Rule::FalseNo]);
}

#[test]
fn scan_lists_each_overdue_token() {
    let names = |story: Story| {
        let report = story.is_clean();
        (report.unfinished.len(), report.uncertain.len())
    };
    let held = || Story::default().acquired("a", 0);
    assert_eq!(names(held()), (1, 0));
    assert_eq!(names(held().open(Op::Complete, "a", 5, digest("d"))), (0, 1));
    assert_eq!(names(held().open(Op::Begin, "b", 5, NOTHING)), (1, 0));
    assert_eq!(
        names(held().call(Op::Complete, "a", 5, Some((6, Outcome::Unavailable)), digest("d"))),
        (1, 0)
    );
    assert_eq!(names(held().begin("b", 10, Outcome::TookOver, found("a"))), (1, 0));
    assert_eq!(names(held().ok(Op::Release, "a", 5, NOTHING)), (0, 0));
    assert_eq!(names(held().ok(Op::Release, "a", 5, NOTHING).acquired("b", 9)), (1, 0));
    assert_eq!(names(held().ok(Op::Resolve, "p", 5, digest("d"))), (0, 0));
    assert_eq!(names(held().ok(Op::Hold, "a", 5, digest("d"))), (0, 0));
    assert_eq!(names(Story::default().open(Op::Begin, "a", 0, NOTHING)), (0, 1));
    let read =
        held().open(Op::Complete, "a", 5, digest("d")).begin("b", 9, Outcome::Completed, answer("a", "d"));
    assert_eq!(names(read), (0, 0));
}

#[test]
fn order_and_repetition_of_lines_do_not_matter() {
    let line = |phase: &str, more: &str, at: u32| {
        format!(
            r#"{{"history":"{phase}","call":"c","op":"begin","token":"t","attempt":"a"{more},"at":"2026-11-21T11:09:0{at}Z"}}"#
        )
    };
    let (invoke, outcome) = (line("invoke", "", 1), line("outcome", r#","outcome":"acquired""#, 2));
    let read = |text: String| {
        let mut history = History::default();
        history.read(text.as_bytes()).unwrap();
        (history.tokens()[0].1.to_vec(), history.repeated, history.other_lines, history.damaged_lines)
    };
    let straight = read(format!("{invoke}\n{outcome}\n"));
    assert_eq!(straight.0[0].outcome, Some(Outcome::Acquired));
    let crooked = read(format!("{outcome}\nSTART\n{invoke}\n{outcome}\n{}", &invoke[..30]));
    assert_eq!(crooked, (straight.0, 1, 1, 1));
}
