//! `locker dev`: the shop, its provider and the scanner in one process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use locker_tests::command::{Place, until};
use locker_tests::web::Web;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::place;

/// Two free ports, and frequent rounds.
pub(crate) const ON_FREE_PORTS: [&str; 7] =
    ["dev", "--port", "0", "--provider-port", "0", "--scan-every", "1"];

pub(crate) struct Dev {
    child: Child,
    text: Vec<String>,
    http: reqwest::Client,
}

impl Dev {
    pub(crate) fn start(place: &Place) -> Self {
        Self::start_with(place, &[])
    }

    pub(crate) fn start_with(place: &Place, options: &[&str]) -> Self {
        Self::spawn(place, place.command(&[&ON_FREE_PORTS, options].concat()))
    }

    /// Starts it, and reads its text, which ends with an empty line after the last section.
    pub(crate) fn spawn(place: &Place, mut command: Command) -> Self {
        let log = std::fs::File::create(place.path("log")).expect("a log");
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("started");
        let mut text: Vec<String> = Vec::new();
        let mut sections = 0;
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
            let line = line.expect("text");
            sections += usize::from(line.ends_with(':') && !line.starts_with(' '));
            let is_end =
                sections == 5 && line.is_empty() && text.last().is_some_and(|it| it.starts_with("  "));
            text.push(line);
            if is_end {
                break;
            }
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { child, text, http: reqwest::Client::builder().build().expect("a client") }
    }

    /// The text that it printed.
    pub(crate) fn text(&self) -> &[String] {
        &self.text
    }

    pub(crate) async fn order(&self, key: &str, id: u32) -> (u16, Value) {
        self.ask("orders", key, id).await
    }

    pub(crate) async fn purchase(&self, key: &str, id: u32) -> (u16, Value) {
        self.ask("purchases", key, id).await
    }

    /// The same, until its parcel is packed.
    pub(crate) async fn packed(&self, key: &str, id: u32) -> (u16, Value) {
        for _ in 0..600 {
            let asked = self.purchase(key, id).await;
            if asked.0 != 202 {
                return asked;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("nobody packs {key}");
    }

    /// The address of its API.
    pub(crate) fn api(&self) -> &str {
        self.text[0].rsplit(' ').next().expect("an address")
    }

    /// The first address of its web console.
    pub(crate) fn console(&self) -> &str {
        self.text.iter().find_map(|line| line.split("sees: ").nth(1)).expect("an address")
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The address of its provider.
    pub(crate) fn provider(&self) -> &str {
        self.text[1].rsplit(' ').next().expect("an address")
    }

    async fn ask(&self, what: &str, key: &str, id: u32) -> (u16, Value) {
        let response = self.request(what, key, id).send().await.expect("a response");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    /// A request of a customer, which is not sent yet.
    pub(crate) fn request(&self, what: &str, key: &str, id: u32) -> reqwest::RequestBuilder {
        let order = json!({ "orderId": id.to_string(), "cents": 1000, "currency": "EUR" });
        let request = self.http.post(format!("{}/{what}", self.api()));
        request.header("Idempotency-Key", key).json(&order)
    }

    pub(crate) async fn mood(&self, mood: &str) {
        let request = self.http.post(format!("{}/mood/{mood}", self.provider()));
        assert!(request.send().await.expect("a response").status().is_success());
    }

    pub(crate) async fn books(&self) -> Vec<Value> {
        let response = self.http.get(format!("{}/books", self.provider())).send().await.expect("a response");
        response.json().await.expect("JSON")
    }

    /// Kills it, so that it ends nothing that it has begun.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("ended");
    }

    pub(crate) fn stop(mut self) {
        self.interrupt();
        assert!(self.child.wait().expect("ended").success());
    }

    /// Waits for its end.
    pub(crate) fn stop_of_its_own(mut self) {
        assert!(self.child.wait().expect("ended").success());
    }

    /// Ctrl-C.
    pub(crate) fn interrupt(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).expect("SIGINT");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_identical_requests_are_one_order_and_one_charge() {
    let place = place();
    // A provider on a busy machine answers, but late.
    let dev = std::sync::Arc::new(Dev::start_with(&place, &["--patience", "60"]));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let dev = std::sync::Arc::clone(&dev);
        tasks.spawn(async move { dev.order("k1", 1).await.0 });
    }
    let mut statuses = tasks.join_all().await;
    // An engine in a busy process of its own may answer too late. Then a client repeats its request.
    let expected: &[u16] = if place.is_embedded() { &[201, 409] } else { &[201, 409, 503] };
    while !place.is_embedded() && !statuses.contains(&201) && statuses.len() < 600 {
        statuses.push(dev.order("k1", 1).await.0);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(
        statuses.iter().all(|status| expected.contains(status)) && statuses.contains(&201),
        "{statuses:?}"
    );
    assert_eq!(dev.order("k1", 1).await, (201, json!({ "orderId": "1", "charge": "ch_1" })));
    let books = dev.books().await;
    assert_eq!((books.len(), &books[0]["asked"]), (1, &json!(1)));
    std::sync::Arc::into_inner(dev).expect("the last owner").stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_reply_is_reported_by_the_scanner_and_resolved_by_the_operator() {
    let place = place();
    let dev = Dev::start(&place);
    dev.mood("dropping").await;
    let (status, body) = dev.order("k2", 2).await;
    assert_eq!((status, &body["type"]), (504, &json!("urn:locker:orders:in-doubt")));
    dev.mood("well").await;
    assert_eq!(dev.order("k2", 2).await.0, 409, "no second charge");
    until(|| place.run(&["scan"]).code == 5);
    until(|| std::fs::read_to_string(place.path("log")).is_ok_and(|log| log.contains("a task is missing")));
    let key = "@you/order/create/2";
    assert_eq!(place.show(key)["lockedBy"].as_str().map(|owner| owner.starts_with("orders/")), Some(true));
    let result = r#"{"orderId":"2","charge":"ch_1"}"#;
    let resolved = place.act(&["resolve", key, "--reason", "it is in the books", "--result", result]);
    assert_eq!(resolved.code, 0, "{}", resolved.said);
    assert_eq!(dev.order("k2", 2).await, (201, json!({ "orderId": "2", "charge": "ch_1" })));
    let books = dev.books().await;
    assert_eq!((books.len(), &books[0]["asked"]), (1, &json!(1)));
    dev.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn web_console_shows_what_the_shop_left_in_doubt() {
    let place = place();
    let dev = Dev::start(&place);
    dev.mood("dropping").await;
    assert_eq!(dev.order("k2", 2).await.0, 504);
    let web = Web::at(dev.console()).entered();
    until(|| web.get("/").body.contains("inDoubt"));
    let token = web.get("/token?key=%40you%2Forder%2Fcreate%2F2");
    assert_eq!(token.status, 200);
    let line = place.line("resolve @you/order/create/2");
    assert!(token.body.contains(&line), "{}", token.body);
    dev.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_says_so() {
    let place = place();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let ran = place.run(&["dev", "--port", &port]);
    assert_eq!(ran.code, 78);
    assert!(ran.said.contains("choose another port with --port"), "{}", ran.said);
    tokio::time::sleep(Duration::ZERO).await;
}
