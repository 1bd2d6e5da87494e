//! Command lines that the command prints, to be pasted into a shell: all of them are made here.
//! A test reads each with the definition of the command line.

use locker::Work;
use locker::operator::{Need, Subject, Verb};

use crate::connection::Connection;
use crate::output::quoted;

/// A command line that a reader can paste.
#[derive(Debug, Clone)]
pub(crate) enum Hint<'a> {
    /// Shows a token, or a workflow under the first version of its key.
    Show(&'a str),
    /// Shows a workflow by its stored key: the key, a space and the version, if the version is not
    /// 1.
    ShowWorkflow(&'a str),
    /// Shows a message by its short id.
    ShowMessage(&'a str),
    /// Lists records. The text has the arguments of `ls`.
    List(&'static str),
    /// Lists the records of a group.
    ListGroup(&'a str),
    /// Lists the dead messages of a group.
    ListDead(&'a str),
    /// Lists the dead messages of a consumer.
    ListConsumer(&'a str),
    /// Runs a plan.
    Apply(&'a str),
    /// Acts on a token, a workflow or a step. `form`: the result that the act needs.
    Act { verb: Verb, of: &'a Work, step: Option<&'a str>, revision: &'a str, form: Option<&'a str> },
    /// Acts on a message.
    ActOnMessage(Verb, &'a str),
}

impl<'a> Hint<'a> {
    /// The line, with the options that name the tables of this connection.
    pub(crate) fn on(&self, connection: &Connection) -> String {
        self.with(&connection.options)
    }

    fn with(&self, options: &str) -> String {
        let line = match self {
            Self::Show(key) => format!("show {}", quoted(key)),
            Self::ShowWorkflow(stored) => format!("workflow show {}", versioned(stored)),
            Self::ShowMessage(id) => format!("dead show {}", quoted(id)),
            Self::List(arguments) => format!("ls {arguments}"),
            Self::ListGroup(id) => format!("ls --group {}", quoted(id)),
            Self::ListDead(id) => format!("ls messages --need dead --group {}", quoted(id)),
            Self::ListConsumer(name) => format!("ls messages --need dead --consumer {}", quoted(name)),
            Self::Apply(file) => format!("apply {}", quoted(file)),
            Self::Act { verb, of, step, revision, form } => {
                let group = if matches!(of, Work::Workflow(_)) { "workflow " } else { "" };
                // A signal names the event itself; other verbs name it as they name a step.
                let (option, result, prefix) = match verb {
                    Verb::Signal => ("event", "value", "event:"),
                    _ => ("step", "result", ""),
                };
                let name = |step: &'a str| quoted(step.strip_prefix(prefix).unwrap_or(step));
                let step = step.map(|step| format!(" --{option} {}", name(step))).unwrap_or_default();
                let result = form.map(|form| format!(" --{result} {form}")).unwrap_or_default();
                let key = versioned(of.key());
                format!("{group}{verb} {key}{step} --seen {revision} --reason TEXT{result}")
            }
            Self::ActOnMessage(verb, id) => {
                let body = if *verb == Verb::Correct { " --body FILE" } else { "" };
                format!("dead {verb} {}{body} --reason TEXT", quoted(id))
            }
        };
        format!("locker{options} {line}")
    }

    /// Shows the first record of a group.
    pub(crate) fn first_of(subject: &Subject, need: Need, id: &'a str, sample: &'a str) -> Self {
        match (subject, need) {
            (Subject::Tokens, _) => Hint::Show(sample),
            (Subject::Workflows(_), _) => Hint::ShowWorkflow(sample),
            (_, Need::Dead) => Hint::ListDead(id),
            _ => Hint::ListGroup(id),
        }
    }
}

/// A stored key and its version, as the verbs of `workflow` take them.
fn versioned(stored: &str) -> String {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    match stored.rsplit_once(" v").filter(|(_, version)| is_number(version)) {
        Some((key, version)) => format!("{} --key-version {version}", quoted(key)),
        None => quoted(stored),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A line of each kind.
    pub(crate) fn samples() -> Vec<String> {
        let hints = [
            Hint::Show("it's/7"),
            Hint::ShowWorkflow("buy/7 v2"),
            Hint::ShowWorkflow("buy\u{202e}/7 v2"),
            Hint::Show("order/\u{1b}[2J'7"),
            Hint::ShowMessage("9a8fac0a"),
            Hint::List("tokens --due"),
            Hint::ListGroup("9a8fac0a"),
            Hint::ListDead("9a8fac0a"),
            Hint::ListConsumer("packer"),
            Hint::Apply("plan a.json"),
        ];
        let messages =
            [Verb::Redrive, Verb::Correct, Verb::Archive, Verb::Restore, Verb::Discard, Verb::Note];
        let acts = messages.map(|verb| Hint::ActOnMessage(verb, "9a8fac0a"));
        let (token, workflow) = (Work::Token("pay/7".to_owned()), Work::Workflow("buy/7 v2".to_owned()));
        let act = |verb: Verb, of: &Work, step: Option<&str>| {
            let form = verb.takes_result().then_some("'{\"exit\":0}'");
            Hint::Act { verb, of, step, revision: "0f3a9c51d2", form }.with("")
        };
        let on_tokens = [Verb::Release, Verb::Resolve, Verb::Correct, Verb::Close, Verb::Redact];
        let on_steps = [Verb::Retry, Verb::Skip, Verb::Resolve, Verb::Correct, Verb::Cancel];
        let on_events =
            [(Verb::Signal, "event:paid#7"), (Verb::Skip, "event:paid 0f3a"), (Verb::Correct, "event:paid")];
        let on_events = on_events.map(|(verb, event)| act(verb, &workflow, Some(event)));
        let on_workflows = [Verb::Retry, Verb::Compensate, Verb::Cancel, Verb::Close, Verb::Redact];
        let on_tokens = on_tokens.map(|verb| act(verb, &token, None));
        let on_steps = on_steps.map(|verb| act(verb, &workflow, Some("compensation:pay")));
        let on_workflows = on_workflows.map(|verb| act(verb, &workflow, None));
        let options = " --table locks --workflows flows --shards 4";
        let lines = hints.into_iter().chain(acts).map(|hint| hint.with(options));
        lines.chain(on_tokens).chain(on_steps).chain(on_events).chain(on_workflows).collect()
    }
}
