//! Merging of the two reports of a trial and the path's counters.

use std::time::Duration;

use regatta_bed::PathCounters;
use regatta_control::{Host, Role, SideReport};
use regatta_model::{
    Condition, Direction, Facts, Link, Measurements, MetricValues, PacketCounter, Setting,
    WorkloadKind,
    metric::{self, Combination, id},
    warning,
};

use crate::plan::{Plan, PlannedTrial};

/// Merges the reports of both ends with the path's counters since its condition was set, and the
/// time since then.
///
/// `same_host` says whether both ends run on one host with one clock, as in network namespaces.
pub(crate) fn merge(
    plan: &Plan,
    trial: &PlannedTrial,
    sender: SideReport,
    receiver: SideReport,
    path: Option<(&PathCounters, Duration)>,
    same_host: bool,
) -> Measurements {
    let workload = plan.workload(trial.cell);
    let kind = &workload.kind;
    let direction = kind.direction();
    let condition = plan.condition(trial.cell);
    let both = direction == Direction::Both;
    let mut merged = Measurements::default();
    let elapsed_ns = window_ns(&sender);
    // Samples count from the first connect call, where both ends read the clock that it was read from.
    let listening = Host::Server.role(workload);
    let connecting_ns = match listening {
        Role::Receiver => sender.started_monotonic_ns,
        Role::Sender => receiver.started_monotonic_ns,
    };
    let origins = [&sender, &receiver].map(|side| match same_host {
        true => connecting_ns,
        false => side.started_monotonic_ns,
    });
    let receiver_ns = window_ns(&receiver);
    let sides = [(Role::Sender, sender), (Role::Receiver, receiver)];

    merged.metrics = merged_metrics(&sides, both);
    if let Some((path, since)) = path {
        add_path(&mut merged.metrics, condition, path, since, direction);
    }
    let warm_up_ns = merged.metrics.get(id::WARM_UP_NS).copied().unwrap_or(0.0);
    let transfer_ns = merged.metrics.get(id::TRANSFER_TIME_NS).copied();
    let transfer_ns = transfer_ns.unwrap_or(elapsed_ns) - warm_up_ns;
    let listening_ns = match listening {
        Role::Receiver => receiver_ns,
        Role::Sender => elapsed_ns,
    };
    let listening_ns = listening_ns - warm_up_ns;
    charge_listening(&mut merged.metrics, listening, listening_ns, transfer_ns);
    let counted_ns = match (warm_up_ns > 0.0, both) {
        (false, _) => transfer_ns,
        (true, false) => {
            // Without a delivery in the warm-up the receiver's own window counts.
            let between = merged.metrics.get(id::GOODPUT_TIME_NS).copied();
            between.unwrap_or(receiver_ns - warm_up_ns)
        }
        (true, true) => {
            // The deliveries of each direction are at other times, so that both have no one time.
            merged.metrics.remove(id::GOODPUT_TIME_NS);
            let bits = counted(&merged.metrics).map(|bytes| bytes * 8e9);
            let time = bits
                .zip(warmed_goodput(&sides))
                .map(|(bits, all)| bits / all);
            time.unwrap_or(transfer_ns)
        }
    };
    derive(
        &mut merged.metrics,
        transfer_ns,
        kind.has_goodput().then_some(counted_ns),
    );
    if warm_up_ns > 0.0 && counted(&merged.metrics).is_none_or(|bytes| bytes <= 0.0) {
        merged.metrics.remove(id::GOODPUT_BPS);
        merged.warnings.push(warning::warm_up_too_long());
    }
    if both {
        by_direction(&mut merged.metrics, &sides);
    }

    merged.facts = facts(&sides);
    for ((role, side), origin) in sides.into_iter().zip(origins) {
        for mut series in side.measurements.series {
            series.side = role.name().to_owned();
            for t in &mut series.t_ns {
                *t -= origin;
            }
            merged.series.push(series);
        }
        for mut histogram in side.measurements.histograms {
            histogram.side = role.name().to_owned();
            merged.histograms.push(histogram);
        }
        merged.warnings.extend(side.measurements.warnings);
    }
    crate::step_goodput::add(condition, transfer_ns + warm_up_ns, &mut merged);
    // Steps count from the first connect call, as the samples do; a warm-up changes nothing.
    crate::settling::add(condition, transfer_ns + warm_up_ns, &mut merged);
    if matches!(kind, WorkloadKind::Bulk { .. }) {
        crate::peak::add(&mut merged);
    }
    crate::plausible::check(plan, trial, path.map(|(path, _)| path), &mut merged);
    merged.warnings.sort();
    merged.warnings.dedup();
    merged
}

