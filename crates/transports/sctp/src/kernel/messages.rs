//! An association as a flow of messages: unordered, reliable, on stream 0.

use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    sync::Arc,
};

use regatta_transport::{
    Arrival, MessageFlow, MonotonicTime, StatisticsSource, Stop, TransportError,
};
use regatta_transport_sockets::timer;

use super::{
    association::{Association, Reader, Reading, Turn},
    endpoint::{LONGEST_MESSAGE_BYTES, within_exactly},
    statistics::Statistics,
    uapi,
};

/// Size of a batch, in bytes: enough to make its fixed cost small.
const BATCH_BYTES: usize = 64 << 10;

/// Maximum number of messages in a batch.
const BATCH_MESSAGES: usize = 64;

/// Number of messages that are received at once.
const SLOTS: usize = 8;

/// Buffer that messages are received into.
pub(crate) struct Memory {
    slots: Vec<u8>,
    partial: Vec<u8>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![0; SLOTS * LONGEST_MESSAGE_BYTES],
            partial: Vec::new(),
        }
    }

    /// Receives messages of an association, and passes each to `consume`.
    pub(crate) fn poll_receive(
        &mut self,
        association: &Association,
        consume: &mut impl FnMut(&[u8]),
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<usize, TransportError>> {
        association.poll_messages(
            &mut self.slots,
            LONGEST_MESSAGE_BYTES,
            &mut self.partial,
            consume,
            context,
        )
    }
}

/// Flow over an association of its own; closed in good order when dropped.
pub(crate) struct KernelFlow {
    association: Arc<Association>,
    stop: Stop,
    memory: Memory,
    /// Messages that arrived together with the admitted one.
    arrived: VecDeque<Vec<u8>>,
    statistics: Arc<Statistics>,
}

impl KernelFlow {
    pub(crate) fn new(
        association: Arc<Association>,
        memory: Memory,
        arrived: VecDeque<Vec<u8>>,
        side: &'static str,
        stop: &Stop,
    ) -> Self {
        stop.on_stop(&association);
        let statistics = Arc::new(Statistics::new(&association, side));
        Self {
            association,
            stop: stop.clone(),
            memory,
            arrived,
            statistics,
        }
    }
}

impl MessageFlow for KernelFlow {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        (BATCH_BYTES / message_bytes.max(1)).clamp(1, BATCH_MESSAGES)
    }

    async fn send_batch(
        &mut self,
        batch: &[u8],
        message_bytes: usize,
    ) -> Result<(), TransportError> {
        let _turn = Turn(&self.association, 0);
        for message in batch.chunks(message_bytes.max(1)) {
            let how = (0, uapi::UNORDERED);
            poll_fn(|context| self.association.poll_write(how, [message, &[]], context)).await?;
        }
        Ok(())
    }

    async fn receive_batch(
        &mut self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize, TransportError> {
        if !self.arrived.is_empty() {
            let count = self.arrived.len();
            for data in self.arrived.drain(..) {
                consume(Arrival { data: &data });
            }
            return Ok(count);
        }
        let (association, memory) = (&self.association, &mut self.memory);
        let received = {
            let _reading = Reading(association, Reader::Streams);
            let mut consume = |data: &[u8]| consume(Arrival { data });
            let receive =
                poll_fn(|context| memory.poll_receive(association, &mut consume, context));
            within_exactly(until, receive).await
        };
        match received {
            None => Ok(0),
            Some(Ok(count)) => Ok(count),
            Some(Err(error)) if association.connects() || self.stop.is_stopped() => Err(error),
            // The other end is done. The listening end learns over control what was sent, and
            // goes by that.
            Some(Err(_)) if until != MonotonicTime::NEVER => {
                let waited = async {
                    timer::sleep_until(until).await;
                    Ok(0)
                };
                self.stop.unless_raised(waited).await
            }
            Some(Err(error)) => Err(error),
        }
    }

    fn is_drained(&self) -> bool {
        self.association.is_drained()
    }

    fn statistics(&self) -> Option<Arc<dyn StatisticsSource>> {
        Some(Arc::<Statistics>::clone(&self.statistics))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.statistics.facts()
    }
}
