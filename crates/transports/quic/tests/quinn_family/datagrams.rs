//! Messages in DATAGRAM frames.

use std::collections::BTreeMap;

use regatta_control::{FailureKind, TrialOrder};
use regatta_model::{Bytes, OptionValue, WorkloadKind};
use regatta_transport::{
    Carries, Driver, DriverDescriptor, OptionError, Session, TransportError, TrialContext,
    Unsupported,
    testing::{contract, run_pair},
};

use crate::{BOTH, option, text};

/// Over packets of 1472 bytes.
const LONGEST: u64 = 1434;

fn in_datagrams(order: &mut TrialOrder) {
    option(order, "mode", text("datagram"));
    order.path.mtu_bytes = 1500;
}

#[test]
fn messages_up_to_the_longest_are_carried_and_longer_ones_are_not() {
    for driver in BOTH {
        let name = driver.descriptor().name;
        for message in [1, 16, 1000, LONGEST] {
            let size = message * 50 - 1;
            let pair = run_pair(driver, size, message, in_datagrams).expect("prepared");
            let (sender, receiver) = (pair.sender, pair.receiver);
            let (sender, receiver) = (sender.expect("a report"), receiver.expect("a report"));
            // Fifty small messages fit every buffer of loopback.
            assert_eq!(
                receiver.metrics["messages_delivered"],
                size.div_ceil(message) as f64
            );
            assert_eq!(receiver.metrics["bytes_delivered"], size as f64, "{name}");
            assert_eq!(sender.metrics["messages_lost"], 0.0, "{name}");
            assert_eq!(sender.facts["quic.mode"], "datagram");
            assert_eq!(sender.facts["congestion_control.sender"], "cubic");
            assert_eq!(receiver.facts["quic.datagrams_not_taken.receiver"], "0");
        }
        let refused = run_pair(driver, 10 * (LONGEST + 1), LONGEST + 1, in_datagrams);
        let error = refused.err().expect("one byte too long");
        assert_eq!(error.kind(), FailureKind::Unsupported, "{name}");
        assert_eq!(
            error.hint(),
            format!("choose a message of at most {LONGEST} B")
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
        option(&mut order, "mode", text("datagram"));
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
    for driver in BOTH {
        assert_eq!(
            driver.carries(&BTreeMap::from([("mode".to_owned(), text("datagram"))])),
            Carries::Messages
        );
        let driver = ByDatagram::of(driver);
        contract::random_data_is_delivered(driver);
        contract::probes_are_answered(driver);
        contract::the_deadline_is_kept(driver);
        contract::an_abort_ends_both_ends(driver);
        contract::a_vanished_receiver_is_noticed(driver);
        contract::a_wrong_token_is_refused(driver);
        contract::a_stranger_is_refused(driver);
    }
}
