//! Clocks of hosts that do not share one: their offset over a trial, and the one-way delays that it corrects.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram as Hdr,
    serialization::{Deserializer, Serializer as _, V2Serializer},
};
use regatta_bed::{BedError, HostClocks, TestBed};
use regatta_control::{Host, Role};
use regatta_model::{
    Histogram, Measurements, Phrase, Workload, fact,
    metric::{DelayMetrics, id},
    phrase,
    units::format_duration,
    warning,
};
use regatta_stats::clocks::{ClockBound, LARGEST_DRIFT, OffsetReading, is_reportable};

/// Number of exchanges with each host for a reading before or after a trial.
const EXCHANGES_BESIDE: usize = 8;

/// Number of exchanges with each host for a reading during a trial.
const EXCHANGES_DURING: usize = 2;

/// Time between two readings during a trial.
const INTERVAL: Duration = Duration::from_millis(100);

/// Time by which delays are measured as too long, so that none is negative if the clocks drift towards one another.
const ROOM_NS: f64 = 2e6;

/// Readings of the hosts' clocks before a trial, during it and after it. Dropping it ends them.
pub(crate) struct TrialClocks {
    clocks: HostClocks,
    readings: Vec<OffsetReading>,
    /// Offset of host b's clock against host a's before the trial: lowest and highest.
    before_ns: Option<[f64; 2]>,
    uses_path: bool,
    during: Option<During>,
}

/// Thread that reads the clocks at an interval until the sender is dropped.
struct During {
    _stop: Sender<()>,
    thread: JoinHandle<Vec<OffsetReading>>,
}

impl TrialClocks {
    /// Reads the clocks of a bed whose hosts have one each, and goes on to read them at an interval; `None` for a bed
    /// whose hosts share one.
    ///
    /// # Errors
    /// If a path daemon does not answer.
    pub(crate) fn start(bed: &mut dyn TestBed) -> Result<Option<Self>, BedError> {
        let Some(clocks) = bed.clocks() else {
            return Ok(None);
        };
        let mut this = Self {
            clocks,
            readings: Vec::new(),
            before_ns: None,
            uses_path: false,
            during: None,
        };
        this.read_beside(bed)?;
        this.before_ns = ClockBound::over(&this.readings)
            .map(|bound| [bound.offset.lowest_ns, bound.offset.highest_ns]);
        let (stop, stopped) = mpsc::channel::<()>();
        let clocks = this.clocks.clone();
        let thread = thread::Builder::new().name("clocks".into()).spawn(move || {
            let mut readings = Vec::new();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                readings.extend(clocks.read(EXCHANGES_DURING));
            }
            readings
        });
        this.during = thread.ok().map(|thread| During {
            _stop: stop,
            thread,
        });
        Ok(Some(this))
    }

    /// Reads the clocks while nothing else uses the path.
    fn read_beside(&mut self, bed: &mut dyn TestBed) -> Result<(), BedError> {
        let over_path = bed.read_clocks_over_path()?;
        self.uses_path |= over_path.is_some();
        self.readings.extend(over_path);
        self.readings.extend(self.clocks.read(EXCHANGES_BESIDE));
        Ok(())
    }

    /// Returns the offset of a host's clock against the other's by which its end reduces one-way delays, in nanoseconds:
    /// [`ROOM_NS`] less than the smallest that the readings permit; `None` if the offset is not known.
    pub(crate) fn hint_ns(&self, host: Host) -> Option<i64> {
        let [lowest, highest] = self.before_ns?;
        let offset = match host {
            Host::Client => -highest,
            Host::Server => lowest,
        };
        Some((offset - ROOM_NS).floor() as i64)
    }

    /// Reads the clocks after the trial.
    ///
    /// # Errors
    /// If a path daemon does not answer.
    pub(crate) fn finish(mut self, bed: &mut dyn TestBed) -> Result<ReadClocks, BedError> {
        if let Some(During { _stop, thread }) = self.during.take() {
            drop(_stop);
            self.readings.extend(thread.join().unwrap_or_default());
        }
        self.read_beside(bed)?;
        Ok(ReadClocks {
            bound: ClockBound::over(&self.readings),
            hints: Host::BOTH.map(|host| self.hint_ns(host)),
            method: self.method(),
        })
    }

    /// Describes how the offset was measured, for the fact `clock.method`.
    fn method(&self) -> String {
        let path = if self.uses_path {
            ", over the data path before and after it"
        } else {
            ""
        };
        format!(
            "exchanges of CLOCK_MONOTONIC over the control sessions before, every {} during and after the trial{path}; \
             bounded by causality, and by at most {} ppm of drift between readings",
            format_duration(INTERVAL),
            LARGEST_DRIFT * 1e6
        )
    }
}

/// Clocks of the hosts over a trial that is over.
pub(crate) struct ReadClocks {
    bound: Option<ClockBound>,
    /// Offsets by which the ends on hosts a and b have reduced their one-way delays.
    hints: [Option<i64>; 2],
    method: String,
}

