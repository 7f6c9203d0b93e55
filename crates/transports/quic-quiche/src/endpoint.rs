//! One end of quiche in one trial: its configuration, facts and warnings.

use std::{collections::HashMap, sync::Arc};

use regatta_control::TrialOrder;
use regatta_model::Handshake;
use regatta_transport::{Result, Stop};
use regatta_transport_sockets::{
    driver::{End, Settings},
    endpoints::{MessageEnd, SocketRole, StreamEnd},
};
use regatta_transport_tls::uses_tickets;

use crate::{
    connection::{QuicheConnection, migrate},
    datagram::{QuicheFlow, longest},
    entry::Kind,
    files::Files,
    options::Options,
    protocol::{Handle, Quic},
    statistics::Statistics,
    tls::{self, RetryTokens},
};
use regatta_transport_quic_common::{options::Mode, path::Sizes};

/// Maximum number of packets that the kernel takes at once: `UDP_MAX_SEGMENTS` of older kernels.
const MAX_SEGMENTS: usize = 64;

/// Creates the end of a trial that the order describes; a listening end listens when this returns.
///
/// # Errors
/// `TransportError::Unsupported` for a path with too small packets, `TransportError::Order` or
/// `TransportError::Stack` for TLS material that cannot be used, `TransportError::Io` for a socket
/// that cannot be opened.
fn new<R: SocketRole>(
    order: &TrialOrder,
    options: &Options,
    sizes: &Sizes,
) -> Result<End<Quic, R>> {
    let config = tls::config(order, options, sizes)?;
    let files = Files::new(order, options)?;
    let handshake = order.workload.kind.handshake();
    let client = R::CONNECTS;
    let retries = !client && handshake == Handshake::Retry;
    let side = order.role.name();
    let file_facts = files.facts(options);
    let mut end = End::new(
        order,
        Settings {
            receive_buffer_bytes: sizes.socket_buffers_bytes.0,
            send_buffer_bytes: sizes.socket_buffers_bytes.1,
            most_segments: if options.common.gso {
                sizes.most_segments().min(MAX_SEGMENTS)
            } else {
                1
            },
            packet_bytes: usize::MAX,
            fragments: false,
        },
        Quic {
            config,
            kind: Kind {
                client,
                carries_datagrams: options.common.mode == Mode::Datagram,
                paces: options.paces(),
            },
            retry: retries.then(RetryTokens::new).transpose()?,
            server_name: order.tls.server_name.clone(),
            spare_ids: options.migrate_after.is_some(),
            keeps_tickets: client && uses_tickets(handshake),
            files,
            routes: HashMap::new(),
            begun: 0,
            ticket: None,
        },
    )?;
    let stated = options.stack_facts(sizes, order, end.offloads());
    end.base.facts.extend(stated.of_end(side));
    end.base
        .facts
        .extend(options.common.facts(side, sizes, &end.buffers));
    let hystart = if options.hystart { "on" } else { "off" };
    end.base
        .facts
        .insert(format!("hystart.{side}"), hystart.to_owned());
    end.base.facts.extend(file_facts);
    end.base.warnings.extend(end.buffers.warning(side));
    Ok(end)
}

/// Maker of the statistics of a connection that is established, which registers it with its stop, and has it migrate if
/// that is configured and this end connects.
type Establish = Box<dyn Fn(&Arc<Handle>, &Stop) -> Arc<Statistics> + Send + Sync>;

/// Creates the end of a trial, its sizes, and what its connections need.
fn prepare<R: SocketRole>(order: &TrialOrder) -> Result<(End<Quic, R>, Sizes, Establish)> {
    let options = Options::read(&order.transport.options);
    let sizes = Sizes::of(&order.path, order.local, &options.common)?;
    let end = new(order, &options, &sizes)?;
    let (side, counters) = (order.role.name(), Arc::clone(&end.counters));
    let establish = move |handle: &Arc<Handle>, stop: &Stop| {
        stop.on_stop(handle);
        if let Some(after) = options.migrate_after.filter(|_| R::CONNECTS) {
            let buffer_bytes = sizes.windows.requested_socket_bytes;
            tokio::spawn(migrate(handle.weak(), after, buffer_bytes));
        }
        Statistics::new(handle, side, options, Arc::clone(&counters))
    };
    Ok((end, sizes, Box::new(establish)))
}

/// Creates the end of a trial whose connections carry streams.
///
/// # Errors
/// As [`new`].
pub(crate) fn streams<R: SocketRole>(
    order: &TrialOrder,
) -> Result<StreamEnd<End<Quic, R>, QuicheConnection>> {
    let (end, sizes, establish) = prepare(order)?;
    Ok(StreamEnd {
        end,
        make: Box::new(move |handle, stop| {
            let statistics = establish(&handle, stop);
            Ok(QuicheConnection {
                handle,
                statistics,
                longest_datagram: longest(&sizes),
            })
        }),
    })
}

/// Creates the end of a trial whose connections carry datagrams.
///
/// # Errors
/// As [`new`].
pub(crate) fn datagrams<R: SocketRole>(
    order: &TrialOrder,
) -> Result<MessageEnd<End<Quic, R>, QuicheFlow>> {
    let (end, sizes, establish) = prepare(order)?;
    let make = move |handle, stop: &_| {
        let statistics = establish(&handle, stop);
        Ok(QuicheFlow {
            handle,
            statistics,
            arrived: Vec::new(),
            settled: false,
        })
    };
    Ok(MessageEnd::new(end, longest(&sizes), false, make))
}
