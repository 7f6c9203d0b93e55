//! The agent with the real drivers and a few that misbehave, for this crate's tests. With the arguments `served` and limits
//! it works for a client of a server.
//!
//! | driver | its session |
//! |---|---|
//! | `test-work` | uses `cpu_ms` of CPU in each of two threads within the window, and reports |
//! | `test-stuck` | ignores the abort |
//! | `test-waiting` | does nothing until it is aborted, and then takes `linger_ms` to end |
//! | `test-panic` | panics, in `prepare` if `early` |
//! | `test-unsupported` | is not supported here |
//! | `test-child` | starts a shell that starts a sleep, reports their process identifiers, and waits |

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use regatta_control::{Note, SideReport, TrialOrder};
use regatta_model::{HostFacts, OptionValue, reason};
use regatta_telemetry::process;
use regatta_transport::{
    Carries, ClientSession, Driver, DriverDescriptor, MonotonicTime, OptionDefinition, OptionKind,
    ServerSession, TransportError, TrialContext, Unsupported, WindowEdge,
};

const NUMBER: OptionKind = OptionKind::Number {
    least: 0,
    most: 60_000,
};

const fn option(name: &'static str, kind: OptionKind) -> OptionDefinition {
    OptionDefinition {
        name,
        kind,
        default: "",
        help: "for tests",
    }
}

const fn descriptor(name: &'static str, options: &'static [OptionDefinition]) -> DriverDescriptor {
    DriverDescriptor {
        name,
        title: name,
        summary: "misbehaves",
        ip_protocol: None,
        carries: Carries::Streams,
        reliable: true,
        encrypted: false,
        multiplexes: false,
        congestion_control_choosable: false,
        capabilities: &[],
        stack: "test stack",
        stack_version: "1.2.3",
        options,
        metrics: &[],
    }
}

/// Behaviour of a test driver's session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Work,
    Stuck,
    Waiting,
    Panic,
    Unsupported,
    Child,
}

struct TestDriver {
    descriptor: DriverDescriptor,
    kind: Kind,
}

static DRIVERS: [TestDriver; 6] = [
    TestDriver {
        descriptor: descriptor("test-work", &[option("cpu_ms", NUMBER)]),
        kind: Kind::Work,
    },
    TestDriver {
        descriptor: descriptor("test-stuck", &[]),
        kind: Kind::Stuck,
    },
    TestDriver {
        descriptor: descriptor("test-waiting", &[option("linger_ms", NUMBER)]),
        kind: Kind::Waiting,
    },
    TestDriver {
        descriptor: descriptor("test-panic", &[option("early", OptionKind::Flag)]),
        kind: Kind::Panic,
    },
    TestDriver {
        descriptor: descriptor("test-unsupported", &[]),
        kind: Kind::Unsupported,
    },
    TestDriver {
        descriptor: descriptor("test-child", &[]),
        kind: Kind::Child,
    },
];

impl Driver for TestDriver {
    fn descriptor(&self) -> &'static DriverDescriptor {
        // Only the statics above exist.
        DRIVERS
            .iter()
            .find(|driver| driver.kind == self.kind)
            .map_or(&DRIVERS[0].descriptor, |driver| &driver.descriptor)
    }

    fn supported(&self, _: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        if self.kind == Kind::Unsupported {
            return Err(Unsupported {
                reason: "the kernel has no `test`".into(),
                hint: "modprobe test".into(),
            });
        }
        Ok(())
    }

    fn client(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ClientSession>, TransportError> {
        Ok(Box::new(self.test_session(order, context)))
    }

    fn server(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ServerSession>, TransportError> {
        Ok(Box::new(self.test_session(order, context)))
    }
}

impl TestDriver {
    fn test_session(&self, order: &TrialOrder, context: TrialContext) -> TestSession {
        let options = &order.transport.options;
        let number = |name: &str| match options.get(name) {
            Some(OptionValue::Number(number)) => u64::try_from(*number).unwrap_or_default(),
            _ => 0,
        };
        if self.kind == Kind::Panic && options.contains_key("early") {
            panic!("it panicked early");
        }
        TestSession {
            kind: self.kind,
            cpu: Duration::from_millis(number("cpu_ms")),
            linger: Duration::from_millis(number("linger_ms")),
            context,
        }
    }
}

struct TestSession {
    kind: Kind,
    cpu: Duration,
    linger: Duration,
    context: TrialContext,
}

fn thread_cpu() -> Duration {
    Duration::from_nanos(process::thread_cpu_ns().unsigned_abs())
}

fn use_cpu(time: Duration) {
    let start = thread_cpu();
    while thread_cpu() - start < time {
        std::hint::spin_loop();
    }
}

impl ClientSession for TestSession {
    fn run(self: Box<Self>, _: SocketAddr) -> Result<SideReport, TransportError> {
        self.work()
    }
}

impl ServerSession for TestSession {
    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 9))
    }

    fn run(self: Box<Self>) -> Result<SideReport, TransportError> {
        self.work()
    }
}

impl TestSession {
    fn work(&self) -> Result<SideReport, TransportError> {
        match self.kind {
            Kind::Work => {
                // Neither this work nor that after the window may be charged.
                use_cpu(Duration::from_millis(100));
                let started = MonotonicTime::now();
                self.context.observer.on_window(WindowEdge::Start);
                std::thread::scope(|scope| {
                    scope.spawn(|| use_cpu(self.cpu));
                    use_cpu(self.cpu);
                });
                let ended = MonotonicTime::now();
                self.context.observer.on_window(WindowEdge::End);
                use_cpu(Duration::from_millis(100));
                Ok(SideReport {
                    started_monotonic_ns: started.0,
                    ended_monotonic_ns: ended.0,
                    ..SideReport::default()
                })
            }
            Kind::Stuck => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            Kind::Waiting => {
                self.context.stop.wait_until(MonotonicTime::NEVER);
                std::thread::sleep(self.linger);
                Err(TransportError::Cancelled)
            }
            Kind::Panic => panic!("it panicked"),
            Kind::Unsupported => Err(TransportError::Cancelled),
            Kind::Child => {
                let mut shell = Command::new("sh")
                    .args(["-c", "setsid sleep 1000 & echo $!; wait"])
                    .stdout(Stdio::piped())
                    .spawn()
                    .map_err(TransportError::io(reason::cannot_start("sh")))?;
                let mut line = String::new();
                if let Some(output) = shell.stdout.take() {
                    BufReader::new(output)
                        .read_line(&mut line)
                        .map_err(TransportError::io(reason::cannot_receive()))?;
                }
                self.context.observer.send_note(Note::Sent {
                    messages: u64::from(shell.id()),
                    bytes: line.trim().parse().unwrap_or_default(),
                    deadline_reached: false,
                });
                self.context.stop.wait_until(MonotonicTime::NEVER);
                Err(TransportError::Cancelled)
            }
        }
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let (Some("served"), Some(limits)) = (arguments.next().as_deref(), arguments.next()) {
        return regatta_agent::served_main(HostFacts::default(), &limits);
    }
    let mut drivers = regatta_agent::registry();
    drivers.extend(DRIVERS.iter().map(|driver| driver as &'static dyn Driver));
    regatta_agent::main_with(drivers, HostFacts::default())
}
