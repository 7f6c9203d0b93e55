//! The series of `regatta_model::metric::SERIES`, made from readings.

use regatta_model::{Series, metric::series_id};

use crate::reading::{Reading, WindowDeltas};

/// Counters and state of a transport's flow at one moment; those that the transport does not know
/// are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSample {
    /// Application bytes delivered since the window began.
    pub bytes_delivered: Option<u64>,
    /// Retransmissions since the connection began.
    pub retransmitted_packets: Option<u64>,
    /// Congestion window, in bytes.
    pub congestion_window_bytes: Option<u64>,
    /// Smoothed round-trip time, in nanoseconds.
    pub smoothed_rtt_ns: Option<u64>,
    /// Bytes sent and not yet acknowledged or declared lost.
    pub bytes_in_flight: Option<u64>,
}

/// Source of a transport's own counters for the sampler.
pub trait FlowSource: Send {
    /// Returns the counters and state at this moment, that of a reading of the host.
    fn sample(&mut self, reading: &Reading) -> FlowSample;
}

/// One column for each series; the order of `NAMES`.
const NAMES: [&str; 16] = [
    series_id::GOODPUT_BPS,
    series_id::RECEIVED_BPS,
    series_id::CPU_RATIO,
    series_id::CPU_HOST_RATIO,
    series_id::CPU_HOST_SOFTIRQ_RATIO,
    series_id::MEMORY_BYTES,
    series_id::PACKETS_SENT_PER_SECOND,
    series_id::PACKETS_RECEIVED_PER_SECOND,
    series_id::MEAN_PACKET_BYTES,
    series_id::INTERFACE_DROPS,
    series_id::INTERFACE_ERRORS,
    series_id::INTERFACE_COLLISIONS,
    series_id::RETRANSMITTED_PACKETS,
    series_id::CONGESTION_WINDOW_BYTES,
    series_id::SMOOTHED_RTT_NS,
    series_id::BYTES_IN_FLIGHT_BYTES,
];

/// Builder of the series of one window, sample by sample.
#[derive(Debug)]
pub struct SeriesBuilder {
    columns: [(Vec<i64>, Vec<f64>); NAMES.len()],
    last: (Reading, FlowSample),
    link_header_bytes: u32,
}

impl SeriesBuilder {
    /// Begins a window with its first reading. Room for `expected` samples is made now, so that
    /// none is made during the transfer.
    #[must_use]
    pub fn new(start: Reading, flow: FlowSample, link_header_bytes: u32, expected: usize) -> Self {
        Self {
            columns: std::array::from_fn(|_| {
                (Vec::with_capacity(expected), Vec::with_capacity(expected))
            }),
            last: (start, flow),
            link_header_bytes,
        }
    }

