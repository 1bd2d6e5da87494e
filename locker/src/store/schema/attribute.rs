//! The names of the stored attributes. The first eight are those of Adrian
//! Hesketh's article "Idempotency in Lambda - 2".

#![cfg_attr(not(feature = "messages"), allow(dead_code, reason = "tokens and workflows use a part"))]

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
pub(crate) const RESULT_DIGEST: &str = "resultDigest";
pub(crate) const TAKEN_OVER_FROM: &str = "takenOverFrom";
pub(crate) const RESOLUTION: &str = "resolution";
pub(crate) const RESOLVED_BY: &str = "resolvedBy";
pub(crate) const RESOLVED_AT: &str = "resolvedAt";
pub(crate) const RESOLVED_REASON: &str = "resolvedReason";

/// The class and the short text of a failure, where the token waits for an operator or is in doubt.
pub(crate) const CLASS: &str = "class";
pub(crate) const CAUSE: &str = "cause";
/// The due time that begin or extend gave, kept when the token is left in doubt: takeover counts
/// from it.
pub(crate) const PROMISED_COMPLETION: &str = "promisedCompletion";
/// The form of the answer that readers expect.
pub(crate) const FORM: &str = "form";
/// The check value of a keyed fingerprint: it shows whether the secret with this name is still the
/// secret that signed it.
pub(crate) const FINGERPRINT_CHECK: &str = "fingerprintCheck";
/// When the provider's key was first given out, if an earlier attempt did.
pub(crate) const KEY_SINCE: &str = "keySince";

/// The token or the workflow whose work began this one: `token KEY` or `workflow KEY`.
pub(crate) const WITHIN: &str = "within";

/// The article's library stores a failure under this name instead of `result`.
pub(crate) const ERROR: &str = "error";
/// The article's library names the key so.
pub(crate) const TOKEN: &str = "token";

/// The index of unfinished and failed tokens.
pub(crate) const BY_STATUS: &str = "byStatus";
/// The attributes that a listing of tokens returns in addition to the keys of table and index.
pub(crate) const TOKEN_PROJECTED: [&str; 9] =
    [CREATED, LOCKED_BY, ATTEMPT, CLASS, CAUSE, RESOLUTION, RESOLVED_BY, RESOLVED_REASON, WITHIN];

/// The version of the layout that this code writes, and the newest that it reads.
pub(crate) const CURRENT_VERSION: u32 = 1;
/// The same for the items of workflows.
///
/// Version 1 had other names for compensations. Version 2 had one state for steps that failed and
/// steps that are held, and no run in their records. Code of this version would lose that state.
/// Version 3 had one count of lost drivers, the causes of failed runs in the header, no version of
/// the code and no last step that an operator saw: its code would erase them. Version 4 had no
/// source, no attributes and no expiry in its messages. Version 5 had no events: its code would end
/// a workflow with unread events.
///
/// **Increment it with each new attribute that has to last:** a write puts the whole item, so older
/// code erases an attribute that it does not know.
pub(crate) const WORKFLOW_VERSION: u32 = 6;

pub(crate) const SUCCESS: &str = "success";
pub(crate) const FAILURE: &str = "failure";
pub(crate) const RELEASED: &str = "released";
/// In a run that did not see everything.
pub(crate) const UNFINISHED: &str = "unfinished";

// The table of workflows, where tokens have no name for it.

