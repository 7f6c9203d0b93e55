//! Checks whether a transport supports a workload, before a trial starts.

use regatta_model::{
    Finish, Handshake, ProbePlacement, Script, Spread, Workload, WorkloadKind, reason,
};

use crate::{
    content::numbered::NUMBER_BYTES,
    descriptor::{Carries, DriverDescriptor},
    error::Unsupported,
    transfer,
};

/// Returns the capability that a driver must name for a handshake; none for a full one.
pub const fn capability(handshake: Handshake) -> Option<&'static str> {
    match handshake {
        Handshake::Full => None,
        Handshake::Resumed => Some("resumption"),
        Handshake::EarlyData => Some("0-rtt"),
        Handshake::Retry => Some("retry"),
    }
}

/// Checks a workload against a driver's descriptor. `carries` is the unit that the driver carries
/// with the options of the order.
///
/// # Errors
/// [`Unsupported`] with the reason and a hint.
pub fn check(
    driver: &DriverDescriptor,
    carries: Carries,
    workload: &WorkloadKind,
) -> Result<(), Unsupported> {
    let name = driver.name;
    let (lacks, hint) = match workload {
        _ if carries == Carries::Files => return over_files(name, workload),
        WorkloadKind::ShortConnections { .. } if carries == Carries::Messages => {
            (reason::nothing_to_set_up(name), reason::choose_streams())
        }
        WorkloadKind::MultiStream { .. } if carries == Carries::Messages => {
            (reason::no_streams_to_block(name), reason::choose_streams())
        }
        WorkloadKind::Script(script) if carries == Carries::Messages => {
            return script_over_messages(name, script);
        }
        WorkloadKind::ShortConnections { handshake, .. } => match capability(*handshake) {
            Some(needed) if !driver.capabilities.contains(&needed) => (
                match handshake {
                    Handshake::EarlyData => reason::no_early_data(name, needed),
                    Handshake::Retry => reason::no_retry(name, needed),
                    Handshake::Resumed | Handshake::Full => reason::no_resumption(name, needed),
                },
                reason::full_handshake(),
            ),
            _ => return Ok(()),
        },
        _ => {
            let streams = match workload {
                WorkloadKind::MultiStream {
                    streams,
                    spread: Spread::Streams,
                    ..
                } => *streams,
                WorkloadKind::Script(script) if script.spread == Spread::Streams => {
                    script.flow_count()
                }
                _ => 1,
            };
            if streams <= 1 || driver.multiplexes {
                return Ok(());
            }
            (
                reason::one_stream(name, streams.into()),
                reason::spread_connections(),
            )
        }
    };
    Err(Unsupported::new(lacks, hint))
}

/// Checks a script for a driver of messages: each of its flows is a flow of messages, and each message has a number.
pub(crate) fn script_over_messages(name: &str, script: &Script) -> Result<(), Unsupported> {
    let smallest = script.smallest_message();
    if script.spread == Spread::Streams && script.flow_count() > 1 {
        let hint = reason::spread_connections();
        return Err(Unsupported::new(reason::flows_without_streams(name), hint));
    }
    if smallest.0 < NUMBER_BYTES as u64 {
        let lacks = reason::no_room_for_number(smallest);
        let hint = reason::messages_of_at_least(NUMBER_BYTES as u64);
        return Err(Unsupported::new(lacks, hint));
    }
    Ok(())
}

/// Checks whether the probe under load can travel on what the workload asks for.
pub(crate) fn check_probe(
    driver: &DriverDescriptor,
    carries: Carries,
    workload: &Workload,
) -> Result<(), Unsupported> {
    let probe = &workload.probe;
    if !probe.under_load || probe.placement == ProbePlacement::Connection {
        return Ok(());
    }
    let name = driver.name;
    let lacks = match &workload.kind {
        _ if carries != Carries::Streams || !driver.multiplexes => {
            reason::no_stream_for_probe(name)
        }
        WorkloadKind::Bulk { options, .. } if options.finish == Finish::Abandon => {
            reason::abandoned_before_probe(&workload.name)
        }
        WorkloadKind::Script(_) => reason::probe_beside_script(),
        _ => return Ok(()),
    };
    Err(Unsupported::new(lacks, reason::probe_on_connection()))
}

