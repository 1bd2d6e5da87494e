//! What the documents point to exists: files, and the tests that are named as proof.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::root;

/// The documents, and the folder that their links start from.
fn documents() -> Vec<PathBuf> {
    let mut found = ["README.md", "SECURITY.md", "CONTRIBUTING.md"].map(|name| root().join(name)).to_vec();
    for folder in ["docs", "docs/decisions", "docs/evidence", "docs/book/src", "docs/book/src/operating"] {
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

/// The files below a folder, by their paths in the book.
fn below(book: &Path, folder: &str) -> BTreeSet<String> {
    let files =
        std::fs::read_dir(book.join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.is_file());
    files.map(|path| path.strip_prefix(book).expect("below it").display().to_string()).collect()
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
    let mut files = below(&book, "");
    files.extend(below(&book, "operating"));
    files.remove("SUMMARY.md");
    let chapters: BTreeSet<String> = listed.iter().map(|(_, file)| (*file).to_owned()).collect();
    assert_eq!(files, chapters);
    assert_eq!((chapters.len(), listed.len()), (28, 28), "20 chapters, 7 pages of one, and the reference");
}

#[test]
fn pictures_of_the_book_are_small_described_and_used() {
    let book = root().join("docs/book/src");
    let mut used = BTreeSet::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("text");
        let folder = document.parent().expect("a folder");
        for (shown, target) in links(&text).into_iter().filter(|(_, target)| target.ends_with(".png")) {
            assert!(shown.len() > 40, "{}: {target} is described by {shown:?}", document.display());
            used.insert(folder.join(target).canonicalize().expect("a picture"));
        }
    }
    let stored =
        below(&book, "images").into_iter().map(|name| book.join(name).canonicalize().expect("a file"));
    let stored: BTreeSet<PathBuf> = stored.collect();
    assert_eq!(stored, used);
    for picture in &stored {
        let bytes = std::fs::metadata(picture).expect("a file").len();
        assert!(bytes < 150_000, "{} has {bytes} bytes", picture.display());
    }
}

#[test]
fn the_chapter_on_guarantees_lists_each_promise_of_the_table() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("text");
    let number = |line: &str, start: &str, end: &str| -> Option<u32> {
        line.strip_prefix(start)?.split_once(end)?.0.parse().ok()
    };
    let numbers = |name: &str, start: &str, end: &str| -> Vec<u32> {
        read(name).lines().filter_map(|line| number(line, start, end)).collect()
    };
    let promises = numbers("docs/promises.md", "| ", " |");
    assert_eq!(promises, (1..=25).collect::<Vec<_>>());
    assert_eq!(numbers("docs/book/src/guarantees.md", "", ". **"), promises);
}
