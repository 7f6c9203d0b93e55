//! Check of a path each end of which has a daemon of its own: the controller has the two make it
//! together.

use std::time::Duration;

use regatta_control::Host;
use regatta_model::{Condition, PathCheck};
use regatta_stats::clocks::{OffsetInterval, OffsetReading};

use super::{Bed, unexpected};
use crate::{
    clocks::monotonic_ns,
    error::{BedError, Reported},
    messages::{FromDaemon, Probe, ToDaemon},
    path_daemon::{
        check::{self, TrainResult},
        unix_ns,
    },
    test_bed::TestBed as _,
};

/// Longest time that one request of a path check may take.
const PART_WITHIN: Duration = Duration::from_secs(30);

/// Sum of both rates up to which both ends send their trains at the same time, in bits per second: a host with one
/// processor sends and receives both.
const MOST_AT_ONCE_BPS: u64 = 100_000_000;

/// Opens a socket on each host and connects them.
fn open(bed: &mut Bed) -> Result<(), BedError> {
    let open = Host::BOTH.map(|host| Probe::Open {
        ports: bed.ports(host),
    });
    let [a, b] = match probe(bed, open)? {
        [
            FromDaemon::Opened { port: a },
            FromDaemon::Opened { port: b },
        ] => [a, b],
        [other, _] => return Err(unexpected(&other)),
    };
    probe(
        bed,
        [Probe::Connect { port: b }, Probe::Connect { port: a }],
    )?;
    Ok(())
}

/// Reads the offset of host b's monotonic clock against host a's by exchanges over the path; `None` if none of them
/// is complete.
pub(crate) fn read_clocks(bed: &mut Bed) -> Result<Option<OffsetReading>, BedError> {
    open(bed)?;
    let began_ns = monotonic_ns();
    let exchanges = match probe(bed, [Probe::AskTime, Probe::TellTime])? {
        [FromDaemon::Times { exchanges }, FromDaemon::Probed] => exchanges,
        [other, _] => return Err(unexpected(&other)),
    };
    let span_ns = [began_ns, monotonic_ns()];
    probe(bed, [Probe::Close, Probe::Close])?;
    let intervals = exchanges
        .into_iter()
        .map(|[sent, there, received]| OffsetInterval::of_exchange([sent, there, there, received]));
    Ok(OffsetReading::of_exchanges(span_ns, intervals))
}

/// Measures the path under the condition that is set.
pub(crate) fn check(bed: &mut Bed, condition: &Condition) -> Result<PathCheck, BedError> {
    let measured = measure(bed, condition, check::ROUND_TRIPS)?;
    let mut check = check::judge(
        (condition, check::LossPlace::of(bed.form())),
        measured.checked_unix_ns,
        &measured.round_trips,
        &measured.trains,
    );
    check.spoiled = measured.spoiled.filter(|_| !check.within);
    Ok(check)
}

/// Measures a network as it is. The first check describes it; later ones are compared with the first.
pub(crate) fn check_real(bed: &mut Bed, condition: &Condition) -> Result<PathCheck, BedError> {
    let packets = check::real::packets(condition);
    let measured = measure(bed, &packets, check::NETWORK_ROUND_TRIPS)?;
    for (direction, train) in measured.trains.iter().enumerate() {
        if train.arrivals.is_empty() {
            return Err(nothing_arrives(bed, direction));
        }
    }
    let check = check::real::describe(
        (&packets, bed.first_check.as_ref()),
        measured.checked_unix_ns,
        &measured.round_trips,
        &measured.trains,
    );
    bed.first_check.get_or_insert_with(|| check.clone());
    Ok(check)
}

/// Makes the error of a direction in which no packet arrives.
fn nothing_arrives(bed: &Bed, direction: usize) -> BedError {
    let [from, to] = match direction {
        0 => [Host::Client, Host::Server],
        _ => [Host::Server, Host::Client],
    };
    let [sender, receiver] = [from, to].map(|host| bed.address(host));
    let [from, to] = [from, to].map(|host| bed.name(host));
    let reason =
        format!("no UDP packet from host `{from}` ({sender}) arrives at host `{to}` ({receiver})");
    BedError::Refused {
        what: "carry packets between its hosts",
        source: Reported::from(&*reason),
        hint: "open UDP and TCP between these addresses in the firewalls, or give the hosts other addresses in the \
               hosts file"
            .to_owned(),
    }
}

