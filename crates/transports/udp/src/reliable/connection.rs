//! A connection over a socket: calls advance it, and the thread of [`super::timer`] when no call does.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::Shutdown,
    os::fd::AsRawFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use regatta_transport::{
    Abort, MonotonicTime, ProtocolSample, Received, StatisticsSource, StreamConnection,
    TransportError, wait,
};
use socket2::Socket;

use super::{
    core::{Core, Over},
    frame::Frame,
    sender::Rules,
    stream::Stream,
    timer::{Pending, Wake},
};
use crate::batch::{self, MOST_SEGMENTS, ReceiveBatch};

/// Maximum of unread bytes for an application that does not receive; further messages are ignored
/// and sent again later.
const UNREAD_LIMIT: usize = 64 << 20;

/// Number of new messages that are collected to share a system call.
const TOGETHER: usize = 32;

/// Number of copies of CLOSE, as it is not acknowledged.
const CLOSE_COPIES: u32 = 3;

/// Messages that have arrived and were not read yet.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Unread {
    pub(crate) fn push(&mut self, message: &[u8]) {
        self.bytes += message.len();
        self.messages.push_back(message.to_vec());
    }
}

/// State of a connection, under the lock.
struct Inner {
    core: Core,
    unread: Unread,
    inbox: ReceiveBatch,
    /// Whether a call is in progress, which advances the connection by itself.
    attended: bool,
    /// Error code of a socket that failed.
    broken: Option<i32>,
    /// Largest datagram that fits a packet, in bytes, if the kernel cuts several out of one call.
    segment_limit: Option<usize>,
    frame: Vec<u8>,
    batch: Vec<u64>,
}

impl Inner {
    /// Handles arrived datagrams and due timers, then sends all that may be sent. Returns whether
    /// anything had arrived.
    fn turn(&mut self, link: &Link, deliver: &mut impl FnMut(&mut Unread, &[u8])) -> bool {
        // The time of arrival is taken when the call returns: taken before it, a round trip would
        // seem shorter than it was whenever this thread had to wait for its core.
        let mut arrived = None;
        let Self {
            core,
            unread,
            inbox,
            ..
        } = self;
        let received = inbox.receive(link.socket.as_raw_fd(), &mut |datagram| {
            let now = *arrived.get_or_insert_with(MonotonicTime::now);
            let room = unread.bytes < UNREAD_LIMIT;
            core.handle(now, datagram, room, &mut |message| deliver(unread, message));
        });
        let received = match received {
            Ok(received) => received > 0,
            Err(error) => {
                self.failed(&error);
                false
            }
        };
        let now = arrived.unwrap_or_else(MonotonicTime::now);
        self.core.on_time(now);
        self.transmit(link, now);
        received
    }

    /// Handles an error of the socket.
    fn failed(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => {}
            // The host of the other end has no such socket (any more).
            Some(libc::ECONNREFUSED) => self.core.peer_is_gone(),
            code => self.broken = code.or(Some(libc::EIO)),
        }
    }

    fn transmit(&mut self, link: &Link, now: MonotonicTime) {
        while self.core.poll_frame(now, &mut self.frame) {
            if let Err(error) = link.socket.send(&self.frame) {
                self.failed(&error);
            }
        }
        loop {
            self.batch.clear();
            while self.batch.len() < MOST_SEGMENTS
                && let Some(number) = self.core.poll_message(now)
            {
                self.batch.push(number);
            }
            if self.batch.is_empty() {
                return;
            }
            let mut sent = 0;
            while sent < self.batch.len() && self.broken.is_none() {
                match self.send_messages(link, sent) {
                    Ok(count) => sent += count,
                    Err(error) => match error.raw_os_error() {
                        _ if link.is_aborted() => return,
                        // The send buffer was full for as long as the socket's send timeout.
                        Some(libc::EAGAIN | libc::EINTR) => {}
                        // The queue of the interface is full, and has dropped the first.
                        Some(libc::ENOBUFS) => sent += 1,
                        Some(libc::EIO | libc::EINVAL) if self.segment_limit.is_some() => {
                            self.segment_limit = None;
                        }
                        _ => {
                            self.failed(&error);
                            return;
                        }
                    },
                }
            }
        }
    }

    /// Sends the messages of the batch from this position on; returns the number that the kernel
    /// took.
    fn send_messages(&self, link: &Link, from: usize) -> io::Result<usize> {
        let mut datagrams = [([].as_slice(), [].as_slice()); MOST_SEGMENTS];
        let mut count = 0;
        for (place, number) in datagrams.iter_mut().zip(&self.batch[from..]) {
            if let Some(datagram) = self.core.datagram(*number) {
                *place = datagram;
                count += 1;
            }
        }
        batch::send_parts(
            link.socket.as_raw_fd(),
            &datagrams[..count],
            self.segment_limit,
        )
    }

    /// Returns the reason why the connection cannot go on, if there is one.
    fn error(&self, rules: Rules) -> Option<TransportError> {
        if let Some(code) = self.broken {
            let error = io::Error::from_raw_os_error(code);
            return Some(TransportError::io("cannot send or receive")(error));
        }
        let waits = rules.max_retransmits.saturating_add(1);
        Some(match self.core.over()? {
            Over::Closed => TransportError::Closed { flow: "connection" },
            Over::Refused => TransportError::Protocol {
                what: "the other end refused the connection: it knows another token".to_owned(),
            },
            Over::NoAnswer => TransportError::TimedOut {
                what: format!("answer to {waits} CONN"),
                seconds: rules.max_wait.as_secs_f64() * f64::from(waits),
            },
            Over::GaveUp => TransportError::Protocol {
                what: format!(
                    "gave up: a message had no acknowledgement after {} retransmissions",
                    rules.max_retransmits
                ),
            },
        })
    }
}

