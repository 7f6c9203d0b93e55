//! One end of one trial, carried out by a program.

mod receiving;
mod reported;
mod sending;
mod work;

use std::{net::SocketAddr, path::Path, sync::atomic::Ordering, time::Duration};

use regatta_control::{SideReport, TrialOrder};
use regatta_model::{
    Finish, PortRange, WorkloadKind, fact, phrase, reason, units::nanoseconds, warning,
};
use regatta_transport::{
    ClientSession, Delivered, Phase, Result, ServerSession, StatedExchange, StatedProbe,
    TransportError, Trial, TrialContext, Unsupported, complete_stack_facts,
};

use crate::{
    content::Content,
    contract::{
        self, ABANDON, CONTRACT_VERSION, Description, FromProgram, PROBE, REPEAT, ToProgram,
    },
    describe,
    error::ProgramFailure,
    files::{MemoryFile, TrialFiles, tls_files},
    program::{Command, Program},
};
use work::Work;
pub(crate) use work::check as check_workload;

/// Time in which a program must be ready.
const READY_LIMIT: Duration = Duration::from_secs(8);

/// Time in which a program must end by itself once it is done.
const END_LIMIT: Duration = Duration::from_secs(1);

/// One end of one trial, whose program is ready.
struct ProgramSession {
    command: Command,
    description: Description,
    /// SHA-256 of the program's file.
    digest: Option<String>,
    trial: Trial,
    content: Content,
    /// Whether the sender closes without waiting for the acknowledgement.
    abandons: bool,
    /// Answers to the messages, in an exchange.
    exchange: Option<StatedExchange>,
    /// Probe, of a program that has that capability.
    probe: Option<StatedProbe>,
    /// Shortest time from a departure to its answer that the program states, in nanoseconds.
    shortest_answer_ns: Option<i64>,
    program: Program,
    /// Dropped after the program.
    files: TrialFiles,
    // The program may read them at any time.
    _memory_files: Vec<MemoryFile>,
}

/// Session of the end that listens.
struct ProgramServer {
    session: ProgramSession,
    address: SocketAddr,
}

/// Starts a program that connects and waits until it is ready.
pub(crate) fn client(
    command: Command,
    congestion_control: Option<String>,
    files: TrialFiles,
    order: &TrialOrder,
    context: TrialContext,
) -> Result<Box<dyn ClientSession>> {
    let what = (command, congestion_control, files);
    let (session, ()) = start(what, order, context, ToProgram::Connect, |_| Ok(()))?;
    Ok(Box::new(session))
}

/// Starts a program that listens and waits until it does.
pub(crate) fn server(
    command: Command,
    congestion_control: Option<String>,
    files: TrialFiles,
    order: &TrialOrder,
    context: TrialContext,
) -> Result<Box<dyn ServerSession>> {
    let what = (command, congestion_control, files);
    let address = |port| {
        let port = listening_port(port, order.ports)?;
        Ok(SocketAddr::new(order.local, port))
    };
    let (session, address) = start(what, order, context, ToProgram::Listen, address)?;
    Ok(Box::new(ProgramServer { session, address }))
}

