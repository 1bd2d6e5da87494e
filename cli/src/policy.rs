//! `locker policy`: the permissions on the tables that a function or a person needs, as an IAM
//! policy.
//!
//! The stacks in `infra` grant the same to functions, and a test compares them.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::options::Place;
use crate::output;

/// The partition key of the item with the last run of the scanner, in the table of tokens.
const RUN_OF_THE_SCANNER: &str = "locker runs scanner";
/// The partition key of the items with the last runs of completer, reaper and relay, in the table
/// of workflows.
const RUNS_ON_WORKFLOWS: &str = "locker runs";

#[derive(Debug, Args)]
pub(crate) struct Policy {
    /// The function or person that uses the tables.
    role: Role,

    /// Number of the AWS account of the tables.
    #[arg(long, value_name = "ID")]
    account: String,

    /// For a viewer: without inputs, results and bodies. `status` and `ls` work, `show` does not.
    #[arg(long)]
    no_data: bool,

    /// ARN of your KMS key of the tables: the policy allows its use through DynamoDB.
    #[arg(long, value_name = "ARN")]
    key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// A function with tokens; with --workflows, also a function that starts workflows or signals.
    Function,
    /// The function that reports overdue tokens.
    Scanner,
    /// The function that drives due workflows.
    Completer,
    /// The function that deletes finished workflows.
    Reaper,
    /// The function that sends unsent messages.
    Relay,
    /// A function that consumes messages.
    Consumer,
    /// A person who acts with this command or its web console.
    Operator,
    /// A person who only looks.
    Viewer,
}

/// The table that a statement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Tokens,
    TokensIndex,
    Workflows,
    WorkflowsIndex,
}

use On::{Tokens, TokensIndex, Workflows, WorkflowsIndex};

const DRIVE: &[&str] = &["PutItem", "DeleteItem", "GetItem", "Query", "ConditionCheckItem"];
const DESCRIBE: &[&str] = &["DescribeTable", "DescribeTimeToLive"];
const ACT: &[&str] = &["PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"];

type Allowed = &'static [(On, &'static [&'static str])];

/// What each person may do: read the lists.
const LISTS: Allowed =
    &[(Tokens, DESCRIBE), (TokensIndex, &["Query"]), (Workflows, DESCRIBE), (WorkflowsIndex, &["Query"])];
/// Read inputs, results and bodies.
const DATA: Allowed = &[(Tokens, &["GetItem"]), (Workflows, &["GetItem", "Query"])];
/// A plan to redact reads the whole table of tokens.
const ACTS: Allowed = &[(Tokens, &["Scan"]), (Tokens, ACT), (Workflows, ACT)];

impl Role {
    /// The actions on each table and index. An operator and a viewer look at both tables.
    fn allowed(self, no_data: bool) -> Vec<(On, &'static [&'static str])> {
        let allowed: &[Allowed] = match self {
            Self::Function => {
                &[&[(Tokens, &["PutItem", "UpdateItem", "DeleteItem", "GetItem"]), (Workflows, DRIVE)]]
            }
            Self::Scanner => &[&[(Tokens, &["GetItem"]), (TokensIndex, &["Query"])]],
            Self::Completer => &[&[(Workflows, DRIVE), (WorkflowsIndex, &["Query"])]],
            Self::Reaper => {
                &[&[(Workflows, DRIVE), (Workflows, &["BatchWriteItem"]), (WorkflowsIndex, &["Query"])]]
            }
            Self::Relay | Self::Consumer => &[&[
                (Workflows, &["PutItem", "GetItem", "DeleteItem", "Query"]),
                (WorkflowsIndex, &["Query"]),
            ]],
            Self::Operator => &[DATA, ACTS, LISTS],
            Self::Viewer if no_data => &[LISTS],
            Self::Viewer => &[DATA, LISTS],
        };
        allowed.concat()
    }

    /// The action on items with this partition key only, which contain when a function ran last.
    /// The scanner writes its run. `locker status` reads the runs.
    const fn allowed_on_runs(self, no_data: bool) -> &'static [(On, &'static str, &'static str)] {
        match self {
            Self::Scanner => &[(Tokens, "PutItem", RUN_OF_THE_SCANNER)],
            Self::Viewer if no_data => {
                &[(Tokens, "GetItem", RUN_OF_THE_SCANNER), (Workflows, "GetItem", RUNS_ON_WORKFLOWS)]
            }
            _ => &[],
        }
    }

    /// Whether the role has nothing to do without a table of tokens; or else of workflows.
    const fn needs_tokens(self) -> bool {
        matches!(self, Self::Function | Self::Scanner | Self::Operator | Self::Viewer)
    }
}

