//! The faults of one play, as a text that can be played again.

use std::fmt;
use std::str::FromStr;

pub use lock_token_testing::CallFate;

use super::cases::Case;
use crate::explorer::{ALL, Fate};

/// All fates of a call but those of a suspended process.
pub const CALL_FATES: [CallFate; 8] = [
    CallFate::Refused,
    CallFate::Busy,
    CallFate::Declined,
    CallFate::Lost,
    CallFate::ReplyLost,
    CallFate::Late,
    CallFate::DiesBefore,
    CallFate::DiesAfter,
];

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An exchange with DynamoDB.
    Exchange(Fate),
    /// A call to the provider.
    Call(CallFate),
}

impl Fault {
    /// Whether the driver is suspended while others continue.
    const fn freezes(self) -> bool {
        match self {
            Self::Exchange(fate) => fate.freezes(),
            Self::Call(fate) => fate.freezes(),
        }
    }
}

/// A play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The case of a scenario.
    pub case: Case,
    /// The faults and the exchange or call of each, counted from 1.
    pub faults: Vec<(usize, Fault)>,
    /// Two callers at once, whose exchanges interleave by this seed.
    pub two: Option<u64>,
    /// An operator cancels before this exchange.
    pub cancel: Option<usize>,
    /// Late requests arrive three exchanges later, not in the end.
    pub soon: bool,
    /// No driver runs for longer than any provider recognises a key.
    pub idle: bool,
    /// An operator compensates every quarantined workflow.
    pub undo: bool,
}

impl Plan {
    /// A plan without faults.
    #[must_use]
    pub const fn new(case: Case) -> Self {
        Self { case, faults: Vec::new(), two: None, cancel: None, soon: false, idle: false, undo: false }
    }

    /// Add a fault.
    #[must_use]
    pub fn with(mut self, at: usize, fault: Fault) -> Self {
        self.faults.push((at, fault));
        self
    }

    /// Whether the only fault is one exchange, and no process dies of it.
    #[must_use]
    pub fn is_weather(&self) -> bool {
        let is_mild = |fate: Fate| !fate.kills() && !fate.freezes();
        let mild = matches!(self.faults[..], [(_, Fault::Exchange(fate))] if is_mild(fate));
        mild && self.cancel.is_none()
    }

    /// Whether a driver is suspended while others continue.
    #[must_use]
    pub fn freezes(&self) -> bool {
        self.faults.iter().any(|(_, fault)| fault.freezes())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.case)?;
        for (at, fault) in &self.faults {
            match fault {
                Fault::Exchange(fate) => write!(f, ",d{at}={fate:?}")?,
                Fault::Call(fate) => write!(f, ",c{at}={fate:?}")?,
            }
        }
        if let Some(seed) = self.two {
            write!(f, ",two={seed}")?;
        }
        if let Some(at) = self.cancel {
            write!(f, ",cancel={at}")?;
        }
        for (flag, word) in [(self.soon, "soon"), (self.idle, "idle"), (self.undo, "undo")] {
            if flag {
                write!(f, ",{word}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let mut plan = Self::new(words.next().unwrap_or_default().parse()?);
        for word in words {
            let unknown = || format!("a plan has no {word}");
            match word {
                "soon" => plan.soon = true,
                "idle" => plan.idle = true,
                "undo" => plan.undo = true,
                _ => {
                    let (what, value) = word.split_once('=').ok_or_else(unknown)?;
                    match what {
                        "two" => plan.two = Some(value.parse().map_err(|_| unknown())?),
                        "cancel" => plan.cancel = Some(value.parse().map_err(|_| unknown())?),
                        _ => {
                            let fault = fault(&what[..1], value).ok_or_else(unknown)?;
                            plan.faults.push((what[1..].parse().map_err(|_| unknown())?, fault));
                        }
                    }
                }
            }
        }
        Ok(plan)
    }
}

fn fault(of: &str, name: &str) -> Option<Fault> {
    match of {
        "d" => {
            let mut fates = ALL.iter().copied().chain([Fate::FrozenBefore, Fate::FrozenAfter]);
            fates.find(|fate| format!("{fate:?}") == name).map(Fault::Exchange)
        }
        "c" => {
            let mut fates = CALL_FATES.into_iter().chain([CallFate::FrozenBefore, CallFate::FrozenAfter]);
            fates.find(|fate| format!("{fate:?}") == name).map(Fault::Call)
        }
        _ => None,
    }
}