/// Starts a program with `ask` and waits until it is ready; returns what `of_port` makes of the port that it names.
fn start<T>(
    (command, congestion_control, files): (Command, Option<String>, TrialFiles),
    order: &TrialOrder,
    context: TrialContext,
    ask: fn(Box<contract::Order>) -> ToProgram,
    of_port: impl FnOnce(Option<u16>) -> Result<T, ProgramFailure>,
) -> Result<(ProgramSession, T)> {
    let Work {
        content,
        finish,
        exchange,
    } = Work::new(order)?;
    let trial = Trial::new(order, context)?;
    let file = |content: &[u8]| {
        MemoryFile::new(content).map_err(TransportError::io(reason::cannot_make_message_file()))
    };
    let message = file(&content.message)?;
    let answer = exchange.as_ref().map(|it| file(&it.answers().0));
    let answer = answer.transpose()?;
    let (tls, mut memory_files) = tls_files(&order.tls)
        .map_err(TransportError::io(reason::cannot_make_certificate_file()))?;
    let ready = || {
        let description = describe::describe(&command, &trial.context.stop)?;
        can_do(&description, &order.workload.kind).map_err(TransportError::Unsupported)?;
        let probe = StatedProbe::new(&trial).filter(|_| description.can(PROBE));
        let mut program = describe::start(&command, files.directory(), &trial.context.stop)?;
        let request = Box::new(contract::Order {
            contract: CONTRACT_VERSION,
            local: order.local,
            peer: order.peer,
            ports: order.ports.map(PortRange::bounds),
            token: order.token.clone(),
            workload: order.workload.kind.name(),
            size_bytes: content.size,
            message_bytes: content.message.len() as u64,
            message_file: message.path.clone(),
            exchange: (exchange.as_ref().zip(answer.as_ref()))
                .map(|(exchange, file)| exchange_of(exchange, file)),
            probe: probe.as_ref().map(|probe| probe_of(probe, &order.token)),
            finish: match finish {
                Finish::Agree => "agree",
                Finish::Abandon => ABANDON,
            },
            files: files.directory().map(Path::to_owned),
            congestion_control,
            deadline_ns: nanoseconds(order.deadline),
            connect_deadline_ns: nanoseconds(order.connect_deadline),
            tls,
            path: contract::Path {
                round_trip_delay_ns: nanoseconds(order.path.round_trip_delay),
                link_rate_bps: order.path.link_rate_bps,
                window_bytes: order.path.window_bytes,
                mtu_bytes: order.path.mtu_bytes,
            },
        });
        program.send(&ask(request))?;
        let before = reason::before_ready();
        let port = program.await_message("ready", READY_LIMIT, before, |reply| match reply {
            FromProgram::Ready { port } => Ok(port),
            reply => Err(reply),
        })?;
        Ok((description, probe, program, of_port(port)?))
    };
    let (description, probe, program, of_port) =
        ready().map_err(|failure: ProgramFailure| failure.explain(&command.program))?;
    memory_files.extend([message].into_iter().chain(answer));
    let session = ProgramSession {
        digest: describe::digest(&command),
        command,
        description,
        trial,
        content,
        abandons: finish == Finish::Abandon,
        exchange,
        probe,
        shortest_answer_ns: None,
        program,
        files,
        _memory_files: memory_files,
    };
    Ok((session, of_port))
}

/// Checks that a program carries out a workload.
pub(crate) fn can_do(
    description: &Description,
    workload: &WorkloadKind,
) -> Result<(), Unsupported> {
    let (name, workloads) = (&description.name, &description.workloads);
    let abandons =
        matches!(workload, WorkloadKind::Bulk { options, .. } if options.finish == Finish::Abandon);
    if !workloads.iter().any(|it| it == workload.name()) {
        return Err(Unsupported::new(
            reason::not_carried_out(name, workload.name()),
            reason::workload_of_program(&workloads.join(", ")),
        ));
    }
    match abandons && !description.can(ABANDON) {
        true => Err(Unsupported::new(
            reason::no_end_without_acknowledgement(name),
            reason::leave_finish_out(),
        )),
        false => Ok(()),
    }
}

fn exchange_of(exchange: &StatedExchange, file: &MemoryFile) -> contract::Exchange {
    contract::Exchange {
        requests: exchange.count(),
        answer_bytes: exchange.answers().0.len() as u64,
        answer_file: file.path.clone(),
        outstanding: exchange.outstanding(),
        requests_per_second: exchange.requests_per_second(),
    }
}

/// Returns the probe's token, which both ends make of the transfer's: each hexadecimal digit is another one.
fn probe_token(token: &str) -> String {
    let digits = token.chars().filter_map(|digit| digit.to_digit(16));
    let others = digits.filter_map(|digit| char::from_digit(15 - digit, 16));
    others.collect()
}

fn probe_of(probe: &StatedProbe, token: &str) -> contract::Probe {
    contract::Probe {
        token: probe_token(token),
        message_bytes: probe.message_bytes(),
        idle_messages: probe.idle_messages(),
        interval_ns: probe.interval().map(nanoseconds),
    }
}

