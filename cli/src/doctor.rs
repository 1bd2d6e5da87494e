//! `locker doctor`: checks tables, permissions and clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use chrono::{DateTime, Utc};
use locker::{Begun, EndError, Error, TableCheck};
use serde_json::json;

use crate::connection::Connection;
use crate::exit::{Exit, first_line};
use crate::options::Output;
use crate::output;

/// The result of one check.
struct Finding {
    what: &'static str,
    /// The problems, with what to change. Empty if there are none.
    problems: Vec<String>,
}

impl Finding {
    fn is_absent(&self) -> bool {
        self.problems.iter().any(|problem| problem.contains("does not exist"))
    }
}

pub(crate) async fn run(connection: &Connection, format: Output) -> Result<Exit, Exit> {
    let checked_table = locker::check_table(&connection.client, &connection.table).await;
    // Each further check would wait for its time and say the same.
    if let Err(error @ Error::Unavailable { .. }) = &checked_table {
        let cause = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
        let said = format!(
            "DynamoDB cannot be reached, so nothing else was checked: {}; check the network, --region and \
             --endpoint-url",
            first_line(&cause)
        );
        return Err(Exit::say(Exit::code_of_error(error), said));
    }
    if let Err(error) = &checked_table
        && error.to_string().contains("no credentials were found")
    {
        return Err(Exit::say(Exit::code_of_error(error), error.to_string()));
    }
    let mut findings = vec![found("table, index and TTL", checked_table)];
    // Without the table, each further check would fail for that reason.
    if !findings[0].is_absent() {
        findings.push(checked("reading (GetItem)", connection.locker.get("locker/doctor").await.map(|_| ())));
        findings.push(checked(
            "listing (Query on byStatus)",
            connection.locker.overdue().limit(1).fetch().await.map(|_| ()),
        ));
        findings.push(checked("writing (PutItem, UpdateItem, DeleteItem)", write(connection).await));
        findings.push(clock(connection).await);
    }
    findings.extend(workflows(connection).await?);
    match format {
        Output::Json => {
            let findings: Vec<_> = findings
                .iter()
                .map(|finding| json!({ "what": finding.what, "problems": finding.problems }))
                .collect();
            output::json(&json!({ "table": connection.table, "findings": findings }));
        }
        Output::Table => findings.iter().for_each(print),
    }
    match findings.iter().map(|finding| finding.problems.len()).sum() {
        0 => Ok(Exit::say(Exit::OK, "no problems found")),
        1 => Ok(Exit::say(Exit::PROBLEMS, "1 problem found")),
        problems => Ok(Exit::say(Exit::PROBLEMS, format!("{problems} problems found"))),
    }
}

fn print(finding: &Finding) {
    let verdict = if finding.problems.is_empty() { "ok     " } else { "WRONG  " };
    output::print(format_args!("{verdict}{}", finding.what));
    for problem in &finding.problems {
        output::print(format_args!("       {problem}"));
    }
}

fn checked(what: &'static str, result: Result<(), Error>) -> Finding {
    Finding { what, problems: result.err().map(|error| error.to_string()).into_iter().collect() }
}

fn found(what: &'static str, check: Result<TableCheck, Error>) -> Finding {
    Finding { what, problems: check.map_or_else(|error| vec![error.to_string()], |check| check.problems) }
}

/// Checks the table of workflows, if it was named.
async fn workflows(connection: &Connection) -> Result<Vec<Finding>, Exit> {
    let (Some(table), false) = (&connection.workflows, connection.is_embedded) else { return Ok(Vec::new()) };
    let workflows = connection.workflows()?;
    let check = locker::workflow::check_table(&connection.client, table).await;
    let mut findings = vec![found("workflows: table, index and TTL", check)];
    if !findings[0].is_absent() {
        let read = workflows.get("locker/doctor", 1).await.map(|_| ());
        findings.push(checked("workflows: reading (Query)", read));
        let listed = workflows.list(locker::workflow::List::Quarantine).limit(1).fetch().await.map(|_| ());
        findings.push(checked("workflows: listing (Query on byStatus)", listed));
    }
    Ok(findings)
}

/// Begins, extends and releases a token of its own. The key is new each time, and due late, so that a token that a
/// missing permission leaves behind raises no alarm.
async fn write(connection: &Connection) -> Result<(), Error> {
    let hours = |hours: u64| Duration::from_secs(hours * 60 * 60);
    let unique = format!("{}-{}", output::now().timestamp_micros(), std::process::id());
    let token = connection.locker.token(("locker/doctor", unique)).expect_within(hours(24));
    let Begun::Acquired(lock) = token.begin().await? else { return Ok(()) };
    match lock.extend(hours(25)).await {
        Ok(lock) => lock.release().await.map_err(EndError::into_error),
        Err(end) => {
            let (error, lock) = end.into_parts();
            if let Some(lock) = lock {
                let _ = lock.release().await;
            }
            Err(error)
        }
    }
}

/// Compares the clock of this machine with that of DynamoDB.
async fn clock(connection: &Connection) -> Finding {
    if connection.is_embedded {
        // The engine runs in this process, so there is only one clock.
        return Finding { what: "clock", problems: Vec::new() };
    }
    let date = Date::default();
    let before = output::now();
    let request = connection.client.describe_table().table_name(&connection.table).customize();
    let _ = request.interceptor(date.clone()).send().await;
    let after = output::now();
    let problems = match date.get() {
        None => vec!["the clock could not be checked: the reply of DynamoDB has no date".to_owned()],
        Some(theirs) => {
            // The header has whole seconds, and the reply takes a while to arrive.
            let early = before - theirs - chrono::TimeDelta::seconds(1);
            let late = theirs - after;
            let apart = early.max(late).to_std().unwrap_or_default();
            let allowed = locker::Settings::default().max_clock_skew;
            let apart_text = output::rough(apart);
            (apart > allowed)
                .then(|| format!("the clock of this machine is off by {apart_text}, and {allowed:?} are allowed; correct it, or raise Settings::max_clock_skew"))
                .into_iter()
                .collect()
        }
    };
    Finding { what: "clock", problems }
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
