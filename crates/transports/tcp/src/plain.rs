//! TCP with nothing on top.

use std::{
    io::IoSlice,
    mem::MaybeUninit,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use regatta_model::reason;
use regatta_transport::{
    ByteStream, HandshakeMade, MonotonicTime, Received, Result, TransportError,
};

use crate::{
    layered::{Layered, Opened},
    pages::Pages,
    socket::Connected,
};

/// Longest message that is copied behind its header, in bytes: a system call with one buffer costs less than one with a list
/// of them by more than the copy costs.
pub(crate) const COPIED_BYTES: usize = 4096;

/// Maximum number of bytes that a system call discards.
const DISCARDED_BYTES: usize = 1 << 20;

/// Makes a stream of a connected socket. `holds_back` is true if Nagle's algorithm may be on, `zero_copy` if messages that
/// repeat are sent without a copy.
pub(crate) fn open(
    socket: Arc<Connected>,
    holds_back: bool,
    zero_copy: bool,
) -> Layered<PlainStream> {
    Layered {
        stream: PlainStream {
            socket,
            holds_back,
            pages: zero_copy.then(Pages::default),
            message: Vec::new(),
            discarded: Vec::new(),
        },
        opened: Arc::new(OnceLock::from(Opened {
            handshake: Some(HandshakeMade::Full),
            ..Opened::default()
        })),
    }
}

/// A socket as a stream of bytes.
pub struct PlainStream {
    socket: Arc<Connected>,
    /// Whether Nagle's algorithm is on, so that a flush has something to do.
    holds_back: bool,
    /// Payload that is sent without a copy.
    pages: Option<Pages>,
    /// A short message with its header.
    message: Vec<u8>,
    /// Room that a system call which discards is given, and that nothing is written into.
    discarded: Vec<MaybeUninit<u8>>,
}

impl ByteStream for PlainStream {
    async fn send_message(&mut self, header: &[u8], payload: &Bytes) -> Result<()> {
        if header.len() + payload.len() <= COPIED_BYTES {
            self.message.clear();
            self.message.extend_from_slice(header);
            self.message.extend_from_slice(payload);
            return self.socket.send_bytes(&self.message, 0);
        }
        if let Some(pages) = &mut self.pages {
            let failed = TransportError::io(reason::cannot_send());
            if let Some(spliced) = pages.of(payload).map_err(failed)? {
                return self.socket.send_pages(header, spliced);
            }
        }
        self.socket
            .send_all(&mut [IoSlice::new(header), IoSlice::new(payload)])
    }

    async fn flush(&mut self) -> Result<()> {
        self.socket.flush(self.holds_back)
    }

    async fn receive(
        &mut self,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<Received> {
        let received = self.socket.receive(scratch, until)?;
        if let Received::Bytes(bytes) = received {
            consume(&scratch[..bytes]);
        }
        Ok(received)
    }

    async fn discard(
        &mut self,
        _scratch: &mut [u8],
        most: u64,
        until: MonotonicTime,
    ) -> Result<Received> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let most = most.min(DISCARDED_BYTES);
        if self.discarded.is_empty() {
            self.discarded = vec![MaybeUninit::uninit(); DISCARDED_BYTES];
        }
        self.socket.discard(&mut self.discarded[..most], until)
    }

    async fn finish(&mut self) -> Result<()> {
        self.socket.finish()
    }
}
