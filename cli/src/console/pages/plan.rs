//! *Plan*: an act on all records that match, in the protocol of the command: a dry run that is
//! stored under an id, and its application with progress and a stop.

use std::fmt::Display;
use std::str::FromStr;

use axum::http::StatusCode;
use locker::Operator;
use locker::operator::{Act, ApplyOptions, Filter, Need, Plan, Verb};
use maud::{Markup, html};

use super::act::{act_with, capitalised, reason_field};
use super::html::{
    code, facts, field, foreign, foreign_or, form, href, link, moment_or, named, table, when, words,
};
use super::layout::Page;
use super::{Asked, Visit, data, given, need_named, needed};
use crate::bulk::{self, Defaults, Kept, Request, Store, print};
use crate::console::runs::{Ended, Progress};
use crate::exit::Exit;
use crate::{command, options};

/// Planned records, and records that are left out, that a page shows.
const SHOWN: usize = 50;

/// The label of a field, and its least and its largest number.
type Number<T> = (&'static str, T, T);

const RATE: Number<u32> = ("Records per second", 1, 10_000);
const LIMIT: Number<usize> = ("Most records, oldest first", 1, 100_000);
const CANARY: Number<usize> = ("Canaries: messages that are redriven first (0: none)", 0, 1_000);
const BREAKER: Number<usize> = ("Stop after so many are dead again for one cause (0: never)", 0, 1_000);

/// The acts on all records of a need, and whether each may be for a step.
fn verbs_of(need: Option<Need>) -> &'static [Verb] {
    match need {
        Some(Need::InDoubt | Need::Overdue) => &[Verb::Release, Verb::Resolve],
        Some(Need::Held) => &[Verb::Release, Verb::Resolve, Verb::Close],
        Some(Need::Quarantined) => {
            &[Verb::Retry, Verb::Compensate, Verb::Skip, Verb::Resolve, Verb::Close, Verb::Cancel]
        }
        // A plan retries only workflows in quarantine.
        Some(Need::Undriven | Need::Failing) => &[Verb::Compensate, Verb::Cancel],
        Some(Need::Late) => &[Verb::Skip],
        Some(Need::Dead) => &[Verb::Redrive, Verb::Archive, Verb::Discard, Verb::Note],
        Some(_) => &[],
        // Archived messages have no need.
        None => &[Verb::Restore],
    }
}

/// The group of verbs in the command for the records of a need.
const fn group_of(need: Option<Need>) -> Option<&'static str> {
    match need {
        Some(Need::InDoubt | Need::Overdue | Need::Held) => None,
        Some(Need::Dead | Need::Unsent) | None => Some("dead"),
        Some(_) => Some("workflow"),
    }
}

/// The selection of a plan, as its address and its form name it.
struct Selected<'a> {
    need: Option<Need>,
    group: Option<&'a str>,
    text: Option<&'a str>,
}

impl<'a> Selected<'a> {
    fn of(asked: &'a Asked) -> Result<Self, Exit> {
        let named = |name| {
            need_named(name).ok_or_else(|| Exit::say(Exit::USAGE, format!("there is no need {name:?}")))
        };
        let need = given(asked, "need").map(named).transpose()?;
        Ok(Self { need, group: given(asked, "group"), text: given(asked, "text") })
    }

    fn fields(&self) -> Vec<(&'static str, &'a str)> {
        let need = self.need.map(|need| ("need", need.as_str()));
        need.into_iter()
            .chain(self.group.map(|group| ("group", group)))
            .chain(self.text.map(|text| ("text", text)))
            .collect()
    }

    fn filter(&self) -> Filter {
        let filter = self.need.into_iter().fold(Filter::new(), Filter::need);
        let filter = self.group.into_iter().fold(filter, Filter::group);
        self.text.into_iter().fold(filter, Filter::text)
    }

    fn is_of_messages(&self) -> bool {
        group_of(self.need) == Some("dead")
    }

