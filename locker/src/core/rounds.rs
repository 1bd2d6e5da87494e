//! The plan of a run over due work: which list is read next, which item begins next, and when the
//! run ends.
//!
//! A *list* is a value of `status` in the index. A *lane* groups items that wait for each other,
//! such as those of one type of workflow. A *pool* is a number of items that run at the same time.
//! Lists and lanes take turns.

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "the scanner and the completer use a part"))]

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Lists that are read at the same time.
const LISTS_AT_ONCE: usize = 8;
/// Pages of items that wait in a pool before reading pauses, and that are read in search of a lane.
const AHEAD: usize = 20;

/// The bounds of a run.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// Items in one page of a list.
    pub(crate) page: usize,
    /// Items that count and may begin. `None`: all.
    pub(crate) limit: Option<usize>,
    /// For each pool, how many of its items run at the same time.
    pub(crate) widths: Vec<usize>,
    /// For each list, its pool.
    pub(crate) lists: Vec<usize>,
    /// Lanes for which a run under a limit reads further than its limit.
    pub(crate) expects: Vec<String>,
}

/// An item that was read from a list.
#[derive(Debug)]
pub(crate) struct Entry<I> {
    pub(crate) lane: String,
    /// Orders lanes that have not had a turn.
    pub(crate) due: String,
    pub(crate) kind: Kind,
    pub(crate) item: I,
}

/// How an item shares the run with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of any number in its lane.
    One,
    /// All of its lane: further entries of the lane are the same item.
    Whole,
    /// It may end the process, so it runs last and while no other item does.
    Alone,
}

/// The next act of a run.
#[derive(Debug)]
pub(crate) enum Next<I> {
    /// Read the next page of this list.
    Read(usize),
    /// Begin this item.
    Begin(Begun<I>),
    /// Wait until a page is read or an item ends.
    Wait,
    /// The run is over.
    End,
}

/// An item that has a turn, and its place in the plan.
#[derive(Debug)]
pub(crate) struct Begun<I> {
    pub(crate) item: I,
    pub(crate) seat: Seat,
}

/// The place of a running item in the plan.
#[derive(Debug)]
pub(crate) struct Seat {
    pool: usize,
    lane: String,
    list: usize,
    due: String,
    /// Whether the limit counts the item already.
    is_counted: bool,
    is_alone: bool,
}

/// The part of the outcome of a turn that the plan depends on.
#[derive(Debug)]
pub(crate) enum After<I> {
    /// The item needs no further turn.
    Done,
    /// The item gets another turn after the other lanes.
    Again(I),
    /// The item was not examined to its end, because the time was over.
    Cut,
    /// The list of the item cannot be worked on.
    Failed,
}

#[derive(Debug)]
struct List {
    pool: usize,
    pages: usize,
    is_reading: bool,
    /// No page is left, or none can be read.
    is_read: bool,
}

#[derive(Debug)]
struct Held<I> {
    list: usize,
    due: String,
    is_counted: bool,
    item: I,
}

#[derive(Debug)]
struct Lane<I> {
    held: VecDeque<Held<I>>,
    running: usize,
    /// When the lane last had a turn. 0: never.
    turn: u64,
}

/// Orders lanes that have items: the fewest running, then the longest without a turn, then the
/// oldest item.
type Rank = (usize, u64, String, String);

#[derive(Debug)]
struct Pool<I> {
    width: usize,
    lanes: HashMap<String, Lane<I>>,
    /// The lanes with items, in the order of their turns.
    ready: BTreeSet<Rank>,
    alone: VecDeque<Held<I>>,
    /// Items in lanes.
    waiting: usize,
    running: usize,
    reading: usize,
    /// Pages read since no item was waiting.
    ahead: usize,
    /// The lanes whose entries all refer to one item.
    seen: HashSet<String>,
}

/// The plan of one run.
#[derive(Debug)]
pub(crate) struct Rounds<I> {
    bounds: Bounds,
    lists: Vec<List>,
    pools: Vec<Pool<I>>,
    turn: u64,
    /// Items that the limit counts and that have ended a turn.
    counted: usize,
    /// Running items that the limit may count later.
    uncounted: usize,
    /// Whether an item or a list was not examined to its end.
    is_cut: bool,
}

impl<I> Lane<I> {
    fn rank(&self, name: &str) -> Option<Rank> {
        let due = self.held.front()?.due.clone();
        Some((self.running, self.turn, due, name.to_owned()))
    }
}

