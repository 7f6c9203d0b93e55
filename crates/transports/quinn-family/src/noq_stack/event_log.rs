//! Event logs of connections.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use noq::{ConnectionId, QlogConfig, QlogFactory, Side, TransportConfig};
use parking_lot::Mutex;
use regatta_transport_quic_common::files::EventLog;

/// Event log of one connection, handed to the first caller that asks for it.
struct OneLog(Mutex<Option<EventLog>>);

impl QlogFactory for OneLog {
    fn for_connection(
        &self,
        _side: Side,
        _remote: SocketAddr,
        _initial_destination: ConnectionId,
        now: Instant,
    ) -> Option<QlogConfig> {
        let log = self.0.lock().take()?;
        let mut config = QlogConfig::new(log.writer);
        config.title(Some(log.title)).start_time(now);
        Some(config)
    }
}

/// Makes the stack write the events of one connection to `log`.
pub(crate) fn log_events(transport: &mut TransportConfig, log: EventLog) {
    transport.qlog_factory(Arc::new(OneLog(Mutex::new(Some(log)))));
}
