//! The sending end: its program's report of the transfer, and the time at which that ended.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use regatta_control::{AgentTimes, Note, Role, SideReport};
use regatta_model::{metric::id, reason, warning};
use regatta_transport::{
    ClientEnd, Delivered, Findings, MonotonicTime, Phase, StatedExchange, StatedProbe,
    TransportError, WindowEdge,
};

use super::ProgramSession;
use crate::{
    content::Content,
    contract::{AnswersTo, Done, FromProgram, ToProgram},
    error::ProgramFailure,
    inbox::Event,
};

/// Time after the deadline in which a program may write the lines about answers that came before: about twenty times a
/// second it does.
const LAST_LINES: Duration = Duration::from_millis(100);

/// State of the sender when its transfer has ended.
struct Sent {
    ended: MonotonicTime,
    /// Time at which the program's message about the end arrived.
    reported: MonotonicTime,
    /// Bytes that the receiver received.
    delivered: u64,
    /// The program's result; absent if the deadline ended the transfer.
    done: Option<Done>,
}

impl ProgramSession {
    /// Has the program send, until the receiver has everything or the deadline comes.
    pub(super) fn send(&mut self, peer: SocketAddr) -> Result<SideReport, ProgramFailure> {
        let observer = Arc::clone(&self.trial.context.observer);
        observer.on_process(self.process());
        self.trial.context.live.set_phase(Phase::Idle);
        self.probe_idle(peer)?;
        self.trial.context.live.set_phase(Phase::Transfer);
        observer.on_window(WindowEdge::Start);
        let start_sent = MonotonicTime::now();
        self.program.send(&ToProgram::Start { port: peer.port() })?;

        let mut deadline = start_sent + self.trial.order.connect_deadline;
        let mut connected: Option<(MonotonicTime, MonotonicTime)> = None;
        let mut connected_read = start_sent;
        let sent = loop {
            let Some(event) = self.program.next(deadline)? else {
                observer.on_window(WindowEdge::End);
                break self.stopped(deadline)?;
            };
            match event {
                Event::Message(FromProgram::Connected { started_ns, at_ns })
                    if connected.is_none() =>
                {
                    let (started, at) = self.connected(start_sent, started_ns, at_ns)?;
                    connected_read = MonotonicTime::now();
                    deadline = at + self.trial.order.deadline;
                    connected = Some((started, at));
                    self.begin(at);
                }
                Event::Message(FromProgram::Answers { to, times_ns }) if connected.is_some() => {
                    self.add_answers(to, &times_ns, MonotonicTime::NEVER)?;
                }
                Event::Message(FromProgram::ProbeRetransmitted { packets })
                    if connected.is_some() =>
                {
                    self.probe_retransmitted(packets)?;
                }
                Event::Message(FromProgram::Progress { bytes }) if connected.is_some() => {
                    self.count(bytes)?;
                }
                Event::Message(FromProgram::Done(done)) if connected.is_some() => {
                    observer.on_window(WindowEdge::End);
                    let mut sent = self.acknowledged(connected, done)?;
                    if self.abandons {
                        sent.delivered = self.trial.answer_over_control()?.bytes;
                    }
                    break sent;
                }
                Event::Message(message) => {
                    return Err(message.unexpected(reason::when_sending()).into());
                }
                _ => {}
            }
        };
        let Some((started, at)) = connected else {
            return Err(ProgramFailure::Transport(self.trial.no_connection()));
        };
        self.last_answers(&sent)?;
        let agent_times = AgentTimes {
            connecting_ns: Some([start_sent.0, connected_read.0]),
            ended_ns: sent.reported.0,
            shortest_answer_ns: self.shortest_answer_ns,
        };
        let mut report = self.sender_report(started, at, sent);
        report.agent_times = Some(agent_times);
        Ok(report)
    }

