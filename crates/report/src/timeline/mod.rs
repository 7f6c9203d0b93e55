//! Samples of the hosts over the time of a run, in steps of time that a figure can show.

use std::collections::BTreeMap;

use regatta_model::{
    HostSample, HostSamples, Unit,
    host_sample::{self, ELAPSED, Group, HostQuantity, Kind},
};

use crate::format::quantity;

/// Maximum number of steps of a timeline; beyond them each two become one.
const MAX_BINS: i64 = 600;

/// Step of a timeline at first, in nanoseconds: the interval of samples during trials.
const FIRST_BIN_NS: i64 = 100_000_000;

/// Shortest sample whose value counts as a peak: those at the edges of trials can be so short that one
/// packet is a high rate.
const MIN_PEAK_NS: i64 = 50_000_000;

/// Name of the mean over all cores of their busy time.
pub const CPU_MEAN: &str = "all.cpu_mean_ratio";
/// Name of the busy time of the core that is busiest in each sample.
pub const CPU_BUSIEST: &str = "all.cpu_busiest_ratio";
/// Name of the mean over all cores of their time in softirq.
pub const SOFTIRQ_MEAN: &str = "all.softirq_mean_ratio";
/// Name of the time in softirq of the core that has most of it in each sample.
pub const SOFTIRQ_BUSIEST: &str = "all.softirq_busiest_ratio";
/// Name of the memory that is in use.
pub const MEMORY_USED: &str = "all.memory_used_bytes";
/// Name of the errors and drops of all interfaces.
pub const INTERFACE_ERRORS: &str = "all.interface_errors";
/// Name of the collisions of all interfaces.
pub const COLLISIONS: &str = "all.collisions";
/// Name of the packets that IP discarded or found wrong.
pub const IP_ERRORS: &str = "all.ip_errors";
/// Name of the segments that TCP found wrong, or for which a socket had no room.
pub const TCP_ERRORS: &str = "all.tcp_errors";
/// Name of the datagrams that UDP found wrong, or for which a socket had no room.
pub const UDP_ERRORS: &str = "all.udp_errors";
/// Name of the packets that SCTP found wrong or dropped.
pub const SCTP_ERRORS: &str = "all.sctp_errors";

/// Parts of the values that are made of several others: a group, and the names in it. Counters of one part are added up.
const PARTS: [(Group, &[&str]); 10] = [
    (Group::Cpu, &["busy_ratio"]),
    (Group::Cpu, &["softirq_ratio"]),
    (Group::Memory, &["total_bytes"]),
    (Group::Memory, &["available_bytes"]),
    (
        Group::Interface,
        &[
            "receive_errors",
            "receive_drops",
            "send_errors",
            "send_drops",
        ],
    ),
    (Group::Interface, &["collisions"]),
    (
        Group::Ip,
        &[
            "receive_header_errors",
            "receive_discards",
            "send_discards",
            "reassembly_failures",
        ],
    ),
    (
        Group::Tcp,
        &["receive_errors", "backlog_drops", "receive_queue_drops"],
    ),
    (Group::Udp, &["receive_errors", "send_buffer_errors"]),
    (Group::Sctp, &["checksum_errors", "receive_discards"]),
];

/// Names of the sums of the last of [`PARTS`].
const SUMS: [&str; 6] = [
    INTERFACE_ERRORS,
    COLLISIONS,
    IP_ERRORS,
    TCP_ERRORS,
    UDP_ERRORS,
    SCTP_ERRORS,
];

/// One host over time.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTimeline {
    /// Name of the host.
    pub host: String,
    /// Beginning of the first sample by the host's clock, in nanoseconds since the Unix epoch.
    pub origin_unix_ns: i64,
    /// Length of a step, in nanoseconds.
    pub bin_ns: i64,
    /// Number of samples.
    pub samples: u64,
    /// Times of trials by the host's clock, in the order in which they ran.
    pub trials: Vec<TrialSpan>,
    /// Values by name. Names beginning with `all.` are made of several.
    pub lines: BTreeMap<String, Line>,
}

