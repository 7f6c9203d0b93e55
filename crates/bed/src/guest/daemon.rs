//! Daemon that owns a guest: namespaces, mounts, the kernel, and the guest's messages.
//!
//! It is two processes. The first makes the namespaces and waits; the second is the first process
//! of the new process namespace, so that the system ends everything in it together with it. It
//! starts the kernel and forwards the guest's messages.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::process::{CommandExt, ExitStatusExt},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use nix::{
    errno::Errno,
    sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, unshare},
    sys::{
        inotify::{AddWatchFlags, InitFlags, Inotify},
        signal::{Signal, kill},
    },
    unistd::{ForkResult, Pid, fork},
};
use parking_lot::Mutex;
use regatta_model::{Clock, Problem, ProblemKind, Text, reason};
use regatta_path_daemon::{DaemonError, enter_user_namespace};
use regatta_process::{die_with_parent, out_of_memory_kills, problem, wait_and_reap, write_line};

use super::{
    INIT_COMMAND,
    guest_side::{EXCHANGE, MESSAGES, exchange},
    mounts,
    order::{GuestMessage, Instructions, Order, PROTOCOL_VERSION},
};
use crate::exit::Exit;

/// Lines of the console that explain an end.
const LAST_LINES: usize = 8;

/// Maximum length of an order, in bytes.
const LONGEST_ORDER: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
enum GuestDaemonError {
    #[error("cannot make a guest")]
    Namespaces(#[source] DaemonError),
    #[error("cannot make the guest's {what} namespace")]
    Namespace {
        what: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Mounts(#[from] mounts::MountError),
    #[error("cannot understand the order for a guest")]
    Order(#[source] io::Error),
    #[error("the order is of version {theirs}, this is version {PROTOCOL_VERSION}")]
    Version { theirs: u32 },
    #[error("cannot start the guest's kernel `{kernel}`")]
    Kernel { kernel: String, source: io::Error },
    #[error("cannot listen to the guest")]
    Listen(#[source] io::Error),
}

impl GuestDaemonError {
    /// Returns the kind: unsupported if the cause is that this machine lacks something.
    const fn kind(&self) -> ProblemKind {
        match self {
            Self::Namespaces(_)
            | Self::Namespace { .. }
            | Self::Mounts(_)
            | Self::Kernel { .. } => ProblemKind::Unsupported,
            _ => ProblemKind::Failed,
        }
    }

    fn hint(&self) -> Text {
        match self {
            Self::Namespaces(error) => error.hint(),
            Self::Mounts(error) if error.source.raw_os_error() == Some(libc::ENOSYS) => {
                "use Linux 5.12 or newer".into()
            }
            Self::Namespace { .. } | Self::Mounts(_) => {
                "run as root, or in a container start it with `--cap-add SYS_ADMIN`".into()
            }
            _ => Text::default(),
        }
    }
}

/// Maximum number of guests on one processor.
const CLAIMS: u32 = 64;

/// Keeps one guest until the guest or standard input ends. The body of `regatta guest-daemon`; the
/// process must have no other thread yet.
#[must_use]
pub fn main() -> ExitCode {
    regatta_process::set_name(c"regatta");
    match run_guest() {
        Ok(code) => code,
        Err(error) => {
            fail(&error);
            ExitCode::FAILURE
        }
    }
}

fn fail(error: &GuestDaemonError) {
    forward(&GuestMessage::Failed(problem(
        error.kind(),
        error,
        error.hint(),
    )));
}

/// Writes `message` to the controller; if the controller has ended, this process is about to end
/// anyway.
fn forward(message: &GuestMessage) {
    let _ = write_line(&mut io::stdout().lock(), message);
}

fn run_guest() -> Result<ExitCode, GuestDaemonError> {
    let Instructions { order, wires, .. } = read_instructions()?;
    // Before this process leaves the network namespace in which the claims are: a superuser leaves it by the next line.
    let _claim = (order.clock == Clock::Virtual).then(claim_processor);
    enter_user_namespace().map_err(GuestDaemonError::Namespaces)?;
    let _ = die_with_parent();
    for (what, flag) in [
        ("network", CloneFlags::CLONE_NEWNET),
        ("mount", CloneFlags::CLONE_NEWNS),
        ("message", CloneFlags::CLONE_NEWIPC),
        ("process", CloneFlags::CLONE_NEWPID),
    ] {
        unshare(flag).map_err(|e| GuestDaemonError::Namespace {
            what,
            source: e.into(),
        })?;
    }
    // SAFETY: this process has one thread, so the child may do whatever this one might.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => {
            let ended = wait_and_reap(child.as_raw().cast_unsigned());
            Ok(match ended.is_ok_and(|status| status.success()) {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            })
        }
        Ok(ForkResult::Child) => {
            // Whoever missed the parent's end meanwhile sees the end of standard input.
            let _ = die_with_parent();
            // Not by returning: the threads need not end first.
            std::process::exit(match run(&order, &wires) {
                Ok(()) => 0,
                Err(error) => {
                    fail(&error);
                    1
                }
            })
        }
        Err(error) => Err(GuestDaemonError::Namespace {
            what: "process",
            source: error.into(),
        }),
    }
}

/// Keeps this process, and those that it starts, on the processor that the fewest other guests have claimed, and
/// returns the claim, which lasts until it is dropped and this process has ended. A guest with a virtual clock
/// computes in one process at a time, its kernel or a program in it, and needs up to twice the time where they are on
/// two processors. With `CLAIMS` guests on each processor, nothing is changed.
fn claim_processor() -> Option<UnixDatagram> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    for guest in 0..CLAIMS {
        let processors = (0..CpuSet::count()).rev();
        for processor in processors.filter(|&n| allowed.is_set(n).unwrap_or(false)) {
            // An abstract address is bound by one socket at a time and needs no file.
            let name = format!("regatta-guest-processor-{processor}-{guest}");
            let claim =
                SocketAddr::from_abstract_name(name).and_then(|a| UnixDatagram::bind_addr(&a));
            if let Ok(claim) = claim {
                let mut only = CpuSet::new();
                only.set(processor).ok()?;
                sched_setaffinity(Pid::from_raw(0), &only).ok()?;
                return Some(claim);
            }
        }
    }
    None
}

fn read_instructions() -> Result<Instructions, GuestDaemonError> {
    let mut line = Vec::new();
    // Nothing comes after it but the end of the input, for which the second process waits.
    let mut input = io::stdin().lock().take(LONGEST_ORDER);
    let read = input.read_until(b'\n', &mut line);
    read.map_err(GuestDaemonError::Order)?;
    let instructions: Instructions =
        serde_json::from_slice(&line).map_err(|e| GuestDaemonError::Order(e.into()))?;
    if instructions.protocol != PROTOCOL_VERSION {
        return Err(GuestDaemonError::Version {
            theirs: instructions.protocol,
        });
    }
    Ok(instructions)
}

/// Watches the exchange for messages, and for changes of its other files.
fn watch() -> nix::Result<Inotify> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC)?;
    watch.add_watch(&exchange(MESSAGES), AddWatchFlags::IN_MOVED_TO)?;
    let changes = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE;
    watch.add_watch(EXCHANGE, changes)?;
    Ok(watch)
}

