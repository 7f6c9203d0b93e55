//! `regatta client`: a measurement against a server, with the engine, the drivers and the workloads of `regatta run`.

mod connect;
pub mod events;
pub mod hints;
mod intervals;
mod study;

use std::{
    cell::RefCell,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    rc::Rc,
    time::Duration,
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use regatta_bed::{ServerBed, session::Session};
use regatta_engine::{
    Done, Ending, Event, Listener, ListenerError, Plan, ProgressListener, Run, RunOptions,
    TrialProgress, unix_ns,
};
use regatta_model::{
    Bytes, Direction, Outcome, Study, TrialRecord, shell::quoted, study::StudyFile,
};
use regatta_process::TemporaryDirectory;
use serde::Serialize;

use self::{
    connect::{Target, open},
    events::{ClientEvent, Ended, Failed, Interval, SCHEMA_VERSION, Started},
    intervals::{Intervals, PlannedEnd},
};
use super::{report, run};
use crate::{
    args::{ClientArgs, exact, rate_unit::RateUnit},
    directory,
    exit::{Code, Failure, OrFailure as _, Result, own_executable, refuse},
    interrupt::Held,
    listen::{StoreListener, Tally},
    output::{self, Colour, line_output::LineOutput},
    pinned_tls::{
        Hello,
        token::{DEFAULT_PORT, ServerAddress, Token},
    },
};

/// Shortest time between two lines.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Time of a trial beside its transfer, for the comparison with the server's limit.
const TRIAL_OVERHEAD: Duration = Duration::from_secs(2);

/// Runs `regatta client`.
///
/// # Errors
/// Mistakes in the options, a server that cannot be reached, a run that breaks.
pub fn client(args: &ClientArgs, colour: Colour) -> Result<Code> {
    let (address, token) = server_of(args)?;
    let (file, text) = requested(args, &address)?;
    if let Some(processor) = args.affinity {
        pin(processor)?;
    }
    let plan = Plan::new(&file.study).bad()?;
    let held = Held::new()?;
    let of_saved = |failure: Failure| failure.with_options(hints::of_saved);
    let results = Results::new(args).map_err(of_saved)?;
    let output = LineOutput::open(args.logfile.as_deref(), args.title.clone())?;
    let interval = interval(args);
    let options = RunOptions {
        run_id: run::new_id(),
        study_text: text,
        done: Done::default(),
        files: None,
        part: regatta_model::RunPart::default(),
    };
    let screen = Rc::new(RefCell::new(Screen::new(args, output, &file.study)));
    let progress_screen = Rc::clone(&screen);
    let run = Run::new(plan, options).with_progress(ProgressListener::new(
        move || interval,
        move |progress| progress_screen.borrow_mut().progress(progress),
    ));
    held.stop_with(run.stopper(), results.at_once())?;
    let measured = measure(args, run, &screen, &results, (&address, &token)).map_err(of_saved);
    let has_ended = measured.is_ok();
    let result = measured.and_then(|(ending, tally)| match ending {
        Ending::Complete => Ok(tally.verdict_without_gates()),
        Ending::Interrupted { reason } => Err(Failure::message(format!(
            "the measurement is partial: {reason}"
        ))),
    });
    let written = screen.borrow_mut().finish(result.as_ref().err());
    if has_ended {
        written?;
        results.show(args, colour)?;
    }
    result
}

/// Returns the study that the arguments ask for, and its text.
///
/// # Errors
/// Mistakes in the options.
pub fn requested(args: &ClientArgs, address: &ServerAddress) -> Result<(StudyFile, String)> {
    refuse! {
        interval(args).is_some_and(|interval| interval < MIN_INTERVAL) => "lines cannot come more often than every 0.1 s";
            "give a longer time, as in `-i 0.1`, or none: `-i 0`";
    }
    study::study(args, &address.host, family(args, &address.host))
}

/// Returns the time between lines; as of iperf3, no time is no lines.
fn interval(args: &ClientArgs) -> Option<Duration> {
    Some(args.interval).filter(|interval| !interval.is_zero())
}

/// Connects to the server and measures.
///
/// # Errors
/// A server that cannot be reached or refuses, a run that breaks.
fn measure(
    args: &ClientArgs,
    run: Run,
    screen: &Rc<RefCell<Screen>>,
    results: &Results,
    (address, token): (&ServerAddress, &Token),
) -> Result<(Ending, Tally)> {
    let target = Target {
        args,
        host: &address.host,
        port: args.port.or(address.port).unwrap_or(DEFAULT_PORT),
        token,
    };
    let opened = open(&target, run.stop(), &mut |hello| allowed(args, hello))?;
    let ips = opened.addresses.map(|address| address.ip());
    screen.borrow_mut().session = Some(opened.session.clone());
    screen.borrow_mut().names = [ips[0].to_string(), opened.addresses[1].to_string()];
    let name = study::name_of(&address.host);
    let mut bed = ServerBed::new(opened.session, name, ips, own_executable())?;
    let mut listener = ClientListener {
        screen: Rc::clone(screen),
        store: results.directory.as_deref().map(StoreListener::new),
        tally: Tally::default(),
    };
    let ending = run
        .run(&mut bed, &mut listener)
        .map_err(|error| {
            let server = &address.host;
            Failure::failed(error).context("the measurement broke").hint(format!(
                "see whether `regatta server` still runs on `{server}` and the network reaches it, and start the client again"
            ))
        })?;
    Ok((ending, listener.tally))
}

/// Returns the server and its token.
///
/// # Errors
/// No server or token, or one that cannot be read.
pub fn server_of(args: &ClientArgs) -> Result<(ServerAddress, Token)> {
    let hint = "copy the line that `regatta server` prints: regatta client 'host:5201#…'";
    let named = args.client.as_ref().or(args.server.as_ref());
    let named = named.ok_or_else(|| Failure::input("no server is named", hint))?;
    let address = ServerAddress::parse(named)
        .map_err(|mistake| Failure::input(format!("this names no server: {mistake}"), hint))?;
    if let Some(token) = &address.token {
        let token = token.clone();
        return Ok((address, token));
    }
    let from_environment = || std::env::var("REGATTA_TOKEN").ok();
    let token = args.token.clone().or_else(from_environment);
    let missing = || format!("the token of `{}` is missing", address.host);
    let token = token.filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| Failure::input(missing(), hint))?;
    let encoded = token.rsplit('#').next().unwrap_or_default();
    let token =
        Token::decode(encoded).ok_or_else(|| Failure::input("the token is not whole", hint))?;
    Ok((address, token))
}

