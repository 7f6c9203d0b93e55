//! Fake monitors: threads that answer each request with a sample.

use std::{
    io::{BufRead, BufReader, PipeReader, PipeWriter, Write},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use regatta_bed::{Exit, Launched, LaunchedProcess};
use regatta_model::host_sample::MonitorRequest;

/// Behaviour of a fake monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Monitor {
    /// Ends at once.
    ExitsAtOnce,
    /// Never reads a request.
    IgnoresInput,
    /// Cannot be started.
    Refused,
    /// Answers each request with a sample of the time before it, and the end of input too.
    Healthy,
    /// Writes a text and ends.
    Writes(&'static str),
}

/// Whether the thread of a fake monitor has ended, or is to end.
type Ended = Arc<(Mutex<bool>, Condvar)>;

#[derive(Debug)]
struct Process(Ended);

impl LaunchedProcess for Process {
    fn id(&self) -> u32 {
        0
    }

    fn ended(&mut self, within: Duration) -> Option<Exit> {
        let (ended, changed) = &*self.0;
        let mut ended = ended.lock();
        changed.wait_while_for(&mut ended, |ended| !*ended, within);
        ended.then(|| Exit::Ended {
            status: 0,
            out_of_memory: false,
        })
    }

    fn kill(&mut self) -> Option<Exit> {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
        None
    }
}

/// Starts a fake monitor.
pub(crate) fn launched(monitor: Monitor) -> Launched {
    let (requests, input) = std::io::pipe().unwrap();
    let (output, samples) = std::io::pipe().unwrap();
    let ended = Ended::default();
    let process = Process(Arc::clone(&ended));
    std::thread::spawn(move || {
        act(monitor, &ended, requests, samples);
        Process(ended).kill();
    });
    Launched {
        input: Box::new(input),
        output: output.into(),
        errors: None,
        process: Box::new(process),
    }
}

fn act(monitor: Monitor, ended: &Ended, requests: PipeReader, mut samples: PipeWriter) {
    match monitor {
        Monitor::ExitsAtOnce | Monitor::Refused => {}
        Monitor::IgnoresInput => {
            ended.1.wait_while(&mut ended.0.lock(), |killed| !*killed);
        }
        Monitor::Writes(text) => samples.write_all(text.as_bytes()).unwrap(),
        Monitor::Healthy => {
            let mut trial = None;
            let mut sample = |trial: Option<u32>, number: usize| {
                let names = ["", "\"names\":[\"sample.elapsed_ns\"],"][usize::from(number == 0)];
                let trial = trial.map_or_else(String::new, |trial| format!("\"trial\":{trial},"));
                let line = format!(
                    "{{{names}{trial}\"unix_ns\":{number},\"monotonic_ns\":{number},\"values\":[1]}}"
                );
                writeln!(samples, "{line}").unwrap();
            };
            let mut number = 0;
            for line in BufReader::new(requests).lines() {
                sample(trial, number);
                number += 1;
                let request: MonitorRequest = serde_json::from_str(&line.unwrap()).unwrap();
                trial = request.trial;
            }
            sample(trial, number);
        }
    }
}
