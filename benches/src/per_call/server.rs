//! The server, in a separate process, so that its work is not in the client's CPU time.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use locker_benches::canned::{Canned, Counts, counts};

/// A server that ends with this process.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Self {
        let this = std::env::current_exe().expect("this program");
        let mut child = Command::new(this)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("an address");
        Self { child, address: line.trim().parse().expect("an address") }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn counts(&self) -> Counts {
        counts(self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Serves until standard input ends, which is when the process that started this one ends.
pub(crate) fn serve() {
    crate::processors::stay_on(crate::processors::SERVER);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", Arc::new(Canned::default()).listen(listener, |stream| stream));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