/// Returns an address of the family that is used most likely; the size of a datagram follows from it.
fn family(args: &ClientArgs, host: &str) -> IpAddr {
    let address = host.split('%').next().unwrap_or_default();
    let is_v6 = address
        .parse()
        .is_ok_and(|address: IpAddr| address.is_ipv6());
    let bind = args.bind.as_ref();
    match args.ipv6 || bind.is_some_and(|bind| bind.ip().is_ipv6()) || is_v6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn pin(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .bad()
        .context(format!("cannot run on processor {processor}"))
        .hint("processors are counted from 0: `lscpu -e` lists those of this machine")
}

/// Compares the request with the limits of a server.
fn allowed(args: &ClientArgs, hello: &Hello) -> Result<()> {
    let Hello::Limits {
        max_time_ns,
        max_bytes,
        ..
    } = hello
    else {
        return Ok(());
    };
    let refuse = |needed: String, most: String, hint| {
        let message = format!("this takes {needed} and the server allows {most} for one client");
        Err(Failure::input(message, hint))
    };
    let most = Duration::from_nanos(*max_time_ns);
    let time = args.time.unwrap_or(Duration::from_secs(10)) + args.omit.unwrap_or_default();
    let trials = args.repeat.saturating_mul(args.transports().len() as u32);
    let needed = (time + TRIAL_OVERHEAD).saturating_mul(trials);
    if args.bytes.is_none() && args.blockcount.is_none() && needed > most {
        return refuse(
            exact::time(needed),
            exact::time(most),
            "ask for less time (`-t`, `-O`) or fewer repetitions (`--repeat`)",
        );
    }
    let bytes = args.bytes.map(|it| it.0.saturating_mul(trials.into()));
    if let (Some(bytes), Some(most)) = (bytes, *max_bytes)
        && bytes > most
    {
        let (bytes, most) = (Bytes(bytes).exact(), Bytes(most).exact());
        return refuse(bytes, most, "ask for fewer bytes (`-n`)");
    }
    Ok(())
}

/// Directory of the results: the requested one, or one that is removed at the end.
struct Results {
    directory: Option<PathBuf>,
    is_requested: bool,
    _temporary: Option<TemporaryDirectory>,
}

impl Results {
    fn new(args: &ClientArgs) -> Result<Self> {
        if let Some(dir) = &args.save {
            directory::check(Some(dir))?;
            let directory = directory::make(Some(dir), "client")?;
            return Ok(Self {
                directory: Some(directory),
                is_requested: true,
                _temporary: None,
            });
        }
        let compares = args.repeat > 1 || args.transports().len() > 1;
        let temporary = (compares && !args.json && !args.json_stream)
            .then(|| TemporaryDirectory::new("regatta-client-"))
            .transpose()
            .context("cannot make a directory for temporary files")?;
        Ok(Self {
            directory: temporary.as_ref().map(|it| it.path().to_owned()),
            is_requested: false,
            _temporary: temporary,
        })
    }

    /// Returns what a second signal does before it ends this process at once.
    fn at_once(&self) -> impl FnOnce() + Send + use<> {
        let (directory, is_requested) = (self.directory.clone(), self.is_requested);
        move || match directory {
            Some(directory) if is_requested => output::err(&format!(
                "ended at once: the trials that had ended are kept in `{}`\nhint: run `regatta report {}` to see them",
                directory.display(),
                quoted(&directory)
            )),
            Some(directory) => drop(std::fs::remove_dir_all(directory)),
            None => {}
        }
    }

    /// Shows the tables and the verdict of several trials, and writes the reports that are kept.
    fn show(&self, args: &ClientArgs, colour: Colour) -> Result<()> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        let data = regatta_report::load(directory)?;
        let summary = regatta_report::summarise(&data);
        if self.is_requested {
            regatta_report::write_all(directory)?;
        }
        match self.is_requested {
            _ if args.json || args.json_stream => Ok(()),
            true => report::show(directory, &data, &summary, colour),
            false => report::show_tables(directory, (&data, &summary), false, colour),
        }
    }
}

