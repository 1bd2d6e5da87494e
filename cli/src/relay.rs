//! `locker relay`: what is unsent is sent, once, as the function does.

use clap::Args;
use locker::RunReport;
use locker::aws::Sqs;
use locker::message::Router;
use locker::relay::{Relay as Relaying, RelayReport};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Send topics that fit to this queue of Amazon SQS, such as 'order/*=https://sqs...'; repeat it for more. Replaces the routes of this command.
    #[arg(long = "route", value_name = "TOPICS=URL", value_parser = route, requires = "source")]
    routes: Vec<(String, String)>,

    /// Source of each message, such as /orders: the same as in the functions, since receivers know messages by it.
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,

    /// Maximum number of workflows to look at [default: all that are due].
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

fn route(text: &str) -> Result<(String, String), String> {
    let (topics, url) = text.split_once('=').ok_or("it is TOPICS=URL, such as 'order/*=https://sqs...'")?;
    let is_url = url.starts_with("https://") || url.starts_with("http://");
    if is_url {
        Ok((topics.to_owned(), url.to_owned()))
    } else {
        Err(format!("{url:?} is no URL of a queue"))
    }
}

impl Relay {
    /// `registered`: the routes of this command.
    pub(crate) async fn run(
        &self,
        connection: &Connection,
        registered: Option<Router>,
        output: Output,
    ) -> Result<Exit, Exit> {
        let router = match (&self.source, registered) {
            (Some(source), _) if !self.routes.is_empty() => {
                let client = connection.sqs().await?;
                self.routes.iter().fold(Router::new(source), |router, (topics, url)| {
                    router.route(topics, Sqs::queue(&client, url))
                })
            }
            (_, Some(router)) => router,
            _ => {
                let said = "no routes are registered in this command, so nothing was sent; name them: --source TEXT --route \
                            TOPICS=URL";
                return Err(Exit::say(Exit::SETUP, said));
            }
        };
        let relay = Relaying::new(&connection.workflows()?, router);
        let done = self.limit.into_iter().fold(relay, Relaying::limit).run().await?;
        if output == Output::Json {
            output::json(&done);
        }
        let said = said(&done);
        let well = done.dead + done.failed + done.left_alone == 0 && done.unknown.is_empty() && done.finished;
        match done.stopped_by {
            Some(error) => Err(error.into()),
            None => Ok(Exit::say(if well { Exit::OK } else { Exit::PROBLEMS }, said)),
        }
    }
}

fn said(done: &RunReport<RelayReport>) -> String {
    let mut said = vec![format!("{} sent, {} waiting, {} dead", done.sent, done.waiting, done.dead)];
    if done.dead > 0 {
        said.push("see `locker dead ls`".to_owned());
    }
    if done.passed_by > 0 {
        said.push(format!("{} subjects are another relay's", done.passed_by));
    }
    if done.failed > 0 {
        said.push(format!("{} could not be read or written, see --verbose", done.failed));
    }
    if done.left_alone > 0 {
        said.push(format!("{} left alone, since their target took none of five others", done.left_alone));
    }
    let unknown = done.unknown.iter().map(|(topic, count)| format!("{count} of {}", output::plain(topic)));
    let unknown: Vec<_> = unknown.collect();
    if !unknown.is_empty() {
        said.push(format!("no route here for {}", unknown.join(", ")));
    }
    if !done.finished {
        said.push("there may be more".to_owned());
    }
    said.join("; ")
}
