//! The options of an operator for an act on a token or a workflow.

use clap::Args;
use locker::Operator;

use crate::exit::Exit;
use crate::output;

/// The operator and the reason of an act.
#[derive(Debug, Args)]
pub(crate) struct Act {
    /// Record this reason with the act.
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    by: By,
}

impl Act {
    pub(crate) fn operator(&self) -> Result<Operator, Exit> {
        Ok(Operator::new(self.by.name(), &self.reason)?)
    }
}

/// Who acts.
#[derive(Debug, Args)]
pub(crate) struct By {
    /// Record this name of the operator [default: USER@HOST].
    #[arg(long = "as", value_name = "NAME")]
    operator: Option<String>,
}

impl By {
    pub(crate) fn name(&self) -> String {
        self.operator.clone().unwrap_or_else(output::operator)
    }
}
