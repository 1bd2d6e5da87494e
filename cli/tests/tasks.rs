//! Ten tasks of an operator at night, each in one or two calls of the command, on a store with
//! 100,000 tokens and 2,000 workflows. It prints a table of their seconds, requests and read units:
//! `cargo test --workspace --locked --test tasks -- --nocapture`.
//!
//! With the tools of the browser tests, the same tasks by clicks in the web console:
//! `tests/chromium cargo test --workspace --locked --test tasks -- --nocapture clicks`.

#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[cfg(feature = "console")]
#[path = "tasks/clicks.rs"]
mod clicks;
#[cfg(feature = "console")]
#[path = "tasks/pages.rs"]
mod pages;
#[path = "tasks/store.rs"]
mod store;
#[cfg(feature = "console")]
#[path = "browser/tools.rs"]
mod tools;

use std::process::Command;
use std::time::Instant;

use locker_tests::Counted;
use locker_tests::command::Ran;
use store::Store;

/// The command, on the store.
struct Night {
    store: Store,
    counted: Counted,
    rows: Vec<String>,
}

impl Night {
    fn new() -> Self {
        let store = Store::new();
        let counted = Counted::start(&store.engine);
        Self { store, counted, rows: Vec::new() }
    }

    /// Prints the table.
    fn table(&self, header: &str) {
        let columns = "---|".repeat(header.matches('|').count() - 1);
        println!("\n{header}\n|{columns}");
        self.rows.iter().for_each(|row| println!("{row}"));
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("the command runs"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_locker"));
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("LOCKER_") || name.starts_with("AWS_"))
        {
            command.env_remove(name);
        }
        command
            .args([
                "--table",
                store::TOKENS,
                "--workflows",
                store::WORKFLOWS,
                "--endpoint-url",
                self.counted.endpoint(),
            ])
            .args(arguments)
            .env("HOME", self.store.directory.path())
            .env_remove("XDG_STATE_HOME")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    /// One task: its calls, what they have to say, and how many requests they may take.
    fn task(&mut self, task: &str, calls: &[(&[&str], i32, &str)], most_requests: u64) -> Vec<Ran> {
        assert!((1..=2).contains(&calls.len()), "{task}: one or two commands");
        let (_, began) = (self.counted.take(), Instant::now());
        let ran = calls.iter().map(|(arguments, ..)| {
            let ran = self.run(arguments);
            (ran, self.counted.take())
        });
        let (ran, asked): (Vec<_>, Vec<_>) = ran.unzip();
        let seconds = began.elapsed().as_secs_f64();
        for ((arguments, code, says), ran) in calls.iter().zip(&ran) {
            assert_eq!(ran.code, *code, "{task}: {arguments:?}: {}", ran.said);
            let all = format!("{}\n{}", ran.text(), ran.said);
            assert!(all.contains(says), "{task}: {arguments:?}: {says:?} is not in {all}");
        }
        // A request that a busy machine does not answer in time is sent again: it counts once for
        // each command.
        let requests = asked.iter().map(|asked| asked.different).sum::<u64>();
        let read_units = asked.iter().map(|asked| asked.read_units).sum::<f64>();
        assert!(requests <= most_requests, "{task}: {requests} requests");
        self.rows.push(format!("| {task} | {} | {seconds:.1} | {requests} | {read_units} |", calls.len()));
        ran
    }
}

fn group(ran: &Ran, cause: &str) -> String {
    let json = ran.json();
    let groups = json["groups"].as_array().expect("groups");
    let is_it = |group: &&serde_json::Value| group["cause"].as_str().unwrap_or_default().contains(cause);
    groups.iter().find(is_it).expect(cause)["id"].as_str().expect("an id").to_owned()
}

#[test]
fn ten_tasks_of_one_night() {
    let mut night = Night::new();
    #[cfg(feature = "console")]
    pages::cost(&mut night);
    let file = night.store.directory.path().join("plan.json").display().to_string();

    let status = night.task("what needs me", &[(&["status", "--output", "json"], 5, "")], 20).remove(0);
    let json = status.json();
    let counts: Vec<_> =
        json["groups"].as_array().unwrap().iter().map(|group| group["count"].as_u64().unwrap()).collect();
    assert_eq!((counts.iter().sum::<u64>(), counts.len()), (243, 3), "{json:#}");
    let (busy, gone) = (group(&status, "ledger is read only"), group(&status, "address unknown"));

    night.task(
        "why: the timeline of the first",
        &[(&["workflow", "show", "buy/0"], 0, "the ledger is read only")],
        60,
    );
    night.task("which customer", &[(&["ls", "--tenant", "cust7"], 0, "@cust7/mail/7")], 1300);
    night.task("what happened to this order", &[(&["show", "@cust7/order/4711"], 0, "completed")], 60);

    let doubt = night.run(&["ls", "--need", "inDoubt", "--output", "json"]).json();
    let key = doubt["tokens"][0]["lockToken"].as_str().expect("a token").to_owned();
    let seen = night.run(&["show", &key, "--output", "json"]).json()["revision"]
        .as_str()
        .expect("a revision")
        .to_owned();
    let release = ["release", &key, "--reason", "the bank has no charge", "--seen", &seen];
    night.task(
        "release safely",
        &[(&["show", &key], 0, "What may be done now"), (&release, 0, "released")],
        60,
    );

    let doubt = night.run(&["ls", "--need", "inDoubt", "--output", "json"]).json();
    let key = doubt["tokens"][0]["lockToken"].as_str().expect("a token").to_owned();
    let seen = doubt["tokens"][0]["revision"].as_str().expect("a revision").to_owned();
    assert_eq!(
        night.run(&["resolve", &key, "--reason", "the books", "--result", "\"ch_6\"", "--seen", &seen]).code,
        0
    );
    let seen = night.run(&["show", &key, "--output", "json"]).json()["revision"]
        .as_str()
        .expect("a revision")
        .to_owned();
    let correct = ["correct", &key, "--reason", "mistyped", "--result", "\"ch_7\"", "--seen", &seen];
    night.task(
        "correct a wrong resolve",
        &[(&["audit", &key], 0, "gave this result: \"ch_6\""), (&correct, 0, "corrected")],
        20,
    );

    let plan = [
        "plan",
        "retry",
        "--group",
        &busy,
        "--reason",
        "the ledger is back",
        "--rate",
        "1000",
        "--out",
        &file,
    ];
    let ran = [(&plan[..], 6, "retry: 200 of 200 found"), (&["apply", &file], 0, "200 done")];
    night.task("act on the 200", &ran, 700);

    night.task("after an outage", &[(&["status"], 5, &gone)], 20);
    night.task("who did what", &[(&["audit", "--since", "1h"], 0, "the ledger is back (plan ")], 10);
    night.task(
        "is the machinery alive",
        &[(&["status", "--output", "json"], 5, "\"machine\": \"scanner\"")],
        20,
    );
    let left = night.run(&["status", "--output", "json"]).json();
    assert_eq!(
        left["groups"].as_array().unwrap().iter().map(|it| it["count"].as_u64().unwrap()).sum::<u64>(),
        41
    );

    night.table("| task | commands | seconds | requests | read units |");
}

#[cfg(feature = "console")]
#[test]
fn ten_tasks_by_clicks() {
    let Some(tools) = tools::Tools::found() else { return };
    let mut night = Night::new();
    clicks::play(&tools, &mut night);
    assert_eq!(night.rows.len(), 10, "{:#?}", night.rows);
    night.table("| task | clicks | seconds | read units of the pages | read units of DynamoDB |");
}
