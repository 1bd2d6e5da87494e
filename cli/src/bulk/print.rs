//! A plan as text: its records, their causes, the effect, and the records that are left out.

use std::collections::BTreeMap;

use locker::Work;
use locker::operator::{ApplyOptions, Plan};

use crate::output;

/// The largest number of planned records, and of left-out records, that are printed.
const SHOWN: usize = 10;
/// The largest number of distinct causes that are printed as stored.
const CAUSES: usize = 50;

/// Prints the records of a plan, and the effect on each.
pub(super) fn plan(plan: &Plan, options: &ApplyOptions) {
    let now = output::now();
    let step = plan.act.step.as_ref().map(|step| format!(" step {step}")).unwrap_or_default();
    output::print(format_args!(
        "{}{step}: {} of {} found, {} left out; at least {} requests and {} write units",
        plan.act.verb,
        plan.items.len(),
        plan.found,
        plan.left_out.len(),
        plan.requests(),
        plan.write_units(),
    ));
    output::print(format_args!("found by: {}", plan.filter));
    output::print(format_args!("applied at: {}", pace(options)));
    if !plan.items.is_empty() {
        records(plan, now);
        print_causes(plan);
        print_effects(plan);
    }
    left_out(plan);
    let more = plan.found.saturating_sub(plan.items.len() + plan.left_out.len());
    if more > 0 {
        output::print("");
        output::print(format_args!("{more} more fit and are not in the plan; raise --limit."));
    }
    if !plan.complete {
        output::print("");
        output::print("More may fit: the lists were not read to their end.");
    }
}

/// The rate, and the conditions that stop the run.
pub(crate) fn pace(options: &ApplyOptions) -> String {
    let mut pace = format!("{} per second", options.per_second);
    if options.canary > 0 {
        pace.push_str(&format!("; canary {}", options.canary));
    }
    if options.breaker > 0 {
        pace.push_str(&format!("; breaker {}", options.breaker));
    }
    pace
}

fn records(plan: &Plan, now: chrono::DateTime<chrono::Utc>) {
    let rows = plan.items.iter().take(SHOWN).map(|item| {
        [
            name(&item.work),
            item.since.map_or_else(|| "?".to_owned(), |since| output::relative(since, now)),
            item.cause.clone().unwrap_or_default(),
        ]
    });
    output::print("");
    output::print(output::table(Some(["WOULD BE CHANGED", "SINCE", "CAUSE"]), rows));
    if let Some(last) = plan.items.last().filter(|_| plan.items.len() > SHOWN) {
        let newest = last.since.map_or_else(|| "?".to_owned(), |since| output::relative(since, now));
        let more = plan.items.len() - SHOWN;
        output::print(format_args!("and {more} more, the newest {} since {newest}", name(&last.work)));
    }
}

/// The name of a record. A message has the id that `locker ls messages` prints.
pub(crate) fn name(work: &Work) -> String {
    match work {
        Work::Message { .. } => format!("message {}", work.short_id()),
        _ => work.to_text(),
    }
}

/// Each distinct cause with its count. If there are too many, each kind of cause, without ids.
pub(crate) fn causes(plan: &Plan) -> Vec<(String, usize)> {
    let causes = plan.causes();
    if causes.len() > CAUSES { plan.causes_without_ids() } else { causes }
}

fn print_causes(plan: &Plan) {
    output::print("");
    output::print("Causes:");
    for (cause, count) in &causes(plan) {
        let cause = if cause.is_empty() { "none is known" } else { cause };
        output::print(format_args!("  {count}  {cause}"));
    }
}

/// Each distinct effect, and each fact that is unknown, with its count.
pub(crate) fn effects(plan: &Plan) -> (BTreeMap<&str, usize>, BTreeMap<&str, usize>) {
    let (mut effects, mut unknown): (BTreeMap<&str, usize>, BTreeMap<&str, usize>) = Default::default();
    plan.items.iter().for_each(|item| *effects.entry(shape(&item.effect)).or_default() += 1);
    for fact in plan.items.iter().flat_map(|item| &item.unknown) {
        *unknown.entry(fact).or_default() += 1;
    }
    (effects, unknown)
}

fn print_effects(plan: &Plan) {
    output::print("");
    output::print("Each of them:");
    let (effects, unknown) = effects(plan);
    for (effect, count) in effects {
        output::print(format_args!("  {count}  {}", effect));
    }
    for (fact, count) in unknown {
        output::print(format_args!("  {count}  unknown: {}", fact));
    }
}

/// Prints the records that are left out: the first of them by name, the others as a count for each
/// reason.
fn left_out(plan: &Plan) {
    for it in plan.left_out.iter().take(SHOWN) {
        let (work, because) = (name(&it.work), &it.because);
        output::print(format_args!("  left out: {work}: {because}"));
    }
    let mut more: BTreeMap<&str, usize> = BTreeMap::new();
    plan.left_out.iter().skip(SHOWN).for_each(|it| *more.entry(&it.because).or_default() += 1);
    for (because, count) in more {
        output::print(format_args!("  {count} more left out: {}", because));
    }
}

/// Returns an effect without its key, because the key differs for each record.
fn shape(effect: &str) -> &str {
    effect.split(", and gives the provider the key").next().unwrap_or(effect)
}
