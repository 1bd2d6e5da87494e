//! Output that is passed on unchanged, and kept in bounded memory.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;

use crate::output;

/// As much as a pipe of Linux holds.
const CHUNK: usize = 64 * 1024;

/// The most output that is read ahead of a slow reader when the command has ended. A pipe holds
/// less, so all that the command wrote is kept.
const AHEAD: usize = 2 * 1024 * 1024;

/// Keeps a part of the output that passes.
pub(super) trait Keep {
    fn keep(&mut self, bytes: &[u8]);
}

/// A pipe from a command.
#[derive(Debug)]
pub(super) struct Pipe<K> {
    pub(super) kept: K,
    /// Whether a writer has it open, so that more may come.
    pub(super) is_open: bool,
}

impl<K> Pipe<K> {
    pub(super) const fn of(kept: K) -> Mutex<Self> {
        Mutex::new(Self { kept, is_open: true })
    }
}

/// How much passed, and whether more may come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) total: u64,
    pub(super) is_open: bool,
}

/// The start of the output, and how many bytes passed.
#[derive(Debug)]
pub(super) struct Start {
    bytes: Vec<u8>,
    total: u64,
    most: usize,
}

impl Start {
    pub(super) const fn of(most: usize) -> Self {
        Self { bytes: Vec::new(), total: 0, most }
    }
}

impl Keep for Start {
    fn keep(&mut self, bytes: &[u8]) {
        let room = self.most - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.total += bytes.len() as u64;
    }
}

impl Pipe<Start> {
    /// Returns the bytes that were kept so far. Later bytes are only counted.
    pub(super) fn take(&mut self) -> (Vec<u8>, Length) {
        self.kept.most = 0;
        let length = Length { total: self.kept.total, is_open: self.is_open };
        (std::mem::take(&mut self.kept.bytes), length)
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

/// Passes everything on until the last writer is done, even if the reader has gone away or the disk
/// is full.
///
/// While the command runs, a slow reader slows it down, as without this process. The sender of
/// `ended` is dropped when the command has ended.
pub(super) async fn pass(
    mut from: Option<impl AsyncRead + Unpin>,
    mut to: impl AsyncWrite + Unpin,
    pipe: &Mutex<Pipe<impl Keep>>,
    mut ended: watch::Receiver<()>,
) {
    let mut chunk = vec![0; CHUNK];
    let (mut waiting, mut most, mut is_flushed) = (VecDeque::new(), 1, true);
    loop {
        locked(pipe).is_open = from.is_some();
        if from.is_none() && waiting.is_empty() && is_flushed {
            break;
        }
        tokio::select! {
            biased;
            _ = ended.changed(), if most < AHEAD => most = AHEAD,
            read = read(&mut from, &mut chunk), if from.is_some() && waiting.len() < most => {
                locked(pipe).kept.keep(&chunk[..read]);
                waiting.extend(&chunk[..read]);
            }
            written = write(&mut to, waiting.as_slices().0), if !waiting.is_empty() || !is_flushed => {
                is_flushed = waiting.is_empty();
                waiting.drain(..written);
            }
        }
    }
}

/// Writes a part, and returns its length. Without bytes, it flushes: a prompt does not end with a
/// line.
async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> usize {
    if bytes.is_empty() {
        output::note_passed(to.flush().await);
        return 0;
    }
    match to.write(bytes).await {
        Ok(written @ 1..) => written,
        // The rest cannot be passed on, and the command must not wait for it.
        failed => {
            output::note_passed(failed.map(|_| ()));
            bytes.len()
        }
    }
}

/// Reads the next part. At the end, it returns 0 and `from` is empty.
async fn read(from: &mut Option<impl AsyncRead + Unpin>, chunk: &mut [u8]) -> usize {
    let Some(open) = from else { return 0 };
    let read = open.read(chunk).await.unwrap_or(0);
    if read == 0 {
        *from = None;
    }
    read
}

pub(super) fn locked<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    #[test]
    fn the_start_and_the_end_have_a_limit() {
        let mut start = Pipe { kept: Start::of(5), is_open: true };
        let mut end = End::of(5);
        for bytes in ["ab", "", "cdefghij", "k"] {
            start.kept.keep(bytes.as_bytes());
            end.keep(bytes.as_bytes());
        }
        assert_eq!(end.text(), "ghijk");
        assert_eq!(start.take(), (b"abcde".to_vec(), Length { total: 11, is_open: true }));
        start.kept.keep(b"later");
        start.is_open = false;
        assert_eq!(start.take(), (Vec::new(), Length { total: 16, is_open: false }));
    }

    /// Nobody reads what is passed on.
    #[tokio::test]
    async fn all_that_a_command_wrote_is_kept_when_it_has_ended() {
        let (mut command, from) = tokio::io::duplex(CHUNK);
        let (to, mut reader) = tokio::io::duplex(10);
        let pipe = Pipe::of(Start::of(3 * CHUNK));
        let (runs, ended) = watch::channel(());
        let writes = async {
            let written = command.write(&vec![7; 2 * CHUNK]).await.unwrap();
            let more = command.write(&vec![7; 2 * CHUNK]).await.unwrap();
            let full = std::future::poll_fn(|context| {
                let polled = Pin::new(&mut command).poll_write(context, &[7]);
                std::task::Poll::Ready(polled.is_pending())
            });
            assert!(full.await, "a command that runs waits for its reader");
            drop((command, runs));
            written + more
        };
        let reads = async {
            while locked(&pipe).is_open {
                tokio::task::yield_now().await;
            }
            let length = locked(&pipe).take().1;
            let mut passed = Vec::new();
            reader.read_to_end(&mut passed).await.unwrap();
            (length, passed.len())
        };
        let ((), written, (length, passed)) = tokio::join!(pass(Some(from), to, &pipe, ended), writes, reads);
        assert_eq!((length, passed), (Length { total: written as u64, is_open: false }, written));
        assert_eq!(written, 2 * CHUNK);
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
