//! One end of a trial: its sizes, facts and warnings.

use std::{collections::BTreeMap, time::Duration};

use regatta_control::TrialOrder;
use regatta_transport::TransportError;
use regatta_transport_sockets::driver::{End, Settings};

use crate::{
    options::{Options, Sizes},
    protocol::Sctp,
};

/// Maximum time, beside some round trips, for which an end stays to close its associations in good
/// order. One acknowledgement may be delayed by 200 ms.
const GOODBYE: Duration = Duration::from_millis(500);

/// Creates the end of a trial that the order describes; a listening end listens when this returns.
/// Returns the time for which it stays to close an association, too.
///
/// # Errors
/// [`TransportError::Unsupported`] for a path with too small packets, [`TransportError::Io`] for a
/// socket that cannot be opened.
pub(crate) fn new(order: &TrialOrder) -> Result<(End<Sctp>, Duration), TransportError> {
    let options = Options::read(&order.transport.options);
    let sizes = Sizes::of(&order.path, order.local, &options)?;
    let goodbye = GOODBYE + 3 * 2 * order.path.longest_one_way;
    let transport = sizes.transport(&options);
    let mut end = End::new(
        order,
        Settings {
            receive_buffer_bytes: sizes.receive_buffer_bytes,
            send_buffer_bytes: sizes.send_buffer_bytes,
            most_segments: if options.gso { usize::MAX } else { 1 },
            packet_bytes: usize::MAX,
            fragments: false,
        },
        Sctp::new(
            sizes.stack(&transport, !order.connects()),
            transport,
            sizes.limits(&options),
        ),
    )?;
    let side = order.role.name();
    let facts = facts(side, &options, &sizes, end.offloads());
    end.facts.extend(facts);
    end.warnings.extend(end.buffers.warning(side));
    Ok((end, goodbye))
}

fn facts(
    side: &'static str,
    options: &Options,
    sizes: &Sizes,
    offloads: &str,
) -> BTreeMap<String, String> {
    let ms = |span: Duration| format!("{} ms", span.as_millis());
    let mut facts = sizes.stack_facts(offloads).of_end(side);
    facts.extend([
        (
            "sctp.encapsulation".to_owned(),
            "UDP (as RFC 6951, any port)".to_owned(),
        ),
        (
            "sctp.chunk_payload_bytes".to_owned(),
            sizes.chunk_bytes.to_string(),
        ),
        (
            format!("sctp.receive_window_bytes.{side}"),
            sizes.window_bytes.to_string(),
        ),
        ("sctp.rto_initial".to_owned(), ms(options.rto_initial)),
        ("sctp.rto_min".to_owned(), ms(options.rto_min)),
        ("sctp.rto_max".to_owned(), ms(options.rto_max)),
        (
            "sctp.delivery".to_owned(),
            if options.ordered {
                "ordered"
            } else {
                "unordered"
            }
            .to_owned(),
        ),
    ]);
    facts
}
