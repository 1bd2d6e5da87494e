//! The command as a process. Each test has a place of its own: a directory, and tables in it or on
//! the engine that `LOCKER_TEST_ENDPOINT` names.

// The processes have the real time.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use serde_json::Value;

use crate::client_for;

/// A directory, and the tables that the command is run on.
#[derive(Debug)]
pub struct Place {
    binary: PathBuf,
    directory: tempfile::TempDir,
    /// Options that every call is given.
    options: Vec<String>,
    /// Variables that every call is given.
    variables: Vec<(String, String)>,
}

/// What a process did.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error, without the line that names the place.
    pub said: String,
    /// The line that names the place, without `locker: in `, if there was one.
    pub place: Option<String>,
}

impl Ran {
    /// Reads the output of a process.
    #[must_use]
    pub fn of(output: Output) -> Self {
        let said = String::from_utf8(output.stderr).expect("text");
        let (mut place, mut rest) = (None, String::new());
        for line in said.split_inclusive('\n') {
            match line.strip_prefix("locker: in ") {
                Some(named) if place.is_none() => place = Some(named.trim_end().to_owned()),
                _ => rest.push_str(line),
            }
        }
        Self { code: output.status.code().unwrap_or(-1), stdout: output.stdout, said: rest, place }
    }

    /// Its standard output, as text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    /// Its standard output, as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Place {
    /// A new place for a binary of the command.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::tempdir().expect("a directory");
        let endpoint = std::env::var("LOCKER_TEST_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
        let tables = endpoint.map(|endpoint| {
            let unique =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros();
            let table = format!("command-{unique}-{}", TABLES.fetch_add(1, Ordering::Relaxed));
            let workflows = format!("{table}-workflows");
            let options = ["--table", &table, "--workflows", &workflows, "--endpoint-url", &endpoint];
            options.map(str::to_owned).to_vec()
        });
        let options = tables.unwrap_or_else(|| vec!["--local=.locker".to_owned()]);
        let place = Self { binary: binary.into(), directory, options, variables: Vec::new() };
        for create in [&["table", "create"][..], &["workflow", "table", "create"]] {
            let ran = place.run(create);
            assert_eq!(ran.code, 0, "{}", ran.said);
        }
        place
    }

    /// Creates a table with the partition key `id`, unless tables are embedded, and names it to
    /// every call in a variable. The command creates no table of rows but an embedded one.
    #[must_use]
    pub fn with_rows(mut self, variable: &str) -> Self {
        if let [_, table, .., endpoint] = self.options.as_slice() {
            let rows = format!("{table}-rows");
            create_rows(endpoint, &rows);
            self.variables.push((variable.to_owned(), rows));
        }
        self
    }

    /// Runs a verb that acts: its dry run, and the same with the id that the dry run printed.
    ///
    /// A call that is no dry run, such as one that is refused, is returned as it is.
    #[must_use]
    pub fn act(&self, arguments: &[&str]) -> Ran {
        let shown = self.run(arguments);
        let id = shown.said.trim_end().rsplit_once("--seen ").map(|(_, id)| id.to_owned());
        match id.filter(|_| shown.code == 6) {
            Some(id) => self.run(&[arguments, &["--seen", &id]].concat()),
            None => shown,
        }
    }

    /// Runs another binary of the command in this place.
    #[must_use]
    pub fn run_by(&self, binary: impl AsRef<Path>, arguments: &[&str]) -> Ran {
        Ran::of(self.command_of(binary.as_ref(), arguments).output().expect("the command runs"))
    }

    /// A line to paste, as the command prints it for this place.
    #[must_use]
    pub fn line(&self, call: &str) -> String {
        format!("locker {} {call}", self.options.join(" "))
    }

    /// A text of the command in which the lines to paste have no options of this place.
    #[must_use]
    pub fn without_options(&self, said: &str) -> String {
        said.replace(&self.line(""), "locker ")
    }

