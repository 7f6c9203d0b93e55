//! The section of a workload in a study file.

use std::{ops::Range, time::Duration};

use super::{
    error::StudyError,
    parts::{time, visible},
    section::{File, Section},
};
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

/// Workload kinds, by their names in a file.
const KINDS: &[(&str, Kind)] = &[
    ("bulk", Kind::Bulk),
    ("stop-and-wait", Kind::StopAndWait),
    ("request-response", Kind::RequestResponse),
    ("short-connections", Kind::ShortConnections),
    ("multi-stream", Kind::MultiStream),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Bulk,
    StopAndWait,
    RequestResponse,
    ShortConnections,
    MultiStream,
}

pub(super) fn read_workload(
    file: &File<'_>,
    mut section: Section<'_>,
    deadline: Duration,
) -> Result<(Workload, Option<Range<usize>>), StudyError> {
    let name = section.text("name")?;
    let place = name.as_ref().map(|(_, span)| span.clone());
    let kind = section.choice_of("kind", KINDS)?;
    let kind = kind.map_or(Kind::Bulk, |(kind, _)| kind);
    let kind = match kind {
        Kind::Bulk => read_bulk(file, &mut section, deadline)?,
        Kind::StopAndWait => read_stop_and_wait(file, &mut section)?,
        Kind::RequestResponse => read_request_response(file, &mut section)?,
        Kind::ShortConnections => read_short_connections(file, &mut section)?,
        Kind::MultiStream => read_multi_stream(file, &mut section)?,
    };
    let name = match name {
        Some((name, span)) => {
            visible(file, "name", &name, span)?;
            name
        }
        None => kind.name().to_owned(),
    };
    let probe = read_probe(file, &mut section)?;
    section.end()?;
    Ok((Workload { name, kind, probe }, place))
}

fn read_bulk(
    file: &File<'_>,
    section: &mut Section<'_>,
    deadline: Duration,
) -> Result<WorkloadKind, StudyError> {
    section.not_both("size", "duration")?;
    let (size, message, pattern) = read_content(file, section)?;
    let mut options = BulkOptions::default();
    if let Some(direction) = section.choice("direction")? {
        options.direction = direction;
    }
    if let Some(flows) = section.number("flows", 1, MOST_AT_ONCE)? {
        options.flows = flows as u32;
    }
    if let Some(taken) = section.duration("duration", "10s")? {
        let place = taken.1.clone();
        let whole = time(file, Some(taken), Duration::ZERO)?;
        before_deadline(file, "duration", whole, place, deadline)?;
        options.duration = Some(whole);
    }
    if let Some(taken) = section.duration("warm_up", "1s")? {
        let place = taken.1.clone();
        options.warm_up = time(file, Some(taken), Duration::ZERO)?;
        if options
            .duration
            .is_some_and(|whole| options.warm_up >= whole)
        {
            return Err(file.error(
                place,
                "`warm_up` leaves nothing of `duration` to be measured",
                "write a shorter `warm_up`, or a longer `duration`",
            ));
        }
        before_deadline(file, "warm_up", options.warm_up, place, deadline)?;
    }
    if let Some(finish) = section.choice("finish")? {
        options.finish = finish;
    }
    if options.finish == Finish::Abandon && options.direction != Direction::Forward {
        return Err(file.error(
            section.span(),
            "only the connecting host can abandon what it sends",
            "leave out one of `finish` and `direction`",
        ));
    }
    if let Some(verify) = section.choice("verify")? {
        options.verify = verify;
    }
    Ok(WorkloadKind::Bulk {
        size,
        message,
        pattern,
        options,
    })
}

/// Refuses a part of a transfer that the deadline would always cut short.
fn before_deadline(
    file: &File<'_>,
    key: &str,
    part: Duration,
    place: Range<usize>,
    deadline: Duration,
) -> Result<(), StudyError> {
    if part < deadline {
        return Ok(());
    }
    Err(file.error(
        place,
        format!(
            "`{key}` is not shorter than the study's `deadline` of {}, which ends every transfer",
            format_duration(deadline)
        ),
        format!("write a shorter `{key}`, or a longer `deadline` at the top of the study"),
    ))
}

fn read_stop_and_wait(
    file: &File<'_>,
    section: &mut Section<'_>,
) -> Result<WorkloadKind, StudyError> {
    let (size, message, pattern) = read_content(file, section)?;
    let timeout = section.duration("timeout", "1s")?;
    Ok(WorkloadKind::StopAndWait {
        size,
        message,
        pattern,
        timeout: time(file, timeout, Duration::from_secs(1))?,
    })
}

