//! Limits that a path sets to a published figure, computed from its packets.

use regatta_model::{
    BitRate, Condition, Direction, Link, OptionValue, Published, Study, Transport, Workload,
    WorkloadKind, metric::id,
};

#[cfg(test)]
mod tests;

/// Range of a figure that a path permits, in the unit of the figure's metric.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathLimits {
    /// Smallest value, if there is a limit.
    pub at_least: Option<f64>,
    /// Largest value, if there is a limit.
    pub at_most: Option<f64>,
}

impl PathLimits {
    /// Whether the path permits `value`; `None` where it sets no limit.
    pub fn permits(self, value: f64) -> Option<bool> {
        (self.at_least.is_some() || self.at_most.is_some()).then(|| {
            self.at_least.is_none_or(|limit| value >= limit)
                && self.at_most.is_none_or(|limit| value <= limit)
        })
    }
}

/// Computes the limits of a published figure; `under_first` is the published value under the study's first condition.
///
/// A goodput is limited by the bytes of its packets on the wire, by the share of messages that arrive whole where none is
/// sent again, and by the response to losses of congestion controls that take them for congestion; a peak of arrivals by the
/// link alone. A transfer time is that of the volume at the largest goodput. A delay has the propagation both ways, and its
/// mean what repairs of lost messages take at the earliest; where nothing is repaired, loss delays no message that arrives. A
/// path limits no other metric, such as CPU time.
pub fn of(study: &Study, figure: &Published, under_first: Option<f64>) -> PathLimits {
    let condition = study.conditions.iter();
    let mut condition = condition.filter(|it| it.name == figure.condition);
    let workload = study.workloads.iter();
    let mut workload = workload.filter(|it| figure.is_of_workload(&it.name));
    let (Some(condition), Some(workload)) = (condition.next(), workload.next()) else {
        return PathLimits::default();
    };
    let transport = study.transports.iter();
    let mut transport = transport.filter(|it| it.label == figure.transport);
    let over = Over {
        condition,
        workload,
        stack: Stack::of(transport.next(), &figure.transport),
    };
    match figure.metric.as_str() {
        id::GOODPUT_BPS | id::RECEIVER_GOODPUT_BPS | id::CAPTURED_GOODPUT_BPS => PathLimits {
            at_most: over.goodput(),
            at_least: None,
        },
        id::RECEIVED_PEAK_BPS => PathLimits {
            at_most: over.arrivals(),
            at_least: None,
        },
        id::TRANSFER_TIME_NS | id::CAPTURED_TRANSFER_TIME_NS => PathLimits {
            at_least: over.transfer_time_ns(),
            at_most: None,
        },
        id::ROUND_TRIP_DELAY_IDLE_MEAN_NS | id::ROUND_TRIP_DELAY_IDLE_P50_NS => PathLimits {
            at_least: over.propagation_ns(),
            at_most: None,
        },
        id::ROUND_TRIP_DELAY_MEAN_NS | id::ROUND_TRIP_DELAY_P50_NS => PathLimits {
            at_least: over.propagation_ns().map(|propagation| {
                let is_mean = figure.metric == id::ROUND_TRIP_DELAY_MEAN_NS;
                propagation
                    + if is_mean {
                        over.repairs_ns(propagation)
                    } else {
                        0.0
                    }
            }),
            at_most: under_first.filter(|_| over.only_adds_loss(study.conditions.first())),
        },
        _ => PathLimits::default(),
    }
}

/// Group of stacks that put data into packets and repair losses alike.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Family {
    /// TCP, of one connection or several.
    Tcp,
    /// SCTP of the kernel or of user space.
    Sctp,
    /// QUIC.
    Quic,
    /// Datagrams of UDP, one for each message.
    Datagrams,
}

/// Properties of a transport's stack that limits depend on.
#[derive(Debug, Clone, Copy)]
struct Stack {
    family: Family,
    /// Whether the stack sends lost messages again.
    repairs: bool,
    /// Whether one congestion control, which takes losses for congestion, limits the transport.
    yields_to_losses: bool,
}

impl Stack {
    /// Finds the stack of a transport of the study, or of one that it does not run, by its published name.
    fn of(transport: Option<&Transport>, name: &str) -> Option<Self> {
        let driver = transport
            .map_or(name, |it| it.driver.as_str())
            .to_lowercase();
        let option = |key: &str| match transport?.options.get(key)? {
            OptionValue::Text(text) => Some(text.as_str()),
            _ => None,
        };
        let family = match driver.as_str() {
            it if it.starts_with("udp") => Family::Datagrams,
            it if it.starts_with("sctp") => Family::Sctp,
            it if it.starts_with("quic") => Family::Quic,
            it if ["tcp", "wdt", "mptcp"]
                .iter()
                .any(|name| it.starts_with(name)) =>
            {
                Family::Tcp
            }
            _ => return None,
        };
        let several = ["wdt", "mptcp"].contains(&driver.as_str());
        let is_bbr = option("cc").is_some_and(|cc| cc.starts_with("bbr"));
        Some(Self {
            family,
            repairs: driver != "udp" && option("mode") != Some("datagram"),
            yields_to_losses: family != Family::Datagrams && !several && !is_bbr,
        })
    }
}

