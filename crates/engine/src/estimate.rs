//! Estimate of what a run takes, before it starts: a pure function of plan and path.
//!
//! It says whether a study takes minutes or days, not more: it knows the path and the work, and of the
//! transports only whether they send at a rate of their own, stop at each message, slow down at losses, or are
//! programs that are slow themselves.

use std::{collections::BTreeSet, time::Duration};

use regatta_model::{
    Amount, Arrivals, BitRate, Bytes, CaptureSetup, CellTrials, Clock, Condition, Direction,
    OptionValue, Study, Transport, Workload, WorkloadKind,
};

use crate::{
    limits,
    plan::{Done, Plan},
};

/// Time and bytes that a run takes, without repeated trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Time of the longest-lasting round by the clock of the run, without path checks.
    pub round: Duration,
    /// Time of the whole run by this machine's clock.
    pub time: Duration,
    /// Bytes of payload that both hosts send.
    pub sent: Bytes,
    /// Size of the results and captures.
    pub disk: Bytes,
    /// Size of the files of white noise that workloads read, which stay for later runs.
    pub noise: Bytes,
}

/// Estimated rate of the payload over a path without a rate, in bits per second: of a transport in one thread.
const RATE_OF_SOFTWARE: u64 = 2_000_000_000;

/// Rates of drivers in one thread that are far below that, in bits per second: aioquic is Python, and took 107 s for
/// 1 GB over loopback.
const SLOW_DRIVERS: [(&str, u64); 1] = [("quic-aioquic", 80_000_000)];

/// Time that the hosts take for one message.
const PER_MESSAGE: Duration = Duration::from_nanos(1_500);

/// Time that the hosts take for an exchange beside what the path takes.
const PER_EXCHANGE: Duration = Duration::from_micros(40);

/// Time between two trials: path, both ends ready, reports.
const PER_TRIAL: Duration = Duration::from_millis(150);

/// Grain of the beginnings of trials with a virtual clock.
const VIRTUAL_GRAIN: Duration = Duration::from_millis(5_120);

/// Wall time of this machine for a trial with a virtual clock, without its packets.
const VIRTUAL_TRIAL: Duration = Duration::from_millis(350);

/// Wall time of this machine for each packet of a trial with a virtual clock.
const VIRTUAL_PACKET: Duration = Duration::from_micros(110);

/// Size of the record of a trial without its series, in the results file.
const RECORD_BYTES: u64 = 12_000;

/// Size of one sample of all series of a trial, in the results file.
const SAMPLE_BYTES: u64 = 200;

/// Bytes of a packet that are no payload.
const HEADERS: u64 = 52;

/// Time-out after which a lost message of stop-and-wait is given up or sent again.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time of this machine to start a guest and its agents.
const GUEST_START: Duration = Duration::from_millis(1_500);

/// Transfer of one trial.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    time: Duration,
    bytes: f64,
}

/// Transfers that the deadline probably ends, of transports that take the same time for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutTransfers {
    /// Labels of the transports.
    pub transports: Vec<String>,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Payload of the transfer.
    pub bytes: Bytes,
    /// Rate at which it arrives.
    pub rate: BitRate,
    /// Time of the transfer without a deadline.
    pub time: Duration,
}

/// Time and bytes of the trials of one round under one condition.
#[derive(Debug, Clone, Copy, Default)]
struct BlockEstimate {
    /// Time by the clock of the run.
    time: Duration,
    /// Time of this machine with a virtual clock.
    virtual_cost: Duration,
    sent: f64,
    disk: f64,
}

