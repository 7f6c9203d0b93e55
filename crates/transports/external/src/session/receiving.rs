//! The receiving end: the bytes that its program received, and the time at which all had arrived.

use std::{sync::Arc, thread, time::Duration};

use regatta_control::{AgentTimes, SideReport};
use regatta_model::reason;
use regatta_transport::{
    Findings, MonotonicTime, PeerEvent, Phase, StatedProbe, TransportError, WindowEdge, peer::Seen,
};

use super::ProgramSession;
use crate::{
    contract::{Done, FromProgram, ToProgram},
    error::{ProgramError, ProgramFailure},
    inbox::Event,
};

/// Time in which a receiver's program must report the bytes delivered by the deadline.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Maximum wait of a receiver for the sender's start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Wait of a receiver for the sender's end, after the deadline.
const MARGIN: Duration = Duration::from_secs(15);

/// Wait of a receiver for the end of a connection that the sender has abandoned, in addition to the longest one-way
/// delay of the path.
const ABANDON_SLACK: Duration = Duration::from_millis(200);

/// Cap on that delay.
const ABANDON_LIMIT: Duration = Duration::from_secs(5);

impl ProgramSession {
    /// Has the program receive, until everything has arrived or the sender was stopped.
    pub(super) fn receive(&mut self) -> Result<SideReport, ProgramFailure> {
        let observer = Arc::clone(&self.trial.context.observer);
        observer.on_process(self.process());
        let probing = self.probe.as_ref().map(StatedProbe::idle_limit);
        let probing = probing.map_or(Duration::ZERO, |it| it + self.trial.order.connect_deadline);
        let within = START_LIMIT + probing + self.trial.order.longest_transfer() + MARGIN;
        let until = MonotonicTime::now() + within;
        self.listen_to_peer(until)?;

        let mut started = None;
        // Whether the program's messages have times.
        let mut has_times = true;
        let mut stopped: Option<MonotonicTime> = None;
        // The sender may know that all has arrived before this end's program reports it.
        let mut sender_is_done = false;
        let mut closed = false;
        // When to ask a program that has not noticed that the sender has abandoned the transfer.
        let mut ask_at: Option<MonotonicTime> = None;
        let (done, ended, done_read) = loop {
            let limit = stopped.map_or(until, |at| at + STOP_LIMIT);
            let Some(event) = self.program.next(ask_at.unwrap_or(limit))? else {
                if ask_at.take().is_some() {
                    stopped = Some(self.stop()?);
                    continue;
                }
                return Err(match stopped {
                    Some(_) => self.program.timeout("done", STOP_LIMIT),
                    None => TransportError::timed_out(reason::end_of_transfer(), within).into(),
                });
            };
            match event {
                Event::Message(FromProgram::Connected { at_ns, .. }) if stopped.is_none() => {
                    self.trial.context.live.set_phase(Phase::Transfer);
                    observer.on_window(WindowEdge::Start);
                    has_times &= at_ns.is_some();
                    started = Some(event_time("connected", at_ns, MonotonicTime(0))?);
                }
                Event::Message(FromProgram::ProbeRetransmitted { packets })
                    if started.is_some() =>
                {
                    self.probe_retransmitted(packets)?;
                }
                Event::Message(FromProgram::Progress { bytes }) if started.is_some() => {
                    self.count(bytes)?;
                }
                Event::Message(FromProgram::Done(done)) => {
                    let done_read = MonotonicTime::now();
                    self.count(done.bytes)?;
                    let ended = match stopped {
                        Some(stopped) => stopped,
                        None => {
                            has_times &= done.at_ns.is_some();
                            event_time("done", done.at_ns, started.unwrap_or(MonotonicTime(0)))?
                        }
                    };
                    if stopped.is_none() {
                        observer.on_window(WindowEdge::End);
                    }
                    break (done, ended, done_read.max(ended));
                }
                Event::Peer(PeerEvent::Stopped { .. }) if stopped.is_none() => {
                    stopped = Some(self.stop()?);
                }
                Event::Peer(PeerEvent::Sent | PeerEvent::Stopped { .. }) => {
                    sender_is_done = true;
                    if self.abandons && stopped.is_none() {
                        let under_way = self.trial.order.path.longest_one_way.min(ABANDON_LIMIT);
                        ask_at = Some(MonotonicTime::now() + under_way + ABANDON_SLACK);
                    }
                }
                Event::Peer(PeerEvent::Closed) => closed = true,
                Event::Message(
                    message @ (FromProgram::Ready { .. }
                    | FromProgram::Description(_)
                    | FromProgram::Answers { .. }
                    | FromProgram::Probed),
                ) => {
                    return Err(message.unexpected(reason::when_receiving()).into());
                }
                _ => {}
            }
        };
        self.check(&done, stopped.is_some() || self.abandons)?;
        self.trial.send_note(self.first(done.bytes).received_note());
        if stopped.is_none() && !sender_is_done {
            // Until it has the acknowledgement, or was stopped before that came.
            self.await_event(until, |event| event != PeerEvent::Closed)?;
        }
        if self.is_answered() && !closed {
            // The program answers until then.
            self.await_event(until, |event| event == PeerEvent::Closed)?;
        }
        let mut report = self.receiver_report(started.unwrap_or(ended), ended, done);
        report.agent_times = Some(AgentTimes {
            connecting_ns: None,
            ended_ns: done_read.0,
            shortest_answer_ns: None,
        });
        let times = match has_times {
            true => "the program's",
            false => "the agent's, of when it read the program's lines",
        };
        let fact = "external.times.receiver".to_owned();
        report.measurements.facts.insert(fact, times.to_owned());
        Ok(report)
    }

