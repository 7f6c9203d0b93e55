//! Monitoring of the host for a whole run, between the trials too.
//!
//! [`HostSampler`] takes samples; [`main`] is the process `regatta host-monitor`, which takes them at
//! an interval that its input sets. The names of the values are in
//! [`regatta_model::host_sample::QUANTITIES`].

mod cores;
mod interfaces;
mod memory;
mod process;
mod reading;

use nix::time::ClockId;
use regatta_model::HostSample;

pub use process::{MonitorError, main};
use reading::{Reading, Value};

use crate::{
    clock::{clock_ns, monotonic_ns},
    file::ProcFile,
    protocol::ProtocolFiles,
};

/// Time after which instruments that change seldom are read again: offloads, and files that appear
/// when a module is loaded.
const SELDOM_NS: i64 = 10_000_000_000;

/// Instruments of the whole host, and their last reading.
///
/// A file that this kernel does not have is left out, and its names with it.
#[derive(Debug)]
pub struct HostSampler {
    stat: Option<ProcFile>,
    load: Option<ProcFile>,
    memory: Option<ProcFile>,
    interfaces: interfaces::Interfaces,
    protocols: ProtocolFiles,
    tick_ns: i64,
    /// Monotonic time of the last reading of values that change seldom.
    last_seldom_ns: i64,
    last: Reading,
    names: Vec<String>,
}

/// Sample, and the names of its values where they differ from those of the sample before.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// Names, for the first sample and after a change.
    pub names: Option<Vec<String>>,
    /// The sample.
    pub sample: HostSample,
}

impl HostSampler {
    /// Opens what this kernel offers and takes the first reading, from which the first sample counts.
    /// Interfaces and protocol counters are those of the calling thread's network namespace.
    #[must_use]
    pub fn open() -> Self {
        let mut sampler = Self {
            stat: ProcFile::open("/proc/stat"),
            load: ProcFile::open("/proc/loadavg"),
            memory: ProcFile::open("/proc/meminfo"),
            interfaces: interfaces::Interfaces::open(),
            protocols: ProtocolFiles::open(),
            tick_ns: crate::host_cpu::tick_ns(),
            last_seldom_ns: monotonic_ns(),
            last: Reading::default(),
            names: Vec::new(),
        };
        sampler.last = sampler.read();
        sampler
    }

    /// Takes a sample of the time since the last one, or since the sampler was opened.
    pub fn sample(&mut self) -> Taken {
        let now = self.read();
        let sample = now.since(&self.last);
        let names = now.names();
        self.last = now;
        let before = std::mem::replace(&mut self.names, names);
        Taken {
            names: (before != self.names).then(|| self.names.clone()),
            sample,
        }
    }

    fn read(&mut self) -> Reading {
        let mut reading = Reading {
            monotonic_ns: monotonic_ns(),
            unix_ns: clock_ns(ClockId::CLOCK_REALTIME),
            values: Vec::with_capacity(self.last.values.len()),
        };
        if reading.monotonic_ns - self.last_seldom_ns >= SELDOM_NS {
            self.last_seldom_ns = reading.monotonic_ns;
            self.interfaces.forget_offloads();
            self.protocols.reopen_missing();
        }
        let mut text = |file: &mut Option<ProcFile>, parse: reading::Parse| {
            if let Some(text) = file.as_mut().and_then(|file| file.read().ok()) {
                parse(text, &mut reading.values);
            }
        };
        let tick_ns = self.tick_ns;
        text(&mut self.stat, &|text, values| {
            cores::read(text, tick_ns, values);
        });
        text(&mut self.load, &memory::read_load);
        text(&mut self.memory, &memory::read_memory);
        self.interfaces.read(&mut reading.values);
        let counts = self.protocols.read();
        let counts = counts.map(|(name, count)| (name.to_owned(), Value::Count(count)));
        reading.values.extend(counts);
        reading
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::host_sample;

    use super::*;

    #[test]
    fn every_name_of_this_host_is_defined() {
        let taken = HostSampler::open().sample();
        let names = taken.names.unwrap();
        for name in &names {
            assert!(host_sample::find(name).is_some(), "{name}");
        }
        assert_eq!(taken.sample.values.len(), names.len());
        for group in ["cpu", "load", "memory", "interface", "ip", "tcp", "udp"] {
            let of_group = |name: &&String| name.starts_with(&format!("{group}."));
            assert!(names.iter().any(|name| of_group(&name)), "{group}");
        }
    }

    #[test]
    fn names_are_sent_only_when_they_change() {
        let mut sampler = HostSampler::open();
        let first = sampler.sample();
        // An interface that carries its first packet meanwhile has new names.
        let second = sampler.sample();
        assert!(first.names.is_some());
        assert!(second.names.is_none() || second.names != first.names);
        assert!(second.sample.monotonic_ns >= first.sample.monotonic_ns);
    }

    #[test]
    fn traffic_of_loopback_is_counted() {
        let mut sampler = HostSampler::open();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            socket
                .send_to(&[0; 972], socket.local_addr().unwrap())
                .unwrap();
        }
        let taken = sampler.sample();
        let names = taken.names.unwrap();
        let value = |name: &str| {
            let position = names.iter().position(|known| known == name).unwrap();
            taken.sample.values[position].unwrap()
        };
        // Other processes may use loopback too: at least ours are there.
        assert!(value("interface.lo.sent_packets") >= 100.0);
        assert!(value("interface.lo.sent_bytes") >= 100_000.0);
        assert!(value("udp.sent_datagrams") >= 100.0);
    }
}
