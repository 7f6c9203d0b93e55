//! Study of a measurement against a server, from options that are named as those of iperf3.

use std::{net::IpAddr, time::Duration};

use regatta_model::{
    BitRate, Bytes, OptionValue, Transport,
    study::{StudyFile, is_host_name},
};
use toml::{Table, Value};

use crate::{adhoc, args::ClientArgs, exact, exit::Failure, output, registry};

/// Time to send for unless another is asked for.
const TIME: Duration = Duration::from_secs(10);

/// Time after the sending within which everything has to arrive.
const ARRIVING: Duration = Duration::from_secs(60);

/// Longest time of a transfer of a size.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Size of a message over streams, as of iperf3.
const STREAM_MESSAGE: Bytes = Bytes(128 << 10);

/// Rate of UDP unless another is asked for, as of iperf3.
const UDP_RATE: BitRate = BitRate(1_000_000);

/// Size of an MTU of Ethernet less the headers of TCP with time stamps, as iperf3 has for datagrams by default.
const DATAGRAM_V4: Bytes = Bytes(1448);
const DATAGRAM_V6: Bytes = Bytes(1428);

/// Interval of samples, unless lines are to come more often.
const SAMPLES: Duration = Duration::from_millis(100);

/// Returns the study, and its text; `server` is the name of the server, which has this address.
///
/// # Errors
/// Mistakes in the options.
pub fn study(
    args: &ClientArgs,
    server: &str,
    address: IpAddr,
) -> Result<(StudyFile, String), Failure> {
    let transports = transports(args)?;
    registry::check_all(&transports)?;
    let deadline = match (args.bytes, args.blockcount) {
        (None, None) => args.time.unwrap_or(TIME) + args.omit.unwrap_or_default() + ARRIVING,
        _ => LONGEST,
    };
    let samples = match args.interval.is_zero() {
        true => SAMPLES,
        false => SAMPLES.min(args.interval),
    };
    let mut root = Table::from_iter([
        ("name".to_owned(), Value::from("client")),
        ("title".into(), "Measurement against a server".into()),
        ("rounds".into(), i64::from(args.repeat).into()),
        ("hosts".into(), Value::from(vec!["local", name_of(server)])),
        ("deadline".into(), exact::time(deadline).into()),
        ("sample_interval".into(), exact::time(samples).into()),
    ]);
    if let Some(ms) = args.connect_timeout {
        let time = Duration::from_millis(ms);
        root.insert("connect_deadline".into(), exact::time(time).into());
    }
    let of_messages = |transport: &&Transport| is_of_messages(&transport.driver);
    let messages = transports.iter().any(|it| of_messages(&it));
    let over_streams = transports.iter().find(|it| !of_messages(it));
    let over_streams = over_streams.map(|it| it.label.clone());
    let sections = transports.into_iter().map(adhoc::section);
    root.insert("transport".into(), Value::Array(sections.collect()));
    let condition = Table::from_iter([("name".to_owned(), Value::from("path as it is"))]);
    root.insert("condition".into(), adhoc::one(condition));
    let message = args.length.unwrap_or(match (messages, address) {
        (false, _) => STREAM_MESSAGE,
        (true, IpAddr::V4(_)) => DATAGRAM_V4,
        (true, IpAddr::V6(_)) => DATAGRAM_V6,
    });
    if let (true, Some(label), None) = (messages, over_streams, args.length) {
        output::err(&format!(
            "note: all transports have messages of {message}, of one packet; `{label}` alone has {STREAM_MESSAGE}: `-l` sets \
             the size"
        ));
    }
    root.insert("workload".into(), adhoc::one(workload(args, message)));
    adhoc::parse(&root)
}

/// Name of the server in the study, which cannot have all characters of an address.
pub fn name_of(server: &str) -> &str {
    match is_host_name(server) && server != regatta_model::study::LOCAL {
        true => server,
        false => "server",
    }
}

/// Whether a message is one datagram, or one packet, of which there is a longest.
fn is_of_messages(driver: &str) -> bool {
    registry::drivers()
        .iter()
        .map(|it| it.descriptor())
        .any(|it| it.name == driver && it.carries == regatta_transport::Carries::Messages)
        || driver == "udp-reliable"
}

