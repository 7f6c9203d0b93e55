//! A transport of messages in memory that loses, duplicates and delays as a test says. It has one flow.

use std::{
    collections::{BTreeMap, VecDeque},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

use parking_lot::Mutex;
use regatta_control::TrialOrder;
use regatta_model::{OptionValue, WorkloadKind};

use crate::{
    Accepted, Arrival, Blocking, Carries, Client, ClientSession, Driver, DriverDescriptor,
    Endpoint, MessageEndpoint, MessageFlow, MessageSession, MonotonicTime, Purpose, Server,
    ServerSession, Stop, TransportError, TrialContext, Unsupported,
    testing::{Pair, run_pair},
};

/// Impairment of a message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Impairment {
    Delivered,
    Lost,
    Doubled,
    /// Arrives together with the next message of its direction, before it.
    HeldBack,
    /// Arrives after the next message of its direction.
    Overtaken,
    /// Waits for its turn in the transport, as [`QUEUED`] of them can.
    Queued,
}

/// Messages that wait for their turn, and those of them that have it when the flow is stopped.
pub(crate) const QUEUED: usize = 50;
pub(crate) const LEAVE: usize = 30;

/// Time that leaving takes: longer than a receiver waits for messages that have left.
const LEAVING: Duration = Duration::from_millis(200);

/// Decision by a message's length and number; of control messages the number means nothing.
pub(crate) type Decide = fn(usize, u64) -> Impairment;

struct End {
    out: Sender<Vec<u8>>,
    arrivals: Receiver<Vec<u8>>,
    decide: Decide,
    /// Number of waits for messages.
    waits: Arc<AtomicU32>,
}

struct Wire {
    end: End,
    stop: Stop,
    /// Messages that came with the opening.
    first: VecDeque<Vec<u8>>,
    held: Option<Vec<u8>>,
    overtaken: Option<Vec<u8>>,
    queued: VecDeque<Vec<u8>>,
}

impl End {
    /// Waits for a message until the moment has come.
    fn take(&self, until: MonotonicTime, stop: &Stop) -> Result<Option<Vec<u8>>, TransportError> {
        loop {
            if stop.is_stopped() {
                return Err(TransportError::Cancelled);
            }
            let left = until.remaining().min(Duration::from_millis(5));
            match self.arrivals.recv_timeout(left) {
                Ok(message) => return Ok(Some(message)),
                Err(RecvTimeoutError::Timeout) if until.has_passed() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(TransportError::Closed { flow: "wire" });
                }
            }
        }
    }
}

impl MessageFlow for Wire {
    fn batch_messages(&self, _: usize) -> usize {
        3
    }

    async fn send_batch(&mut self, batch: &[u8], each: usize) -> Result<(), TransportError> {
        for message in batch.chunks(each) {
            let number = message
                .first_chunk::<4>()
                .map_or(0, |low| u32::from_le_bytes(*low).into());
            let impairment = (self.end.decide)(message.len(), number);
            if impairment == Impairment::HeldBack {
                self.held = Some(message.to_vec());
                continue;
            }
            if impairment == Impairment::Queued {
                while self.queued.len() == QUEUED {
                    self.end.take(MonotonicTime::NEVER, &self.stop)?;
                }
                self.queued.push_back(message.to_vec());
                continue;
            }
            let copies = match impairment {
                Impairment::Lost => 0,
                Impairment::Doubled => 2,
                _ => 1,
            };
            let held = self.held.take();
            let overtaken = self.overtaken.take();
            if impairment == Impairment::Overtaken {
                self.overtaken = Some(message.to_vec());
                continue;
            }
            for message in held
                .into_iter()
                .chain((0..copies).map(|_| message.to_vec()))
                .chain(overtaken)
            {
                // The other end may have closed, as with a datagram.
                let _ = self.end.out.send(message);
            }
        }
        Ok(())
    }

