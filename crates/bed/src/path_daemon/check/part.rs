//! One end's part of a check that two daemons make together.

use std::{
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use regatta_control::Host;
use regatta_model::Condition;

use super::{
    GRACE, LossPlace, PauseWatch, base, joined,
    plan::{RoundTrips, SMALL_PACKET_BYTES, Train},
    send_train,
    socket::{self, Arrival, Prober},
};
use crate::{
    messages::{FromDaemon, LinkCounters, Probe},
    path_daemon::{
        clock::{self, unix_ns},
        error::DaemonError,
        namespaces::Namespace,
    },
};

/// Longest time by which the other end may begin later than this one, to which the request is sent
/// first.
const HEAD_START: Duration = Duration::from_millis(500);

/// Packets by which the ends exchange the time, and the time between two of them: few and far enough apart not to
/// wait for one another.
const CLOCK_PACKETS: usize = 8;
const CLOCK_INTERVAL: Duration = Duration::from_millis(1);

/// Longest time until the first answer of an exchange of the time, and after an answer until the next.
const LONGEST_EXCHANGE: Duration = Duration::from_millis(1500);
const AFTER_LAST: Duration = Duration::from_millis(100);

/// State of one end that is kept between the requests of a check.
#[derive(Debug)]
pub(crate) struct Part {
    host: Host,
    /// Addresses of hosts a and b.
    addresses: [IpAddr; 2],
    prober: Option<Prober>,
    pauses: Option<PauseWatch>,
}

impl Part {
    pub(crate) fn new(host: Host, addresses: [IpAddr; 2]) -> Self {
        Self {
            host,
            addresses,
            prober: None,
            pauses: None,
        }
    }

    /// Ends this end's part in the check and returns the evidence, if there is some, that this
    /// machine disturbed the measurement.
    pub(crate) fn close(&mut self, links: &[LinkCounters; 2]) -> FromDaemon {
        let evidence = self.pauses.take().and_then(|pauses| pauses.finish(links));
        self.prober = None;
        FromDaemon::Closed { spoiled: evidence }
    }

    /// Serves a request of the check. The calling thread enters the host's namespace.
    pub(crate) fn serve(
        &mut self,
        probe: Probe,
        losses: LossPlace,
        namespace: &Namespace,
    ) -> Result<FromDaemon, DaemonError> {
        clock::wake_on_time();
        if let Probe::Open { ports } = probe {
            let prober = Prober::open(namespace, self.addresses[self.host as usize], ports)?;
            let port = prober.port()?;
            self.prober = Some(prober);
            self.pauses = Some(PauseWatch::start()?);
            return Ok(FromDaemon::Opened { port });
        }
        let Some(prober) = &self.prober else {
            return Err(DaemonError::Order {
                line: format!("{probe:?}"),
            });
        };
        match probe {
            Probe::Open { .. } | Probe::Close => {}
            Probe::Connect { port } => {
                prober.connect((self.addresses[self.host.other() as usize], port))?;
            }
            Probe::RoundTrips { condition, most } => {
                let plan = RoundTrips::new(&condition).at_most(most);
                let delays_ns = make_round_trips(plan, prober)?;
                return Ok(FromDaemon::RoundTrips { delays_ns });
            }
            Probe::Return { condition, most } => {
                send_back(RoundTrips::new(&condition).at_most(most), prober)?;
            }
            Probe::AskTime => {
                let exchanges = ask_time(prober)?;
                return Ok(FromDaemon::Times { exchanges });
            }
            Probe::TellTime => tell_time(prober)?,
            Probe::Send {
                condition,
                direction,
            } => {
                let train = train(&condition, direction, losses);
                return Ok(FromDaemon::Sent {
                    departures: send_train(train, base(direction), prober)?,
                });
            }
            Probe::Receive {
                condition,
                direction,
            } => {
                let arrivals = receive(
                    train(&condition, direction, losses),
                    base(direction),
                    prober,
                )?;
                return Ok(FromDaemon::Train { arrivals });
            }
            Probe::SendAndReceive { condition } => {
                let (own, other) = match self.host {
                    Host::Client => (0, 1),
                    Host::Server => (1, 0),
                };
                let [sent, expected] =
                    [own, other].map(|direction| train(&condition, direction, losses));
                let (departures, arrivals) = thread::scope(|scope| {
                    let receiver = thread::Builder::new()
                        .spawn_scoped(scope, || receive(expected, base(other), prober))
                        .map_err(DaemonError::Thread)?;
                    let departures = send_train(sent, base(own), prober);
                    Ok::<_, DaemonError>((departures?, joined(receiver.join())?))
                })?;
                return Ok(FromDaemon::SentAndReceived {
                    departures,
                    arrivals,
                });
            }
        }
        Ok(FromDaemon::Probed)
    }
}

fn train(condition: &Condition, direction: usize, losses: LossPlace) -> Train {
    let link = match direction {
        0 => &condition.forward,
        _ => &condition.reverse,
    };
    Train::new(condition, link, losses)
}

/// Makes round trips and returns the delays of the packets that came back, in nanoseconds, without
/// the time that the far host held them and without transmission times.
fn make_round_trips(plan: RoundTrips, prober: &Prober) -> Result<Vec<f64>, DaemonError> {
    let longest = plan.longest + GRACE;
    let count = plan.count as usize;
    let mut departed = vec![0u64; count];
    let mut seen = vec![false; count];
    let mut delays = Vec::with_capacity(count);
    let mut next = 0;
    let mut last_sent = Instant::now();
    while delays.len() < count && (next < count || last_sent.elapsed() < longest) {
        // After a pause of the machine nothing is caught up: packets close together would wait for
        // one another.
        if next == 0 || (next < count && last_sent.elapsed() >= plan.interval) {
            departed[next] = unix_ns();
            prober.send(next as u64, SMALL_PACKET_BYTES)?;
            next += 1;
            last_sent = Instant::now();
        }
        while let Some(Arrival {
            number,
            held_ns,
            at_unix_ns,
        }) = prober.receive()?
        {
            let index = number as usize;
            if index < next && !std::mem::replace(&mut seen[index], true) {
                let took = at_unix_ns.saturating_sub(departed[index]);
                let path = took.saturating_sub(held_ns) as f64;
                delays.push(path - plan.transmission.as_nanos() as f64);
            }
        }
        let pause = if next < count { plan.interval } else { longest };
        let pause = pause.saturating_sub(last_sent.elapsed());
        if delays.len() < count && !pause.is_zero() {
            socket::wait(&[prober], pause)?;
        }
    }
    Ok(delays)
}

/// Sends back each packet of the round trips as it arrives, until the last can no longer come.
fn send_back(plan: RoundTrips, prober: &Prober) -> Result<(), DaemonError> {
    let patience = Patience::new(plan.interval * plan.count as u32, plan.longest);
    let mut back = 0;
    while back < plan.count && !patience.is_over() {
        while let Some(Arrival {
            number, at_unix_ns, ..
        }) = prober.receive()?
        {
            if number < plan.count {
                let held_ns = unix_ns().saturating_sub(at_unix_ns);
                prober.send_back(number, held_ns, SMALL_PACKET_BYTES)?;
                back += 1;
            }
        }
        socket::wait(&[prober], Duration::from_millis(5))?;
    }
    Ok(())
}

/// Asks the other end for the time and returns the exchanges that are complete. An exchange that a packet's loss
/// or a longer delay than that of the others costs is left out.
fn ask_time(prober: &Prober) -> Result<Vec<[i64; 3]>, DaemonError> {
    let mut sent = Vec::with_capacity(CLOCK_PACKETS);
    let mut exchanges = Vec::with_capacity(CLOCK_PACKETS);
    let mut until = Instant::now() + LONGEST_EXCHANGE;
    while exchanges.len() < CLOCK_PACKETS && Instant::now() < until {
        if sent.len() < CLOCK_PACKETS {
            sent.push(monotonic_ns());
            prober.send(sent.len() as u64, SMALL_PACKET_BYTES)?;
        }
        socket::wait(&[prober], CLOCK_INTERVAL)?;
        while let Some(Arrival {
            number, held_ns, ..
        }) = prober.receive()?
        {
            let received = monotonic_ns();
            if let Some(sent) = sent.get((number as usize).wrapping_sub(1)) {
                exchanges.push([*sent, held_ns.cast_signed(), received]);
                until = Instant::now() + AFTER_LAST;
            }
        }
    }
    Ok(exchanges)
}

/// Sends back each packet of [`ask_time`] with the time of this end's clock, until there is no more.
fn tell_time(prober: &Prober) -> Result<(), DaemonError> {
    let mut left = CLOCK_PACKETS;
    let mut until = Instant::now() + HEAD_START + LONGEST_EXCHANGE;
    while left > 0 && Instant::now() < until {
        socket::wait(&[prober], CLOCK_INTERVAL)?;
        while let Some(Arrival { number, .. }) = prober.receive()? {
            prober.send_back(number, clock::monotonic_ns(), SMALL_PACKET_BYTES)?;
            left = left.saturating_sub(1);
            until = Instant::now() + AFTER_LAST;
        }
    }
    Ok(())
}

/// Returns the time of this end's monotonic clock, in nanoseconds.
fn monotonic_ns() -> i64 {
    clock::monotonic_ns().cast_signed()
}

/// Collects the packets of a train that arrive: place in it, and time by this end's clock.
fn receive(train: Train, base: u64, prober: &Prober) -> Result<Vec<(u64, u64)>, DaemonError> {
    let mut seen = vec![false; train.packets as usize];
    let mut arrivals = Vec::with_capacity(seen.len());
    let patience = Patience::new(
        train.interval.saturating_mul(train.packets as u32),
        train.longest,
    );
    while arrivals.len() < seen.len() && !patience.is_over() {
        while let Some(Arrival {
            number, at_unix_ns, ..
        }) = prober.receive()?
        {
            let place = number.wrapping_sub(base);
            if let Some(seen) = seen.get_mut(place as usize)
                && !std::mem::replace(seen, true)
            {
                arrivals.push((place, at_unix_ns));
            }
        }
        socket::wait(&[prober], Duration::from_millis(5))?;
    }
    Ok(arrivals)
}

/// Time until which packets of the other end are waited for: no message says that the last has been
/// sent.
struct Patience(Instant);

impl Patience {
    fn new(sending: Duration, longest: Duration) -> Self {
        Self(Instant::now() + HEAD_START + sending + longest + GRACE)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_whose_machine_disturbed_the_check_says_so() {
        let addresses = crate::path_daemon::ADDRESSES.map(IpAddr::from);
        let mut part = Part::new(Host::Server, addresses);
        let late = LinkCounters {
            delivered: 1000,
            late_packets: 900,
            ..LinkCounters::default()
        };
        assert_eq!(part.close(&[late; 2]), FromDaemon::Closed { spoiled: None });
        part.pauses = Some(PauseWatch::start().expect("a thread"));
        let FromDaemon::Closed { spoiled: Some(why) } = part.close(&[late; 2]) else {
            panic!("no evidence");
        };
        assert!(!why.is_empty());
    }
}