impl Plan {
    /// Estimates a run of the blocks that `done` does not leave out, divided among `jobs` guests.
    #[must_use]
    pub fn estimate(&self, done: &Done, jobs: u32) -> Estimate {
        let study = self.study();
        let mut all = BlockEstimate::default();
        for condition in &study.conditions {
            let block = self.estimate_block(condition);
            all.time = all.time.saturating_add(block.time);
            all.virtual_cost += block.virtual_cost;
            all.sent += block.sent;
            all.disk += block.disk;
        }
        // Where a rule ends cells, all trials are whole.
        let rounds = study.trials_of_cell(CellTrials::default());
        let checks = limits::PATH_CHECK.saturating_mul(study.conditions.len() as u32);
        let time = match study.guest.clock {
            Clock::Virtual => {
                let starts = GUEST_START.saturating_mul(self.chunks().len() as u32);
                (all.virtual_cost.saturating_mul(rounds) + checks + starts) / jobs.max(1)
            }
            Clock::Real => {
                let period = study.every.unwrap_or(all.time).max(all.time);
                let before_last = period.saturating_mul(rounds.saturating_sub(1));
                before_last.saturating_add(all.time).saturating_add(checks)
            }
        };
        let share = f64::from(self.trials_of(done)) / self.trials().len().max(1) as f64;
        let of_run = |bytes: f64| Bytes((bytes * f64::from(rounds) * share) as u64);
        Estimate {
            round: all.time,
            time: Duration::try_from_secs_f64(time.as_secs_f64() * share).unwrap_or(time),
            sent: of_run(all.sent),
            disk: of_run(all.disk),
            noise: noise(study),
        }
    }

    /// Estimates the trials of one round under a condition.
    fn estimate_block(&self, condition: &Condition) -> BlockEstimate {
        let study = self.study();
        let mut block = BlockEstimate::default();
        let workloads = study.workloads.iter();
        for workload in workloads.filter(|it| it.is_under(&condition.name)) {
            let flows = study.transports_of(workload).count();
            // Flows of a competition share the path, and its time.
            let share = match workload.competition {
                Some(_) => 1.0 / flows.max(1) as f64,
                None => 1.0,
            };
            for (_, transport) in study.transports_of(workload) {
                let workload = workload.of_transport(&transport.label);
                let mut transfer = transfer(study, transport, condition, workload);
                transfer.bytes *= share;
                let mut time = transfer.time + around(study, condition, workload);
                if study.guest.clock == Clock::Virtual {
                    let grains = time.as_nanos().div_ceil(VIRTUAL_GRAIN.as_nanos());
                    time = VIRTUAL_GRAIN.saturating_mul(grains as u32);
                }
                block.time = block.time.saturating_add(time.mul_f64(share));
                let packets = packets(transfer, condition);
                block.virtual_cost += VIRTUAL_TRIAL + VIRTUAL_PACKET.mul_f64(packets);
                block.sent += transfer.bytes;
                let samples = transfer.time.as_secs_f64() / study.sample_interval.as_secs_f64();
                block.disk += RECORD_BYTES as f64 + samples * SAMPLE_BYTES as f64;
                block.disk += captured(study.capture, transfer, packets, condition);
            }
        }
        block
    }

    /// Returns the transfers that the deadline probably ends before they are whole, by condition and workload.
    #[must_use]
    pub fn cut_transfers(&self) -> Vec<CutTransfers> {
        let study = self.study();
        let mut all: Vec<CutTransfers> = Vec::new();
        for condition in &study.conditions {
            let workloads = study.workloads.iter();
            for workload in workloads.filter(|it| it.is_under(&condition.name)) {
                let first = all.len();
                for (_, transport) in study.transports_of(workload) {
                    let workload = workload.of_transport(&transport.label);
                    let transfer = without_deadline(study, transport, condition, workload);
                    if transfer.time <= study.deadline {
                        continue;
                    }
                    let rate = transfer.bytes * 8.0 / transfer.time.as_secs_f64();
                    let rate = BitRate(rate as u64);
                    let alike = all[first..].iter_mut();
                    match alike.into_iter().find(|it| it.time == transfer.time) {
                        Some(same) => same.transports.push(transport.label.clone()),
                        None => all.push(CutTransfers {
                            transports: vec![transport.label.clone()],
                            condition: condition.name.clone(),
                            workload: workload.name.clone(),
                            bytes: Bytes(transfer.bytes as u64),
                            rate,
                            time: transfer.time,
                        }),
                    }
                }
            }
        }
        all
    }

