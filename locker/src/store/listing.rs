//! Listings of tokens or workflows by the index `byStatus`, merged over shards.

#![cfg_attr(not(feature = "workflow"), allow(dead_code, reason = "only workflows use all of it"))]

use std::collections::{HashMap, VecDeque};

use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_sdk_dynamodb::types::{AttributeValue, ConsumedCapacity, Select};
use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::exchange::Failure;
use super::expression::{self, Condition, WAITS};
use super::item::{Item, text};
use super::schema::Layout;
use super::schema::attribute as a;
use super::{Store, Until};
use crate::core::time;
use crate::core::token::work::Work;
use crate::error::Error;

const VERB: &str = "list";
/// Shards that are read at the same time.
const SHARDS_AT_ONCE: usize = 8;

/// The selection of a listing.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    /// The layout of the table.
    pub(crate) layout: &'static Layout,
    /// The values of `status`.
    pub(crate) statuses: Vec<String>,
    /// Only entries that were due before this time.
    pub(crate) due_before: Option<DateTime<Utc>>,
    /// Only entries that were due at this time or later.
    pub(crate) due_from: Option<DateTime<Utc>>,
    /// Only entries with a sort key from the first to the second, both included. If set,
    /// `due_before` and `due_from` are ignored.
    pub(crate) between: Option<(String, String)>,
    /// Only workflows that wait for an event or a timer. Other entries are read, but not returned.
    pub(crate) waits: bool,
}

/// One entry of the index. The keys of the table and the index always exist, as text. Other
/// attributes may be missing or damaged; the entry is listed anyway.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The key of the token, or the partition of the workflow.
    pub(crate) key: String,
    pub(crate) status: String,
    pub(crate) due: String,
    pub(crate) created: Option<DateTime<Utc>>,
    pub(crate) locked_by: Option<String>,
    pub(crate) attempt: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) cause: Option<String>,
    pub(crate) resolution: Option<String>,
    pub(crate) resolved_by: Option<String>,
    pub(crate) resolved_reason: Option<String>,
    pub(crate) created_text: Option<String>,
    pub(crate) within: Option<Work>,
    // The following attributes are of workflows only.
    /// The sort key in the table.
    pub(crate) item: Option<String>,
    pub(crate) step: Option<String>,
    pub(crate) name: Option<String>,
    #[cfg_attr(not(feature = "messages"), allow(dead_code, reason = "only messages have subjects"))]
    pub(crate) subject: Option<String>,
    #[cfg_attr(not(feature = "messages"), allow(dead_code, reason = "only messages expire"))]
    pub(crate) expires: Option<DateTime<Utc>>,
    #[cfg_attr(not(feature = "messages"), allow(dead_code, reason = "only messages are deleted by it"))]
    pub(crate) revision: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) attempts: Option<u32>,
    /// The latest runs in a row that lost their driver.
    pub(crate) lost_in_a_row: Option<u32>,
    /// The version of the code. `None`: the first version.
    pub(crate) code: Option<u32>,
    pub(crate) since: Option<DateTime<Utc>>,
    pub(crate) reason: Option<String>,
}

/// The position at which a listing continues: the last returned entry of each shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Positions(Vec<Position>);

