//! Options of a study, socket options made from them, and sizes of buffers.

use std::{io, time::Duration};

use regatta_control::PathHints;
use regatta_model::{Bytes, Facts, StackFacts, Text, Tuning, fact, stack};
use regatta_transport::{
    WindowRange, WindowSizes, driver_options,
    options::{Choice, saturating_usize},
    socket_option::Plain as _,
};
use socket2::Socket;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::{
    socket,
    uapi::{
        self, AssocParams, AssocValue, Event, PeerAddrParams, PeerAddrThresholds, RtoInfo, SackInfo,
    },
};
use crate::session::{self, DeliveryOptions, RTO_INITIAL, RTO_MAX, RTO_MIN, whole_milliseconds};

/// Maximum number of streams each way, so that none has the number 65535, which RFC 9260 reserves.
pub(crate) const MAX_STREAMS: u16 = 65_534;

/// Maximum delay of an acknowledgement (RFC 9260 §6.2).
pub(crate) const LONGEST_SACK_DELAY: Duration = Duration::from_millis(500);

driver_options! {
    /// Options of `sctp`.
    #[derive(Debug, Clone)]
    pub(crate) struct Options {
        ..DeliveryOptions::{ordered};
        streams: u16 = session::streams_option(MAX_STREAMS);
        scheduler: Scheduler = "rr",
            "scheduler of streams: `rr` sends messages of the streams in turn, `fcfs` in the order of writing, the \
             kernel's own default";
        no_delay: bool = true,
            "send small messages at once (SCTP_NODELAY); if `false`, they wait for more data or for an acknowledgement";
        rto_initial: Option<Duration> = RTO_INITIAL;
        rto_min: Option<Duration> = RTO_MIN;
        rto_max: Option<Duration> = RTO_MAX;
        sack_delay: Option<Duration>,
            "longest delay of an acknowledgement (SCTP_DELAYED_SACK), at most 500 ms; the kernel's if not set";
        sack_every: Option<u32> [1..=65_535],
            "number of packets after which an acknowledgement is sent (SCTP_DELAYED_SACK); the kernel's if not set";
        heartbeat: bool = true, "probe idle paths with heartbeats";
        hb_interval: Option<Duration>,
            "interval of the heartbeats, in addition to a path's time-out (RFC 9260, HB.interval); the kernel's if not \
             set";
        path_max_retrans: Option<u16> [1..=65_535],
            "consecutive time-outs after which a path is inactive (RFC 9260, Path.Max.Retrans); the kernel's if not \
             set";
        pf_retrans: Option<u16>,
            "consecutive time-outs after which a path is potentially failed, so that new data takes another path (RFC \
             7829, PFMR); a value of `path_max_retrans` or more switches that off; the kernel's if not set";
        association_max_retrans: Option<u16> [1..=65_535],
            "consecutive time-outs after which the association is given up (RFC 9260, Association.Max.Retrans); the \
             kernel's if not set";
        receive_window: Option<Bytes>, "receive window, and size of the send buffer; from the path if not set";
        multihoming: bool = false, "use every IPv4 address of the path's interface: one path each (RFC 9260 §6.4)";
        primary_down_after: Option<Duration>,
            "time after the beginning of the transfer at which the primary path begins to lose every packet; needs \
             `multihoming`";
    }
}

/// Scheduler of an association's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
pub(crate) enum Scheduler {
    /// The streams in turn.
    #[strum(serialize = "rr")]
    RoundRobin,
    /// The order of writing.
    #[strum(serialize = "fcfs")]
    FirstCome,
}

