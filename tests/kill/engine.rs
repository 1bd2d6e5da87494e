//! The engine: a process of its own over a file, which dies like any other and comes back.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::process::Child;

use crate::process;

/// Serve the engine over a file.
pub(crate) async fn serve(file: &Path, port: u16) -> ExitCode {
    let database = dynoxide::Database::new(file.to_str().expect("a path in UTF-8")).expect("an engine");
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("the port");
    dynoxide::server::serve_on(listener, database).await;
    ExitCode::SUCCESS
}

/// The process.
#[derive(Debug)]
pub(crate) struct Engine {
    child: Child,
    file: PathBuf,
    port: u16,
}

impl Engine {
    pub(crate) async fn start(directory: &Path) -> Self {
        // A port that was free a moment ago, and the same for every life of the engine.
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let file = directory.join("engine.db");
        let engine = Self { child: spawn(&file, port), file, port };
        engine.ready().await;
        engine
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// SIGKILL, a pause, and the same file again.
    pub(crate) async fn crash(&mut self, pause: Duration) {
        self.child.kill().await.expect("the engine is killed");
        tokio::time::sleep(pause).await;
        self.child = spawn(&self.file, self.port);
        self.ready().await;
    }

    async fn ready(&self) {
        for _ in 0..1000 {
            if tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the engine does not listen");
    }
}

fn spawn(file: &Path, port: u16) -> Child {
    let mut command = process::own_role();
    command.arg("engine").arg(file).arg(port.to_string());
    command.spawn().expect("the engine starts")
}
