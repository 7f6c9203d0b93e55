//! Messages in DATAGRAM frames.

use std::{collections::BTreeMap, time::Duration};

use regatta_control::{ProblemKind, TrialOrder};
use regatta_model::{Amount, Bytes, OptionValue, WorkloadKind};
use regatta_test_contract::contract;
use regatta_transport::{
    Carries, ClientSession, Driver, DriverDescriptor, OptionError, ServerSession, TransportError,
    TrialContext, Unsupported, testing::run_pair,
};
use regatta_transport_quic::drivers;

use super::{driver, in_datagrams};

for_each_stack! {
    messages_up_to_the_longest_arrive_and_longer_ones_are_unsupported,
    messages_in_flight_or_queued_at_the_deadline_are_not_lost,
    datagram_mode_carries_messages,
    probes_beside_streams_are_datagrams,
    probes_are_datagrams_where_the_packet_size_is_searched_for,
}

fn probes_beside_streams_are_datagrams(driver: &dyn Driver) {
    contract::probes_beside_streams_are_datagrams(driver);
}

/// Both ends go by the first packet size, whatever each has found when the probe begins.
fn probes_are_datagrams_where_the_packet_size_is_searched_for(driver: &dyn Driver) {
    let facts = [1100, 1300].map(|message| {
        let pair = run_pair(driver, 1_000_000, 10_000, |order| {
            let search = ("mtu_discovery".to_owned(), OptionValue::Flag(true));
            order.transport.options.extend([search]);
            order.path.mtu_bytes = 1500;
            order.workload.probe.message = Bytes(message);
            order.workload.probe.idle_messages = 3;
            order.workload.probe.under_load = true;
            order.workload.probe.interval = Duration::from_millis(1);
        });
        let sender = pair.expect("both ends").sender.expect("a report");
        let idle = sender.measurements.metrics["round_trip_delay_idle_p50_ns"];
        assert!((1e3..1e9).contains(&idle), "{message}: {idle}");
        sender.measurements.facts["probe.retransmission"].clone()
    });
    assert_eq!(facts, ["none: DATAGRAM frames", "by the transport"]);
}

/// Returns the longest message of packets of 1472 bytes, in bytes.
fn longest(name: &str) -> u64 {
    match name {
        // Their connection identifiers are shorter.
        "quic-quinn" | "quic-noq" => 1434,
        _ => 1432,
    }
}

fn messages_up_to_the_longest_arrive_and_longer_ones_are_unsupported(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    assert_eq!(driver.carries(&BTreeMap::new()), Carries::Streams, "{name}");
    let longest = longest(name);
    for message in [1, 16, 1000, longest] {
        // The last one is shorter.
        let size = (message * 2000 - 1).max(message);
        let count = size.div_ceil(message) as f64;
        let pair = run_pair(driver, size, message, |order| {
            in_datagrams(order);
            order.workload.probe.idle_messages = 3;
            order.workload.probe.under_load = true;
            order.workload.probe.interval = Duration::from_millis(1);
        });
        let pair = pair.expect("both ends");
        let sender = pair
            .sender
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let receiver = pair.receiver.expect("a report");
        let what = format!(
            "{name}, messages of {message}: {:?}",
            receiver.measurements.facts
        );
        // Nothing is dropped before it is sent, loopback loses nothing, and all is taken.
        assert_eq!(
            sender.measurements.metrics["messages_sent"], count,
            "{what}"
        );
        assert_eq!(
            receiver.measurements.metrics["messages_delivered"], count,
            "{what}"
        );
        assert_eq!(
            receiver.measurements.metrics["bytes_delivered"], size as f64,
            "{what}"
        );
        assert_eq!(sender.measurements.metrics["messages_lost"], 0.0, "{what}");
        assert_eq!(
            receiver.measurements.metrics["messages_corrupted"], 0.0,
            "{what}"
        );
        let not_taken = &receiver.measurements.facts["quic.datagrams_not_taken.receiver"];
        assert_eq!(not_taken, "0", "{what}");
        assert_eq!(sender.measurements.facts["quic.mode"], "datagram", "{what}");
        assert_eq!(
            sender.measurements.facts["congestion_control.sender"], "cubic",
            "{what}"
        );
        assert_eq!(
            sender.measurements.facts["acknowledgement"], "in_band",
            "{what}"
        );
        let idle = sender.measurements.metrics["round_trip_delay_idle_p50_ns"];
        assert!((1e3..1e9).contains(&idle), "{what}");
    }
    let refused = run_pair(driver, 10 * (longest + 1), longest + 1, in_datagrams);
    let error = refused.err().expect("one byte too long");
    assert_eq!(error.kind(), ProblemKind::Unsupported, "{name}");
    let limit = format!("at most {longest} B");
    assert!(error.hint().contains(&limit), "{name}: {}", error.hint());
}

