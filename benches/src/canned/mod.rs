//! A server of canned DynamoDB replies.
//!
//! It parses as little as possible, and runs in a separate process, so that its work does not count
//! as the client's. The caller of [`Canned::listen`] decides whether connections are encrypted.

mod replies;

pub use replies::{LARGE, SMALL};

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use replies::Replies;

/// The requests that a server received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The number of requests.
    pub requests: u64,
    /// The size of their bodies, in bytes.
    pub bytes: u64,
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { requests: self.requests - before.requests, bytes: self.bytes - before.bytes }
    }
}

/// The replies, and the counts of requests so far.
#[derive(Debug, Default)]
pub struct Canned {
    replies: Replies,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Canned {
    /// Serves a listener, with a thread for each connection, until the process ends.
    ///
    /// # Panics
    ///
    /// If it has no address.
    pub fn listen<S: Read + Write + 'static>(
        self: Arc<Self>,
        listener: TcpListener,
        accept: impl Fn(TcpStream) -> S + Send + Sync + Clone + 'static,
    ) -> SocketAddr {
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (canned, accept) = (Arc::clone(&self), accept.clone());
                std::thread::spawn(move || {
                    stream.set_nodelay(true).expect("a socket");
                    // A client that disconnects ends its connection, and nothing else.
                    let _ = canned.serve(accept(stream));
                });
            }
        });
        address
    }

    fn serve<S: Read + Write>(&self, stream: S) -> std::io::Result<()> {
        let mut stream = BufReader::with_capacity(64 * 1024, stream);
        let mut body = Vec::new();
        while let Some(head) = read_head(&mut stream)? {
            body.resize(head.length, 0);
            stream.read_exact(&mut body)?;
            let reply = match head.target.rsplit_once('.') {
                None => self.counts(),
                Some((_, operation)) => {
                    self.requests.fetch_add(1, Ordering::Relaxed);
                    self.bytes.fetch_add(head.length as u64, Ordering::Relaxed);
                    self.replies.to(operation, &String::from_utf8_lossy(&body))
                }
            };
            stream.get_mut().write_all(&reply)?;
            stream.get_mut().flush()?;
        }
        Ok(())
    }

    fn counts(&self) -> Vec<u8> {
        let (requests, bytes) = (self.requests.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        replies::http(200, &crate::answer::to_json(&Counts { requests, bytes }))
    }
}

/// Asks a server for its counts.
///
/// # Panics
///
/// If it does not answer.
#[must_use]
pub fn counts(server: SocketAddr) -> Counts {
    let mut stream = TcpStream::connect(server).expect("the server");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("the server");
    let mut stream = BufReader::new(stream);
    let head = read_head(&mut stream).expect("the server").expect("a reply");
    let mut body = vec![0; head.length];
    stream.read_exact(&mut body).expect("the server");
    serde_json::from_slice(&body).expect("counts")
}

#[derive(Default)]
struct Head {
    target: String,
    length: usize,
}

fn read_head(stream: &mut BufReader<impl Read>) -> std::io::Result<Option<Head>> {
    let (mut head, mut line) = (Head::default(), String::new());
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { return Ok(Some(head)) };
        if name.eq_ignore_ascii_case("content-length") {
            head.length = value.parse().map_err(std::io::Error::other)?;
        } else if name.eq_ignore_ascii_case("x-amz-target") {
            value.clone_into(&mut head.target);
        }
    }
}
