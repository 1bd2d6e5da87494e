//! Measurement of CPU time of this process, allocations and latencies, in rounds that alternate.

use std::process::ExitCode;
use std::time::Duration;

use locker_benches::answer;
use locker_benches::canned::LARGE;
use nix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::processors;
use crate::side::{Kind, Operation, Side, Size};

/// A setting to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) operation: Operation,
    pub(crate) size: Size,
    /// Threads of the runtime. 1: the current-thread runtime, as in Lambda.
    pub(crate) threads: usize,
    pub(crate) callers: u64,
}

/// One setting, and the number of its rounds.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) setting: Setting,
}

/// The measurements of one side.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) kind: Kind,
    /// CPU time of an operation in each round, in microseconds.
    pub(crate) cpu: Vec<f64>,
    /// Operations per second in each round.
    pub(crate) throughput: Vec<f64>,
    /// Latency of every operation, in microseconds.
    pub(crate) latencies: Vec<f64>,
}

impl Measured {
    const fn of(kind: Kind) -> Self {
        Self { kind, cpu: Vec::new(), throughput: Vec::new(), latencies: Vec::new() }
    }
}

impl Plan {
    /// Measures all sides in alternation, so that noise affects all of them.
    pub(crate) fn run(&self, sides: &[Side]) -> Vec<Measured> {
        if self.setting.threads == 1 {
            processors::stay_on(processors::CLIENT);
        } else {
            processors::stay_on_any();
        }
        let runtimes: Vec<_> = sides.iter().map(|_| runtime(self.setting.threads)).collect();
        let mut measured: Vec<_> = sides.iter().map(|side| Measured::of(side.kind)).collect();
        for round in 0..=self.rounds {
            for turn in 0..sides.len() {
                let side = (round + turn) % sides.len();
                let (cpu, started) = (cpu_time(), Instant::now());
                let latencies = runtimes[side].block_on(self.round(&sides[side], round));
                let (cpu, wall) = (cpu_time() - cpu, started.elapsed());
                // The first round connects and warms up.
                if round > 0 {
                    let count = latencies.len() as f64;
                    measured[side].cpu.push(micros(cpu) / count);
                    measured[side].throughput.push(count / wall.as_secs_f64());
                    measured[side].latencies.extend(latencies);
                }
            }
        }
        measured
    }

    async fn round(&self, side: &Side, round: usize) -> Vec<f64> {
        let Setting { operation, size, callers, .. } = self.setting;
        // Short rounds, so that neighbouring rounds see the same load of the machine.
        let operations = if size == Size::Small { 32 } else { 8 }.max(callers);
        let first = round as u64 * operations;
        let callers = (0..callers).map(|caller| {
            let side = side.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                for number in (caller..operations).step_by(usize::try_from(callers).expect("small")) {
                    let started = Instant::now();
                    side.perform(operation, first + number).await;
                    latencies.push(micros(started.elapsed()));
                }
                latencies
            })
        });
        let mut latencies = Vec::new();
        for caller in callers.collect::<Vec<_>>() {
            latencies.extend(caller.await.expect("no panic"));
        }
        latencies
    }
}

/// Whether this build counts allocations. Its allocator takes time, so that it does not measure
/// any.
pub(crate) const COUNTS: bool = cfg!(feature = "count");

/// Allocations of one operation, and their bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocations {
    pub(crate) number: f64,
    pub(crate) bytes: f64,
}

impl Allocations {
    /// Of `count` operations, if this build counts.
    #[cfg(feature = "count")]
    pub(crate) fn of(count: u64, operations: impl FnOnce()) -> Option<Self> {
        let counted = allocation_counter::measure(operations);
        let per = |total: u64| total as f64 / count as f64;
        Some(Self { number: per(counted.count_total), bytes: per(counted.bytes_total) })
    }

    /// Of `count` operations, if this build counts.
    #[cfg(not(feature = "count"))]
    pub(crate) fn of(_: u64, operations: impl FnOnce()) -> Option<Self> {
        operations();
        None
    }

    /// The two columns of a table.
    pub(crate) fn columns(counted: Option<Self>) -> String {
        counted.map_or("| ".to_owned(), |Self { number, bytes }| format!("{number:.0} | {bytes:.0}"))
    }
}

/// The allocations of one operation, which is performed in any case.
pub(crate) fn allocations(side: &Side, operation: Operation, count: u64) -> Option<Allocations> {
    let runtime = runtime(1);
    let perform = async |numbers: std::ops::Range<u64>| {
        for number in numbers {
            side.perform(operation, number).await;
        }
    };
    runtime.block_on(perform(0..20));
    Allocations::of(count, || runtime.block_on(perform(20..20 + count)))
}

/// Performs one operation of one side this many times, without a measurement.
pub(crate) fn repeat(sides: &[Side], side: &str, operation: &str, times: u64) -> ExitCode {
    let side = sides.iter().find(|known| known.kind.name() == side);
    let operation =
        Operation::ALL.into_iter().map(|(known, _)| known).find(|known| known.name() == operation);
    let (Some(side), Some(operation)) = (side, operation) else {
        eprintln!("could not repeat: unknown side or operation; see `repeat --help`");
        return ExitCode::FAILURE;
    };
    runtime(1).block_on(async {
        for number in 0..times {
            side.perform(operation, number).await;
        }
    });
    ExitCode::SUCCESS
}

/// Reports the cost of compressing and unpacking the large answer.
pub(crate) fn compression() -> String {
    const TIMES: u32 = 50;
    let json = answer::to_json(&answer::of_size(LARGE));
    let packed = answer::gzip(&json);
    let time = |work: &dyn Fn()| {
        let before = cpu_time();
        (0..TIMES).for_each(|_| work());
        micros(cpu_time() - before) / f64::from(TIMES)
    };
    let pack = time(&|| drop(std::hint::black_box(answer::gzip(&json))));
    let unpack = time(&|| drop(std::hint::black_box(answer::gunzip(&packed))));
    format!(
        "compression: {} bytes become {}; {pack:.0} us to compress, {unpack:.0} us to unpack",
        json.len(),
        packed.len()
    )
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(threads).enable_all().build().expect("a runtime")
}

/// The CPU time of this process, over all threads.
pub(crate) fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock").into()
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The value below which this percentage of the values is.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
