//! Contract funding: an account at a bank, and entries in its ledger for each funding of a
//! contract. The holder is told what is released, and what is taken back.

use std::time::Duration;

use locker::Failure;
use locker::message::NewMessage;
use locker::workflow::{Compensated, Compensation, Flow, Stop, Workflow};
use serde::{Deserialize, Serialize};

use super::books::Verb;
use super::shop::{Shop, putting, text, updating};

/// How long the bank recognises an idempotency key.
const RECOGNISED: Duration = Duration::from_secs(24 * 60 * 60);

/// Opens the account of a contract, and pays its fundings into it.
#[derive(Debug)]
pub struct FundContract(pub Shop);

/// The contract to fund.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Contract {
    pub id: String,
    pub holder: String,
    /// The version of the account's key; the caller raises it after correcting what the bank
    /// refused.
    pub version: u32,
    pub fundings: Vec<Funding>,
}

/// One payment into the account.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain words")]
pub struct Funding {
    pub id: String,
    pub amount: i64,
}

/// The topics of the messages about a funding.
pub(super) const RELEASED: &str = "funding/released";
pub(super) const TAKEN_BACK: &str = "funding/taken-back";

/// A funding is released once, and taken back once at most. The second message is outside the
/// workflow's order, so the number says which one is newer.
fn told(topic: &str, id: &str, number: u64) -> NewMessage {
    NewMessage::new(topic, &id).subject(id).number(number)
}

#[derive(Serialize, Deserialize)]
enum Undo {
    Archive(String),
}

impl Workflow for FundContract {
    const NAME: &'static str = "fund-contract";
    type Input = Contract;
    type Output = String;

    async fn run(&self, flow: &Flow, contract: Contract) -> Result<String, Stop> {
        let Self(Shop { rows, provider, patience, .. }) = self;
        // A key of its own: every workflow for this contract gets this account. After a refusal,
        // the next version of the key asks again; an account that was opened is never opened again.
        let account = flow
            .once("account")
            .key(("contract-account", &contract.id))
            .version(contract.version)
            .recognised_for(RECOGNISED)
            .expect_within(*patience)
            .run(|attempt| {
                let open = provider.ask(Verb::Open, &contract.id).account(&contract.holder, 0);
                open.key(attempt.idempotency_key()).send()
            })
            .await?;
        for Funding { id, amount } in &contract.fundings {
            let entries: String = flow
                .once(("fund", id))
                .input(amount)
                .recognised_for(RECOGNISED)
                .expect_within(*patience)
                .compensate_within(&Undo::Archive(id.clone()), RECOGNISED)
                .run(|attempt| {
                    let fund = provider.ask(Verb::Fund, id).account(&contract.id, *amount);
                    fund.key(attempt.idempotency_key()).send()
                })
                .await?;
            let release = rows.change(
                id,
                &[("released", text("yes")), ("entries", text(&entries))],
                &[("released", text("no"))],
            );
            flow.atomic(("release", id)).update(release).send(told(RELEASED, id, 1)).commit(&()).await?;
            // Posting twice is harmless, so this need not be a once-only step.
            flow.step(("post", id)).run(|_| provider.ask(Verb::Post, &entries).send()).await?;
        }
        Ok(account)
    }

    /// Archive pending entries, including those that have not arrived yet. Posted ones stay, and so
    /// does the release.
    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Self(Shop { rows, provider, outbox, .. }) = self;
        let Undo::Archive(id) = compensation.undo()?;
        let archive = provider.ask(Verb::Archive, &id).key(compensation.idempotency_key());
        if archive.send().await? == "posted" {
            return Ok(Compensated::Nothing);
        }
        let back = rows.change(&id, &[("released", text("no"))], &[("released", text("yes"))]);
        let message = outbox.message(told(TAKEN_BACK, &id, 2));
        let message = message.map_err(|error| Failure::permanent(error.to_string()))?;
        // Refused: it was not released, or it was taken back, and the message was committed with
        // that.
        if rows.write(vec![updating(back), putting(message.put())]).await? {
            outbox.send([message]).await;
        }
        Ok(Compensated::Done)
    }
}
