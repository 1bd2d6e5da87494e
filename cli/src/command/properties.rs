//! Any arguments are read, or refused with a message; any stored value can be printed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use locker::{Key, Retention};
use proptest::prelude::*;

use super::*;
use crate::connection::Connection;
use crate::options::{Kept, Output, duration};
use crate::registry::Log;

/// A verb of a user, in addition to the stock verbs.
#[derive(Debug, Args)]
struct Serve {
    #[arg(long, value_parser = duration)]
    every: Option<Duration>,
    #[arg(long)]
    port: Option<u16>,
}

impl crate::registry::Verb for Serve {
    const NAME: &'static str = "serve";
    const IS_SERVER: bool = true;

    async fn run(self, _: &Connection, _: Output) -> Result<Exit, Exit> {
        Ok(Exit::quiet(Exit::OK))
    }
}

/// Options of a user's workflow code.
#[derive(Debug, Args)]
struct Shop {
    #[arg(long)]
    payments_url: Option<String>,
}

fn registry() -> Registry {
    Registry::new().register_with(|completer, _, _: Shop| Ok(completer)).verb::<Serve>()
}

/// Parses a command line without running it.
fn read(registry: &Registry, arguments: impl IntoIterator<Item = OsString>) -> Result<Options, clap::Error> {
    let matches = command(registry).try_get_matches_from(arguments)?;
    match registry.added(&matches) {
        Some((_, own)) => Serve::from_arg_matches(own).map(|_| ())?,
        None => Verb::from_arg_matches(&matches).map(|_| ())?,
    }
    Options::read(&matches)
}

fn text() -> impl Strategy<Value = String> {
    let telling = prop::sample::select(vec![
        "once",
        "ls",
        "show",
        "release",
        "resolve",
        "workflow",
        "retry",
        "compensate",
        "complete",
        "reap",
        "--step",
        "--not-started",
        "--key-version",
        "--finished",
        "--workflows",
        "tokens",
        "scan",
        "plan",
        "table",
        "create",
        "doctor",
        "serve",
        "--port",
        "--payments-url",
        "help",
        "--",
        "-",
        "--help",
        "--version",
        "-vvv",
        "--output",
        "json",
        "--table",
        "--table=",
        "--local",
        "--shards",
        "65536",
        "--expect",
        "--retain",
        "forever",
        "--wait",
        "--every",
        "--limit",
        "18446744073709551616",
        "--need",
        "inProgress",
        "--due",
        "--reason",
        "--result",
        "--as",
        "--fingerprint",
        "--retry-on-failure",
        "--hold-on-failure",
        "report/2026-11",
        "true",
        "0",
        "-1",
        "5s",
        "",
    ]);
    prop_oneof![8 => telling.prop_map(str::to_owned), 2 => length(), 1 => "\\PC{0,20}"]
}

/// Durations, well written and not.
fn length() -> impl Strategy<Value = String> {
    let number = prop_oneof![3 => "[0-9]{1,4}", 1 => "[0-9]{1,22}"];
    let unit = "(ns|us|ms|s|sec|m|min|h|hour|d|day|w|month|M|y|year|x|)";
    let spans = prop::collection::vec((number, unit).prop_map(|(number, unit)| number + &unit), 1..4);
    prop_oneof![5 => spans.prop_map(|spans| spans.join(" ")), 1 => "[-+. 0-9a-z]{0,8}"]
}

fn argument() -> impl Strategy<Value = OsString> {
    prop_oneof![12 => text().prop_map(OsString::from), 1 => prop::collection::vec(1_u8.., 0..8).prop_map(OsString::from_vec)]
}

fn any_time() -> impl Strategy<Value = DateTime<Utc>> {
    let extreme =
        prop::sample::select(vec![DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC, DateTime::UNIX_EPOCH]);
    let any = (-8_000_000_000_000_000_i64..8_000_000_000_000_000)
        .prop_filter_map("no such time", DateTime::from_timestamp_millis);
    let near = (-100_000_i64..100_000)
        .prop_filter_map("no such time", |s| DateTime::from_timestamp(1_795_259_349 + s, 0));
    prop_oneof![1 => extreme, 1 => any, 2 => near]
}

