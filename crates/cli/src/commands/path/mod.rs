//! `regatta path`: runs a program on one host of an emulated path, and its server on the other.

mod ending;
mod json;
mod messages;
mod server;

use std::{
    ffi::OsString,
    io::{self, PipeReader},
    os::fd::AsFd,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::sys::{
    signal::Signal,
    signalfd::{SfdFlags, SignalFd},
};
use parking_lot::Mutex;
use regatta_bed::{
    Bed, Host, OnDaemonEnd, TestBed as _,
    capture::CaptureOrder,
    program::{Program, ProgramOrder},
};
use regatta_engine::unix_ns;
use regatta_model::{BedKind, Condition, Part, PathSetup, Study, study::StudyFile};
use regatta_process::readable;
use toml::Table;

use self::{ending::Foreground, json::SummaryFile, server::Server};
use super::{client::hints, run::new_id};
use crate::{
    args::PathCommandArgs,
    directory,
    exit::{Code, Failure, OrFailure as _, Result, no_bed, own_executable, refuse},
    interrupt, output,
    study::{
        self, ReadStudy,
        adhoc::{one, parse, table},
        head_options, path_options, tunings,
    },
};

/// Environment variable that names the user's shell.
const SHELL: &str = "SHELL";

/// Shell where that variable is not set.
const ANY_SHELL: &str = "/bin/sh";

/// `si_code` of a signal that the kernel itself sent, for example for a key of the terminal.
const FROM_KERNEL: i32 = 0x80;

/// Creates the path, runs the server and the command, and prints the path's counters; returns the
/// command's exit code.
///
/// # Errors
/// Errors that prevent the command from being started.
pub fn path(args: &PathCommandArgs) -> Result<Code> {
    let (condition, setup) = requested(args)?;
    let summary_file = args.json.as_deref().map(SummaryFile::new).transpose()?;
    let mut signals = Signals::new().context("cannot watch for signals")?;
    let foreground = Foreground::now();
    let executable = own_executable();
    let conditions = std::slice::from_ref(&condition);
    let mut bed =
        Bed::up(BedKind::Netns, setup, conditions, executable, &new_id()).map_err(|error| {
            let failure = no_bed(error).with_options(hints::of_path);
            failure.hint("`regatta doctor` shows what this machine lacks")
        })?;
    let seed = args.seed.unwrap_or_else(rand::random);
    signals.watch(&mut bed).context("cannot watch the path")?;
    bed.set_condition(&condition, seed)
        .context("cannot make the path")?;
    start_capture(
        args,
        &mut bed,
        format!("regatta path: {}, seed {seed}", condition.name),
    )?;
    let print_line = |text: &str| {
        if !args.quiet {
            output::err(text);
        }
    };
    print_line(&messages::beginning(&condition, &bed, seed));
    let started_unix_ns = unix_ns();

    let environment = addresses(&bed);
    let mut server = match &args.server {
        None => None,
        Some(command) => {
            let mut server = Server::start(&bed, command, environment.clone())?;
            match server.until_listening(&signals, args.wait, args.wait_port)? {
                server::Ready::Listens => {}
                server::Ready::NotYet => print_line(&format!(
                    "the server listens on no port {}after {}; the command starts all the same",
                    args.wait_port
                        .map_or(String::new(), |port| format!("{port} ")),
                    regatta_model::units::format_duration(args.wait)
                )),
                server::Ready::Stopped(signal) => return Ok(Code::Of(128 + signal as u8)),
            }
            Some(server)
        }
    };
    let (program, arguments) = command(&args.command);
    if args.command.is_empty() {
        print_line(&format!(
            "a shell on the client; `exit` ends the path (the server is at {})",
            bed.address(Host::Server)
        ));
    }
    let order = ProgramOrder {
        program,
        arguments,
        environment,
        streams: [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()],
        apart: false,
    };
    let mut program = bed.start_program(Host::Client, order)?;
    bed.begin()?;
    let ended = signals.until_ended(&mut program, server.as_mut());
    drop(program);
    foreground.restore();
    let counters = bed.counters();
    let status = match ended.context("cannot wait for the command")? {
        Some(status) => status,
        None => {
            counters.context("the path broke while the command ran")?;
            return Err(Failure::message("the path broke while the command ran"));
        }
    };
    drop(server);
    let captured = bed.end_capture();
    // The command may have had its answer all the same, but over no path any more.
    let counters = counters.context("the path broke while the command ran")?;
    let counters = Some(&counters).filter(|_| !bed.is_real());
    print_line(&messages::ending(&condition, counters));
    if let Some(file) = summary_file {
        let summary = json::PathSummary {
            condition: &condition,
            bed: &bed,
            seed,
            started_unix_ns,
            exit_code: code(status),
        };
        file.write(&summary.value(counters)?)?;
    }
    if let Some(file) = &args.capture {
        let summary = captured.context("the capture has no end")?;
        let shown = file.display().to_string();
        let (text, is_complete) = messages::capture(&shown, &summary.unwrap_or_default());
        if is_complete {
            print_line(&text);
        } else {
            output::err(&text);
        }
    }
    Ok(Code::Of(code(status)))
}

/// Starts the capture of the path, if one is wanted; its file has `title`.
fn start_capture(args: &PathCommandArgs, bed: &mut Bed, title: String) -> Result<()> {
    let Some(file) = &args.capture else {
        return Ok(());
    };
    let order = CaptureOrder {
        file: directory::absolute(file)?,
        snap_bytes: args.snap.snap_bytes,
        title,
    };
    bed.start_capture(order)
        .bad()
        .context("cannot capture the path")
}

/// Returns the environment variables with the addresses of both hosts.
fn addresses(bed: &Bed) -> Vec<(String, String)> {
    let hosts = [
        ("REGATTA_CLIENT", Host::Client),
        ("REGATTA_SERVER", Host::Server),
    ];
    hosts
        .map(|(name, host)| (name.to_owned(), bed.address(host).to_string()))
        .into()
}

/// Returns the condition that the arguments ask for, and the settings of its emulation.
///
/// # Errors
/// Mistakes in the options or the study.
pub fn requested(args: &PathCommandArgs) -> Result<(Condition, PathSetup)> {
    let study = match &args.study {
        Some(name) => with_options(args, &study::read(name)?)?,
        None => unnamed_study(args)?.study,
    };
    let mut conditions = study.conditions.into_iter();
    let condition = match &args.condition {
        Some(name) => conditions.find(|it| it.name == *name),
        None => conditions.next(),
    };
    let condition = condition
        .ok_or_else(|| Failure::input("the study has no condition", "name another one"))?;
    Ok((condition, study.path))
}

/// Returns the study with the options in the place of its keys, in the condition that is asked for.
fn with_options(args: &PathCommandArgs, read: &ReadStudy) -> Result<Study> {
    let before = &read.file.study;
    let names = || before.conditions.iter().map(|it| it.name.as_str());
    let first = names().next().unwrap_or_default();
    let chosen = args.condition.as_deref().unwrap_or(first);
    refuse! {
        !names().any(|name| name == chosen) => "the study `{}` has no condition `{chosen}`", before.name;
            "its conditions are: {}", names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    }
    path_options::check_emulation(&args.path, &before.path)?;
    let mut keys = head(args);
    let (of_conditions, _) = path_options::keys(&args.path)?;
    keys.insert("condition".to_owned(), of_conditions.into());
    let is_meant = |part: Part, name: &str| part == Part::Condition && name == chosen;
    read.with_options(&keys, &is_meant)
}

/// Returns the keys of a study itself that are given.
fn head(args: &PathCommandArgs) -> Table {
    let mut keys = head_options::emulation(&args.path);
    if args.capture.is_some() {
        keys.insert("capture".to_owned(), head_options::snap(args.snap).into());
    }
    keys
}

/// Makes a study of the path that the options describe, so that they have the same meaning as for
/// `regatta run`.
fn unnamed_study(args: &PathCommandArgs) -> Result<StudyFile> {
    refuse! {
        !tunings::several(&args.path).is_empty() => "`regatta path` makes one path, and `--tuning` names several tunings";
            "write one of them";
    }
    let transport = table([("driver", Some("tcp".into()))]);
    let workload = table([("size", Some("1B".into())), ("message", Some("1B".into()))]);
    let mut root = head(args);
    root.extend(table([
        ("name", Some("path".into())),
        ("transport", Some(one(transport))),
        ("condition", Some(one(path_options::condition(&args.path)?))),
        ("workload", Some(one(workload))),
    ]));
    Ok(parse(&root)?.0)
}

/// Returns the command, or the user's shell.
fn command(command: &[OsString]) -> (OsString, Vec<OsString>) {
    match command {
        [program, arguments @ ..] => (program.clone(), arguments.to_vec()),
        [] => {
            let own = std::env::var_os(SHELL).filter(|shell| !shell.is_empty());
            let shell = own.unwrap_or_else(|| ANY_SHELL.into());
            // On a terminal it is interactive by itself; else it reads commands, as with `ssh HOST`.
            (shell, Vec::new())
        }
    }
}

/// Returns the exit code of the process that runs the program, which is that of the program.
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        // A code has eight bits.
        (Some(code), _) => code.cast_unsigned() as u8,
        (None, signal) => 128 + signal.map_or(0, |signal| signal.cast_unsigned() as u8),
    }
}

