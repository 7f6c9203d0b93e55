//! Tests of hosts that are shaped on macvlans: two network namespaces of a guest, joined by an Ethernet, are in the
//! place of two machines.

use std::fs;

use regatta_bed::{
    Bed, Host, TestBed as _,
    hosts::{HostEnd, Shaping},
};
use regatta_test_support::guest::{Clock, in_shared_guest};

use super::{
    NETEM,
    common::{Agent, condition, delays, explain},
    machines::{Machine, check_shaping},
};

fn is_here(case: &str) -> bool {
    in_shared_guest("netem::macvlan", case, Clock::Real)
}

/// Returns two machines on one Ethernet, and a bed of them with netem on macvlans.
fn shaped() -> ([Machine; 2], Bed) {
    let machines = [Machine::start(), Machine::start()];
    machines[0].run(
        "ip",
        &format!(
            "link add e0 type veth peer name e0 netns {}\nlink set e0 up",
            machines[1].netns()
        ),
    );
    machines[1].run("ip", "link set e0 up");
    let end = |name: &str, address: &str, machine: &Machine| HostEnd {
        name: name.into(),
        address: address.parse().expect("an address"),
        ports: None,
        environment: Vec::new(),
        shaping: Shaping::Macvlan {
            parent: "e0".into(),
            prefix: 24,
        },
        connect: machine.enter(),
    };
    let ends = [
        end("one", "198.18.0.1", &machines[0]),
        end("two", "198.18.0.2", &machines[1]),
    ];
    let bed = Bed::of_hosts(ends, NETEM, &[], "run").unwrap_or_else(|e| panic!("{}", explain(&e)));
    (machines, bed)
}

#[test]
fn delay_loss_and_rate_are_those_of_the_condition() {
    if !is_here("delay_loss_and_rate_are_those_of_the_condition") {
        return;
    }
    let (_machines, mut bed) = shaped();
    let description = bed.description();
    assert!(
        description.starts_with("hosts, netem on a macvlan at both ends"),
        "{description}"
    );
    check_shaping(&mut bed);
}

#[test]
fn agents_run_behind_the_macvlans() {
    if !is_here("agents_run_behind_the_macvlans") {
        return;
    }
    let (_machines, mut bed) = shaped();
    bed.set_condition(&condition(10, 0, 0.0), 1)
        .expect("a condition");
    let mut b = Agent::start(&mut bed, Host::Server);
    let port = b.listen("echo").port();
    let mut a = Agent::start(&mut bed, Host::Client);
    a.send(&format!(
        "ping {}:{port} 5 100 1000",
        bed.address(Host::Server)
    ));
    let delays = delays(&a.receive());
    assert_eq!(delays.len(), 5);
    assert!(
        delays.iter().all(|delay| *delay >= 10_000_000),
        "{delays:?}"
    );
}

#[test]
fn the_interface_is_unchanged_during_and_after() {
    if !is_here("the_interface_is_unchanged_during_and_after") {
        return;
    }
    let (machines, mut bed) = shaped();
    bed.set_condition(&condition(10, 10, 0.1), 1)
        .expect("a condition");
    let interfaces = |machine: &Machine| {
        let table = machine.within(|| fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.expect("a table");
        let mut names: Vec<_> = (table.lines().skip(2))
            .filter_map(|line| Some(line.split_once(':')?.0.trim()))
            .collect();
        names.sort_unstable();
        let disciplines = machine.run("tc", "qdisc show dev e0");
        format!("{}\n{disciplines}", names.join(" "))
    };
    let untouched = "e0 lo\nqdisc noqueue 0: root refcnt 2 \n";
    for machine in &machines {
        assert_eq!(interfaces(machine), untouched);
    }
    // The kernel removes the macvlans with the daemons, which it then no longer shows.
    let peer = machines[0].run("ip", "link show e0");
    drop(bed);
    for machine in &machines {
        assert_eq!(interfaces(machine), untouched);
    }
    assert_eq!(machines[0].run("ip", "link show e0"), peer);
}

#[test]
fn a_missing_interface_is_named() {
    if !is_here("a_missing_interface_is_named") {
        return;
    }
    let machine = Machine::start();
    let end = |address: &str| HostEnd {
        name: "one".into(),
        address: address.parse().expect("an address"),
        ports: None,
        environment: Vec::new(),
        shaping: Shaping::Macvlan {
            parent: "eth7".into(),
            prefix: 24,
        },
        connect: machine.enter(),
    };
    let ends = [end("198.18.0.1"), end("198.18.0.2")];
    let error = Bed::of_hosts(ends, NETEM, &[], "run").expect_err("no interface");
    assert!(
        explain(&error).contains("there is no interface `eth7`"),
        "{}",
        explain(&error)
    );
    assert!(error.hint().contains("`parent`"), "{}", error.hint());
}
