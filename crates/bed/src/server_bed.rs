//! Bed of `regatta client`: this machine, a machine that runs `regatta server`, and the network between them as it is.

use std::{net::IpAddr, path::Path, sync::Arc, time::Duration};

use regatta_control::Host;
use regatta_forwarder::clock::unix_ns;
use regatta_model::{Condition, PathCheck, PortRange, Text, phrase, reason};
use regatta_path_daemon::{check, messages::PathCounters};

use crate::{
    capture::CaptureOrder,
    clocks::{HostClocks, RemoteClock as _},
    error::BedError,
    hosts::SessionLauncher,
    launch::{self, AGENT, Errors, Launched, Launcher as _, Local},
    session::Session,
    test_bed::TestBed,
};

/// Exchanges over the session that measure the round-trip delay of the network.
const EXCHANGES: usize = 10;

/// Longest time for these exchanges.
const WITHIN: Duration = Duration::from_secs(5);

/// Maximum relative change of the median round-trip delay between two checks.
const DELAY_CHANGE: f64 = 0.5;

/// Change of the median round-trip delay that is accepted in any case, in nanoseconds.
const MIN_DELAY_CHANGE_NS: f64 = 10e6;

/// This machine and a server, which provides agents only. There are no path daemons: nothing counts the packets of
/// the network, and its check measures the round-trip delay over the session alone.
#[derive(Debug)]
pub struct ServerBed {
    here: Local,
    server: SessionLauncher,
    session: Session,
    /// Name of the server.
    name: String,
    /// Addresses of this machine and of the server, as this machine reaches it.
    addresses: [IpAddr; 2],
    /// Median round-trip delay of the first check.
    first_ns: Option<f64>,
}

impl ServerBed {
    /// Makes the bed of a session with a server; agents on this machine are started from `executable`.
    ///
    /// # Errors
    /// [`BedError::Spawn`] if the program cannot be opened.
    pub fn new(
        session: Session,
        name: &str,
        addresses: [IpAddr; 2],
        executable: &Path,
    ) -> Result<Self, BedError> {
        Ok(Self {
            here: Local::new(launch::open(executable)?),
            server: SessionLauncher::new(format!("server `{name}`"), session.clone()),
            session,
            name: name.to_owned(),
            addresses,
            first_ns: None,
        })
    }
}

impl TestBed for ServerBed {
    fn description(&self) -> Text {
        phrase::network_to_server(&self.name).into()
    }

    fn shares_clock(&self) -> bool {
        false
    }

    fn name(&self, host: Host) -> &str {
        match host {
            Host::Client => "local",
            Host::Server => &self.name,
        }
    }

    fn has_names(&self) -> bool {
        true
    }

    fn clocks(&self) -> Option<HostClocks> {
        Some(HostClocks {
            clocks: [None, Some(Arc::new(self.session.clone()))],
        })
    }

    fn address(&self, host: Host) -> IpAddr {
        self.addresses[host as usize]
    }

    fn ports(&self, _host: Host) -> Option<PortRange> {
        // The server puts its own into each order.
        None
    }

    fn is_real(&self) -> bool {
        true
    }

    fn spawn_agent(&mut self, host: Host) -> Result<Launched, BedError> {
        match host {
            Host::Client => self.here.launch(AGENT, Errors::Pipe),
            Host::Server => self.server.launch(AGENT, Errors::Pipe),
        }
    }

    fn set_condition(&mut self, _condition: &Condition, _seed: u64) -> Result<(), BedError> {
        Ok(())
    }

    fn counters(&mut self) -> Result<PathCounters, BedError> {
        let ended = self.session.ended();
        ended.map_or(Ok(PathCounters::default()), |reason| {
            Err(self.server.lost(std::io::Error::other(reason)))
        })
    }

    fn start_capture(&mut self, _order: CaptureOrder) -> Result<(), BedError> {
        let (reason, hint) = (reason::no_own_emulator(), reason::tcpdump_beside());
        Err(BedError::refused("capture its packets", reason, hint))
    }

    fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError> {
        let exchanges = self.session.exchange(EXCHANGES, WITHIN);
        let n = exchanges.len() as u64;
        let delays = exchanges.iter().map(|[sent, arrived, answered, received]| {
            ((received - sent) - (answered - arrived)) as f64
        });
        let delays: Vec<f64> = delays.collect();
        let mut quantities = Vec::new();
        if n > 0 {
            let achieved = check::real::median(&delays);
            let expected = *self.first_ns.get_or_insert(achieved);
            let tolerance = (DELAY_CHANGE * expected).max(MIN_DELAY_CHANGE_NS);
            let range = (expected - tolerance, expected + tolerance);
            let name = "round_trip_delay_p50_ns";
            quantities.push(check::quantity(name, expected, achieved, range, n));
        }
        let checked_unix_ns = unix_ns().cast_signed();
        Ok(check::path_check(condition, checked_unix_ns, quantities))
    }
}
