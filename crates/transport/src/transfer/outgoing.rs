//! Content to send: a range of bytes that several threads can read at any offset.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use regatta_model::reason;

use bytes::BytesMut;
use parking_lot::Mutex;

use super::Content;
use crate::{
    clock::MonotonicTime,
    content::{noise::Noise, plan::Plan, stream_check::encode_header},
    context::LiveCounters,
    error::{Result, TransportError},
    trial::warm_up::WarmUp,
};

/// Approximate bytes of whole messages that lie ready for a part, so that they need not be copied.
const WINDOW_BYTES: usize = 256 << 10;

/// Bytes that are read at a time where a digest has to be made again.
const PIECE_BYTES: usize = 256 << 10;

/// The content of a transfer.
pub struct Outgoing {
    pub(super) plan: Plan,
    /// File that the content is read from, where there is one.
    pub(super) noise: Option<Arc<Noise>>,
    live: Arc<LiveCounters>,
    /// Bytes read so far; those that had to be sent again count again.
    read: AtomicU64,
    /// Digests of the parts that were read, by their offsets; absent where the order has none.
    pub(super) digests: Option<Mutex<BTreeMap<u64, (u64, crc32fast::Hasher)>>>,
    warm_up: Arc<WarmUp>,
}

impl Outgoing {
    pub(super) fn new(
        content: Content,
        live: &Arc<LiveCounters>,
        warm_up: &Arc<WarmUp>,
    ) -> Arc<Self> {
        Arc::new(Self {
            plan: content.plan,
            noise: content.noise,
            live: Arc::clone(live),
            read: AtomicU64::new(0),
            digests: content.digest.then(Mutex::default),
            warm_up: Arc::clone(warm_up),
        })
    }

    /// Returns the size of the content, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.plan.size
    }

    /// Makes a part of the content that is read front to back, from offset `start` on.
    #[must_use]
    pub fn part(self: &Arc<Self>, start: u64) -> OutgoingPart {
        OutgoingPart {
            outgoing: Arc::clone(self),
            start,
            at: start,
            digest: self.digests.is_some().then(crc32fast::Hasher::new),
            window: Window::new(&self.plan, self.noise.is_some()),
        }
    }

    fn count(&self, bytes: usize) {
        self.warm_up.is_over(MonotonicTime::now());
        let bytes = bytes as u64;
        let read = self.read.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let sent = read.min(self.plan.size);
        let messages = match sent == self.plan.size {
            true => self.plan.count,
            false => sent / self.plan.message as u64,
        };
        // Of two threads the slower one must not take back what the other one counted.
        let live = &self.live;
        live.messages_sent.fetch_max(messages, Ordering::Relaxed);
        live.bytes_sent.fetch_max(sent, Ordering::Relaxed);
    }

    /// Fills `buffer` with the bytes from `offset` on, which are within the content.
    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if let Some(noise) = &self.noise {
            let mut memory = BytesMut::new();
            buffer.copy_from_slice(&noise.read(&mut memory, offset, buffer.len())?);
        }
        let mut done = 0;
        while done < buffer.len() {
            let (sequence, within) = self.plan.locate(offset + done as u64);
            let length = self.plan.length(sequence);
            let taken = (buffer.len() - done).min(length - within);
            let part = &mut buffer[done..done + taken];
            if self.noise.is_none() {
                part.copy_from_slice(&self.plan.content[within..within + taken]);
            }
            let header = Plan::header(length);
            if within < header {
                let end = header.min(within + taken);
                let bytes = encode_header(&self.plan, sequence, length);
                part[..end - within].copy_from_slice(&bytes[within..end]);
            }
            done += taken;
        }
        Ok(())
    }

    /// Returns the CRC-32 of everything that was sent; zero where the order has no digests.
    pub(super) fn digest(&self) -> Result<u64> {
        let Some(digests) = &self.digests else {
            return Ok(0);
        };
        let mut combined = crc32fast::Hasher::new();
        let mut end = 0;
        for (start, (length, digest)) in digests.lock().iter() {
            if *start != end {
                // A part was cut and sent again from another place: what was read of it overlaps.
                return self.digest_again();
            }
            combined.combine(digest);
            end += length;
        }
        if end != self.plan.size {
            return self.digest_again();
        }
        Ok(combined.finalize().into())
    }

    fn digest_again(&self) -> Result<u64> {
        let mut digest = crc32fast::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut offset = 0;
        while offset < self.plan.size {
            let length = (self.plan.size - offset).min(PIECE_BYTES as u64);
            let piece = &mut piece[..length as usize];
            self.fill(offset, piece)?;
            digest.update(piece);
            offset += length;
        }
        Ok(digest.finalize().into())
    }
}

