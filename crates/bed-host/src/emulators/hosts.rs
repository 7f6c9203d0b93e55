//! Bed with an agent on each host, which sends flows of datagrams and TCP flows.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    time::Duration,
};

use regatta_bed::{Bed, Host, Launched, PathCounters, TestBed as _};
use regatta_model::{BedKind, Condition, Emulator, LossBy, PathSetup, Placement};

use super::Outcome;

/// Emulators that are compared.
pub(super) const EMULATORS: [PathSetup; 2] = [
    PathSetup {
        emulator: Emulator::Netem,
        placement: Placement::Between,
        loss_by: LossBy::Emulator,
        offloads: regatta_model::Offloads::Off,
    },
    PathSetup::USERSPACE,
];

/// A datagram that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) number: u64,
    /// Time from the call to send to the receiving kernel's time stamp, in nanoseconds.
    pub(super) delay_ns: u64,
    pub(super) at_ns: u64,
}

/// Datagrams at even intervals from host a to host b.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    pub(super) packets: u64,
    /// Bytes of the whole IP packet.
    pub(super) packet_bytes: u64,
    pub(super) interval: Duration,
}

/// Packets of a flow as they were sent and as they arrived.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) sending: Sending,
    /// Packets in the order of arrival, with copies.
    pub(super) arrivals: Vec<Arrival>,
    pub(super) counters: PathCounters,
}

impl Flow {
    /// Returns the first arrival of each packet, by the packet's number.
    pub(super) fn first_arrivals(&self) -> Vec<Option<Arrival>> {
        let mut first = vec![None; self.sending.packets as usize];
        for arrival in &self.arrivals {
            if let Some(slot @ None) = first.get_mut(arrival.number as usize) {
                *slot = Some(*arrival);
            }
        }
        first
    }

    pub(super) fn copies(&self) -> u64 {
        let mut numbers = HashSet::new();
        let copies = self.arrivals.iter().filter(|a| !numbers.insert(a.number));
        copies.count() as u64
    }

    /// Returns the number of packets that arrived after one that was sent later: RFC 4737 §3.
    pub(super) fn reordered(&self) -> u64 {
        let mut highest = None;
        let mut count = 0;
        for arrival in &self.arrivals {
            if highest > Some(arrival.number) {
                count += 1;
            }
            highest = highest.max(Some(arrival.number));
        }
        count
    }
}

/// TCP flow that was sent beside others.
#[derive(Debug, Clone, Copy)]
pub(super) struct BulkFlow {
    pub(super) goodput_bps: f64,
    /// Mean smoothed round-trip time.
    pub(super) round_trip_ns: f64,
}

/// Times of bulk flows: the beginning that is left out, their whole duration, and the time between their starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct BulkTimes {
    pub(super) beginning: Duration,
    pub(super) lasts: Duration,
    pub(super) apart: Duration,
}

/// Bed with its agents.
pub(super) struct Hosts {
    bed: Bed,
    a: Agent,
    b: Agent,
}

impl Hosts {
    pub(super) fn over(path: PathSetup) -> Outcome<Self> {
        let program = std::env::current_exe()?;
        let mut bed = Bed::up(BedKind::Netns, path, &[], &program, "emulators")?;
        let (a, b) = (
            Agent::start(&mut bed, Host::Client)?,
            Agent::start(&mut bed, Host::Server)?,
        );
        Ok(Self { bed, a, b })
    }

    pub(super) fn flow(
        &mut self,
        condition: &Condition,
        seed: u64,
        sending: Sending,
    ) -> Outcome<Flow> {
        self.bed.set_condition(condition, seed)?;
        self.bed.begin()?;
        let peer = self.listen("collect")?;
        // The IP and UDP headers are part of the packet.
        let payload = sending.packet_bytes - 28;
        let (packets, interval) = (sending.packets, sending.interval.as_nanos());
        self.a
            .send(&format!("flow {peer} {packets} {payload} {interval}"))?;
        self.a.receive("sent")?;
        let collected = self.b.receive("collected")?;
        let arrivals = collected.split_whitespace().map(|arrival| {
            let mut parts = arrival.split(':').map(str::parse);
            let mut part = || -> Outcome<u64> { Ok(parts.next().ok_or("a part is missing")??) };
            Ok(Arrival {
                number: part()?,
                delay_ns: part()?,
                at_ns: part()?,
            })
        });
        Ok(Flow {
            sending,
            arrivals: arrivals.collect::<Outcome<_>>()?,
            counters: self.bed.counters()?,
        })
    }

