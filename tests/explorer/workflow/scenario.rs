//! What a workflow of a plan does, and who comes.

use std::fmt;
use std::time::Duration;

use locker::workflow::Event;

use super::act::Act;

/// A scenario of workflows. Its name says how many drivers it has.
#[derive(Clone, Copy)]
pub struct WorkflowScenario(pub(super) &'static Spec);

/// One scenario.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) drivers: usize,
    /// The steps of the first workflow, and of the second if there is one.
    pub(super) steps: [&'static [Step]; 2],
    /// Whether the workflows fail after their last step.
    pub(super) fails: bool,
    pub(super) shape: Shape,
    /// How the code treats its two steps, which are side by side.
    pub(super) ways: Option<[Way; 2]>,
    pub(super) provider: Provider,
    pub(super) acts: &'static [Act],
    /// How long it takes until the next one comes, and until a completer does.
    pub(super) pause: Duration,
}

/// How the code runs its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    InTurn,
    /// The first failure drops the other steps.
    SideBySide,
    /// Each step in a branch of a map with a width of 2. The name of a step is its path.
    Map,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: &'static str,
    /// The version of the workflow's key that runs the step. A version with later steps continues
    /// as the next version.
    pub(super) version: u32,
    pub(super) kind: Kind,
    /// A key of its own.
    pub(super) key: Option<&'static str>,
    /// Whether it declares the time for which the provider recognises its key.
    pub(super) recognised: bool,
    pub(super) probe: bool,
    /// Whether it is compensated.
    pub(super) undo: bool,
    /// How often a driver calls for it.
    pub(super) tries: u32,
    /// Whether the provider refuses it.
    pub(super) declined: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call of the provider.
    Once,
    /// Puts a row, if a row that others put is there.
    Reserve,
    /// Puts a row.
    Put,
    /// Commits a message.
    Tell,
    /// Waits for the event with the name of the step.
    Wait,
}

/// How the code treats a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It drops the step once the provider was called.
    Dropped,
    /// It ignores what the step returns.
    Swallowed,
    /// Only the first run calls the step, and drops it.
    Unreached,
    /// The provider asks for an operator, and the code ignores that.
    Held,
    /// The provider refuses, and the code ignores that.
    Failed,
    /// The code waits instead, and ignores the wait.
    Waiting,
}

impl Way {
    pub(super) const ALL: [Self; 6] =
        [Self::Dropped, Self::Swallowed, Self::Unreached, Self::Held, Self::Failed, Self::Waiting];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Swallowed => "swallowed",
            Self::Unreached => "unreached",
            Self::Held => "held",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
        }
    }
}

/// What the provider is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Provider {
    /// How long it recognises a key.
    pub(super) recognises: Duration,
    /// Whether a compensation that finds nothing makes it refuse the key.
    pub(super) voids: bool,
}

/// The events of a workflow have ids as their values.
pub(super) const fn event(name: &'static str) -> Event<String> {
    Event::named(name)
}

/// How long a workflow waits for an event.
pub(super) const PATIENCE: Duration = Duration::from_secs(100);

/// How long a provider recognises a key, where it does.
pub(super) const WINDOW: Duration = Duration::from_secs(600);
pub(super) const FORGETS: Provider = Provider { recognises: Duration::ZERO, voids: false };
pub(super) const RECOGNISES: Provider = Provider { recognises: WINDOW, voids: false };
pub(super) const VOIDS: Provider = Provider { recognises: WINDOW, voids: true };

/// A step that calls the provider, and nothing else.
pub(super) const fn once(name: &'static str) -> Step {
    Step {
        name,
        version: 1,
        kind: Kind::Once,
        key: None,
        recognised: false,
        probe: false,
        undo: false,
        tries: 1,
        declined: false,
    }
}

impl Step {
    pub(super) const fn undone(self) -> Self {
        Self { undo: true, ..self }
    }

    pub(super) const fn recognised(self) -> Self {
        Self { recognised: true, ..self }
    }

    pub(super) const fn probed(self) -> Self {
        Self { probe: true, ..self }
    }

    pub(super) const fn keyed(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    pub(super) const fn twice(self) -> Self {
        Self { tries: 2, ..self }
    }

    pub(super) const fn declined(self) -> Self {
        Self { declined: true, ..self }
    }

    pub(super) const fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    pub(super) const fn in_version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// The name that the code gives it: the last part of its path.
    pub(super) fn local(&self) -> &'static str {
        self.name.rsplit(':').next().unwrap_or(self.name)
    }
}

impl Spec {
    /// A workflow that completes, with one driver.
    pub(super) const fn new(name: &'static str, steps: &'static [Step], provider: Provider) -> Self {
        Self {
            name,
            drivers: 1,
            steps: [steps, &[]],
            fails: false,
            shape: Shape::InTurn,
            ways: None,
            provider,
            acts: &[Act::Drive(0)],
            pause: Duration::from_secs(70),
        }
    }

    pub(super) const fn failing(self) -> Self {
        Self { fails: true, ..self }
    }

    pub(super) const fn ways(self, ways: [Way; 2]) -> Self {
        Self { ways: Some(ways), ..self }
    }

    pub(super) const fn shape(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    /// With these actors, of which the first is there from the start.
    pub(super) const fn acts(self, acts: &'static [Act]) -> Self {
        Self { acts, ..self }
    }

    /// The same with two that may drive at once.
    pub(super) const fn two(self, acts: &'static [Act]) -> Self {
        Self { acts, drivers: 2, ..self }
    }

    pub(super) const fn beside(self, steps: &'static [Step]) -> Self {
        Self { steps: [self.steps[0], steps], ..self }
    }

    /// The last version of the key of this workflow.
    pub(super) fn versions(&self, workflow: usize) -> u32 {
        self.steps[workflow].iter().map(|step| step.version).max().unwrap_or(1)
    }

    /// Whether it commits messages.
    pub(super) fn tells(&self) -> bool {
        self.steps.iter().copied().flatten().any(|step| step.kind == Kind::Tell)
    }

    pub(super) const fn pausing(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }
}

impl fmt::Display for WorkflowScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.drivers, self.0.name)
    }
}

impl fmt::Debug for WorkflowScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
