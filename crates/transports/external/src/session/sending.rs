//! The sending end: its program's report of the transfer, and the time at which that ended.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use regatta_control::{Note, SideReport};
use regatta_model::{Warning, metric::id, units::format_duration, warning_code};
use regatta_transport::{MonotonicTime, Phase, TransportError, WindowEdge};

use super::{ABANDON, Failure, ProgramSession, out_of_turn, wrong};
use crate::{
    contract::{Done, FromProgram, ToProgram},
    error::Broken,
    inbox::Event,
};

/// Maximum wait for the answer over control.
const CONTROL_ANSWER: Duration = Duration::from_secs(10);

/// Longest delay between the acknowledgement and the program's message about it that raises no
/// warning.
const LATE_WORD: Duration = Duration::from_millis(100);

/// State of the sender when its transfer has ended.
struct Sent {
    ended: MonotonicTime,
    /// Time at which the agent was told of the end.
    heard: MonotonicTime,
    /// Bytes that the receiver received.
    delivered: u64,
    /// The program's result; absent if the deadline ended the transfer.
    done: Option<Done>,
}

impl ProgramSession {
    /// Has the program send, until the receiver has everything or the deadline comes.
    pub(super) fn send(&mut self, peer: SocketAddr) -> Result<SideReport, Failure> {
        let observer = Arc::clone(&self.context.observer);
        observer.on_process(self.program.process());
        self.context.live.set_phase(Phase::Transfer);
        observer.on_window(WindowEdge::Start);
        let told = MonotonicTime::now();
        self.program.tell(&ToProgram::Start { port: peer.port() })?;

        let mut deadline = told + self.order.connect_deadline;
        let mut connected: Option<(MonotonicTime, MonotonicTime)> = None;
        let sent = loop {
            let Some(event) = self.program.next(deadline)? else {
                observer.on_window(WindowEdge::End);
                break self.stopped(deadline)?;
            };
            match event {
                Event::Said(FromProgram::Connected { started_ns, at_ns })
                    if connected.is_none() =>
                {
                    let (started, at) = self.connected(told, started_ns, at_ns)?;
                    deadline = at + self.order.deadline;
                    connected = Some((started, at));
                }
                Event::Said(FromProgram::Progress { bytes }) if connected.is_some() => {
                    self.count(bytes)?;
                }
                Event::Said(FromProgram::Done(done)) if connected.is_some() => {
                    observer.on_window(WindowEdge::End);
                    let mut sent = self.acknowledged(connected, done)?;
                    if self.abandons {
                        sent.delivered = self.answer_over_control()?;
                    }
                    break sent;
                }
                Event::Said(said) => {
                    return Err(out_of_turn(&said, "when it had to send").into());
                }
                _ => {}
            }
        };
        let Some((started, at)) = connected else {
            return Err(Failure::Transport(TransportError::TimedOut {
                what: "connection".to_owned(),
                seconds: self.order.connect_deadline.as_secs_f64(),
            }));
        };
        Ok(self.sender_report(started, at, sent))
    }

    /// Checks the program's times of the connect call and of its success.
    fn connected(
        &self,
        told: MonotonicTime,
        started_ns: Option<i64>,
        at_ns: Option<i64>,
    ) -> Result<(MonotonicTime, MonotonicTime), Broken> {
        let (Some(started), Some(at)) = (started_ns, at_ns) else {
            return Err(wrong("it connected and did not say when"));
        };
        let (started, at) = (MonotonicTime(started), MonotonicTime(at));
        let now = MonotonicTime::now();
        if !(told <= started && started <= at && at <= now) {
            return Err(wrong(format!(
                "its times do not follow one another: told to start at `{}`, connect call at \
                 `{}`, connected at `{}`, heard at `{}` of the monotonic clock",
                told.0, started.0, at.0, now.0
            )));
        }
        Ok((started, at))
    }

    /// Checks the program's report that everything was acknowledged, and notifies the receiver.
    fn acknowledged(
        &self,
        connected: Option<(MonotonicTime, MonotonicTime)>,
        done: Done,
    ) -> Result<Sent, Broken> {
        let now = MonotonicTime::now();
        let Some(ended) = done.at_ns.map(MonotonicTime) else {
            return Err(wrong("it is done and did not say when"));
        };
        if ended > now || connected.is_some_and(|(_, at)| ended < at) {
            return Err(wrong(format!(
                "it says that it was done at `{}` of the monotonic clock, and said so at `{}`",
                ended.0, now.0
            )));
        }
        if done.bytes != self.content.size {
            return Err(wrong(format!(
                "it is done with `{}` of `{}` bytes acknowledged",
                done.bytes, self.content.size
            )));
        }
        self.count(done.bytes)?;
        // The receiver's program stays until then, in case the acknowledgement has to be sent
        // again.
        self.context.observer.send_note(Note::Sent {
            messages: self.content.messages(done.bytes),
            bytes: done.bytes,
            deadline_reached: false,
        });
        Ok(Sent {
            ended,
            heard: now,
            delivered: done.bytes,
            done: Some(done),
        })
    }

