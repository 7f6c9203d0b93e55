//! One end of one trial, carried out by a program.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use regatta_control::{Note, SideReport, TrialOrder};
use regatta_model::{
    Bytes, Direction, Finish, Pattern, Warning, WorkloadKind, metric, units::format_duration,
};
use regatta_transport::{
    MonotonicTime, Phase, Session, TransportError, TrialContext, Unsupported, WindowEdge,
};

use crate::{
    content::Content,
    contract::{self, CONTRACT_VERSION, Description, Done, FromProgram, ToProgram},
    describe::{self, WORKLOAD},
    driver::Command,
    error::{Broken, ProgramError},
    files::{MemoryFile, TlsFiles},
    inbox::Event,
    program::Program,
};

/// Longest message, in bytes: one is held in memory whole.
const LONGEST_MESSAGE: u64 = 256 << 20;

/// How long a program may take to get ready.
const READY_LIMIT: Duration = Duration::from_secs(8);

/// How long a program may take to end by itself once it is done.
const END_LIMIT: Duration = Duration::from_secs(1);

/// How long a receiver's program may take to say what was delivered by the deadline.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How long the answer over control may take.
const CONTROL_ANSWER: Duration = Duration::from_secs(10);

/// How long a receiver waits for the sender's start, and how much longer than the deadline for its
/// end.
const FIRST_FLOW: Duration = Duration::from_secs(30);
const MARGIN: Duration = Duration::from_secs(15);

/// How much later than the arrival of the acknowledgement a program may tell of it.
const LATE_WORD: Duration = Duration::from_millis(100);

/// What a program that can end without the acknowledgement says of itself.
const ABANDON: &str = "abandon";

/// How much longer than the path can take a receiver waits for the end of a connection that the
/// sender has abandoned, and the longest that it waits.
const ABANDON_SLACK: Duration = Duration::from_millis(200);
const ABANDON_LIMIT: Duration = Duration::from_secs(5);

/// Most facts that a program may tell, and the longest.
const MOST_FACTS: usize = 32;
const LONGEST_FACT: usize = 200;

/// What a program may tell of its stack, by name in `regatta_model::METRICS`. Everything else is
/// measured from outside.
const METRICS: &[&str] = &[
    "bytes_in_flight_max_bytes",
    "congestion_window_max_bytes",
    "congestion_window_mean_bytes",
    "min_rtt_ns",
    "retransmit_ratio",
    "retransmitted_packets",
    "smoothed_rtt_ns",
];

/// One end of one trial, whose program is ready.
struct ProgramSession {
    name: String,
    description: Description,
    order: TrialOrder,
    context: TrialContext,
    content: Content,
    /// The sender closes without waiting for the acknowledgement.
    abandons: bool,
    listen: Option<SocketAddr>,
    program: Program,
    // The program may read them at any time.
    _message: MemoryFile,
    _tls: TlsFiles,
}

fn unsupported(reason: impl Into<String>, hint: impl Into<String>) -> TransportError {
    Unsupported {
        reason: reason.into(),
        hint: hint.into(),
    }
    .into()
}

/// What the workload asks for, if a program can be asked for it, and how it ends.
fn content(order: &TrialOrder) -> Result<(Content, Finish), TransportError> {
    let WorkloadKind::Bulk {
        size,
        message,
        pattern,
        options,
    } = order.workload.kind
    else {
        return Err(unsupported(
            format!(
                "external programs carry out `{WORKLOAD}` and not `{}`",
                order.workload.kind.name()
            ),
            "",
        ));
    };
    let beyond = |what: &str| {
        unsupported(
            format!("the contract with external programs has no {what}"),
            "leave it out, or use a transport that is no external program",
        )
    };
    if options.direction != Direction::Forward {
        return Err(beyond("transfer to the connecting host"));
    }
    if options.flows != 1 {
        return Err(beyond("transfer over several flows"));
    }
    if options.duration.is_some() {
        return Err(beyond("transfer of a given duration"));
    }
    if !options.warm_up.is_zero() {
        return Err(beyond("warm-up that is left out"));
    }
    if pattern == Pattern::File {
        return Err(beyond("file that is read during the transfer"));
    }
    if message.0 == 0 {
        return Err(TransportError::Order {
            what: "a message of zero bytes cannot be sent".to_owned(),
        });
    }
    // A message is never longer than all of it.
    let longest = message.0.min(size.0.max(1));
    let length = usize::try_from(longest).unwrap_or(usize::MAX);
    if longest > LONGEST_MESSAGE {
        let limit = Bytes(LONGEST_MESSAGE);
        return Err(unsupported(
            format!("a message of `{message}` is longer than `{limit}`"),
            format!("send messages of at most `{limit}`"),
        ));
    }
    let content = Content::new(pattern, length, size.0, order.seed);
    Ok((content, options.finish))
}

