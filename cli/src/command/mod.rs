//! The command line: the verbs, and what runs each of them.

mod removed;

use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::connection::{self, Connection, Opening, Tables};
#[cfg(feature = "console")]
use crate::console;
use crate::exit::Exit;
use crate::options::{Options, asks_for_json, variables};
use crate::registry::Registry;
use crate::{bulk, dead, doctor, guide, ls, output, policy, run, status, table, token, workflow};

const EXAMPLES: &str = "\
Examples:
  export LOCKER_TABLE=locks                        the table on AWS; or add --table, or --local
  locker once report/2026-11 -- ./send-report.sh   run a command once, on however many machines
  locker status                                    does anything need an operator, and why
  locker status --every 5s                         the same, again every 5 seconds
  locker ls --tenant cust8                         the records of a customer
  locker ls tokens --due                           tokens that are overdue or in doubt
  locker ls workflows --need quarantined           workflows that wait for an operator
  locker ls messages --need dead                   dead messages; then dead show, redrive, discard
  locker console                                   the same as a web page on this machine
  locker show report/2026-11                       its owner, its times, and what may be done
  locker resolve report/2026-11 --reason 'sent by hand' --result '{\"exit\":0}'
                                                   its effect and an id; add --seen ID to act
  locker plan release --group 9a8fac0a --reason 'relay repaired'

Every verb but `completions`, `man` and `policy` needs a place: --table NAME or --local, or their variables.
--local without DIR is one store for this user on this machine, whatever the working directory:
$XDG_DATA_HOME/locker, or ~/.local/share/locker, on macOS ~/Library/Application Support/locker.
LOCKER_LOCAL always names a directory.
A LOCKER_ variable that nothing reads is refused.

Exit codes:
  0 done   2 usage   3 not found   4 refused or changed   5 problems found   6 dry run
  65 fingerprint mismatch   69 unreachable   74 outcome unknown   75 in progress   78 setup
  once: the exit code of the command, stored and replayed
  1 instead of 0 or 6 if the output cannot be written, as on a full disk";

const NO_CODE: &str = "no workflow code is registered in this command";
const BUILD_YOUR_OWN: &str = "\
to build a command with your workflows, see the example own_workflows of locker-cli \
(cli/examples/own_workflows.rs)";

/// Once-only execution with lock tokens on DynamoDB.
#[derive(Debug, Parser)]
#[command(name = "locker", bin_name = "locker", version, after_help = EXAMPLES, max_term_width = 100)]
struct CommandLine {
    #[command(flatten)]
    options: Options,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a command once per key; later calls replay its output and exit status.
    Once(token::Once),
    /// Show the records that need an operator, grouped by cause; exit with 5 if there are any.
    Status(status::Report),
    /// List tokens, workflows and messages by kind, need, key, customer, cause, time or owner.
    Ls(ls::Ls),
    /// Show a token or a workflow: its state, its timeline, and its possible acts.
    Show(token::Show),
    /// Act on all selected tokens or workflows: a dry run with an id, then the act with --seen.
    Plan(bulk::Plan),
    /// Apply a plan, or continue it: change each record only if it is as it was planned.
    Apply(bulk::Apply),
    /// Release an overdue or held token, so that its work may be done again.
    Release(token::Release),
    /// Complete an overdue or held token with a result.
    Resolve(token::Resolve),
    /// Replace the result that an operator gave a token.
    Correct(token::Correct),
    /// Close a held token: its stored failure stays the result.
    Close(token::Close),
    /// Erase the result of a token that has ended; the key stays used.
    Redact(token::Redact),
    /// List the acts of operators: who, when, on which record, and why.
    Audit(token::Audit),
    /// Serve a web page on this machine: groups, workflows, messages, audit, health and search.
    #[cfg(feature = "console")]
    Console(console::Serve),
    /// Show workflows, and act on one.
    Workflow {
        #[command(subcommand)]
        verb: workflow::Verb,
    },
    /// Show dead messages, and act on them: redrive, archive, discard.
    Dead {
        #[command(subcommand)]
        verb: dead::Verb,
    },
    /// Scan for missing tasks once, as the scanner does.
    Scan(run::Scan),
    /// Drive due workflows once, as the completer does.
    ///
    /// The code of the workflows has to be registered in this command.
    Complete(run::Complete),
    /// Delete finished workflows once, as the reaper does.
    ///
    /// Old unfinished workflows are driven once more, so their code has to be registered in this
    /// command.
    Reap(run::Reap),
    /// Send unsent messages once, as the relay does.
    ///
    /// The targets have to be registered in this command, or named by --route.
    Relay(run::Relay),
    /// Check tables, permissions and clock, and print what to change.
    Doctor,
    /// Create or check the table of lock tokens.
    Table {
        #[command(subcommand)]
        verb: table::Verb,
    },
    /// Print the IAM policy on the tables that a function or a person needs.
    Policy(policy::Policy),
    /// Print a script with which a shell completes verbs, options and values.
    Completions(guide::Completions),
    /// Print the manual, or write a page for each verb.
    Man(guide::Man),
}

