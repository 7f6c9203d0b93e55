//! Listening end of every workload, in the order of its steps ([`run`]): flows are admitted until the transfer's
//! comes, which is carried out while the probe's messages are sent back
//! ([`Listening::beside_echo`]), ends ([`Listening::outcome`]), and is reported.

use std::{
    future::Future,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use regatta_control::SideReport;
use regatta_model::{Phrase, reason};

use super::{
    Carried, Trial,
    carrier::{Admission, Admitted, ServerCarrier},
    findings::Findings,
    retransmissions::Retransmissions,
    watch::{ServerEnd, ServerWatch},
};
use crate::{
    clock::MonotonicTime,
    context::Phase,
    delivered::Delivered,
    error::{Result, TransportError},
    executor::Executor as _,
    opening::Purpose,
    stop::Stop,
};

/// Steps in which workloads differ at the listening end.
pub(crate) trait ListeningWork<'a, C> {
    /// State of the workload when it has been carried out.
    type Carried;

    /// Carries the workload out.
    async fn carry(&self, end: &Listening<'a, C>) -> Carried<Self::Carried>;

    /// Takes the account of a transfer that has ended, and adds the results; returns the moment at which it began.
    fn report(
        &self,
        carried: Self::Carried,
        end: &Listening<'a, C>,
        outcome: &Outcome,
        findings: &mut Findings,
    ) -> MonotonicTime;
}

/// Runs the listening end of a workload.
///
/// # Errors
/// Any error after which this end has no measurement.
pub(crate) async fn run<'a, C: ServerCarrier, W: ListeningWork<'a, C>>(
    trial: &'a Trial,
    carrier: &'a C,
    work: W,
) -> Result<SideReport> {
    let end = Listening::new(trial, carrier)?;
    let mut findings = Findings::default();
    carrier.describe(&mut findings);
    let (carried, error) = match work.carry(&end).await {
        Ok(carried) => carried,
        Err(error) => return end.without_transfer(findings, error),
    };
    let outcome = end.outcome(error)?;
    let started = work.report(carried, &end, &outcome, &mut findings);
    Ok(end.report(findings, started, outcome.at))
}

/// The listening end of a trial.
pub(crate) struct Listening<'a, C> {
    pub trial: &'a Trial,
    pub carrier: &'a C,
    pub watch: ServerWatch,
    /// Stop of the transfer: its deadline raises it.
    pub transfer: Stop,
    /// Stop that is raised when the transfer is over.
    over: Stop,
    /// Stop that is raised when the probe's messages are no longer sent back.
    pub echoed: Stop,
    admission: Mutex<Admission>,
    /// Moment from which the probe under load is measured: the end of the transfer's warm-up.
    measured_since: AtomicI64,
    /// Packets of the probe's connection that this end has sent again since then, or why that is not known.
    retransmitted: Mutex<Option<Result<u64, Phrase>>>,
}

/// End of a transfer as its receiver knows it.
pub(crate) struct Outcome {
    pub at: MonotonicTime,
    pub delivered: Delivered,
    /// Whether the transfer was completed before its sender's deadline.
    pub is_complete: bool,
}

impl<'a, C: ServerCarrier> Listening<'a, C> {
    fn new(trial: &'a Trial, carrier: &'a C) -> Result<Self> {
        let watch = ServerWatch::new(trial)?;
        trial.context.live.set_phase(Phase::Idle);
        Ok(Self {
            trial,
            carrier,
            watch,
            transfer: trial.stop.child(),
            over: Stop::new(),
            echoed: trial.stop.child(),
            admission: Mutex::default(),
            measured_since: AtomicI64::new(MonotonicTime::NEVER.0),
            retransmitted: Mutex::default(),
        })
    }

