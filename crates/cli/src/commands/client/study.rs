//! Study of a measurement against a server, from options that are named as those of iperf3.

use std::{net::IpAddr, time::Duration};

use regatta_agent::find_driver;
use regatta_model::{
    BitRate, Bytes, Condition, OptionValue, Transport,
    study::{StudyFile, is_host_name},
    units::format_duration,
};
use regatta_transport::Carries;
use toml::{Table, Value};

use crate::{
    args::{ClientArgs, exact},
    exit::{Result, refuse},
    output,
    study::{adhoc, registry},
};

/// Default duration of sending.
const TIME: Duration = Duration::from_secs(10);

/// Time after the sending within which everything has to arrive.
const ARRIVING: Duration = Duration::from_secs(60);

/// Longest time of a transfer of a size.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Size of a message over streams, as of iperf3.
const STREAM_MESSAGE: Bytes = Bytes(128 << 10);

/// Minimum size of a message over streams that a low rate chooses, in bytes.
const MIN_STREAM_MESSAGE: u64 = 500;

/// Default rate of UDP, that of iperf3.
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
pub fn study(args: &ClientArgs, server: &str, address: IpAddr) -> Result<(StudyFile, String)> {
    // The longer of the two is the one to shorten.
    let shorter = match args.omit.unwrap_or_default() > args.time.unwrap_or(TIME) {
        true => "`-O`, as in `-O 1`",
        false => "`-t`, as in `-t 10`",
    };
    refuse! {
        duration(args) >= Condition::LONGEST_TIME.saturating_sub(ARRIVING) =>
            "this sends for {}, and 30 days are the longest of a trial", format_duration(duration(args));
            "write a shorter time with {shorter}";
    }
    let transports = transports(args)?;
    registry::check_all(&transports)?;
    let deadline = match (args.bytes, args.blockcount) {
        (None, None) => adhoc::deadline_after(duration(args), ARRIVING),
        _ => LONGEST,
    };
    let samples = match args.interval.is_zero() {
        true => SAMPLES,
        false => SAMPLES.min(args.interval),
    };
    let connect_deadline = args.connect_timeout.map(Duration::from_millis);
    let against = match name_of(server) {
        "server" => "a server",
        name => name,
    };
    let title = format!("{} against {against}", adhoc::named(&transports));
    let mut root = adhoc::table([
        ("name", Some("client".into())),
        ("title", Some(title.into())),
        ("rounds", Some(i64::from(args.repeat).into())),
        ("hosts", Some(vec!["local", name_of(server)].into())),
        ("deadline", Some(exact::time(deadline).into())),
        ("sample_interval", Some(exact::time(samples).into())),
        (
            "connect_deadline",
            connect_deadline.map(|it| exact::time(it).into()),
        ),
    ]);
    let sends_messages = |transport: &&Transport| is_of_messages(&transport.driver);
    let messages = transports.iter().any(|it| sends_messages(&it));
    refuse! {
        args.skip_rx_copy && messages => "`--skip-rx-copy` is for streams: messages are told apart by their content";
            "leave it out";
    }
    let over_streams = transports.iter().find(|it| !sends_messages(it));
    let over_streams = over_streams.map(|it| it.label.clone());
    let sections = transports.into_iter().map(adhoc::section);
    root.insert("transport".into(), Value::Array(sections.collect()));
    let condition = adhoc::table([("name", Some("path as it is".into()))]);
    root.insert("condition".into(), adhoc::one(condition));
    let message = args.length.unwrap_or(match (messages, address) {
        (false, _) => stream_message(args.bitrate),
        (true, IpAddr::V4(_)) => DATAGRAM_V4,
        (true, IpAddr::V6(_)) => DATAGRAM_V6,
    });
    if let (true, Some(label), None) = (messages, over_streams, args.length) {
        output::err(&format!(
            "note: all transports have messages of {message}, of one packet; `{label}` alone has {}: `-l` sets \
             the size",
            stream_message(args.bitrate)
        ));
    }
    root.insert("workload".into(), adhoc::one(workload(args, message)));
    adhoc::parse(&root)
}

/// Duration of sending, with the time that the results leave out.
fn duration(args: &ClientArgs) -> Duration {
    let omit = args.omit.unwrap_or_default();
    args.time.unwrap_or(TIME).saturating_add(omit)
}

/// Size of a message over streams at a rate: that of iperf3, or less, so that a message takes a twentieth of a second at
/// most and the time of a transfer is kept.
fn stream_message(rate: Option<BitRate>) -> Bytes {
    match rate {
        None | Some(BitRate(0)) => STREAM_MESSAGE,
        Some(BitRate(bits_per_second)) => {
            Bytes((bits_per_second / 8 / 20).clamp(MIN_STREAM_MESSAGE, STREAM_MESSAGE.0))
        }
    }
}

