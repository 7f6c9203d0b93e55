//! Flows of a competition: when each starts, what the failure of one means for the others, and what they get of the path.

use std::{net::SocketAddr, time::Duration};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use regatta_bed::{CompetingFlow, FlowCounters};
use regatta_model::{
    BitRate, Direction, IpProtocol, Measurements, OptionValue, Outcome, Series, Text, TrialRecord,
    WorkloadKind,
    metric::{id, series_id},
    reason, warning,
};

use crate::plan::{Plan, PlannedTrial};

/// Window of the shares over time, in nanoseconds.
const WINDOW_NS: f64 = 1e9;

/// Maximum relative difference of a converged flow from its fair share.
const NEAR: f64 = 0.1;

/// Number of successive windows in which all flows must be that near.
const NEAR_WINDOWS: usize = 3;

/// Returns the position and the time of each start, in order. Beside its own start each flow of a competition has an offset
/// from a uniform distribution over the longest round-trip delay of any, drawn by the seed of the round: flows that start
/// at once on a clock without noise would lock into one phase of the queue, the same in each round.
pub(crate) fn starts(plan: &Plan, trials: &[PlannedTrial]) -> Vec<(usize, Duration)> {
    if let [_] = trials {
        return vec![(0, Duration::ZERO)];
    }
    let round_trip = |trial: &PlannedTrial| {
        let shared = plan.condition(trial.cell).longest_round_trip_delay();
        shared + 2 * plan.flow_delay(trial.cell)
    };
    let range = trials.iter().map(round_trip).max().unwrap_or_default();
    let mut starts: Vec<(usize, Duration)> = (trials.iter().enumerate())
        .map(|(position, trial)| {
            let mut random = ChaCha8Rng::seed_from_u64(plan.random_seed(trial));
            // The upper 53 bits make a number from 0 to 1 without 1.
            let part = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let start = plan.flow(trial.cell).map_or(Duration::ZERO, |it| it.start);
            (position, start + range.mul_f64(part))
        })
        .collect();
    starts.sort_by_key(|(_, at)| *at);
    // The first one waits for nothing.
    let first = starts.first().map_or(Duration::ZERO, |(_, at)| *at);
    for (_, at) in &mut starts {
        *at -= first;
    }
    starts
}

/// Listening end of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowServer {
    /// Address on which it listens.
    pub address: SocketAddr,
    /// Protocol of its packets, if its driver knows it.
    pub ip_protocol: Option<IpProtocol>,
}

/// Returns the flows of a competition as the path distinguishes them: by the protocol and the port of each server, with the
/// flow's own delay.
pub(crate) fn flows(
    plan: &Plan,
    trials: &[PlannedTrial],
    servers: &[FlowServer],
) -> Vec<CompetingFlow> {
    let flow = |(trial, server): (&PlannedTrial, &FlowServer)| CompetingFlow {
        server_port: server.address.port(),
        protocol: server.ip_protocol,
        delay: plan.flow_delay(trial.cell),
    };
    trials.iter().zip(servers).map(flow).collect()
}

/// Adds the path's packet counters of each flow to the records, if the path distinguishes flows. A flow whose data does
/// not use the port of its server is not counted: it delivered more than the counted packets can carry. If it was to
/// have a round-trip delay of its own, its data did not have that delay, and it has failed.
pub(crate) fn count(
    plan: &Plan,
    trials: &[PlannedTrial],
    counted: &[FlowCounters],
    records: &mut [TrialRecord],
) {
    for ((trial, counted), record) in trials.iter().zip(counted).zip(records) {
        if record.outcome != Outcome::Measured {
            continue;
        }
        let metrics = &mut record.measurements.metrics;
        let delivered = metrics.get(id::BYTES_DELIVERED).copied();
        let most = counted.offered * u64::from(plan.condition(trial.cell).mtu_bytes);
        if delivered.unwrap_or_default() > most as f64 {
            if !plan.flow_delay(trial.cell).is_zero() {
                record.outcome = Outcome::Failed;
                record.reasons = vec![reason::not_of_server_port().into()];
                record.hint = reason::leave_flow_rtt_out().into();
                record.measurements = Measurements::default();
            }
            continue;
        }
        metrics.insert(id::FLOW_QUEUE_DROPS, counted.dropped as f64);
        metrics.insert(id::FLOW_MARKED, counted.marked as f64);
    }
}

