//! A busy lane, a dead lane and a quiet lane, in virtual time.

use std::sync::Mutex;

use super::*;
use crate::core::rounds::Kind;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A clock that is tokio's.
#[derive(Debug)]
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> DateTime<Utc> {
        time::after(DateTime::UNIX_EPOCH, self.0.elapsed())
    }
}

impl Virtual {
    fn at(after: Duration) -> DateTime<Utc> {
        time::after(DateTime::UNIX_EPOCH, after)
    }
}

#[derive(Debug, Default, Serialize, PartialEq)]
struct Counted {
    done: usize,
    abandoned: usize,
    pages: usize,
}

impl Counts for Counted {
    fn add(&mut self, part: Self) {
        self.done += part.done;
        self.abandoned += part.abandoned;
        self.pages += part.pages;
    }
}

#[derive(Debug, Clone, Copy)]
enum How {
    Takes(Duration),
    /// Ends its turn after 2 seconds and reports that its time was over.
    TakesTooLong,
    Hangs,
    Fails,
    /// Needs this many turns of 10 ms.
    Turns(u32),
}

#[derive(Debug, Clone)]
struct Item {
    lane: &'static str,
    how: How,
}

/// A list.
enum Listed {
    Pages(Vec<Vec<Item>>),
    /// Each page is followed by a further page.
    Refills(Item),
    Hangs,
    Fails,
}

struct Fake {
    since: Instant,
    lists: Vec<Listed>,
    /// When a page was read or an item began, and of which list or lane.
    seen: Mutex<Vec<(Duration, String)>>,
}

fn unavailable(verb: &'static str) -> Error {
    Error::Unavailable { verb, tries: 1, source: "down".into() }
}

impl Fake {
    fn new(lists: Vec<Listed>) -> Self {
        Self { since: Instant::now(), lists, seen: Mutex::default() }
    }

    fn note(&self, what: impl Into<String>) {
        self.seen.lock().unwrap().push((self.since.elapsed(), what.into()));
    }

    fn when(&self, what: &str) -> Vec<Duration> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(_, it)| it == what).map(|(at, _)| *at).collect()
    }

    /// The first turns, in order.
    fn turns(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(_, what)| what.clone()).filter(|what| !what.starts_with("list")).collect()
    }
}

impl Work for Fake {
    type Item = Item;
    type Place = usize;
    type Counts = Counted;

    async fn read(&self, list: usize, from: Option<usize>) -> Result<Page<Item, usize, Counted>, Error> {
        tokio::time::sleep(MILLI).await;
        self.note(format!("list {list}"));
        let page = from.unwrap_or_default();
        let (items, is_last) = match &self.lists[list] {
            Listed::Pages(pages) => (pages[page].clone(), page + 1 == pages.len()),
            Listed::Refills(item) => (vec![item.clone(); PAGE], false),
            Listed::Hangs => std::future::pending().await,
            Listed::Fails => return Err(unavailable("list")),
        };
        let entries = items.into_iter().enumerate().map(|(number, item)| Entry {
            lane: item.lane.to_owned(),
            due: format!("{page:06} {number:06}"),
            kind: Kind::One,
            item,
        });
        let counts = Counted { pages: 1, ..Counted::default() };
        Ok(Page { entries: entries.collect(), next: (!is_last).then_some(page + 1), counts })
    }

    async fn turn(&self, item: &mut Item) -> Turn<Counted> {
        self.note(item.lane);
        match item.how {
            How::Takes(time) => tokio::time::sleep(time).await,
            How::TakesTooLong => {
                tokio::time::sleep(2 * SECOND).await;
                return Turn { then: Then::Cut, ..Turn::done(self.abandon(item).await) };
            }
            How::Hangs => std::future::pending().await,
            How::Fails => {
                tokio::time::sleep(MILLI).await;
                return Turn { then: Then::Fail(unavailable("read")), ..Turn::done(Counted::default()) };
            }
            How::Turns(1) => {}
            How::Turns(turns) => {
                tokio::time::sleep(10 * MILLI).await;
                item.how = How::Turns(turns - 1);
                return Turn { then: Then::Again, ..Turn::done(Counted::default()) };
            }
        }
        Turn::done(Counted { done: 1, ..Counted::default() })
    }

