//! Warnings of runs: their codes, one template or more for each, and the functions that fill them in. This is the only
//! place with their wording; that in Russian is in the report.

mod error;
pub mod fact;
pub mod phrase;
pub mod reason;
pub mod template;
mod text;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::{
    error::ERRORS,
    fact::FACTS,
    phrase::PHRASES,
    reason::REASONS,
    template::{English, Template, TemplatePart, phrase},
};
pub use self::{
    template::{Argument, Phrase},
    text::Text,
};
use crate::{
    table::record,
    units::{BitRate, Bytes, Ratio},
};

record! {
    /// Information that a reader needs before using a figure.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub struct Warning {
        pub code: String = "short name of the kind of warning";
        /// In English: one sentence, without a full stop.
        pub message: String = "the warning";
        /// In English.
        pub hint: String = "what to type or to change, or empty";
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub content: Option<Phrase> =
            "template of message and hint, and the values of its arguments, as JSON; absent where another program worded the warning",
            named("content_json");
    }
}

impl Warning {
    fn of(code: &str, content: Phrase) -> Self {
        let in_english = |part| content.render(part, &English).unwrap_or_default();
        Self {
            code: code.to_owned(),
            message: in_english(TemplatePart::Message),
            hint: in_english(TemplatePart::Hint),
            content: Some(content),
        }
    }

    /// Creates a warning of finished sentences, such as those of another program.
    #[must_use]
    pub fn of_texts(
        code: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            hint: hint.into(),
            content: None,
        }
    }

    /// Returns code and template: warnings that differ only in their arguments have the same. One without a template has
    /// its hint instead.
    #[must_use]
    pub fn kind(&self) -> [&str; 2] {
        let template = self.content.as_ref().map(|content| &*content.template);
        [&self.code, template.unwrap_or(&self.hint)]
    }
}