impl<I> Pool<I> {
    fn new(width: usize) -> Self {
        Self {
            width: width.max(1),
            lanes: HashMap::new(),
            ready: BTreeSet::new(),
            alone: VecDeque::new(),
            waiting: 0,
            running: 0,
            reading: 0,
            ahead: 0,
            seen: HashSet::new(),
        }
    }

    /// Changes a lane, and keeps the order of the lanes.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Lane<I>)) {
        let new = || Lane { held: VecDeque::new(), running: 0, turn: 0 };
        let lane = self.lanes.entry(name.to_owned()).or_insert_with(new);
        if let Some(rank) = lane.rank(name) {
            self.ready.remove(&rank);
        }
        let before = lane.held.len();
        change(lane);
        self.waiting = self.waiting + lane.held.len() - before;
        match lane.rank(name) {
            Some(rank) => drop(self.ready.insert(rank)),
            None if lane.running == 0 => drop(self.lanes.remove(name)),
            None => {}
        }
    }

    fn has(&self, lane: &str) -> bool {
        self.lanes.get(lane).is_some_and(|lane| !lane.held.is_empty())
    }

    /// How many items of one lane run at the same time. Until its neighbours are listed, a lane
    /// leaves them half.
    const fn most_of_a_lane(&self) -> usize {
        if self.reading > 0 { self.width.div_ceil(2) } else { self.width }
    }

    /// The lane that has the next turn. `may_count`: whether an item may begin that the limit does
    /// not count yet.
    fn next_lane(&self, may_count: bool) -> Option<&str> {
        let most = self.most_of_a_lane();
        let open = self.ready.iter().take_while(|(running, ..)| *running < most);
        let mut names = open.map(|(.., name)| name.as_str());
        let is_counted = |name: &str| {
            let front = self.lanes.get(name).and_then(|lane| lane.held.front());
            front.is_some_and(|held| held.is_counted)
        };
        names.find(|name| may_count || is_counted(name))
    }
}

