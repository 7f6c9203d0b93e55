//! Skeleton of a trial, which every workload fills in: its steps at the connecting end
//! ([`connecting`]) and at the listening end ([`listening`]), over flows of streams or of messages
//! ([`carrier`]), with the threads that enforce its deadline and the metrics of its report.

pub(crate) mod carrier;
pub(crate) mod connecting;
pub(crate) mod distribution;
pub(crate) mod findings;
pub(crate) mod listening;
pub(crate) mod message_control;
pub(crate) mod messages;
mod probing;
pub(crate) mod retransmissions;
pub(crate) mod stated_probe;
pub(crate) mod streams;
pub(crate) mod wait_queue;
pub(crate) mod warm_up;
pub(crate) mod watch;

use std::time::Duration;

use regatta_control::{Note, TrialOrder};
use regatta_model::reason;

use crate::{
    clock::MonotonicTime,
    context::TrialContext,
    delivered::Delivered,
    error::{Result, TimeLimit, TransportError},
    opening::Token,
    probe::ProbePlan,
    stop::Stop,
    timeout::RetransmissionTimeout,
};

/// Longest time that a receiver waits for the first flow: the controller starts the sender as soon
/// as both ends are ready.
const FIRST_FLOW: Duration = Duration::from_secs(30);

/// Maximum number of flows that a trial opens one after another: idle probe, probe under load, a control stream or an
/// exchange that is not measured, and the transfer.
const OPENINGS: u32 = 4;

/// Time after the deadline for which an end waits for the other before it gives up.
pub(crate) const MARGIN: Duration = Duration::from_secs(15);

/// Time, beyond what the path can take, for which a receiver waits for what control announces.
pub(crate) const NOTE_SLACK: Duration = Duration::from_millis(50);

/// Longest time that the answer over control may take: the path that carries control can be slow,
/// but it is not the path under test.
pub(crate) const CONTROL_ANSWER: Duration = Duration::from_secs(10);

/// Longest time that a sender which the deadline stopped may take until its note that nothing more leaves
/// it.
pub(crate) const LEAVING: Duration = Duration::from_secs(2);

/// Longest time that a receiver waits after the deadline for what is under way then. On a path that
/// can take longer, the loss is not known.
const LATE_ARRIVALS: Duration = Duration::from_secs(5);

/// A trial at one end: its order, and the state that every session needs.
#[derive(Debug)]
pub struct Trial {
    /// Order of this end.
    pub order: TrialOrder,
    pub(crate) token: Token,
    pub(crate) probe: ProbePlan,
    /// Counters, observer and notes of the host.
    pub context: TrialContext,
    /// Stop of everything in this session; the host's stop raises it.
    pub stop: Stop,
}

/// State of a workload that was carried out, to its end or to the deadline, and the error that ended it, if one did; or the
/// error that kept it from beginning.
pub(crate) type Carried<S> = Result<(S, Option<TransportError>)>;

impl Trial {
    /// Makes the trial of an order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for a token that is none.
    pub fn new(order: &TrialOrder, context: TrialContext) -> Result<Self> {
        context.stop.on_stop(&context.peer);
        Ok(Self {
            token: Token::parse(&order.token)?,
            probe: ProbePlan::new(order),
            stop: context.stop.child(),
            order: order.clone(),
            context,
        })
    }

    /// Returns the maximum duration of the trial at this end, if the other end is reachable.
    pub(crate) fn limit(&self) -> Duration {
        let openings = self.order.connect_deadline.saturating_mul(OPENINGS);
        FIRST_FLOW + openings + self.probe.idle_limit + self.order.deadline + MARGIN
    }

    /// Returns the initial retransmission time-out of messages over the idle path.
    pub(crate) fn retransmission_timeout(&self) -> RetransmissionTimeout {
        let path = &self.order.path;
        let first = path.first_timeout();
        RetransmissionTimeout::new(first, [first, path.longest_round_trip()])
    }

    /// Returns the deadline, from now, for opening a flow before the transfer's.
    pub(crate) fn opening_until(&self) -> MonotonicTime {
        MonotonicTime::now() + self.order.connect_deadline
    }

    /// Returns the time within which messages may arrive after they have left a sender that the
    /// deadline stopped; `None` if that is too long to wait for.
    pub(crate) fn late_arrivals_within(&self) -> Option<Duration> {
        let longest = self.order.path.longest_one_way;
        (longest <= LATE_ARRIVALS).then(|| longest + NOTE_SLACK)
    }

    /// Returns the outcome of a trial whose set-up was not completed, over any transport.
    #[must_use]
    pub fn no_connection(&self) -> TransportError {
        let (limit, within) = (TimeLimit::ConnectDeadline, self.order.connect_deadline);
        self.explain(TransportError::timed_out_by(
            limit,
            reason::connection(),
            within,
        ))
    }

    /// Replaces the time-out of a flow's opening by [`Trial::no_connection`].
    pub(crate) fn explain_opening(&self, error: TransportError) -> TransportError {
        match error {
            TransportError::TimedOut { .. } => self.no_connection(),
            error => error,
        }
    }

    /// Returns an error of the transport, or the abort of the trial if that is what caused it.
    pub(crate) fn explain(&self, error: TransportError) -> TransportError {
        match self.context.stop.is_stopped() {
            true => TransportError::Cancelled,
            false => error,
        }
    }

    /// Passes a note to the other end over control.
    pub fn send_note(&self, note: Note) {
        self.context.observer.send_note(note);
    }

    /// Waits for the receiver's account over control of what it got.
    ///
    /// # Errors
    /// [`TransportError::TimedOut`] without one, [`TransportError::Cancelled`] if the trial is aborted.
    pub fn answer_over_control(&self) -> Result<Delivered> {
        let until = MonotonicTime::now() + CONTROL_ANSWER;
        let received = self.context.peer.wait_for(until, |peer| peer.received);
        let (_, delivered) = received.ok_or_else(|| self.no_answer_over_control())?;
        Ok(delivered)
    }

    pub(crate) fn no_answer_over_control(&self) -> TransportError {
        let what = reason::answer_over_control();
        let limit = TimeLimit::Fixed;
        self.explain(TransportError::timed_out_by(limit, what, CONTROL_ANSWER))
    }

    /// Returns the outcome of a receiver without a note of its sender for too long.
    pub(crate) fn timed_out(&self) -> TransportError {
        TransportError::timed_out(reason::end_of_transfer(), self.limit())
    }
}
