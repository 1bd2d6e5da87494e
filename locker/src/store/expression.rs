//! Translation of a token's writes into requests. Every condition on a token is in this file.

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "tokens and workflows use a part"))]

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};
use memchr::memchr_iter;

use super::item::{self, Item, moment, number, text};
use crate::core::answer::{Body, Encoded, REDACTED};
use crate::core::class::Class;
use crate::core::shard;
#[cfg(feature = "workflow")]
use crate::core::time;
use crate::core::token::audit::Audit;
use crate::core::token::record::{Intervention, Seen};
use crate::core::token::resolution::Resolution;
use crate::core::token::write::{Finish, NewToken, NextKey, Write};
#[cfg(feature = "workflow")]
use crate::core::workflow::place::{AUDITS, FAILED_RUNS, HEADER, LASTING, MESSAGES, RECEIPTS};
use crate::store::schema::attribute as a;

/// The change to one item.
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

/// The token is absent, released by an operator, or terminal and past its `ttl`. An item with a
/// `status` is never free, whatever else it contains: it is in progress or held. The comparison is
/// strict, like that of DynamoDB's TTL deletion.
///
/// A released token with a key version or a first use of its key is not free. A put over it would
/// forget both: the provider would get a key that it has refused, or the age of an old key would
/// count from now.
const FREE: &str = "attribute_not_exists(#lockToken) OR (attribute_not_exists(#status) \
     AND ((#resolution = :released AND attribute_not_exists(#keyVersion) AND attribute_not_exists(#keySince)) OR (attribute_exists(#actualCompletion) AND #ttl < :now)))";

/// The token is in progress, and this attempt owns it.
///
/// While the attempt works, another attempt takes the token over or an operator resolves it.
/// Without this, the end of the first attempt would replace their answer.
const MINE: &str = "#attempt = :attempt AND begins_with(#status, :inProgress)";

/// The token is in progress, due before the caller's limit, and (appended) unchanged since the
/// caller read it. An owner that extended or ended the token between that read and this write keeps
/// it.
const TAKEABLE: &str = "begins_with(#status, :inProgress) AND (#promisedCompletion < :dueBefore OR \
     (attribute_not_exists(#promisedCompletion) AND #expectedCompletion < :dueBefore)) AND ";

/// The condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard<'a> {
    /// There is no item.
    Absent,
    /// The item is unchanged since it was read.
    Revision(&'a str),
    /// There is no item, or its retention ended before this time.
    Forgotten(DateTime<Utc>),
    /// There is no item, or an item with a smaller number.
    Newer(u64),
    /// The stored item has this number.
    Follows(u64),
    /// There is no item, or an item of this version of a workflow or of an earlier one.
    NotOfLater(u32),
    /// No condition: the item's key is unique to this write.
    None,
}

/// Nothing is there.
const ABSENT: &str = "attribute_not_exists(#workflow)";

/// The item is unchanged since it was read.
///
/// Two writers read the item, and both decide from it. Without this, the second put would erase the
/// first one.
const UNCHANGED: &str = "#revision = :seen";

/// The retention of the item has ended. The comparison is strict, like DynamoDB's TTL deletion.
/// DynamoDB may delete the item days later. Until then the item must not refuse a message.
const FORGOTTEN: &str = "attribute_not_exists(#workflow) OR #ttl < :now";

/// Message 5 is taken, and then a late delivery of message 4 comes. Without this, the older state
/// would replace the newer state.
const NEWER: &str = "attribute_not_exists(#workflow) OR #number < :number";

/// Message 5 comes before message 4. Without this, it would be taken, and message 4 would then
/// count as superseded and be lost.
const FOLLOWS: &str = "#number = :previous";

/// A driver is suspended before it writes the receipt of its version, and meanwhile the next
/// version writes its own. Without this, a late event would be assigned to the earlier version.
const NOT_OF_LATER: &str = "attribute_not_exists(#workflow) OR #keyVersion <= :version";

