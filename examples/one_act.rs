//! An act of an operator on one record: its effect first, and then the act.
//!
//! Run it with `cargo run -p locker-examples --bin one_act`. The command `locker` has the same
//! protocol: without `--seen` a dry run, and with it the act.

use lock_token_testing::Embedded;
use locker::operator::{About, Act, Console, Meaning, Part, Refusal, Unless};
use locker::{Begun, BoxError, Form, Locker, Operator, Record};

/// A charge whose reply was lost.
async fn in_doubt(locker: &Locker) -> Result<(), BoxError> {
    let Begun::Acquired(lock) = locker.token("order/charge/7").form(Form::of::<String>()).begin().await?
    else {
        return Err("the table is new".into());
    };
    lock.leave_in_doubt("no reply from the bank").await;
    Ok(())
}

/// Prints the effect of an act, or the reason why it is refused.
fn print_answer(verb: &str, answer: &Result<Meaning, Refusal>) {
    match answer {
        Ok(Meaning { effect, unknown, .. }) => println!("{verb}: {effect} {unknown:?}"),
        Err(Refusal { because, about: About::Result, .. }) => println!("{verb}: another result: {because}"),
        Err(Refusal { because, unless: Some(Unless::Running), .. }) => println!("{verb}: a risk: {because}"),
        Err(Refusal { because, .. }) => println!("{verb}: not possible: {because}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let locker = Locker::new(&dynamodb, "locks")?;
    in_doubt(&locker).await?;

    // A process table shows whether the work of an owner is running. Here it has ended.
    let console = Console::new().tokens(&locker).running(|_: &Record| Some(false));
    let part = console.get("order/charge/7").await?.pop().ok_or("there is no such token")?;
    let ada = Operator::new("ada", "the bank has the charge")?;
    print_answer("close", &console.check(&part, &Act::close()));
    print_answer("resolve", &console.check(&part, &Act::resolve(7.into())));
    let act = Act::resolve("ch_7".into());
    print_answer("resolve", &console.check(&part, &act));
    let id = act.id(&part.revision(), &ada);

    // The operator confirms the id. Another reason, another result or a newer record has another
    // id.
    let now = console.get("order/charge/7").await?.pop().ok_or("the token is gone")?;
    assert!(act.id(&now.revision(), &ada) == id, "the record has changed since it was shown");
    println!("resolved: {:?}", console.act(&now, &act, &ada).await?);
    if let Some(Part::Token(record)) = console.get("order/charge/7").await?.pop() {
        println!("it is {}", record.state().as_str());
    }
    Ok(())
}