impl Positions {
    /// Returns the beginning of a listing of this many shards.
    pub(crate) fn start(shards: usize) -> Self {
        Self(vec![Position::Start; shards])
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Position {
    Start,
    After { due: String, key: String, item: Option<String> },
    End,
}

/// A page of a listing.
#[derive(Debug)]
pub(crate) struct RowPage {
    pub(crate) rows: Vec<Row>,
    /// The position of the next page. `None`: this was the last page.
    pub(crate) next: Option<Positions>,
    /// The number of entries that DynamoDB read. It determines the cost of the page.
    pub(crate) rows_read: u64,
}

/// The entries of one shard that were read and not yet returned.
#[derive(Debug, Default)]
struct Ahead {
    rows: VecDeque<Row>,
    exhausted: bool,
}

/// One request: a page of one shard.
struct Ask<'a> {
    layout: &'a Layout,
    status: &'a str,
    due_before: Option<DateTime<Utc>>,
    due_from: Option<DateTime<Utc>>,
    between: Option<&'a (String, String)>,
    waits: bool,
    limit: usize,
    select: Select,
}

impl Query {
    fn ask<'a>(&'a self, status: &'a str, limit: usize, select: Select) -> Ask<'a> {
        let (due_before, due_from) = (self.due_before, self.due_from);
        let (between, waits) = (self.between.as_ref(), self.waits);
        Ask { layout: self.layout, status, due_before, due_from, between, waits, limit, select }
    }
}

impl Store {
    /// Reads the next `limit` rows, oldest due time first.
    ///
    /// Each shard is read `limit` rows ahead, because one shard may contain all of the oldest rows.
    /// Rows that are not returned are read again for the next page.
    pub(crate) async fn list(
        &self,
        query: &Query,
        from: Option<Positions>,
        limit: usize,
        until: Until,
    ) -> Result<RowPage, Error> {
        let shards = query.statuses.len();
        let Positions(mut positions) =
            from.filter(|from| from.0.len() == shards).unwrap_or_else(|| Positions::start(shards));
        let reads = query.statuses.iter().zip(&positions);
        let reads = reads.map(|(status, position)| self.read_ahead(query, status, position, limit, until));
        let reads: Vec<_> = reads.collect();
        let reads: Vec<_> = stream::iter(reads).buffered(SHARDS_AT_ONCE).try_collect().await?;
        let rows_read: u64 = reads.iter().map(|(_, read)| read).sum();
        let mut shards: Vec<_> = reads.into_iter().map(|(ahead, _)| ahead).collect();
        let mut rows = Vec::new();
        while rows.len() < limit {
            let Some(shard) = oldest(&shards) else { break };
            if let Some(row) = shards[shard].rows.pop_front() {
                positions[shard] =
                    Position::After { due: row.due.clone(), key: row.key.clone(), item: row.item.clone() };
                rows.push(row);
            }
        }
        for (position, ahead) in positions.iter_mut().zip(&shards) {
            if ahead.exhausted && ahead.rows.is_empty() {
                *position = Position::End;
            }
        }
        let finished = positions.iter().all(|position| *position == Position::End);
        Ok(RowPage { rows, next: (!finished).then_some(Positions(positions)), rows_read })
    }

    async fn read_ahead(
        &self,
        query: &Query,
        status: &str,
        position: &Position,
        limit: usize,
        until: Until,
    ) -> Result<(Ahead, u64), Error> {
        let mut start = match position {
            Position::Start => None,
            Position::After { due, key, item } => {
                Some(start_key(query.layout, (status, due), [key, item.as_deref().unwrap_or_default()]))
            }
            Position::End => return Ok((Ahead { exhausted: true, ..Ahead::default() }, 0)),
        };
        let mut ahead = Ahead::default();
        let mut read = 0;
        while ahead.rows.len() < limit && !ahead.exhausted {
            let ask = query.ask(status, limit - ahead.rows.len(), Select::AllProjectedAttributes);
            let output = self.ask(&ask, start.take(), until).await?;
            read += u64::try_from(output.scanned_count).unwrap_or_default();
            let items = output.items.unwrap_or_default();
            ahead.rows.extend(items.iter().filter_map(|item| to_row(query.layout, item)));
            // A page may be empty although more pages follow.
            start = output.last_evaluated_key;
            ahead.exhausted = start.is_none();
        }
        Ok((ahead, read))
    }

    /// Counts the entries, and reads at most `limit` of them. The flag: all entries were read.
    pub(crate) async fn count(
        &self,
        query: &Query,
        limit: usize,
        until: Until,
    ) -> Result<(usize, bool), Error> {
        // An entry that the filter excludes costs the same as a counted entry.
        let (mut count, mut read) = (0, 0);
        for status in &query.statuses {
            let mut start = None;
            loop {
                if read >= limit {
                    return Ok((count, false));
                }
                let ask = query.ask(status, limit - read, Select::Count);
                let output = self.ask(&ask, start, until).await?;
                count += usize::try_from(output.count).unwrap_or_default();
                read += usize::try_from(output.scanned_count).unwrap_or_default();
                start = output.last_evaluated_key;
                if start.is_none() {
                    break;
                }
            }
        }
        Ok((count, true))
    }

