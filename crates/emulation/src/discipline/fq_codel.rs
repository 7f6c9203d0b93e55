//! Flow queues in turns, each under Controlled Delay.
//!
//! Source: RFC 8290 §4.

use std::collections::VecDeque;

use regatta_model::PacketCounter;

use super::{
    Fates,
    codel::{Codel, Times},
};
use crate::{
    packet::Packet,
    queue::{Queue, Waiting},
};

/// Number of queues, to which flows are hashed.
const QUEUES: usize = 1024;

/// Maximum number of packets that one overflow drops.
const MOST_DROPS: u64 = 64;

#[derive(Debug, Clone)]
struct Flow<P> {
    queue: Queue<P>,
    codel: Codel,
    /// Bytes that it may send before the others have their turn.
    deficit: i64,
    is_listed: bool,
}

/// State of the discipline.
#[derive(Debug, Clone)]
pub(crate) struct FqCodel<P> {
    pub(crate) times: Times,
    max_packet: u64,
    /// Made when the first packet of a flow comes.
    flows: Vec<Option<Box<Flow<P>>>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    bytes: u64,
    packets: u64,
    present: u64,
}

impl<P: Packet> FqCodel<P> {
    pub(crate) fn new(max_packet: u64, times: Times) -> Self {
        Self {
            times,
            max_packet,
            flows: std::iter::repeat_with(|| None).take(QUEUES).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            packets: 0,
            present: 0,
        }
    }

    pub(crate) fn push(&mut self, waiting: Waiting<P>) {
        self.bytes += waiting.size;
        self.packets += 1;
        self.present += u64::from(waiting.packet.is_some());
        let index = waiting.flow as usize % QUEUES;
        let (max_packet, times) = (self.max_packet, self.times);
        let flow = self.flows[index].get_or_insert_with(|| {
            Box::new(Flow {
                queue: Queue::new(),
                codel: Codel::new(max_packet, times),
                deficit: 0,
                is_listed: false,
            })
        });
        flow.queue.push(waiting);
        if !flow.is_listed {
            flow.is_listed = true;
            flow.deficit = max_packet as i64;
            self.new.push_back(index);
        }
    }

    /// Drops packets of the longest queue: half of them, at most [`MOST_DROPS`].
    pub(crate) fn make_room(&mut self, now: u64, fates: &mut Fates<'_, P>) {
        let longest = self
            .flows
            .iter_mut()
            .flatten()
            .max_by_key(|flow| flow.queue.bytes());
        let Some(flow) = longest else { return };
        let most = flow.queue.packets().div_ceil(2).min(MOST_DROPS);
        for _ in 0..most {
            let Some(waiting) = flow.queue.pop() else {
                break;
            };
            self.bytes -= waiting.size;
            self.packets -= 1;
            self.present -= u64::from(waiting.packet.is_some());
            fates.discard(now, waiting, PacketCounter::Queue);
        }
    }

    pub(crate) fn take(&mut self, now: u64, fates: &mut Fates<'_, P>) -> Option<Waiting<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = self.flows[index].as_mut()?;
            if flow.deficit <= 0 {
                flow.deficit += self.max_packet as i64;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            flow.codel.times = self.times;
            let before = [
                flow.queue.bytes(),
                flow.queue.packets(),
                flow.queue.present(),
            ];
            let taken = flow.codel.take(&mut flow.queue, now, fates);
            self.bytes -= before[0] - flow.queue.bytes();
            self.packets -= before[1] - flow.queue.packets();
            self.present -= before[2] - flow.queue.present();
            match taken {
                Some(waiting) => {
                    flow.deficit -= waiting.size as i64;
                    return Some(waiting);
                }
                None => {
                    list.pop_front();
                    // One that is new would else be so again with its next packet, and starve the others.
                    if is_new && !self.old.is_empty() {
                        self.old.push_back(index);
                    } else {
                        flow.is_listed = false;
                    }
                }
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<P>> {
        let waiting = self
            .flows
            .iter_mut()
            .flatten()
            .find_map(|flow| flow.queue.pop())?;
        self.bytes -= waiting.size;
        self.packets -= 1;
        self.present -= u64::from(waiting.packet.is_some());
        Some(waiting)
    }

    /// Returns the size of a packet that waits at the head of its queue.
    pub(crate) fn head(&self) -> Option<u64> {
        let mut listed = self.new.iter().chain(&self.old);
        listed.find_map(|&index| self.flows[index].as_ref()?.queue.head())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn present(&self) -> u64 {
        self.present
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        discipline::testing::{Counted, MS, waiting},
        packet::Ecn,
    };

    const TIMES: Times = Times {
        target: 5 * MS,
        interval: 100 * MS,
    };

    fn flows_taken(fq: &mut FqCodel<Vec<u8>>, count: usize) -> Vec<u32> {
        let mut counted = Counted::default();
        let mut take = || fq.take(0, &mut counted.fates(false)).map(|it| it.flow);
        (0..count).filter_map(|_| take()).collect()
    }

    /// Source: RFC 8290 §4.2: a new flow comes before the old ones, and then in turns of a quantum.
    #[test]
    fn flows_take_turns_by_bytes() {
        let mut fq = FqCodel::new(1500, TIMES);
        for _ in 0..6 {
            fq.push(waiting(0, 1500, 1, Ecn::NotEct));
            fq.push(waiting(0, 500, 2, Ecn::NotEct));
        }
        let taken = flows_taken(&mut fq, 8);
        let bytes = |flow| {
            taken.iter().filter(|it| **it == flow).count() as u64 * [0, 1500, 500][flow as usize]
        };
        assert_eq!(bytes(1), bytes(2), "{taken:?}");
        // One packet of a flow that has sent nothing yet does not wait behind the others.
        fq.push(waiting(0, 100, 3, Ecn::NotEct));
        assert_eq!(flows_taken(&mut fq, 1), [3]);
    }

    /// Source: RFC 8290 §4.1: half the packets of the longest queue, at most 64.
    #[test]
    fn an_overflow_strikes_the_longest_queue() {
        let mut fq = FqCodel::new(1500, TIMES);
        for _ in 0..20 {
            fq.push(waiting(0, 1500, 1, Ecn::NotEct));
        }
        fq.push(waiting(0, 1500, 2, Ecn::NotEct));
        let mut counted = Counted::default();
        fq.make_room(0, &mut counted.fates(false));
        assert_eq!(
            (counted.overflowed(), fq.packets(), fq.bytes()),
            (10, 11, 11 * 1500)
        );
    }

    #[test]
    fn what_is_taken_was_pushed() {
        let mut fq = FqCodel::new(1500, TIMES);
        for number in 0..3000_u32 {
            fq.push(waiting(
                0,
                40 + u64::from(number % 1400),
                number,
                Ecn::NotEct,
            ));
        }
        assert_eq!(flows_taken(&mut fq, 4000).len(), 3000);
        assert_eq!(
            (fq.bytes(), fq.packets(), fq.present(), fq.head()),
            (0, 0, 0, None)
        );
    }
}
