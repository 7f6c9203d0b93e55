//! Behaviour of the kernel's TCP at one end, for the comparison of stacks.

use std::{borrow::Cow, fs};

use regatta_model::{StackFacts, stack};
use socket2::Socket;

use crate::info;

/// Returns the facts that do not depend on a connection, with this congestion control: read once,
/// as they come from files of the kernel.
pub(crate) fn of_end(control: &str) -> StackFacts {
    let unknown = || Cow::Owned(format!("{}: no TCP_INFO", stack::NOT_KNOWN));
    StackFacts {
        initial_window: unknown(),
        slow_start_exit: slow_start_exit(control),
        pacing: if control.starts_with("bbr") {
            "by the stack".into()
        } else {
            "none".into()
        },
        packet_size: unknown(),
        first_flight: "not applicable: a SYN carries no data".into(),
        cipher: "none".into(),
        crypto: "none".into(),
        key_exchange: stack::NO_TLS.into(),
        certificate: stack::NO_TLS.into(),
        threads: stack::KERNEL_THREAD.into(),
        offloads: stack::OF_INTERFACE.into(),
        acknowledgements: "every second packet, or after 40 ms; each packet at first".into(),
        flow_control: flow_control(),
    }
}

/// Adds the facts of a socket that has just been connected, before anything is sent over it. With
/// `fixed_buffer` its buffers were set, so that the kernel does not tune them.
pub(crate) fn of_socket(of_end: &StackFacts, socket: &Socket, fixed_buffer: bool) -> StackFacts {
    let mut facts = of_end.clone();
    if let Some((window, packet)) = info::window_and_packet(socket) {
        facts.initial_window = format!("{window} packets").into();
        facts.packet_size = format!("{packet} B, fixed").into();
    }
    if fixed_buffer {
        let size = socket.recv_buffer_size().unwrap_or_default();
        facts.flow_control = format!("buffer of {size} B").into();
    }
    facts
}

/// Returns the condition that ends slow start. Linux ends CUBIC's early unless the parameter
/// `hystart` of its module is 0.
fn slow_start_exit(control: &str) -> Cow<'static, str> {
    match control {
        "cubic" => match fs::read_to_string("/sys/module/tcp_cubic/parameters/hystart") {
            Ok(value) if value.trim() == "0" => "loss".into(),
            Ok(_) => "HyStart".into(),
            Err(_) => format!("{}: no parameters of the module", stack::NOT_KNOWN).into(),
        },
        "reno" | "hybla" | "westwood" | "htcp" | "bic" => "loss".into(),
        control if control.starts_with("bbr") => "bandwidth plateau".into(),
        control => format!("{}: `{control}` is not listed", stack::NOT_KNOWN).into(),
    }
}

fn flow_control() -> Cow<'static, str> {
    let sizes = fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap_or_default();
    match sizes.split_ascii_whitespace().nth(2) {
        Some(most) => format!("tuned by the kernel, buffer of at most {most} B").into(),
        None => "tuned by the kernel".into(),
    }
}
