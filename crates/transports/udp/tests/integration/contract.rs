//! Contract tests of every driver over loopback, for `udp` and `udp-reliable`, and tests of their
//! own behaviour.

use std::{collections::BTreeMap, sync::LazyLock};

use regatta_control::{Note, ProblemKind, Role, TrialOrder};
use regatta_model::OptionValue;
use regatta_test_contract::contract;
use regatta_transport::{
    ClientSession, Driver, DriverDescriptor, ServerSession, TransportError, TrialContext,
    Unsupported, testing,
};

fn udp() -> &'static dyn Driver {
    regatta_transport_udp::drivers()[0]
}

fn reliable() -> &'static dyn Driver {
    regatta_transport_udp::drivers()[1]
}

regatta_test_contract::contract_tests! {
    udp: messages => udp();
    udp_reliable: streams => reliable();
    a_sliding_window: streams => &With(reliable(), &[("window_messages", OptionValue::Number(256))]);
    // All but those with the longest message.
    udp_framed: messages[
        options_are_checked,
        random_data_is_delivered,
        random_data_of_another_seed_is_not_delivered,
        probes_are_answered,
        the_deadline_is_kept,
        an_abort_ends_both_ends,
        an_abort_ends_a_receiver_that_waits,
        a_vanished_receiver_is_noticed,
        a_wrong_token_is_refused,
        a_stranger_is_refused,
    ] => &udp_framed();
}

#[test]
fn every_driver_has_its_cases() {
    contract::drivers_have_cases(&tested_drivers(), regatta_transport_udp::drivers());
}

