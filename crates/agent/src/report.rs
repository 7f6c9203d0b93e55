//! Telemetry in a side's report.

use std::time::Duration;

use regatta_control::{Role, SideReport};
use regatta_model::{
    Measurements, Series, Text, Warning, fact,
    metric::{id, series_id},
    phrase, stack, warning,
};
use regatta_telemetry::{
    EcnCounts, InterfaceInfo, WindowDeltas, cpu_time_step, series::mean_packet_bytes,
};

use crate::observer::Observed;

/// Adds what the agent has observed to a session's report: metrics, series, facts and warnings. A metric that the
/// session has reported itself stays. `has_levels` says whether metrics are made of the sender's series. Metrics of the
/// interface are left out if the end is `beside_others`, which use the same interface.
pub(crate) fn merge(
    report: &mut SideReport,
    (role, has_levels, beside_others): (Role, bool, bool),
    observed: Observed,
) {
    let Measurements {
        metrics,
        series,
        facts,
        warnings,
        ..
    } = &mut report.measurements;
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite())
            && !metrics.contains_key(name)
        {
            metrics.insert(name, value);
        }
    };
    let count = |count: Option<u64>| count.map(|count| count as f64);
    let (side, names) = (role.name(), role.metrics());
    let interface = observed.interface.as_ref();
    let offloads = facts.get(&format!("offloads.{side}"));
    let protocol = Protocol::of(offloads.map(Text::as_str));
    put(names.peak_memory, count(observed.peak_memory_bytes));
    if let Some(deltas) = &observed.deltas {
        put(names.cpu, deltas.cpu_ratio);
        put(names.cpu_user, deltas.cpu_user_ratio);
        put(names.cpu_system, deltas.cpu_system_ratio);
        put(id::CPU_HOST_RATIO, deltas.cpu_host_ratio);
        put(id::CPU_HOST_SOFTIRQ_RATIO, deltas.cpu_host_softirq_ratio);
        // The kernel counts those of all sockets.
        if role == Role::Receiver && protocol != Protocol::OfKernel && !beside_others {
            put(
                id::RECEIVE_BUFFER_ERRORS,
                count(deltas.receive_buffer_errors),
            );
        }
        // The counters of the interface are those of all transports that use it; over loopback those of both ends are one.
        if !beside_others {
            if let (Role::Receiver, Some(ecn)) = (role, deltas.ecn)
                && !is_loopback(interface)
            {
                put(id::RECEIVED_ECT_PACKETS, Some(ecn.capable() as f64));
                put(id::RECEIVED_CE_PACKETS, Some(ecn.ce as f64));
                facts.insert("ecn.receiver", codepoints(ecn));
            }
            for (name, value) in interface_metrics(deltas, interface, role) {
                put(name, Some(value));
            }
        }
    }
    if has_levels {
        for (name, value) in level_metrics(&observed.series, observed.from_ns) {
            put(name, value);
        }
    }
    let is_counted = |series: &Series| {
        !(is_loopback(interface) || beside_others)
            || !SERIES_OF_INTERFACE.contains(&series.name.as_str())
    };
    series.extend(observed.series.into_iter().filter(is_counted));
    let (fact, warning) = describe(observed.deltas.as_ref(), interface, role);
    facts
        .entry(format!("interface.{side}"))
        .or_insert(fact.into());
    warnings.extend(warning);
    let pressures = observed
        .deltas
        .and_then(|deltas| deltas.tcp_memory_pressures)
        .filter(|_| protocol != Protocol::OverUdp);
    warnings.extend(memory_warning(pressures, side));
    if metrics.contains_key(names.cpu) {
        warnings.extend(tick_warning(cpu_time_step(), side));
    }
    if let Some(offloads) = facts.get_mut(&format!("offloads.{side}"))
        && *offloads == stack::OF_INTERFACE
    {
        *offloads = offloads_of(interface);
    }
}

/// Protocol by whose packets a transport sends, as far as its offloads tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// TCP or SCTP of the kernel, whose packets are cut and joined by the interface's settings.
    OfKernel,
    /// UDP, with the offloads of its sockets.
    OverUdp,
    /// A program that does not tell.
    Unknown,
}

impl Protocol {
    fn of(offloads: Option<&str>) -> Self {
        match offloads {
            Some(stack::OF_INTERFACE) => Self::OfKernel,
            Some(of_socket) if stack::is_comparable(of_socket) => Self::OverUdp,
            _ => Self::Unknown,
        }
    }
}

