//! Comparison of both emulators with each other and with theory, in guests of virtual time: tests
//! that the findings hold which `make cross-check` writes into docs/emulators.md.

use std::process::{Command, Output};

use regatta_test_support::guest::{Clock, in_shared_guest};

use crate::common;

fn host_program(arguments: &[&str]) -> Output {
    Command::new(common::executable())
        .arg("emulators")
        .args(arguments)
        .output()
        .expect("the host program runs")
}

/// Runs one case of the host program in a guest.
fn holds(what: &str, case: &str) {
    let output = host_program(&[what, "--only", case]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    println!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "see the lines `differs: …`");
    assert!(stdout.contains("user space"), "there are tables");
}

/// Makes one test for each case of the host program: a test's name, and the case's.
macro_rules! cases {
    ($what:ident: $($test:ident($case:literal))+) => {
        mod $what {
            use super::*;

            $(
                #[test]
                fn $test() {
                    let what = stringify!($what);
                    let module = format!("emulators::{what}");
                    if in_shared_guest(&module, stringify!($test), Clock::Virtual) {
                        holds(what, $case);
                    }
                }
            )+

            /// Cases that have a test.
            pub const CASES: &[&str] = &[$($case),+];
        }
    };
}

// Netem and the user-space emulator agree.
cases! { compare:
    plain_at_80_percent("15 ms, 100 Mbit/s at 80 %")
    jitter_that_keeps_the_order("15 ms ± 5 ms, order kept")
    uniform_jitter("50 ms ± 5 ms")
    normal_jitter("50 ms, normal with 5 ms")
    pareto_jitter("50 ms, Pareto with 5 ms")
    independent_loss("5 % loss")
    loss_in_bursts("3.2 % loss in bursts of 3")
    reordering("10 % reordered")
    duplication_and_corruption("2 % twice, 1 % corrupted")
    a_full_queue_of_bytes("queue of 50 kB, 125 % load")
    a_full_queue_of_packets("queue of 50 packets, burst of 15 kB, 1 % loss, 125 % load")
    codel("CoDel, 105 % load")
}

// The kernel's disciplines and those in user space agree, and DualPI2 has the shares of theory.
cases! { queues:
    codel("CoDel")
    codel_with_ecn("CoDel, ECN")
    pie("PIE")
    pie_with_ecn("PIE, ECN")
    fq_codel("FQ-CoDel")
    fq_codel_with_ecn("FQ-CoDel, ECN")
    red("RED")
    red_with_ecn("RED, ECN")
    dualpi2_at_5_ms("DualPI2, 5 ms")
    dualpi2_at_15_ms("DualPI2, 15 ms")
}

// Losses, queues and TCP are as theory says.
cases! { theory:
    loss_of_0_1_percent("loss of 0.1 %")
    loss_of_1_percent("loss of 1 %")
    loss_of_5_percent("loss of 5 %")
    loss_of_30_percent("loss of 30 %")
    a_queue_of_20_kb_at_1_mbit("queue of 20 kB at 1 Mbit/s")
    a_queue_of_50_kb_at_10_mbit("queue of 50 kB at 10 Mbit/s")
    a_queue_of_50_packets_at_10_mbit("queue of 50 packets at 10 Mbit/s")
    a_queue_of_1250_kb_at_100_mbit("queue of 1.25 MB at 100 Mbit/s")
    reno_at_0_5_percent("reno, 0.5 % loss, independent, 50 ms")
    reno_at_0_2_percent("reno, 0.2 % loss, independent, 50 ms")
    cubic_at_0_1_percent("cubic, 0.1 % loss, independent, 300 ms")
    cubic_at_even_losses("cubic, 0.03 % loss, every 1/p-th, 300 ms")
}

#[track_caller]
fn have_tests(what: &str, tested: &[&str]) {
    let output = host_program(&["cases", what]);
    assert!(output.status.success(), "{output:?}");
    let cases = String::from_utf8_lossy(&output.stdout);
    assert_eq!(cases.lines().collect::<Vec<_>>(), tested);
}

#[test]
fn every_condition_and_every_part_of_theory_has_its_test() {
    have_tests("compare", compare::CASES);
    have_tests("queues", queues::CASES);
    have_tests("theory", theory::CASES);
}
