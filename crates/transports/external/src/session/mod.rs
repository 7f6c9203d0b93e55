//! One end of one trial, carried out by a program.

mod receiving;
mod reported;
mod sending;

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use regatta_control::{SideReport, TrialOrder};
use regatta_model::{
    Bytes, Direction, Finish, Opening, Pattern, PortRange, Warning, WorkloadKind,
    units::nanoseconds,
};
use regatta_transport::{
    Delivered, Phase, Result, Session, TransportError, Trial, TrialContext, complete_stack_facts,
};

use crate::{
    content::Content,
    contract::{self, CONTRACT_VERSION, Description, FromProgram, REPEAT, ToProgram},
    describe::{self, WORKLOAD},
    error::ProgramFailure,
    files::{MemoryFile, tls_files},
    program::{Command, Program},
};

/// Longest message, in bytes; a message is held in memory.
const LONGEST_MESSAGE: u64 = 256 << 20;

/// Time in which a program must be ready.
const READY_LIMIT: Duration = Duration::from_secs(8);

/// Time in which a program must end by itself once it is done.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Capability of a program that can end without the receiver's acknowledgement.
const ABANDON: &str = "abandon";

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
    listen: Option<SocketAddr>,
    program: Program,
    // The program may read them at any time.
    _message: MemoryFile,
    _tls: Vec<MemoryFile>,
}

/// Returns the content and the end of the workload, if the contract supports that.
fn content(order: &TrialOrder) -> Result<(Content, Finish)> {
    let WorkloadKind::Bulk {
        size,
        message,
        pattern,
        options,
    } = order.workload.kind
    else {
        let kind = order.workload.kind.name();
        let reason = format!("external programs carry out `{WORKLOAD}` and not `{kind}`");
        return Err(TransportError::unsupported(reason, ""));
    };
    let unsupported = [
        (
            options.direction != Direction::Forward,
            "transfer to the connecting host",
        ),
        (options.flows != 1, "transfer over several flows"),
        (options.duration.is_some(), "transfer of a given duration"),
        (!options.warm_up.is_zero(), "warm-up that is left out"),
        (
            options.opening == Opening::Answered,
            "opening that is answered before data leaves",
        ),
        (
            pattern == Pattern::File,
            "file that is read during the transfer",
        ),
    ];
    if let Some((_, what)) = unsupported.iter().find(|(is_set, _)| *is_set) {
        return Err(TransportError::unsupported(
            format!("the contract with external programs has no {what}"),
            "leave it out, or use a transport that is no external program",
        ));
    }
    if message.0 == 0 {
        let reason = "a message of zero bytes cannot be sent";
        return Err(TransportError::order(reason));
    }
    // A message is never longer than all of it.
    let longest = message.0.min(size.0.max(1));
    let length = usize::try_from(longest).unwrap_or(usize::MAX);
    if longest > LONGEST_MESSAGE {
        let limit = Bytes(LONGEST_MESSAGE);
        return Err(TransportError::unsupported(
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
    congestion_control: Option<String>,
    order: &TrialOrder,
    context: TrialContext,
) -> Result<Box<dyn Session>> {
    let (content, finish) = content(order)?;
    let message = MemoryFile::new(&content.message)
        .map_err(TransportError::io("cannot make the message's file"))?;
    let (tls, tls_files) =
        tls_files(&order.tls).map_err(TransportError::io("cannot make the certificate's file"))?;
    let ready = || {
        let description = describe::describe(&command, &context.stop)?;
        if finish == Finish::Abandon && !description.can(ABANDON) {
            let name = &description.name;
            return Err(ProgramFailure::from(TransportError::unsupported(
                format!("`{name}` does not end without the receiver's acknowledgement"),
                "leave `finish` out",
            )));
        }
        let mut program = describe::start(&command, &context.stop)?;
        let request = request(order, congestion_control, &content, finish, &message, tls);
        let request = Box::new(request);
        program.send(&match order.connects() {
            true => ToProgram::Connect(request),
            false => ToProgram::Listen(request),
        })?;
        let before = "before it was ready";
        let port = program.await_message("ready", READY_LIMIT, before, |reply| match reply {
            FromProgram::Ready { port } => Ok(port),
            reply => Err(reply),
        })?;
        let listens = (!order.connects()).then(|| listening_port(port, order.ports));
        let listen = listens.transpose()?;
        let listen = listen.map(|port| SocketAddr::new(order.local, port));
        Ok((description, program, listen))
    };
    let (description, program, listen) =
        ready().map_err(|failure: ProgramFailure| failure.explain(&command.program))?;
    Ok(Box::new(ProgramSession {
        digest: describe::digest(&command),
        command,
        description,
        trial: Trial::new(order, context)?,
        content,
        abandons: finish == Finish::Abandon,
        listen,
        program,
        _message: message,
        _tls: tls_files,
    }))
}

/// Returns the port that a program listens on if it named one of those that are allowed.
fn listening_port(port: Option<u16>, allowed: Option<PortRange>) -> Result<u16, ProgramFailure> {
    match (port, allowed) {
        (None | Some(0), _) => Err(ProgramFailure::invalid("its `ready` has no port")),
        (Some(port), Some(allowed)) if !allowed.ports().contains(&port) => {
            Err(ProgramFailure::invalid(format!(
                "it listens on port {port}, and `ports` of the host are {allowed}: it has to read `ports` of its order"
            )))
        }
        (Some(port), _) => Ok(port),
    }
}

fn request(
    order: &TrialOrder,
    congestion_control: Option<String>,
    content: &Content,
    finish: Finish,
    message: &MemoryFile,
    tls: contract::Tls,
) -> contract::Order {
    contract::Order {
        contract: CONTRACT_VERSION,
        local: order.local,
        peer: order.peer,
        ports: order.ports.map(PortRange::bounds),
        token: order.token.clone(),
        workload: WORKLOAD,
        size_bytes: content.size,
        message_bytes: content.message.len() as u64,
        message_file: message.path.clone(),
        finish: match finish {
            Finish::Agree => "agree",
            Finish::Abandon => ABANDON,
        },
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
    }
}

impl Session for ProgramSession {
    fn listen_address(&self) -> Option<SocketAddr> {
        self.listen
    }

    fn run(self: Box<Self>, peer: Option<SocketAddr>) -> Result<SideReport> {
        let mut this = *self;
        this.trial.context.stop.on_stop(&this.trial.context.notes);
        let result = match (this.trial.order.connects(), peer) {
            (true, Some(peer)) => this.send(peer),
            (true, None) => Err(ProgramFailure::Transport(TransportError::order(
                "a sender needs the receiver's address",
            ))),
            (false, _) => this.receive(),
        };
        this.trial.context.live.set_phase(Phase::Done);
        // Ends the thread that waits for notes.
        this.trial.context.notes.close();
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
        complete_stack_facts(&mut report, &this.trial.order, "the program does not tell");
        let end = describe::finish(this.program, &this.description, &this.command, END_LIMIT);
        if let Some(how) = end
            && !is_stopped()
        {
            let message = format!("when all was done, the {side}'s program {how}");
            let warning = Warning::new("external_end", message, "");
            report.measurements.warnings.push(warning);
        }
        Ok(report)
    }
}

impl ProgramSession {
    /// Returns the number of the process that carries out the trial.
    fn process(&self) -> u32 {
        match self.description.can(REPEAT) {
            true => self.program.trial_process(),
            false => self.program.process(),
        }
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
            return Err(ProgramFailure::invalid(format!(
                "it speaks of `{bytes}` bytes, and there are `{size}`"
            )));
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
