//! The tables that a verb works on, and where they are.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use clap::Args;

use super::moment::moment;
use super::store;
use crate::connection::{Aws, Where};
use crate::exit::Exit;

const NONE: &str = "name the place of the tables: --table NAME (or LOCKER_TABLE), or --local for a store on this machine \
                    (or LOCKER_LOCAL=DIR); nothing was done";
const BOTH: &str = "both a table of DynamoDB (--table, LOCKER_TABLE) and a local store (--local, LOCKER_LOCAL) are named; \
                    choose one; nothing was done";

/// The tables, and where they are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where the tables are (one of --local and --table)")]
pub(crate) struct Place {
    /// Tables on this machine, in DIR or in one store of this user.
    #[arg(long, global = true, value_name = "DIR", env = "LOCKER_LOCAL", num_args = 0..=1, require_equals = true)]
    pub(crate) local: Option<Option<OsString>>,

    /// DynamoDB table of lock tokens, reached through the standard AWS chain.
    #[arg(long, global = true, value_name = "NAME", env = "LOCKER_TABLE")]
    pub(crate) table: Option<String>,

    /// DynamoDB table of workflows.
    #[arg(long, global = true, value_name = "NAME", env = "LOCKER_WORKFLOWS")]
    pub(crate) workflows: Option<String>,

    /// Endpoint of DynamoDB.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,

    /// AWS region.
    #[arg(long, global = true)]
    pub(crate) region: Option<String>,

    /// AWS profile.
    #[arg(long, global = true)]
    pub(crate) profile: Option<String>,

    /// Number of index shards that unfinished tokens and workflows are spread over.
    #[arg(long, global = true, value_name = "N", env = "LOCKER_SHARDS", default_value_t = 1)]
    pub(crate) shards: u16,

    /// End of the restore, if the tables were restored from a backup. The command holds older work
    /// for an operator instead of doing it.
    #[arg(long, global = true, value_name = "TIME", env = "LOCKER_RESTORED", value_parser = moment)]
    pub(crate) restored: Option<DateTime<Utc>>,
}

impl Place {
    /// The place that is named, or `default` if none is. Nothing is opened.
    ///
    /// # Errors
    ///
    /// [`Exit::SETUP`] if there is none or more than one.
    pub(crate) fn named(&self, default: Option<&str>) -> Result<Where, Exit> {
        match (&self.table, &self.local) {
            (Some(_), Some(_)) => Err(Exit::say(Exit::SETUP, BOTH)),
            (Some(table), None) if table.is_empty() => Err(empty("the table", "--table, LOCKER_TABLE")),
            (Some(table), None) => Ok(Where::Table(table.clone(), self.aws())),
            (None, Some(local)) => {
                self.refuse_aws_options(Exit::USAGE)?;
                local.as_deref().map_or_else(store::of_user, local_in)
            }
            (None, None) => {
                self.refuse_aws_options(Exit::SETUP)?;
                let directory = default.ok_or_else(|| Exit::say(Exit::SETUP, NONE))?;
                local_in(OsStr::new(directory))
            }
        }
    }

    fn aws(&self) -> Aws {
        let Self { workflows, endpoint_url, region, profile, .. } = self;
        Aws {
            workflows: workflows.clone(),
            endpoint_url: endpoint_url.clone(),
            region: region.clone(),
            profile: profile.clone(),
        }
    }

    fn refuse_aws_options(&self, code: u8) -> Result<(), Exit> {
        let options = [
            ("--workflows", &self.workflows),
            ("--endpoint-url", &self.endpoint_url),
            ("--region", &self.region),
            ("--profile", &self.profile),
        ];
        match options.into_iter().find(|(_, value)| value.is_some()) {
            None => Ok(()),
            Some((option, _)) => {
                Err(Exit::say(code, format!("{option} is for a table of DynamoDB; add --table NAME")))
            }
        }
    }
}

fn local_in(directory: &OsStr) -> Result<Where, Exit> {
    if directory.is_empty() {
        return Err(empty("the directory", "--local=DIR, LOCKER_LOCAL"));
    }
    let typed = PathBuf::from(directory);
    Ok(Where::Local { directory: absolute(&typed)?, typed: Some(typed) })
}

fn empty(what: &str, options: &str) -> Exit {
    Exit::say(Exit::SETUP, format!("the name of {what} is empty ({options}); nothing was done"))
}

/// The whole path, which means the same in every working directory.
fn absolute(path: &Path) -> Result<PathBuf, Exit> {
    std::path::absolute(path)
        .map_err(|error| Exit::say(Exit::SETUP, format!("cannot find {}: {error}", path.display())))
}
