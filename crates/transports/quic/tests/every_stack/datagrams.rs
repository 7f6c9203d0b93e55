//! Messages in DATAGRAM frames.

use std::{collections::BTreeMap, time::Duration};

use regatta_control::{FailureKind, TrialOrder};
use regatta_model::{Bytes, OptionValue, WorkloadKind};
use regatta_transport::{
    Carries, Driver, DriverDescriptor, OptionError, Session, TransportError, TrialContext,
    Unsupported,
    testing::{contract, run_pair},
};
use regatta_transport_quic::drivers;

use crate::in_datagrams;

/// The longest message of packets of 1472 bytes.
fn longest(name: &str) -> u64 {
    match name {
        // Their connection identifiers are shorter.
        "quic-quinn" | "quic-noq" => 1434,
        _ => 1432,
    }
}

#[test]
fn messages_up_to_the_longest_arrive_and_longer_ones_are_unsupported() {
    for driver in drivers() {
        let name = driver.descriptor().name;
        assert_eq!(driver.carries(&BTreeMap::new()), Carries::Streams, "{name}");
        let longest = longest(name);
        for message in [1, 16, 1000, longest] {
            // The last one is shorter.
            let size = (message * 2000 - 1).max(message);
            let count = size.div_ceil(message) as f64;
            let pair = run_pair(*driver, size, message, |order| {
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
            let what = format!("{name}, messages of {message}: {:?}", receiver.facts);
            // Nothing is dropped before it is sent, loopback loses nothing, and all is taken.
            assert_eq!(sender.metrics["messages_sent"], count, "{what}");
            assert_eq!(receiver.metrics["messages_delivered"], count, "{what}");
            assert_eq!(receiver.metrics["bytes_delivered"], size as f64, "{what}");
            assert_eq!(sender.metrics["messages_lost"], 0.0, "{what}");
            assert_eq!(receiver.metrics["messages_corrupted"], 0.0, "{what}");
            let not_taken = &receiver.facts["quic.datagrams_not_taken.receiver"];
            assert_eq!(not_taken, "0", "{what}");
            assert_eq!(sender.facts["quic.mode"], "datagram", "{what}");
            assert_eq!(sender.facts["congestion_control.sender"], "cubic", "{what}");
            assert_eq!(sender.facts["acknowledgement"], "in_band", "{what}");
            let idle = sender.metrics["round_trip_delay_idle_ns"];
            assert!((1e3..1e9).contains(&idle), "{what}");
        }
        let refused = run_pair(*driver, 10 * (longest + 1), longest + 1, in_datagrams);
        let error = refused.err().expect("one byte too long");
        assert_eq!(error.kind(), FailureKind::Unsupported, "{name}");
        let told = format!("at most {longest} B");
        assert!(error.hint().contains(&told), "{name}: {}", error.hint());
    }
}

#[test]
fn what_is_under_way_or_waits_at_the_deadline_is_not_lost() {
    for driver in drivers() {
        let name = driver.descriptor().name;
        let pair = run_pair(*driver, 1 << 40, 1000, |order| {
            in_datagrams(order);
            order.deadline = Duration::from_millis(300);
        });
        let pair = pair.expect("both ends");
        let (sender, receiver) = (pair.sender, pair.receiver);
        let (sender, receiver) = (sender.expect("a report"), receiver.expect("a report"));
        let what = format!("{name}: {:?}, {:?}", sender.facts, receiver.facts);
        assert_eq!(sender.metrics["transfer_time_ns"], 300e6, "{what}");
        assert!(receiver.metrics["bytes_delivered"] > 0.0, "{what}");
        assert_eq!(sender.metrics["messages_lost"], 0.0, "{what}");
        assert!(
            sender.facts.contains_key("messages_given_up.sender"),
            "{what}"
        );
    }
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

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        let mut order = order.clone();
        let mode = OptionValue::Text("datagram".to_owned());
        order.transport.options.insert("mode".to_owned(), mode);
        if let WorkloadKind::Bulk { size, message, .. } = &mut order.workload.kind {
            // The contract's messages are sized for streams in some clauses, and its endless
            // transfers for these.
            *message = Bytes(message.0.min(8000));
            *size = Bytes(size.0.min(20_000_000_000_000));
        }
        self.0.prepare(&order, context)
    }
}

#[test]
fn the_contract_of_messages_is_kept() {
    for driver in drivers() {
        let mode = OptionValue::Text("datagram".to_owned());
        let options = BTreeMap::from([("mode".to_owned(), mode)]);
        assert_eq!(driver.carries(&options), Carries::Messages);
        let driver = ByDatagram::of(*driver);
        contract::random_data_is_delivered(driver);
        contract::probes_are_answered(driver);
        contract::the_deadline_is_kept(driver);
        contract::an_abort_ends_both_ends(driver);
        contract::a_vanished_receiver_is_noticed(driver);
        contract::a_wrong_token_is_refused(driver);
        contract::a_stranger_is_refused(driver);
    }
}
