//! An exchange over a transport in memory that loses, duplicates and delays as the test says.

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
use regatta_control::{SideReport, TrialOrder};
use regatta_model::{Arrivals, Bytes, OptionValue, Pattern, WorkloadKind};

use crate::{
    Accepted, Arrival, Blocking, Carries, Client, ClientSession, Driver, DriverDescriptor,
    Endpoint, MessageEndpoint, MessageFlow, MessageSession, MonotonicTime, Purpose, Server,
    ServerSession, Stop, TransportError, TrialContext, Unsupported,
    testing::{Pair, run_pair},
};

/// Impairment of a message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Impairment {
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
const QUEUED: usize = 50;
const LEAVE: usize = 30;

/// Time that leaving takes: longer than a receiver waits for messages that have left.
const LEAVING: Duration = Duration::from_millis(200);

/// Decision by a message's length and number; of control messages the number means nothing.
type Decide = fn(usize, u64) -> Impairment;

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
struct Lossy {
    reliable: bool,
    sender: Mutex<Option<End>>,
    receiver: Mutex<Option<End>>,
    /// Number of waits at the receiver.
    waits: Arc<AtomicU32>,
}

impl Lossy {
    fn new(there: Decide, back: Decide) -> Self {
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

fn run(wire: &Lossy, kind: &WorkloadKind) -> Pair {
    run_pair(wire, 0, 1, |order| order.workload.kind = kind.clone())
        .expect("both ends can be prepared")
}

/// Timeout that is longer than a busy machine holds a thread up.
const TIMEOUT: Duration = Duration::from_millis(400);

#[test]
fn lost_late_and_duplicate_messages_are_distinguished() {
    let wire = Lossy::new(
        |length, number| match (length, number) {
            (100, 2) => Impairment::Lost,
            (100, 8) => Impairment::Doubled,
            _ => Impairment::Delivered,
        },
        |length, number| match (length, number) {
            (16, 4) => Impairment::Lost,
            (16, 6) => Impairment::HeldBack,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(1000),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: TIMEOUT,
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    let receiver = pair.receiver.expect("the receiver's report");
    for (report, name, expected) in [
        (&sender, "messages_sent", 10.0),
        (&sender, "messages_lost", 1.0),
        (&sender, "message_loss_ratio", 0.1),
        (&sender, "messages_unacknowledged", 3.0),
        (&sender, "late_answers", 1.0),
        (&receiver, "messages_delivered", 9.0),
        (&receiver, "bytes_delivered", 900.0),
        (&receiver, "messages_duplicated", 1.0),
        (&receiver, "messages_reordered", 0.0),
        (&receiver, "messages_corrupted", 0.0),
    ] {
        assert_eq!(report.measurements.metrics[name], expected, "{name}");
    }
    // Three time-outs are in the time of the transfer, and in no delay.
    let timeout = TIMEOUT.as_nanos() as f64;
    assert!(sender.measurements.metrics["transfer_time_ns"] >= 3.0 * timeout);
    assert!(sender.measurements.metrics["message_delay_max_ns"] < timeout);
    assert_eq!(sender.measurements.facts["answers.timeout"], "400 ms");
    assert!(
        sender.measurements.warnings.is_empty(),
        "{:?}",
        sender.measurements.warnings
    );
}

#[test]
fn receiver_waits_for_messages_without_polling() {
    let wire = Lossy::new(
        |_, _| Impairment::Delivered,
        |length, number| match (length, number) {
            (16, 2..5) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(1000),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: TIMEOUT,
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    assert_eq!(sender.measurements.metrics["messages_unacknowledged"], 3.0);
    pair.receiver.expect("the receiver's report");
    // Each of ten messages ends a wait, and each note; the sender's three time-outs do not.
    let waits = wire.waits.load(Ordering::Relaxed);
    assert!((10..=20).contains(&waits), "{waits}");
}

/// Runs a stop-and-wait of three messages that waits for an hour for an answer, of which `answers` loses one; returns
/// the report of the sender, which its deadline of a second stops.
fn run_to_the_deadline(answers: Decide) -> SideReport {
    let wire = Lossy::new(|_, _| Impairment::Delivered, answers);
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(300),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: Duration::from_secs(3600),
    };
    let pair = run_pair(&wire, 0, 1, |order| {
        order.workload.kind = kind.clone();
        order.deadline = Duration::from_secs(1);
    });
    let sender = pair.expect("both ends").sender;
    sender.expect("the sender's report")
}

#[test]
fn a_deadline_ends_the_wait_for_an_answer() {
    let report = run_to_the_deadline(|length, number| match (length, number) {
        (16, 1) => Impairment::Lost,
        _ => Impairment::Delivered,
    });
    assert_eq!(report.measurements.metrics["messages_sent"], 2.0);
}

#[test]
fn deadline_ends_the_wait_for_the_last_answer_of_a_finished_end() {
    let report = run_to_the_deadline(|length, number| match (length, number) {
        (16, 2) => Impairment::Lost,
        _ => Impairment::Delivered,
    });
    assert_eq!(report.measurements.metrics["messages_sent"], 3.0);
}

#[test]
fn one_byte_messages_are_distinguished() {
    let wire = Lossy::new(
        |length, _| {
            assert!(length == 1 || length > 16);
            Impairment::Delivered
        },
        |length, number| match (length, number) {
            (16, 100) => Impairment::HeldBack,
            (16, 356) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(400),
        message: Bytes(1),
        pattern: Pattern::Zeros,
        timeout: TIMEOUT,
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    let receiver = pair.receiver.expect("the receiver's report");
    assert_eq!(sender.measurements.metrics["messages_unacknowledged"], 2.0);
    assert_eq!(sender.measurements.metrics["late_answers"], 1.0);
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    assert_eq!(receiver.measurements.metrics["messages_delivered"], 400.0);
    assert_eq!(receiver.measurements.metrics["messages_duplicated"], 0.0);
}

#[test]
fn unanswered_requests_are_counted_and_block_no_others() {
    let wire = Lossy::new(
        |length, number| match (length, number) {
            (200, 1) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
        |length, number| match (length, number) {
            (50, 3) => Impairment::Lost,
            (50, 5) => Impairment::Doubled,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::RequestResponse {
        requests: 20,
        request: Bytes(200),
        response: Bytes(50),
        arrivals: Arrivals::Closed { outstanding: 4 },
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    let receiver = pair.receiver.expect("the receiver's report");
    assert_eq!(sender.measurements.metrics["messages_sent"], 20.0);
    assert_eq!(sender.measurements.metrics["messages_lost"], 1.0);
    assert_eq!(sender.measurements.metrics["requests_unanswered"], 2.0);
    assert_eq!(receiver.measurements.metrics["messages_delivered"], 19.0);
    // At least a second, as the path is short.
    assert_eq!(sender.measurements.facts["answers.timeout"], "1 s");
    assert!(sender.measurements.metrics["transfer_time_ns"] >= 1e9);
    assert!(sender.measurements.metrics["requests_per_second"] > 0.0);
    assert!(
        sender
            .measurements
            .warnings
            .iter()
            .any(|warning| warning.code == "answers_corrupted"),
        "the doubled answer is told of"
    );
}

#[test]
fn last_answer_of_a_finished_end_is_awaited() {
    let wire = Lossy::new(
        |_, _| Impairment::Delivered,
        |length, number| match (length, number) {
            (16, 2) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(300),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: TIMEOUT,
    };
    let pair = run(&wire, &kind);
    let sender = pair.sender.expect("the sender's report");
    assert_eq!(sender.measurements.metrics["messages_unacknowledged"], 1.0);
    assert_eq!(sender.measurements.metrics["messages_lost"], 0.0);
    assert!(sender.measurements.metrics["transfer_time_ns"] >= TIMEOUT.as_nanos() as f64);
    assert_eq!(sender.measurements.facts["acknowledgement"], "in_band");
}

#[test]
fn counting_after_the_last_answer_is_not_in_the_time() {
    static CONTROLS: AtomicU32 = AtomicU32::new(0);
    let wire = Lossy::new(
        |length, number| match (length, number) {
            (100, 1) => Impairment::Lost,
            _ => Impairment::Delivered,
        },
        // The answer to the opening comes, and no acknowledgement: the sender waits longer than a timeout for the count
        // of the receiver.
        |length, _| match length {
            16 => Impairment::Delivered,
            _ if CONTROLS.fetch_add(1, Ordering::Relaxed) == 0 => Impairment::Delivered,
            _ => Impairment::Lost,
        },
    );
    let kind = WorkloadKind::StopAndWait {
        size: Bytes(300),
        message: Bytes(100),
        pattern: Pattern::Data,
        timeout: TIMEOUT,
    };
    let sender = run(&wire, &kind).sender.expect("the sender's report");
    assert!(CONTROLS.load(Ordering::Relaxed) > 1);
    let time_ns = sender.measurements.metrics["transfer_time_ns"];
    assert!(
        time_ns < 2.0 * TIMEOUT.as_nanos() as f64,
        "{time_ns} ns with one timeout"
    );
}

#[test]
fn messages_queued_in_the_transport_at_the_deadline_are_not_lost() {
    const DELIVERED: u64 = 1020;
    let wire = Lossy::new(
        |length, number| match (length, number) {
            (100, 10) => Impairment::Lost,
            (100, DELIVERED..) => Impairment::Queued,
            _ => Impairment::Delivered,
        },
        |_, _| Impairment::Delivered,
    );
    // Many times as long as the messages take that are delivered.
    let pair = run_pair(&wire, 1 << 30, 100, |order| {
        order.deadline = Duration::from_secs(3);
    });
    let pair = pair.expect("both ends");
    let sender = pair.sender.expect("the sender's report");
    let receiver = pair.receiver.expect("the receiver's report");
    assert_eq!(
        receiver.measurements.metrics["messages_delivered"],
        (DELIVERED - 1) as f64
    );
    // Those that leave late arrive, and those that never leave are not lost.
    assert_eq!(sender.measurements.metrics["messages_lost"], 1.0);
    assert_eq!(
        sender.measurements.facts["messages_given_up.sender"],
        (QUEUED - LEAVE).to_string()
    );
}

#[test]
fn ambiguous_messages_and_files_are_unsupported() {
    let request_response = |request, response| WorkloadKind::RequestResponse {
        requests: 10,
        request: Bytes(request),
        response: Bytes(response),
        arrivals: Arrivals::Closed { outstanding: 1 },
    };
    let too_short = "choose `request` and `response` of at least 4 B";
    for (kind, hint) in [
        (request_response(3, 100), too_short),
        (request_response(100, 1), too_short),
        (
            request_response(100, 1001),
            "choose a message of at most 1000 B",
        ),
        (
            WorkloadKind::StopAndWait {
                size: Bytes(100),
                message: Bytes(10),
                pattern: Pattern::File,
                timeout: TIMEOUT,
            },
            "write `pattern = \"random\"`, or `kind = \"bulk\"`",
        ),
    ] {
        let wire = Lossy::new(|_, _| Impairment::Delivered, |_, _| Impairment::Delivered);
        let refused = run_pair(&wire, 0, 1, |order| order.workload.kind = kind.clone());
        match refused {
            Err(error @ TransportError::Unsupported(_)) => assert_eq!(error.hint(), hint),
            _ => panic!("{} was not refused", kind.description()),
        }
    }
}

#[test]
fn message_overtaken_by_the_end_marker_is_lost_only_if_unreliable() {
    for (reliable, lost) in [(true, 0.0), (false, 1.0)] {
        let mut wire = Lossy::new(
            |length, number| match (length, number) {
                (100, 9) => Impairment::Overtaken,
                _ => Impairment::Delivered,
            },
            |_, _| Impairment::Delivered,
        );
        wire.reliable = reliable;
        let pair = run_pair(&wire, 1000, 100, |_| {}).expect("both ends can be prepared");
        let sender = pair.sender.expect("the sender's report");
        assert_eq!(
            sender.measurements.metrics["messages_lost"], lost,
            "reliable: {reliable}"
        );
    }
}
