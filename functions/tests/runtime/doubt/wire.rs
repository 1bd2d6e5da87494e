//! A provider that is written on the socket, to misbehave below HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the provider does with a request: its bytes on the wire, or nothing before it closes.
pub(crate) type Script = fn(&Asked) -> Option<String>;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Such as `POST /charges`.
    pub(crate) what: String,
    /// The idempotency key.
    pub(crate) key: String,
    /// The trace that it is part of.
    pub(crate) trace: String,
    /// The credential.
    pub(crate) authorization: String,
    /// How many requests the connection had brought before.
    pub(crate) before: usize,
}

/// The provider, and what it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Wire {
    pub(crate) async fn new(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let wire = Self { url, asked: Arc::default() };
        let provider = wire.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let provider = provider.clone();
                tokio::spawn(async move { provider.serve(connection, script).await });
            }
        });
        wire
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("the requests").clone()
    }

    async fn serve(&self, connection: TcpStream, script: Script) {
        let mut connection = BufReader::new(connection);
        for before in 0.. {
            let Some(asked) = read(&mut connection, before).await else { return };
            self.asked.lock().expect("the requests").push(asked.clone());
            let Some(answer) = script(&asked) else { return };
            if connection.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Read a whole request. `None`: the connection was closed.
async fn read(connection: &mut BufReader<TcpStream>, before: usize) -> Option<Asked> {
    let mut line = String::new();
    connection.read_line(&mut line).await.ok().filter(|bytes| *bytes > 0)?;
    let what = line.rsplit_once(' ')?.0.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut take = |name: &str| headers.remove(name).unwrap_or_default();
    let length = take("content-length").parse().unwrap_or_default();
    connection.read_exact(&mut vec![0; length]).await.ok()?;
    let (key, trace) = (take("idempotency-key"), take("x-amzn-trace-id"));
    Some(Asked { what, key, trace, authorization: take("authorization"), before })
}

/// An answer with a status, a header and a JSON body, on a connection that stays open.
pub(crate) fn answer(status: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{header}\r\n{body}"
    )
}
