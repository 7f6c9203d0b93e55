//! An association, of the kernel or in user space.

use std::{future::Future, io, sync::Arc};

use bytes::Bytes;
use regatta_model::reason;
#[cfg(feature = "userspace")]
use regatta_model::{Problem, Text};
use regatta_transport::{Abort, MonotonicTime, Result, StatisticsSource, TransportError};

/// Longest user message of a stream, in bytes; a longer one of the workload is sent as several. Short
/// enough that a stream does not wait long for another one's message, long enough that a call is
/// cheap beside it.
pub(crate) const LONGEST_STREAM_MESSAGE_BYTES: usize = 64 << 10;

/// Stream of an association that carries a flow of messages: the first of the connecting end.
pub(crate) const MESSAGES: u16 = 0;

/// Error of a wait for datagrams of which no more come: the other end has closed the association, or was stopped.
pub(crate) const CLOSED_BY_PEER: TransportError = TransportError::Closed { flow: "probe" };

/// Congestion control of both stacks, which cannot be chosen: slow start, congestion avoidance and
/// fast retransmit of RFC 4960 §7, which RFC 9260 keeps.
pub(crate) const CONGESTION_CONTROL: &str = "rfc9260";

/// Returns the number of a stream of an association with this many each way: those of the connecting end rise from zero,
/// those of the listening end fall from the highest. Also the other way round: of the number, the index.
pub(crate) fn number(by_connecting: bool, index: u16, streams: u16) -> u16 {
    match by_connecting {
        true => index,
        false => streams.saturating_sub(1).saturating_sub(index),
    }
}

/// An association as connections, streams and flows use it.
pub(crate) trait Association: Abort + Send + Sync + 'static {
    /// Memory that a stream or a flow keeps between calls.
    type Memory: Default + Send;

    /// Maximum number of messages that a flow is handed at once.
    const BATCH_MESSAGES: usize;

    /// Returns the source of the association's statistics, which does not keep it open. `side` is the
    /// end's name.
    fn statistics(self: &Arc<Self>, side: &'static str) -> Arc<dyn StatisticsSource>;

    /// Opens the next stream of this end.
    fn open_stream(&self) -> Result<u16>;

    /// Prepares the connecting end of a flow of messages.
    fn open_flow(&self) -> Result<()> {
        Ok(())
    }

    /// Waits for the next stream that the other end opens, in the order of opening.
    fn accept_stream(&self) -> impl Future<Output = Result<u16>>;

    /// Hands a user message, `head` first, to the stack when it is the stream's turn.
    fn write(
        &self,
        id: u16,
        memory: &mut Self::Memory,
        head: &[u8],
        body: Bytes,
    ) -> impl Future<Output = Result<()>>;

    /// Sends what was written and is held back in this process.
    fn flush(&self, memory: &mut Self::Memory);

    /// Ends this end's direction of a stream.
    fn finish(&self, id: u16) -> impl Future<Output = Result<()>>;

    /// Waits for data of a stream until `until`, and passes it to `consume`; returns its bytes, zero at
    /// the end of the direction, `None` if the moment has come.
    fn read(
        &self,
        id: u16,
        memory: &mut Self::Memory,
        scratch: &mut [u8],
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> impl Future<Output = Option<Result<usize>>>;

    /// Waits for whole messages of a flow, as [`Association::read`]; returns their number.
    fn read_messages(
        &self,
        memory: &mut Self::Memory,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> impl Future<Output = Option<Result<usize>>>;

    /// Returns the size of the longest datagram, in bytes: a user message in one chunk, which is delivered as it arrives and
    /// never sent again (RFC 3758, RFC 7496 §4.2). 0 if the association carries none.
    fn longest_datagram(&self) -> usize {
        0
    }

    /// Hands a datagram to the stack, which drops it if there is no room.
    fn send_datagram(&self, _datagram: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Waits for datagrams until `until`, and passes each to `consume`; returns whether one came.
    fn receive_datagram(
        &self,
        _until: MonotonicTime,
        _consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> impl Future<Output = Result<bool>> {
        async { Ok(false) }
    }

    /// Whether the other end has acknowledged everything, or never will.
    fn is_drained(&self) -> bool;

    /// Closes in good order, at most until `until`.
    fn close(&self, until: MonotonicTime) -> impl Future<Output = ()>;
}

/// Guard of a wait, which ends it when dropped, so that others do not wait for this one.
pub(crate) struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Reason for which an association ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Closed in good order.
    Done,
    /// Stopped by this end.
    Stopped,
    /// Aborted by the other end, or by the stack, for this reason.
    #[cfg(feature = "userspace")]
    Failed(Text),
    /// Failed, according to the kernel, with this error.
    System(io::ErrorKind, String),
}

impl Ending {
    /// Returns the result of reading after the end: nothing more after a close in good order, else its error.
    pub(crate) fn of_reading(&self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            ending => Err(ending.error()),
        }
    }

    pub(crate) fn error(&self) -> TransportError {
        let broke = reason::association_broke;
        match self {
            Self::Done => TransportError::Closed {
                flow: "association",
            },
            Self::Stopped => TransportError::Cancelled,
            #[cfg(feature = "userspace")]
            Self::Failed(why) => TransportError::stack(broke())(Problem::failed(why.clone(), "")),
            Self::System(kind, text) => {
                TransportError::io(broke())(io::Error::new(*kind, text.clone()))
            }
        }
    }
}
