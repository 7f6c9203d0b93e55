//! One end of one trial, in a thread of its own.

use std::{
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
};

use regatta_control::{FromAgent, Note, Problem, SideReport, TrialOrder};
use regatta_model::{WorkloadKind, differing_sysctls, reason};
use regatta_transport::{
    Carries, Driver, LiveCounters, Peer, Session, Stop, TransportError, TrialContext,
    addresses::scoped,
};

use crate::{
    disturbance::Disturbances,
    failure,
    observer::{MessageSink, TrialObserver},
    processors, report,
    served::Terms,
};

/// A trial under way.
pub(crate) struct Trial {
    /// Position in the plan.
    pub index: u32,
    stop: Stop,
    peer: Arc<Peer>,
    start_tx: Option<Sender<SocketAddr>>,
}

impl Trial {
    /// Starts the trial's thread. Its messages go to `sink`; the last one is [`FromAgent::Finished`] or
    /// [`FromAgent::Failed`].
    ///
    /// # Errors
    /// If no thread can be made.
    pub(crate) fn spawn(
        drivers: Arc<[&'static dyn Driver]>,
        order: Box<TrialOrder>,
        terms: Terms,
        sink: MessageSink,
    ) -> Result<Self, Problem> {
        let (start_tx, start_rx) = channel();
        let stop = Stop::new();
        let peer = Arc::new(Peer::default());
        let trial = Self {
            index: order.trial,
            stop: stop.clone(),
            peer: Arc::clone(&peer),
            start_tx: Some(start_tx),
        };
        std::thread::Builder::new()
            .name(format!("trial {}", order.trial))
            .spawn(move || {
                let driver = order.transport.driver.clone();
                let disturbances = Disturbances::watch(order.local);
                let run = || run(&drivers, (&order, &terms), stop, peer, &start_rx, &sink);
                // Nothing uses the shared state of the closure after a panic.
                let result = catch_unwind(AssertUnwindSafe(run))
                    .unwrap_or_else(|panic| Err(failure::of_panic(panic, &driver)));
                let trial = order.trial;
                sink(match disturbances.judge(result) {
                    Ok(report) => FromAgent::Finished { trial, report },
                    Err(problem) => FromAgent::Failed { trial, problem },
                });
            })
            .map_err(TransportError::thread)?;
        Ok(trial)
    }

    /// Lets the client connect; returns whether there was one that waited.
    pub(crate) fn start(&mut self, peer: SocketAddr) -> bool {
        self.start_tx
            .take()
            .is_some_and(|start_tx| start_tx.send(peer).is_ok())
    }

    /// Hands over a note of the other end.
    pub(crate) fn note(&self, note: Note) {
        self.peer.note(note);
    }

    /// Aborts the trial; its thread sends its last message when it has ended.
    pub(crate) fn abort(&mut self) {
        // A sender that was not started waits for nothing else.
        self.start_tx = None;
        self.stop.stop();
    }
}

/// Finds the driver and asks it whether it can run this order here.
fn find(
    drivers: &[&'static dyn Driver],
    order: &TrialOrder,
) -> Result<&'static dyn Driver, Problem> {
    let transport = &order.transport;
    let Some(&driver) = drivers
        .iter()
        .find(|driver| driver.descriptor().name == transport.driver)
    else {
        let mut names: Vec<_> = drivers.iter().map(|d| d.descriptor().name).collect();
        names.sort_unstable();
        return Err(Problem::failed(
            reason::no_transport(&transport.driver),
            reason::choose_one_of(names.into_iter().map(str::to_owned).collect()),
        ));
    };
    let options = &transport.options;
    driver.check_options(options)?;
    driver.supported(options)?;
    driver.applicable(options, &order.workload.kind)?;
    driver.probe_applicable(options, &order.workload)?;
    Ok(driver)
}

fn run(
    drivers: &[&'static dyn Driver],
    (order, terms): (&TrialOrder, &Terms),
    stop: Stop,
    peer: Arc<Peer>,
    start_rx: &Receiver<SocketAddr>,
    sink: &MessageSink,
) -> Result<Box<SideReport>, Problem> {
    let driver = find(drivers, order)?;
    let mut order = order.clone();
    let has_streams = driver.carries(&order.transport.options) != Carries::Messages;
    let multiplexes = has_streams && driver.descriptor().multiplexes;
    order.workload.kind.resolve(multiplexes);
    let order = &order;
    let processors = processors::limit(order)?;
    let live = Arc::new(LiveCounters::default());
    let quota = terms.quota.clone().map(|quota| (quota, stop.clone()));
    let observer = TrialObserver::new(order, Arc::clone(&live), Arc::clone(sink), quota);
    let observer = Arc::new(observer.map_err(TransportError::thread)?);
    let context = TrialContext {
        live: Arc::clone(&live),
        observer: Arc::clone(&observer) as Arc<_>,
        peer,
        stop,
    };
    let session = driver.session(order, context)?;
    sink(FromAgent::Ready {
        trial: order.trial,
        listen: terms.connect_address(session.listen_address()),
        ip_protocol: driver.descriptor().ip_protocol,
    });
    let runs = || log::debug!("trial {}: {} runs", order.trial, order.role.name());
    let result = match session {
        Session::Client(client) => {
            // The trial was aborted before it was started, if there is none.
            let peer = start_rx.recv().map_err(|_| TransportError::Cancelled)?;
            runs();
            client.run(scoped(peer, order.local))
        }
        Session::Server(server) => {
            runs();
            server.run()
        }
    };
    if let Some(quota) = &terms.quota {
        quota.add(&live);
        if let Some(failure) = quota.failure() {
            return Err(failure);
        }
    }
    let mut side = result?;
    let has_levels = match order.workload.kind {
        WorkloadKind::Script(_) => order.sends_most(),
        _ => order.role == regatta_control::Role::Sender,
    };
    report::merge(
        &mut side,
        (order.role, has_levels, order.beside_others),
        observer.finish(),
    );
    let name = format!("kernel_settings.{}", order.role.name());
    side.measurements.facts.insert(name, kernel_settings());
    let name = format!("processors.{}", order.role.name());
    let facts = &mut side.measurements.facts;
    facts.extend(processors.map(|processors| (name, processors)));
    if order.path.clock_offset_ns != Some(0) {
        let state = regatta_telemetry::clock::synchronisation();
        let name = format!("clock.synchronisation.{}", order.role.name());
        let facts = &mut side.measurements.facts;
        facts.extend(state.map(|state| (name, state)));
    }
    Ok(Box::new(side))
}

/// Names the sysctls of this network namespace that differ from those that a kernel boots with, with their values.
fn kernel_settings() -> String {
    let differing = differing_sysctls(regatta_telemetry::facts::sysctl);
    let texts = differing.map(|(setting, value)| format!("{} {value}", setting.key()));
    match texts.collect::<Vec<_>>() {
        texts if texts.is_empty() => "as the kernel boots".to_owned(),
        texts => texts.join(", "),
    }
}