    /// Returns the time of this machine for one round in virtual time, by condition, in whole
    /// milliseconds.
    pub(crate) fn virtual_costs(&self) -> Vec<Duration> {
        let conditions = self.study().conditions.iter();
        let cost = |condition| {
            let cost = self.estimate_block(condition).virtual_cost.as_millis();
            Duration::from_millis(u64::try_from(cost).unwrap_or(u64::MAX))
        };
        conditions.map(cost).collect()
    }

    /// Returns the time of a round, if it is longer than the period of the study's series, and that
    /// period.
    #[must_use]
    pub fn too_long_for_its_period(&self) -> Option<(Duration, Duration)> {
        let every = self.study().every?;
        let round = self.estimate(&Done::default(), 1).round;
        (round > every).then_some((round, every))
    }
}

/// Time of a trial beside its transfer: idle probe, set-up, end.
fn around(study: &Study, condition: &Condition, workload: &Workload) -> Duration {
    let round_trip = condition.round_trip_delay();
    // At once where none holds up another.
    let idle = match condition.treats_alike() {
        true => 1,
        false => workload.probe.idle_messages,
    };
    let round_trips = round_trip.saturating_mul(idle.saturating_add(6));
    let longest = limits::expected_longest(study, condition, workload);
    round_trips.saturating_add(PER_TRIAL).min(longest)
}

/// Time and payload of the transfer of one trial; no longer than the deadline.
fn transfer(
    study: &Study,
    transport: &Transport,
    condition: &Condition,
    workload: &Workload,
) -> Transfer {
    let Transfer { time: whole, bytes } = without_deadline(study, transport, condition, workload);
    let time = whole.min(study.deadline);
    let part = match whole > time {
        true => time.as_secs_f64() / whole.as_secs_f64(),
        false => 1.0,
    };
    let both = match (&workload.kind, workload.kind.direction()) {
        // Its bytes are those of both directions.
        (WorkloadKind::Script(_), _) | (_, Direction::Forward | Direction::Reverse) => 1.0,
        (_, Direction::Both) => 2.0,
    };
    Transfer {
        time,
        bytes: bytes * part * both,
    }
}

/// Time and payload, in one direction, of the transfer of one trial that no deadline ends.
fn without_deadline(
    study: &Study,
    transport: &Transport,
    condition: &Condition,
    workload: &Workload,
) -> Transfer {
    let direction = workload.kind.direction();
    let rate = rate(transport, condition, direction).min(rate_of_software(study, transport));
    let round_trip = condition.round_trip_delay();
    let seconds = |value| Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX);
    let bytes = workload.kind.bytes() as f64;
    let serialised = seconds(bytes * 8.0 / rate);
    let time = match &workload.kind {
        WorkloadKind::Bulk { message, .. } if stops_at_each_message(transport) => {
            exchanges(bytes, *message, serialised, condition)
        }
        WorkloadKind::Bulk {
            amount: Amount::Time(time),
            ..
        } => {
            let time = (*time).min(study.deadline);
            let bytes = rate / 8.0 * time.as_secs_f64();
            return Transfer { time, bytes };
        }
        WorkloadKind::Bulk { message, .. } => {
            let messages = bytes / message.0.max(1) as f64;
            serialised.max(PER_MESSAGE.mul_f64(messages.min(1e12)))
        }
        WorkloadKind::StopAndWait { message, .. } => {
            exchanges(bytes, *message, serialised, condition)
        }
        WorkloadKind::RequestResponse {
            requests, arrivals, ..
        } => match arrivals {
            Arrivals::Open {
                requests_per_second,
            } => seconds(*requests as f64 / requests_per_second),
            Arrivals::Closed { outstanding } => {
                let in_turn = *requests as f64 / f64::from((*outstanding).max(1));
                (round_trip + PER_EXCHANGE).mul_f64(in_turn.min(1e12)) + serialised
            }
        },
        WorkloadKind::ShortConnections { connections, .. } => {
            (round_trip.saturating_mul(3) + PER_EXCHANGE).saturating_mul(*connections)
        }
        WorkloadKind::MultiStream {
            messages,
            messages_per_second,
            ..
        } => seconds(*messages as f64 / messages_per_second),
        WorkloadKind::Script(script) => {
            // Each connection takes two round trips before its first message.
            script.time(round_trip, rate) + round_trip.saturating_mul(2)
        }
    };
    Transfer { time, bytes }
}

