//! `locker release` and `locker resolve`: one conditional write, guarded by what was just shown.

use locker::{Error, Person, Record};
use serde_json::Value;

use crate::args::Change;
use crate::connect::Connection;
use crate::exit::Exit;
use crate::{output, show};

pub(crate) async fn release(connection: &Connection, change: &Change) -> Result<Exit, Exit> {
    let person = person(change.person.as_deref(), &change.reason)?;
    let record = show::read(connection, &change.key).await?;
    describe(&record);
    done(change, "released", connection.locker.release(&record, &person).await)
}

pub(crate) async fn resolve(
    connection: &Connection,
    change: &Change,
    result: Option<&str>,
) -> Result<Exit, Exit> {
    let person = person(change.person.as_deref(), &change.reason)?;
    let result = result.map_or(Ok(Value::Null), json)?;
    let record = show::read(connection, &change.key).await?;
    describe(&record);
    done(change, "resolved", connection.locker.resolve(&record, &person, &result).await)
}

/// Who acts, and why.
pub(crate) fn person(name: Option<&str>, reason: &str) -> Result<Person, Exit> {
    Ok(Person::new(name.map_or_else(output::person, str::to_owned), reason)?)
}

/// A result as it was typed.
pub(crate) fn json(text: &str) -> Result<Value, Exit> {
    serde_json::from_str(text).map_err(|error| {
        Exit::say(
            Exit::USAGE,
            format!("--result is not JSON: {error}; a text needs quotes, as in --result '\"sent\"'"),
        )
    })
}

/// Say what the decision rests on.
fn describe(record: &Record) {
    let since = output::relative(record.created(), output::now());
    let by = output::plain(record.locked_by());
    eprintln!("locker: {} is {}, by {by}, begun {since}", record.key().as_str(), record.state().as_str());
}

fn done(change: &Change, verb: &str, result: Result<(), Error>) -> Result<Exit, Exit> {
    match result {
        Ok(()) => Ok(Exit::say(Exit::OK, format!("{verb} {}", change.key))),
        Err(Error::Changed { record, .. }) => {
            let now = record.map_or("gone", |record| record.state().as_str());
            let key = &change.key;
            Err(Exit::say(
                Exit::CHANGED,
                format!("{key} changed meanwhile and is now {now}; nothing was {verb}, look again"),
            ))
        }
        Err(error) => Err(error.into()),
    }
}
