//! Endpoint of `udp-reliable`: its settings, facts and warnings.

use regatta_control::{Role, TrialOrder};
use regatta_model::{Argument, Bytes, StackFacts, Text, Warning, fact, phrase, stack, warning};
use regatta_transport::{Result, opening::Token};
use regatta_transport_sockets::{
    driver,
    endpoints::{SocketRole, StreamEnd},
};

use super::{
    congestion::Cubic,
    frame::DATA_HEADER_BYTES,
    protocol::Reliable,
    sender::{LONGEST_PART, Rules},
    stream::Established,
};
use crate::{
    batch::MAX_SEGMENTS,
    buffer_bytes,
    packets::{self, headers},
    uses_gso,
};

/// One end of a trial.
pub(crate) type End<R> = StreamEnd<driver::End<Reliable, R>, Established>;

/// Makes the end of a trial over reliable UDP for messages of `message` bytes, if each is to be one
/// datagram; a listening end listens when this returns.
pub(crate) fn new<R: SocketRole>(
    order: &TrialOrder,
    rules: Rules,
    message: Option<usize>,
) -> Result<End<R>> {
    let token = Token::parse(&order.token)?;
    // One message at a time gives nothing to put together.
    let joins = uses_gso(order) && rules.window > 1;
    let [receive_buffer_bytes, send_buffer_bytes] = buffer_bytes(order);
    let settings = driver::Settings {
        receive_buffer_bytes,
        send_buffer_bytes,
        most_segments: if joins { MAX_SEGMENTS } else { 1 },
        packet_bytes: (order.path.mtu_bytes as usize).saturating_sub(headers(order.local)),
        fragments: true,
    };
    let protocol = Reliable::new(rules, token, !R::CONNECTS);
    let mut end = driver::End::new(order, settings, protocol)?;
    let side = order.role.name();
    let stack_facts = stack_facts(&rules, message, end.offloads());
    let facts = &mut end.base.facts;
    facts.extend(stack_facts.of_end(side));
    let congestion_control = if rules.cubic { "cubic" } else { "none" };
    let name = format!("congestion_control.{side}");
    facts.insert(name, congestion_control.to_owned());
    if order.role == Role::Sender {
        let window = rules.window.to_string();
        facts.insert("window_messages.sender".to_owned(), window);
        end.base.warnings = message.map_or_else(Vec::new, |message| warnings(order, message));
    }
    Ok(StreamEnd {
        end,
        make: Box::new(|handle, stop| {
            stop.on_stop(&handle);
            Established::new(handle)
        }),
    })
}

/// Describes the initial window of CUBIC, whose unit is the largest datagram: of a packet,
/// unless IP has to fragment it.
fn initial_window(message: Option<usize>) -> Text {
    let datagram = message.map_or(0, |message| message.min(LONGEST_PART)) + DATA_HEADER_BYTES;
    let window = Cubic::new(datagram).window();
    match window < 10 * datagram as u64 {
        true => {
            let messages = window as f64 / datagram as f64;
            fact::part_of_messages(Argument::decimal(messages, 1))
        }
        false => phrase::packets(10),
    }
    .into()
}

/// Returns the properties of this protocol for the comparison of stacks.
fn stack_facts(rules: &Rules, message: Option<usize>, offloads: &Text) -> StackFacts {
    let window = match rules.window {
        1 => Text::from(fact::one_message()),
        window => fact::messages(window as u64).into(),
    };
    let (initial_window, slow_start_exit) = match rules.cubic {
        true => (initial_window(message), "loss"),
        false => (window.clone(), "no slow start"),
    };
    StackFacts {
        initial_window,
        slow_start_exit: slow_start_exit.into(),
        pacing: "none".into(),
        packet_size: "a datagram for each message".into(),
        first_flight: fact::not_applicable(fact::opening_carries_no_data()).into(),
        cipher: "none".into(),
        crypto: "none".into(),
        key_exchange: stack::no_tls(),
        certificate: stack::no_tls(),
        threads: stack::USER_SPACE_THREAD.into(),
        offloads: match offloads.as_str() {
            "off" => "none".into(),
            _ => fact::of_the_socket(offloads.clone()).into(),
        },
        acknowledgements: "each batch of packets that the socket gives, at once".into(),
        flow_control: window,
    }
}

fn warnings(order: &TrialOrder, message: usize) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if message > LONGEST_PART {
        let whole = Bytes(message as u64);
        warnings.push(warning::message_split(whole, LONGEST_PART as u64));
    }
    warnings.extend(packets::fragmentation(
        message.min(LONGEST_PART),
        DATA_HEADER_BYTES,
        packets::largest(order),
        order.local,
    ));
    warnings
}
