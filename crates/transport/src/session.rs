//! Sessions: one end of one trial over any transport, with the workload of the order.

use std::{collections::BTreeMap, net::SocketAddr};

use regatta_control::{Note, SideReport, TrialOrder};
use regatta_model::{Bytes, STACK_FACTS, WorkloadKind, stack};

use crate::{
    connections::{self, Exchanges},
    context::TrialContext,
    driver::{Session, TransportError, Unsupported},
    executor::Executor as _,
    message::MessageEndpoint,
    message_flow,
    stream::StreamEndpoint,
    stream_flows::{self, Flows},
    transfer::{self, TransferEndpoint},
    trial::Trial,
};

/// Workload of a session. Made from the order before anything is sent, so that an order that cannot
/// be carried out is refused at once.
#[derive(Debug)]
enum Work {
    Flows(Flows),
    Connections(Exchanges),
}

impl Work {
    fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        match &order.workload.kind {
            WorkloadKind::ShortConnections { .. } => Ok(Self::Connections(Exchanges::new(order)?)),
            _ => Ok(Self::Flows(Flows::new(order)?)),
        }
    }
}

/// Adds facts about an end beside its flows, and completes the facts by which stacks are compared.
fn stated(
    mut report: SideReport,
    order: &TrialOrder,
    of_end: BTreeMap<String, String>,
) -> SideReport {
    for (name, value) in of_end {
        report.measurements.facts.entry(name).or_insert(value);
    }
    complete_stack_facts(&mut report, order, NOT_STATED);
    report
}

/// Ends a session: stops what is left of it, and tells the other end that the connections are
/// closed.
fn end(
    trial: &Trial,
    result: Result<SideReport, TransportError>,
    of_end: BTreeMap<String, String>,
) -> Result<SideReport, TransportError> {
    let aborted = trial.context.stop.is_stopped();
    trial.stop.stop();
    let report = result.map_err(|error| trial.explain(error))?;
    // The other end, aborted at the same time, may have ended the transfer first.
    if aborted {
        return Err(TransportError::Cancelled);
    }
    if trial.order.connects() {
        trial.context.observer.send_note(Note::Closed);
    }
    Ok(stated(report, &trial.order, of_end))
}

/// Reason of a fact that a driver should state and does not.
pub const NOT_STATED: &str = "the driver does not state it";

/// Adds each of [`STACK_FACTS`] of this end that is not there yet as not known, for the reason
/// `why`.
pub fn complete_stack_facts(report: &mut SideReport, order: &TrialOrder, why: &str) {
    for fact in STACK_FACTS {
        let (is_of_end, value) = match fact.name {
            "probe.placement" => (order.connects(), "none".to_owned()),
            name => (
                name.ends_with(&format!(".{}", order.role.name())),
                format!("{}: {why}", stack::NOT_KNOWN),
            ),
        };
        if is_of_end {
            report
                .measurements
                .facts
                .entry(fact.name.to_owned())
                .or_insert(value);
        }
    }
}

/// One end of one trial over streams.
#[derive(Debug)]
pub struct StreamSession<E> {
    trial: Trial,
    work: Work,
    endpoint: E,
}

impl<E: StreamEndpoint> StreamSession<E> {
    /// Makes a session of an endpoint that was made for the same order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for a workload that this transport cannot run.
    pub fn new(
        endpoint: E,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Self, TransportError> {
        Ok(Self {
            trial: Trial::new(order, context)?,
            work: Work::new(order)?,
            endpoint,
        })
    }
}

impl<E: StreamEndpoint> Session for StreamSession<E> {
    fn listen_address(&self) -> Option<SocketAddr> {
        self.endpoint.listen_address()
    }

    fn run(self: Box<Self>, peer: Option<SocketAddr>) -> Result<SideReport, TransportError> {
        let Self {
            trial,
            work,
            endpoint,
        } = *self;
        let (trial, endpoint) = (&trial, &endpoint);
        let result = match &work {
            Work::Flows(work) => endpoint
                .executor()
                .block_on(stream_flows::run(trial, work, endpoint, peer)),
            Work::Connections(work) => endpoint
                .executor()
                .block_on(connections::run(trial, work, endpoint, peer)),
        };
        end(trial, result, BTreeMap::new())
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
    /// [`TransportError::Unsupported`] for anything but a bulk transfer of a size.
    pub fn new(
        endpoint: E,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Self, TransportError> {
        Ok(Self {
            trial: Trial::new(order, context)?,
            content: transfer::Content::new(order)?,
            endpoint,
        })
    }
}

impl<E: TransferEndpoint> Session for TransferSession<E> {
    fn listen_address(&self) -> Option<SocketAddr> {
        self.endpoint.flows().listen_address()
    }

    fn run(self: Box<Self>, peer: Option<SocketAddr>) -> Result<SideReport, TransportError> {
        let Self {
            trial,
            content,
            endpoint,
        } = *self;
        let running = transfer::run(&trial, content, &endpoint, peer);
        let result = endpoint.flows().executor().block_on(running);
        end(&trial, result, BTreeMap::new())
    }
}

/// One end of one trial over messages.
#[derive(Debug)]
pub struct MessageSession<E> {
    trial: Trial,
    work: message_flow::Work,
    endpoint: E,
}

impl<E: MessageEndpoint> MessageSession<E> {
    /// Makes a session of an endpoint that was made for the same order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for messages that this transport cannot carry and for a
    /// workload that it cannot run.
    pub fn new(
        endpoint: E,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Self, TransportError> {
        let work = message_flow::Work::new(order)?;
        carries(&endpoint, work.longest_message())?;
        Ok(Self {
            trial: Trial::new(order, context)?,
            work,
            endpoint,
        })
    }
}

/// Refuses messages that are longer than the transport's.
fn carries<E: MessageEndpoint>(endpoint: &E, message: usize) -> Result<(), TransportError> {
    let longest = endpoint.longest_message();
    if message <= longest {
        return Ok(());
    }
    Err(TransportError::Unsupported(Unsupported {
        reason: format!(
            "a message of `{}` is longer than a datagram carries",
            Bytes(message as u64)
        ),
        hint: format!("choose a message of at most {longest} B"),
    }))
}

impl<E: MessageEndpoint> Session for MessageSession<E> {
    fn listen_address(&self) -> Option<SocketAddr> {
        self.endpoint.listen_address()
    }

    fn run(self: Box<Self>, peer: Option<SocketAddr>) -> Result<SideReport, TransportError> {
        let Self {
            trial,
            work,
            endpoint,
        } = *self;
        let (trial, endpoint) = (&trial, &endpoint);
        let result = endpoint
            .executor()
            .block_on(message_flow::run(trial, &work, endpoint, peer));
        end(trial, result, endpoint.facts())
    }
}