    /// The defaults of the command.
    fn defaults(&self) -> Defaults {
        if self.is_of_messages() { bulk::OF_MESSAGES } else { bulk::OF_OTHERS }
    }

    /// As a sentence names it: `quarantined workflows of the group 9a8fac0a`.
    fn said(&self) -> String {
        let state = self.need.map_or_else(|| "archived".to_owned(), |need| words(need.as_str()));
        let kind = match group_of(self.need) {
            None => "tokens",
            Some("workflow") => "workflows",
            Some(_) => "messages",
        };
        let mut said = format!("{state} {kind}");
        if let Some(group) = self.group {
            said.push_str(&format!(" of the group {group}"));
        }
        if let Some(text) = self.text {
            said.push_str(&format!(" with the text {text}"));
        }
        said
    }
}

/// The address of the form for all records of a selection. `None`: no act is for all of them.
pub(super) fn address(need: Option<Need>, fields: &[(&str, &str)]) -> Option<String> {
    let need_field = need.map(|need| ("need", need.as_str()));
    let fields: Vec<_> = need_field.into_iter().chain(fields.iter().copied()).collect();
    (!verbs_of(need).is_empty()).then(|| href("/plan/new", &fields))
}

/// The form of a plan. Nothing is written.
pub(in crate::console) async fn plan_form(visit: &Visit<'_>) -> Result<Page, Exit> {
    visit.desk.allows_changes()?;
    show_form(visit, None)
}

fn show_form(visit: &Visit<'_>, refused: Option<&Exit>) -> Result<Page, Exit> {
    let Visit { asked, token, .. } = visit;
    let selected = Selected::of(asked)?;
    let verbs = verbs_of(selected.need);
    let Some(first) = verbs.first() else {
        return Err(Exit::say(Exit::USAGE, "no act is for all of these records; act on each"));
    };
    let is_messages = selected.is_of_messages();
    let has_steps = group_of(selected.need) == Some("workflow");
    let of_step = match selected.need {
        Some(Need::Late) => "The late event, such as event:paid.",
        _ => "With a step, the act is on this step of each workflow. skip and resolve need one.",
    };
    let takes_result = verbs.iter().any(|verb| verb.takes_result());
    let Defaults { rate, canary, breaker } = selected.defaults();
    let typed = |name: &str| asked.get(name).map_or("", String::as_str);
    let number = |name: &str, default: String| asked.get(name).cloned().unwrap_or(default);
    let chosen = asked.get("verb").map_or(first.as_str(), String::as_str);
    let title = format!("Act on all {}", selected.said());
    let body = html! {
        fieldset {
            legend { "Act" }
            @for verb in verbs {
                p.option {
                    input type="radio" name="verb" id=(verb) value=(verb) checked[verb.as_str() == chosen];
                    label for=(verb) { strong { (verb) } ": " (command::about(group_of(selected.need), verb.as_str())) }
                }
            }
        }
        @if has_steps {
            (field("step", "Step", html! {
                input #step name="step" value=(typed("step")) autocomplete="off" aria-describedby="step-help";
            }, Some(of_step)))
        }
        @if takes_result {
            (field("result", "Result, as JSON (for resolve)", html! {
                textarea #result name="result" rows="2" spellcheck="false" autocomplete="off" { (typed("result")) }
            }, None))
        }
        (reason_field(typed("reason")))
        (number_field("rate", RATE, &number("rate", rate.to_string())))
        (number_field("limit", LIMIT, &number("limit", bulk::LIMIT.to_string())))
        @if is_messages {
            (number_field("canary", CANARY, &number("canary", canary.to_string())))
            (number_field("breaker", BREAKER, &number("breaker", breaker.to_string())))
        }
        p.buttons { button { "Show the plan" } " " a href="/" { "Cancel" } }
    };
    let body = html! {
        h1 { (foreign(&title)) }
        p { "The plan is shown before anything is written, and stored on this machine." }
        @if let Some(exit) = refused {
            div role="alert" {
                p { "Nothing was written." }
                @for line in exit.lines() { p { (foreign(&capitalised(line))) "." } }
            }
        }
        (form("/plan", token, &selected.fields(), body))
    };
    let page = Page::new(title, "", body);
    Ok(if refused.is_some() { page.with_status(StatusCode::CONFLICT) } else { page })
}

