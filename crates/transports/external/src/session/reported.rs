//! Facts and metrics that a program reports about itself and its stack.

use regatta_control::SideReport;
use regatta_model::{Unit, metric, metric::id, phrase, warning};
use regatta_transport::MonotonicTime;

use super::ProgramSession;
use crate::contract::Done;

/// Maximum number of facts that a program may report.
const MAX_FACTS: usize = 32;

/// Maximum length of the name or value of a fact, in bytes.
const LONGEST_FACT: usize = 200;

/// Metrics that a program may report, by name in `regatta_model::METRICS`. All others are measured
/// from outside.
const METRICS: &[&str] = &[
    id::BYTES_IN_FLIGHT_MAX_BYTES,
    id::CONGESTION_WINDOW_MAX_BYTES,
    id::CONGESTION_WINDOW_MEAN_BYTES,
    id::MIN_RTT_NS,
    id::RETRANSMIT_RATIO,
    id::RETRANSMITTED_PACKETS,
    id::SMOOTHED_RTT_LAST_NS,
    id::SMOOTHED_RTT_MEAN_NS,
    id::SMOOTHED_RTT_P50_NS,
];

impl ProgramSession {
    /// Adds the facts and metrics that the program may report; warns of others, and of values that are impossible, such
    /// as a round trip that takes longer than the time since `started`, the beginning of the transfer.
    pub(super) fn add(&self, report: &mut SideReport, started: MonotonicTime, done: Done) {
        let mut left_out = Vec::new();
        for (name, value) in done.facts.unwrap_or_default() {
            let fits = report.measurements.facts.len() < MAX_FACTS
                && !name.is_empty()
                && !name.starts_with("interface.")
                && name.len() <= LONGEST_FACT
                && value.len() <= LONGEST_FACT
                && !(name.chars().chain(value.chars())).any(char::is_control);
            if fits {
                report
                    .measurements
                    .facts
                    .entry(name)
                    .or_insert(value.into());
            } else {
                left_out.push(name);
            }
        }
        let longest_ns = (MonotonicTime::now() - started) as f64;
        for (name, value) in done.metrics.unwrap_or_default() {
            let known = metric::find(&name).filter(|it| METRICS.contains(&it.name));
            let is_possible = known.is_some_and(|metric| {
                let fits = metric.unit != Unit::Nanoseconds || value <= longest_ns;
                fits && metric.unit.admits(value)
            });
            if is_possible {
                report.measurements.metrics.insert(name, value);
            } else {
                left_out.push(name);
            }
        }
        if !left_out.is_empty() {
            let names: Vec<String> = left_out
                .iter()
                .map(|name| name.escape_debug().take(LONGEST_FACT).collect())
                .collect();
            let side = phrase::side(self.trial.order.role.name());
            let warning = warning::external_left_out(side, names);
            report.measurements.warnings.push(warning);
        }
    }
}