impl Verb {
    /// Whether the verb usually ends within a second, so that a longer wait needs a word.
    const fn answers_soon(&self) -> bool {
        match self {
            Self::Status(report) => report.is_once(),
            #[cfg(feature = "console")]
            Self::Console(_) => false,
            Self::Once(_)
            | Self::Complete(_)
            | Self::Reap(_)
            | Self::Relay(_)
            | Self::Dead { .. }
            | Self::Apply(_)
            | Self::Plan(_) => false,
            _ => true,
        }
    }

    /// Whether the verb runs until it is stopped. A server logs without `--verbose`.
    const fn is_server(&self) -> bool {
        #[cfg(feature = "console")]
        if let Self::Console(_) = self {
            return true;
        }
        false
    }

    /// The embedded tables that have to exist before the verb runs, and whether it creates them.
    fn opening(&self) -> Opening {
        match self {
            Self::Table { verb } | Self::Workflow { verb: workflow::Verb::Table { verb } } => {
                if verb.creates() { Opening::Create(Tables::NONE) } else { Opening::Existing(Tables::NONE) }
            }
            Self::Once(_) => Opening::Create(Tables::TOKENS),
            Self::Ls(ls) => Opening::Existing(ls.tables()),
            Self::Workflow { .. }
            | Self::Complete(_)
            | Self::Reap(_)
            | Self::Relay(_)
            | Self::Dead { .. } => Opening::Existing(Tables::WORKFLOWS),
            // It looks for the tables itself.
            Self::Doctor => Opening::Existing(Tables::NONE),
            _ => Opening::Existing(Tables::TOKENS),
        }
    }
}

/// The command line with all that a registry adds to it.
fn command(registry: &Registry) -> clap::Command {
    in_any_case(stock_and_added(registry))
}

/// Values of which there are a few are read in any case: `ls Tokens`.
fn in_any_case(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| {
        let has_few = !argument.get_possible_values().is_empty() && argument.get_action().takes_values();
        if has_few { argument.ignore_case(true) } else { argument }
    });
    command.mut_subcommands(in_any_case)
}

fn stock_and_added(registry: &Registry) -> clap::Command {
    let mut command = CommandLine::command();
    for verb in ["complete", "reap"] {
        command = command.mut_subcommand(verb, |verb| {
            if registry.has_code() {
                return registry.add_options(verb);
            }
            let about = verb.get_about().cloned().unwrap_or_default();
            verb.about(format!("{about} (78 here: {NO_CODE})"))
                .after_help(format!("Exits with 78, since {NO_CODE}; {BUILD_YOUR_OWN}."))
        });
    }
    registry.add_verbs(command)
}

