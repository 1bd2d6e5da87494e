//! `locker completions`: a script by which a shell completes verbs, options and their values.

use std::path::Path;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::exit::Exit;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, mut command: Command) -> Result<Exit, Exit> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, called(), &mut script);
        output::print(output::Text::page(String::from_utf8_lossy(&script).trim_end()));
        Ok(Exit::quiet(Exit::OK))
    }
}

/// Returns the name of this command as the user typed it, since a shell completes that name.
fn called() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.unwrap_or_else(|| "locker".to_owned())
}
