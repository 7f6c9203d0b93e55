//! Socket and associations of one end, driven by the task that holds the lock: the stack itself
//! does no input or output and has no clock.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::Bytes;
use regatta_transport::{Purpose, TransportError};
use sctp_proto::{
    AssociationHandle, ClientConfig, DatagramEvent, EndpointEvent, Event, StreamEvent,
    TransportConfig,
};

use crate::{
    association::{Association, Ending, Limits},
    socket::Datagrams,
    wire,
};

/// Number of packets that are processed before they are answered, if that many have arrived.
const PACKETS_AT_ONCE: usize = 64;

/// Number of an association at this end.
pub(crate) type Number = usize;

/// Event at a listening end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// Association requested by the other end.
    Asked,
    /// Association established.
    Established(Number),
}

/// State of one end.
pub(crate) struct Core {
    stack: sctp_proto::Endpoint,
    config: Arc<TransportConfig>,
    limits: Limits,
    datagrams: Datagrams,
    /// Only host from which packets are accepted.
    peer: IpAddr,
    associations: BTreeMap<Number, Association>,
    incoming: VecDeque<Incoming>,
    /// Wakers of the tasks that wait for associations to come, or to end.
    waiting: Vec<Waker>,
    /// Waker of the task that calls [`Core::poll_drive`].
    driver: Option<Waker>,
    received: Vec<(SocketAddr, Bytes)>,
    broken: Option<String>,
}

impl Core {
    pub(crate) fn new(
        stack: sctp_proto::Endpoint,
        config: Arc<TransportConfig>,
        limits: Limits,
        datagrams: Datagrams,
        peer: IpAddr,
    ) -> Self {
        Self {
            stack,
            config,
            limits,
            datagrams,
            peer: peer.to_canonical(),
            associations: BTreeMap::new(),
            incoming: VecDeque::new(),
            waiting: Vec::new(),
            driver: None,
            received: Vec::new(),
            broken: None,
        }
    }

    /// Begins to establish an association.
    ///
    /// # Errors
    /// The stack refuses the address.
    pub(crate) fn connect(
        &mut self,
        to: SocketAddr,
        purpose: Purpose,
    ) -> Result<Number, TransportError> {
        let mut config = ClientConfig::new();
        config.transport = Arc::clone(&self.config);
        let (handle, inner) = self
            .stack
            .connect(config, to)
            .map_err(TransportError::stack(format!(
                "cannot connect to `{}`",
                to.ip()
            )))?;
        let number = handle.0;
        let limits = match purpose {
            Purpose::Transfer => self.limits,
            Purpose::IdleProbe | Purpose::LoadProbe => self.limits.of_probe(),
        };
        let association = Association::new(inner, to, true, None, limits);
        self.associations.insert(number, association);
        self.send(number);
        Ok(number)
    }

    pub(crate) fn association(&mut self, number: Number) -> Option<&mut Association> {
        self.associations.get_mut(&number)
    }

