//! Connecting end of every workload, in the order of its steps ([`run`]): the idle path is probed and the probe
//! under load opened ([`Connecting::new`]), the transfer begins ([`Connecting::begin`]), is carried
//! out beside the probe ([`Connecting::beside_probe`]), ends ([`Connecting::end`]), and is reported
//! ([`Ended::report`]).

use std::{future::Future, net::SocketAddr, time::Duration};

use parking_lot::Mutex;
use regatta_control::SideReport;
use regatta_model::Phrase;

use super::{
    Carried, Trial,
    carrier::{Carrier, ClientCarrier},
    findings::Findings,
    probing,
    retransmissions::{Counter, Retransmissions},
    watch::{ClientEnd, ClientWatch},
};
use crate::{
    clock::MonotonicTime,
    context::Phase,
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor as _,
    opening::Purpose,
    probe::{Delays, Probed},
    stop::Stop,
};

/// Longest time that closing may take once both ends agree on what was delivered.
pub(crate) const CLOSING: Duration = Duration::from_secs(2);

/// Steps in which workloads differ at the connecting end.
pub(crate) trait ConnectingWork<'a, C: Carrier> {
    /// State of the workload when it has been carried out.
    type Carried;

    /// Opens what must be open before, [begins](Connecting::begin) the transfer's time, and carries the workload
    /// out.
    async fn carry(&self, end: &mut Connecting<'a, C>) -> Carried<Self::Carried>;

    /// Takes the account of a transfer that has ended, and adds the results.
    async fn report(
        &self,
        carried: Self::Carried,
        ended: &mut Ended<'a, C>,
        findings: &mut Findings,
    ) -> Result<()>;
}

/// Runs the connecting end of a workload.
///
/// # Errors
/// Any error after which this end has no measurement.
pub(crate) async fn run<'a, C: ClientCarrier, W: ConnectingWork<'a, C>>(
    trial: &'a Trial,
    carrier: &'a C,
    work: W,
    peer: SocketAddr,
) -> Result<SideReport> {
    let (mut end, mut findings) = Connecting::new(trial, carrier, peer).await?;
    let carried = work.carry(&mut end).await;
    let (carried, error) = carried.map_err(|error| trial.explain_opening(error))?;
    let mut ended = end.end(error)?;
    work.report(carried, &mut ended, &mut findings).await?;
    ended.close().await;
    Ok(findings.0)
}

/// The connecting end until its transfer has ended.
pub(crate) struct Connecting<'a, C: Carrier> {
    pub trial: &'a Trial,
    pub carrier: &'a C,
    pub peer: SocketAddr,
    /// Stop of the transfer, raised at the deadline.
    pub transfer: Stop,
    pub watch: ClientWatch,
    /// Moment from which the transfer's time counts.
    pub started: MonotonicTime,
    /// Stop that is raised when the work is over.
    pub over: Stop,
    probe: Mutex<Probe<C::Flow>>,
    /// Set-up time of each connection, from its own connect call.
    set_up: Mutex<Vec<Duration>>,
}

/// The probe under load.
struct Probe<F> {
    flow: Option<F>,
    probed: Option<Probed>,
}

/// Probes the idle path. Returns the flow if it is the one that is probed under load.
async fn probe_idle<C: ClientCarrier>(
    trial: &Trial,
    carrier: &C,
    peer: SocketAddr,
) -> Result<(Probed, Option<C::Flow>)> {
    let (purpose, stop) = match trial.probe.keeps_flow() {
        true => (Purpose::LoadProbe, trial.stop.clone()),
        false => (Purpose::IdleProbe, trial.stop.child()),
    };
    let opening = carrier.open(trial, peer, purpose, trial.opening_until(), &stop);
    match opening.await {
        Ok(mut flow) => {
            let until = MonotonicTime::now() + trial.probe.idle_limit;
            let probed = probing::idle(trial, &mut flow, until).await;
            if trial.probe.keeps_flow() {
                return Ok((probed, Some(flow)));
            }
            C::close(flow, MonotonicTime::now()).await;
            Ok((probed, None))
        }
        // A path too lossy to connect in time is a result; whatever else is wrong will be wrong
        // with the transfer as well.
        Err(error @ TransportError::TimedOut { .. }) => {
            let probed = Probed {
                delays: Delays::default(),
                retransmission: None,
                retransmitted: None,
                error: Some(error),
            };
            Ok((probed, None))
        }
        Err(error) => Err(error),
    }
}