    /// Measures the goodput of a TCP flow without its beginning, in bits per second, and the share
    /// of its packets that was lost.
    pub(super) fn goodput(
        &mut self,
        condition: &Condition,
        seed: u64,
        congestion_control: &str,
        [beginning, duration]: [Duration; 2],
    ) -> Outcome<(f64, f64)> {
        self.bed.set_condition(condition, seed)?;
        let peer = self.listen(&format!("listen {}", beginning.as_secs_f64()))?;
        let seconds = (beginning + duration).as_secs_f64();
        self.a
            .send(&format!("send {peer} {seconds} {congestion_control}"))?;
        let sent = self.a.receive("sent")?;
        if !sent.ends_with(congestion_control) {
            return Err(format!("asked for {congestion_control}, sent with `{sent}`").into());
        }
        let received = self.b.receive("received")?;
        let (bytes, elapsed_ns) = received.split_once(' ').ok_or("no time")?;
        let link = self.bed.counters()?.forward;
        Ok((
            bytes.parse::<f64>()? * 8e9 / elapsed_ns.parse::<f64>()?,
            link.lost() as f64 / link.offered as f64,
        ))
    }

    /// Sends TCP flows with these congestion controls at the same time. Returns them, and the counters of the whole time.
    pub(super) fn bulk(
        &mut self,
        condition: &Condition,
        seed: u64,
        controls: &[&str],
        times: BulkTimes,
    ) -> Outcome<(Vec<BulkFlow>, PathCounters)> {
        self.bed.set_condition(condition, seed)?;
        let [from, to] = [times.beginning, times.lasts].map(|time| time.as_secs_f64());
        let names = controls.join(" ");
        self.b.send(&format!("listen-flows {from} {to} {names}"))?;
        let ports = self.b.receive("listening")?;
        let flows = ports.split(' ').zip(controls);
        let flows: Vec<String> = flows.map(|(port, name)| format!("{port}:{name}")).collect();
        let (flows, apart) = (flows.join(" "), times.apart.as_millis());
        let peer = self.bed.address(Host::Server);
        self.a
            .send(&format!("send-flows {peer} {from} {to} {apart} {flows}"))?;
        let numbers = |text: String| -> Outcome<Vec<f64>> {
            let numbers = text.split_whitespace().map(str::parse);
            Ok(numbers.collect::<Result<_, _>>()?)
        };
        let round_trips = numbers(self.a.receive("sent")?)?;
        let received = numbers(self.b.receive("received")?)?;
        let measured = (times.lasts - times.beginning).as_secs_f64();
        let flows = received.iter().zip(round_trips);
        let flows = flows.map(|(bytes, round_trip_ns)| BulkFlow {
            goodput_bps: 8.0 * bytes / measured,
            round_trip_ns,
        });
        Ok((flows.collect(), self.bed.counters()?))
    }

    fn listen(&mut self, command: &str) -> Outcome<SocketAddr> {
        self.b.send(command)?;
        let port = self.b.receive("listening")?.parse()?;
        Ok(SocketAddr::new(self.bed.address(Host::Server), port))
    }
}

/// An agent, killed when dropped.
struct Agent(Launched, BufReader<File>);

impl Agent {
    fn start(bed: &mut Bed, host: Host) -> Outcome<Self> {
        let launched = bed.spawn_agent(host)?;
        let answers = launched.output.try_clone()?;
        Ok(Self(launched, BufReader::new(answers.into())))
    }

    fn send(&mut self, line: &str) -> Outcome<()> {
        Ok(writeln!(self.0.input, "{line}")?)
    }

    /// Reads the next line, which must begin with `prefix`, and returns the rest.
    fn receive(&mut self, prefix: &str) -> Outcome<String> {
        let mut line = String::new();
        self.1.read_line(&mut line)?;
        match line.trim_end().strip_prefix(prefix) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(format!("the agent sent `{}`, not `{prefix} …`", line.trim_end()).into()),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.process.kill();
    }
}