    /// Returns the flows that were admitted and refused.
    pub(crate) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock()
    }

    /// Counts flows that were not admitted, and the time for which they kept others from it.
    pub(crate) fn refuse(&self, flows: u64, held_up: Duration) {
        let mut admission = self.admission();
        admission.refused += flows;
        admission.held_up += held_up;
    }

    async fn admit(&self) -> Result<Admitted<C::Flow>> {
        let mut admission = std::mem::take(&mut *self.admission());
        let until = self.watch.limit;
        let admitted = self.carrier.admit(self.trial, until, &mut admission).await;
        *self.admission() = admission;
        admitted
    }

    /// Admits flows until one comes that has none of these purposes; those are answered meanwhile.
    async fn admit_after(&self, probes: &[Purpose]) -> Result<Admitted<C::Flow>> {
        let mut next = self.admit().await?;
        while probes.contains(&next.purpose) {
            let (stop, idle) = (next.stop.clone(), &mut next);
            // The next flow is admitted even if the end of the probe's is under way still: its
            // last packet may be lost and come again much later.
            let admitting = move || async move {
                let admitted = self.admit().await;
                stop.stop();
                admitted
            };
            let echoing = move || async move {
                self.carrier
                    .echo(self.trial, idle, &Stop::new(), &|| ())
                    .await
            };
            let executor = self.carrier.executor();
            let (admitted, ()) = executor.join(admitting, echoing).await;
            next = admitted?;
        }
        Ok(next)
    }

    /// Admits flows until the transfer's comes and runs the work on it, while the probe under load is
    /// answered. The work gets whether the probe's flow is still to come.
    ///
    /// # Errors
    /// Any error because of which the transfer's flow was not opened.
    pub(crate) async fn beside_echo<T: Send, F>(
        &self,
        work: impl FnOnce(Admitted<C::Flow>, bool) -> F + Send,
    ) -> Result<T>
    where
        F: Future<Output = T>,
    {
        let first = self.admit_after(&[Purpose::IdleProbe]).await?;
        let (mut probe, transfer) = match first.purpose {
            Purpose::LoadProbe => (Some(first), None),
            _ => (None, Some(first)),
        };
        let (trial, probe_ref) = (self.trial, &mut probe);
        let probe_is_missing = trial.probe.has_flow() && transfer.is_some();
        let transfer_it = move || async move {
            let transfer = match transfer {
                Some(transfer) => transfer,
                // Another one of the probe under load is there where the sender has given up the first.
                None => {
                    let probes = [Purpose::IdleProbe, Purpose::LoadProbe];
                    self.admit_after(&probes).await?
                }
            };
            if transfer.purpose != Purpose::Transfer {
                let opened = transfer.purpose.phrase();
                return Err(TransportError::protocol(reason::opened_instead(opened)));
            }
            trial.context.live.set_phase(Phase::Transfer);
            self.watch.transfer(&self.transfer);
            let measured_since = MonotonicTime::now() + trial.order.workload.kind.warm_up();
            self.measured_since
                .store(measured_since.0, Ordering::Release);
            Ok(work(transfer, probe_is_missing).await)
        };
        let transferring = move || async move {
            let output = transfer_it().await;
            self.end_probe().await;
            output
        };
        let echoing = move || async move {
            if let Some(probe) = probe_ref {
                self.echo_probe(probe, &self.over).await;
            }
            if !trial.probe.shares_connection() {
                self.echoed.stop();
            }
        };
        let executor = self.carrier.executor();
        let (output, ()) = executor.join(transferring, echoing).await;
        output
    }

    /// Sends the messages of the probe under load back until `over` is raised, and notes what this end's stack sent again.
    pub(crate) async fn echo_probe(&self, probe: &mut Admitted<C::Flow>, over: &Stop) {
        let retransmissions = Retransmissions::new(self.carrier.retransmissions(&probe.flow));
        let answering = || {
            if MonotonicTime::now().0 < self.measured_since.load(Ordering::Acquire) {
                retransmissions.restart();
            }
        };
        let echoing = self.carrier.echo(self.trial, probe, over, &answering);
        echoing.await;
        if probe.purpose == Purpose::LoadProbe {
            *self.retransmitted.lock() = Some(retransmissions.count());
        }
    }

    /// Ends the answers to the probe under load, once the transfer has ended or failed.
    pub(crate) async fn end_probe(&self) {
        let (over, echoed) = (&self.over, &self.echoed);
        self.carrier.end_probe(self.trial, over, echoed).await;
    }

    /// Returns the outcome of the transfer; `error` is the error with which the workload ended, if any.
    ///
    /// # Errors
    /// A time-out at the trial's limit; `error` if the transfer was neither completed nor ended by its deadline.
    fn outcome(&self, error: Option<TransportError>) -> Result<Outcome> {
        let (at, delivered, is_complete) = match self.watch.end_after_break() {
            Some(ServerEnd::Complete { at, delivered }) => (at, delivered, true),
            Some(ServerEnd::Deadline { at, delivered, .. }) => (at, delivered, false),
            Some(ServerEnd::TimedOut) => return Err(self.trial.timed_out()),
            None => {
                let error = error.unwrap_or(TransportError::Closed { flow: "transfer" });
                return Err(self.trial.explain(error));
            }
        };
        Ok(Outcome {
            at,
            delivered,
            is_complete,
        })
    }

    /// Returns the report of a receiver that the transfer never reached, for the reason `error`.
    fn without_transfer(
        &self,
        mut findings: Findings,
        error: TransportError,
    ) -> Result<SideReport> {
        match self.watch.end() {
            Some(ServerEnd::Deadline { at, .. }) => {
                findings.delivery(Delivered::default(), 0, None);
                Ok(self.report(findings, at, at))
            }
            Some(ServerEnd::TimedOut) => Err(self.trial.timed_out()),
            _ => Err(self.trial.explain(error)),
        }
    }

    /// Completes the report of a transfer between two moments.
    fn report(
        &self,
        mut findings: Findings,
        started: MonotonicTime,
        ended: MonotonicTime,
    ) -> SideReport {
        findings.span(started, ended);
        let admission = self.admission();
        findings.refused(admission.refused + admission.failed, admission.held_up);
        findings.probe_retransmitted(self.retransmitted.lock().take());
        self.trial.context.live.set_phase(Phase::Done);
        findings.0
    }
}
