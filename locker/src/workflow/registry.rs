//! The code of workflows behind one face, for whoever drives what others started.

use std::future::Future;
use std::pin::Pin;

use super::definition::{Found, Undo, Undone, Workflow};
use super::flow::Flow;
use super::stop::Stop;
use crate::core::answer;
use crate::error::{BoxError, Error};
use crate::token::Failure;

pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A workflow's code, whatever it is given and answers.
pub(super) trait Drive: Send + Sync {
    /// Drive it forward; the answer is JSON.
    fn forward<'a>(&'a self, flow: &'a Flow, input: &'a str) -> Boxed<'a, Result<String, Stop>>;
    fn undo<'a>(&'a self, flow: &'a Flow, undo: Undo) -> Boxed<'a, Result<Undone, Failure>>;
    fn probe_undo<'a>(&'a self, undo: Undo) -> Boxed<'a, Result<Found, BoxError>>;
}

impl<W: Workflow> Drive for W {
    fn forward<'a>(&'a self, flow: &'a Flow, input: &'a str) -> Boxed<'a, Result<String, Stop>> {
        Box::pin(async move {
            let input = answer::from_json(input).map_err(Error::from)?;
            let output = self.run(flow, input).await?;
            let json = answer::to_json(&output).map_err(Error::from)?;
            answer::check_depth(&json).map_err(Error::from)?;
            Ok(json)
        })
    }

    fn undo<'a>(&'a self, flow: &'a Flow, undo: Undo) -> Boxed<'a, Result<Undone, Failure>> {
        Box::pin(Workflow::undo(self, flow, undo))
    }

    fn probe_undo<'a>(&'a self, undo: Undo) -> Boxed<'a, Result<Found, BoxError>> {
        Box::pin(async move { Workflow::probe_undo(self, &undo).await })
    }
}
