//! A life on a time axis, as SVG that the server draws.
//!
//! A gap of more than a minute without an event is folded: it is drawn as a break with its length,
//! so that a step of a second stays visible next to a wait of a day. A state is drawn by pattern
//! and word, never by colour alone. The tables below the drawing contain the same facts.

use std::time::Duration;

use chrono::{DateTime, Utc};
use maud::{Markup, html};

use crate::output;

/// The longest gap that is drawn to scale.
const LONGEST_GAP: Duration = Duration::from_secs(60);
/// The width of a folded gap.
const FOLD: f64 = 56.0;
/// Where the bars begin and end.
const LEFT: f64 = 280.0;
const RIGHT: f64 = 960.0;
const TOP: f64 = 34.0;
const ROW: f64 = 26.0;
/// The narrowest bar.
const NARROWEST: f64 = 5.0;
/// The longest name and state of a row, in characters.
const LONGEST: (usize, usize) = (22, 12);

/// A row: a time that something took, or one event.
pub(super) struct Bar {
    name: String,
    state: &'static str,
    kind: &'static str,
    from: DateTime<Utc>,
    /// `None`: it has not ended.
    until: Option<DateTime<Utc>>,
    /// Events at one time each. The row has no bar then.
    points: Vec<DateTime<Utc>>,
    is_pivot: bool,
}

impl Bar {
    pub(super) fn new(
        name: &str,
        state: &'static str,
        from: DateTime<Utc>,
        until: Option<DateTime<Utc>>,
    ) -> Self {
        let name = name.to_owned();
        Self { name, state, kind: "", from, until, points: Vec::new(), is_pivot: false }
    }

    /// A row of events. `None`: there are none.
    pub(super) fn points(name: &str, state: &'static str, at: Vec<DateTime<Utc>>) -> Option<Self> {
        let (first, last) = (*at.iter().min()?, at.iter().max().copied());
        Some(Self { points: at, ..Self::new(name, state, first, last) })
    }

    pub(super) fn of_kind(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn pivot(self) -> Self {
        Self { is_pivot: true, ..self }
    }

    /// The pattern of the state: its style sheet class.
    fn class(&self) -> &'static str {
        match self.state {
            "completed" | "taken" | "given" | "resolved" => "bar done",
            "in doubt" | "late" | "overdue" => "bar doubt",
            "failed" | "held" | "dead" | "run failed" => "bar failed",
            "cancelled" | "expired" | "withdrawn" | "freed" | "compensated" => "bar ended",
            _ => "bar open",
        }
    }
}

/// A gap that is drawn as a break.
struct Fold {
    x: f64,
    text: String,
}

/// The times of the axis, each with its place.
struct Axis {
    points: Vec<(DateTime<Utc>, f64)>,
    folds: Vec<Fold>,
}

impl Axis {
    fn new(mut times: Vec<DateTime<Utc>>) -> Self {
        times.sort_unstable();
        times.dedup();
        let gap = |pair: &[DateTime<Utc>]| (pair[1] - pair[0]).to_std().unwrap_or_default();
        let gaps: Vec<_> = times.windows(2).map(gap).collect();
        let is_folded = |gap: &Duration| *gap > LONGEST_GAP;
        let folded = gaps.iter().filter(|gap| is_folded(gap)).count();
        let open: f64 = gaps.iter().filter(|gap| !is_folded(gap)).map(Duration::as_secs_f64).sum();
        #[allow(clippy::cast_precision_loss, reason = "a workflow has few gaps")]
        let folded = folded as f64;
        // Folds take two thirds of the axis at most; without an open gap, all of it.
        let whole = RIGHT - LEFT;
        let fold = match folded {
            0.0 => 0.0,
            count if open == 0.0 => whole / count,
            count => FOLD.min(whole * 2.0 / 3.0 / count),
        };
        let scale = if open > 0.0 { fold.mul_add(-folded, whole) / open } else { 0.0 };
        let mut x = LEFT;
        let mut axis = Self { points: Vec::new(), folds: Vec::new() };
        axis.points.extend(times.first().map(|first| (*first, x)));
        for (at, gap) in times.iter().skip(1).zip(&gaps) {
            let width = if is_folded(gap) { fold } else { scale * gap.as_secs_f64() };
            if is_folded(gap) {
                axis.folds.push(Fold { x: x + width / 2.0, text: output::rough(*gap) });
            }
            x += width;
            axis.points.push((*at, x));
        }
        axis
    }

