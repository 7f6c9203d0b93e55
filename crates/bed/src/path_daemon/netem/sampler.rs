//! Highest fill level of the bottleneck's queues, by sampling: the kernel counts the bytes that
//! wait now and not the most that ever did.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use super::{
    chain::{Chain, NodeInterface},
    netlink::Netlink,
    qdisc,
};
use crate::path_daemon::error::DaemonError;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(20);

/// Interfaces of one direction whose disciplines hold the queue, and whether each has a netem.
pub(super) type Watched = Vec<(NodeInterface, bool)>;

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
    /// Starts the thread, with sockets of its own in the chain's namespaces. The calling thread
    /// changes its namespace.
    pub(super) fn start(chain: &Chain) -> Result<Self, DaemonError> {
        let sockets = chain
            .nodes
            .iter()
            .map(|node| {
                node.namespace.enter()?;
                Netlink::open().map_err(|source| DaemonError::Netem {
                    step: "open a netlink socket",
                    source,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let (orders, inbox) = mpsc::channel::<Order>();
        let most_bytes = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let most = Arc::clone(&most_bytes);
        let look = move || {
            let mut now: [Watched; 2] = [Vec::new(), Vec::new()];
            loop {
                let nothing = now.iter().all(Vec::is_empty);
                let told = if nothing {
                    inbox.recv().map_err(RecvTimeoutError::from)
                } else {
                    inbox.recv_timeout(INTERVAL)
                };
                match told {
                    Ok(order) => {
                        now = order.watched;
                        if order.afresh {
                            most.iter()
                                .for_each(|most| most.store(0, Ordering::Relaxed));
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                for (interfaces, most) in now.iter().zip(most.iter()) {
                    let waiting = interfaces
                        .iter()
                        // A discipline that is being replaced has nothing to tell.
                        .filter_map(|(interface, is_netem)| {
                            let socket = &sockets[interface.node];
                            let counted = qdisc::statistics(socket, interface.interface);
                            Some(counted.ok()?.queued_ip_bytes(*is_netem))
                        })
                        .sum();
                    most.fetch_max(waiting, Ordering::Relaxed);
                }
            }
        };
        thread::Builder::new()
            .name("queue-sampler".into())
            .spawn(look)
            .map_err(DaemonError::Thread)?;
        Ok(Self { orders, most_bytes })
    }

    /// Samples these interfaces from now on; discards earlier samples if `afresh`.
    pub(super) fn watch(&self, watched: [Watched; 2], afresh: bool) {
        // The thread ends only with this handle.
        let _ = self.orders.send(Order { watched, afresh });
    }

    /// Returns the most bytes of IP packets that were seen to wait, forward and reverse.
    pub(super) fn most_bytes(&self) -> [u64; 2] {
        [0, 1].map(|direction: usize| self.most_bytes[direction].load(Ordering::Relaxed))
    }
}
