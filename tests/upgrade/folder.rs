//! The folders with the items of each version: one file for each table, one item on each line.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::stage::Stage;

/// The version of this code.
pub(crate) const PRESENT: &str = env!("CARGO_PKG_VERSION");
/// Writes the folder of the present version.
pub(crate) const UPDATE: &str = "UPDATE_FIXTURES=1 cargo test --workspace --locked --test upgrade";
const FOLDERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/upgrade");

/// The items of both tables, in DynamoDB JSON, sorted by their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) tokens: Vec<Value>,
    pub(crate) workflows: Vec<Value>,
}

/// The items that one version wrote.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) version: String,
    pub(crate) tables: Tables,
}

impl Folder {
    /// Whether this code wrote it.
    pub(crate) fn is_present(&self) -> bool {
        self.version == PRESENT
    }

    /// Fails unless these are the expected rows. A later version may have added rows.
    #[track_caller]
    pub(crate) fn contains<T: PartialEq + Debug>(&self, found: &[T], expected: &[T]) {
        if self.is_present() {
            assert_eq!(found, expected, "{}", self.version);
        }
        for row in found {
            assert!(expected.contains(row), "{}: {row:?} is not expected", self.version);
        }
    }
}

/// The text of an attribute. Empty if the item has no such text.
pub(crate) fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item[name]["S"].as_str().unwrap_or_default()
}

fn key(item: &Value) -> (&str, &str, &str) {
    (text(item, "lockToken"), text(item, "workflow"), text(item, "item"))
}

impl Tables {
    /// The items of the tables of a stage.
    pub(crate) async fn of(stage: &Stage) -> Self {
        let desk = &stage.desk;
        Self { tokens: scan(stage, &desk.bench.table).await, workflows: scan(stage, &desk.table).await }
    }

    /// Both tables with these items, shortly after the last write.
    pub(crate) async fn load(&self) -> Stage {
        let stage = Stage::later(self.time() + Duration::from_secs(600)).await;
        let desk = &stage.desk;
        for (table, items) in [(&desk.bench.table, &self.tokens), (&desk.table, &self.workflows)] {
            for item in items {
                put(&stage, table, item).await;
            }
        }
        stage
    }

    /// When the scanner ran: after every other write.
    fn time(&self) -> DateTime<Utc> {
        let ran = self.tokens.iter().find(|item| text(item, "lockToken") == "locker runs scanner");
        text(ran.expect("a run of the scanner"), "actualCompletion").parse().expect("a time")
    }

    fn read(folder: &Path) -> Self {
        let lines = |name: &str| {
            let text = fs::read_to_string(folder.join(name)).expect("a file of the folder");
            text.lines().map(|line| serde_json::from_str(line).expect("an item")).collect()
        };
        Self { tokens: lines("tokens.json"), workflows: lines("workflows.json") }
    }

    fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("a folder");
        for (name, items) in [("tokens.json", &self.tokens), ("workflows.json", &self.workflows)] {
            let lines: String = items.iter().map(|item| format!("{item}\n")).collect();
            fs::write(folder.join(name), lines).expect("the file is written");
        }
    }
}

async fn put(stage: &Stage, table: &str, item: &Value) {
    let reply = stage.desk.bench.engine.send("PutItem", &json!({"TableName": table, "Item": item})).await;
    assert!(!reply.contains("__type"), "{reply}: {item}");
}

async fn scan(stage: &Stage, table: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut request = json!({"TableName": table, "ConsistentRead": true});
    loop {
        let reply = stage.desk.bench.engine.send("Scan", &request).await;
        let mut page: Value = serde_json::from_str(&reply).expect("a page");
        items.append(page["Items"].as_array_mut().expect("items"));
        if page["LastEvaluatedKey"].is_null() {
            break;
        }
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"].take();
    }
    items.sort_by(|one, other| key(one).cmp(&key(other)));
    items
}

/// The tables that this code fills.
pub(crate) async fn fresh() -> Tables {
    let stage = Stage::empty().await;
    crate::fill(&stage).await;
    Tables::of(&stage).await
}

pub(crate) fn path_of(version: &str) -> PathBuf {
    Path::new(FOLDERS).join(version)
}

/// All folders, sorted by version. With `UPDATE_FIXTURES` the folder of the present version is written
/// first.
pub(crate) async fn folders() -> &'static [Folder] {
    static ALL: OnceCell<Vec<Folder>> = OnceCell::const_new();
    ALL.get_or_init(|| async {
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            Box::pin(fresh()).await.write(&path_of(PRESENT));
        }
        let entries =
            fs::read_dir(FOLDERS).expect("the folders").map(|entry| entry.expect("an entry").path());
        let mut all: Vec<_> = entries.filter(|path| path.is_dir()).collect();
        all.sort();
        let version = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let folder = |path: PathBuf| Folder {
            version: version(&path).expect("a version"),
            tables: Tables::read(&path),
        };
        all.into_iter().map(folder).collect()
    })
    .await
}

/// The folder of the present version.
pub(crate) async fn present() -> &'static Folder {
    let found = folders().await.iter().find(|folder| folder.version == PRESENT);
    found.unwrap_or_else(|| panic!("version {PRESENT} has no folder in tests/upgrade; write it: {UPDATE}"))
}
