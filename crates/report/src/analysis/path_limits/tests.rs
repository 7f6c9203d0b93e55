//! Limits of paths, by hand.

use regatta_model::study::builtin;

use super::*;

fn study(name: &str) -> Study {
    let text = builtin(name).expect("a built-in study").text;
    Study::parse(text, name).expect("a sound study")
}

/// Limits of a figure of `gadasin-2026`.
fn limits(transport: &str, condition: &str, metric: &str, under_first: Option<f64>) -> PathLimits {
    let figure = Published {
        transport: transport.to_owned(),
        condition: condition.to_owned(),
        workload: None,
        metric: metric.to_owned(),
        value: 0.0,
        note: None,
        path_permits: None,
    };
    of(&study("gadasin-2026"), &figure, under_first)
}

/// 10 kB are 10148 bytes in 7 fragments: 99.4 Mbit/s of them would be 100.9 Mbit/s on the wire.
#[test]
fn a_message_in_fragments_takes_the_headers_of_all() {
    let limit = limits("udp", "baseline", id::GOODPUT_BPS, None).at_most;
    assert_eq!(limit, Some(100e6 * 10_000.0 / 10_148.0));
    assert!((99.4e6 / limit.expect("a limit") * 100e6 - 100.87e6).abs() < 1e4);
}

#[test]
fn a_message_is_lost_with_any_of_its_fragments() {
    let limit = limits("udp", "loss-5", id::GOODPUT_BPS, None).at_most;
    let expected = 100e6 * 10_000.0 / 10_148.0 * 0.95_f64.powi(7);
    assert!(
        (limit.expect("a limit") - expected).abs() < 1.0,
        "{limit:?}"
    );
}

#[test]
fn a_stream_has_the_payload_of_full_packets() {
    let limit = limits("tcp", "baseline", id::GOODPUT_BPS, None).at_most;
    assert!((limit.expect("a limit") - 96.53e6).abs() < 1e4, "{limit:?}");
}

/// Twice 1.22 · 1448 B / (30 ms · √0.05).
#[test]
fn a_congestion_control_that_yields_to_losses_limits_the_goodput() {
    let limit = limits("tcp", "loss-5", id::GOODPUT_BPS, None).at_most;
    assert!((limit.expect("a limit") - 4.21e6).abs() < 1e4, "{limit:?}");
}

#[test]
fn bbr_is_limited_by_the_wire_alone() {
    let figure = Published {
        transport: "tcp-bbr".to_owned(),
        condition: "loss-5".to_owned(),
        workload: Some("blocks-10kB".to_owned()),
        metric: id::GOODPUT_BPS.to_owned(),
        value: 82.8e6,
        note: None,
        path_permits: None,
    };
    let limits = of(&study("gadasin-2026-loss"), &figure, None);
    assert_eq!(limits.permits(figure.value), Some(true), "{limits:?}");
}

/// Three later messages, each 20 ms after the one before it, and a round trip: 90 ms for a lost message, 70 for the one
/// after it, and so on, with 5 % of loss each way.
#[test]
fn a_repair_by_sctp_waits_for_three_later_messages() {
    let limit = limits("sctp", "loss-5", id::ROUND_TRIP_DELAY_MEAN_NS, None).at_least;
    assert!(
        (limit.expect("a limit") / 1e6 - 53.56).abs() < 0.1,
        "{limit:?}"
    );
}

#[test]
fn loss_does_not_delay_what_is_not_sent_again() {
    let of_loss = limits("udp", "loss-5", id::ROUND_TRIP_DELAY_MEAN_NS, Some(39.1e6));
    let expected = PathLimits {
        at_least: Some(30e6),
        at_most: Some(39.1e6),
    };
    assert_eq!(of_loss, expected);
    let without = limits(
        "udp",
        "baseline",
        id::ROUND_TRIP_DELAY_MEAN_NS,
        Some(39.1e6),
    );
    assert_eq!(without.at_most, None);
}

/// Frames of 1538 bytes for packets of 1500.
#[test]
fn a_peak_of_arrivals_is_limited_by_the_link() {
    let study = study("olkhovik-2025");
    let is_peak = |it: &&Published| it.metric == id::RECEIVED_PEAK_BPS;
    let peak = study
        .published
        .iter()
        .find(is_peak)
        .expect("a published peak");
    let limit = of(&study, peak, None).at_most.expect("a limit");
    assert!((limit - 1e9 * 1500.0 / 1538.0).abs() < 1.0, "{limit}");
}