/// Returns the length of the window of one end, in nanoseconds.
fn window_ns(side: &SideReport) -> f64 {
    (side.ended_monotonic_ns - side.started_monotonic_ns).max(0) as f64
}

/// Merges the metrics of both ends, each by its rule; values that are not finite are left out. `both` says
/// whether data goes in both directions.
fn merged_metrics(sides: &[(Role, SideReport); 2], both: bool) -> MetricValues {
    let [sender, receiver] = sides.each_ref().map(|(_, side)| &side.measurements.metrics);
    let finite = |metrics: &MetricValues, name| {
        let value = metrics.get(name).copied();
        value.filter(|value| value.is_finite())
    };
    let names = sender.keys().chain(receiver.keys());
    names
        .filter_map(|name| {
            let rule = metric::find(name).map_or(Combination::Sender, |m| m.combination);
            let (sender, receiver) = (finite(sender, name), finite(receiver, name));
            Some((name, rule.combine(sender, receiver, both)?))
        })
        .collect()
}

/// Merges the facts of both ends. A fact keeps its name where only one end has it or both agree;
/// where they differ, the end is added to the name.
fn facts(sides: &[(Role, SideReport); 2]) -> Facts {
    let mut facts = Facts::default();
    for (this, other) in [(0, 1), (1, 0)] {
        let (role, side) = &sides[this];
        for (name, value) in &side.measurements.facts {
            let name = match sides[other].1.measurements.facts.get(name) {
                Some(others) if others != value => format!("{name}.{}", role.name()),
                _ => name.clone(),
            };
            facts.insert(name, value.clone());
        }
    }
    facts
}

/// Scales the listening end's CPU metrics to the transfer time, which the connecting end measures.
///
/// The listening end measured CPU time over its own window, from the arrival of the flow to its
/// last part in it: shorter by about one round trip, in which it does nothing. Both windows are
/// without the warm-up.
fn charge_listening(
    metrics: &mut MetricValues,
    listening: Role,
    listening_ns: f64,
    transfer_ns: f64,
) {
    if listening_ns <= 0.0 || transfer_ns <= 0.0 {
        return;
    }
    let names = listening.metrics();
    for name in [names.cpu, names.cpu_user, names.cpu_system] {
        if let Some(ratio) = metrics.get_mut(name) {
            *ratio *= listening_ns / transfer_ns;
        }
    }
}

/// Adds the goodput, the loss and the jitter of each direction, of a transfer in both directions at once.
fn by_direction(metrics: &mut MetricValues, sides: &[(Role, SideReport); 2]) {
    // The sender's role is the connecting host's here; what it sent is what the other one got.
    let [connecting, listening] = sides.each_ref().map(|(_, side)| &side.measurements.metrics);
    let goodput = metrics.get(id::GOODPUT_BPS).copied();
    let all = counted(metrics).filter(|all| *all > 0.0);
    let share = |of: &MetricValues| Some(goodput? * counted(of)? / all?);
    let of = |end: &MetricValues, name: &str| end.get(name).copied();
    metrics.remove(id::INTERARRIVAL_JITTER_NS);
    let (loss, jitter) = (id::MESSAGE_LOSS_RATIO, id::INTERARRIVAL_JITTER_NS);
    let directions = [
        (id::GOODPUT_FORWARD_BPS, share(listening)),
        (id::GOODPUT_REVERSE_BPS, share(connecting)),
        (id::MESSAGE_LOSS_FORWARD_RATIO, of(connecting, loss)),
        (id::MESSAGE_LOSS_REVERSE_RATIO, of(listening, loss)),
        (id::INTERARRIVAL_JITTER_FORWARD_NS, of(listening, jitter)),
        (id::INTERARRIVAL_JITTER_REVERSE_NS, of(connecting, jitter)),
    ];
    let known = directions
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    metrics.extend(known);
}