/// Defines warnings: the code, the name and meaning of its constant if others look for it; then each template with name,
/// arguments, message and hint.
macro_rules! warnings {
    ($($code:literal $(as $constant:ident, $meaning:literal)? {
        $($name:ident($($argument:ident: $kind:ty),*) = $message:literal $(, hint $hint:literal)?;)+
    })+) => {
        /// Codes of warnings that others than their makers look for.
        pub mod code {
            $($(#[doc = $meaning] pub const $constant: &str = $code;)?)+
        }

        /// The templates of all warnings.
        pub const WARNINGS: &[Template] = &[$($(Template {
            name: stringify!($name),
            arguments: &[$(stringify!($argument)),*],
            message: $message,
            hint: [$($hint,)? ""][0],
        }),+),+];

        $($(
            #[doc = concat!("Returns the warning `", $code, "` by the template `", stringify!($name), "`.")]
            #[must_use]
            pub fn $name($($argument: $kind),*) -> Warning {
                Warning::of($code, phrase!($name($($argument),*)))
            }
        )+)+
    };
}

warnings! {
    // Of competitions.
    "competition" {
        flow_without_goodput() =
            "a flow of this competition has no goodput: shares and fairness are of the others",
            hint "look at the delays and the times of that flow itself";
        flows_never_at_once() =
            "the flows of this competition never sent at once outside their warm-ups, so that there are no shares",
            hint "write a longer `duration` of the workload, or earlier starts";
    }
    // Of the study.
    "scaled" {
        scaled(scale: Ratio, effects: Vec<Phrase>) =
            "a scale of {scale} was asked for: {effects}",
            hint "leave `{--scale}` out for the whole study; published figures are shown beside workloads of their whole volume only";
    }
    "step_after_deadline" {
        step_after_deadline(condition: &str, at: Duration, deadline: Duration) =
            "the path of `{condition}` changes after {at}, when the deadline of {deadline} has ended every transfer",
            hint "set an earlier step or a longer deadline";
    }
    "no_connection_in_time" {
        no_connection_in_time(condition: &str, round_trip: Duration, deadline: Duration) =
            "a round trip over `{condition}` takes {round_trip}, and the connect deadline is {deadline}: no transport can make a connection in that time",
            hint "set a longer `{--connect-deadline}`, of several round trips";
    }
    "host_default_differs" {
        host_default_differs(transports: Vec<String>, ours: &str, default: &str) =
            "for {transports} Regatta asks for `{ours}`, as no `cc` is set; the default of the host's kernel is `{default}`, which other programs there use",
            hint "set the option `cc` of the transports, or that of the other programs, such as `iperf3 -C cubic`";
    }
    "no_tls_beside_quic" {
        no_tls_beside_quic(plain: Vec<String>, quic: Vec<String>) =
            "{plain} without encryption beside {quic} with it: a difference between them is encryption's, too",
            hint "add the transport `tcp-tls`, which is TCP with the encryption of QUIC";
    }
    "virtual_clock" {
        virtual_clock() =
            "time was virtual: work takes no time in it, so there are no figures of CPU time, and no transport is limited by how fast its software is",
            hint "run it with `{--clock} real` to measure CPU time";
    }

    "virtual_time_stands" {
        virtual_time_stands(transport: &str, within: Duration) =
            "a trial of `{transport}` has not ended within {within} of this machine's time: a program that polls without waiting stops virtual time",
            hint "let the program wait with a time-out (`poll`, `epoll_wait`, `select`) | run it with `{--clock} real`";
    }

    // Of the hosts.
    "tcp_memory_short" {
        tcp_memory_short(side: Phrase) =
            "the kernel of the {side} ran short of memory for TCP's buffers, so that it kept windows small and dropped segments: the rate is the machine's and not the protocol's",
            hint "raise `net.ipv4.tcp_mem` there, run fewer connections at once, or use a machine with more memory";
    }
    "cpu_by_ticks" {
        cpu_by_ticks(side: Phrase, step: Duration) =
            "the kernel of the {side} counts CPU time by timer ticks of {step}: work that begins with the timer is missed or counted in full, so that CPU figures of transports can be wrong by far",
            hint "compare CPU on a kernel that counts it exactly, such as any on real hardware";
    }
    "cpu_saturated" {
        cpu_of_a_host_saturated(busy: Ratio) =
            "the CPU of a host was busy for more than {busy} of the transfer, so that it may have limited it",
            hint "see \"Hosts over time\" in the report; leave the host alone, or use one with more cores";
        cpu_saturated_by_others(busy: Ratio) =
            "the host's CPU was busy for more than {busy} of the transfer, most of it with work that is no part of the run",
            hint "leave the machine alone during the run";
        cpu_saturated_by_run(busy: Ratio) =
            "the host's CPU was busy for more than {busy} of the transfer, so both ends and the emulator took time from one another",
            hint "ask for a lower `{--rate}` | use a machine with more cores";
    }
    "interface_unknown" {
        interface_unknown(side: Phrase) =
            "no interface of the {side} owns its address, so packets were not counted";
    }
    "super_packets" {
        super_packets(interface: &str, mean: u64, mtu: u64) =
            "`{interface}` counts packets before they are cut to wire size (mean {mean} B at an MTU of {mtu} B), so packets per second and their mean size are not the wire's",
            hint "run `ethtool -K {interface} tso off gso off gro off`";
    }
    "host_not_monitored" {
        monitor_not_started(host: Phrase, reason: Text) =
            "for a part of the run there are no samples of {host}, because its monitor cannot be started: {reason}";
        monitor_ended(host: Phrase, reason: Text) =
            "for a part of the run there are no samples of {host}, because of its monitor: {reason}";
    }
    "clocks_not_known" as CLOCKS_NOT_KNOWN, "The offset between the hosts' clocks is not known well enough for the delay that a workload measures." {
        clocks_not_known(reason: Phrase) =
            "the message delay is left out: {reason}",
            hint "ask for a path with a longer delay, or synchronise the clocks of both hosts and shorten the trial";
    }
    "capture_incomplete" {
        no_capture(reason: Text, remedy: Text) =
            "there is no capture: {reason}",
            hint "{remedy}";
        capture_ended(missing: u64, reason: Text) =
            "the capture ends early, without {missing} packets: {reason}",
            hint "make room | capture less of each packet with `{--capture}=64B`";
        capture_misses(missing: u64) =
            "{missing} packets are not in the capture: writing did not keep up",
            hint "capture less of each packet with `{--capture}=64B` | capture to a faster disk";
        capture_unreadable(reason: Text) =
            "the capture cannot be read: {reason}",
            hint "open it with Wireshark to see how far it goes";
    }

    // Of the path.
    "path_out_of_tolerance" as PATH_OUT_OF_TOLERANCE, "The path check found a quantity outside its tolerance." {
        path_late(part: Ratio, late: Duration) =
            "{part} of the packets left the emulated path more than {late} late",
            hint "leave the machine alone during the run | ask for a lower `{--rate}`";
        path_off(condition: &str, deviations: Vec<Phrase>) =
            "the path of `{condition}` was outside its tolerance when it was checked: {deviations}",
            hint "leave the machine alone and run again; `regatta doctor` shows what it lacks";
        path_off_from_step(condition: &str, step: Duration, deviations: Vec<Phrase>) =
            "the path of `{condition}` from {step} on was outside its tolerance when it was checked: {deviations}",
            hint "leave the machine alone and run again; `regatta doctor` shows what it lacks";
        network_changed(deviations: Vec<Phrase>) =
            "the network between the hosts has changed since the first check: {deviations}",
            hint "compare transports within a round; look at the checks in the report for when it changed";
    }
    "path_not_checked" {
        path_not_checked(condition: &str, reason: Text) =
            "the path of `{condition}` could not be checked, as the machine was too busy: {reason}",
            hint "leave the machine alone during the run; trials that it spoils are found and repeated";
        path_not_checked_from_step(condition: &str, step: Duration, reason: Text) =
            "the path of `{condition}` from {step} on could not be checked, as the machine was too busy: {reason}",
            hint "leave the machine alone during the run; trials that it spoils are found and repeated";
    }
    "path_overrun" as PATH_OVERRUN, "The emulator did not forward packets in time." {
        path_overrun(part: Ratio) =
            "{part} of the packets were lost because the emulator did not keep up with the sender, which is no part of the condition",
            hint "pace the sender (`udp:rate=96Mbit/s`) | ask for a lower `{--rate}` | leave the machine alone during the run";
    }
    "receive_buffer_errors" as RECEIVE_BUFFER_ERRORS, "A full socket buffer of the receiving host dropped datagrams." {
        messages_dropped_at_the_socket() =
            "datagrams that the path had delivered were dropped at the receiver because its socket's buffer was full; they count as lost messages",
            hint "run `sysctl -w net.core.rmem_max=67108864` | pace the sender with the option `{option rate}`";
        packets_dropped_at_the_socket() =
            "datagrams that the path had delivered were dropped at the receiver because a socket's buffer was full; the transport took its own among them for losses of the path",
            hint "run `sysctl -w net.core.rmem_max=67108864` | pace the sender with the option `{option rate}`";
    }
    "slow_start_overflow" {
        slow_start_overflow(after: Duration, again: u64, part: Ratio, held: u64, dropped: u64) =
            "slow start overflowed the path's queue: after {after} {again} packets were sent again, {part} of the {held} that path and queue hold; the queue dropped {dropped} in the whole trial",
            hint "ask for a larger `{--queue}` | give the transport a smaller window where it has such an option";
    }

    // Of the transfer.
    "deadline_reached" as DEADLINE_REACHED, "The deadline stopped the transfer." {
        deadline_reached(deadline: Duration, delivered: Phrase, shorter: Phrase) =
            "the transfer was stopped at its deadline of {deadline}; measured is what was delivered by then: {delivered}",
            hint "give a longer `{--deadline}` | give {shorter}";
        deadline_passed(deadline: Duration) =
            "the transfer reached its deadline of {deadline} and is measured on what was delivered by then",
            hint "give it a longer `{--deadline}` | give it a smaller `{--size}`";
        not_delivered_by_the_deadline(duration: Duration, deadline: Duration) =
            "what the sender had handed over in its {duration} was not all delivered by the deadline of {deadline}; measured is what was delivered by then",
            hint "give it a longer `{--deadline}` | let the sender hold back less (a smaller window or send buffer)";
    }
    "short_transfer" {
        short_transfer(size: Bytes, least: u64, bdp: Bytes, megabytes: u64) =
            "a transfer of {size} is less than {least} bandwidth-delay products of {bdp}, so slow start weighs in its goodput",
            hint "send at least `{--size} {megabytes}MB`";
    }
    "warm_up_too_long" {
        warm_up_too_long() =
            "everything was delivered within the warm-up, so there is no goodput",
            hint "write a shorter `warm_up`, or send more";
    }
    "step_not_reached" {
        step_not_reached(ended: Duration, condition: &str, at: Duration) =
            "the transfer ended after {ended}, before the path of `{condition}` changed at {at}",
            hint "send more | send for a longer `{--duration}` | set an earlier step";
    }
    "rate_not_kept" {
        rate_not_kept(part: Ratio, requested: Phrase, remedy: Phrase) =
            "the sender did not keep its rate: it reached {part} of {requested}",
            hint "{remedy}";
    }
    "abandoned" as ABANDONED, "The sender closed without waiting for delivery." {
        abandoned() =
            "the sender closed as soon as its last message was handed over, as some published experiments did: what was under way then is lost, and the transfer time ends there",
            hint "leave `finish` out to have every byte delivered";
    }
    "messages_corrupted" as MESSAGES_CORRUPTED, "Messages arrived with other content than was sent." {
        messages_corrupted(messages: u64) = "{messages} messages arrived damaged";
    }
    "flow_refused" {
        flow_refused(flows: u64) = "{flows} flows without this trial's token were refused";
    }
    "flow_held_up" as FLOW_HELD_UP, "Connections without the trial's token kept its own waiting." {
        flow_held_up(flows: u64, time: Duration) =
            "{flows} connections without this trial's token kept its own waiting for {time}";
    }
    "idle_probe_incomplete" {
        idle_probe_incomplete(answered: u64, planned: u64) =
            "{answered} of {planned} probe messages before the transfer were answered";
        idle_probe_failed(answered: u64, planned: u64, reason: Text) =
            "{answered} of {planned} probe messages before the transfer were answered: {reason}";
    }
    "probe_broken" {
        probe_broken(reason: Text) = "the probe under load ended before the transfer: {reason}";
    }
    "probe_absent" {
        probe_absent() =
            "an external program answers no probe, so that message round-trip delay was not measured over it";
    }
    "handshake_differs" {
        handshake_differs(others: u64, all: u64, requested: &str, made: Vec<Phrase>) =
            "{others} of {all} connections made another handshake than `{requested}`: {made}";
    }
    "connections_failed" as CONNECTIONS_FAILED, "Connections of a workload of short connections failed." {
        connections_failed(failed: u64, all: u64, reason: Text) =
            "{failed} of {all} connections failed, the last one with: {reason}";
    }
    "requests_damaged" {
        requests_damaged(requests: u64) = "{requests} requests arrived damaged and had no answer";
    }
    "requests_held_back" {
        requests_held_back() =
            "requests waited for answers so that neither end could block the other: no more may be under way than both ends hold unread",
            hint "ask for fewer `outstanding`, a lower `requests_per_second`, or smaller messages";
    }
    "answers_corrupted" {
        answers_corrupted(answers: u64) = "{answers} answers came damaged, or twice";
    }

    // Of the transports.
    "window_limited" as WINDOW_LIMITED, "The receiver's window, not the path, limited the sender." {
        window_limited(time: Duration, all: Duration, remedy: Phrase) =
            "the receiver's window, not the path, limited the sender for {time} of {all}",
            hint "{remedy}";
        tcp_buffer_limited(side: Phrase, most: Bytes, round_trip: Duration, rate: BitRate, held: Bytes, sysctl: &str, needed: u64) =
            "the {side}'s buffer can grow to {most} at most, and {round_trip} at {rate} holds {held}",
            hint "run `sysctl -w net.ipv4.{sysctl}=\"4096 131072 {needed}\"` as root";
        sctp_window_limited(side: Phrase, window: Bytes, round_trip: Duration, rate: BitRate, held: Bytes, sysctl: &str, needed: u64) =
            "the kernel grants the {side} a window of {window}, and {round_trip} at {rate} holds {held}",
            hint "run `sysctl -w net.core.{sysctl}={needed}` as root on that host";
        sctp_window_chosen(side: Phrase, window: Bytes, round_trip: Duration, rate: BitRate, held: Bytes) =
            "the kernel grants the {side} a window of {window}, and {round_trip} at {rate} holds {held}",
            hint "leave the option `receive_window` out, or set a larger one";
        window_below_message(window: Bytes, message: Bytes) =
            "the window of {window} holds no whole message of {message}: the kernel's SCTP waits for a timer for each of them",
            hint "leave the option `receive_window` out, or send shorter messages";
        stream_window_limited(window: Bytes, stack: &str, held: Bytes) =
            "the window of a stream is {window}, as {stack} ends a connection with more packets unread, and the path holds {held}",
            hint "set `stream_window`, if a connection that fails after a loss is acceptable";
    }
    "receive_buffer_small" {
        receive_buffer_small(side: Phrase, granted: Bytes, requested: Bytes, rmem_max: u64) =
            "the kernel grants the {side} {granted} of UDP receive buffer instead of {requested}, so packets may be dropped there, not on the path",
            hint "run `sysctl -w net.core.rmem_max={rmem_max}` on that host";
    }
    "different_congestion_controls" {
        different_congestion_controls(controls: Vec<Phrase>) =
            "the transports did not all use the same congestion control ({controls}), so a difference may be the congestion control's and not the protocol's",
            hint "compare those with the same one, or set the option `cc` of each transport";
        congestion_controls_not_known(controls: Vec<Phrase>) =
            "it is not known that the transports used the same congestion control ({controls}), so a difference may be the congestion control's and not the protocol's",
            hint "compare those with the same one, or set the option `cc` of each transport";
    }
    "mptcp_one_path" {
        mptcp_one_path(address: &str) =
            "the interface of `{address}` has no other address, so MPTCP has one subflow only",
            hint "give both hosts a second address on the path's interface";
    }
    "sctp_one_path" {
        sctp_one_path(address: &str) =
            "the interface of `{address}` has no other IPv4 address, so the association has one path only",
            hint "give both hosts a second address on the path's interface";
    }
    "ip_fragmentation" {
        ip_fragmentation(message: Bytes, fragments: u64, most: u64) =
            "each message of {message} travels as {fragments} IP fragments, and is lost if any of them is",
            hint "use messages of at most {most} B";
    }
    "message_split" {
        message_split(message: Bytes, part: u64) =
            "each message of {message} travels as two datagrams: one carries {part} B besides its header",
            hint "use messages of at most {part} B";
    }
    "no_place_for_files" {
        no_place_for_files(options: Vec<String>, side: Phrase) =
            "files were asked for with {options}, but the {side} was given no directory for them, so they are not written",
            hint "take the options out | give the run a directory with `{--out} DIR`";
    }
    "wdt_few_blocks" {
        wdt_few_blocks(blocks: u64, connections: u64) =
            "the content has fewer blocks ({blocks}) than there are connections ({connections}), so that some of these carried nothing",
            hint "give a larger `size`, or a smaller `block_size`";
    }
    "wdt_recovered" {
        wdt_recovered(again: u64, ports: u64, side: Phrase) =
            "connections were made again {again} times and {ports} ports given up at the {side}; all was delivered";
    }
    "external_clock" {
        external_clock(doubt: Phrase, remedy: Phrase) =
            "{doubt}",
            hint "{remedy}";
    }
    "external_left_out" {
        external_left_out(side: Phrase, names: Vec<String>) =
            "what the {side}'s program told was left out, as it may not tell it or the value is impossible: {names}",
            hint "see \"What a program may tell\" in docs/external-drivers.md";
    }
    "external_end" {
        external_end(side: Phrase, how: Text) = "when all was done, the {side}'s program {how}";
    }

    // Of the results file.
    "value_not_kept" {
        value_of_no_metric(name: &str) = "`{name}` is not a metric and was not kept";
        value_not_finite(name: &str, value: &str) = "`{name}` came out as {value} and was not kept";
        stored_value_not_finite(name: &str, value: &str) =
            "`{name}` is {value} in the results file and was left out";
    }
    "resumed_by_other_build" {
        resumed_by_other_build(before: Phrase, now: Phrase) =
            "the run was begun by {before} and resumed by {now}",
            hint "compare within rounds, or run the study again as a whole";
    }
    "parts_differ" {
        parts_differ(facts: Vec<Phrase>) =
            "the parts of this run were made on hosts that differ: {facts}",
            hint "compare transports within rounds, each of which ran on one node, or run all parts on equal nodes";
    }
    "part_left_out" {
        part_left_out(path: &str, reason: Text) =
            "`{path}` cannot be merged: {reason}",
            hint "run the trials again that are missing for it";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_with_other_arguments_are_of_one_kind() {
        let late = |ms| path_late(Ratio(0.02), Duration::from_millis(ms));
        assert_eq!(late(1).kind(), late(2).kind());
        assert_ne!(late(1).kind(), network_changed(Vec::new()).kind());
        let stored = |message: &str, hint: &str| Warning::of_texts("c", message, hint);
        assert_eq!(
            stored("1 late", "wait").kind(),
            stored("2 late", "wait").kind()
        );
        assert_ne!(stored("late", "wait").kind(), stored("late", "").kind());
    }
}
