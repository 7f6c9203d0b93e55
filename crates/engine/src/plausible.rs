//! Warnings about figures of a trial that are doubtful, with remedies.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use regatta_bed::PathCounters;
use regatta_model::{
    Amount, Argument, BedKind, BitRate, Bytes, Condition, Link, Measurements, PacketCounter,
    PathCheck, Phrase, Ratio, Text, Transport, Warning, WorkloadKind,
    metric::id,
    phrase, reason,
    stack::{NOT_APPLICABLE, NOT_KNOWN},
    warning, warning_code,
};

use crate::{
    plan::{Plan, PlannedTrial},
    shortfall, slow_start,
};

/// Minimum number of bandwidth-delay products in a transfer that is not mostly slow start.
const MIN_BDPS: u64 = 10;

/// Share of the packets that may leave the path late.
const MAX_LATE: f64 = 0.01;

/// Share of late packets above which a trial is invalid.
const TOO_LATE: f64 = 0.1;

/// Share of the packets that may be lost because the emulator did not keep up.
const MAX_REFUSED: f64 = 1e-4;

/// Share of such packets above which a trial over links with a rate is invalid: a loss of 1 % is another path.
const TOO_MANY_REFUSED: f64 = 0.01;

/// Share of the host's CPU above which the emulator and the ends take time from one another.
const SATURATED: f64 = 0.95;

/// Adds warnings about the merged figures of one trial.
pub(crate) fn check(
    plan: &Plan,
    trial: &PlannedTrial,
    path: Option<&PathCounters>,
    merged: &mut Measurements,
) {
    let study = plan.study();
    let condition = plan.condition(trial.cell);
    let kind = &plan.workload(trial.cell).kind;
    let size = kind.bytes();
    let get = |name: &str| merged.metrics.get(name).copied();
    let mut found = Vec::new();

    let mut warnings = merged.warnings.iter();
    let flagged = warnings.any(|warning| warning.code == warning_code::DEADLINE_REACHED);
    let set_up_ns = get(id::SET_UP_TIME_MEAN_NS).unwrap_or(0.0);
    let deadline_ns = study.deadline.as_nanos() as f64;
    if !flagged && get(id::TRANSFER_TIME_NS).is_some_and(|t| t - set_up_ns >= deadline_ns) {
        found.push(deadline_reached(kind, study.deadline));
    }
    // Slow start matters to what is sent as fast as it can be; the rest waits for answers, or for a
    // schedule.
    if let WorkloadKind::Bulk {
        amount: Amount::Bytes(_),
        ..
    } = kind
        && let Some(bdp) = condition.bdp(&condition.forward)
        && size < bdp.0.saturating_mul(MIN_BDPS)
    {
        let megabytes = (bdp.0 * MIN_BDPS).div_ceil(1_000_000);
        let (size, least) = (Bytes(size), MIN_BDPS);
        found.push(warning::short_transfer(size, least, bdp, megabytes));
    }
    found.extend(path.into_iter().flat_map(|path| of_path(condition, path)));
    found.extend(slow_start::overflow(condition, kind.direction(), merged));
    let transport = plan.transport(trial.cell);
    let shortfalls = shortfall::warnings(transport, condition, study, kind, merged);
    found.extend(shortfalls);
    found.extend(receive_buffer_full(merged));
    if let Some(busy) = get(id::CPU_HOST_RATIO)
        && busy > SATURATED
    {
        let run_cpu = [
            id::CPU_SENDER_RATIO,
            id::CPU_RECEIVER_RATIO,
            id::CPU_PATH_RATIO,
        ];
        let run_cpu: f64 = run_cpu.into_iter().filter_map(get).sum();
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let share = Ratio(SATURATED);
        found.push(match study.bed {
            BedKind::Hosts => warning::cpu_of_a_host_saturated(share),
            // In the other beds both ends and the emulator are on this machine.
            _ if run_cpu < busy * cores / 2.0 => warning::cpu_saturated_by_others(share),
            _ => warning::cpu_saturated_by_run(share),
        });
    }
    merged.warnings.extend(found);
}

/// Returns the warning about datagrams that found the receiver's buffer full. The kernel counts those of other programs,
/// too: where nothing sends again and nothing was lost, they were none of the trial's.
fn receive_buffer_full(merged: &Measurements) -> Option<Warning> {
    let get = |name: &str| merged.metrics.get(name).copied();
    get(id::RECEIVE_BUFFER_ERRORS).filter(|dropped| *dropped > 0.0)?;
    let sends_once = merged.facts.get("retransmission").map(Text::as_str) == Some("none");
    if !sends_once {
        return Some(warning::packets_dropped_at_the_socket());
    }
    get(id::MESSAGES_LOST).filter(|lost| *lost > 0.0)?;
    Some(warning::messages_dropped_at_the_socket())
}

