//! Monitors of hosts: processes that sample a host for a whole run.

mod of_run;

use std::{
    io::{self, Write},
    sync::{
        Arc,
        mpsc::{self, Sender},
    },
    thread::Builder,
};

use parking_lot::Mutex;
use regatta_bed::{ChildOutput, Exit, Host, Input, JsonChild, Launched};
use regatta_model::{
    HostSamples, Text,
    host_sample::{MonitorLine, MonitorRequest},
    reason,
};

pub(crate) use of_run::HostMonitors;

use crate::error::EngineError;

/// Maximum length of a line that a monitor may write, in bytes; that of a host with a thousand cores has 200 kB.
const LONGEST_LINE: u64 = 4 << 20;

/// Longest part of a line that a reason shows, in characters.
const SHOWN: usize = 100;

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
    child: JsonChild<MonitorRequest, MonitorLine>,
    gathered: Arc<Mutex<Gathered>>,
}

/// Standard input of a process that may be slow to read it: another thread writes.
#[derive(Debug)]
struct QueuedInput(Sender<Vec<u8>>);

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
        mut launched: Launched,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, EngineError> {
        let thread = |source| EngineError::Thread { source };
        launched.input = Box::new(QueuedInput::new(host, launched.input).map_err(thread)?);
        let gathered = Arc::new(Mutex::new(Gathered::default()));
        let (name, shared) = (host.to_owned(), Arc::clone(&gathered));
        let mut on_end = Some(on_end);
        let child = JsonChild::start(launched, host, LONGEST_LINE, move |output| {
            let Err(reason) = shared.lock().take(&name, output) else {
                return true;
            };
            shared.lock().ended = Some(reason);
            if let Some(on_end) = on_end.take() {
                on_end();
            }
            false
        });
        Ok(Self {
            child: child.map_err(thread)?,
            gathered,
        })
    }

    /// Asks for another interval, and for samples of a trial or of none, from now on. Does not wait
    /// for the process.
    pub fn request(&mut self, request: MonitorRequest) {
        // The end of a process is noticed by its output.
        let _ = self.child.send(&request);
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
        let end = self.child.end();
        let samples = std::mem::take(&mut self.gathered.lock().batches);
        (samples, end.exit.filter(|_| !end.killed))
    }
}

impl QueuedInput {
    /// Starts the thread that writes to an input; it ends when this is dropped, or the input cannot be written to.
    fn new(host: &str, mut input: Box<dyn Input>) -> io::Result<Self> {
        let (queue, queued) = mpsc::channel::<Vec<u8>>();
        let thread = Builder::new().name(format!("requests of {host}"));
        thread.spawn(move || queued.iter().try_for_each(|line| input.write_all(&line)))?;
        Ok(Self(queue))
    }
}

impl Write for QueuedInput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(bytes.to_vec());
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Gathered {
    /// Takes the next output of a monitor of `host`.
    ///
    /// # Errors
    /// The reason for which no more samples come.
    fn take(&mut self, host: &str, output: ChildOutput<MonitorLine>) -> Result<(), Text> {
        let reason = match output {
            ChildOutput::Message(line) => return self.add(host, line),
            ChildOutput::Malformed(line) => {
                let error = line.source.to_string();
                reason::not_a_sample(&line.beginning(SHOWN), error.into())
            }
            ChildOutput::Ended(Ok(())) => reason::output_ended(),
            ChildOutput::Ended(Err(error)) => reason::output_unreadable(&error.to_string()),
        };
        Err(reason.into())
    }

    /// Adds a sample to the last batch, if it is of the same trial and has the same names, or to a
    /// new one.
    fn add(&mut self, host: &str, line: MonitorLine) -> Result<(), Text> {
        if let Some(names) = &line.names {
            self.names.clone_from(names);
        }
        if line.sample.values.len() != self.names.len() {
            let [values, names] = [line.sample.values.len(), self.names.len()].map(|n| n as u64);
            let reason = reason::values_without_names(values, names);
            let text = serde_json::to_string(&line).unwrap_or_default();
            let shown: String = text.chars().take(SHOWN).collect();
            return Err(reason::not_a_sample(&shown, reason.into()).into());
        }
        let MonitorLine { trial, sample, .. } = line;
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
        let mut monitor = HostMonitor::start("sender", launched(Monitor::Healthy), || {}).unwrap();
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
        let mut monitor =
            HostMonitor::start("sender", launched(Monitor::IgnoresInput), || {}).unwrap();
        // More than fits into a pipe.
        for _ in 0..10_000 {
            monitor.request(request(None));
        }
        assert_eq!(monitor.stop(), (Vec::new(), None));
    }
}
