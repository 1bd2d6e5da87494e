//! The table: write units, the lag of the index, conflicts of transactions, and expiry.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use futures_util::future::join_all;
use locker::workflow::{Flow, Outcome, Stop, Workflow};
use locker::{Begun, Failure, Retention};
use tokio::time::Instant;

use crate::account::{self, Account};
use crate::meter::Meter;
use crate::row::Row;

/// The chapter with the documented units.
const COSTS: &str = include_str!("../../docs/book/src/costs.md");

/// The documented write units of an operation.
fn documented(operation: &str) -> f64 {
    let row = COSTS.lines().find(|line| line.contains(operation)).expect("a row of the chapter");
    row.split('|').nth(3).expect("a column").trim().parse().expect("a number")
}

/// The units of a run and of its two requests.
pub(crate) async fn units(account: &Account) {
    let meter = Meter::default();
    let locker = account::locker(&account::client(&meter), &account.run.table);
    let Ok(Begun::Acquired(lock)) = locker.token("on-aws/units").begin().await else {
        Row::new("write units").expected("the token is acquired").seen("it is not").is(false);
        return;
    };
    let begin = meter.get("writeUnits");
    let completed = lock.complete("done").await.is_ok();
    let complete = meter.get("writeUnits") - begin;
    account.meter.add_all(&meter.counts());
    let expected = [documented("`begin`: acquired"), documented("`complete`, small answer")];
    let row = Row::new("write units of begin and complete")
        .expected(format!("{} and {}, as in costs.md", expected[0], expected[1]))
        .seen(format!("{begin} and {complete}"));
    if account.run.moto {
        row.not_on_moto();
    } else {
        row.is(completed && [begin, complete] == expected);
    }
}

/// Tokens in progress, and how late the index shows each.
pub(crate) async fn index(account: &Account) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let (locker, count) = (account.locker(), if account.run.moto { 5 } else { 50 });
    let mut lags = Vec::new();
    for number in 0..count {
        let key = format!("on-aws/listed/{number}");
        let Ok(Begun::Acquired(lock)) = locker.token(key.as_str()).begin().await else { continue };
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let listed = locker.in_progress().fetch().await;
            if listed.is_ok_and(|page| page.items.iter().any(|token| token.token == key)) {
                lags.push(began.elapsed().as_millis());
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(lock.complete("done").await);
    }
    lags.sort_unstable();
    Row::new("tokens in progress are listed")
        .expected(format!("{count} within {} s", PATIENCE.as_secs()))
        .seen(format!("{}", lags.len()))
        .is(lags.len() == count);
    let (median, most) = (lags.get(lags.len() / 2).copied(), lags.last().copied());
    let row = Row::new("lag of the index, one query included")
        .expected("maximum below 10,000 ms")
        .seen(format!("median {} ms, maximum {} ms", median.unwrap_or_default(), most.unwrap_or_default()));
    if account.run.moto {
        row.not_on_moto();
    } else {
        row.is(most.is_some_and(|most| most < 10_000));
    }
}

/// Adds 1 to a row that each workflow shares.
#[derive(Clone)]
struct Adds(String);

impl Workflow for Adds {
    const NAME: &'static str = "adds";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let add = Update::builder()
            .table_name(&self.0)
            .key("id", AttributeValue::S("counter".to_owned()))
            .update_expression("ADD seen :one")
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .build()
            .expect("an update");
        flow.atomic("add").update(add).commit(&()).await
    }
}

/// Transactions on one row at the same time.
pub(crate) async fn conflicts(account: &Account) {
    let count: u32 = if account.run.moto { 20 } else { 100 };
    let workflows = account.workflows().build().expect("workflows");
    let code = Adds(account.run.rows.clone());
    let (before, throttled) = (account.meter.get("conflicts"), account.meter.get("throttled"));
    // A caller under contention may leave its workflow to the next caller.
    let (mut waiting, began) = ((0..count).collect::<Vec<_>>(), Instant::now());
    let mut rounds = 0;
    while !waiting.is_empty() && began.elapsed() < Duration::from_secs(120) {
        rounds += 1;
        let started =
            waiting.iter().map(|number| workflows.start(&code, ("on-aws/adds", *number), &()).run());
        let outcomes = join_all(started).await;
        let unfinished = waiting.iter().zip(outcomes);
        waiting = unfinished
            .filter_map(|(number, outcome)| {
                (!matches!(outcome, Ok(Outcome::Completed(_)))).then_some(*number)
            })
            .collect();
        if !waiting.is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    let row = account.client.get_item().table_name(&account.run.rows).consistent_read(true);
    let row = row.key("id", AttributeValue::S("counter".to_owned())).send().await;
    let seen = row.ok().and_then(|row| row.item?.get("seen")?.as_n().ok().cloned()).unwrap_or_default();
    Row::new(format!("{count} transactions add 1 to one row at the same time"))
        .expected(format!("{count} workflows complete, the row is {count}"))
        .seen(format!("{} complete in {rounds} rounds, the row is {seen}", count as usize - waiting.len()))
        .is(waiting.is_empty() && seen == count.to_string());
    let conflicts = account.meter.get("conflicts") - before;
    let throttled = account.meter.get("throttled") - throttled;
    let row = Row::new("TransactionConflict")
        .expected("more than 0, each sent again")
        .seen(format!("{conflicts}, and {throttled} throttled requests"));
    if account.run.moto {
        row.not_on_moto();
    } else {
        row.is(conflicts > 0.0);
    }
}

/// Two tokens that expire after a minute, and when they were completed.
#[derive(Debug)]
pub(crate) struct Expiring(Instant);

const DELETED: &str = "on-aws/expiring/deleted";
const AGAIN: &str = "on-aws/expiring/again";
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) async fn complete_for_a_minute(account: &Account) -> Expiring {
    let locker = account.locker();
    for key in [DELETED, AGAIN] {
        let ran = locker
            .token(key)
            .retention(Retention::For(MINUTE))
            .run(async |_| Ok::<_, Failure>("first".to_owned()))
            .await;
        assert!(ran.is_ok(), "{ran:?}");
    }
    Expiring(Instant::now())
}

/// The key is free after the expiry, whether the item was deleted or not. Then waits for the
/// deletion.
pub(crate) async fn expiry(account: &Account, expiring: &Expiring, wait: Duration) {
    let free = Row::new("an expired key is free").expected("the work runs again");
    let deleted = Row::new("TTL deletes the expired token")
        .expected(format!("waits for {} min; AWS: within a few days", wait.as_secs() / 60));
    if account.run.moto {
        free.not_on_moto();
        deleted.not_on_moto();
        return;
    }
    tokio::time::sleep((MINUTE + Duration::from_secs(10)).saturating_sub(expiring.0.elapsed())).await;
    let again = account.locker().token(AGAIN).run(async |_| Ok::<_, Failure>("again".to_owned())).await;
    let again = again.map_or_else(|error| error.to_string(), |receipt| receipt.into_inner());
    free.seen(again.clone()).is(again == "again");
    while expiring.0.elapsed() < wait {
        let item = account.client.get_item().table_name(&account.run.table).consistent_read(true);
        let item = item.key("lockToken", AttributeValue::S(DELETED.to_owned())).send().await;
        if item.is_ok_and(|item| item.item.is_none()) {
            let after = expiring.0.elapsed().saturating_sub(MINUTE);
            deleted.seen(format!("deleted {} s after its expiry", after.as_secs())).is(true);
            return;
        }
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
    deleted.seen(format!("still there after {} s", expiring.0.elapsed().as_secs())).not_judged();
}
