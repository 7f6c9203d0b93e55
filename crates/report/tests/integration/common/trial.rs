//! Values of one trial of the synthetic run.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::serialization::{Serializer, V2Serializer};
use regatta_model::{Bytes, Histogram, MetricValues, Series, TrialRecord, phrase, warning};

use super::{Draws, MS};

/// Returns the facts that a driver states about its stack, as far as the tests use them.
pub fn stack_facts(transport: &str) -> Vec<(String, String)> {
    let is_quic = transport.starts_with("quic-");
    let values = [
        ("initial_window.sender", "10 packets"),
        (
            "pacing.sender",
            if is_quic || transport == "tcp-bbr" {
                "by the stack"
            } else {
                "none"
            },
        ),
        (
            "cipher.sender",
            if is_quic || transport == "tcp-tls" {
                "AES-128-GCM"
            } else {
                "none"
            },
        ),
        (
            "flow_control.receiver",
            if is_quic {
                "stream 4 MiB"
            } else {
                "not known: not read"
            },
        ),
        ("probe.placement", "own connection"),
    ];
    (values.into_iter())
        .filter(|_| transport != "udp")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Typical values of a cell: Mbit/s, ms, CPU of sender and receiver, share of lost messages.
struct Shape {
    rate: f64,
    delay: f64,
    cpu: [f64; 2],
    lost: f64,
    spread: f64,
    window: f64,
    retransmit: f64,
}

fn shape(transport: &str, condition: &str) -> Shape {
    let lossy = condition == "loss-5";
    let (rate, delay, cpu) = match (transport, lossy) {
        ("tcp", false) => (69.4, 46.0, [0.031, 0.048]),
        ("tcp", true) => (1.31, 61.0, [0.004, 0.003]),
        ("tcp-bbr", false) => (73.8, 41.0, [0.035, 0.052]),
        ("tcp-bbr", true) => (58.2, 49.0, [0.041, 0.050]),
        ("tcp-tls", false) => (68.9, 46.5, [0.060, 0.081]),
        ("tcp-tls", true) => (1.29, 62.0, [0.005, 0.004]),
        ("udp", false) => (91.6, 30.6, [0.028, 0.044]),
        ("udp", true) => (87.0, 31.0, [0.028, 0.042]),
        ("quic-quinn", false) => (66.3, 44.0, [0.098, 0.112]),
        _ => (1.12, 58.0, [0.006, 0.006]),
    };
    Shape {
        rate,
        delay,
        cpu,
        lost: if transport == "udp" && lossy {
            0.0495
        } else {
            0.0
        },
        spread: if lossy && transport != "udp" {
            0.12
        } else {
            0.015
        },
        window: if lossy && transport != "tcp-bbr" {
            9_000.0
        } else {
            480_000.0
        },
        retransmit: if lossy && transport != "udp" {
            0.051
        } else {
            0.0
        },
    }
}

fn histogram(name: &str, draws: &mut Draws, floor: f64, mean: f64, n: u32) -> Histogram {
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("three digits are allowed");
    for _ in 0..n {
        let extra = -(1.0 - draws.unit()).ln() * (mean - floor);
        histogram
            .record(((floor + extra) * MS) as u64)
            .expect("a growing histogram takes any value");
    }
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(&histogram, &mut bytes)
        .expect("a vector takes all bytes");
    Histogram {
        name: name.to_owned(),
        side: "sender".to_owned(),
        hdr_v2_base64: STANDARD.encode(bytes),
    }
}

fn series(name: &str, side: &str, t: &[i64], value: impl FnMut(&i64) -> f64) -> Series {
    Series {
        name: name.to_owned(),
        side: side.to_owned(),
        t_ns: t.to_vec(),
        values: t.iter().map(value).collect(),
    }
}

/// Values of one trial from which its metrics and series are made.
struct Values {
    shape: Shape,
    rate: f64,
    delay: f64,
    seconds: f64,
    delivered: f64,
    cpu: [f64; 2],
    packets: f64,
    stopped: bool,
}

/// Fills in the record of a measured trial.
pub fn measured(record: &mut TrialRecord, deadline: Duration) {
    let shape = shape(&record.transport, &record.condition);
    let mut draws = Draws::new(record.seed);
    let rate = shape.rate * 1e6 * draws.around_one(shape.spread);
    let delay = shape.delay * draws.around_one(shape.spread.min(0.04));
    let needed = 80e6 * (1.0 - shape.lost) / rate;
    let seconds = needed.min(deadline.as_secs_f64());
    let delivered = (rate * seconds / 8.0 / 10_000.0).round() * 10_000.0;
    let values = Values {
        rate,
        delay,
        seconds,
        delivered,
        cpu: shape.cpu.map(|share| share * draws.around_one(0.06)),
        packets: delivered / 1448.0 * (1.0 + shape.retransmit) / (1.0 - shape.lost),
        stopped: needed > deadline.as_secs_f64(),
        shape,
    };
    record.measurements.metrics = metrics(record, &values, &mut draws);
    record.measurements.series = all_series(record, &values, &mut draws);
    record.measurements.histograms = vec![
        histogram("round_trip_delay_idle_ns", &mut draws, 30.1, 30.3, 10),
        histogram(
            "round_trip_delay_ns",
            &mut draws,
            30.1,
            delay,
            probes(seconds),
        ),
    ];
    if values.stopped {
        let delivered = phrase::part_of(Bytes(delivered as u64), Bytes(10_000_000));
        let shorter = phrase::smaller_size();
        let warning = warning::deadline_reached(Duration::from_secs(4), delivered, shorter);
        record.measurements.warnings.push(warning);
    }
}

/// Returns the number of probe messages under load.
fn probes(seconds: f64) -> u32 {
    (seconds * 50.0) as u32
}

fn metrics(record: &TrialRecord, values: &Values, draws: &mut Draws) -> MetricValues {
    let &Values {
        ref shape,
        rate,
        delay,
        seconds,
        delivered,
        cpu,
        packets,
        stopped,
    } = values;
    let lossy = record.condition == "loss-5";
    let mut metrics: Vec<(&str, f64)> = vec![
        ("goodput_bps", rate),
        ("receiver_goodput_bps", rate * 1.03),
        ("transfer_time_ns", seconds * 1e9),
        ("set_up_time_mean_ns", 30.4 * MS * draws.around_one(0.01)),
        (
            "round_trip_delay_idle_p50_ns",
            30.3 * MS * draws.around_one(0.004),
        ),
        ("round_trip_delay_p50_ns", delay * MS),
        ("round_trip_delay_p95_ns", delay * 1.4 * MS),
        ("round_trip_delay_p99_ns", delay * 1.9 * MS),
        ("bytes_sent", if stopped { delivered } else { 1e7 }),
        ("bytes_delivered", delivered),
        ("messages_sent", 1000.0),
        ("messages_delivered", (delivered / 10_000.0).round()),
        ("message_loss_ratio", shape.lost * draws.around_one(0.1)),
        ("messages_corrupted", 0.0),
        ("cpu_sender_ratio", cpu[0]),
        ("cpu_receiver_ratio", cpu[1]),
        ("cpu_host_ratio", (cpu[0] + cpu[1]) / 2.0 + 0.09),
        (
            "goodput_per_core_percent_bps",
            rate / ((cpu[0] + cpu[1]) * 100.0),
        ),
        ("peak_memory_sender_bytes", 14.2e6),
        ("packets_per_second", packets / seconds),
        ("packets_sent", packets.round()),
        ("mean_packet_bytes", 1451.0),
        ("path_packets", packets.round()),
        (
            "path_loss_ratio",
            if lossy {
                0.05 * draws.around_one(0.05)
            } else {
                0.0
            },
        ),
        ("path_queue_drops", 0.0),
    ];
    if record.transport != "udp" {
        metrics.push((
            "retransmitted_packets",
            (packets * shape.retransmit).round(),
        ));
        metrics.push(("retransmit_ratio", shape.retransmit));
        metrics.push(("congestion_window_mean_bytes", shape.window));
    }
    metrics
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn all_series(record: &TrialRecord, values: &Values, draws: &mut Draws) -> Vec<Series> {
    let &Values {
        ref shape,
        rate,
        delay,
        seconds,
        cpu,
        packets,
        ..
    } = values;
    let t: Vec<i64> = (1..=(seconds * 10.0).ceil().max(1.0) as i64)
        .map(|i| i * 100_000_000)
        .collect();
    let probes: Vec<i64> = (0..i64::from(probes(seconds)))
        .map(|i| i * 20_000_000)
        .collect();
    let rise = |t: &i64| (1.0 - (-(*t as f64) / 1.6e8).exp()) * 1.12;
    let mut all = vec![
        series("goodput_bps", "receiver", &t, |t| {
            (rate * rise(t) * draws.around_one(0.08)).min(97e6)
        }),
        series("received_bps", "receiver", &t, |t| {
            (rate * rise(t) * 1.05).min(100e6)
        }),
        series("cpu_ratio", "sender", &t, |_| {
            cpu[0] * draws.around_one(0.2)
        }),
        series("cpu_ratio", "receiver", &t, |_| {
            cpu[1] * draws.around_one(0.2)
        }),
        series("packets_sent_per_second", "sender", &t, |t| {
            packets / seconds * rise(t) * draws.around_one(0.05)
        }),
        series("round_trip_delay_ns", "sender", &probes, |t| {
            (30.2 + (delay - 30.2) * rise(t) * draws.around_one(0.3)) * MS
        }),
    ];
    if record.transport != "udp" {
        all.push(series("congestion_window_bytes", "sender", &t, |t| {
            shape.window * rise(t) * draws.around_one(0.1)
        }));
        all.push(series("retransmitted_packets", "sender", &t, |_| {
            (packets / seconds / 10.0 * shape.retransmit * draws.around_one(0.5)).round()
        }));
    }
    for (side, share) in [("sender", 1.0), ("receiver", 0.5)] {
        let rate = packets / seconds * share;
        all.push(series("packets_received_per_second", side, &t, |t| {
            rate * rise(t)
        }));
        all.push(series("mean_packet_bytes", side, &t, |t| {
            52.0 + 1400.0 * (share - 0.5) * rise(t)
        }));
        all.push(series("interface_errors", side, &t, |_| 0.0));
        all.push(series("interface_drops", side, &t, |_| 0.0));
        all.push(series("interface_collisions", side, &t, |_| 0.0));
        all.push(series("cpu_host_ratio", side, &t, |t| {
            (cpu[0] + cpu[1]) * share * rise(t)
        }));
        all.push(series("memory_bytes", side, &t, |_| 14.2e6));
    }
    all
}
