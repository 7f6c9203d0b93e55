//! Regatta's side of a comparison: two real agent processes, controlled over the control protocol
//! as in a run.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::Command,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use regatta_control::{
    FromAgent, PROTOCOL_VERSION, PathHints, Role, SideReport, TlsMaterial, ToAgent, TrialOrder,
};
use regatta_model::{
    Bytes, OptionValue, Pattern, Probe, Transport, Workload, WorkloadKind, metric::id,
};

use crate::{
    error::BenchError,
    process::{Running, Usage},
    rounds::Figures,
};

/// Longest time of a trial of the bench, which takes seconds; a longer one hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// Deadline of the transfer, which has no limit otherwise: an order must have one.
const DEADLINE: Duration = Duration::from_secs(120);

const SERVER_NAME: &str = "regatta";

/// Transfer to be measured.
#[derive(Debug, Clone)]
pub struct Race {
    /// Name of the driver.
    pub driver: &'static str,
    /// Options of the driver.
    pub options: BTreeMap<String, OptionValue>,
    /// Bytes to move.
    pub bytes: u64,
    /// Size of a message.
    pub message: u64,
    /// Connections at once that share the bytes.
    pub flows: u32,
    /// Properties of the path that the driver is told.
    pub path: PathHints,
}

/// Returns the properties of this host's loopback, or of another path without delay.
pub fn loopback(mtu_bytes: u32) -> PathHints {
    PathHints {
        round_trip_delay: Duration::ZERO,
        longest_one_way: Duration::ZERO,
        link_rate_bps: None,
        window_bytes: None,
        mtu_bytes,
        clock_offset_ns: Some(0),
        keeps_order: true,
        is_as_it_is: false,
        treats_alike: true,
    }
}

/// Both reports of a trial, and the CPU time of both processes.
#[derive(Debug)]
pub struct Outcome {
    /// Report of the sender.
    pub sender: SideReport,
    /// Report of the receiver.
    pub receiver: SideReport,
    /// CPU time of both agents, from start to end.
    pub usage: Usage,
}

impl Outcome {
    /// Returns a figure of one side.
    fn metric(side: &SideReport, name: &str) -> Result<f64, BenchError> {
        side.measurements
            .metrics
            .get(name)
            .copied()
            .ok_or_else(|| BenchError::Process {
                command: "regatta agent".to_owned(),
                message: format!("its report has no `{name}`"),
            })
    }

    /// Computes the delivered bytes over the time from the connect call to the acknowledgement.
    ///
    /// # Errors
    /// [`BenchError::Process`] if the reports lack a figure.
    pub fn figures(&self) -> Result<Figures, BenchError> {
        let delivered = Self::metric(&self.receiver, id::BYTES_DELIVERED)?;
        let sent = Self::metric(&self.sender, id::MESSAGES_SENT).ok();
        let got = Self::metric(&self.receiver, id::MESSAGES_DELIVERED).ok();
        Ok(Figures {
            delivered_bytes: delivered,
            seconds: Self::metric(&self.sender, id::TRANSFER_TIME_NS)? / 1e9,
            cpu_seconds: self.usage.seconds(),
            lost_ratio: sent
                .zip(got)
                .filter(|(sent, _)| *sent > 0.0)
                .map(|(sent, got)| 1.0 - got / sent),
        })
    }
}

/// Makes a certificate for one run.
fn certificate() -> Result<(String, String), BenchError> {
    let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()])
        .map_err(BenchError::reference)?;
    Ok((
        BASE64.encode(made.cert.der()),
        BASE64.encode(made.signing_key.serialize_der()),
    ))
}

struct Agent {
    role: Role,
    process: Running,
}

impl Agent {
    fn say(&mut self, message: &ToAgent) -> Result<(), BenchError> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.process.write(&line)
    }
}

/// Forwards every line of an agent, with its role; `None` at the end.
fn listen(
    role: Role,
    output: std::fs::File,
    to: Sender<(Role, Option<Result<FromAgent, BenchError>>)>,
) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let message = line
                .map_err(BenchError::from)
                .and_then(|line| serde_json::from_str(&line).map_err(BenchError::from));
            if to.send((role, Some(message))).is_err() {
                return;
            }
        }
        // Nobody may be left to hear it.
        let _ = to.send((role, None));
    });
}

/// Starts two agents on plain loopback.
///
/// # Errors
/// [`BenchError::Process`] if they cannot be started.
pub fn on_loopback(executable: &Path) -> Result<[Running; 2], BenchError> {
    let start = || Running::start(Command::new(executable).arg("agent"));
    Ok([start()?, start()?])
}

