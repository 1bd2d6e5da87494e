//! The names of steps that a run uses, and the places of those steps.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::{Flow, locked};
use crate::core::name;
use crate::core::workflow::place::{Effect, Place, Undo};
use crate::workflow::stop::Stop;

/// The compensation that a flow is for: [`Undo`], owned.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    step: String,
    version: u32,
    late: bool,
}

impl Scope {
    fn undo(&self) -> Undo<'_> {
        Undo { effect: Effect { step: &self.step, version: self.version }, late: self.late }
    }
}

/// A name that a step of this run has, under one version of its key.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Used {
    scope: Option<Arc<Scope>>,
    name: String,
    version: u32,
}

/// The names that this run has used so far.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashSet<Used>>);

impl Flow {
    /// Returns this flow for the compensation of a step.
    pub(crate) fn within(&self, of: Undo<'_>) -> Self {
        let Undo { effect: Effect { step, version }, late } = of;
        let scope = Scope { step: step.to_owned(), version, late };
        Self { inner: Arc::clone(&self.inner), scope: Some(Arc::new(scope)) }
    }

    /// The place of a step that this code names.
    pub(crate) fn place_of<'a>(&'a self, name: &'a str) -> Place<'a> {
        match &self.scope {
            None => Place::Step(name),
            Some(scope) => Place::Nested { step: name, within: scope.undo(), former: None },
        }
    }

    /// Claim a name for one step of this run. The same name may be used again with another version
    /// of its key.
    pub(crate) fn take_name(&self, name: &str, version: Option<u32>) -> Result<(), Stop> {
        self.check_open(name)?;
        name::check(name).map_err(|error| Stop::name(name, &error))?;
        let version = version.unwrap_or(1);
        let used = Used { scope: self.scope.clone(), name: name.to_owned(), version };
        if locked(&self.inner.names.0).insert(used) {
            return Ok(());
        }
        Err(Stop::invalid(
            name,
            "another step of this workflow has the same name; make it unique, such as fund#7",
        ))
    }

    /// Returns whether this run has reached a step of the workflow itself with this name.
    pub(crate) fn has_reached(&self, name: &str) -> bool {
        locked(&self.inner.names.0).iter().any(|used| used.scope.is_none() && used.name == name)
    }

    /// A compensation is retried, so its steps may use their names again.
    pub(crate) fn forget_names(&self) {
        locked(&self.inner.names.0).retain(|used| used.scope != self.scope);
    }
}
