//! An association as a flow of messages: unordered, reliable, one stream.

use std::sync::Arc;

use bytes::Bytes;
use regatta_model::Facts;
use regatta_transport::{Arrival, MessageFlow, MonotonicTime, Result, StatisticsSource, Stop};
use regatta_transport_sockets::timer;

use crate::association::{Association, Ending, MESSAGES};

/// Size of a batch, in bytes: enough to make its fixed cost small.
const BATCH_BYTES: usize = 64 << 10;

/// Flow over an association of its own; closed in good order when dropped.
pub(crate) struct SctpFlow<A: Association> {
    association: Arc<A>,
    connects: bool,
    stop: Stop,
    memory: A::Memory,
    statistics: Arc<dyn StatisticsSource>,
}

impl<A: Association> SctpFlow<A> {
    /// Makes the flow of an association that this end has opened (`connects`) or accepted.
    pub(crate) fn new(
        association: Arc<A>,
        connects: bool,
        side: &'static str,
        stop: &Stop,
    ) -> Result<Self> {
        if connects {
            association.open_flow()?;
        }
        Ok(Self {
            statistics: association.statistics(side),
            association,
            connects,
            stop: stop.clone(),
            memory: A::Memory::default(),
        })
    }
}

impl<A: Association> MessageFlow for SctpFlow<A> {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        (BATCH_BYTES / message_bytes.max(1)).clamp(1, A::BATCH_MESSAGES)
    }

    async fn send_batch(&mut self, batch: &[u8], message_bytes: usize) -> Result<()> {
        let memory = &mut self.memory;
        for message in batch.chunks(message_bytes.max(1)) {
            let written = self
                .association
                .write(MESSAGES, memory, message, Bytes::new());
            written.await?;
        }
        self.association.flush(memory);
        Ok(())
    }

    async fn receive_batch(
        &mut self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize> {
        let mut consume = |data: &[u8]| consume(Arrival { data });
        let received = self
            .association
            .read_messages(&mut self.memory, until, &mut consume);
        let error = match received.await {
            None => return Ok(0),
            Some(Ok(0)) => Ending::Done.error(),
            Some(Ok(messages)) => return Ok(messages),
            Some(Err(error)) if self.connects || self.stop.is_stopped() => return Err(error),
            Some(Err(error)) => error,
        };
        if until == MonotonicTime::NEVER {
            return Err(error);
        }
        // The other end is done. The listening end learns over control what was sent, and goes by
        // that.
        let waited = async {
            timer::sleep_until(until).await;
            Ok(0)
        };
        self.stop.unless_raised(waited).await
    }

    fn is_drained(&self) -> bool {
        self.association.is_drained()
    }

    fn statistics(&self) -> Option<Arc<dyn StatisticsSource>> {
        Some(Arc::clone(&self.statistics))
    }

    fn facts(&self) -> Facts {
        self.statistics.facts()
    }
}
