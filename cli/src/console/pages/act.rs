//! *Act*: one act on one record, in the protocol of the command: a form, a dry run with an id, and
//! the act on the record of the dry run.

use axum::http::StatusCode;
use locker::operator::{About, Act, Part, Unless, Verb};
use locker::{Form, Intervened, Operator, Work};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::html::{badge, code, facts, field, foreign, form, href, link, named};
use super::layout::{Page, exit_lines, status_of};
use super::life::{read, state_of, work_of};
use super::{Asked, Visit, given, needed};
use crate::act::{Called, GIVEN_BEFORE, call};
use crate::command;
use crate::exit::Exit;
use crate::options::{self, Differs};

/// The fields that a form sends again with the id of its dry run.
const FIELDS: [&str; 7] = ["result", "id", "new-key", "running", "completed", "not-started", "reason"];

/// The address of the form of an act, and of the act. A key may have characters that a browser
/// changes in a field, so it is in the address.
pub(super) fn address(work: &Work, verb: Verb, step: Option<&str>) -> String {
    let work = work.to_text();
    let mut fields = vec![("work", work.as_str()), ("verb", verb.as_str())];
    fields.extend(step.map(|step| ("step", step)));
    href("/act", &fields)
}

/// The options of an act, by the name of their field.
const OPTIONS: [(&str, Unless, &str); 3] = [
    ("running", Unless::Running, "Act although the work may still be running. It may be done twice."),
    ("completed", Unless::Completed, "Act although the token has a result. Its work is done again."),
    ("not-started", Unless::NotStarted, "Decide about the step before it starts."),
];

/// The act with this name. A redact cannot be undone, so only the command has it.
fn verb_of(asked: &Asked) -> Result<Verb, Exit> {
    let name = needed(asked, "verb")?;
    let verb: Option<Verb> = serde_json::from_value(json!(name)).ok();
    let verb = verb.filter(|verb| *verb != Verb::Redact);
    verb.ok_or_else(|| Exit::say(Exit::USAGE, format!("there is no act {name:?}")))
}

/// Returns the act of a verb. An act on an event also needs its name.
pub(super) fn act_with(verb: Verb, result: Option<Value>) -> Result<Act, Exit> {
    Ok(match (verb, result) {
        (Verb::Resolve, Some(result)) => Act::resolve(result),
        (Verb::Correct, Some(result)) => Act::correct(result),
        (Verb::Release, _) => Act::release(),
        (Verb::Retry, _) => Act::retry(),
        (Verb::Skip, _) => Act::skip(),
        (Verb::Compensate, _) => Act::compensate(),
        (Verb::Cancel, _) => Act::cancel(),
        (Verb::Close, _) => Act::close(),
        (Verb::Redrive, _) => Act::redrive(),
        (Verb::Archive, _) => Act::archive(),
        (Verb::Restore, _) => Act::restore(),
        (Verb::Discard, _) => Act::discard(),
        (Verb::Note, _) => Act::note(),
        _ => return Err(Exit::say(Exit::USAGE, format!("the console has no act {verb}"))),
    })
}

/// The act that a form describes.
fn act_of(asked: &Asked, work: &Work) -> Result<Act, Exit> {
    let verb = verb_of(asked)?;
    let result = match (verb, work) {
        (Verb::Correct, Work::Message { .. }) => {
            Some(Value::String(needed(asked, "result")?.replace("\r\n", "\n")))
        }
        _ if verb.takes_result() => Some(options::json_in_form(needed(asked, "result")?)?),
        _ => None,
    };
    let mut act = match (verb, result) {
        (Verb::Signal, Some(value)) => {
            let event = needed(asked, "step")?;
            Act::signal(event.strip_prefix("event:").unwrap_or(event), value)
        }
        (verb, result) => given(asked, "step").into_iter().fold(act_with(verb, result)?, Act::step),
    };
    act = given(asked, "id").into_iter().fold(act, Act::event_id);
    let is_set = |name: &str| asked.contains_key(name);
    (act.new_key, act.running) = (is_set("new-key"), is_set("running"));
    (act.completed, act.not_started) = (is_set("completed"), is_set("not-started"));
    Ok(act)
}

/// The act and its record, as a heading names them: `release token pay/1`.
fn title(verb: Verb, step: Option<&str>, work: &Work) -> String {
    let of = match (step, verb) {
        (None, _) => String::new(),
        (Some(step), Verb::Signal) => format!("{} to ", step.strip_prefix("event:").unwrap_or(step)),
        (Some(step), _) => format!("{step} of "),
    };
    format!("{verb} {of}{}", named(work))
}

/// The help of the command about a verb.
fn about(verb: Verb, work: &Work) -> String {
    let group = match work {
        Work::Token(_) => None,
        Work::Workflow(_) => Some("workflow"),
        _ => Some("dead"),
    };
    command::about(group, verb.as_str())
}

