//! Partition keys and sort keys of the table of workflows, as they are stored.
//!
//! A key of a workflow and a name of a step contain no space, and a name contains no `~`. These two
//! characters therefore separate the parts, and no two places share one text, but for the case that
//! [`Place::Compensation`] names.

#[cfg(test)]
mod properties;

use std::borrow::Cow;
use std::fmt;

use chrono::{DateTime, Utc};

use crate::core::invalid::InvalidRecord;
use crate::core::name::{self, InvalidName};
use crate::core::time;

/// The sort key of the header, which every driver reads.
pub(crate) const HEADER: &str = "#";
/// The sort key of each record of a step with its own key.
pub(crate) const SHARED: &str = "once";
const RECEIVED: &str = "received";
const LATEST: &str = "latest";
const NUMBER: &str = "number";
const FAILURES: &str = "failures";

/// Sorts before the header, so that the query of a resume leaves out large results.
const RESULT: &str = "!result";
const INPUT: &str = "#input";
const ANSWER: &str = "#answer";
const STEP: &str = "step";
const COMPENSATION: &str = "compensation";
const LATE_COMPENSATION: &str = "compensation-late";
const EVENT: &str = "event";
const SURPLUS: &str = "~event";
const RECEIPT: &str = "~receipt";
const HEARD: &str = "heard";
const LEDGER: &str = "~ledger";
const FAILED: &str = "~failed";
const ARCHIVED: &str = "archived";
const REPLACED: &str = "~replaced";

/// Between the name of a step and the compensation that makes it.
const WITHIN: &str = "~in~";

const OUTBOX: &str = "locker outbox ";
const INBOX: &str = "locker inbox ";
const DEAD: &str = "locker dead ";

/// Begins the sort keys of messages, for queries.
pub(crate) const MESSAGES: &str = "message/";
/// Begins the sort keys of events, for queries.
pub(crate) const EVENTS: &str = "event/";
/// Begins the sort keys of other events under a name that has its event, for queries.
pub(crate) const SURPLUS_EVENTS: &str = "~event/";
/// Begins the sort keys of receipts of events, for queries.
pub(crate) const RECEIPTS: &str = "~receipt/";
/// Begins the sort keys of audit records, for queries.
pub(crate) const AUDITS: &str = "~audit/";
/// Begins the sort keys of causes of failed runs, for queries.
pub(crate) const FAILED_RUNS: &str = "~failed/";
/// Begins the sort keys of everything that no driver needs. They sort after everything that a
/// resume reads, so one query reads the workflow and stops there. What outlives the workflow is
/// among them.
pub(crate) const LASTING: &str = "~";

/// A partition key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partition<'a> {
    /// A workflow. Under version 1 also the record of a step with this key as its own key.
    Workflow { key: &'a str, version: u32 },
    /// Messages about a subject that were committed outside of workflows.
    Outbox { subject: &'a str },
    /// The receipt of a message, or of all messages about a subject.
    Inbox { consumer: &'a str, digest: &'a str },
    /// Messages of one group that a consumer dead-lettered, or one message without a group.
    Dead { consumer: &'a str, digest: &'a str },
}

impl<'a> Partition<'a> {
    /// Reads a partition key.
    pub(crate) fn parse(text: &'a str) -> Result<Self, InvalidRecord> {
        const WRONG: InvalidRecord =
            InvalidRecord::Form { attribute: "workflow", expected: "a partition key of this library" };
        let of_consumer = |rest: &'a str| {
            rest.split_once(' ').filter(|(consumer, digest)| is_word(consumer) && is_word(digest))
        };
        let parsed = if let Some(subject) = text.strip_prefix(OUTBOX) {
            is_word(subject).then_some(Self::Outbox { subject })
        } else if let Some(rest) = text.strip_prefix(INBOX) {
            of_consumer(rest).map(|(consumer, digest)| Self::Inbox { consumer, digest })
        } else if let Some(rest) = text.strip_prefix(DEAD) {
            of_consumer(rest).map(|(consumer, digest)| Self::Dead { consumer, digest })
        } else {
            match text.split_once(' ') {
                None => Some((text, 1)),
                Some((key, version)) => {
                    version_of(version).filter(|version| *version > 1).map(|version| (key, version))
                }
            }
            .filter(|(key, _)| is_word(key))
            .map(|(key, version)| Self::Workflow { key, version })
        };
        parsed.ok_or(WRONG)
    }
}

