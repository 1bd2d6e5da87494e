//! A place of its own for each test: a directory, and a table in it or on the engine that is named.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use serde_json::Value;

pub(crate) struct Place {
    directory: tempfile::TempDir,
    /// Options that every call is given.
    options: Vec<String>,
    /// The table of order rows, where it is not embedded.
    rows: Option<String>,
}

/// What a process did.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) said: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let said = String::from_utf8(output.stderr).expect("text");
        Self { code: output.status.code().unwrap_or(-1), stdout: output.stdout, said }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::tempdir().expect("a directory");
        let endpoint = std::env::var("LOCKER_TEST_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
        let tables = endpoint.map(|endpoint| {
            let unique =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros();
            let table = format!("command-{unique}-{}", TABLES.fetch_add(1, Ordering::Relaxed));
            let (workflows, rows) = (format!("{table}-workflows"), format!("{table}-rows"));
            create_rows(&endpoint, &rows);
            let options = ["--table", &table, "--workflows", &workflows, "--endpoint-url", &endpoint];
            (options.map(str::to_owned).to_vec(), rows)
        });
        let (options, rows) = tables.unzip();
        let place = Self { directory, options: options.unwrap_or_default(), rows };
        if !place.is_embedded() {
            assert_eq!(place.run(&["table", "create"]).code, 0);
            assert_eq!(place.run(&["workflow", "table", "create"]).code, 0);
        }
        place
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.options.is_empty()
    }

    /// The name of the table of workflows.
    pub(crate) fn workflows(&self) -> &str {
        self.options.get(3).map_or("workflows", String::as_str)
    }

    /// A client of the engine of this place, for what the command does not do.
    pub(crate) fn client(&self) -> Client {
        if let Some(endpoint) = self.options.get(5) {
            return client_of(endpoint);
        }
        let file = self.path(".locker/locker.db");
        let database = dynoxide::Database::new(file.to_str().expect("UTF-8")).expect("a database");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                dynoxide::server::serve_on(listener, database).await;
            });
        });
        client_of(&format!("http://{address}"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(&[]);
        command.args(&self.options).args(arguments);
        if let Some(rows) = &self.rows {
            command.env("ORDERS_TABLE", rows);
        }
        command
    }

    /// Without the options of this place, and with nothing of the environment that decides on one.
    pub(crate) fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_locker"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_remove("LOCKER_LOCAL")
            .env_remove("LOCKER_TABLE")
            .env_remove("LOCKER_WORKFLOWS")
            .env_remove("ORDERS_TABLE")
            .env_remove("PAYMENTS_URL")
            .env_remove("LOCKER_LOG")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("the command runs"))
    }

    /// Run a shell script once.
    pub(crate) fn once(&self, key: &str, options: &[&str], script: &str) -> Ran {
        let mut arguments = vec!["once", key];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", script]);
        self.run(&arguments)
    }

    pub(crate) fn show(&self, key: &str) -> Value {
        self.run(&["show", key, "--output", "json"]).json()
    }

    pub(crate) fn lines(&self, file: &str) -> usize {
        std::fs::read_to_string(self.path(file)).map_or(0, |text| text.lines().count())
    }

    /// Wait until a file has a line.
    pub(crate) fn await_line(&self, file: &str) {
        until(|| self.lines(file) > 0);
    }
}

fn client_of(endpoint: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(endpoint)
        .http_client(locker::client::http_client())
        .build();
    Client::from_conf(config)
}

/// The command makes no table of somebody's rows but the embedded one.
fn create_rows(endpoint: &str, table: &str) {
    let key = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
    let hash = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let create = client_of(endpoint)
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

pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < limit, "waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}
