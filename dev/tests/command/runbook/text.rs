//! A section of the chapter *Operating*: its console lines, its tables, and which of them a test
//! has followed.

use std::cell::RefCell;
use std::collections::BTreeSet;

use locker_tests::command::{Place, Ran};
use serde_json::Value;

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/book/src/");

/// What stands for the words in capitals of a line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given<'a> {
    pub(super) key: &'a str,
    pub(super) revision: &'a str,
    pub(super) result: &'a str,
}

/// A call of the command.
pub(super) struct Line<'a> {
    call: &'a str,
    /// Its number, unless it stands in a table.
    at: Option<usize>,
}

pub(super) struct Section {
    title: String,
    /// Each with the bold words that its paragraph begins with.
    lines: Vec<(String, String)>,
    /// The two cells of each row.
    rows: Vec<(String, String)>,
    followed: RefCell<BTreeSet<usize>>,
    followed_rows: RefCell<BTreeSet<String>>,
}

impl Section {
    /// Reads a section of a page of the book.
    pub(super) fn read(page: &str, title: &str) -> Self {
        let text = std::fs::read_to_string(format!("{BOOK}{page}")).expect("a page of the book");
        let (_, rest) = text.split_once(&format!("\n## {title}\n")).expect("the section");
        let text = rest.split("\n## ").next().expect("text");
        let (mut lines, mut rows, mut lead, mut is_console) = (Vec::new(), Vec::new(), "", false);
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("```") {
                is_console = !kind.is_empty();
                assert!(kind.is_empty() || kind == "console", "{title}: a block of {kind} is not followed");
            } else if is_console {
                lines.push((lead.to_owned(), line.to_owned()));
            } else if let Some(bold) = line.strip_prefix("**") {
                lead = bold.split("**").next().expect("bold words");
            } else if let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) {
                let (first, second) = cells.split_once(" | ").expect("two cells");
                rows.push((first.to_owned(), second.to_owned()));
            }
        }
        // The first row is the head.
        let rows = rows.split_off(rows.len().min(1));
        Self {
            title: title.to_owned(),
            lines,
            rows,
            followed: RefCell::default(),
            followed_rows: RefCell::default(),
        }
    }

    /// The lines below the paragraph that begins with these bold words.
    pub(super) fn below(&self, lead: &str) -> Vec<Line<'_>> {
        let lines = self.lines.iter().enumerate().filter(|(_, (of, _))| of == lead);
        let lines: Vec<_> = lines.map(|(at, (_, call))| Line { call, at: Some(at) }).collect();
        assert!(!lines.is_empty(), "{}: nothing to follow below {lead:?}", self.title);
        lines
    }

    /// The rows of its table, by their first cells.
    pub(super) fn rows(&self) -> Vec<&str> {
        self.rows.iter().map(|(first, _)| first.as_str()).collect()
    }

    /// What is written as code in the second cell of a row, and begins so.
    fn code_in(&self, row: &str, start: &str) -> Vec<&str> {
        let (_, cell) = self.rows.iter().find(|(first, _)| first == row).expect("the row");
        self.followed_rows.borrow_mut().insert(row.to_owned());
        cell.split('`').skip(1).step_by(2).filter(|code| code.starts_with(start)).collect()
    }

    /// The calls in the second cell of a row.
    pub(super) fn calls_in(&self, row: &str) -> Vec<Line<'_>> {
        self.code_in(row, "locker ").into_iter().map(|call| Line { call, at: None }).collect()
    }

    /// The JSON that the table gives as an example of a form.
    pub(super) fn example(&self, row: &str) -> Value {
        let code = self.code_in(row, "{");
        serde_json::from_str(code.first().expect("an example")).expect("JSON")
    }

    /// Runs a line of the section, and has what it prints as JSON.
    pub(super) fn run(&self, place: &Place, line: &Line<'_>, given: Given<'_>) -> Ran {
        let Line { call: line, at } = line;
        let call = line.strip_prefix("$ ").unwrap_or(line);
        let call = call.strip_prefix("locker ").unwrap_or_else(|| panic!("{line}: not a call of locker"));
        self.followed.borrow_mut().extend(at);
        let words = call.split_whitespace().map(|word| match word {
            "KEY" => given.key,
            "REVISION" => given.revision,
            "TEXT" => "the provider was called",
            "JSON" => given.result,
            "ID" => word,
            word => {
                let is_blank = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
                assert!(!is_blank, "{line}: nothing is given for {word}");
                word
            }
        });
        let words: Vec<_> = words.chain(["--output", "json"]).collect();
        assert!(words.iter().all(|word| !word.is_empty()), "{line}: something is not given: {given:?}");
        let Some(seen) = words.iter().position(|word| *word == "ID") else { return place.run(&words) };
        // The id of the dry run, which is the same call without `--seen ID`.
        let dry_run = place.run(&[&words[..seen - 1], &words[seen + 1..]].concat());
        assert_eq!(dry_run.code, 6, "{line}: {}", dry_run.said);
        let id = dry_run.json()["seen"].as_str().expect("an id").to_owned();
        place.run(&[&words[..seen], &[id.as_str()], &words[seen + 1..]].concat())
    }

    /// Fails unless each line and each row was followed.
    pub(super) fn is_followed(&self) {
        let (lines, rows) = (self.followed.borrow(), self.followed_rows.borrow());
        let left = self.lines.iter().enumerate().filter(|(at, _)| !lines.contains(at));
        let left = left.map(|(_, (lead, line))| format!("{lead} {line}"));
        let left_rows = self.rows.iter().filter(|(row, _)| !rows.contains(row)).map(|(row, _)| row.clone());
        let left: Vec<_> = left.chain(left_rows).collect();
        assert!(!self.lines.is_empty() && left.is_empty(), "{}: no test follows {left:#?}", self.title);
    }
}
