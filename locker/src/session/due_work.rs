//! The engine of everything that works through due items: it reads lists and works on items at the
//! same time, in rounds, until a deadline. The order is decided by [`Rounds`]; here it is carried
//! out.

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "the scanner and the completer use a part"))]

use std::ops::Deref;
use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde::Serialize;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::Session;
use super::heartbeat::Machine;
use crate::clock::Clock;
use crate::core::rounds::{After, Begun, Bounds, Entry, Next, Rounds, Seat};
use crate::core::{panicked, shard, time};
use crate::error::{Error, as_text};
use crate::metrics;
use crate::store::{Layout, Positions, Query, RowPage};

/// Due items in one page of a list.
pub(crate) const PAGE: usize = 100;
/// How much longer than its own limit a request for a page may take. The store gives up first, with
/// its own error.
const SLACK: Duration = Duration::from_secs(1);

/// The report of a run over due work: its counts, and whether it saw everything.
///
/// The fields of `C` are read from it directly: `report.sent` is `report.counts.sent`. In JSON they
/// are on one level.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunReport<C> {
    /// The counts of this run.
    #[serde(flatten)]
    pub counts: C,
    /// Whether every due item was examined. **If not, there may be more.**
    pub finished: bool,
    /// The first error that kept the run from an item or a list. `None` if only the deadline or the
    /// limit did.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Error>,
}

impl<C> Deref for RunReport<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.counts
    }
}

/// The counts of a report.
pub(crate) trait Counts: Default {
    /// Adds the counts of a part of the run.
    fn add(&mut self, part: Self);
}

/// A page of a list of this work.
type PageOf<W> = Page<<W as Work>::Item, <W as Work>::Place, <W as Work>::Counts>;

/// The part of a run that differs: which lists it reads, and the work on an item.
pub(crate) trait Work {
    /// A due item, such as a workflow or the messages of a subject.
    type Item;
    /// Where a list continues.
    type Place;
    type Counts: Counts;

    /// Reads a page of a list.
    fn read(
        &self,
        list: usize,
        from: Option<Self::Place>,
    ) -> impl Future<Output = Result<PageOf<Self>, Error>>;

    /// Works on an item: a bounded part of it.
    fn turn(&self, item: &mut Self::Item) -> impl Future<Output = Turn<Self::Counts>>;

    /// Counts an item whose turn did not end in time. Its future is dropped already.
    fn abandon(&self, item: &Self::Item) -> impl Future<Output = Self::Counts>;
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Page<I, P, C> {
    pub(crate) entries: Vec<Entry<I>>,
    /// `None`: the list has no further page.
    pub(crate) next: Option<P>,
    /// The counts of the page, in addition to those of its items.
    pub(crate) counts: C,
}

/// The outcome of a turn.
#[derive(Debug)]
pub(crate) struct Turn<C> {
    pub(crate) counts: C,
    /// Whether the limit of the run counts the item.
    pub(crate) is_work: bool,
    pub(crate) then: Then,
}

/// The next step after a turn.
#[derive(Debug)]
pub(crate) enum Then {
    /// Nothing: the item was examined.
    Done,
    /// Another turn, after those of the other lanes.
    Again,
    /// Nothing: the time was over before the item was examined to its end.
    Cut,
    /// Nothing: the error is reported, and its list is closed.
    Fail(Error),
}

impl<C> Turn<C> {
    /// A turn that examined its item.
    pub(crate) const fn done(counts: C) -> Self {
        Self { counts, is_work: true, then: Then::Done }
    }
}

/// A number of items that run at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    pub(crate) width: usize,
    /// Nothing begins after it.
    pub(crate) begins_until: Option<DateTime<Utc>>,
}

/// A run over due work.
#[derive(Debug)]
pub(crate) struct DueWork<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) pools: Vec<Pool>,
    /// For each list, its pool.
    pub(crate) lists: Vec<usize>,
    /// How many items that count may begin. `None`: all.
    pub(crate) limit: Option<usize>,
    /// Lanes that a run under a limit looks for.
    pub(crate) expects: Vec<String>,
    pub(crate) deadline: Option<DateTime<Utc>>,
    /// How long after the deadline a turn that began before it may take.
    pub(crate) patience: Duration,
    /// How long a page may take.
    pub(crate) page_within: Duration,
}

enum Act<I, P> {
    Read(usize, Option<P>),
    Turn(Begun<I>),
}

