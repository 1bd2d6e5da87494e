//! `locker relay`: sends unsent messages once, as the relay does.

use clap::Args;
use locker::aws::Sqs;
use locker::message::Router;
use locker::relay::Relay as Relaying;
use serde_json::json;

use super::{AtATime, Bounds, Ran};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::Output;

#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Send topics that fit to this queue of Amazon SQS, such as 'order/*=https://sqs...'; repeat
    /// it for more. Replaces the routes of this command.
    #[arg(long = "route", value_name = "TOPICS=URL", value_parser = route)]
    routes: Vec<(String, String)>,

    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    at_a_time: AtATime,
}

fn route(text: &str) -> Result<(String, String), String> {
    let (topics, url) =
        text.split_once('=').ok_or("expected TOPICS=URL, such as 'order/*=https://sqs...'")?;
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
        let router = self.router(connection, registered).await?;
        let relay = Relaying::new(&connection.workflows()?, router);
        let relay = self.bounds.limit.into_iter().fold(relay, Relaying::limit);
        let relay = self.bounds.end().into_iter().fold(relay, Relaying::deadline);
        let relay = self.at_a_time.concurrency.into_iter().fold(relay, Relaying::concurrency);
        let report = relay.run().await?;
        let shown = json!(report);
        let counts = format!("{} sent, {} waiting, {} dead", report.sent, report.waiting, report.dead);
        Ran::new(counts)
            .note(report.waiting, |_| {
                "targets did not accept the waiting messages; later runs send them again".to_owned()
            })
            .listed(report.dead, "messages --need dead", connection)
            .note(report.expired, |count| format!("{count} expired and were deleted"))
            .note(report.taken_elsewhere, |count| format!("{count} subjects belong to another relay"))
            .failed(report.failed)
            .problem(report.target_down, |count| format!("{count} skipped, since their target is down"))
            .unknown(&report.unknown, |names| format!("no route here for {names}"))
            .end(report, &shown, output)
    }

    async fn router(&self, connection: &Connection, registered: Option<Router>) -> Result<Router, Exit> {
        if self.routes.is_empty() {
            let said = "no routes are registered in this command, so nothing was sent; name them: --route TOPICS=URL";
            return registered.ok_or_else(|| Exit::say(Exit::SETUP, said));
        }
        let client = connection.sqs().await?;
        let add =
            |router: Router, (topics, url): &(String, String)| router.route(topics, Sqs::queue(&client, url));
        Ok(self.routes.iter().fold(Router::new(), add))
    }
}