/// A filter: a token that has ended. Items of another kind have no due time.
#[cfg(feature = "operator")]
const ENDED: &str = "attribute_not_exists(#status) AND attribute_exists(#expectedCompletion)";

/// A filter: the code of the workflow waits for an event or a timer.
pub(super) const WAITS: &str = "attribute_exists(#step)";

/// A condition by itself: of a query, or on an item that a transaction checks and does not write.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) expression: String,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: HashMap<String, AttributeValue>,
}

impl Condition {
    /// Selects tokens that have ended, with keys that begin so.
    #[cfg(feature = "operator")]
    pub(crate) fn ended(begin: &str) -> Self {
        // DynamoDB may refuse to compare a key with an empty text.
        if begin.is_empty() {
            return Self::new(ENDED.to_owned(), vec![]);
        }
        Self::new(format!("{ENDED} AND begins_with(#lockToken, :begin)"), vec![(":begin", text(begin))])
    }

    /// Selects the items that a resume reads. Large results sort before them. Items that outlive
    /// the workflow sort after them.
    #[cfg(feature = "workflow")]
    pub(crate) fn workflow(workflow: &str) -> Self {
        let (first, last) = ((":header", text(HEADER)), (":lasting", text(LASTING)));
        let values = vec![(":workflow", text(workflow)), first, last];
        Self::new("#workflow = :workflow AND #item BETWEEN :header AND :lasting".to_owned(), values)
    }

    /// All items of a workflow, without what outlives it.
    #[cfg(feature = "workflow")]
    pub(crate) fn whole_workflow(workflow: &str) -> Self {
        let values = vec![(":workflow", text(workflow)), (":lasting", text(LASTING))];
        Self::new("#workflow = :workflow AND #item < :lasting".to_owned(), values)
    }

    /// The events of a workflow whose sort keys begin so.
    #[cfg(feature = "workflow")]
    pub(crate) fn events(workflow: &str, begin: &str) -> Self {
        let values = vec![(":workflow", text(workflow)), (":event", text(begin))];
        Self::new("#workflow = :workflow AND begins_with(#item, :event)".to_owned(), values)
    }

    /// The audit records of a workflow.
    #[cfg(feature = "workflow")]
    pub(crate) fn acts(workflow: &str) -> Self {
        let values = vec![(":workflow", text(workflow)), (":audit", text(AUDITS))];
        Self::new("#workflow = :workflow AND begins_with(#item, :audit)".to_owned(), values)
    }

    /// The causes of failed runs of the workflow with this start.
    #[cfg(feature = "workflow")]
    pub(crate) fn failed_runs(workflow: &str, started: DateTime<Utc>) -> Self {
        let start = format!("{FAILED_RUNS}{} ", time::to_text(started));
        let values = vec![(":workflow", text(workflow)), (":failed", text(&start))];
        Self::new("#workflow = :workflow AND begins_with(#item, :failed)".to_owned(), values)
    }

    /// The receipts of events of a workflow with this start, for a query.
    #[cfg(feature = "workflow")]
    pub(crate) fn receipts(workflow: &str, started: DateTime<Utc>) -> Self {
        Self::events(workflow, &format!("{RECEIPTS}{} ", time::to_text(started)))
    }

    /// The messages of a workflow.
    #[cfg(feature = "workflow")]
    pub(crate) fn messages(workflow: &str) -> Self {
        let values = vec![(":workflow", text(workflow)), (":message", text(MESSAGES))];
        Self::new("#workflow = :workflow AND begins_with(#item, :message)".to_owned(), values)
    }

