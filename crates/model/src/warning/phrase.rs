//! Parts of warnings with arguments of their own: one template each, and the function that fills it in.

use std::time::Duration;

use super::{
    template::{Argument, Phrase, phrases},
    text::Text,
};
use crate::units::{BitRate, Bytes, QueueSize, Ratio};

phrases! {
    PHRASES "Parts of warnings, and settings of a path.":

    sender() = "sender";
    receiver() = "receiver";
    host_of(side: Phrase) = "the host of the {side}";
    named_host(name: &str) = "host `{name}`";

    run_has_rounds(rounds: u64, all: u64) = "the run has {rounds} of the study's {all} rounds";
    trials_have_volume(part: Ratio) = "each trial has {part} of its volume";
    swept_volumes_are_whole() = "volumes that a sweep varies are whole, so that the run takes a larger part of the study's time";
    path_may_change_later() = "a transfer may end before its path has made all its changes";

    amount(bytes: Bytes) = "{bytes}";
    part_of(bytes: Bytes, all: Bytes) = "{bytes} of {all}";
    all_of_it(all: Bytes) = "all {all}, which the sender did not know yet";
    connections_done(done: u64, all: u64) = "the {done} of {all} connections that were done";
    shorter_duration() = "a shorter `{--duration}`";
    smaller_size() = "a smaller `{--size}`";
    shorter_script() = "a shorter script";
    fewer(option: Argument) = "fewer `{option}`";

    rate(rate: BitRate) = "{rate}";
    rate_of_ethernet(rate: BitRate) = "{rate} of Ethernet";
    rate_of_trace(trace: &str, mean: BitRate) = "trace `{trace}`, {mean} on average";
    unlimited_rate() = "unlimited";
    bdps(times: &str) = "{times} BDP";
    one_packet() = "1 packet";
    packets(packets: u64) = "{packets} packets";
    jitter_distributed(distribution: &str) = "{distribution} jitter";
    jitter_overtakes() = "jitter lets packets overtake";
    jitter_independent_after(time: Duration) = "jitter independent after {time}";
    jitter_of_each_packet() = "jitter drawn for each packet, in order";
    loss_in_bursts(loss: Ratio) = "{loss} loss in bursts";
    packet_lost(number: u64) = "packet {number} lost";
    packets_lost_by_list(packets: u64) = "{packets} packets lost by list";
    bursts_of(bytes: Bytes) = "bursts of {bytes}";
    codel(target: Duration, interval: Duration) = "CoDel with target {target} and interval {interval}";
    fq_codel(target: Duration, interval: Duration) = "FQ-CoDel with target {target} and interval {interval}";
    pie(target: Duration) = "PIE with target {target}";
    dualpi2(target: Duration) = "DualPI2 with target {target}";
    dualpi2_any_ect(target: Duration) = "DualPI2 with target {target}, of L4S any ECT";
    red(target: Duration) = "RED with target {target}";
    fq_pie(target: Duration) = "FQ-PIE with target {target}";
    cake(target: Duration, interval: Duration) = "CAKE with target {target} and interval {interval}";
    ecn_marks() = "ECN marks";
    ecn_bleached(part: Ratio) = "{part} with a cleared ECN field";
    ecn_remarked(part: Ratio) = "{part} re-marked from ECT(0) to ECT(1)";
    ect_lost(part: Ratio) = "{part} loss of packets with ECT";

    deviation(quantity: &str, achieved: Argument, asked: Argument) = "`{quantity}` was {achieved} instead of {asked}";

    requested_rate() = "the rate that was asked for";
    requested_option(option: Argument) = "the option `{option}`";
    lower_rate_or_idle_machine() = "ask for a lower rate, or leave the machine alone during the run";
    lower_rate() = "ask for a lower rate: the path or the transport allowed no more";
    lower_rate_or_longer() = "ask for a lower rate, or send for longer so that slow start weighs less: the path or the congestion control allowed no more";

    receive_buffers_of_the_receiver() = "raise the last value of `net.ipv4.tcp_rmem` on the receiver with `sysctl -w`";
    larger_stream_window() = "set the transport's option `stream_window` to a larger size";

    clocks_known_to(bound: Duration, delay: Duration) = "the clocks of the hosts are known to ± {bound}, more than a tenth of the median delay of {delay}";
    offset_changed() = "the offset between the clocks of the hosts changed too much during the trial, or could not be read";

    times_leave_out_transfer(part: Duration, all: Duration) = "the times of the sender's program leave out {part} of the {all} that its agent saw from `start` to the end of the transfer";
    times_leave_out_connecting(part: Duration, all: Duration) = "the times of the sender's program leave out {part} of the {all} that its agent saw from `start` to `connected`";
    done_said_late(late: Duration) = "the receiver's program said `done` {late} after the moment for which it counted its bytes";
    answered_too_early(answer: Duration, shortest: Duration) = "the sender's program had an answer after {answer}, and the path takes at least {shortest} there and back";
    acknowledged_too_early(early: Duration, back: Duration) = "the sender's program says that everything was acknowledged {early} before that can have been: the receiver's program stated when it had everything, and the path takes at least {back} back";

    direct_link() = "netns, direct link";
    loopback() = "netns, loopback";
    network_of_hosts() = "hosts, path as it is";
    network_to_server(server: &str) = "the network as it is, to the server `{server}`";
    userspace_emulator() = "netns, user-space emulator";
    netem(layout: Phrase, kernel: &str, seeds: Phrase) = "{layout} (Linux {kernel}, {seeds})";
    netem_between_hosts() = "netns, netem between the hosts";
    netem_on_both_ends() = "netns, netem on both ends";
    netem_on_guests() = "two guests, netem on both ends";
    netem_on_macvlans() = "hosts, netem on a macvlan at both ends";
    netem_on_interfaces() = "hosts, netem on an interface of both";
    where_small_queues_meet_it(layout: Phrase) = "{layout}, where TCP's small queues meet it";
    loss_by_iptables(layout: Phrase) = "{layout}, loss by iptables";
    offloads_on(layout: Phrase) = "{layout}, offloads on";
    seeded() = "seeded";
    not_seeded() = "not seeded";
    in_virtual_time(kernel: &str, bed: Text) = "uml, Linux {kernel}, virtual time: {bed}";
    in_real_time(kernel: &str, bed: Text) = "uml, Linux {kernel}, real time: {bed}";

    congestion_control_of(transport: &str, control: &str) = "`{transport}` {control}";
    handshakes(count: u64, handshake: &str) = "{count} `{handshake}`";

    fact_on_nodes(fact: &str, side: Phrase, value: &str, nodes: Vec<String>) = "`{fact}` of the {side} is `{value}` on {nodes}";
    build(version: &str, commit: &str, changed: &str, profile: &str) = "Regatta {version} (commit {commit}, changed: {changed}, profile {profile})";
}

/// Returns the phrase for the limit of a queue in bytes or packets.
#[must_use]
pub fn queue_limit(limit: QueueSize) -> Phrase {
    match limit {
        QueueSize::Bytes(bytes) => amount(bytes),
        QueueSize::Packets(1) => one_packet(),
        QueueSize::Packets(count) => packets(count),
        QueueSize::Bdps(times) => bdps(&times.to_string()),
    }
}

/// Returns the phrase for one end, by its name: `sender` or `receiver`.
#[must_use]
pub fn side(name: &str) -> Phrase {
    match name {
        "receiver" => receiver(),
        _ => sender(),
    }
}
