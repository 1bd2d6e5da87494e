//! From a write to a request: every condition of the product stands in this file.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::attribute as a;
use super::item::{self, Item, moment, number, text};
use crate::core::answer::{Body, Encoded};
use crate::core::record::{Intervention, Seen};
use crate::core::shard;
use crate::core::write::{Finish, NewToken, Write};

/// What to do with one item.
#[derive(Debug)]
pub(crate) enum Change {
    Put(Item),
    Update { key: Item, expression: String },
    Delete { key: Item },
}

/// One request, ready for the SDK.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) change: Change,
    pub(crate) condition: Option<String>,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

/// Absent, or let go of by a person, or terminal and past its time. `status` keeps unfinished and
/// failed work, whatever else its item says; strictly less, as DynamoDB's deleter does.
const FREE: &str = "attribute_not_exists(#lockToken) OR (attribute_not_exists(#status) \
     AND (#resolution = :released OR (attribute_exists(#actualCompletion) AND #ttl < :now)))";

/// The token is in progress, and by this attempt.
const MINE: &str = "#attempt = :attempt AND begins_with(#status, :inProgress)";

/// In progress, due before the limit of the caller's policy, and still the one the caller saw: an
/// owner that extended or ended in between is safe.
const TAKEABLE: &str = "begins_with(#status, :inProgress) AND #expectedCompletion < :dueBefore AND ";

/// As many names as most expressions use.
const MOST_NAMES: usize = 14;