/// Reads size, message size and pattern of a transfer.
fn read_content(
    file: &File<'_>,
    section: &mut Section<'_>,
) -> Result<(Bytes, Bytes, Pattern), StudyError> {
    let size = amount(
        file,
        section.parsed("size", "10MB")?,
        Bytes(10_000_000),
        Bytes(1 << 50),
    )?;
    let message = amount(
        file,
        section.parsed("message", "10kB")?,
        Bytes(10_000),
        LARGEST_MESSAGE,
    )?;
    let pattern = section.choice("pattern")?.unwrap_or(Pattern::Data);
    Ok((size, message, pattern))
}

/// Reads the sizes of a question and of its answer.
fn read_exchange(file: &File<'_>, section: &mut Section<'_>) -> Result<(Bytes, Bytes), StudyError> {
    let request = section.parsed("request", "100B")?;
    let response = section.parsed("response", "1kB")?;
    Ok((
        amount(file, request, Bytes(100), LARGEST_EXCHANGE)?,
        amount(file, response, Bytes(1000), LARGEST_EXCHANGE)?,
    ))
}

fn read_request_response(
    file: &File<'_>,
    section: &mut Section<'_>,
) -> Result<WorkloadKind, StudyError> {
    let (request, response) = read_exchange(file, section)?;
    let requests = section
        .number("requests", 1, MOST_EXCHANGES)?
        .unwrap_or(1000);
    let place = section.span();
    let rate = section.number("requests_per_second", 1, 10_000_000)?;
    let outstanding = section.number("outstanding", 1, MOST_AT_ONCE)?;
    let arrivals = match (rate, outstanding) {
        (Some(_), Some(_)) => {
            return Err(file.error(
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

fn read_short_connections(
    file: &File<'_>,
    section: &mut Section<'_>,
) -> Result<WorkloadKind, StudyError> {
    let (request, response) = read_exchange(file, section)?;
    let connections = section.number("connections", 1, 1_000_000)?.unwrap_or(20) as u32;
    let handshake = section.choice("handshake")?.unwrap_or_default();
    Ok(WorkloadKind::ShortConnections {
        connections,
        handshake,
        request,
        response,
    })
}

fn read_multi_stream(
    file: &File<'_>,
    section: &mut Section<'_>,
) -> Result<WorkloadKind, StudyError> {
    let message = section.parsed("message", "10kB")?;
    let message = amount(file, message, Bytes(10_000), LARGEST_EXCHANGE)?;
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

fn read_probe(file: &File<'_>, section: &mut Section<'_>) -> Result<Probe, StudyError> {
    let mut probe = Probe::default();
    if let Some(mut settings) = section.section("probe", "[workload.probe]")? {
        if let Some(idle) = settings.number("idle_messages", 0, 100_000)? {
            probe.idle_messages = idle as u32;
        }
        if let Some(under_load) = settings.flag("under_load")? {
            probe.under_load = under_load;
        }
        match settings.duration("interval", "20ms")? {
            Some((interval, span)) if interval < Duration::from_millis(1) => {
                return Err(file.error(
                    span,
                    "probe messages more often than every millisecond would be load themselves",
                    "write `interval = \"20ms\"`",
                ));
            }
            taken => probe.interval = time(file, taken, probe.interval)?,
        }
        probe.message = match settings.parsed::<Bytes>("message", "64B")? {
            Some((size, span)) if !(16..=1200).contains(&size.0) => {
                return Err(file.error(
                    span,
                    format!("a probe message cannot have {size}"),
                    "write a size from `16B` (its header) to `1200B` (one packet)",
                ));
            }
            taken => taken.map_or(probe.message, |(size, _)| size),
        };
        if let Some(placement) = settings.choice("placement")? {
            probe.placement = placement;
        }
        settings.end()?;
    }
    Ok(probe)
}

/// Returns a size that was read, or its default; refuses zero and sizes above `largest`.
fn amount(
    file: &File<'_>,
    taken: Option<(Bytes, Range<usize>)>,
    default: Bytes,
    largest: Bytes,
) -> Result<Bytes, StudyError> {
    match taken {
        None => Ok(default),
        Some((value, _)) if value.0 > 0 && value <= largest => Ok(value),
        Some((_, span)) => Err(file.error(
            span,
            format!("this size must be from 1 B to {largest}"),
            format!(
                "write a size from `1B` to `{}`",
                largest.to_string().replace(' ', "")
            ),
        )),
    }
}
