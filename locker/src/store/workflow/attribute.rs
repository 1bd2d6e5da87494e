//! The names of the attributes of workflows, where tokens have none for it.

pub(crate) const WORKFLOW: &str = "workflow";
pub(crate) const ITEM: &str = "item";
pub(crate) const NAME: &str = "name";
pub(crate) const STATE: &str = "state";
pub(crate) const NEXT_DUE: &str = "nextDue";
pub(crate) const REVISION: &str = "revision";
pub(crate) const ATTEMPTS: &str = "attempts";
pub(crate) const INPUT: &str = "input";
pub(crate) const INPUT_CODEC: &str = "inputCodec";
pub(crate) const INPUT_ID: &str = "inputId";
pub(crate) const ENDING: &str = "ending";
pub(crate) const REASON: &str = "reason";
pub(crate) const EXPECTED: &str = "expectedSeconds";
pub(crate) const KEY_VERSION: &str = "keyVersion";
pub(crate) const KIND: &str = "kind";
pub(crate) const STARTED_FOR: &str = "startedFor";
pub(crate) const NUMBER: &str = "number";
pub(crate) const PIVOT: &str = "pivot";
pub(crate) const UNDO: &str = "undo";
pub(crate) const UNDO_INPUT: &str = "undoInput";
pub(crate) const UNDO_RECOGNISED: &str = "undoRecognisedSeconds";
pub(crate) const POINTS_TO: &str = "pointsTo";
pub(crate) const TOPIC: &str = "topic";
pub(crate) const BODY: &str = "body";
pub(crate) const STEPS: &str = "steps";

/// What a listing shows besides the keys of table and index.
pub(crate) const PROJECTED: [&str; 6] = ["name", "state", "created", "lockedBy", "attempts", "reason"];