/// The command line of the stock command.
/// The help about a verb, in one line. `group`: `workflow` or `dead`.
#[cfg(feature = "console")]
pub(crate) fn about(group: Option<&str>, verb: &str) -> String {
    let command = CommandLine::command();
    let verbs = group.map_or(Some(&command), |group| command.find_subcommand(group));
    let verb = verbs.and_then(|verbs| verbs.find_subcommand(verb));
    verb.and_then(clap::Command::get_about).map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
pub(crate) fn stock() -> clap::Command {
    command(&Registry::new())
}

/// Reads a command line. A mistake exits with 2; that of a removed word names its successor.
fn parse(command: clap::Command, arguments: &[OsString]) -> Result<ArgMatches, Exit> {
    command.clone().try_get_matches_from(arguments).map_err(|error| {
        let is_unknown = matches!(
            error.kind(),
            ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument | ErrorKind::ValueValidation
        );
        let successor = is_unknown.then(|| removed::successor(&command, arguments)).flatten();
        successor.map_or_else(|| Exit::of_command_line(&error), |said| Exit::say(Exit::USAGE, said))
    })
}

/// Reads the command line and runs its verb.
pub(crate) async fn execute(registry: Registry) -> Result<Exit, Exit> {
    let command = command(&registry);
    let known = variables::known(&command);
    let guide = command.clone();
    // Set this before anything is read, since a read may fail as well.
    let arguments: Vec<_> = std::env::args_os().collect();
    Exit::as_json(asks_for_json(arguments.iter().cloned()));
    let matches = parse(command, &arguments)?;
    variables::check(&known)?;
    let options = Options::read(&matches).unwrap_or_else(|error| error.exit());
    let log = registry.log_options();
    let start_log =
        |is_server| output::start_log(options.verbose, is_server, log, options.history.as_deref());
    if let Some((verb, matches)) = registry.added(&matches) {
        let place = options.place.named(verb.default_place)?;
        start_log(verb.is_server)?;
        let opening = Opening::Create(Tables::ALL);
        let mut connection =
            connection::open(place, options.place.shards, options.place.restored, opening).await?;
        (connection.source, connection.registered) = (registry.source_of_messages(), registry.console());
        say_place(&connection);
        return (verb.run)(matches, &connection, options.output).await;
    }
    let verb = Verb::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match &verb {
        Verb::Completions(completions) => return completions.run(guide),
        Verb::Man(man) => return man.run(guide),
        Verb::Policy(policy) => return policy.run(&options.place),
        Verb::Complete(_) | Verb::Reap(_) if !registry.has_code() => {
            let said = format!("{NO_CODE}, so nothing was read or changed; {BUILD_YOUR_OWN}");
            return Err(Exit::say(Exit::SETUP, said));
        }
        _ => {}
    }
    let place = options.place.named(None)?;
    start_log(verb.is_server())?;
    let mut connection =
        connection::open(place, options.place.shards, options.place.restored, verb.opening()).await?;
    (connection.source, connection.registered) = (registry.source_of_messages(), registry.console());
    run_stock(verb, registry, &matches, &options, &connection).await
}

/// Prints the tables to standard error.
fn say_place(connection: &Connection) {
    output::say(format_args!("in {}", connection.place));
}

/// Ends the task when its verb has ended.
struct Waiting(tokio::task::JoinHandle<()>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn say_that_it_waits() {
    tokio::time::sleep(Duration::from_secs(2)).await;
    output::say("DynamoDB has not answered every request yet; each is retried for up to 20 s");
}

async fn run_stock(
    verb: Verb,
    registry: Registry,
    matches: &clap::ArgMatches,
    options: &Options,
    connection: &Connection,
) -> Result<Exit, Exit> {
    let output = options.output;
    // Cron mails each line of `once`, so `once` prints the place only together with another line.
    let is_quiet = matches!(verb, Verb::Once(_)) && options.verbose == 0;
    if !is_quiet {
        say_place(connection);
    }
    let own = matches.subcommand().map_or(matches, |(_, own)| own);
    let waits = !is_quiet && !connection.is_embedded && verb.answers_soon();
    let _waiting = waits.then(|| Waiting(tokio::spawn(say_that_it_waits())));
    let ran = match verb {
        Verb::Once(once) => once.run(connection).await,
        Verb::Ls(ls) => ls.run(connection, output).await,
        Verb::Status(report) => report.run(connection, output).await,
        Verb::Plan(plan) => plan.run(connection, output).await,
        Verb::Apply(apply) => apply.run(connection, output).await,
        Verb::Scan(scan) => scan.run(connection, output).await,
        Verb::Doctor => doctor::run(connection, output).await,
        Verb::Show(show) => show.run(connection, output).await,
        Verb::Release(release) => release.run(connection, output).await,
        Verb::Resolve(resolve) => resolve.run(connection, output).await,
        Verb::Correct(correct) => correct.run(connection, output).await,
        Verb::Close(close) => close.run(connection, output).await,
        Verb::Redact(redact) => redact.run(connection, output).await,
        Verb::Audit(audit) => audit.run(connection, output).await,
        #[cfg(feature = "console")]
        Verb::Console(serve) => serve.run(connection, output).await,
        Verb::Workflow { verb } => workflow::run(connection, verb, output).await,
        Verb::Complete(complete) => {
            complete.run(connection, registry.completer(connection, own)?, output).await
        }
        Verb::Reap(reap) => reap.run(connection, &registry.completer(connection, own)?, output).await,
        Verb::Relay(relay) => relay.run(connection, registry.router(connection)?, output).await,
        Verb::Dead { verb } => dead::run(connection, verb, output).await,
        Verb::Table { verb } => table::run(connection, verb, output).await,
        // They read no table, and have run.
        Verb::Completions(_) | Verb::Man(_) | Verb::Policy(_) => Ok(Exit::quiet(Exit::OK)),
    };
    if is_quiet && !ran.as_ref().is_ok_and(Exit::is_ok) {
        say_place(connection);
    }
    ran
}

#[cfg(test)]
mod documented;
#[cfg(test)]
mod properties;
