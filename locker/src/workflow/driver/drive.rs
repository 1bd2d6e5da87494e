//! Driving a workflow: its code runs forward, or its steps are compensated.

use super::code::Drive;
use super::end::{Came, Next};
use crate::core::answer::{self, Body};
use crate::core::class::Class;
use crate::core::token::work::Work;
use crate::core::workflow::header::{Header, MostCrashes};
use crate::core::workflow::place::Place;
use crate::error::Error;
use crate::session::{self, Request};
use crate::workflow::definition::Exhausted;
use crate::workflow::flow::{Flow, outermost};
use crate::workflow::outcome::ended::Ended;
use crate::workflow::stop::{StepFailure, StopKind};

/// Drives a workflow forward, or compensates it, from its present state. Work that its code begins
/// refers to this workflow.
pub(crate) async fn drive(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    let work = Work::Workflow(flow.workflow().to_owned());
    let header = flow.header();
    let request = Request { work: Some(work), requested: Some(header.requested()), opened: header.opened };
    session::inside(request, Box::pin(drive_on(code, flow))).await
}

async fn drive_on(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    let mut flow = flow.clone();
    // From the first return of the code on, the run records outcomes. The guard also covers the
    // time between two writes of a compensation.
    let mut recording = None;
    loop {
        let header = flow.header();
        let came = if let Some(why) = crashed(code, &flow, &header) {
            Came::Exhausted(StepFailure::of(None, Class::Permanent, &why))
        } else if header.is_forward() {
            forward(code, &flow, &header).await.map_or_else(Came::of, Came::Completed)
        } else {
            flow.compensate(code).await.unwrap_or_else(Came::Uncompensated)
        };
        recording.get_or_insert_with(|| flow.run_time().records());
        match flow.end(code, came).await? {
            Next::Ended(ended) => return Ok(ended),
            Next::Compensate(compensating) => flow = compensating,
        }
    }
}

/// Why the code of a type that compensates when it is exhausted does not run again: its runs killed
/// or hung their drivers. The run under way counts among them.
fn crashed(code: &dyn Drive, flow: &Flow, header: &Header) -> Option<String> {
    let MostCrashes { in_a_row, in_all } = flow.limits().most_crashes();
    let most = MostCrashes { in_a_row: in_a_row.saturating_add(1), in_all };
    let fails = header.is_forward() && code.exhausted() == Exhausted::Compensate;
    if fails { header.crashed_too_often(most) } else { None }
}

async fn forward(code: &dyn Drive, flow: &Flow, header: &Header) -> Result<String, StopKind> {
    // Compensates late outcomes first, before the code builds on them.
    flow.compensate_late(code).await?;
    let encoded = match &header.input {
        None => return Err(StopKind::input("it has none")),
        // An ended workflow does not run forward again.
        Some(Body::Redacted) => return Err(StopKind::input("an operator erased it")),
        Some(Body::Inline(encoded)) => encoded.clone(),
        Some(Body::Beside { codec, id, .. }) => {
            let item = Place::Input(id).to_string();
            let store = flow.context().store();
            let read = store.read_beside(flow.workflow(), &item, *codec, flow.until());
            Box::pin(read).await.map_err(|error| match error {
                Error::Answer(_) => StopKind::input("its item is missing or damaged"),
                error => error.into(),
            })?
        }
    };
    let input = answer::decode(encoded).map_err(|_| StopKind::input("its bytes are damaged"))?;
    outermost(code.forward(flow, &input)).await
}
