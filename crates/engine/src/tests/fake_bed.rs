//! Fake bed: agents are threads that follow a script.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, PipeWriter, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use regatta_bed::{
    BedError, Exit, Host, Launched, LaunchedProcess, LinkCounters, OnDaemonEnd, PathCounters,
    TestBed,
    capture::{CaptureOrder, CaptureSummary},
};
use regatta_control::{FromAgent, Note, PROTOCOL_VERSION, Role, SideReport, ToAgent};
use regatta_model::{
    BedKind, BitRate, Bytes, Condition, HostFacts, IpProtocol, Link, PathCheck, PathSetup, Pattern,
    Probe, Study, Text, Transport, Workload, WorkloadKind,
};

use super::fake_monitor::{Monitor, launched};

/// Returns a study of this many transports, conditions and rounds.
pub(crate) fn study(transports: usize, conditions: usize, rounds: u32) -> Study {
    let link = Link {
        delay: Duration::from_millis(15),
        rate: Some(BitRate(100_000_000)),
        ..Link::default()
    };
    Study {
        name: "test".into(),
        title: "A test".into(),
        description: String::new(),
        source: None,
        rounds,
        until: None,
        time_limit: None,
        cell_end: None,
        rank_by: None,
        equivalence: Study::EQUIVALENCE,
        every: None,
        scaled: None,
        seed: 1,
        bed: BedKind::Netns,
        hosts: Vec::new(),
        guest: regatta_model::GuestSetup::default(),
        capture: None,
        path: PathSetup::USERSPACE,
        deadline: Duration::from_secs(5),
        connect_deadline: Study::CONNECT_DEADLINE,
        sample_interval: Duration::from_millis(100),
        transports: (0..transports)
            .map(|i| Transport {
                label: format!("t{i}"),
                driver: "tcp".into(),
                options: BTreeMap::new(),
            })
            .collect(),
        conditions: (0..conditions)
            .map(|i| Condition {
                name: format!("c{i}"),
                forward: link.clone(),
                reverse: link.clone(),
                mtu_bytes: Condition::DEFAULT_MTU_BYTES,
                schedule: Vec::new(),
                tuning: regatta_model::HostTuning::default(),
            })
            .collect(),
        workloads: vec![Workload {
            name: "bulk".into(),
            kind: WorkloadKind::Bulk {
                amount: Bytes(10_000_000).into(),
                message: Bytes(10_000),
                pattern: Pattern::Data,
                options: regatta_model::BulkOptions::default(),
            },
            probe: Probe::default(),
            transports: Vec::new(),
            conditions: Vec::new(),
            competition: None,
        }],
        published: Vec::new(),
        claims: Vec::new(),
        curves: Vec::new(),
        sweeps: regatta_model::Sweeps::default(),
    }
}

/// Reaction of a fake agent to a message.
pub(crate) enum Action {
    Send(FromAgent),
    Write(&'static str),
    Exit,
    /// Ends with this status of `waitpid`.
    ExitWith(i32),
}

type Script = Box<dyn FnMut(ToAgent) -> Vec<Action> + Send>;

/// Function that chooses the script of the n-th agent of a host, from 0.
pub(crate) type AgentFactory = Box<dyn FnMut(Host, u32) -> Script>;

/// Function that chooses the behaviour of the n-th monitor of a host, from 0.
pub(crate) type MonitorFactory = Box<dyn Fn(Host, u32) -> Option<Monitor>>;

pub(crate) struct FakeBed {
    pub agents: AgentFactory,
    pub spawned: BTreeMap<&'static str, u32>,
    pub check_within: bool,
    /// Reasons why the next path checks are spoiled, the last one first.
    pub checks_spoiled: Vec<Text>,
    pub counters: PathCounters,
    /// Shares of late packets that the path counts in the next trials, the last one first; 0 after
    /// them.
    pub late_ratios: Vec<f64>,
    pub conditions_set: Vec<(String, u64)>,
    /// Number of schedules that were begun.
    pub begun: u32,
    /// Whether the path's daemon is dead: requests after a trial get no answer.
    pub daemon_crashed: bool,
    /// Whether every agent dies in the next path check.
    pub agents_crash_in_check: bool,
    /// Behaviour of the n-th monitor of a host, from 0; `None` where the bed has no monitors.
    pub monitors: MonitorFactory,
    /// Number of requests for a monitor, of host a and host b.
    pub monitor_requests: [u32; 2],
    /// Function that is called when the path's daemon ends.
    pub on_daemon_end: Arc<Mutex<Option<OnDaemonEnd>>>,
    outputs: Vec<Output>,
}

/// Standard output of a fake agent; `None` once it is dead.
type Output = Arc<Mutex<Option<PipeWriter>>>;

impl FakeBed {
    pub fn new(agents: AgentFactory) -> Self {
        Self {
            agents,
            spawned: BTreeMap::new(),
            check_within: true,
            checks_spoiled: Vec::new(),
            late_ratios: Vec::new(),
            counters: PathCounters {
                forward: LinkCounters {
                    offered: 10_000,
                    delivered: 10_000,
                    ..LinkCounters::default()
                },
                ..PathCounters::default()
            },
            conditions_set: Vec::new(),
            begun: 0,
            daemon_crashed: false,
            agents_crash_in_check: false,
            monitors: Box::new(|_, _| None),
            monitor_requests: [0; 2],
            on_daemon_end: Arc::default(),
            outputs: Vec::new(),
        }
    }