impl<'a, C: ClientCarrier> Connecting<'a, C> {
    /// Begins the report, with the idle path where it is to be probed, and opens the probe under load
    /// where it has a flow of its own.
    async fn new(trial: &'a Trial, carrier: &'a C, peer: SocketAddr) -> Result<(Self, Findings)> {
        trial.context.live.set_phase(Phase::Idle);
        let mut findings = Findings::default();
        let mut flow = None;
        if trial.probe.idle_messages > 0 {
            let (probed, load_flow) = probe_idle(trial, carrier, peer).await?;
            findings.idle_probe(trial, &probed);
            flow = load_flow;
        }
        if trial.probe.has_flow() && flow.is_none() {
            let (purpose, until) = (Purpose::LoadProbe, trial.opening_until());
            let opening = carrier.open(trial, peer, purpose, until, &trial.stop).await;
            flow = Some(opening.map_err(|error| trial.explain_opening(error))?);
        }
        let transfer = trial.stop.child();
        let deadlines = (trial.order.connect_deadline, trial.order.deadline);
        let this = Self {
            trial,
            carrier,
            peer,
            watch: ClientWatch::new(&trial.context, &transfer, deadlines)?,
            transfer,
            started: MonotonicTime::NEVER,
            over: Stop::new(),
            probe: Mutex::new(Probe { flow, probed: None }),
            set_up: Mutex::default(),
        };
        Ok((this, findings))
    }
}

impl<'a, C: Carrier> Connecting<'a, C> {
    /// Begins the transfer, and with it its time. It has until the order's `connect_deadline` to be
    /// connected, and from then on until `deadline`.
    pub(crate) fn begin(&mut self) {
        self.trial.context.live.set_phase(Phase::Transfer);
        self.started = self.watch.arm();
    }

    /// Returns the moment at which a connect call gives up: later than the watch, which ends one that takes
    /// too long.
    pub(crate) fn limit(&self) -> MonotonicTime {
        self.started + self.trial.order.longest_transfer() + CLOSING
    }

    /// Notes that a connection whose connect call began at `begun` can carry data now.
    pub(crate) fn connected(&self, begun: MonotonicTime) {
        let now = MonotonicTime::now();
        self.watch.connected(now);
        self.set_up.lock().push(now.since(begun));
    }

    /// Runs the work with the probe under load beside it, which ends when the work does or raises
    /// [`Self::over`].
    pub(crate) async fn beside_probe<F>(&self, work: impl FnOnce() -> F + Send) -> F::Output
    where
        F: Future<Output: Send>,
    {
        let working = move || async move {
            let output = work().await;
            self.over.stop();
            output
        };
        let Some(mut flow) = self.probe.lock().flow.take() else {
            return working().await;
        };
        let counter = self.carrier.retransmissions(&flow);
        let flow_ref = &mut flow;
        let probing = move || async move { self.probe_on(flow_ref, counter).await };
        let (output, probed) = self.carrier.executor().join(working, probing).await;
        *self.probe.lock() = Probe {
            flow: Some(flow),
            probed: Some(probed),
        };
        output
    }

    /// Closes the flow of the probe under load, and others by `closing`.
    pub(crate) async fn close_beside<F>(&self, closing: impl FnOnce() -> F + Send)
    where
        F: Future<Output: Send>,
    {
        let flow = self.probe.lock().flow.take();
        closing().await;
        if let Some(flow) = flow {
            C::close(flow, MonotonicTime::now()).await;
        }
    }

