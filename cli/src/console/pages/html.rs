//! Parts of HTML that all pages use. Foreign text passes the filter of the terminal, is escaped,
//! and stands in `<bdi>`, so that it changes nothing around it.

use chrono::{DateTime, Utc};
use locker::Work;
use locker::operator::Need;
use maud::{Markup, html};

use crate::output;

/// A stored text.
pub(super) fn foreign(text: &str) -> Markup {
    html! { bdi { (output::plain(text)) } }
}

/// A stored text, or a dash.
pub(super) fn foreign_or(text: Option<&str>) -> Markup {
    text.filter(|text| !text.is_empty()).map_or_else(|| html! { "–" }, foreign)
}

/// A text to copy, such as a key or a command line. A text with odd characters cannot be copied:
/// its copy would be another text.
pub(super) fn code(text: &str) -> Markup {
    let plain = output::plain(text);
    html! { code data-copy[plain == text] { bdi { (plain) } } }
}

/// A time relative to now, with the exact time as its title.
pub(super) fn moment(at: DateTime<Utc>) -> Markup {
    let exact = output::time(at);
    html! { time datetime=(exact) title=(exact) { (output::relative(at, output::now())) } }
}

pub(super) fn moment_or(at: Option<DateTime<Utc>>) -> Markup {
    at.map_or_else(|| html! { "–" }, moment)
}

/// A time in full, and relative to now.
pub(super) fn when(at: DateTime<Utc>) -> Markup {
    html! { (output::time(at)) " " span.near { "(" (output::relative(at, output::now())) ")" } }
}

/// Names and values.
pub(super) fn facts(rows: impl IntoIterator<Item = (&'static str, Markup)>) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in rows {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// A table that scrolls by itself on a narrow screen.
pub(super) fn table<const N: usize>(
    name: &str,
    header: [&str; N],
    rows: impl IntoIterator<Item = [Markup; N]>,
) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(name) {
            // The style sheet turns rows into blocks on a narrow screen, which loses their meaning.
            table role="table" {
                thead role="rowgroup" {
                    tr role="row" { @for title in header { th scope="col" role="columnheader" { (title) } } }
                }
                tbody role="rowgroup" {
                    @for row in rows {
                        tr role="row" {
                            @for (title, cell) in header.iter().zip(row) {
                                td role="cell" data-title=(title) { div.cell { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// An address below this console.
pub(super) fn href(path: &str, parameters: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    format!("{path}?{query}")
}

pub(super) fn href_of_group(id: &str, need: Need) -> String {
    href("/group", &[("id", id), ("need", need.as_str())])
}

/// The page of a token, a workflow or a message.
pub(super) fn href_of(work: &Work) -> String {
    match work {
        Work::Token(key) => href("/token", &[("key", key)]),
        Work::Workflow(key) => href("/workflow", &[("key", key)]),
        _ => href("/message", &[("work", &work.to_text())]),
    }
}

/// A link to a token, a workflow or a message, under this text.
pub(super) fn link(work: &Work, text: &str) -> Markup {
    html! { a href=(href_of(work)) { (foreign(text)) } }
}

/// The name of a token, a workflow or a message in a sentence. A message has a short id.
pub(super) fn named(work: &Work) -> String {
    crate::bulk::print::name(work)
}

/// A form that changes something. It contains the token of the session and these fields.
pub(super) fn form(action: &str, token: &str, hidden: &[(&str, &str)], body: Markup) -> Markup {
    html! {
        form.act method="post" action=(action) {
            input type="hidden" name="token" value=(token);
            @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
            (body)
        }
    }
}

/// A field of one line, below its label.
pub(super) fn field(name: &str, label: &str, input: Markup, help: Option<&str>) -> Markup {
    html! {
        p.field {
            label for=(name) { (label) }
            (input)
            @if let Some(help) = help { small id=(format!("{name}-help")) { (help) } }
        }
    }
}

/// Words of a name such as `inDoubt`: "in doubt".
pub(super) fn words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 1);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// A need, as words in a frame.
pub(super) fn need_badge(need: Need) -> Markup {
    badge(&words(need.as_str()))
}

/// A state or a need, as words in a frame.
pub(super) fn badge(word: &str) -> Markup {
    let urgent = ["in doubt", "quarantined", "quarantine", "dead", "held", "failed"];
    let is_waiting = ["late", "overdue", "undriven", "unsent", "failing", "waiting", "started"];
    let class = match word {
        word if urgent.contains(&word) => "badge urgent",
        word if is_waiting.contains(&word) => "badge waiting",
        _ => "badge",
    };
    html! { span class=(class) { (output::plain(word)) } }
}
