//! `locker man`: the manual, one page for each verb.

use std::io::Error;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::{Man as Page, generate_to};

use crate::exit::Exit;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory that gets a page for each verb, such as ~/.local/share/man/man1 [default: print
    /// that of the command].
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self, command: Command) -> Result<Exit, Exit> {
        let Some(directory) = &self.directory else {
            let mut page = Vec::new();
            let written = Page::new(command).render(&mut page);
            written.map_err(|error| Exit::say(Exit::FAILED, format!("cannot write the page: {error}")))?;
            output::print(output::Text::page(String::from_utf8_lossy(&page).trim_end()));
            return Ok(Exit::quiet(Exit::OK));
        };
        let cannot = |error: Error| said(directory, &error);
        std::fs::create_dir_all(directory).map_err(cannot)?;
        generate_to(command, directory).map_err(cannot)?;
        let said = format!("the manual is in {}: locker.1, and a page for each verb", directory.display());
        Ok(Exit::say(Exit::OK, said))
    }
}

fn said(directory: &Path, error: &Error) -> Exit {
    Exit::say(Exit::SETUP, format!("cannot write the manual to {}: {error}", directory.display()))
}
