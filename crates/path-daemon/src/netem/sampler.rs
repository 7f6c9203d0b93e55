//! Highest fill level of the bottleneck's queues, by sampling: the kernel counts the bytes that
//! wait now and not the most that ever did.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use super::qdisc::Interface;
use crate::{error::DaemonError, spawn};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(20);

/// Interfaces of one direction whose disciplines hold the queue, and whether each has a netem.
pub(super) type Watched = Vec<(Interface, bool)>;

/// Request to the sampler's thread.
struct Order {
    watched: [Watched; 2],
    /// Whether earlier samples are discarded.
    afresh: bool,
}

/// Handle of the sampling thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    orders: Sender<Order>,
    most_bytes: Arc<[AtomicU64; 2]>,
}

impl Sampler {
    /// Starts the thread.
    pub(super) fn start() -> Result<Self, DaemonError> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let most_bytes = Arc::<[AtomicU64; 2]>::default();
        let most = Arc::clone(&most_bytes);
        spawn("queue-sampler", move || {
            let mut now: [Watched; 2] = Default::default();
            loop {
                let received = match now.iter().all(Vec::is_empty) {
                    true => inbox.recv().map_err(RecvTimeoutError::from),
                    false => inbox.recv_timeout(INTERVAL),
                };
                match received {
                    Ok(order) => {
                        now = order.watched;
                        if order.afresh {
                            for most in &*most {
                                most.store(0, Ordering::Relaxed);
                            }
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                for (interfaces, most) in now.iter().zip(most.iter()) {
                    let waiting = interfaces
                        .iter()
                        // A discipline that is being replaced has no statistics.
                        .filter_map(|(interface, is_netem)| {
                            let counted = interface.statistics().ok()?;
                            Some(counted.queued_ip_bytes(*is_netem))
                        })
                        .sum();
                    most.fetch_max(waiting, Ordering::Relaxed);
                }
            }
        })?;
        Ok(Self { orders, most_bytes })
    }

    /// Samples these interfaces from now on; discards earlier samples if `afresh`.
    pub(super) fn watch(&self, watched: [Watched; 2], afresh: bool) {
        // The thread ends only with this handle.
        let _ = self.orders.send(Order { watched, afresh });
    }

    /// Returns the most bytes of IP packets that were seen to wait, forward and reverse.
    pub(super) fn most_bytes(&self) -> [u64; 2] {
        let most = self.most_bytes.each_ref();
        most.map(|most| most.load(Ordering::Relaxed))
    }
}