impl<I> Rounds<I> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let list = |pool: &usize| List { pool: *pool, pages: 0, is_reading: false, is_read: false };
        Self {
            lists: bounds.lists.iter().map(list).collect(),
            pools: bounds.widths.iter().map(|width| Pool::new(*width)).collect(),
            bounds,
            turn: 0,
            counted: 0,
            uncounted: 0,
            is_cut: false,
        }
    }

    /// The next act. `is_open`: whether the items of a pool may still begin.
    pub(crate) fn next(&mut self, is_open: impl Fn(usize) -> bool) -> Next<I> {
        if let Some(list) = self.list_to_read(&is_open) {
            self.lists[list].is_reading = true;
            self.lists[list].pages += 1;
            self.pools[self.lists[list].pool].reading += 1;
            return Next::Read(list);
        }
        if let Some(begun) = self.begin(&is_open) {
            return Next::Begin(begun);
        }
        let is_idle = self.pools.iter().all(|pool| pool.running + pool.reading == 0);
        if is_idle { Next::End } else { Next::Wait }
    }

    /// Lists take turns: the one of which the fewest pages were read is next.
    fn list_to_read(&self, is_open: &impl Fn(usize) -> bool) -> Option<usize> {
        if self.pools.iter().map(|pool| pool.reading).sum::<usize>() >= LISTS_AT_ONCE {
            return None;
        }
        let wants: Vec<_> = (0..self.pools.len()).map(|pool| is_open(pool) && self.wants(pool)).collect();
        let unread = self.lists.iter().enumerate();
        let unread = unread.filter(|(_, list)| !list.is_read && !list.is_reading && wants[list.pool]);
        unread.min_by_key(|(number, list)| (list.pages, *number)).map(|(number, _)| number)
    }

    /// Whether a pool needs a further page. A page under way counts as a full one, so that no page
    /// is read that the limit makes unnecessary. Without items one is read in any case: it shows
    /// whether there are more.
    fn wants(&self, number: usize) -> bool {
        let pool = &self.pools[number];
        if pool.waiting == 0 && pool.reading == 0 {
            return true;
        }
        let ahead = AHEAD * self.bounds.page;
        let most = self.left().map_or(ahead, |left| left.min(ahead));
        let lacks = || self.bounds.expects.iter().any(|lane| !pool.has(lane));
        pool.waiting + pool.reading * self.bounds.page < most
            || (pool.reading == 0 && pool.ahead < AHEAD && lacks())
    }

    /// How many items may begin that the limit does not count yet.
    fn left(&self) -> Option<usize> {
        self.bounds.limit.map(|limit| limit.saturating_sub(self.counted + self.uncounted))
    }

    fn begin(&mut self, is_open: &impl Fn(usize) -> bool) -> Option<Begun<I>> {
        let may_count = self.left() != Some(0);
        for number in 0..self.pools.len() {
            let pool = &mut self.pools[number];
            if !is_open(number) || pool.running >= pool.width {
                continue;
            }
            let Some(lane) = pool.next_lane(may_count).map(str::to_owned) else { continue };
            self.turn += 1;
            let (turn, mut begun) = (self.turn, None);
            pool.change(&lane, |lane| {
                lane.turn = turn;
                lane.running += 1;
                begun = lane.held.pop_front();
            });
            return begun.map(|held| self.seat(number, lane, held, false));
        }
        // An item that runs alone begins last: if no item waits, every list of an open pool is read
        // to its end first.
        let is_idle = self.pools.iter().all(|pool| pool.running + pool.reading + pool.waiting == 0);
        let alone = (0..self.pools.len()).find(|pool| is_open(*pool) && !self.pools[*pool].alone.is_empty());
        match alone {
            Some(number) if is_idle && may_count => {
                let held = self.pools[number].alone.pop_front()?;
                Some(self.seat(number, String::new(), held, true))
            }
            _ => None,
        }
    }

    fn seat(&mut self, pool: usize, lane: String, held: Held<I>, is_alone: bool) -> Begun<I> {
        let Held { list, due, is_counted, item } = held;
        self.pools[pool].running += 1;
        self.uncounted += usize::from(!is_counted);
        Begun { item, seat: Seat { pool, lane, list, due, is_counted, is_alone } }
    }

    /// A page of a list was read. `is_last`: the list has no further page.
    pub(crate) fn read(&mut self, list: usize, entries: Vec<Entry<I>>, is_last: bool) {
        let of_list = &mut self.lists[list];
        // An item of the list failed while the page was under way.
        let is_closed = of_list.is_read;
        of_list.is_reading = false;
        of_list.is_read |= is_last;
        let pool = &mut self.pools[of_list.pool];
        pool.reading -= 1;
        if is_closed {
            return;
        }
        pool.ahead = if pool.waiting == 0 { 1 } else { pool.ahead + 1 };
        for Entry { lane, due, kind, item } in entries {
            let held = Held { list, due, is_counted: false, item };
            match kind {
                Kind::Alone => pool.alone.push_back(held),
                Kind::Whole if !pool.seen.insert(lane.clone()) => {}
                Kind::One | Kind::Whole => pool.change(&lane, |lane| lane.held.push_back(held)),
            }
        }
    }

    /// A page of a list could not be read. The items that were read before stay.
    pub(crate) fn unread(&mut self, list: usize) {
        let of_list = &mut self.lists[list];
        of_list.is_reading = false;
        of_list.is_read = true;
        self.pools[of_list.pool].reading -= 1;
        self.is_cut = true;
    }

    /// A turn has ended. `counts`: whether the limit counts the item.
    pub(crate) fn ended(&mut self, seat: Seat, counts: bool, after: After<I>) {
        let Seat { pool: number, lane, list, due, is_counted, is_alone } = seat;
        if !is_counted {
            self.uncounted -= 1;
            self.counted += usize::from(counts);
        }
        let again = match after {
            After::Again(item) => Some(Held { list, due, is_counted: is_counted || counts, item }),
            After::Done => None,
            After::Cut => {
                self.is_cut = true;
                None
            }
            After::Failed => {
                self.close(list);
                None
            }
        };
        let pool = &mut self.pools[number];
        pool.running -= 1;
        if is_alone {
            pool.alone.extend(again);
        } else {
            // In one change, so that the lane keeps its turn.
            pool.change(&lane, |lane| {
                lane.running -= 1;
                lane.held.extend(again);
            });
        }
    }

    /// Nothing more of a list begins.
    fn close(&mut self, list: usize) {
        self.is_cut = true;
        self.lists[list].is_read = true;
        let pool = &mut self.pools[self.lists[list].pool];
        pool.alone.retain(|held| held.list != list);
        let lanes: Vec<_> = pool.lanes.keys().cloned().collect();
        for name in lanes {
            pool.change(&name, |lane| lane.held.retain(|held| held.list != list));
        }
    }

    /// Whether every due item was examined.
    pub(crate) fn is_finished(&self) -> bool {
        // If every list is read to its end, no page is under way, so `reading` is not compared.
        let is_empty = |pool: &Pool<I>| pool.waiting + pool.running == 0 && pool.alone.is_empty();
        !self.is_cut && self.lists.iter().all(|list| list.is_read) && self.pools.iter().all(is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(width: usize, lists: usize) -> Bounds {
        let lists = vec![0; lists];
        Bounds { page: 100, limit: None, widths: vec![width], lists, expects: Vec::new() }
    }

    fn entry(lane: &str, item: usize) -> Entry<usize> {
        Entry { lane: lane.to_owned(), due: format!("{item:06}"), kind: Kind::One, item }
    }

    fn entries(lane: &str, items: std::ops::Range<usize>) -> Vec<Entry<usize>> {
        items.map(|item| entry(lane, item)).collect()
    }

    /// Begins items until none may begin.
    fn begin_all(rounds: &mut Rounds<usize>) -> Vec<Begun<usize>> {
        let mut begun = Vec::new();
        loop {
            match rounds.next(|_| true) {
                Next::Begin(next) => begun.push(next),
                Next::Read(list) => panic!("list {list} is read"),
                Next::Wait | Next::End => return begun,
            }
        }
    }

    /// Reads lists until none is needed.
    fn reads(rounds: &mut Rounds<usize>) -> Vec<usize> {
        let mut lists = Vec::new();
        while let Some(list) = rounds.list_to_read(&|_| true) {
            let Next::Read(next) = rounds.next(|_| true) else { panic!("a page is read") };
            assert_eq!(list, next);
            lists.push(list);
        }
        lists
    }

    fn end_all(rounds: &mut Rounds<usize>, begun: Vec<Begun<usize>>) {
        begun.into_iter().for_each(|begun| rounds.ended(begun.seat, true, After::Done));
    }

    #[test]
    fn lists_are_read_side_by_side_and_take_turns() {
        let mut rounds = Rounds::new(bounds(4, 3));
        assert_eq!(reads(&mut rounds), [0, 1, 2]);
        rounds.read(1, entries("b", 0..100), false);
        assert_eq!(reads(&mut rounds), [1], "a list that answers does not wait for the others");
        rounds.read(0, Vec::new(), false);
        rounds.read(1, Vec::new(), false);
        let Next::Read(next) = rounds.next(|_| true) else { panic!("a page is read") };
        assert_eq!(next, 0, "the list with the fewest pages is next");
    }

    #[test]
    fn no_more_lists_are_read_at_once_than_eight() {
        assert_eq!(reads(&mut Rounds::new(bounds(4, 20))), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn reading_pauses_twenty_pages_ahead() {
        let mut rounds = Rounds::new(bounds(4, 1));
        for page in 0..20 {
            assert_eq!(reads(&mut rounds), [0], "page {page}");
            rounds.read(0, entries("a", page * 100..page * 100 + 100), false);
        }
        assert_eq!(reads(&mut rounds), [0; 0]);
        let begun = rounds.begin(&|_| true);
        assert!(begun.is_some());
        assert_eq!(reads(&mut rounds), [0], "an item has begun");
    }

    #[test]
    fn lanes_take_turns() {
        let mut rounds = Rounds::new(bounds(1, 1));
        reads(&mut rounds);
        let all = entries("busy", 0..3).into_iter().chain(entries("quiet", 10..11));
        rounds.read(0, all.chain(entries("third", 20..22)).collect(), true);
        let mut order = Vec::new();
        while let Next::Begin(begun) = rounds.next(|_| true) {
            order.push(begun.item);
            rounds.ended(begun.seat, true, After::Done);
        }
        assert_eq!(order, [0, 10, 20, 1, 21, 2]);
        assert!(rounds.is_finished());
    }

    #[test]
    fn the_lane_of_which_the_fewest_run_is_next() {
        let mut rounds = Rounds::new(bounds(4, 1));
        reads(&mut rounds);
        rounds.read(0, entries("hangs", 0..20).into_iter().chain(entries("quick", 30..40)).collect(), true);
        let mut hang = 0;
        for _ in 0..10 {
            let mut begun = begin_all(&mut rounds);
            hang += begun.iter().filter(|begun| begun.item < 30).count();
            begun.retain(|begun| begun.item >= 30);
            end_all(&mut rounds, begun);
        }
        assert_eq!(hang, 4, "the rest of the width once no other lane has items");
        assert_eq!(rounds.pools[0].waiting, 16);
    }

    #[test]
    fn a_lane_leaves_half_of_the_width_until_all_lists_are_read() {
        let mut rounds = Rounds::new(bounds(5, 2));
        assert_eq!(reads(&mut rounds), [0, 1]);
        rounds.read(0, entries("busy", 0..50), true);
        assert_eq!(begin_all(&mut rounds).len(), 3);
        rounds.read(1, entries("quiet", 60..61), true);
        let begun: Vec<_> = begin_all(&mut rounds).into_iter().map(|begun| begun.item).collect();
        assert_eq!(begun, [60, 3], "the new lane first, then the rest");
    }

    #[test]
    fn a_pool_leaves_another_its_width() {
        let mut rounds = Rounds::new(Bounds { widths: vec![2, 1], lists: vec![0, 1], ..bounds(0, 0) });
        assert_eq!(reads(&mut rounds), [0, 1]);
        rounds.read(0, entries("a", 0..9), true);
        rounds.read(1, entries("a", 10..19), true);
        let mut begun: Vec<_> = begin_all(&mut rounds).into_iter().map(|begun| begun.item).collect();
        begun.sort_unstable();
        assert_eq!(begun, [0, 1, 10]);
        assert!(matches!(rounds.next(|pool| pool == 0), Next::Wait));
    }

    #[test]
    fn a_closed_pool_begins_and_reads_nothing_and_is_not_finished() {
        let mut rounds = Rounds::new(bounds(2, 1));
        assert!(matches!(rounds.next(|_| false), Next::End));
        assert!(!rounds.is_finished());
        reads(&mut rounds);
        rounds.read(0, entries("a", 0..1), true);
        assert!(matches!(rounds.next(|_| false), Next::End));
        assert!(!rounds.is_finished(), "an item is left");
        let begun = begin_all(&mut rounds);
        end_all(&mut rounds, begun);
        assert!(rounds.is_finished());
    }

    #[test]
    fn under_a_limit_no_page_is_read_that_it_makes_unnecessary() {
        let mut rounds = Rounds::new(Bounds { limit: Some(150), ..bounds(8, 3) });
        assert_eq!(reads(&mut rounds), [0, 1], "two pages may hold as many");
        rounds.read(0, entries("a", 0..100), false);
        rounds.read(1, Vec::new(), true);
        assert_eq!(reads(&mut rounds), [2], "lists take turns");
        rounds.read(2, entries("a", 100..160), false);
        assert_eq!(reads(&mut rounds), [0; 0]);
        let mut count = 0;
        loop {
            let begun = begin_all(&mut rounds);
            if begun.is_empty() {
                break;
            }
            count += begun.len();
            end_all(&mut rounds, begun);
        }
        assert_eq!(count, 150);
        assert!(matches!(rounds.next(|_| true), Next::End));
        assert!(!rounds.is_finished());
    }

    #[test]
    fn at_its_limit_a_run_looks_whether_there_is_more() {
        let mut rounds = Rounds::new(Bounds { limit: Some(1), ..bounds(8, 1) });
        reads(&mut rounds);
        rounds.read(0, entries("a", 0..1), false);
        let Next::Begin(begun) = rounds.next(|_| true) else { panic!("an item begins") };
        assert_eq!(reads(&mut rounds), [0]);
        rounds.ended(begun.seat, true, After::Done);
        rounds.read(0, Vec::new(), true);
        assert!(matches!(rounds.next(|_| true), Next::End));
        assert!(rounds.is_finished());
    }

    #[test]
    fn the_limit_counts_only_what_counts() {
        let mut rounds = Rounds::new(Bounds { limit: Some(2), ..bounds(8, 1) });
        reads(&mut rounds);
        rounds.read(0, entries("a", 0..9), true);
        let begun = begin_all(&mut rounds);
        assert_eq!(begun.len(), 2);
        begun.into_iter().for_each(|begun| rounds.ended(begun.seat, false, After::Done));
        let begun = begin_all(&mut rounds);
        assert_eq!(begun.len(), 2);
        end_all(&mut rounds, begun);
        assert!(begin_all(&mut rounds).is_empty());
    }

    #[test]
    fn a_further_turn_comes_after_the_other_lanes_and_counts_once() {
        let mut rounds = Rounds::new(Bounds { limit: Some(2), ..bounds(1, 1) });
        reads(&mut rounds);
        rounds.read(0, ["a", "b", "c"].map(|lane| entry(lane, 0)).into(), true);
        let mut lanes = Vec::new();
        for turn in 0..4 {
            let Next::Begin(begun) = rounds.next(|_| true) else { panic!("turn {turn}") };
            lanes.push(begun.seat.lane.clone());
            let after = if turn < 2 { After::Again(turn) } else { After::Done };
            rounds.ended(begun.seat, true, after);
        }
        assert_eq!(lanes, ["a", "b", "a", "b"], "the third lane is beyond the limit");
        assert!(matches!(rounds.next(|_| true), Next::End));
    }

    #[test]
    fn entries_of_a_whole_lane_are_one_item() {
        let mut rounds = Rounds::new(bounds(8, 1));
        for page in 0..3 {
            assert_eq!(reads(&mut rounds), [0]);
            let whole = |item| Entry { kind: Kind::Whole, ..entry("busy", item) };
            rounds.read(0, (0..100).map(whole).collect(), page == 2);
        }
        let begun = begin_all(&mut rounds);
        assert_eq!(begun.len(), 1);
        end_all(&mut rounds, begun);
        assert!(rounds.is_finished());
    }

    #[test]
    fn under_a_limit_lanes_that_are_expected_are_looked_for_on_twenty_pages() {
        let expects = vec!["busy".to_owned(), "quiet".to_owned()];
        let new = || Rounds::new(Bounds { limit: Some(8), expects: expects.clone(), ..bounds(4, 1) });
        let mut rounds = new();
        for page in 0..3 {
            assert_eq!(reads(&mut rounds), [0], "page {page}");
            rounds.read(0, entries("busy", page * 100..page * 100 + 100), false);
        }
        assert_eq!(reads(&mut rounds), [0]);
        rounds.read(0, entries("quiet", 300..301), false);
        assert_eq!(reads(&mut rounds), [0; 0], "both are there");
        let mut rounds = new();
        let mut pages = 0;
        while pages < 2 * AHEAD && reads(&mut rounds) == [0] {
            rounds.read(0, entries("busy", pages * 100..pages * 100 + 100), false);
            pages += 1;
        }
        assert_eq!(pages, AHEAD);
    }

    #[test]
    fn an_item_that_runs_alone_comes_last_and_has_no_neighbours() {
        let mut rounds = Rounds::new(bounds(4, 1));
        reads(&mut rounds);
        let alone = |item| Entry { kind: Kind::Alone, ..entry("a", item) };
        rounds.read(0, vec![alone(0), alone(1), entry("a", 2), entry("b", 3)], false);
        assert_eq!(reads(&mut rounds), [0]);
        let begun = begin_all(&mut rounds);
        assert_eq!(begun.iter().map(|begun| begun.item).collect::<Vec<_>>(), [2, 3]);
        rounds.read(0, Vec::new(), true);
        assert!(matches!(rounds.next(|_| true), Next::Wait));
        end_all(&mut rounds, begun);
        let begun = begin_all(&mut rounds);
        assert_eq!(begun.len(), 1);
        assert!(!rounds.is_finished());
        end_all(&mut rounds, begun);
        let begun = begin_all(&mut rounds);
        assert_eq!(begun.len(), 1);
        end_all(&mut rounds, begun);
        assert!(rounds.is_finished());
    }

    #[test]
    fn a_list_that_cannot_be_read_stops_no_other() {
        let mut rounds = Rounds::new(bounds(4, 2));
        reads(&mut rounds);
        rounds.unread(0);
        rounds.read(1, entries("a", 0..1), true);
        let begun = begin_all(&mut rounds);
        assert_eq!(begun.len(), 1);
        end_all(&mut rounds, begun);
        assert!(matches!(rounds.next(|_| true), Next::End));
        assert!(!rounds.is_finished());
    }

    #[test]
    fn an_item_that_fails_closes_its_list_and_no_other() {
        let mut rounds = Rounds::new(bounds(1, 2));
        reads(&mut rounds);
        rounds.read(0, entries("a", 0..5), false);
        rounds.read(1, entries("a", 10..12), true);
        let mut left = Vec::new();
        assert_eq!(reads(&mut rounds), [0]);
        let Next::Begin(begun) = rounds.next(|_| true) else { panic!("an item begins") };
        assert_eq!(begun.item, 0);
        rounds.ended(begun.seat, false, After::Failed);
        rounds.read(0, entries("a", 5..9), false);
        loop {
            match rounds.next(|_| true) {
                Next::Begin(begun) => {
                    left.push(begun.item);
                    rounds.ended(begun.seat, true, After::Done);
                }
                Next::End => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(left, [10, 11]);
        assert!(!rounds.is_finished());
    }

    #[test]
    fn an_item_that_was_cut_is_not_finished() {
        let mut rounds = Rounds::new(bounds(1, 1));
        reads(&mut rounds);
        rounds.read(0, entries("a", 0..1), true);
        let Next::Begin(begun) = rounds.next(|_| true) else { panic!("an item begins") };
        rounds.ended(begun.seat, true, After::Cut);
        assert!(matches!(rounds.next(|_| true), Next::End));
        assert!(!rounds.is_finished());
    }

    #[test]
    fn lane_without_items_is_forgotten() {
        let mut rounds = Rounds::new(bounds(2, 1));
        reads(&mut rounds);
        rounds.read(0, entries("a", 0..2), true);
        let begun = begin_all(&mut rounds);
        assert!(rounds.pools[0].lanes.contains_key("a"));
        end_all(&mut rounds, begun);
        assert!(rounds.pools[0].lanes.is_empty());
    }

    #[test]
    fn run_waits_for_one_page_and_one_item() {
        let mut rounds = Rounds::new(bounds(2, 2));
        assert_eq!(reads(&mut rounds), [0, 1]);
        rounds.read(0, entries("a", 0..1), true);
        assert_eq!(begin_all(&mut rounds).len(), 1);
        assert!(matches!(rounds.next(|_| true), Next::Wait));
    }

    #[test]
    fn item_that_runs_alone_waits_for_a_page_under_way() {
        let mut rounds = Rounds::new(bounds(2, 2));
        assert_eq!(reads(&mut rounds), [0, 1]);
        rounds.read(0, vec![Entry { kind: Kind::Alone, ..entry("a", 0) }], true);
        assert!(matches!(rounds.next(|_| true), Next::Wait));
        rounds.read(1, Vec::new(), true);
        assert!(matches!(rounds.next(|_| true), Next::Begin(Begun { item: 0, .. })));
    }

    #[test]
    fn item_that_runs_alone_begins_only_in_an_open_pool() {
        let mut rounds = Rounds::new(Bounds { widths: vec![1, 1], lists: vec![0, 1], ..bounds(0, 0) });
        assert_eq!(reads(&mut rounds), [0, 1]);
        rounds.read(0, Vec::new(), true);
        rounds.read(1, vec![Entry { kind: Kind::Alone, ..entry("a", 0) }], true);
        assert!(matches!(rounds.next(|pool| pool == 0), Next::End));
        assert!(matches!(rounds.next(|_| true), Next::Begin(Begun { item: 0, .. })));
    }
    #[test]
    fn failed_list_keeps_no_item_that_runs_alone() {
        let mut rounds = Rounds::new(bounds(1, 2));
        assert_eq!(reads(&mut rounds), [0, 1]);
        let alone = |item| Entry { kind: Kind::Alone, ..entry("a", item) };
        rounds.read(0, vec![entry("a", 0), alone(1)], true);
        rounds.read(1, vec![alone(2)], true);
        let Next::Begin(begun) = rounds.next(|_| true) else { panic!("an item begins") };
        assert_eq!(begun.item, 0);
        rounds.ended(begun.seat, false, After::Failed);
        let Next::Begin(begun) = rounds.next(|_| true) else { panic!("the item of the other list begins") };
        assert_eq!(begun.item, 2);
        rounds.ended(begun.seat, true, After::Done);
        assert!(matches!(rounds.next(|_| true), Next::End));
    }

    #[test]
    fn run_with_a_running_item_is_not_finished() {
        let mut rounds = Rounds::new(bounds(1, 1));
        reads(&mut rounds);
        rounds.read(0, entries("a", 0..2), true);
        let begun = begin_all(&mut rounds);
        assert!(!rounds.is_finished(), "one runs and one waits");
        end_all(&mut rounds, begun);
        let begun = begin_all(&mut rounds);
        assert!(!rounds.is_finished(), "one runs");
        end_all(&mut rounds, begun);
        assert!(rounds.is_finished());
    }
}
