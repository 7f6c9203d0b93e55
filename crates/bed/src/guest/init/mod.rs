//! First process in a guest: prepares the guest, runs the program and halts the guest.

mod modules;

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sys::{
        reboot::{RebootMode, reboot},
        resource::{Resource, setrlimit},
        time::TimeSpec,
    },
    time::{ClockId, clock_settime},
    unistd::Pid,
};
use regatta_model::Clock;
use regatta_process::wait_and_reap;

use super::{
    guest_side::{exchange, seed_random_numbers},
    mounts,
    order::{GuestMessage, Order},
};
use regatta_path_daemon::{kernel_release, loopback_up};

/// Open files that a program may have; the kernel's default is 1024.
const OPEN_FILES: u64 = 65_536;

/// Size of the pages in which the kernel counts memory of sockets.
const PAGE_BYTES: u64 = 4096;

/// Errors of preparing a guest for its program.
#[derive(Debug, thiserror::Error)]
pub(super) enum InitError {
    #[error("cannot mount `{target}`: {source}")]
    Mount {
        target: &'static str,
        source: io::Error,
    },
    #[error("cannot read the order: {0}")]
    Order(io::Error),
    #[error("cannot seed the random numbers: {0}")]
    Seed(io::Error),
    #[error("cannot set the clock: {0}")]
    Clock(nix::Error),
    #[error("cannot set the scheduling policy: {0}")]
    Scheduler(io::Error),
    #[error("cannot load the module `{}`: {source}", path.display())]
    Module { path: PathBuf, source: io::Error },
    #[error("cannot switch the loopback interface on: {0}")]
    Loopback(io::Error),
    #[error("cannot start the program: {0}")]
    Program(io::Error),
    #[error("cannot tell how the program ended: {0}")]
    Status(io::Error),
}

/// Prepares the guest, runs the program of the order and ends the guest. The body of
/// `regatta guest-init`, the first process of a guest's kernel. Outside of a guest it does nothing.
#[must_use]
pub fn main() -> ExitCode {
    // Switching off what this is started on by mistake would be rude.
    if nix::unistd::getpid() != Pid::from_raw(1) || !exchange("order").exists() {
        eprintln!("error: this is not a guest's first process");
        return ExitCode::FAILURE;
    }
    if let Err(error) = serve() {
        // On the console and in the exchange, since either may not work.
        println!("regatta: {error}");
        let _ = fs::write(exchange("failed"), error.to_string());
    }
    // It does not return.
    let _ = reboot(RebootMode::RB_POWER_OFF);
    ExitCode::FAILURE
}

fn serve() -> Result<(), InitError> {
    mount_all()?;
    let order = fs::read(exchange("order")).map_err(InitError::Order)?;
    let order: Order = serde_json::from_slice(&order).map_err(|e| InitError::Order(e.into()))?;
    if order.clock == Clock::Virtual {
        seed_random_numbers(order.seed).map_err(InitError::Seed)?;
        set_clock().map_err(InitError::Clock)?;
        order_processes().map_err(InitError::Scheduler)?;
    }
    modules::load_all()?;
    switches();
    loopback_up().map_err(InitError::Loopback)?;
    // Below what is asked for a program may still have enough.
    let _ = setrlimit(Resource::RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES);
    fs::write(exchange("up"), kernel_release() + "\n").map_err(InitError::Status)?;
    if order.clock == Clock::Real {
        let thread = thread::Builder::new().name("heartbeat".into());
        thread.spawn(heartbeat).map_err(InitError::Program)?;
    }

    let code = run(&order).map_err(InitError::Program)?;
    fs::write(exchange("status"), code.to_string()).map_err(InitError::Status)
}

/// Increments the number in the exchange's file `beat` every [`GuestMessage::HEARTBEAT`].
fn heartbeat() {
    for count in 0u64.. {
        // A host that does not see it ends this guest.
        let _ = fs::write(exchange("beat"), count.to_string());
        thread::sleep(GuestMessage::HEARTBEAT);
    }
}

