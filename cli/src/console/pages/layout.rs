//! The frame of every page, and the page of a failure.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, html};

use super::html::foreign;
use crate::console::server::Desk;
use crate::console::used;
use crate::exit::Exit;

/// The pages of the menu.
const MENU: [(&str, &str); 6] = [
    ("/", "Needs attention"),
    ("/doubt", "In doubt"),
    ("/workflows", "Workflows"),
    ("/messages", "Messages"),
    ("/audit", "Audit"),
    ("/health", "Health"),
];

/// The status of a page about this exit.
pub(super) const fn status_of(exit: &Exit) -> StatusCode {
    match exit.code() {
        Exit::USAGE => StatusCode::BAD_REQUEST,
        Exit::NOT_FOUND => StatusCode::NOT_FOUND,
        Exit::CHANGED => StatusCode::CONFLICT,
        Exit::SETUP => StatusCode::FORBIDDEN,
        Exit::UNAVAILABLE => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// Returns the text of an exit as HTML.
pub(super) fn exit_lines(exit: &Exit) -> Markup {
    html! { div role="alert" { @for line in exit.lines() { p { (foreign(line)) } } } }
}

/// The content of a page.
pub(in crate::console) struct Page {
    status: StatusCode,
    title: String,
    /// The page of the menu that it belongs to.
    menu: &'static str,
    /// Whether the script replaces it with a newer one every few seconds.
    refreshes: bool,
    /// The text of the field Find.
    text: String,
    body: Markup,
    /// The address of another page, which the browser opens instead.
    instead: Option<String>,
}

impl Page {
    pub(super) fn new(title: impl Into<String>, menu: &'static str, body: Markup) -> Self {
        let (title, text) = (title.into(), String::new());
        Self { status: StatusCode::OK, title, menu, refreshes: false, text, body, instead: None }
    }

    /// Sends the browser to another page, after a form changed something.
    pub(super) fn see_other(address: String) -> Self {
        let page = Self::new("See the plan", "", html! { p { a href=(address) { "See the plan" } } });
        Self { status: StatusCode::SEE_OTHER, instead: Some(address), ..page }
    }

    pub(super) fn refreshing(self) -> Self {
        Self { refreshes: true, ..self }
    }

    pub(super) fn found_by(self, text: &str) -> Self {
        Self { text: text.to_owned(), ..self }
    }

    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Returns the page with the error and the remedy.
    pub(in crate::console) fn of_failure(exit: &Exit, is_form: bool) -> Self {
        let status = status_of(exit);
        let title = match status {
            StatusCode::NOT_FOUND => "Not found",
            _ if is_form => "Could not do this",
            _ => "Could not show this",
        };
        let body = html! {
            h1 { (title) }
            (exit_lines(exit))
            @if status == StatusCode::SERVICE_UNAVAILABLE {
                p { "A page reads for at most 10 seconds, a plan for 5 minutes. Open it again when the tables are less busy." }
            }
            p { a href="/" { "Needs attention" } " lists everything that needs an operator now." }
        };
        Self { status, ..Self::new(title, "", body) }
    }

    /// The whole page.
    pub(in crate::console) fn into_response(self, desk: &Desk, token: &str) -> Response {
        let place = &desk.connection.place;
        let used = used::so_far();
        let units = format!("{:.1} read units", used.read_units);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="token" content=(token);
                    title { (crate::output::plain(&self.title)) " – Locker" }
                    link rel="stylesheet" href="/style.css";
                    link rel="icon" href="data:,";
                    script src="/script.js" defer {}
                }
                body data-refresh[self.refreshes] {
                    a.skip href="#main" { "Skip to the content" }
                    header {
                        p.name { "Locker" }
                        nav aria-label="Pages" {
                            @for (path, name) in MENU {
                                a href=(path) aria-current=[(path == self.menu).then_some("page")] { (name) }
                            }
                        }
                        form role="search" action="/find" method="get" {
                            label for="text" { "Find" }
                            input #text type="search" name="text" value=(self.text) required
                                placeholder="key, message, request, provider's key";
                            button { "Find" }
                        }
                    }
                    main #main { (self.body) }
                    footer {
                        p {
                            (foreign(place)) ". "
                            @if desk.may_change { "Changes are made as " (foreign(&desk.viewer)) "." }
                            @else { "Read only: a page never writes." }
                        }
                        p #used { "This page: " (used.requests) " requests, " (units) "." }
                        p #updates {}
                    }
                }
            }
        };
        let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
        let location = self.instead.map(|address| [(header::LOCATION, address)]);
        match location {
            Some(location) => (self.status, headers, location, page.into_string()).into_response(),
            None => (self.status, headers, page.into_string()).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use locker::Error;

    use super::*;

    #[test]
    fn page_that_could_not_read_in_time_asks_to_open_it_again() {
        let exit = Exit::from(Error::Expired { verb: "list" });
        assert_eq!(status_of(&exit), StatusCode::SERVICE_UNAVAILABLE);
        let page = Page::of_failure(&exit, false).body.into_string();
        assert!(page.contains("A page reads for at most 10 seconds"), "{page}");
    }
}
