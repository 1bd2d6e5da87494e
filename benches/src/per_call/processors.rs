//! Separate processors for client and server.
//!
//! By default, the kernel puts the two ends of one connection on one processor and those of another
//! on two, and a call costs half as much again on the one as on the other, whichever side makes it.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Pins this thread, and those that it starts, to one processor, if there are several.
pub(crate) fn stay_on(processor: usize) {
    if count() > 1 {
        stay(&[processor]);
    }
}

/// Unpins this thread, and those that it starts.
pub(crate) fn stay_on_any() {
    stay(&(0..count()).collect::<Vec<_>>());
}

fn stay(processors: &[usize]) {
    let mut set = CpuSet::new();
    for processor in processors {
        let _ = set.set(*processor);
    }
    // A container may not allow it; then the figures are noisier, but still valid.
    let _ = sched_setaffinity(Pid::from_raw(0), &set);
}

fn count() -> usize {
    // All processors, whichever this thread is pinned to.
    nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN)
        .ok()
        .flatten()
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(1)
}
