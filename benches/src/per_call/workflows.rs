//! Workflows, compared with the bare SDK sending the same requests over the same transport in this
//! process.

use std::fmt::Write as _;
use std::process::ExitCode;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Credentials;
use locker::workflow::{Flow, Outcome, Stop, Workflow, Workflows};
use locker_benches::answer::{self, Answer};
use locker_benches::bare;
use locker_benches::canned::SMALL;
use tokio::runtime::{Builder, Runtime};

use crate::again::Again;
use crate::limits;
use crate::measure::{Allocations, cpu_time, micros, percentile};
use crate::near::Near;
use crate::report::ratio;
use crate::side::{LONGEST, OWNER};

/// What is measured: a whole workflow, from its start to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One `step`.
    Step,
    /// One `once`.
    Once,
    /// A workflow of five steps that is completed: its answer again.
    Replay,
}

const SHAPES: [Shape; 3] = [Shape::Step, Shape::Once, Shape::Replay];
const SIDES: [&str; 2] = ["Locker", "bare SDK"];
/// Operations that are counted, and operations of a round.
const COUNT: u64 = 100;
/// Copies of the requests of the bare SDK. The order of a hash table is random, and it decides how
/// often the SDK allocates. One copy has one order, so its count differs from run to run. The
/// average of many copies does not.
const COPIES: usize = 50;

struct Job {
    shape: Shape,
    answer: Answer,
}

impl Workflow for Job {
    const NAME: &'static str = "job";
    type Input = u32;
    type Output = Answer;

    async fn run(&self, flow: &Flow, input: u32) -> Result<Answer, Stop> {
        let work = |_| async { Ok(self.answer.clone()) };
        match self.shape {
            Shape::Step => flow.step("work").input(&input).run(work).await,
            Shape::Once => flow.once("work").input(&input).run(work).await,
            Shape::Replay => {
                for number in 0..4 {
                    let _: Answer = flow.step(format!("work#{number}")).input(&input).run(work).await?;
                }
                flow.step("work#4").input(&input).run(work).await
            }
        }
    }
}

/// Both sides of one shape, each with a table of its own.
struct Pair {
    runtime: Runtime,
    shape: Shape,
    job: Job,
    ours: (Workflows, Near),
    bare: (Client, Near, Vec<Vec<Again>>),
}

impl Pair {
    fn new(shape: Shape) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = |near: &Near| {
            let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "bench");
            let endpoint = Some("http://near".to_owned());
            let config = bare::defaults(endpoint, "eu-west-1".to_owned(), credentials);
            bare::as_locker(config.http_client(near.http_client()), LONGEST)
        };
        let (near, other) = (Near::default(), Near::default());
        let mut settings = locker::Settings::default();
        OWNER.clone_into(&mut settings.owner);
        (settings.attempt_timeout, settings.give_up_after) = (LONGEST, LONGEST);
        let workflows = Workflows::builder(&client(&near), "workflows").settings(settings);
        let ours = (workflows.build().expect("workflows"), near);
        let job = Job { shape, answer: answer::of_size(SMALL) };
        let mut pair = Self { runtime, shape, job, ours, bare: (client(&other), other, Vec::new()) };
        // What it sends once is what the bare SDK sends again; a replay finds on both sides what is
        // stored here.
        pair.runtime.block_on(pair.ours(0));
        pair.ours.1.state().kept = Some(Vec::new());
        pair.runtime.block_on(pair.ours(0));
        let kept = pair.ours.1.state().kept.take().expect("requests");
        if shape == Shape::Replay {
            pair.bare.1.copy(&pair.ours.1);
        }
        let copy = |_| kept.iter().map(|(operation, request)| Again::of(operation, request)).collect();
        pair.bare.2 = (0..COPIES).map(copy).collect();
        pair
    }

    /// One operation by the library. Numbers have one width, so that the bytes sent can be
    /// compared.
    async fn ours(&self, number: u64) {
        let (workflows, near) = &self.ours;
        let number = if self.shape == Shape::Replay { 0 } else { number };
        if self.shape != Shape::Replay {
            near.clear();
        }
        let start = workflows.start(&self.job, ("job", 100_000_000 + number), &7);
        let Ok(Outcome::Completed(answer)) = Box::pin(start.run()).await else { panic!("no answer") };
        assert_eq!(*answer, self.job.answer);
    }

    async fn by_hand(&self, number: u64) {
        let (client, near, copies) = &self.bare;
        if self.shape != Shape::Replay {
            near.clear();
        }
        for request in &copies[number as usize % COPIES] {
            request.send(client).await;
        }
        // The work and its answer are not the library's.
        std::hint::black_box(self.job.answer.clone());
    }

    fn run(&self, ours: bool, count: u64) {
        self.runtime.block_on(async {
            for number in 0..count {
                if ours { self.ours(number).await } else { self.by_hand(number).await }
            }
        });
    }

    fn counted(&self, ours: bool) -> Counted {
        self.run(ours, 20);
        let near = if ours { &self.ours.1 } else { &self.bare.1 };
        let before = near.sent();
        let allocations = Allocations::of(COUNT, || self.run(ours, COUNT));
        let after = near.sent();
        let per = |total: u64| total as f64 / COUNT as f64;
        Counted { requests: per(after.0 - before.0), sent: per(after.1 - before.1), allocations }
    }

    /// CPU of one operation by both, and their ratio, in rounds that alternate.
    fn timed(&self, rounds: usize) -> ([f64; 2], f64) {
        let mut cpu = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for turn in 0..2 {
                let side = (round + turn) % 2;
                let before = cpu_time();
                self.run(side == 0, 32);
                cpu[side].push(micros(cpu_time() - before) / 32.0);
            }
        }
        ([percentile(&cpu[0], 50), percentile(&cpu[1], 50)], ratio(&cpu[0], &cpu[1]))
    }
}