    async fn abandon(&self, _: &Item) -> Counted {
        Counted { abandoned: 1, ..Counted::default() }
    }
}

fn item(lane: &'static str, how: How) -> Item {
    Item { lane, how }
}

fn page(lane: &'static str, how: How, count: usize) -> Vec<Item> {
    vec![item(lane, how); count]
}

fn run_of(clock: &Virtual, lists: usize, width: usize, deadline: Option<Duration>) -> DueWork<'_> {
    let deadline = deadline.map(Virtual::at);
    DueWork {
        clock,
        pools: vec![Pool { width, begins_until: deadline }],
        lists: vec![0; lists],
        limit: None,
        expects: Vec::new(),
        deadline,
        patience: SECOND,
        page_within: 3 * SECOND,
    }
}

#[tokio::test(start_paused = true)]
async fn beside_a_busy_and_a_dead_list_a_quiet_one_has_its_turn_at_once() {
    let busy = Listed::Refills(item("busy", How::Takes(20 * MILLI)));
    let quiet = Listed::Pages(vec![page("quiet", How::Takes(MILLI), 1)]);
    let fake = Fake::new(vec![busy, Listed::Hangs, quiet]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 3, 4, Some(10 * SECOND)).run(&fake).await.unwrap();
    let place = fake.turns().iter().position(|lane| lane == "quiet");
    assert!(place.is_some_and(|place| place <= 4), "{place:?}");
    assert_eq!(fake.when("quiet"), [MILLI]);
    // The dead list takes a bounded time of the run, and no place in it.
    assert!((1_600..=2_000).contains(&report.done), "{report:?}");
    assert!(!report.finished && matches!(report.stopped_by, Some(Error::Unavailable { .. })), "{report:?}");
    assert!(fake.since.elapsed() < 11 * SECOND, "{:?}", fake.since.elapsed());
    assert!(fake.when("busy").iter().all(|at| *at < 10 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn items_that_hang_cost_a_bounded_time_and_a_quiet_lane_nothing() {
    let all = page("dead", How::TakesTooLong, 99).into_iter().chain(page("quiet", How::Takes(MILLI), 1));
    let fake = Fake::new(vec![Listed::Pages(vec![all.collect(), page("late", How::Takes(MILLI), 1)])]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 1, 4, None).run(&fake).await.unwrap();
    assert!(fake.when("quiet")[0] < 10 * MILLI && fake.when("late")[0] < 10 * MILLI, "{:?}", fake.turns());
    assert_eq!((report.done, report.abandoned, report.finished), (2, 99, false), "{report:?}");
    assert!(report.stopped_by.is_none());
    // Four at a time, two seconds each.
    assert!(fake.since.elapsed() <= 51 * SECOND, "{:?}", fake.since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_soon_after_its_deadline_whatever_hangs() {
    let fake = Fake::new(vec![Listed::Pages(vec![page("dead", How::Hangs, 50)]), Listed::Hangs]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 2, 8, Some(2 * SECOND)).run(&fake).await.unwrap();
    assert_eq!(fake.since.elapsed(), 3 * SECOND, "the deadline and the patience");
    assert_eq!((report.abandoned, report.finished), (4, false), "half of the width while a list is read");
    assert!(report.stopped_by.is_none(), "the deadline did: {report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_began_in_time_ends_and_none_begins_after_the_deadline() {
    let fake = Fake::new(vec![Listed::Pages(vec![page("a", How::Takes(700 * MILLI), 9)])]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 1, 1, Some(2 * SECOND)).run(&fake).await.unwrap();
    assert_eq!((report.done, report.abandoned, report.finished), (3, 0, false), "{report:?}");
    let fake = Fake::new(vec![Listed::Pages(vec![page("a", How::Takes(700 * MILLI), 3)])]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 1, 1, Some(2 * SECOND)).run(&fake).await.unwrap();
    assert!(report.finished, "every item was examined: {report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_item_does_not_hold_up_the_next_page() {
    let pages = vec![page("slow", How::Takes(SECOND), 1), page("quick", How::Takes(MILLI), 1)];
    let fake = Fake::new(vec![Listed::Pages(pages)]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 1, 2, None).run(&fake).await.unwrap();
    assert_eq!(fake.when("list 0"), [MILLI, 2 * MILLI]);
    assert_eq!(fake.when("quick"), [2 * MILLI]);
    assert_eq!((report.done, report.pages, report.finished), (2, 2, true), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_is_returned_only_if_no_list_was_read() {
    let quick = || Listed::Pages(vec![page("a", How::Takes(MILLI), 3)]);
    let fake = Fake::new(vec![Listed::Fails, quick()]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 2, 2, None).run(&fake).await.unwrap();
    assert_eq!((report.done, report.finished), (3, false), "{report:?}");
    assert!(matches!(report.stopped_by, Some(Error::Unavailable { verb: "list", .. })), "{report:?}");
    let read = [
        vec![Listed::Pages(vec![Vec::new()]), Listed::Fails],
        vec![Listed::Pages(vec![page("a", How::Fails, 3)])],
    ];
    for lists in read {
        let fake = Fake::new(lists);
        let clock = Virtual(fake.since);
        let report = run_of(&clock, fake.lists.len(), 2, None).run(&fake).await.unwrap();
        assert!(report.stopped_by.is_some() && !report.finished, "{report:?}");
    }
    let fake = Fake::new(vec![Listed::Fails, Listed::Fails]);
    let clock = Virtual(fake.since);
    run_of(&clock, 2, 2, None).run(&fake).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn an_item_that_fails_closes_its_list_and_no_other() {
    let dead = Listed::Pages(vec![page("dead", How::Fails, 50)]);
    let fake = Fake::new(vec![dead, Listed::Pages(vec![page("quiet", How::Takes(20 * MILLI), 5)])]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 2, 2, None).run(&fake).await.unwrap();
    assert_eq!((report.done, report.finished), (5, false), "{report:?}");
    assert_eq!(fake.when("dead").len(), 1);
    assert!(matches!(report.stopped_by, Some(Error::Unavailable { verb: "read", .. })), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn further_turns_take_turns_with_other_lanes() {
    let all = vec![item("long", How::Turns(4)), item("short", How::Turns(1)), item("other", How::Turns(2))];
    let fake = Fake::new(vec![Listed::Pages(vec![all])]);
    let clock = Virtual(fake.since);
    let report = run_of(&clock, 1, 1, None).run(&fake).await.unwrap();
    assert_eq!(fake.turns(), ["long", "short", "other", "long", "other", "long", "long"]);
    assert_eq!((report.done, report.finished), (3, true), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_at_its_limit_is_not_finished_and_reads_no_further_page() {
    let pages = (0..9).map(|_| page("a", How::Takes(MILLI), PAGE)).collect();
    let fake = Fake::new(vec![Listed::Pages(pages)]);
    let clock = Virtual(fake.since);
    let run = DueWork { limit: Some(120), ..run_of(&clock, 1, 8, None) };
    let report = run.run(&fake).await.unwrap();
    assert_eq!((report.done, report.pages, report.finished), (120, 2, false), "{report:?}");
}

#[test]
fn a_report_is_flat_in_json() {
    let counts = Counted { done: 1, abandoned: 0, pages: 2 };
    let report = RunReport { counts, finished: true, stopped_by: None };
    assert_eq!(
        serde_json::to_string(&report).unwrap(),
        r#"{"done":1,"abandoned":0,"pages":2,"finished":true}"#
    );
    let report = RunReport { stopped_by: Some(Error::Expired { verb: "list" }), ..report };
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["stoppedBy"], Error::Expired { verb: "list" }.to_string());
}

#[tokio::test]
async fn a_panic_of_user_code_is_told_as_text() {
    assert_eq!(in_own_task(Box::pin(async { 7 })).await, Ok(7));
    let panics = async {
        if std::hint::black_box(true) {
            panic!("poison");
        }
        7
    };
    assert_eq!(in_own_task(Box::pin(panics)).await, Err("it panicked: poison".to_owned()));
}