    /// Sends the messages of the probe under load on a flow, of whose connection `counter` is, until the work is over.
    pub(crate) async fn probe_on<F: super::carrier::ProbeFlow>(
        &self,
        flow: &mut F,
        counter: Counter,
    ) -> Probed {
        let span = (self.watch.loaded_since(), &self.over);
        let retransmissions = Retransmissions::new(counter);
        let counted = (&retransmissions, self.measured_since());
        probing::under_load(self.trial, self.carrier.executor(), flow, span, counted).await
    }

    /// Returns the moment at which the time of goodput and of the probe's figures begins.
    fn measured_since(&self) -> MonotonicTime {
        let warm_up = self.trial.order.workload.kind.warm_up();
        (self.watch.loaded_since()).max(self.started + warm_up)
    }

    /// Keeps the results of the probe under load, which had no flow of its own.
    pub(crate) fn probed(&self, probed: Probed) {
        self.probe.lock().probed = Some(probed);
    }

    /// Ends the watch; returns the end of the transfer. `error` is that of the work.
    ///
    /// # Errors
    /// The error of a transfer that had no end, and that of one which was never connected by its
    /// deadline. When the deadline has stopped it, the stack's complaint about that is no news.
    fn end(self, error: Option<TransportError>) -> Result<Ended<'a, C>> {
        let trial = self.trial;
        trial.context.live.set_phase(Phase::Done);
        let measured_since = self.measured_since();
        let is_connected = self.watch.is_connected();
        match self.watch.finish() {
            Some(ClientEnd::Deadline { .. }) if !is_connected => Err(trial.no_connection()),
            Some(end) => Ok(Ended {
                trial,
                carrier: self.carrier,
                started: self.started,
                measured_since,
                end,
                set_up: self.set_up.into_inner(),
                probe: self.probe.into_inner(),
            }),
            None => {
                let closed = TransportError::Closed { flow: "transfer" };
                Err(trial.explain(error.unwrap_or(closed)))
            }
        }
    }
}

/// The connecting end when its transfer has ended.
pub(crate) struct Ended<'a, C: Carrier> {
    pub trial: &'a Trial,
    pub carrier: &'a C,
    pub started: MonotonicTime,
    measured_since: MonotonicTime,
    pub end: ClientEnd,
    pub set_up: Vec<Duration>,
    probe: Probe<C::Flow>,
}

impl<C: Carrier> Ended<'_, C> {
    /// Returns the duration of the transfer.
    pub(crate) fn time(&self) -> Duration {
        self.end.at().since(self.started)
    }

    /// Whether the deadline ended the transfer.
    pub(crate) fn by_deadline(&self) -> bool {
        matches!(self.end, ClientEnd::Deadline { .. })
    }

    /// Returns the bytes and messages delivered to the other end: by its acknowledgement, or by its
    /// account over control.
    pub(crate) fn delivered(&self) -> Result<Delivered> {
        match self.by_deadline() {
            false => Ok(self.end.delivered()),
            true => self.trial.answer_over_control(),
        }
    }

    /// Adds the metrics of the transfer and of the probe under load: `delivered` of `size` bytes.
    pub(crate) fn report(
        &self,
        findings: &mut Findings,
        size: u64,
        delivered: Delivered,
        has_goodput: bool,
    ) {
        let set_up = u32::try_from(self.set_up.len()).ok().filter(|n| *n > 0);
        let set_up = set_up.map(|count| self.set_up.iter().sum::<Duration>() / count);
        let span = (self.started, size);
        findings.transfer(self.trial, span, &self.end, delivered, set_up);
        if has_goodput {
            findings.goodput(delivered, self.time());
        }
        if let Some(probed) = &self.probe.probed {
            findings.load_probe(self.trial, probed, (self.measured_since, &self.end));
        }
    }

    /// Adds the duration of the work; `delivered` names what was delivered by its end, for messages.
    pub(crate) fn report_times(&self, findings: &mut Findings, delivered: Phrase) {
        findings.times(self.trial, self.started, &self.end, delivered);
    }

    /// Closes the flow of the probe under load.
    async fn close(self) {
        if let Some(flow) = self.probe.flow {
            C::close(flow, MonotonicTime::now()).await;
        }
    }
}
