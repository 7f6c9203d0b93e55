//! Figures of a trial that its path or a clock rules out. Such a trial is not measured, whatever its ends report.

use std::time::Duration;

use regatta_bed::PathCounters;
use regatta_control::{Host, SideReport};
use regatta_model::{
    Clock, Condition, Link, Offloads, Outcome, Phrase, Setting, Study, Warning, Workload,
    metric::id, phrase, reason, units::signed_nanoseconds, warning,
};

/// Largest IP packet that a host with offloads hands over at once, in bytes.
pub(crate) const SUPER_PACKET_BYTES: f64 = 65_535.0;

/// Maximum relative difference between a time that a program states and the one that its agent measured.
const TOLERANCE: f64 = 0.02;

/// Difference of such a time that is accepted in any case, in real time: on a busy machine a process waits for a
/// processor.
const REAL_SLACK: Duration = Duration::from_millis(10);

/// The same in virtual time, where no process waits for a processor.
const VIRTUAL_SLACK: Duration = Duration::from_micros(100);

/// Part of the tolerance from which a difference is worth a warning.
const WARNED_PART: f64 = 0.25;

/// Trial whose figures are to be judged, with the reports of its ends before they are merged.
pub(crate) struct Reported<'a> {
    pub study: &'a Study,
    pub condition: &'a Condition,
    pub workload: &'a Workload,
    /// Report of the sender, and that of the receiver.
    pub reports: [&'a SideReport; 2],
    /// Counters of the emulated path; `None` of a network as it is.
    pub path: Option<&'a PathCounters>,
    /// Whether both hosts read one monotonic clock.
    pub shares_clock: bool,
}

/// Outcome of a trial whose figures are impossible, with reason and hint.
type Finding = (Outcome, Phrase, Phrase);