/// Returns the delivered bytes that count towards goodput: those after the warm-up.
fn counted(metrics: &MetricValues) -> Option<f64> {
    let warm_up = metrics.get(id::WARM_UP_BYTES).copied().unwrap_or(0.0);
    Some((metrics.get(id::BYTES_DELIVERED)? - warm_up).max(0.0))
}

/// Returns the sum of the goodput of both directions after a warm-up, of each between its own deliveries; `None` if a
/// direction has no time of these.
fn warmed_goodput(sides: &[(Role, SideReport); 2]) -> Option<f64> {
    let of_each = sides.iter().map(|(_, side)| {
        let metrics = &side.measurements.metrics;
        let time = metrics.get(id::GOODPUT_TIME_NS)?;
        Some(counted(metrics)? * 8e9 / time)
    });
    of_each.sum()
}

/// Adds the path's counters. `direction` is that of the data, whose link is the path's forward one
/// in every metric.
fn add_path(
    metrics: &mut MetricValues,
    condition: &Condition,
    path: &PathCounters,
    since: Duration,
    direction: Direction,
) {
    let links: [fn(Setting<'_>) -> &Link; 2] =
        [|setting| setting.forward, |setting| setting.reverse];
    let links = direction.data_first(links);
    let counted = direction.data_first([&path.forward, &path.reverse]);
    for (index, (link_of, counters)) in links.into_iter().zip(counted).enumerate() {
        let mut put =
            |names: [&'static str; 2], count: u64| metrics.insert(names[index], count as f64);
        let unsupported = &counters.unsupported;
        if !unsupported.offered {
            put(
                [id::PATH_PACKETS, id::PATH_REVERSE_PACKETS],
                counters.offered,
            );
        }
        // Losses and drops by the full queue are one number then.
        let are_one = unsupported.packets[PacketCounter::Queue];
        if are_one {
            put(
                [id::PATH_DROPS, id::PATH_REVERSE_DROPS],
                counters.packets[PacketCounter::Loss],
            );
        }
        for &counter in PacketCounter::ALL {
            if let Some(names) = counter.metrics()
                && !(unsupported.packets[counter] || are_one && counter == PacketCounter::Loss)
                // Zero where a setting of the condition asks for it; absent where none does.
                && condition.settings().any(|setting| link_of(setting).asks_for(counter))
            {
                put(names, counters.packets[counter]);
            }
        }
    }
    let [forward, _] = counted;
    let mut put = |name, value: f64| metrics.insert(name, value);
    let other_drops = [PacketCounter::Mtu, PacketCounter::Refused].map(|it| forward.packets[it]);
    put(id::PATH_OTHER_DROPS, other_drops.iter().sum::<u64>() as f64);
    if forward.offered > 0
        && !forward.unsupported.offered
        && !forward.unsupported.packets[PacketCounter::Queue]
    {
        let loss = forward.lost() as f64 / forward.offered as f64;
        put(id::PATH_LOSS_RATIO, loss);
    }
    if !forward.unsupported.queue_max_bytes {
        put(id::PATH_QUEUE_MAX_BYTES, forward.queue_max_bytes as f64);
    }
    let since_ns = since.as_nanos() as f64;
    if since_ns > 0.0 {
        put(id::CPU_PATH_RATIO, path.cpu_ns as f64 / since_ns);
    }
}

/// Adds the metrics that need both ends. `transfer_ns` is the time of the transfer and `counted_ns` that in which the
/// counted bytes were delivered, both without the warm-up; `None` for a workload without goodput.
fn derive(metrics: &mut MetricValues, transfer_ns: f64, counted_ns: Option<f64>) {
    let delivered = counted(metrics);
    let get = |metrics: &MetricValues, name| metrics.get(name).copied();
    let put = |metrics: &mut MetricValues, name, value: f64| {
        if value.is_finite() {
            metrics.insert(name, value);
        }
    };
    // The clock is the connecting end's and the count is the receiver's, whatever either says alone.
    if let Some((delivered, counted_ns)) = delivered.zip(counted_ns)
        && counted_ns > 0.0
    {
        put(metrics, id::GOODPUT_BPS, delivered * 8e9 / counted_ns);
    }
    let (sent, lost) = (
        get(metrics, id::MESSAGES_SENT),
        get(metrics, id::MESSAGES_LOST),
    );
    if let Some((sent, lost)) = sent.zip(lost)
        && sent > 0.0
    {
        put(metrics, id::MESSAGE_LOSS_RATIO, lost / sent);
    }
    let sender = get(metrics, id::CPU_SENDER_RATIO);
    let cores = sender.zip(get(metrics, id::CPU_RECEIVER_RATIO));
    let Some(cores) = cores.map(|(a, b)| a + b).filter(|cores| *cores > 0.0) else {
        return;
    };
    if let Some(goodput) = get(metrics, id::GOODPUT_BPS) {
        let per_percent = goodput / (cores * 100.0);
        put(metrics, id::GOODPUT_PER_CORE_PERCENT_BPS, per_percent);
    }
    if let Some(delivered) = delivered.filter(|delivered| *delivered > 0.0) {
        put(
            metrics,
            id::CPU_PER_BYTE_NS,
            cores * transfer_ns / delivered,
        );
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::{Series, WorkloadKind};

    use super::*;

    #[test]
    fn a_workload_without_goodput_gets_none() {
        let delivered = MetricValues::from([
            ("bytes_delivered".to_owned(), 1000.0),
            ("transfer_time_ns".to_owned(), 1e6),
            ("messages_sent".to_owned(), 10.0),
            ("messages_lost".to_owned(), 1.0),
        ]);
        let derived = |has_goodput: bool| {
            let mut metrics = delivered.clone();
            derive(&mut metrics, 1e6, has_goodput.then_some(1e6));
            assert_eq!(metrics["message_loss_ratio"], 0.1);
            metrics.get("goodput_bps").copied()
        };
        assert_eq!(derived(true), Some(8e6));
        assert_eq!(derived(false), None);
    }

    #[test]
    fn the_receivers_cpu_is_scaled_to_the_transfer_time() {
        let mut metrics = MetricValues::from([
            ("cpu_sender_ratio".to_owned(), 0.5),
            ("cpu_receiver_ratio".to_owned(), 0.4),
        ]);
        // 0.4 of 75 ms are 30 ms of CPU time, and 0.3 of 100 ms.
        charge_listening(&mut metrics, Role::Receiver, 75e6, 100e6);
        assert_eq!(metrics["cpu_sender_ratio"], 0.5);
        assert!((metrics["cpu_receiver_ratio"] - 0.3).abs() < 1e-12);
    }

    /// Makes an end's report: its window in seconds, and its metrics.
    fn end(window: f64, metrics: &[(&str, f64)]) -> SideReport {
        SideReport {
            started_monotonic_ns: 1_000_000_000,
            ended_monotonic_ns: 1_000_000_000 + (window * 1e9) as i64,
            agent_times: None,
            measurements: Measurements {
                metrics: (metrics.iter())
                    .map(|(name, value)| ((*name).to_owned(), *value))
                    .collect(),
                ..Measurements::default()
            },
        }
    }

    fn merged(
        options: regatta_model::BulkOptions,
        sender: SideReport,
        receiver: SideReport,
        path: Option<&PathCounters>,
    ) -> MetricValues {
        merged_measurements(options, sender, receiver, path).metrics
    }

    fn merged_measurements(
        options: regatta_model::BulkOptions,
        sender: SideReport,
        receiver: SideReport,
        path: Option<&PathCounters>,
    ) -> Measurements {
        let mut study = crate::tests::fake_bed::study(1, 1, 1);
        if let WorkloadKind::Bulk {
            options: bulk_options,
            ..
        } = &mut study.workloads[0].kind
        {
            *bulk_options = options;
        }
        let plan = Plan::new(&study).expect("one trial");
        let path = path.map(|path| (path, Duration::from_secs(1)));
        let trial = plan.trials()[0];
        merge(&plan, &trial, sender, receiver, path, true)
    }

    fn near(metrics: &MetricValues, name: &str, value: f64) {
        let found = metrics.get(name).copied().unwrap_or(f64::NAN);
        assert!((found / value - 1.0).abs() < 1e-9, "{name}: {found}");
    }

    /// With direction reverse the listening end sends: its CPU time is divided by the connecting
    /// end's transfer time, and the link of the data is the path's reverse one.
    #[test]
    fn in_reverse_the_listening_senders_cpu_is_scaled_to_the_transfer_time() {
        let options = regatta_model::BulkOptions {
            direction: Direction::Reverse,
            ..Default::default()
        };
        let sender = end(0.75, &[("bytes_sent", 10e6), ("cpu_sender_ratio", 0.4)]);
        let receiver = [
            ("bytes_delivered", 10e6),
            ("transfer_time_ns", 1e9),
            ("cpu_receiver_ratio", 0.2),
        ];
        let mut path = PathCounters::default();
        path.forward.offered = 3;
        path.reverse.offered = 7_000;
        let metrics = merged(options, sender, end(1.0, &receiver), Some(&path));
        near(&metrics, "cpu_sender_ratio", 0.3);
        near(&metrics, "cpu_receiver_ratio", 0.2);
        near(&metrics, "goodput_bps", 80e6);
        near(&metrics, "goodput_per_core_percent_bps", 80e6 / 50.0);
        near(&metrics, "path_packets", 7_000.0);
        near(&metrics, "path_reverse_packets", 3.0);
    }

    #[test]
    fn both_directions_have_their_own_goodput_loss_and_jitter() {
        let options = regatta_model::BulkOptions {
            direction: Direction::Both,
            ..Default::default()
        };
        let connecting = [
            ("transfer_time_ns", 1e9),
            ("bytes_delivered", 1e6),
            ("messages_sent", 1000.0),
            ("messages_lost", 10.0),
            ("message_loss_ratio", 0.01),
            ("interarrival_jitter_ns", 7e3),
            ("messages_reordered", 2.0),
            ("message_rate_ratio", 1.0),
            ("packets_sent", 1100.0),
        ];
        let listening = [
            ("bytes_delivered", 3e6),
            ("messages_sent", 500.0),
            ("messages_lost", 20.0),
            ("message_loss_ratio", 0.04),
            ("interarrival_jitter_ns", 9e3),
            ("messages_reordered", 3.0),
            ("message_rate_ratio", 0.5),
            ("acknowledgement_packets", 600.0),
        ];
        let metrics = merged(options, end(1.0, &connecting), end(1.0, &listening), None);
        near(&metrics, "goodput_bps", 32e6);
        near(&metrics, "goodput_forward_bps", 24e6);
        near(&metrics, "goodput_reverse_bps", 8e6);
        near(&metrics, "message_loss_ratio", 30.0 / 1500.0);
        near(&metrics, "message_loss_forward_ratio", 0.01);
        near(&metrics, "message_loss_reverse_ratio", 0.04);
        near(&metrics, "interarrival_jitter_forward_ns", 9e3);
        near(&metrics, "interarrival_jitter_reverse_ns", 7e3);
        near(&metrics, "messages_reordered", 5.0);
        // Of the direction that kept less of its rate.
        near(&metrics, "message_rate_ratio", 0.5);
        // Each host's own.
        near(&metrics, "packets_sent", 1100.0);
        near(&metrics, "acknowledgement_packets", 600.0);
        assert!(!metrics.contains_key("interarrival_jitter_ns"));
    }

    #[test]
    fn samples_are_timed_from_the_connect_call() {
        for (direction, first) in [
            (Direction::Forward, "sender"),
            (Direction::Reverse, "receiver"),
        ] {
            let options = regatta_model::BulkOptions {
                direction,
                ..Default::default()
            };
            let [sender, receiver] = ["sender", "receiver"].map(|side| {
                let mut report = end(1.0, &[]);
                // The listening end's window begins when the flow comes to it.
                report.started_monotonic_ns += if side == first { 0 } else { 20_000_000 };
                report.measurements.series.push(Series {
                    name: "cpu_ratio".to_owned(),
                    side: side.to_owned(),
                    t_ns: vec![1_050_000_000],
                    values: vec![0.5],
                });
                report
            });
            let merged = merged_measurements(options, sender, receiver, None);
            for series in &merged.series {
                assert_eq!(series.t_ns, [50_000_000], "{direction:?}, {}", series.side);
            }
        }
    }

    fn with_warm_up(direction: Direction) -> regatta_model::BulkOptions {
        regatta_model::BulkOptions {
            warm_up: Duration::from_millis(200),
            direction,
            ..Default::default()
        }
    }

    #[test]
    fn goodput_after_a_warm_up_counts_between_deliveries() {
        let sender = [("transfer_time_ns", 1e9), ("warm_up_ns", 0.2e9)];
        let receiver = [
            ("bytes_delivered", 10e6),
            ("warm_up_bytes", 3e6),
            ("goodput_time_ns", 0.75e9),
        ];
        let options = with_warm_up(Direction::Forward);
        let metrics = merged(options, end(1.0, &sender), end(0.9, &receiver), None);
        near(&metrics, "goodput_bps", 7e6 * 8.0 / 0.75);
        near(&metrics, "goodput_time_ns", 0.75e9);
    }

    /// Each direction has its own deliveries.
    #[test]
    fn goodput_of_both_directions_is_the_sum_of_each_between_its_deliveries() {
        let side = |time: f64| {
            [
                ("transfer_time_ns", 1e9),
                ("warm_up_ns", 0.2e9),
                ("bytes_delivered", 10e6),
                ("warm_up_bytes", 3e6),
                ("goodput_time_ns", time),
            ]
        };
        let options = with_warm_up(Direction::Both);
        let ends = [0.7e9, 0.75e9].map(|time| end(1.0, &side(time)));
        let [sender, receiver] = ends;
        let metrics = merged(options, sender, receiver, None);
        near(&metrics, "goodput_bps", 7e6 * 8.0 / 0.7 + 7e6 * 8.0 / 0.75);
        assert!(!metrics.contains_key("goodput_time_ns"));
    }

    /// Bytes delivered after the warm-up are divided by the receiver's time after it, CPU time by the
    /// sender's.
    #[test]
    fn the_warm_up_is_excluded_from_all_figures() {
        let options = with_warm_up(Direction::Forward);
        let sender = [
            ("bytes_sent", 10e6),
            ("transfer_time_ns", 1e9),
            ("cpu_sender_ratio", 0.5),
            ("warm_up_ns", 0.2e9),
        ];
        let receiver = [
            ("bytes_delivered", 10e6),
            ("warm_up_bytes", 3e6),
            ("warm_up_ns", 0.2e9),
            ("cpu_receiver_ratio", 0.4),
        ];
        let metrics = merged(options, end(1.0, &sender), end(0.9, &receiver), None);
        near(&metrics, "goodput_bps", 7e6 * 8.0 / 0.7);
        near(&metrics, "cpu_sender_ratio", 0.5);
        // 0.4 of 0.7 s, over 0.8 s.
        near(&metrics, "cpu_receiver_ratio", 0.35);
        near(&metrics, "cpu_per_byte_ns", 0.85 * 0.8e9 / 7e6);
    }
}
