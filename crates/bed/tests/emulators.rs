//! Both emulators against each other and against theory, in guests of virtual time: what
//! `make cross-check` writes into docs/emulators.md holds. Each takes one to two minutes, of which
//! the machine is busy with one core.

mod common;

use std::process::Command;

#[track_caller]
fn holds(what: &str) {
    let output = Command::new(common::executable())
        .args(["emulators", what])
        .output()
        .expect("the host program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "see the lines `differs: …`");
    assert!(said.contains("| user space |"), "there are tables");
}

#[test]
fn netem_and_the_user_space_emulator_agree_under_twelve_conditions() {
    holds("compare");
}

#[test]
fn losses_queues_and_tcp_are_what_theory_says() {
    holds("theory");
}