/// Describes the ECN codepoints with which the sender's packets arrived.
fn codepoints(ecn: EcnCounts) -> &'static str {
    match (ecn.ect0 > 0, ecn.ect1 > 0) {
        (true, true) => "ECT(0), ECT(1)",
        (true, false) => "ECT(0)",
        (false, true) => "ECT(1)",
        (false, false) if ecn.ce > 0 => "CE",
        (false, false) => "none",
    }
}

/// Series of the data interface's counters.
const SERIES_OF_INTERFACE: [&str; 7] = [
    series_id::RECEIVED_BPS,
    series_id::PACKETS_SENT_PER_SECOND,
    series_id::PACKETS_RECEIVED_PER_SECOND,
    series_id::MEAN_PACKET_BYTES,
    series_id::INTERFACE_DROPS,
    series_id::INTERFACE_ERRORS,
    series_id::INTERFACE_COLLISIONS,
];

/// Whether the data interface is loopback, which carries the packets of all programs of the host, in both directions.
fn is_loopback(interface: Option<&InterfaceInfo>) -> bool {
    interface.is_some_and(|info| info.name == "lo")
}

/// Returns a warning if the kernel of one end had no memory left for TCP's buffers, `times` in the window.
fn memory_warning(times: Option<u64>, side: &str) -> Option<Warning> {
    times.filter(|times| *times > 0)?;
    Some(warning::tcp_memory_short(phrase::side(side)))
}

/// Largest step of CPU time with which figures of CPU are exact enough for any transfer.
const FINE_CPU_STEP: Duration = Duration::from_micros(100);

/// Returns a warning if CPU time of one end grows in large steps.
fn tick_warning(step: Option<Duration>, side: &str) -> Option<Warning> {
    let step = step.filter(|step| *step > FINE_CPU_STEP)?;
    Some(warning::cpu_by_ticks(phrase::side(side), step))
}

/// Names the offloads of an interface that join or cut packets, for the comparison of stacks.
fn offloads_of(interface: Option<&InterfaceInfo>) -> Text {
    let Some(interface) = interface else {
        return fact::not_known(fact::interface_not_known().into()).into();
    };
    let on: Vec<String> = (interface.offloads.iter())
        .filter(|(name, on)| *on && ["tso", "gso", "gro"].contains(name))
        .map(|(name, _)| name.to_uppercase())
        .collect();
    match on.is_empty() {
        true => "none".into(),
        false => fact::of_the_interface(&on.join(", ")).into(),
    }
}

/// Returns the metrics of the data interface over the window; none of loopback.
fn interface_metrics(
    deltas: &WindowDeltas,
    interface: Option<&InterfaceInfo>,
    role: Role,
) -> Vec<(&'static str, f64)> {
    let Some(counters) = deltas.interface.filter(|_| !is_loopback(interface)) else {
        return Vec::new();
    };
    let mut metrics = vec![
        (id::INTERFACE_ERRORS, counters.errors() as f64),
        (id::INTERFACE_DROPS, counters.drops() as f64),
        (id::INTERFACE_COLLISIONS, counters.collisions as f64),
    ];
    match role {
        Role::Sender => {
            metrics.push((id::PACKETS_SENT, counters.sent_packets as f64));
            let seconds = deltas.elapsed.as_secs_f64();
            if seconds > 0.0 {
                let rate = counters.sent_packets as f64 / seconds;
                metrics.push((id::PACKETS_PER_SECOND, rate));
            }
            let header = interface.map_or(0, |info| info.link_header_bytes);
            let size = mean_packet_bytes(counters.sent_bytes, counters.sent_packets, header);
            metrics.extend(size.map(|size| (id::MEAN_PACKET_BYTES, size)));
        }
        Role::Receiver => {
            metrics.push((id::PACKETS_RECEIVED, counters.received_packets as f64));
            metrics.push((id::ACKNOWLEDGEMENT_PACKETS, counters.sent_packets as f64));
        }
    }
    metrics
}