/// Returns the port that a program listens on if it named one of those that are allowed.
fn listening_port(port: Option<u16>, allowed: Option<PortRange>) -> Result<u16, ProgramFailure> {
    match (port, allowed) {
        (None | Some(0), _) => Err(ProgramFailure::invalid(reason::no_port())),
        (Some(port), Some(allowed)) if !allowed.ports().contains(&port) => Err(
            ProgramFailure::invalid(reason::port_not_allowed(port.into(), &allowed.to_string())),
        ),
        (Some(port), _) => Ok(port),
    }
}

impl ClientSession for ProgramSession {
    fn run(mut self: Box<Self>, peer: SocketAddr) -> Result<SideReport> {
        let result = self.send(peer);
        self.end(result)
    }
}

impl ServerSession for ProgramServer {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn run(self: Box<Self>) -> Result<SideReport> {
        let mut session = self.session;
        let result = session.receive();
        session.end(result)
    }
}

impl ProgramSession {
    /// Ends the trial, whose result is this.
    fn end(self, result: Result<SideReport, ProgramFailure>) -> Result<SideReport> {
        let this = self;
        this.trial.context.live.set_phase(Phase::Done);
        // Ends the thread that waits for the other end.
        this.trial.context.peer.end_waits();
        let is_stopped = || this.trial.context.stop.is_stopped();
        let mut report = result.map_err(|failure| match is_stopped() {
            true => TransportError::Cancelled,
            false => failure.explain(&this.command.program),
        })?;
        let side = this.trial.order.role.name();
        let program = format!("{} {}", this.description.name, this.description.version);
        let facts = &mut report.measurements.facts;
        facts.insert(format!("external.{side}"), program);
        let digest = this.digest.into_iter();
        facts.extend(digest.map(|digest| (format!("external.sha256.{side}"), digest)));
        complete_stack_facts(
            &mut report,
            &this.trial.order,
            &fact::program_does_not_tell(),
        );
        report.measurements.warnings.extend(this.files.warning());
        let end = describe::finish(this.program, &this.description, &this.command, END_LIMIT);
        if let Some(how) = end
            && !is_stopped()
        {
            let warning = warning::external_end(phrase::side(side), how);
            report.measurements.warnings.push(warning);
        }
        Ok(report)
    }

    /// Whether the receiver's program answers messages, which it must until the sender's has its last answers.
    fn is_answered(&self) -> bool {
        self.exchange.is_some() || self.probe.is_some()
    }

    /// Returns the ID of the process that carries out the trial.
    fn process(&self) -> u32 {
        match self.description.can(REPEAT) {
            true => self.program.trial_process(),
            false => self.program.process(),
        }
    }

    /// Notes the number of packets of the probe's connection that this end's stack has sent again.
    fn probe_retransmitted(&mut self, packets: u64) -> Result<(), ProgramFailure> {
        let probe = self
            .probe
            .as_mut()
            .ok_or_else(|| ProgramFailure::invalid(reason::probe_not_ordered()))?;
        probe.set_retransmitted(packets);
        Ok(())
    }

    /// Returns the first `bytes` of the content with the number of complete messages in them.
    fn first(&self, bytes: u64) -> Delivered {
        let messages = self.content.messages(bytes);
        Delivered { bytes, messages }
    }

    /// Updates the live counters with the bytes handed over or delivered so far.
    fn count(&self, bytes: u64) -> Result<(), ProgramFailure> {
        if bytes > self.content.size {
            let size = self.content.size;
            return Err(ProgramFailure::invalid(reason::too_many_bytes(bytes, size)));
        }
        let live = &self.trial.context.live;
        let (live_bytes, live_messages) = match self.trial.order.connects() {
            true => (&live.bytes_sent, &live.messages_sent),
            false => (&live.bytes_delivered, &live.messages_delivered),
        };
        live_bytes.store(bytes, Ordering::Release);
        live_messages.store(self.content.messages(bytes), Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_equal_digits_has_another_one_for_the_probe() {
        assert_eq!(probe_token("00a5"), "ff5a");
        assert_ne!(probe_token("11"), "11");
    }
}