    /// Makes a bed whose two agents do everything right.
    pub fn healthy() -> Self {
        Self::new(Box::new(|_, _| healthy_agent()))
    }
}

pub(crate) fn hello() -> FromAgent {
    FromAgent::Hello {
        protocol: PROTOCOL_VERSION,
        version: "0".into(),
        pid: 1,
        monotonic_ns: 0,
        facts: HostFacts::default(),
    }
}

fn report(role: Role) -> SideReport {
    let mut report = SideReport {
        started_monotonic_ns: 1_000_000_000,
        ended_monotonic_ns: 2_000_000_000,
        ..SideReport::default()
    };
    let mut put = |name: &str, value: f64| {
        report.measurements.metrics.insert(name, value);
    };
    match role {
        Role::Sender => {
            put("bytes_sent", 10e6);
            put("transfer_time_ns", 1e9);
            put("cpu_sender_ratio", 0.25);
            put("interface_drops", 2.0);
        }
        Role::Receiver => {
            put("bytes_delivered", 10e6);
            put("cpu_receiver_ratio", 0.15);
            put("interface_drops", 3.0);
        }
    }
    report
}

/// Makes the script of an agent that does everything right.
pub(crate) fn healthy_agent() -> Script {
    let mut role = None;
    Box::new(move |message| match message {
        ToAgent::Hello { .. } => vec![Action::Send(hello())],
        ToAgent::Prepare { order } => {
            role = Some(order.role);
            assert_eq!(
                order.tls.key_der_base64.is_some(),
                order.role == Role::Receiver,
                "the key goes to the listening end alone"
            );
            vec![Action::Send(FromAgent::Ready {
                trial: order.trial,
                listen: (order.role == Role::Receiver).then(|| SocketAddr::new(order.local, 4000)),
                ip_protocol: Some(IpProtocol::Tcp),
            })]
        }
        ToAgent::Start { trial, .. } => vec![Action::Send(FromAgent::Note {
            trial,
            note: Note::Sent {
                messages: 1000,
                bytes: 10_000_000,
                deadline_reached: false,
            },
        })],
        ToAgent::Note { trial, note } => {
            let finished = FromAgent::Finished {
                trial,
                report: Box::new(report(role.unwrap_or(Role::Sender))),
            };
            let mut acts = Vec::new();
            if let Note::Sent {
                messages, bytes, ..
            } = note
            {
                acts.push(Action::Send(FromAgent::Note {
                    trial,
                    note: Note::Received { messages, bytes },
                }));
            }
            acts.push(Action::Send(finished));
            acts
        }
        ToAgent::Abort { trial } => vec![Action::Send(FromAgent::Aborted { trial })],
    })
}

#[derive(Debug)]
struct FakeProcess {
    output: Output,
    status: Arc<Mutex<i32>>,
}

impl LaunchedProcess for FakeProcess {
    fn id(&self) -> u32 {
        0
    }

