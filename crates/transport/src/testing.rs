//! Both ends of a trial in one process, without agents, for the tests of drivers.
//!
//! [`trial_context`] makes a context in memory. [`run_pair`] runs a sender and a receiver and
//! passes on their notes. The crate `regatta-test-contract` has the clauses that every driver must satisfy.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, LazyLock, Weak, mpsc},
    thread,
    time::{Duration, Instant},
};

use base64::Engine as _;
use parking_lot::Mutex;
use regatta_control::{Note, PathHints, Role, SideReport, TlsMaterial, TrialOrder};
use regatta_model::{Bytes, OptionValue, Pattern, Probe, Transport, Workload, WorkloadKind};

pub use crate::applicable::capability;
use crate::{
    context::{
        LiveCounters, Observer, ProtocolSample, StatisticsSource, TrialContext, WindowEdge,
        WindowStatistics,
    },
    driver::Driver,
    error::{Result, TransportError},
    opening::Purpose,
    peer::Peer,
    stop::Stop,
};

/// An observer that records its calls, and passes notes on to the other end.
#[derive(Default)]
pub struct Recorder {
    edges: Mutex<Vec<WindowEdge>>,
    notes: Mutex<Vec<Note>>,
    transfer: Mutex<Option<Weak<dyn StatisticsSource>>>,
    samples: Mutex<Vec<ProtocolSample>>,
    peer: Mutex<Option<Arc<Peer>>>,
}

impl Recorder {
    /// Passes notes on to the other end, from now on: to what that knows of this one.
    pub fn connect(&self, peer: &Arc<Peer>) {
        *self.peer.lock() = Some(Arc::clone(peer));
    }

    /// Returns the edges of the window so far.
    #[must_use]
    pub fn edges(&self) -> Vec<WindowEdge> {
        self.edges.lock().clone()
    }

    /// Returns the notes that this end sent.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        self.notes.lock().clone()
    }

    /// Samples of the transfer's connection: when it is known, if it has one then, and at the end of the
    /// window.
    #[must_use]
    pub fn samples(&self) -> Vec<ProtocolSample> {
        self.samples.lock().clone()
    }
}

impl Observer for Recorder {
    fn on_window(&self, edge: WindowEdge) {
        self.edges.lock().push(edge);
        if edge == WindowEdge::End {
            let source = self.transfer.lock().as_ref().and_then(Weak::upgrade);
            let sample = source.and_then(|source| source.sample());
            self.samples.lock().extend(sample);
        }
    }

    fn on_connection(&self, purpose: Purpose, source: Weak<dyn StatisticsSource>) {
        if purpose == Purpose::Transfer {
            let sample = source.upgrade().and_then(|source| source.sample());
            self.samples.lock().extend(sample);
            *self.transfer.lock() = Some(source);
        }
    }

    fn window_statistics(&self) -> WindowStatistics {
        let samples = self.samples.lock();
        let in_flight = samples.iter().filter_map(|sample| sample.bytes_in_flight);
        WindowStatistics {
            at_end: samples.last().copied().unwrap_or_default(),
            max_bytes_in_flight: in_flight.max(),
        }
    }

    fn send_note(&self, note: Note) {
        self.notes.lock().push(note);
        if let Some(peer) = self.peer.lock().as_ref() {
            peer.note(note);
        }
    }
}

/// Makes a context in memory, and its observer.
#[must_use]
pub fn trial_context() -> (TrialContext, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let context = TrialContext {
        live: Arc::new(LiveCounters::default()),
        observer: Arc::clone(&recorder) as Arc<dyn Observer>,
        peer: Arc::default(),
        stop: Stop::new(),
    };
    (context, recorder)
}