/// Returns the warnings about an emulator that did not keep up.
fn of_path(condition: &Condition, path: &PathCounters) -> impl Iterator<Item = Warning> + use<> {
    let (late, refused) = (late_ratio(path), refused_ratio(path));
    let late = (late > MAX_LATE)
        .then(|| warning::path_late(Ratio(late).rounded(1), condition.late_after()));
    let refused = (refused > MAX_REFUSED).then(|| warning::path_overrun(Ratio(refused).rounded(2)));
    late.into_iter().chain(refused)
}

/// Returns the share of the packets that left the path late.
fn late_ratio(path: &PathCounters) -> f64 {
    let late = path.forward.late_packets + path.reverse.late_packets;
    let delivered = path.forward.delivered + path.reverse.delivered;
    late as f64 / delivered.max(1) as f64
}

/// Returns the share of the packets that were lost because the emulator did not keep up.
fn refused_ratio(path: &PathCounters) -> f64 {
    let refused =
        path.forward.packets[PacketCounter::Refused] + path.reverse.packets[PacketCounter::Refused];
    let offered = path.forward.offered + path.reverse.offered;
    refused as f64 / (offered + refused).max(1) as f64
}

/// Returns the reason why a trial's figures must not be used, if the path deviated too much from the
/// requested one. Up to [`MAX_LATE`] late and [`MAX_REFUSED`] lost packets the path is within its tolerance; between
/// that and [`TOO_LATE`] or [`TOO_MANY_REFUSED`] the trial has a warning. Without a rate the path carries what the
/// emulator can, so that what it loses is no reason.
pub(crate) fn unusable(condition: &Condition, path: &PathCounters) -> Option<Phrase> {
    let late = late_ratio(path);
    if late > TOO_LATE {
        let part = Ratio((late * 1e3).round() / 1e3);
        return Some(reason::path_far_too_late(part, condition.late_after()));
    }
    let refused = refused_ratio(path);
    (refused > TOO_MANY_REFUSED && condition.links().all(Link::has_bottleneck))
        .then(|| reason::path_far_overrun(Ratio((refused * 1e3).round() / 1e3)))
}

/// Returns the reason why a trial has figures that are not its transport's: connections of somebody else held it up.
pub(crate) fn held_up(merged: &Measurements) -> Option<Phrase> {
    let is_held_up = |warning: &Warning| warning.code == warning_code::FLOW_HELD_UP;
    merged.warnings.iter().any(is_held_up).then(reason::held_up)
}

/// Returns the reason why a bulk transfer is no measurement: its time ran out before anything was sent, or before anything was
/// delivered although the transport retransmits and waits for delivery.
pub(crate) fn nothing_transferred(kind: &WorkloadKind, merged: &Measurements) -> Option<Phrase> {
    let WorkloadKind::Bulk { amount, .. } = kind else {
        return None;
    };
    let is_zero = |name: &str| amount.bytes().0 > 0 && merged.metrics.get(name) == Some(&0.0);
    let retransmission = merged.facts.get("retransmission").map(Text::as_str);
    let delivers = !kind.abandons() && !matches!(retransmission, None | Some("none"));
    if is_zero(id::BYTES_SENT) {
        Some(reason::nothing_sent())
    } else if is_zero(id::BYTES_DELIVERED) && delivers {
        Some(reason::nothing_delivered())
    } else {
        None
    }
}

/// Returns one warning about what a path check found wrong; `None` if nothing is. A check that the
/// machine disturbed proves neither that the path is wrong nor that it is right. A network that is used as it
/// is (`is_real`) has no tolerance but that of the first check.
pub(crate) fn path_warning(check: &PathCheck, is_real: bool) -> Option<Warning> {
    let condition = &check.condition;
    let step = Some(check.step_at_ns).filter(|at| *at > 0);
    let step = step.map(Duration::from_nanos);
    if let Some(why) = &check.spoiled {
        return Some(match step {
            None => warning::path_not_checked(condition, why.clone()),
            Some(step) => warning::path_not_checked_from_step(condition, step, why.clone()),
        });
    }
    if check.within {
        return None;
    }
    let wrong = check.quantities.iter().filter(|quantity| !quantity.within);
    let wrong = wrong.map(|it| {
        let [asked, achieved] = [it.asked, it.achieved].map(|value| quantity(&it.name, value));
        phrase::deviation(&it.name, achieved, asked)
    });
    let wrong: Vec<Phrase> = wrong.collect();
    Some(match step {
        _ if is_real => warning::network_changed(wrong),
        None => warning::path_off(condition, wrong),
        Some(step) => warning::path_off_from_step(condition, step, wrong),
    })
}

fn deadline_reached(kind: &WorkloadKind, deadline: Duration) -> Warning {
    match kind {
        WorkloadKind::Bulk {
            amount: Amount::Time(time),
            ..
        } => warning::not_delivered_by_the_deadline(*time, deadline),
        _ => warning::deadline_passed(deadline),
    }
}