/// Returns the explanation of a flow that another one has ended, without its reason, which [`judged`] gives.
pub(crate) fn cut_off() -> (Outcome, Vec<Text>, Text) {
    (Outcome::Invalid, Vec::new(), Text::default())
}

/// Judges the flows of a competition together. If one is not supported, none is; if one has failed or is invalid, the
/// others are invalid. One that could not connect in time, or whose deadline came, is a result of the competition.
pub(crate) fn judged(mut records: Vec<TrialRecord>) -> Vec<TrialRecord> {
    let worst = [Outcome::Unsupported, Outcome::Failed, Outcome::Invalid].into_iter();
    let is_cause =
        |record: &TrialRecord, outcome| record.outcome == outcome && !record.reasons.is_empty();
    let cause = worst.filter_map(|outcome| records.iter().find(|record| is_cause(record, outcome)));
    let Some(cause) = cause.into_iter().next().cloned() else {
        return records;
    };
    let outcome = match cause.outcome {
        Outcome::Unsupported => Outcome::Unsupported,
        _ => Outcome::Invalid,
    };
    for record in &mut records {
        if record.index == cause.index || is_cause(record, cause.outcome) {
            continue;
        }
        let what = match cause.outcome {
            Outcome::Unsupported => reason::other_flow_unsupported(&cause.transport),
            Outcome::Failed => reason::other_flow_failed(&cause.transport),
            _ => reason::other_flow_invalid(&cause.transport),
        };
        record.outcome = outcome;
        record.reasons = [vec![what.into()], cause.reasons.clone()].concat();
        record.hint = cause.hint.clone();
    }
    records
}

/// Flow whose bytes are counted.
struct Counted {
    position: usize,
    /// Connect call of this flow, in nanoseconds since the first connect call of all flows.
    from_ns: f64,
    /// End of this flow, in nanoseconds since the first connect call of all flows.
    until_ns: f64,
    /// End of this flow's warm-up, in nanoseconds since the first connect call of all flows.
    counts_from_ns: f64,
    /// Samples of the goodput: end of each, in nanoseconds since the first connect call of all flows, and its mean in
    /// bits per second.
    samples: Vec<(f64, f64)>,
    /// Rate of the flow's own, in bits per second, which is the most that it sends; infinite for one that takes what it gets.
    demand_bps: f64,
}

impl Counted {
    /// Returns the bits that were delivered from one time to another.
    fn bits(&self, from_ns: f64, until_ns: f64) -> f64 {
        let mut before = self.from_ns;
        let mut bits = 0.0;
        for (end, rate) in &self.samples {
            let inside = end.min(until_ns) - before.max(from_ns);
            bits += inside.max(0.0) * rate / 1e9;
            before = *end;
        }
        bits
    }
}

/// Adds the flows' shares of their common path to the records, and moves the times of all series to nanoseconds since
/// the first connect call of any flow. `starts` are the connect calls on one clock, in nanoseconds.
pub(crate) fn measure(
    plan: &Plan,
    trials: &[PlannedTrial],
    starts: &[Option<i64>],
    records: &mut [TrialRecord],
) {
    let Some(first) = starts.iter().flatten().min().copied() else {
        return;
    };
    let (mut counted, mut starved) = (Vec::new(), Vec::new());
    let mut has_left_out = false;
    for (position, (trial, start)) in trials.iter().zip(starts).enumerate() {
        let record = &mut records[position];
        let Some(start) = start else {
            let is_bulk = matches!(plan.workload(trial.cell).kind, WorkloadKind::Bulk { .. });
            match record.outcome == Outcome::TimedOut && is_bulk {
                true => starved.push((position, demand_bps(plan, trial))),
                false => has_left_out = true,
            }
            continue;
        };
        let offset = start - first;
        let measured = &mut record.measurements;
        measured.metrics.insert(id::FLOW_START_NS, offset as f64);
        for series in &mut measured.series {
            series.t_ns.iter_mut().for_each(|t| *t += offset);
        }
        match counted_of(plan, trial, position, offset as f64, measured) {
            Some(flow) => counted.push(flow),
            None => has_left_out = true,
        }
    }
    if records
        .iter()
        .any(|it| it.outcome == Outcome::Invalid || it.outcome == Outcome::Failed)
        || counted.is_empty()
        || counted.len() + starved.len() < 2
    {
        // One flow has nobody to share with.
        return;
    }
    if has_left_out {
        // What such a flow got cannot be told from bytes: it has no goodput.
        for flow in &counted {
            let warnings = &mut records[flow.position].measurements.warnings;
            warnings.push(warning::flow_without_goodput());
        }
    }
    let from = counted
        .iter()
        .map(|it| it.counts_from_ns)
        .fold(0.0, f64::max);
    let until = counted
        .iter()
        .map(|it| it.until_ns)
        .fold(f64::MAX, f64::min);
    if until > from {
        share((&counted, &starved), [from, until], records);
    } else {
        for flow in &counted {
            let warnings = &mut records[flow.position].measurements.warnings;
            warnings.push(warning::flows_never_at_once());
        }
    }
    over_time(&counted, records);
}