    /// The endpoint of the tables, unless they are in the directory.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.options.get(5).map(String::as_str)
    }

    /// Whether the tables are in the directory.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.options.len() == 1
    }

    /// The name of the table of tokens.
    #[must_use]
    pub fn table(&self) -> &str {
        self.options.get(1).map_or("locks", String::as_str)
    }

    /// The name of the table of workflows.
    #[must_use]
    pub fn workflows(&self) -> &str {
        self.options.get(3).map_or("workflows", String::as_str)
    }

    /// A client of the engine of this place, for what the command does not do.
    #[must_use]
    pub fn client(&self) -> Client {
        if let Some(endpoint) = self.endpoint() {
            return client_for(endpoint, locker::client::http_client());
        }
        let file = self.path(".locker/locker.db");
        lock_token_testing::Embedded::open(&file).expect("an engine").client()
    }

    /// A path in the directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A call of the command in this place.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(&self.binary, arguments)
    }

    fn command_of(&self, binary: &Path, arguments: &[&str]) -> Command {
        let mut command = self.bare_of(binary);
        command.args(&self.options).args(arguments).envs(self.variables.iter().cloned());
        command
    }

    /// A call without the options of this place, and with no variable that names tables.
    #[must_use]
    pub fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare_of(&self.binary);
        command.args(arguments);
        command
    }

    fn bare_of(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        let exported = std::env::vars_os().map(|(name, _)| name);
        // What is exported around the tests is no part of them.
        let is_ours = |name: &str| name.starts_with("LOCKER_") || name.starts_with("AWS_");
        for name in exported.filter(|name| name.to_str().is_some_and(is_ours)) {
            command.env_remove(name);
        }
        command
            .current_dir(self.directory.path())
            .env("HOME", self.path("home"))
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("ORDERS_TABLE")
            .env_remove("PAYMENTS_URL")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    /// Runs the command in this place.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("the command runs"))
    }

    /// Runs a shell script once. Another script under the same key is no mismatch.
    pub fn once(&self, key: &str, options: &[&str], script: &str) -> Ran {
        let mut arguments = vec!["once", key];
        arguments.extend(options);
        if !options.contains(&"--fingerprint") {
            arguments.push("--no-fingerprint");
        }
        arguments.extend(["--", "sh", "-c", script]);
        self.run(&arguments)
    }

    /// The token of a key.
    #[must_use]
    pub fn show(&self, key: &str) -> Value {
        self.run(&["show", key, "--content", "--output", "json"]).json()
    }

    /// The number of lines of a file.
    #[must_use]
    pub fn lines(&self, file: &str) -> usize {
        std::fs::read_to_string(self.path(file)).map_or(0, |text| text.lines().count())
    }

    /// Waits until a file has a line.
    pub fn await_line(&self, file: &str) {
        until(|| self.lines(file) > 0);
    }
}

fn create_rows(endpoint: &str, table: &str) {
    let key = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
    let hash = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let create = client_for(endpoint, locker::client::http_client())
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(key.build().expect("whole"))
        .key_schema(hash.build().expect("whole"))
        .send();
    // A test may be running on a runtime of its own.
    let made = std::thread::spawn(|| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(create).expect("a table");
    });
    made.join().expect("it is made");
}

/// The ports of the loopback interface or any other on which a process listens.
#[cfg(target_os = "linux")]
#[must_use]
pub fn listening(process: u32) -> Vec<u16> {
    const LISTENS: &str = "0A";
    let links = std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process runs");
    let links = links.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let mine: Vec<String> = links.map(|link| link.display().to_string()).collect();
    let mut ports = Vec::new();
    for table in ["tcp", "tcp6"] {
        let sockets = std::fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        for socket in sockets.lines().skip(1) {
            let fields: Vec<&str> = socket.split_whitespace().collect();
            if fields[3] == LISTENS && mine.contains(&format!("socket:[{}]", fields[9])) {
                let port = fields[1].rsplit(':').next().expect("a port");
                ports.push(u16::from_str_radix(port, 16).expect("a number"));
            }
        }
    }
    ports
}

/// Waits until a condition holds.
///
/// # Panics
///
/// If it does not hold within three minutes, which is longer than the first pauses of what is tried
/// again.
pub fn until(mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(180);
    while !condition() {
        assert!(Instant::now() < limit, "waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}