impl Reported<'_> {
    /// Returns the reason for which the figures are impossible, if there is one.
    pub fn impossible(&self) -> Option<Finding> {
        let stated = self.doubted_time(1.0);
        let stated = stated.map(|doubt| {
            (
                self.outcome_of_times(),
                doubt,
                reason::state_times_at_once(),
            )
        });
        stated.or_else(|| Host::BOTH.into_iter().find_map(|to| self.too_much(to)))
    }

    /// Returns the warning about times that are possible, but differ from what an agent saw.
    pub fn warning(&self) -> Option<Warning> {
        let doubt = self.doubted_time(WARNED_PART)?;
        Some(warning::external_clock(
            doubt,
            reason::state_times_at_once(),
        ))
    }

    /// Returns the outcome of a trial with impossible times: invalid in real time, as a busy machine can have delayed a
    /// program or its agent, and failed in virtual time, where the program is wrong.
    fn outcome_of_times(&self) -> Outcome {
        match self.study.guest.clock {
            Clock::Virtual => Outcome::Failed,
            Clock::Real => Outcome::Invalid,
        }
    }

    fn report(&self, host: Host) -> &SideReport {
        self.reports[host.role(self.workload) as usize]
    }

    fn shortest_delay(&self, link: fn(Setting<'_>) -> &Link) -> Duration {
        let delays = self
            .condition
            .settings()
            .map(|it| link(it).shortest_propagation());
        delays.min().unwrap_or_default()
    }

    /// Returns the shortest delay of the path from the connecting host to the listening one, and back.
    fn shortest_delays(&self) -> [Duration; 2] {
        [
            self.shortest_delay(|it| it.forward),
            self.shortest_delay(|it| it.reverse),
        ]
    }

    /// Whether the receiver's acknowledgement, over the transport, ended the transfer.
    fn is_acknowledged(&self) -> bool {
        let facts = &self.report(Host::Client).measurements.facts;
        facts
            .get("acknowledgement")
            .is_some_and(|way| way == "in_band")
    }

    /// Returns a description of the first time that a program states and that differs by more than `part` of the
    /// tolerance from what its agent, or the other end, saw.
    fn doubted_time(&self, part: f64) -> Option<Phrase> {
        let slack = match self.study.guest.clock {
            Clock::Virtual => VIRTUAL_SLACK,
            Clock::Real => REAL_SLACK,
        };
        let excess = |later_ns: i64, earlier_ns: i64, of_ns: i64| {
            let limit = slack.max(span(of_ns).mul_f64(TOLERANCE)).mul_f64(part);
            Some(span(later_ns - earlier_ns)).filter(|excess| *excess > limit)
        };
        let [client, server] = [Host::Client, Host::Server].map(|host| self.report(host));
        let stated_ns = client.ended_monotonic_ns - client.started_monotonic_ns;
        if let Some(agent) = client.agent_times
            && let Some([started_ns, connected_ns]) = agent.connecting_ns
        {
            type LeftOut = fn(Duration, Duration) -> Phrase;
            let left_out = |phrase: LeftOut, seen_ns: i64, stated_ns: i64| {
                let excess = excess(seen_ns, stated_ns, seen_ns)?;
                Some(phrase(excess, span(seen_ns)))
            };
            let seen_ns = agent.ended_ns - started_ns;
            let of_transfer = left_out(phrase::times_leave_out_transfer, seen_ns, stated_ns);
            let doubted = of_transfer.or_else(|| {
                let set_up_ns = *client.measurements.metrics.get(id::SET_UP_TIME_MEAN_NS)?;
                let seen_ns = connected_ns - started_ns;
                left_out(
                    phrase::times_leave_out_connecting,
                    seen_ns,
                    set_up_ns as i64,
                )
            });
            if doubted.is_some() {
                return doubted;
            }
        }
        let shortest: Duration = self.shortest_delays().into_iter().sum();
        let answer_ns = client.agent_times.and_then(|it| it.shortest_answer_ns);
        if let Some(answer) = answer_ns.map(span)
            && answer < shortest.mul_f64(1.0 - TOLERANCE)
        {
            return Some(phrase::answered_too_early(answer, shortest));
        }
        let agent = server.agent_times?;
        if let Some(late) = excess(agent.ended_ns, server.ended_monotonic_ns, stated_ns) {
            return Some(phrase::done_said_late(late));
        }
        let [_, back] = self.shortest_delays();
        let arrival_ns = server.ended_monotonic_ns + signed_nanoseconds(back);
        let is_comparable = self.shares_clock && self.is_acknowledged();
        let early = excess(arrival_ns, client.ended_monotonic_ns, stated_ns);
        let early = early.filter(|_| is_comparable)?;
        Some(phrase::acknowledged_too_early(early, back))
    }

    /// Returns the reason for which this host cannot have got the bytes that its end reports.
    fn too_much(&self, to: Host) -> Option<Finding> {
        let delivered = *self
            .report(to)
            .measurements
            .metrics
            .get(id::BYTES_DELIVERED)?;
        let (counters, link): (_, fn(Setting<'_>) -> &Link) = match to {
            Host::Server => (self.path.map(|path| &path.forward), |it| it.forward),
            Host::Client => (self.path.map(|path| &path.reverse), |it| it.reverse),
        };
        let counters = counters.filter(|counters| !counters.unsupported.offered);
        let packets = counters.map(|counters| counters.delivered);
        let carried = packets.map(|packets| packets as f64 * f64::from(self.condition.mtu_bytes));
        let bytes = delivered.round() as u64;
        let why = if let Some(packets) = packets.filter(|_| carried < Some(delivered)) {
            let mtu = self.condition.mtu_bytes;
            reason::more_than_packets(bytes, to.name(), packets, mtu.into())
        } else {
            let time = self.carrying_time(to);
            let super_packet = match self.study.path.offloads {
                Offloads::On => SUPER_PACKET_BYTES,
                Offloads::Off => 0.0,
            };
            let most = self.condition.capacity_bytes(link, time)? + super_packet;
            if delivered <= most {
                return None;
            }
            reason::more_than_path(bytes, to.name(), most.round() as u64, time)
        };
        // A stack of the agent states nothing itself: then bench, machine or path are wrong, and no transport.
        let is_stated = self.reports.iter().any(|it| it.agent_times.is_some());
        Some(match is_stated {
            true => (Outcome::Failed, why, reason::check_program()),
            false => (Outcome::Invalid, why, reason::compare_with_capture()),
        })
    }

    /// Returns the time in which the path can have carried what came to a host: from the first packet that the first
    /// connect call can bring there to the last one before the transfer's end.
    fn carrying_time(&self, to: Host) -> Duration {
        let [client, server] = [Host::Client, Host::Server].map(|host| self.report(host));
        let [forth, back] = self.shortest_delays();
        let ended_ns = client.ended_monotonic_ns;
        let whole = |ended_ns: i64| span(ended_ns - client.started_monotonic_ns);
        match to {
            Host::Server if self.is_acknowledged() => whole(ended_ns).saturating_sub(forth + back),
            // What had come is known from the listening end's own time, which the deadline reaches over control.
            Host::Server if self.shares_clock => {
                whole(ended_ns.max(server.ended_monotonic_ns)).saturating_sub(forth)
            }
            Host::Server => {
                let listened = span(server.ended_monotonic_ns - server.started_monotonic_ns);
                whole(ended_ns).max(listened.saturating_add(self.condition.longest_one_way_ever()))
            }
            Host::Client if self.condition.follows_a_clock() => {
                whole(ended_ns).saturating_sub(back)
            }
            Host::Client => whole(ended_ns).saturating_sub(forth + back),
        }
    }
}

/// Converts a difference of times to a span; one that is negative is none.
fn span(difference_ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(difference_ns).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use regatta_bed::LinkCounters;
    use regatta_control::AgentTimes;
    use regatta_model::{BitRate, DeliveryTrace, MetricValues, Step};

    use super::*;
    use crate::tests::fake_bed::study;

    const MILLISECOND: i64 = 1_000_000;

    /// Trial of the bulk transfer of a program over 10 ms each way at 50 Mbit/s, in times of milliseconds since the
    /// order to connect.
    struct Case {
        study: Study,
        client: SideReport,
        server: SideReport,
        path: Option<PathCounters>,
    }

    impl Case {
        /// Makes a trial that delivers 1 MB between 20 ms and 200 ms, and nothing of it is impossible.
        fn new() -> Self {
            let mut study = study(1, 1, 1);
            study.guest.clock = Clock::Virtual;
            for link in study.conditions[0].links_mut() {
                link.delay = Duration::from_millis(10);
                link.rate = Some(BitRate(50_000_000));
            }
            let report = |started, ended, metrics: &[(&str, f64)]| {
                let metrics = metrics
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), *value));
                let mut report = SideReport {
                    started_monotonic_ns: started * MILLISECOND,
                    ended_monotonic_ns: ended * MILLISECOND,
                    agent_times: Some(AgentTimes {
                        connecting_ns: None,
                        ended_ns: ended * MILLISECOND,
                        shortest_answer_ns: None,
                    }),
                    ..SideReport::default()
                };
                report.measurements.metrics = MetricValues::from_iter(metrics);
                report
            };
            let mut client = report(0, 200, &[(id::SET_UP_TIME_MEAN_NS, 20e6)]);
            let acknowledged = ("acknowledgement".to_owned(), "in_band".to_owned());
            client.measurements.facts.extend([acknowledged]);
            let mut case = Self {
                study,
                client,
                server: report(30, 190, &[(id::BYTES_DELIVERED, 1e6)]),
                path: None,
            };
            case.agent_of_client().connecting_ns = Some([0, 20 * MILLISECOND]);
            case
        }

        fn agent_of_client(&mut self) -> &mut AgentTimes {
            self.client.agent_times.as_mut().unwrap()
        }

        fn delivered(mut self, bytes: f64) -> Self {
            let metrics = &mut self.server.measurements.metrics;
            metrics.insert(id::BYTES_DELIVERED.to_owned(), bytes);
            self
        }

        /// Makes the ends those of a stack in the agents.
        fn of_a_stack(mut self) -> Self {
            (self.client.agent_times, self.server.agent_times) = (None, None);
            self
        }

        fn reported(&self) -> Reported<'_> {
            Reported {
                study: &self.study,
                condition: &self.study.conditions[0],
                workload: &self.study.workloads[0],
                reports: [&self.client, &self.server],
                path: self.path.as_ref(),
                shares_clock: true,
            }
        }

        #[track_caller]
        fn is_possible(&self) {
            assert_eq!(self.reported().impossible(), None);
            assert_eq!(self.reported().warning(), None);
        }

        #[track_caller]
        fn is(&self, expected: Outcome, reason: &str) {
            let (outcome, why, _) = self.reported().impossible().expect("it is impossible");
            assert_eq!(outcome, expected);
            assert_eq!(why.to_string(), reason);
        }
    }

    #[test]
    fn what_the_path_can_carry_is_possible() {
        Case::new().is_possible();
        // 180 ms and 1 ms at 6250 B a millisecond, and two packets.
        Case::new().delivered(1_134_250.0).is_possible();
    }

    #[test]
    fn a_program_cannot_deliver_more_than_the_rate_carries() {
        Case::new().delivered(1_134_251.0).is(
            Outcome::Failed,
            "1134251 B were delivered to host `b`, and the path carries at most 1134250 B in the 180 ms in which they can have arrived",
        );
    }

    #[test]
    fn a_stack_that_delivers_more_than_the_rate_carries_is_not_the_one_to_blame() {
        let case = Case::new().of_a_stack().delivered(3e6);
        assert_eq!(case.reported().impossible().unwrap().0, Outcome::Invalid);
    }

    #[test]
    fn a_path_that_becomes_faster_carries_more() {
        let mut case = Case::new().delivered(3e6);
        let condition = &mut case.study.conditions[0];
        let faster = Link {
            rate: Some(BitRate(500_000_000)),
            ..condition.forward.clone()
        };
        condition.schedule = vec![Step {
            at: Duration::from_millis(100),
            forward: faster,
            reverse: condition.reverse.clone(),
        }];
        case.is_possible();
    }

    #[test]
    fn a_trace_carries_its_opportunities() {
        let trace = |packets_per_millisecond: usize| {
            let mut case = Case::new();
            let link = &mut case.study.conditions[0].forward;
            link.rate = None;
            let opportunities_ms = (1..=1000).flat_map(|ms| vec![ms; packets_per_millisecond]);
            link.trace = Some(DeliveryTrace {
                name: "t".into(),
                opportunities_ms: opportunities_ms.collect(),
            });
            case
        };
        trace(3).is_possible();
        assert_eq!(trace(2).reported().impossible().unwrap().0, Outcome::Failed);
    }

    #[test]
    fn what_comes_back_is_bounded_by_the_link_back() {
        let mut case = Case::new().delivered(0.0);
        let metrics = &mut case.client.measurements.metrics;
        metrics.insert(id::BYTES_DELIVERED.to_owned(), 2e6);
        let (_, why, _) = case.reported().impossible().unwrap();
        assert!(why.to_string().contains("to host `a`"), "{why}");
        case.study.conditions[0].reverse.rate = None;
        case.is_possible();
    }

    /// The deadline reaches the listening end over control, when more has come.
    #[test]
    fn what_comes_while_the_deadline_is_told_is_possible() {
        let mut case = Case::new().of_a_stack().delivered(1.25e6);
        case.client.measurements.facts.clear();
        assert!(case.reported().impossible().is_some());
        case.server.ended_monotonic_ns = 230 * MILLISECOND;
        case.is_possible();
    }

    #[test]
    fn nothing_can_be_delivered_that_the_path_has_not_carried() {
        let mut case = Case::new();
        let forward = LinkCounters {
            delivered: 667,
            ..LinkCounters::default()
        };
        case.path = Some(PathCounters {
            forward,
            ..PathCounters::default()
        });
        case.is_possible();
        case.path.as_mut().unwrap().forward.delivered = 666;
        case.is(
            Outcome::Failed,
            "1000000 B were delivered to host `b`, and 666 packets of at most 1500 B came to it in the whole trial",
        );
    }

    /// A handshake before `started_ns`: a set-up of 0 ns over 20 ms.
    #[test]
    fn a_connection_made_before_the_stated_start_is_found() {
        let mut case = Case::new();
        case.client.started_monotonic_ns = 20 * MILLISECOND;
        let metrics = &mut case.client.measurements.metrics;
        metrics.insert(id::SET_UP_TIME_MEAN_NS.to_owned(), 0.0);
        case.is(
            Outcome::Failed,
            "the times of the sender's program leave out 20 ms of the 200 ms that its agent saw from `start` to the end of the transfer",
        );
        case.study.guest.clock = Clock::Real;
        assert_eq!(case.reported().impossible().unwrap().0, Outcome::Invalid);
    }

    #[test]
    fn a_set_up_that_is_stated_too_short_is_found() {
        let mut case = Case::new();
        let metrics = &mut case.client.measurements.metrics;
        metrics.insert(id::SET_UP_TIME_MEAN_NS.to_owned(), 1e6);
        case.is(
            Outcome::Failed,
            "the times of the sender's program leave out 19 ms of the 20 ms that its agent saw from `start` to `connected`",
        );
    }

    #[test]
    fn an_answer_before_the_path_can_bring_it_is_found() {
        let mut case = Case::new();
        case.agent_of_client().shortest_answer_ns = Some(20 * MILLISECOND);
        case.is_possible();
        case.agent_of_client().shortest_answer_ns = Some(19 * MILLISECOND);
        case.is(
            Outcome::Failed,
            "the sender's program had an answer after 19 ms, and the path takes at least 20 ms there and back",
        );
    }

    #[test]
    fn a_sender_that_is_done_before_its_receiver_is_found() {
        let mut case = Case::new();
        case.server.ended_monotonic_ns = 230 * MILLISECOND;
        case.server.agent_times.as_mut().unwrap().ended_ns = 230 * MILLISECOND;
        case.is(
            Outcome::Failed,
            "the sender's program says that everything was acknowledged 40 ms before that can have been: the receiver's program stated when it had everything, and the path takes at least 10 ms back",
        );
        let apart = Reported {
            shares_clock: false,
            ..case.reported()
        };
        assert_eq!(apart.impossible(), None);
    }

    #[test]
    fn a_receiver_that_dates_its_end_back_is_found() {
        let mut case = Case::new();
        case.server.agent_times.as_mut().unwrap().ended_ns = 220 * MILLISECOND;
        case.is(
            Outcome::Failed,
            "the receiver's program said `done` 30 ms after the moment for which it counted its bytes",
        );
    }

    /// A process waits for a processor on a busy machine.
    #[test]
    fn a_small_difference_is_a_warning_and_a_smaller_one_is_none() {
        let mut case = Case::new();
        case.study.guest.clock = Clock::Real;
        case.agent_of_client().ended_ns = 202 * MILLISECOND;
        case.is_possible();
        case.agent_of_client().ended_ns = 204 * MILLISECOND;
        assert_eq!(case.reported().impossible(), None);
        assert_eq!(case.reported().warning().unwrap().code, "external_clock");
    }
}
