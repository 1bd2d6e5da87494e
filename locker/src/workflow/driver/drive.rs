//! Driving a workflow as far as possible now: its code runs forward, or its steps are compensated.

use super::code::Drive;
use super::end::{Came, Next};
use crate::core::answer::{self, Body};
use crate::core::token::work::Work;
use crate::core::workflow::header::Header;
use crate::core::workflow::place::Place;
use crate::error::Error;
use crate::session;
use crate::workflow::flow::Flow;
use crate::workflow::outcome::ended::Ended;
use crate::workflow::stop::Stop;

/// Drive a workflow forward, or compensate it, from its present state. What its code begins names
/// it.
pub(crate) async fn drive(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    let within = Work::Workflow(flow.header().await.workflow.clone());
    Box::pin(session::inside(within, drive_on(code, flow))).await
}

async fn drive_on(code: &dyn Drive, flow: &Flow) -> Result<Ended, Error> {
    let mut flow = flow.clone();
    // From the first return of the code on, it records what it came to, also between two writes of a
    // compensation.
    let mut recording = None;
    loop {
        let header = flow.header().await;
        let came = if header.is_forward() {
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

async fn forward(code: &dyn Drive, flow: &Flow, header: &Header) -> Result<String, Stop> {
    // What happened and should not stand, before anything builds on it.
    flow.compensate_late(code).await?;
    let encoded = match &header.input {
        None => return Err(Stop::invalid("-", "the workflow has no input")),
        Some(Body::Inline(encoded)) => encoded.clone(),
        Some(Body::Beside { codec, id, .. }) => {
            let item = Place::Input(id).to_string();
            let store = flow.context().store();
            let read = store.read_beside(flow.workflow(), &item, *codec, flow.until());
            Box::pin(read).await.map_err(|error| match error {
                Error::Answer(_) => Stop::invalid("-", "the input of the workflow is missing or damaged"),
                error => error.into(),
            })?
        }
    };
    let input = answer::decode(encoded).map_err(Error::from)?;
    code.forward(flow, &input).await
}