/// Starts a program and waits until it is ready.
pub(crate) fn prepare(
    command: Command,
    order: &TrialOrder,
    context: TrialContext,
) -> Result<Box<dyn Session>, TransportError> {
    let (content, finish) = content(order)?;
    let name = command.program.display().to_string();
    let message = MemoryFile::new(&content.message)
        .map_err(TransportError::io("cannot make the message's file"))?;
    let tls = TlsFiles::new(&order.tls)
        .map_err(TransportError::io("cannot make the certificate's file"))?;
    let ready = || {
        let description = describe::describe(&command.program, &command.arguments, &context.stop)?;
        if finish == Finish::Abandon && !description.capabilities.iter().any(|name| name == ABANDON)
        {
            return Err(Broken::Unsupported(Unsupported {
                reason: format!(
                    "`{}` does not end without the receiver's acknowledgement",
                    description.name
                ),
                hint: "leave `finish` out".to_owned(),
            }));
        }
        let mut program = Program::start(&command.program, &command.arguments, &context.stop)?;
        let request = Box::new(request(order, &command, &content, finish, &message, &tls));
        program.tell(&match order.connects() {
            true => ToProgram::Connect(request),
            false => ToProgram::Listen(request),
        })?;
        let port = await_ready(&program)?;
        Ok((description, program, port))
    };
    let (description, program, port) = ready().map_err(|broken: Broken| broken.explain(&name))?;
    let listen = match (order.connects(), port) {
        (true, _) => None,
        (false, Some(port)) if port > 0 => Some(SocketAddr::new(order.local, port)),
        (false, _) => {
            let wrong = "it listens and did not say at which port".to_owned();
            return Err(Broken::from(ProgramError::Wrong(wrong)).explain(&name));
        }
    };
    Ok(Box::new(ProgramSession {
        name,
        description,
        order: order.clone(),
        context,
        content,
        abandons: finish == Finish::Abandon,
        listen,
        program,
        _message: message,
        _tls: tls,
    }))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn request(
    order: &TrialOrder,
    command: &Command,
    content: &Content,
    finish: Finish,
    message: &MemoryFile,
    tls: &TlsFiles,
) -> contract::Order {
    contract::Order {
        contract: CONTRACT_VERSION,
        local: order.local,
        peer: order.peer,
        token: order.token.clone(),
        workload: WORKLOAD,
        size_bytes: content.size,
        message_bytes: content.message.len() as u64,
        message_file: message.path(),
        finish: match finish {
            Finish::Agree => "agree",
            Finish::Abandon => ABANDON,
        },
        congestion_control: command.congestion_control.clone(),
        deadline_ns: nanoseconds(order.deadline),
        tls: contract::Tls {
            certificate_file: tls.certificate.path(),
            key_file: tls.key.as_ref().map(MemoryFile::path),
            server_name: order.tls.server_name.clone(),
        },
        path: contract::Path {
            round_trip_delay_ns: nanoseconds(order.path.round_trip_delay),
            link_rate_bps: order.path.link_rate_bps,
            mtu_bytes: order.path.mtu_bytes,
        },
    }
}

fn await_ready(program: &Program) -> Result<Option<u16>, Broken> {
    let until = MonotonicTime::now() + READY_LIMIT;
    loop {
        match program.next(until)? {
            Some(Event::Said(FromProgram::Ready { port })) => return Ok(port),
            Some(Event::Said(said)) => return Err(out_of_turn(&said, "before it was ready")),
            Some(_) => {}
            None => return Err(program.silent("ready", READY_LIMIT)),
        }
    }
}

fn out_of_turn(said: &FromProgram, when: &'static str) -> Broken {
    let said = said.name();
    ProgramError::OutOfTurn { said, when }.into()
}

fn wrong(what: impl Into<String>) -> Broken {
    ProgramError::Wrong(what.into()).into()
}

impl Session for ProgramSession {
    fn listen_address(&self) -> Option<SocketAddr> {
        self.listen
    }

    fn run(self: Box<Self>, peer: Option<SocketAddr>) -> Result<SideReport, TransportError> {
        let mut this = *self;
        this.context.stop.on_stop(&this.context.mailbox);
        let result = match (this.order.connects(), peer) {
            (true, Some(peer)) => this.send(peer),
            (true, None) => Err(Failure::Transport(TransportError::Order {
                what: "a sender needs the receiver's address".to_owned(),
            })),
            (false, _) => this.receive(),
        };
        this.context.live.set_phase(Phase::Done);
        // Ends the thread that waits for notes.
        this.context.mailbox.close();
        let mut report = match result {
            Ok(report) => report,
            Err(_) if this.context.stop.is_stopped() => return Err(TransportError::Cancelled),
            Err(Failure::Broken(broken)) => return Err(broken.explain(&this.name)),
            Err(Failure::Transport(error)) => return Err(error),
        };
        let side = this.order.role.name();
        report.facts.insert(
            format!("external.{side}"),
            format!("{} {}", this.description.name, this.description.version),
        );
        if let Some(how) = this.program.finish(END_LIMIT)
            && !this.context.stop.is_stopped()
        {
            report.warnings.push(Warning {
                code: "external_end".to_owned(),
                message: format!("when all was done, the {side}'s program {how}"),
                hint: String::new(),
            });
        }
        Ok(report)
    }
}

/// Why there is no report.
enum Failure {
    Broken(Broken),
    Transport(TransportError),
}

impl<T: Into<Broken>> From<T> for Failure {
    fn from(broken: T) -> Self {
        Self::Broken(broken.into())
    }
}

/// What the sender knows when its transfer has ended.
struct Sent {
    ended: MonotonicTime,
    /// When the agent knew.
    heard: MonotonicTime,
    /// Bytes that the receiver got.
    delivered: u64,
    /// Absent if the deadline ended it.
    done: Option<Done>,
}

impl ProgramSession {
    /// Counts what was handed over or delivered so far.
    fn count(&self, bytes: u64) -> Result<(), Broken> {
        if bytes > self.content.size {
            return Err(wrong(format!(
                "it speaks of `{bytes}` bytes, and there are `{}`",
                self.content.size
            )));
        }
        let live = &self.context.live;
        let (live_bytes, live_messages) = match self.order.connects() {
            true => (&live.bytes_sent, &live.messages_sent),
            false => (&live.bytes_delivered, &live.messages_delivered),
        };
        live_bytes.store(bytes, Ordering::Release);
        live_messages.store(self.content.messages(bytes), Ordering::Release);
        Ok(())
    }

    fn send(&mut self, peer: SocketAddr) -> Result<SideReport, Failure> {
        let observer = Arc::clone(&self.context.observer);
        observer.on_process(self.program.process());
        self.context.live.set_phase(Phase::Transfer);
        observer.on_window(WindowEdge::Start);
        let told = MonotonicTime::now();
        self.program.tell(&ToProgram::Start { port: peer.port() })?;

        let deadline = told + self.order.deadline;
        let mut connected: Option<(MonotonicTime, MonotonicTime)> = None;
        let sent = loop {
            let Some(event) = self.program.next(deadline)? else {
                observer.on_window(WindowEdge::End);
                break self.stopped(connected.map(|(started, _)| started).unwrap_or(told))?;
            };
            match event {
                Event::Said(FromProgram::Connected { started_ns, at_ns })
                    if connected.is_none() =>
                {
                    connected = Some(self.connected(told, started_ns, at_ns)?);
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
                seconds: self.order.deadline.as_secs_f64(),
            }));
        };
        Ok(self.sender_report(started, at, sent))
    }

    /// When the connect call was and when it had its connection, as the program says.
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

    /// The sender's program has the acknowledgement of everything.
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

    /// What the receiver says over control that it got.
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

    /// The deadline has come: what counts is what the receiver has by now.
    fn stopped(&self, started: MonotonicTime) -> Result<Sent, Failure> {
        let live = &self.context.live;
        self.context.observer.send_note(Note::Sent {
            messages: live.messages_sent.load(Ordering::Acquire),
            bytes: live.bytes_sent.load(Ordering::Acquire),
            deadline_reached: true,
        });
        let ended = started + self.order.deadline;
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
            report.metrics.insert(name.to_owned(), value);
        };
        put("transfer_time_ns", time);
        put("goodput_bps", sent.delivered as f64 * 8e9 / time);
        put("set_up_time_ns", (connected - started) as f64);
        put("bytes_sent", bytes as f64);
        put("messages_sent", self.content.messages(bytes) as f64);
        let acknowledgement = match &sent.done {
            Some(_) => {
                let messages = self.content.messages(bytes);
                let lost = messages - self.content.messages(sent.delivered);
                put("messages_lost", lost as f64);
                put("message_loss_ratio", lost as f64 / messages.max(1) as f64);
                if self.abandons { "control" } else { "in_band" }
            }
            None => "control",
        };
        let fact = acknowledgement.to_owned();
        report.facts.insert("acknowledgement".to_owned(), fact);
        match sent.done {
            Some(done) => {
                let late = sent.heard.since(sent.ended);
                if late > LATE_WORD {
                    report.warnings.push(Warning {
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
            None => report.warnings.push(Warning {
                code: "deadline_reached".to_owned(),
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
            report.facts.extend([fact]);
            report.warnings.push(Warning {
                code: "abandoned".to_owned(),
                message: "the sender closed as soon as its last message was handed over, as some \
                          published experiments did: what was under way then is lost, and the \
                          transfer time ends there"
                    .to_owned(),
                hint: "leave `finish` out to have every byte delivered".to_owned(),
            });
        }
        let probe = &self.order.workload.probe;
        if probe.idle_messages > 0 || probe.under_load {
            report.warnings.push(Warning {
                code: "probe_absent".to_owned(),
                message: "an external program answers no probe, so that message round-trip delay \
                          was not measured over it"
                    .to_owned(),
                hint: String::new(),
            });
        }
        report
    }

    fn receive(&mut self) -> Result<SideReport, Failure> {
        let observer = Arc::clone(&self.context.observer);
        observer.on_process(self.program.process());
        let within = FIRST_FLOW + self.order.deadline + MARGIN;
        let until = MonotonicTime::now() + within;
        self.listen_for_notes(until)?;

        let mut started = None;
        let mut stopped: Option<MonotonicTime> = None;
        // The sender may know that all has arrived before this end's program has said so.
        let mut sender_is_done = false;
        // When to ask a program that has not noticed that the sender has abandoned the transfer.
        let mut ask_at: Option<MonotonicTime> = None;
        let (done, ended) = loop {
            let limit = stopped.map_or(until, |at| at + STOP_LIMIT);
            let Some(event) = self.program.next(ask_at.unwrap_or(limit))? else {
                if ask_at.take().is_some() {
                    stopped = Some(MonotonicTime::now());
                    observer.on_window(WindowEdge::End);
                    self.program.tell(&ToProgram::Stop)?;
                    continue;
                }
                return Err(match stopped {
                    Some(_) => self.program.silent("done", STOP_LIMIT).into(),
                    None => Failure::Transport(TransportError::TimedOut {
                        what: "end of the transfer".to_owned(),
                        seconds: within.as_secs_f64(),
                    }),
                });
            };
            match event {
                Event::Said(FromProgram::Connected { .. }) if stopped.is_none() => {
                    self.context.live.set_phase(Phase::Transfer);
                    observer.on_window(WindowEdge::Start);
                    started = Some(MonotonicTime::now());
                }
                Event::Said(FromProgram::Progress { bytes }) if started.is_some() => {
                    self.count(bytes)?;
                }
                Event::Said(FromProgram::Done(done)) => {
                    self.count(done.bytes)?;
                    let ended = stopped.unwrap_or_else(MonotonicTime::now);
                    if stopped.is_none() {
                        observer.on_window(WindowEdge::End);
                    }
                    break (done, ended);
                }
                Event::Note(Note::Sent {
                    deadline_reached: true,
                    ..
                }) if stopped.is_none() => {
                    observer.on_window(WindowEdge::End);
                    stopped = Some(MonotonicTime::now());
                    self.program.tell(&ToProgram::Stop)?;
                }
                Event::Note(Note::Sent { .. }) => {
                    sender_is_done = true;
                    if self.abandons && stopped.is_none() {
                        let under_way = self.order.path.longest_one_way.min(ABANDON_LIMIT);
                        ask_at = Some(MonotonicTime::now() + under_way + ABANDON_SLACK);
                    }
                }
                Event::Said(said @ (FromProgram::Ready { .. } | FromProgram::Description(_))) => {
                    return Err(out_of_turn(&said, "when it had to receive").into());
                }
                _ => {}
            }
        };
        self.check(&done, stopped.is_some() || self.abandons)?;
        observer.send_note(Note::Received {
            messages: self.content.messages(done.bytes),
            bytes: done.bytes,
        });
        if stopped.is_none() && !sender_is_done {
            self.await_sender(until, done.bytes)?;
        }
        Ok(self.receiver_report(started.unwrap_or(ended), ended, done))
    }

    /// Has the other end's notes put beside what the program says.
    fn listen_for_notes(&self, until: MonotonicTime) -> Result<(), Failure> {
        let (inbox, mailbox) = (
            Arc::clone(self.program.inbox()),
            Arc::clone(&self.context.mailbox),
        );
        thread::Builder::new()
            .name("program-notes".to_owned())
            .spawn(move || {
                while let Some(note) = mailbox.take_until(until) {
                    if !inbox.put(Event::Note(note)) {
                        return;
                    }
                }
            })
            .map(|_| ())
            .map_err(|error| Failure::Transport(TransportError::io("cannot start a thread")(error)))
    }

    /// Whether what the receiver's program says that it got is what was sent.
    fn check(&self, done: &Done, stopped: bool) -> Result<(), Broken> {
        if !stopped && done.bytes != self.content.size {
            return Err(wrong(format!(
                "it is done with `{}` of `{}` bytes delivered",
                done.bytes, self.content.size
            )));
        }
        let expected = self.content.crc32(done.bytes);
        match done.crc32 {
            None => Err(wrong(
                "it is done and did not say the CRC-32 of what it got",
            )),
            Some(crc32) if crc32 == expected => Ok(()),
            Some(crc32) => Err(wrong(format!(
                "the CRC-32 of the `{}` bytes that it got is `{crc32:08x}`, and of what was sent \
                 `{expected:08x}`",
                done.bytes
            ))),
        }
    }

    /// Waits until the sender has the acknowledgement, or was stopped before it came.
    fn await_sender(&self, until: MonotonicTime, bytes: u64) -> Result<(), Failure> {
        loop {
            match self.program.next(until) {
                Ok(Some(Event::Note(Note::Sent {
                    deadline_reached, ..
                }))) => {
                    if deadline_reached {
                        // The first answer may have come before the sender waited for it.
                        self.context.observer.send_note(Note::Received {
                            messages: self.content.messages(bytes),
                            bytes,
                        });
                    }
                    return Ok(());
                }
                Ok(Some(_)) => {}
                // It has done its part, and the sender says how it goes on.
                Err(Broken::Program(ProgramError::Ended { .. })) => {}
                Err(broken) => return Err(broken.into()),
                Ok(None) => {
                    return Err(Failure::Transport(TransportError::TimedOut {
                        what: "end of the sender's part".to_owned(),
                        seconds: MARGIN.as_secs_f64(),
                    }));
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
        let mut report = SideReport {
            started_monotonic_ns: started.0,
            ended_monotonic_ns: ended.0.max(started.0 + 1),
            ..SideReport::default()
        };
        let messages = self.content.messages(done.bytes) as f64;
        report.metrics = [
            ("bytes_delivered", done.bytes as f64),
            ("messages_delivered", messages),
            // The check holds for every byte, or the trial has failed.
            ("messages_corrupted", 0.0),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        self.add(&mut report, done);
        report
    }

    /// Adds what the program tells of itself and of its stack, as far as it is its business.
    fn add(&self, report: &mut SideReport, done: Done) {
        let mut left_out = Vec::new();
        for (name, value) in done.facts.unwrap_or_default() {
            let fits = report.facts.len() < MOST_FACTS
                && !name.is_empty()
                && !name.starts_with("interface.")
                && name.len() <= LONGEST_FACT
                && value.len() <= LONGEST_FACT
                && !(name.chars().chain(value.chars())).any(char::is_control);
            if fits {
                report.facts.entry(name).or_insert(value);
            } else {
                left_out.push(name);
            }
        }
        for (name, value) in done.metrics.unwrap_or_default() {
            let known = METRICS.contains(&name.as_str()) && metric::find(&name).is_some();
            if known && value.is_finite() && value >= 0.0 {
                report.metrics.insert(name, value);
            } else {
                left_out.push(name);
            }
        }
        if !left_out.is_empty() {
            let names: Vec<String> = left_out
                .iter()
                .map(|name| name.escape_debug().take(LONGEST_FACT).collect())
                .collect();
            report.warnings.push(Warning {
                code: "external_left_out".to_owned(),
                message: format!(
                    "what the {}'s program told was left out, as it is not its business or has no \
                     such value: `{}`",
                    self.order.role.name(),
                    names.join("`, `")
                ),
                hint: "see \"What a program may tell\" in docs/external-drivers.md".to_owned(),
            });
        }
    }
}
