//! Sessions: one end of one trial over any transport, with the workload of the order.

use std::{fs, net::SocketAddr};

use regatta_control::{Note, Role, SideReport, TrialOrder};
use regatta_model::{
    Bytes, Facts, Phrase, STACK_FACTS, Text, WorkloadKind, fact,
    loss_response::{self, LOSS_RESPONSE},
    reason,
};

use crate::{
    connections::Exchanges,
    context::TrialContext,
    driver::Session,
    error::{Result, TransportError},
    executor::Executor as _,
    message::MessageEndpoint,
    message_flow,
    stream::StreamEndpoint,
    stream_flows::Flows,
    transfer::{self, Transfer, TransferEndpoint},
    trial::{self, Trial, messages::Messages, streams::Streams},
};

/// Ends a session: stops what is left of it, notes over control that the connections are closed, adds the facts
/// about this end beside its flows, and completes those by which stacks are compared.
fn end(trial: &Trial, result: Result<SideReport>, of_end: Facts) -> Result<SideReport> {
    let aborted = trial.context.stop.is_stopped();
    trial.stop.stop();
    let mut report = result.map_err(|error| trial.explain(error))?;
    // The other end, aborted at the same time, may have ended the transfer first.
    if aborted {
        return Err(TransportError::Cancelled);
    }
    if trial.order.connects() {
        trial.send_note(Note::Closed);
    }
    for (name, value) in of_end {
        report.measurements.facts.entry(name).or_insert(value);
    }
    complete_stack_facts(&mut report, &trial.order, &fact::not_stated());
    Ok(report)
}

/// Adds each of [`STACK_FACTS`] of this end that is not there yet as not known, for the reason
/// `why`.
pub fn complete_stack_facts(report: &mut SideReport, order: &TrialOrder, why: &Phrase) {
    let end = format!(".{}", order.role.name());
    for stated in STACK_FACTS {
        let (is_of_end, value) = match stated.name {
            LOSS_RESPONSE => continue,
            "probe.placement" => (order.connects(), Text::from("none")),
            "probe.retransmission" => (
                order.connects(),
                fact::not_applicable(fact::no_probe_under_load()).into(),
            ),
            name => (
                name.ends_with(&end) || name.starts_with("tls."),
                fact::not_known(why.clone().into()).into(),
            ),
        };
        if is_of_end {
            let facts = &mut report.measurements.facts;
            facts.entry(stated.name.to_owned()).or_insert(value);
        }
    }
    if order.role == Role::Sender {
        let value = response_to_losses(&report.measurements.facts, &order.transport.driver);
        report.measurements.facts.insert(LOSS_RESPONSE, value);
    }
}

/// Returns the fact [`LOSS_RESPONSE`] of a sender with these facts: the measured one of the driver and its congestion
/// control, with the version of this kernel or of the program beside a table of another one.
fn response_to_losses(facts: &Facts, driver: &str) -> Text {
    let control = facts.get("congestion_control.sender");
    let in_kernel =
        (facts.get("threads.sender")).is_some_and(|it| it.ends_with("protocol in the kernel"));
    let running = match facts.get("external.sender") {
        Some(program) => Some(program.to_string()),
        None if !in_kernel => None,
        None => (fs::read_to_string("/proc/sys/kernel/osrelease").ok())
            .map(|release| format!("Linux {}", release.trim())),
    };
    let none = Text::default();
    loss_response::fact(driver, control.unwrap_or(&none), running.as_deref())
}

/// Workload of a session over an endpoint.
pub trait Work<E>: Send + Sized {
    /// Makes the workload of an order, before anything is sent, so that an order that cannot be carried out is
    /// refused at once.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for what this transport cannot carry or run.
    fn new(order: &TrialOrder, endpoint: &E) -> Result<Self>;

    /// Returns the address on which the endpoint listens; `None` at a client.
    fn listen_address(endpoint: &E) -> Option<SocketAddr>;

    /// Runs one end.
    ///
    /// # Errors
    /// The error that keeps this end from a measurement.
    fn run(self, trial: &Trial, endpoint: &E, peer: Option<SocketAddr>) -> Result<SideReport>;

    /// Returns facts about the end beside its flows.
    fn facts(endpoint: &E) -> Facts {
        let _ = endpoint;
        Facts::default()
    }
}

/// One end of one trial over an endpoint.
#[derive(Debug)]
pub struct EndSession<E, W> {
    trial: Trial,
    work: W,
    endpoint: E,
}