impl Choice for Scheduler {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

impl Scheduler {
    /// Returns the kernel's number of the scheduler.
    const fn number(self) -> u32 {
        match self {
            Self::RoundRobin => uapi::SCHEDULER_ROUND_ROBIN,
            Self::FirstCome => uapi::SCHEDULER_FCFS,
        }
    }
}

/// Longest user message of a flow of messages, in bytes.
pub(crate) const LONGEST_MESSAGE_BYTES: usize = 256 << 10;

/// Largest window, in bytes.
const MAX_WINDOW_BYTES: usize = 512 << 20;

/// Windows, in bytes. Larger ones than the path's cost the kernel's SCTP dearly, as it recovers
/// slowly when slow start overflows the queue.
///
/// A window below a user message stands still until a timer has run out, for each of them: it holds four of the workload's
/// where the path has a rate, and four of the longest where it has none.
fn windows(message: usize) -> WindowRange {
    WindowRange {
        with_rate: 4 * message as u64..=MAX_WINDOW_BYTES as u64,
        without_rate: 4 * LONGEST_MESSAGE_BYTES as u64..=8 << 20,
    }
}

fn milliseconds(time: Option<Duration>) -> Option<u32> {
    let time = whole_milliseconds(time?).as_millis();
    Some(u32::try_from(time).unwrap_or(u32::MAX))
}

impl Options {
    /// Returns the configured window, in bytes.
    pub(crate) fn window_bytes(&self) -> Option<usize> {
        Some(saturating_usize(self.receive_window?).min(MAX_WINDOW_BYTES))
    }
}

/// Combines the retransmission time-outs of the options with the kernel's own; the kernel's
/// give way where they contradict.
fn time_outs(options: &Options, kernel: RtoInfo) -> RtoInfo {
    let [least, most, initial] =
        [options.rto_min, options.rto_max, options.rto_initial].map(milliseconds);
    let max = most.unwrap_or(kernel.max.max(least.unwrap_or(0)).max(initial.unwrap_or(0)));
    let min = least.unwrap_or(kernel.min.min(max).min(initial.unwrap_or(u32::MAX)));
    RtoInfo {
        association: 0,
        min,
        max,
        initial: initial.unwrap_or(kernel.initial).clamp(min, max.max(min)),
    }
}

/// Sets all options at a socket that is not connected yet.
pub(crate) fn apply(options: &Options, socket: &Socket) -> io::Result<()> {
    let streams = options.streams;
    let streams = libc::sctp_initmsg {
        sinit_num_ostreams: streams,
        sinit_max_instreams: streams,
        sinit_max_attempts: 0,
        sinit_max_init_timeo: 0,
    };
    socket::set(socket, libc::SCTP_INITMSG, &streams)?;
    let on = |on: bool| libc::c_int::from(on);
    socket::set(socket, libc::SCTP_NODELAY, &on(options.no_delay))?;
    socket::set(socket, libc::SCTP_RECVRCVINFO, &on(true))?;
    socket::set(socket, libc::SCTP_RECVNXTINFO, &on(true))?;
    // An association that breaks makes its socket neither readable nor writable; the notification
    // of it does.
    let event = Event {
        association: 0,
        kind: uapi::ASSOC_CHANGE,
        on: 1,
    };
    socket::set(socket, uapi::EVENT, &event)?;
    let scheduler = AssocValue::of_all(options.scheduler.number());
    socket::set(socket, uapi::STREAM_SCHEDULER, &scheduler)?;
    apply_times(options, socket)?;
    apply_paths(options, socket)
}

fn apply_times(options: &Options, socket: &Socket) -> io::Result<()> {
    let times = [options.rto_initial, options.rto_min, options.rto_max];
    if times.iter().any(Option::is_some) {
        let kernel = socket::get(socket, libc::SCTP_RTOINFO)?;
        socket::set(socket, libc::SCTP_RTOINFO, &time_outs(options, kernel))?;
    }
    if let Some(max_retransmissions) = options.association_max_retrans {
        let parameters = AssocParams {
            max_retransmissions,
            ..AssocParams::default()
        };
        socket::set(socket, libc::SCTP_ASSOCINFO, &parameters)?;
    }
    let delay_ms = milliseconds(options.sack_delay);
    let every = options.sack_every;
    if delay_ms.is_some() || every.is_some() {
        let kernel: SackInfo = socket::get(socket, libc::SCTP_DELAYED_SACK)?;
        let wanted = SackInfo {
            association: 0,
            delay_ms: delay_ms.unwrap_or(kernel.delay_ms),
            every: every.unwrap_or(kernel.every),
        };
        socket::set(socket, libc::SCTP_DELAYED_SACK, &wanted)?;
    }
    Ok(())
}

fn apply_paths(options: &Options, socket: &Socket) -> io::Result<()> {
    let (heartbeat, interval) = (options.heartbeat, milliseconds(options.hb_interval));
    let most = options.path_max_retrans;
    if !heartbeat || interval.is_some() || most.is_some() {
        let parameters = PeerAddrParams {
            heartbeat_interval_ms: interval.unwrap_or(0),
            max_retransmissions: most.unwrap_or(0),
            flags: match (heartbeat, interval) {
                (false, _) => uapi::SPP_HB_DISABLE,
                (true, Some(_)) => uapi::SPP_HB_ENABLE,
                (true, None) => 0,
            },
            ..PeerAddrParams::zeroed()
        };
        socket::set(socket, libc::SCTP_PEER_ADDR_PARAMS, &parameters)?;
    }
    if let Some(potentially_failed) = options.pf_retrans {
        let mut thresholds: PeerAddrThresholds = socket::get(socket, libc::SCTP_PEER_ADDR_THLDS)?;
        thresholds.potentially_failed = potentially_failed;
        socket::set(socket, libc::SCTP_PEER_ADDR_THLDS, &thresholds)?;
    }
    if options.multihoming {
        // A kernel before 5.5 does not have it, and reports the state of a path anyhow.
        let exposed = AssocValue::of_all(uapi::PF_EXPOSED);
        let _ = socket::set(socket, uapi::EXPOSE_PF_STATE, &exposed);
    }
    Ok(())
}

/// Returns the facts about the options as the kernel reports them; their names end in `.` and
/// this end's side.
pub(crate) fn facts(options: &Options, socket: &Socket, side: &str) -> Facts {
    let mut facts = Facts::default();
    let mut fact = |name: &str, value: String| {
        facts.insert(format!("sctp.{name}.{side}"), value);
    };
    if let Ok(times) = socket::get::<RtoInfo>(socket, libc::SCTP_RTOINFO) {
        fact("rto_initial", format!("{} ms", times.initial));
        fact("rto_min", format!("{} ms", times.min));
        fact("rto_max", format!("{} ms", times.max));
    }
    if let Ok(parameters) = socket::get::<AssocParams>(socket, libc::SCTP_ASSOCINFO) {
        let most = parameters.max_retransmissions;
        fact("association_max_retrans", most.to_string());
    }
    let sack = socket::get::<SackInfo>(socket, libc::SCTP_DELAYED_SACK).ok();
    if let Some(sack) = &sack {
        let value = format!("after {} ms or {} packets", sack.delay_ms, sack.every);
        fact("acknowledgement_delay", value);
    }
    if let Ok(paths) = socket::get::<PeerAddrParams>(socket, libc::SCTP_PEER_ADDR_PARAMS) {
        let (interval, most) = (paths.heartbeat_interval_ms, paths.max_retransmissions);
        let heartbeat = match paths.flags & uapi::SPP_HB_DISABLE {
            0 => format!("{interval} ms"),
            _ => "off".to_owned(),
        };
        fact("heartbeat_interval", heartbeat);
        fact("path_max_retrans", most.to_string());
    }
    if let Ok(found) = socket::get::<PeerAddrThresholds>(socket, libc::SCTP_PEER_ADDR_THLDS) {
        fact("pf_retrans", found.potentially_failed.to_string());
    }
    fact("no_delay", options.no_delay.to_string());
    fact("scheduler", <&str>::from(options.scheduler).to_owned());
    let first = || Text::from(fact::not_known(fact::no_association_yet().into()));
    let milliseconds = |ms: u32| Duration::from_millis(ms.into());
    let stated = StackFacts {
        // Of the first path, by what is known of the association.
        initial_window: first(),
        packet_size: first(),
        slow_start_exit: "loss".into(),
        pacing: "none".into(),
        first_flight: fact::not_applicable(fact::init_carries_no_data()).into(),
        cipher: "none".into(),
        crypto: "none".into(),
        key_exchange: stack::no_tls(),
        certificate: stack::no_tls(),
        threads: stack::KERNEL_THREAD.into(),
        offloads: stack::OF_INTERFACE.into(),
        acknowledgements: match sack.map(|sack| (sack.every, sack.delay_ms)) {
            Some((0, _) | (_, 0) | (1, _)) => "each packet".into(),
            Some((2, delay)) => fact::every_second_packet(milliseconds(delay)).into(),
            Some((every, delay)) => fact::every_packets(every.into(), milliseconds(delay)).into(),
            None => fact::not_known(fact::no_delayed_sack().into()).into(),
        },
        // The kernel announces half of the receive buffer.
        flow_control: socket.recv_buffer_size().map_or_else(
            |_| fact::not_known(fact::no_receive_buffer().into()).into(),
            |size| fact::association_window(size as u64 / 2).into(),
        ),
    };
    facts.extend(stated.of_end(side));
    facts
}

/// Sizes for one end of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Requested size of each buffer of the socket, in bytes. The kernel doubles it, and announces
    /// half of the receive buffer as window, which is this value.
    pub window_bytes: usize,
    /// Size that is requested: `window_bytes`, or `None` under a kernel's defaults, unless it is an option's.
    pub requested_bytes: Option<usize>,
    /// Size that must be granted, in bytes: the path's bandwidth-delay product; zero without a rate.
    pub needed_bytes: u64,
    /// Longest user message of the workload, in bytes.
    pub message_bytes: usize,
}

