//! Who comes in a plan, and what for.

/// What an actor does. The number says which workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// A caller starts the workflow, or goes on with it.
    Drive(usize),
    /// A completer runs.
    Complete,
    /// An operator cancels the workflow, and a completer runs.
    Cancel(usize),
    /// An operator who looked at the provider's books completes the step in doubt or has it tried
    /// again, and a completer runs.
    Resolve,
    /// An operator has the step in doubt tried again, whatever the books say, and a completer runs.
    Retry,
    /// An operator skips the step in doubt, and a completer runs.
    Skip,
    /// A relay runs.
    Relay,
    /// An operator has what is dead sent again, and a relay runs.
    Redrive,
    /// A receiver takes what it has not acknowledged.
    Hear,
    /// The row that a reservation needs is put.
    Restock,
    /// A sender gives an event to the first workflow: its name and its id.
    Signal(&'static str, &'static str),
    /// An operator gives an event to the first workflow as it is shown: its name and its id.
    Give(&'static str, &'static str),
}
