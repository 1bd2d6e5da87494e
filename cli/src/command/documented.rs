//! Every command line in docs, rustdoc, alarms, runbook, help and hints is read by the current
//! definition. A verb or an option that does not exist fails with its file and line.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::stock;
use crate::hint;

/// Keys of items that the library stores: they begin like a command, and are none.
const ITEMS: [&str; 4] = ["locker runs", "locker inbox ", "locker outbox ", "locker dead CONSUMER "];

/// A command line, and where it stands.
struct Found {
    place: String,
    line: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Files below a folder. Tests write command lines that are wrong on purpose.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_left_out = name.starts_with('.') || ["target", "tests", "node_modules"].contains(&name);
        if path.is_dir() && !is_left_out {
            files(&path, found);
        } else if !is_left_out && ["md", "rs", "yaml", "yml"].iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

/// The command lines of a text.
fn lines_of(name: &str, text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut add = |at: usize, text: &str| {
        for part in parts(text) {
            found.push(Found { place: format!("{name}:{}", at + 1), line: part });
        }
    };
    let (is_rust, is_markdown) = (name.ends_with(".rs"), name.ends_with(".md"));
    let (mut is_fenced, mut is_example, mut open) = (false, false, None::<(usize, String)>);
    for (at, raw) in text.lines().enumerate() {
        let comment = ["///", "//!", "//"].iter().find_map(|mark| raw.trim_start().strip_prefix(mark));
        let line = if is_rust { comment.unwrap_or(raw) } else { raw }.trim();
        if line.starts_with("```") {
            (is_fenced, open) = (!is_fenced, None);
            continue;
        }
        for mark in ["Run first: ", "Import: "] {
            let Some((_, command)) = line.split_once(mark) else { continue };
            let command = command.split(". ").next().unwrap_or_default();
            add(at, command.trim_end_matches('"').split(", ").next().unwrap_or_default());
        }
        is_example = (is_example || line == "Examples:") && !line.is_empty();
        if is_example || is_fenced && is_markdown || is_fenced && comment.is_some() {
            // Two spaces end a command: an explanation follows.
            let is_last = line.ends_with("\";");
            let typed = line.trim_end_matches("\";").trim_start_matches("$ ").replace("\\\"", "\"");
            let typed = typed.trim_end_matches('\\').trim();
            let typed =
                typed.strip_prefix("cargo run -- ").map_or(typed.to_owned(), |own| format!("locker {own}"));
            add(at, typed.split("  ").next().unwrap_or_default());
            is_example &= !is_last;
            continue;
        }
        if line.is_empty() {
            open = None;
        }
        // Spans between backticks. A span may continue in the next line.
        for (number, part) in line.split('`').enumerate() {
            if number > 0 {
                open = match open.take() {
                    Some((began, span)) => {
                        add(began, span.trim());
                        None
                    }
                    None => Some((at, String::new())),
                };
            }
            if let Some((_, span)) = &mut open {
                span.push_str(part.trim_end_matches('\\'));
                span.push(' ');
            }
        }
        if line.matches('`').count() % 2 == 0 && open.as_ref().is_some_and(|(began, _)| *began < at) {
            open = None;
        }
    }
    found
}

/// The commands of a line of a shell that are ours.
fn parts(line: &str) -> Vec<String> {
    let (mut parts, mut quote) = (vec![String::new()], None);
    for it in line.chars() {
        match (quote, it) {
            (None, '\'' | '"') => quote = Some(it),
            (Some(open), _) if open == it => quote = None,
            (None, ';' | '|' | '&' | '#' | '>') => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(it);
        }
    }
    let is_item = |part: &str| ITEMS.iter().any(|item| part.starts_with(item));
    // A dependency in a `Cargo.toml` begins so as well.
    let ours =
        |part: &String| part.starts_with("locker ") && !part.starts_with("locker = ") && !is_item(part);
    parts.iter().map(|part| part.trim().to_owned()).filter(ours).collect()
}

/// The words of a command, as a shell reads them. Placeholders of typed values are values.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars().chain(std::iter::once(' ')).peekable();
    while let Some(it) = letters.next() {
        match (quote, it) {
            // In `$'..'` a backslash escapes the next character. Octal digits stay: only the number
            // of words matters here.
            (None, '$') if letters.next_if_eq(&'\'').is_some() => {
                quote = Some('$');
                word.get_or_insert_default();
            }
            (Some('$'), '\'') => quote = None,
            (Some('$'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, '\'' | '"') => {
                quote = Some(it);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == it => quote = None,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(it),
        }
    }
    words.retain(|word| word != "...");
    let typed = |word: String| match word.as_str() {
        "N" => "3".to_owned(),
        "DURATION" => "5m".to_owned(),
        "TIME" => "2026-11-01".to_owned(),
        _ if word.starts_with("${Shards") => "4".to_owned(),
        _ => word,
    };
    words.into_iter().map(typed).collect()
}

/// Why the definition refuses a line. Something that is missing is no mistake in a text.
fn refusal(line: &str) -> Option<String> {
    let words = words(line);
    // `dev` is the verb of another registry.
    if words.get(1).is_some_and(|verb| verb == "dev") {
        return None;
    }
    let own = ["--payments-url", "--orders-table"].map(|name| name.trim_start_matches('-'));
    let mut command = stock();
    for verb in ["complete", "reap"] {
        command = own.iter().fold(command, |command, name| {
            command.mut_subcommand(verb, |verb| verb.arg(clap::Arg::new(*name).long(*name)))
        });
    }
    let error = command.try_get_matches_from(words).err()?;
    let is_incomplete = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    (!is_incomplete).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

fn refused(found: &[Found]) -> Vec<String> {
    let refused = found
        .iter()
        .filter_map(|it| refusal(&it.line).map(|why| format!("{}: `{}`: {why}", it.place, it.line)));
    refused.collect()
}

#[test]
fn every_command_line_in_texts_exists() {
    let mut paths = Vec::new();
    files(&root(), &mut paths);
    let mut found = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        let text = std::fs::read_to_string(&path).expect("text");
        // Its entries name words that are removed.
        if name != "cli/src/command/removed.rs" && name != "cli/src/command/documented.rs" {
            found.extend(lines_of(&name, &text));
        }
    }
    let of = |start: &str| found.iter().filter(|it| it.place.starts_with(start)).count();
    let counts = ["infra/", "docs/", "README.md", "cli/src/", "locker/src/"].map(of);
    assert!(counts.iter().all(|count| *count > 4), "{counts:?}");
    let refused = refused(&found);
    assert!(refused.is_empty(), "{} of {}:\n{}", refused.len(), found.len(), refused.join("\n"));
}

#[test]
fn every_command_line_that_is_printed_exists() {
    let hints = hint::tests::samples().into_iter().map(|line| Found { place: "a hint".to_owned(), line });
    let successors = super::removed::REMOVED.iter().map(|entry| {
        if !entry.now.starts_with("--") {
            return entry.now.to_owned();
        }
        // An option, in a call that is whole otherwise.
        let verbs = entry.was.split(" --").next().unwrap_or_default();
        let given = match verbs {
            "plan" => "release --reason TEXT",
            "dead import" => "FILE --consumer NAME",
            _ => "--all --reason TEXT",
        };
        format!("locker {verbs} {given} {}", entry.now)
    });
    let successors = successors.map(|line| Found { place: "a successor".to_owned(), line });
    let found: Vec<_> = hints.chain(successors).collect();
    assert_eq!(refused(&found), Vec::<String>::new());
    for it in &found {
        // A hint is whole: only placeholders are to be filled in.
        assert!(stock().try_get_matches_from(words(&it.line)).is_ok(), "{}: {}", it.place, it.line);
    }
}

#[test]
fn a_wrong_command_line_is_found_where_it_stands() {
    let text = "See `locker frobnicate` and\n`locker ls\n--sideways`.\n\n```console\n$ locker show --up K  # x\n```\n";
    let yaml = "Fn::Sub: \"Soon. Run first: locker dead ls --table ${Table}\"\n\
                Fn::Sub: \"Soon. Import: locker dead imports URL. Then wait.\"\n";
    let source = "const A: &str = \"\\\nExamples:\n  locker top   all\n\";\n// as `locker find` does\n";
    let places = |name: &str, text: &str| -> Vec<String> {
        let refused = refused(&lines_of(name, text)).into_iter();
        refused.map(|it| it.split(": ").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(places("a.md", text), ["a.md:1", "a.md:2", "a.md:6"]);
    assert_eq!(places("b.yaml", yaml), ["b.yaml:1", "b.yaml:2"]);
    assert_eq!(places("c.rs", source), ["c.rs:3", "c.rs:5"]);
}
