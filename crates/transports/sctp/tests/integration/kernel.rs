//! Tests of `sctp` on a kernel that has it: this one, or else a guest's.

use std::{collections::BTreeMap, time::Duration};

use regatta_model::{Bytes, OptionValue, Spread, WorkloadKind};
use regatta_test_support::guest::{Clock, in_shared_guest, is_guest, limit_loopback};
use regatta_transport::testing;

use crate::common::{Unordered, driver};

/// Whether this kernel has SCTP. If not, the case is run in a guest, whose kernel must. Its time is virtual, so that
/// deadlines and durations do not depend on what else the machine does.
fn is_here(case: &str) -> bool {
    if is_guest() {
        limit_loopback();
        return true;
    }
    driver("sctp").supported(&BTreeMap::new()).is_ok()
        || in_shared_guest("kernel::with_sctp", case, Clock::Virtual)
}

mod with_sctp {
    use super::*;

    regatta_test_contract::contract_tests! {
        streams: streams => driver("sctp"), if is_here;
        unordered_messages: reliable_messages => &Unordered::of("sctp"), if is_here;
    }

    fn text(value: &str) -> OptionValue {
        OptionValue::Text(value.to_owned())
    }

    /// Checks that the kernel reports the options that were set, at both ends.
    #[test]
    fn options_are_set_and_read_back() {
        if !is_here("options_are_set_and_read_back") {
            return;
        }
        let set = [
            ("streams", OptionValue::Number(17)),
            ("no_delay", OptionValue::Flag(false)),
            ("scheduler", text("fcfs")),
            ("rto_initial", text("300ms")),
            ("rto_min", text("250ms")),
            ("rto_max", text("4s")),
            ("sack_delay", text("50ms")),
            ("sack_every", OptionValue::Number(3)),
            ("hb_interval", text("700ms")),
            ("path_max_retrans", OptionValue::Number(2)),
            ("pf_retrans", OptionValue::Number(1)),
            ("association_max_retrans", OptionValue::Number(4)),
        ];
        let pair = testing::run_pair(driver("sctp"), 100_000, 1000, |order| {
            let set = set
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()));
            order.transport.options = set.collect();
        })
        .expect("both ends can be prepared");
        for (side, report) in [("sender", pair.sender), ("receiver", pair.receiver)] {
            let facts = report.expect("a report").measurements.facts;
            for (name, expected) in [
                ("streams", "17 out, 17 in"),
                ("no_delay", "false"),
                ("scheduler", "fcfs"),
                ("rto_initial", "300 ms"),
                ("rto_min", "250 ms"),
                ("rto_max", "4000 ms"),
                ("acknowledgement_delay", "after 50 ms or 3 packets"),
                ("heartbeat_interval", "700 ms"),
                ("path_max_retrans", "2"),
                ("pf_retrans", "1"),
                ("association_max_retrans", "4"),
            ] {
                let found = facts.get(&format!("sctp.{name}.{side}"));
                assert_eq!(
                    found.map(regatta_model::Text::as_str),
                    Some(expected),
                    "{name}: {facts:?}"
                );
            }
            assert_eq!(facts[&format!("congestion_control.{side}")], "rfc9260");
        }
    }

    /// Checks that the figures of the association are those of the kernel.
    #[test]
    fn kernel_statistics_are_reported() {
        if !is_here("kernel_statistics_are_reported") {
            return;
        }
        let pair = testing::run_pair(driver("sctp"), 10_000_000, 10_000, |_| {})
            .expect("both ends can be prepared");
        let sender = pair.sender.expect("a report");
        let sample = *pair.sender_seen.samples().last().expect("a sample");
        assert!(sample.congestion_window_bytes > Some(0), "{sample:?}");
        assert!(sample.bytes_in_flight.is_some(), "{sample:?}");
        assert_eq!(sender.measurements.metrics["retransmitted_packets"], 0.0);
        // Each message is one chunk at loopback's MTU; beside them are the opening and what is bundled.
        let chunks: f64 = sender.measurements.facts["sctp.data_chunks_sent.sender"]
            .parse()
            .expect("a number");
        assert!((1000.0..1010.0).contains(&chunks), "{chunks}");
        assert!(sender.measurements.metrics["retransmit_ratio"] == 0.0);
    }

    /// Checks that message i is on stream i mod k, and each of the streams carries its part.
    #[test]
    fn every_stream_is_used() {
        if !is_here("every_stream_is_used") {
            return;
        }
        let pair = testing::run_pair(driver("sctp"), 0, 1, |order| {
            order.workload.kind = WorkloadKind::MultiStream {
                messages: 200,
                message: Bytes(500),
                messages_per_second: 2000.0,
                streams: 100,
                spread: Spread::Streams,
            };
            order
                .transport
                .options
                .insert("streams".to_owned(), OptionValue::Number(100));
        })
        .expect("both ends can be prepared");
        let receiver = pair.receiver.expect("a report");
        assert_eq!(receiver.measurements.metrics["messages_delivered"], 200.0);
        // One stream more than the association has.
        let pair = testing::run_pair(driver("sctp"), 0, 1, |order| {
            order.deadline = Duration::from_secs(1);
            order.workload.kind = WorkloadKind::MultiStream {
                messages: 5,
                message: Bytes(500),
                messages_per_second: 2000.0,
                streams: 5,
                spread: Spread::Streams,
            };
            order
                .transport
                .options
                .insert("streams".to_owned(), OptionValue::Number(4));
        })
        .expect("both ends can be prepared");
        let error = pair.sender.expect_err("there are four");
        assert!(error.to_string().contains("4 streams"), "{error}");
    }

    /// Checks messages longer than a user message of a stream, and longer than any receive buffer.
    #[test]
    fn long_messages_arrive_complete() {
        if !is_here("long_messages_arrive_complete") {
            return;
        }
        for message in [100_000, 300_000, 5_000_000] {
            let pair = testing::run_pair(driver("sctp"), 10_000_000, message, |_| {})
                .expect("both ends can be prepared");
            pair.sender.expect("a report");
            let receiver = pair.receiver.expect("a report");
            assert_eq!(
                receiver.measurements.metrics["bytes_delivered"], 10e6,
                "{message}"
            );
            assert_eq!(
                receiver.measurements.metrics["messages_corrupted"], 0.0,
                "{message}"
            );
        }
        // Unordered ones are one user message each, also longer than the window of a short path.
        for window in [None, Some(20_000)] {
            let pair = testing::run_pair(&Unordered::of("sctp"), 2_560_000, 256_000, |order| {
                order.path.link_rate_bps = window.map(|_| 100_000_000);
                order.path.window_bytes = window;
            })
            .expect("both ends can be prepared");
            pair.sender.expect("a report");
            let metrics = pair.receiver.expect("a report").measurements.metrics;
            assert_eq!(metrics["messages_delivered"], 10.0, "{window:?}");
            assert_eq!(metrics["messages_corrupted"], 0.0, "{window:?}");
        }
    }

    /// Checks the warning about a window that is too small for the path.
    #[test]
    fn window_below_the_path_is_warned_about() {
        if !is_here("window_below_the_path_is_warned_about") {
            return;
        }
        let pair = testing::run_pair(driver("sctp"), 100_000, 10_000, |order| {
            order.path.link_rate_bps = Some(1_000_000_000);
            order.path.round_trip_delay = Duration::from_millis(100);
            let window = ("receive_window".to_owned(), text("1MB"));
            order.transport.options.extend([window]);
        })
        .expect("both ends can be prepared");
        for report in [pair.sender, pair.receiver] {
            let warnings = report.expect("a report").measurements.warnings;
            assert!(
                warnings.iter().any(|one| one.code == "window_limited"),
                "{warnings:?}"
            );
        }
    }
}
