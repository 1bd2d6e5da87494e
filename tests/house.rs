//! The rules of the house: where files stand, where the SDK may be named, and the words that readers meet.

#![allow(clippy::expect_used, clippy::panic)]

mod links;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SOURCES: [&str; 6] = ["locker/src", "testing/src", "cli/src", "dev/src", "examples", "functions/src"];
/// Files of a folder that a reader can keep in mind.
const MOST_FILES: usize = 12;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// The files below a folder with such an ending, by their path from the root.
fn files(folder: &Path, ending: &str, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            found.insert(name, std::fs::read_to_string(&path).expect("text"));
        }
    }
}

fn sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in SOURCES {
        files(&root().join(folder), "rs", &mut found);
    }
    found
}

#[test]
fn no_folder_has_more_files_than_a_reader_keeps_in_mind() {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for name in sources().keys() {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder.to_owned()).or_default() += 1;
    }
    folders.retain(|_, files| *files > MOST_FILES);
    assert!(folders.is_empty(), "{folders:?}");
}

#[test]
fn only_the_store_names_requests_and_types_of_the_sdk() {
    let of_the_sdk =
        ["types", "operation", "error", "primitives"].map(|module| format!("aws_sdk_dynamodb::{module}"));
    let library = sources().into_iter().filter(|(name, _)| name.starts_with("locker/src"));
    for (name, text) in library.filter(|(name, _)| !name.starts_with("locker/src/store")) {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            assert!(!of_the_sdk.iter().any(|path| line.contains(path)), "{name}: {line}");
        }
    }
}

#[test]
fn no_two_public_types_share_a_name() {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in sources().into_iter().filter(|(name, _)| name.starts_with("locker/src")) {
        for line in text.lines() {
            let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
            if let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) {
                let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
                names.entry(rest[..end].to_owned()).or_default().push(file.clone());
            }
        }
    }
    assert!(names.len() > 60, "{}", names.len());
    names.retain(|_, files| files.len() > 1);
    assert!(names.is_empty(), "{names:?}");
}

/// The patterns, as words that follow each other: `*` is any word. The word behind `!` may not follow.
const PATTERNS: [&str; 20] = [
    "a person",
    "so long !as",
    "so many !as",
    "so often !as",
    "as of *_link",
    "in passing",
    "for good",
    "lies beside",
    "lie beside",
    "let go of",
    "lets go of",
    "come upon",
    "comes upon",
    "a drive",
    "a try",
    "an undoing",
    "nobody knows",
    "somebody else",
    "hand it on",
    "taken for",
];

/// The words of a line, in lower case. The start of a link of rustdoc is a word of its own.
fn words(line: &str) -> Vec<String> {
    let line = line.to_lowercase().replace("[`", " _link ");
    let split = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '\'');
    split.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn has(words: &[String], pattern: &str) -> bool {
    let wanted: Vec<&str> = pattern.split(' ').filter(|word| !word.starts_with('!')).collect();
    let refused = pattern.split(' ').find_map(|word| word.strip_prefix('!'));
    words.windows(wanted.len()).enumerate().any(|(at, window)| {
        let matches = window.iter().zip(&wanted).all(|(word, wanted)| word == wanted.trim_start_matches('*'));
        let next = words.get(at + wanted.len()).map(String::as_str);
        matches && (refused.is_none() || next != refused)
    })
}

/// A sentence without a subject at the start of a summary: `Who ...`, or one word alone.
fn is_headless(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix("/// ") else { return false };
    ["Who ", "Whoever "].iter().any(|start| text.starts_with(start))
        || ["Who.", "Why.", "When.", "How."].contains(&text)
}

#[test]
fn what_readers_meet_is_written_in_plain_english() {
    let mut texts = sources();
    files(&root().join("infra"), "yaml", &mut texts);
    let template = std::fs::read_to_string(root().join("template.yaml")).expect("text");
    texts.insert("template.yaml".to_owned(), template);
    let mut found = Vec::new();
    for (name, text) in &texts {
        for (number, line) in text.lines().enumerate() {
            let words = words(line);
            if is_headless(line) || PATTERNS.iter().any(|pattern| has(&words, pattern)) {
                found.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_example_of_the_documentation_hides_a_helper_of_the_workspace() {
    for (name, text) in sources() {
        for line in text.lines().filter(|line| line.trim_start().starts_with("//")) {
            assert!(!line.contains("# locker_tests::"), "{name}: a reader cannot paste what follows {line}");
        }
    }
}

#[test]
fn the_patterns_find_what_they_are_for() {
    let finds = |line: &str| is_headless(line) || PATTERNS.iter().any(|pattern| has(&words(line), pattern));
    for line in [
        "    /// Who.",
        "/// Whoever comes with the same key.",
        "//! How often somebody else comes before.",
        "/// As of [`create_table`](crate::create_table).",
        "// waits so long for an answer",
        "#[error(\"step {} failed and needs a person\")]",
        "nobody knows whether it happened",
    ] {
        assert!(finds(line), "{line}");
    }
    for line in [
        "/// Not so long as the retention.",
        "/// A personal access token.",
        "/// Same as [`create_table`](crate::create_table).",
        "/// How long an answer is kept.",
        "let drive = 1;",
    ] {
        assert!(!finds(line), "{line}");
    }
}

const PACKAGES: [&str; 3] = ["locker", "testing", "cli"];

/// The names of all files below a folder, but for what is built and fetched.
fn names(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !path.is_dir() {
            found.push(path.strip_prefix(root()).expect("below the root").display().to_string());
        } else if !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
            names(&path, found);
        }
    }
}

#[test]
fn every_file_can_be_checked_out_everywhere() {
    const RESERVED: [&str; 4] = ["con", "prn", "aux", "nul"];
    let mut all = Vec::new();
    names(&root(), &mut all);
    assert!(all.len() > 400, "{} files", all.len());
    for name in all {
        for part in name.split('/') {
            let stem = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
            let numbered = ["com", "lpt"].iter().any(|device| {
                stem.strip_prefix(device).is_some_and(|rest| matches!(rest.as_bytes(), [b'0'..=b'9']))
            });
            assert!(!numbered && !RESERVED.contains(&stem.as_str()), "{name}: Windows has no such file");
            let odd = |c: char| c.is_control() || "<>:\"\\|?*".contains(c);
            assert!(!part.contains(odd) && !part.ends_with(['.', ' ']), "{name}: Windows has no such file");
        }
    }
}

#[test]
fn every_package_carries_its_licence_and_a_readme_whose_links_hold_anywhere() {
    let read =
        |name: String| std::fs::read_to_string(root().join(&name)).unwrap_or_else(|_| panic!("no {name}"));
    for package in PACKAGES {
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert_eq!(read(format!("{package}/{licence}")), read(licence.to_owned()), "{package}");
        }
        let readme = read(format!("{package}/README.md"));
        for (_, link) in readme.match_indices("](").map(|(at, mark)| readme.split_at(at + mark.len())) {
            assert!(
                link.starts_with("https://"),
                "{package}/README.md: {}",
                link.lines().next().unwrap_or("")
            );
        }
        let manifest = read(format!("{package}/Cargo.toml"));
        for what in ["description", "keywords", "categories", "readme", "documentation", "license"] {
            assert!(manifest.contains(&format!("\n{what}")), "{package}: no {what}");
        }
    }
}