enum Event<I, P, C> {
    Read(usize, Result<Page<I, P, C>, Error>),
    Ended(Seat, I, Turn<C>),
}

impl<'a> DueWork<'a> {
    /// A run with one pool over this many lists.
    pub(crate) fn new(session: &'a Session, lists: usize, width: usize) -> Self {
        Self {
            clock: session.clock(),
            pools: vec![Pool { width, begins_until: None }],
            lists: vec![0; lists],
            limit: None,
            expects: Vec::new(),
            deadline: None,
            patience: SLACK,
            page_within: session.settings().give_up_after + SLACK,
        }
    }

    /// Works until everything that is due was examined, or the limit or the deadline is reached.
    ///
    /// If no list could be read, the error is returned. Otherwise the report contains the error.
    pub(crate) async fn run<W: Work>(&self, work: &W) -> Result<RunReport<W::Counts>, Error> {
        let mut rounds = Rounds::new(Bounds {
            page: PAGE,
            limit: self.limit,
            widths: self.pools.iter().map(|pool| pool.width).collect(),
            lists: self.lists.clone(),
            expects: self.expects.clone(),
        });
        let mut places: Vec<Option<W::Place>> = self.lists.iter().map(|_| None).collect();
        let mut report = RunReport::default();
        let mut any = false;
        let left = self.deadline.map(|deadline| time::between(self.clock.now(), deadline));
        let abandons = left.and_then(|left| Instant::now().checked_add(left.saturating_add(self.patience)));
        let mut acts = FuturesUnordered::new();
        loop {
            match rounds.next(|pool| !self.is_past(self.pools[pool].begins_until)) {
                Next::Read(list) => {
                    acts.push(self.act(work, Act::Read(list, places[list].take()), abandons));
                }
                Next::Begin(begun) => acts.push(self.act(work, Act::Turn(begun), abandons)),
                Next::Wait => match acts.next().await {
                    Some(event) => {
                        self.take_in(event, &mut rounds, &mut places, &mut report, &mut any);
                    }
                    None => break,
                },
                Next::End => break,
            }
        }
        report.finished = rounds.is_finished();
        match report.stopped_by.take() {
            Some(error) if !any => Err(error),
            stopped_by => Ok(RunReport { stopped_by, ..report }),
        }
    }

    async fn act<W: Work>(
        &self,
        work: &W,
        act: Act<W::Item, W::Place>,
        abandons: Option<Instant>,
    ) -> Event<W::Item, W::Place, W::Counts> {
        match act {
            Act::Read(list, from) => {
                let within = Instant::now().checked_add(self.page_within);
                let until = within.into_iter().chain(abandons).min();
                let page = in_time(until, work.read(list, from)).await;
                let late = || Err(unanswered());
                Event::Read(list, page.unwrap_or_else(late))
            }
            Act::Turn(Begun { mut item, seat }) => {
                let turn = in_time(abandons, work.turn(&mut item)).await;
                let turn = match turn {
                    Some(turn) => turn,
                    None => {
                        let counts = Box::pin(work.abandon(&item)).await;
                        Turn { counts, is_work: true, then: Then::Cut }
                    }
                };
                Event::Ended(seat, item, turn)
            }
        }
    }

    fn take_in<I, P, C: Counts>(
        &self,
        event: Event<I, P, C>,
        rounds: &mut Rounds<I>,
        places: &mut [Option<P>],
        report: &mut RunReport<C>,
        any: &mut bool,
    ) {
        match event {
            Event::Read(list, Ok(page)) => {
                *any = true;
                report.counts.add(page.counts);
                rounds.read(list, page.entries, page.next.is_none());
                places[list] = page.next;
            }
            Event::Read(list, Err(error)) => {
                rounds.unread(list);
                self.stop(error, report);
            }
            Event::Ended(seat, item, turn) => {
                report.counts.add(turn.counts);
                let after = match turn.then {
                    Then::Done => After::Done,
                    Then::Again => After::Again(item),
                    Then::Cut => After::Cut,
                    Then::Fail(error) => {
                        report.stopped_by.get_or_insert(error);
                        After::Failed
                    }
                };
                rounds.ended(seat, turn.is_work, after);
            }
        }
    }

    /// Reports the error of a list, unless the cause may be the deadline.
    fn stop<C>(&self, error: Error, report: &mut RunReport<C>) {
        if !ran_out(&error, self.deadline, self.clock.now()) {
            report.stopped_by.get_or_insert(error);
        }
    }

