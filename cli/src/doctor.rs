//! `locker doctor`: checks tables, permissions and clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, TimeDelta, Utc};
use locker::operator::{Check, Console, TableHealth};
use locker::{Begun, EndError, Error, Record};
use serde_json::json;

use crate::connection::Connection;
use crate::exit::{Exit, first_line};
use crate::hint::Hint;
use crate::options::Output;
use crate::output;

pub(crate) async fn run(connection: &Connection, format: Output) -> Result<Exit, Exit> {
    let mut console = Console::new().tokens(&connection.locker);
    // An embedded table of workflows is made when it is first used.
    if connection.workflows.is_some() && !connection.is_embedded {
        console = console.workflows(&connection.workflows()?);
    }
    let health = console.health().await.map_err(unreachable)?;
    let mut checks: Vec<_> = health.tokens.iter().flat_map(|table| Finding::all_of("", table)).collect();
    // Without the table, each further check would fail for that reason.
    if !health.tokens.is_some_and(|table| table.is_absent) {
        let problems = write(connection).await.unwrap_or_else(|error| vec![error.to_string()]);
        checks.push(Finding { what: "writing (PutItem, UpdateItem, DeleteItem)".to_owned(), problems });
        checks.push(Finding { what: "clock".to_owned(), problems: clock(connection).await });
    }
    checks.extend(health.workflows.iter().flat_map(|table| Finding::all_of("workflows: ", table)));
    match format {
        Output::Json => {
            let findings: Vec<_> = checks
                .iter()
                .map(|finding| json!({ "what": finding.what, "problems": finding.problems }))
                .collect();
            output::json(&json!({ "table": connection.table, "findings": findings }));
        }
        Output::Table => checks.iter().for_each(print),
    }
    let (code, said) = match checks.iter().map(|finding| finding.problems.len()).sum() {
        0 => (Exit::OK, "no problems found".to_owned()),
        1 => (Exit::PROBLEMS, "1 problem found".to_owned()),
        problems => (Exit::PROBLEMS, format!("{problems} problems found")),
    };
    Ok(connection.with_unread(Exit::say(code, said)))
}

/// The result of one check.
struct Finding {
    what: String,
    /// The problems, with what to change. Empty if there are none.
    problems: Vec<String>,
}

impl Finding {
    fn all_of(name: &'static str, table: &TableHealth) -> impl Iterator<Item = Self> {
        let of = move |check: &Check| (format!("{name}{}", check.what), check.problems.clone());
        table.checks.iter().map(of).map(|(what, problems)| Self { what, problems })
    }
}

/// Each further check would wait for its time and fail for the same reason.
fn unreachable(error: Error) -> Exit {
    if !matches!(error, Error::Unavailable { .. }) {
        return error.into();
    }
    let cause = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
    let cause = first_line(&cause);
    let said = format!(
        "DynamoDB cannot be reached, so nothing else was checked: {cause}; check the network, --region and --endpoint-url"
    );
    Exit::say(Exit::code_of_error(&error), said)
}

fn print(finding: &Finding) {
    let verdict = if finding.problems.is_empty() { "ok     " } else { "WRONG  " };
    output::print(format_args!("{verdict}{}", finding.what));
    for problem in &finding.problems {
        output::print(format_args!("       {problem}"));
    }
}

/// Begins, extends and releases a token, and returns the problems of the engine. Each call uses a
/// new key and a late due time. So a token that cannot be released, because a permission is
/// missing, raises no alarm. The request is from after any restore (`--restored`). Otherwise a
/// restored table would hold the token for an operator, and nothing would be checked.
async fn write(connection: &Connection) -> Result<Vec<String>, Error> {
    let hours = |hours: u64| Duration::from_secs(hours * 60 * 60);
    let unique = format!("{}-{}", output::now().timestamp_micros(), std::process::id());
    let token = connection.locker.token(("locker/doctor", unique)).expect_within(hours(24));
    let taken = |record: &Record| Ok(vec![not_acquired(connection, record)]);
    let lock = match token.requested_at(output::now() + hours(1)).begin().await? {
        Begun::Acquired(lock) => lock,
        Begun::Completed(replay) => return taken(replay.record()),
        Begun::Failed(failure) | Begun::Held(failure) => return taken(failure.record()),
        Begun::InProgress(holder) => return taken(holder.record()),
        Begun::Mismatch(record) | Begun::Restored(record) => return taken(&record),
    };
    match lock.extend(hours(25)).await {
        Ok(lock) => {
            let problems = refuse(connection, lock.attempt().key().as_str()).await;
            lock.release().await.map_err(EndError::into_error)?;
            Ok(problems.into_iter().collect())
        }
        Err(end) => {
            let (error, lock) = end.into_parts();
            if let Some(lock) = lock {
                let _ = lock.release().await;
            }
            Err(error)
        }
    }
}

