//! Readings of all instruments, at the edges of the transfer window and at each sample.

use std::time::Duration;

use crate::{
    clock::monotonic_ns,
    file::ProcFile,
    host_cpu::{self, HostCpu, cores},
    interface::{INTERFACES_FILE, InterfaceCounters},
    process::{ProcessCpu, peak_memory_bytes, resident_bytes},
    protocol::ProtocolFiles,
    tree::{Subject, Tree, TreeUse},
};

/// IP packets that a host has received, by their ECN field (RFC 3168).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets with ECT(0).
    pub ect0: u64,
    /// Packets with ECT(1).
    pub ect1: u64,
    /// Marked packets: congestion experienced.
    pub ce: u64,
}

impl EcnCounts {
    /// Returns the packets whose senders react to marks.
    #[must_use]
    pub fn capable(&self) -> u64 {
        self.ect0 + self.ect1 + self.ce
    }

    fn since(self, start: Self) -> Self {
        Self {
            ect0: self.ect0.saturating_sub(start.ect0),
            ect1: self.ect1.saturating_sub(start.ect1),
            ce: self.ce.saturating_sub(start.ce),
        }
    }
}

/// All counters at one moment. Those that the kernel does not provide are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic clock, in nanoseconds.
    pub monotonic_ns: i64,
    /// CPU time of this process, or of the tree of processes that does its work.
    pub process: ProcessCpu,
    /// CPU time of the host.
    pub host: Option<HostCpu>,
    /// Resident set of the process or tree whose CPU time `process` is, in bytes.
    pub resident_bytes: Option<u64>,
    /// Counters of the data interface.
    pub interface: Option<InterfaceCounters>,
    /// UDP datagrams that a full receive buffer dropped; read at edges only.
    pub receive_buffer_errors: Option<u64>,
    /// Times that the kernel's memory for TCP ran short; read at edges only.
    pub tcp_memory_pressures: Option<u64>,
    /// Packets received by their ECN field; read at edges only.
    pub ecn: Option<EcnCounts>,
}

/// Source of readings: the real instruments, or a test's.
pub trait Gauges {
    /// Reads the counters that series are made of.
    fn read(&mut self) -> Reading;
}

/// The open files of one reader.
///
/// Opening is done once; a reading is then a handful of system calls into kept buffers. Two
/// threads that read have one each.
#[derive(Debug)]
pub struct Instruments {
    subject: Subject,
    /// The tree of processes, if the subject is another process.
    tree: Option<Tree>,
    /// CPU time and memory of the tree at its last reading.
    used: TreeUse,
    stat: Option<ProcFile>,
    memory: Option<ProcFile>,
    /// The data interface, and the file with its counters.
    interface: Option<(String, ProcFile)>,
    protocol: ProtocolFiles,
}

impl Instruments {
    /// Opens what this kernel offers. The interface is one of the calling thread's network
    /// namespace; none if absent. CPU time and memory are this process's.
    #[must_use]
    pub fn open(interface: Option<&str>) -> Self {
        Self::open_for(interface, Subject::new())
    }

    /// Opens the instruments as [`Instruments::open`] does, but CPU time and memory are those of
    /// `subject`.
    #[must_use]
    pub fn open_for(interface: Option<&str>, subject: Subject) -> Self {
        Self {
            subject,
            tree: None,
            used: TreeUse::default(),
            stat: ProcFile::open("/proc/stat"),
            memory: ProcFile::open("/proc/self/statm"),
            interface: interface
                .and_then(|name| Some((name.to_owned(), ProcFile::open(INTERFACES_FILE)?))),
            protocol: ProtocolFiles::open(),
        }
    }

    /// Reads at the beginning of the window: the process's CPU last, so that the reading itself is
    /// not charged to the transfer.
    pub fn read_start(&mut self) -> Reading {
        let reading = self.read_end();
        Reading {
            monotonic_ns: monotonic_ns(),
            process: self.cpu(),
            ..reading
        }
    }