/// A driver whose trials have these options unless they set others.
struct With(&'static dyn Driver, &'static [(&'static str, OptionValue)]);

impl Driver for With {
    fn descriptor(&self) -> &'static DriverDescriptor {
        self.0.descriptor()
    }

    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        self.0.supported(options)
    }

    fn client(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ClientSession>, TransportError> {
        self.0.client(&self.changed(order), context)
    }

    fn server(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ServerSession>, TransportError> {
        self.0.server(&self.changed(order), context)
    }
}

impl With {
    fn changed(&self, order: &TrialOrder) -> TrialOrder {
        let mut order = order.clone();
        for (name, value) in self.1 {
            let options = &mut order.transport.options;
            options.entry((*name).to_owned()).or_insert(value.clone());
        }
        order
    }
}

fn udp_framed() -> With {
    static OPTIONS: LazyLock<[(&str, OptionValue); 1]> =
        LazyLock::new(|| [("frame", text("conn"))]);
    With(udp(), &*OPTIONS)
}

regatta_test_contract::test_cases! { framed_udp_delivers_messages_that_fit_with_its_header:
    size_0_message_1(0, 1)
    size_1_message_1(1, 1)
    size_163_message_17(163, 17)
    size_100000_message_1400(100_000, 1400)
    size_400000_message_65486(400_000, 65_486)
}

fn framed_udp_delivers_messages_that_fit_with_its_header(size: u64, message: u64) {
    let pair = testing::run_pair(&udp_framed(), size, message, |order| {
        order.path.mtu_bytes = 1500;
    })
    .expect("both ends can be prepared");
    let (sender, receiver) = (pair.sender.expect("a report"), pair.receiver.expect("one"));
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"],
        size as f64
    );
    assert_eq!(receiver.measurements.metrics["messages_corrupted"], 0.0);
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    assert_eq!(sender.measurements.facts["acknowledgement"], "in_band");
    let warning = sender
        .measurements
        .warnings
        .iter()
        .find(|w| w.code == "ip_fragmentation");
    assert_eq!(warning.is_some(), message > 1472 - 21, "{message}");
}

#[test]
fn framed_udp_message_beyond_the_limit_is_unsupported() {
    let error = testing::run_pair(&udp_framed(), 65_487, 65_487, |_| {})
        .err()
        .expect("it does not fit");
    assert_eq!(error.kind(), ProblemKind::Unsupported);
    assert!(error.hint().contains("65486"), "{}", error.hint());
}

fn text(value: &str) -> OptionValue {
    OptionValue::Text(value.to_owned())
}

regatta_test_contract::test_cases! { a_rate_is_kept:
    by_messages_that_fit_a_packet(1400)
    by_messages_that_are_fragmented(10_000)
}

/// Sends 2 Mbit at 20 Mbit/s, in messages that fit a packet or do not.
fn a_rate_is_kept(message: u64) {
    let pair = testing::run_pair(udp(), 250_000, message, |order| {
        order.path.mtu_bytes = 1500;
        let rate = ("rate".to_owned(), text("20Mbit/s"));
        order.transport.options.extend([rate]);
    })
    .expect("both ends can be prepared");
    let sender = pair.sender.expect("a report");
    let goodput = sender.measurements.metrics["goodput_bps"];
    // Every message takes its time, the last one too; a busy machine makes it later, never
    // earlier.
    assert!((10e6..=20e6).contains(&goodput), "{message}: {goodput}");
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    let fragmented = sender
        .measurements
        .warnings
        .iter()
        .any(|warning| warning.code == "ip_fragmentation");
    assert_eq!(fragmented, message > 1472);
}

regatta_test_contract::test_cases! { everything_arrives:
    with_segmentation_offload(true)
    without_segmentation_offload(false)
}

fn everything_arrives(gso: bool) {
    let pair = testing::run_pair(udp(), 2_000_000, 1400, |order| {
        order.path.mtu_bytes = 1500;
        let gso = ("gso".to_owned(), OptionValue::Flag(gso));
        order.transport.options.extend([gso]);
    })
    .expect("both ends can be prepared");
    let (sender, receiver) = (pair.sender.expect("a report"), pair.receiver.expect("one"));
    if !gso {
        assert_eq!(sender.measurements.facts["gso.sender"], "off");
        assert_eq!(receiver.measurements.facts["gro.receiver"], "off");
    }
    assert_eq!(receiver.measurements.metrics["messages_corrupted"], 0.0);
    assert!(receiver.measurements.metrics["interarrival_jitter_ns"] >= 0.0);
    assert!(receiver.measurements.metrics["one_way_delay_p50_ns"] > 0.0);
}

#[test]
fn end_is_confirmed_in_the_flow_and_over_control() {
    let pair = testing::run_pair(udp(), 10_000, 1000, |_| {}).expect("both can be prepared");
    let sent = Note::Sent {
        messages: 10,
        bytes: 10_000,
        deadline_reached: false,
    };
    let received = Note::Received {
        messages: 10,
        bytes: 10_000,
    };
    assert_eq!(pair.sender_seen.notes(), [sent, Note::Closed]);
    assert_eq!(pair.receiver_seen.notes(), [received]);
}

regatta_test_contract::driver_tests! {
    [a_message_longer_than_a_datagram_is_unsupported]
    udp_alone => udp();
    udp_with_retransmissions => reliable();
}

fn a_message_longer_than_a_datagram_is_unsupported(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let order: TrialOrder = testing::order_for(Role::Sender, name, 1_000_000, 65_508);
    let error = driver
        .session(&order, testing::trial_context().0)
        .err()
        .expect("it cannot be carried");
    assert_eq!(error.kind(), ProblemKind::Unsupported);
    assert!(error.hint().contains("65507"), "{}", error.hint());
}

#[test]
fn message_too_long_with_its_header_is_split_with_a_warning() {
    for (message, split) in [(65_486, false), (65_487, true)] {
        let pair = testing::run_pair(reliable(), 200_000, message, |_| {}).expect("both ends");
        let sender = pair.sender.expect("a report");
        let warned = sender
            .measurements
            .warnings
            .iter()
            .any(|w| w.code == "message_split");
        assert_eq!(warned, split, "{message}");
        assert_eq!(
            pair.receiver.expect("one").measurements.metrics["bytes_delivered"],
            200_000.0
        );
    }
}

#[test]
fn options_have_units() {
    for (name, value, right) in [
        ("rate", text("96Mbit/s"), true),
        ("rate", OptionValue::Number(96), false),
        ("receive_buffer", text("4MiB"), true),
        ("receive_buffer", text("4"), false),
        ("send_buffer", text("4 furlongs"), false),
        ("gso", text("yes"), false),
    ] {
        let options = BTreeMap::from([(name.to_owned(), value.clone())]);
        assert_eq!(
            udp().check_options(&options).is_ok(),
            right,
            "{name}: {value:?}"
        );
    }
}
