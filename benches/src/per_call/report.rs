//! Tables, ratios, and the check of the counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use crate::limits;
use crate::measure::{Allocations, Measured, Setting, allocations, percentile};
use crate::server::Server;
use crate::side::{Kind, Operation, Side, Size};

/// The number of operations that are counted.
const COUNT: u64 = 100;

pub(crate) const HEADER: &str = "\
| operation | answer | threads | callers | by | CPU us | ratio | p50 us | p99 us | a second |
|---|---|---|---|---|---|---|---|---|---|";

#[derive(Debug, Default)]
pub(crate) struct Report {
    counted: Vec<Counted>,
    ratios: BTreeMap<String, f64>,
}

/// The counts of one operation.
#[derive(Debug)]
struct Counted {
    operation: Operation,
    size: Size,
    kind: Kind,
    requests: f64,
    sent: f64,
    allocations: Option<Allocations>,
}

impl Report {
    pub(crate) fn counted(&mut self, operation: Operation, size: Size, sides: &[Side], server: &Server) {
        for side in sides {
            // They include twenty operations to warm up.
            let before = server.counts();
            let allocations = allocations(side, operation, COUNT);
            let asked = server.counts() - before;
            let per = |total: u64| total as f64 / (COUNT + 20) as f64;
            self.counted.push(Counted {
                operation,
                size,
                kind: side.kind,
                requests: per(asked.requests),
                sent: per(asked.bytes),
                allocations,
            });
        }
    }

    pub(crate) fn counted_table(&self) -> String {
        let mut table =
            "| operation | answer | by | requests | bytes sent | allocations | bytes allocated |\n\
             |---|---|---|---|---|---|---|\n"
                .to_owned();
        for counted in &self.counted {
            let Counted { operation, size, kind, requests, sent, allocations } = counted;
            let allocated = Allocations::columns(*allocations);
            let (operation, size, kind) = (operation.name(), size.name(), kind.name());
            let _ =
                writeln!(table, "| {operation} | {size} | {kind} | {requests} | {sent:.0} | {allocated} |");
        }
        table
    }

    /// Records one setting, and returns its rows.
    pub(crate) fn measured(&mut self, setting: Setting, measured: &[Measured]) -> String {
        let Setting { operation, size, threads, callers } = setting;
        let name = format!("{}, {}, {threads} threads, {callers} callers", operation.name(), size.name());
        for other in &measured[1..] {
            let name = format!("{name}: CPU against {}", other.kind.name());
            self.ratios.insert(name, ratio(&measured[0].cpu, &other.cpu));
        }
        Self::rows(setting, measured)
    }

    /// The rows of one setting.
    fn rows(setting: Setting, sides: &[Measured]) -> String {
        let Setting { operation, size, threads, callers } = setting;
        let mut rows = String::new();
        for side in sides {
            let ratio = match side.kind {
                Kind::Locker => String::new(),
                _ => format!("{:.2}", ratio(&sides[0].cpu, &side.cpu)),
            };
            let _ = writeln!(
                rows,
                "| {} | {} | {threads} | {callers} | {} | {:.0} | {ratio} | {:.0} | {:.0} | {:.0} |",
                operation.name(),
                size.name(),
                side.kind.name(),
                percentile(&side.cpu, 50),
                percentile(&side.latencies, 50),
                percentile(&side.latencies, 99),
                percentile(&side.throughput, 50),
            );
        }
        rows
    }

    /// The ratios as one line of JSON, for programs.
    pub(crate) fn ratios(&self) -> String {
        let rounded = |ratio: &f64| (ratio * 1000.0).round() / 1000.0;
        let ratios: BTreeMap<_, _> = self.ratios.iter().map(|(name, ratio)| (name, rounded(ratio))).collect();
        format!("ratios: {}", serde_json::json!(ratios))
    }

    /// Checks the counts, and never the times.
    pub(crate) fn verdict(&self) -> ExitCode {
        let mut verdict = ExitCode::SUCCESS;
        for ours in self.counted.iter().filter(|counted| counted.kind == Kind::Locker) {
            let (operation, size) = (ours.operation, ours.size);
            let same =
                |other: &&Counted| (other.operation, other.size, other.kind) == (operation, size, Kind::Bare);
            let bare = self.counted.iter().find(same).expect("the bare SDK is always counted");
            let about = format!("{}, {}", operation.name(), size.name());
            let expected = limits::requests(operation, size) as f64;
            let mut check = |holds: bool, what: String| {
                println!("{}: {about}: {what}", if holds { "ok" } else { "FAILED" });
                if !holds {
                    verdict = ExitCode::FAILURE;
                }
            };
            check(ours.requests == expected, format!("{} of {expected} requests", ours.requests));
            check((ours.sent - bare.sent).abs() < 16.0, format!("{:+.0} bytes sent", ours.sent - bare.sent));
            if let (Some(ours), Some(bare)) = (ours.allocations, bare.allocations) {
                let extra = ours.number - bare.number;
                let limit = limits::extra_allocations(operation, size) as f64;
                check(extra <= limit, format!("{extra:+.0} allocations, {limit} allowed"));
            }
        }
        verdict
    }
}

/// The median of the ratios of neighbouring rounds: what slows one of them slows both.
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios: Vec<_> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    percentile(&ratios, 50)
}
