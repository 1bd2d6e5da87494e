//! Bodies that are too large for a message: kept before the commit, fetched by the receiver, and
//! never taken for another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use locker::inbox::{Incoming, Taken};
use locker::message::{Bodies, Claim, ClaimCheck};
use locker::workflow::{Flow, Outcome, Stop, Workflow};
use locker::{BoxError, Class, Classify, Failure};

use crate::post::{MINUTE, Post};

/// A store that may be down.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) bodies: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    pub(crate) is_down: Arc<Mutex<bool>>,
    pub(crate) hangs: Arc<Mutex<bool>>,
    puts: Arc<Mutex<usize>>,
}

impl Bodies for Store {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), BoxError> {
        if *self.is_down.lock().unwrap() {
            return Err("no connection".into());
        }
        *self.puts.lock().unwrap() += 1;
        self.bodies.lock().unwrap().insert(key.to_owned(), body);
        let hangs = *self.hangs.lock().unwrap();
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BoxError> {
        if *self.is_down.lock().unwrap() {
            return Err("no connection".into());
        }
        Ok(self.bodies.lock().unwrap().get(key).cloned())
    }
}

/// Tells others of a report that no message can carry.
struct Report(Store);

fn report() -> Vec<u32> {
    (0..100_000).collect()
}

impl Workflow for Report {
    const NAME: &'static str = "report";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        let bodies = ClaimCheck::new(self.0.clone());
        let claim: Claim = flow.step("store").run(|_| async { bodies.store(&report()).await }).await?;
        flow.atomic("tell").message("report/made", &claim).commit(&()).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_body_is_stored_before_its_message_and_fetched_by_its_receiver() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let store = Store::default();
    let code = Report(store.clone());
    let done = workflows.start(&code, "report/1", &()).run().await.unwrap();
    assert!(matches!(done, Outcome::Completed(_)), "{done:?}");
    let json = post.broker.took()[0].to_json().unwrap();
    assert!(json.len() < 600, "{} bytes", json.len());
    let message = Incoming::parse(&json).unwrap();
    let claim: Claim = message.data().unwrap();
    assert_eq!(claim.bytes(), serde_json::to_string(&report()).unwrap().len() as u64);
    let inbox = workflows.inbox("reader").unwrap();
    assert_eq!(ClaimCheck::new(store).fetch::<Vec<u32>>(&claim).await.unwrap(), report());
    assert_eq!(inbox.atomic(&message).commit().await.unwrap(), Taken::Now);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_runs_again_stores_the_same_under_the_same_key() {
    let post = Post::new().await;
    let (workflows, _) = post.sender();
    let store = Store::default();
    let code = Report(store.clone());
    // It is stored, and the process gone.
    *store.hangs.lock().unwrap() = true;
    let started = workflows.start(&code, "report/1", &());
    assert!(tokio::time::timeout(MINUTE * 60, started.run()).await.is_err());
    assert_eq!(post.broker.took().len(), 0);
    *store.hangs.lock().unwrap() = false;
    post.desk.bench.clock.advance(MINUTE * 60);
    let again = post.desk.machine().0.start(&code, "report/1", &()).run().await.unwrap();
    assert!(matches!(again, Outcome::Completed(_)), "{again:?}");
    assert_eq!((*store.puts.lock().unwrap(), store.bodies.lock().unwrap().len()), (2, 1));
}

async fn fetch(store: &Store, claim: &Claim) -> Failure {
    ClaimCheck::new(store.clone()).fetch::<Vec<u32>>(claim).await.unwrap_err()
}

#[tokio::test]
async fn a_body_that_is_gone_or_another_is_no_body_and_says_why() {
    let store = Store::default();
    let bodies = ClaimCheck::new(store.clone());
    let claim = bodies.store(&report()).await.unwrap();
    let key = store.bodies.lock().unwrap().keys().next().unwrap().clone();
    assert!(key.starts_with("bodies/"), "{key}");
    let said = |failure: &Failure| (failure.class(), Classify::code(failure).unwrap_or_default());

    *store.is_down.lock().unwrap() = true;
    assert_eq!(said(&fetch(&store, &claim).await), (Class::Transient, "claim.fetch".to_owned()));
    let down = bodies.store(&report()).await.unwrap_err();
    assert_eq!(said(&down), (Class::Transient, "claim.store".to_owned()));
    assert!(down.to_string().contains("no connection"), "{down}");
    *store.is_down.lock().unwrap() = false;

    let other = bodies.fetch::<String>(&claim).await.unwrap_err();
    assert_eq!(other.class(), Class::Permanent);
    assert!(other.to_string().contains("another type"), "{other}");

    // One that is as long.
    store.bodies.lock().unwrap().get_mut(&key).unwrap()[1] = b'7';
    assert_eq!(said(&fetch(&store, &claim).await), (Class::NeedsOperator, "claim.changed".to_owned()));
    let elsewhere = ClaimCheck::new(store.clone()).prefix("others/");
    let absent = elsewhere.fetch::<Vec<u32>>(&claim).await.unwrap_err();
    assert_eq!(said(&absent), (Class::NeedsOperator, "claim.absent".to_owned()));
    assert!(absent.to_string().contains("others/"), "{absent}");
}

/// Whoever may write to the queue may write a claim.
#[tokio::test]
async fn a_forged_claim_reaches_nothing_else() {
    let store = Store::default();
    store.bodies.lock().unwrap().insert("bodies/../secret".to_owned(), b"[1]".to_vec());
    let forged: Claim = serde_json::from_str(r#"{"sha256":"../secret","bytes":3}"#).unwrap();
    let failure = fetch(&store, &forged).await;
    assert_eq!(
        (failure.class(), Classify::code(&failure).as_deref()),
        (Class::Permanent, Some("claim.invalid"))
    );
    // A length that lies is no other body, either.
    let bodies = ClaimCheck::new(store.clone());
    let claim = serde_json::to_string(&bodies.store(&vec![1_u32]).await.unwrap()).unwrap();
    let lies: Claim = serde_json::from_str(&claim.replace(r#""bytes":3"#, r#""bytes":4"#)).unwrap();
    assert_eq!(Classify::code(&fetch(&store, &lies).await).as_deref(), Some("claim.changed"));
}

#[tokio::test]
async fn a_claim_is_a_whole_digest_and_no_path() {
    let store = Store::default();
    let path = format!("{}secret", "../".repeat(19)) + "x";
    assert_eq!(path.len(), 64);
    store.bodies.lock().unwrap().insert(format!("bodies/{path}"), b"[1]".to_vec());
    store.bodies.lock().unwrap().insert("bodies/ab".to_owned(), b"[1]".to_vec());
    for digest in [path, "ab".to_owned(), "A".repeat(64)] {
        let forged = format!(r#"{{"sha256":"{digest}","bytes":3}}"#);
        let forged: Claim = serde_json::from_str(&forged).unwrap();
        let failure = fetch(&store, &forged).await;
        assert_eq!(Classify::code(&failure).as_deref(), Some("claim.invalid"), "{digest}");
    }
}
