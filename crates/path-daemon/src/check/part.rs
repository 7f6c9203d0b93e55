//! One end's part of a check that two daemons make together.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use regatta_control::Host;
use regatta_forwarder::{LinkCounters, clock};
use regatta_model::{Condition, Phrase};
use serde_json::Value;

use super::{
    GRACE, LossPosition, PauseWatch, base, both, make_round_trips,
    plan::{RoundTrips, SMALL_PACKET_BYTES, Train},
    receive_train, send_back, send_train,
    socket::{self, Prober},
};
use crate::{
    error::DaemonError,
    json,
    messages::{Probe, TrainResult},
    namespaces::Namespace,
};

/// Longest time by which the other end may begin later than this one, to which the request is sent
/// first.
const HEAD_START: Duration = Duration::from_millis(500);

/// Number of packets by which the ends exchange the time.
const CLOCK_PACKETS: usize = 8;

/// Time between two of these packets: they must not queue behind one another.
const CLOCK_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum wait for the first answer of an exchange of the time.
const LONGEST_EXCHANGE: Duration = Duration::from_millis(1500);

/// Maximum wait for each further answer.
const AFTER_LAST: Duration = Duration::from_millis(100);

/// State of one end that is kept between the requests of a check.
#[derive(Debug)]
pub(crate) struct Part {
    host: Host,
    /// Addresses of hosts a and b.
    addresses: [IpAddr; 2],
    prober: Option<Prober>,
    condition: Option<Box<Condition>>,
    pauses: Option<PauseWatch>,
}

impl Part {
    pub(crate) fn new(host: Host, addresses: [IpAddr; 2]) -> Self {
        Self {
            host,
            addresses,
            prober: None,
            condition: None,
            pauses: None,
        }
    }

    /// Ends this end's part in the check and returns the evidence, if there is some, that this
    /// machine disturbed the measurement.
    pub(crate) fn close(&mut self, links: &[LinkCounters; 2]) -> Option<Phrase> {
        self.prober = None;
        self.pauses.take().and_then(|pauses| pauses.finish(links))
    }

    /// Serves a request of the check and returns its result. The calling thread enters the host's namespace.
    pub(crate) fn serve(
        &mut self,
        probe: Probe,
        losses: LossPosition,
        namespace: &Namespace,
    ) -> Result<Value, DaemonError> {
        clock::wake_on_time();
        if let Probe::Open { ports, condition } = probe {
            let prober = Prober::open(namespace, self.addresses[self.host as usize], ports)?;
            let port = prober.port()?;
            self.prober = Some(prober);
            self.condition = condition;
            self.pauses = Some(PauseWatch::start()?);
            return Ok(json(port));
        }
        let wrong_time = || DaemonError::Order {
            line: format!("{probe:?}"),
        };
        let prober = self.prober.as_ref().ok_or_else(wrong_time)?;
        let condition = || self.condition.as_deref().ok_or_else(wrong_time);
        let plan = |most| condition().map(|condition| RoundTrips::new(condition).at_most(most));
        let train = |direction: usize| {
            let condition = condition()?;
            let link = [&condition.forward, &condition.reverse][direction.min(1)];
            Ok::<_, DaemonError>(Train::new(condition, link, losses))
        };
        let send = |direction: usize| send_train(train(direction)?, base(direction), prober);
        let receive = |direction: usize| {
            let train = train(direction)?;
            let sending = train.interval.saturating_mul(train.packets as u32);
            let until = patience(sending, train.longest);
            receive_train(train, base(direction), prober, None, || Some(until))
        };
        match probe {
            Probe::Open { .. } | Probe::Close => Ok(Value::Null),
            Probe::Connect { port } => {
                let other = self.addresses[self.host.other() as usize];
                prober.connect((other, port)).map(json)
            }
            Probe::RoundTrips { most } => make_round_trips(plan(most)?, prober, None).map(json),
            Probe::Return { most } => return_round_trips(plan(most)?, prober).map(json),
            Probe::MeasureClock => measure_clock(prober).map(json),
            Probe::AnswerClock => answer_clock(prober).map(json),
            Probe::Send { direction } => send(direction).map(json),
            Probe::Receive { direction } => receive(direction).map(json),
            Probe::SendAndReceive => {
                let [this, other] = [self.host, self.host.other()].map(|host| host as usize);
                let (arrivals, departures) = both(|| receive(other), || send(this))?;
                Ok(json(TrainResult {
                    departures,
                    arrivals,
                }))
            }
        }
    }
}

