//! A type-erased workflow, for drivers that run workflows of several types.

use std::future::Future;
use std::pin::Pin;

use crate::core::answer;
use crate::core::argument::InvalidSetting;
use crate::error::BoxError;
use crate::failure::Failure;
use crate::workflow::definition::{Compensated, Compensation, Exhausted, ProbeOutcome, Unreached, Workflow};
use crate::workflow::flow::Flow;
use crate::workflow::limits::Limits;
use crate::workflow::stop::StopKind;

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The code of a workflow, of any input and output.
pub(crate) trait Drive: Send + Sync {
    fn name(&self) -> &'static str;
    fn version(&self) -> u32;
    fn unreached(&self) -> Unreached;
    /// The limits of its type, if they are allowed: limits that no workflow can have, such as no
    /// attempts, would quarantine each workflow before its first run.
    fn limits(&self, limits: &Limits) -> Result<Limits, InvalidSetting>;
    fn exhausted(&self) -> Exhausted;
    /// Drives the workflow forward; the answer is JSON.
    fn forward<'a>(&'a self, flow: &'a Flow, input: &'a str) -> Boxed<'a, Result<String, StopKind>>;
    fn compensate<'a>(
        &'a self,
        flow: &'a Flow,
        compensation: Compensation,
    ) -> Boxed<'a, Result<Compensated, Failure>>;
    fn probe_compensation<'a>(
        &'a self,
        compensation: Compensation,
    ) -> Boxed<'a, Result<ProbeOutcome, BoxError>>;
}

/// Characters that are shown of the error of an input, so that the advice is not cut off.
const MOST: usize = 80;

impl<W: Workflow> Drive for W {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn version(&self) -> u32 {
        W::VERSION
    }

    fn unreached(&self) -> Unreached {
        Workflow::unreached(self)
    }

    fn limits(&self, limits: &Limits) -> Result<Limits, InvalidSetting> {
        let limits = Workflow::limits(self, limits.clone());
        match limits.check() {
            Ok(()) => Ok(limits),
            Err(why) => Err(InvalidSetting::Limits { name: W::NAME, why: Box::new(why) }),
        }
    }

    fn exhausted(&self) -> Exhausted {
        Workflow::exhausted(self)
    }

    fn forward<'a>(&'a self, flow: &'a Flow, input: &'a str) -> Boxed<'a, Result<String, StopKind>> {
        Box::pin(async move {
            let read = answer::from_json_by_field::<W::Input>;
            let cut = |why: String| why.chars().take(MOST).collect::<String>();
            let input = read(input).map_err(|why| {
                let advice = "give a new field #[serde(default)], deploy, then retry the workflow";
                StopKind::input(&format!("{}; {advice}", cut(why)))
            })?;
            let output = self.run(flow, input).await.map_err(|stop| match stop.kind() {
                // Before the next version starts with it.
                StopKind::Continue(next) => match read(&next) {
                    Ok(_) => StopKind::Continue(next),
                    Err(why) => {
                        let why = cut(why);
                        StopKind::input(&format!("that of continue_as_new: {why}; give it the input type"))
                    }
                },
                kind => kind,
            })?;
            let (json, _) = answer::to_json_and_back(&output).map_err(StopKind::Answer)?;
            Ok(json)
        })
    }

    fn compensate<'a>(
        &'a self,
        flow: &'a Flow,
        compensation: Compensation,
    ) -> Boxed<'a, Result<Compensated, Failure>> {
        Box::pin(Workflow::compensate(self, flow, compensation))
    }

    fn probe_compensation<'a>(
        &'a self,
        compensation: Compensation,
    ) -> Boxed<'a, Result<ProbeOutcome, BoxError>> {
        Box::pin(async move { Workflow::probe_compensation(self, &compensation).await })
    }
}
