//! Check of a path each end of which has a daemon of its own: the controller has the two make it
//! together.

use std::time::Duration;

use regatta_model::{Condition, PathCheck};

use crate::{
    bed::{Bed, unexpected},
    error::BedError,
    messages::{FromDaemon, Probe, ToDaemon},
    path_daemon::{
        check::{self, TrainResult},
        unix_ns,
    },
};

/// Longest time that one request of a path check may take.
const PART_WITHIN: Duration = Duration::from_secs(30);

/// Measures the path under the condition that is set.
pub(crate) fn check(bed: &mut Bed, condition: &Condition) -> Result<PathCheck, BedError> {
    let checked_unix_ns = i64::try_from(unix_ns()).unwrap_or(i64::MAX);
    let [a, b] = match probe(bed, [Probe::Open, Probe::Open])? {
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
    let asked = || condition.clone();
    let round_trips = match probe(
        bed,
        [
            Probe::RoundTrips { condition: asked() },
            Probe::Return { condition: asked() },
        ],
    )? {
        [FromDaemon::RoundTrips { delays_ns }, FromDaemon::Probed] => delays_ns,
        [other, _] => return Err(unexpected(&other)),
    };
    let mut results = <[TrainResult; 2]>::default();
    for (direction, result) in results.iter_mut().enumerate() {
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
        *result = match answers {
            [
                FromDaemon::Sent { departures },
                FromDaemon::Train { arrivals },
            ] => TrainResult {
                departures,
                arrivals,
            },
            [other, _] => return Err(unexpected(&other)),
        };
    }
    let spoiled = match probe(bed, [Probe::Close, Probe::Close])? {
        [
            FromDaemon::Closed { spoiled: a },
            FromDaemon::Closed { spoiled: b },
        ] => a.or(b),
        [other, _] => return Err(unexpected(&other)),
    };
    let mut check = check::judge(
        (condition, check::LossPlace::of(bed.form())),
        checked_unix_ns,
        &round_trips,
        &results,
    );
    check.spoiled = spoiled.filter(|_| !check.within);
    Ok(check)
}

/// Sends a part of the check to each daemon, host a's first, and returns their answers.
fn probe(bed: &mut Bed, parts: [Probe; 2]) -> Result<[FromDaemon; 2], BedError> {
    let [a, b] = parts.map(|probe| ToDaemon::Probe { probe });
    let answers = bed.ask_each(&[&a, &b], "check its path", PART_WITHIN)?;
    answers.try_into().map_err(|answers| BedError::Protocol {
        line: format!("{answers:?}"),
    })
}
