//! What the work of a step is told.

/// One try of a step.
#[derive(Debug, Clone)]
pub struct StepAttempt {
    pub(crate) step: String,
    pub(crate) idempotency_key: String,
    pub(crate) number: u32,
}

impl StepAttempt {
    /// The name of the step.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.step
    }

    /// The key to hand to a provider that recognises one: the same for every try of this step, whoever makes it,
    /// and another one for the next version of the step's key. At most 255 bytes.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// Which try of this drive it is, from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }
}