impl Policy {
    pub(crate) fn run(&self, place: &Place) -> Result<Exit, Exit> {
        let usage = |said: &str| Err(Exit::say(Exit::USAGE, format!("{said}; nothing was printed")));
        if self.account.len() != 12 || !self.account.bytes().all(|it| it.is_ascii_digit()) {
            return usage("an account has 12 digits, such as --account 123456789012");
        }
        if self.no_data && self.role != Role::Viewer {
            return usage("--no-data is for a viewer");
        }
        if self.role.needs_tokens() && place.table.is_none() {
            return usage("name the table of tokens: --table NAME, or LOCKER_TABLE");
        }
        if !self.role.needs_tokens() && place.workflows.is_none() {
            return usage("name the table of workflows: --workflows NAME, or LOCKER_WORKFLOWS");
        }
        let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let of_environment = || ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(set);
        let Some(region) = place.region.clone().or_else(of_environment) else {
            return usage("name the Region: --region, or AWS_REGION");
        };
        output::json(&self.document(place, &region));
        Ok(Exit::quiet(Exit::OK))
    }

    fn document(&self, place: &Place, region: &str) -> Value {
        let partition = match region {
            _ if region.starts_with("cn-") => "aws-cn",
            _ if region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        };
        let arn = |on: On| {
            let (table, index) = match on {
                Tokens => (&place.table, ""),
                TokensIndex => (&place.table, "/index/byStatus"),
                Workflows => (&place.workflows, ""),
                WorkflowsIndex => (&place.workflows, "/index/byStatus"),
            };
            let table = table.as_deref()?;
            Some(format!("arn:{partition}:dynamodb:{region}:{}:table/{table}{index}", self.account))
        };
        // One statement for each table and each index.
        let statement = |on: On| {
            let allowed = self.role.allowed(self.no_data).into_iter().filter(|(of, _)| *of == on);
            let actions: Vec<_> =
                allowed.flat_map(|(_, actions)| actions).map(|it| format!("dynamodb:{it}")).collect();
            let resource = arn(on).filter(|_| !actions.is_empty())?;
            Some(json!({ "Effect": "Allow", "Action": actions, "Resource": resource }))
        };
        let mut statements: Vec<_> =
            [Tokens, TokensIndex, Workflows, WorkflowsIndex].into_iter().filter_map(statement).collect();
        let on_runs = self.role.allowed_on_runs(self.no_data).iter();
        statements.extend(on_runs.filter_map(|(on, action, key)| {
            Some(json!({
                "Effect": "Allow",
                "Action": [format!("dynamodb:{action}")],
                "Resource": arn(*on)?,
                "Condition": {
                    "ForAllValues:StringEquals": { "dynamodb:LeadingKeys": [key] },
                    // `ForAllValues` is also true for a request without the key.
                    "Null": { "dynamodb:LeadingKeys": "false" },
                },
            }))
        }));
        statements.extend(self.key.as_deref().map(|key| {
            let suffix = if partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
            json!({
                "Effect": "Allow",
                "Action": ["kms:Decrypt"],
                "Resource": key,
                "Condition": {
                    "StringEquals": { "kms:ViaService": format!("dynamodb.{region}.{suffix}") },
                },
            })
        }));
        json!({ "Version": "2012-10-17", "Statement": statements })
    }
}