/// Time of messages of which each is acknowledged before the next one is sent.
fn exchanges(bytes: f64, message: Bytes, serialised: Duration, condition: &Condition) -> Duration {
    let messages = (bytes / message.0.max(1) as f64).min(1e12);
    let packets = message.0.div_ceil(u64::from(condition.mtu_bytes)).max(1) as f64;
    let arrives = (1.0 - condition.forward.mean_loss().0).powf(packets)
        * (1.0 - condition.reverse.mean_loss().0);
    // A message that is lost costs its time-out, and as often as it is lost again.
    let lost = (1.0 / arrives.max(0.01) - 1.0).max(0.0);
    (condition.round_trip_delay() + PER_EXCHANGE + MESSAGE_TIMEOUT.mul_f64(lost))
        .mul_f64(messages)
        .saturating_add(serialised)
}

/// Rate of the payload in bits per second: the path's, the transport's own, or that at which a congestion
/// control that takes losses for congestion sends.
fn rate(transport: &Transport, condition: &Condition, direction: Direction) -> f64 {
    let [link, _] = direction.data_first([&condition.forward, &condition.reverse]);
    let payload = 1.0 - HEADERS as f64 / f64::from(condition.mtu_bytes).max(2.0 * HEADERS as f64);
    let rate = link.mean_rate();
    let mut rate = rate.map_or(f64::INFINITY, |BitRate(rate)| rate as f64 * payload);
    if let Some(OptionValue::Text(option_rate)) = transport.options.get("rate")
        && let Ok(BitRate(option_rate)) = option_rate.parse()
    {
        rate = rate.min(option_rate as f64);
    }
    let loss = link.mean_loss().0;
    if loss > 0.0 && slows_down_at_losses(transport) {
        // Mathis, Semke, Mahdavi, Ott 1997: 1.22 packets / (R √p) per second. No transport needs a round
        // trip of less than a millisecond to be slow.
        let round_trip = condition.round_trip_delay().as_secs_f64().max(0.001);
        let response = 1.22 * f64::from(condition.mtu_bytes) * 8.0 / (round_trip * loss.sqrt());
        rate = rate.min(response);
    }
    rate.max(1.0)
}

/// Rate of the payload in bits per second that a transport reaches over a path without limits. With a virtual clock
/// computing takes no time, so that no transport is slow.
fn rate_of_software(study: &Study, transport: &Transport) -> f64 {
    let slow = (SLOW_DRIVERS.iter())
        .find(|(driver, _)| *driver == transport.driver && study.guest.clock == Clock::Real);
    slow.map_or(RATE_OF_SOFTWARE, |(_, rate)| *rate) as f64
}

fn slows_down_at_losses(transport: &Transport) -> bool {
    let is_bbr =
        matches!(transport.options.get("cc"), Some(OptionValue::Text(cc)) if cc.starts_with("bbr"));
    !transport.driver.starts_with("udp") && !is_bbr
}

/// Whether each message of a bulk transfer is acknowledged before the next one leaves.
fn stops_at_each_message(transport: &Transport) -> bool {
    transport.driver == "udp-reliable"
}

fn packets(transfer: Transfer, condition: &Condition) -> f64 {
    let payload = u64::from(condition.mtu_bytes).saturating_sub(HEADERS);
    transfer.bytes / payload.max(1) as f64
}

/// Bytes of the capture of a trial; half as many packets come back.
fn captured(
    capture: Option<CaptureSetup>,
    transfer: Transfer,
    packets: f64,
    condition: &Condition,
) -> f64 {
    // One for times is removed after its trial.
    match capture.filter(|it| !it.times_only) {
        None => 0.0,
        Some(CaptureSetup {
            snap_bytes: None, ..
        }) => transfer.bytes + packets * 150.0,
        Some(CaptureSetup {
            snap_bytes: Some(snap_bytes),
            ..
        }) => packets * (f64::from(snap_bytes.min(condition.mtu_bytes)) + 40.0) * 1.5,
    }
}

