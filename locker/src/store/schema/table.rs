//! Creating a table for development, and comparing a live table with the required layout.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, GlobalSecondaryIndexDescription, IndexStatus,
    KeySchemaElement, KeyType, Projection, ProjectionType, ScalarAttributeType, TableDescription,
    TableStatus, TimeToLiveDescription, TimeToLiveSpecification, TimeToLiveStatus,
};

use super::layout::Layout;
use crate::error::Error;
use crate::settings::check_table as check_name;
use crate::store::Store;
use crate::store::exchange::Failure;
use crate::store::schema::attribute as a;

/// Creates the table of tokens with its index, and enables TTL, for development and tests.
///
/// The table is billed on demand. It has neither the backups nor the deletion protection of
/// `template.yaml`. If the table exists, only its TTL is changed. Returns when the table can be
/// used.
///
/// # Errors
///
/// [`Error::Invalid`] if the name is not allowed, [`Error::Denied`] if DynamoDB refuses a request,
/// [`Error::Unavailable`] if DynamoDB is out of reach, [`Error::NotReady`] if the table is not
/// ready after about a minute.
///
/// # Cost
///
/// 4 requests or more; no write units.
pub async fn create_table(client: &Client, table: &str) -> Result<(), Error> {
    create(client, table, &Layout::TOKENS).await
}

pub(crate) async fn create(client: &Client, table: &str, layout: &Layout) -> Result<(), Error> {
    const VERB: &str = "create the table";
    check_name(table)?;
    let created = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(built(layout.attributes().map(attribute))?))
        .set_key_schema(Some(keys(layout.keys)?))
        .global_secondary_indexes(index(layout)?)
        .send()
        .await;
    match created {
        Ok(_) => {}
        // It exists, or is being created by another process.
        Err(SdkError::ServiceError(error)) if error.err().is_resource_in_use_exception() => {}
        Err(error) => return Err(refused(VERB, (table, layout), Failure::of(error, |_| None))),
    }
    wait_until_active(client, (table, layout)).await?;
    switch_ttl_on(client, (table, layout)).await
}

async fn wait_until_active(client: &Client, (name, layout): (&str, &Layout)) -> Result<(), Error> {
    const VERB: &str = "wait for the table";
    for _ in 0..240 {
        match describe(client, (name, layout), VERB).await? {
            Some(table) if table.table_status() == Some(&TableStatus::Active) => return Ok(()),
            _ => tokio::time::sleep(std::time::Duration::from_millis(250)).await,
        }
    }
    Err(Error::NotReady { table: name.to_owned() })
}

async fn switch_ttl_on(client: &Client, (table, layout): (&str, &Layout)) -> Result<(), Error> {
    const VERB: &str = "enable TTL";
    if ttl_problem(describe_ttl(client, (table, layout)).await?.as_ref()).is_none() {
        return Ok(());
    }
    let specification = TimeToLiveSpecification::builder().attribute_name(a::TTL).enabled(true).build();
    client
        .update_time_to_live()
        .table_name(table)
        .time_to_live_specification(specification.map_err(|error| Error::Denied {
            verb: VERB,
            code: None,
            advice: "the request could not be built".to_owned(),
            source: error.into(),
        })?)
        .send()
        .await
        .map(|_| ())
        .map_err(|error| refused(VERB, (table, layout), Failure::of(error, |_| None)))
}

/// The result of comparing a live table with the required layout.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the table has the required layout only if `problems` is empty"]
#[non_exhaustive]
pub struct TableCheck {
    /// One sentence for each problem, with what to do. Empty if the table has the required layout.
    pub problems: Vec<String>,
}

/// Compares a live table with the required layout: keys, index, projection, TTL.
///
/// Changes nothing. It needs `DescribeTable` and `DescribeTimeToLive`, which no other call needs:
/// run it when you deploy, not at every start.
///
/// # Errors
///
/// [`Error::Denied`] if the table does not exist or access is denied, [`Error::Unavailable`] if
/// DynamoDB is out of reach.
///
/// # Cost
///
/// 2 requests; no units.
pub async fn check_table(client: &Client, table: &str) -> Result<TableCheck, Error> {
    check(client, table, &Layout::TOKENS).await
}

pub(crate) async fn check(client: &Client, table: &str, layout: &Layout) -> Result<TableCheck, Error> {
    check_name(table)?;
    let Some(description) = describe(client, (table, layout), "check the table").await? else {
        return Ok(TableCheck {
            problems: vec![format!("the table {table} is still being created; check again later")],
        });
    };
    let mut problems = Vec::new();
    problems.extend(key_problems(&description, layout));
    problems.extend(index_problem(&description, layout));
    problems.extend(ttl_problem(describe_ttl(client, (table, layout)).await?.as_ref()));
    Ok(TableCheck { problems })
}

impl Store {
    /// Compares this table with the required layout.
    #[cfg(feature = "operator")]
    pub(crate) async fn check(&self) -> Result<TableCheck, Error> {
        check(&self.client, &self.table, self.layout).await
    }
}

fn key_problems(table: &TableDescription, layout: &Layout) -> Option<String> {
    let keys: Vec<_> = table.key_schema().iter().map(KeySchemaElement::attribute_name).collect();
    if keys != layout.keys {
        return Some(format!(
            "the table's key is {}; it must be {}: create a new table, because keys cannot be changed",
            keys.join(" and "),
            layout.key_in_words,
        ));
    }
    wrong_types(table, layout.keys)
}