/// Signals that are handled while a program runs, blocked until they are read; without those that
/// are ignored.
struct Signals {
    signals: SignalFd,
    /// Pipe that ends with a path daemon.
    path: Option<PipeReader>,
}

impl Signals {
    fn new() -> nix::Result<Self> {
        let mut set = interrupt::not_ignored(&[
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
            Signal::SIGHUP,
        ]);
        set.add(Signal::SIGCHLD);
        set.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&set, flags)?;
        Ok(Self {
            signals,
            path: None,
        })
    }

    /// Has the end of a path daemon end the waits.
    fn watch(&mut self, bed: &mut Bed) -> io::Result<()> {
        let (ends, path) = io::pipe()?;
        let path = Mutex::new(Some(path));
        bed.on_daemon_end(OnDaemonEnd::new(move || drop(path.lock().take())));
        self.path = Some(ends);
        Ok(())
    }

    /// Whether a path daemon has ended.
    fn path_has_ended(&self) -> io::Result<bool> {
        let path = self.path.as_ref().map(AsFd::as_fd);
        path.map_or(Ok(false), |path| readable(&[path], Some(Duration::ZERO)))
    }

    /// Waits for signals for at most `within`; returns the first that asks for an end, and whether
    /// it came from a key of the terminal, so that every process in its foreground has received it.
    fn wait(&self, within: Option<Duration>) -> io::Result<Option<(Signal, bool)>> {
        let path = self.path.as_ref().map(AsFd::as_fd);
        let files: Vec<_> = [self.signals.as_fd()].into_iter().chain(path).collect();
        readable(&files, within)?;
        while let Some(info) = self.signals.read_signal()? {
            let number = info.ssi_signo.cast_signed();
            match Signal::try_from(number)? {
                Signal::SIGCHLD => {}
                signal => return Ok(Some((signal, info.ssi_code == FROM_KERNEL))),
            }
        }
        Ok(None)
    }

    /// Waits for the program's end and passes signals on to it; warns if the server ends first. `None` if a path daemon has
    /// ended before.
    fn until_ended(
        &mut self,
        program: &mut Program,
        mut server: Option<&mut Server>,
    ) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = program.ended()? {
                return Ok(Some(status));
            }
            if self.path_has_ended()? {
                return Ok(None);
            }
            if let Some(server) = &mut server {
                server.warn_if_ended();
            }
            match self.wait(None)? {
                Some((Signal::SIGINT | Signal::SIGQUIT, true)) | None => {}
                Some((signal, _)) => program.signal(signal),
            }
        }
    }
}
