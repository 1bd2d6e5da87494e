//! Output that is passed on unchanged, and kept in bounded memory.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// As much as a pipe of Linux holds.
const CHUNK: usize = 64 * 1024;

/// Keeps a part of the output that passes.
pub(super) trait Keep {
    fn keep(&mut self, bytes: &[u8]);

    /// The last writer has closed it.
    fn close(&mut self) {}
}

/// How much passed, and whether more may come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) total: u64,
    pub(super) is_open: bool,
}

/// The start of the output, and its length.
#[derive(Debug)]
pub(super) struct Start {
    bytes: Vec<u8>,
    length: Length,
    most: usize,
}

impl Start {
    pub(super) const fn of(most: usize) -> Self {
        Self { bytes: Vec::new(), length: Length { total: 0, is_open: true }, most }
    }

    /// Returns the bytes that were kept so far. Later bytes are only counted.
    pub(super) fn take(&mut self) -> (Vec<u8>, Length) {
        self.most = 0;
        (std::mem::take(&mut self.bytes), self.length)
    }
}

impl Keep for Start {
    fn keep(&mut self, bytes: &[u8]) {
        let room = self.most - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.length.total += bytes.len() as u64;
    }

    fn close(&mut self) {
        self.length.is_open = false;
    }
}

/// The end of what passed.
#[derive(Debug)]
pub(super) struct End {
    bytes: VecDeque<u8>,
    most: usize,
}

impl End {
    pub(super) const fn of(most: usize) -> Self {
        Self { bytes: VecDeque::new(), most }
    }

    /// Returns the end as text. It begins at the start of a line, unless one line is longer than
    /// the kept part.
    pub(super) fn text(&self) -> String {
        let is_cut = self.bytes.len() == self.most;
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let line = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let from = if is_cut { line.filter(|start| *start < bytes.len()).unwrap_or(0) } else { 0 };
        let mut text = String::from_utf8_lossy(&bytes[from..]).into_owned();
        // A replacement is longer than the byte that it stands for.
        while text.len() > self.most {
            text.remove(0);
        }
        text
    }
}

impl Keep for End {
    fn keep(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.most)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(self.most);
        self.bytes.drain(..excess);
        self.bytes.extend(bytes);
    }
}

/// Passes everything on until the last writer is done, even if the reader has gone away.
pub(super) async fn pass(
    from: Option<impl AsyncRead + Unpin>,
    mut to: impl AsyncWrite + Unpin,
    kept: &Mutex<impl Keep>,
) {
    if let Some(mut from) = from {
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            locked(kept).keep(&chunk[..read]);
            if to.write_all(&chunk[..read]).await.is_ok() {
                let _ = to.flush().await;
            }
        }
    }
    locked(kept).close();
}

pub(super) fn locked<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_end_have_a_limit() {
        let (mut start, mut end) = (Start::of(5), End::of(5));
        for bytes in ["ab", "", "cdefghij", "k"] {
            start.keep(bytes.as_bytes());
            end.keep(bytes.as_bytes());
        }
        assert_eq!(end.text(), "ghijk");
        assert_eq!(start.take(), (b"abcde".to_vec(), Length { total: 11, is_open: true }));
        start.keep(b"later");
        start.close();
        assert_eq!(start.take(), (Vec::new(), Length { total: 16, is_open: false }));
    }

    #[test]
    fn the_end_begins_with_a_line() {
        let end = |text: &[u8]| {
            let mut end = End::of(8);
            end.keep(text);
            end.text()
        };
        assert_eq!(end(b"one\ntwo\n"), "two\n");
        assert_eq!(end(b"one\n"), "one\n");
        assert_eq!(end(b"a long line\n"), "ng line\n");
        assert!(end(&[255; 20]).len() <= 8);
    }
}
