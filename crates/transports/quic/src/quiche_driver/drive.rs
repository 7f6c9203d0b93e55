//! The task of an end: it moves packets between the socket and the connections.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use futures_util::future::select_all;
use regatta_transport::MonotonicTime;

use super::{
    port::{Inbox, Port},
    state::{Shared, Turn},
};
use crate::timer;

/// Waits for nothing.
async fn never() {
    std::future::pending().await
}

/// The same moment on the clock of the kernel's timers.
fn monotonic(at: Instant) -> MonotonicTime {
    MonotonicTime::now() + at.saturating_duration_since(Instant::now())
}

async fn timer(at: Option<Instant>) {
    match at {
        // Timers of QUIC are whole milliseconds (RFC 9002 §6.1.2), as are the runtime's.
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => never().await,
    }
}

async fn release(at: Option<Instant>) {
    match at {
        Some(at) => timer::sleep_until(monotonic(at)).await,
        None => never().await,
    }
}

async fn readable(ports: &[Arc<Port>]) {
    match ports {
        [] => never().await,
        [port] => port.readable().await,
        ports => {
            select_all(ports.iter().map(|port| Box::pin(port.readable()))).await;
        }
    }
}

/// Waits for room at the port that there was none at.
async fn writable(ports: &[Arc<Port>], blocked: Option<SocketAddr>) {
    match ports.iter().find(|port| Some(port.address) == blocked) {
        Some(port) => port.writable().await,
        None => never().await,
    }
}

/// Serves the connections for as long as the runtime lives.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut inbox = Inbox::new();
    loop {
        let (turn, ports): (Turn, Vec<Arc<Port>>) = {
            let mut state = shared.lock();
            let turn = state.turn(&mut inbox);
            // Only who waits needs them.
            let ports = if turn.busy {
                Vec::new()
            } else {
                state.ports.clone()
            };
            (turn, ports)
        };
        if turn.busy {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            biased;
            () = shared.changed.notified() => {}
            () = readable(&ports) => {}
            () = writable(&ports, turn.blocked) => {}
            () = release(turn.release) => {}
            () = timer(turn.timer) => {}
        }
        // Whatever is ready all the time, the application has its turn.
        tokio::task::consume_budget().await;
    }
}
