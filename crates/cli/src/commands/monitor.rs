//! `regatta monitor`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use regatta_bed::{Errors, HOST_MONITOR, Launcher as _, StopRequest};
use regatta_engine::HostMonitor;
use regatta_model::{
    HostSamples,
    host_sample::MonitorRequest,
    shell::{printable, quoted},
    units::{format_duration, nanoseconds},
};
use regatta_report::{HostTimeline, timeline};
use regatta_results::hosts_csv::{GrowingHostsCsv, HOSTS_FILE_NAME};

use crate::{
    args::MonitorArgs,
    exit::{Code, Failure, OrFailure as _, Result, no_bed, refuse},
    hosts::remote::{self, Opened},
    interrupt::Held,
    output,
};

/// Name of the page with the figures.
const PAGE: &str = "monitor.html";

/// Time between two writes of samples.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Reason to stop waiting.
enum Wake {
    /// The user asked to stop.
    Stop,
    /// A monitor sends no more samples.
    Ended,
}

/// Monitor of a host under the name that the user gave.
struct NamedMonitor {
    host: String,
    monitor: HostMonitor,
}

/// Runs `regatta monitor`.
///
/// # Errors
/// A host that cannot be sampled, or for a shorter time than requested; a file that cannot be
/// written.
pub fn monitor(args: &MonitorArgs) -> Result<Code> {
    check(args)?;
    let held = Held::new()?;
    let (wake_tx, wake_rx) = mpsc::channel();
    let hosts = args.hosts.iter().map(String::as_str);
    let opening = StopRequest::default();
    let to_end = Arc::new(Mutex::new(Some(opening.clone())));
    let stop = {
        let (wake_tx, to_end) = (wake_tx.clone(), Arc::clone(&to_end));
        move || {
            // Once the time is over there is no receiver, and nothing to stop.
            let _ = wake_tx.send(Wake::Stop);
            if let Some(opening) = to_end.lock().take() {
                opening.request();
            }
        }
    };
    held.end_with("stopping: what was sampled is kept", stop, || {})
        .context("cannot start a thread")?;
    let opened = match remote::open(hosts, args.hosts_file.as_deref(), &opening) {
        Err(_) if opening.is_requested() => {
            return Err(Failure::message(
                "stopped by the user before anything was sampled",
            ));
        }
        opened => opened?,
    };
    // From now on a stop ends the monitors in good order.
    to_end.lock().take();
    let monitors: Vec<NamedMonitor> = (opened.into_iter())
        .map(|host| start(host, args.interval, &wake_tx))
        .collect::<Result<_, _>>()?;
    fs::create_dir_all(&args.out).cannot("write", &args.out)?;
    let started_at = Instant::now();
    let mut written = Written::new(&args.out);
    let stopped = wait(
        &wake_rx,
        started_at + args.duration,
        &monitors,
        &mut written,
    )?;
    let elapsed = started_at.elapsed();
    let early = stopped_early(stopped, elapsed, &monitors);
    for named in monitors {
        written.add(&named.monitor.stop().0)?;
    }
    written.finish(args)?;
    early.map_or(Ok(Code::Measured), |reason| Err(Failure::message(reason)))
}

/// Refuses what cannot be carried out, before anything is started.
fn check(args: &MonitorArgs) -> Result<()> {
    let mut hosts = args.hosts.clone();
    hosts.sort();
    if let Some(pair) = hosts.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::input(
            format!("the host `{}` is named twice", printable(&pair[0])),
            "name each host once",
        ));
    }
    for name in [HOSTS_FILE_NAME, PAGE] {
        refuse! {
            args.out.join(name).symlink_metadata().is_ok() => "`{}` has a `{name}` already", args.out.display();
                "choose another `--out`";
        }
    }
    Ok(())
}

