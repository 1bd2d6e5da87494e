//! The register of the prose: phrases that a reader has to decode, counted for each 1,000 words, and
//! lines of Markdown that are too wide.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::{SOURCES, files, names, root};

/// Markers for each 1,000 words: in a file of more than `SHORT` words, and over all files.
const MOST_IN_A_FILE: usize = 8;
const MOST_OVER_ALL: usize = 5;
const SHORT: usize = 300;

/// Words of the guide, without code. A longer chapter replaces text elsewhere.
const MOST_WORDS_OF_THE_GUIDE: usize = 29_534;

/// A sentence that begins with one of these words has no noun as its subject.
const OPENERS: [&str; 7] = ["what", "who", "whoever", "whatever", "which", "whether", "of"];

/// Verbs after a headless *what*.
const HEADLESS: [&str; 15] = [
    "is", "was", "were", "has", "had", "can", "cannot", "may", "comes", "came", "becomes", "became", "fits",
    "needs", "others",
];

/// Phrases for which the style guide has a plain term. A comma is a word here.
const PHRASES: [&str; 62] = [
    ", too",
    "after all",
    "all the same",
    "also if",
    "also when",
    "anew",
    "another one",
    "anybody",
    "as far as",
    "at it",
    "beside",
    "besides",
    "behind it",
    "behind them",
    "books",
    "break off",
    "breaks off",
    "broke off",
    "broken off",
    "came to",
    "come to",
    "comes to",
    "everybody",
    "for ever",
    "go on",
    "goes on",
    "going on",
    "gone",
    "hear",
    "heard",
    "hears",
    "in passing",
    "in so many words",
    "its turn",
    "left alone",
    "meanwhile",
    "nobody",
    "of its own",
    "of their own",
    "of your own",
    "on its way",
    "on the way",
    "on their way",
    "one that",
    "ones that",
    "passed by",
    "said",
    "say",
    "says",
    "set aside",
    "sets aside",
    "so long",
    "somebody",
    "such a one",
    "tell",
    "tells",
    "those that",
    "told",
    "went on",
    "whatever",
    "whoever",
    "without a word",
];

struct Word {
    text: String,
    line: usize,
    /// Begins a sentence, an item, a heading or a cell.
    is_first: bool,
    /// Ends a question.
    asks: bool,
}

/// The prose of a file as words. Code, quoted text and the targets of links are left out.
#[derive(Default)]
struct Prose {
    words: Vec<Word>,
    /// The next word begins a sentence.
    is_fresh: bool,
    /// Comments: a summary of a `bool` begins with *Whether*, as in the standard library.
    is_rust: bool,
    /// Inside `code` or "quoted text", which may continue in the next line.
    inside: Option<char>,
}

