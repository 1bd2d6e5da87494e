//! Completions and the manual name every verb, and each shell reads its script.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::{bare, place};

/// The verbs below a verb, by its `--help`.
pub(crate) fn verbs(place: &locker_tests::command::Place, below: &[&str]) -> Vec<String> {
    let help = bare(place, &[below, &["--help"]].concat(), &[]);
    let (_, list) = help.text().split_once("\nCommands:\n").expect("verbs");
    let list = list.split("\n\n").next().expect("a list").lines();
    let names = list.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names.map(|line| line.split_whitespace().next().expect("a name").to_owned()).collect()
}

#[test]
fn completions_name_every_verb_and_are_read_by_their_shells() {
    let place = place();
    for shell in ["bash", "zsh", "fish"] {
        let script = bare(&place, &["completions", shell], &[]);
        assert_eq!((script.code, script.said.as_str()), (0, ""));
        let words: Vec<_> = script.text().split(|c: char| !c.is_alphanumeric() && c != '-').collect();
        for below in [&[][..], &["workflow"], &["table"]] {
            let verbs = verbs(&place, below);
            assert!(verbs.len() > 1, "{below:?}");
            for verb in verbs {
                assert!(words.contains(&verb.as_str()), "{shell}: {below:?} {verb}");
            }
        }
        let Ok(mut read) = Command::new(shell).arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()
        else {
            // This machine has no such shell.
            continue;
        };
        read.stdin.take().expect("a pipe").write_all(&script.stdout).expect("written");
        let read = read.wait_with_output().expect("ended");
        assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr));
    }
    let unknown = bare(&place, &["completions", "tcsh"], &[]);
    assert!(unknown.code == 2 && unknown.said.contains("zsh"), "{}", unknown.said);
}

#[test]
fn bash_completes_a_verb_by_the_script() {
    let place = place();
    let script = bare(&place, &["completions", "bash"], &[]);
    std::fs::write(place.path("script"), &script.stdout).expect("written");
    let completed = |words: &str| {
        let ask = format!(
            "source ./script; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             \"$(complete -p locker | sed 's/.*-F \\([^ ]*\\).*/\\1/')\" locker \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
             echo \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        let ran = bash.args(["-c", &ask]).current_dir(place.path(".")).output().expect("bash");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        (String::from_utf8(ran.stdout).expect("text").trim().to_owned(), said)
    };
    assert_eq!(completed("locker rele"), ("release".to_owned(), String::new()));
    assert_eq!(completed("locker workflow sk"), ("skip".to_owned(), String::new()));
    assert_eq!(completed("locker ls mess"), ("messages".to_owned(), String::new()));
}

#[test]
fn the_manual_has_a_page_for_every_verb() {
    let place = place();
    let page = bare(&place, &["man"], &[]);
    assert!(page.code == 0 && page.text().contains(".TH locker 1"), "{}", page.text());
    let ran = bare(&place, &["man", "manual"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.said);
    for below in [&[][..], &["workflow"], &["table"]] {
        for verb in verbs(&place, below).iter().filter(|verb| *verb != "help") {
            let name = [&["locker"], below, &[verb]].concat().join("-");
            let page = std::fs::read_to_string(place.path("manual").join(format!("{name}.1")));
            let page = page.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{page}");
        }
    }
    std::fs::write(place.path("file"), "").expect("written");
    let refused = bare(&place, &["man", "file/manual"], &[]);
    assert!(refused.code == 78 && refused.said.contains("cannot write the manual"), "{}", refused.said);
}