/// Returns a quantity for messages, in the unit that its name ends with.
fn quantity(name: &str, value: f64) -> Argument {
    // What is negative or no number is shown as it is.
    let rounded = value.round() as u64;
    match name.rsplit('_').next() {
        _ if value.is_nan() || value < 0.0 => number(value).as_str().into(),
        Some("ns") => Duration::from_nanos(rounded).into(),
        Some("bps") => BitRate(rounded).into(),
        Some("ratio") => Ratio(value).into(),
        _ => number(value).as_str().into(),
    }
}

/// Formats a number with at most four significant digits, for messages.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    format!("{value:.digits$}")
}

/// Warns where one table would compare different congestion controls as if they were transports. Where
/// every transport has the same driver, they are what the study compares.
///
/// `controls` holds the congestion controls of each transport's label.
pub(crate) fn congestion_controls(
    transports: &[Transport],
    controls: &BTreeMap<String, BTreeSet<String>>,
) -> Option<Warning> {
    let drivers: BTreeSet<&str> = transports.iter().map(|it| it.driver.as_str()).collect();
    if drivers.len() < 2 {
        return None;
    }
    let has_one = |name: &&String| !name.starts_with(NOT_APPLICABLE);
    let all: BTreeSet<&String> = controls.values().flatten().filter(has_one).collect();
    let not_known = all.iter().any(|name| name.starts_with(NOT_KNOWN));
    (all.len() > 1).then(|| {
        let with_one = controls
            .iter()
            .filter(|(_, names)| names.iter().any(|name| has_one(&name)));
        let each = with_one.map(|(label, names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            phrase::congestion_control_of(label, &names.join(", "))
        });
        match not_known {
            true => warning::congestion_controls_not_known(each.collect()),
            false => warning::different_congestion_controls(each.collect()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_four_significant_digits() {
        assert_eq!(number(30_512_345.6), "30512346");
        assert_eq!(number(0.048_123_4), "0.04812");
        assert_eq!(number(0.0), "0");
    }

    #[test]
    fn messages_use_readable_units() {
        for (name, value, expected) in [
            ("forward_delay_ns", 30_512_345.6, "30.512 ms"),
            ("forward_rate_bps", 9.35e7, "93.5 Mbit/s"),
            ("forward_loss_ratio", 0.048, "4.8 %"),
            ("reverse_delay_ns", -1500.0, "-1500"),
        ] {
            let shown = phrase::deviation(name, quantity(name, value), quantity(name, value));
            assert_eq!(
                shown.to_string(),
                format!("`{name}` was {expected} instead of {expected}")
            );
        }
    }

    /// A condition with a rate both ways, or with none.
    fn condition(rate: Option<BitRate>) -> Condition {
        let link = Link {
            rate,
            ..Link::default()
        };
        Condition {
            name: "c".into(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: Condition::DEFAULT_MTU_BYTES,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        }
    }

    #[test]
    fn a_trial_that_strangers_held_up_is_unusable() {
        let mut measured = Measurements::default();
        measured.warnings.push(warning::flow_refused(1));
        assert_eq!(held_up(&measured), None);
        let time = Duration::from_secs(10);
        measured.warnings.push(warning::flow_held_up(1, time));
        assert!(held_up(&measured).is_some());
    }

    #[test]
    fn packets_that_the_emulator_lost_make_a_trial_over_a_rate_unusable() {
        let path = |refused_drops| PathCounters {
            forward: regatta_bed::LinkCounters {
                offered: 1000 - refused_drops,
                packets: regatta_model::PacketCounters::from([(
                    PacketCounter::Refused,
                    refused_drops,
                )]),
                ..regatta_bed::LinkCounters::default()
            },
            ..PathCounters::default()
        };
        let rate = condition(Some(BitRate(1_000_000_000)));
        assert_eq!(unusable(&rate, &path(10)), None);
        assert!(unusable(&rate, &path(11)).is_some_and(|why| why.to_string().contains("1.1 %")));
        assert_eq!(unusable(&condition(None), &path(500)), None);
    }

    #[test]
    fn datagrams_without_room_at_the_receiver_are_a_warning_where_the_trial_lost_any() {
        let warning = |retransmission: &str, lost: f64| {
            let metrics = [(id::RECEIVE_BUFFER_ERRORS, 3.0), (id::MESSAGES_LOST, lost)];
            let merged = Measurements {
                metrics: (metrics.iter())
                    .map(|(name, value)| ((*name).to_owned(), *value))
                    .collect(),
                facts: [("retransmission".to_owned(), retransmission.to_owned())].into(),
                ..Measurements::default()
            };
            receive_buffer_full(&merged).map(|warning| warning.message)
        };
        let of_udp = warning("none", 2.0);
        assert!(of_udp.is_some_and(|text| text.ends_with("they count as lost messages")));
        assert_eq!(warning("none", 0.0), None);
        let of_quic = warning("by the transport", 0.0);
        assert!(of_quic.is_some_and(|text| text.ends_with("for losses of the path")));
    }

    /// Returns why a bulk transfer with these bytes sent and delivered is no measurement.
    fn transferred(metrics: &[(&str, f64)], retransmission: &str) -> Option<Phrase> {
        let kind = &crate::tests::fake_bed::study(1, 1, 1).workloads[0].kind;
        let metrics = metrics
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        let retransmission = ("retransmission".to_owned(), retransmission.to_owned());
        let merged = Measurements {
            metrics: metrics.collect(),
            facts: [retransmission].into(),
            ..Measurements::default()
        };
        nothing_transferred(kind, &merged)
    }

    #[test]
    fn a_bulk_transfer_of_which_nothing_was_sent_is_no_measurement() {
        let nothing = transferred(&[(id::BYTES_SENT, 0.0), (id::BYTES_DELIVERED, 0.0)], "none");
        assert!(nothing.is_some_and(|why| why.to_string().contains("sent")));
        assert_eq!(transferred(&[(id::BYTES_SENT, 1.0)], "none"), None);
        assert_eq!(transferred(&[], "none"), None);
    }

    #[test]
    fn a_bulk_transfer_of_which_nothing_was_delivered_is_no_measurement() {
        let metrics = [(id::BYTES_SENT, 1.0), (id::BYTES_DELIVERED, 0.0)];
        let nothing = transferred(&metrics, "selective");
        assert!(nothing.is_some_and(|why| why.to_string().contains("delivered")));
        // Without retransmission that is what the path does to it.
        assert_eq!(transferred(&metrics, "none"), None);
    }

    #[test]
    fn late_packets_mark_a_trial_and_many_make_it_unusable() {
        let path = |late_packets| PathCounters {
            forward: regatta_bed::LinkCounters {
                delivered: 1000,
                late_packets,
                ..regatta_bed::LinkCounters::default()
            },
            ..PathCounters::default()
        };
        assert!(late_ratio(&path(10)) <= MAX_LATE);
        assert!(late_ratio(&path(11)) > MAX_LATE);
        let condition = condition(None);
        assert_eq!(unusable(&condition, &path(100)), None);
        assert!(
            unusable(&condition, &path(101)).is_some_and(|why| why.to_string().contains("10.1 %"))
        );
        assert_eq!(unusable(&condition, &PathCounters::default()), None);
    }

    fn transport(label: &str, driver: &str) -> Transport {
        Transport {
            label: label.into(),
            driver: driver.into(),
            options: BTreeMap::new(),
        }
    }

    fn controls_by_label(controls: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
        (controls.iter())
            .map(|&(label, control)| (label.to_owned(), BTreeSet::from([control.to_owned()])))
            .collect()
    }

    #[test]
    fn one_congestion_control_is_no_warning() {
        let two = [transport("tcp", "tcp"), transport("quic", "quic-quinn")];
        let alike = controls_by_label(&[("tcp", "cubic"), ("quic", "cubic")]);
        assert_eq!(congestion_controls(&two, &alike), None);
        let apart = controls_by_label(&[("tcp", "bbr"), ("quic", "cubic")]);
        let found = congestion_controls(&two, &apart).unwrap();
        assert!(found.message.contains("`tcp` bbr"), "{}", found.message);
        let silent = [
            ("tcp", "cubic"),
            ("quic", "not known: the program does not tell"),
        ];
        let found = congestion_controls(&two, &controls_by_label(&silent)).unwrap();
        let beginning = "it is not known that the transports used the same congestion control";
        assert!(found.message.starts_with(beginning), "{}", found.message);
    }

    #[test]
    fn a_deadline_during_a_timed_transfer_reports_undelivered_data() {
        let study = regatta_model::Study::parse(
            "name = \"s\"\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\n\
             [[workload]]\nname = \"w\"\nkind = \"bulk\"\nduration = \"10s\"\n",
            "s.toml",
        );
        let kind = &study.unwrap().workloads[0].kind;
        let found = deadline_reached(kind, Duration::from_secs(15));
        let expected = "what the sender had handed over in its 10 s was not all delivered by the deadline of 15 s; measured is what was delivered by then";
        assert_eq!(found.message, expected);
    }

    #[test]
    fn different_congestion_controls_of_one_driver_are_no_warning() {
        let one = [transport("cubic", "tcp"), transport("bbr", "tcp")];
        let apart = controls_by_label(&[("cubic", "cubic"), ("bbr", "bbr")]);
        assert_eq!(congestion_controls(&one, &apart), None);
    }
}