    fn is_past(&self, at: Option<DateTime<Utc>>) -> bool {
        at.is_some_and(|at| at <= self.clock.now())
    }
}

/// Returns whether a request may have failed because its deadline passed: a request that begins
/// after the deadline has no time and fails. That is no error of the table.
pub(crate) fn ran_out(error: &Error, deadline: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    let may_lack_time = matches!(error, Error::Unavailable { .. } | Error::Expired { .. });
    may_lack_time && deadline.is_some_and(|deadline| deadline <= now)
}

async fn in_time<F: Future>(until: Option<Instant>, future: F) -> Option<F::Output> {
    let future = Box::pin(future);
    match until {
        Some(until) => timeout_at(until, future).await.ok(),
        None => Some(future.await),
    }
}

fn unanswered() -> Error {
    Error::Unavailable { verb: "list", tries: 1, source: "the list was not read in time".into() }
}

/// Runs a scheduled function: sets the gauge that shows whether it saw everything, and stores that
/// it ran.
pub(crate) async fn scheduled<C>(
    session: &Session,
    machine: Machine,
    deadline: Option<DateTime<Utc>>,
    run: impl Future<Output = Result<RunReport<C>, Error>>,
) -> Result<RunReport<C>, Error> {
    let ran = run.await;
    // A failed run also sets the gauge: otherwise the gauge keeps its last value.
    metrics::ran(machine.gauge(), ran.as_ref().is_ok_and(|report| report.finished));
    if let Ok(report) = &ran {
        if let Some(error) = &report.stopped_by {
            tracing::error!(machine = machine.as_str(), %error, "an error stopped a run");
        }
        session.ran(machine, report.finished, deadline).await;
    }
    ran
}

/// Runs a user's code in a separate task. `Err`: the text of its panic.
///
/// Dropping this future aborts the task and does not wait for it: code that blocks its thread
/// continues to run.
///
/// `work` is boxed: its type would be a part of the type of each caller's future.
pub(crate) async fn in_own_task<T: Send + 'static>(
    work: Pin<Box<dyn Future<Output = T> + Send>>,
) -> Result<T, String> {
    let mut task = JoinSet::new();
    task.spawn(work);
    match task.join_next().await {
        Some(joined) => joined.map_err(text_of),
        None => Err("its task was cancelled".to_owned()),
    }
}

fn text_of(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "its task was cancelled".to_owned() };
    format!("it panicked: {}", panicked::text_of(&*panic))
}

/// The lists of a run in the index `byStatus`.
#[derive(Debug)]
pub(crate) struct Lists<'a> {
    session: &'a Session,
    layout: &'static Layout,
    statuses: Vec<String>,
    due_before: Option<DateTime<Utc>>,
    between: Option<(String, String)>,
    deadline: Option<DateTime<Utc>>,
}

impl<'a> Lists<'a> {
    /// The shards of these values of `status`. Each value starts at a random shard, so that no
    /// shard is always the last one under a limit.
    pub(crate) fn of(
        session: &'a Session,
        layout: &'static Layout,
        bases: &[&str],
        deadline: Option<DateTime<Utc>>,
    ) -> Self {
        let statuses = bases.iter().flat_map(|base| {
            let mut statuses = shard::all(base, session.settings().shards);
            let first = shard::any(statuses.len(), session.jitter());
            statuses.rotate_left(first);
            statuses
        });
        Self { session, layout, statuses: statuses.collect(), due_before: None, between: None, deadline }
    }

    /// Only the entries that are due now.
    pub(crate) fn due(self) -> Self {
        Self { due_before: Some(self.session.now()), ..self }
    }

    /// Only the entries whose sort key is from the first to the second.
    #[cfg(feature = "messages")]
    pub(crate) fn between(self, keys: (String, String)) -> Self {
        Self { between: Some(keys), ..self }
    }

    pub(crate) fn len(&self) -> usize {
        self.statuses.len()
    }

    pub(crate) async fn read(&self, list: usize, from: Option<Positions>) -> Result<RowPage, Error> {
        let query = Query {
            layout: self.layout,
            statuses: vec![self.statuses[list].clone()],
            due_before: self.due_before,
            due_from: None,
            between: self.between.clone(),
            waits: false,
        };
        let until = self.session.until(self.deadline);
        Box::pin(self.session.store().list(&query, from, PAGE, until)).await
    }
}

#[cfg(test)]
mod tests;
