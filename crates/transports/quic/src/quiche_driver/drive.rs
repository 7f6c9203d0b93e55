//! Task of an end that moves packets between the socket and the connections.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use futures_util::future::select_all;

use super::{
    port::{Inbox, Port},
    state::{Shared, Turn},
};
use crate::timer::Timer;

/// Returns a future that is never ready.
async fn never() {
    std::future::pending().await
}

/// Waits until `at`, or forever without one. Uses the timer descriptor if the process has one,
/// because paced packets are less than a millisecond apart.
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

/// Waits until the port with the address `blocked`, whose socket buffer was full, is writable.
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