/// A connection and its socket.
pub(crate) struct Link {
    socket: Socket,
    rules: Rules,
    inner: Mutex<Inner>,
    aborted: AtomicBool,
    wake: Arc<Wake>,
}

impl Link {
    /// Returns a link that delivers `first` to the application before any message. `wake` is that of
    /// the thread that advances it while no call does.
    pub(crate) fn new(
        socket: Socket,
        rules: Rules,
        core: Core,
        segment_limit: Option<usize>,
        first: &[u8],
        wake: &Arc<Wake>,
    ) -> Arc<Self> {
        let mut unread = Unread::default();
        if !first.is_empty() {
            unread.push(first);
        }
        Arc::new(Self {
            socket,
            rules,
            inner: Mutex::new(Inner {
                core,
                unread,
                inbox: ReceiveBatch::new(),
                attended: false,
                broken: None,
                segment_limit,
                frame: Vec::new(),
                batch: Vec::new(),
            }),
            aborted: AtomicBool::new(false),
            wake: Arc::clone(wake),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// Advances the connection until `step` has a result; `None` if `until` comes first.
    fn call<T>(
        &self,
        until: MonotonicTime,
        deliver: &mut impl FnMut(&mut Unread, &[u8]),
        step: impl FnMut(&Core) -> Option<T>,
    ) -> Result<Option<T>, TransportError> {
        self.lock().attended = true;
        let result = self.attend(until, deliver, step);
        let mut inner = self.lock();
        inner.attended = false;
        self.wake.by(inner.core.next_time());
        result
    }

    fn attend<T>(
        &self,
        until: MonotonicTime,
        deliver: &mut impl FnMut(&mut Unread, &[u8]),
        mut step: impl FnMut(&Core) -> Option<T>,
    ) -> Result<Option<T>, TransportError> {
        loop {
            let next = {
                let mut inner = self.lock();
                if self.is_aborted() {
                    return Err(TransportError::Cancelled);
                }
                let received = inner.turn(self, deliver);
                if let Some(done) = step(&inner.core) {
                    return Ok(Some(done));
                }
                if let Some(error) = inner.error(self.rules) {
                    return Err(error);
                }
                if until != MonotonicTime::NEVER && until.has_passed() {
                    return Ok(None);
                }
                if received {
                    continue;
                }
                inner.core.next_time()
            };
            let wake = next.map_or(until, |next| next.min(until));
            wait::ready(&self.socket, libc::POLLIN, wake)
                .map_err(TransportError::io("cannot receive"))?;
        }
    }

    /// Waits until the connection is established.
    pub(crate) fn opened(&self, until: MonotonicTime) -> Result<(), TransportError> {
        let begun = MonotonicTime::now();
        self.call(until, &mut Unread::push, |core| {
            core.is_open().then_some(())
        })?
        .ok_or_else(|| TransportError::TimedOut {
            what: "answer to CONN".to_owned(),
            seconds: MonotonicTime::now().since(begun).as_secs_f64(),
        })
    }

    /// Sends all that may be sent, without receiving.
    pub(crate) fn transmit(&self) -> Result<(), TransportError> {
        let mut inner = self.lock();
        if self.is_aborted() {
            return Err(TransportError::Cancelled);
        }
        inner.transmit(self, MonotonicTime::now());
        self.wake.by(inner.core.next_time());
        inner.error(self.rules).map_or(Ok(()), Err)
    }

    /// Takes over one message that fits a datagram, waiting for room.
    pub(crate) fn push(&self, prefix: &[u8], payload: Bytes) -> Result<(), TransportError> {
        // Behind a lost message others wait that have arrived, so the window needs room twice.
        let (most, few) = match self.rules.window {
            1 => (1, 1),
            window => (2 * window + TOGETHER, 2 * window),
        };
        let mut inner = self.lock();
        if inner.core.held() >= most {
            drop(inner);
            self.call(MonotonicTime::NEVER, &mut Unread::push, |core| {
                (core.held() < few).then_some(())
            })?;
            inner = self.lock();
        }
        if self.is_aborted() {
            return Err(TransportError::Cancelled);
        }
        if let Some(error) = inner.error(self.rules) {
            return Err(error);
        }
        inner.core.push(prefix, payload);
        if self.rules.window == 1 {
            inner.transmit(self, MonotonicTime::now());
        } else if inner.core.unsent().is_multiple_of(TOGETHER) {
            inner.turn(self, &mut Unread::push);
        } else {
            return Ok(());
        }
        self.wake.by(inner.core.next_time());
        Ok(())
    }

    /// Ends the sending direction.
    pub(crate) fn push_end(&self) -> Result<(), TransportError> {
        self.lock().core.push_end();
        self.transmit()
    }

    /// Receives messages.
    pub(crate) fn receive(
        &self,
        until: MonotonicTime,
        consume: &mut impl FnMut(&[u8]),
    ) -> Result<Received, TransportError> {
        // In one step, or the other thread could put a message there in between, and the next one would
        // overtake it.
        let unread = {
            let mut inner = self.lock();
            let unread = std::mem::take(&mut inner.unread);
            inner.attended = unread.bytes == 0;
            unread
        };
        if unread.bytes > 0 {
            for message in &unread.messages {
                consume(message);
            }
            return Ok(Received::Bytes(unread.bytes));
        }
        let bytes = std::cell::Cell::new(0);
        let received = self.call(
            until,
            &mut |_, message| {
                bytes.set(bytes.get() + message.len());
                consume(message);
            },
            |core| match bytes.get() {
                0 if core.is_finished() || core.over() == Some(Over::Closed) => {
                    Some(Received::Closed)
                }
                0 => None,
                bytes => Some(Received::Bytes(bytes)),
            },
        )?;
        Ok(received.unwrap_or(Received::TimedOut))
    }

    /// Advances the connection if no call does; returns what is to be waited for until the next time.
    pub(crate) fn advance(&self) -> Pending {
        let mut inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Pending::Call,
        };
        if inner.attended {
            return Pending::Call;
        }
        if self.is_aborted() || inner.error(self.rules).is_some() {
            return Pending::Nothing;
        }
        inner.turn(self, &mut Unread::push);
        if inner.error(self.rules).is_some() {
            return Pending::Nothing;
        }
        Pending::Event(self.socket.as_raw_fd(), inner.core.next_time())
    }

    /// Returns the name of the congestion control.
    pub(crate) fn congestion_control(&self) -> &'static str {
        self.lock().core.congestion_control()
    }

    fn is_segmenting(&self) -> bool {
        self.lock().segment_limit.is_some()
    }
}

impl Abort for Link {
    fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        // Wakes whoever waits for a datagram; the other direction stays open for CLOSE.
        let _ = self.socket.shutdown(Shutdown::Read);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The thread's wait keeps the socket open.
        self.wake.now();
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(inner.core.over(), Some(Over::Closed | Over::Refused)) {
            return;
        }
        Frame::Close.encode(inner.core.session(), &mut inner.frame);
        for _ in 0..CLOSE_COPIES {
            // Whoever is gone needs not be told.
            let _ = self.socket.send(&inner.frame);
        }
    }
}