/// The form of an act. Nothing is written.
pub(in crate::console) async fn act_form(visit: &Visit<'_>) -> Result<Page, Exit> {
    visit.desk.allows_changes()?;
    let work = work_of(visit.asked)?;
    let console = visit.desk.console().await?;
    let part = read(visit.desk, &console, &work).await?;
    show_form(visit, &part, None, None)
}

/// The form, with the values that were typed. `refused`: the reason why the act was not possible.
/// `unless`: the option that makes it possible.
fn show_form(
    visit: &Visit<'_>,
    part: &Part,
    refused: Option<&str>,
    unless: Option<Unless>,
) -> Result<Page, Exit> {
    let Visit { desk, asked, token } = visit;
    let (work, verb, step) = (part.work(), verb_of(asked)?, given(asked, "step"));
    let title = title(verb, step, &work);
    let value = |name: &str| given(asked, name).unwrap_or_default();
    let takes_key = matches!((verb, &work, step), (Verb::Release, ..) | (Verb::Retry, _, Some(_)));
    let body = html! {
        @if verb.takes_result() { (result_field(part, verb, &work, value("result"))) }
        @if verb == Verb::Signal {
            (field("id", "Id of the event (optional)", html! {
                input #id name="id" value=(value("id")) autocomplete="off" aria-describedby="id-help";
            }, Some("If the sender sends the event with this id, too, it is not a second event.")))
        }
        @if takes_key {
            (option("new-key", asked, "Give the provider another key. If the work did happen, the provider no longer \
                recognises it."))
        }
        @for (name, of, text) in OPTIONS {
            @if unless == Some(of) || asked.contains_key(name) { (option(name, asked, text)) }
        }
        (reason_field(value("reason")))
        p.buttons {
            button { "Show what it would do" }
            " " (link(&work, "Cancel"))
        }
    };
    let body = html! {
        h1 { (foreign(&capitalised(&title))) }
        p { (foreign(&about(verb, &work))) }
        @if let Some(why) = refused {
            p role="alert" { "Nothing was written. " (foreign(&capitalised(why))) "." }
        }
        (facts([("record", link(&work, &named(&work))), ("state", badge(state_of(part))), ("operator", foreign(&desk.viewer))]))
        (form(&address(&work, verb, step), token, &[], body))
    };
    let page = Page::new(capitalised(&title), "", body);
    Ok(if refused.is_some() { page.with_status(StatusCode::CONFLICT) } else { page })
}

fn result_field(part: &Part, verb: Verb, work: &Work, value: &str) -> Markup {
    let (label, help) = match (verb, work) {
        (Verb::Signal, _) => ("Value of the event, as JSON", None),
        (_, Work::Message { .. }) => ("Body", None),
        _ => ("Result, as JSON", Some(form_of(part))),
    };
    field(
        "result",
        label,
        html! {
            textarea #result name="result" rows="3" required spellcheck="false" autocomplete="off"
                aria-describedby=[help.as_ref().map(|_| "result-help")] { (value) }
        },
        help.as_deref(),
    )
}

/// The form that a result must have.
fn form_of(part: &Part) -> String {
    let form = match part {
        Part::Token(record) => record.form().and_then(Form::example),
        _ => None,
    };
    form.map_or_else(|| "A string needs quotes: \"sent\".".to_owned(), |form| format!("Its form is {form}."))
}

fn option(name: &str, asked: &Asked, text: &str) -> Markup {
    html! {
        p.option {
            input type="checkbox" id=(name) name=(name) value="yes" checked[asked.contains_key(name)];
            label for=(name) { (text) }
        }
    }
}

pub(super) fn reason_field(value: &str) -> Markup {
    field(
        "reason",
        "Reason",
        html! {
            input #reason name="reason" required maxlength="500" value=(value) autocomplete="off"
                aria-describedby="reason-help";
        },
        Some("The audit shows it with your name."),
    )
}

pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A dry run; or, with its id, the act.
pub(in crate::console) async fn act(visit: &Visit<'_>) -> Result<Page, Exit> {
    let Visit { desk, asked, .. } = visit;
    desk.allows_changes()?;
    let work = work_of(asked)?;
    let console = desk.console().await?;
    let part = read(desk, &console, &work).await?;
    let again = |exit: Exit| show_form(visit, &part, Some(&exit.in_one_line()), None);
    let act = match act_of(asked, &work) {
        Ok(act) => act,
        Err(exit) => return again(exit),
    };
    let operator = match Operator::new(desk.viewer.clone(), needed(asked, "reason").unwrap_or_default()) {
        Ok(operator) => operator,
        Err(error) => return again(locker::Error::from(error).into()),
    };
    let seen = given(asked, "seen");
    // Ctrl-C waits for it.
    let _writing = seen.map(|_| desk.runs.writing()).transpose()?;
    let called = call(&console, (&part, &act), &operator, seen, true).await;
    match called.map_err(Exit::from) {
        Err(exit) if exit.code() == Exit::UNKNOWN => Ok(unknown(&work, &exit)),
        Err(exit) => Ok(failed(&work, &exit)),
        Ok(called) => answer(visit, &part, (&act, &operator), called),
    }
}