/// Returns the size of the files of white noise of a study. Workloads of the same size share one.
fn noise(study: &Study) -> Bytes {
    let sizes = study.workloads.iter().filter_map(|it| it.kind.file_bytes());
    let sizes: BTreeSet<u64> = sizes.collect();
    Bytes(sizes.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use regatta_model::{Pattern, Ratio};

    use super::*;
    use crate::tests::fake_bed::study;

    fn plan(change: impl FnOnce(&mut Study)) -> Plan {
        let mut study = study(1, 1, 144);
        change(&mut study);
        Plan::new(&study).expect("few trials")
    }

    /// 10 MB at 100 Mbit/s are 0.83 s of payload; idle probe, set-up and end are 7 round trips of 30 ms.
    #[test]
    fn a_transfer_without_loss_takes_the_time_of_its_path() {
        let estimate = plan(|_| {}).estimate(&Done::default(), 1);
        let round = estimate.round.as_secs_f64();
        assert!(
            (round - (0.829 + 7.0 * 0.03 + 0.15)).abs() < 0.01,
            "{round}"
        );
        assert!((estimate.time.as_secs_f64() - 144.0 * round - 3.0).abs() < 0.1);
        assert_eq!(estimate.sent, Bytes(1_440_000_000));
    }

    /// 1.22 · 1500 B / (30 ms · √0.05) are 2.2 Mbit/s, so that the deadline of 5 s ends each transfer after
    /// 1.4 MB; BBR is not slowed down.
    #[test]
    fn losses_slow_down_loss_based_congestion_control() {
        let lossy = |study: &mut Study| {
            study.conditions[0].forward.loss = Ratio(0.05);
        };
        let cubic = plan(lossy).estimate(&Done::default(), 1);
        assert!(
            (cubic.sent.0 as f64 / 144.0 - 1.364e6).abs() < 2e4,
            "{cubic:?}"
        );
        assert!(cubic.round > Duration::from_secs(5));
        let bbr = plan(|study| {
            lossy(study);
            let bbr = OptionValue::Text("bbr".to_owned());
            study.transports[0].options.insert("cc".to_owned(), bbr);
        });
        assert_eq!(bbr.estimate(&Done::default(), 1).sent, Bytes(1_440_000_000));
    }

    /// 10 MB at 1.22 · 1500 B / (30 ms · √0.05) take 37 s, beyond the deadline of 5 s; those of BBR do not.
    #[test]
    fn transfers_that_the_deadline_ends_are_found() {
        let plan = plan(|study| {
            study.conditions[0].forward.loss = Ratio(0.05);
            let mut bbr = study.transports[0].clone();
            bbr.label = "bbr".to_owned();
            let cc = OptionValue::Text("bbr".to_owned());
            bbr.options.insert("cc".to_owned(), cc);
            let mut second = study.transports[0].clone();
            second.label = "second".to_owned();
            study.transports.extend([bbr, second]);
        });
        let cut = plan.cut_transfers();
        let first = plan.study().transports[0].label.clone();
        assert_eq!(cut.len(), 1, "{cut:?}");
        assert_eq!(cut[0].transports, [first, "second".to_owned()]);
        assert_eq!(cut[0].bytes, Bytes(10_000_000));
        assert!((cut[0].time.as_secs_f64() - 36.66).abs() < 0.1, "{cut:?}");
        assert!((cut[0].rate.0 as f64 - 2.182e6).abs() < 1e4, "{cut:?}");
    }

    #[test]
    fn a_duration_within_the_deadline_is_not_cut() {
        let plan = plan(|study| {
            study.conditions[0].forward.loss = Ratio(0.05);
            if let WorkloadKind::Bulk { amount, .. } = &mut study.workloads[0].kind {
                *amount = Amount::Time(Duration::from_secs(4));
            }
        });
        assert_eq!(plan.cut_transfers(), []);
    }

    #[test]
    fn series_are_estimated_by_their_periods_only_in_real_time() {
        let every = Some(Duration::from_secs(150));
        let series = plan(|study| study.every = every);
        let hours = series.estimate(&Done::default(), 1).time.as_secs_f64() / 3600.0;
        assert!((5.9..6.0).contains(&hours), "{hours}");
        let virtual_series = plan(|study| {
            study.every = every;
            study.guest.clock = Clock::Virtual;
        });
        let [one, two] = [1, 2].map(|jobs| {
            virtual_series
                .estimate(&Done::default(), jobs)
                .time
                .as_secs_f64()
        });
        assert!((60.0..600.0).contains(&one), "{one}");
        assert!((one / two - 2.0).abs() < 0.01);
    }

    #[test]
    fn a_round_that_is_longer_than_its_period_is_found() {
        let with = |seconds: u64| {
            plan(|study| study.every = Some(Duration::from_secs(seconds)))
                .too_long_for_its_period()
                .is_some()
        };
        assert!(with(1));
        assert!(!with(2));
    }

    /// 500 MB byte by byte, each acknowledged: 5 · 10⁸ times 30 ms.
    #[test]
    fn a_plan_of_months_is_estimated_in_months() {
        let months = plan(|study| {
            study.rounds = 1;
            study.deadline = Duration::from_secs(100_000_000);
            study.workloads[0].kind = WorkloadKind::StopAndWait {
                size: Bytes(500_000_000),
                message: Bytes(1),
                pattern: Pattern::Data,
                timeout: Duration::from_secs(1),
            };
        });
        let days = months.estimate(&Done::default(), 1).time.as_secs_f64() / 86_400.0;
        assert!((170.0..180.0).contains(&days), "{days}");
    }

    /// 100 MB at 80 Mbit/s are 10 s; with a virtual clock the path alone counts.
    #[test]
    fn a_slow_program_takes_its_time() {
        let round = |driver: &str, clock: Clock| {
            let plan = plan(|study| {
                study.conditions[0].forward.rate = None;
                study.deadline = Duration::from_secs(100);
                if let WorkloadKind::Bulk { amount, .. } = &mut study.workloads[0].kind {
                    *amount = Bytes(100_000_000).into();
                }
                study.transports[0].driver = driver.into();
                study.guest.clock = clock;
            });
            plan.estimate(&Done::default(), 1).round.as_secs_f64()
        };
        let [tcp, slow] = ["tcp", "quic-aioquic"].map(|driver| round(driver, Clock::Real));
        assert!((slow - tcp - (10.0 - 0.4)).abs() < 0.01, "{slow} {tcp}");
        let [tcp, slow] = ["tcp", "quic-aioquic"].map(|driver| round(driver, Clock::Virtual));
        assert!((slow - tcp).abs() < 0.01, "{slow} {tcp}");
    }

    #[test]
    fn captures_are_counted() {
        let without = plan(|_| {}).estimate(&Done::default(), 1).disk.0;
        let with = plan(|study| study.capture = Some(CaptureSetup::FULL));
        let with = with.estimate(&Done::default(), 1).disk.0;
        assert!(
            with > 1_440_000_000 && without < 20_000_000,
            "{with} {without}"
        );
        let times = plan(|study| study.capture = Some(CaptureSetup::TIMES));
        assert_eq!(times.estimate(&Done::default(), 1).disk.0, without);
    }

    /// A file of white noise is as large as the transfer, and is made once for all trials.
    #[test]
    fn files_of_white_noise_are_counted_once() {
        let without = plan(|_| {}).estimate(&Done::default(), 1);
        let with = plan(|study| {
            study.workloads[0].kind = WorkloadKind::Bulk {
                amount: Bytes(15_000_000_000).into(),
                message: Bytes(10_000),
                pattern: Pattern::File,
                options: regatta_model::BulkOptions::default(),
            };
        });
        let with = with.estimate(&Done::default(), 1);
        assert_eq!(
            (without.noise, with.noise),
            (Bytes(0), Bytes(15_000_000_000))
        );
    }
}