    /// Has the program connect its probe, and have the messages before the transfer answered.
    fn probe_idle(&mut self, peer: SocketAddr) -> Result<(), ProgramFailure> {
        let Some(probe) = &self.probe else {
            return Ok(());
        };
        let limit = self.trial.order.connect_deadline + probe.idle_limit();
        let until = MonotonicTime::now() + limit;
        self.program.send(&ToProgram::Probe { port: peer.port() })?;
        loop {
            match self.program.next(until)? {
                Some(Event::Message(FromProgram::Answers {
                    to: to @ AnswersTo::IdleProbe,
                    times_ns,
                })) => self.add_answers(to, &times_ns, MonotonicTime::NEVER)?,
                Some(Event::Message(FromProgram::Probed)) => return Ok(()),
                Some(Event::Message(message)) => {
                    return Err(message.unexpected(reason::when_probing()).into());
                }
                Some(_) => {}
                None if self.shortest_answer_ns.is_none() => {
                    return Err(ProgramFailure::Transport(self.trial.no_connection()));
                }
                None => {
                    let what = reason::answer_to_probe();
                    return Err(TransportError::timed_out(what, limit).into());
                }
            }
        }
    }

    /// Begins the schedules of an exchange and of the probe under load.
    fn begin(&mut self, connected: MonotonicTime) {
        if let Some(exchange) = &mut self.exchange {
            exchange.begin(connected);
        }
        if let Some(probe) = &mut self.probe {
            probe.begin(connected);
        }
    }

    /// Adds answers of which the program has just told. Of the workload only those count that came until `ended`.
    fn add_answers(
        &mut self,
        to: AnswersTo,
        times_ns: &[[i64; 2]],
        ended: MonotonicTime,
    ) -> Result<(), ProgramFailure> {
        let now = MonotonicTime::now();
        for times in times_ns {
            let [left, at] = times.map(MonotonicTime);
            if at > now {
                return Err(ProgramFailure::invalid(reason::answer_in_future(
                    &at.0.to_string(),
                    &now.0.to_string(),
                )));
            }
            let added = match (to, &mut self.exchange, &mut self.probe) {
                (AnswersTo::Requests, Some(_), _) if at > ended => continue,
                (AnswersTo::Requests, Some(exchange), _) => exchange.add(left, at),
                (AnswersTo::IdleProbe, _, Some(probe)) => probe.add_idle(left, at),
                (AnswersTo::Probe, _, Some(probe)) => probe.add(left, at),
                _ => Err(reason::answers_not_asked()),
            };
            added.map_err(ProgramFailure::invalid)?;
            let delay_ns = at - left;
            let shortest = self.shortest_answer_ns.get_or_insert(delay_ns);
            *shortest = delay_ns.min(*shortest);
        }
        Ok(())
    }

    /// Waits for the program's lines about answers that count although they are reported after the transfer's end.
    fn last_answers(&mut self, sent: &Sent) -> Result<(), ProgramFailure> {
        let is_cut_short = self.exchange.is_some() && sent.done.is_none();
        let lines = is_cut_short.then(|| sent.ended + LAST_LINES);
        loop {
            let probe = self.probe.as_ref();
            let probe = probe.filter(|probe| !probe.is_complete(sent.ended));
            let answers = probe.map(|probe| probe.answers_until(sent.ended));
            let Some(until) = answers.max(lines) else {
                break;
            };
            match self.program.next(until)? {
                Some(Event::Message(FromProgram::Answers { to, times_ns })) => {
                    self.add_answers(to, &times_ns, sent.ended)?;
                }
                Some(Event::Message(FromProgram::ProbeRetransmitted { packets })) => {
                    self.probe_retransmitted(packets)?;
                }
                Some(_) => {}
                None => break,
            }
        }
        if self.is_answered() {
            // The receiver's program answers until then.
            self.trial.send_note(Note::Closed);
        }
        if let Some(exchange) = &self.exchange {
            let (answered, delivered) = (exchange.answered(), self.first(sent.delivered).messages);
            if answered > delivered || sent.done.is_some() && answered < delivered {
                return Err(ProgramFailure::invalid(reason::too_many_answers(
                    answered, delivered,
                )));
            }
        }
        Ok(())
    }

    /// Checks the CRC-32 of the answers that the program got, all of them, in an exchange.
    fn check_answers(&self, done: &Done) -> Result<(), ProgramFailure> {
        let Some(exchange) = &self.exchange else {
            return Ok(());
        };
        let (message, size) = exchange.answers();
        (Content { message, size }).check(size, done.crc32)
    }

