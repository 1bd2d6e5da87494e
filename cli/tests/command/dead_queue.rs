//! `locker dead import` from a queue, which a small server plays: what is asked of it, and what is left in it.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use locker_tests::command::{Place, Ran};
use serde_json::{Value, json};

use crate::place;

/// A dead-letter queue: each message is received once, and then hidden.
#[derive(Clone)]
struct Queue {
    url: String,
    hidden: Arc<Mutex<Hidden>>,
}

#[derive(Default)]
struct Hidden {
    waiting: VecDeque<Value>,
    asked: Vec<u64>,
    deleted: Vec<String>,
}

impl Queue {
    fn with(messages: impl IntoIterator<Item = Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let hidden = Hidden { waiting: messages.into_iter().collect(), ..Hidden::default() };
        let queue = Self { url, hidden: Arc::new(Mutex::new(hidden)) };
        let served = queue.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                served.answer(&stream.expect("a caller")).expect("it is answered");
            }
        });
        queue
    }

    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let (mut reader, mut length, mut target) = (BufReader::new(stream), 0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? <= 2 {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            match name.to_lowercase().as_str() {
                "content-length" => length = value.trim().parse().expect("a number"),
                "x-amz-target" => value.trim().clone_into(&mut target),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let said = self.act(&target, &serde_json::from_slice(&body).unwrap_or_default()).to_string();
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}",
            said.len()
        )
    }

    fn act(&self, target: &str, asked: &Value) -> Value {
        let mut hidden = self.hidden.lock().expect("a lock");
        if target.ends_with("DeleteMessage") {
            hidden.deleted.push(asked["ReceiptHandle"].as_str().expect("a handle").to_owned());
            return json!({});
        }
        let count = asked["MaxNumberOfMessages"].as_u64().expect("a number");
        hidden.asked.push(count);
        let count = usize::try_from(count).expect("a number").min(hidden.waiting.len());
        json!({ "Messages": hidden.waiting.drain(..count).collect::<Vec<_>>() })
    }

    fn import(&self, place: &Place, options: &[&str]) -> Ran {
        let url = format!("{}/123456789012/dead.fifo", self.url);
        let import = ["dead", "import", &url, "--consumer", "packer"];
        let mut command = place.command(&[&import[..], options].concat());
        Ran::of(command.env("AWS_ENDPOINT_URL_SQS", &self.url).output().expect("the command runs"))
    }

    fn deleted(&self) -> Vec<String> {
        self.hidden.lock().expect("a lock").deleted.clone()
    }
}

fn message(id: &str, group: &str, body: &str) -> Value {
    let attributes =
        json!({ "MessageGroupId": group, "SequenceNumber": "1", "ApproximateReceiveCount": "3" });
    json!({ "MessageId": id, "ReceiptHandle": id, "Body": body, "Attributes": attributes })
}

#[test]
fn no_more_are_taken_from_a_queue_than_asked_for() {
    let (place, ids) = (place(), (1..=25).map(|number| number.to_string()));
    let queue = Queue::with(ids.map(|id| message(&id, &id, &format!("order {id}"))));
    let imported = queue.import(&place, &["--max", "12"]);
    assert_eq!(imported.code, 0, "{}", imported.said);
    assert!(imported.said.contains("12 imported"), "{}", imported.said);
    let hidden = queue.hidden.lock().expect("a lock");
    assert_eq!((&hidden.asked[..], hidden.deleted.len(), hidden.waiting.len()), (&[10, 2][..], 12, 13));
}

#[test]
fn what_is_behind_one_that_is_left_is_left_as_well() {
    let place = place();
    // Too large to be kept.
    let large = "x".repeat(400_000);
    let bodies =
        [("1", "a", large.as_str()), ("2", "a", "order 2"), ("3", "b", "order 3"), ("4", "a", "order 4")];
    let queue = Queue::with(bodies.map(|(id, group, body)| message(id, group, body)));
    let imported = queue.import(&place, &[]);
    assert_eq!(imported.code, 5, "{}", imported.said);
    assert!(imported.said.contains("1 imported; 3 left where they are"), "{}", imported.said);
    let line = "locker: 2: one before it of its group is left where it is, so this one is, too";
    assert!(imported.said.contains(line), "{}", imported.said);
    assert_eq!(queue.deleted(), ["3"]);
}