    async fn ask(&self, ask: &Ask<'_>, start: Option<Item>, until: Until) -> Result<QueryOutput, Error> {
        self.read_until(VERB, until, || self.ask_once(ask, start.clone())).await
    }

    async fn ask_once(
        &self,
        ask: &Ask<'_>,
        start: Option<Item>,
    ) -> Result<(QueryOutput, Option<ConsumedCapacity>), Failure> {
        let due = ask.layout.due;
        let Condition { expression, mut names, values } = match ask.between {
            Some(between) => Condition::listed_between(ask.status, due, between),
            None => Condition::listed(ask.status, due, ask.due_from, ask.due_before),
        };
        let filter = ask.waits.then_some(WAITS);
        names.extend(filter.into_iter().flat_map(expression::names));
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(a::BY_STATUS)
            .set_filter_expression(filter.map(str::to_owned))
            .select(ask.select.clone())
            .key_condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .limit(i32::try_from(ask.limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start)
            .set_return_consumed_capacity(self.capacity.clone());
        let mut output = query.send().await.map_err(|error| Failure::of(error, |_| None))?;
        let consumed = output.consumed_capacity.take();
        Ok((output, consumed))
    }
}

fn start_key(layout: &Layout, (status, due): (&str, &str), keys: [&str; 2]) -> Item {
    // A table without a sort key takes only the first of `keys`.
    let of_table = layout.keys.iter().zip(keys);
    let of_index = [(a::STATUS, status), (layout.due, due)];
    of_table
        .map(|(name, value)| (*name, value))
        .chain(of_index)
        .map(|(name, value)| (name.to_owned(), text(value)))
        .collect::<HashMap<_, _>>()
}

fn oldest(shards: &[Ahead]) -> Option<usize> {
    let fronts = shards.iter().enumerate().filter_map(|(shard, ahead)| Some((shard, ahead.rows.front()?)));
    fronts
        .min_by(|(_, one), (_, other)| (&one.due, &one.key).cmp(&(&other.due, &other.key)))
        .map(|(shard, _)| shard)
}

pub(super) fn to_row(layout: &Layout, item: &Item) -> Option<Row> {
    let get = |name: &str| item.get(name).and_then(|value: &AttributeValue| value.as_s().ok()).cloned();
    let count =
        |name: &str| item.get(name).and_then(|value: &AttributeValue| value.as_n().ok()?.parse().ok());
    Some(Row {
        item: get(a::ITEM),
        step: get(a::STEP),
        within: get(a::WITHIN).and_then(|text| Work::of_text(&text)),
        key: get(layout.keys.first()?)?,
        status: get(a::STATUS)?,
        due: get(layout.due)?,
        created: get(a::CREATED).and_then(|text| time::from_text(&text)),
        locked_by: get(a::LOCKED_BY),
        attempt: get(a::ATTEMPT),
        class: get(a::CLASS),
        cause: get(a::CAUSE),
        resolution: get(a::RESOLUTION),
        resolved_by: get(a::RESOLVED_BY),
        resolved_reason: get(a::RESOLVED_REASON),
        created_text: get(a::CREATED),
        name: get(a::NAME),
        subject: get(a::SUBJECT),
        expires: get(a::EXPIRES).and_then(|text| time::from_text(&text)),
        revision: get(a::REVISION),
        state: get(a::STATE),
        attempts: count(a::ATTEMPTS),
        lost_in_a_row: count(a::LOST_IN_A_ROW),
        code: count(a::CODE),
        since: get(a::SINCE).and_then(|text| time::from_text(&text)),
        reason: get(a::REASON),
    })
}
