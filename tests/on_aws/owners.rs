//! An owner that is killed, and an owner that is frozen for longer than its work was expected to
//! take. Both are processes of this machine in the place of a function.

use std::process::ExitCode;
use std::time::Duration;

use locker::{Begun, Error, Failure, RunError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use crate::account::{self, Account};
use crate::keys::{go, line, role};
use crate::meter::Meter;
use crate::row::Row;

const EXPECTED: Duration = Duration::from_secs(2);

/// The answer of a caller that may take over.
async fn taken_over(account: &Account, key: &str) -> Result<String, String> {
    let locker = account.locker();
    let token = locker.token(key).expect_within(Duration::from_secs(60)).take_over_after(Duration::ZERO);
    let ran =
        token.run(async |attempt| Ok::<_, Failure>(format!("taken over: {}", attempt.took_over()))).await;
    match ran {
        Ok(receipt) => Ok(receipt.into_inner()),
        Err(RunError::InProgress(_)) => Err("in progress".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn stored(account: &Account, key: &str) -> Result<String, String> {
    match account.locker().token(key).begin().await {
        Ok(Begun::Completed(replay)) => replay.result().map_err(|error| error.to_string()),
        other => Err(format!("{other:?}")),
    }
}

fn send(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id().expect("it runs")).expect("an id");
    kill(Pid::from_raw(id), signal).expect("a signal");
}

async fn holding(account: &Account, key: &str) -> Child {
    let mut child = role(&["holder", &account.run.table, key]);
    assert_eq!(line(&mut child).await, "held");
    child
}

pub(crate) async fn run(account: &Account) {
    let mut killed = holding(account, "on-aws/killed").await;
    killed.kill().await.expect("killed");
    let early = taken_over(account, "on-aws/killed").await;
    let mut frozen = holding(account, "on-aws/frozen").await;
    send(&frozen, Signal::SIGSTOP);
    // The process ends its token as soon as it wakes up.
    go(&mut frozen).await;
    tokio::time::sleep(EXPECTED + Duration::from_secs(1)).await;

    let late = taken_over(account, "on-aws/killed").await;
    Row::new("an owner is killed")
        .expected("in progress; after 2 s it is taken over")
        .seen(format!("{}; {}", shown(&early), shown(&late)))
        .is(early == Err("in progress".to_owned()) && late == Ok("taken over: true".to_owned()));

    let taken = taken_over(account, "on-aws/frozen").await;
    send(&frozen, Signal::SIGCONT);
    let woken = line(&mut frozen).await;
    let kept = stored(account, "on-aws/frozen").await;
    Row::new("an owner is frozen, and wakes up after the takeover")
        .expected("taken over: true; LostOwnership; the answer stays")
        .seen(format!("{}; {woken}; {}", shown(&taken), shown(&kept)))
        .is(taken == Ok("taken over: true".to_owned()) && woken == "LostOwnership" && kept == taken);
}

fn shown(answer: &Result<String, String>) -> &str {
    answer.as_ref().unwrap_or_else(|error| error)
}

/// Begins the key, and completes it after a line of standard input.
pub(crate) async fn holder(table: &str, key: &str) -> ExitCode {
    let locker = account::locker(&account::client(&Meter::default()), table);
    let Ok(Begun::Acquired(lock)) = locker.token(key).expect_within(EXPECTED).begin().await else {
        return ExitCode::FAILURE;
    };
    println!("held");
    let mut end = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut end).await.expect("a line");
    match lock.complete("too late").await {
        Ok(()) => println!("completed"),
        Err(error) => match error.into_error() {
            Error::LostOwnership { .. } => println!("LostOwnership"),
            other => println!("{other}"),
        },
    }
    ExitCode::SUCCESS
}
