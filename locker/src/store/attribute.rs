//! The names of the stored attributes. The first eight are seed 004's, to the letter.

pub(crate) const LOCK_TOKEN: &str = "lockToken";
pub(crate) const LOCKED_BY: &str = "lockedBy";
pub(crate) const CREATED: &str = "created";
pub(crate) const EXPECTED_COMPLETION: &str = "expectedCompletion";
pub(crate) const ACTUAL_COMPLETION: &str = "actualCompletion";
pub(crate) const RESULT: &str = "result";
pub(crate) const TTL: &str = "ttl";
pub(crate) const STATUS: &str = "status";

pub(crate) const ATTEMPT: &str = "attempt";
pub(crate) const VERSION: &str = "version";
pub(crate) const RETENTION: &str = "retention";
pub(crate) const FINGERPRINT: &str = "fingerprint";
pub(crate) const OUTCOME: &str = "outcome";
pub(crate) const RESULT_CODEC: &str = "resultCodec";
pub(crate) const RESULT_ID: &str = "resultId";
pub(crate) const RESULT_BYTES: &str = "resultBytes";
pub(crate) const TAKEN_OVER_FROM: &str = "takenOverFrom";
pub(crate) const RESOLUTION: &str = "resolution";
pub(crate) const RESOLVED_BY: &str = "resolvedBy";
pub(crate) const RESOLVED_AT: &str = "resolvedAt";
pub(crate) const RESOLVED_REASON: &str = "resolvedReason";

/// The article's library stores a failure under this name instead of `result`.
pub(crate) const ERROR: &str = "error";
/// The article's library names the key so.
pub(crate) const TOKEN: &str = "token";

/// The index of unfinished and failed tokens.
pub(crate) const BY_STATUS: &str = "byStatus";
/// What a listing shows besides the keys of table and index.
pub(crate) const PROJECTED: [&str; 2] = [CREATED, LOCKED_BY];

/// The version of the layout that this code writes, and the newest that it reads.
pub(crate) const CURRENT_VERSION: u32 = 1;

pub(crate) const SUCCESS: &str = "success";
pub(crate) const FAILURE: &str = "failure";
pub(crate) const RESOLVED: &str = "resolved";
pub(crate) const RELEASED: &str = "released";