#[test]
fn no_path_limits_cpu_time() {
    let limits = limits("tcp", "baseline", id::CPU_HOST_RATIO, None);
    assert_eq!(limits.permits(0.2), None);
}

#[test]
fn a_path_without_a_rate_limits_no_goodput() {
    let study = study("message-size");
    let limited = study.published.iter();
    let limited = limited.filter(|figure| of(&study, figure, None) != PathLimits::default());
    assert_eq!(limited.count(), 0);
}

/// Returns the limits of a metric of the only transport, over the only path, with the only work; each by its keys in TOML.
fn limits_of(transport: &str, condition: &str, workload: &str, metric: &str) -> PathLimits {
    let text = format!(
        "[[transport]]\nlabel = 'it'\n{transport}\n[[workload]]\nname = 'work'\n{workload}\n\
         [[condition]]\nname = 'path'\n{condition}"
    );
    let study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    let figure = Published {
        transport: "it".to_owned(),
        condition: "path".to_owned(),
        workload: None,
        metric: metric.to_owned(),
        value: 0.0,
        note: None,
        path_permits: None,
    };
    of(&study, &figure, None)
}

const BULK: &str = "kind = 'bulk'\nsize = '1MB'\nmessage = '10kB'";
const PLAIN: &str = "rtt = '20ms'\nrate = '10Mbit/s'";

/// Returns the largest goodput of a transport over a path, in bits per second.
fn most(transport: &str, condition: &str, workload: &str) -> Option<f64> {
    limits_of(transport, condition, workload, id::GOODPUT_BPS).at_most
}

/// Limits that one transport meets over a path, each by hand.
macro_rules! limited {
    ($($name:ident: $found:expr => $expected:expr;)+) => {$(
        #[test]
        fn $name() {
            let found: Option<f64> = $found;
            let expected: Option<f64> = $expected;
            let is_near = |(found, expected): (f64, f64)| (found / expected - 1.0).abs() < 1e-9;
            let both = found.zip(expected);
            assert!(found == expected || both.is_some_and(is_near), "{found:?}, not {expected:?}");
        }
    )+};
}

// Shares of the packets of 1500 bytes at 10 Mbit/s.
limited! {
    tcp_has_its_headers_with_timestamps: most("driver = 'tcp'", PLAIN, BULK) => Some(10e6 * 1448.0 / 1500.0);
    tls_is_limited_as_tcp: most("driver = 'tcp-tls'", PLAIN, BULK) => Some(10e6 * 1448.0 / 1500.0);
    mptcp_is_limited_as_tcp: most("driver = 'mptcp'", PLAIN, BULK) => Some(10e6 * 1448.0 / 1500.0);
    wdt_is_limited_as_tcp: most("driver = 'wdt'", PLAIN, BULK) => Some(10e6 * 1448.0 / 1500.0);
    sctp_has_a_header_of_the_packet_and_of_a_chunk: most("driver = 'sctp-userspace'", PLAIN, BULK) => Some(10e6 * 1452.0 / 1500.0);
    quic_has_the_headers_of_udp_of_its_packet_and_frame: most("driver = 'quic-go'", PLAIN, BULK) => Some(10e6 * 1452.0 / 1500.0);
    a_driver_of_another_family_has_no_limit: most("driver = 'other'", PLAIN, BULK) => None;
    a_datagram_has_two_headers: most("driver = 'udp'", PLAIN, "kind = 'bulk'\nmessage = '1000B'") => Some(10e6 * 1000.0 / 1028.0);
    a_datagram_that_fills_a_packet_has_no_fragment: most("driver = 'udp'", PLAIN, "kind = 'bulk'\nmessage = '1472B'") => Some(10e6 * 1472.0 / 1500.0);
    // 2008 bytes in fragments of 976, the multiple of 8 in 983: 996, 996 and 76 bytes with their headers.
    fragments_are_multiples_of_eight: most("driver = 'udp'", "rate = '10Mbit/s'\nmtu = 1003", "kind = 'bulk'\nmessage = '2000B'") => Some(10e6 * 2000.0 / 2068.0);
    a_message_is_no_larger_than_the_transfer: most("driver = 'udp'", PLAIN, "kind = 'bulk'\nsize = '1000B'\nmessage = '10kB'") => Some(10e6 * 1000.0 / 1028.0);
    a_rate_of_ethernet_carries_frames: most("driver = 'tcp'", "rate = '10Mbit/s'\nrate_of = 'ethernet'", BULK) => Some(10e6 * 1448.0 / 1538.0);
    a_burst_has_no_limit: most("driver = 'tcp'", "rate = '10Mbit/s'\nburst = '15kB'", BULK) => None;
    a_trace_has_no_limit: most("driver = 'tcp'", "trace = 'lte'", BULK) => None;
    stop_and_wait_is_limited_as_a_transfer: most("driver = 'tcp'", PLAIN, "kind = 'stop-and-wait'") => Some(10e6 * 1448.0 / 1500.0);
    messages_by_schedule_have_no_limit: most("driver = 'tcp'", PLAIN, "kind = 'multi-stream'") => None;
    a_download_takes_the_way_back: most("driver = 'tcp'", "rate = '10Mbit/s'\n[condition.reverse]\nrate = '1Mbit/s'", "kind = 'bulk'\ndirection = 'reverse'") => Some(1e6 * 1448.0 / 1500.0);
    data_both_ways_have_no_limit: most("driver = 'tcp'", PLAIN, "kind = 'bulk'\ndirection = 'both'") => None;
    of_a_path_that_changes_the_fastest_setting_counts: most("driver = 'tcp'", "rate = '10Mbit/s'\nloss = '1%'\nrtt = '20ms'\n[[condition.step]]\nat = '1s'\nrate = '30Mbit/s'\n[[condition.step]]\nat = '2s'\nrate = '20Mbit/s'", BULK) => Some(30e6 * 1448.0 / 1500.0);
}

