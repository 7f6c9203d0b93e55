//! Shortfalls of a trial: a step of the path that it did not reach, a rate that its sender did not keep.

use std::time::Duration;

use regatta_model::{
    Argument, BitRate, Clock, Condition, Direction, Measurements, OptionValue, Phrase, Ratio,
    Study, Transport, Warning, WorkloadKind, metric::id, phrase, warning,
};

/// Minimum ratio of the achieved to the requested rate without a warning.
const MIN_RATE_RATIO: f64 = 0.995;

/// The same where the sender has lost at most [`MAX_LOST_NS`].
const MIN_SHORT_RATE_RATIO: f64 = 0.95;

/// Time that a sender may lose without a warning, if its rate is at least [`MIN_SHORT_RATE_RATIO`]: in a short transfer one
/// late message is more than half a per cent.
const MAX_LOST_NS: f64 = 20e6;

/// As [`MIN_RATE_RATIO`], for a paced stream: its rate counts headers, and it has slow start.
const MIN_STREAM_RATE_RATIO: f64 = 0.85;

/// Returns the warnings about shortfalls of a trial.
pub(crate) fn warnings(
    transport: &Transport,
    condition: &Condition,
    study: &Study,
    kind: &WorkloadKind,
    merged: &Measurements,
) -> Vec<Warning> {
    // In virtual time no load of the machine delays anything.
    let remedy = || match study.guest.clock {
        Clock::Real => phrase::lower_rate_or_idle_machine(),
        Clock::Virtual => phrase::lower_rate(),
    };
    let get = |name: &str| merged.metrics.get(name).copied();
    // Steps count from the first connect call, as the transfer's time does; a warm-up is in both.
    let Some(end_ns) = get(id::TRANSFER_TIME_NS) else {
        return Vec::new();
    };
    let shortfall = |name, requested| {
        let is_short = |ratio: &f64| {
            let lost_ns = (1.0 - ratio) * end_ns;
            *ratio < MIN_SHORT_RATE_RATIO || *ratio < MIN_RATE_RATIO && lost_ns > MAX_LOST_NS
        };
        let ratio = get(name).filter(is_short)?;
        Some(rate_not_kept(ratio, requested, remedy()))
    };
    let requested = phrase::requested_option(Argument::option("requests_per_second"));
    let requests = shortfall(id::REQUEST_RATE_RATIO, requested);
    let requested = match kind {
        WorkloadKind::Bulk { .. } => phrase::requested_rate(),
        _ => phrase::requested_option(Argument::option("messages_per_second")),
    };
    let messages = shortfall(id::MESSAGE_RATE_RATIO, requested);
    let bulk = get(id::BYTES_SENT).and_then(|sent| {
        let bits_per_second = stream_rate(transport, kind)?;
        let set_up_ns = get(id::SET_UP_TIME_MEAN_NS).unwrap_or(0.0);
        let held = condition
            .typical_one_way(&condition.forward)
            .saturating_add(condition.reverse.longest_propagation());
        // The sender does not send while the last message is under way through a queue that may be full.
        let sending_ns = end_ns - set_up_ns - held.as_nanos() as f64;
        let ratio = sent * 8.0 / bits_per_second * 1e9 / sending_ns;
        // Congestion control decides on the rate as well.
        (sending_ns > 0.0 && ratio < MIN_STREAM_RATE_RATIO).then(|| {
            let requested = phrase::requested_option(Argument::option("rate"));
            rate_not_kept(ratio, requested, phrase::lower_rate_or_longer())
        })
    });
    let step = step_not_reached(condition, study.deadline, end_ns);
    [step, requests, messages, bulk]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the requested rate of the senders of a bulk transfer over streams, all flows together, in bits per
/// second.
fn stream_rate(transport: &Transport, kind: &WorkloadKind) -> Option<f64> {
    let WorkloadKind::Bulk { options, .. } = kind else {
        return None;
    };
    let OptionValue::Text(rate) = transport.options.get("rate")? else {
        return None;
    };
    let rate: BitRate = rate.parse().ok().filter(|rate| *rate > BitRate(0))?;
    if transport.driver == "udp" {
        // Its sender reports this ratio itself.
        return None;
    }
    let senders = 1 + u8::from(options.direction == Direction::Both);
    Some(rate.0 as f64 * f64::from(options.flows) * f64::from(senders))
}

fn rate_not_kept(ratio: f64, requested: Phrase, remedy: Phrase) -> Warning {
    warning::rate_not_kept(Ratio(ratio).rounded(1), requested, remedy)
}

/// Warns of the first step that comes after the end of the transfer. One that comes after the deadline is told of the
/// study.
fn step_not_reached(condition: &Condition, deadline: Duration, end_ns: f64) -> Option<Warning> {
    let mut steps = condition.schedule.iter();
    let step = steps.find(|step| step.at.as_nanos() as f64 >= end_ns && step.at < deadline)?;
    let end = Duration::from_millis((end_ns / 1e6) as u64);
    Some(warning::step_not_reached(end, &condition.name, step.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(transport: &str, condition: &str, workload: &str) -> Study {
        let text = format!(
            "[[transport]]\n{transport}\n[[condition]]\nname = \"c\"\n{condition}\n[[workload]]\n{workload}\n"
        );
        Study::parse(&text, "s").expect("a study")
    }

    fn found(study: &Study, metrics: &[(&str, f64)]) -> Vec<Warning> {
        let merged = Measurements {
            metrics: (metrics.iter())
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..Measurements::default()
        };
        warnings(
            &study.transports[0],
            &study.conditions[0],
            study,
            &study.workloads[0].kind,
            &merged,
        )
    }

    fn codes(study: &Study, metrics: &[(&str, f64)]) -> Vec<String> {
        found(study, metrics)
            .into_iter()
            .map(|warning| format!("{}: {}", warning.code, warning.message))
            .collect()
    }

    #[test]
    fn a_step_after_the_end_of_the_transfer_is_a_warning() {
        let step = "rtt = \"10ms\"\nstep = [{ at = \"5s\", loss = \"100%\" }, { at = \"6s\", loss = \"0\" }]";
        let study = study("driver = \"tcp\"", step, "kind = \"bulk\"");
        assert_eq!(
            codes(&study, &[(id::TRANSFER_TIME_NS, 2.5e9)]),
            [
                "step_not_reached: the transfer ended after 2.5 s, before the path of `c` changed at 5 s"
            ]
        );
        assert_eq!(codes(&study, &[(id::TRANSFER_TIME_NS, 6.5e9)]).len(), 0);
        // The warm-up is part of the time of the steps.
        let warmed = [(id::TRANSFER_TIME_NS, 5.5e9), (id::WARM_UP_NS, 1e9)];
        assert_eq!(codes(&study, &warmed).len(), 1);
    }

    #[test]
    fn a_rate_below_the_requested_one_is_a_warning() {
        let path = "rtt = \"10ms\"\nrate = \"100Mbit/s\"\nqueue = \"125kB\"";
        let sent = |seconds: f64| {
            [
                (id::BYTES_SENT, 10e6),
                (id::TRANSFER_TIME_NS, seconds * 1e9),
            ]
        };
        // The sender of messages knows its rate itself.
        let udp = study(
            "driver = \"udp\"\nrate = \"80Mbit/s\"",
            path,
            "kind = \"bulk\"",
        );
        let rate_ratio =
            |ratio: f64| [(id::MESSAGE_RATE_RATIO, ratio), (id::TRANSFER_TIME_NS, 9e9)];
        assert_eq!(codes(&udp, &rate_ratio(0.996)).len(), 0);
        assert_eq!(
            codes(&udp, &rate_ratio(0.982)),
            [
                "rate_not_kept: the sender did not keep its rate: it reached 98.2 % of the rate that was asked for"
            ]
        );
        assert_eq!(
            codes(&udp, &rate_ratio(0.5)),
            [
                "rate_not_kept: the sender did not keep its rate: it reached 50 % of the rate that was asked for"
            ]
        );
        // Congestion control is free to send less where no rate was asked for.
        let tcp = study("driver = \"tcp\"", path, "kind = \"bulk\"");
        assert_eq!(codes(&tcp, &sent(2.0)).len(), 0);
        let paced = "driver = \"tcp\"\nrate = \"40Mbit/s\"";
        let flows = study(paced, path, "kind = \"bulk\"\nflows = 2");
        // Headers are part of the rate of a stream: 1448 of 1514 bytes are the application's.
        assert_eq!(codes(&flows, &sent(1.07)).len(), 0);
        assert_eq!(
            codes(&flows, &sent(2.02)),
            [
                "rate_not_kept: the sender did not keep its rate: it reached 50 % of the option `rate`"
            ]
        );
        let messages = study(
            "driver = \"tcp\"",
            path,
            "kind = \"multi-stream\"\nstreams = 1",
        );
        let rate_ratio =
            |ratio: f64| [(id::MESSAGE_RATE_RATIO, ratio), (id::TRANSFER_TIME_NS, 1e9)];
        assert_eq!(codes(&messages, &rate_ratio(0.99)).len(), 0);
        assert_eq!(
            codes(&messages, &rate_ratio(0.8)),
            [
                "rate_not_kept: the sender did not keep its rate: it reached 80 % of the option `messages_per_second`"
            ]
        );
        let requests = study("driver = \"tcp\"", path, "kind = \"request-response\"");
        let rate_ratio =
            |ratio: f64| [(id::REQUEST_RATE_RATIO, ratio), (id::TRANSFER_TIME_NS, 1e9)];
        assert_eq!(codes(&requests, &rate_ratio(0.99)).len(), 0);
        assert_eq!(codes(&requests, &rate_ratio(0.8)).len(), 1);
    }

    #[test]
    fn machine_is_no_cause_in_virtual_time() {
        let mut study = study(
            "driver = \"tcp\"",
            "rtt = \"10ms\"",
            "kind = \"request-response\"",
        );
        for (clock, blames) in [(Clock::Real, true), (Clock::Virtual, false)] {
            study.guest.clock = clock;
            let metrics = [(id::REQUEST_RATE_RATIO, 0.8), (id::TRANSFER_TIME_NS, 1e9)];
            let found = found(&study, &metrics);
            assert_eq!(found[0].hint.contains("machine"), blames, "{found:?}");
        }
    }
}
