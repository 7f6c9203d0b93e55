//! Systems that move whole files, and the bulk transfer over them.
//!
//! Such a system has its own connections, framing and end of a transfer, so a workload cannot use
//! its flows. The content is still that of the workload: [`Outgoing`] is the content with its
//! headers; [`Incoming`] counts and compares what arrives, in any order and over any number of
//! connections. Both are a range of bytes that the system divides into files and blocks.
//!
//! Besides the system there are flows of the kind that [`TransferEndpoint::Flows`] makes: the
//! probes, and the *control stream*, which is opened with the trial's token before the clock
//! starts. On it the receiver sends its offer (the address on which it listens, the name of the
//! transfer), which users transmit by other means outside of Regatta, and at the end its
//! acknowledgement.

mod incoming;
mod offer;
mod outgoing;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use regatta_control::TrialOrder;
use regatta_model::{Amount, BulkOptions, Facts, Pattern, Verify, Warning, WorkloadKind, reason};

use crate::{
    applicable,
    clock::MonotonicTime,
    content::{noise::Noise, plan::Plan},
    context::{Observer, StatisticsSource, WindowEdge},
    endpoint::{Client, Server},
    error::{Result, Unsupported},
    statistics::AllConnections,
    stop::Stop,
    stream::StreamEndpoint,
    trial::{Trial, warm_up::WarmUp, watch::ClientEnding},
};

pub use incoming::{Incoming, IncomingPart};
pub use outgoing::{Outgoing, OutgoingPart};
/// Longest offer, in bytes.
pub const LONGEST_OFFER: usize = 16 << 10;

/// One end of a driver of transfers in one trial: a [`FileSender`], which connects, or a [`FileReceiver`], which listens.
pub trait TransferEndpoint: Send + Sync + Sized + 'static {
    /// Endpoint of the flows of the probes and the control stream. The server's address is the
    /// trial's.
    type Flows: StreamEndpoint;

    /// Returns the endpoint of these flows.
    fn flows(&self) -> &Self::Flows;

    /// Returns facts about this end when all is done, by the full name of the fact.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// Returns warnings about this end, over this path.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }
}

/// The end that sends.
pub trait FileSender: TransferEndpoint<Flows: Client> {
    /// Sends everything, and returns the moment when the other end's acknowledgement of all of it
    /// arrived, in the system's own way. Blocks; returns soon with any error after the stop is
    /// raised.
    ///
    /// # Errors
    /// Any error because of which part of the transfer was not delivered.
    fn send(
        &self,
        offer: &str,
        outgoing: &Arc<Outgoing>,
        connections: &Arc<Connections>,
        stop: &Stop,
    ) -> Result<MonotonicTime>;
}

/// The end that receives.
pub trait FileReceiver: TransferEndpoint<Flows: Server> {
    /// Returns the offer: the text from which the other end knows how to send to this one, at most
    /// [`LONGEST_OFFER`] bytes. Called once.
    ///
    /// # Errors
    /// Any error of the driver that prevents the offer.
    fn offer(&self) -> Result<String>;

    /// Receives everything and returns as soon as that is acknowledged. Blocks; returns soon with
    /// any error after the stop is raised.
    ///
    /// # Errors
    /// The first error after which part of the transfer did not arrive.
    fn receive(
        &self,
        incoming: &Arc<Incoming>,
        connections: &Arc<Connections>,
        stop: &Stop,
    ) -> Result<()>;
}

/// The connections of one end's transfer: added by the driver as they are made, read by the sampler
/// and for the report.
pub struct Connections {
    all: Arc<AllConnections>,
    /// Observer and warm-up of a receiver, whose window the first connection opens; `None` at a sender.
    window: Option<(Arc<dyn Observer>, Arc<WarmUp>)>,
    /// State of the transfer at a sender, whose deadline begins with the first connection; `None` at a receiver.
    transfer: Option<Arc<ClientEnding>>,
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    /// Arrival of the first connection, at a server.
    first: Option<MonotonicTime>,
    /// Set-up times of the connections, at a client.
    set_up: Vec<Duration>,
}

impl Connections {
    /// Makes the connections of an end.
    fn new(
        trial: &Trial,
        window: Option<(Arc<dyn Observer>, Arc<WarmUp>)>,
        transfer: Option<Arc<ClientEnding>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            all: Arc::new(AllConnections::new(trial.order.role.name())),
            window,
            transfer,
            times: Mutex::default(),
        })
    }

    /// Notes that a connection of the transfer has come to the receiver, before any work for it.
    /// The first one opens the window.
    pub fn arrived(&self) {
        let mut times = self.times.lock();
        if let Some((observer, warm_up)) = &self.window
            && times.first.is_none()
        {
            // In this order, as everywhere: opening the window takes some tens of microseconds, which
            // are no part of it.
            observer.on_window(WindowEdge::Start);
            let now = *times.first.insert(MonotonicTime::now());
            warm_up.begin(now);
        }
    }

    /// Adds a connection of the transfer; `took` is the time from its own connect call, at a
    /// sender.
    pub fn made(&self, source: Arc<dyn StatisticsSource>, took: Option<Duration>) {
        if let Some(transfer) = &self.transfer {
            transfer.connected(MonotonicTime::now());
        }
        self.all.add(source);
        self.times.lock().set_up.extend(took);
    }

    /// Samples every connection and keeps the samples; to be called before one is closed.
    pub fn remember(&self) {
        self.all.remember();
    }
}

/// Content of a transfer. Both ends make the same from their orders.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    plan: Plan,
    /// File that is sent, at a sender from a file.
    noise: Option<Arc<Noise>>,
    digest: bool,
    warm_up: Duration,
}

impl Content {
    /// Makes the content of an order.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for what cannot be asked of a transfer,
    /// [`TransportError::Order`] for an order that cannot be carried out.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self> {
        applicable::over_files(&order.transport.driver, &order.workload.kind)?;
        let plan = Plan::new(order)?;
        let WorkloadKind::Bulk {
            pattern, options, ..
        } = order.workload.kind
        else {
            unreachable!("`Plan::new` takes nothing else");
        };
        let noise = match pattern {
            Pattern::File if order.connects() => Some(Arc::new(Noise::of(plan.size)?)),
            _ => None,
        };
        Ok(Self {
            plan,
            noise,
            digest: options.verify == Verify::Digest,
            warm_up: options.warm_up,
        })
    }
}

/// Checks that a bulk transfer is one that whole files can make: of a size, from the connecting
/// host.
pub(crate) fn check_options(amount: Amount, options: &BulkOptions) -> Result<(), Unsupported> {
    let left_alone = BulkOptions {
        verify: options.verify,
        warm_up: options.warm_up,
        ..BulkOptions::default()
    };
    if *options == left_alone && amount.time().is_none() {
        return Ok(());
    }
    let (key, hint) = if options.flows != left_alone.flows {
        ("flows", reason::set_connections())
    } else if options.direction != left_alone.direction {
        ("direction", reason::leave_out_or_other_transport())
    } else if amount.time().is_some() {
        ("duration", reason::size_instead())
    } else if options.opening != left_alone.opening {
        ("opening", reason::leave_out_or_other_transport())
    } else {
        ("finish", reason::leave_out_or_other_transport())
    };
    Err(Unsupported::new(reason::not_for_files(key), hint))
}

/// Transfer of a content by an endpoint.
pub(crate) struct Transfer<'a, E> {
    pub endpoint: &'a E,
    pub content: &'a Content,
}