/// Returns the statistics of the sender's levels over the samples of the window, for a
/// session that has not reported its own.
fn level_metrics(series: &[Series], from_ns: i64) -> [(&'static str, Option<f64>); 6] {
    let values = |name: &str| {
        let found = series.iter().find(|series| series.name == name);
        found.map_or(&[][..], |series| {
            let before = series.t_ns.partition_point(|t| *t < from_ns);
            series.values.get(before..).unwrap_or_default()
        })
    };
    // Of no values it is not a number, and no metric.
    let mean = |values: &[f64]| Some(values.iter().sum::<f64>() / values.len() as f64);
    let largest = |values: &[f64]| values.iter().copied().reduce(f64::max);
    let window = values(series_id::CONGESTION_WINDOW_BYTES);
    let (rtt, in_flight) = (
        values(series_id::SMOOTHED_RTT_NS),
        values(series_id::BYTES_IN_FLIGHT_BYTES),
    );
    let mut sorted = rtt.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2);
    let median = upper.map(|upper| f64::midpoint(sorted[(sorted.len() - 1) / 2], *upper));
    [
        (id::CONGESTION_WINDOW_MEAN_BYTES, mean(window)),
        (id::CONGESTION_WINDOW_MAX_BYTES, largest(window)),
        (id::SMOOTHED_RTT_MEAN_NS, mean(rtt)),
        (id::SMOOTHED_RTT_P50_NS, median),
        (id::SMOOTHED_RTT_LAST_NS, rtt.last().copied()),
        (id::BYTES_IN_FLIGHT_MAX_BYTES, largest(in_flight)),
    ]
}

