//! What the documents point to exists: files, and the tests that are named as proof.

use std::path::PathBuf;

use crate::root;

/// The documents, and the folder that their links start from.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("SECURITY.md")];
    for folder in ["docs", "docs/decisions"] {
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
