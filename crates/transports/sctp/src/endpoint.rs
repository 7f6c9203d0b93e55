//! One end of a trial: a socket, a runtime of one thread, the task that drives the associations; as
//! an endpoint of streams or of messages.

use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::Warning;
use regatta_transport::{
    MessageEndpoint, MonotonicTime, Purpose, Stop, StreamEndpoint, TransportError, stream::Accepted,
};
use regatta_transport_sockets::wait::{timed_out, within};
use regatta_transport_sockets::{
    executor::Tokio,
    socket::{self, Buffers},
};
use sctp_proto::StreamId;
use tokio::runtime::Handle;

use crate::{
    association::Message,
    connection::{SctpConnection, pass_on},
    core::{Core, Incoming},
    link::{Link, Shared},
    messages::SctpFlow,
    options::{LONGEST_MESSAGE_BYTES, Options, Sizes},
    socket::Datagrams,
};

/// Maximum time, beside some round trips, for which an end stays to close its associations in good
/// order. One acknowledgement may be delayed by 200 ms.
const GOODBYE: Duration = Duration::from_millis(500);

/// End of a trial, for streams and messages alike.
pub(crate) struct End {
    runtime: Tokio,
    shared: Arc<Shared>,
    role: Role,
    connects: bool,
    /// Maximum duration of a handshake.
    connect_deadline: Duration,
    peer: IpAddr,
    listen: Option<SocketAddr>,
    buffers: Buffers,
    facts: BTreeMap<String, String>,
}

impl End {
    /// Creates the end of a trial that the order describes; a listening end listens when this
    /// returns.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a path with too small packets, [`TransportError::Io`]
    /// for a socket that cannot be opened.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let options = Options::read(&order.transport.options);
        let sizes = Sizes::of(&order.path, order.local, &options)?;
        let connects = order.connects();
        let (socket, buffers) = socket::bind(
            order.local,
            order.ports,
            sizes.receive_buffer_bytes,
            sizes.send_buffer_bytes,
        )?;
        let runtime = Tokio::new()?;
        let made = || -> io::Result<(Datagrams, SocketAddr)> {
            let _inside = runtime.enter();
            let datagrams = Datagrams::new(socket, options.gso)?;
            let address = datagrams.address()?;
            Ok((datagrams, address))
        };
        let (datagrams, address) =
            made().map_err(TransportError::io("cannot set up the UDP socket"))?;
        let facts = facts(order.role, &options, &sizes, buffers, &datagrams);
        let transport = sizes.transport(&options);
        let core = Core::new(
            sizes.stack(&transport, !connects),
            transport,
            sizes.limits(&options),
            datagrams,
            order.peer,
        );
        let shared = Shared::new(core, GOODBYE + 3 * 2 * order.path.longest_one_way);
        runtime.spawn(Arc::clone(&shared).drive());
        Ok(Self {
            runtime,
            shared,
            role: order.role,
            connects,
            connect_deadline: order.connect_deadline,
            peer: order.peer,
            listen: (!connects).then_some(address),
            buffers,
            facts,
        })
    }

    fn side(&self) -> &'static str {
        self.role.name()
    }

    /// Establishes an association with the peer.
    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Arc<Link>, TransportError> {
        let since = MonotonicTime::now();
        if !self.connects {
            return Err(TransportError::Order {
                what: "an end that listens does not connect".to_owned(),
            });
        }
        if peer.ip().to_canonical() != self.peer.to_canonical() {
            return Err(TransportError::Order {
                what: format!("`{}` is not the announced peer `{}`", peer.ip(), self.peer),
            });
        }
        let number = self.shared.lock().connect(peer, purpose)?;
        let link = Link::new(Arc::clone(&self.shared), number);
        stop.on_stop(&link);
        match within(until, link.opened()).await {
            Some(opened) => opened.map(|()| link),
            None => Err(timed_out(
                format!("SCTP handshake with `{}`", peer.ip()),
                since,
            )),
        }
    }

    /// Waits for an event of an association that the peer establishes.
    async fn incoming(&self) -> Result<Incoming, TransportError> {
        poll_fn(|context: &mut Context<'_>| self.shared.lock().poll_incoming(context)).await
    }

    /// Waits for an association that the peer establishes; calls `arrived` whenever it asks for
    /// one.
    async fn established(&self, mut arrived: impl FnMut()) -> Result<Arc<Link>, TransportError> {
        loop {
            match self.incoming().await? {
                Incoming::Asked => arrived(),
                Incoming::Established(number) => {
                    return Ok(Link::new(Arc::clone(&self.shared), number));
                }
            }
        }
    }

    fn warnings(&self) -> Vec<Warning> {
        let warning = self.buffers.warning(self.side());
        warning.into_iter().collect()
    }
}

fn facts(
    role: Role,
    options: &Options,
    sizes: &Sizes,
    buffers: Buffers,
    datagrams: &Datagrams,
) -> BTreeMap<String, String> {
    let side = role.name();
    let offload = |segments: usize| match segments {
        0 | 1 => "off".to_owned(),
        segments => format!("on, {segments} packets at most"),
    };
    let ms = |span: Duration| format!("{} ms", span.as_millis());
    let [receive_buffer, send_buffer] = buffers.facts(side);
    let gso = offload(datagrams.segments());
    let gro = offload(datagrams.receive_segments());
    let offloads = match role {
        Role::Sender => &gso,
        Role::Receiver => &gro,
    };
    let mut facts = sizes.stack_facts(offloads).of_end(side);
    facts.extend([
        (format!("gso.{side}"), gso),
        (format!("gro.{side}"), gro),
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
        receive_buffer,
        send_buffer,
    ]);
    facts
}