    /// Asks the program for the bytes that were delivered by now, and returns the time.
    fn stop(&mut self) -> Result<MonotonicTime, ProgramFailure> {
        let now = MonotonicTime::now();
        self.trial.context.observer.on_window(WindowEdge::End);
        self.program.send(&ToProgram::Stop)?;
        Ok(now)
    }

    /// Starts a thread that puts the other end's steps into the program's inbox.
    fn listen_to_peer(&self, until: MonotonicTime) -> Result<(), ProgramFailure> {
        let inbox = Arc::clone(self.program.inbox());
        let (peer, mut seen) = (Arc::clone(&self.trial.context.peer), Seen::default());
        let put_events = move || {
            while let Some(event) = peer.next_event(&mut seen, until) {
                if !inbox.put(Event::Peer(event)) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("program-peer".to_owned());
        let spawned = thread.spawn(put_events).map(drop);
        spawned.map_err(|error| ProgramFailure::Transport(TransportError::thread(error)))
    }

    /// Checks that the bytes that the receiver's program reports are those that were sent.
    fn check(&self, done: &Done, stopped: bool) -> Result<(), ProgramFailure> {
        if !stopped && done.bytes != self.content.size {
            return Err(ProgramFailure::invalid(reason::done_too_early(
                done.bytes,
                self.content.size,
            )));
        }
        self.content.check(done.bytes, done.crc32)
    }

    /// Waits for this step of the sender.
    fn await_event(
        &mut self,
        until: MonotonicTime,
        is_wanted: fn(PeerEvent) -> bool,
    ) -> Result<(), ProgramFailure> {
        loop {
            match self.program.next(until) {
                Ok(Some(Event::Peer(event))) if is_wanted(event) => return Ok(()),
                Ok(Some(Event::Message(FromProgram::ProbeRetransmitted { packets }))) => {
                    self.probe_retransmitted(packets)?;
                }
                Ok(Some(_)) => {}
                // It has done its part; the sender's step decides.
                Err(ProgramFailure::Program(ProgramError::Ended { .. })) => {}
                Err(failure) => return Err(failure),
                Ok(None) => {
                    let what = reason::end_of_senders_part();
                    return Err(TransportError::timed_out(what, MARGIN).into());
                }
            }
        }
    }

    fn receiver_report(
        &self,
        started: MonotonicTime,
        ended: MonotonicTime,
        done: Done,
    ) -> SideReport {
        let mut findings = Findings::default();
        findings.span(started, MonotonicTime(ended.0.max(started.0 + 1)));
        // The check holds for every byte, or the trial has failed.
        findings.delivery(self.first(done.bytes), 0, None);
        self.add(&mut findings.0, started, done);
        if let Some(probe) = &self.probe {
            probe.report_listening(&mut findings);
        }
        findings.0
    }
}

/// Returns the time that the program gives for an event, on the monotonic clock, or the current
/// time if it gives none: on a busy machine that can be much later.
fn event_time(
    what: &str,
    at_ns: Option<i64>,
    earliest: MonotonicTime,
) -> Result<MonotonicTime, ProgramFailure> {
    let now = MonotonicTime::now();
    let at = at_ns.map_or(now, MonotonicTime);
    if earliest <= at && at <= now {
        return Ok(at);
    }
    Err(ProgramFailure::invalid(reason::impossible_time(
        what,
        &at.0.to_string(),
        &earliest.0.to_string(),
        &now.0.to_string(),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_event_is_the_programs_if_it_is_possible() {
        let now = MonotonicTime::now();
        let earlier = MonotonicTime(now.0 - 1_000_000);
        assert_eq!(
            event_time("done", Some(earlier.0), MonotonicTime(0)).unwrap(),
            earlier
        );
        assert!(event_time("done", None, earlier).unwrap() >= now);
        assert!(event_time("done", Some(earlier.0), now).is_err());
        assert!(event_time("done", Some(i64::MAX), earlier).is_err());
    }
}