/// Time of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialSpan {
    /// Number of the trial's record.
    pub trial: u32,
    /// Beginning of its first sample, in nanoseconds since the origin.
    pub from_ns: i64,
    /// End of its last sample, in nanoseconds since the origin.
    pub to_ns: i64,
}

/// One quantity over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// Steps of time, from the origin on.
    pub bins: Vec<Bin>,
    /// Sum of a count; of other quantities, their integral over seconds.
    pub total: f64,
    /// Largest value of a sample that is not very short; of a count, its rate per second.
    pub largest: f64,
    /// Time with values, in nanoseconds.
    pub covered_ns: f64,
}

/// One step of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    sum: f64,
    covered_ns: f64,
    /// Smallest and largest value of the samples that are not very short; infinite without any.
    least: f64,
    largest: f64,
}

impl Default for Bin {
    fn default() -> Self {
        Self {
            sum: 0.0,
            covered_ns: 0.0,
            least: f64::INFINITY,
            largest: f64::NEG_INFINITY,
        }
    }
}

impl Bin {
    /// Returns the mean over the time that samples cover; `None` without any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.covered_ns > 0.0).then(|| self.sum / self.covered_ns)
    }

    /// Returns the smallest and the largest value of a sample in this step; of samples that are all very
    /// short, their mean. `None` without any.
    #[must_use]
    pub fn range(&self) -> Option<[f64; 2]> {
        let mean = self.mean()?;
        Some(match self.least <= self.largest {
            true => [self.least, self.largest],
            false => [mean; 2],
        })
    }

    fn add(&mut self, value: f64, covered_ns: f64, may_peak: bool) {
        self.sum += value * covered_ns;
        self.covered_ns += covered_ns;
        if may_peak {
            self.least = self.least.min(value);
            self.largest = self.largest.max(value);
        }
    }

    fn joined(pair: &[Self]) -> Self {
        pair.iter().fold(Self::default(), |joined, bin| Self {
            sum: joined.sum + bin.sum,
            covered_ns: joined.covered_ns + bin.covered_ns,
            least: joined.least.min(bin.least),
            largest: joined.largest.max(bin.largest),
        })
    }
}

impl Line {
    /// Returns the mean over time; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.covered_ns > 0.0).then(|| self.total * 1e9 / self.covered_ns)
    }

    /// Returns the ratio of two sums over the same steps, such as bytes to packets.
    #[must_use]
    pub fn ratio(&self, to: &Self) -> Self {
        let bins: Vec<Bin> = (self.bins.iter().zip(&to.bins))
            .map(|(a, b)| match b.sum > 0.0 {
                true => Bin {
                    sum: a.sum / b.sum * a.covered_ns,
                    covered_ns: a.covered_ns,
                    ..Bin::default()
                },
                false => Bin::default(),
            })
            .collect();
        let means = bins.iter().filter_map(Bin::mean);
        Self {
            largest: means.fold(0.0, f64::max),
            total: self.total / to.total,
            covered_ns: bins.iter().map(|bin| bin.covered_ns).sum(),
            bins,
        }
    }

    /// Adds a value that holds from `from_ns` to `to_ns`.
    fn add(&mut self, value: f64, [from_ns, to_ns]: [i64; 2], bin_ns: i64) {
        self.total += value * (to_ns - from_ns) as f64 / 1e9;
        self.covered_ns += (to_ns - from_ns) as f64;
        let may_peak = to_ns - from_ns >= MIN_PEAK_NS;
        if may_peak {
            self.largest = self.largest.max(value);
        }
        for bin in from_ns / bin_ns..=(to_ns - 1) / bin_ns {
            let start = (bin * bin_ns).max(from_ns);
            let end = (bin + 1).saturating_mul(bin_ns).min(to_ns);
            let position = usize::try_from(bin).unwrap_or_default();
            if self.bins.len() <= position {
                self.bins.resize(position + 1, Bin::default());
            }
            self.bins[position].add(value, (end - start) as f64, may_peak);
        }
    }
}