impl ReadClocks {
    /// Corrects the one-way delays of a trial, and adds the bound of their error.
    pub(crate) fn correct(&self, workload: &Workload, measurements: &mut Measurements) {
        let Measurements { metrics, facts, .. } = &mut *measurements;
        facts.insert("clock.method".to_owned(), self.method.clone());
        if let Some(bound) = &self.bound {
            let mut put = |name, value| metrics.insert(name, value);
            put(id::CLOCK_OFFSET_BOUND_NS, bound.offset.bound_ns());
            if let Some([least, largest]) = bound.drift {
                put(id::CLOCK_DRIFT_RATIO, f64::midpoint(least, largest));
                put(id::CLOCK_DRIFT_BOUND_RATIO, (largest - least) / 2.0);
            }
        }
        correct(measurements, workload, self.bound, self.hints);
    }
}

/// Corrects one-way delays that were measured with `hints` of hosts a and b instead of the offset of their clocks, or
/// takes them away if the offset is not known well enough.
fn correct(
    measurements: &mut Measurements,
    workload: &Workload,
    bound: Option<ClockBound>,
    hints: [Option<i64>; 2],
) {
    // Both ends of a workload in both directions have delays; their metric is the receiver's.
    let corrections = Host::BOTH.map(|host| {
        let offset = bound.as_ref()?.offset;
        let (lowest, middle) = match host {
            Host::Client => (-offset.highest_ns, -offset.middle_ns()),
            Host::Server => (offset.lowest_ns, offset.middle_ns()),
        };
        let hint = hints[host as usize]? as f64;
        // Below the hint a delay may have been taken for zero.
        (hint <= lowest).then_some(middle - hint)
    });
    let correction_of = |role: Role| {
        let mut hosts = Host::BOTH.into_iter();
        let host = hosts.find(|host| host.role(workload) == role)?;
        corrections[host as usize]
    };
    let bound_ns = bound.as_ref().map(|bound| bound.offset.bound_ns());
    for family in workload.kind.one_way_delays() {
        let Some(measured) = measurements.metrics.get(family.p50).copied() else {
            continue;
        };
        let found = correction_of(Role::Receiver).zip(bound_ns);
        let reason = match found {
            Some((correction, bound)) if is_reportable(measured - correction, bound) => {
                for name in family.names() {
                    if let Some(value) = measurements.metrics.get_mut(name) {
                        *value = (*value - correction).max(0.0);
                    }
                }
                shift(measurements, family.distribution, correction_of);
                continue;
            }
            Some((correction, bound)) => {
                let exact = |ns: f64| Duration::from_micros((ns / 1e3).round() as u64);
                phrase::clocks_known_to(exact(bound), exact(measured - correction))
            }
            None => phrase::offset_changed(),
        };
        for name in family.names() {
            measurements.metrics.remove(name);
        }
        measurements
            .histograms
            .retain(|it| it.name != family.distribution);
        leave_out(measurements, family, reason);
    }
}

/// States why a delay is left out.
fn leave_out(measurements: &mut Measurements, family: DelayMetrics, reason: Phrase) {
    if family == DelayMetrics::ONE_WAY {
        let fact = fact::left_out(reason);
        measurements.facts.insert("one_way_delay", fact);
        return;
    }
    let warning = warning::clocks_not_known(reason);
    measurements.warnings.push(warning);
}

/// Subtracts from the delays of the histograms `name` the correction of the end that measured them.
fn shift(measurements: &mut Measurements, name: &str, correction_of: impl Fn(Role) -> Option<f64>) {
    for histogram in &mut measurements.histograms {
        if histogram.name != name {
            continue;
        }
        let mut roles = [Role::Sender, Role::Receiver].into_iter();
        let role = roles.find(|role| role.name() == histogram.side);
        let correction = role.and_then(&correction_of);
        let shifted = correction.and_then(|correction| shifted(histogram, correction));
        // One that is no histogram is shown to nobody.
        histogram.hdr_v2_base64 = shifted.unwrap_or_default();
    }
}