/// 100 Mbit/s, 100 ms of round-trip delay and 1 % loss; 200 ms and 0.01 %.
const OFTEN: &str = "rtt = '100ms'\nrate = '100Mbit/s'\nloss = '1%'";
const SELDOM: &str = "rtt = '200ms'\nrate = '100Mbit/s'\nloss = '0.01%'";

// Twice the window of the published function per round trip: of Reno 1.22 / √0.01 = 12.2 packets, of CUBIC
// 1.054 · (0.2 / 0.0001)^(3/4) = 315.2 packets.
limited! {
    reno_is_the_larger_one_at_many_losses: most("driver = 'tcp'", OFTEN, BULK) => Some(2.0 * 12.2 * 1448.0 * 8.0 / 0.1);
    cubic_is_the_larger_one_at_few_losses: most("driver = 'tcp'", SELDOM, BULK) => Some(36_515_029.553_753_23);
    flows_have_a_window_each: most("driver = 'tcp'", OFTEN, "kind = 'bulk'\nflows = 4") => Some(4.0 * 2.0 * 12.2 * 1448.0 * 8.0 / 0.1);
    the_link_limits_a_window_that_is_larger: most("driver = 'tcp'", "rtt = '100ms'\nrate = '2Mbit/s'\nloss = '1%'", BULK) => Some(2e6 * 1448.0 / 1500.0);
    a_window_limits_without_a_rate: most("driver = 'tcp'", "rtt = '100ms'\nloss = '1%'", BULK) => Some(2.0 * 12.2 * 1448.0 * 8.0 / 0.1);
    without_losses_a_window_has_no_limit: most("driver = 'tcp'", "rtt = '100ms'", BULK) => None;
    without_a_delay_a_window_has_no_limit: most("driver = 'tcp'", "loss = '1%'", BULK) => None;
    stop_and_wait_has_no_window: most("driver = 'tcp'", OFTEN, "kind = 'stop-and-wait'") => Some(100e6 * 1448.0 / 1500.0);
    bbr_of_quic_does_not_yield: most("driver = 'quic-quinn'\ncc = 'bbr'", OFTEN, BULK) => Some(100e6 * 1452.0 / 1500.0);
    cubic_of_quic_yields: most("driver = 'quic-quinn'\ncc = 'cubic'", OFTEN, BULK) => Some(2.0 * 12.2 * 1452.0 * 8.0 / 0.1);
    subflows_of_mptcp_have_no_common_window: most("driver = 'mptcp'", OFTEN, BULK) => Some(100e6 * 1448.0 / 1500.0);
    threads_of_wdt_have_no_common_window: most("driver = 'wdt'", OFTEN, BULK) => Some(100e6 * 1448.0 / 1500.0);
    reliable_datagrams_do_not_yield: most("driver = 'udp-reliable'", OFTEN, "kind = 'bulk'\nmessage = '1000B'") => Some(100e6 * 1000.0 / 1028.0);
    datagrams_arrive_but_for_the_losses: most("driver = 'udp'", OFTEN, "kind = 'bulk'\nmessage = '1000B'") => Some(100e6 * 1000.0 / 1028.0 * 0.99);
    datagrams_of_quic_arrive_but_for_the_losses: most("driver = 'quic-quinn'\nmode = 'datagram'\ncc = 'bbr'", OFTEN, "kind = 'bulk'\nmessage = '1000B'") => Some(100e6 * 1452.0 / 1500.0 * 0.99);
}