/// The page of the outcome of a call.
fn answer(
    visit: &Visit<'_>,
    part: &Part,
    (act, operator): (&Act, &Operator),
    called: Called,
) -> Result<Page, Exit> {
    let (Visit { asked, token, .. }, work) = (visit, part.work());
    match called {
        Called::DryRun { meaning, id } => {
            let title = title(act.verb, act.step.as_deref(), &work);
            let fields = FIELDS.iter().filter_map(|name| Some((*name, given(asked, name)?)));
            let mut hidden: Vec<_> = fields.collect();
            hidden.push(("seen", id.as_str()));
            let body = html! {
                h1 { "Dry run: " (foreign(&title)) }
                p.sentence { "Nothing was written. This would happen: " (foreign(&meaning.effect)) "." }
                @for unknown in &meaning.unknown { p role="alert" { "Unknown: " (foreign(unknown)) } }
                (facts([
                    ("record", link(&work, &named(&work))),
                    ("state", badge(state_of(part))),
                    ("operator", foreign(operator.by())),
                    ("reason", foreign(operator.reason())),
                    ("id", code(&id)),
                ]))
                @if let Some(result) = given(asked, "result") {
                    h2 { "Result" }
                    pre tabindex="0" { bdi { (crate::output::plain(result)) } }
                }
                (form(&address(&work, act.verb, act.step.as_deref()), token, &hidden, html! {
                    p.buttons {
                        button.acts { (foreign(&capitalised(&title))) }
                        " " (link(&work, "Cancel"))
                    }
                }))
                p { "The act is one conditional write. If the record changes before it, nothing is written." }
            };
            Ok(Page::new(format!("Dry run: {title}"), "", body))
        }
        Called::Refused(refusal) => {
            let because = match refusal.about {
                About::Step => format!("{}; look at the record again", refusal.because),
                _ => refusal.because,
            };
            show_form(visit, part, Some(&because), refusal.unless)
        }
        Called::Differs(differs) => Ok(differing(&work, differs)),
        Called::GivenBefore => show_form(visit, part, Some(GIVEN_BEFORE), None),
        Called::Ran { intervened: Intervened::Done, meaning } => Ok(done(act, &work, &meaning.effect)),
        Called::Ran { .. } => Ok(differing(&work, Differs::Record)),
    }
}

/// The page of an act that was not written, because the record or the act is not as it was seen.
fn differing(work: &Work, differs: Differs) -> Page {
    let why = match differs {
        Differs::Record => "has changed since the dry run",
        Differs::Act => "had a dry run of another act",
    };
    let why = format!("{} {why}. Look at it again, and begin again there.", capitalised(&named(work)));
    let alert = html! { p role="alert" { (foreign(&why)) } };
    not_done(work, "Nothing was written", alert).with_status(StatusCode::CONFLICT)
}

/// The page of an act that failed before anything was written.
fn failed(work: &Work, exit: &Exit) -> Page {
    not_done(work, "Nothing was written", exit_lines(exit)).with_status(status_of(exit))
}

/// The page of an act whose reply was lost.
fn unknown(work: &Work, exit: &Exit) -> Page {
    let alert = html! {
        (exit_lines(exit))
        p { "Look at the record: it shows the act if it was written. Nothing is done twice." }
    };
    not_done(work, "It is unknown whether this was written", alert).with_status(StatusCode::BAD_GATEWAY)
}

fn not_done(work: &Work, title: &str, alert: Markup) -> Page {
    let body = html! {
        h1 { (title) }
        (alert)
        p { (link(work, &named(work))) }
    };
    Page::new(title, "", body)
}

fn done(act: &Act, work: &Work, effect: &str) -> Page {
    let title = title(act.verb, act.step.as_deref(), work);
    let next = match (work, act.verb) {
        (Work::Message { .. }, Verb::Correct) => " Redrive it, so that it is processed again.",
        _ => "",
    };
    let body = html! {
        h1 { "Done: " (foreign(&title)) }
        p.sentence.well { "It is written, and the audit has it with your name and reason." (next) }
        p { "Effect: " (foreign(effect)) "." }
        p { (link(work, &named(work))) " · " a href="/" { "Needs attention" } " · " a href="/audit" { "Audit" } }
    };
    Page::new(format!("Done: {title}"), "", body)
}