    /// Whether no sample was taken yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.iter().all(|(times, _)| times.is_empty())
    }

    /// Returns the moment of the last sample or of the beginning, in nanoseconds.
    #[must_use]
    pub fn last_ns(&self) -> i64 {
        self.last.0.monotonic_ns
    }

    /// Adds the interval that ends now. Nothing is added if no time has passed.
    pub fn push(&mut self, reading: Reading, flow: FlowSample) {
        let (before, flow_before) = self.last;
        let elapsed_ns = reading.monotonic_ns - before.monotonic_ns;
        if elapsed_ns <= 0 {
            return;
        }
        let seconds = elapsed_ns as f64 / 1e9;
        let process = reading.process.since(before.process);
        let deltas = WindowDeltas::between(&before, &reading);
        let interface = deltas.interface;
        let grown = |count: fn(&FlowSample) -> Option<u64>| {
            // A count that begins within the window began at zero.
            let before = count(&flow_before).unwrap_or_default();
            Some(count(&flow)?.saturating_sub(before) as f64)
        };
        let header = self.link_header_bytes;
        let values: [Option<f64>; NAMES.len()] = [
            grown(|flow| flow.bytes_delivered).map(|bytes| bytes * 8.0 / seconds),
            interface
                .map(|it| ip_bytes(it.received_bytes, it.received_packets, header) * 8.0 / seconds),
            Some(process.total_ns as f64 / elapsed_ns as f64),
            deltas.cpu_host_ratio,
            deltas.cpu_host_softirq_ratio,
            reading.resident_bytes.map(|bytes| bytes as f64),
            interface.map(|counters| counters.sent_packets as f64 / seconds),
            interface.map(|counters| counters.received_packets as f64 / seconds),
            interface.and_then(|it| mean_packet_bytes(it.sent_bytes, it.sent_packets, header)),
            interface.map(|counters| counters.drops() as f64),
            interface.map(|counters| counters.errors() as f64),
            interface.map(|counters| counters.collisions as f64),
            grown(|flow| flow.retransmitted_packets),
            flow.congestion_window_bytes.map(|bytes| bytes as f64),
            flow.smoothed_rtt_ns.map(|ns| ns as f64),
            flow.bytes_in_flight.map(|bytes| bytes as f64),
        ];
        for ((times, column), value) in self.columns.iter_mut().zip(values) {
            if let Some(value) = value {
                times.push(reading.monotonic_ns);
                column.push(value);
            }
        }
        self.last = (reading, flow);
    }

    /// Returns the series that have samples, under the side's name, times on the monotonic clock.
    #[must_use]
    pub fn finish(self, side: &str) -> Vec<Series> {
        let columns = self.columns.into_iter().zip(NAMES);
        let series = columns.map(|((t_ns, values), name)| Series {
            name: name.to_owned(),
            side: side.to_owned(),
            t_ns,
            values,
        });
        series.filter(|series| !series.t_ns.is_empty()).collect()
    }
}

/// Returns the bytes of IP packets from an interface's counters, the link headers taken off.
fn ip_bytes(bytes: u64, packets: u64, link_header_bytes: u32) -> f64 {
    (bytes as f64 - packets as f64 * f64::from(link_header_bytes)).max(0.0)
}

/// Returns the mean size of IP packets from an interface's counters, its link header taken off;
/// absent if there were no packets.
#[must_use]
pub fn mean_packet_bytes(bytes: u64, packets: u64, link_header_bytes: u32) -> Option<f64> {
    (packets > 0).then(|| ip_bytes(bytes, packets, link_header_bytes) / packets as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{interface::InterfaceCounters, process::ProcessCpu};

    #[test]
    fn rates_use_the_length_of_their_interval() {
        let mut builder = SeriesBuilder::new(
            Reading {
                monotonic_ns: 1_000_000_000,
                interface: Some(InterfaceCounters::default()),
                ..Reading::default()
            },
            FlowSample::default(),
            14,
            8,
        );
        builder.push(
            Reading {
                monotonic_ns: 1_200_000_000,
                process: ProcessCpu {
                    user_ns: 0,
                    system_ns: 0,
                    total_ns: 50_000_000,
                },
                interface: Some(InterfaceCounters {
                    sent_packets: 10,
                    sent_bytes: 10 * 1514,
                    received_packets: 5,
                    received_bytes: 5 * 1014,
                    receive_errors: 1,
                    send_errors: 2,
                    collisions: 4,
                    ..InterfaceCounters::default()
                }),
                ..Reading::default()
            },
            FlowSample {
                bytes_delivered: Some(25_000),
                retransmitted_packets: Some(3),
                ..FlowSample::default()
            },
        );
        let series = builder.finish("receiver");
        let value = |name: &str| {
            let found = series.iter().find(|series| series.name == name)?;
            assert_eq!(
                (found.side.as_str(), &found.t_ns[..]),
                ("receiver", &[1_200_000_000][..])
            );
            Some(found.values[0])
        };
        assert_eq!(value("goodput_bps"), Some(1_000_000.0));
        assert_eq!(value("received_bps"), Some(200_000.0));
        assert_eq!(value("cpu_ratio"), Some(0.25));
        assert_eq!(value("packets_sent_per_second"), Some(50.0));
        assert_eq!(value("mean_packet_bytes"), Some(1500.0));
        assert_eq!(value("interface_errors"), Some(3.0));
        assert_eq!(value("interface_collisions"), Some(4.0));
        assert_eq!(value("retransmitted_packets"), Some(3.0));
        assert_eq!(value("congestion_window_bytes"), None);
        assert_eq!(value("cpu_host_ratio"), None);
    }
}