impl Prose {
    fn of_markdown(text: &str) -> Self {
        let mut prose = Self::default();
        let mut is_code = false;
        prose.end();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let is_fence = line.starts_with("```");
            is_code ^= is_fence;
            if is_code || is_fence || line.is_empty() || line.starts_with('>') {
                prose.end();
            } else {
                prose.line(at + 1, line);
            }
        }
        prose
    }

    fn of_rust(text: &str) -> Self {
        let mut prose = Self { is_rust: true, ..Self::default() };
        let mut is_code = false;
        prose.end();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let comment = ["///", "//!", "//"].iter().find_map(|mark| line.strip_prefix(mark));
            let Some(comment) = comment.map(str::trim_start) else {
                is_code = false;
                prose.end();
                continue;
            };
            let is_fence = comment.starts_with("```");
            is_code ^= is_fence;
            if is_code || is_fence || comment.is_empty() {
                prose.end();
            } else {
                prose.line(at + 1, comment);
            }
        }
        prose
    }

    /// Ends a paragraph.
    fn end(&mut self) {
        self.is_fresh = true;
        self.inside = None;
    }

    fn line(&mut self, number: usize, line: &str) {
        let is_item =
            line.starts_with(['-', '*', '#', '|', '!']) || line.starts_with(|c: char| c.is_numeric());
        if is_item {
            self.end();
        }
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let (one, after) = rest.split_at(c.len_utf8());
            if let Some(end) = self.inside {
                if c == end {
                    self.inside = None;
                }
                rest = after;
            } else if let Some(target) = rest.strip_prefix("](") {
                rest = target.split_once(')').map_or("", |(_, rest)| rest);
            } else if rest.starts_with("https://") || rest.starts_with("http://") {
                rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
            } else if c == '`' || c == '"' {
                // What follows is no first word of a sentence.
                self.inside = Some(c);
                self.is_fresh = false;
                rest = after;
            } else if c.is_alphabetic() {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '\'').unwrap_or(rest.len());
                self.push(&rest[..end], number);
                rest = &rest[end..];
            } else {
                match c {
                    '?' => {
                        if let Some(last) = self.words.last_mut() {
                            last.asks = true;
                        }
                        self.is_fresh = true;
                    }
                    '.' | '!' if after.is_empty() || after.starts_with([' ', '*']) => {
                        self.is_fresh = true;
                    }
                    '|' => self.is_fresh = true,
                    ',' => self.push(one, number),
                    _ => {}
                }
                rest = after;
            }
        }
    }

    fn push(&mut self, text: &str, line: usize) {
        let is_first = self.is_fresh && text != ",";
        self.is_fresh &= text == ",";
        self.words.push(Word { text: text.to_lowercase(), line, is_first, asks: false });
    }

    fn count(&self) -> usize {
        self.words.iter().filter(|word| word.text != ",").count()
    }

    /// The words from here to the end of the sentence.
    fn sentence(&self, at: usize) -> &[Word] {
        let rest = &self.words[at..];
        let end = rest.iter().skip(1).position(|word| word.is_first).map_or(rest.len(), |end| end + 1);
        &rest[..end]
    }

    /// Each marker with its line.
    fn markers(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            let sentence = self.sentence(at);
            let begins = |phrase: &str| {
                let mut words = sentence.iter();
                phrase.split(' ').all(|part| words.next().is_some_and(|word| word.text == part))
            };
            if let Some(phrase) = PHRASES.iter().find(|phrase| begins(phrase)) {
                found.push((word.line, (*phrase).to_owned()));
            } else if word.is_first && OPENERS.contains(&word.text.as_str()) {
                let is_allowed = self.is_rust && word.text == "whether";
                if !is_allowed && !sentence.iter().any(|word| word.asks) {
                    found.push((word.line, format!("a sentence that begins with {}", word.text)));
                }
            } else if word.text == "what" {
                let verb = sentence.get(1).filter(|next| HEADLESS.contains(&next.text.as_str()));
                found.extend(verb.map(|verb| (word.line, format!("what {}", verb.text))));
            }
        }
        found
    }
}

/// The prose of each file: Markdown and the comments of the product.
fn all() -> BTreeMap<String, (String, Prose)> {
    let mut texts = BTreeMap::new();
    for folder in SOURCES {
        files(&root().join(folder), "rs", &mut texts);
    }
    for (name, text) in markdown() {
        texts.insert(name, text);
    }
    let of = |name: &str, text: &str| match name.ends_with(".md") {
        true => Prose::of_markdown(text),
        false => Prose::of_rust(text),
    };
    texts.into_iter().map(|(name, text)| (name.clone(), (text.clone(), of(&name, &text)))).collect()
}

fn markdown() -> BTreeMap<String, String> {
    let mut found = Vec::new();
    names(&root(), &mut found);
    let found = found.into_iter().filter(|name| name.ends_with(".md"));
    found.map(|name| (name.clone(), std::fs::read_to_string(root().join(name)).expect("text"))).collect()
}

/// Describes a file with too many markers: its count, and its worst lines.
fn complaint(name: &str, text: &str, prose: &Prose) -> Option<String> {
    let (words, markers) = (prose.count(), prose.markers());
    if words <= SHORT || markers.len() * 1000 <= words * MOST_IN_A_FILE {
        return None;
    }
    let mut by_line: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (line, marker) in &markers {
        by_line.entry(*line).or_default().push(marker.clone());
    }
    let mut worst: Vec<_> = by_line.into_iter().collect();
    worst.sort_by_key(|(line, found)| (std::cmp::Reverse(found.len()), *line));
    let mut said = format!(
        "{name}: {} markers in {words} words; at most {MOST_IN_A_FILE} for each 1,000 are allowed",
        markers.len()
    );
    for (line, found) in worst.into_iter().take(5) {
        let shown: String = text.lines().nth(line - 1).unwrap_or_default().trim().chars().take(100).collect();
        write!(said, "\n  {line}: {} in: {shown}", found.join(", ")).expect("a string");
    }
    Some(said)
}