/// Returns the samples of a flow's goodput; `None` for work that has none.
fn counted_of(
    plan: &Plan,
    trial: &PlannedTrial,
    position: usize,
    from_ns: f64,
    measured: &Measurements,
) -> Option<Counted> {
    let kind = &plan.workload(trial.cell).kind;
    let WorkloadKind::Bulk { options, .. } = kind else {
        return None;
    };
    let duration = measured.metrics.get(id::TRANSFER_TIME_NS)?;
    let goodput = measured.series.iter();
    let mut goodput = goodput.filter(|it| it.name == series_id::GOODPUT_BPS);
    let Series { t_ns, values, .. } = goodput.next()?;
    let samples = t_ns.iter().map(|t| *t as f64).zip(values.iter().copied());
    Some(Counted {
        position,
        from_ns,
        until_ns: from_ns + duration,
        counts_from_ns: from_ns + options.warm_up.as_nanos() as f64,
        samples: samples.collect(),
        demand_bps: demand_bps(plan, trial),
    })
}

/// Returns the most that the flow of a bulk transfer sends, in bits per second: the option `rate` of its transport for each
/// of its flows; infinite where that is not set.
fn demand_bps(plan: &Plan, trial: &PlannedTrial) -> f64 {
    let kind = &plan.workload(trial.cell).kind;
    let rate = plan.transport(trial.cell).options.get("rate");
    let (WorkloadKind::Bulk { options, .. }, Some(OptionValue::Text(rate))) = (kind, rate) else {
        return f64::INFINITY;
    };
    let senders = match options.direction {
        Direction::Both => 2.0,
        Direction::Forward | Direction::Reverse => 1.0,
    };
    let rate = rate.parse().ok().filter(|rate: &BitRate| rate.0 > 0);
    rate.map_or(f64::INFINITY, |rate| {
        rate.0 as f64 * f64::from(options.flows) * senders
    })
}

/// Adds the share of each flow, and the fairness of all, over the time in which all send. `starved` are the positions and the
/// demands of flows that timed out before they sent anything: they got nothing.
fn share(
    (flows, starved): (&[Counted], &[(usize, f64)]),
    [from, until]: [f64; 2],
    records: &mut [TrialRecord],
) {
    let counted = (flows.iter()).map(|it| (it.position, it.bits(from, until), it.demand_bps));
    let nothing = (starved.iter()).map(|(position, demand_bps)| (*position, 0.0, *demand_bps));
    let all: Vec<(usize, f64, f64)> = counted.chain(nothing).collect();
    let bits: Vec<f64> = all.iter().map(|(_, bits, _)| *bits).collect();
    let seconds = (until - from) / 1e9;
    let demands: Vec<f64> = all.iter().map(|(.., bps)| bps * seconds).collect();
    let total: f64 = bits.iter().sum();
    let fair = max_min(total, &demands);
    let Some(fairness) = jain(&bits, &fair) else {
        return;
    };
    for ((position, bits, _), fair) in all.iter().zip(&fair) {
        let metrics = &mut records[*position].measurements.metrics;
        metrics.insert(id::GOODPUT_SHARE_RATIO, bits / total);
        metrics.insert(id::FAIR_SHARE_RATIO, fair / total);
        metrics.insert(id::FAIRNESS_RATIO, fairness);
        metrics.insert(id::COMPETING_GOODPUT_BPS, bits / seconds);
        metrics.insert(id::COMPETING_TIME_NS, until - from);
    }
}

