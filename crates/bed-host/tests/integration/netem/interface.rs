//! Tests of hosts that are shaped on an interface of their own: two network namespaces of a guest, joined by an
//! Ethernet, are in the place of two machines.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use nix::{
    net::if_::if_nametoindex,
    sys::{
        signal::{Signal, kill},
        socket::{
            AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
            socket,
        },
    },
    unistd::Pid,
};
use regatta_bed::{
    Bed, BedError, Host, TestBed as _,
    hosts::{HostEnd, Shaping},
};
use regatta_model::PathCheck;
use regatta_process::{StopRequest, descendants};
use regatta_test_support::guest::{Clock, in_shared_guest};

use super::{
    NETEM,
    common::{Agent, check_path, condition, delays, explain, quantity},
    machines::{Machine, check_shaping},
};

/// Time after which an interface is restored whatever has happened.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(15);

/// Port that stands for that of SSH.
const SSH_PORT: u16 = 2222;

fn is_here(case: &str) -> bool {
    in_shared_guest("netem::interface", case, Clock::Virtual)
}

/// Returns two machines on one Ethernet, each with an address of the path and another one.
fn machines() -> [Machine; 2] {
    let machines = [Machine::start(), Machine::start()];
    machines[0].run(
        "ip",
        &format!(
            "link add e0 type veth peer name e0 netns {}",
            machines[1].netns()
        ),
    );
    for (machine, [own, other, theirs]) in machines.iter().zip([[1, 3, 4], [2, 4, 3]]) {
        machine.run(
            "ip",
            &format!(
                "link set lo up\nlink set e0 up\naddr add 10.7.0.{own}/24 dev e0\naddr add 10.7.0.{other}/24 dev e0\n\
                 route add 10.7.0.{theirs}/32 dev e0 src 10.7.0.{other}"
            ),
        );
    }
    machines
}

/// Shapes the interface `interface` of both machines.
fn shape(machines: &[Machine; 2], interface: &str) -> Result<Bed, BedError> {
    shape_between(["10.7.0.1", "10.7.0.2"], machines, interface)
}

/// Shapes the interface `interface` of both machines for packets between these addresses.
fn shape_between(
    addresses: [&str; 2],
    machines: &[Machine; 2],
    interface: &str,
) -> Result<Bed, BedError> {
    let end = |name: &str, address: &str, machine: &Machine| HostEnd {
        name: name.into(),
        address: address.parse().expect("an address"),
        ports: None,
        environment: Vec::new(),
        shaping: Shaping::Interface {
            name: interface.into(),
            ssh_ports: vec![SSH_PORT],
        },
        connect: machine.enter(),
    };
    let ends = [
        end("one", addresses[0], &machines[0]),
        end("two", addresses[1], &machines[1]),
    ];
    Bed::of_hosts(ends, NETEM, &[], "run")
}

#[track_caller]
fn shaped(machines: &[Machine; 2]) -> Bed {
    let mut bed = shape(machines, "e0").unwrap_or_else(|e| panic!("{}", explain(&e)));
    bed.set_condition(&condition(80, 0, 0.0), 1)
        .unwrap_or_else(|e| panic!("{}", explain(&e)));
    bed
}

/// Disciplines and filters of an interface.
type Shown = [Vec<Vec<u8>>; 2];

/// `RTM_GETQDISC` and `RTM_GETTFILTER`.
const DISCIPLINES: u16 = 38;
const FILTERS: u16 = 46;

/// Returns the disciplines and the filters of a machine's interface `e0` as the kernel shows them: of each discipline
/// index, handle and parent, kind and options; of each filter the same with the class instead of the options.
fn shown(machine: &Machine) -> Shown {
    machine.within(|| {
        let index = if_nametoindex("e0").expect("an index");
        [DISCIPLINES, FILTERS].map(|request| dump(request, index))
    })
}