impl fmt::Display for Partition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workflow { key, version } if *version <= 1 => f.write_str(key),
            Self::Workflow { key, version } => write!(f, "{key} v{version}"),
            Self::Outbox { subject } => write!(f, "{OUTBOX}{subject}"),
            Self::Inbox { consumer, digest } => write!(f, "{INBOX}{consumer} {digest}"),
            Self::Dead { consumer, digest } => write!(f, "{DEAD}{consumer} {digest}"),
        }
    }
}

/// Returns the key of the workflow with this partition key, without its version.
pub(crate) fn workflow_key(partition: &str) -> &str {
    match Partition::parse(partition) {
        Ok(Partition::Workflow { key, .. }) => key,
        _ => partition,
    }
}

/// A sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// The header of a workflow.
    Header,
    /// An input that is too large for the header, by its id.
    Input(&'a str),
    /// An answer, by its id.
    Answer(&'a str),
    /// The result of a step that is too large for its record, by its id. No resume reads it.
    Result(&'a str),
    /// A step of the workflow itself, by its name.
    Step(&'a str),
    /// An outcome of a step, next to the record of the step.
    Former { of: &'a str, outcome: Former<'a> },
    /// A step that a compensation makes, or an outcome next to the record of that step.
    Nested { step: &'a str, within: Undo<'a>, former: Option<Former<'a>> },
    /// A compensation, or an outcome next to its record. `charge v2` has two readings: the
    /// compensation of version 2 of `charge`, and version 2 of the compensation's own key. It is
    /// parsed as the first one.
    Compensation { of: Undo<'a>, former: Option<Former<'a>> },
    /// The record of a step with its own key.
    Shared,
    /// An event from outside, and the code that waits for it. It belongs to the workflow and not to
    /// a scope of its code: the sender knows only the name.
    Event(&'a str),
    /// Another event under a name that has its event, by a digest. No resume reads it, so a sender
    /// with a fault cannot make the runs dear.
    Surplus { event: &'a str, digest: &'a str },
    /// The receipt of an event that arrived at a version of the key. Without a digest: the receipt
    /// of a wait that declared a compensation for events of this name. It is in the partition of
    /// the first version, which has this start. No resume reads it.
    Receipt { started: DateTime<Utc>, event: &'a str, digest: Option<&'a str> },
    /// A message.
    Message(MessagePlace<'a>),
    /// An archived message. It sorts before the others, and no query of a sender reads it.
    Archived(MessagePlace<'a>),
    /// The receipt of one message.
    Received,
    /// The receipt of the newest message about a subject.
    Latest,
    /// The receipt of all messages about a subject up to a number.
    Number,
    /// The failures of a message that is in its queue.
    Failures,
    /// The receipt of a message that a consumer dead-lettered, by the identity of the message. It
    /// sorts before the messages of its partition, which are read from the end.
    Heard(&'a str),
    /// Runs of the workflow with this start that failed of one cause. There are a few places, which
    /// are used in turn.
    FailedRuns { started: DateTime<Utc>, place: u32 },
    /// The ledger entry of a deleted workflow, by the start of that workflow.
    Ledger(DateTime<Utc>),
    /// The audit record of an operator's act. Records sort by their times.
    Audit { at: DateTime<Utc>, id: &'a str },
    /// The body of a message that an operator replaced, by the audit record of the act.
    Replaced { at: DateTime<Utc>, id: &'a str },
}

impl<'a> Place<'a> {
    /// Reads a sort key.
    pub(crate) fn parse(item: &'a str) -> Result<Self, InvalidRecord> {
        const WRONG: InvalidRecord =
            InvalidRecord::Form { attribute: "item", expected: "a sort key of this library" };
        Self::parsed(item).ok_or(WRONG)
    }

    fn parsed(item: &'a str) -> Option<Self> {
        match item {
            HEADER => return Some(Self::Header),
            SHARED => return Some(Self::Shared),
            RECEIVED => return Some(Self::Received),
            LATEST => return Some(Self::Latest),
            NUMBER => return Some(Self::Number),
            FAILURES => return Some(Self::Failures),
            _ => {}
        }
        if let Some(rest) = item.strip_prefix(MESSAGES) {
            return MessagePlace::parse(rest).map(Self::Message);
        }
        if let Some(rest) = item.strip_prefix(AUDITS) {
            let (at, id) = rest.split_once(' ')?;
            return Some(Self::Audit { at: moment(at)?, id: some(id)? });
        }
        let (kind, rest) = item.split_once('/')?;
        let rest = some(rest)?;
        match kind {
            INPUT => Some(Self::Input(rest)),
            ANSWER => Some(Self::Answer(rest)),
            RESULT => Some(Self::Result(rest)),
            STEP => Self::step(rest),
            COMPENSATION => Self::compensation(rest, false),
            LATE_COMPENSATION => Self::compensation(rest, true),
            EVENT => event_name(rest).map(Self::Event),
            SURPLUS => Self::surplus(rest),
            RECEIPT => {
                let (started, event) = rest.split_once(' ')?;
                let started = moment(started)?;
                Some(match Self::surplus(event) {
                    Some(Self::Surplus { event, digest }) => {
                        Self::Receipt { started, event, digest: Some(digest) }
                    }
                    _ => Self::Receipt { started, event: event_name(event)?, digest: None },
                })
            }
            HEARD => Some(Self::Heard(rest)),
            ARCHIVED => MessagePlace::parse(rest).map(Self::Archived),
            LEDGER => moment(rest).map(Self::Ledger),
            REPLACED => {
                let (at, id) = rest.split_once(' ')?;
                Some(Self::Replaced { at: moment(at)?, id: some(id)? })
            }
            FAILED => {
                let (started, place) = rest.split_once(' ')?;
                Some(Self::FailedRuns { started: moment(started)?, place: padded(place, 1)? })
            }
            _ => None,
        }
    }

    /// Reads the name of a step or an event that [`shown`](Self::shown) returns. An outcome next to
    /// a record is no step.
    pub(crate) fn parse_shown(shown: &'a str) -> Result<Self, InvalidName> {
        let of = |kind: &str| shown.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':'));
        if let Some(event) = of(EVENT) {
            let place = Self::surplus(event).unwrap_or(Self::Event(event));
            let (Self::Event(name) | Self::Surplus { event: name, .. }) = place else { return Ok(place) };
            return name::check(name).map(|()| place);
        }
        let place = match (of(COMPENSATION), of(LATE_COMPENSATION)) {
            (Some(rest), _) => Self::compensation(rest, false),
            (_, Some(rest)) => Self::compensation(rest, true),
            _ => Self::step(shown),
        };
        match place {
            Some(place @ Self::Nested { step, within, former: None }) => {
                name::check(step)?;
                check_effect(within.effect.step)?;
                Ok(place)
            }
            Some(place @ Self::Compensation { of, former: None }) => {
                check_effect(of.effect.step)?;
                Ok(place)
            }
            _ => {
                name::check(shown)?;
                Ok(Self::Step(shown))
            }
        }
    }

    fn step(text: &'a str) -> Option<Self> {
        let (name, former) = match text.split_once(' ') {
            None => (text, None),
            Some((name, former)) => (name, Some(Former::parse(former)?)),
        };
        if let Some((step, within)) = name.split_once(WITHIN) {
            return Some(Self::Nested { step: some(step)?, within: Undo::parse_scope(within)?, former });
        }
        let name = some(name).filter(|name| !name.contains('~'))?;
        Some(match former {
            None => Self::Step(name),
            Some(outcome) => Self::Former { of: name, outcome },
        })
    }

    fn surplus(text: &'a str) -> Option<Self> {
        let (event, digest) = text.split_once(' ')?;
        let digest = some(digest).filter(|digest| digest.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        Some(Self::Surplus { event: event_name(event)?, digest })
    }

    fn compensation(text: &'a str, late: bool) -> Option<Self> {
        let (step, rest) = text.split_once(' ').map_or((text, None), |(step, rest)| (step, Some(rest)));
        let step = some(step)?;
        let of = |version| Undo { effect: Effect { step, version }, late };
        let Some(rest) = rest else { return Some(Self::Compensation { of: of(1), former: None }) };
        let (first, after) = rest.split_once(' ').map_or((rest, None), |(first, after)| (first, Some(after)));
        let version = version_of(first).filter(|version| *version > 1);
        Some(match (version, after) {
            (Some(version), None) => Self::Compensation { of: of(version), former: None },
            (Some(version), Some(after)) if after.starts_with('v') => {
                Self::Compensation { of: of(version), former: Some(Former::parse(after)?) }
            }
            _ => Self::Compensation { of: of(1), former: Some(Former::parse(rest)?) },
        })
    }

    /// Returns the name of the step in the idempotency key that its provider receives. An outcome
    /// next to a record has the name of that record.
    pub(crate) fn provider_step(&self) -> Cow<'a, str> {
        match *self {
            Self::Step(name) | Self::Former { of: name, .. } => Cow::Borrowed(name),
            Self::Nested { step, within, .. } => Cow::Owned(format!("{step}{WITHIN}{}", within.scope())),
            Self::Compensation { of: Undo { effect, late }, .. } => {
                Cow::Owned(format!("{effect}~compensate{}", if late { "-late" } else { "" }))
            }
            _ => Cow::Borrowed(""),
        }
    }

    /// Returns the name of the step that operators see.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Step(name) => (*name).to_owned(),
            Self::Former { of, outcome } => format!("{of} {outcome}"),
            Self::Nested { former: Some(former), .. } => format!("{} {former}", self.provider_step()),
            Self::Nested { .. } => self.provider_step().into_owned(),
            Self::Compensation { of, former } => {
                let former = former.map_or_else(String::new, |former| format!(" {former}"));
                format!("{}:{}{former}", of.kind(), of.effect)
            }
            Self::Event(name) => shown_event(name),
            Self::Surplus { event, digest } => format!("{} {digest}", shown_event(event)),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = |f: &mut fmt::Formatter<'_>, former: &Option<Former<'_>>| match former {
            Some(former) => write!(f, " {former}"),
            None => Ok(()),
        };
        match self {
            Self::Header => f.write_str(HEADER),
            Self::Input(id) => write!(f, "{INPUT}/{id}"),
            Self::Answer(id) => write!(f, "{ANSWER}/{id}"),
            Self::Result(id) => write!(f, "{RESULT}/{id}"),
            Self::Step(name) => write!(f, "{STEP}/{name}"),
            Self::Former { of, outcome } => write!(f, "{STEP}/{of} {outcome}"),
            Self::Nested { step, within, former } => {
                write!(f, "{STEP}/{step}{WITHIN}{}", within.scope())?;
                beside(f, former)
            }
            Self::Compensation { of, former } => {
                write!(f, "{}/{}", of.kind(), of.effect)?;
                beside(f, former)
            }
            Self::Shared => f.write_str(SHARED),
            Self::Event(name) => write!(f, "{EVENTS}{name}"),
            Self::Surplus { event, digest } => write!(f, "{SURPLUS_EVENTS}{event} {digest}"),
            Self::Receipt { started, event, digest } => {
                write!(f, "{RECEIPTS}{} {event}", time::to_text(*started))?;
                digest.map_or(Ok(()), |digest| write!(f, " {digest}"))
            }
            Self::Message(place) => write!(f, "{MESSAGES}{place}"),
            Self::Archived(place) => write!(f, "{ARCHIVED}/{place}"),
            Self::Received => f.write_str(RECEIVED),
            Self::Latest => f.write_str(LATEST),
            Self::Number => f.write_str(NUMBER),
            Self::Failures => f.write_str(FAILURES),
            Self::Heard(identity) => write!(f, "{HEARD}/{identity}"),
            Self::FailedRuns { started, place } => {
                write!(f, "{FAILED_RUNS}{} {place}", time::to_text(*started))
            }
            Self::Ledger(started) => write!(f, "{LEDGER}/{}", time::to_text(*started)),
            Self::Audit { at, id } => write!(f, "{AUDITS}{} {id}", time::to_text(*at)),
            Self::Replaced { at, id } => write!(f, "{REPLACED}/{} {id}", time::to_text(*at)),
        }
    }
}

/// Returns the name of the step with this sort key, without the version of an outcome.
pub(crate) fn step_name(item: &str) -> &str {
    let name = item.split_once('/').map_or(item, |(_, name)| name);
    name.split_once(' ').map_or(name, |(name, _)| name)
}

/// The name of an event that operators see, and of the effect that a compensation of it undoes. No
/// step has such a name.
pub(crate) fn shown_event(name: &str) -> String {
    format!("{}{name}", name::EVENT_PREFIX)
}

/// Checks the name of an effect to compensate: a step, or an event.
fn check_effect(name: &str) -> Result<(), InvalidName> {
    name::check(name.strip_prefix(name::EVENT_PREFIX).unwrap_or(name))
}

/// The effect that a compensation undoes: a step under one version of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Effect<'a> {
    pub(crate) step: &'a str,
    pub(crate) version: u32,
}

impl fmt::Display for Effect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            0 | 1 => f.write_str(self.step),
            version => write!(f, "{} v{version}", self.step),
        }
    }
}

/// A compensation, by its effect. `late`: the outcome of the step arrived after a compensation that
/// had found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Undo<'a> {
    pub(crate) effect: Effect<'a>,
    pub(crate) late: bool,
}

impl<'a> Undo<'a> {
    const fn kind(&self) -> &'static str {
        if self.late { LATE_COMPENSATION } else { COMPENSATION }
    }

    /// Returns the part that the names of its steps share. It has no space: after a space comes the
    /// version of an outcome.
    pub(crate) fn scope(&self) -> impl fmt::Display + use<'a> {
        let Self { effect: Effect { step, version }, .. } = *self;
        let kind = self.kind();
        fmt::from_fn(move |f| match version {
            0 | 1 => write!(f, "{kind}:{step}"),
            version => write!(f, "{kind}:{step}~v{version}"),
        })
    }

    fn parse_scope(text: &'a str) -> Option<Self> {
        let (kind, effect) = text.split_once(':')?;
        let late = match kind {
            COMPENSATION => false,
            LATE_COMPENSATION => true,
            _ => return None,
        };
        let (step, version) = match effect.rsplit_once('~') {
            None => (effect, 1),
            Some((step, version)) => (step, version_of(version).filter(|version| *version > 1)?),
        };
        Some(Self { effect: Effect { step: some(step)?, version }, late })
    }
}