fn number_field<T: Display>(name: &str, (label, least, most): Number<T>, value: &str) -> Markup {
    field(
        name,
        label,
        html! {
            input id=(name) name=(name) type="number" required min=(least) max=(most) value=(value);
        },
        None,
    )
}

/// The number in a field, or the default of an empty field.
fn number<T>(given: Option<&str>, (label, least, most): Number<T>, default: T) -> Result<T, Exit>
where
    T: FromStr + PartialOrd + Display,
{
    let Some(text) = given else { return Ok(default) };
    let number = text.parse().ok().filter(|number| (&least..=&most).contains(&number));
    let what = || format!("{label}: {text} is not a whole number from {least} to {most}");
    number.ok_or_else(|| Exit::say(Exit::USAGE, what()))
}

/// Makes a plan, and stores it. The records are only read.
pub(in crate::console) async fn make_plan(visit: &Visit<'_>) -> Result<Page, Exit> {
    visit.desk.allows_changes()?;
    let request = match request(visit) {
        Ok(request) => request,
        Err(exit) => return show_form(visit, Some(&exit)),
    };
    let console = visit.desk.planner().await?.limit(request.limit);
    let plan = match request.plan(&console).await {
        Ok(plan) => plan,
        Err(exit) => return show_form(visit, Some(&exit)),
    };
    if plan.items.is_empty() {
        let exit = bulk::nothing(&plan);
        let exit = plan
            .left_out
            .iter()
            .take(5)
            .fold(exit, |exit, it| exit.detail(format!("{}: {}", named(&it.work), it.because)));
        return show_form(visit, Some(&exit));
    }
    let address = href("/plan", &[("id", &plan.id)]);
    request.kept(&visit.desk.connection, plan).keep()?;
    Ok(Page::see_other(address))
}

fn request(visit: &Visit<'_>) -> Result<Request, Exit> {
    let Visit { desk, asked, .. } = visit;
    let selected = Selected::of(asked)?;
    let verb = needed(asked, "verb")?;
    let verb = verbs_of(selected.need).iter().find(|it| it.as_str() == verb);
    let verb = verb.ok_or_else(|| Exit::say(Exit::USAGE, "choose an act"))?;
    let result = match verb {
        Verb::Resolve => {
            let missing = || Exit::say(Exit::USAGE, "a resolve takes a result");
            Some(options::json_in_form(given(asked, "result").ok_or_else(missing)?)?)
        }
        _ => None,
    };
    let act = given(asked, "step").into_iter().fold(act_with(*verb, result)?, Act::step);
    let Defaults { rate, canary, breaker } = selected.defaults();
    let (canary, breaker) =
        (number(given(asked, "canary"), CANARY, canary)?, number(given(asked, "breaker"), BREAKER, breaker)?);
    let follows = |number: usize| if act.verb == Verb::Redrive { number } else { 0 };
    let options = ApplyOptions {
        per_second: number(given(asked, "rate"), RATE, rate)?,
        canary: follows(canary),
        breaker: follows(breaker),
        ..ApplyOptions::default()
    };
    let limit = number(given(asked, "limit"), LIMIT, bulk::LIMIT)?;
    Ok(Request {
        filter: selected.filter(),
        act,
        operator: Operator::new(desk.viewer.clone(), given(asked, "reason").unwrap_or_default())?,
        limit,
        options,
        seen: None,
        out: None,
    })
}

