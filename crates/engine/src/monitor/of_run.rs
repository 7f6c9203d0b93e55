//! The monitors of both hosts of a run. Whatever becomes of them, the run goes on.

use std::time::{Duration, Instant};

use regatta_bed::TestBed;
use regatta_control::Host;
use regatta_model::{
    HostSamples, Phrase, Text, Warning, host_sample::MonitorRequest, phrase, reason,
    units::nanoseconds, warning,
};

use super::{HostMonitor, name_in_header};
use crate::event::Event;

/// Interval of samples between trials.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of samples during trials.
const TRIAL_INTERVAL: Duration = Duration::from_millis(100);

/// Time after which samples are forwarded at the next edge of a trial or of a path check.
const FORWARD_AFTER: Duration = Duration::from_secs(10);

/// Monitors in a row that sent nothing, after which no more are started.
const MAX_FAILURES: u32 = 3;

/// The monitors of a run.
pub(crate) struct HostMonitors {
    hosts: [MonitoredHost; 2],
    forwarded: Instant,
}

/// One host, and its monitor if it has one.
struct MonitoredHost {
    host: Host,
    /// The host in warnings.
    name: Phrase,
    monitor: Option<HostMonitor>,
    /// Monitors in a row that sent nothing.
    failures: u32,
    /// Whether the run has a warning about this host.
    warned: bool,
    /// Whether the bed monitors its hosts.
    is_supported: bool,
}

impl HostMonitors {
    pub(crate) fn new() -> Self {
        let host = |host| MonitoredHost {
            host,
            name: phrase::host_of(phrase::side(name_in_header(host))),
            monitor: None,
            failures: 0,
            warned: false,
            is_supported: true,
        };
        Self {
            hosts: [host(Host::Client), host(Host::Server)],
            forwarded: Instant::now(),
        }
    }

    /// Starts the monitors that are missing. Returns warnings for those that cannot be started.
    pub(crate) fn start(&mut self, bed: &mut dyn TestBed) -> Vec<Event> {
        let hosts = self.hosts.iter_mut();
        hosts.filter_map(|host| host.start(bed)).collect()
    }

    /// Says which trial begins, or that one has ended.
    pub(crate) fn at_edge(&mut self, trial: Option<u32>) {
        let interval_ns = nanoseconds(match trial {
            Some(_) => TRIAL_INTERVAL,
            None => IDLE_INTERVAL,
        });
        for monitor in self
            .hosts
            .iter_mut()
            .filter_map(|host| host.monitor.as_mut())
        {
            monitor.request(MonitorRequest { interval_ns, trial });
        }
    }

    /// Returns warnings about monitors that have ended, and the samples, if it is time for them.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let mut samples = Vec::new();
        let mut events = Vec::new();
        let due = self.forwarded.elapsed() >= FORWARD_AFTER;
        for host in &mut self.hosts {
            events.extend(host.reap(&mut samples));
            if let Some(monitor) = host.monitor.as_ref().filter(|_| due) {
                samples.extend(monitor.take());
            }
        }
        if due {
            self.forwarded = Instant::now();
        }
        events.extend(sampled(samples));
        events
    }

    /// Ends the monitors, and returns their last samples and warnings about those that had ended.
    pub(crate) fn end(&mut self) -> Vec<Event> {
        let mut samples = Vec::new();
        let mut events = Vec::new();
        for host in &mut self.hosts {
            events.extend(host.reap(&mut samples));
            if let Some(monitor) = host.monitor.take() {
                samples.extend(monitor.stop().0);
            }
        }
        events.extend(sampled(samples));
        events
    }
}

fn sampled(samples: Vec<HostSamples>) -> Option<Event> {
    (!samples.is_empty()).then_some(Event::HostsSampled { samples })
}

impl MonitoredHost {
    fn start(&mut self, bed: &mut dyn TestBed) -> Option<Event> {
        if self.monitor.is_some() || !self.is_supported || self.failures >= MAX_FAILURES {
            return None;
        }
        if bed.has_names() {
            self.name = phrase::named_host(bed.name(self.host));
        }
        let started = match bed.spawn_monitor(self.host) {
            Ok(None) => {
                self.is_supported = false;
                return None;
            }
            Ok(Some(launched)) => HostMonitor::start(name_in_header(self.host), launched, || {})
                .map_err(|error| error.reasons()),
            Err(error) => Err(error.reasons()),
        };
        match started {
            Ok(monitor) => {
                self.monitor = Some(monitor);
                None
            }
            Err(reasons) => {
                self.failures += 1;
                self.warn(warning::monitor_not_started, reason::chain(reasons))
            }
        }
    }

