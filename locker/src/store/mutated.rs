//! Requests and replies as a broken rule would have them; see [`crate::mutants`].

use std::time::Duration;

use tokio::time::Instant;

use super::attribute as a;
use super::exchange::Failure;
use super::expression::{Change, Request};
use super::item::{number, text};
use super::read::Freshness;
use super::{Store, Until};
use crate::core::retry::{Heard, Tries};
use crate::core::write::Write;
use crate::error::Error;
use crate::mutants::{Mutant, is_on};

/// Far in the future.
const SOME_TTL: i64 = 4_000_000_000;
const OF_THE_ATTEMPT: &str = "#attempt = :attempt AND ";

pub(super) fn request(mut request: Request) -> Request {
    let condition = request.condition.clone().unwrap_or_default();
    let begins = condition.contains(":released");
    let takes_over = condition.contains(":dueBefore");
    let ends = condition.contains(OF_THE_ATTEMPT);
    match &mut request.change {
        Change::Delete { .. } if ends && is_on(Mutant::UnconditionalRelease) => request.condition = None,
        Change::Put(_) if begins && is_on(Mutant::UnconditionalBegin) => request.condition = None,
        Change::Put(_) if takes_over && is_on(Mutant::TakeOverUnseen) => {
            request.condition = Some("attribute_exists(#lockToken)".to_owned());
            request.names.insert("#lockToken".to_owned(), a::LOCK_TOKEN.to_owned());
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
    let conflict = failure.code.as_deref() == Some("TransactionConflictException");
    if conflict && is_on(Mutant::ConflictIsRefusal) {
        failure.heard = Heard::Refused;
    }
    failure
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