impl Sizes {
    /// Returns the sizes for a path and messages of this size.
    pub(crate) fn of(path: &PathHints, options: &Options, message: Bytes) -> Self {
        let configured = options.window_bytes().map(|bytes| bytes as u64);
        let message_bytes = message.0.min(LONGEST_MESSAGE_BYTES as u64) as usize;
        let windows = WindowSizes::of(path, configured, &windows(message_bytes));
        let window_bytes = usize::try_from(windows.stream_bytes).unwrap_or(usize::MAX);
        let is_requested = path.tuning == Tuning::Bench || configured.is_some();
        Self {
            window_bytes,
            requested_bytes: is_requested.then_some(window_bytes),
            needed_bytes: path.bandwidth_delay_product().unwrap_or(0),
            message_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::OptionValue;

    use super::*;

    const KERNEL: RtoInfo = RtoInfo {
        association: 0,
        initial: 3000,
        max: 60_000,
        min: 1000,
    };

    fn options(set: &[(&str, &str)]) -> Options {
        let text = |value: &&str| OptionValue::Text((*value).to_owned());
        let set = set.iter();
        let set = set.map(|(name, value)| ((*name).to_owned(), text(value)));
        Options::read(&set.collect())
    }

    #[test]
    fn unset_timeouts_adapt_to_configured_ones() {
        for (set, expected) in [
            (vec![("rto_min", "200ms")], (200, 3000, 60_000)),
            (vec![("rto_max", "500ms")], (500, 500, 500)),
            (vec![("rto_initial", "100ms")], (100, 100, 60_000)),
            (vec![("rto_min", "90s")], (90_000, 90_000, 90_000)),
            (
                vec![("rto_min", "50ms"), ("rto_max", "2s")],
                (50, 2000, 2000),
            ),
        ] {
            let found = time_outs(&options(&set), KERNEL);
            assert_eq!((found.min, found.initial, found.max), expected, "{set:?}");
        }
    }

    #[test]
    fn window_is_that_of_the_path() {
        let path = |link_rate_bps: Option<u64>| PathHints {
            round_trip_delay: Duration::from_millis(30),
            longest_one_way: Duration::from_millis(45),
            typical_one_way: Duration::from_millis(45),
            link_rate_bps,
            window_bytes: link_rate_bps.map(|_| 7_031_250),
            mtu_bytes: 1500,
            clock_offset_ns: Some(0),
            keeps_order: true,
            is_real_network: false,
            treats_alike: true,
            tuning: regatta_model::Tuning::default(),
            keeps_tcp_limits: false,
        };
        let sizes = |rate, options: &Options| Sizes::of(&path(rate), options, Bytes(10_000));
        // 1 Gbit/s × 30 ms is 3.75 MB.
        let found = sizes(Some(1_000_000_000), &options(&[]));
        assert_eq!(
            (found.window_bytes, found.needed_bytes),
            (7_031_250, 3_750_000)
        );
        let unlimited = sizes(None, &options(&[]));
        assert_eq!(unlimited.window_bytes, 8 << 20);
        assert_eq!(unlimited.needed_bytes, 0);
        let configured = sizes(Some(1_000_000_000), &options(&[("receive_window", "64kB")]));
        assert_eq!(configured.window_bytes, 64_000);
        let long = Sizes::of(&path(Some(1)), &options(&[]), Bytes(1 << 40));
        assert_eq!(long.window_bytes, 7_031_250);
        let mut small = path(Some(1));
        small.window_bytes = Some(20_000);
        let long = Sizes::of(&small, &options(&[]), Bytes(1 << 40));
        assert_eq!(long.window_bytes, 4 * LONGEST_MESSAGE_BYTES);
    }
}