    fn ended(&mut self, _within: Duration) -> Option<Exit> {
        let output = self.output.lock();
        output.is_none().then(|| Exit::Ended {
            status: *self.status.lock(),
            out_of_memory: false,
        })
    }

    fn kill(&mut self) -> Option<Exit> {
        self.output.lock().take();
        None
    }
}

impl TestBed for FakeBed {
    fn description(&self) -> Text {
        "fake".into()
    }

    fn shares_clock(&self) -> bool {
        true
    }

    fn address(&self, host: Host) -> IpAddr {
        IpAddr::V4(match host {
            Host::Client => Ipv4Addr::new(10, 0, 0, 1),
            Host::Server => Ipv4Addr::new(10, 0, 0, 2),
        })
    }

    fn spawn_agent(&mut self, host: Host) -> Result<Launched, BedError> {
        let nth = self.spawned.entry(host.name()).or_default();
        let mut script = (self.agents)(host, *nth);
        *nth += 1;
        let (in_reader, in_writer) = std::io::pipe().unwrap();
        let (out_reader, out_writer) = std::io::pipe().unwrap();
        let output = Arc::new(Mutex::new(Some(out_writer)));
        self.outputs.push(Arc::clone(&output));
        let status = Arc::new(Mutex::new(0));
        let process = FakeProcess {
            output: Arc::clone(&output),
            status: Arc::clone(&status),
        };
        std::thread::spawn(move || {
            for line in BufReader::new(in_reader).lines() {
                let message = serde_json::from_str(&line.unwrap()).unwrap();
                for act in script(message) {
                    let mut output = output.lock();
                    let Some(pipe) = output.as_mut() else { return };
                    match act {
                        Action::Send(answer) => {
                            let mut line = serde_json::to_vec(&answer).unwrap();
                            line.push(b'\n');
                            pipe.write_all(&line).unwrap();
                        }
                        Action::Write(text) => pipe.write_all(text.as_bytes()).unwrap(),
                        Action::Exit => {
                            output.take();
                            return;
                        }
                        Action::ExitWith(exit_status) => {
                            *status.lock() = exit_status;
                            output.take();
                            return;
                        }
                    }
                }
            }
            output.lock().take();
        });
        Ok(Launched {
            input: Box::new(in_writer),
            output: out_reader.into(),
            errors: None,
            process: Box::new(process),
        })
    }

    fn spawn_monitor(&mut self, host: Host) -> Result<Option<Launched>, BedError> {
        let requests = &mut self.monitor_requests[host as usize];
        let number = std::mem::replace(requests, *requests + 1);
        match (self.monitors)(host, number) {
            Some(Monitor::Refused) => Err(BedError::TimedOut(Duration::from_secs(10))),
            monitor => Ok(monitor.map(launched)),
        }
    }

    fn set_condition(&mut self, condition: &Condition, seed: u64) -> Result<(), BedError> {
        self.conditions_set.push((condition.name.clone(), seed));
        Ok(())
    }

    fn begin(&mut self) -> Result<(), BedError> {
        self.begun += 1;
        Ok(())
    }

    fn counters(&mut self) -> Result<PathCounters, BedError> {
        if self.daemon_crashed {
            return Err(BedError::TimedOut(Duration::from_secs(10)));
        }
        let mut counters = self.counters;
        if let Some(late) = self.late_ratios.pop() {
            counters.forward.late_packets = (late * counters.forward.delivered as f64) as u64;
        }
        Ok(counters)
    }

    fn start_capture(&mut self, _: CaptureOrder) -> Result<(), BedError> {
        Ok(())
    }

    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, BedError> {
        Ok(None)
    }

    fn on_daemon_end(&mut self, call: OnDaemonEnd) {
        *self.on_daemon_end.lock() = Some(call);
    }

    fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError> {
        if std::mem::take(&mut self.agents_crash_in_check) {
            for output in &self.outputs {
                output.lock().take();
            }
        }
        Ok(PathCheck {
            condition: condition.name.clone(),
            step_at_ns: 0,
            checked_unix_ns: 0,
            within: self.check_within,
            spoiled: self.checks_spoiled.pop(),
            quantities: Vec::new(),
        })
    }
}
