//! `locker dead export`: messages with all that is kept of them.

use clap::Args;
use locker::Error;

use super::show::{body_elsewhere, to_json};
use super::which::Which;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    which: Which,

    /// Select archived messages instead of dead ones.
    #[arg(long)]
    archived: bool,
}

impl Export {
    pub(super) async fn run(&self, connection: &Connection) -> Result<Exit, Exit> {
        let workflows = connection.workflows()?;
        let found = self.which.find(&workflows, self.archived).await?;
        let (mut count, mut without_body, mut unreadable) = (0, 0, 0);
        let stopped = |count: usize, error: Error| {
            Exit::from(error).below(format!("{count} exported; then an error stopped the export"))
        };
        for it in &found.matches {
            let message = match workflows.message(&it.work).await {
                Ok(Some(message)) => message,
                // It is gone since it was listed.
                Ok(None) => continue,
                Err(error @ Error::Record { .. }) => {
                    unreadable += 1;
                    output::say(format_args!("{} cannot be read: {error}", it.work.to_text()));
                    continue;
                }
                Err(error) => return Err(stopped(count, error)),
            };
            let unprinted = |error: std::io::Error| {
                let said = format!("could not print a message: {error}; {count} exported, so export again");
                Exit::say(Exit::FAILED, said)
            };
            if !output::json_line(&to_json(&message, true)).map_err(unprinted)? {
                break;
            }
            count += 1;
            without_body += usize::from(body_elsewhere(&message).is_some());
        }
        if let Some(error) = found.stopped_by {
            return Err(stopped(count, error));
        }
        let mut problems = Vec::new();
        if without_body > 0 {
            problems.push(format!(
                "{without_body} of them without their body, which stays in its queue or claim-check store: do not \
                 discard them"
            ));
        }
        if unreadable > 0 {
            problems.push(format!("{unreadable} cannot be read, and are not exported"));
        }
        if !found.finished {
            problems.push("there may be more; narrow the search".to_owned());
        }
        if problems.is_empty() {
            return Ok(Exit::say(Exit::OK, format!("{count} exported, with their bodies")));
        }
        Ok(Exit::say(Exit::PROBLEMS, format!("{count} exported; {}", problems.join("; "))))
    }
}