/// Adds samples to the timelines of their hosts, which are made with their first samples.
///
/// Samples of hosts come in the order in which they were taken. Those that lie before the first one of
/// their host, because its clock was set back, are left out.
pub fn add(timelines: &mut Vec<HostTimeline>, batch: &HostSamples) {
    let known = timelines.iter().position(|line| line.host == batch.host);
    let position = known.unwrap_or_else(|| {
        timelines.push(HostTimeline::new(&batch.host));
        timelines.len() - 1
    });
    timelines[position].add(batch);
}

impl HostTimeline {
    fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            origin_unix_ns: 0,
            bin_ns: FIRST_BIN_NS,
            samples: 0,
            trials: Vec::new(),
            lines: BTreeMap::new(),
        }
    }

    fn add(&mut self, batch: &HostSamples) {
        let spans = self.spans(batch);
        let ends = spans.iter().flatten().map(|span| span[1]);
        self.make_room(ends.max().unwrap_or(0));
        let mut sums = vec![[Part::default(); PARTS.len()]; spans.len()];
        for (column, name) in batch.names.iter().enumerate() {
            let Some((quantity, _)) = host_sample::find(name) else {
                continue;
            };
            let part = (PARTS.iter()).position(|(group, names)| {
                *group == quantity.group && names.contains(&quantity.name)
            });
            let bin_ns = self.bin_ns;
            let mut line = has_line(quantity).then(|| self.lines.entry(name.clone()).or_default());
            for (index, (sample, span)) in batch.samples.iter().zip(&spans).enumerate() {
                let value = sample.values.get(column).copied().flatten();
                let (Some(value), Some(span)) = (value, *span) else {
                    continue;
                };
                let value = match quantity.kind {
                    Kind::Count => f64::from(value) * 1e9 / (span[1] - span[0]) as f64,
                    Kind::State | Kind::Share => f64::from(value),
                };
                if let Some(part) = part {
                    sums[index][part].add(value);
                }
                if let Some(line) = &mut line {
                    line.add(value, span, bin_ns);
                }
            }
        }
        let with_spans = sums.into_iter().zip(&spans);
        for (parts, span) in with_spans.filter_map(|(parts, span)| Some((parts, (*span)?))) {
            for (name, value) in derived_values(parts) {
                let line = self.lines.entry(name.to_owned()).or_default();
                line.add(value, span, self.bin_ns);
            }
        }
        // A kernel without these counters has columns without values.
        self.lines.retain(|_, line| line.covered_ns > 0.0);
        self.add_trial(batch.trial, &spans);
    }

    /// Returns the time that each sample covers, in nanoseconds since the origin; `None` for one that
    /// cannot be placed.
    fn spans(&mut self, batch: &HostSamples) -> Vec<Option<[i64; 2]>> {
        let elapsed = batch.position(ELAPSED);
        let span = |sample: &HostSample| {
            let elapsed_ns = (*sample.values.get(elapsed?)?)? as i64;
            if elapsed_ns <= 0 {
                return None;
            }
            if self.samples == 0 {
                self.origin_unix_ns = sample.unix_ns.saturating_sub(elapsed_ns);
            }
            let to_ns = sample.unix_ns.saturating_sub(self.origin_unix_ns);
            let from_ns = to_ns.saturating_sub(elapsed_ns).max(0);
            let placed = to_ns > from_ns;
            self.samples += u64::from(placed);
            placed.then_some([from_ns, to_ns])
        };
        batch.samples.iter().map(span).collect()
    }

    /// Joins steps until the one at `to_ns` is not too many.
    fn make_room(&mut self, to_ns: i64) {
        while to_ns / self.bin_ns >= MAX_BINS {
            self.bin_ns *= 2;
            for line in self.lines.values_mut() {
                line.bins = line.bins.chunks(2).map(Bin::joined).collect();
            }
        }
    }

    fn add_trial(&mut self, trial: Option<u32>, spans: &[Option<[i64; 2]>]) {
        let mut placed = spans.iter().flatten();
        let (Some(trial), Some(first)) = (trial, placed.next()) else {
            return;
        };
        let to_ns = placed.next_back().unwrap_or(first)[1];
        match self.trials.last_mut() {
            Some(last) if last.trial == trial => last.to_ns = to_ns,
            _ => self.trials.push(TrialSpan {
                trial,
                from_ns: first[0],
                to_ns,
            }),
        }
    }

    /// Returns the last moment of any sample, in nanoseconds since the origin.
    #[must_use]
    pub fn end_ns(&self) -> i64 {
        let longest = self.lines.values().map(|line| line.bins.len()).max();
        i64::try_from(longest.unwrap_or(0)).unwrap_or(0) * self.bin_ns
    }

    /// Returns the sum of a counter; `None` where the host's kernel does not count it.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<f64> {
        self.lines.get(name).map(|line| line.total.round())
    }

    /// Returns the host's CPU and errors in one sentence without a full stop.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if let Some(line) = self.lines.get(CPU_MEAN)
            && let Some(mean) = line.mean()
        {
            let [mean, peak] = [mean, line.largest].map(|share| quantity(Unit::Ratio, share));
            let text = format!("CPU {mean} of all cores on average, {peak} at its peak");
            parts.push(text);
        }
        for (name, what) in [
            ("tcp.retransmitted_segments", "TCP segments sent again"),
            (INTERFACE_ERRORS, "errors and drops of interfaces"),
            (COLLISIONS, "collisions"),
            (IP_ERRORS, "errors and discards of IP"),
            (TCP_ERRORS, "errors and drops of TCP"),
            (UDP_ERRORS, "errors and drops of UDP"),
            (SCTP_ERRORS, "errors and drops of SCTP"),
        ] {
            parts.push(match self.count(name) {
                None => format!("{what} not counted by this kernel"),
                Some(count) => format!("{count} {what}"),
            });
        }
        parts.join(", ")
    }
}

