//! The task of an end: it moves packets between the socket and the connections.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use futures_util::future::select_all;

use super::{
    port::{Inbox, Port},
    state::{Shared, Turn},
};
use crate::timer::Timer;

/// Waits for nothing.
async fn never() {
    std::future::pending().await
}

/// Waits for a moment: exactly, where the process has a descriptor for it, as packets that are spread
/// over time are less than a millisecond apart.
async fn moment(timer: Option<&mut Timer>, at: Option<Instant>) {
    let Some(at) = at else {
        return never().await;
    };
    let exact = match timer {
        Some(timer) => timer.sleep_until(at).await.is_ok(),
        None => false,
    };
    if !exact {
        tokio::time::sleep_until(at.into()).await;
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
    let mut timer = Timer::new().ok();
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
            () = moment(timer.as_mut(), turn.next()) => {}
        }
        // Whatever is ready all the time, the application has its turn.
        tokio::task::consume_budget().await;
    }
}