/// A trial in the output of `-J`.
#[derive(Debug, Serialize)]
struct TrialJson {
    started: Started,
    intervals: Vec<Interval>,
    ended: Option<Box<Ended>>,
}

/// Output of `-J`.
#[derive(Serialize)]
struct WholeJson<'a> {
    schema_version: u32,
    trials: &'a [TrialJson],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failed>,
}

/// Output of the events of a measurement, here and at the server.
struct Screen {
    output: LineOutput,
    form: Form,
    interval: Duration,
    omit: Duration,
    direction: Direction,
    planned_end: PlannedEnd,
    workload: String,
    trials: u32,
    session: Option<Session>,
    /// Addresses of client and server.
    names: [String; 2],
    intervals: Option<Intervals>,
    /// Trials for `-J`.
    json_trials: Vec<TrialJson>,
    /// First error of the output, which is reported at the end.
    failed: Option<output::OutputError>,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text {
        verbose: bool,
        unit: Option<RateUnit>,
    },
    JsonLines,
    Json,
}

impl Screen {
    fn new(args: &ClientArgs, output: LineOutput, study: &Study) -> Self {
        let kind = &study.workloads[0].kind;
        Self {
            output,
            form: match (args.json, args.json_stream) {
                (true, _) => Form::Json,
                (_, true) => Form::JsonLines,
                _ => Form::Text {
                    verbose: args.verbose,
                    unit: args.format.as_deref().and_then(RateUnit::of),
                },
            },
            interval: args.interval,
            omit: args.omit.unwrap_or_default(),
            direction: kind.direction(),
            planned_end: PlannedEnd::of(kind),
            workload: kind.description(),
            trials: study.transports.len() as u32 * study.rounds,
            session: None,
            names: [String::new(), String::new()],
            intervals: None,
            json_trials: Vec::new(),
            failed: None,
        }
    }

