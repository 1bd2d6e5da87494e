//! What an operator saw: a verb acts only on that.

use std::io::{BufRead as _, IsTerminal as _};

use clap::Args;

use crate::exit::Exit;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Seen {
    /// Act only if the record still has this revision (see `locker show`).
    #[arg(long = "seen", value_name = "REVISION")]
    pub(crate) revision: Option<String>,
}

impl Seen {
    /// Refuses what has changed since it was seen. `look`: the command that shows it.
    pub(crate) fn unchanged(&self, said: &str, revision: &str, look: &str) -> Result<(), Exit> {
        match &self.revision {
            Some(seen) if seen != revision => Err(Exit::say(
                Exit::CHANGED,
                format!(
                    "{said} has changed since it had the revision {seen}; nothing was written. Look again with `{look}`"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Asks, unless it was said what was seen, if there is a terminal to ask on.
    pub(crate) fn confirmed(&self, said: &str, verb: &str) -> Result<(), Exit> {
        if self.revision.is_some() || !asks() {
            return Ok(());
        }
        output::ask(format_args!("{verb} {said}? Type yes: "));
        let mut answer = String::new();
        let _ = std::io::stdin().lock().read_line(&mut answer);
        if answer.trim() == "yes" {
            Ok(())
        } else {
            Err(Exit::say(Exit::CHANGED, format!("{said} was left as it is")))
        }
    }

    /// Whether the operator said what was seen, or will be asked.
    pub(crate) fn is_sure(&self) -> bool {
        self.revision.is_some() || asks()
    }
}

/// Whether there is a terminal to ask on.
fn asks() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