/// Whether a quantity has a line of its own. Of the cores that is what figures show.
fn has_line(quantity: &HostQuantity) -> bool {
    quantity.group != Group::Cpu || matches!(quantity.name, "busy_ratio" | "softirq_ratio")
}

/// Values of one part in one sample, such as the shares of all cores.
#[derive(Clone, Copy, Default)]
struct Part {
    sum: f64,
    number: f64,
    largest: f64,
}

impl Part {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.number += 1.0;
        self.largest = self.largest.max(value);
    }

    /// Returns mean, largest value and sum; `None` without values.
    fn values(self) -> [Option<f64>; 3] {
        let values = [self.sum / self.number, self.largest, self.sum];
        values.map(|value| (self.number > 0.0).then_some(value))
    }
}

/// Returns the values that are made of the parts of one sample.
fn derived_values(parts: [Part; PARTS.len()]) -> impl Iterator<Item = (&'static str, f64)> {
    let [busy, softirq, total, available, sums @ ..] = parts.map(Part::values);
    let used = total[2].zip(available[2]);
    let values = [
        (CPU_MEAN, busy[0]),
        (CPU_BUSIEST, busy[1]),
        (SOFTIRQ_MEAN, softirq[0]),
        (SOFTIRQ_BUSIEST, softirq[1]),
        (
            MEMORY_USED,
            used.map(|(total, available)| total - available),
        ),
    ];
    let sums = SUMS.into_iter().zip(sums.map(|[_, _, sum]| sum));
    let values = values.into_iter().chain(sums);
    values.filter_map(|(name, value)| Some((name, value?)))
}

#[cfg(test)]
mod tests;