fn messages_in_flight_or_queued_at_the_deadline_are_not_lost(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let pair = run_pair(driver, 1 << 40, 1000, |order| {
        in_datagrams(order);
        order.deadline = Duration::from_millis(300);
    });
    let pair = pair.expect("both ends");
    let (sender, receiver) = (pair.sender, pair.receiver);
    let (sender, receiver) = (sender.expect("a report"), receiver.expect("a report"));
    let what = format!(
        "{name}: {:?}, {:?}",
        sender.measurements.facts, receiver.measurements.facts
    );
    let connected = sender.measurements.metrics["transfer_time_ns"]
        - sender.measurements.metrics["set_up_time_mean_ns"];
    assert_eq!(connected, 300e6, "{what}");
    assert!(
        receiver.measurements.metrics["bytes_delivered"] > 0.0,
        "{what}"
    );
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0, "{what}");
    assert!(
        sender
            .measurements
            .facts
            .contains_key("messages_given_up.sender"),
        "{what}"
    );
}

/// A driver whose default is datagrams, for the contract of drivers of messages.
struct ByDatagram(&'static dyn Driver, DriverDescriptor);

impl ByDatagram {
    fn of(driver: &'static dyn Driver) -> &'static Self {
        let descriptor = DriverDescriptor {
            carries: Carries::Messages,
            reliable: false,
            ..*driver.descriptor()
        };
        Box::leak(Box::new(Self(driver, descriptor)))
    }
}

impl Driver for ByDatagram {
    fn descriptor(&self) -> &'static DriverDescriptor {
        // Leaked with the driver, for the tests' life.
        Box::leak(Box::new(self.1))
    }

    fn check_options(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), OptionError> {
        self.0.check_options(options)
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

impl ByDatagram {
    fn changed(&self, order: &TrialOrder) -> TrialOrder {
        let mut order = order.clone();
        let mode = OptionValue::Text("datagram".to_owned());
        order.transport.options.insert("mode".to_owned(), mode);
        if let WorkloadKind::Bulk {
            amount, message, ..
        } = &mut order.workload.kind
        {
            // The contract's messages are sized for streams in some clauses, and its endless
            // transfers for these.
            *message = Bytes(message.0.min(8000));
            if let Amount::Bytes(size) = amount {
                size.0 = size.0.min(20_000_000_000_000);
            }
        }
        order
    }
}

/// The contract of messages.
mod of_messages {
    use super::*;

    macro_rules! contract_tests_in_datagrams {
        ([$($stack:ident $name:literal $package:ident;)*]) => {
            regatta_test_contract::contract_tests! {
                $(
                    // What is as with streams is not tried again.
                    $stack: messages[
                        random_data_is_delivered,
                        random_data_of_another_seed_is_not_delivered,
                        probes_are_answered,
                        the_deadline_is_kept,
                        an_abort_ends_both_ends,
                        an_abort_ends_a_receiver_that_waits,
                        a_vanished_receiver_is_noticed,
                        a_wrong_token_is_refused,
                        a_stranger_is_refused,
                    ] => ByDatagram::of(driver(concat!("quic-", $name)));
                )*
            }
        };
    }

    regatta_transport_quic::stacks!(contract_tests_in_datagrams);

    #[test]
    fn every_driver_has_its_cases() {
        contract::drivers_have_cases(&tested_drivers(), drivers());
    }
}

fn datagram_mode_carries_messages(driver: &dyn Driver) {
    let mode = OptionValue::Text("datagram".to_owned());
    let options = BTreeMap::from([("mode".to_owned(), mode)]);
    assert_eq!(driver.carries(&options), Carries::Messages);
}