    /// The entries of one value of `status` in the index, from a due time on or up to one. `due`
    /// names the sort key of the index, which takes one condition: a listing has one of the two
    /// limits.
    pub(crate) fn listed(
        status: &str,
        due: &str,
        due_from: Option<DateTime<Utc>>,
        due_before: Option<DateTime<Utc>>,
    ) -> Self {
        let mut expression = "#status = :status".to_owned();
        let mut values = vec![(":status", text(status))];
        if let Some(due_before) = due_before {
            expression.push_str(&format!(" AND #{due} < :dueBefore"));
            values.push((":dueBefore", moment(due_before)));
        } else if let Some(due_from) = due_from {
            expression.push_str(&format!(" AND #{due} >= :dueFrom"));
            values.push((":dueFrom", moment(due_from)));
        }
        Self::new(expression, values)
    }

    /// The entries of one value of `status` in the index, from one sort key to another.
    pub(crate) fn listed_between(status: &str, due: &str, (from, to): &(String, String)) -> Self {
        let values = vec![(":status", text(status)), (":dueFrom", text(from)), (":dueTo", text(to))];
        Self::new(format!("#status = :status AND #{due} BETWEEN :dueFrom AND :dueTo"), values)
    }

    /// The item has not changed since it was read.
    pub(crate) fn unchanged(seen: &str) -> Self {
        Self::new(UNCHANGED.to_owned(), vec![(":seen", text(seen))])
    }

    /// The header still has the attempt of this driver.
    pub(crate) fn driven_by(attempt: &str) -> Self {
        Self::new("#attempt = :attempt".to_owned(), vec![(":attempt", text(attempt))])
    }

    fn new(expression: String, values: Values) -> Self {
        Self { names: names(&expression).collect(), values: owned(values), expression }
    }
}

