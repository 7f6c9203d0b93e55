//! Hosts behind firewalls: the ports of the hosts file, and the diagnosis of those that are blocked.

use std::fs;

use super::{CLEANUP_TIMEOUT, Lab, assert_fails, eventually, succeeds, text};

/// Lets in SSH, and TCP and UDP to these ports; nothing else that was not asked for from inside.
fn wall(ports: &str) -> String {
    format!(
        "iptables -P INPUT DROP
         iptables -A INPUT -i lo -j ACCEPT
         iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
         iptables -A INPUT -p tcp --dport 22 -j ACCEPT
         for protocol in tcp udp; do iptables -A INPUT -p $protocol --dport {ports} -j ACCEPT; done"
    )
}

impl Lab {
    /// Adds both hosts, each with these ports.
    fn add_with_ports(&self, ports: &str) {
        for name in ["a", "b"] {
            let more = ["--accept-new", "--ports", ports];
            succeeds(&self.add(name, &self.password, &more));
        }
    }
}

/// Every driver that this kernel has, over hosts that let in eleven ports: eight for the connections of WDT, one for
/// the probe messages, one for the path check, one that is taken.
#[test]
fn every_driver_uses_only_the_open_ports() {
    let Some(lab) = Lab::start() else { return };
    lab.add_with_ports("5200-5210");
    for host in ["a", "b"] {
        lab.on_host(host, &wall("5200:5210"));
    }
    let transports = "tcp:cc=reno,tcp-tls:cc=reno,mptcp:cc=reno,udp,udp-reliable,quic-quinn,quic-noq,quic-quiche,quic-s2n,sctp-userspace,wdt:connections=8:cc=reno";
    let mut race = lab.regatta(&["run", "--hosts", "a,b", "--out", "out", "--no-progress"]);
    race.args([
        "--transport",
        transports,
        "--size",
        "300kB",
        "--rounds",
        "2",
    ]);
    let run = race.output().expect("a run");
    succeeds(&run);
    let csv = fs::read_to_string(lab.bench.path("out/trials.csv")).expect("trials");
    let measured = csv
        .lines()
        .filter(|line| line.contains(",measured,"))
        .count();
    assert_eq!(measured, 22, "{csv}\n{}", text(&run));
}

#[test]
fn check_reports_blocked_ports_and_their_direction() {
    let Some(lab) = Lab::start() else { return };
    lab.add_with_ports("5200-5203");
    lab.on_host("b", &wall("5200:5201"));
    let check = lab.run(&["hosts", "check", "a,b"]);
    for expected in [
        "TCP from `a` to `b`, port 5200-5201: open\nTCP from `a` to `b`, port 5202-5203: blocked: nothing arrives",
        "UDP from `a` to `b`, port 5200-5201: open\nUDP from `a` to `b`, port 5202-5203: blocked: nothing arrives",
        "TCP from `b` to `a`, port 5200-5203: open",
        "UDP from `b` to `a`, port 5200-5203: open",
        "for packets between 10.98.3.1 and 10.98.3.2",
    ] {
        assert_fails(&check, expected);
    }
}

#[test]
fn check_finds_blocked_replies() {
    let Some(lab) = Lab::start() else { return };
    lab.add_with_ports("5200-5203");
    lab.on_host("b", "iptables -A OUTPUT -p udp --sport 5202 -j DROP");
    let check = lab.run(&["hosts", "check", "a,b"]);
    assert_fails(&check, "UDP from `a` to `b`, port 5200-5201, 5203: open");
    assert_fails(
        &check,
        "UDP from `a` to `b`, port 5202: half open: packets arrive",
    );
}

#[test]
fn check_of_an_open_path_reports_delay_losses_and_clocks() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let check = lab.run(&["hosts", "check", "a,b"]);
    succeeds(&check);
    let output = text(&check);
    for expected in [
        "Host `a` is reached in",
        "Host `b` is reached in",
        "tried for any port: open",
        "Round-trip delay: 0.",
        "Loss there: 0.00 %",
        "Loss back: 0.00 %",
        "Clock of the second host less that of the first: ",
    ] {
        assert!(output.contains(expected), "{output}");
    }
}

#[test]
fn blocked_file_transfer_removes_its_files() {
    let Some(lab) = Lab::start() else { return };
    lab.add_with_ports("5200-5207");
    lab.on_host(
        "a",
        "iptables -A INPUT -p tcp --dport 5200:5207 -j REJECT --reject-with tcp-reset",
    );
    lab.bench.write("file", "content");
    let sent = lab.run(&["wdt", "send", "file", "a:incoming", "--no-progress"]);
    assert!(!sent.status.success());
    let output = text(&sent);
    assert!(
        output.contains("the transfer did not come to its end"),
        "{output}"
    );
    eventually(CLEANUP_TIMEOUT, "nothing is left on the hosts", || {
        lab.on_hosts().is_empty()
    });
    let remaining: Vec<_> = fs::read_dir(lab.home("a").join("incoming"))
        .expect("a directory")
        .collect();
    assert!(remaining.is_empty(), "{remaining:?}");
}