/// Performs one workflow of one side this many times, without a measurement. `None`: there is no
/// workflow of this name.
pub(crate) fn repeat(side: &str, workflow: &str, times: u64) -> Option<ExitCode> {
    let shape = SHAPES.into_iter().find(|shape| shape.name() == workflow)?;
    let Some(side) = SIDES.iter().position(|known| *known == side) else {
        eprintln!("could not repeat: unknown side; see `repeat --help`");
        return Some(ExitCode::FAILURE);
    };
    Pair::new(shape).run(side == 0, times);
    Some(ExitCode::SUCCESS)
}

struct Counted {
    requests: f64,
    sent: f64,
    allocations: Option<Allocations>,
}

/// Measures and checks the counts; the times are only printed, if at all.
pub(crate) fn report(rounds: Option<usize>) -> ExitCode {
    let (mut verdict, mut table) = (ExitCode::SUCCESS, String::new());
    for shape in SHAPES {
        let pair = Pair::new(shape);
        let (ours, bare) = (pair.counted(true), pair.counted(false));
        let timed = rounds.map(|rounds| pair.timed(rounds));
        let name = shape.name();
        for (side, counted) in [&ours, &bare].into_iter().enumerate() {
            let Counted { requests, sent, allocations } = counted;
            let allocated = Allocations::columns(*allocations);
            let by = SIDES[side];
            let cpu = timed.map_or(String::new(), |(cpu, _)| format!("{:.0}", cpu[side]));
            let ratio = timed.filter(|_| side == 1).map_or(String::new(), |(_, it)| format!("{it:.2}"));
            let _ =
                writeln!(table, "| {name} | {by} | {requests} | {sent:.0} | {allocated} | {cpu} | {ratio} |");
        }
        let (requests, limit) = (limits::workflow_requests(shape), limits::workflow_allocations(shape));
        let mut checks = vec![
            (ours.requests == requests, format!("{} of {requests} requests", ours.requests)),
            (ours.requests == bare.requests, "as many by the bare SDK".to_owned()),
            ((ours.sent - bare.sent).abs() < 32.0, format!("{:+.0} bytes sent", ours.sent - bare.sent)),
        ];
        if let (Some(ours), Some(bare)) = (ours.allocations, bare.allocations) {
            let extra = ours.number - bare.number;
            checks.push((extra <= limit, format!("{extra:+.0} allocations, {limit} allowed")));
        }
        for (holds, what) in checks {
            println!("{}: {name}: {what}", if holds { "ok" } else { "FAILED" });
            if !holds {
                verdict = ExitCode::FAILURE;
            }
        }
    }
    println!("\n{HEADER}\n{table}");
    verdict
}

const HEADER: &str = "\
| workflow | by | requests | bytes sent | allocations | bytes allocated | CPU us | ratio |
|---|---|---|---|---|---|---|---|";

impl Shape {
    const fn name(self) -> &'static str {
        match self {
            Self::Step => "one `step`",
            Self::Once => "one `once`",
            Self::Replay => "replay of five steps",
        }
    }
}