/// An outcome next to the record of its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Former<'a> {
    /// The version of the key that it belongs to.
    pub(crate) version: u32,
    /// The digest of the result, if another result is recorded under this version.
    pub(crate) digest: Option<&'a str>,
}

impl<'a> Former<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (version, digest) =
            text.split_once(' ').map_or((text, None), |(version, digest)| (version, Some(digest)));
        let is_hex =
            |digest: &&str| !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        match digest {
            Some(digest) if !is_hex(&digest) => None,
            digest => Some(Self { version: version_of(version)?, digest }),
        }
    }
}

impl fmt::Display for Former<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.digest {
            None => write!(f, "v{}", self.version),
            Some(digest) => write!(f, "v{} {digest}", self.version),
        }
    }
}

/// The place of a message in its partition. Messages sort in the order in which they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessagePlace<'a> {
    /// Committed by a step: the number of the step, the position in its transaction, its name.
    Step { number: u32, position: usize, step: &'a str },
    /// Committed by a transaction outside of workflows, with the number of commits before it in its
    /// millisecond. The attempt is unique, so no other commit has this place.
    Outbox { millis: u64, number: u32, position: usize, attempt: &'a str },
    /// Dead-lettered by a consumer.
    Dead { millis: u64, identity: &'a str },
}

impl<'a> MessagePlace<'a> {
    /// Reads the place of a message, without the beginning that all messages share.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.splitn(3, '/');
        let (order, position, name) = (parts.next()?, parts.next()?, some(parts.next()?)?);
        let position = padded::<usize>(position, 3)?;
        // The width distinguishes the three kinds. One or two more digits are accepted, so that a
        // number that outgrows its padding is still read.
        match order.len() {
            8..=10 => Some(Self::Step { number: padded(order, 8)?, position, step: name }),
            15 | 16 if position == 0 => Some(Self::Dead { millis: padded(order, 15)?, identity: name }),
            25 | 26 => {
                let (millis, number) = order.split_at_checked(order.len() - 10)?;
                let (millis, number) = (padded(millis, 15)?, padded(number, 10)?);
                Some(Self::Outbox { millis, number, position, attempt: name })
            }
            _ => None,
        }
    }
}

impl fmt::Display for MessagePlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { number, position, step } => write!(f, "{number:08}/{position:03}/{step}"),
            Self::Outbox { millis, number, position, attempt } => {
                write!(f, "{millis:015}{number:010}/{position:03}/{attempt}")
            }
            Self::Dead { millis, identity } => write!(f, "{millis:015}/000/{identity}"),
        }
    }
}