/// Returns the encoding of a histogram with all its values less `correction`.
fn shifted(histogram: &Histogram, correction: f64) -> Option<String> {
    let bytes = STANDARD.decode(&histogram.hdr_v2_base64).ok()?;
    let read = Deserializer::new().deserialize(&mut bytes.as_slice());
    let read: Hdr<u64> = read.ok()?;
    let mut written = Hdr::new_from(&read);
    for value in read.iter_recorded() {
        let measured = read.median_equivalent(value.value_iterated_to()) as f64;
        let delay = (measured - correction).max(0.0) as u64;
        written.record_n(delay, value.count_at_value()).ok()?;
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&written, &mut bytes).ok()?;
    Some(STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {

    use regatta_model::{Bytes, MetricValues, Spread, WorkloadKind};
    use regatta_stats::clocks::OffsetInterval;

    use super::*;

    const MS: f64 = 1e6;

    /// Host b's clock is an hour ahead, known to ± this bound.
    fn bound(bound_ns: f64) -> Option<ClockBound> {
        let hour_ns = 3600e9;
        Some(ClockBound {
            offset: OffsetInterval {
                lowest_ns: hour_ns - bound_ns,
                highest_ns: hour_ns + bound_ns,
            },
            drift: None,
        })
    }

    /// Hints that were 3 ms below the offset in the direction of each host.
    const HINTS: [Option<i64>; 2] = [Some(-3_600_003_000_000), Some(3_599_997_000_000)];

    fn multi_stream() -> Workload {
        let mut workload = crate::tests::fake_bed::study(1, 1, 1).workloads[0].clone();
        workload.kind = WorkloadKind::MultiStream {
            messages: 100,
            message: Bytes(1000),
            messages_per_second: 10.0,
            streams: 1,
            spread: Spread::Streams,
        };
        workload
    }

    fn histogram(name: &str, delays: &[f64]) -> Histogram {
        let mut histogram = Hdr::<u64>::new(3).expect("three digits");
        for delay in delays {
            histogram.record(*delay as u64).expect("a delay");
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&histogram, &mut bytes)
            .expect("bytes");
        Histogram {
            name: name.to_owned(),
            side: "receiver".to_owned(),
            hdr_v2_base64: STANDARD.encode(bytes),
        }
    }

    /// Delays of 20 and 40 ms that were measured as 23 and 43.
    fn measured() -> Measurements {
        Measurements {
            metrics: MetricValues::from([
                ("one_way_delay_p50_ns".to_owned(), 23.0 * MS),
                ("message_delay_mean_ns".to_owned(), 33.0 * MS),
                ("message_delay_p50_ns".to_owned(), 23.0 * MS),
                ("message_delay_max_ns".to_owned(), 43.0 * MS),
            ]),
            histograms: ["one_way_delay_ns", "message_delay_ns"]
                .map(|name| histogram(name, &[23.0 * MS, 43.0 * MS]))
                .into(),
            ..Measurements::default()
        }
    }

    #[test]
    fn one_way_delays_are_corrected_by_the_error_of_the_hint() {
        let mut measurements = measured();
        correct(&mut measurements, &multi_stream(), bound(MS), HINTS);
        let metrics = &measurements.metrics;
        assert_eq!(metrics["one_way_delay_p50_ns"], 20.0 * MS);
        assert_eq!(metrics["message_delay_mean_ns"], 30.0 * MS);
        assert_eq!(metrics["message_delay_max_ns"], 40.0 * MS);
        for histogram in &measurements.histograms {
            let bytes = STANDARD.decode(&histogram.hdr_v2_base64).expect("base64");
            let read: Hdr<u64> = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .expect("a histogram");
            let near = |value: u64, ms: f64| (value as f64 / (ms * MS) - 1.0).abs() < 2e-3;
            assert!(near(read.min(), 20.0) && near(read.max(), 40.0), "{read:?}");
            assert_eq!(read.len(), 2);
        }
        assert!(measurements.warnings.is_empty() && measurements.facts.is_empty());
    }

    #[test]
    fn the_offset_is_negated_for_a_receiving_client() {
        let mut measurements = measured();
        let mut workload = multi_stream();
        workload.kind = WorkloadKind::Bulk {
            amount: Bytes(1).into(),
            message: Bytes(1),
            pattern: regatta_model::Pattern::Data,
            options: regatta_model::BulkOptions {
                direction: regatta_model::Direction::Reverse,
                ..Default::default()
            },
        };
        correct(&mut measurements, &workload, bound(MS), HINTS);
        assert_eq!(measurements.metrics["one_way_delay_p50_ns"], 20.0 * MS);
        // The delays of its messages are not from one host to the other.
        assert_eq!(measurements.metrics["message_delay_p50_ns"], 23.0 * MS);
    }

    #[test]
    fn a_delay_with_a_bound_above_a_tenth_of_it_is_omitted() {
        let mut measurements = measured();
        correct(&mut measurements, &multi_stream(), bound(2.01 * MS), HINTS);
        assert!(measurements.metrics.is_empty() && measurements.histograms.is_empty());
        assert_eq!(
            measurements.facts["one_way_delay"],
            "left out: the clocks of the hosts are known to ± 2.01 ms, more than a tenth of the median delay of 20 ms"
        );
        assert_eq!(measurements.warnings[0].code, "clocks_not_known");
    }

    #[test]
    fn a_changed_clock_offset_gives_no_one_way_delay() {
        let early = bound(MS).map(|mut bound| {
            bound.offset.lowest_ns -= 10.0 * MS;
            bound.offset.highest_ns -= 10.0 * MS;
            bound
        });
        for bound in [None, early] {
            let mut measurements = measured();
            correct(&mut measurements, &multi_stream(), bound, HINTS);
            assert!(measurements.metrics.is_empty(), "{bound:?}");
            let fact = &measurements.facts["one_way_delay"];
            assert!(fact.contains("changed too much"), "{fact}");
        }
    }
}
