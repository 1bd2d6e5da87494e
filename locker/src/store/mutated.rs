//! Requests and replies as a broken rule would have them; see [`crate::mutants`].

use std::time::Duration;

use tokio::time::Instant;

use super::exchange::Failure;
use super::expression::{Change, Request};
use super::item::{number, text};
use super::read::Freshness;
use super::{SHORTEST_TRY, Store, Until};
use crate::core::retry::{Heard, Tries};
use crate::core::token::write::Write;
use crate::error::Error;
use crate::mutants::{Mutant, is_on};
use crate::store::schema::attribute as a;

/// Far in the future.
const SOME_TTL: i64 = 4_000_000_000;
/// How much longer a separate answer is kept than its token, in seconds.
const ANSWER_MARGIN: i64 = 24 * 60 * 60;
const OF_THE_ATTEMPT: &str = "#attempt = :attempt AND ";

pub(super) fn request(mut request: Request) -> Request {
    let condition = request.condition.clone().unwrap_or_default();
    let begins = condition.contains(":released");
    let takes_over = condition.contains(":dueBefore");
    let ends = condition.contains(OF_THE_ATTEMPT);
    let stores_answer = condition.is_empty();
    match &mut request.change {
        Change::Delete { .. } if ends && is_on(Mutant::UnconditionalRelease) => request.condition = None,
        Change::Put(_) if begins && is_on(Mutant::UnconditionalBegin) => request.condition = None,
        Change::Put(_) if takes_over && is_on(Mutant::TakeOverUnseen) => {
            request.condition = Some("attribute_exists(#lockToken)".to_owned());
            request.names.insert("#lockToken".to_owned(), a::LOCK_TOKEN.to_owned());
        }
        Change::Put(_) if begins && is_on(Mutant::NoOutcomeIsFree) => {
            request.condition = Some(condition.replace("attribute_exists(#actualCompletion) AND ", ""));
        }
        Change::Put(item) if stores_answer && is_on(Mutant::AnswerWithoutMargin) => {
            let ttl = item.get(a::TTL).and_then(|ttl| ttl.as_n().ok()?.parse::<i64>().ok());
            item.extend(ttl.map(|ttl| (a::TTL.to_owned(), number(ttl - ANSWER_MARGIN))));
        }
        Change::Put(item) if stores_answer && is_on(Mutant::AnswerForever) => {
            item.remove(a::TTL);
        }
        Change::Update { .. } if is_on(Mutant::ExtendComesNearer) => {
            request.condition = Some(condition.replace(" AND #expectedCompletion < :due", ""));
        }
        Change::Put(item) if begins && is_on(Mutant::TtlFromTheBegin) => {
            item.insert(a::TTL.to_owned(), number(SOME_TTL));
        }
        Change::Put(item) if begins && is_on(Mutant::UnknownShard) => {
            item.insert(a::STATUS.to_owned(), text("inProgress_77"));
        }
        Change::Update { expression, .. }
            if expression.contains("#status = :status") && is_on(Mutant::TtlOnFailed) =>
        {
            let forgotten = expression.replace(", #ttl", "").replace(" REMOVE #ttl", "");
            *expression = forgotten.replace("SET ", "SET #ttl = :ttl, ");
            request.values.insert(":ttl".to_owned(), number(SOME_TTL));
        }
        Change::Update { expression, .. }
            if expression.contains("#promisedCompletion") && is_on(Mutant::DoubtComesDue) =>
        {
            *expression = expression.replace("#promisedCompletion = :promised, ", "");
        }
        Change::Put(_) if begins && is_on(Mutant::ForgetsKeyVersion) => {
            request.condition =
                Some(condition.replace(
                    " AND attribute_not_exists(#keyVersion) AND attribute_not_exists(#keySince)",
                    "",
                ));
        }
        _ if ends && is_on(Mutant::NoAttemptCheck) => {
            request.condition = Some(condition.replace(OF_THE_ATTEMPT, ""));
        }
        _ => {}
    }
    drop_unused(request)
}

/// DynamoDB refuses names and values that no expression uses.
fn drop_unused(mut request: Request) -> Request {
    let update = match &request.change {
        Change::Update { expression, .. } => expression.as_str(),
        _ => "",
    };
    let text = format!("{update} {} ", request.condition.as_deref().unwrap_or_default());
    let is_used = |name: &str| {
        text.match_indices(name)
            .any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    request.names.retain(|name, _| is_used(name));
    request.values.retain(|name, _| is_used(name));
    request
}

pub(super) fn failure(mut failure: Failure) -> Failure {
    if failure.heard == Heard::Silence && is_on(Mutant::SilenceIsNo) {
        failure.heard = Heard::Busy;
    }
    if failure.code.as_deref() == Some("ServiceUnavailable") && is_on(Mutant::UnavailableIsNo) {
        failure.heard = Heard::Busy;
    }
    let conflict = failure.code.as_deref() == Some("TransactionConflictException");
    if conflict && is_on(Mutant::ConflictIsRefusal) {
        failure.heard = Heard::Refused;
    }
    failure
}

pub(super) fn least(least: Duration) -> Duration {
    if is_on(Mutant::NoLastChance) { least.min(SHORTEST_TRY) } else { least }
}

impl Store {
    pub(super) async fn mutated_after(
        &self,
        after: Result<(), Error>,
        write: &Write,
        tries: &mut Tries,
    ) -> Result<(), Error> {
        if is_on(Mutant::ForgetsSilence) {
            tries.silent = false;
        }
        match (after, write) {
            (Err(Error::Unknown { verb, tries, source }), Write::Begin { token })
                if is_on(Mutant::ReadBackIsProof) =>
            {
                let until = Until::new(Instant::now() + Duration::from_secs(1));
                match self.read(token.key.as_str(), Freshness::Strong, until).await {
                    Ok(None) => Err(Error::Unavailable { verb, tries, source }),
                    _ => Err(Error::Unknown { verb, tries, source }),
                }
            }
            (after, _) => after,
        }
    }
}
