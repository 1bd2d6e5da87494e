//! Telling the outcome of a step that does not come from the attempt that is recorded: it is late,
//! or comes from outside.

use chrono::{DateTime, Utc};

use crate::core::workflow::header::{Header, HeaderEvent, HeaderRefusal, State};
use crate::core::workflow::place::{Former, Place, Run};
use crate::core::workflow::step::{Intent, NewStep, Outcome, RecordId, StepRecord, Told};
use crate::error::Error;
use crate::metrics;
use crate::store::{Changed, Until, Written};
use crate::workflow::context::Context;

const VERB: &str = "tell the outcome of the step";

/// How often a step or its workflow may change meanwhile.
const ROUNDS: u32 = 20;

/// An outcome, and where it belongs.
#[derive(Debug, Clone)]
pub(crate) struct Telling {
    pub(crate) step: RecordId,
    /// The workflow that tells it.
    pub(crate) run: String,
    /// The record that it gets there if the step has left its version behind.
    pub(crate) former: NewStep,
    pub(crate) outcome: Outcome,
}

impl Telling {
    /// The place of a record next to that of the step. `digest`: of a second result under one
    /// version.
    fn beside(&self, digest: Option<&str>) -> RecordId {
        self.former.id.beside(Former { version: self.outcome.version, digest })
    }
}

/// What was made of it.
#[derive(Debug)]
pub(crate) enum ToldAs {
    /// It is the step's result, or its failure.
    Result(StepRecord),
    /// Its workflow is due, and compensates it.
    Late,
    /// It may have happened twice: its workflow is in quarantine, and shows both.
    Twice,
    /// It was known; the result that counts, if the step completed.
    Known(Option<StepRecord>),
    /// It says that the step did not happen, and the record says that it did; nothing is written.
    Contradicts,
    /// Its driver may be at work until then; nothing is written.
    Busy(DateTime<Utc>),
    /// There is no such step, or its workflow is gone.
    Unknown,
}

impl Context {
    /// Store the outcome with the step, and make its workflow due, in one transaction.
    pub(crate) async fn tell(&self, telling: &Telling, until: Until) -> Result<ToldAs, Error> {
        let store = self.store();
        // Whether the record beside the step has another result already.
        let mut another = false;
        // The step and the header are read one after the other, and a driver may write either of
        // them afterwards. The transaction depends on the revision of each, so it applies only if
        // what was decided on still stands. Otherwise all of it is read and decided again.
        for _ in 0..ROUNDS {
            let stored = Box::pin(store.read_record(&telling.step, until)).await?;
            // The workflow that has to compensate it, which may have taken it over from the one
            // that tells.
            let answerer = stored.as_ref().and_then(|stored| stored.started_for.as_deref());
            let Some(header) = self.header_of(answerer.unwrap_or(&telling.run), until).await? else {
                let told = StepRecord::tell(stored.as_ref(), &telling.outcome, false, self.stamp());
                return Ok(if matches!(told, Told::Known) {
                    ToldAs::Known(completed(stored))
                } else {
                    ToldAs::Unknown
                });
            };
            // The outcome of a compensation always stands.
            let of_compensation =
                matches!(telling.former.id.place()?, Place::Compensation { .. } | Place::Nested { .. });
            let forward = header.is_forward() || of_compensation;
            let told = match another {
                true => Told::Twice,
                false => StepRecord::tell(stored.as_ref(), &telling.outcome, forward, self.stamp()),
            };
            // Told of a step with a key of its own by any workflow, it is dealt with once.
            let shared = stored.clone().filter(|stored| stored.started_for.is_some());
            let settling = |stored: &StepRecord| stored.settling(telling.outcome.version, self.stamp());
            let mut beside = None;
            let (seen, step, header, event, told) = match told {
                Told::Settled(step) => {
                    let event = HeaderEvent::Settled { item: step.id.reference() };
                    (stored, step.clone(), header, event, ToldAs::Result(step))
                }
                Told::Late(step) => (stored, step, header, HeaderEvent::Late, ToldAs::Late),
                Told::Former | Told::Twice => {
                    let (record, event, told) = if matches!(told, Told::Twice) {
                        // The same result told again is the same record. An operator decides
                        // whether it is another effect, and repairs it.
                        let second = self.apart(telling, Some(&telling.outcome.digest()), None);
                        (second, HeaderEvent::Twice, ToldAs::Twice)
                    } else {
                        beside = shared.as_ref().map(|stored| (Some(stored), settling(stored)));
                        let compensation = telling.outcome.compensation.clone();
                        (self.apart(telling, None, compensation), HeaderEvent::Late, ToldAs::Late)
                    };
                    let Some(header) = self.header_of(&telling.run, until).await? else {
                        return Ok(ToldAs::Unknown);
                    };
                    (None, record, header, event, told)
                }
                Told::Known => {
                    // Its record beside the step may have another result.
                    let settled = |stored: &StepRecord| stored.settled.contains(telling.outcome.version);
                    if stored.as_ref().is_some_and(settled)
                        && let Some(known) = Box::pin(store.read_record(&telling.beside(None), until)).await?
                        && let Told::Twice =
                            StepRecord::tell(Some(&known), &telling.outcome, false, self.stamp())
                    {
                        another = true;
                        continue;
                    }
                    Box::pin(self.take_on(&telling.run, &telling.step.reference(), until)).await?;
                    return Ok(ToldAs::Known(completed(stored)));
                }
                Told::Contradicts => return Ok(ToldAs::Contradicts),
                Told::Busy(until) => return Ok(ToldAs::Busy(until)),
                Told::Unknown => return Ok(ToldAs::Unknown),
            };
            let done = match header.on(&event, self.stamp()) {
                Ok(due) => {
                    let steps: Vec<_> =
                        std::iter::once((seen.as_ref(), step.clone())).chain(beside).collect();
                    let header = (Some(&header), &due);
                    let together = Box::pin(store.change_together(VERB, &steps, header, None, until)).await?;
                    matches!(together, Written::Done)
                }
                // The workflow has ended and needs nothing more: an operator closed it while a
                // compensation was on its way, or it went on without this step.
                Err(_) if header.state.is_final() && matches!(told, ToldAs::Result(_)) => {
                    let rule = |_: Option<&StepRecord>| Ok::<_, ()>(step.clone());
                    let changed = Box::pin(store.change(VERB, seen.clone(), until, rule)).await?;
                    matches!(changed, Changed::Done(_))
                }
                Err(_) => false,
            };
            if done {
                match &told {
                    ToldAs::Result(step) if header.run_id() != telling.run => {
                        let taken = Box::pin(self.take_on(&telling.run, &step.id.reference(), until)).await;
                        taken.map_err(Error::unsure)?;
                    }
                    ToldAs::Result(_) => {}
                    _ => metrics::count_late_outcome(),
                }
                return Ok(told);
            }
            if seen.is_none()
                && let Some(known) = Box::pin(store.read_record(&step.id, until)).await?
            {
                let again = StepRecord::tell(Some(&known), &telling.outcome, false, self.stamp());
                another = matches!(again, Told::Twice);
                if !another {
                    // It was told before, or by a request whose response was lost.
                    return Ok(ToldAs::Known(None));
                }
            }
        }
        Err(Error::Contended { verb: VERB, tries: ROUNDS })
    }

