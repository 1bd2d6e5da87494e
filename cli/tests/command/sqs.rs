//! A small server that plays Amazon SQS for the command.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use locker_tests::command::{Place, Ran};
use serde_json::{Value, json};

/// A queue that speaks as much of SQS as the command needs.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) url: String,
    pub(crate) kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
pub(crate) struct Kept {
    waiting: Vec<Value>,
    asked: Vec<(String, Value)>,
    pub(crate) refuses: Option<&'static str>,
    /// Refuses with this once it has nothing more to give.
    pub(crate) ends_with: Option<&'static str>,
}

impl Queue {
    pub(crate) fn start(waiting: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let kept = Arc::new(Mutex::new(Kept { waiting, ..Kept::default() }));
        let queue = Self { url, kept };
        let served = queue.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                std::thread::spawn(move || served.serve(&stream));
            }
        });
        queue
    }

    fn serve(&self, mut stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut target, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                let Some((name, value)) = line.trim_end().split_once(": ") else {
                    if line.trim_end().is_empty() { break } else { continue }
                };
                match name.to_ascii_lowercase().as_str() {
                    "x-amz-target" => target = value.rsplit('.').next()?.to_owned(),
                    "content-length" => length = value.parse().ok()?,
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let (status, reply) = self.reply(target, serde_json::from_slice(&body).ok()?);
            let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\n");
            let reply = format!("{head}content-length: {}\r\n\r\n{reply}", reply.len());
            stream.write_all(reply.as_bytes()).ok()?;
        }
    }

    fn reply(&self, target: String, asked: Value) -> (u16, String) {
        let mut kept = self.kept.lock().expect("no panic");
        let at_end = kept.ends_with.filter(|_| target == "ReceiveMessage" && kept.waiting.is_empty());
        let refuses = kept.refuses.or(at_end);
        let reply = match (target.as_str(), refuses) {
            (_, Some(code)) => json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "no" }),
            ("ReceiveMessage", None) => {
                let most = asked["MaxNumberOfMessages"].as_u64().unwrap_or(1) as usize;
                let most = most.min(kept.waiting.len());
                let mut taken: Vec<_> = kept.waiting.drain(..most).collect();
                // SQS returns what it is asked for.
                if asked["MessageSystemAttributeNames"] != json!(["All"]) {
                    taken.iter_mut().for_each(|it| it["Attributes"] = json!({}));
                }
                json!({ "Messages": taken })
            }
            ("SendMessageBatch", None) => {
                let entries = asked["Entries"].as_array().cloned().unwrap_or_default();
                let sent: Vec<_> = entries
                    .iter()
                    .map(|it| json!({ "Id": it["Id"], "MessageId": "m", "MD5OfMessageBody": "0" }))
                    .collect();
                json!({ "Successful": sent, "Failed": [] })
            }
            _ => json!({}),
        };
        let status = if refuses.is_some() { 400 } else { 200 };
        kept.asked.push((target, asked));
        (status, reply.to_string())
    }

    pub(crate) fn asked(&self, target: &str) -> Vec<Value> {
        let kept = self.kept.lock().expect("no panic");
        kept.asked.iter().filter(|(name, _)| name == target).map(|(_, asked)| asked.clone()).collect()
    }

    /// What was sent to the queue with this URL.
    pub(crate) fn sent(&self, url: &str) -> Vec<Value> {
        let batches = self.asked("SendMessageBatch").into_iter().filter(|it| it["QueueUrl"] == url);
        let entries = batches.flat_map(|it| it["Entries"].as_array().cloned().unwrap_or_default());
        entries
            .map(|it| serde_json::from_str(it["MessageBody"].as_str().expect("a body")).expect("JSON"))
            .collect()
    }
}

/// As a queue gives it, received seven times.
pub(crate) fn received(number: u32, more: &Value) -> Value {
    let mut attributes = json!({ "ApproximateReceiveCount": "7", "SentTimestamp": "1" });
    attributes.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({
        "MessageId": format!("m{number}"), "ReceiptHandle": format!("h{number}"), "Body": format!("order {number}"),
        "Attributes": attributes,
    })
}

pub(crate) fn import(place: &Place, queue: &Queue, more: &[&str]) -> Ran {
    let import = ["dead", "import", &queue.url, "--consumer", "packer"];
    let mut command = place.command(&[&import[..], more].concat());
    Ran::of(command.env("AWS_ENDPOINT_URL_SQS", &queue.url).output().expect("the command runs"))
}

pub(crate) fn relay(place: &Place, queue: &Queue, arguments: &[&str]) -> Ran {
    let mut command = place.command(&[&["relay"], arguments].concat());
    Ran::of(command.env("AWS_ENDPOINT_URL_SQS", &queue.url).output().expect("the command runs"))
}