/// An established connection.
pub(crate) struct Connection {
    link: Arc<Link>,
    statistics: Arc<Statistics>,
    /// The only stream, until it is taken.
    stream: Mutex<Option<Stream>>,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, stream: Stream, facts: BTreeMap<String, String>) -> Self {
        let statistics = Arc::new(Statistics {
            link: Arc::downgrade(&link),
            facts,
        });
        Self {
            link,
            statistics,
            stream: Mutex::new(Some(stream)),
        }
    }

    fn take(&self) -> Result<Stream, TransportError> {
        self.stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .ok_or_else(|| TransportError::Protocol {
                what: "a connection of `udp-reliable` has one stream".to_owned(),
            })
    }
}

impl StreamConnection for Connection {
    type Stream = Stream;

    async fn open_stream(&self) -> Result<Stream, TransportError> {
        self.take()
    }

    async fn accept_stream(&self, _until: MonotonicTime) -> Result<Stream, TransportError> {
        self.take()
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::clone(&self.statistics) as Arc<dyn StatisticsSource>
    }

    async fn close(self, until: MonotonicTime) {
        // Whatever goes wrong now, it is closed.
        let _ = self.link.call(until, &mut Unread::push, |core| {
            (core.held() == 0).then_some(())
        });
    }
}

/// Statistics of a connection, readable while that exists.
struct Statistics {
    link: Weak<Link>,
    facts: BTreeMap<String, String>,
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        Some(self.link.upgrade()?.lock().core.sample())
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        if let Some(gso) = facts.get_mut("gso.sender")
            && gso == "on"
            && self
                .link
                .upgrade()
                .is_some_and(|link| !link.is_segmenting())
        {
            *gso = "off: the kernel refused it for this path".to_owned();
        }
        facts
    }
}