    /// Make this workflow due if it is in quarantine for the step of this item, which has an
    /// outcome now. With a key of its own, the step may be one that another workflow compensates.
    async fn take_on(&self, run: &str, item: &str, until: Until) -> Result<(), Error> {
        if let Some(header) = self.header_of(run, until).await? {
            Box::pin(self.settled(header, item, until)).await?;
        }
        Ok(())
    }

    /// The same, for a header as it was read. The result is how it is now.
    pub(crate) async fn settled(&self, header: Header, item: &str, until: Until) -> Result<Header, Error> {
        if !header.is_quarantined() || header.waits_for.as_deref() != Some(item) {
            return Ok(header);
        }
        let event = HeaderEvent::Settled { item: item.to_owned() };
        let rule = |stored: Option<&Header>| match stored {
            Some(stored) if stored.run_id() == header.run_id() => stored.on(&event, self.stamp()),
            _ => Err(HeaderRefusal::Lost),
        };
        Ok(match Box::pin(self.store().change(VERB, Some(header.clone()), until, rule)).await? {
            Changed::Done(next) => next,
            Changed::Refused { stored, .. } => stored.unwrap_or(header),
            Changed::Gone => header,
        })
    }

    /// The record of an outcome beside that of its step.
    fn apart(&self, telling: &Telling, digest: Option<&str>, compensation: Option<Intent>) -> StepRecord {
        let new = NewStep { id: telling.beside(digest), compensation, ..telling.former.clone() };
        StepRecord::late(&new, &telling.outcome, self.stamp())
    }

    /// The header of this workflow, as started.
    async fn header_of(&self, run: &str, until: Until) -> Result<Option<Header>, Error> {
        let Run { workflow, .. } = Run::parse(run)?;
        let header = Box::pin(self.store().read_header(workflow, until)).await?;
        Ok(header.filter(|header| header.run_id() == run && header.state != State::Reaping))
    }
}

fn completed(stored: Option<StepRecord>) -> Option<StepRecord> {
    stored.filter(StepRecord::is_completed)
}
