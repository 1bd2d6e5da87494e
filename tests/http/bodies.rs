//! Bodies that do not end, and bodies that are not to be read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use locker::BoxError;

type Polled = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

/// A body that sends nothing, and notes that it was dropped.
pub(super) struct Endless(pub(super) Arc<AtomicBool>);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Body for Endless {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Polled {
        Poll::Pending
    }
}

/// A body of a declared length, which notes that it was read.
pub(super) struct Declared(pub(super) u64, pub(super) Arc<AtomicBool>);

impl Body for Declared {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Polled {
        self.1.store(true, Ordering::SeqCst);
        Poll::Ready(None)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}