/// Runs the guest, as the first process of the process namespace.
fn run(order: &Order, wires: &[i32]) -> Result<(), GuestDaemonError> {
    mounts::make(order)?;
    let watch = watch().map_err(|error| GuestDaemonError::Listen(error.into()))?;
    fn thread(
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, GuestDaemonError> {
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(work).map_err(GuestDaemonError::Listen)
    }
    thread("controller", || {
        // A guest gets no further messages: only the end of input counts.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    })?;
    let exchange = Arc::new(Mutex::new(Exchange::default()));
    let listening = Arc::clone(&exchange);
    thread("exchange", move || {
        while watch.read_events().is_ok() {
            listening.lock().forward();
        }
    })?;
    let kills_before = out_of_memory_kills();
    let mut kernel = start(order, wires)?;
    let console = kernel.stdout.take();
    let (console_lines, last_lines) = mpsc::channel();
    let console = thread("console", move || {
        if let Some(console) = console {
            read_console(BufReader::new(console), &console_lines);
        }
    })?;

    let status = wait_and_reap(kernel.id()).ok();
    // Stubs of the kernel's may be left, and hold its console open.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    // It has ended, and its console with it.
    let _ = console.join();
    exchange.lock().forward();
    let console: Vec<String> = last_lines.try_iter().collect();
    forward(&verdict(status, kills_before, &console));
    Ok(())
}

/// Returns the message to the controller about the guest's end. `kills_before` is that of [`Exit::new`].
fn verdict(status: Option<ExitStatus>, kills_before: u64, console: &[String]) -> GuestMessage {
    let code = fs::read_to_string(exchange("status")).ok();
    if let Some(code) = code.and_then(|text| text.trim().parse().ok()) {
        return GuestMessage::Ended { code };
    }
    let mut reasons = vec![match fs::read_to_string(exchange("failed")) {
        Ok(reason) => reason::guest_not_ready(reason.trim()),
        Err(_) => reason::guest_ended_early(),
    }];
    // A kernel that does not work here ends by itself.
    let was_killed = status
        .and_then(|status| status.signal())
        .is_some_and(|signal| matches!(signal, libc::SIGKILL | libc::SIGINT));
    let exit = status.map(|status| Exit::new(status, kills_before));
    let kind = match &exit {
        Some(exit) if exit.is_from_outside() => ProblemKind::Disturbed,
        _ if was_killed => ProblemKind::Failed,
        _ => ProblemKind::Unsupported,
    };
    if let Some(exit) = exit {
        reasons.push(reason::kernel_ended_with(exit.text()));
    }
    let from = console.len().saturating_sub(LAST_LINES);
    if !console.is_empty() {
        reasons.push(reason::console_lines(&console[from..].join(" / ")));
    }
    GuestMessage::Failed(Problem::new(kind, reasons, ""))
}

fn read_console(console: impl BufRead, console_lines: &mpsc::Sender<String>) {
    for line in console.split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !line.is_empty() {
            let _ = console_lines.send(line.clone());
            forward(&GuestMessage::Console { line });
        }
    }
}

/// Starts the kernel, with its console on a pipe.
fn start(order: &Order, wires: &[i32]) -> Result<Child, GuestDaemonError> {
    let mut command = Command::new(&order.kernel);
    command
        .arg(format!("mem={}M", order.memory_mib))
        .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"])
        .args(["quiet", "con=null", "con0=null,fd:1", "ssl=null"])
        .args(["noreboot", "panic=-1", "umid=regatta"])
        .arg(format!("uml_dir={}/", mounts::KERNEL_DIRECTORY))
        .current_dir("/")
        .env("TMPDIR", mounts::KERNEL_DIRECTORY)
        .env("HOME", mounts::KERNEL_DIRECTORY)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for (index, wire) in wires.iter().enumerate() {
        command.arg(format!("vec{index}:transport=fd,fd={wire}"));
    }
    if order.clock == Clock::Virtual {
        // The kernel mixes its wall clock into its random numbers before anything can be set in it,
        // so that it must be the same each time; the guest's first process sets the date.
        command.args(["time-travel=inf-cpu", "time-travel-start=1000000000"]);
        // SAFETY: between fork and exec this makes two system calls and allocates nothing.
        unsafe { command.pre_exec(without_random_numbers) };
    } else {
        // Debian's kernel measures for a second of processor time which code for RAID 6 is the fastest here.
        command.arg("initcall_blacklist=raid6_select_algo");
    }
    if !PTRACE.is_empty() {
        let library = Path::new(mounts::KERNEL_DIRECTORY).join("ptrace.so");
        fs::write(&library, PTRACE).map_err(GuestDaemonError::Listen)?;
        command.env("LD_PRELOAD", library);
    }
    command
        .arg(format!("init={}", mounts::PROGRAM))
        .args(["--", INIT_COMMAND])
        .spawn()
        .map_err(|source| GuestDaemonError::Kernel {
            kernel: order.kernel.display().to_string(),
            source,
        })
}

/// Library that is preloaded into the kernel; see its source. Empty on other architectures than that
/// for which it is written.
static PTRACE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ptrace.so"));

/// Makes `getrandom` fail in the program that this process becomes. The guest's kernel mixes the
/// host's random numbers into its own wherever it gets them, and then no two runs are alike;
/// without them it has only those with which its first process seeds it.
fn without_random_numbers() -> io::Result<()> {
    // Classic BPF: load the call's number; `getrandom` has no such system call as its answer, all
    // others pass. The number is this architecture's, and the kernel is a program of the same.
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let is_it = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(is_it, 1, libc::SYS_getrandom as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, refused),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    nix::sys::prctl::set_no_new_privs()?;
    let (option, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
    // SAFETY: the program outlives the call.
    let set = unsafe { libc::prctl(option, mode, &raw const program) };
    Ok(Errno::result(set).map(drop)?)
}

/// State of reading the exchange.
#[derive(Default)]
struct Exchange {
    up: bool,
    /// Content of the heartbeat file when it was last forwarded.
    heartbeat: String,
    /// Bytes of the program's output that were forwarded.
    output: u64,
    /// Beginning of a line of output whose end has not been read.
    rest: Vec<u8>,
}

impl Exchange {
    /// Forwards new messages, heartbeats and lines of output.
    fn forward(&mut self) {
        if !self.up
            && let Ok(release) = fs::read_to_string(exchange("up"))
            && release.ends_with('\n')
        {
            self.up = true;
            forward(&GuestMessage::Started {
                release: release.trim_end().to_owned(),
            });
        }
        if let Ok(heartbeat) = fs::read_to_string(exchange("beat"))
            && heartbeat != self.heartbeat
        {
            self.heartbeat = heartbeat;
            forward(&GuestMessage::Heartbeat);
        }
        self.messages();
        self.output();
    }

    fn messages(&mut self) {
        let Ok(entries) = fs::read_dir(exchange(MESSAGES)) else {
            return;
        };
        let finished: BTreeSet<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_none())
            .collect();
        for path in finished {
            if let Ok(text) = fs::read_to_string(&path) {
                forward(&GuestMessage::Message { text });
            }
            let _ = fs::remove_file(path);
        }
    }

    fn output(&mut self) {
        let Ok(mut file) = File::open(exchange("output")) else {
            return;
        };
        let mut new = Vec::new();
        if file.seek(SeekFrom::Start(self.output)).is_err() || file.read_to_end(&mut new).is_err() {
            return;
        }
        self.output += new.len() as u64;
        self.rest.extend(new);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            forward(&GuestMessage::Output {
                line: String::from_utf8_lossy(&line[..end]).into_owned(),
            });
        }
    }
}