    /// Reads at the end of the window: the process's CPU first.
    pub fn read_end(&mut self) -> Reading {
        let reading = self.read();
        let [receive_buffer_errors, tcp_memory_pressures, ect0, ect1, ce] = self.protocol.values([
            "udp.receive_buffer_errors",
            "tcp.memory_pressures",
            "ip.received_ect0_packets",
            "ip.received_ect1_packets",
            "ip.received_ce_packets",
        ]);
        let ecn = || {
            Some(EcnCounts {
                ect0: ect0?,
                ect1: ect1?,
                ce: ce?,
            })
        };
        Reading {
            receive_buffer_errors,
            tcp_memory_pressures,
            ecn: ecn(),
            ..reading
        }
    }

    /// Returns the largest resident set of the subject so far, in bytes. Of a tree of several
    /// processes it is the largest sum that a reading of any instruments with this subject has
    /// seen.
    #[must_use]
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        match self.subject.other() {
            None => peak_memory_bytes(),
            Some(_) => self.subject.peak_bytes(),
        }
    }

    /// Returns the CPU time of the subject. A tree that has ended keeps what it had used.
    fn cpu(&mut self) -> ProcessCpu {
        let Some(root) = self.subject.other() else {
            return ProcessCpu::now();
        };
        let tree = match &mut self.tree {
            Some(tree) if tree.root() == root => tree,
            other => other.insert(Tree::new(root)),
        };
        if let Some(used) = tree.read() {
            self.used = used;
            self.subject.note_peak(used.peak_bytes);
        }
        self.used.cpu
    }
}

impl Gauges for Instruments {
    fn read(&mut self) -> Reading {
        let monotonic_ns = monotonic_ns();
        let process = self.cpu();
        let resident_bytes = match self.subject.other() {
            None => self.memory.as_mut().and_then(resident_bytes),
            Some(_) => self.used.resident_bytes,
        };
        Reading {
            monotonic_ns,
            process,
            host: self.stat.as_mut().and_then(host_cpu::read),
            resident_bytes,
            interface: self
                .interface
                .as_mut()
                .and_then(|(name, file)| InterfaceCounters::parse(file.read().ok()?, name)),
            receive_buffer_errors: None,
            tcp_memory_pressures: None,
            ecn: None,
        }
    }
}

/// Resources used and packets counted between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WindowDeltas {
    /// Time between the readings.
    pub elapsed: Duration,
    /// CPU time of this process over the time; 1 is one core.
    pub cpu_ratio: Option<f64>,
    /// User part of `cpu_ratio`.
    pub cpu_user_ratio: Option<f64>,
    /// System part of `cpu_ratio`.
    pub cpu_system_ratio: Option<f64>,
    /// Busy time of the host over the time of all its cores, at most 1.
    pub cpu_host_ratio: Option<f64>,
    /// Softirq time of the host over the time of all its cores, at most 1.
    pub cpu_host_softirq_ratio: Option<f64>,
    /// Counters of the data interface.
    pub interface: Option<InterfaceCounters>,
    /// UDP datagrams that a full receive buffer dropped.
    pub receive_buffer_errors: Option<u64>,
    /// Times that the kernel's memory for TCP ran short.
    pub tcp_memory_pressures: Option<u64>,
    /// Packets received by their ECN field.
    pub ecn: Option<EcnCounts>,
}