proptest! {
    #[test]
    fn any_arguments_are_read_or_refused_with_words(arguments in prop::collection::vec(argument(), 0..12)) {
        let arguments: Vec<OsString> = std::iter::once("locker".into()).chain(arguments).collect();
        for registry in [Registry::new(), registry()] {
            if let Err(error) = read(&registry, arguments.clone()) {
                prop_assert!([0, 2].contains(&error.exit_code()));
                prop_assert!(!error.to_string().trim().is_empty());
            }
        }
    }

    #[test]
    fn any_duration_is_read_or_refused_with_an_example(text in prop_oneof![length(), any::<String>()]) {
        if let Err(error) = duration(&text) {
            prop_assert!(error.ends_with("; write it like 30s, 5m, 2h or 3d"), "{}", error);
        }
        match text.parse::<Kept>() {
            Ok(Kept(Retention::Forever)) => prop_assert_eq!(text, "forever"),
            Ok(Kept(Retention::For(kept))) => prop_assert_eq!(duration(&text), Ok(kept)),
            Err(error) => prop_assert!(error.ends_with(", or forever"), "{}", error),
        }
    }

    #[test]
    fn any_duration_that_is_read_leads_to_a_time(text in length()) {
        if let Ok(read) = duration(&text) {
            let now = output::now();
            prop_assert!(now - read <= now && now + read >= now);
            prop_assert!(tokio::time::Instant::now() + read >= tokio::time::Instant::now() - Duration::from_secs(1));
        }
    }

    #[test]
    fn a_duration_that_is_printed_is_read_again(seconds in 0_u64..400 * 366 * 86_400) {
        let text = humantime::format_duration(Duration::from_secs(seconds)).to_string();
        prop_assert_eq!(duration(&text), Ok(Duration::from_secs(seconds)));
    }

    #[test]
    fn any_stored_time_and_text_can_be_printed(at in any_time(), now in any_time(), text: String) {
        prop_assert!(!output::time(at).is_empty());
        let said = output::relative(at, now);
        prop_assert!(said.ends_with(" ago") || said.starts_with("in "), "{}", said);
        let table = output::table(Some(["A", "B"]), [[text, said]]);
        prop_assert!(table.as_str().contains('A'));
    }

    #[test]
    fn any_key_can_be_asked_for(key: String) {
        prop_assert_eq!(Key::existing(key.clone()).is_err(), key.is_empty());
    }
}

#[test]
fn the_verbosity_has_no_limit() {
    let verbose = std::iter::repeat_n(OsString::from("-v"), 300);
    let options = read(&registry(), ["locker".into(), "serve".into()].into_iter().chain(verbose));
    let verbose = options.expect("arguments").verbose;
    let log = Log { more: vec!["shop"], less: vec!["shop::rounds=warn"] };
    assert_eq!(output::filter_of(verbose, true, &log), output::filter_of(2, true, &log));
    assert_eq!(output::filter_of(0, true, &log), "locker=info,shop=info,shop::rounds=warn");
    assert_eq!(output::filter_of(1, false, &log), "locker=info,shop=info");
}

#[test]
fn the_doc_comment_of_added_options_does_not_replace_the_text_of_a_verb() {
    let stock = command(&Registry::new());
    let own = command(&registry());
    for name in ["complete", "reap"] {
        let about = |command: &clap::Command| {
            let verb = command.find_subcommand(name).expect("a verb");
            verb.get_about().expect("a text").to_string()
        };
        assert_eq!(about(&stock), format!("{} (78 here: {NO_CODE})", about(&own)));
        assert!(!about(&own).contains("user"), "{}", about(&own));
    }
}