    fn begin(&mut self, trial: u32, transport: &str) {
        let (interval, omit) = (self.interval, self.omit);
        let transfer = (self.direction, self.planned_end);
        self.intervals = Some(Intervals::new(trial, transfer, interval, omit));
        let [from, server] = self.names.clone();
        self.emit(ClientEvent::Started(Started {
            schema_version: SCHEMA_VERSION,
            trial,
            trials: self.trials,
            time_unix_ns: unix_ns(),
            transport: transport.to_owned(),
            workload: self.workload.clone(),
            from,
            server,
        }));
    }

    fn progress(&mut self, progress: TrialProgress) {
        let TrialProgress { host, progress, .. } = progress;
        let intervals = self.intervals.as_mut();
        for interval in intervals.map_or_else(Vec::new, |it| it.add(host, progress)) {
            self.emit(ClientEvent::Interval(interval));
        }
    }

    /// Writes the lines that wait, and the end of a trial; one that cannot run in any round is not announced again.
    fn end(&mut self, trial: &TrialRecord) {
        let intervals = self.intervals.take();
        let is_announced = intervals.is_some();
        for interval in intervals.map_or_else(Vec::new, |mut it| it.finish()) {
            self.emit(ClientEvent::Interval(interval));
        }
        if is_announced || trial.outcome != Outcome::Unsupported {
            self.emit(ClientEvent::Ended(Box::new(trial.into())));
        }
    }

    /// Writes an event here and at the server.
    fn emit(&mut self, event: ClientEvent) {
        if let (Some(session), Ok(line)) = (&self.session, serde_json::to_string(&event)) {
            session.send_line(&line);
        }
        let written = match self.form {
            Form::Text { verbose, unit } => self.output.text(&event.text(verbose, unit)),
            Form::JsonLines => self.output.json(&event),
            Form::Json => {
                self.keep(event);
                Ok(())
            }
        };
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn keep(&mut self, event: ClientEvent) {
        match (event, self.json_trials.last_mut()) {
            (ClientEvent::Started(started), _) => self.json_trials.push(TrialJson {
                started,
                intervals: Vec::new(),
                ended: None,
            }),
            (ClientEvent::Interval(interval), Some(trial)) => trial.intervals.push(interval),
            (ClientEvent::Ended(ended), Some(trial)) => trial.ended = Some(ended),
            _ => {}
        }
    }

    /// Ends the output, in JSON with the failure that ended the measurement.
    fn finish(&mut self, failure: Option<&Failure>) -> Result<()> {
        let error = failure.map(|failure| {
            let (message, hint) = failure.message_and_hint();
            Failed {
                time_unix_ns: unix_ns(),
                message,
                hint,
            }
        });
        match (self.form, error) {
            (Form::Json, error) => self.output.json(&WholeJson {
                schema_version: SCHEMA_VERSION,
                trials: &self.json_trials,
                error,
            })?,
            (Form::JsonLines, Some(error)) => self.output.json(&ClientEvent::Failed(error))?,
            _ => {}
        }
        Ok(self.failed.take().map_or(Ok(()), Err)?)
    }
}

/// Listener to the events of the engine.
struct ClientListener {
    screen: Rc<RefCell<Screen>>,
    store: Option<StoreListener>,
    tally: Tally,
}

impl Listener for ClientListener {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        if let Some(store) = &mut self.store {
            store.on_event(event)?;
        }
        match event {
            Event::TrialStarted {
                index, transport, ..
            } => self.screen.borrow_mut().begin(*index, transport),
            Event::TrialEnded { trial, .. } => {
                self.tally.add(trial);
                self.screen.borrow_mut().end(trial);
            }
            Event::Warning { warning } => output::warn(warning),
            _ => {}
        }
        Ok(())
    }
}