    fn x(&self, at: DateTime<Utc>) -> f64 {
        self.points.iter().find(|(time, _)| *time >= at).or(self.points.last()).map_or(LEFT, |(_, x)| *x)
    }
}

/// A drawing under construction.
pub(super) struct Drawing {
    now: DateTime<Utc>,
    bars: Vec<Bar>,
}

impl Drawing {
    pub(super) const fn new(now: DateTime<Utc>) -> Self {
        Self { now, bars: Vec::new() }
    }

    pub(super) fn add(&mut self, bar: Bar) {
        self.bars.push(bar);
    }

    pub(super) fn extend(&mut self, row: Option<Bar>) {
        self.bars.extend(row);
    }

    pub(super) fn svg(&self, title: &str) -> Markup {
        let is_open = self.bars.iter().any(|bar| bar.until.is_none());
        let times_of =
            |bar: &Bar| [vec![bar.from], bar.points.clone(), bar.until.into_iter().collect()].concat();
        let times = self.bars.iter().flat_map(times_of);
        let axis = Axis::new(times.chain(is_open.then_some(self.now)).collect());
        #[allow(clippy::cast_precision_loss, reason = "a workflow has few rows")]
        let y = |row: usize| TOP + row as f64 * ROW;
        let height = y(self.bars.len()) + 12.0;
        let described =
            format!("{} rows on one time axis; the tables contain the same facts", self.bars.len());
        let (first, last) = (axis.points.first(), axis.points.last());
        html! {
            div.scroll tabindex="0" role="region" aria-label=(title) {
                svg.life viewBox=(format!("0 0 980 {height}")) width="980" height=(height) role="img"
                    aria-label=(format!("{title}: {described}")) {
                    defs {
                        pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                            rect.hatch-ground width="6" height="6" {}
                            rect.hatch-line width="3" height="6" {}
                        }
                    }
                    @for (point, anchor) in [(first, "start"), (last, "end")] {
                        @if let Some((at, x)) = point {
                            text.axis x=(x) y="14" text-anchor=(anchor) { (output::time(*at)) }
                        }
                    }
                    line.axis x1=(LEFT) x2=(RIGHT) y1="22" y2="22" {}
                    @for fold in &axis.folds {
                        line.fold x1=(fold.x) x2=(fold.x) y1="18" y2=(height - 13.0) {}
                        text.fold x=(fold.x) y=(height - 1.0) text-anchor="middle" { (fold.text) }
                    }
                    @for (row, bar) in self.bars.iter().enumerate() { (self.row(bar, y(row), &axis)) }
                }
            }
        }
    }

    fn row(&self, bar: &Bar, y: f64, axis: &Axis) -> Markup {
        let (from, until) = (axis.x(bar.from), axis.x(bar.until.unwrap_or(self.now)));
        let width = (until - from).max(NARROWEST);
        // A short bar at the end stays inside.
        let from = from.min(RIGHT - width);
        let said = format!("{} {}: {}", bar.kind, output::plain(&bar.name), bar.state);
        let (middle, base) = (y + ROW / 2.0, y + ROW / 2.0 + 4.0);
        html! {
            g {
                title { (said.trim_start()) }
                text.row-name x="4" y=(base) { (short(&bar.name, LONGEST.0)) }
                text.row-state x="184" y=(base) { (short(bar.state, LONGEST.1)) }
                line.track x1=(LEFT) x2=(RIGHT) y1=(middle) y2=(middle) {}
                @for at in &bar.points {
                    path class=(bar.class()) d=(diamond(axis.x(*at).clamp(LEFT + 6.0, RIGHT - 6.0), middle)) {}
                }
                @if bar.points.is_empty() {
                    rect class=(bar.class()) x=(from) y=(y + 5.0) width=(width) height=(ROW - 10.0)
                        rx=(if bar.kind == "atomic" { "0" } else { "3" }) {}
                    @if bar.kind == "compensation" { text.mark x=(from - 12.0) y=(base) { "↩" } }
                    @if bar.is_pivot { line.pivot x1=(from + width) x2=(from + width) y1=(y) y2=(y + ROW) {} }
                }
            }
        }
    }
}

fn diamond(x: f64, y: f64) -> String {
    format!("M{} {y} L{x} {} L{} {y} L{x} {} Z", x - 6.0, y - 6.0, x + 6.0, y + 6.0)
}

/// The beginning of a long text, without odd characters.
fn short(text: &str, most: usize) -> String {
    let text = output::plain(text);
    match text.char_indices().nth(most) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