    /// Checks the program's times of the connect call and of its success.
    fn connected(
        &self,
        start_sent: MonotonicTime,
        started_ns: Option<i64>,
        at_ns: Option<i64>,
    ) -> Result<(MonotonicTime, MonotonicTime), ProgramFailure> {
        let (Some(started), Some(at)) = (started_ns, at_ns) else {
            return Err(ProgramFailure::invalid(reason::connected_without_time()));
        };
        let (started, at) = (MonotonicTime(started), MonotonicTime(at));
        let now = MonotonicTime::now();
        if !(start_sent <= started && started <= at && at <= now) {
            return Err(ProgramFailure::invalid(reason::times_out_of_order(
                &start_sent.0.to_string(),
                &started.0.to_string(),
                &at.0.to_string(),
                &now.0.to_string(),
            )));
        }
        Ok((started, at))
    }

    /// Checks the program's report that everything was acknowledged, and notifies the receiver.
    fn acknowledged(
        &self,
        connected: Option<(MonotonicTime, MonotonicTime)>,
        done: Done,
    ) -> Result<Sent, ProgramFailure> {
        let now = MonotonicTime::now();
        let Some(ended) = done.at_ns.map(MonotonicTime) else {
            return Err(ProgramFailure::invalid(reason::done_without_time()));
        };
        if ended > now || connected.is_some_and(|(_, at)| ended < at) {
            return Err(ProgramFailure::invalid(reason::done_in_future(
                &ended.0.to_string(),
                &now.0.to_string(),
            )));
        }
        if done.bytes != self.content.size {
            return Err(ProgramFailure::invalid(reason::done_unacknowledged(
                done.bytes,
                self.content.size,
            )));
        }
        self.check_answers(&done)?;
        self.count(done.bytes)?;
        // The receiver's program stays until then, in case the acknowledgement has to be sent
        // again.
        self.trial
            .send_note(self.first(done.bytes).sent_note(false));
        Ok(Sent {
            ended,
            reported: now,
            delivered: done.bytes,
            done: Some(done),
        })
    }

    /// Ends the transfer at its deadline: the bytes delivered by now count.
    fn stopped(&self, ended: MonotonicTime) -> Result<Sent, ProgramFailure> {
        let sent = self.trial.context.live.sent();
        self.trial.send_note(sent.sent_note(true));
        Ok(Sent {
            ended,
            reported: ended,
            delivered: self.trial.answer_over_control()?.bytes,
            done: None,
        })
    }

    fn sender_report(
        &mut self,
        started: MonotonicTime,
        connected: MonotonicTime,
        sent: Sent,
    ) -> SideReport {
        let live = self.trial.context.live.sent();
        let bytes = live.bytes.max(sent.delivered);
        let (at, messages) = (sent.ended, self.content.messages(bytes));
        let delivered = self.first(sent.delivered);
        let end = match &sent.done {
            Some(_) => ClientEnd::Acknowledged { at, delivered },
            None => ClientEnd::Deadline {
                at,
                sent: live,
                delivered: Delivered::default(),
            },
        };
        let mut findings = Findings::default();
        let (span, set_up) = ((started, self.content.size), connected.since(started));
        findings.transfer(&self.trial, span, &end, delivered, Some(set_up));
        if (self.exchange.as_ref()).is_none_or(StatedExchange::has_goodput) {
            findings.goodput(delivered, at.since(started));
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.report(messages, &mut findings);
        }
        findings.count(id::BYTES_SENT, bytes);
        findings.count(id::MESSAGES_SENT, messages);
        if let Some(done) = sent.done {
            findings.lost(messages - delivered.messages, messages);
            self.add(&mut findings.0, started, done);
        }
        if self.abandons {
            findings.abandoned(Role::Sender);
        }
        if let Some(probe) = self.probe.take() {
            probe.report(&self.trial, &end, &mut findings);
        } else if StatedProbe::new(&self.trial).is_some() {
            findings.warn(warning::probe_absent());
        }
        findings.0
    }
}