impl Drop for End {
    fn drop(&mut self) {
        // Inside a runtime there is no other to be had.
        if Handle::try_current().is_err() {
            let quiet = poll_fn(|context: &mut Context<'_>| self.shared.lock().poll_quiet(context));
            self.runtime.block_on(async {
                let _ = within(MonotonicTime::now() + self.shared.goodbye, quiet).await;
            });
        }
        self.shared.lock().abort_all();
    }
}

/// Endpoint of byte streams.
pub(crate) struct StreamEnd(pub End);

impl StreamEndpoint for StreamEnd {
    type Connection = SctpConnection;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.0.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.0.listen
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<SctpConnection, TransportError> {
        let link = self.0.connect(peer, purpose, until, stop).await?;
        Ok(SctpConnection::new(link, self.0.side(), stop))
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        arrived: &mut (impl FnMut() + Send),
    ) -> Result<Accepted<SctpConnection>, TransportError> {
        let since = MonotonicTime::now();
        let accepted = self.0.established(arrived);
        match within(until, stop.unless_raised(accepted)).await {
            Some(link) => Ok(Accepted::Connection(SctpConnection::new(
                link?,
                self.0.side(),
                stop,
            ))),
            None => Err(timed_out("SCTP association", since)),
        }
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.0.facts.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.0.warnings()
    }
}

/// Endpoint of messages, delivered in any order.
pub(crate) struct MessageEnd {
    end: End,
    /// Associations of which no message was admitted yet.
    unclaimed: Mutex<Vec<Unclaimed>>,
}

/// Association whose first message is waited for.
struct Unclaimed {
    link: Arc<Link>,
    stream: Option<StreamId>,
    arrived: VecDeque<Message>,
}

impl Unclaimed {
    /// Receives messages until one is admitted.
    fn poll_admitted(
        &mut self,
        admit: &mut impl FnMut(&[u8]) -> bool,
        context: &Context<'_>,
    ) -> Poll<Result<StreamId, TransportError>> {
        let id = match self.stream {
            Some(id) => id,
            None => ready!(self.link.poll(|one| one.poll_accept_stream(context)))?,
        };
        self.stream = Some(id);
        loop {
            let Self { link, arrived, .. } = self;
            if arrived.is_empty() && !ready!(link.poll(|one| one.poll_read(id, arrived, context)))?
            {
                return Poll::Ready(Err(TransportError::Closed {
                    flow: "association",
                }));
            }
            while let Some(message) = self.arrived.pop_front() {
                let mut admitted = false;
                pass_on(message, &mut [], |data| admitted = admit(data));
                if admitted {
                    return Poll::Ready(Ok(id));
                }
            }
        }
    }
}

impl MessageEnd {
    pub(crate) fn new(end: End) -> Self {
        Self {
            end,
            unclaimed: Mutex::default(),
        }
    }

    fn poll_admitted(
        &self,
        admit: &mut impl FnMut(&[u8]) -> bool,
        stop: &Stop,
        context: &Context<'_>,
    ) -> Poll<Result<SctpFlow, TransportError>> {
        // Only one task accepts, and what panics under the lock ends the trial.
        let mut unclaimed = self
            .unclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while let Poll::Ready(incoming) = self.end.shared.lock().poll_incoming(context) {
            if let Incoming::Established(number) = incoming? {
                unclaimed.push(Unclaimed {
                    link: Link::new(Arc::clone(&self.end.shared), number),
                    stream: None,
                    arrived: VecDeque::new(),
                });
            }
        }
        let mut index = 0;
        while let Some(one) = unclaimed.get_mut(index) {
            match one.poll_admitted(admit, context) {
                Poll::Pending => index += 1,
                Poll::Ready(Err(_)) => drop(unclaimed.swap_remove(index)),
                Poll::Ready(Ok(id)) => {
                    let one = unclaimed.swap_remove(index);
                    let side = self.end.side();
                    let flow = SctpFlow::new((one.link, id), one.arrived, false, side, stop);
                    return Poll::Ready(Ok(flow));
                }
            }
        }
        Poll::Pending
    }
}

impl MessageEndpoint for MessageEnd {
    type Flow = SctpFlow;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        &self.end.runtime
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.end.listen
    }

    fn longest_message(&self) -> usize {
        LONGEST_MESSAGE_BYTES
    }

    fn reliable(&self) -> bool {
        true
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        stop: &Stop,
    ) -> Result<SctpFlow, TransportError> {
        let until = MonotonicTime::now() + self.end.connect_deadline;
        let link = self.end.connect(peer, purpose, until, stop).await?;
        let id = link.with(|one| one.open_stream())?;
        Ok(SctpFlow::new(
            (link, id),
            VecDeque::new(),
            true,
            self.end.side(),
            stop,
        ))
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<SctpFlow, TransportError> {
        let since = MonotonicTime::now();
        let accepted = poll_fn(|context| self.poll_admitted(admit, stop, context));
        match within(until, stop.unless_raised(accepted)).await {
            Some(flow) => flow,
            None => Err(timed_out("SCTP association", since)),
        }
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.end.facts.clone()
    }

    fn warnings(&self, _message_bytes: usize) -> Vec<Warning> {
        self.end.warnings()
    }
}