/// A stored plan, and how far its application is.
pub(in crate::console) async fn plan(visit: &Visit<'_>) -> Result<Page, Exit> {
    let Visit { desk, asked, token } = visit;
    let id = needed(asked, "id")?;
    let (path, kept) = Store::of_user()?.read(id)?;
    let plan = &kept.plan;
    let again = bulk::again(&desk.connection, &path);
    let progress = desk.runs.of(id).map(|run| run.progress());
    // The progress of a run in this process contains the results as well.
    let results = if progress.is_none() { bulk::results(&path, plan)? } else { 0 };
    let is_running = progress.as_ref().is_some_and(|progress| progress.ended.is_none());
    let step = plan.act.step.as_ref().map(|step| format!(" {step} of")).unwrap_or_default();
    let count = match plan.items.len() {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    };
    let title = format!("{}{step} {count}", plan.act.verb);
    let body = html! {
        h1 { "Plan: " (foreign(&title)) }
        @match &progress {
            // Another console, a command, or this console before it was started again.
            None if results > 0 => {
                p.sentence { "The plan was applied before, and may be applied now: " (results) " records have a result on this machine." }
            },
            None => { p.sentence { "The dry run wrote nothing. The plan is stored on this machine, and no result of it." } },
            Some(progress) => { (run(progress, plan.items.len(), &again)) },
        }
        @if desk.may_change {
            @let fields = [("id", id)];
            @if is_running {
                (form("/plan/stop", token, &fields, html! { p.buttons { button { "Stop" } } }))
            } @else if !progress.as_ref().is_some_and(is_complete) {
                @let verb = if progress.is_some() || results > 0 { "Continue" } else { "Apply" };
                @if let Some(warning) = bulk::warning(plan) { p role="alert" { (capitalised(&warning)) "." } }
                (form("/plan/apply", token, &fields, html! {
                    p.buttons { button.acts { (verb) " the plan: " (title) } " " a href="/" { "Cancel" } }
                }))
            }
        }
        (facts(facts_of(&kept)))
        @if plan.act.result.is_some() { (data::link(desk, "/plan/data", ("id", id))) }
        h2 { "In a terminal" }
        p { "This line applies the plan, or continues it. Nothing is done twice." }
        p { (code(&again)) }
        (records(plan))
    };
    let page = Page::new(format!("Plan {id}"), "", body);
    Ok(if is_running { page.refreshing() } else { page })
}

/// The result that a plan records.
pub(in crate::console) fn plan_data(visit: &Visit<'_>) -> Result<Page, Exit> {
    let id = needed(visit.asked, "id")?;
    data::look(visit.desk, "plan", id)?;
    let (_, kept) = Store::of_user()?.read(id)?;
    let address = href("/plan", &[("id", id)]);
    let body = html! {
        h1 { "Data of plan " code { (foreign(id)) } }
        p { a href=(address) { "Plan " (foreign(id)) } }
        (data::shown("Result", kept.plan.act.result.map(|result| result.to_string()).as_deref()))
    };
    Ok(Page::new(format!("Data of plan {id}"), "", body))
}

fn is_complete(progress: &Progress) -> bool {
    matches!(&progress.ended, Some(Ended::Reported { report, .. }) if report.is_finished())
}

fn facts_of(kept: &Kept) -> Vec<(&'static str, Markup)> {
    let Kept { place, plan, options, .. } = kept;
    let found = format!("{} of {} found, {} left out", plan.items.len(), plan.found, plan.left_out.len());
    let cost = format!("at least {} requests and {} write units", plan.requests(), plan.write_units());
    vec![
        ("records", html! { (found) }),
        ("tables", foreign(place)),
        ("found by", foreign(&plan.filter.to_string())),
        ("reason", foreign(&plan.reason)),
        ("planned by", foreign(&plan.by)),
        ("made", when(plan.made)),
        ("applied at", html! { (print::pace(options)) }),
        ("cost", html! { (cost) }),
        ("id", code(&plan.id)),
    ]
}