/// The problem if a token under a new key is not acquired.
fn not_acquired(connection: &Connection, record: &Record) -> String {
    let (show, state) = (Hint::Show(record.key().as_str()).on(connection), record.state().as_str());
    format!(
        "the token of a new key is {state}, so UpdateItem and DeleteItem were not checked; look at it with `{show}`"
    )
}

/// Sends a write whose condition fails, and checks that the refusal contains the item. After a lost
/// reply, a call needs this item to recognise its own write.
async fn refuse(connection: &Connection, key: &str) -> Option<String> {
    let delete = connection.client.delete_item().table_name(&connection.table);
    let refused = delete
        .key("lockToken", AttributeValue::S(key.to_owned()))
        .condition_expression("attribute_not_exists(lockToken)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await;
    match refused {
        Err(SdkError::ServiceError(error)) => match error.into_err() {
            DeleteItemError::ConditionalCheckFailedException(refusal) if refusal.item.is_none() => Some(
                "the engine refuses a write without returning the item (ReturnValuesOnConditionCheckFailure), so after a lost reply the outcome of a call is unknown; use a newer version of the engine".to_owned(),
            ),
            _ => None,
        },
        _ => None,
    }
}

/// Compares the clock of this machine with that of DynamoDB.
async fn clock(connection: &Connection) -> Vec<String> {
    if connection.is_embedded {
        // The engine runs in this process, so there is only one clock.
        return Vec::new();
    }
    let date = Date::default();
    let before = output::now();
    let request = connection.client.describe_table().table_name(&connection.table).customize();
    let _ = request.interceptor(date.clone()).send().await;
    let after = output::now();
    match date.get() {
        None => vec!["the clock could not be checked: the reply of DynamoDB has no date".to_owned()],
        Some(theirs) => {
            let apart = apart(theirs, before, after);
            let allowed = locker::Settings::default().max_clock_skew;
            let apart_text = output::rough(apart);
            (apart > allowed)
                .then(|| format!("the clock of this machine is off by {apart_text}, and {allowed:?} are allowed; correct it, or raise Settings::max_clock_skew"))
                .into_iter()
                .collect()
        }
    }
}

/// Returns the least difference between the clocks. `before` and `after`: the times of this machine
/// around the request.
fn apart(theirs: DateTime<Utc>, before: DateTime<Utc>, after: DateTime<Utc>) -> Duration {
    // The header has whole seconds, and the reply takes a while to arrive.
    let ahead = before - theirs - TimeDelta::seconds(1);
    let behind = theirs - after;
    ahead.max(behind).to_std().unwrap_or_default()
}

/// Keeps the `Date` header of a reply.
#[derive(Debug, Clone, Default)]
struct Date(Arc<Mutex<Option<String>>>);

impl Date {
    fn get(&self) -> Option<DateTime<Utc>> {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        DateTime::parse_from_rfc2822(&text).ok().map(|date| date.with_timezone(&Utc))
    }
}

impl Intercept for Date {
    fn name(&self) -> &'static str {
        "Date"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date").map(str::to_owned);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = date;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_is_ahead_or_behind_is_off() {
        let at = |seconds: i64| DateTime::from_timestamp(1_000_000 + seconds, 0).unwrap();
        for (theirs, off) in [(0, 0), (1, 0), (2, 0), (-1, 0), (-3600, 3599), (3602, 3600)] {
            assert_eq!(apart(at(theirs), at(0), at(2)).as_secs(), off, "{theirs}");
        }
    }
}