fn start(opened: Opened, interval: Duration, wake_tx: &Sender<Wake>) -> Result<NamedMonitor> {
    let mut launcher = opened.launcher();
    let host = opened.name;
    let doing = format!("cannot monitor the host `{}`", printable(&host));
    let launched = launcher.launch(HOST_MONITOR, Errors::Inherit);
    let launched = launched.map_err(no_bed).context(&*doing)?;
    let wake_tx = wake_tx.clone();
    let on_end = move || {
        let _ = wake_tx.send(Wake::Ended);
    };
    let mut monitor = HostMonitor::start(&host, launched, on_end).context(doing)?;
    monitor.request(MonitorRequest {
        interval_ns: nanoseconds(interval),
        trial: None,
    });
    Ok(NamedMonitor { host, monitor })
}

/// Writes samples until the time is over, the user stops it, or no monitor is left; returns whether the user stopped
/// it.
///
/// # Errors
/// If the samples cannot be written.
fn wait(
    wake_rx: &Receiver<Wake>,
    until: Instant,
    monitors: &[NamedMonitor],
    written: &mut Written,
) -> Result<bool> {
    loop {
        let remaining = until.saturating_duration_since(Instant::now());
        let wake = wake_rx.recv_timeout(remaining.min(WRITE_INTERVAL));
        for named in monitors {
            written.add(&named.monitor.take())?;
        }
        match wake {
            Ok(Wake::Stop) => return Ok(true),
            Ok(Wake::Ended) => {
                if monitors.iter().all(|named| named.monitor.ended().is_some()) {
                    return Ok(false);
                }
            }
            Err(RecvTimeoutError::Timeout) if remaining > WRITE_INTERVAL => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(false),
        }
    }
}

/// Returns the reason for which there are samples of a shorter time than requested.
fn stopped_early(stopped: bool, elapsed: Duration, monitors: &[NamedMonitor]) -> Option<String> {
    let ended: Vec<String> = (monitors.iter())
        .filter_map(|named| {
            let reason = named.monitor.ended()?;
            Some(format!(
                "the monitor of `{}` ended early: {reason}",
                named.host
            ))
        })
        .collect();
    if !ended.is_empty() {
        return Some(printable(&ended.join("; ")));
    }
    let elapsed = format_duration(Duration::from_secs(elapsed.as_secs()));
    stopped.then(|| format!("the samples are partial: stopped by the user after {elapsed}"))
}

/// Samples that were written, and what the figures need of them.
struct Written {
    table: PathBuf,
    csv: GrowingHostsCsv,
    timelines: Vec<HostTimeline>,
}

impl Written {
    fn new(dir: &Path) -> Self {
        let table = dir.join(HOSTS_FILE_NAME);
        Self {
            csv: GrowingHostsCsv::new(table.clone()),
            table,
            timelines: Vec::new(),
        }
    }

    fn add(&mut self, samples: &[HostSamples]) -> Result<()> {
        let hint = match self.timelines.is_empty() {
            true => "",
            false => {
                "the samples up to then are in it: free space, and run the rest with another `--out`"
            }
        };
        self.csv
            .add(samples)
            .cannot("write", &self.table)
            .hint(hint)?;
        for batch in samples {
            timeline::add(&mut self.timelines, batch);
        }
        Ok(())
    }

    /// Writes the page with the figures, and a line for each host on standard output.
    fn finish(self, args: &MonitorArgs) -> Result<()> {
        let Self {
            table,
            mut timelines,
            ..
        } = self;
        timelines.sort_by_key(|host| args.hosts.iter().position(|name| *name == host.host));
        if timelines.is_empty() {
            return Err(Failure::message("no host was sampled"));
        }
        let page = regatta_report::write_monitor(&timelines, &args.out)?;
        let mut text = String::new();
        for host in &timelines {
            let time = Duration::from_secs(host.end_ns().unsigned_abs() / 1_000_000_000);
            let samples = usize::try_from(host.samples).unwrap_or(usize::MAX);
            let counted = output::counted(samples, "sample");
            let (time, usage) = (format_duration(time), host.text());
            text.push_str(&format!("{}: {counted} in {time}: {usage}\n", host.host));
        }
        text.push_str(&format!(
            "the samples are in {}; open {}\n",
            quoted(&table),
            quoted(&page)
        ));
        output::out(&text)
    }
}
