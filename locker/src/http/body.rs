//! The body of a response, of which nothing, a part or everything was read.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;

use crate::error::BoxError;

/// The body of a response: bytes already read or stored, followed by the rest of the handler's
/// body.
#[derive(Debug)]
pub struct Body<B> {
    first: Option<Bytes>,
    rest: Option<Pin<Box<B>>>,
}

impl<B> Body<B> {
    /// A body of which nothing was read.
    pub(super) fn all(body: B) -> Self {
        Self { first: None, rest: Some(Box::pin(body)) }
    }

    /// A body that is complete in memory.
    pub(super) const fn read(bytes: Bytes) -> Self {
        Self { first: Some(bytes), rest: None }
    }
}

impl<B: HttpBody<Data = Bytes>> HttpBody for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let body = self.get_mut();
        match (body.first.take(), &mut body.rest) {
            (Some(first), _) if !first.is_empty() => Poll::Ready(Some(Ok(Frame::data(first)))),
            (_, Some(rest)) => rest.as_mut().poll_frame(context),
            (_, None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.as_ref().is_none_or(Bytes::is_empty)
            && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().map_or(0, Bytes::len) as u64;
        let Some(rest) = &self.rest else { return SizeHint::with_exact(first) };
        let rest = rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(first.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(first.saturating_add(upper));
        }
        hint
    }
}

/// What is known of a body.
pub(super) enum Content<B> {
    /// It was not read, because nothing of it is stored.
    Unread(Body<B>),
    All(Bytes),
    /// Larger than the limit: the bytes read, and the rest.
    TooLarge(Body<B>),
    Broken(BoxError),
}

/// Read a body completely, up to a limit.
pub(super) async fn read<B>(body: B, limit: usize) -> Content<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = Box::pin(body);
    let mut bytes = BytesMut::new();
    if usize::try_from(body.size_hint().lower()).is_ok_and(|size| size > limit) {
        return Content::TooLarge(Body { first: None, rest: Some(body) });
    }
    loop {
        match body.frame().await {
            None => return Content::All(bytes.freeze()),
            Some(Err(error)) => return Content::Broken(error.into()),
            Some(Ok(frame)) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
        }
        if bytes.len() > limit {
            return Content::TooLarge(Body { first: Some(bytes.freeze()), rest: Some(body) });
        }
    }
}