/// Sends back each packet of the round trips as it arrives, until the last can no longer come.
fn return_round_trips(plan: RoundTrips, prober: &Prober) -> Result<(), DaemonError> {
    let until = patience(plan.interval * plan.count as u32, plan.longest);
    let mut is_back = vec![false; plan.count as usize];
    let mut remaining = is_back.len();
    loop {
        remaining -= send_back(prober, &mut is_back)?;
        let rest = until.saturating_duration_since(Instant::now());
        if remaining == 0 || rest.is_zero() {
            return Ok(());
        }
        socket::wait(&[prober], Some(rest))?;
    }
}

/// Asks the other end for the time and returns the exchanges that are complete. An exchange that a packet's loss
/// or a longer delay than that of the others costs is left out.
fn measure_clock(prober: &Prober) -> Result<Vec<[i64; 3]>, DaemonError> {
    let mut sent = Vec::with_capacity(CLOCK_PACKETS);
    let mut exchanges = Vec::with_capacity(CLOCK_PACKETS);
    let mut until = Instant::now() + LONGEST_EXCHANGE;
    while exchanges.len() < CLOCK_PACKETS && Instant::now() < until {
        if sent.len() < CLOCK_PACKETS {
            sent.push(clock::monotonic_ns().cast_signed());
            prober.send(sent.len() as u64, SMALL_PACKET_BYTES)?;
        }
        let pause = match sent.len() {
            CLOCK_PACKETS => until.saturating_duration_since(Instant::now()),
            _ => CLOCK_INTERVAL,
        };
        socket::wait(&[prober], Some(pause))?;
        while let Some(arrival) = prober.receive()? {
            let received = clock::monotonic_ns().cast_signed();
            if let Some(sent) = sent.get((arrival.number as usize).wrapping_sub(1)) {
                exchanges.push([*sent, arrival.held_ns.cast_signed(), received]);
                until = Instant::now() + AFTER_LAST;
            }
        }
    }
    Ok(exchanges)
}

/// Sends back each packet of [`measure_clock`] with the time of this end's clock, until there is no more.
fn answer_clock(prober: &Prober) -> Result<(), DaemonError> {
    let mut remaining = CLOCK_PACKETS;
    let mut until = Instant::now() + HEAD_START + LONGEST_EXCHANGE;
    while remaining > 0 && Instant::now() < until {
        let rest = until.saturating_duration_since(Instant::now());
        socket::wait(&[prober], Some(rest))?;
        while let Some(arrival) = prober.receive()? {
            prober.send_back(arrival.number, clock::monotonic_ns(), SMALL_PACKET_BYTES)?;
            remaining = remaining.saturating_sub(1);
            until = Instant::now() + AFTER_LAST;
        }
    }
    Ok(())
}

/// Returns the time until which packets of the other end are waited for: no message marks the last one.
fn patience(sending: Duration, longest: Duration) -> Instant {
    Instant::now() + HEAD_START + sending + longest + GRACE
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        net::Ipv4Addr,
        sync::{OnceLock, mpsc},
        thread,
    };

    use regatta_model::Link;

    use super::*;

    #[test]
    fn the_end_of_the_sending_wakes_the_receiver_of_a_train() {
        let localhost = Ipv4Addr::LOCALHOST.into();
        let prober = Prober::bind(localhost, None).expect("a socket");
        let link = Link::default();
        let condition = Condition {
            name: String::new(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: 1500,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        };
        let train = Train::new(&condition, &condition.forward, LossPosition::AfterRate);
        let (sending, sends) = io::pipe().expect("a pipe");
        let ended = OnceLock::new();
        let (polling, polled) = mpsc::channel();
        thread::scope(|scope| {
            let (ended, prober, sending) = (&ended, &prober, &sending);
            let until = move || {
                let _ = polling.send(());
                ended.get().copied()
            };
            let receiver =
                scope.spawn(move || receive_train(train, 0, prober, Some(sending), until));
            polled.recv().expect("it looks");
            ended.set(Instant::now()).expect("once");
            drop(sends);
            let arrivals = receiver.join().expect("no panic").expect("no error");
            assert_eq!(arrivals, []);
        });
    }

    #[test]
    fn a_host_reports_that_its_machine_disturbed_the_check() {
        let addresses = crate::ADDRESSES.map(IpAddr::from);
        let mut part = Part::new(Host::Server, addresses);
        let late = LinkCounters {
            delivered: 1000,
            late_packets: 900,
            ..LinkCounters::default()
        };
        assert_eq!(part.close(&[late; 2]), None);
        part.pauses = Some(PauseWatch::start().expect("a thread"));
        assert!(part.close(&[late; 2]).is_some());
    }
}
