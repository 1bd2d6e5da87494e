//! Verbs and options that were removed, and their successors. A call of one prints the successor
//! and exits with 2.

use std::ffi::OsString;

use clap::{ArgAction, Command};

/// A verb or an option that was removed.
pub(crate) struct Removed {
    /// Its words: verbs, then an option, then a value.
    pub(crate) was: &'static str,
    /// A command line that does the same, or an option in the place of the option.
    pub(crate) now: &'static str,
}

const fn removed(was: &'static str, now: &'static str) -> Removed {
    Removed { was, now }
}

/// An entry with more words comes first. Its verbs are a prefix of those of the call.
pub(crate) const REMOVED: [Removed; 26] = [
    removed("find", "locker ls --text TEXT"),
    removed("top", "locker status --every 5s"),
    removed("history", "locker --history FILE status"),
    removed("story", "locker show KEY"),
    removed("workflow ls --quarantine", "locker ls workflows --need quarantined"),
    removed("workflow ls --failing", "locker ls workflows --need failing"),
    removed("workflow ls --due", "locker ls workflows --due"),
    removed("workflow ls --finished", "locker ls workflows --finished"),
    removed("workflow ls", "locker ls workflows"),
    removed("dead ls --archived", "locker ls messages --archived"),
    removed("dead ls", "locker ls messages --need dead"),
    removed("ls --overdue", "locker ls tokens --due"),
    removed("ls --state held", "locker ls tokens --need held"),
    removed("ls --state inProgress", "locker ls tokens --in-progress"),
    removed("ls --state", "locker ls --need held"),
    removed("ls --status", "locker ls --need held"),
    removed("ls --owner", "locker ls --by TEXT"),
    removed("ls --need due", "locker ls --due"),
    // Only the option. The rest of the call stays as it was.
    removed("plan --state", "--need held"),
    removed("plan --owner", "--by TEXT"),
    removed("plan --need due", "--due"),
    removed("dead import --max", "--limit 10"),
    removed("dead redrive --max", "--limit 10"),
    removed("dead archive --max", "--limit 10"),
    removed("dead restore --max", "--limit 10"),
    removed("dead discard --max", "--limit 10"),
];

/// The entry of a call that the definition refused, and its sentence.
pub(crate) fn successor(command: &Command, arguments: &[OsString]) -> Option<String> {
    let arguments: Vec<_> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (verbs, rest) = split(command, &arguments);
    if verbs.first() == Some(&"dev") && command.find_subcommand("dev").is_none() {
        return Some(DEV.to_owned());
    }
    let entry = REMOVED.iter().find(|entry| entry.fits(&verbs, &rest))?;
    let history = if entry.was == "history" { HISTORY } else { "" };
    let place = if entry.now.starts_with("--") { " in its place" } else { "" };
    Some(format!("`locker {}` was removed; use `{}`{place}{history}", entry.was, entry.now))
}

/// The verb of another command.
const DEV: &str = "`locker dev` is the sample shop of Locker's source, and this command does not contain it; in a \
                   checkout of the source, run `cargo run -- dev`";

/// No verb checks a history any more.
const HISTORY: &str =
    " to record calls; tests/history of the source checks a file (docs/evidence/reliability.md)";

impl Removed {
    fn fits(&self, verbs: &[&str], rest: &[&str]) -> bool {
        let words: Vec<_> = self.was.split(' ').collect();
        let at = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
        let (own, option) = words.split_at(at);
        let has = |option: &[&str]| {
            let apart = |window: &[&str]| window.iter().zip(option).all(|(a, b)| a.eq_ignore_ascii_case(b));
            let joined = option.join("=").to_lowercase();
            let is_joined = |word: &&str| {
                let word = word.to_lowercase();
                word == joined || option.len() == 1 && word.starts_with(&format!("{joined}="))
            };
            rest.windows(option.len()).any(apart) || rest.iter().any(is_joined)
        };
        verbs.starts_with(own) && (option.is_empty() || has(option))
    }
}

/// Splits the verbs of a call from the arguments after them. An option of every verb may stand
/// before the verbs.
fn split<'a>(command: &Command, arguments: &'a [String]) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut verbs, mut rest) = (Vec::new(), Vec::new());
    let mut words = arguments.iter().skip(1).map(String::as_str).take_while(|word| *word != "--").peekable();
    // The definition knows the values of the options, and where verbs end.
    let mut level = Some(command);
    while let Some(word) = words.next() {
        if let Some(option) = word.strip_prefix("--") {
            rest.push(word);
            let takes = |argument: &clap::Arg| {
                matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
                    && !argument.is_require_equals_set()
            };
            let known = command.get_arguments().find(|argument| argument.get_long() == Some(option));
            if known.is_some_and(takes) {
                rest.extend(words.next());
            }
        } else if !word.starts_with('-') && verbs.is_empty() && word == "help" {
        } else if let (Some(known), false) = (level, word.starts_with('-')) {
            verbs.push(word);
            level = known.find_subcommand(word).filter(|verb| verb.has_subcommands());
        } else {
            rest.push(word);
        }
    }
    (verbs, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{parse, stock};
    use crate::exit::Exit;

    fn call(line: &str) -> Vec<OsString> {
        std::iter::once("locker").chain(line.split(' ')).map(OsString::from).collect()
    }

    #[test]
    fn each_removed_word_prints_its_successor_and_exits_with_2() {
        for entry in &REMOVED {
            let ends_with_option = entry.was.split(' ').next_back().is_some_and(|word| word.starts_with('-'));
            let takes = ["--quarantine", "--failing", "--due", "--finished", "--archived", "--overdue"];
            let flag = takes.iter().any(|flag| entry.was.ends_with(flag));
            let value = if ends_with_option && !flag { " x" } else { "" };
            let own = match entry.was.split_once(" --") {
                // An option of every verb, and a value of it, may stand in front.
                Some(("plan", option)) => {
                    format!("plan retry --reason x --{option}{value}")
                }
                _ => format!("{}{value}", entry.was),
            };
            for line in [own.clone(), format!("--table ls {own}"), format!("--local=x {own} --output json")] {
                let exit = parse(stock(), &call(&line)).expect_err(&line);
                let said = format!("`locker {}` was removed; use `{}`", entry.was, entry.now);
                assert!(exit.said().starts_with(&said), "{line}: {}", exit.said());
                assert_eq!(exit.code(), Exit::USAGE, "{line}");
            }
        }
    }

    #[test]
    fn a_mistake_is_no_removed_word() {
        for line in ["finds", "ls find", "workflow find", "ls tokens --every 5s", "dead show --max 1"] {
            assert!(stock().try_get_matches_from(call(line)).is_err(), "{line}");
            assert_eq!(successor(&stock(), &call(line)), None, "{line}");
        }
    }
}
