//! No `Debug` output of a public type contains a body, a result, an input or a secret: it ends in
//! logs.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::inbox::{Delivery, Incoming};
use locker::message::{NewMessage, Router, Sent, Target};
use locker::workflow::{Compensated, Compensation, Completer, Flow, Outcome, ProbeOutcome, Stop, Workflow};
use locker::{Begun, Failure, FingerprintKey};
use serde::{Deserialize, Serialize};

use crate::bench::Desk;

/// What no output may contain.
const ADDRESS: &str = "12 Main Street";

/// What was printed of each type.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<(&'static str, String)>>>);

impl Printed {
    fn add(&self, name: &'static str, it: &impl Debug) {
        self.0.lock().unwrap().push((name, format!("{it:?}")));
    }

    fn of(&self, name: &str) -> String {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(of, _)| *of == name).map(|(_, text)| text.as_str()).collect()
    }
}

#[derive(Clone)]
struct Letters {
    rows: String,
    printed: Printed,
}

impl Letters {
    fn row(&self) -> Put {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let put = Put::builder().table_name(&self.rows).item("id", text("letter"));
        put.item("address", text(ADDRESS)).build().unwrap()
    }
}

#[derive(Serialize, Deserialize)]
enum Undo {
    Refund(String),
}

impl Workflow for Letters {
    const NAME: &'static str = "letters";
    type Input = String;
    type Output = ();

    async fn run(&self, flow: &Flow, address: String) -> Result<(), Stop> {
        let once = flow.once("charge").input(&address).compensate(&Undo::Refund(address.clone()));
        let once = once.probe(|_| async { Ok(ProbeOutcome::Unknown) });
        self.printed.add("Once", &once);
        once.run(|_| async { Ok(address.clone()) }).await?;
        let message = NewMessage::new("letter/sent", &address).subject(&address);
        let atomic = flow.atomic("send").input(&address).put(self.row()).send(message);
        self.printed.add("Atomic", &atomic);
        atomic.commit(&address).await?;
        self.printed.add("Flow", flow);
        self.printed.add("Stop", &Stop::fail(&address));
        Err(Stop::fail("there is no stamp"))
    }

    async fn compensate(&self, _: &Flow, compensation: Compensation) -> Result<Compensated, Failure> {
        let Undo::Refund(address) = compensation.undo()?;
        assert_eq!(address, ADDRESS);
        self.printed.add("Compensation", &compensation);
        Ok(Compensated::Done)
    }
}

struct Nowhere;

impl Target for Nowhere {
    async fn send(&self, batch: &[locker::message::Envelope]) -> Vec<Sent> {
        batch.iter().map(|_| Sent::Later("closed".to_owned())).collect()
    }
}

#[tokio::test]
async fn debug_output_contains_nothing_private() {
    let desk = Desk::new().await;
    let printed = Printed::default();
    let code = Letters { rows: desk.rows.clone(), printed: printed.clone() };
    let (workflows, _) = desk.machine();
    let start = workflows.start(&code, "order/7", &ADDRESS.to_owned());
    printed.add("StartBuilder", &start);
    let outcome = start.run().await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    printed.add("Outcome", &outcome);
    let view = desk.view("order/7").await;
    printed.add("View", &view);
    printed.add("Message", &view.messages()[0]);
    printed.add("Completer", &Completer::new(&workflows).register(code.clone()));

    printed.add("NewMessage", &NewMessage::new("letter/sent", &ADDRESS).subject(ADDRESS));
    printed.add("Router", &Router::new().route("letter/*", Nowhere));
    printed.add("Delivery", &Delivery::new("1", ADDRESS));
    let incoming = Incoming::new("/letters", "1", "letter.sent", format!("{ADDRESS:?}"));
    printed.add("Incoming", &incoming);
    let inbox = workflows.inbox("archive").unwrap();
    printed.add("Receive", &inbox.atomic(&incoming).put(code.row()));
    printed.add("Consumer", &inbox.consumer());

    let (locker, _) = desk.bench.machine();
    let begin = |key: &str| locker.token(key.to_owned()).fingerprint(ADDRESS);
    printed.add("BeginBuilder", &begin("card/1"));
    for fails in [false, true] {
        let key = if fails { "card/2" } else { "card/1" };
        let Begun::Acquired(lock) = begin(key).begin().await.unwrap() else { panic!("{key} is held") };
        printed.add("Lock", &lock);
        if fails {
            lock.fail(ADDRESS).await.unwrap()
        } else {
            lock.complete(ADDRESS).await.unwrap()
        }
        printed.add("Begun", &begin(key).begin().await.unwrap());
    }
    printed.add("FingerprintKey", &FingerprintKey::new("k1", format!("{ADDRESS}, 1st floor")).unwrap());

    for (name, text) in printed.0.lock().unwrap().iter() {
        assert!(!text.contains("Main Street"), "{name}: {text}");
        // The bytes of a secret are no text.
        assert!(!text.contains("49, 50, 32, 77"), "{name}: {text}");
    }
    for name in ["StartBuilder", "Once", "Atomic", "Flow"] {
        assert!(!printed.of(name).contains("order/7"), "{name}: {}", printed.of(name));
    }
    for (name, shown) in [
        ("NewMessage", "letter/sent"),
        ("Router", "letter/*"),
        ("Once", "charge"),
        ("Atomic", "send"),
        ("Compensation", "Refund"),
        ("FingerprintKey", "k1"),
        ("Begun", "Completed"),
    ] {
        assert!(printed.of(name).contains(shown), "{name}: {}", printed.of(name));
    }
}