/// Returns the max-min fair parts of `total`: each demand below the equal part is met, and the others get equal parts of the
/// rest.
fn max_min(total: f64, demands: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by(|a, b| demands[*a].total_cmp(&demands[*b]));
    let mut parts = vec![0.0; demands.len()];
    let (mut rest, mut others) = (total, demands.len() as f64);
    for index in order {
        parts[index] = demands[index].min(rest / others);
        rest -= parts[index];
        others -= 1.0;
    }
    parts
}

/// Returns Jain's index of amounts over their fair parts (RFC 5166, 2.4; Jain, Chiu and Hawe, DEC-TR-301); `None` if
/// all are zero.
fn jain(amounts: &[f64], fair: &[f64]) -> Option<f64> {
    let parts = amounts.iter().zip(fair).map(|(amount, fair)| amount / fair);
    let (sum, squares) = parts.fold((0.0, 0.0), |(sum, squares), part| {
        (sum + part, squares + part * part)
    });
    (squares > 0.0).then(|| sum * sum / (amounts.len() as f64 * squares))
}

/// Adds shares and fairness in windows of a second, in which no flow starts or ends, and the time that the
/// flows take to converge after each start and end of one.
fn over_time(flows: &[Counted], records: &mut [TrialRecord]) {
    let end = flows.iter().map(|it| it.until_ns).fold(0.0, f64::max);
    let windows = (end / WINDOW_NS) as usize;
    let mut shares: Vec<Series> = flows
        .iter()
        .map(|_| series(series_id::GOODPUT_SHARE_RATIO))
        .collect();
    let mut fairness = series(series_id::FAIRNESS_RATIO);
    // Largest difference of a flow from its fair share, as a part of it, in each window.
    let mut farthest: Vec<Option<f64>> = Vec::new();
    for window in 0..windows {
        let from = window as f64 * WINDOW_NS;
        let until = from + WINDOW_NS;
        farthest.push(None);
        let sends = |flow: &Counted| flow.from_ns <= from && flow.until_ns >= until;
        let begins_or_ends =
            |flow: &Counted| flow.from_ns < until && flow.until_ns > from && !sends(flow);
        // In a part of a window a flow gets a part of its share.
        if flows.iter().any(begins_or_ends) {
            continue;
        }
        let present = (0..flows.len()).filter(|index| sends(&flows[*index]));
        let present: Vec<usize> = present.collect();
        let bits = present.iter().map(|index| flows[*index].bits(from, until));
        let bits: Vec<f64> = bits.collect();
        let all: f64 = bits.iter().sum();
        let demands = present.iter().map(|index| flows[*index].demand_bps);
        let demands: Vec<f64> = demands.map(|bps| bps * WINDOW_NS / 1e9).collect();
        let fair = max_min(all, &demands);
        let Some(index) = jain(&bits, &fair) else {
            continue;
        };
        for (flow, bits) in present.iter().zip(&bits) {
            shares[*flow].t_ns.push(until as i64);
            shares[*flow].values.push(bits / all);
        }
        if present.len() > 1 {
            fairness.t_ns.push(until as i64);
            fairness.values.push(index);
            let difference = bits
                .iter()
                .zip(&fair)
                .map(|(it, fair)| (it / fair - 1.0).abs());
            farthest[window] = difference.reduce(f64::max);
        }
    }
    let mut convergence = series(series_id::CONVERGENCE_TIME_NS);
    let mut changes: Vec<f64> = flows
        .iter()
        .flat_map(|it| [it.from_ns, it.until_ns])
        .collect();
    changes.sort_by(f64::total_cmp);
    // Flows that start or end within a second of one another make one change, which is there with the last of them.
    changes.dedup_by(|next, before| {
        let is_one = *next - *before < WINDOW_NS;
        if is_one {
            *before = *next;
        }
        is_one
    });
    for (index, change) in changes.iter().enumerate() {
        let next = changes.get(index + 1).copied().unwrap_or(end);
        let first = (change / WINDOW_NS).ceil() as usize;
        let last = ((next / WINDOW_NS) as usize).min(farthest.len());
        let near = |window: usize| farthest[window].is_some_and(|it| it <= NEAR);
        let mut places = first..last.saturating_sub(NEAR_WINDOWS - 1);
        if let Some(place) = places.find(|it| (*it..it + NEAR_WINDOWS).all(near)) {
            convergence.t_ns.push(*change as i64);
            convergence
                .values
                .push((place as f64 * WINDOW_NS - change).max(0.0));
        }
    }
    for (flow, series) in flows.iter().zip(shares) {
        records[flow.position].measurements.series.push(series);
    }
    let joined = flows.iter().map(|it| it.from_ns).fold(0.0, f64::max);
    let after_last = convergence.t_ns.iter().zip(&convergence.values);
    // Another flow may end within a second of the last start.
    let mut after_last = after_last.filter(|(at, _)| (**at as f64 - joined).abs() < WINDOW_NS);
    let after_last = after_last.next().map(|(_, time)| *time);
    for flow in flows {
        let measured = &mut records[flow.position].measurements;
        if let Some(time) = after_last {
            measured.metrics.insert(id::CONVERGENCE_TIME_LAST_NS, time);
        }
    }
    if let Some(flow) = flows.first() {
        let measured = &mut records[flow.position].measurements;
        let common = [fairness, convergence].into_iter();
        measured
            .series
            .extend(common.filter(|it| !it.values.is_empty()));
    }
}