    /// Returns the next event of incoming associations.
    pub(crate) fn poll_incoming(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Result<Incoming, TransportError>> {
        if let Some(incoming) = self.incoming.pop_front() {
            return Poll::Ready(Ok(incoming));
        }
        if let Some(broken) = &self.broken {
            return Poll::Ready(Err(TransportError::stack("the socket broke")(
                broken.clone(),
            )));
        }
        self.waiting.push(context.waker().clone());
        Poll::Pending
    }

    /// Waits until every association has ended; those that have may still be held by a user.
    pub(crate) fn poll_quiet(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.associations.values().all(|one| one.ended().is_some()) {
            return Poll::Ready(());
        }
        self.waiting.push(context.waker().clone());
        Poll::Pending
    }

    fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Makes the driving task send what an association has to send.
    pub(crate) fn schedule(&mut self, number: Number) {
        if let Some(association) = self.associations.get_mut(&number)
            && !std::mem::replace(&mut association.dirty, true)
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
    }

    /// Sends everything that the association has to send now.
    pub(crate) fn send(&mut self, number: Number) {
        if let Some(association) = self.associations.get_mut(&number) {
            association.transmit(Instant::now(), &mut self.datagrams);
        }
        self.flush();
        // Its timers may have changed.
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Closes an association in good order as soon as everything sent is acknowledged.
    pub(crate) fn close(&mut self, number: Number) {
        if let Some(association) = self.associations.get_mut(&number) {
            association.close(Instant::now());
        }
        self.schedule(number);
    }

    /// Aborts an association at once and tells the other end.
    pub(crate) fn abort(&mut self, number: Number, why: Ending) {
        if let Some(association) = self.associations.get_mut(&number) {
            association.abort(why, &mut self.datagrams);
            self.flush();
            self.wake_waiting();
        }
    }

    /// Aborts all associations.
    pub(crate) fn abort_all(&mut self) {
        let numbers: Vec<_> = self.associations.keys().copied().collect();
        for number in numbers {
            self.abort(number, Ending::Stopped);
        }
    }

    /// Closes an association whose user was dropped; its state is dropped when that is done.
    pub(crate) fn release(&mut self, number: Number) {
        if let Some(association) = self.associations.get_mut(&number) {
            association.released = true;
        }
        self.close(number);
    }

    fn flush(&mut self) {
        if let Err(error) = self.datagrams.flush() {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        let reason = error.to_string();
        for association in self.associations.values_mut() {
            association.end(Ending::Failed(reason.clone()));
        }
        self.broken = Some(reason);
        self.wake_waiting();
    }

    /// Processes received packets, and sends those that are due. The task that calls this is woken
    /// by any event but the clock; the time of the next timer is returned.
    pub(crate) fn poll_drive(&mut self, context: &mut Context<'_>) -> Option<Instant> {
        if self
            .driver
            .as_ref()
            .is_none_or(|waker| !waker.will_wake(context.waker()))
        {
            self.driver = Some(context.waker().clone());
        }
        if self.broken.is_some() {
            return None;
        }
        self.receive();
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut gone = Vec::new();
        for (number, association) in &mut self.associations {
            if association.expire(now) || association.dirty {
                association.transmit(now, &mut self.datagrams);
            }
            association.wake_writers();
            if association.ended().is_some() && association.released {
                gone.push(*number);
            } else if let Some(timer) = association.next_timer() {
                next = Some(next.map_or(timer, |next| next.min(timer)));
            }
        }
        self.flush();
        for number in gone {
            self.forget(number);
        }
        if self.datagrams.poll_ready(context).is_ready() {
            context.waker().wake_by_ref();
        }
        next
    }

    fn forget(&mut self, number: Number) {
        self.associations.remove(&number);
        // Nothing comes back: the stack only strikes it from its tables.
        drop(
            self.stack
                .handle_event(AssociationHandle(number), EndpointEvent::drained()),
        );
        self.wake_waiting();
    }

    fn receive(&mut self) {
        let mut received = std::mem::take(&mut self.received);
        while received.len() < PACKETS_AT_ONCE {
            match self.datagrams.receive(&mut received) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What the network says of a packet that was sent is not about the association.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(
                            libc::EINTR
                                | libc::ECONNREFUSED
                                | libc::EHOSTUNREACH
                                | libc::ENETUNREACH
                        )
                    ) => {}
                Err(error) => {
                    self.fail(&error);
                    break;
                }
            }
        }
        let now = Instant::now();
        for (from, packet) in received.drain(..) {
            self.take_in(now, from, packet);
        }
        self.received = received;
    }

    fn take_in(&mut self, now: Instant, from: SocketAddr, packet: Bytes) {
        if from.ip().to_canonical() != self.peer {
            return;
        }
        let tag = wire::initiate_tag(&packet);
        // The stack ends an established association when its INIT comes once more, as it does when
        // the path duplicates packets; RFC 9260 §5.2.2 has the association go on.
        if let Some(tag) = tag
            && self
                .associations
                .values()
                .any(|one| one.initiate_tag() == Some(tag) && !one.is_handshaking())
        {
            return;
        }
        match self.stack.handle(now, from, None, None, packet.clone()) {
            None => {}
            Some((AssociationHandle(number), DatagramEvent::NewAssociation(inner))) => {
                let association = Association::new(inner, from, false, tag, self.limits);
                self.associations.insert(number, association);
                self.incoming.push_back(Incoming::Asked);
                self.wake_waiting();
                self.take_events(number);
            }
            Some((AssociationHandle(number), DatagramEvent::AssociationEvent(event))) => {
                let Some(association) = self.associations.get_mut(&number) else {
                    return;
                };
                association.take_in(&packet, event);
                self.take_events(number);
            }
        }
    }

    fn take_events(&mut self, number: Number) {
        let Some(association) = self.associations.get_mut(&number) else {
            return;
        };
        let mut changed = false;
        while let Some(event) = association.poll_event() {
            match event {
                Event::Connected => {
                    association.open();
                    changed = true;
                    if !association.connects() {
                        self.incoming.push_back(Incoming::Established(number));
                    }
                }
                Event::Stream(StreamEvent::Opened { id }) => association.stream_opened(id),
                Event::Stream(StreamEvent::Readable { id }) => association.readable(id),
                Event::HandshakeFailed { reason } => {
                    association.end(Ending::Failed(reason.to_string()));
                    changed = true;
                }
                Event::AssociationLost { reason } => {
                    association.lost(&reason, &mut self.datagrams);
                    changed = true;
                }
                _ => {}
            }
        }
        association.dirty = true;
        if changed {
            self.wake_waiting();
        }
    }
}