fn owned(
    values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
) -> HashMap<String, AttributeValue> {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Capacity for names that suffices for most expressions.
const MOST_NAMES: usize = 14;

pub(super) type Values = Vec<(&'static str, AttributeValue)>;

impl Request {
    pub(crate) fn of(write: &Write) -> Self {
        match write {
            Write::Begin { token } => begin(token),
            Write::BeginOver { token, seen } => begin_over(token, seen),
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
            Write::Doubt { key, attempt, due, promised, cause, list_as } => {
                let mut set = Set::default();
                set.add("#expectedCompletion = :due", ":due", moment(*due));
                set.add("#promisedCompletion = :promised", ":promised", moment(*promised));
                set.cause(Class::InDoubt, cause);
                if let Some(status) = list_as {
                    set.add("#status = :status", ":status", text(status));
                    set.removes.push("#ttl");
                }
                set.values.extend(mine(attempt));
                set.update(key.as_str(), MINE.to_owned())
            }
            Write::Release { key, attempt, keep: None } => {
                let key = item::token_key(key.as_str());
                Self::new(Change::Delete { key }, Some(MINE.to_owned()), mine(attempt))
            }
            Write::Release { key, attempt, keep: Some(kept) } => {
                let mut set = Set::default();
                let released = Resolution::Released.as_str();
                set.add("#resolution = :resolution", ":resolution", text(released));
                set.ttl(kept.ttl);
                set.removes.push("#status");
                set.values.extend(mine(attempt));
                set.update(key.as_str(), MINE.to_owned())
            }
            Write::Extend { key, attempt, due, ttl } => {
                let mut set = Set::default();
                set.add("#expectedCompletion = :due", ":due", moment(*due));
                if ttl.is_some() {
                    set.ttl(*ttl);
                }
                set.values.extend(mine(attempt));
                // A doubt ends the attempt: an extension that arrives late must not hide it.
                let condition = format!(
                    "{MINE} AND #expectedCompletion < :due AND attribute_not_exists(#promisedCompletion)"
                );
                set.update(key.as_str(), condition)
            }
            Write::Resolve { key, attempt, seen, operator, body, ttl, verb } => {
                let mut set = Set::default();
                set.add("#actualCompletion = :at", ":at", moment(operator.at));
                set.add("#version = :version", ":version", number(a::CURRENT_VERSION));
                set.add("#attempt = :attempt", ":attempt", text(attempt));
                finish_as(&mut set, &Finish::Success);
                answer(&mut set, body);
                intervention(&mut set, operator, *verb);
                set.removes.extend(["#class", "#cause", "#promisedCompletion"]);
                set.ttl(*ttl);
                set.guarded(key.as_str(), seen)
            }
            Write::Close { key, seen, operator, ttl } => {
                let mut set = Set::default();
                intervention(&mut set, operator, Resolution::Closed);
                set.removes.push("#status");
                set.ttl(*ttl);
                set.guarded(key.as_str(), seen)
            }
            Write::Free { key, attempt, seen, operator, ttl, next_key } => {
                let mut set = Set::default();
                set.add("#attempt = :attempt", ":attempt", text(attempt));
                intervention(&mut set, operator, Resolution::Released);
                match next_key {
                    NextKey::Same { since } => {
                        set.add("#keySince = :keySince", ":keySince", moment(*since));
                    }
                    NextKey::Next { version } => {
                        set.add("#keyVersion = :keyVersion", ":keyVersion", number(version));
                        set.removes.push("#keySince");
                    }
                }
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
            Write::Redact { key, attempt, seen, operator, is_success } => {
                let mut set = Set::default();
                set.add("#version = :version", ":version", number(a::CURRENT_VERSION));
                set.add("#attempt = :attempt", ":attempt", text(attempt));
                let outcome = if *is_success { a::SUCCESS } else { a::FAILURE };
                set.add("#outcome = :outcome", ":outcome", text(outcome));
                intervention(&mut set, operator, Resolution::Redacted);
                answer(&mut set, &Body::Redacted);
                // A cause repeats the text of a failure, and another library stores it as `error`.
                set.removes.extend(["#class", "#cause", "#error"]);
                set.guarded(key.as_str(), seen)
            }
            Write::RedactAudit { key } => {
                let mut set = Set::default();
                answer(&mut set, &Body::Redacted);
                set.removes.push("#cause");
                set.update(key, "attribute_exists(#lockToken)".to_owned())
            }
            Write::PutAnswer { key, encoded, ttl } => put_answer(key, encoded, *ttl),
            Write::ExpireAnswer { key, ttl } => {
                let mut set = Set::default();
                set.ttl(Some(*ttl));
                // DynamoDB may have deleted the answer. An update without a condition would create
                // an item that has a `ttl` and nothing else.
                set.update(key, "attribute_exists(#lockToken)".to_owned())
            }
            // The condition protects tokens in progress or held, for any key.
            Write::DropAnswer { key } => {
                let condition = "attribute_not_exists(#status)".to_owned();
                Self::new(Change::Delete { key: item::token_key(key) }, Some(condition), vec![])
            }
        }
    }

    /// A put of an audit record.
    pub(crate) fn new_audit(audit: &Audit) -> Self {
        let condition = "attribute_not_exists(#lockToken)".to_owned();
        Self::new(Change::Put(item::audit_item(audit)), Some(condition), vec![])
    }

    /// A put or a deletion of an item of a workflow.
    pub(crate) fn guarded(change: Change, guard: Guard<'_>) -> Self {
        let (condition, values) = match guard {
            Guard::Absent => (Some(ABSENT.to_owned()), vec![]),
            Guard::Revision(seen) => (Some(UNCHANGED.to_owned()), vec![(":seen", text(seen))]),
            Guard::Forgotten(now) => (Some(FORGOTTEN.to_owned()), vec![(":now", number(now.timestamp()))]),
            Guard::Newer(newer) => (Some(NEWER.to_owned()), vec![(":number", number(newer))]),
            Guard::Follows(previous) => (Some(FOLLOWS.to_owned()), vec![(":previous", number(previous))]),
            Guard::NotOfLater(version) => {
                (Some(NOT_OF_LATER.to_owned()), vec![(":version", number(version))])
            }
            Guard::None => (None, vec![]),
        };
        Self::new(change, condition, values)
    }

    fn new(
        change: Change,
        condition: Option<String>,
        values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) -> Self {
        let update = match &change {
            Change::Update { expression, .. } => expression.as_str(),
            _ => "",
        };
        let used = names(update).chain(names(condition.as_deref().unwrap_or_default()));
        let mut names = HashMap::with_capacity(MOST_NAMES);
        names.extend(used);
        Self { names, values: owned(values), condition, change }
    }
}

fn begin(token: &NewToken) -> Request {
    let values = [(":released", text(a::RELEASED)), (":now", number(token.expired_at.timestamp()))];
    Request::new(Change::Put(item::from_token(token)), Some(FREE.to_owned()), values)
}

/// Two callers read the same released record. Only one of them gets the token.
fn begin_over(token: &NewToken, seen: &Seen) -> Request {
    let (condition, mut values) = still(seen);
    values.push((":released", text(a::RELEASED)));
    let condition = format!("#resolution = :released AND {condition}");
    Request::new(Change::Put(item::from_token(token)), Some(condition), values)
}

fn take_over(token: &NewToken, seen: &Seen, due_before: DateTime<Utc>) -> Request {
    let (condition, mut values) = still(seen);
    values.push((":inProgress", text(shard::IN_PROGRESS)));
    values.push((":dueBefore", moment(due_before)));
    Request::new(Change::Put(item::from_token(token)), Some(format!("{TAKEABLE}{condition}")), values)
}

fn put_answer(key: &str, encoded: &Encoded, ttl: Option<i64>) -> Request {
    let mut item = item::token_key(key);
    item.insert(a::VERSION.to_owned(), number(a::CURRENT_VERSION));
    item.insert(a::RESULT_CODEC.to_owned(), text(encoded.codec.name()));
    item.insert(a::RESULT.to_owned(), item::answer_value(encoded));
    if let Some(ttl) = ttl {
        item.insert(a::TTL.to_owned(), number(ttl));
    }
    Request::new(Change::Put(item), None, vec![])
}

fn mine(attempt: &str) -> [(&'static str, AttributeValue); 2] {
    [(":attempt", text(attempt)), (":inProgress", text(shard::IN_PROGRESS))]
}

/// Returns the condition that the record is unchanged since it was read.
///
/// Each write of a token changes at least one of these texts. So of two writers who read the same
/// record, only the first is applied.
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
        Finish::Hold { status, cause } => {
            set.add("#status = :status", ":status", text(status));
            set.cause(Class::NeedsOperator, cause);
        }
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
        Body::Redacted => {
            set.add("#resultCodec = :codec", ":codec", text(REDACTED));
            set.removes.extend(["#result", "#resultId", "#resultBytes"]);
        }
    }
}

fn intervention(set: &mut Set, operator: &Intervention, verb: Resolution) {
    set.add("#resolution = :resolution", ":resolution", text(verb.as_str()));
    set.add("#resolvedBy = :by", ":by", text(&operator.by));
    set.add("#resolvedReason = :reason", ":reason", text(&operator.reason));
    set.add("#resolvedAt = :resolvedAt", ":resolvedAt", moment(operator.at));
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

    fn cause(&mut self, class: Class, cause: &str) {
        self.add("#class = :class", ":class", text(class.as_str()));
        self.add("#cause = :cause", ":cause", text(cause));
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
        Request::new(Change::Update { key: item::token_key(key), expression }, Some(condition), self.values)
    }
}

/// The attribute names that an expression uses. Each is written as `#` and its own name, which
/// avoids DynamoDB's reserved words.
pub(super) fn names(expression: &str) -> impl Iterator<Item = (String, String)> + '_ {
    memchr_iter(b'#', expression.as_bytes()).map(|start| {
        let name = &expression[start + 1..];
        let length = name.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(name.len());
        (expression[start..=start + length].to_owned(), name[..length].to_owned())
    })
}
