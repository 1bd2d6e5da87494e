//! Listing unfinished and failed tokens through the index, oldest first over all shards.

use std::collections::HashMap;
use std::collections::VecDeque;

use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_sdk_dynamodb::types::{AttributeValue, Select};
use chrono::{DateTime, Utc};

use super::exchange::Failure;
use super::item::{Item, moment, text};
use super::{Store, Until, attribute as a, units};
use crate::core::retry::Tries;
use crate::core::time;
use crate::error::Error;
use crate::metrics;

const VERB: &str = "list";

/// What to list.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    /// The values of `status` to ask for.
    pub(crate) statuses: Vec<String>,
    /// Only what was due before this time.
    pub(crate) due_before: Option<DateTime<Utc>>,
}

/// One entry of the index.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) token: String,
    pub(crate) status: String,
    pub(crate) due: String,
    pub(crate) created: Option<DateTime<Utc>>,
    pub(crate) locked_by: Option<String>,
}

/// Where a listing goes on: how far each shard has been shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor(Vec<Position>);

impl Cursor {
    /// Of no shard, so that a listing from here starts anew.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    /// The beginning of a listing of so many shards.
    pub(crate) fn start(shards: usize) -> Self {
        Self(vec![Position::Start; shards])
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Position {
    Start,
    After { due: String, token: String },
    End,
}

/// A page of a listing.
#[derive(Debug)]
pub(crate) struct ListPage {
    pub(crate) rows: Vec<Row>,
    /// Where to go on. `None`: this was the last page.
    pub(crate) next: Option<Cursor>,
    /// Entries that DynamoDB read, so what the page cost.
    pub(crate) rows_read: u64,
}

/// What has been read of one shard and not been shown.
#[derive(Debug, Default)]
struct Ahead {
    rows: VecDeque<Row>,
    exhausted: bool,
}

impl Store {
    /// The next `limit` rows, oldest due time first.
    ///
    /// Each shard is read `limit` rows ahead, since the oldest may all be in one; what is not shown
    /// is read again for the next page.
    pub(crate) async fn list(
        &self,
        query: &Query,
        from: Option<Cursor>,
        limit: usize,
        until: Until,
    ) -> Result<ListPage, Error> {
        let shards = query.statuses.len();
        let Cursor(mut positions) =
            from.filter(|from| from.0.len() == shards).unwrap_or_else(|| Cursor::start(shards));
        let mut shards = Vec::with_capacity(positions.len());
        let mut rows_read = 0;
        for (status, position) in query.statuses.iter().zip(&positions) {
            let (ahead, read) = self.read_ahead(status, query.due_before, position, limit, until).await?;
            rows_read += read;
            shards.push(ahead);
        }
        let mut rows = Vec::new();
        while rows.len() < limit {
            let Some(shard) = oldest(&shards) else { break };
            if let Some(row) = shards[shard].rows.pop_front() {
                positions[shard] = Position::After { due: row.due.clone(), token: row.token.clone() };
                rows.push(row);
            }
        }
        for (position, ahead) in positions.iter_mut().zip(&shards) {
            if ahead.exhausted && ahead.rows.is_empty() {
                *position = Position::End;
            }
        }
        let finished = positions.iter().all(|position| *position == Position::End);
        Ok(ListPage { rows, next: (!finished).then_some(Cursor(positions)), rows_read })
    }

    async fn read_ahead(
        &self,
        status: &str,
        due_before: Option<DateTime<Utc>>,
        position: &Position,
        limit: usize,
        until: Until,
    ) -> Result<(Ahead, u64), Error> {
        let mut start = match position {
            Position::Start => None,
            Position::After { due, token } => Some(start_key(status, due, token)),
            Position::End => return Ok((Ahead { exhausted: true, ..Ahead::default() }, 0)),
        };
        let mut ahead = Ahead::default();
        let mut read = 0;
        while ahead.rows.len() < limit && !ahead.exhausted {
            let limit = limit - ahead.rows.len();
            let select = Select::AllProjectedAttributes;
            let ask = Ask { status, due: a::EXPECTED_COMPLETION, due_before, limit, select };
            let output = self.query(&ask, start.take(), until).await?;
            read += u64::try_from(output.scanned_count).unwrap_or_default();
            ahead.rows.extend(output.items.unwrap_or_default().iter().filter_map(to_row));
            // A page may be empty and still not be the last.
            start = output.last_evaluated_key;
            ahead.exhausted = start.is_none();
        }
        Ok((ahead, read))
    }

    /// How many entries there are, counting no further than `limit`. The flag says whether that is all.
    pub(crate) async fn count(
        &self,
        query: &Query,
        limit: usize,
        until: Until,
    ) -> Result<(usize, bool), Error> {
        let mut count = 0;
        for status in &query.statuses {
            let mut start = None;
            loop {
                if count >= limit {
                    return Ok((count, false));
                }
                let ask = Ask {
                    status,
                    due: a::EXPECTED_COMPLETION,
                    due_before: query.due_before,
                    limit: limit - count,
                    select: Select::Count,
                };
                let output = self.query(&ask, start, until).await?;
                count += usize::try_from(output.count).unwrap_or_default();
                start = output.last_evaluated_key;
                if start.is_none() {
                    break;
                }
            }
        }
        Ok((count, true))
    }

    /// One page of one shard of the index of either table.
    pub(super) async fn query(
        &self,
        ask: &Ask<'_>,
        start: Option<Item>,
        until: Until,
    ) -> Result<QueryOutput, Error> {
        let mut tries = Tries::default();
        loop {
            metrics::count_request(VERB);
            let reply = Box::pin(self.query_once(ask, start.clone()));
            match self.exchange(tries, until, reply).await {
                Ok(output) => {
                    metrics::count_units(VERB, units(output.consumed_capacity.as_ref()));
                    return Ok(output);
                }
                Err(failure) => self.after_failure(VERB, &mut tries, until, failure.of_read()).await?,
            }
        }
    }

    async fn query_once(&self, ask: &Ask<'_>, start: Option<Item>) -> Result<QueryOutput, Failure> {
        let mut condition = "#status = :status".to_owned();
        let mut query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(a::BY_STATUS)
            .select(ask.select.clone())
            .expression_attribute_names("#status", a::STATUS)
            .expression_attribute_values(":status", text(ask.status));
        if let Some(due_before) = ask.due_before {
            condition.push_str(" AND #due < :dueBefore");
            query = query
                .expression_attribute_names("#due", ask.due)
                .expression_attribute_values(":dueBefore", moment(due_before));
        }
        query
            .key_condition_expression(condition)
            .limit(i32::try_from(ask.limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start)
            .set_return_consumed_capacity(self.capacity.clone())
            .send()
            .await
            .map_err(|error| Failure::of(error, |_| None))
    }
}

/// What to ask the index for.
pub(super) struct Ask<'a> {
    pub(super) status: &'a str,
    /// The sort key of the index.
    pub(super) due: &'static str,
    pub(super) due_before: Option<DateTime<Utc>>,
    pub(super) limit: usize,
    pub(super) select: Select,
}

fn start_key(status: &str, due: &str, token: &str) -> Item {
    HashMap::from([
        (a::STATUS.to_owned(), text(status)),
        (a::EXPECTED_COMPLETION.to_owned(), text(due)),
        (a::LOCK_TOKEN.to_owned(), text(token)),
    ])
}

fn oldest(shards: &[Ahead]) -> Option<usize> {
    let fronts = shards.iter().enumerate().filter_map(|(shard, ahead)| Some((shard, ahead.rows.front()?)));
    fronts
        .min_by(|(_, one), (_, other)| (&one.due, &one.token).cmp(&(&other.due, &other.token)))
        .map(|(shard, _)| shard)
}

/// The keys of table and index are always there, as text; the rest may be missing or damaged, and a
/// stuck token is shown all the same.
fn to_row(item: &Item) -> Option<Row> {
    let get = |name: &str| item.get(name).and_then(|value: &AttributeValue| value.as_s().ok()).cloned();
    Some(Row {
        token: get(a::LOCK_TOKEN)?,
        status: get(a::STATUS)?,
        due: get(a::EXPECTED_COMPLETION)?,
        created: get(a::CREATED).and_then(|text| time::from_text(&text)),
        locked_by: get(a::LOCKED_BY),
    })
}