/// Whole messages that lie in memory one after another; only their headers change.
struct Window {
    bytes: Vec<u8>,
    /// Number of messages in the window.
    messages: u64,
    /// Number of the message that is first in the window; `None` before the window is filled.
    first: Option<u64>,
}

impl Window {
    /// Creates a window. `None` for messages of a file, for messages longer than [`WINDOW_BYTES`], and for a transfer
    /// that is not longer than that.
    fn new(plan: &Plan, from_file: bool) -> Option<Self> {
        let fits = plan.message <= WINDOW_BYTES && !from_file && plan.size > WINDOW_BYTES as u64;
        fits.then(|| Self {
            bytes: Vec::new(),
            messages: (WINDOW_BYTES / plan.message) as u64,
            first: None,
        })
    }

    /// Returns the bytes from `offset` on, up to the end of the window that they lie in; `None` for
    /// the last message and those beside it, the last one being shorter.
    fn at(&mut self, plan: &Plan, offset: u64) -> Option<&[u8]> {
        let (sequence, _) = plan.locate(offset);
        let first = sequence - sequence % self.messages;
        if first + self.messages >= plan.count {
            return None;
        }
        if self.bytes.is_empty() {
            self.bytes = plan.content.repeat(self.messages as usize);
        }
        if self.first != Some(first) {
            let header = Plan::header(plan.message);
            for number in 0..self.messages {
                let start = number as usize * plan.message;
                let bytes = encode_header(plan, first + number, plan.message);
                self.bytes[start..start + header].copy_from_slice(&bytes[..header]);
            }
            self.first = Some(first);
        }
        let within = offset - first * plan.message as u64;
        self.bytes.get(within as usize..)
    }
}

/// A part of the content, read front to back by one thread.
pub struct OutgoingPart {
    outgoing: Arc<Outgoing>,
    start: u64,
    at: u64,
    digest: Option<crc32fast::Hasher>,
    window: Option<Window>,
}

impl OutgoingPart {
    /// Gives the bytes at this place, at least one and at most `max`, uncopied where they lie in
    /// memory, else read into `scratch`, which then sets the limit.
    ///
    /// # Errors
    /// The error of the file system; [`TransportError::Protocol`] beyond the end.
    pub fn read<'a>(
        &'a mut self,
        offset: u64,
        max: usize,
        scratch: &'a mut [u8],
    ) -> Result<&'a [u8]> {
        let Self {
            outgoing,
            start,
            at,
            digest,
            window,
        } = self;
        let left = outgoing.plan.size.saturating_sub(offset);
        let max = usize::try_from(left).unwrap_or(usize::MAX).min(max);
        if max == 0 {
            let what = reason::wrong_byte_asked(offset, outgoing.plan.size);
            return Err(TransportError::protocol(what));
        }
        let window = window.as_mut();
        let ready = window.and_then(|window| window.at(&outgoing.plan, offset));
        let bytes = match ready {
            Some(ready) => &ready[..ready.len().min(max)],
            None => {
                let length = scratch.len().min(max);
                let buffer = &mut scratch[..length];
                outgoing.fill(offset, buffer)?;
                buffer
            }
        };
        if offset != *at {
            // Somebody went back, or left something out: what was digested is another part.
            *start = offset;
            *digest = digest.as_ref().map(|_| crc32fast::Hasher::new());
        }
        *at = offset + bytes.len() as u64;
        if let Some(digest) = digest {
            digest.update(bytes);
        }
        outgoing.count(bytes.len());
        Ok(bytes)
    }
}

impl Drop for OutgoingPart {
    fn drop(&mut self) {
        if let (Some(digests), Some(digest)) = (&self.outgoing.digests, self.digest.take())
            && self.at > self.start
        {
            digests
                .lock()
                .insert(self.start, (self.at - self.start, digest));
        }
    }
}