/// Packets of a check as they were found.
struct Measured {
    checked_unix_ns: i64,
    /// Delays of the round trips, in nanoseconds.
    round_trips: Vec<f64>,
    /// Trains of the forward and of the reverse direction.
    trains: [TrainResult; 2],
    /// Evidence that a machine disturbed the check.
    spoiled: Option<String>,
}

/// Has both daemons send and receive the packets of a check under `condition`, with at most so many round trips.
fn measure(bed: &mut Bed, condition: &Condition, most: u64) -> Result<Measured, BedError> {
    let checked_unix_ns = i64::try_from(unix_ns()).unwrap_or(i64::MAX);
    open(bed)?;
    let asked = || condition.clone();
    let round_trips = match probe(
        bed,
        [
            Probe::RoundTrips {
                condition: asked(),
                most,
            },
            Probe::Return {
                condition: asked(),
                most,
            },
        ],
    )? {
        [FromDaemon::RoundTrips { delays_ns }, FromDaemon::Probed] => delays_ns,
        [other, _] => return Err(unexpected(&other)),
    };
    let has_rates = condition.forward.rate.and(condition.reverse.rate).is_some();
    let trains = match has_rates && check::both_at_once(condition, MOST_AT_ONCE_BPS) {
        true => both_trains(bed, condition)?,
        false => [train(bed, condition, 0)?, train(bed, condition, 1)?],
    };
    let spoiled = match probe(bed, [Probe::Close, Probe::Close])? {
        [
            FromDaemon::Closed { spoiled: a },
            FromDaemon::Closed { spoiled: b },
        ] => {
            let named = |host, why: Option<String>| {
                why.map(|why| format!("host `{}`: {why}", bed.name(host)))
            };
            named(Host::Client, a).or_else(|| named(Host::Server, b))
        }
        [other, _] => return Err(unexpected(&other)),
    };
    Ok(Measured {
        checked_unix_ns,
        round_trips,
        trains,
        spoiled,
    })
}

/// Has both ends send their trains at the same time.
fn both_trains(bed: &mut Bed, condition: &Condition) -> Result<[TrainResult; 2], BedError> {
    let part = || Probe::SendAndReceive {
        condition: condition.clone(),
    };
    match probe(bed, [part(), part()])? {
        [
            FromDaemon::SentAndReceived {
                departures: forward,
                arrivals: of_reverse,
            },
            FromDaemon::SentAndReceived {
                departures: reverse,
                arrivals: of_forward,
            },
        ] => Ok([
            TrainResult {
                departures: forward,
                arrivals: of_forward,
            },
            TrainResult {
                departures: reverse,
                arrivals: of_reverse,
            },
        ]),
        [other, _] => Err(unexpected(&other)),
    }
}

/// Has the train of one direction sent, 0 forward.
fn train(bed: &mut Bed, condition: &Condition, direction: usize) -> Result<TrainResult, BedError> {
    let asked = || condition.clone();
    let mut parts = [
        Probe::Send {
            condition: asked(),
            direction,
        },
        Probe::Receive {
            condition: asked(),
            direction,
        },
    ];
    if direction == 1 {
        parts.reverse();
    }
    let mut answers = probe(bed, parts)?;
    if direction == 1 {
        answers.reverse();
    }
    match answers {
        [
            FromDaemon::Sent { departures },
            FromDaemon::Train { arrivals },
        ] => Ok(TrainResult {
            departures,
            arrivals,
        }),
        [other, _] => Err(unexpected(&other)),
    }
}

/// Sends a part of the check to each daemon, host a's first, and returns their answers.
fn probe(bed: &mut Bed, parts: [Probe; 2]) -> Result<[FromDaemon; 2], BedError> {
    let [a, b] = parts.map(|probe| ToDaemon::Probe { probe });
    let answers = bed.ask_each(&[&a, &b], "check its path", PART_WITHIN)?;
    answers.try_into().map_err(|answers| BedError::Protocol {
        line: format!("{answers:?}"),
    })
}