fn index_problem(table: &TableDescription, layout: &Layout) -> Option<String> {
    let Some(index) =
        table.global_secondary_indexes().iter().find(|index| index.index_name() == Some(a::BY_STATUS))
    else {
        return Some(format!(
            "the index {} is missing; add it with partition key {}, sort key {} and the projected attributes {}",
            a::BY_STATUS,
            a::STATUS,
            layout.due,
            layout.projected.join(", "),
        ));
    };
    let keys: Vec<_> = index.key_schema().iter().map(KeySchemaElement::attribute_name).collect();
    if keys != [a::STATUS, layout.due] {
        return Some(format!(
            "the index {} has the keys {}; it must have {} and {}: delete the index and create it again",
            a::BY_STATUS,
            keys.join(" and "),
            a::STATUS,
            layout.due,
        ));
    }
    if index.index_status() != Some(&IndexStatus::Active) {
        return Some(format!(
            "the index {} is still being built; listings are incomplete until it is active",
            a::BY_STATUS
        ));
    }
    wrong_types(table, &[a::STATUS, layout.due]).or_else(|| projection_problem(index, layout))
}

fn projection_problem(index: &GlobalSecondaryIndexDescription, layout: &Layout) -> Option<String> {
    let projection = index.projection()?;
    if projection.projection_type() == Some(&ProjectionType::All) {
        return Some(format!(
            "the index {} projects all attributes, so it stores every failure a second time; project only {}",
            a::BY_STATUS,
            layout.projected.join(", "),
        ));
    }
    let projected = projection.non_key_attributes();
    let missing: Vec<_> =
        layout.projected.iter().copied().filter(|name| !projected.iter().any(|have| have == name)).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "the index {} does not project {}, so listings cannot show them; delete the index and create it again",
            a::BY_STATUS,
            missing.join(", ")
        )
    })
}

fn wrong_types(table: &TableDescription, names: &[&str]) -> Option<String> {
    let definitions = table.attribute_definitions();
    let wrong = definitions.iter().find(|definition| {
        names.contains(&definition.attribute_name()) && *definition.attribute_type() != ScalarAttributeType::S
    })?;
    let name = wrong.attribute_name();
    Some(format!("{name} has type {}; it must be a string (S)", wrong.attribute_type()))
}

fn ttl_problem(ttl: Option<&TimeToLiveDescription>) -> Option<String> {
    let status = ttl.and_then(TimeToLiveDescription::time_to_live_status);
    let attribute = ttl.and_then(TimeToLiveDescription::attribute_name);
    match (status, attribute) {
        (Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling), Some(a::TTL)) => None,
        (Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling), other) => Some(format!(
            "TTL is enabled for the attribute {}; it must be {}: disable it, wait an hour, and enable it for {1}",
            other.unwrap_or("(unnamed)"),
            a::TTL,
        )),
        _ => Some(format!(
            "TTL is disabled, so answers are never deleted; enable it for the attribute {}",
            a::TTL
        )),
    }
}

async fn describe(
    client: &Client,
    (table, layout): (&str, &Layout),
    verb: &'static str,
) -> Result<Option<TableDescription>, Error> {
    let described = client.describe_table().table_name(table).send().await;
    described
        .map(|output| output.table)
        .map_err(|error| refused(verb, (table, layout), Failure::of(error, |_| None)))
}

async fn describe_ttl(
    client: &Client,
    (table, layout): (&str, &Layout),
) -> Result<Option<TimeToLiveDescription>, Error> {
    let described = client.describe_time_to_live().table_name(table).send().await;
    described
        .map(|output| output.time_to_live_description)
        .map_err(|error| refused("check TTL", (table, layout), Failure::of(error, |_| None)))
}

fn refused(verb: &'static str, (table, layout): (&str, &Layout), failure: Failure) -> Error {
    use crate::core::retry::Heard;
    if matches!(failure.heard, Heard::Denied | Heard::Unsigned | Heard::Refused) {
        let advice = failure.advice(table, layout);
        return Error::Denied { verb, code: failure.code, advice, source: failure.cause };
    }
    Error::Unavailable { verb, tries: 1, source: failure.cause }
}

fn index(layout: &Layout) -> Result<GlobalSecondaryIndex, Error> {
    let projected = layout.projected.iter().map(|name| (*name).to_owned()).collect();
    let projection = Projection::builder()
        .projection_type(ProjectionType::Include)
        .set_non_key_attributes(Some(projected))
        .build();
    let index = GlobalSecondaryIndex::builder()
        .index_name(a::BY_STATUS)
        .projection(projection)
        .set_key_schema(Some(keys(&[a::STATUS, layout.due])?));
    Ok(built([index.build()])?.remove(0))
}

/// The key schema: a partition key, and a sort key if there is a second name.
fn keys(names: &[&str]) -> Result<Vec<KeySchemaElement>, Error> {
    built(names.iter().zip([KeyType::Hash, KeyType::Range]).map(|(name, role)| key(name, role)))
}

fn attribute(name: &str) -> Result<AttributeDefinition, aws_sdk_dynamodb::error::BuildError> {
    AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build()
}

fn key(name: &str, role: KeyType) -> Result<KeySchemaElement, aws_sdk_dynamodb::error::BuildError> {
    KeySchemaElement::builder().attribute_name(name).key_type(role).build()
}

/// Collects the parts of a request. None fails to build, because every required field is set above.
fn built<T>(
    parts: impl IntoIterator<Item = Result<T, aws_sdk_dynamodb::error::BuildError>>,
) -> Result<Vec<T>, Error> {
    parts.into_iter().collect::<Result<_, _>>().map_err(|error| Error::Denied {
        verb: "create the table",
        code: None,
        advice: "the request could not be built".to_owned(),
        source: error.into(),
    })
}
