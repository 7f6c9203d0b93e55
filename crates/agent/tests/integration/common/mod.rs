//! A controller for tests: starts agents, talks to them, passes notes on.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use regatta_control::{
    FromAgent, PROTOCOL_VERSION, PathHints, ProblemKind, Role, SideReport, TlsMaterial, ToAgent,
    TrialOrder,
};
use regatta_model::{Bytes, OptionValue, Pattern, Probe, Text, Transport, Workload, WorkloadKind};

/// Longest time for an answer on a loaded machine; a test that waits longer fails.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Message from an agent, or `None` at the end of its output.
pub type Message = Option<FromAgent>;

/// One agent as a child process, ended when dropped.
pub struct Agent {
    pub child: Child,
    pub input: Option<ChildStdin>,
    pub messages: Receiver<Message>,
    errors: Option<std::thread::JoinHandle<String>>,
}

impl Agent {
    /// Starts an agent and does not greet it.
    pub fn start() -> Self {
        let (tx, rx) = channel();
        Self::start_on_channel(tx, |message| message, rx)
    }

    /// Starts an agent whose messages go to `tx`, which may be shared, each as `wrap` returns it.
    fn start_on_channel<T: Send + 'static>(
        tx: Sender<T>,
        wrap: impl Fn(Message) -> T + Send + 'static,
        messages: Receiver<Message>,
    ) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_regatta-agent-under-test"))
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the agent under test starts");
        let output = child.stdout.take().expect("piped");
        let mut errors = child.stderr.take().expect("piped");
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let line = line.expect("UTF-8");
                let message = serde_json::from_str(&line)
                    .unwrap_or_else(|error| panic!("`{line}` on standard output: {error}"));
                if tx.send(wrap(Some(message))).is_err() {
                    return;
                }
            }
            let _ = tx.send(wrap(None));
        });
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        Self {
            input: child.stdin.take(),
            child,
            messages,
            errors: Some(errors),
        }
    }

    /// Starts an agent and greets it.
    pub fn greeted() -> Self {
        let mut agent = Self::start();
        agent.send(&hello());
        match agent.receive() {
            FromAgent::Hello { protocol, pid, .. } => {
                assert_eq!(protocol, PROTOCOL_VERSION);
                assert_eq!(pid, agent.child.id());
            }
            other => panic!("{other:?} instead of a greeting"),
        }
        agent
    }

    pub fn send(&mut self, message: &ToAgent) {
        let line = serde_json::to_string(message).expect("serialises");
        self.send_text(&line);
    }

    pub fn send_text(&mut self, line: &str) {
        let input = self.input.as_mut().expect("input is open");
        writeln!(input, "{line}").expect("the agent reads");
    }

    /// Waits for the next message.
    pub fn receive(&self) -> FromAgent {
        self.messages
            .recv_timeout(ANSWER_TIMEOUT)
            .expect("an answer in time")
            .expect("an answer before the end of output")
    }

    /// Prepares a trial at the receiver or the sender; panics unless it gets ready.
    pub fn prepare(&mut self, order: TrialOrder) -> Option<SocketAddr> {
        let wanted = order.trial;
        self.send(&ToAgent::Prepare {
            order: Box::new(order),
        });
        match self.receive() {
            FromAgent::Ready { trial, listen, .. } => {
                assert_eq!(trial, wanted);
                listen
            }
            other => panic!("{other:?} instead of `ready`"),
        }
    }

    /// Waits for the next message, which must be a failure.
    pub fn receive_failure(&self) -> (ProblemKind, Vec<Text>, Text) {
        match self.receive() {
            FromAgent::Failed { problem, .. } => (problem.kind, problem.reasons(), problem.hint),
            other => panic!("{other:?} instead of a failure"),
        }
    }

    /// Waits for the end of the agent's output and of its process; returns what it wrote to
    /// standard error.
    pub fn wait(mut self) -> (ExitStatus, String) {
        while self
            .messages
            .recv_timeout(ANSWER_TIMEOUT)
            .expect("the end of output in time")
            .is_some()
        {}
        let status = self.child.wait().expect("it is our child");
        let errors = self.errors.take().map(|thread| thread.join());
        (status, errors.expect("taken once").expect("no panic"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn hello() -> ToAgent {
    hello_of(false)
}

/// Returns a greeting; with `fork` a child process serves until the next one.
pub fn hello_of(fork: bool) -> ToAgent {
    ToAgent::Hello {
        protocol: PROTOCOL_VERSION,
        run_id: "test".to_owned(),
        host: "a".to_owned(),
        fork,
    }
}

/// Makes a certificate and its key.
pub fn tls() -> TlsMaterial {
    let name = "regatta.test".to_owned();
    let certified = rcgen::generate_simple_self_signed(vec![name.clone()]).expect("a certificate");
    TlsMaterial {
        certificate_der_base64: STANDARD.encode(certified.cert.der()),
        key_der_base64: Some(STANDARD.encode(certified.signing_key.serialize_der())),
        server_name: name,
    }
}

/// Makes an order over loopback. The sender gets no key.
pub fn order(trial: u32, role: Role, driver: &str, tls: &TlsMaterial) -> TrialOrder {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut tls = tls.clone();
    if role == Role::Sender {
        tls.key_der_base64 = None;
    }
    let mut options = BTreeMap::new();
    if driver == "external" {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../external/example/driver");
        options.insert("program".to_owned(), OptionValue::Text(example.to_owned()));
    }
    TrialOrder {
        trial,
        role,
        transport: Transport {
            label: driver.to_owned(),
            driver: driver.to_owned(),
            options,
        },
        workload: Workload {
            name: "bulk".to_owned(),
            kind: WorkloadKind::Bulk {
                amount: Bytes(1_000_000).into(),
                message: Bytes(1_000),
                pattern: Pattern::Data,
                options: regatta_model::BulkOptions::default(),
            },
            probe: Probe::default(),
            transports: Vec::new(),
            conditions: Vec::new(),
            competition: None,
        },
        token: format!("{trial:032x}"),
        seed: 7,
        // A thousand messages one after another take 20 ms each on a machine with a load of 20.
        deadline: Duration::from_secs(100),
        connect_deadline: Duration::from_secs(10),
        sample_interval: Duration::from_millis(100),
        local,
        peer: local,
        ports: None,
        path: PathHints {
            round_trip_delay: Duration::from_millis(1),
            longest_one_way: Duration::from_millis(50),
            typical_one_way: Duration::from_millis(50),
            link_rate_bps: Some(1_000_000_000),
            window_bytes: Some(6_000_000),
            mtu_bytes: 1500,
            clock_offset_ns: Some(0),
            keeps_order: true,
            is_real_network: false,
            treats_alike: true,
            tuning: regatta_model::Tuning::default(),
            keeps_tcp_limits: false,
        },
        cpus: None,
        reports_start: false,
        beside_others: false,
        progress_interval: None,
        tls,
        files: None,
    }
}

pub fn with_option(mut order: TrialOrder, name: &str, value: OptionValue) -> TrialOrder {
    order.transport.options.insert(name.to_owned(), value);
    order
}

/// Two agents and their messages, in one channel.
pub struct Pair {
    pub receiver: Agent,
    pub sender: Agent,
    tx: Sender<(Role, Message)>,
    messages: Receiver<(Role, Message)>,
}

/// Starts and greets an agent whose messages go to `tx`, shared by both ends.
fn start(role: Role, tx: &Sender<(Role, Message)>) -> Agent {
    let (_, unused) = channel();
    let mut agent = Agent::start_on_channel(tx.clone(), move |message| (role, message), unused);
    agent.send(&hello());
    agent
}

/// Result of one end of a trial: its report, or the kind, causes and hint of its failure.
pub type End = Result<SideReport, (ProblemKind, Vec<Text>, Text)>;

impl Pair {
    pub fn greeted() -> Self {
        let (tx, rx) = channel();
        let pair = Self {
            receiver: start(Role::Receiver, &tx),
            sender: start(Role::Sender, &tx),
            tx,
            messages: rx,
        };
        for _ in 0..2 {
            pair.receive_hello();
        }
        pair
    }

    fn receive_hello(&self) {
        let (_, message) = self.receive();
        assert!(
            matches!(message, Some(FromAgent::Hello { .. })),
            "{message:?}"
        );
    }

    /// Kills the agent at one end.
    pub fn kill(&mut self, role: Role) {
        let child = &mut self.side(role).child;
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
        // Messages from before the kill, and the end of the output.
        while self.receive() != (role, None) {}
    }

    /// Starts a new agent at one end.
    pub fn replace(&mut self, role: Role) {
        let agent = start(role, &self.tx);
        *self.side(role) = agent;
        self.receive_hello();
    }

    fn receive(&self) -> (Role, Message) {
        self.messages
            .recv_timeout(ANSWER_TIMEOUT)
            .expect("an answer in time")
    }

    fn side(&mut self, role: Role) -> &mut Agent {
        match role {
            Role::Sender => &mut self.sender,
            Role::Receiver => &mut self.receiver,
        }
    }

    fn ready(&mut self, order: TrialOrder) -> Option<SocketAddr> {
        let role = order.role;
        self.side(role).send(&ToAgent::Prepare {
            order: Box::new(order),
        });
        match self.receive() {
            (from, Some(FromAgent::Ready { listen, .. })) if from == role => listen,
            other => panic!("{other:?} instead of `ready`"),
        }
    }

    /// Gets both ends ready and starts the sender.
    pub fn start(&mut self, receiver: TrialOrder, sender: TrialOrder) {
        let trial = sender.trial;
        let peer = self.ready(receiver).expect("a receiver listens");
        assert_eq!(self.ready(sender), None, "a sender does not listen");
        self.sender.send(&ToAgent::Start { trial, peer });
    }

    /// Passes notes on until the ends named have ended.
    pub fn finish(&mut self, mut waiting: Vec<Role>) -> BTreeMap<&'static str, End> {
        let mut ended = BTreeMap::new();
        while !waiting.is_empty() {
            let (role, message) = self.receive();
            let end = match message {
                Some(FromAgent::Note { trial, note }) => {
                    let other = match role {
                        Role::Sender => Role::Receiver,
                        Role::Receiver => Role::Sender,
                    };
                    self.side(other).send(&ToAgent::Note { trial, note });
                    continue;
                }
                Some(FromAgent::Finished { report, .. }) => Ok(*report),
                Some(FromAgent::Failed { problem, .. }) => {
                    Err((problem.kind, problem.reasons(), problem.hint))
                }
                other => panic!("{other:?} from the {}", role.name()),
            };
            waiting.retain(|&waiting| waiting != role);
            ended.insert(role.name(), end);
        }
        ended
    }

    /// Aborts a trial at one end and waits for the answer. Skips notes, and the result of a trial that has
    /// ended just before.
    pub fn abort(&mut self, role: Role, trial: u32) {
        self.side(role).send(&ToAgent::Abort { trial });
        loop {
            match self.receive() {
                (from, Some(FromAgent::Aborted { trial: aborted })) if from == role => {
                    assert_eq!(aborted, trial);
                    return;
                }
                (from, None) if from == role => panic!("the {} died", role.name()),
                _ => {}
            }
        }
    }

    /// Runs one trial to its end.
    pub fn run_trial(
        &mut self,
        receiver: TrialOrder,
        sender: TrialOrder,
    ) -> BTreeMap<&'static str, End> {
        self.start(receiver, sender);
        self.finish(vec![Role::Sender, Role::Receiver])
    }
}

/// Waits until a condition holds; panics if it does not.
pub fn eventually(condition: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < ANSWER_TIMEOUT,
            "not within {ANSWER_TIMEOUT:?}: {condition}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
