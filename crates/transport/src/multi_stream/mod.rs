//! Workload `multi-stream`: independent messages at a rate, over the streams of one connection or
//! over as many connections.
//!
//! Message `i` is due `i` intervals after the beginning and uses stream `i` modulo their number.
//! Each stream has its own sending task, so that one that must wait blocks only its own messages.
//! The measurement therefore shows how the transport's streams block one another. A message's delay
//! counts from the time when it is due to the arrival of its last byte, on the clock that both ends
//! share.
//!
//! The schedule begins when the receiver has all streams, so that delays do not include setting
//! them up. There is no probe under load: the messages are the measurement.

mod arrivals;
mod receiver;
mod sender;

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use regatta_control::{Role, SideReport, TrialOrder};
use regatta_model::{Spread, WorkloadKind};

use crate::{
    clock::MonotonicTime,
    connections::noise,
    driver::{TransportError, Unsupported},
    stream::StreamEndpoint,
    trial::{Trial, watch::Delivered},
};

/// Largest message, in bytes: both ends hold one in memory whole.
const LONGEST: u64 = 256 << 20;

/// Length of the number that begins a message, in bytes, as far as the message has room.
const NUMBER_BYTES: usize = 8;

/// Length of a stream's index, which follows its opening, in bytes.
const INDEX_BYTES: usize = 4;

/// Byte that the receiver sends on the first stream when it has all of them.
const READY: u8 = b'R';

/// The messages of a trial. Both ends make the same from their orders.
#[derive(Debug)]
pub(crate) struct Messages {
    count: u64,
    length: usize,
    per_second: f64,
    streams: usize,
    spread: Spread,
    content: Bytes,
}

impl Messages {
    pub(crate) fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let WorkloadKind::MultiStream {
            messages,
            message,
            messages_per_second,
            streams,
            spread,
        } = order.workload.kind
        else {
            return Err(TransportError::Order {
                what: format!(
                    "`{}` is not spread over streams",
                    order.workload.kind.name()
                ),
            });
        };
        let wrong = |what: String| Err(TransportError::Order { what });
        if message.0 == 0 || message.0 > LONGEST {
            return wrong(format!(
                "a message of `{message}` is not from 1 B to 256 MiB"
            ));
        }
        if messages == 0 || streams == 0 {
            return wrong("there is no message, or no stream for it".to_owned());
        }
        if !(messages_per_second > 0.0 && messages_per_second.is_finite()) {
            return wrong(format!(
                "`{messages_per_second}` messages a second is no rate"
            ));
        }
        if !order.path.shared_clock {
            return Err(TransportError::Unsupported(Unsupported {
                reason: "each end has a clock of its own, so that the delay of a message from one \
                         to the other cannot be measured"
                    .to_owned(),
                hint: "run this workload with `bed = \"netns\"`".to_owned(),
            }));
        }
        Ok(Self {
            count: messages,
            length: message.0 as usize,
            per_second: messages_per_second,
            streams: streams as usize,
            spread,
            content: noise(order.seed, message.0 as usize),
        })
    }

    /// Returns the moment at which message `number` is due, if the first one is due at `start`.
    fn due(&self, start: MonotonicTime, number: u64) -> MonotonicTime {
        start + Duration::from_secs_f64(number as f64 / self.per_second)
    }

    /// Returns the numbers of a stream's messages, in order.
    fn of_stream(&self, index: usize) -> impl Iterator<Item = u64> + use<> {
        (index as u64..self.count).step_by(self.streams)
    }

    /// Returns the bytes that begin message `number`, and how many of them the message has room
    /// for.
    fn head(&self, number: u64) -> ([u8; NUMBER_BYTES], usize) {
        (number.to_le_bytes(), NUMBER_BYTES.min(self.length))
    }

    fn total(&self) -> Delivered {
        Delivered {
            messages: self.count,
            bytes: self.count * self.length as u64,
        }
    }
}

/// Runs one end.
pub(crate) async fn run<E: StreamEndpoint>(
    trial: &Trial,
    work: &Messages,
    endpoint: &E,
    peer: Option<SocketAddr>,
) -> Result<SideReport, TransportError> {
    match trial.order.role {
        Role::Sender => sender::run(trial, work, endpoint, trial.peer_of(peer)?).await,
        Role::Receiver => receiver::run(trial, work, endpoint).await,
    }
}

/// Messages for tests.
#[cfg(test)]
fn example(count: u64, length: usize, streams: usize) -> Messages {
    Messages {
        count,
        length,
        per_second: 100.0,
        streams,
        spread: Spread::Streams,
        content: noise(1, length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_one_stream_and_its_moment() {
        let messages = example(10, 100, 3);
        let mut all: Vec<u64> = (0..3).flat_map(|index| messages.of_stream(index)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_eq!(messages.of_stream(2).collect::<Vec<_>>(), [2, 5, 8]);
        let start = MonotonicTime(7);
        assert_eq!(messages.due(start, 3), MonotonicTime(30_000_007));
    }
}
