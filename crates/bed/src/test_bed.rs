//! Trait of a bed, as the engine uses it.

use std::net::IpAddr;

use regatta_control::Host;
use regatta_forwarder::{CompetingFlow, FlowCounters};
use regatta_model::{Condition, PathCheck, PortRange, Text};
use regatta_path_daemon::messages::PathCounters;
use regatta_process::StopRequest;
use regatta_stats::clocks::OffsetReading;

use crate::{
    capture::{CaptureOrder, CaptureSummary},
    clocks::HostClocks,
    daemon_process::OnDaemonEnd,
    error::BedError,
    launch::Launched,
};

/// Two hosts with a path between them. Implemented by [`Bed`](crate::Bed), and by tests of the engine.
pub trait TestBed {
    /// Returns a description of the bed's emulator, placement and kernel for the header of the run.
    fn description(&self) -> Text;
    /// Whether both hosts read the same monotonic clock.
    fn shares_clock(&self) -> bool;
    /// Returns the name of a host in messages, as in ``host `a` ``: the one of the hosts file if it has one there.
    fn name(&self, host: Host) -> &str {
        host.name()
    }
    /// Whether the hosts have names of the user's.
    fn has_names(&self) -> bool {
        false
    }
    /// Returns the hosts' clocks, where each has one of its own.
    fn clocks(&self) -> Option<HostClocks> {
        None
    }
    /// Reads the offset between the hosts' clocks by exchanges over the path, where it is a network as it is: a path
    /// with an emulator takes no packets but those of its transports, and delays them. Nothing else may use the path
    /// meanwhile. `None` elsewhere, and if no exchange is complete.
    ///
    /// # Errors
    /// If a path daemon does not answer.
    fn read_clocks_over_path(&mut self) -> Result<Option<OffsetReading>, BedError> {
        Ok(None)
    }
    /// Returns the address of a host on the path.
    fn address(&self, host: Host) -> IpAddr;
    /// Returns the ports on which a host may listen; `None` if any port will do.
    fn ports(&self, _host: Host) -> Option<PortRange> {
        None
    }
    /// Starts an agent on a host. May be called again after an agent ended.
    ///
    /// # Errors
    /// If the agent cannot be started.
    fn spawn_agent(&mut self, host: Host) -> Result<Launched, BedError>;
    /// Starts a process that samples a host until its input ends (`regatta host-monitor`); `None` for a
    /// bed that does not monitor its hosts. May be called again after the process ended.
    ///
    /// # Errors
    /// If the process cannot be started.
    fn spawn_monitor(&mut self, _host: Host) -> Result<Option<Launched>, BedError> {
        Ok(None)
    }
    /// Sets the path to `condition`: empties its queues, zeroes its counters, sets the largest
    /// packet (MTU) of both hosts' interfaces.
    ///
    /// The same seed and sequence of packets in a direction lose the same packets.
    ///
    /// # Errors
    /// [`BedError::Refused`] for a condition that cannot be emulated.
    fn set_condition(&mut self, condition: &Condition, seed: u64) -> Result<(), BedError>;
    /// Begins the condition's schedule and its traces, at the moment at which the transfer starts.
    /// With two daemons the second begins later by the time that a message takes to its host.
    ///
    /// # Errors
    /// If a path daemon does not answer.
    fn begin(&mut self) -> Result<(), BedError> {
        Ok(())
    }
    /// Returns the counters of both directions since [`TestBed::set_condition`].
    ///
    /// # Errors
    /// If a path daemon does not answer.
    fn counters(&mut self) -> Result<PathCounters, BedError>;
    /// Tells the flows of a competition apart until the next [`TestBed::set_condition`], and gives each its own delay.
    ///
    /// # Errors
    /// If a path daemon does not answer.
    fn set_flows(&mut self, _flows: &[CompetingFlow]) -> Result<(), BedError> {
        Ok(())
    }
    /// Returns the counters of each flow since [`TestBed::set_flows`]; none where the path does not tell them apart.
    ///
    /// # Errors
    /// If a path daemon does not answer.
    fn flow_counters(&mut self) -> Result<Vec<FlowCounters>, BedError> {
        Ok(Vec::new())
    }
    /// Ends the sampling of the path's queues until the next [`TestBed::set_condition`]: in virtual time a pause is as
    /// expensive as what runs in it.
    ///
    /// # Errors
    /// If a path daemon does not answer.
    fn stop_sampling(&mut self) -> Result<(), BedError> {
        Ok(())
    }
    /// Captures every packet of the path from now on, in a file.
    ///
    /// # Errors
    /// [`BedError::Refused`] where the file cannot be created, or where the path is netem's, which
    /// does not report the outcome of each packet.
    fn start_capture(&mut self, order: CaptureOrder) -> Result<(), BedError>;
    /// Ends the capture and returns its summary; `None` if no capture was started.
    ///
    /// # Errors
    /// If the path daemon does not answer.
    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, BedError> {
        Ok(None)
    }
    /// Whether the path is a network as it is: nothing counts its packets, and its delay is known from
    /// checks alone.
    fn is_real(&self) -> bool {
        false
    }
    /// Reaches hosts again that were lost, and makes their ends of the path anew; agents there have
    /// ended. Returns whether a host was lost. May take a minute, or until the stop.
    ///
    /// # Errors
    /// If a host cannot be reached.
    fn restore(&mut self, _stop: &StopRequest) -> Result<bool, BedError> {
        Ok(false)
    }
    /// Has the stop end a path check under way, and all further ones; the path is of no use then.
    fn stop_checks_with(&mut self, _stop: &StopRequest) {}
    /// Has another thread call a function when a path daemon ends.
    fn on_daemon_end(&mut self, _call: OnDaemonEnd) {}
    /// Measures the path under a condition, which it sets with a seed of its own and leaves set:
    /// set the condition again before a trial. Nothing else may use the path meanwhile.
    ///
    /// # Errors
    /// [`BedError::Refused`] for a condition that cannot be emulated.
    fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError>;
}
