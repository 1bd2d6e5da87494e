//! The acts on a token, a workflow or a message: the possible ones, and the others with the reason.
//! The library decides: [`Console::check`].

use locker::Work;
use locker::operator::{About, Act, Choice, Console, Part, Timeline, Verb};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::act::address;
use super::html::{code, foreign, foreign_or, table};
use crate::console::server::Desk;
use crate::hint::Hint;
use crate::output;
use crate::timeline;

/// An act, and the library's verdict about it now.
pub(super) struct Judged {
    pub(super) verb: Verb,
    pub(super) step: Option<String>,
    /// Its effect, or the reason why it is not possible.
    outcome: Result<String, String>,
}

impl Judged {
    pub(super) const fn is_possible(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// All acts on a part. `offered`: the acts that the library offers.
pub(super) fn judge(console: &Console, part: &Part, offered: &[Choice]) -> Vec<Judged> {
    let work = part.work();
    let offered = offered.iter().filter(|choice| choice.of == work);
    let mut judged: Vec<_> = offered
        .map(|it| Judged { verb: it.verb, step: it.step.clone(), outcome: Ok(it.effect.clone()) })
        .collect();
    for act in candidates(part) {
        if judged.iter().any(|it| (it.verb, &it.step) == (act.verb, &act.step)) {
            continue;
        }
        let outcome = match console.check(part, &act) {
            Ok(meaning) => Ok(meaning.effect),
            // The result is a placeholder.
            Err(refusal) if refusal.about == About::Result => continue,
            Err(refusal) => Err(refusal.because),
        };
        judged.push(Judged { verb: act.verb, step: act.step, outcome });
    }
    judged
}

/// The acts on a message: the library offers some of them.
pub(super) fn of_message(console: &Console, part: &Part, message: &locker::workflow::Message) -> Vec<Judged> {
    let choices = message.choices(output::now());
    let offered = choices.into_iter().map(|(verb, effect)| Judged { verb, step: None, outcome: Ok(effect) });
    let mut judged: Vec<_> = offered.collect();
    let others = judge(console, part, &[]).into_iter();
    let refused: Vec<_> = others.filter(|it| !it.is_possible()).collect();
    judged.extend(refused);
    judged
}

/// A link to the form of each possible act on a step or an event, or to the list of all acts.
pub(super) fn of_step(desk: &Desk, work: &Work, judged: &[Judged], step: &str) -> Markup {
    let of_it = judged.iter().filter(|it| it.step.as_deref() == Some(step) && it.is_possible());
    html! {
        @for it in of_it {
            @if desk.may_change { a href=(address(work, it.verb, it.step.as_deref())) { (it.verb) } " " } @else { (it.verb) " " }
        }
    }
}

/// The tables of all acts on a part. `timeline`: where a command line finds the form of a result.
pub(super) fn acts(desk: &Desk, part: &Part, judged: &[Judged], timeline: Option<&Timeline>) -> Markup {
    let (work, revision) = (part.work(), part.revision());
    let line = |it: &Judged| match timeline {
        Some(timeline) => {
            timeline::line(timeline, it.verb, (&work, it.step.as_deref(), &revision), &desk.connection)
        }
        None => Hint::ActOnMessage(it.verb, &work.short_id()).on(&desk.connection),
    };
    let possible = judged.iter().filter_map(|it| {
        let effect = it.outcome.as_ref().ok()?;
        let verb = html! {
            @if desk.may_change { a href=(address(&work, it.verb, it.step.as_deref())) { (it.verb) } } @else { (it.verb) }
        };
        Some([verb, foreign_or(it.step.as_deref()), foreign(effect), code(&line(it))])
    });
    let refused = judged.iter().filter_map(|it| {
        let because = it.outcome.as_ref().err()?;
        let verb = html! { span.disabled { (it.verb) } };
        Some([verb, foreign_or(it.step.as_deref()), foreign(because)])
    });
    let (possible, refused): (Vec<_>, Vec<_>) = (possible.collect(), refused.collect());
    let terminal = match timeline {
        Some(_) => "Paste a line into a terminal. It acts only if the record is as it is shown here.",
        None => "Paste a line into a terminal. It prints a dry run.",
    };
    // Only a workflow has steps.
    let has_steps = matches!(part, Part::Workflow(_));
    let acts = if refused.len() == 1 { "act" } else { "acts" };
    html! {
        @if possible.is_empty() {
            p { "No act is possible now." }
        } @else {
            p {
                @if desk.may_change { "An act opens a form. The form shows the effect before anything is written. " }
                (terminal)
            }
            @if has_steps {
                (table("Possible acts", ["Act", "Step", "Effect", "Command line"], possible))
            } @else {
                @let possible = possible.into_iter().map(|[verb, _, effect, line]| [verb, effect, line]);
                (table("Possible acts", ["Act", "Effect", "Command line"], possible))
            }
        }
        @if !refused.is_empty() {
            details #refused {
                summary { "Not possible now: " (refused.len()) " " (acts) }
                @if has_steps {
                    (table("Acts that are not possible now", ["Act", "Step", "Reason"], refused))
                } @else {
                    @let refused = refused.into_iter().map(|[verb, _, because]| [verb, because]);
                    (table("Acts that are not possible now", ["Act", "Reason"], refused))
                }
            }
        }
    }
}

/// The acts that a part may have in any state.
fn candidates(part: &Part) -> Vec<Act> {
    match part {
        Part::Workflow(view) => {
            let mut acts = vec![Act::retry(), Act::compensate(), Act::cancel(), Act::close()];
            for step in view.steps() {
                let name = step.name();
                let of =
                    [Act::resolve(json!("done")), Act::retry(), Act::skip(), Act::correct(json!("done"))];
                acts.extend(of.map(|act| act.step(&name)));
            }
            for event in view.events() {
                let of = [Act::skip(), Act::correct(Value::Null)];
                acts.extend(of.map(|act| act.step(event.name())));
            }
            acts
        }
        Part::Token(_) => {
            vec![Act::resolve(Value::Null), Act::release(), Act::close(), Act::correct(Value::Null)]
        }
        Part::Message(_) => vec![
            Act::redrive(),
            Act::correct(json!("body")),
            Act::archive(),
            Act::restore(),
            Act::discard(),
            Act::note(),
        ],
        _ => Vec::new(),
    }
}
