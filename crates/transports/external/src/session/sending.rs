//! The sending end: its program's report of the transfer, and the time at which that ended.

use std::{net::SocketAddr, sync::Arc};

use regatta_control::{AgentTimes, Role, SideReport};
use regatta_model::{metric::id, warning};
use regatta_transport::{Delivered, Findings, MonotonicTime, Phase, SenderEnd, WindowEdge};

use super::ProgramSession;
use crate::{
    contract::{Done, FromProgram, ToProgram},
    error::ProgramFailure,
    inbox::Event,
};

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
                    return Err(message.unexpected("when it had to send").into());
                }
                _ => {}
            }
        };
        let Some((started, at)) = connected else {
            return Err(ProgramFailure::Transport(self.trial.no_connection()));
        };
        let agent_times = AgentTimes {
            connecting_ns: Some([start_sent.0, connected_read.0]),
            ended_ns: sent.reported.0,
        };
        let mut report = self.sender_report(started, at, sent);
        report.agent_times = Some(agent_times);
        Ok(report)
    }

    /// Checks the program's times of the connect call and of its success.
    fn connected(
        &self,
        start_sent: MonotonicTime,
        started_ns: Option<i64>,
        at_ns: Option<i64>,
    ) -> Result<(MonotonicTime, MonotonicTime), ProgramFailure> {
        let (Some(started), Some(at)) = (started_ns, at_ns) else {
            return Err(ProgramFailure::invalid("its `connected` has no time"));
        };
        let (started, at) = (MonotonicTime(started), MonotonicTime(at));
        let now = MonotonicTime::now();
        if !(start_sent <= started && started <= at && at <= now) {
            return Err(ProgramFailure::invalid(format!(
                "its times do not follow one another: start sent at `{}`, connect call at \
                 `{}`, connected at `{}`, received at `{}` of the monotonic clock",
                start_sent.0, started.0, at.0, now.0
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
            return Err(ProgramFailure::invalid("its `done` has no time"));
        };
        if ended > now || connected.is_some_and(|(_, at)| ended < at) {
            return Err(ProgramFailure::invalid(format!(
                "it says that it was done at `{}` of the monotonic clock, and said so at `{}`",
                ended.0, now.0
            )));
        }
        if done.bytes != self.content.size {
            return Err(ProgramFailure::invalid(format!(
                "it is done with `{}` of `{}` bytes acknowledged",
                done.bytes, self.content.size
            )));
        }
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
        let sent = Delivered::sent(&self.trial.context.live);
        self.trial.send_note(sent.sent_note(true));
        Ok(Sent {
            ended,
            reported: ended,
            delivered: self.trial.answer_over_control()?.bytes,
            done: None,
        })
    }

    fn sender_report(
        &self,
        started: MonotonicTime,
        connected: MonotonicTime,
        sent: Sent,
    ) -> SideReport {
        let live = Delivered::sent(&self.trial.context.live);
        let bytes = live.bytes.max(sent.delivered);
        let (at, messages) = (sent.ended, self.content.messages(bytes));
        let delivered = self.first(sent.delivered);
        let end = match &sent.done {
            Some(_) => SenderEnd::Acknowledged { at, delivered },
            None => SenderEnd::Deadline {
                at,
                sent: live,
                delivered: Delivered::default(),
            },
        };
        let mut findings = Findings::default();
        let (span, set_up) = ((started, self.content.size), connected.since(started));
        findings.transfer(&self.trial, span, &end, delivered, Some(set_up));
        findings.goodput(delivered, at.since(started));
        findings.count(id::BYTES_SENT, bytes);
        findings.count(id::MESSAGES_SENT, messages);
        if let Some(done) = sent.done {
            findings.lost(messages - delivered.messages, messages);
            if self.abandons {
                findings.fact("acknowledgement", "control");
            }
            self.add(&mut findings.0, started, done);
        }
        if self.abandons {
            findings.abandoned(Role::Sender);
        }
        let probe = &self.trial.order.workload.probe;
        if probe.idle_messages > 0 || probe.under_load {
            findings.warn(warning::probe_absent());
        }
        findings.0
    }
}