/// Makes an order for one end of a trial over loopback, without probes: the text `DATA`, deadline
/// 20 s.
#[must_use]
pub fn order_for(role: Role, driver: &str, size: u64, message: u64) -> TrialOrder {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    TrialOrder {
        trial: 0,
        role,
        transport: Transport {
            label: driver.to_owned(),
            driver: driver.to_owned(),
            options: BTreeMap::<String, OptionValue>::new(),
        },
        workload: Workload {
            name: "bulk".to_owned(),
            kind: WorkloadKind::Bulk {
                amount: Bytes(size).into(),
                message: Bytes(message),
                pattern: Pattern::Data,
                options: regatta_model::BulkOptions::default(),
            },
            probe: Probe {
                idle_messages: 0,
                under_load: false,
                ..Probe::default()
            },
            transports: Vec::new(),
            conditions: Vec::new(),
            competition: None,
        },
        token: "5a".repeat(16),
        seed: 1,
        deadline: Duration::from_secs(20),
        connect_deadline: Duration::from_secs(10),
        sample_interval: Duration::from_millis(100),
        local: loopback,
        peer: loopback,
        ports: None,
        path: PathHints {
            round_trip_delay: Duration::from_micros(100),
            longest_one_way: Duration::from_millis(1),
            typical_one_way: Duration::from_millis(1),
            link_rate_bps: None,
            window_bytes: None,
            mtu_bytes: 65_536,
            clock_offset_ns: Some(0),
            keeps_order: true,
            is_real_network: false,
            treats_alike: true,
            tuning: regatta_model::Tuning::default(),
            keeps_tcp_limits: false,
        },
        cpus: None,
        reports_start: false,
        beside_others: false,
        progress_interval: None,
        tls: TlsMaterial {
            certificate_der_base64: CERTIFICATE.0.clone(),
            key_der_base64: (role == Role::Receiver).then(|| CERTIFICATE.1.clone()),
            server_name: SERVER_NAME.to_owned(),
        },
        files: None,
    }
}

/// Name in the certificate of [`order_for`].
pub const SERVER_NAME: &str = "regatta.invalid";

/// A certificate for tests and its key, made once in a process: DER, base64.
static CERTIFICATE: LazyLock<(String, String)> = LazyLock::new(|| {
    let base64 = |der: &[u8]| base64::engine::general_purpose::STANDARD.encode(der);
    let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])
        .expect("a certificate for one name can be made");
    (
        base64(made.cert.der()),
        base64(made.signing_key.serialized_der()),
    )
});

/// Both ends of a trial that was run.
pub struct Pair {
    /// Result of the sender.
    pub sender: Result<SideReport>,
    /// Result of the receiver.
    pub receiver: Result<SideReport>,
    /// Observer of the sender.
    pub sender_seen: Arc<Recorder>,
    /// Observer of the receiver.
    pub receiver_seen: Arc<Recorder>,
}

/// Runs both ends of a trial; `change` alters each order before it is used.
///
/// # Errors
/// The error of an end that cannot be prepared.
pub fn run_pair(
    driver: &dyn Driver,
    size: u64,
    message: u64,
    change: impl Fn(&mut TrialOrder),
) -> Result<Pair> {
    run_pair_while(driver, size, message, change, |_, _| {})
}

/// Runs both ends as [`run_pair`] does; `meanwhile` runs in this thread with both contexts (sender,
/// receiver).
///
/// # Errors
/// The error of an end that cannot be prepared.
pub fn run_pair_while(
    driver: &dyn Driver,
    size: u64,
    message: u64,
    change: impl Fn(&mut TrialOrder),
    meanwhile: impl FnOnce(&TrialContext, &TrialContext),
) -> Result<Pair> {
    let meanwhile = |sender: &_, receiver: &_, _: &_| meanwhile(sender, receiver);
    run_both(driver, (size, message), change, &Stop::new(), meanwhile)
}

