//! `locker dead export`: messages with all that is kept of them.

use clap::Args;

use super::show::to_json;
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
        let mut count = 0;
        for it in &found.matches {
            // It may be gone since it was listed.
            let Some(message) = workflows.message(&it.work).await? else { continue };
            let unprinted = |error: std::io::Error| {
                let said = format!("could not print a message: {error}; {count} exported, so export again");
                Exit::say(Exit::FAILED, said)
            };
            if !output::json_line(&to_json(&message, true)).map_err(unprinted)? {
                break;
            }
            count += 1;
        }
        if let Some(error) = found.stopped_by {
            return Err(
                Exit::from(error).below(format!("{count} exported; then an error stopped the export"))
            );
        }
        if found.finished {
            return Ok(Exit::say(Exit::OK, format!("{count} exported, with their bodies")));
        }
        Ok(Exit::say(Exit::PROBLEMS, format!("{count} exported, and there may be more; narrow the search")))
    }
}