/// Checks a workload for a system that moves whole files.
pub(crate) fn over_files(name: &str, workload: &WorkloadKind) -> Result<(), Unsupported> {
    match workload {
        WorkloadKind::Bulk {
            amount, options, ..
        } => transfer::check_options(*amount, options),
        other => Err(Unsupported::new(
            reason::only_files(name, other.name()),
            reason::choose_streams(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::{BulkOptions, Bytes, Pattern, script::Step};

    use super::*;

    fn driver(multiplexes: bool, capabilities: &'static [&'static str]) -> DriverDescriptor {
        DriverDescriptor {
            name: "raft",
            title: "Raft",
            summary: "floats",
            ip_protocol: None,
            carries: Carries::Streams,
            reliable: true,
            encrypted: false,
            multiplexes,
            congestion_control_choosable: false,
            capabilities,
            stack: "wood",
            stack_version: "1",
            options: &[],
            metrics: &[],
        }
    }

    fn short(handshake: Handshake) -> WorkloadKind {
        WorkloadKind::ShortConnections {
            connections: 1,
            handshake,
            request: Bytes(1),
            response: Bytes(1),
        }
    }

    fn many(streams: u32, spread: Spread) -> WorkloadKind {
        WorkloadKind::MultiStream {
            messages: 1,
            message: Bytes(1),
            messages_per_second: 1.0,
            streams,
            spread,
        }
    }

    #[test]
    fn handshake_requires_its_capability() {
        let plain = driver(false, &[]);
        let tickets = driver(false, &["resumption"]);
        let check = |driver, handshake| check(driver, Carries::Streams, &short(handshake));
        assert!(check(&plain, Handshake::Full).is_ok());
        for handshake in [Handshake::Resumed, Handshake::EarlyData, Handshake::Retry] {
            assert!(check(&plain, handshake).is_err(), "{handshake:?}");
        }
        assert!(check(&tickets, Handshake::Resumed).is_ok());
        let refused = check(&tickets, Handshake::EarlyData).expect_err("not named");
        assert!(refused.reason.contains("`0-rtt`"), "{refused}");
    }

    #[test]
    fn several_streams_require_multiplexing() {
        let one = driver(false, &[]);
        let check = |driver, kind| check(driver, Carries::Streams, &kind);
        assert!(check(&one, many(1, Spread::Streams)).is_ok());
        assert!(check(&one, many(8, Spread::Connections)).is_ok());
        assert!(check(&one, many(8, Spread::Streams)).is_err());
        assert!(check(&driver(true, &[]), many(8, Spread::Streams)).is_ok());
    }

    #[test]
    fn stream_probe_requires_multiplexing_and_an_applicable_workload() {
        let bulk = |options: BulkOptions| {
            let kind = WorkloadKind::Bulk {
                amount: Bytes(1).into(),
                message: Bytes(1),
                pattern: Pattern::Data,
                options,
            };
            let probe = regatta_model::Probe {
                placement: ProbePlacement::Stream,
                ..regatta_model::Probe::default()
            };
            let name = "bulk".to_owned();
            Workload {
                name,
                kind,
                probe,
                transports: Vec::new(),
                conditions: Vec::new(),
                competition: None,
            }
        };
        let (plain, many) = (bulk(BulkOptions::default()), driver(true, &[]));
        assert!(check_probe(&many, Carries::Streams, &plain).is_ok());
        assert!(check_probe(&many, Carries::Messages, &plain).is_err());
        let refused = check_probe(&driver(false, &[]), Carries::Streams, &plain);
        let refused = refused.expect_err("one stream").to_string();
        assert!(refused.contains("`raft` has no streams"), "{refused}");
        let flows = bulk(BulkOptions {
            flows: 2,
            ..BulkOptions::default()
        });
        assert!(check_probe(&many, Carries::Streams, &flows).is_ok());
        let abandoned = bulk(BulkOptions {
            finish: Finish::Abandon,
            ..BulkOptions::default()
        });
        assert!(check_probe(&many, Carries::Streams, &abandoned).is_err());
        let mut own = abandoned;
        own.probe.placement = ProbePlacement::Connection;
        assert!(check_probe(&many, Carries::Streams, &own).is_ok());
    }

    #[test]
    fn scripts_over_messages_need_numbers_and_no_streams() {
        let driver = driver(true, &[]);
        let check = |script| check(&driver, Carries::Messages, &WorkloadKind::Script(script));
        let page = Script::page_load();
        assert!(check(page.clone()).is_ok());
        let refused = check(Script {
            spread: Spread::Streams,
            ..page.clone()
        });
        let refused = refused.expect_err("six streams").to_string();
        assert!(refused.contains("`raft` carries messages"), "{refused}");
        let mut small = page;
        small.flows[0].steps.push(Step::exchange(3, 100));
        let refused = check(small).expect_err("no number").to_string();
        assert!(refused.contains("a message of 3 B"), "{refused}");
    }

    #[test]
    fn message_drivers_support_no_connection_workloads() {
        let driver = driver(true, &["resumption"]);
        for kind in [short(Handshake::Full), many(1, Spread::Connections)] {
            assert!(check(&driver, Carries::Messages, &kind).is_err());
        }
    }
}
