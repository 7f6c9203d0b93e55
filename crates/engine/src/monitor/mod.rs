//! Monitors of hosts: processes that sample a host for a whole run.

mod of_run;

use std::{
    fs::File,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use regatta_bed::{Exit, Host, Input, Launched, LaunchedProcess, write_line};
use regatta_model::{
    HostSamples, Text,
    host_sample::{MonitorLine, MonitorRequest},
    reason,
};

pub(crate) use of_run::HostMonitors;

use crate::{
    error::EngineError,
    process_output::{self, beginning, each_line, spawn},
};

/// Longest line that a monitor may write; that of a host with a thousand cores has 200 kB.
const LONGEST_LINE: u64 = 4 << 20;

/// Returns the name of a host in the header of the run: that of its role in a workload that is not
/// reversed.
pub(crate) const fn name_in_header(host: Host) -> &'static str {
    match host {
        Host::Client => "sender",
        Host::Server => "receiver",
    }
}

/// A process `regatta host-monitor`, and the samples that it has sent.
#[derive(Debug)]
pub struct HostMonitor {
    /// Requests on their way to the process, which may be slow to read them.
    requests: Sender<MonitorRequest>,
    process: Box<dyn LaunchedProcess>,
    gathered: Arc<Mutex<Gathered>>,
    reader: JoinHandle<()>,
}

/// Samples that nobody has taken yet.
#[derive(Debug, Default)]
struct Gathered {
    batches: Vec<HostSamples>,
    names: Vec<String>,
    /// Number of samples so far.
    samples: u64,
    /// Reason for which no more samples come.
    ended: Option<Text>,
}

impl HostMonitor {
    /// Begins to read the samples of a launched monitor. `on_end` is called when no more come, in
    /// another thread.
    ///
    /// # Errors
    /// [`EngineError::Thread`].
    pub fn start(
        host: &str,
        launched: Launched,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, EngineError> {
        let Launched {
            input,
            output,
            process,
            ..
        } = launched;
        let gathered = Arc::new(Mutex::new(Gathered::default()));
        let (requests, receiver) = mpsc::channel();
        spawn(format!("requests of {host}"), move || {
            write_requests(input, &receiver)
        })?;
        let (name, shared) = (host.to_owned(), Arc::clone(&gathered));
        let reader = spawn(format!("samples of {host}"), move || {
            let reason = read_samples(output.into(), &name, &shared);
            shared.lock().ended = Some(reason);
            on_end();
        })?;
        Ok(Self {
            requests,
            process,
            gathered,
            reader,
        })
    }

    /// Asks for another interval, and for samples of a trial or of none, from now on. Does not wait
    /// for the process.
    pub fn request(&self, request: MonitorRequest) {
        // The end of a process is noticed by its output.
        let _ = self.requests.send(request);
    }

    /// Returns the samples that have come since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<HostSamples> {
        std::mem::take(&mut self.gathered.lock().batches)
    }

    /// Returns the number of samples so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.gathered.lock().samples
    }

    /// Returns the reason for which no more samples come; `None` while they do.
    #[must_use]
    pub fn ended(&self) -> Option<Text> {
        self.gathered.lock().ended.clone()
    }

    /// Ends the process, if need be by killing it, and returns the samples that were not taken yet,
    /// and the end of the process unless it was killed.
    #[must_use]
    pub fn stop(self) -> (Vec<HostSamples>, Option<Exit>) {
        let Self {
            requests,
            process,
            gathered,
            reader,
        } = self;
        // Without requests to come its input is closed, which ends a process that is well.
        drop(requests);
        let end = process_output::end(process);
        // The process has ended, so its output is closed and the reader ends.
        let _ = reader.join();
        let samples = std::mem::take(&mut gathered.lock().batches);
        (samples, end.exit.filter(|_| !end.killed))
    }
}

/// Writes requests until nobody can make any more; then the input is closed.
fn write_requests(mut input: Box<dyn Input>, requests: &Receiver<MonitorRequest>) {
    for request in requests {
        if write_line(&mut input, &request).is_err() {
            return;
        }
    }
}

