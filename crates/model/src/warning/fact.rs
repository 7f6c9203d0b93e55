//! Values of facts about stacks that are more than a name or a number: one template each, and the function that fills it in.

use std::time::Duration;

use super::{
    template::{Argument, Phrase, phrases},
    text::Text,
};
use crate::units::{BitRate, Ratio};

phrases! {
    FACTS "Values of facts.":

    // Values that say nothing.
    not_applicable(reason: Phrase) = "not applicable: {reason}";
    not_known(reason: Text) = "not known: {reason}";
    udp_has_none() = "UDP has none";
    no_tls() = "no TLS";
    syn_carries_no_data() = "a SYN carries no data";
    init_carries_no_data() = "an INIT carries no data";
    opening_carries_no_data() = "the opening carries no data";
    no_congestion_control() = "no congestion control";
    no_published_function() = "no published function of the loss";
    not_measured() = "not measured";
    no_probe_under_load() = "no probe under load";
    no_tcp_info() = "no TCP_INFO";
    no_module_parameters() = "no parameters of the module";
    not_listed(control: &str) = "`{control}` is not listed";
    no_association_yet() = "no association yet";
    no_delayed_sack() = "no SCTP_DELAYED_SACK";
    no_receive_buffer() = "no SO_RCVBUF";
    interface_not_known() = "the interface is not known";
    certificate_unreadable() = "it cannot be read";
    not_stated() = "the driver does not state it";
    program_does_not_tell() = "the program does not tell";
    stack_does_not_count() = "the stack does not count";
    packets_carry_the_transfer() = "the packets of the connection carry the transfer as well";

    // Windows and packets.
    part_of_packets(packets: Argument) = "{packets} packets";
    one_message() = "1 message (stop-and-wait)";
    messages(messages: u64) = "{messages} messages";
    part_of_messages(messages: Argument) = "{messages} messages";
    size(bytes: u64) = "{bytes} B";
    fixed_size(bytes: u64) = "{bytes} B, fixed";
    searched_size(first: u64, most: u64) = "{first} B, searched up to {most} B";
    stream_windows(stream: u64, connection: u64) = "stream {stream} B, connection {connection} B";
    association_window(bytes: u64) = "association {bytes} B";
    tuned_up_to(bytes: u64) = "tuned by the kernel, buffer of at most {bytes} B";
    buffer(bytes: u64) = "buffer of {bytes} B";
    certificate(key: &str, bytes: u64) = "{key}, {bytes} B";

    // Pacing, acknowledgements and offloads.
    paced_by_workload(rate: BitRate) = "by the workload, {rate}";
    every_second_packet(time: Duration) = "every second packet, or after {time}";
    every_second_packet_later(time: Duration) = "every second packet, or after {time}; each packet at first";
    every_tenth_packet(time: Duration) = "every tenth packet, or after {time}";
    every_packets(packets: u64, time: Duration) = "every {packets} packets, or after {time}";
    of_the_socket(offload: Text) = "of the socket: {offload}";
    of_the_interface(offloads: &str) = "{offloads} of the interface";
    on() = "on";
    on_for_packets(packets: u64) = "on, {packets} packets at most";

    // Response to losses, and delays.
    response_at(ratio: Argument, loss: Ratio) = "{ratio} at {loss}";
    loss_response(ratios: Argument) = "{ratios}";
    loss_response_of_other(ratios: Argument, measured: &str, running: &str) = "{ratios}; measured with `{measured}`, this is `{running}`";
    left_out(reason: Phrase) = "left out: {reason}";
}
