//! Check of a path each end of which has a daemon of its own: the controller has the two make it
//! together.

use std::{mem, time::Duration};

use regatta_control::Host;
use regatta_forwarder::clock::unix_ns;
use regatta_model::{Condition, PathCheck, Phrase, Text, reason};
use regatta_path_daemon::{
    check::{self, Measured},
    messages::{Probe, ToDaemon, TrainResult},
};
use regatta_stats::clocks::{OffsetInterval, OffsetReading};
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;

use super::Bed;
use crate::{clocks::monotonic_ns, error::BedError, test_bed::TestBed as _};

/// Longest time that one request of a path check may take.
const PART_TIMEOUT: Duration = Duration::from_secs(30);

/// Sum of both rates up to which both ends send their trains at the same time, in bits per second: a host with one
/// processor sends and receives both.
const MAX_AT_ONCE_BPS: u64 = 100_000_000;

/// Opens a socket on each host, for a check under a condition or for the time, and connects them.
fn open(bed: &mut Bed, condition: Option<&Condition>) -> Result<(), BedError> {
    let open = Host::BOTH.map(|host| Probe::Open {
        ports: bed.ports(host),
        condition: condition.cloned().map(Box::new),
    });
    let (a, b) = probe(bed, open)?;
    let connect = [b, a].map(|port| Probe::Connect { port });
    probe::<(), ()>(bed, connect).map(drop)
}

/// Reads the offset of host b's monotonic clock against host a's by exchanges over the path; `None` if none of them
/// is complete.
pub(crate) fn read_clocks(bed: &mut Bed) -> Result<Option<OffsetReading>, BedError> {
    open(bed, None)?;
    let began_ns = monotonic_ns();
    let (exchanges, ()) =
        probe::<Vec<[i64; 3]>, _>(bed, [Probe::MeasureClock, Probe::AnswerClock])?;
    let span_ns = [began_ns, monotonic_ns()];
    close(bed)?;
    let intervals = exchanges
        .into_iter()
        .map(|[sent, there, received]| OffsetInterval::of_exchange([sent, there, there, received]));
    Ok(OffsetReading::of_exchanges(span_ns, intervals))
}

/// Ends the check at both hosts, and returns their evidence that a machine disturbed it.
fn close(bed: &mut Bed) -> Result<(Option<Phrase>, Option<Phrase>), BedError> {
    probe(bed, [Probe::Close, Probe::Close])
}

/// Measures the path under the condition that is set.
pub(crate) fn check(bed: &mut Bed, condition: &Condition) -> Result<PathCheck, BedError> {
    let condition = condition.with_kernel_queues();
    let (measured, spoiled) = measure(bed, &condition, check::ROUND_TRIPS)?;
    let losses = check::LossPosition::of(bed.form());
    let mut check = check::judge(&condition, losses, &measured);
    check.spoiled = spoiled.filter(|_| !check.within).map(Text::from);
    Ok(check)
}

/// Measures a network as it is. The first check describes it; later ones are compared with the first.
pub(crate) fn check_real(bed: &mut Bed, condition: &Condition) -> Result<PathCheck, BedError> {
    let packets = check::real::packets(condition);
    let (measured, _) = measure(bed, &packets, check::NETWORK_ROUND_TRIPS)?;
    for (from, train) in Host::BOTH.into_iter().zip(&measured.trains) {
        if train.arrivals.is_empty() {
            return Err(nothing_arrives(bed, from));
        }
    }
    let check = check::real::describe(&packets, bed.first_check.as_ref(), &measured);
    bed.first_check.get_or_insert_with(|| check.clone());
    Ok(check)
}

/// Makes the error of a direction in which no packet arrives, given by the host that sends.
fn nothing_arrives(bed: &Bed, from: Host) -> BedError {
    let [sender, receiver] = [from, from.other()].map(|host| bed.address(host));
    let [from, to] = [from, from.other()].map(|host| bed.name(host));
    let reason =
        format!("no UDP packet from host `{from}` ({sender}) arrives at host `{to}` ({receiver})");
    let hint = "open UDP and TCP between these addresses in the firewalls, or give the hosts other addresses in the \
                hosts file";
    BedError::refused("carry packets between its hosts", &*reason, hint)
}

/// Has both daemons send and receive the packets of a check under `condition`, with `most` round trips at most.
/// Returns the evidence that a machine disturbed it, too.
fn measure(
    bed: &mut Bed,
    condition: &Condition,
    most: u64,
) -> Result<(Measured, Option<Phrase>), BedError> {
    let checked_unix_ns = unix_ns().cast_signed();
    open(bed, Some(condition))?;
    let (round_trips, ()) = probe(bed, [Probe::RoundTrips { most }, Probe::Return { most }])?;
    let has_rates = condition.forward.rate.and(condition.reverse.rate).is_some();
    let trains = match has_rates && check::both_at_once(condition, MAX_AT_ONCE_BPS) {
        true => both_trains(bed)?,
        false => [train(bed, 0)?, train(bed, 1)?],
    };
    let (a, b) = close(bed)?;
    let named = |host, why: Option<Phrase>| why.map(|why| reason::on_host(bed.name(host), why));
    let spoiled = named(Host::Client, a).or_else(|| named(Host::Server, b));
    let measured = Measured {
        checked_unix_ns,
        round_trips,
        trains,
    };
    Ok((measured, spoiled))
}

/// Has both ends send their trains at the same time.
fn both_trains(bed: &mut Bed) -> Result<[TrainResult; 2], BedError> {
    let parts = [Probe::SendAndReceive, Probe::SendAndReceive];
    let (mut a, mut b): (TrainResult, TrainResult) = probe(bed, parts)?;
    // Each end has sent its own train and received the other one.
    mem::swap(&mut a.arrivals, &mut b.arrivals);
    Ok([a, b])
}

/// Has the train of one direction sent, 0 forward.
fn train(bed: &mut Bed, direction: usize) -> Result<TrainResult, BedError> {
    let (send, receive) = (Probe::Send { direction }, Probe::Receive { direction });
    let (departures, arrivals) = if direction == 0 {
        probe(bed, [send, receive])?
    } else {
        let (arrivals, departures) = probe(bed, [receive, send])?;
        (departures, arrivals)
    };
    Ok(TrainResult {
        departures,
        arrivals,
    })
}

/// Sends a part of the check to each daemon, host a's first, and returns their results.
fn probe<A: DeserializeOwned, B: DeserializeOwned>(
    bed: &mut Bed,
    parts: [Probe; 2],
) -> Result<(A, B), BedError> {
    let [a, b] = parts.map(|probe| ToDaemon::Probe { probe });
    let results: Vec<Value> = bed.request_each(&[&a, &b], "check its path", PART_TIMEOUT)?;
    let results = Value::from(results);
    <(A, B)>::deserialize(&results).map_err(|_| BedError::Protocol {
        line: results.to_string(),
    })
}