pub(crate) const WORKFLOW: &str = "workflow";
pub(crate) const ITEM: &str = "item";
pub(crate) const NAME: &str = "name";
pub(crate) const STATE: &str = "state";
pub(crate) const CODE: &str = "code";
pub(crate) const NEXT_DUE: &str = "nextDue";
pub(crate) const REVISION: &str = "revision";
pub(crate) const ATTEMPTS: &str = "attempts";
pub(crate) const LOST_IN_A_ROW: &str = "lostInARow";
pub(crate) const LOST_WITHOUT_PROGRESS: &str = "lostIdle";
pub(crate) const LOST_IN_ALL: &str = "lost";
pub(crate) const SINCE: &str = "since";
pub(crate) const CLOSED: &str = "closed";
pub(crate) const CLOSED_AFTER: &str = "closedAfter";
pub(crate) const INPUT: &str = "input";
pub(crate) const INPUT_CODEC: &str = "inputCodec";
pub(crate) const INPUT_ID: &str = "inputId";
pub(crate) const ENDING: &str = "ending";
pub(crate) const REASON: &str = "reason";
/// In a header: the latest cause of failed runs, which the record of the next failed run needs.
pub(crate) const LATEST_CAUSE: &str = "latestCause";
pub(crate) const WAITS_FOR: &str = "waitsFor";
pub(crate) const REPORTED: &str = "reported";
/// In a header: the number of events that are stored, one for each name.
pub(crate) const SIGNALS: &str = "signals";
/// In a header: the number of other events under a name that has its event.
pub(crate) const SURPLUS: &str = "surplus";
/// In a header: the version of the key under which the workflow continues, and the first version.
pub(crate) const CONTINUED_AS: &str = "continuedAs";
pub(crate) const CONTINUES: &str = "continues";
/// In an event: the end of its wait, and whether a compensation waits for it.
pub(crate) const UNTIL: &str = "until";
pub(crate) const OF_COMPENSATION: &str = "ofCompensation";
/// In an event: a former version of the key declared its wait.
/// In a header: a wait of a former version declared a compensation.
pub(crate) const FORMER: &str = "former";
/// In an event: the id that its sender gave, and the call that stored it.
pub(crate) const EVENT_ID: &str = "eventId";
pub(crate) const SIGNALLED_BY: &str = "signalledBy";
/// In a header: its outcome stands while a late event is compensated.
pub(crate) const STANDS: &str = "stands";
/// In a header: the last act of an operator on the whole workflow, which lets it run after a
/// restore of the table. Without it, the workflow is quarantined once more.
pub(crate) const OPENED: &str = "openedAt";
pub(crate) const EXPECTED: &str = "expectedSeconds";
pub(crate) const KEY_VERSION: &str = "keyVersion";
pub(crate) const KIND: &str = "kind";
pub(crate) const STARTED_FOR: &str = "startedFor";
pub(crate) const RUN: &str = "run";
pub(crate) const NUMBER: &str = "number";
pub(crate) const PIVOT: &str = "pivot";
pub(crate) const COMPENSATION: &str = "compensation";
pub(crate) const COMPENSATION_INPUT: &str = "compensationInput";
pub(crate) const COMPENSATION_RECOGNISED: &str = "compensationRecognisedSeconds";
pub(crate) const SETTLED: &str = "settledVersions";
pub(crate) const POINTS_TO: &str = "pointsTo";
pub(crate) const MESSAGE_ID: &str = "messageId";
pub(crate) const SOURCE: &str = "source";
pub(crate) const SUBJECT: &str = "subject";
pub(crate) const SEQUENCE: &str = "sequence";
pub(crate) const ATTRIBUTES: &str = "attributes";
pub(crate) const EXPIRES: &str = "expires";
pub(crate) const TRACE: &str = "traceparent";
pub(crate) const REDRIVES: &str = "redrives";
pub(crate) const FIRST_TRY: &str = "firstTry";
pub(crate) const HELD_UNTIL: &str = "heldUntil";
pub(crate) const BODY: &str = "body";
pub(crate) const BODY_AT: &str = "bodyAt";
/// In a receipt: the sort key of its message, whose body is still in its queue.
pub(crate) const LETTER: &str = "letter";
pub(crate) const DELIVERY: &str = "delivery";
pub(crate) const STEPS: &str = "steps";
/// In an audit record: the step or the event, and its state as the operator saw it. In a header:
/// the event or the timer that its code waits for.
pub(crate) const STEP: &str = "step";
pub(crate) const STEP_STATE: &str = "stepState";

/// The attributes that a listing of workflows returns in addition to the keys of table and index.
pub(crate) const WORKFLOW_PROJECTED: [&str; 19] = [
    NAME,
    SUBJECT,
    EXPIRES,
    CODE,
    STATE,
    CREATED,
    LOCKED_BY,
    ATTEMPTS,
    LOST_IN_A_ROW,
    SINCE,
    REASON,
    REVISION,
    CLASS,
    CAUSE,
    RESOLUTION,
    RESOLVED_BY,
    RESOLVED_REASON,
    STEP,
    WITHIN,
];
pub(crate) const DELETED: &str = "deleted";
