//! The rules of the house: which module may import which, where the SDK may be named, how wide
//! comments are, how plain the prose is.

#![allow(clippy::expect_used, clippy::panic)]

mod links;
mod register;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const SOURCES: [&str; 6] = ["locker/src", "testing/src", "cli/src", "dev/src", "examples", "functions/src"];

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

/// The top-level modules of the library, from the lowest floor to the highest. Modules in one row
/// stand on one floor and do not import each other.
const FLOORS: [&[&str]; 15] = [
    &["core"],
    &["settings", "failure", "clock", "metrics"],
    &["error", "client"],
    &["store"],
    &["session"],
    &["token"],
    &["http"],
    &["message"],
    &["workflow"],
    &["relay"],
    &["inbox"],
    &["dead_letters", "aws"],
    &["operator"],
    &["lambda"],
    &["lib"],
];

fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// Returns the code of a file of the library: no comments, no tests.
fn code_of(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the top-level modules that code names behind `crate::`.
fn imports_of(code: &str) -> Vec<String> {
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        text[..end].to_owned()
    };
    let mut found = Vec::new();
    for (at, mark) in code.match_indices("crate::") {
        let rest = &code[at + mark.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.push(name(rest));
            continue;
        };
        // A list of paths: only the names at its own level are modules.
        let mut depth = 0;
        let mut starts = true;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => starts = true,
                c if starts && c.is_alphabetic() => {
                    found.push(name(&list[at..]));
                    starts = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn no_import_of_the_library_points_up() {
    let mut wrong = Vec::new();
    for (file, text) in sources().into_iter().filter(|(name, _)| name.starts_with("locker/src/")) {
        let own = file.trim_start_matches("locker/src/").split(['/', '.']).next().unwrap_or_default();
        let is_of_tests = ["/proof/", "corpus.rs", "properties.rs"].iter().any(|part| file.contains(part));
        if is_of_tests || own == "lib" {
            continue;
        }
        let Some(floor) = floor_of(own) else {
            wrong.push(format!("{file}: {own} has no floor; add it to FLOORS"));
            continue;
        };
        for import in imports_of(&code_of(&text)) {
            match floor_of(&import) {
                None => wrong.push(format!("{file}: crate::{import} is no module; name the module")),
                Some(to) if to > floor => {
                    wrong.push(format!("{file}: {own} imports {import}, which is above"))
                }
                Some(to) if to == floor && import != own => {
                    wrong.push(format!("{file}: {own} imports {import}, which is beside it"));
                }
                Some(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_are_read_from_paths_and_lists() {
    let code = "use crate::core::key::Key;\nuse crate::{error::Error, store::{Row, Store}};\nlet x = crate::session::now();";
    assert_eq!(imports_of(code), ["core", "error", "store", "session"]);
}

#[test]
fn comments_wrap_at_100_columns() {
    const WIDEST: usize = 100;
    let mut wide = Vec::new();
    for (file, text) in sources() {
        let mut is_example = false;
        for (number, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            if !comment.starts_with("//") {
                is_example = false;
                continue;
            }
            is_example ^= comment.contains("```");
            // A table, a link and a line of an example cannot wrap.
            let wraps = !is_example && !comment.contains("| ") && !comment.contains("://");
            if wraps && line.chars().count() > WIDEST {
                wide.push(format!("{file}:{}", number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "{} comment lines are wider than {WIDEST}:\n{}", wide.len(), wide.join("\n"));
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

/// The public names of a file: those of its `pub use`, and those of its items.
fn exported(text: &str) -> Vec<String> {
    let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut names = Vec::new();
    for used in code.split("\npub use ").skip(1) {
        let path = used.split(';').next().unwrap_or_default();
        let listed = path.split_once('{').map_or(path, |(_, list)| list.trim_end_matches('}'));
        let last = |name: &str| name.rsplit([' ', ':']).next().unwrap_or_default().to_owned();
        names.extend(listed.split(',').map(str::trim).filter(|name| !name.is_empty()).map(last));
    }
    for line in code.lines().filter_map(|line| line.strip_prefix("pub ")) {
        let line = line.strip_prefix("const fn ").or(line.strip_prefix("async fn ")).unwrap_or(line);
        let kinds = ["struct ", "enum ", "trait ", "type ", "const ", "fn "];
        let item = kinds.iter().find_map(|kind| line.strip_prefix(kind)).unwrap_or(line);
        let end = item.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(item.len());
        if !["use", "mod"].contains(&&item[..end]) {
            names.push(item[..end].to_owned());
        }
    }
    names
}

/// The public names with their modules, such as `inbox::Taken`.
fn public_names() -> BTreeSet<String> {
    let sources = sources();
    let root = &sources["locker/src/lib.rs"];
    let of_root = root.split("#[cfg(doctest)]").next().unwrap_or_default();
    let mut names: BTreeSet<_> = exported(of_root).into_iter().collect();
    for module in root.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        let files = [format!("locker/src/{module}.rs"), format!("locker/src/{module}/mod.rs")];
        let text = files.iter().find_map(|file| sources.get(file)).expect(module);
        names.extend(exported(text).into_iter().map(|name| format!("{module}::{name}")));
    }
    names
}

#[test]
fn every_public_name_has_a_program_that_uses_it() {
    let table = std::fs::read_to_string(root().join("docs/names.md")).unwrap();
    let mut listed = BTreeSet::new();
    for row in table.lines().filter(|line| line.contains("](../")) {
        let cells: Vec<_> = row.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect();
        let [path, link, by] = cells[..] else { continue };
        let program = link.split(['[', ']']).nth(1).unwrap();
        let by = if by.is_empty() { path.rsplit("::").next().unwrap() } else { by };
        let text = std::fs::read_to_string(root().join(program)).expect(program);
        assert!(text.contains(by), "{program} does not use {path} by {by}");
        listed.insert(path.to_owned());
    }
    let names = public_names();
    let without: Vec<_> = names.difference(&listed).collect();
    assert!(
        without.is_empty(),
        "give these a program and a row in docs/names.md, or make them private: {without:?}"
    );
    let gone: Vec<_> = listed.difference(&names).collect();
    assert!(gone.is_empty(), "docs/names.md lists names that are not public: {gone:?}");
}

#[test]
fn every_public_error_answers_a_question_of_a_caller() {
    let table = std::fs::read_to_string(root().join("docs/names.md")).unwrap();
    let questions = table.split("## Names").next().unwrap();
    let names = public_names();
    let public = |name: &str| names.iter().any(|path| path.rsplit("::").next() == Some(name));
    let mut errors = BTreeSet::new();
    for (_, text) in sources().into_iter().filter(|(file, _)| file.starts_with("locker/src")) {
        let derived = text.split("thiserror::Error)]").skip(1).filter_map(|rest| {
            let item = rest.lines().find(|line| line.contains("struct ") || line.contains("enum "))?;
            item.strip_prefix("pub struct ").or(item.strip_prefix("pub enum "))
        });
        let written = text.split("std::error::Error for ").skip(1);
        for rest in derived.chain(written) {
            let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            errors.insert(rest[..end].to_owned());
        }
    }
    errors.retain(|name| public(name));
    assert!(errors.len() > 5, "{errors:?}");
    for error in errors {
        let is_listed = [format!("`{error}`"), format!("::{error}`")].iter().any(|it| questions.contains(it));
        assert!(is_listed, "no question in docs/names.md is answered by {error}");
    }
}

#[test]
fn no_example_of_the_documentation_hides_a_helper_of_the_workspace() {
    for (name, text) in sources() {
        for line in text.lines().filter(|line| line.trim_start().starts_with("//")) {
            assert!(!line.contains("# locker_tests::"), "{name}: a reader cannot paste what follows {line}");
        }
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