/// Names the interface that was counted, with a warning if there is none or if its counters need an
/// explanation.
fn describe(
    deltas: Option<&WindowDeltas>,
    interface: Option<&InterfaceInfo>,
    role: Role,
) -> (String, Option<Warning>) {
    let Some(info) = interface else {
        let warning = warning::interface_unknown(phrase::side(role.name()));
        return ("unknown".to_owned(), Some(warning));
    };
    let name = &info.name;
    let counters = deltas.and_then(|deltas| deltas.interface);
    let counters = counters.filter(|_| !is_loopback(interface));
    let mean = counters
        .and_then(|it| mean_packet_bytes(it.sent_bytes, it.sent_packets, info.link_header_bytes));
    let warning = mean
        .zip(info.mtu_bytes)
        .filter(|&(mean, mtu)| mean > f64::from(mtu))
        .map(|(mean, mtu)| warning::super_packets(name, mean.round() as u64, mtu.into()));
    (name.clone(), warning)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_telemetry::InterfaceCounters;

    use super::*;

    fn observed(mtu_bytes: u32) -> Observed {
        Observed {
            from_ns: 0,
            deltas: Some(WindowDeltas {
                elapsed: Duration::from_secs(2),
                cpu_ratio: Some(0.5),
                cpu_user_ratio: Some(0.2),
                cpu_system_ratio: Some(0.3),
                interface: Some(InterfaceCounters {
                    sent_packets: 100,
                    sent_bytes: 151_400,
                    received_packets: 40,
                    receive_drops: 3,
                    send_drops: 4,
                    ..InterfaceCounters::default()
                }),
                receive_buffer_errors: Some(5),
                ecn: Some(EcnCounts {
                    ect0: 7,
                    ect1: 0,
                    ce: 2,
                }),
                ..WindowDeltas::default()
            }),
            series: vec![Series {
                name: "congestion_window_bytes".to_owned(),
                side: "sender".to_owned(),
                t_ns: vec![1, 2],
                values: vec![10.0, 30.0],
            }],
            peak_memory_bytes: Some(1 << 20),
            interface: Some(InterfaceInfo {
                name: "tun0".to_owned(),
                mtu_bytes: Some(mtu_bytes),
                link_header_bytes: 14,
                offloads: Vec::new(),
            }),
        }
    }

    #[test]
    fn each_side_has_its_own_metrics_under_names_of_the_model() {
        let mut sender = SideReport::default();
        sender
            .measurements
            .metrics
            .insert("congestion_window_max_bytes".to_owned(), 99.0);
        merge(&mut sender, (Role::Sender, true, false), observed(1500));
        assert_eq!(sender.measurements.metrics["cpu_sender_ratio"], 0.5);
        assert_eq!(sender.measurements.metrics["packets_sent"], 100.0);
        assert_eq!(sender.measurements.metrics["packets_per_second"], 50.0);
        assert_eq!(sender.measurements.metrics["mean_packet_bytes"], 1500.0);
        assert_eq!(sender.measurements.metrics["interface_drops"], 7.0);
        assert_eq!(
            sender.measurements.metrics["congestion_window_mean_bytes"],
            20.0
        );
        // Metrics of the session itself are kept.
        assert_eq!(
            sender.measurements.metrics["congestion_window_max_bytes"],
            99.0
        );
        assert_eq!(sender.measurements.facts["interface.sender"], "tun0");
        assert!(
            sender.measurements.warnings.is_empty(),
            "{:?}",
            sender.measurements.warnings
        );
        let mut receiver = SideReport::default();
        merge(
            &mut receiver,
            (Role::Receiver, false, false),
            observed(1500),
        );
        assert_eq!(receiver.measurements.metrics["receive_buffer_errors"], 5.0);
        assert_eq!(
            receiver.measurements.metrics["acknowledgement_packets"],
            100.0
        );
        assert_eq!(receiver.measurements.metrics["packets_received"], 40.0);
        assert_eq!(receiver.measurements.metrics["received_ect_packets"], 9.0);
        assert_eq!(receiver.measurements.metrics["received_ce_packets"], 2.0);
        assert_eq!(receiver.measurements.facts["ecn.receiver"], "ECT(0)");
        assert!(!receiver.measurements.metrics.contains_key("packets_sent"));
        assert!(
            !receiver.measurements.metrics.contains_key("cpu_host_ratio"),
            "not sampled: absent"
        );
        for name in sender
            .measurements
            .metrics
            .keys()
            .chain(receiver.measurements.metrics.keys())
        {
            assert!(regatta_model::metric::find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn super_packets_and_unknown_interfaces_are_warned_of() {
        let mut report = SideReport::default();
        merge(&mut report, (Role::Sender, true, false), observed(1400));
        assert_eq!(report.measurements.warnings[0].code, "super_packets");
        let mut report = SideReport::default();
        merge(
            &mut report,
            (Role::Sender, true, false),
            Observed::default(),
        );
        assert_eq!(report.measurements.warnings[0].code, "interface_unknown");
        assert!(report.measurements.metrics.is_empty());
    }

    /// Returns the report of a receiver whose stack states these offloads.
    fn receiver_with(offloads: &str) -> SideReport {
        let mut report = SideReport::default();
        let facts = &mut report.measurements.facts;
        facts.insert("offloads.receiver".to_owned(), offloads.to_owned());
        report
    }

    #[test]
    fn datagrams_that_other_programs_lost_are_none_of_a_stack_of_the_kernel() {
        for (offloads, counted) in [
            (stack::OF_INTERFACE, None),
            ("of the socket: on", Some(5.0)),
            ("none", Some(5.0)),
            ("not known: the program does not tell", Some(5.0)),
        ] {
            let mut report = receiver_with(offloads);
            merge(&mut report, (Role::Receiver, false, false), observed(1500));
            let found = report.measurements.metrics.get("receive_buffer_errors");
            assert_eq!(found.copied(), counted, "{offloads}");
        }
    }

    #[test]
    fn packets_over_loopback_are_everybodys_and_not_counted() {
        for (name, is_counted) in [("lo", false), ("eth0", true)] {
            let mut observed = observed(65_536);
            observed.interface.as_mut().expect("one").name = name.to_owned();
            observed.series.push(Series {
                name: series_id::PACKETS_SENT_PER_SECOND.to_owned(),
                side: "sender".to_owned(),
                t_ns: vec![1],
                values: vec![100.0],
            });
            let mut report = SideReport::default();
            merge(&mut report, (Role::Sender, true, false), observed);
            let Measurements {
                metrics,
                series,
                facts,
                ..
            } = report.measurements;
            for of_interface in ["packets_sent", "mean_packet_bytes", "interface_drops"] {
                assert_eq!(metrics.contains_key(of_interface), is_counted, "{name}");
            }
            assert_eq!(series.len(), 1 + usize::from(is_counted), "{name}");
            assert_eq!(facts["interface.sender"], name);
        }
    }

    #[test]
    fn tcp_memory_pressure_is_warned_of() {
        for (offloads, times, expected) in [
            (stack::OF_INTERFACE, Some(1), 1),
            (stack::OF_INTERFACE, Some(0), 0),
            (stack::OF_INTERFACE, None, 0),
            ("of the socket: on", Some(1), 0),
        ] {
            let mut observed = observed(1500);
            observed
                .deltas
                .as_mut()
                .expect("deltas")
                .tcp_memory_pressures = times;
            let mut report = receiver_with(offloads);
            merge(&mut report, (Role::Receiver, false, false), observed);
            let warnings = &report.measurements.warnings;
            assert_eq!(warnings.len(), expected, "{warnings:?}");
            assert!(
                warnings
                    .iter()
                    .all(|it| it.code == "tcp_memory_short" && it.message.contains("the receiver"))
            );
        }
    }

    #[test]
    fn tick_based_cpu_time_is_warned_of() {
        let tick = tick_warning(Some(Duration::from_millis(10)), "receiver").expect("a warning");
        assert!(
            tick.message
                .contains("of the receiver counts CPU time by timer ticks of 10 ms")
        );
        for fine in [Some(Duration::from_micros(1)), None] {
            assert!(tick_warning(fine, "sender").is_none());
        }
    }
}
