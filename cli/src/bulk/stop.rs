//! Ctrl-C while a plan is run: once to stop it, and twice to end at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::output;

/// The exit code of a command that Ctrl-C ended, as a shell reports it.
const INTERRUPTED: i32 = 130;

/// Returns a flag that the first Ctrl-C sets. The second one ends the process. `again`: the command
/// that continues the work.
pub(crate) fn on_interrupt(again: String) -> Result<Arc<AtomicBool>, Exit> {
    let mut interrupts = signal(SignalKind::interrupt())
        .map_err(|error| Exit::say(Exit::FAILED, format!("cannot wait for signals: {error}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&stop);
    tokio::spawn(async move {
        wait(&mut interrupts).await;
        heard.store(true, Ordering::SeqCst);
        output::end_line();
        output::say("stopping when the acts under way have ended; Ctrl-C again ends at once");
        wait(&mut interrupts).await;
        output::end_line();
        output::say(format_args!(
            "ended at once; acts under way may be done, which a new run finds out: {again}"
        ));
        std::process::exit(INTERRUPTED);
    });
    Ok(stop)
}

async fn wait(interrupts: &mut Signal) {
    if interrupts.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}