fn workload(args: &ClientArgs, message: Bytes) -> Table {
    let mut workload = Table::from_iter([
        ("name".to_owned(), Value::from("bulk")),
        ("kind".into(), "bulk".into()),
    ]);
    let mut put = |key: &str, value: Value| workload.insert(key.to_owned(), value);
    let size = (args.bytes).or(args
        .blockcount
        .map(|count| Bytes(count.saturating_mul(message.0))));
    match size {
        Some(size) => {
            put("size", exact::bytes(size).into());
            put("message", exact::bytes(message.min(size)).into());
        }
        None => {
            let time = args.time.unwrap_or(TIME) + args.omit.unwrap_or_default();
            put("duration", exact::time(time).into());
            put("message", exact::bytes(message).into());
        }
    }
    if args.reverse {
        put("direction", "reverse".into());
    } else if args.bidir {
        put("direction", "both".into());
    }
    if args.parallel > 1 {
        put("flows", i64::from(args.parallel).into());
    }
    if let Some(omit) = args.omit.filter(|omit| !omit.is_zero()) {
        put("warm_up", exact::time(omit).into());
    }
    workload
}

/// Returns the transports with the options that flags of iperf3 stand for.
fn transports(args: &ClientArgs) -> Result<Vec<Transport>, Failure> {
    let names = match (args.udp, args.sctp, args.mptcp) {
        (true, ..) => vec!["udp".to_owned()],
        (_, true, _) => vec!["sctp".to_owned()],
        (.., true) => vec!["mptcp".to_owned()],
        _ => args.transports(),
    };
    names.iter().map(|name| transport(name, args)).collect()
}

fn transport(text: &str, args: &ClientArgs) -> Result<Transport, Failure> {
    let mut transport = adhoc::transport(text)?;
    if regatta_agent::runs_a_program(&transport.driver) {
        return Err(Failure::input(
            format!(
                "`{}` is a program of its own, and a server runs none",
                transport.driver
            ),
            "measure it between two hosts: `regatta run --hosts A,B`, see docs/hosts.md",
        ));
    }
    let is_udp = transport.driver == "udp";
    let rate = match args.bitrate {
        Some(BitRate(0)) => None,
        Some(rate) => Some(rate),
        None if is_udp && !transport.options.contains_key("rate") => Some(UDP_RATE),
        None => None,
    };
    let text = |value: String| OptionValue::Text(value);
    let window = args.window.map(|size| text(exact::bytes(size)));
    let of_window: &[&str] = match has_option(&transport.driver, "socket_buffers") {
        true => &["socket_buffers"],
        false => &["receive_buffer", "send_buffer"],
    };
    let flags = [
        ("-b", "rate", rate.map(|rate| text(exact::bit_rate(rate)))),
        ("-C", "cc", args.congestion.clone().map(text)),
        (
            "-M",
            "mss",
            args.set_mss.map(|mss| OptionValue::Number(mss.into())),
        ),
        (
            "-N",
            "no_delay",
            args.no_delay.then_some(OptionValue::Flag(true)),
        ),
        (
            "--dscp",
            "dscp",
            args.dscp.map(|dscp| OptionValue::Number(dscp.into())),
        ),
    ];
    let windows = of_window.iter().map(|name| ("-w", *name, window.clone()));
    for (flag, name, value) in flags.into_iter().chain(windows) {
        let Some(value) = value else { continue };
        if !has_option(&transport.driver, name) {
            return Err(Failure::input(
                format!(
                    "`{flag}` has no meaning with the transport `{}`",
                    transport.driver
                ),
                format!(
                    "leave it out; `regatta list transports` shows the options of `{}`",
                    transport.driver
                ),
            ));
        }
        transport.options.insert(name.to_owned(), value);
    }
    Ok(transport)
}

fn has_option(driver: &str, option: &str) -> bool {
    registry::drivers()
        .iter()
        .map(|it| it.descriptor())
        .any(|it| it.name == driver && it.options.iter().any(|it| it.name == option))
}
