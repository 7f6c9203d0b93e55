//! Behaviour of the kernel's TCP at one end, for the comparison of stacks.

use std::fs;

use regatta_model::{StackFacts, Text, fact, phrase, stack};
use socket2::Socket;

use crate::info;

/// Returns the facts that do not depend on a connection, with this congestion control: read once,
/// as they come from files of the kernel.
pub(crate) fn of_end(control: &str) -> StackFacts {
    let unknown = || Text::from(fact::not_known(fact::no_tcp_info().into()));
    StackFacts {
        initial_window: unknown(),
        slow_start_exit: slow_start_exit(control),
        pacing: if control.starts_with("bbr") {
            "by the stack".into()
        } else {
            "none".into()
        },
        packet_size: unknown(),
        first_flight: fact::not_applicable(fact::syn_carries_no_data()).into(),
        cipher: "none".into(),
        crypto: "none".into(),
        key_exchange: stack::no_tls(),
        certificate: stack::no_tls(),
        threads: stack::KERNEL_THREAD.into(),
        offloads: stack::OF_INTERFACE.into(),
        acknowledgements: fact::every_second_packet_later(std::time::Duration::from_millis(40))
            .into(),
        flow_control: flow_control(),
    }
}

/// Adds the facts of a socket that has just been connected, before anything is sent over it. With
/// `fixed_buffer` its buffers were set, so that the kernel does not tune them.
pub(crate) fn of_socket(of_end: &StackFacts, socket: &Socket, fixed_buffer: bool) -> StackFacts {
    let mut facts = of_end.clone();
    if let Some((window, packet)) = info::window_and_packet(socket) {
        facts.initial_window = phrase::packets(u64::from(window)).into();
        facts.packet_size = fact::fixed_size(u64::from(packet)).into();
    }
    if fixed_buffer {
        let size = socket.recv_buffer_size().unwrap_or_default();
        facts.flow_control = fact::buffer(size as u64).into();
    }
    facts
}

/// Returns the condition that ends slow start. Linux ends CUBIC's early unless the parameter
/// `hystart` of its module is 0.
fn slow_start_exit(control: &str) -> Text {
    match control {
        "cubic" => match fs::read_to_string("/sys/module/tcp_cubic/parameters/hystart") {
            Ok(value) if value.trim() == "0" => "loss".into(),
            Ok(_) => "HyStart".into(),
            Err(_) => fact::not_known(fact::no_module_parameters().into()).into(),
        },
        "reno" | "hybla" | "westwood" | "htcp" | "bic" => "loss".into(),
        control if control.starts_with("bbr") => "bandwidth plateau".into(),
        control => fact::not_known(fact::not_listed(control).into()).into(),
    }
}

fn flow_control() -> Text {
    let sizes = fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap_or_default();
    let most = sizes.split_ascii_whitespace().nth(2);
    match most.and_then(|most| most.parse().ok()) {
        Some(most) => fact::tuned_up_to(most).into(),
        None => "tuned by the kernel".into(),
    }
}