fn dump(kind: u16, index: u32) -> Vec<Vec<u8>> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::empty(),
        SockProtocol::NetlinkRoute,
    )
    .expect("a socket");
    // `struct nlmsghdr` with `NLM_F_REQUEST | NLM_F_DUMP`, and `struct tcmsg`.
    let mut request = 36u32.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(0x301u16.to_ne_bytes());
    request.resize(20, 0);
    request.extend(index.to_ne_bytes());
    request.resize(36, 0);
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    let kernel = NetlinkAddr::new(0, 0);
    sendto(fd, &request, &kernel, MsgFlags::empty()).expect("a request");
    let mut found = Vec::new();
    loop {
        let mut bytes = vec![0; 1 << 16];
        let length = recv(fd, &mut bytes, MsgFlags::empty()).expect("an answer");
        let mut rest = &bytes[..length];
        while let Some(head) = rest.get(..16) {
            let length = u32::from_ne_bytes(head[..4].try_into().expect("four")) as usize;
            let answer = u16::from_ne_bytes(head[4..6].try_into().expect("two"));
            assert_ne!(answer, 2, "the kernel refuses");
            if answer == 3 {
                return found;
            }
            let message = &rest[16..length];
            if message[4..8] == index.to_ne_bytes() {
                // Not the counters, which come after kind and options of a discipline, and in those of a filter.
                let mut shown = message[4..16].to_vec();
                for (number, attribute) in attributes(&message[20..]) {
                    match (number, kind) {
                        (1, _) | (2, DISCIPLINES) => shown.extend(attribute),
                        (2, _) => {
                            let inside = attributes(&attribute[4..]);
                            let class = inside.into_iter().filter(|(number, _)| *number == 1);
                            shown.extend(class.flat_map(|(_, class)| class));
                        }
                        _ => {}
                    }
                }
                found.push(shown);
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Returns the number of each attribute, and the attribute with its head.
fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some(head) = bytes.get(..4) {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        found.push((u16::from_ne_bytes([head[2], head[3]]), &bytes[..length]));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// Waits until the interfaces of both machines show `before`.
#[track_caller]
fn restored(machines: &[Machine], before: &[Shown]) {
    let until = Instant::now() + RESTORE_TIMEOUT;
    for (machine, before) in machines.iter().zip(before) {
        while shown(machine) != *before {
            assert!(
                Instant::now() < until,
                "{}",
                machine.run("tc", "qdisc show dev e0")
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Waits until no record of an interface is left.
#[track_caller]
fn no_record() {
    let until = Instant::now() + RESTORE_TIMEOUT;
    let records = || -> Vec<_> {
        let entries = fs::read_dir("/run/regatta/interfaces")
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| fs::read_to_string(entry.path()))
            .collect()
    };
    while !records().is_empty() {
        assert!(Instant::now() < until, "{:?}", records());
        thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the processes of this test that are Regatta with the first argument `command`, in the order in which they
/// were started.
fn processes(command: &str) -> Vec<Pid> {
    let mut found = descendants(Pid::this().as_raw());
    found.retain(|process| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
    });
    found.sort_unstable();
    found.into_iter().map(Pid::from_raw).collect()
}

#[test]
fn delay_loss_and_rate_are_those_of_the_condition() {
    if !is_here("delay_loss_and_rate_are_those_of_the_condition") {
        return;
    }
    let machines = machines();
    let mut bed = shape(&machines, "e0").unwrap_or_else(|e| panic!("{}", explain(&e)));
    let description = bed.description();
    assert!(
        description.starts_with("hosts, netem on an interface of both"),
        "{description}"
    );
    check_shaping(&mut bed);
}

#[test]
fn addresses_of_ipv6_are_shaped() {
    if !is_here("addresses_of_ipv6_are_shaped") {
        return;
    }
    let machines = machines();
    for (machine, address) in machines.iter().zip(["fd07::1", "fd07::2"]) {
        machine.run("ip", &format!("addr add {address}/64 dev e0 nodad"));
    }
    // An interface that is new takes no part in neighbour discovery for a second.
    let others = [(&machines[1], "fd07::2"), (&machines[0], "fd07::1")];
    for (machine, (other, address)) in machines.iter().zip(others) {
        let link = other.run("ip", "link show e0");
        let fields: Vec<&str> = link.split_ascii_whitespace().collect();
        let ethernet = fields
            .iter()
            .skip_while(|field| **field != "link/ether")
            .nth(1);
        let ethernet = ethernet.expect(&link);
        machine.run(
            "ip",
            &format!("neigh add {address} lladdr {ethernet} nud permanent dev e0"),
        );
    }
    let bed = shape_between(["fd07::1", "fd07::2"], &machines, "e0");
    let mut bed = bed.unwrap_or_else(|e| panic!("{}", explain(&e)));
    let is_shaped = |check: &PathCheck| {
        // No packet may have come back.
        let achieved = |name: &str| quantity(check, name).map_or(f64::NAN, |it| it.achieved);
        // Twice as many are lost of packets that are sent in two fragments.
        let losses = ["forward_loss_ratio", "reverse_loss_ratio"].map(achieved);
        (40e6..80e6).contains(&achieved("round_trip_delay_mean_ns"))
            && losses.iter().all(|loss| (0.005..0.09).contains(loss))
    };
    let Some((check, _)) = check_path(&mut bed, &condition(40, 20, 0.05), |check, _| {
        is_shaped(check)
    }) else {
        return;
    };
    assert!(is_shaped(&check), "{check:?}");
}

/// The interfaces of the machines hand over up to 64 KiB at once.
#[test]
fn netem_acts_on_packets_of_the_wire() {
    if !is_here("netem_acts_on_packets_of_the_wire") {
        return;
    }
    let machines = machines();
    let mut bed = shaped(&machines);
    let mut b = Agent::start(&mut bed, Host::Server);
    let peer = b.listen("listen");
    let mut a = Agent::start(&mut bed, Host::Client);
    // As long as it takes to look; it is killed then.
    a.send(&format!("send {peer} 120 cubic"));
    // What waits in netem: the kernel counts the packets that left by what they become on the wire.
    let until = Instant::now() + Duration::from_secs(60);
    let [bytes, packets] = loop {
        let shown = machines[0].run("tc -s -j", "qdisc show dev e0 parent 7e9b:1");
        let number = |name: &str| -> u64 {
            let rest = shown.split(&format!("\"{name}\":")).nth(1).expect(&shown);
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            digits.and_then(|digits| digits.parse().ok()).expect(&shown)
        };
        let waiting = ["backlog", "qlen"].map(number);
        if waiting[1] >= 20 {
            break waiting;
        }
        assert!(Instant::now() < until, "nothing waits: {shown}");
        thread::sleep(Duration::from_millis(10));
    };
    assert!(
        bytes / packets <= 1518,
        "{bytes} bytes in {packets} packets"
    );
}

#[test]
fn other_addresses_of_the_wire_are_not_shaped() {
    if !is_here("other_addresses_of_the_wire_are_not_shaped") {
        return;
    }
    let machines = machines();
    let mut bed = shaped(&machines);
    let mut b = Agent::start(&mut bed, Host::Server);
    let port = b.listen("echo").port();
    let mut a = Agent::start(&mut bed, Host::Client);
    let mut least = |address: &str| -> u64 {
        a.send(&format!("ping {address}:{port} 5 100 1000"));
        delays(&a.receive()).into_iter().min().expect("five")
    };
    assert!(least("10.7.0.2") >= 80_000_000);
    let other = least("10.7.0.4");
    assert!(other < 40_000_000, "{other}");
}

#[test]
fn ssh_between_the_same_addresses_is_not_shaped() {
    if !is_here("ssh_between_the_same_addresses_is_not_shaped") {
        return;
    }
    let machines = machines();
    let _bed = shaped(&machines);
    let least = |port: u16| -> Duration {
        let address = SocketAddr::from(([10, 7, 0, 2], port));
        let _listening = machines[1].within(|| TcpListener::bind(address).expect("a port"));
        let connect = || {
            let begun = Instant::now();
            TcpStream::connect(address).expect("a connection");
            begun.elapsed()
        };
        machines[0].within(|| (0..5).map(|_| connect()).min().expect("five"))
    };
    assert!(least(SSH_PORT + 1) >= Duration::from_millis(80));
    let ssh = least(SSH_PORT);
    assert!(ssh < Duration::from_millis(40), "{ssh:?}");
}

/// Gives the interfaces a discipline with `tc` and expects exactly that after a bed.
fn is_found_again(discipline: &str) {
    let machines = machines();
    for machine in &machines {
        let replaced = format!("qdisc replace dev e0 root {discipline}\n");
        let replaced = if discipline.is_empty() { "" } else { &replaced };
        // The other one is for arriving packets, and nobody's business.
        machine.run("tc", &format!("{replaced}qdisc add dev e0 ingress"));
    }
    let before = machines.each_ref().map(shown);
    let bed = shaped(&machines);
    assert_ne!(shown(&machines[0]), before[0]);
    drop(bed);
    restored(&machines, &before);
}

cases! {
    is_found_again:
    none("")
    pfifo("handle 5: pfifo limit 77")
    bfifo("bfifo limit 123456")
    pfifo_fast("pfifo_fast")
    fq("fq limit 5000 flow_limit 50 maxrate 1gbit")
    fq_codel("handle 8001: fq_codel limit 700 target 7ms interval 123ms noecn")
    fq_codel_of_defaults("fq_codel ce_threshold 3ms")
    codel("codel target 3ms interval 70ms ecn")
    sfq("sfq perturb 10 limit 100")
    tbf("handle abcd: tbf rate 300mbit burst 100k latency 50ms peakrate 400mbit mtu 3000")
}

/// Expects that interfaces with this number of queues, whose disciplines the kernel has attached, are restored.
fn of_the_kernel_is_found_again(queues: u32) {
    let machines = [Machine::start(), Machine::start()];
    for (machine, own) in machines.iter().zip([1, 2]) {
        machine.run(
            "ip",
            &format!(
                "link add e0 numtxqueues {queues} type ifb\nlink set e0 up\naddr add 10.7.0.{own}/24 dev e0"
            ),
        );
    }
    let before = machines.each_ref().map(shown);
    assert_eq!(
        before[0][0].len() as u32,
        if queues > 1 { queues + 1 } else { 1 }
    );
    drop(shaped(&machines));
    restored(&machines, &before);
}

cases! {
    of_the_kernel_is_found_again:
    one(1)
    four(4)
}

/// Does something to the processes of the first machine, and expects that its interface is restored.
fn is_restored_after(to: &str, signal: Signal) {
    let machines = machines();
    machines[0].run("tc", "qdisc replace dev e0 root fq_codel limit 700");
    let before = machines.each_ref().map(shown);
    let bed = shaped(&machines);
    let process = *processes(to).first().expect("a process");
    assert_ne!(shown(&machines[0]), before[0]);
    kill(process, signal).expect("a process");
    restored(&machines[..1], &before);
    // The other one is restored by the end of the bed.
    drop(bed);
    restored(&machines, &before);
    no_record();
}

cases! {
    is_restored_after:
    the_daemon_is_killed("path-daemon", Signal::SIGKILL)
    the_daemon_is_terminated("path-daemon", Signal::SIGTERM)
    the_daemon_is_stopped("path-daemon", Signal::SIGSTOP)
    the_guard_is_killed("interface-guard", Signal::SIGKILL)
    the_server_is_killed("host-server", Signal::SIGKILL)
    the_server_is_stopped("host-server", Signal::SIGSTOP)
}

#[test]
fn a_host_that_was_lost_is_shaped_again() {
    if !is_here("a_host_that_was_lost_is_shaped_again") {
        return;
    }
    let machines = machines();
    let before = machines.each_ref().map(shown);
    let mut bed = shaped(&machines);
    kill(processes("host-server")[0], Signal::SIGKILL).expect("a process");
    bed.counters().expect_err("a host is lost");
    let restored_bed = bed.restore(&StopRequest::default());
    assert!(restored_bed.unwrap_or_else(|e| panic!("{}", explain(&e))));
    bed.set_condition(&condition(80, 0, 0.0), 2)
        .unwrap_or_else(|e| panic!("{}", explain(&e)));
    assert_ne!(shown(&machines[0]), before[0]);
    drop(bed);
    restored(&machines, &before);
}

/// The session ends while the daemon is stopped: what is left is killed, but not the guard at its work.
#[test]
fn the_end_of_a_session_with_a_stopped_daemon_restores() {
    if !is_here("the_end_of_a_session_with_a_stopped_daemon_restores") {
        return;
    }
    let machines = machines();
    let before = machines.each_ref().map(shown);
    let bed = shaped(&machines);
    kill(processes("path-daemon")[0], Signal::SIGSTOP).expect("a process");
    drop(bed);
    restored(&machines, &before);
}

#[test]
fn a_shaped_interface_is_restored_by_the_next_run() {
    if !is_here("a_shaped_interface_is_restored_by_the_next_run") {
        return;
    }
    let machines = machines();
    machines[0].run("tc", "qdisc replace dev e0 root handle 9: fq limit 700");
    let before = machines.each_ref().map(shown);
    let bed = shaped(&machines);
    let guards = processes("interface-guard");
    // Stopped first, so that neither sees the end of the other.
    for process in [guards[0], processes("path-daemon")[0]] {
        kill(process, Signal::SIGSTOP).expect("a process");
    }
    for process in [guards[0], processes("path-daemon")[0]] {
        kill(process, Signal::SIGKILL).expect("a process");
    }
    drop(bed);
    restored(&machines[1..], &before[1..]);
    assert_ne!(shown(&machines[0]), before[0]);
    drop(shaped(&machines));
    restored(&machines, &before);
}

/// Prepares the interface of the first machine with commands of `tc` or `ip` and expects that the bed is refused for a reason, with
/// the interface as it was.
fn is_refused((program, commands): (&str, &str), interface: &str, reason: &str) {
    let machines = machines();
    machines[0].run(program, commands);
    let before = machines.each_ref().map(shown);
    let error = shape(&machines, interface).expect_err("a reason");
    let message = explain(&error);
    assert!(message.contains(reason), "{message}");
    assert!(!error.hint().is_empty(), "{message}");
    assert_eq!(machines.each_ref().map(shown), before);
    assert_eq!(processes("interface-guard"), []);
    no_record();
}

cases! {
    is_refused:
    classes(
        ("tc", "qdisc add dev e0 root handle 1: htb default 10\nclass add dev e0 parent 1: classid 1:10 htb rate 10mbit"),
        "e0",
        "the queueing discipline `htb` of `e0` could not be restored exactly: only bfifo",
    )
    a_discipline_inside(
        ("tc", "qdisc add dev e0 root handle 1: tbf rate 1gbit burst 100k latency 50ms\nqdisc add dev e0 parent 1:1 codel"),
        "e0",
        "there are disciplines inside of it",
    )
    filters(
        ("tc", "qdisc add dev e0 root handle 1: fq_codel\nfilter add dev e0 parent 1: matchall classid 1:1"),
        "e0",
        "it has filters",
    )
    a_table_of_sizes(
        ("tc", "qdisc add dev e0 root stab overhead 20 linklayer ethernet pfifo limit 10"),
        "e0",
        "it has a table of sizes",
    )
    a_shaper_of_somebody_else(
        ("tc", "qdisc add dev e0 root handle 7e9a: prio"),
        "e0",
        "no record of its queueing discipline",
    )
    another_route(("ip", "link add e1 type veth\nlink set e1 up"), "e1", "do not leave by `e1`")
    no_interface(("ip", ""), "e7", "there is no interface `e7`")
}

#[test]
fn a_second_run_on_the_same_interface_is_refused() {
    if !is_here("a_second_run_on_the_same_interface_is_refused") {
        return;
    }
    let machines = machines();
    let before = machines.each_ref().map(shown);
    let bed = shaped(&machines);
    let during = shown(&machines[0]);
    let error = shape(&machines, "e0").expect_err("a reason");
    assert!(
        explain(&error).contains("another run shapes `e0`"),
        "{}",
        explain(&error)
    );
    assert_eq!(shown(&machines[0]), during);
    drop(bed);
    restored(&machines, &before);
}

#[test]
fn a_condition_with_other_packets_is_refused() {
    if !is_here("a_condition_with_other_packets_is_refused") {
        return;
    }
    let machines = machines();
    let mut bed = shaped(&machines);
    let mut path = condition(20, 0, 0.0);
    path.mtu_bytes = 1400;
    let error = bed.set_condition(&path, 1).expect_err("a reason");
    let message = explain(&error);
    assert!(message.contains("at most 1500 bytes"), "{message}");
}