/// Runs both ends as [`run_pair`] does, and stops both at one moment: when `until`, which runs in
/// this thread with the receiver's context, returns.
///
/// # Panics
/// If an end cannot be prepared, if one ends otherwise than [`TransportError::Cancelled`], or if
/// that takes a second.
pub fn run_pair_stopped(
    driver: &dyn Driver,
    size: u64,
    message: u64,
    change: impl Fn(&mut TrialOrder),
    until: impl FnOnce(&TrialContext),
) {
    let mut stopped = Instant::now();
    let both = Stop::new();
    let pair = run_both(driver, (size, message), change, &both, |_, receiver, _| {
        until(receiver);
        stopped = Instant::now();
        both.stop();
    })
    .expect("both ends can be prepared");
    let (name, took) = (driver.descriptor().name, stopped.elapsed());
    assert!(took < Duration::from_secs(1), "{name}: {took:?}");
    for side in [pair.sender, pair.receiver] {
        assert!(
            matches!(side, Err(TransportError::Cancelled)),
            "{name}: {side:?}"
        );
    }
}

/// Runs both ends as [`run_pair`] does; `then` runs in this thread with the receiver's context once
/// the sender has ended.
///
/// # Errors
/// The error of an end that cannot be prepared.
pub fn run_pair_then(
    driver: &dyn Driver,
    size: u64,
    message: u64,
    change: impl Fn(&mut TrialOrder),
    then: impl FnOnce(&TrialContext),
) -> Result<Pair> {
    let meanwhile = |_: &_, receiver: &_, sender_ended: &mpsc::Receiver<()>| {
        // A sender that panicked has ended too.
        let _ = sender_ended.recv();
        then(receiver);
    };
    run_both(driver, (size, message), change, &Stop::new(), meanwhile)
}

/// Runs both ends, which `both` stops; `meanwhile` has both contexts (sender, receiver), and a flag
/// that is set when the sender has ended.
fn run_both(
    driver: &dyn Driver,
    (size, message): (u64, u64),
    change: impl Fn(&mut TrialOrder),
    both: &Stop,
    meanwhile: impl FnOnce(&TrialContext, &TrialContext, &mpsc::Receiver<()>),
) -> Result<Pair> {
    let name = driver.descriptor().name;
    let mut receiver_order = order_for(Role::Receiver, name, size, message);
    let mut sender_order = order_for(Role::Sender, name, size, message);
    change(&mut receiver_order);
    change(&mut sender_order);
    driver.applicable(&sender_order.transport.options, &sender_order.workload.kind)?;
    driver.probe_applicable(&sender_order.transport.options, &sender_order.workload)?;
    let (mut sender_context, sender_seen) = trial_context();
    let (mut receiver_context, receiver_seen) = trial_context();
    sender_context.stop = both.child();
    receiver_context.stop = both.child();
    sender_seen.connect(&receiver_context.peer);
    receiver_seen.connect(&sender_context.peer);
    // Only the end that listens has the certificate's key, and it is prepared first.
    if receiver_order.connects() {
        std::mem::swap(
            &mut receiver_order.tls.key_der_base64,
            &mut sender_order.tls.key_der_base64,
        );
    }
    let prepare_receiver = || driver.session(&receiver_order, receiver_context.clone());
    let prepare_sender = || driver.session(&sender_order, sender_context.clone());
    let (sender, receiver) = if receiver_order.connects() {
        let sender = prepare_sender()?;
        (sender, prepare_receiver()?)
    } else {
        let receiver = prepare_receiver()?;
        (prepare_sender()?, receiver)
    };
    let peers = (receiver.listen_address(), sender.listen_address());
    let (sender, receiver) = thread::scope(|scope| {
        let receiver = scope.spawn(move || receiver.run(peers.1));
        let (ended, sender_ended) = mpsc::channel();
        let sender = scope.spawn(move || {
            let result = sender.run(peers.0);
            // Only some tests wait for it.
            let _ = ended.send(());
            result
        });
        meanwhile(&sender_context, &receiver_context, &sender_ended);
        (join(sender), join(receiver))
    });
    Ok(Pair {
        sender,
        receiver,
        sender_seen,
        receiver_seen,
    })
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    let joined = thread.join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