fn series(name: &str) -> Series {
    Series {
        name: name.to_owned(),
        side: "receiver".to_owned(),
        t_ns: Vec::new(),
        values: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::{Competition, CompetitionFlow};

    use super::*;

    const SECOND: f64 = 1e9;

    /// Returns a flow with a sample each half second; `rate` returns its bits per second at a second.
    fn flow(position: usize, seconds: [usize; 2], rate: impl Fn(usize) -> f64) -> Counted {
        let [from, until] = seconds;
        let samples = (2 * from + 1..=2 * until)
            .map(|half| (half as f64 * SECOND / 2.0, rate((half - 1) / 2)));
        Counted {
            position,
            from_ns: from as f64 * SECOND,
            until_ns: until as f64 * SECOND,
            counts_from_ns: from as f64 * SECOND,
            samples: samples.collect(),
            demand_bps: f64::INFINITY,
        }
    }

    fn records(flows: usize) -> Vec<TrialRecord> {
        let plan = Plan::new(&crate::tests::fake_bed::study(flows, 1, 1)).expect("few trials");
        let measured = || (Outcome::Measured, Vec::new(), Text::default());
        let trials = plan.trials().iter();
        trials
            .map(|trial| plan.record(trial, 0, measured()))
            .collect()
    }

    fn series_of(record: &TrialRecord, name: &str) -> Vec<f64> {
        let mut series = record.measurements.series.iter();
        let found = series.find(|it| it.name == name);
        found.map_or_else(Vec::new, |series| series.values.clone())
    }

    #[test]
    fn bits_are_counted_within_a_window_that_cuts_samples() {
        let flow = flow(0, [0, 4], |second| second as f64 * 10.0);
        assert_eq!(flow.bits(0.0, 4.0 * SECOND), 60.0);
        assert_eq!(flow.bits(1.25 * SECOND, 2.5 * SECOND), 7.5 + 10.0);
    }

    #[test]
    fn shares_are_of_the_time_in_which_all_send() {
        // The second flow joins after 2 s and has a third of the rate.
        let flows = [flow(0, [0, 10], |_| 20.0), flow(1, [2, 12], |_| 10.0)];
        let mut records = records(2);
        share((&flows, &[]), [2.0 * SECOND, 10.0 * SECOND], &mut records);
        let metric = |flow: usize, name: &str| records[flow].measurements.metrics[name];
        assert!((metric(0, id::GOODPUT_SHARE_RATIO) - 2.0 / 3.0).abs() < 1e-12);
        // (2 + 1)² / (2 · (4 + 1)).
        assert!((metric(1, id::FAIRNESS_RATIO) - 0.9).abs() < 1e-12);
        assert_eq!(metric(1, id::COMPETING_GOODPUT_BPS), 10.0);
        assert_eq!(metric(0, id::COMPETING_TIME_NS), 8e9);
    }

    #[test]
    fn a_flow_that_got_nothing_has_no_share_and_the_index_is_that_of_one() {
        let flows = [flow(0, [0, 4], |_| 20.0), flow(1, [0, 4], |_| 0.0)];
        let mut records = records(2);
        share((&flows, &[]), [0.0, 4.0 * SECOND], &mut records);
        assert_eq!(
            records[1].measurements.metrics[id::GOODPUT_SHARE_RATIO],
            0.0
        );
        assert_eq!(records[0].measurements.metrics[id::FAIRNESS_RATIO], 0.5);
    }

    #[test]
    fn a_flow_that_timed_out_before_it_sent_has_nothing_of_all() {
        let flows = [flow(0, [0, 4], |_| 20.0)];
        let mut records = records(2);
        let starved = [(1, f64::INFINITY)];
        share((&flows, &starved), [0.0, 4.0 * SECOND], &mut records);
        let shares = [0, 1].map(|it| records[it].measurements.metrics[id::GOODPUT_SHARE_RATIO]);
        assert_eq!(shares, [1.0, 0.0]);
        assert_eq!(records[0].measurements.metrics[id::FAIRNESS_RATIO], 0.5);
    }

    #[test]
    fn max_min_fair_parts_meet_small_demands_and_divide_the_rest() {
        let none = f64::INFINITY;
        assert_eq!(max_min(12.0, &[none, none, none]), [4.0; 3]);
        assert_eq!(max_min(12.0, &[none, 2.0, none]), [5.0, 2.0, 5.0]);
        // 5 is above the equal part of 12 and below that of what 1 leaves.
        assert_eq!(max_min(12.0, &[5.0, 1.0, none]), [5.0, 1.0, 6.0]);
        assert_eq!(max_min(12.0, &[9.0, none]), [6.0, 6.0]);
        assert_eq!(max_min(3.0, &[1.0, 2.0]), [1.0, 2.0]);
    }

    /// A flow of 2 bit/s beside two that take the rest alike; then one of these has three times as much as the other.
    #[test]
    fn a_flow_that_its_own_rate_limits_is_not_unfair() {
        let fairness_of = |rates: [f64; 3]| {
            let mut flows = [0, 1, 2].map(|it| flow(it, [0, 10], |_| rates[it]));
            flows[0].demand_bps = 2.0;
            let mut records = records(3);
            share((&flows, &[]), [0.0, 10.0 * SECOND], &mut records);
            over_time(&flows, &mut records);
            let metrics = &records[0].measurements.metrics;
            let fair = metrics[id::FAIR_SHARE_RATIO];
            assert!((fair - 2.0 / 18.0).abs() < 1e-12, "{fair}");
            let by_second = series_of(&records[0], series_id::FAIRNESS_RATIO);
            assert!((by_second[0] - metrics[id::FAIRNESS_RATIO]).abs() < 1e-12);
            let converged = metrics.contains_key(id::CONVERGENCE_TIME_LAST_NS);
            (metrics[id::FAIRNESS_RATIO], converged)
        };
        let (fairness, converged) = fairness_of([2.0, 8.0, 8.0]);
        assert!((fairness - 1.0).abs() < 1e-12 && converged);
        // 1, 0.5 and 1.5 times their parts: 9 / (3 · 3.5).
        let (fairness, converged) = fairness_of([2.0, 4.0, 12.0]);
        assert!((fairness - 9.0 / 10.5).abs() < 1e-12 && !converged);
    }

    /// The second flow joins after 2 s, has nothing for 3 s, and its half from then on; the first one ends after 12 s.
    #[test]
    fn flows_converge_after_a_start_and_an_end() {
        let first = flow(0, [0, 12], |second| if second < 5 { 20.0 } else { 10.0 });
        let second = flow(1, [2, 16], |second| match second {
            ..5 => 0.0,
            5..12 => 10.0,
            _ => 20.0,
        });
        let mut records = records(2);
        over_time(&[first, second], &mut records);
        let shares = series_of(&records[0], series_id::GOODPUT_SHARE_RATIO);
        assert_eq!(shares[..2], [1.0, 1.0], "it is alone");
        assert_eq!((shares[3], shares[6]), (1.0, 0.5));
        let fairness = series_of(&records[0], series_id::FAIRNESS_RATIO);
        assert_eq!((fairness[0], fairness[9]), (0.5, 1.0));
        let time = records[1].measurements.metrics[id::CONVERGENCE_TIME_LAST_NS];
        assert_eq!(time, 3.0 * SECOND);
    }

    /// The packets that were counted of the second flow cannot carry what was delivered: its data has other ports.
    #[test]
    fn drops_are_those_of_flows_that_are_told_apart() {
        let plan = Plan::new(&crate::tests::fake_bed::study(2, 1, 1)).expect("few trials");
        let mut records = records(2);
        for record in &mut records {
            let metrics = &mut record.measurements.metrics;
            metrics.insert(id::BYTES_DELIVERED, 1e6);
        }
        let counted = [1000, 10].map(|offered| FlowCounters {
            offered,
            dropped: 3,
            marked: 2,
        });
        count(&plan, plan.trials(), &counted, &mut records);
        let of = |flow: usize, name: &str| records[flow].measurements.metrics.get(name).copied();
        assert_eq!(of(0, id::FLOW_QUEUE_DROPS), Some(3.0));
        assert_eq!(of(0, id::FLOW_MARKED), Some(2.0));
        assert_eq!(of(1, id::FLOW_QUEUE_DROPS), None);
        assert_eq!(records[1].outcome, Outcome::Measured);
    }

    #[test]
    fn a_flow_whose_data_did_not_have_its_round_trip_delay_has_failed() {
        let mut study = crate::tests::fake_bed::study(2, 1, 1);
        let flow = |transport: &str, rtt| CompetitionFlow {
            transport: transport.to_owned(),
            copy_of: None,
            start: Duration::ZERO,
            rtt,
            workload: None,
        };
        let far = Some(Duration::from_secs(1));
        study.workloads[0].competition = Some(Competition {
            flows: vec![flow("t0", far), flow("t1", far)],
        });
        let plan = Plan::new(&study).expect("few trials");
        let mut records = records(2);
        for record in &mut records {
            let metrics = &mut record.measurements.metrics;
            metrics.insert(id::BYTES_DELIVERED, 1e6);
        }
        let counted = [1000, 10].map(|offered| FlowCounters {
            offered,
            ..FlowCounters::default()
        });
        count(&plan, plan.trials(), &counted, &mut records);
        let outcomes = [records[0].outcome, records[1].outcome];
        assert_eq!(outcomes, [Outcome::Measured, Outcome::Failed]);
        let records = judged(records);
        assert_eq!(records[0].outcome, Outcome::Invalid);
    }

    #[test]
    fn one_failure_decides_what_the_others_are() {
        let outcomes = |causes: &[Outcome]| {
            let mut records = records(causes.len());
            for (record, outcome) in records.iter_mut().zip(causes) {
                record.outcome = *outcome;
                if *outcome != Outcome::Measured {
                    record.reasons = vec!["why".into()];
                }
            }
            let judged = judged(records).into_iter();
            judged.map(|record| record.outcome).collect::<Vec<_>>()
        };
        use Outcome::{Failed, Invalid, Measured, TimedOut, Unsupported};
        assert_eq!(outcomes(&[Measured, Measured]), [Measured, Measured]);
        assert_eq!(outcomes(&[Measured, Failed]), [Invalid, Failed]);
        assert_eq!(outcomes(&[Invalid, Measured]), [Invalid, Invalid]);
        assert_eq!(outcomes(&[Failed, Unsupported]), [Unsupported, Unsupported]);
        assert_eq!(outcomes(&[Measured, TimedOut]), [Measured, TimedOut]);
    }
}
