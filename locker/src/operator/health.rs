//! Whether the tables can be used, and when each scheduled function ran.

use serde::Serialize;

use super::lists::Reading;
use super::{Console, LastRun, Machine};
#[cfg(feature = "workflow")]
use crate::core::listed::List;
use crate::error::Error;
use crate::session::Session;
use crate::token::Locker;
#[cfg(feature = "workflow")]
use crate::workflow::Workflows;

/// The key of a read whose result is not used.
#[cfg(feature = "workflow")]
const NO_KEY: &str = "locker/health";

/// The state of the tables and of the scheduled functions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Health {
    /// The table of tokens, if the console has it.
    pub tokens: Option<TableHealth>,
    /// The table of workflows, if the console has it.
    pub workflows: Option<TableHealth>,
    /// The last run of each scheduled function, as far as its table can be read.
    pub runs: Vec<LastRun>,
}

/// The state of one table.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TableHealth {
    /// Whether the table does not exist. Then nothing else was checked.
    pub is_absent: bool,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

/// One check of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Check {
    /// The part of the table that was checked.
    pub what: &'static str,
    /// One sentence for each problem, with what to change. Empty if there is none.
    pub problems: Vec<String>,
}

impl Health {
    /// Returns whether no check found a problem and no scheduled function is silent.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let tables = self.tokens.iter().chain(&self.workflows);
        let has_problem = |check: &Check| !check.problems.is_empty();
        !tables.flat_map(|table| &table.checks).any(has_problem) && !self.runs.iter().any(|run| run.is_silent)
    }
}

impl TableHealth {
    /// Compares the table with the required layout.
    async fn of(session: &Session) -> Result<Self, Error> {
        let checked = session.store().check().await;
        let is_absent = matches!(
            &checked,
            Err(Error::Denied { code: Some(code), .. }) if code == "ResourceNotFoundException"
        );
        let problems = match checked {
            Ok(checked) => checked.problems,
            Err(error @ (Error::Unavailable { .. } | Error::Denied { code: None, .. })) => return Err(error),
            Err(error) => vec![error.to_string()],
        };
        Ok(Self { is_absent, checks: vec![Check { what: "table, index and TTL", problems }] })
    }

    fn add(&mut self, what: &'static str, errors: impl IntoIterator<Item = Error>) {
        let problems = errors.into_iter().map(|error| error.to_string()).collect();
        self.checks.push(Check { what, problems });
    }
}

impl Console {
    /// Checks that each table can be reached, has the required layout, and can be read and listed.
    ///
    /// Nothing is written. [`Health::runs`] has the last run of each scheduled function.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], and [`Error::Denied`] without a code, if a table sent no reply: the
    /// network, the region or the credentials are wrong. Every other problem is in
    /// [`Check::problems`].
    ///
    /// # Cost
    ///
    /// For the table of tokens 3 requests and 1 for each shard; for the table of workflows 6
    /// requests and 1 for each shard. It needs `DescribeTable` and `DescribeTimeToLive`, which no
    /// other verb needs: call it when you deploy, not at every start.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: locker::Locker) -> Result<(), locker::Error> {
    /// use locker::operator::Console;
    ///
    /// let health = Console::new().tokens(&locker).health().await?;
    /// for check in health.tokens.iter().flat_map(|table| &table.checks) {
    ///     println!("{}: {:?}", check.what, check.problems);
    /// }
    /// assert!(health.is_well());
    /// # Ok(()) }
    /// ```
    pub async fn health(&self) -> Result<Health, Error> {
        let mut health = Health { tokens: None, workflows: None, runs: Vec::new() };
        if let Some(locker) = &self.tokens {
            health.tokens = Some(self.health_of_tokens(locker, &mut health.runs).await?);
        }
        #[cfg(feature = "workflow")]
        if let Some(workflows) = &self.workflows {
            health.workflows = Some(self.health_of_workflows(workflows, &mut health.runs).await?);
        }
        Ok(health)
    }

    async fn health_of_tokens(&self, locker: &Locker, runs: &mut Vec<LastRun>) -> Result<TableHealth, Error> {
        let mut table = TableHealth::of(locker.session()).await?;
        if table.is_absent {
            return Ok(table);
        }
        let run = locker.session().last_run(Machine::Scanner, self.deadline).await;
        table.add("reading (GetItem)", run.map(|run| runs.push(run)).err());
        let listed = Reading { entries: 1, ..self.reading() }.list(locker.overdue(), Some, drop).await;
        table.add("listing (Query on byStatus)", listed.err());
        Ok(table)
    }

    #[cfg(feature = "workflow")]
    async fn health_of_workflows(
        &self,
        workflows: &Workflows,
        runs: &mut Vec<LastRun>,
    ) -> Result<TableHealth, Error> {
        let mut table = TableHealth::of(workflows.context()).await?;
        if table.is_absent {
            return Ok(table);
        }
        let mut errors = Vec::new();
        for machine in Machine::OF_WORKFLOWS {
            let run = workflows.context().last_run(machine, self.deadline).await;
            errors.extend(run.map(|run| runs.push(run)).err());
        }
        // One missing permission is one problem.
        errors.truncate(1);
        table.add("reading (GetItem)", errors);
        table.add("reading (Query)", workflows.get(NO_KEY, 1).await.err());
        let listed = workflows.list(List::Quarantine);
        let listed = Reading { entries: 1, ..self.reading() }.list(listed, Some, drop).await;
        table.add("listing (Query on byStatus)", listed.err());
        Ok(table)
    }
}