/// One end of one trial over streams.
pub type StreamSession<E> = EndSession<E, StreamWork>;

/// One end of one trial over messages.
pub type MessageSession<E> = EndSession<E, MessageWork>;

/// One end of one trial over a system that moves whole files its own way.
pub type TransferSession<E> = EndSession<E, TransferWork>;

impl<E, W: Work<E>> EndSession<E, W> {
    /// Makes a session of an endpoint that was made for the same order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for a workload that this transport cannot run.
    pub fn new(endpoint: E, order: &TrialOrder, context: TrialContext) -> Result<Self> {
        Ok(Self {
            work: W::new(order, &endpoint)?,
            trial: Trial::new(order, context)?,
            endpoint,
        })
    }
}

impl<E: Send, W: Work<E>> Session for EndSession<E, W> {
    fn listen_address(&self) -> Option<SocketAddr> {
        W::listen_address(&self.endpoint)
    }

    fn run(self: Box<Self>, peer: Option<SocketAddr>) -> Result<SideReport> {
        let result = self.work.run(&self.trial, &self.endpoint, peer);
        end(&self.trial, result, W::facts(&self.endpoint))
    }
}

/// Workload over streams.
#[derive(Debug)]
pub struct StreamWork(OverStreams);

#[derive(Debug)]
enum OverStreams {
    Flows(Box<Flows>),
    Connections(Exchanges),
}

/// Workload over messages.
#[derive(Debug)]
pub struct MessageWork(message_flow::Work);

/// Workload over a system that moves whole files.
#[derive(Debug)]
pub struct TransferWork(transfer::Content);

impl<E: StreamEndpoint> Work<E> for StreamWork {
    fn new(order: &TrialOrder, _: &E) -> Result<Self> {
        Ok(Self(match &order.workload.kind {
            WorkloadKind::ShortConnections { .. } => {
                OverStreams::Connections(Exchanges::new(order)?)
            }
            WorkloadKind::Bulk { .. }
            | WorkloadKind::StopAndWait { .. }
            | WorkloadKind::RequestResponse { .. }
            | WorkloadKind::MultiStream { .. }
            | WorkloadKind::Script(_) => OverStreams::Flows(Box::new(Flows::new(order)?)),
        }))
    }

    fn listen_address(endpoint: &E) -> Option<SocketAddr> {
        endpoint.listen_address()
    }

    fn run(self, trial: &Trial, endpoint: &E, peer: Option<SocketAddr>) -> Result<SideReport> {
        let (executor, carrier) = (endpoint.executor(), Streams(endpoint));
        match &self.0 {
            OverStreams::Flows(work) => {
                executor.block_on(trial::run(trial, &carrier, &**work, peer))
            }
            OverStreams::Connections(work) => {
                executor.block_on(trial::run(trial, &carrier, work, peer))
            }
        }
    }
}

impl<E: TransferEndpoint> Work<E> for TransferWork {
    fn new(order: &TrialOrder, _: &E) -> Result<Self> {
        transfer::Content::new(order).map(Self)
    }

    fn listen_address(endpoint: &E) -> Option<SocketAddr> {
        endpoint.flows().listen_address()
    }

    fn run(self, trial: &Trial, endpoint: &E, peer: Option<SocketAddr>) -> Result<SideReport> {
        let (carrier, content) = (Streams(endpoint.flows()), &self.0);
        let running = trial::run(trial, &carrier, Transfer { endpoint, content }, peer);
        endpoint.flows().executor().block_on(running)
    }
}

impl<E: MessageEndpoint> Work<E> for MessageWork {
    fn new(order: &TrialOrder, endpoint: &E) -> Result<Self> {
        let work = message_flow::Work::new(order)?;
        let (message, longest) = (work.longest_message, endpoint.longest_message());
        if message > longest {
            let message = Bytes(message as u64);
            return Err(TransportError::unsupported(
                reason::longer_than_datagram(message),
                reason::message_of_at_most(longest as u64),
            ));
        }
        Ok(Self(work))
    }

    fn listen_address(endpoint: &E) -> Option<SocketAddr> {
        endpoint.listen_address()
    }

    fn run(self, trial: &Trial, endpoint: &E, peer: Option<SocketAddr>) -> Result<SideReport> {
        let carrier = Messages(endpoint);
        let running = trial::run(trial, &carrier, &self.0, peer);
        endpoint.executor().block_on(running)
    }

    fn facts(endpoint: &E) -> Facts {
        endpoint.facts()
    }
}
