//! Bodies, and how much of a body is read before its request or its response is passed on.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::error::BoxError;

/// The body of a response: bytes already read or stored, followed by the rest of the handler's
/// body.
#[derive(Debug)]
pub struct Body {
    first: Bytes,
    rest: Option<UnsyncBoxBody<Bytes, BoxError>>,
    trailers: Option<HeaderMap>,
}

impl Body {
    /// A body of which nothing was read.
    pub(super) fn unread<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let rest = body.map_err(Into::into).boxed_unsync();
        Self { first: Bytes::new(), rest: Some(rest), trailers: None }
    }

    /// A body that is complete in memory.
    pub(super) const fn read(bytes: Bytes) -> Self {
        Self { first: bytes, rest: None, trailers: None }
    }

    /// The frames of a body, as another task passes them on. `size` is the size hint of the body.
    pub(super) fn relayed(frames: mpsc::Receiver<Result<Frame<Bytes>, BoxError>>, size: SizeHint) -> Self {
        Self::unread(Relayed { frames, passed: 0, size })
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let body = self.get_mut();
        if !body.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut body.first)))));
        }
        match &mut body.rest {
            Some(rest) => Pin::new(rest).poll_frame(context),
            None => Poll::Ready(body.trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        let rest_has_ended = self.rest.as_ref().is_none_or(HttpBody::is_end_stream);
        self.first.is_empty() && self.trailers.is_none() && rest_has_ended
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.len() as u64;
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

struct Relayed {
    frames: mpsc::Receiver<Result<Frame<Bytes>, BoxError>>,
    passed: u64,
    size: SizeHint,
}

impl HttpBody for Relayed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = self.frames.poll_recv(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.passed += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
        }
        polled
    }

    fn size_hint(&self) -> SizeHint {
        let mut left = SizeHint::new();
        left.set_lower(self.size.lower().saturating_sub(self.passed));
        if let Some(upper) = self.size.upper() {
            left.set_upper(upper.saturating_sub(self.passed));
        }
        left
    }
}

/// A body that was read completely.
#[derive(Debug, Default)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

impl From<Whole> for Body {
    fn from(Whole { bytes, trailers }: Whole) -> Self {
        Self { first: bytes, rest: None, trailers }
    }
}

/// The result of reading a body.
pub(super) enum Read {
    Whole(Whole),
    /// Larger than the limit: the bytes read, and the rest.
    TooLarge(Body),
    /// It did not end in time: the bytes read, and the rest.
    Late(Body),
    Broken(BoxError),
}

/// Reads a body completely, up to a limit of bytes. `within` limits the time.
pub(super) async fn read<B>(body: B, limit: usize, within: Option<Duration>) -> Read
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut rest = body.map_err(Into::into).boxed_unsync();
    let part = |read: &[Bytes], rest| Body { first: read.concat().into(), rest: Some(rest), trailers: None };
    // A length that is declared is known before anything is read.
    if usize::try_from(rest.size_hint().lower()).is_ok_and(|size| size > limit) {
        return Read::TooLarge(part(&[], rest));
    }
    let until = within.map(|within| Instant::now() + within);
    let (mut read, mut size, mut trailers) = (Vec::new(), 0, None::<HeaderMap>);
    loop {
        let frame = match until {
            None => rest.frame().await,
            Some(until) => match timeout_at(until, rest.frame()).await {
                Ok(frame) => frame,
                Err(_) => return Read::Late(part(&read, rest)),
            },
        };
        match frame {
            None => break,
            Some(Err(error)) => return Read::Broken(error),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) => {
                    size += bytes.len();
                    read.push(bytes);
                }
                Err(frame) => {
                    if let Ok(more) = frame.into_trailers() {
                        trailers.get_or_insert_default().extend(more);
                    }
                }
            },
        }
        if size > limit {
            return Read::TooLarge(part(&read, rest));
        }
    }
    // A body of one frame, which most are, is not copied.
    let bytes = if read.len() == 1 { read.remove(0) } else { read.concat().into() };
    Read::Whole(Whole { bytes, trailers })
}

/// A body in memory for a handler: as text if it is UTF-8, because a body of `lambda_http`
/// is either text or bytes.
pub(super) fn rebuilt<B: Default + From<String> + From<Vec<u8>>>(bytes: Bytes) -> B {
    if bytes.is_empty() {
        return B::default();
    }
    match String::from_utf8(bytes.into()) {
        Ok(text) => text.into(),
        Err(error) => error.into_bytes().into(),
    }
}