    /// Returns the bytes that the receiver reports over control.
    fn answer_over_control(&self) -> Result<u64, Failure> {
        let until = MonotonicTime::now() + CONTROL_ANSWER;
        while let Some(note) = self.context.mailbox.take_until(until) {
            if let Note::Received { bytes, .. } = note {
                return Ok(bytes);
            }
        }
        Err(Failure::Transport(TransportError::TimedOut {
            what: "answer of the receiver over control".to_owned(),
            seconds: CONTROL_ANSWER.as_secs_f64(),
        }))
    }

    /// Ends the transfer at its deadline: the bytes delivered by now count.
    fn stopped(&self, ended: MonotonicTime) -> Result<Sent, Failure> {
        let live = &self.context.live;
        self.context.observer.send_note(Note::Sent {
            messages: live.messages_sent.load(Ordering::Acquire),
            bytes: live.bytes_sent.load(Ordering::Acquire),
            deadline_reached: true,
        });
        Ok(Sent {
            ended,
            heard: ended,
            delivered: self.answer_over_control()?,
            done: None,
        })
    }

    fn sender_report(
        &self,
        started: MonotonicTime,
        connected: MonotonicTime,
        sent: Sent,
    ) -> SideReport {
        let time = (sent.ended - started).max(1) as f64;
        let live = &self.context.live;
        let bytes = live.bytes_sent.load(Ordering::Acquire).max(sent.delivered);
        let mut report = SideReport {
            started_monotonic_ns: started.0,
            ended_monotonic_ns: sent.ended.0,
            ..SideReport::default()
        };
        let mut put = |name: &str, value: f64| {
            report.measurements.metrics.insert(name.to_owned(), value);
        };
        put(id::TRANSFER_TIME_NS, time);
        put(id::GOODPUT_BPS, sent.delivered as f64 * 8e9 / time);
        put(id::SET_UP_TIME_NS, (connected - started) as f64);
        put(id::BYTES_SENT, bytes as f64);
        put(id::MESSAGES_SENT, self.content.messages(bytes) as f64);
        let acknowledgement = match &sent.done {
            Some(_) => {
                let messages = self.content.messages(bytes);
                let lost = messages - self.content.messages(sent.delivered);
                put(id::MESSAGES_LOST, lost as f64);
                put(id::MESSAGE_LOSS_RATIO, lost as f64 / messages.max(1) as f64);
                if self.abandons { "control" } else { "in_band" }
            }
            None => "control",
        };
        let fact = acknowledgement.to_owned();
        report
            .measurements
            .facts
            .insert("acknowledgement".to_owned(), fact);
        match sent.done {
            Some(done) => {
                let late = sent.heard.since(sent.ended);
                if late > LATE_WORD {
                    report.measurements.warnings.push(Warning {
                        code: "external_clock".to_owned(),
                        message: format!(
                            "the program told of the acknowledgement {} after it had arrived by \
                             its own account, which the agent's clock cannot confirm",
                            format_duration(late)
                        ),
                        hint: "say `done` as soon as the acknowledgement is there".to_owned(),
                    });
                }
                self.add(&mut report, done);
            }
            None => report.measurements.warnings.push(Warning {
                code: warning_code::DEADLINE_REACHED.to_owned(),
                message: format!(
                    "the transfer was stopped at its deadline of {}; measured is what was \
                     delivered by then: {} of {} bytes",
                    format_duration(self.order.deadline),
                    sent.delivered,
                    self.content.size
                ),
                hint: "give a longer `deadline` or a smaller `size`".to_owned(),
            }),
        }
        if self.abandons {
            let fact = ("finish".to_owned(), ABANDON.to_owned());
            report.measurements.facts.extend([fact]);
            report.measurements.warnings.push(Warning {
                code: warning_code::ABANDONED.to_owned(),
                message: "the sender closed as soon as its last message was handed over, as some \
                          published experiments did: what was under way then is lost, and the \
                          transfer time ends there"
                    .to_owned(),
                hint: "leave `finish` out to have every byte delivered".to_owned(),
            });
        }
        let probe = &self.order.workload.probe;
        if probe.idle_messages > 0 || probe.under_load {
            report.measurements.warnings.push(Warning {
                code: "probe_absent".to_owned(),
                message: "an external program answers no probe, so that message round-trip delay \
                          was not measured over it"
                    .to_owned(),
                hint: String::new(),
            });
        }
        report
    }
}
