//! What the documents point to exists: files, and the tests that are named as proof.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::root;

/// The documents, and the folder that their links start from.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("SECURITY.md")];
    for folder in ["docs", "docs/decisions", "docs/evidence", "docs/book/src"] {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        found.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    found
}

/// The links of a text: what is shown, and where it leads.
fn links(text: &str) -> Vec<(&str, &str)> {
    let ends = text.match_indices("](");
    ends.filter_map(|(middle, _)| {
        let shown = text[..middle].rsplit_once('[')?.1;
        let target = text[middle + 2..].split_once(')')?.0;
        (!target.contains(char::is_whitespace)).then_some((shown, target))
    })
    .collect()
}

#[test]
fn every_link_leads_to_a_file_and_every_test_that_is_named_is_in_it() {
    let (mut files, mut tests) = (0, 0);
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("text");
        let folder = document.parent().expect("a folder");
        for (shown, target) in links(&text) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || target.starts_with("https://") {
                continue;
            }
            let file = folder.join(path);
            assert!(file.exists(), "{}: {target} leads nowhere", document.display());
            files += 1;
            let name = shown.trim_matches('`');
            // A whole sentence as a name is that of a test.
            if path.ends_with(".rs") && name.matches('_').count() > 2 {
                let source = std::fs::read_to_string(&file).expect("text");
                assert!(
                    source.contains(&format!("fn {name}(")),
                    "{}: {path} has no {name}",
                    document.display()
                );
                tests += 1;
            }
        }
    }
    assert!(files > 100 && tests > 10, "{files} files, {tests} tests");
}

#[test]
fn the_summary_of_the_book_lists_each_chapter_once() {
    let book = root().join("docs/book/src");
    let summary = std::fs::read_to_string(book.join("SUMMARY.md")).expect("a summary");
    let listed = links(&summary);
    for (title, file) in &listed {
        let chapter = std::fs::read_to_string(book.join(file)).unwrap_or_else(|_| panic!("no {file}"));
        assert_eq!(chapter.lines().next(), Some(format!("# {title}").as_str()), "{file}");
    }
    let files = std::fs::read_dir(&book).expect("a folder");
    let files = files.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let files: BTreeSet<String> = files.filter(|name| name != "SUMMARY.md").collect();
    let chapters: BTreeSet<String> = listed.iter().map(|(_, file)| (*file).to_owned()).collect();
    assert_eq!(files, chapters);
    assert_eq!((chapters.len(), listed.len()), (14, 14), "13 chapters and the reference");
}

#[test]
fn the_readme_lists_each_promise_of_the_table() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("text");
    let number = |line: &str, start: &str, end: &str| -> Option<u32> {
        line.strip_prefix(start)?.split_once(end)?.0.parse().ok()
    };
    let numbers = |name: &str, start: &str, end: &str| -> Vec<u32> {
        read(name).lines().filter_map(|line| number(line, start, end)).collect()
    };
    let promises = numbers("docs/promises.md", "| ", " |");
    assert_eq!(promises, (1..=23).collect::<Vec<_>>());
    assert_eq!(numbers("README.md", "", ". **"), promises);
}