    async fn receive_batch(
        &mut self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize, TransportError> {
        self.end.waits.fetch_add(1, Ordering::Relaxed);
        let message = match self.first.pop_front() {
            Some(first) => Some(first),
            None => self.end.take(until, &self.stop)?,
        };
        if let Some(data) = &message {
            consume(Arrival { data });
        }
        Ok(usize::from(message.is_some()))
    }

    async fn settle(&mut self) -> u64 {
        std::thread::sleep(LEAVING);
        for message in self.queued.drain(..LEAVE.min(self.queued.len())) {
            let _ = self.end.out.send(message);
        }
        self.queued.len() as u64
    }
}

struct WireEnd {
    end: Mutex<Option<End>>,
    reliable: bool,
}

impl WireEnd {
    fn end(&self) -> End {
        let end = self.end.lock().take();
        end.expect("a trial without probes has one flow")
    }
}

impl Wire {
    fn new(end: End, stop: &Stop, first: VecDeque<Vec<u8>>) -> Self {
        Self {
            end,
            stop: stop.clone(),
            first,
            held: None,
            overtaken: None,
            queued: VecDeque::new(),
        }
    }
}

impl Endpoint for WireEnd {
    type Connection = Wire;
    type Executor = Blocking;

    fn executor(&self) -> &Blocking {
        &Blocking
    }
}

impl MessageEndpoint for WireEnd {
    fn longest_message(&self) -> usize {
        1000
    }

    fn reliable(&self) -> bool {
        self.reliable
    }
}

impl Client for WireEnd {
    async fn connect(
        &self,
        _: SocketAddr,
        _: Purpose,
        _: MonotonicTime,
        stop: &Stop,
    ) -> Result<Wire, TransportError> {
        Ok(Wire::new(self.end(), stop, VecDeque::new()))
    }
}

impl Server for WireEnd {
    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 1))
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Accepted<Wire>, TransportError> {
        let end = self.end();
        loop {
            match end.take(until, stop)? {
                Some(message) if admit(&message) => {
                    let wire = Wire::new(end, stop, VecDeque::from([message]));
                    return Ok(Accepted::Connection(wire));
                }
                Some(_) => {}
                None => return Err(TransportError::Closed { flow: "wire" }),
            }
        }
    }
}

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "wire",
    title: "Wire",
    summary: "a transport in memory",
    ip_protocol: None,
    carries: Carries::Messages,
    reliable: false,
    encrypted: false,
    multiplexes: false,
    congestion_control_choosable: false,
    capabilities: &[],
    stack: "none",
    stack_version: "",
    options: &[],
    metrics: &[],
};

/// Both ends of one wire, each given away once.
pub(crate) struct Lossy {
    pub reliable: bool,
    sender: Mutex<Option<End>>,
    receiver: Mutex<Option<End>>,
    /// Number of waits at the receiver.
    pub waits: Arc<AtomicU32>,
}

impl Lossy {
    pub(crate) fn new(there: Decide, back: Decide) -> Self {
        let (to_receiver, at_receiver) = channel();
        let (to_sender, at_sender) = channel();
        let waits = Arc::<AtomicU32>::default();
        let end = |out, arrivals, decide, waits: &Arc<AtomicU32>| {
            Mutex::new(Some(End {
                out,
                arrivals,
                decide,
                waits: Arc::clone(waits),
            }))
        };
        Self {
            reliable: false,
            sender: end(to_receiver, at_sender, there, &Arc::default()),
            receiver: end(to_sender, at_receiver, back, &waits),
            waits,
        }
    }

    fn end(&self, end: &Mutex<Option<End>>) -> WireEnd {
        WireEnd {
            end: Mutex::new(end.lock().take()),
            reliable: self.reliable,
        }
    }
}

impl Driver for Lossy {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn supported(&self, _: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        Ok(())
    }

    fn client(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ClientSession>, TransportError> {
        Ok(MessageSession::new(self.end(&self.sender), order, context)?)
    }

    fn server(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ServerSession>, TransportError> {
        Ok(MessageSession::new(
            self.end(&self.receiver),
            order,
            context,
        )?)
    }
}

/// Runs both ends of a workload.
pub(crate) fn run(wire: &Lossy, kind: &WorkloadKind) -> Pair {
    run_pair(wire, 0, 1, |order| order.workload.kind = kind.clone())
        .expect("both ends can be prepared")
}
