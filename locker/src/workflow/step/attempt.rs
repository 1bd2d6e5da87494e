//! The argument of a step's closure.

/// One attempt of a step, as its closure sees it.
#[derive(Debug, Clone)]
pub struct StepAttempt {
    pub(crate) step: String,
    pub(crate) idempotency_key: String,
    pub(crate) number: u32,
    pub(crate) key_version: u32,
}

impl StepAttempt {
    /// The name of the step.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.step
    }

    /// The idempotency key for the provider. It is the same for every attempt of this step by any
    /// driver. The next version of the step's key has a different idempotency key. It has at most
    /// 255 bytes, and usually a space. If your provider accepts fewer bytes, send a digest of the
    /// whole key.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// The version of the step's key, from 1: it is raised when a step runs again after a failure.
    #[must_use]
    pub const fn key_version(&self) -> u32 {
        self.key_version
    }

    /// The number of the attempt within this run, from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }
}