/// A workflow and its start, which distinguishes it from other workflows under the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    pub(crate) workflow: &'a str,
    pub(crate) started: DateTime<Utc>,
}

impl<'a> Run<'a> {
    /// Reads the run that a record names.
    pub(crate) fn parse(text: &'a str) -> Result<Self, InvalidRecord> {
        const WRONG: InvalidRecord =
            InvalidRecord::Form { attribute: "startedFor", expected: "a workflow and its start" };
        let (workflow, started) = text.rsplit_once(' ').ok_or(WRONG)?;
        Ok(Self { workflow: some(workflow).ok_or(WRONG)?, started: moment(started).ok_or(WRONG)? })
    }
}

impl fmt::Display for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.workflow, time::to_text(self.started))
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn event_name(text: &str) -> Option<&str> {
    some(text).filter(|name| !name.contains(['~', ' ']))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(' ')
}

/// The version in a word such as `v2`, in the one form in which it is written.
fn version_of(word: &str) -> Option<u32> {
    let digits = word.strip_prefix('v')?;
    padded(digits, 1).filter(|version| *version > 0)
}

/// A number of at least this many digits, filled up with zeros and not longer than necessary.
fn padded<T: std::str::FromStr>(digits: &str, width: usize) -> Option<T> {
    let is_filled = digits.len() >= width && (digits.len() == width || !digits.starts_with('0'));
    let is_number = is_filled && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn moment(text: &str) -> Option<DateTime<Utc>> {
    time::from_text(text).filter(|at| time::to_text(*at) == text)
}