/// Mounts the file systems that programs expect beside the host's files.
fn mount_all() -> Result<(), InitError> {
    let mounted = |kind: &str, target: &'static str, data: Option<&str>| {
        let mounted = mount(Some(kind), target, Some(kind), MsFlags::empty(), data);
        mounted.map_err(|error| InitError::Mount {
            target,
            source: error.into(),
        })
    };
    // The guest's own view of the host's files is read-only as well; this one is not.
    mounted("hostfs", "/run", Some("/run"))?;
    let mount_at = |kind, target| mounted(kind, target, None);
    mount_at("proc", "/proc")?;
    mount_at("sysfs", "/sys")?;
    // The kernel may have mounted it already; without it there are the host's nodes, which mean
    // this kernel's devices.
    let _ = mount_at("devtmpfs", "/dev");
    for directory in ["/dev/pts", "/dev/shm"] {
        let _ = fs::create_dir(directory);
    }
    let _ = mount_at("devpts", "/dev/pts");
    mount_at("tmpfs", "/dev/shm")?;
    mount_at("tmpfs", "/run/netns")?;
    mount_at("tmpfs", "/run/lock")?;
    mount_at("tmpfs", "/run/tmp")
}

/// Sets the wall clock of virtual time to its start, 1 January 2026: transports look at the dates
/// of certificates, and two runs must have the same time. The kernel's own switch,
/// `time-travel-start`, takes nanoseconds where its help says seconds: with a date in seconds the
/// clock starts in 1970, when the certificates of external programs are not valid yet.
fn set_clock() -> nix::Result<()> {
    const START_S: i64 = 1_767_225_600;
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::new(START_S, 0))
}

/// Has this process, and all that it starts, run in the order in which they become ready. The usual scheduler goes by the
/// processor time of each, which with a virtual clock is what is left of rounding: two trials that are the same would run
/// their threads in another order.
fn order_processes() -> io::Result<()> {
    // No pauses of such processes, and no work in the background at intervals, for each of which the guest would wake.
    for (name, value) in [
        ("kernel/sched_rt_runtime_us", "-1"),
        ("vm/stat_interval", "1000000"),
    ] {
        // A kernel that lacks one wakes more often.
        let _ = fs::write(Path::new("/proc/sys").join(name), value);
    }
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure is the one that the call takes.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Raises the limits of socket buffers that only the first network namespace of a kernel has: SCTP
/// at 30 ms and 100 Mbit/s reaches 14 Mbit/s with the defaults, and 90 Mbit/s with these.
fn switches() {
    const ROOM_BYTES: &str = "134217728";
    for name in ["rmem_max", "wmem_max"] {
        // A kernel that lacks one leaves its default; the trial then reports its limit.
        let _ = fs::write(Path::new("/proc/sys/net/core").join(name), ROOM_BYTES);
    }
    for name in ["sctp_rmem", "sctp_wmem"] {
        let triple = format!("4096 4194304 {ROOM_BYTES}");
        let _ = fs::write(Path::new("/proc/sys/net/sctp").join(name), triple);
    }
    // What all sockets of a protocol may have together. By itself the kernel closes windows from a
    // sixteenth of its memory on, which one connection over 300 ms at 1 Gbit/s has in flight.
    let pages = nix::sys::sysinfo::sysinfo().map_or(0, |info| info.ram_total() / PAGE_BYTES);
    let triple = format!("{} {} {}", pages / 2, pages / 4 * 3, pages / 4 * 3);
    for name in ["ipv4/tcp_mem", "ipv4/udp_mem"] {
        let _ = fs::write(Path::new("/proc/sys/net").join(name), &triple);
    }
}

/// Runs the program and reaps orphaned processes. Returns the program's exit code.
fn run(order: &Order) -> io::Result<i32> {
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .open(exchange("output"))?;
    let mut command = Command::new(mounts::PROGRAM);
    command
        .args(&order.arguments)
        .env("TMPDIR", "/run/tmp")
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(File::open("/dev/null")?))
        .stdout(Stdio::from(output.try_clone()?))
        .stderr(Stdio::from(output));
    if let Some((_, directory)) = order.environment.iter().find(|(name, _)| name == "PWD")
        && Path::new(directory).is_dir()
    {
        command.current_dir(directory);
    }
    let status = wait_and_reap(command.spawn()?.id())?;
    let by_signal = || 128 + status.signal().unwrap_or_default();
    Ok(status.code().unwrap_or_else(by_signal))
}