impl WindowDeltas {
    /// Returns the differences between the reading `start` and the later `end`. Ratios are absent
    /// if no time has passed.
    ///
    /// The total is the scheduler's; user and system share it as `getrusage` divides it.
    #[must_use]
    pub fn between(start: &Reading, end: &Reading) -> Self {
        let elapsed_ns = (end.monotonic_ns - start.monotonic_ns).max(0);
        let over_time = |ns: i64| (elapsed_ns > 0).then(|| ns as f64 / elapsed_ns as f64);
        let process = end.process.since(start.process);
        let divided = (process.user_ns + process.system_ns) as f64;
        let share = |part: i64| {
            let share = over_time(process.total_ns)? * part as f64 / divided;
            Some(if divided > 0.0 { share } else { 0.0 })
        };
        let counted = |counter: fn(&Reading) -> Option<u64>| {
            Some(counter(end)?.saturating_sub(counter(start)?))
        };
        let host = |ratio: fn(&HostCpu, &HostCpu, i64, u32) -> Option<f64>| {
            ratio(&end.host?, &start.host?, elapsed_ns, cores())
        };
        Self {
            elapsed: Duration::from_nanos(elapsed_ns.unsigned_abs()),
            cpu_ratio: over_time(process.total_ns),
            cpu_user_ratio: share(process.user_ns),
            cpu_system_ratio: share(process.system_ns),
            cpu_host_ratio: host(HostCpu::busy_ratio),
            cpu_host_softirq_ratio: host(HostCpu::softirq_ratio),
            interface: (end.interface.zip(start.interface)).map(|(end, start)| end.since(start)),
            receive_buffer_errors: counted(|it| it.receive_buffer_errors),
            tcp_memory_pressures: counted(|it| it.tcp_memory_pressures),
            ecn: end.ecn.zip(start.ecn).map(|(end, start)| end.since(start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_are_per_elapsed_time_and_keep_absent_values_absent() {
        let start = Reading {
            monotonic_ns: 1_000_000_000,
            process: ProcessCpu {
                user_ns: 100,
                system_ns: 100,
                total_ns: 200,
            },
            host: Some(HostCpu::default()),
            ..Reading::default()
        };
        let end = Reading {
            monotonic_ns: 3_000_000_000,
            process: ProcessCpu {
                user_ns: 100 + 300_000_000,
                system_ns: 100 + 100_000_000,
                total_ns: 200 + 500_000_000,
            },
            host: Some(HostCpu {
                free_ns: 1_000_000_000 * i64::from(cores()),
                softirq_ns: 0,
            }),
            ..Reading::default()
        };
        let deltas = WindowDeltas::between(&start, &end);
        assert_eq!(deltas.elapsed, Duration::from_secs(2));
        assert_eq!(deltas.cpu_ratio, Some(0.25));
        assert_eq!(deltas.cpu_user_ratio, Some(0.1875));
        assert_eq!(deltas.cpu_system_ratio, Some(0.0625));
        assert_eq!(deltas.cpu_host_ratio, Some(0.5));
        assert_eq!(deltas.cpu_host_softirq_ratio, Some(0.0));
        assert_eq!(deltas.interface, None);
        assert_eq!(deltas.receive_buffer_errors, None);
        assert_eq!(WindowDeltas::between(&end, &end).cpu_ratio, None);
    }

    #[test]
    fn work_shorter_than_a_tick_counts_as_host_cpu() {
        let mut instruments = Instruments::open(None);
        let start = instruments.read_start();
        for _ in 0..300 {
            let until = monotonic_ns() + 500_000;
            while monotonic_ns() < until {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let end = instruments.read_end();
        let deltas = WindowDeltas::between(&start, &end);
        let ours = deltas.cpu_ratio.unwrap();
        let host = deltas.cpu_host_ratio.unwrap() * f64::from(cores());
        // The kernel counts idle, waiting and stolen time in steps of 10 ms each.
        let steps = 0.03 / deltas.elapsed.as_secs_f64();
        assert!(host >= ours - steps, "host {host}, this process {ours}");
    }

    #[test]
    fn all_instruments_of_this_host_return_values() {
        let mut instruments = Instruments::open(Some("lo"));
        let start = instruments.read_start();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            socket
                .send_to(&[0; 972], socket.local_addr().unwrap())
                .unwrap();
        }
        let end = instruments.read_end();
        let deltas = WindowDeltas::between(&start, &end);
        // Other processes may use loopback too: at least ours are there.
        let interface = deltas.interface.unwrap();
        assert!(interface.sent_packets >= 100, "{interface:?}");
        assert!(interface.sent_bytes >= 100_000, "{interface:?}");
        assert!(
            end.resident_bytes.is_some()
                && end.host.is_some()
                && end.receive_buffer_errors.is_some()
        );
    }
}
