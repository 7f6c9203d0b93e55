//! The section of a workload in a study file.

use std::{ops::Range, time::Duration};

use super::{error::StudyError, section::Section};
use crate::{
    units::{Bytes, format_duration},
    workload::{
        Arrivals, BulkOptions, Direction, Finish, Pattern, Probe, Spread, Workload, WorkloadKind,
    },
};

/// Largest message: both ends hold a whole message in memory.
const LARGEST_MESSAGE: Bytes = Bytes(64 << 20);

/// Largest question and answer of the small exchanges.
const LARGEST_EXCHANGE: Bytes = Bytes(16 << 20);

/// Maximum number of concurrent connections, streams and requests: each costs memory at both ends.
const MOST_AT_ONCE: u64 = 1024;

/// Maximum number of requests, messages and connections of one trial: each leaves a value in
/// memory.
const MOST_EXCHANGES: u64 = 10_000_000;

/// Reader of the keys of a workload kind; the time is the study's deadline of a transfer.
type Read = fn(&mut Section<'_>, Duration) -> Result<WorkloadKind, StudyError>;

/// Workload kinds, by their names in a file.
const KINDS: &[(&str, Read)] = &[
    ("bulk", read_bulk),
    ("stop-and-wait", |section, _| read_stop_and_wait(section)),
    ("request-response", |section, _| {
        read_request_response(section)
    }),
    ("short-connections", |section, _| {
        read_short_connections(section)
    }),
    ("multi-stream", |section, _| read_multi_stream(section)),
];

pub(super) fn read_workload(
    mut section: Section<'_>,
    deadline: Duration,
) -> Result<(Workload, Option<Range<usize>>), StudyError> {
    let name = section.text("name")?;
    let place = name.as_ref().map(|(_, span)| span.clone());
    let kind = section.choice_of("kind", KINDS)?;
    let read = kind.map_or(read_bulk as Read, |(read, _)| read);
    let kind = read(&mut section, deadline)?;
    let name = match name {
        Some((name, span)) => {
            section.visible("name", &name, span)?;
            name
        }
        None => kind.name().to_owned(),
    };
    let probe = read_probe(&mut section)?;
    section.end()?;
    Ok((Workload { name, kind, probe }, place))
}

fn read_bulk(section: &mut Section<'_>, deadline: Duration) -> Result<WorkloadKind, StudyError> {
    section.not_both("size", "duration")?;
    let (size, message, pattern) = read_content(section)?;
    let direction = section.choice("direction")?.unwrap_or_default();
    let flows = section.number("flows", 1, MOST_AT_ONCE)?;
    let duration = section.duration("duration", "10s")?;
    if let Some((whole, place)) = &duration {
        section.time(duration.clone())?;
        before_deadline(section, "duration", *whole, place.clone(), deadline)?;
    }
    let duration = duration.map(|(whole, _)| whole);
    let warm_up = section.duration("warm_up", "1s")?;
    if let Some((part, place)) = &warm_up {
        section.time(warm_up.clone())?;
        if duration.is_some_and(|whole| *part >= whole) {
            return Err(section.error(
                place.clone(),
                "`warm_up` leaves nothing of `duration` to be measured",
                "write a shorter `warm_up`, or a longer `duration`",
            ));
        }
        before_deadline(section, "warm_up", *part, place.clone(), deadline)?;
    }
    let finish = section.choice("finish")?.unwrap_or_default();
    if finish == Finish::Abandon && direction != Direction::Forward {
        return Err(section.error(
            section.span(),
            "only the connecting host can abandon what it sends",
            "leave out one of `finish` and `direction`",
        ));
    }
    let options = BulkOptions {
        direction,
        flows: flows.unwrap_or(1) as u32,
        duration,
        warm_up: warm_up.map_or(Duration::ZERO, |(part, _)| part),
        finish,
        verify: section.choice("verify")?.unwrap_or_default(),
    };
    Ok(WorkloadKind::Bulk {
        size,
        message,
        pattern,
        options,
    })
}

/// Refuses a part of a transfer that the deadline would always cut short.
fn before_deadline(
    section: &Section<'_>,
    key: &str,
    part: Duration,
    place: Range<usize>,
    deadline: Duration,
) -> Result<(), StudyError> {
    if part < deadline {
        return Ok(());
    }
    Err(section.error(
        place,
        format!(
            "`{key}` is not shorter than the study's `deadline` of {}, which ends every transfer",
            format_duration(deadline)
        ),
        format!("write a shorter `{key}`, or a longer `deadline` at the top of the study"),
    ))
}

fn read_stop_and_wait(section: &mut Section<'_>) -> Result<WorkloadKind, StudyError> {
    let (size, message, pattern) = read_content(section)?;
    Ok(WorkloadKind::StopAndWait {
        size,
        message,
        pattern,
        timeout: section.time_or("timeout", "1s", Duration::from_secs(1))?,
    })
}

/// Reads size, message size and pattern of a transfer.
fn read_content(section: &mut Section<'_>) -> Result<(Bytes, Bytes, Pattern), StudyError> {
    let size = section.amount("size", "10MB", Bytes(10_000_000), Bytes(1 << 50))?;
    let message = section.amount("message", "10kB", Bytes(10_000), LARGEST_MESSAGE)?;
    let pattern = section.choice("pattern")?.unwrap_or(Pattern::Data);
    Ok((size, message, pattern))
}

/// Reads the sizes of a question and of its answer.
fn read_exchange(section: &mut Section<'_>) -> Result<(Bytes, Bytes), StudyError> {
    Ok((
        section.amount("request", "100B", Bytes(100), LARGEST_EXCHANGE)?,
        section.amount("response", "1kB", Bytes(1000), LARGEST_EXCHANGE)?,
    ))
}

fn read_request_response(section: &mut Section<'_>) -> Result<WorkloadKind, StudyError> {
    let (request, response) = read_exchange(section)?;
    let requests = section
        .number("requests", 1, MOST_EXCHANGES)?
        .unwrap_or(1000);
    let place = section.span();
    let rate = section.number("requests_per_second", 1, 10_000_000)?;
    let outstanding = section.number("outstanding", 1, MOST_AT_ONCE)?;
    let arrivals = match (rate, outstanding) {
        (Some(_), Some(_)) => {
            return Err(section.error(
                place,
                "requests leave either at a rate or when an answer has come, not both",
                "keep one of `requests_per_second` and `outstanding`",
            ));
        }
        (Some(rate), None) => Arrivals::Open {
            requests_per_second: rate as f64,
        },
        (None, outstanding) => Arrivals::Closed {
            outstanding: outstanding.unwrap_or(1) as u32,
        },
    };
    Ok(WorkloadKind::RequestResponse {
        requests,
        request,
        response,
        arrivals,
    })
}

fn read_short_connections(section: &mut Section<'_>) -> Result<WorkloadKind, StudyError> {
    let (request, response) = read_exchange(section)?;
    let connections = section.number("connections", 1, 1_000_000)?.unwrap_or(20) as u32;
    let handshake = section.choice("handshake")?.unwrap_or_default();
    Ok(WorkloadKind::ShortConnections {
        connections,
        handshake,
        request,
        response,
    })
}

fn read_multi_stream(section: &mut Section<'_>) -> Result<WorkloadKind, StudyError> {
    let message = section.amount("message", "10kB", Bytes(10_000), LARGEST_EXCHANGE)?;
    let messages = section
        .number("messages", 1, MOST_EXCHANGES)?
        .unwrap_or(500);
    let rate = section.number("messages_per_second", 1, 10_000_000)?;
    let streams = section.number("streams", 1, MOST_AT_ONCE)?.unwrap_or(8) as u32;
    let spread = section.choice("spread")?.unwrap_or(Spread::Streams);
    Ok(WorkloadKind::MultiStream {
        messages,
        message,
        messages_per_second: rate.unwrap_or(100) as f64,
        streams,
        spread,
    })
}

fn read_probe(section: &mut Section<'_>) -> Result<Probe, StudyError> {
    let mut probe = Probe::default();
    let Some(mut settings) = section.section("probe", "[workload.probe]")? else {
        return Ok(probe);
    };
    if let Some(idle) = settings.number("idle_messages", 0, 100_000)? {
        probe.idle_messages = idle as u32;
    }
    if let Some((under_load, _)) = settings.flag("under_load")? {
        probe.under_load = under_load;
    }
    probe.interval = match settings.duration("interval", "20ms")? {
        Some((interval, span)) if interval < Duration::from_millis(1) => {
            return Err(settings.error(
                span,
                "probe messages more often than every millisecond would be load themselves",
                "write `interval = \"20ms\"`",
            ));
        }
        taken => settings.time(taken)?.unwrap_or(probe.interval),
    };
    probe.message = match settings.parsed::<Bytes>("message", "64B")? {
        Some((size, span)) if !(16..=1200).contains(&size.0) => {
            return Err(settings.error(
                span,
                format!("a probe message cannot have {size}"),
                "write a size from `16B` (its header) to `1200B` (one packet)",
            ));
        }
        taken => taken.map_or(probe.message, |(size, _)| size),
    };
    probe.placement = settings.choice("placement")?.unwrap_or_default();
    settings.end()?;
    Ok(probe)
}
