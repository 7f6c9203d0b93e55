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
    Bytes, OptionValue, Pattern, Probe, Transport, Verify, Workload, WorkloadKind, metric::id,
};

use crate::{error::BenchError, process::Running, rounds::Figures};

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
    /// Size of a message, in bytes.
    pub message: u64,
    /// Check of what arrives.
    pub verify: Verify,
    /// Connections at once that share the bytes.
    pub flows: u32,
    /// Properties of the path that the driver is told.
    pub path: PathHints,
}

impl Race {
    /// Returns a transfer over one connection with CUBIC and the default message, on this host's
    /// loopback or another path without delay.
    pub fn new(driver: &'static str, bytes: u64, mtu_bytes: u32) -> Self {
        Self {
            driver,
            options: crate::cubic(),
            bytes,
            message: crate::MESSAGE_BYTES,
            verify: Verify::default(),
            flows: 1,
            path: PathHints {
                round_trip_delay: Duration::ZERO,
                longest_one_way: Duration::ZERO,
                typical_one_way: Duration::ZERO,
                link_rate_bps: None,
                window_bytes: None,
                mtu_bytes,
                clock_offset_ns: Some(0),
                keeps_order: true,
                is_real_network: false,
                treats_alike: true,
                tuning: regatta_model::Tuning::default(),
                keeps_tcp_limits: false,
            },
        }
    }
}

/// Returns a figure of one side.
fn metric(side: &SideReport, name: &str) -> Result<f64, BenchError> {
    let figure = side.measurements.metrics.get(name).copied();
    figure
        .ok_or_else(|| BenchError::process("regatta agent", format!("its report has no `{name}`")))
}

/// Computes the delivered bytes over the time from the connect call to the acknowledgement, with the
/// CPU time of both agents.
fn figures(
    sender: &SideReport,
    receiver: &SideReport,
    cpu_time: Duration,
) -> Result<Figures, BenchError> {
    let sent = metric(sender, id::MESSAGES_SENT).ok();
    let got = metric(receiver, id::MESSAGES_DELIVERED).ok();
    let counted = sent.zip(got).filter(|(sent, _)| *sent > 0.0);
    Ok(Figures {
        delivered_bytes: metric(receiver, id::BYTES_DELIVERED)?,
        seconds: metric(sender, id::TRANSFER_TIME_NS)? / 1e9,
        cpu_seconds: cpu_time.as_secs_f64(),
        lost_ratio: counted.map(|(sent, got)| 1.0 - got / sent),
    })
}

/// Makes a certificate for one run.
fn certificate() -> Result<(String, String), BenchError> {
    let certified_key = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()])
        .map_err(BenchError::reference)?;
    Ok((
        BASE64.encode(certified_key.cert.der()),
        BASE64.encode(certified_key.signing_key.serialize_der()),
    ))
}

fn send(agent: &mut Running, message: &ToAgent) -> Result<(), BenchError> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    agent.write(&line)
}

/// Message of an agent, with its role; `None` at its end.
type AgentMessage = (Role, Option<Result<FromAgent, BenchError>>);

/// Returns the index of a role's agent.
fn index(role: Role) -> usize {
    match role {
        Role::Sender => 0,
        Role::Receiver => 1,
    }
}

/// Forwards every line of an agent.
fn listen(role: Role, output: std::fs::File, to: Sender<AgentMessage>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let message = line.map_err(BenchError::from);
            let message = message.and_then(|line| Ok(serde_json::from_str(&line)?));
            if to.send((role, Some(message))).is_err() {
                return;
            }
        }
        // The receiver may be dropped already.
        let _ = to.send((role, None));
    });
}

