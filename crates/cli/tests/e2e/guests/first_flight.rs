//! Packet size of the first flight, as the stacks state it and as a capture has it.

use std::ops::ControlFlow;

use regatta_bed::capture::read;

use super::virtual_time::head;
use crate::help::{assert_ran, run_study, trials};
use regatta_test_support::test_run::once_per_test_run;

/// Transports: label, driver, and whether the stack searches for the packet size.
const TRANSPORTS: &[(&str, &str, bool)] = &[
    ("quinn", "quic-quinn", false),
    ("quinn-searching", "quic-quinn", true),
    ("noq", "quic-noq", false),
    ("quiche", "quic-quiche", false),
    ("s2n", "quic-s2n", false),
    ("s2n-searching", "quic-s2n", true),
];

/// Checks the fact of a transport against the packets that leave before the first answer.
#[track_caller]
fn assert_first_flight(label: &str, stated: &str) {
    let mut study = head("first-flight") + "capture = \"headers\"\n";
    for (label, driver, searches) in TRANSPORTS {
        study += &format!("[[transport]]\nlabel = \"{label}\"\ndriver = \"{driver}\"\n");
        study += &format!("mtu_discovery = {searches}\n");
    }
    study += "[[condition]]\nname = \"c\"\nrtt = \"20ms\"\nrate = \"100Mbit/s\"\n\
              [[workload]]\nname = \"bulk\"\nkind = \"bulk\"\nsize = \"20kB\"\n\
              [workload.probe]\nidle_messages = 0\nunder_load = false\n";
    once_per_test_run(
        "cli-first-flight",
        |dir| run_study(dir, &study),
        |dir| {
            let out = dir.join("out");
            let trials = trials(&out);
            let trial = trials.iter().find(|it| it.transport == label);
            let trial = trial.expect("a trial");
            assert_ran(trial);
            let facts = &trial.measurements.facts;
            assert_eq!(facts["first_flight.sender"], stated);
            let mut largest = 0;
            read(&out.join(&*facts["capture_file"]), |packet| {
                if !packet.forward {
                    return ControlFlow::Break(());
                }
                largest = largest.max(packet.size);
                ControlFlow::Continue(())
            })
            .expect("a capture");
            assert_eq!(format!("{largest} B"), stated);
        },
    );
}

/// Makes a test for each transport.
macro_rules! first_flights {
    ($($name:ident: $label:literal, $stated:literal;)+) => {
        $(#[test]
        fn $name() {
            assert_first_flight($label, $stated);
        })+
    };
}

first_flights! {
    quinn_pads_to_the_packet_size: "quinn", "1500 B";
    quinn_pads_to_the_size_from_which_it_searches: "quinn-searching", "1228 B";
    noq_pads_to_the_least_size: "noq", "1228 B";
    quiche_pads_to_the_least_size: "quiche", "1228 B";
    s2n_pads_to_the_packet_size: "s2n", "1500 B";
    s2n_pads_to_the_size_from_which_it_searches: "s2n-searching", "1228 B";
}
