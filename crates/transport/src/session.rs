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
    descriptor::Carries,
    driver::{ClientSession, ServerSession},
    endpoint::{Endpoint as _, Server as _},
    error::{Result, TransportError},
    executor::Executor as _,
    flows::Flows,
    message::{MessageClient, MessageEndpoint, MessageServer},
    stream::{StreamClient, StreamEndpoint, StreamServer},
    transfer::{self, FileReceiver, FileSender, Transfer, TransferEndpoint},
    trial::{Trial, connecting, listening, messages::Messages, streams::Streams},
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

/// One end of one trial over streams.
#[derive(Debug)]
pub struct StreamSession<E> {
    trial: Trial,
    work: OverStreams,
    endpoint: E,
}

/// Workload over streams.
#[derive(Debug)]
enum OverStreams {
    Flows(Box<Flows>),
    Connections(Exchanges),
}

impl<E: StreamEndpoint> StreamSession<E> {
    /// Makes a session of an endpoint that was made for the same order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for a workload that this transport cannot run.
    pub fn new(endpoint: E, order: &TrialOrder, context: TrialContext) -> Result<Box<Self>> {
        let work = match &order.workload.kind {
            WorkloadKind::ShortConnections { .. } => {
                OverStreams::Connections(Exchanges::new(order)?)
            }
            _ => OverStreams::Flows(Box::new(Flows::new(order, Carries::Streams)?)),
        };
        let trial = Trial::new(order, context)?;
        Ok(Box::new(Self {
            trial,
            work,
            endpoint,
        }))
    }
}

impl<E: StreamClient> ClientSession for StreamSession<E> {
    fn run(self: Box<Self>, peer: SocketAddr) -> Result<SideReport> {
        let (trial, carrier) = (&self.trial, &Streams(&self.endpoint));
        let executor = self.endpoint.executor();
        let result = match &self.work {
            OverStreams::Flows(work) => {
                executor.block_on(connecting::run(trial, carrier, &**work, peer))
            }
            OverStreams::Connections(work) => {
                executor.block_on(connecting::run(trial, carrier, work, peer))
            }
        };
        end(trial, result, Facts::default())
    }
}

impl<E: StreamServer> ServerSession for StreamSession<E> {
    fn address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    fn run(self: Box<Self>) -> Result<SideReport> {
        let (trial, carrier) = (&self.trial, &Streams(&self.endpoint));
        let executor = self.endpoint.executor();
        let result = match &self.work {
            OverStreams::Flows(work) => executor.block_on(listening::run(trial, carrier, &**work)),
            OverStreams::Connections(work) => {
                executor.block_on(listening::run(trial, carrier, work))
            }
        };
        end(trial, result, Facts::default())
    }
}

/// One end of one trial over messages.
#[derive(Debug)]
pub struct MessageSession<E> {
    trial: Trial,
    flows: Flows,
    endpoint: E,
}

impl<E: MessageEndpoint> MessageSession<E> {
    /// Makes a session of an endpoint that was made for the same order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for a workload that this transport cannot run.
    pub fn new(endpoint: E, order: &TrialOrder, context: TrialContext) -> Result<Box<Self>> {
        let flows = Flows::new(order, Carries::Messages)?;
        let (message, longest) = (flows.longest_message(), endpoint.longest_message());
        if message > longest {
            let message = Bytes(message as u64);
            return Err(TransportError::unsupported(
                reason::longer_than_datagram(message),
                reason::message_of_at_most(longest as u64),
            ));
        }
        let trial = Trial::new(order, context)?;
        Ok(Box::new(Self {
            trial,
            flows,
            endpoint,
        }))
    }
}

impl<E: MessageClient> ClientSession for MessageSession<E> {
    fn run(self: Box<Self>, peer: SocketAddr) -> Result<SideReport> {
        let carrier = Messages(&self.endpoint);
        let running = connecting::run(&self.trial, &carrier, &self.flows, peer);
        let result = self.endpoint.executor().block_on(running);
        end(&self.trial, result, self.endpoint.facts())
    }
}

impl<E: MessageServer> ServerSession for MessageSession<E> {
    fn address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    fn run(self: Box<Self>) -> Result<SideReport> {
        let carrier = Messages(&self.endpoint);
        let running = listening::run(&self.trial, &carrier, &self.flows);
        let result = self.endpoint.executor().block_on(running);
        end(&self.trial, result, self.endpoint.facts())
    }
}

/// One end of one trial over a system that moves whole files its own way.
#[derive(Debug)]
pub struct TransferSession<E> {
    trial: Trial,
    content: transfer::Content,
    endpoint: E,
}

impl<E: TransferEndpoint> TransferSession<E> {
    /// Makes a session of an endpoint that was made for the same order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for a workload that this transport cannot run.
    pub fn new(endpoint: E, order: &TrialOrder, context: TrialContext) -> Result<Box<Self>> {
        let content = transfer::Content::new(order)?;
        let trial = Trial::new(order, context)?;
        Ok(Box::new(Self {
            trial,
            content,
            endpoint,
        }))
    }
}

impl<E: FileSender> ClientSession for TransferSession<E> {
    fn run(self: Box<Self>, peer: SocketAddr) -> Result<SideReport> {
        let (endpoint, content) = (&self.endpoint, &self.content);
        let carrier = Streams(endpoint.flows());
        let work = Transfer { endpoint, content };
        let running = connecting::run(&self.trial, &carrier, work, peer);
        let result = endpoint.flows().executor().block_on(running);
        end(&self.trial, result, Facts::default())
    }
}

impl<E: FileReceiver> ServerSession for TransferSession<E> {
    fn address(&self) -> SocketAddr {
        self.endpoint.flows().address()
    }

    fn run(self: Box<Self>) -> Result<SideReport> {
        let (endpoint, content) = (&self.endpoint, &self.content);
        let carrier = Streams(endpoint.flows());
        let work = Transfer { endpoint, content };
        let running = listening::run(&self.trial, &carrier, work);
        let result = endpoint.flows().executor().block_on(running);
        end(&self.trial, result, Facts::default())
    }
}
