//! What actors were told, of steps and of whole workflows.

use std::collections::BTreeMap;

use super::super::invariant::{Invariant, Violation};

#[derive(Debug, Default, Hash)]
pub(super) struct Told {
    steps: BTreeMap<(usize, usize), String>,
    pub(super) ends: BTreeMap<usize, String>,
}

impl Told {
    /// The code of a workflow was told this of a step.
    pub(super) fn step(&mut self, place: (usize, usize), said: String) -> Option<Violation> {
        let first = self.steps.entry(place).or_insert_with(|| said.clone());
        (*first != said).then(|| Violation {
            invariant: Invariant::Stands,
            seen: format!("step {} of workflow {} was told {first}, and later {said}", place.1, place.0),
        })
    }

    /// The steps of a workflow whose code was told this.
    pub(super) fn places(&self, workflow: usize, said: &str) -> Vec<usize> {
        let told = self.steps.iter().filter(|((of, _), told)| *of == workflow && *told == said);
        told.map(|((_, step), _)| *step).collect()
    }

    /// Whether the answer of a workflow has this receipt.
    pub(super) fn is_in_the_end(&self, workflow: usize, receipt: &str) -> bool {
        self.ends.get(&workflow).is_some_and(|end| end.contains(&format!("{receipt:?}")))
    }

    /// A caller was told how a workflow ended.
    pub(super) fn end(&mut self, workflow: usize, said: String) -> Option<Violation> {
        let first = self.ends.entry(workflow).or_insert_with(|| said.clone());
        (*first != said).then(|| Violation {
            invariant: Invariant::OneAnswer,
            seen: format!("workflow {workflow} was told {first}, and later {said}"),
        })
    }
}
