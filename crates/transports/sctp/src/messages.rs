//! An association as a flow of messages: unordered, reliable, one stream.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::{
    association::{Association, MESSAGES, Message},
    connection::{Handle, pass_on, write},
    options::LONGEST_MESSAGE_BYTES,
    statistics::Statistics,
};
use bytes::Bytes;
use regatta_transport::{
    Arrival, MessageFlow, MonotonicTime, StatisticsSource, Stop, TransportError,
};
use regatta_transport_sockets::{timer, wait::within};

/// Size of a batch, in bytes: enough to make its fixed cost small.
const BATCH_BYTES: usize = 64 << 10;

/// Maximum number of messages in a batch.
const BATCH_MESSAGES: usize = 256;

/// Flow over stream 0 of an association of its own; closed in good order when dropped.
pub(crate) struct SctpFlow {
    handle: Arc<Handle>,
    connects: bool,
    stop: Stop,
    arrived: VecDeque<Message>,
    scratch: Vec<u8>,
    statistics: Arc<Statistics>,
}

impl SctpFlow {
    /// Makes the flow of an association that this end has opened (`connects`) or accepted.
    pub(crate) fn new(
        handle: Arc<Handle>,
        connects: bool,
        side: &'static str,
        stop: &Stop,
    ) -> Result<Self, TransportError> {
        if connects {
            handle.with(Association::open_stream)??;
        }
        let statistics = Arc::new(Statistics::new(handle.weak(), side));
        Ok(Self {
            handle,
            connects,
            stop: stop.clone(),
            arrived: VecDeque::new(),
            scratch: vec![0; LONGEST_MESSAGE_BYTES],
            statistics,
        })
    }

    /// Waits for messages; `false` when the association has ended.
    async fn arrive(&mut self, until: MonotonicTime) -> Result<bool, TransportError> {
        if !self.arrived.is_empty() {
            return Ok(true);
        }
        let arrived = &mut self.arrived;
        let read = self
            .handle
            .poll(|one, context| one.poll_read(MESSAGES, arrived, context));
        match within(until, read).await {
            Some(Ok(more)) => Ok(more),
            Some(Err(error)) => Err(error),
            None => Ok(true),
        }
    }
}

impl MessageFlow for SctpFlow {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        (BATCH_BYTES / message_bytes.max(1)).clamp(1, BATCH_MESSAGES)
    }

    async fn send_batch(
        &mut self,
        batch: &[u8],
        message_bytes: usize,
    ) -> Result<(), TransportError> {
        let mut rest = Bytes::copy_from_slice(batch);
        while !rest.is_empty() {
            let message = rest.split_to(message_bytes.clamp(1, rest.len()));
            write(&self.handle, MESSAGES, &message).await?;
        }
        self.handle.send();
        Ok(())
    }

    async fn receive_batch(
        &mut self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize, TransportError> {
        match self.arrive(until).await {
            Ok(true) => {}
            Err(error) if self.connects || self.stop.is_stopped() => return Err(error),
            // The other end is done. The listening end learns over control what was sent, and
            // goes by that.
            Ok(false) | Err(_) if until != MonotonicTime::NEVER => {
                let waited = async {
                    timer::sleep_until(until).await;
                    Ok(0)
                };
                return self.stop.unless_raised(waited).await;
            }
            Ok(false) => {
                return Err(TransportError::Closed {
                    flow: "association",
                });
            }
            Err(error) => return Err(error),
        }
        let messages = self.arrived.len();
        for message in self.arrived.drain(..) {
            pass_on(message, &mut self.scratch, |data| consume(Arrival { data }));
        }
        Ok(messages)
    }

    fn is_drained(&self) -> bool {
        // An association that has ended sends nothing any more.
        self.handle.with(|one| one.is_drained()).unwrap_or(true)
    }

    fn statistics(&self) -> Option<Arc<dyn StatisticsSource>> {
        Some(Arc::<Statistics>::clone(&self.statistics))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.statistics.facts()
    }
}
