//! An operator's page: the groups of records that need an operator, and one act on a whole group.
//!
//! Run it with `cargo run -p locker-examples --bin console`. The command `locker` has the same
//! verbs.

use std::ops::ControlFlow;

use lock_token_testing::Embedded;
use locker::operator::{
    Act, Acted, ApplyOptions, ApplyReport, AuditTrail, Check, Choice, Console, Done, Filter, Group, Health,
    IndexEntry, LastRun, LeftOut, Listing, Match, Need, Part, Plan, Planned, Status, Subject, TableHealth,
    Timeline, TimelineEvent, Verb,
};
use locker::{BoxError, Failure, Key, Locker, Operator};

/// Creates three held charges, as a service leaves them if the bank asks for a check.
async fn held_back(locker: &Locker) -> Result<(), BoxError> {
    for order in 7..10 {
        let charge =
            async |_| Err::<String, _>(Failure::needs_operator("the bank asks for a check".to_owned()));
        let key = Key::new("order/charge", order)?;
        assert!(locker.token(key).owner("api").run(charge).await.is_err(), "it is held");
    }
    Ok(())
}

fn print_status(status: &Status) {
    let Status { groups, runs, finished, .. } = status;
    for Group { need, subject, count, cause, sample, .. } in groups {
        let of = if matches!(subject, Subject::Tokens) { "tokens" } else { "other items" };
        println!("{count} {of}: {need}, {cause}; the first is {sample}");
    }
    for LastRun { machine, .. } in runs.iter().filter(|run| run.is_silent) {
        println!("the {machine} is late");
    }
    println!("everything was read: {finished}");
}

fn print_list(listing: &Listing) {
    for Match { work, need, entry, .. } in &listing.matches {
        let owner = match entry {
            Some(IndexEntry::Token(token)) => token.locked_by.as_deref(),
            _ => None,
        };
        let need = need.map_or("in progress", Need::as_str);
        println!("{}: {need}, by {}", work.to_text(), owner.unwrap_or("-"));
    }
}

fn print_timeline(timeline: &Timeline) {
    for TimelineEvent { what, cause, .. } in &timeline.events {
        println!("{}: {}", what.as_str(), cause.as_deref().unwrap_or("-"));
    }
    for Choice { verb, .. } in &timeline.choices {
        println!("possible: {verb}");
    }
}

fn print_plan(plan: &Plan) {
    for Planned { work, .. } in &plan.items {
        println!("{} {}", plan.act.verb, work.to_text());
    }
    for LeftOut { work, because, .. } in &plan.left_out {
        println!("not {}: {because}", work.to_text());
    }
}

fn print_health(health: &Health) {
    let Some(TableHealth { checks, .. }) = &health.tokens else { return };
    for Check { what, problems, .. } in checks {
        println!("{what}: {}", if problems.is_empty() { "good" } else { "see below" });
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let dynamodb = Embedded::memory()?.client();
    locker::create_table(&dynamodb, "locks").await?;
    let locker = Locker::new(&dynamodb, "locks")?;
    held_back(&locker).await?;

    let console = Console::new().tokens(&locker);
    let status = console.status().await?;
    print_status(&status);
    let group = status.groups.first().ok_or("nothing needs an operator")?;
    let filter = Filter::new().group(&group.id);
    print_list(&console.list(&filter).await?);
    print_timeline(&console.timeline(&group.sample).await?);

    // The bank has checked the charges. Each caller may charge again under the same idempotency
    // key.
    let ada = Operator::new("ada", "the bank has checked all three")?;
    let plan = console.plan(filter, Act::release(), &ada).await?;
    print_plan(&plan);
    let shown = |Acted { work, done, .. }: &Acted| {
        println!("{}: {done:?}", work.to_text());
        if matches!(done, Done::Failed | Done::Unknown) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let report: ApplyReport = console.apply(&plan, &ApplyOptions::default(), shown).await?;
    println!("{} released, no record is left: {}", report.done, report.is_finished());

    let AuditTrail { acts, .. } = console.audit(plan.made).await?;
    println!("{} acts in the audit", acts.len());
    for part in console.get("order/charge/7").await? {
        if let Part::Token(record) = part {
            println!("{}", record.state().as_str());
        }
    }
    assert!(plan.act.verb == Verb::Release, "{plan:?}");
    print_health(&console.health().await?);
    Ok(())
}