#[test]
fn prose_has_few_phrases_that_a_reader_decodes() {
    let all = all();
    let wrong: Vec<_> = all.iter().filter_map(|(name, (text, prose))| complaint(name, text, prose)).collect();
    assert!(wrong.is_empty(), "rewrite these texts with a subject and a verb:\n{}", wrong.join("\n"));
    let words: usize = all.values().map(|(_, prose)| prose.count()).sum();
    let markers: usize = all.values().map(|(_, prose)| prose.markers().len()).sum();
    println!("{markers} markers in {words} words of {} files", all.len());
    assert!(words > 100_000, "{words} words");
    assert!(markers * 1000 <= words * MOST_OVER_ALL, "{markers} markers in {words} words");
}

#[test]
fn a_text_in_the_old_register_is_refused_with_its_lines() {
    let bad = "What could not be sent is tried again.\n\nWho asks anew is told of it, too.\n\nPlain text.\n";
    let text = bad.repeat(20);
    let said = complaint("a.md", &text, &Prose::of_markdown(&text)).expect("a complaint");
    assert!(said.starts_with("a.md: 100 markers in 360 words"), "{said}");
    assert!(
        said.contains("\n  3: a sentence that begins with who, anew, told, , too in: Who asks"),
        "{said}"
    );
    let plain = "The relay retries the message. If it is late, the relay skips it.\n\n".repeat(40);
    assert_eq!(complaint("a.md", &plain, &Prose::of_markdown(&plain)), None);
    let short = "What is late is told.\n";
    assert_eq!(complaint("a.md", short, &Prose::of_markdown(short)), None);
}

#[test]
fn code_quotes_links_and_questions_are_no_markers() {
    let found = |text: &str| {
        let markers = Prose::of_markdown(text).markers();
        markers.into_iter().map(|(_, marker)| marker).collect::<Vec<_>>()
    };
    for text in [
        "The command prints \"what is said is\nsaid\" and `told\nanew`.",
        "> What is quoted is said.",
        "```\nWhat is code is said.\n```",
        "See [the page](what-is-said.md) and https://said.example/told.",
        "What does it do?",
        "The item of `it`. One thing of one kind.",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
    assert_eq!(found("It has a name of its\nown, and is gone."), ["of its own", "gone"]);
    assert_eq!(found("- Of three, one is late.").len(), 1);
    assert_eq!(found("| key | what it means |").len(), 1);
    assert_eq!(found("Whether it is late is unknown.").len(), 1);
    assert_eq!(Prose::of_rust("/// Whether it is late.").markers(), []);
    let rust = "/// Whoever comes late waits.\nfn told() {}\n/// ```\n/// told();\n/// ```\n";
    assert_eq!(Prose::of_rust(rust).markers(), [(1, "whoever".to_owned())]);
}

#[test]
fn markdown_wraps_at_100_columns() {
    const WIDEST: usize = 100;
    let mut wide = Vec::new();
    for (name, text) in markdown() {
        let mut is_code = false;
        for (at, line) in text.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            // A table, a heading, a link and a line of code cannot wrap.
            let wraps =
                !is_code && !line.starts_with(['|', '#']) && !line.contains("](") && !line.contains("://");
            if wraps && line.chars().count() > WIDEST {
                wide.push(format!("{name}:{}", at + 1));
            }
        }
    }
    assert!(wide.is_empty(), "{} lines are wider than {WIDEST}:\n{}", wide.len(), wide.join("\n"));
}

/// Prints the words of each chapter (`-- --nocapture`), for `docs/evidence/words.md`.
#[test]
fn words_of_the_guide_stay_within_their_limit() {
    let chapters: BTreeSet<_> =
        markdown().into_iter().filter(|(name, _)| name.starts_with("docs/book/src/")).collect();
    let mut sum = 0;
    for (name, text) in &chapters {
        let words = Prose::of_markdown(text).count();
        println!("| {} | {words} |", name.trim_start_matches("docs/book/src/"));
        sum += words;
    }
    println!("| all | {sum} |");
    assert!(chapters.len() > 20, "{} chapters", chapters.len());
    assert!(sum <= MOST_WORDS_OF_THE_GUIDE, "{sum} words: shorten a chapter, or move proof to docs/evidence");
}