pub(super) type Values = Vec<(&'static str, AttributeValue)>;

impl Request {
    pub(crate) fn of(write: &Write) -> Self {
        match write {
            Write::Begin { token } => begin(token),
            Write::TakeOver { token, seen, due_before } => take_over(token, seen, *due_before),
            Write::Finish { key, attempt, at, finish, body, ttl } => {
                let mut set = Set::default();
                set.add("#actualCompletion = :at", ":at", moment(*at));
                finish_as(&mut set, finish);
                answer(&mut set, body);
                set.ttl(*ttl);
                set.values.extend(mine(attempt));
                set.update(key.as_str(), MINE.to_owned())
            }
            Write::Release { key, attempt } => {
                let key = item::key_of(key.as_str());
                Self::new(Change::Delete { key }, Some(MINE.to_owned()), mine(attempt))
            }
            Write::Extend { key, attempt, due } => {
                let mut set = Set::default();
                set.add("#expectedCompletion = :due", ":due", moment(*due));
                set.values.extend(mine(attempt));
                set.update(key.as_str(), format!("{MINE} AND #expectedCompletion < :due"))
            }
            Write::Resolve { key, attempt, seen, person, body, ttl } => {
                let mut set = Set::default();
                set.add("#actualCompletion = :at", ":at", moment(person.at));
                set.add("#version = :version", ":version", number(a::CURRENT_VERSION));
                set.add("#attempt = :attempt", ":attempt", text(attempt));
                finish_as(&mut set, &Finish::Success);
                answer(&mut set, body);
                intervention(&mut set, person, a::RESOLVED);
                set.ttl(*ttl);
                set.guarded(key.as_str(), seen)
            }
            Write::Free { key, seen, person, ttl } => {
                let mut set = Set::default();
                intervention(&mut set, person, a::RELEASED);
                set.ttl(*ttl);
                set.removes.extend([
                    "#status",
                    "#outcome",
                    "#result",
                    "#resultCodec",
                    "#resultId",
                    "#resultBytes",
                ]);
                set.guarded(key.as_str(), seen)
            }
            Write::PutAnswer { key, encoded, ttl } => put_answer(key, encoded, *ttl),
            Write::ExpireAnswer { key, ttl } => {
                let mut set = Set::default();
                set.ttl(Some(*ttl));
                set.update(key, "attribute_exists(#lockToken)".to_owned())
            }
            // Only ever an answer, whatever the key says.
            Write::DropAnswer { key } => {
                let condition = "attribute_not_exists(#status)".to_owned();
                Self::new(Change::Delete { key: item::key_of(key) }, Some(condition), vec![])
            }
        }
    }

    pub(super) fn new(change: Change, condition: Option<String>, values: Values) -> Self {
        let update = match &change {
            Change::Update { expression, .. } => expression.as_str(),
            _ => "",
        };
        let used = names(update).chain(names(condition.as_deref().unwrap_or_default()));
        let mut names = HashMap::with_capacity(MOST_NAMES);
        names.extend(used);
        Self {
            names,
            values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            condition,
            change,
        }
    }
}

fn begin(token: &NewToken) -> Request {
    let values = vec![(":released", text(a::RELEASED)), (":now", number(token.expired_at.timestamp()))];
    Request::new(Change::Put(item::from_token(token)), Some(FREE.to_owned()), values)
}

fn take_over(token: &NewToken, seen: &Seen, due_before: DateTime<Utc>) -> Request {
    let (condition, mut values) = still(seen);
    values.push((":inProgress", text(shard::IN_PROGRESS)));
    values.push((":dueBefore", moment(due_before)));
    Request::new(Change::Put(item::from_token(token)), Some(format!("{TAKEABLE}{condition}")), values)
}

fn put_answer(key: &str, encoded: &Encoded, ttl: Option<i64>) -> Request {
    let mut item = item::key_of(key);
    item.insert(a::VERSION.to_owned(), number(a::CURRENT_VERSION));
    item.insert(a::RESULT_CODEC.to_owned(), text(encoded.codec.name()));
    item.insert(a::RESULT.to_owned(), item::answer_value(encoded));
    if let Some(ttl) = ttl {
        item.insert(a::TTL.to_owned(), number(ttl));
    }
    Request::new(Change::Put(item), None, vec![])
}

fn mine(attempt: &str) -> Values {
    vec![(":attempt", text(attempt)), (":inProgress", text(shard::IN_PROGRESS))]
}

/// The record is still the one that was read.
fn still(seen: &Seen) -> (String, Values) {
    let mut condition = "#created = :seenCreated AND #expectedCompletion = :seenDue".to_owned();
    let mut values =
        vec![(":seenCreated", text(&seen.created)), (":seenDue", text(&seen.expected_completion))];
    match &seen.attempt {
        Some(attempt) => {
            condition.push_str(" AND #attempt = :seenAttempt");
            values.push((":seenAttempt", text(attempt)));
        }
        None => condition.push_str(" AND attribute_not_exists(#attempt)"),
    }
    match &seen.status {
        Some(status) => {
            condition.push_str(" AND #status = :seenStatus");
            values.push((":seenStatus", text(status)));
        }
        None => condition.push_str(" AND attribute_not_exists(#status)"),
    }
    (condition, values)
}

fn finish_as(set: &mut Set, finish: &Finish) {
    let outcome = if *finish == Finish::Success { a::SUCCESS } else { a::FAILURE };
    set.add("#outcome = :outcome", ":outcome", text(outcome));
    match finish {
        Finish::NeedsPerson { status } => set.add("#status = :status", ":status", text(status)),
        Finish::Success | Finish::Failure => set.removes.push("#status"),
    }
}

fn answer(set: &mut Set, body: &Body) {
    match body {
        Body::Inline(encoded) => {
            set.add("#resultCodec = :codec", ":codec", text(encoded.codec.name()));
            set.add("#result = :result", ":result", item::answer_value(encoded));
            set.removes.extend(["#resultId", "#resultBytes"]);
        }
        Body::Beside { codec, id, bytes } => {
            set.add("#resultCodec = :codec", ":codec", text(codec.name()));
            set.add("#resultId = :id", ":id", text(id));
            set.add("#resultBytes = :bytes", ":bytes", number(bytes));
            set.removes.push("#result");
        }
    }
}

fn intervention(set: &mut Set, person: &Intervention, resolution: &str) {
    set.add("#resolution = :resolution", ":resolution", text(resolution));
    set.add("#resolvedBy = :by", ":by", text(&person.by));
    set.add("#resolvedReason = :reason", ":reason", text(&person.reason));
    set.add("#resolvedAt = :resolvedAt", ":resolvedAt", moment(person.at));
}

/// An update under construction.
#[derive(Default)]
struct Set {
    sets: Vec<&'static str>,
    removes: Vec<&'static str>,
    values: Values,
}

impl Set {
    fn add(&mut self, assignment: &'static str, name: &'static str, value: AttributeValue) {
        self.sets.push(assignment);
        self.values.push((name, value));
    }

    fn ttl(&mut self, ttl: Option<i64>) {
        match ttl {
            Some(ttl) => self.add("#ttl = :ttl", ":ttl", number(ttl)),
            None => self.removes.push("#ttl"),
        }
    }

    fn guarded(mut self, key: &str, seen: &Seen) -> Request {
        let (condition, values) = still(seen);
        self.values.extend(values);
        self.update(key, condition)
    }

    fn update(self, key: &str, condition: String) -> Request {
        let mut expression = format!("SET {}", self.sets.join(", "));
        if !self.removes.is_empty() {
            expression.push_str(" REMOVE ");
            expression.push_str(&self.removes.join(", "));
        }
        Request::new(Change::Update { key: item::key_of(key), expression }, Some(condition), self.values)
    }
}

/// The attribute names that an expression uses. Each stands there as `#` and its own name, so that
/// none can meet a reserved word.
fn names(expression: &str) -> impl Iterator<Item = (String, String)> + '_ {
    expression.split('#').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        (format!("#{}", &rest[..end]), rest[..end].to_owned())
    })
}