/// Name of the server in the study, which cannot have all characters of an address.
pub fn name_of(server: &str) -> &str {
    match is_host_name(server) && server != regatta_model::study::LOCAL {
        true => server,
        false => "server",
    }
}

/// Whether messages of a driver are single datagrams or packets, whose length is limited.
fn is_of_messages(driver: &str) -> bool {
    driver == "udp-reliable"
        || find_driver(driver).is_some_and(|it| it.descriptor().carries == Carries::Messages)
}

fn workload(args: &ClientArgs, message: Bytes) -> Table {
    let count = args.blockcount;
    let from_count = count.map(|count| Bytes(count.saturating_mul(message.0)));
    let size = args.bytes.or(from_count);
    let omit = args.omit.unwrap_or_default();
    let duration = duration(args);
    let direction = match (args.reverse, args.bidir) {
        (true, _) => Some("reverse".into()),
        (_, true) => Some("both".into()),
        _ => None,
    };
    let flows = args.parallel;
    let message = message.min(size.unwrap_or(message));
    adhoc::table([
        ("name", Some("bulk".into())),
        ("kind", Some("bulk".into())),
        ("size", size.map(|size| exact::bytes(size).into())),
        ("message", Some(exact::bytes(message).into())),
        (
            "duration",
            size.is_none().then(|| exact::time(duration).into()),
        ),
        ("direction", direction),
        ("flows", (flows > 1).then(|| i64::from(flows).into())),
        (
            "warm_up",
            (!omit.is_zero()).then(|| exact::time(omit).into()),
        ),
        ("verify", args.skip_rx_copy.then(|| "none".into())),
    ])
}

/// Returns the transports with the options that flags of iperf3 set.
fn transports(args: &ClientArgs) -> Result<Vec<Transport>> {
    let names = match (args.udp, args.sctp, args.mptcp) {
        (true, ..) => vec!["udp".to_owned()],
        (_, true, _) => vec!["sctp".to_owned()],
        (.., true) => vec!["mptcp".to_owned()],
        _ => args.transports(),
    };
    names.iter().map(|name| transport(name, args)).collect()
}

fn transport(text: &str, args: &ClientArgs) -> Result<Transport> {
    let mut transport = adhoc::transport(text)?;
    let driver = &transport.driver;
    refuse! {
        regatta_agent::runs_a_program(driver) => "`{driver}` is a program of its own, and a server runs none";
            "measure it between two hosts: `regatta run --hosts A,B`, see docs/hosts.md";
    }
    let is_udp = driver == "udp";
    let rate = match args.bitrate {
        Some(BitRate(0)) => None,
        Some(rate) => Some(rate),
        None if is_udp && !transport.options.contains_key("rate") => Some(UDP_RATE),
        None => None,
    };
    let text = OptionValue::Text;
    let number = |value: u16| OptionValue::Number(value.into());
    let window = args.window.map(|size| text(exact::bytes(size)));
    let window_options: &[&str] = match has_option(&transport.driver, "socket_buffers") {
        true => &["socket_buffers"],
        false => &["receive_buffer", "send_buffer"],
    };
    let flag = |is_set: bool| is_set.then_some(OptionValue::Flag(true));
    let flags = [
        ("-b", "rate", rate.map(|rate| text(exact::bit_rate(rate)))),
        ("-C", "cc", args.congestion.clone().map(text)),
        ("-M", "mss", args.set_mss.map(number)),
        ("-N", "no_delay", flag(args.no_delay)),
        ("-Z", "zero_copy", flag(args.zero_copy)),
        ("--dscp", "dscp", args.dscp.map(u16::from).map(number)),
    ];
    let windows = window_options
        .iter()
        .map(|name| ("-w", *name, window.clone()));
    for (flag, name, value) in flags.into_iter().chain(windows) {
        let Some(value) = value else { continue };
        let driver = &transport.driver;
        refuse! {
            !has_option(driver, name) => "`{flag}` has no meaning with the transport `{driver}`";
                "leave it out; `regatta list transports` shows the options of `{driver}`";
        }
        transport.options.insert(name.to_owned(), value);
    }
    Ok(transport)
}

fn has_option(driver: &str, option: &str) -> bool {
    let options = find_driver(driver).map(|it| it.descriptor().options);
    options.is_some_and(|options| options.iter().any(|it| it.name == option))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn a_measurement_is_called_by_what_it_compares() {
        let title = |server: &str| {
            let line = ["regatta", "client", server, "--transport", "tcp,quic-quinn"];
            let Command::Client(args) = Args::try_parse_from(line).expect("options").command else {
                panic!("another command")
            };
            let address = IpAddr::from([127, 0, 0, 1]);
            study(&args, server, address)
                .expect("a study")
                .0
                .study
                .title
        };
        assert_eq!(title("lab"), "tcp, quic-quinn against lab");
        assert_eq!(title("::1"), "tcp, quic-quinn against a server");
    }
}
