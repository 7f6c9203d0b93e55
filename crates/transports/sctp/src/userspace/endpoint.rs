//! One end of a trial: its sizes, facts and warnings.

use std::time::Duration;

use regatta_control::TrialOrder;
use regatta_transport::{Result, options::GSO};
use regatta_transport_sockets::{
    driver::{End, Settings},
    endpoints::SocketRole,
};

use super::{
    options::{Options, Sizes, milliseconds},
    protocol::Sctp,
};
use crate::session::delivery;

/// Maximum time, beside some round trips, for which an end stays to close its associations in good
/// order. One acknowledgement may be delayed by 200 ms.
const LINGER: Duration = Duration::from_millis(500);

/// Creates the end of a trial that the order describes; a listening end listens when this returns.
///
/// # Errors
/// `TransportError::Unsupported` for a path with too small packets, `TransportError::Io` for a
/// socket that cannot be opened.
pub(crate) fn new<R: SocketRole>(order: &TrialOrder) -> Result<End<Sctp, R>> {
    let set = &order.transport.options;
    let options = Options::read(set);
    let sizes = Sizes::of(&order.path, order.local, &options)?;
    let linger = LINGER + 3 * order.path.typical_round_trip();
    let transport = sizes.transport(&options);
    let settings = Settings {
        receive_buffer_bytes: sizes.receive_buffer_bytes,
        send_buffer_bytes: sizes.send_buffer_bytes,
        most_segments: match options.gso && GSO.holds(set, order.path.tuning) {
            true => usize::MAX,
            false => 1,
        },
        packet_bytes: usize::MAX,
        fragments: false,
    };
    let stack = Sctp {
        stack: sizes.stack(&transport, !R::CONNECTS),
        config: transport,
        limits: sizes.limits(&options, linger),
    };
    let mut end = End::new(order, settings, stack)?;
    let side = order.role.name();
    let stated = sizes.stack_facts(end.offloads()).of_end(side);
    let ms = |time| format!("{} ms", milliseconds(time));
    let window = format!("sctp.receive_window_bytes.{side}");
    let encapsulation = "UDP (as RFC 6951, any port)";
    let facts = [
        ("sctp.encapsulation", encapsulation.to_owned()),
        ("sctp.chunk_payload_bytes", sizes.chunk_bytes.to_string()),
        (&window, sizes.window_bytes.to_string()),
        ("sctp.rto_initial", ms(options.rto_initial)),
        ("sctp.rto_min", ms(options.rto_min)),
        ("sctp.rto_max", ms(options.rto_max)),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value));
    end.base.facts.extend(stated);
    end.base.facts.extend(facts);
    end.base.facts.extend([delivery(set)]);
    end.base.warnings.extend(end.buffers.warning(side));
    Ok(end)
}
