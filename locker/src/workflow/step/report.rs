//! Reports of outcomes: the items are read, the decision is made, and its items are written.

use crate::core::workflow::header::{Header, HeaderEvent, HeaderRefusal, State};
use crate::core::workflow::place::Run;
use crate::core::workflow::step::{Decision, Happened, Report, Reported, Seen, StepRecord};
use crate::error::Error;
use crate::metrics;
use crate::store::{Changed, Over, Until, Written};
use crate::workflow::context::Context;

const VERB: &str = "report the outcome of the step";

/// How often the step or its workflow may change while the outcome is reported.
const ROUNDS: u32 = 20;

impl Context {
    /// Stores the outcome with the step, and makes its workflow due, in one transaction. Also
    /// returns the record of the step if its result counts.
    pub(crate) async fn report_outcome(
        &self,
        report: &Report,
        until: Until,
    ) -> Result<(Reported, Option<StepRecord>), Error> {
        let store = self.store();
        // The step and the headers are read one after the other, and a driver may write each of
        // them afterwards. The transaction depends on the revision of each item that it writes, so
        // it applies only if these still are as they were read. Otherwise everything is read and
        // decided again.
        for _ in 0..ROUNDS {
            let (mut seen, stamp) = (self.seen(report, until).await?, self.stamp());
            let decision = loop {
                let id = match report.decide(&seen, &stamp) {
                    Decision::Read(id) => id,
                    decision => break decision,
                };
                let record = Box::pin(store.read_record(&id, until)).await?;
                seen.beside.push((id, record));
            };
            let (reported, mut steps) = match decision {
                Decision::Write { reported, steps, headers } => {
                    let over = |(seen, next): &(_, StepRecord)| Over::Step(*seen, next.clone());
                    let records: Vec<_> = steps.iter().map(over).collect();
                    let written = store.change_together(VERB, &records, &headers, None, until);
                    if !matches!(Box::pin(written).await?, Written::Done) {
                        continue;
                    }
                    (reported, steps)
                }
                Decision::Answer(reported) => (reported, Vec::new()),
                Decision::Read(_) => continue,
            };
            self.drop_unreported(report, reported, &seen, until).await;
            let record = match reported {
                Reported::Recorded => steps.pop().map(|(_, record)| record),
                // An outcome next to the step is not its result.
                Reported::Known if seen.beside.is_empty() => seen.step.filter(StepRecord::is_completed),
                Reported::Compensates | Reported::Twice => {
                    metrics::count_late_outcome();
                    None
                }
                _ => None,
            };
            return Ok((reported, record));
        }
        Err(Error::Contended { verb: VERB, tries: ROUNDS })
    }

    /// Deletes a large result that the report did not write. An earlier round of the report may
    /// have written it without a reply.
    async fn drop_unreported(&self, report: &Report, reported: Reported, seen: &Seen, until: Until) {
        let Happened::Yes(result) = &report.outcome.happened else { return };
        let beside = seen.beside.iter().filter_map(|(_, record)| record.as_ref());
        let mut records = seen.step.iter().chain(beside);
        let is_written = matches!(reported, Reported::Recorded | Reported::Compensates | Reported::Twice);
        if !is_written && !records.any(|record| record.refers_to(result)) {
            self.drop_result(&report.step.workflow, result, until).await;
        }
    }

    async fn seen(&self, report: &Report, until: Until) -> Result<Seen, Error> {
        let step = Box::pin(self.store().read_record(&report.step, until)).await?;
        let reporter = self.header_of(&report.run, until).await?;
        let answerer = match step.as_ref().and_then(|step| step.started_for.as_deref()) {
            Some(run) if run != report.run => self.header_of(run, until).await?,
            _ => reporter.clone(),
        };
        Ok(Seen { step, reporter, answerer, beside: Vec::new() })
    }

    /// Makes a workflow due that is quarantined for the step of this item, which has an outcome
    /// now. Returns the header as it is then.
    pub(crate) async fn settled(&self, header: Header, item: &str, until: Until) -> Result<Header, Error> {
        if !header.awaits(item) {
            return Ok(header);
        }
        let event = HeaderEvent::Settled { item: item.to_owned() };
        let rule = |stored: Option<&Header>| match stored {
            // The key may be used again since. The step of the new workflow has no outcome yet.
            Some(stored) if stored.run_id() == header.run_id() => stored.on(&event, self.stamp()),
            _ => Err(HeaderRefusal::Lost),
        };
        Ok(match Box::pin(self.store().change(VERB, Some(header.clone()), until, rule)).await? {
            Changed::Done(next) => next,
            Changed::Refused { stored, .. } => stored.unwrap_or(header),
            Changed::Gone => header,
        })
    }

    /// The header of this workflow, as started. A later workflow under the key must not record the
    /// outcome, and one that is being deleted would lose it.
    async fn header_of(&self, run: &str, until: Until) -> Result<Option<Header>, Error> {
        let Run { workflow, .. } = Run::parse(run)?;
        let header = Box::pin(self.store().read_header(workflow, until)).await?;
        Ok(header.filter(|header| header.run_id() == run && header.state != State::Reaping))
    }
}
