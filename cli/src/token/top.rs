//! `locker top`: live counts of what needs an operator: a full screen on a terminal, and lines for a file or a program.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use locker::Count;
use locker::operator::{Group, Need, Status};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::options::{Output, duration};
use crate::screen::{Did, Screen};
use crate::{output, report};

/// The highest count: enough to see a trend, at a bounded price per look.
const COUNT_TO: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Time between two looks.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    every: Duration,

    /// Stop after this many looks.
    #[arg(long, value_name = "N")]
    looks: Option<u64>,
}

impl Top {
    pub(crate) async fn run(&self, connection: &Connection, output: Output) -> Result<Exit, Exit> {
        let console = connection.console().await?.limit(COUNT_TO);
        let cannot = |error| Exit::say(Exit::FAILED, format!("cannot use the terminal: {error}"));
        let mut screen = match output {
            Output::Table => Screen::open().map_err(cannot)?,
            Output::Json => None,
        };
        let mut ending = Ending::new()?;
        let mut looks = 0;
        loop {
            // A look may take a while, and whoever wants to leave does not wait for it.
            let look = async {
                let in_progress = connection.locker.in_progress().count(COUNT_TO).await?;
                Ok::<_, Exit>((console.status().await?, in_progress))
            };
            let (status, in_progress) = tokio::select! {
                look = look => look?,
                () = ending.left(screen.as_mut()) => return Ok(Exit::quiet(Exit::OK)),
            };
            looks += 1;
            let next = tokio::time::Instant::now() + self.every.max(Duration::from_millis(200));
            loop {
                let shown = match (&mut screen, output) {
                    (Some(screen), _) => screen.draw(&self.frame(&status, in_progress, connection)),
                    (None, Output::Json) => output::try_print(as_json(&status, in_progress)),
                    (None, Output::Table) => output::try_print(as_text(&status, in_progress)),
                };
                // An error: its reader has gone.
                if shown.is_err() || self.looks == Some(looks) {
                    return Ok(Exit::quiet(Exit::OK));
                }
                tokio::select! {
                    () = tokio::time::sleep_until(next) => break,
                    did = ending.event(screen.as_mut()) => match did {
                        Did::Leave => return Ok(Exit::quiet(Exit::OK)),
                        Did::Resize => {}
                    },
                }
            }
        }
    }

    /// What a full screen shows.
    fn frame(&self, status: &Status, in_progress: Count, connection: &Connection) -> String {
        let plus = |count: usize, exact: bool| format!("{count}{}", if exact { "" } else { "+" });
        let first = ["in progress".to_owned(), plus(in_progress.at_least, in_progress.exact)];
        let needs = counts(status).into_iter();
        let needs = needs.map(|(need, count)| [need.to_string(), plus(count, status.finished)]);
        let mut parts = vec![
            format!("{}  {}", output::time(output::now()), connection.place),
            output::table(None, std::iter::once(first).chain(needs)),
        ];
        if !status.groups.is_empty() {
            parts.push(report::status::groups(status));
        }
        parts.extend(status.silent().map(|run| format!("{} is SILENT", run.machine)));
        let every = humantime::format_duration(self.every);
        parts.insert(1, format!("q ends; a look every {every}"));
        parts.join("\n\n")
    }
}

/// What ends it from outside.
struct Ending {
    terminate: Signal,
    hang_up: Signal,
    reader_gone: Receiver<()>,
}

impl Ending {
    fn new() -> Result<Self, Exit> {
        let on = |kind| {
            let cannot = |error| Exit::say(Exit::FAILED, format!("cannot wait for signals: {error}"));
            signal(kind).map_err(cannot)
        };
        let (terminate, hang_up) = (on(SignalKind::terminate())?, on(SignalKind::hangup())?);
        Ok(Self { terminate, hang_up, reader_gone: output::reader_gone() })
    }

    async fn event(&mut self, screen: Option<&mut Screen>) -> Did {
        let by_user = async {
            match screen {
                Some(screen) => screen.event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            did = by_user => did,
            _ = tokio::signal::ctrl_c() => Did::Leave,
            _ = self.terminate.recv() => Did::Leave,
            _ = self.hang_up.recv() => Did::Leave,
            _ = self.reader_gone.recv() => Did::Leave,
        }
    }

    /// As [`event`](Self::event), while there is nothing to draw again.
    async fn left(&mut self, mut screen: Option<&mut Screen>) {
        while self.event(screen.as_deref_mut()).await != Did::Leave {}
    }
}

/// How many need an operator, by need.
fn counts(status: &Status) -> BTreeMap<Need, usize> {
    let mut counts: BTreeMap<_, _> = Need::ALL.into_iter().map(|need| (need, 0)).collect();
    for group in &status.groups {
        *counts.entry(group.need).or_default() += group.count;
    }
    counts
}

fn oldest(status: &Status) -> Option<&Group> {
    status.groups.iter().filter(|group| group.first.is_some()).min_by_key(|group| group.first)
}

fn as_text(status: &Status, in_progress: Count) -> String {
    let plus = |exact: bool| if exact { "" } else { "+" };
    let in_progress = format!("{}{}", in_progress.at_least, plus(in_progress.exact));
    let mut line = format!("{}  in progress {in_progress:>6}", output::time(output::now()));
    for (need, count) in counts(status) {
        let count = format!("{count}{}", plus(status.finished));
        line.push_str(&format!("  {need} {count:>6}"));
    }
    if let Some((group, first)) = oldest(status).and_then(|group| Some((group, group.first?))) {
        let since = output::relative(first, output::now());
        line.push_str(&format!("  oldest {} due {since}", output::plain(&group.sample)));
    }
    line
}

fn as_json(status: &Status, in_progress: Count) -> serde_json::Value {
    let needs: serde_json::Map<_, _> =
        counts(status).into_iter().map(|(need, count)| (need.as_str().to_owned(), json!(count))).collect();
    let silent: Vec<_> = status.silent().map(|run| run.machine.as_str()).collect();
    json!({
        "at": output::time(output::now()),
        "inProgress": in_progress,
        "needs": needs,
        "finished": status.finished,
        "silent": silent,
        "oldest": oldest(status).map(|group| &group.sample),
    })
}
