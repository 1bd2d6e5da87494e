//! The acts on a token or a workflow: the possible ones with their command line, the others with
//! the reason. The library decides: [`Console::check`].

use locker::operator::{About, Act, Console, Part, Timeline, Verb};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::html::{code, foreign, foreign_or, table};
use crate::connection::Connection;
use crate::timeline;

/// An act, and what the library says about it now.
struct Judged {
    verb: Verb,
    step: Option<String>,
    /// Its effect, or the reason why it is not possible.
    outcome: Result<String, String>,
}

/// All acts on one part of a timeline.
pub(super) fn acts(console: &Console, timeline: &Timeline, part: &Part, connection: &Connection) -> Markup {
    let (work, revision) = (part.work(), part.revision());
    let offered = timeline.choices.iter().filter(|choice| choice.of == work);
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
    let possible = judged.iter().filter_map(|it| {
        let effect = it.outcome.as_ref().ok()?;
        let line = timeline::line(timeline, it.verb, (&work, it.step.as_deref(), &revision), connection);
        Some([html! { (it.verb) }, foreign_or(it.step.as_deref()), foreign(effect), code(&line)])
    });
    let refused: Vec<_> = judged
        .iter()
        .filter_map(|it| {
            let because = it.outcome.as_ref().err()?;
            Some([html! { (it.verb) }, foreign_or(it.step.as_deref()), foreign(because)])
        })
        .collect();
    let possible: Vec<_> = possible.collect();
    html! {
        @if possible.is_empty() {
            p { "No act is possible now." }
        } @else {
            p { "Paste a line into a terminal. It acts only if the record is as it is shown here." }
            (table("Possible acts", ["Act", "Step", "Effect", "Command line"], possible))
        }
        @if !refused.is_empty() {
            details #refused {
                summary { (refused.len()) " acts are not possible now" }
                (table("Acts that are not possible now", ["Act", "Step", "Reason"], refused))
            }
        }
    }
}

/// The acts that a part may have in any state.
fn candidates(part: &Part) -> Vec<Act> {
    match part {
        Part::Workflow(view) => {
            let mut acts = vec![Act::retry(), Act::compensate(), Act::close()];
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
        _ => Vec::new(),
    }
}