/// Headers of an IPv4 packet, in bytes.
const IP: u64 = 20;

/// Header of UDP, in bytes.
const UDP: u64 = 8;

/// Margin of a congestion control's response to losses above the published function.
const MARGIN: f64 = 2.0;

/// Shortest retransmission timer of SCTP (RTO.Min, RFC 9260, 16), in nanoseconds.
const SCTP_TIMER_NS: f64 = 1e9;

/// Shortest retransmission timer of TCP of Linux, in nanoseconds.
const TCP_TIMER_NS: f64 = 200e6;

/// Returns the rate at which a link carries `data` bytes in these IP packets, in bits per second; `None` for one without a
/// rate, or with bursts above it.
fn carried(link: &Link, packets: &[u64], data: u64) -> Option<f64> {
    let BitRate(rate) = link.rate?;
    let is_plain = link.trace.is_none() && link.burst_bytes.is_none();
    let sizes = packets.iter().map(|size| link.rate_of.bytes_of(*size));
    let wire: u64 = sizes.sum();
    is_plain.then_some(rate as f64 * data as f64 / wire as f64)
}

/// Figure's path, work and stack.
struct Over<'a> {
    condition: &'a Condition,
    workload: &'a Workload,
    stack: Option<Stack>,
}

impl Over<'_> {
    /// Returns the settings of the link that carries the data; `None` where both do.
    fn links(&self) -> Option<Vec<&Link>> {
        let direction = self.workload.kind.payload_direction();
        let of = |forward, reverse| match direction {
            Direction::Forward => Some(forward),
            Direction::Reverse => Some(reverse),
            Direction::Both => None,
        };
        let settings = self.condition.settings();
        settings.map(|it| of(it.forward, it.reverse)).collect()
    }

    /// Returns the size of a message and the volume of a transfer, in bytes.
    fn sizes(&self) -> Option<(u64, u64)> {
        match &self.workload.kind {
            WorkloadKind::Bulk { .. } | WorkloadKind::StopAndWait { .. } => {
                let (message, _) = self.workload.kind.largest_message();
                Some((message.0, self.workload.kind.bytes()))
            }
            _ => None,
        }
    }

    /// Returns the sizes of the IP packets that carry some data, and that data, in bytes: a datagram with its fragments,
    /// or one full packet of a stream.
    fn packets(&self, message: u64, family: Family) -> (Vec<u64>, u64) {
        let mtu = u64::from(self.condition.mtu_bytes);
        // Smallest headers: TCP with timestamps (RFC 7323); SCTP's with one DATA chunk; QUIC over UDP with one byte each
        // of flags and packet number, a STREAM frame of two, and the tag of 16.
        let header = match family {
            Family::Tcp => 52,
            Family::Sctp => IP + 12 + 16,
            Family::Quic => IP + UDP + 20,
            Family::Datagrams => {
                let fragment = (mtu.saturating_sub(IP) / 8 * 8).max(8);
                let datagram = message + UDP;
                let full = datagram / fragment;
                let mut packets = vec![fragment + IP; usize::try_from(full).unwrap_or(0)];
                packets.extend(Some(datagram % fragment + IP).filter(|it| *it > IP));
                return (packets, message);
            }
        };
        (vec![mtu], mtu.saturating_sub(header))
    }

    /// Returns the largest goodput, in bits per second.
    fn goodput(&self) -> Option<f64> {
        let (links, (message, _), stack) = (self.links()?, self.sizes()?, self.stack?);
        let (packets, data) = self.packets(message, stack.family);
        let of_link = |link: &&Link| {
            let arrive = match stack.repairs {
                true => 1.0,
                false => (1.0 - link.mean_loss().0).powf(packets.len() as f64),
            };
            Some(carried(link, &packets, data)? * arrive)
        };
        let of_links: Option<Vec<f64>> = links.iter().map(of_link).collect();
        let of_wire = of_links.map(|it| it.into_iter().fold(0.0, f64::max));
        let of_losses = stack
            .yields_to_losses
            .then(|| self.goodput_at_losses(links[0], data));
        let limits = [of_wire, of_losses.flatten()];
        limits.into_iter().flatten().reduce(f64::min)
    }

    /// Returns the largest rate of whole IP packets, in bits per second.
    fn arrivals(&self) -> Option<f64> {
        let mtu = u64::from(self.condition.mtu_bytes);
        let links = self.links()?;
        let rates: Option<Vec<f64>> = (links.iter())
            .map(|link| carried(link, &[mtu], mtu))
            .collect();
        rates?.into_iter().reduce(f64::max)
    }

    /// Returns the goodput of a congestion control that takes losses for congestion, with its margin; `None` without loss,
    /// and over a path that changes.
    ///
    /// The larger one of Reno's and CUBIC's. Sources: Mathis, Semke, Mahdavi and Ott (1997); RFC 9438, 5.1.
    fn goodput_at_losses(&self, link: &Link, data: u64) -> Option<f64> {
        let WorkloadKind::Bulk { options, .. } = &self.workload.kind else {
            return None;
        };
        let (loss, round_trip_s) = (link.mean_loss().0, self.propagation_ns()? / 1e9);
        let is_known = loss > 0.0 && self.condition.schedule.is_empty();
        is_known.then(|| {
            let reno = 1.22 / loss.sqrt();
            let cubic = 1.054 * (round_trip_s / loss).powf(0.75);
            let flows = f64::from(options.flows.max(1));
            MARGIN * flows * reno.max(cubic) * data as f64 * 8.0 / round_trip_s
        })
    }

    /// Returns the shortest transfer time.
    fn transfer_time_ns(&self) -> Option<f64> {
        let (_, size) = self.sizes()?;
        Some(size as f64 * 8.0 / self.goodput()? * 1e9)
    }

    /// Returns the shortest propagation delay of both directions together; `None` if there is none.
    fn propagation_ns(&self) -> Option<f64> {
        let settings = self.condition.settings();
        let delays = settings.map(|it| {
            let delays = [it.forward, it.reverse].map(Link::shortest_propagation);
            delays[0].as_nanos() as f64 + delays[1].as_nanos() as f64
        });
        delays.reduce(f64::min).filter(|it| *it > 0.0)
    }

    /// Returns the least that repairs of lost messages add to the mean delay of probe messages.
    ///
    /// A message is sent again when its sender learns of its loss: a round trip after a later message that is
    /// acknowledged instead of it (of SCTP three, RFC 9260, 7.2.4), or when its timer expires. The messages after it wait
    /// for it, and of several losses the longest wait counts. What a lost repair takes is not in it.
    fn repairs_ns(&self, round_trip_ns: f64) -> f64 {
        let probe = &self.workload.probe;
        let Some(stack) = self.stack.filter(|it| it.repairs && probe.under_load) else {
            return 0.0;
        };
        let interval = probe.interval.as_nanos() as f64;
        let repair = match stack.family {
            Family::Tcp => TCP_TIMER_NS.min(interval + round_trip_ns),
            Family::Sctp => SCTP_TIMER_NS.min(3.0 * interval + round_trip_ns),
            // Drivers of QUIC send probe messages in DATAGRAM frames, that of reliable UDP has a timer of its own.
            Family::Quic | Family::Datagrams => return 0.0,
        };
        if !self.condition.schedule.is_empty() {
            return 0.0;
        }
        let of_direction = |link: &Link| {
            let loss = link.mean_loss().0;
            // The n-th message before this one is the last one that was lost, and still holds it up.
            let waits = (0..10_000).map(|n| (n, repair - interval * f64::from(n)));
            let waits = waits.take_while(|(_, wait)| *wait > 0.0);
            let of_wait = |(n, wait)| loss * (1.0 - loss).powi(n) * wait;
            waits.map(of_wait).sum::<f64>()
        };
        self.condition.links().map(of_direction).sum()
    }

    /// Whether the path differs from `first` by random loss alone, of which nothing is sent again: the messages that arrive are
    /// delayed by nothing more.
    fn only_adds_loss(&self, first: Option<&Condition>) -> bool {
        let without = |condition: &Condition| {
            let mut condition = condition.clone();
            condition.name.clear();
            for link in [&mut condition.forward, &mut condition.reverse] {
                link.loss = regatta_model::Ratio(0.0);
            }
            condition
        };
        let is_lossy = self.condition.links().any(|link| link.loss.0 > 0.0);
        let is_loss_free = |first: &&Condition| first.links().all(|link| link.loss.0 <= 0.0);
        self.stack.is_some_and(|stack| !stack.repairs)
            && is_lossy
            && (first.filter(is_loss_free)).is_some_and(|it| without(it) == without(self.condition))
    }
}