/// Reads samples until no more come, and returns the reason.
fn read_samples(output: File, host: &str, gathered: &Mutex<Gathered>) -> Text {
    let mut malformed = None;
    let read = each_line(output, LONGEST_LINE, |line| {
        let added = serde_json::from_slice(line)
            .map_err(|error| Text::from(error.to_string()))
            .and_then(|line| gathered.lock().add(host, line));
        malformed = added
            .err()
            .map(|error| reason::not_a_sample(&beginning(line, 100), error));
        malformed.is_none()
    });
    match (malformed, read) {
        (Some(reason), _) => reason,
        (None, Ok(())) => reason::output_ended(),
        (None, Err(error)) => reason::output_unreadable(&error.to_string()),
    }
    .into()
}

impl Gathered {
    /// Adds a sample to the last batch, if it is of the same trial and has the same names, or to a
    /// new one.
    fn add(&mut self, host: &str, line: MonitorLine) -> Result<(), Text> {
        let MonitorLine {
            names,
            trial,
            sample,
        } = line;
        if let Some(names) = names {
            self.names = names;
        }
        if sample.values.len() != self.names.len() {
            let [values, names] = [sample.values.len(), self.names.len()].map(|n| n as u64);
            return Err(reason::values_without_names(values, names).into());
        }
        self.samples += 1;
        match self.batches.last_mut() {
            Some(last) if last.trial == trial && last.names == self.names => {
                last.samples.push(sample);
            }
            _ => self.batches.push(HostSamples {
                host: host.to_owned(),
                trial,
                names: self.names.clone(),
                samples: vec![sample],
            }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::tests::fake_monitor::{Monitor, launched};

    const SECOND: u64 = 1_000_000_000;

    fn request(trial: Option<u32>) -> MonitorRequest {
        MonitorRequest {
            interval_ns: SECOND,
            trial,
        }
    }

    #[test]
    fn samples_are_divided_by_trial() {
        let monitor = HostMonitor::start("sender", launched(Monitor::Healthy), || {}).unwrap();
        for trial in [Some(3), None, None, Some(4)] {
            monitor.request(request(trial));
        }
        let (batches, status) = monitor.stop();
        assert!(status.is_some());
        let found: Vec<_> = (batches.iter())
            .map(|batch| (batch.host.as_str(), batch.trial, batch.samples.len()))
            .collect();
        let expected = [(None, 1), (Some(3), 1), (None, 2), (Some(4), 1)];
        let expected = expected.map(|(trial, samples)| ("sender", trial, samples));
        assert_eq!(found, expected);
    }

    /// Checks that a monitor ends for a reason that contains `expected`.
    #[track_caller]
    fn ends(kind: Monitor, expected: &str) {
        let (on_end, end) = mpsc::channel();
        let notify = move || on_end.send(()).unwrap();
        let monitor = HostMonitor::start("sender", launched(kind), notify).unwrap();
        end.recv().unwrap();
        let reason = monitor.ended().unwrap();
        assert!(reason.contains(expected), "{reason}");
        assert_eq!(monitor.stop().0, []);
    }

    #[test]
    fn end_of_output_ends_a_monitor() {
        ends(Monitor::ExitsAtOnce, "ended");
    }

    #[test]
    fn malformed_output_ends_a_monitor() {
        ends(Monitor::Writes("hello\n"), "`hello`");
    }

    #[test]
    fn a_value_without_a_name_ends_a_monitor() {
        let line = "{\"unix_ns\":1,\"monotonic_ns\":1,\"values\":[null]}\n";
        ends(Monitor::Writes(line), "1 values for 0 names");
    }

    #[test]
    fn a_monitor_that_does_not_read_does_not_block_the_run() {
        let monitor = HostMonitor::start("sender", launched(Monitor::IgnoresInput), || {}).unwrap();
        // More than fits into a pipe.
        for _ in 0..10_000 {
            monitor.request(request(None));
        }
        assert_eq!(monitor.stop(), (Vec::new(), None));
    }
}