    /// Ends a monitor that sends no more samples, and returns a warning, once in a run.
    fn reap(&mut self, samples: &mut Vec<HostSamples>) -> Option<Event> {
        let mut reason = self.monitor.as_ref()?.ended()?;
        let monitor = self.monitor.take()?;
        self.failures = match monitor.samples() {
            0 => self.failures + 1,
            _ => 0,
        };
        let (last, exit) = monitor.stop();
        samples.extend(last);
        if let Some(exit) = exit {
            reason = reason::monitor_exited(reason, exit.text()).into();
        }
        self.warn(warning::monitor_ended, reason)
    }

    fn warn(&mut self, made: fn(Phrase, Text) -> Warning, reason: Text) -> Option<Event> {
        if std::mem::replace(&mut self.warned, true) {
            return None;
        }
        let warning = made(self.name.clone(), reason);
        Some(Event::Warning { warning })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{fake_bed::FakeBed, fake_monitor::Monitor};

    fn bed(monitors: impl Fn(Host, u32) -> Option<Monitor> + 'static) -> FakeBed {
        let mut bed = FakeBed::healthy();
        bed.monitors = Box::new(monitors);
        bed
    }

    /// Waits until a monitor that has ended is noticed, and returns the events.
    fn until_noticed(monitors: &mut HostMonitors) -> Vec<Event> {
        let limit = Instant::now() + Duration::from_secs(60);
        while monitors.hosts.iter().all(|host| {
            let ended = host.monitor.as_ref().and_then(HostMonitor::ended);
            ended.is_none()
        }) {
            assert!(Instant::now() < limit, "no monitor has ended");
            std::thread::yield_now();
        }
        monitors.events()
    }

    #[test]
    fn a_bed_without_monitors_is_tried_once() {
        let mut bed = bed(|_, _| None);
        let mut monitors = HostMonitors::new();
        for _ in 0..2 {
            assert_eq!(monitors.start(&mut bed), []);
        }
        assert_eq!(monitors.end(), []);
        assert_eq!(bed.monitor_requests, [1, 1]);
    }

    #[test]
    fn a_monitor_that_ends_is_a_warning_once_and_started_again() {
        let dying = |host, number| match (host, number) {
            (Host::Client, 0 | 1) => Some(Monitor::ExitsAtOnce),
            _ => Some(Monitor::Healthy),
        };
        let mut bed = bed(dying);
        let mut monitors = HostMonitors::new();
        assert_eq!(monitors.start(&mut bed), []);
        let events = until_noticed(&mut monitors);
        let [Event::Warning { warning }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(
            warning.message.contains("host of the sender"),
            "{warning:?}"
        );
        assert_eq!(monitors.start(&mut bed), []);
        assert_eq!(until_noticed(&mut monitors), []);
        assert_eq!(monitors.start(&mut bed), []);
        monitors.at_edge(Some(1));
        let events = monitors.end();
        let [Event::HostsSampled { samples }] = &events[..] else {
            panic!("{events:?}")
        };
        let hosts: Vec<&str> = samples.iter().map(|batch| batch.host.as_str()).collect();
        // Each has a sample of the time before the trial, and one of the trial.
        assert_eq!(hosts, ["sender", "sender", "receiver", "receiver"]);
        assert_eq!(bed.monitor_requests, [3, 1]);
    }

    #[test]
    fn monitors_without_samples_are_abandoned() {
        let mut bed = bed(|host, _| (host == Host::Server).then_some(Monitor::ExitsAtOnce));
        let mut monitors = HostMonitors::new();
        for _ in 0..MAX_FAILURES {
            monitors.start(&mut bed);
            until_noticed(&mut monitors);
        }
        monitors.start(&mut bed);
        assert_eq!(bed.monitor_requests, [1, MAX_FAILURES]);
    }

    #[test]
    fn a_monitor_that_cannot_be_started_is_a_warning() {
        let mut bed = bed(|_, _| Some(Monitor::Refused));
        let mut monitors = HostMonitors::new();
        let events = monitors.start(&mut bed);
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(monitors.start(&mut bed), []);
    }
}