/// Runs one trial over two agents, the sender's first.
///
/// # Errors
/// [`BenchError::Trial`] if a side fails, [`BenchError::Process`] if an agent breaks or the reports
/// lack a figure.
pub fn run(
    race: &Race,
    mut agents: [Running; 2],
    addresses: [IpAddr; 2],
) -> Result<Figures, BenchError> {
    let (to, from) = mpsc::channel();
    let (certificate, key) = certificate()?;
    for (agent, role) in agents.iter_mut().zip([Role::Sender, Role::Receiver]) {
        listen(role, agent.output()?, to.clone());
        send(
            agent,
            &ToAgent::Hello {
                protocol: PROTOCOL_VERSION,
                run_id: "bench".to_owned(),
                host: role.name().to_owned(),
                fork: false,
            },
        )?;
        let order = TrialOrder {
            trial: 0,
            role,
            transport: Transport {
                label: race.driver.to_owned(),
                driver: race.driver.to_owned(),
                options: race.options.clone(),
            },
            workload: Workload {
                name: "bench".to_owned(),
                kind: WorkloadKind::Bulk {
                    amount: Bytes(race.bytes).into(),
                    message: Bytes(race.message),
                    pattern: Pattern::Data,
                    options: regatta_model::BulkOptions {
                        flows: race.flows,
                        verify: race.verify,
                        ..regatta_model::BulkOptions::default()
                    },
                },
                probe: Probe {
                    idle_messages: 0,
                    under_load: false,
                    ..Probe::default()
                },
                transports: Vec::new(),
                conditions: Vec::new(),
                competition: None,
            },
            token: "00112233445566778899aabbccddeeff".to_owned(),
            seed: 1,
            deadline: DEADLINE,
            connect_deadline: DEADLINE,
            sample_interval: Duration::from_millis(100),
            local: addresses[index(role)],
            peer: addresses[1 - index(role)],
            ports: None,
            path: race.path,
            cpus: None,
            reports_start: false,
            beside_others: false,
            progress_interval: None,
            tls: TlsMaterial {
                certificate_der_base64: certificate.clone(),
                key_der_base64: (role == Role::Receiver).then(|| key.clone()),
                server_name: SERVER_NAME.to_owned(),
            },
            files: None,
        };
        let order = Box::new(order);
        send(agent, &ToAgent::Prepare { order })?;
    }
    let [sent, received] = converse(race, &mut agents, &from)?;
    let [sender, receiver] = agents;
    figures(&sent, &received, sender.finish()? + receiver.finish()?)
}

/// Forwards notes until both sides have reported.
fn converse(
    race: &Race,
    agents: &mut [Running; 2],
    from: &Receiver<AgentMessage>,
) -> Result<[SideReport; 2], BenchError> {
    let failed = |side: Role, reasons: String| BenchError::Trial {
        driver: race.driver.to_owned(),
        side: side.name(),
        reasons,
    };
    let until = Instant::now() + LIMIT;
    let (mut sender_ready, mut listens) = (false, None);
    let mut reports = [None, None];
    loop {
        let remaining = until.saturating_duration_since(Instant::now());
        let (role, message) = from.recv_timeout(remaining).map_err(|error| {
            let reason = match error {
                RecvTimeoutError::Timeout => format!("no report within {} s", LIMIT.as_secs()),
                RecvTimeoutError::Disconnected => "it ended".to_owned(),
            };
            failed(Role::Sender, reason)
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
                    send(&mut agents[0], &ToAgent::Start { trial: 0, peer })?;
                }
            }
            FromAgent::Note { trial, note } => {
                send(&mut agents[1 - index(role)], &ToAgent::Note { trial, note })?;
            }
            FromAgent::Finished { report, .. } => {
                reports[index(role)] = Some(*report);
                reports = match reports {
                    [Some(sent), Some(received)] => return Ok([sent, received]),
                    reports => reports,
                };
            }
            FromAgent::Failed { problem, .. } => {
                return Err(failed(role, problem.in_one_line().to_string()));
            }
            FromAgent::Aborted { .. } => return Err(failed(role, "it was aborted".to_owned())),
        }
    }
}

/// Runs one trial on plain loopback.
///
/// # Errors
/// As [`run`].
pub fn race(race: &Race, executable: &Path) -> Result<Figures, BenchError> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let start = || Running::start(Command::new(executable).arg("agent"));
    run(race, [start()?, start()?], [local, local])
}
