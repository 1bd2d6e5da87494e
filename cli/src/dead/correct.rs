//! `locker dead correct`: another body for one message.

use std::io::Read as _;

use clap::Args;
use locker::Intervened;
use locker::operator::{Act, Part};
use serde_json::Value;

use super::show;
use super::which::read_one;
use crate::act::{Acted, One};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::options::{self, Output, Seen};
use crate::output::{self, UNREAD};

#[derive(Debug, Args)]
pub(crate) struct Correct {
    /// Id of the message (see `locker ls messages`).
    #[arg(value_name = "ID")]
    message: String,

    /// Read the corrected body from this file; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    body: String,

    #[command(flatten)]
    act: options::Act,

    #[command(flatten)]
    seen: Seen,
}

impl Correct {
    pub(super) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let operator = self.act.operator()?;
        let act = Act::correct(Value::String(self.read()?));
        let workflows = connection.workflows()?;
        let message = read_one(&workflows, &self.message).await?;
        let id = message.short_id();
        let said = format!("message {id}");
        let look = Hint::ShowMessage(&id).on(connection);
        let one = One { connection, output, said: &said, look, seen: &self.seen, operator: &operator };
        match one.act(&Part::Message(Box::new(message)), &act).await? {
            Acted::DryRun(exit) => Ok(exit),
            Acted::Ran(Intervened::Done) => {
                let mut sentence = format!("corrected {said}; `locker dead redrive` processes it again");
                if output == Output::Json {
                    // The act is done even if the message cannot be read again. An error would
                    // claim that nothing was done.
                    match read_one(&workflows, &self.message).await {
                        Ok(now) => output::json(&show::to_json(&now, false)),
                        Err(_) => sentence = format!("{sentence}; {UNREAD}"),
                    }
                }
                Ok(Exit::say(Exit::OK, sentence))
            }
            Acted::Ran(_) => Err(Exit::say(
                Exit::CHANGED,
                format!("{said} changed meanwhile; nothing was written, look again"),
            )),
        }
    }

    fn read(&self) -> Result<String, Exit> {
        let mut body = String::new();
        let read = match self.body.as_str() {
            "-" => std::io::stdin().read_to_string(&mut body).map(|_| body),
            file => std::fs::read_to_string(file),
        };
        read.map(|body| body.trim_end_matches(['\n', '\r']).to_owned()).map_err(|error| {
            Exit::say(
                Exit::USAGE,
                format!("could not read the body from {}: {error}; nothing was written", self.body),
            )
        })
    }
}
