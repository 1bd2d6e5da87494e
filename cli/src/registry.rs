//! The additions of a command to the stock command: workflow code, and verbs.

use std::future::Future;
use std::pin::Pin;

use clap::builder::{Resettable, StyledStr};
use clap::{ArgMatches, Args, Command};
use locker::message::Router;
use locker::operator::Console;
use locker::workflow::{Completer, Event, Workflow};
use serde::de::DeserializeOwned;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;

/// The workflow code, and the verbs, that your command has beyond the stock ones.
///
/// `locker complete` and `locker reap` run the code that is registered here, and only that.
#[derive(Default)]
#[must_use = "a registry does nothing until it is given to `run`"]
pub struct Registry {
    code: Vec<Code>,
    verbs: Vec<AddedVerb>,
    source: Option<String>,
    routes: Option<Routes>,
    /// Without tables: only the types of events.
    console: Console,
    log: Log,
}

/// Additions to the log, and limits of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    /// Additional targets that are logged.
    pub(crate) more: Vec<&'static str>,
    /// Directives that narrow the log of a server.
    pub(crate) less: Vec<&'static str>,
}

/// A custom verb. The doc comment of the type is its text in `--help`.
pub trait Verb: Args {
    /// The verb as it is typed.
    const NAME: &'static str;
    /// Whether it runs until it is stopped. A server logs its work without `--verbose`.
    const IS_SERVER: bool = false;
    /// The directory of the embedded tables if no place is named. Without one, a place has to be
    /// named.
    const DEFAULT_PLACE: Option<&'static str> = None;

    /// Runs the verb. If the tables are embedded, they exist.
    ///
    /// # Errors
    ///
    /// A failure, with its exit code and sentence. `Ok` and `Err` are printed alike.
    fn run(self, connection: &Connection, output: Output) -> impl Future<Output = Result<Exit, Exit>>;
}

type Routes = Box<dyn FnOnce(&Connection) -> Result<Router, Exit>>;
type Register = Box<dyn FnOnce(Completer, &Connection, &ArgMatches) -> Result<Completer, Exit>>;
type Running<'a> = Pin<Box<dyn Future<Output = Result<Exit, Exit>> + 'a>>;

struct Code {
    add_options: fn(Command) -> Command,
    register: Register,
}

pub(crate) struct AddedVerb {
    name: &'static str,
    add_options: fn(Command) -> Command,
    pub(crate) is_server: bool,
    pub(crate) default_place: Option<&'static str>,
    pub(crate) run: for<'a> fn(&'a ArgMatches, &'a Connection, Output) -> Running<'a>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verbs: Vec<_> = self.verbs.iter().map(|verb| verb.name).collect();
        f.debug_struct("Registry").field("code", &self.code.len()).field("verbs", &verbs).finish()
    }
}

impl Registry {
    /// A registry without code: the stock command.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the code of a workflow.
    pub fn register<W: Workflow>(self, code: W) -> Self {
        self.register_with(move |completer, _, ()| Ok(completer.register(code)))
    }

    /// Registers code that needs a client or options.
    ///
    /// The options `O` are added to `locker complete` and `locker reap`; `()` is none. An error
    /// ends the command before it claims a workflow.
    pub fn register_with<O: Args>(
        mut self,
        register: impl FnOnce(Completer, &Connection, O) -> Result<Completer, Exit> + 'static,
    ) -> Self {
        let register: Register =
            Box::new(move |completer, connection, matches| register(completer, connection, read(matches)));
        self.code.push(Code { add_options: O::augment_args, register });
        self
    }

    /// Sets the `source` of the messages that the registered code commits. It is the source of your
    /// functions: see [`Builder::source`](locker::workflow::Builder::source).
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn source_of_messages(&self) -> Option<String> {
        self.source.clone()
    }

    /// Registers the type of an event, so that `locker workflow signal` refuses a value of another
    /// type: see [`Console::event`].
    pub fn event<T: DeserializeOwned>(mut self, event: &Event<T>) -> Self {
        self.console = self.console.event(event);
        self
    }

    pub(crate) fn console(&self) -> Console {
        self.console.clone()
    }

    /// Where `locker relay` sends messages.
    pub fn sending(mut self, routes: impl FnOnce(&Connection) -> Result<Router, Exit> + 'static) -> Self {
        self.routes = Some(Box::new(routes));
        self
    }

    /// The routes of this command, if there are any.
    pub(crate) fn router(self, connection: &Connection) -> Result<Option<Router>, Exit> {
        self.routes.map(|routes| routes(connection)).transpose()
    }

    /// Adds a verb.
    pub fn verb<V: Verb>(mut self) -> Self {
        self.verbs.push(AddedVerb {
            name: V::NAME,
            add_options: V::augment_args,
            is_server: V::IS_SERVER,
            default_place: V::DEFAULT_PLACE,
            run: run::<V>,
        });
        self
    }

    /// Logs the events of this target, such as your crate, together with those of the library.
    pub fn log(mut self, target: &'static str) -> Self {
        self.log.more.push(target);
        self
    }

    /// Narrows the log of a server by a directive, such as `locker::token::scan=warn`, unless it is
    /// run with `--verbose`.
    pub fn log_less(mut self, directive: &'static str) -> Self {
        self.log.less.push(directive);
        self
    }

    pub(crate) const fn has_code(&self) -> bool {
        !self.code.is_empty()
    }

    pub(crate) const fn log_options(&self) -> &Log {
        &self.log
    }

    /// Adds the options of the registered code to a verb that runs it.
    pub(crate) fn add_options(&self, verb: Command) -> Command {
        self.code.iter().fold(verb, |verb, code| {
            // The doc comment of the options must not replace the text of the verb.
            let text = |text: Option<&StyledStr>| text.cloned().map_or(Resettable::Reset, Resettable::Value);
            let (about, long_about) = (text(verb.get_about()), text(verb.get_long_about()));
            (code.add_options)(verb).about(about).long_about(long_about)
        })
    }

    pub(crate) fn add_verbs(&self, command: Command) -> Command {
        let verbs = self.verbs.iter().map(|verb| (verb.add_options)(Command::new(verb.name)));
        command.subcommands(verbs)
    }

    /// The verb of this registry that the command line names, with its part of it.
    pub(crate) fn added<'a>(&'a self, matches: &'a ArgMatches) -> Option<(&'a AddedVerb, &'a ArgMatches)> {
        let (name, matches) = matches.subcommand()?;
        self.verbs.iter().find(|verb| verb.name == name).map(|verb| (verb, matches))
    }

    /// A completer with the registered code.
    pub(crate) fn completer(self, connection: &Connection, matches: &ArgMatches) -> Result<Completer, Exit> {
        let none = Completer::new(&connection.workflows()?);
        self.code
            .into_iter()
            .try_fold(none, |completer, code| (code.register)(completer, connection, matches))
    }
}

fn run<'a, V: Verb>(matches: &'a ArgMatches, connection: &'a Connection, output: Output) -> Running<'a> {
    Box::pin(async move { read::<V>(matches).run(connection, output).await })
}

/// Reads options that the parser has accepted. A value that does not go with another exits with 2.
fn read<O: Args>(matches: &ArgMatches) -> O {
    O::from_arg_matches(matches).unwrap_or_else(|error| error.exit())
}