/// Returns the smallest value of a metric of a transport, in milliseconds.
fn least_ms(transport: &str, condition: &str, workload: &str, metric: &str) -> Option<f64> {
    let least = limits_of(transport, condition, workload, metric).at_least;
    least.map(|ns| ns / 1e6)
}

// The repair of a lost message holds up those after it, which leave every 20 ms: at 5 % of loss each way with 30 ms of
// round-trip delay 0.05 · (50 + 0.95 · 30 + 0.95² · 10) ms each way.
const LOSSY: &str = "rtt = '30ms'\nrate = '10Mbit/s'\nloss = '5%'";
limited! {
    a_transfer_takes_its_volume_at_the_largest_goodput: least_ms("driver = 'tcp'", PLAIN, BULK, id::TRANSFER_TIME_NS) => Some(8e9 / (10e6 * 1448.0 / 1500.0));
    a_captured_transfer_takes_no_less: least_ms("driver = 'tcp'", PLAIN, BULK, id::CAPTURED_TRANSFER_TIME_NS) => Some(8e9 / (10e6 * 1448.0 / 1500.0));
    an_idle_median_has_the_propagation: least_ms("driver = 'tcp'", LOSSY, BULK, id::ROUND_TRIP_DELAY_IDLE_P50_NS) => Some(30.0);
    an_idle_mean_has_the_propagation: least_ms("driver = 'tcp'", LOSSY, BULK, id::ROUND_TRIP_DELAY_IDLE_MEAN_NS) => Some(30.0);
    both_ways_have_their_own_delay: least_ms("driver = 'tcp'", "delay = '10ms'\n[condition.reverse]\ndelay = '30ms'", BULK, id::ROUND_TRIP_DELAY_P50_NS) => Some(40.0);
    of_a_path_that_changes_the_shortest_delay_counts: least_ms("driver = 'tcp'", "rtt = '30ms'\n[[condition.step]]\nat = '1s'\nrtt = '20ms'\n[[condition.step]]\nat = '2s'\nrtt = '40ms'", BULK, id::ROUND_TRIP_DELAY_P50_NS) => Some(20.0);
    without_a_delay_there_is_no_least_delay: least_ms("driver = 'tcp'", "loss = '5%'", BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => None;
    a_median_has_no_repairs: least_ms("driver = 'tcp'", LOSSY, BULK, id::ROUND_TRIP_DELAY_P50_NS) => Some(30.0);
    a_mean_over_tcp_has_repairs_after_one_later_message: least_ms("driver = 'tcp'", LOSSY, BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => Some(38.7525);
    a_mean_over_tcp_has_repairs_by_its_timer: least_ms("driver = 'tcp'", "rtt = '300ms'\nloss = '5%'", BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => Some(395.040_073_821_168);
    a_mean_over_sctp_has_repairs_after_three_later_messages: least_ms("driver = 'sctp'", LOSSY, BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => Some(53.549_131_25);
    a_mean_over_sctp_has_repairs_by_its_timer: least_ms("driver = 'sctp'", "rtt = '1s'\nloss = '5%'", BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => Some(2_298.478_181_210_301_5);
    losses_one_way_hold_up_half_as_many: least_ms("driver = 'tcp'", "rtt = '30ms'\n[condition.reverse]\nloss = '5%'", BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => Some(34.37625);
    a_mean_over_quic_has_no_repairs: least_ms("driver = 'quic-quinn'", LOSSY, BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => Some(30.0);
    a_mean_over_udp_has_no_repairs: least_ms("driver = 'udp'", LOSSY, BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => Some(30.0);
    without_a_probe_under_load_there_are_no_repairs: least_ms("driver = 'tcp'", LOSSY, "kind = 'bulk'\n[workload.probe]\nunder_load = false", id::ROUND_TRIP_DELAY_MEAN_NS) => Some(30.0);
    over_a_path_that_changes_repairs_are_not_known: least_ms("driver = 'tcp'", "rtt = '30ms'\nloss = '5%'\n[[condition.step]]\nat = '1s'\nloss = '0%'", BULK, id::ROUND_TRIP_DELAY_MEAN_NS) => Some(30.0);
}

#[test]
fn goodputs_of_both_ends_and_of_the_wire_have_one_limit() {
    let of = |metric| limits_of("driver = 'tcp'", PLAIN, BULK, metric);
    let limits = of(id::GOODPUT_BPS);
    assert!(limits.at_most.is_some() && limits.at_least.is_none());
    assert_eq!(of(id::RECEIVER_GOODPUT_BPS), limits);
    assert_eq!(of(id::CAPTURED_GOODPUT_BPS), limits);
}

#[test]
fn a_peak_counts_whole_packets_and_not_losses() {
    let found = limits_of("driver = 'udp'", OFTEN, BULK, id::RECEIVED_PEAK_BPS);
    let expected = PathLimits {
        at_least: None,
        at_most: Some(100e6),
    };
    assert_eq!(found, expected);
}

#[test]
fn ends_of_a_range_are_permitted() {
    let limits = |at_least, at_most| PathLimits { at_least, at_most };
    let permits = |limits: PathLimits| [0.9, 1.0, 2.0, 2.1].map(|it| limits.permits(it));
    let found = permits(limits(Some(1.0), Some(2.0)));
    assert_eq!(found, [false, true, true, false].map(Some));
    let found = permits(limits(Some(1.0), None));
    assert_eq!(found, [false, true, true, true].map(Some));
    let found = permits(limits(None, Some(2.0)));
    assert_eq!(found, [true, true, true, false].map(Some));
    assert_eq!(permits(limits(None, None)), [None; 4]);
}

/// Returns the largest delay under load of a transport over a lossy path, where 40 ms are published for the first path.
fn most_delay(transport: &str, first: &str, lossy: &str) -> Option<f64> {
    let text = format!(
        "[[transport]]\nlabel = 'it'\n{transport}\n[[workload]]\nname = 'work'\nkind = 'bulk'\n\
         [[condition]]\nname = 'first'\n{first}\n[[condition]]\nname = 'lossy'\n{lossy}"
    );
    let study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    let figure = Published {
        transport: "it".to_owned(),
        condition: "lossy".to_owned(),
        workload: None,
        metric: id::ROUND_TRIP_DELAY_P50_NS.to_owned(),
        value: 0.0,
        note: None,
        path_permits: None,
    };
    of(&study, &figure, Some(40e6)).at_most
}

limited! {
    loss_alone_adds_no_delay_to_datagrams: most_delay("driver = 'udp'", "rtt = '30ms'", "rtt = '30ms'\nloss = '5%'") => Some(40e6);
    loss_of_one_direction_adds_no_delay: most_delay("driver = 'udp'", "rtt = '30ms'", "rtt = '30ms'\n[condition.reverse]\nloss = '5%'") => Some(40e6);
    what_is_sent_again_may_be_delayed: most_delay("driver = 'tcp'", "rtt = '30ms'", "rtt = '30ms'\nloss = '5%'") => None;
    another_delay_may_delay: most_delay("driver = 'udp'", "rtt = '30ms'", "rtt = '31ms'\nloss = '5%'") => None;
    a_first_path_with_losses_says_nothing: most_delay("driver = 'udp'", "rtt = '30ms'\nloss = '1%'", "rtt = '30ms'\nloss = '5%'") => None;
    a_path_without_losses_is_not_compared: most_delay("driver = 'udp'", "rtt = '30ms'", "rtt = '30ms'") => None;
}

#[test]
fn a_figure_of_another_path_or_work_has_no_limit() {
    let study = study("gadasin-2026");
    let figure = |condition: &str, workload: Option<&str>| Published {
        transport: "tcp".to_owned(),
        condition: condition.to_owned(),
        workload: workload.map(str::to_owned),
        metric: id::GOODPUT_BPS.to_owned(),
        value: 0.0,
        note: None,
        path_permits: None,
    };
    assert_ne!(
        of(&study, &figure("baseline", None), None),
        PathLimits::default()
    );
    for figure in [figure("other", None), figure("baseline", Some("other"))] {
        assert_eq!(of(&study, &figure, None), PathLimits::default());
    }
}