/// How far a run is.
fn run(progress: &Progress, all: usize, again: &str) -> Markup {
    let Progress { told, done, .. } = progress;
    html! {
        p { progress max=(all) value=(told) aria-label="Records that have an outcome" {} " " (told) " of " (all) ", " (done) " done" }
        @match &progress.ended {
            None if progress.is_stopped => { p.sentence { "Stopping: the acts that have begun are finished." } },
            None => { p.sentence { "The plan is being applied." } },
            Some(Ended::Failed(error)) => {
                p role="alert" { (foreign(&capitalised(error))) ". This run changed nothing." }
            },
            Some(Ended::Panicked) => {
                p role="alert" { "The run ended by a defect. Acts that it did are done. Continue the plan: nothing is done twice." }
            },
            Some(Ended::Reported { report, results, error }) => {
                @let class = if report.is_finished() && !report.tripped { "sentence well" } else { "sentence" };
                p class=(class) {
                    @if report.tripped { "Stopped by the canaries or the breaker: " }
                    @else if report.is_finished() { "Finished: " }
                    @else { "Not finished: " }
                    (bulk::said(report)) "."
                }
                @if !report.is_finished() { p { "Continue the plan here, or by " (code(again)) } }
                @if let Some(error) = error { p role="alert" { (foreign(error)) } }
                p { "Each result is in " code { (foreign(&results.display().to_string())) } "." }
            },
        }
        @if !progress.said.is_empty() {
            h2 { "Not done" }
            ul { @for line in &progress.said { li { (foreign(line)) } } }
        }
    }
}

/// The records of a plan, their causes and effects, and the records that are left out.
fn records(plan: &Plan) -> Markup {
    let (effects, unknown) = print::effects(plan);
    let items = plan.items.iter().take(SHOWN).map(|item| {
        [link(&item.work, &named(&item.work)), moment_or(item.since), foreign_or(item.cause.as_deref())]
    });
    let left_out = plan.left_out.iter().take(SHOWN);
    let left_out = left_out.map(|it| [link(&it.work, &named(&it.work)), foreign(&it.because)]);
    let more = |count: usize| count.saturating_sub(SHOWN);
    html! {
        h2 { "Each of them" }
        ul {
            @for (effect, count) in &effects { li { (count) ": " (foreign(effect)) } }
            @for (fact, count) in &unknown { li { (count) " unknown: " (foreign(fact)) } }
        }
        h2 { "Causes" }
        ul {
            @for (cause, count) in print::causes(plan) {
                li { (count) ": " @if cause.is_empty() { "none is known" } @else { (foreign(&cause)) } }
            }
        }
        h2 { "Records" }
        (table("Records of the plan", ["Record", "Since", "Cause"], items))
        @if more(plan.items.len()) > 0 { p { "and " (more(plan.items.len())) " more" } }
        @if !plan.left_out.is_empty() {
            h2 { "Left out" }
            (table("Records that are left out", ["Record", "Reason"], left_out))
            @if more(plan.left_out.len()) > 0 { p { "and " (more(plan.left_out.len())) " more" } }
        }
        @if !plan.complete { p { "More may fit: the lists were not read to their end." } }
    }
}

/// Starts a task that applies a stored plan, or continues it.
pub(in crate::console) async fn apply_plan(visit: &Visit<'_>) -> Result<Page, Exit> {
    let Visit { desk, asked, .. } = visit;
    desk.allows_changes()?;
    let id = needed(asked, "id")?;
    let (path, mut kept) = Store::of_user()?.read(id)?;
    kept.is_for(&desk.connection)?;
    kept.plan = bulk::applied_by(kept.plan, desk.viewer.clone());
    desk.runs.start(desk.connection.console().await?, path, kept)?;
    Ok(Page::see_other(href("/plan", &[("id", id)])))
}

/// Stops the application of a plan. Acts that have begun are finished.
pub(in crate::console) async fn stop_plan(visit: &Visit<'_>) -> Result<Page, Exit> {
    let id = needed(visit.asked, "id")?;
    if let Some(run) = visit.desk.runs.of(id) {
        run.stop();
    }
    Ok(Page::see_other(href("/plan", &[("id", id)])))
}