/// Runs one trial over two agents, the sender's first.
///
/// # Errors
/// [`BenchError::Trial`] if a side fails, [`BenchError::Process`] if an agent breaks.
pub fn run(
    race: &Race,
    agents: [Running; 2],
    addresses: [IpAddr; 2],
) -> Result<Outcome, BenchError> {
    let (to, from) = mpsc::channel();
    let [sender, receiver] = agents;
    let mut sender = Agent {
        role: Role::Sender,
        process: sender,
    };
    let mut receiver = Agent {
        role: Role::Receiver,
        process: receiver,
    };
    let (certificate, key) = certificate()?;
    for agent in [&mut sender, &mut receiver] {
        listen(agent.role, agent.process.output()?, to.clone());
        agent.say(&ToAgent::Hello {
            protocol: PROTOCOL_VERSION,
            run_id: "bench".to_owned(),
            host: agent.role.name().to_owned(),
        })?;
        let receives = agent.role == Role::Receiver;
        let [local, peer] = if receives {
            [addresses[1], addresses[0]]
        } else {
            addresses
        };
        agent.say(&ToAgent::Prepare {
            order: Box::new(TrialOrder {
                trial: 0,
                role: agent.role,
                transport: Transport {
                    label: race.driver.to_owned(),
                    driver: race.driver.to_owned(),
                    options: race.options.clone(),
                },
                workload: Workload {
                    name: "bench".to_owned(),
                    kind: WorkloadKind::Bulk {
                        size: Bytes(race.bytes),
                        message: Bytes(race.message),
                        pattern: Pattern::Data,
                        options: regatta_model::BulkOptions {
                            flows: race.flows,
                            ..regatta_model::BulkOptions::default()
                        },
                    },
                    probe: Probe {
                        idle_messages: 0,
                        under_load: false,
                        ..Probe::default()
                    },
                },
                token: "00112233445566778899aabbccddeeff".to_owned(),
                seed: 1,
                deadline: DEADLINE,
                connect_deadline: DEADLINE,
                sample_interval: Duration::from_millis(100),
                local,
                peer,
                ports: None,
                path: race.path,
                tells_beginning: false,
                progress_interval: None,
                tls: TlsMaterial {
                    certificate_der_base64: certificate.clone(),
                    key_der_base64: receives.then(|| key.clone()),
                    server_name: SERVER_NAME.to_owned(),
                },
                files: None,
            }),
        })?;
    }
    let (sent, received) = converse(race, &mut sender, &mut receiver, &from)?;
    Ok(Outcome {
        sender: sent,
        receiver: received,
        usage: sender.process.finish()? + receiver.process.finish()?,
    })
}

/// Forwards notes until both sides have reported.
fn converse(
    race: &Race,
    sender: &mut Agent,
    receiver: &mut Agent,
    from: &Receiver<(Role, Option<Result<FromAgent, BenchError>>)>,
) -> Result<(SideReport, SideReport), BenchError> {
    let failed = |side: Role, reasons: String| BenchError::Trial {
        driver: race.driver.to_owned(),
        side: side.name(),
        reasons,
    };
    let until = Instant::now() + LIMIT;
    let (mut sender_ready, mut listens) = (false, None);
    let (mut sent, mut received) = (None, None);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let (role, message) = from.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => failed(
                Role::Sender,
                format!("no report within {} s", LIMIT.as_secs()),
            ),
            RecvTimeoutError::Disconnected => failed(Role::Sender, "it ended".to_owned()),
        })?;
        let message = message.ok_or_else(|| failed(role, "its agent ended".to_owned()))??;
        match message {
            FromAgent::Hello { protocol, .. } if protocol != PROTOCOL_VERSION => {
                return Err(failed(role, format!("its agent speaks version {protocol}")));
            }
            FromAgent::Hello { .. } | FromAgent::Began { .. } | FromAgent::Progress { .. } => {}
            FromAgent::Ready { listen, .. } => {
                match role {
                    Role::Sender => sender_ready = true,
                    Role::Receiver => listens = listen,
                }
                if let (true, Some(peer)) = (sender_ready, listens) {
                    sender.say(&ToAgent::Start { trial: 0, peer })?;
                }
            }
            FromAgent::Note { trial, note } => match role {
                Role::Sender => receiver.say(&ToAgent::Note { trial, note })?,
                Role::Receiver => sender.say(&ToAgent::Note { trial, note })?,
            },
            FromAgent::Finished { report, .. } => {
                match role {
                    Role::Sender => sent = Some(*report),
                    Role::Receiver => received = Some(*report),
                }
                if let (Some(_), Some(_)) = (&sent, &received) {
                    break;
                }
            }
            FromAgent::Failed { reasons, .. } => return Err(failed(role, reasons.join(": "))),
            FromAgent::Aborted { .. } => return Err(failed(role, "it was aborted".to_owned())),
        }
    }
    sent.zip(received)
        .ok_or_else(|| failed(Role::Sender, "no report".to_owned()))
}

/// Runs one trial on plain loopback.
///
/// # Errors
/// As [`run`].
pub fn race(race: &Race, executable: &Path) -> Result<Figures, BenchError> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    run(race, on_loopback(executable)?, [local, local])?.figures()
}
