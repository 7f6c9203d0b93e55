//! The process `regatta host-monitor`: samples as JSON lines on standard output.

use std::{
    io::{self, Read, Write},
    os::fd::AsFd,
    process::ExitCode,
    time::{Duration, Instant},
};

use regatta_model::{
    causes,
    host_sample::{MonitorLine, MonitorRequest},
    shell::printable,
};
use regatta_process::{readable, write_line};

use super::{HostSampler, Taken};

/// Interval until the first request.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum interval between samples; requests for less get this.
const SHORTEST: Duration = Duration::from_millis(10);

/// Maximum interval between samples; requests for more get this.
const LONGEST: Duration = Duration::from_secs(3600);

/// Longest request, in bytes.
const LONGEST_LINE: usize = 4096;

/// Longest part of a malformed request that an error shows, in characters.
const SHOWN: usize = 120;

/// Reasons for which the process ends before its input does.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// Standard input cannot be read.
    #[error("cannot read the requests")]
    Input(#[source] io::Error),
    /// Standard output cannot be written.
    #[error("cannot write the samples")]
    Output(#[source] io::Error),
    /// A line is not a request.
    #[error("`{text}` is not a request of the controller")]
    Malformed {
        /// Beginning of the line.
        text: String,
        /// Error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// A line has no end.
    #[error("a request is longer than {LONGEST_LINE} bytes")]
    TooLong,
}

impl MonitorError {
    /// Returns 2 for input that is no request, otherwise 1.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Malformed { .. } | Self::TooLong => 2,
            Self::Input(_) | Self::Output(_) => 1,
        }
    }
}

/// Runs `regatta host-monitor`: writes a [`MonitorLine`] for each sample, and reads
/// [`MonitorRequest`]s. Ends at the end of input, after a last sample.
///
/// Sleeps until the next sample is due or input arrives. A trial that begins or ends is answered with
/// a sample at once, so that no sample is part of two trials.
pub fn main() -> ExitCode {
    match serve(io::stdin(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("host-monitor: {}", causes(&error).join(": "));
            // A closed standard error leaves no place for the message.
            let _ = writeln!(io::stderr(), "{}", printable(&text));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Samples until the end of `input`.
fn serve(mut input: impl Read + AsFd, output: impl Write) -> Result<(), MonitorError> {
    let mut monitor = Monitor {
        sampler: HostSampler::open(),
        output,
        interval: FIRST_INTERVAL,
        trial: None,
        next: Instant::now() + FIRST_INTERVAL,
    };
    let mut pending = Vec::new();
    loop {
        let left = monitor.next.saturating_duration_since(Instant::now());
        if readable(&[input.as_fd()], Some(left)).map_err(MonitorError::Input)? {
            let mut part = [0; 512];
            let length = match input.read(&mut part) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(MonitorError::Input(error)),
            };
            if length == 0 {
                return monitor.sample();
            }
            pending.extend_from_slice(&part[..length]);
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                monitor.handle_request(&line)?;
            }
            if pending.len() > LONGEST_LINE {
                return Err(MonitorError::TooLong);
            }
        }
        if Instant::now() >= monitor.next {
            monitor.sample()?;
        }
    }
}

/// State of the process.
struct Monitor<W> {
    sampler: HostSampler,
    output: W,
    interval: Duration,
    /// Trial during which samples are taken now.
    trial: Option<u32>,
    /// Time of the next sample.
    next: Instant,
}

impl<W: Write> Monitor<W> {
    /// Applies the request of a line. Where a trial begins or ends, the time before gets a sample of its own. Empty
    /// lines are skipped.
    fn handle_request(&mut self, line: &[u8]) -> Result<(), MonitorError> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        let request: MonitorRequest = serde_json::from_slice(line).map_err(|source| {
            let text = String::from_utf8_lossy(line).chars().take(SHOWN).collect();
            MonitorError::Malformed { text, source }
        })?;
        if request.trial != self.trial {
            self.sample()?;
        }
        self.interval = Duration::from_nanos(request.interval_ns).clamp(SHORTEST, LONGEST);
        self.trial = request.trial;
        self.next = Instant::now() + self.interval;
        Ok(())
    }

    /// Writes a sample and sets the time of the next one.
    fn sample(&mut self) -> Result<(), MonitorError> {
        let Taken { names, sample } = self.sampler.sample();
        let line = MonitorLine {
            names,
            trial: self.trial,
            sample,
        };
        write_line(&mut self.output, &line).map_err(MonitorError::Output)?;
        self.next += self.interval;
        let now = Instant::now();
        if self.next < now {
            // The process was stopped, or its reader was: what was missed is part of this sample.
            self.next = now + self.interval;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, PipeReader, PipeWriter},
        thread::JoinHandle,
    };

    use super::*;

    struct Served {
        input: PipeWriter,
        lines: std::io::Lines<BufReader<PipeReader>>,
        end: JoinHandle<Result<(), MonitorError>>,
    }

    fn start() -> Served {
        let (input, writer) = io::pipe().unwrap();
        let (reader, output) = io::pipe().unwrap();
        Served {
            input: writer,
            lines: BufReader::new(reader).lines(),
            end: std::thread::spawn(move || serve(input, output)),
        }
    }

    impl Served {
        fn line(&mut self) -> MonitorLine {
            serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
        }
    }

    fn elapsed(line: &MonitorLine) -> f32 {
        line.sample.values[0].unwrap()
    }

    #[test]
    fn request_ends_a_sample_and_starts_the_next_interval() {
        let mut served = start();
        served
            .input
            .write_all(b"{\"interval_ns\":60000000,\"trial\":7}\n")
            .unwrap();
        let before = served.line();
        assert_eq!(before.trial, None);
        assert!(before.names.is_some());
        let mut together = 0.0;
        for _ in 0..3 {
            let sample = served.line();
            assert_eq!(sample.trial, Some(7));
            together += elapsed(&sample);
        }
        // After a late sample the next one comes the sooner.
        assert!(together >= 179e6, "{together}");
        served
            .input
            .write_all(b"\n{\"interval_ns\":3600000000000}\n")
            .unwrap();
        // The last of the trial, however many were due before the request was read.
        drop(served.input);
        let mut rest: Vec<MonitorLine> = Vec::new();
        for line in served.lines {
            rest.push(serde_json::from_str(&line.unwrap()).unwrap());
        }
        let trials: Vec<Option<u32>> = rest.iter().map(|line| line.trial).collect();
        assert_eq!(trials.last(), Some(&None));
        assert!(trials[..trials.len() - 1].iter().all(|t| *t == Some(7)));
        served.end.join().unwrap().unwrap();
    }

    #[test]
    fn end_of_input_yields_a_last_sample() {
        let mut served = start();
        drop(served.input);
        let line: MonitorLine =
            serde_json::from_str(&served.lines.next().unwrap().unwrap()).unwrap();
        assert!(elapsed(&line) < 1e9);
        assert!(served.lines.next().is_none());
        served.end.join().unwrap().unwrap();
    }

    #[test]
    fn invalid_request_is_an_error() {
        for text in [
            &b"hello\n"[..],
            b"{\"interval\":1}\n",
            b"{\"interval_ns\":-1}\n",
            b"{\"interval_ns\":1,\"more\":2}\n",
            b"\xff\n",
        ] {
            let mut served = start();
            served.input.write_all(text).unwrap();
            let error = served.end.join().unwrap().unwrap_err();
            assert_eq!(error.exit_code(), 2, "{text:?}: {error}");
        }
    }

    #[test]
    fn overlong_request_is_an_error() {
        let mut served = start();
        let written = served.input.write_all(&[b' '; 3 * LONGEST_LINE]);
        let error = served.end.join().unwrap().unwrap_err();
        assert!(matches!(error, MonitorError::TooLong), "{error}");
        // It may have ended before all was written.
        drop(written);
    }

    #[test]
    fn closed_output_is_an_error() {
        let mut served = start();
        drop(served.lines);
        served.input.write_all(b"{\"interval_ns\":1}\n").unwrap();
        let error = served.end.join().unwrap().unwrap_err();
        assert_eq!(error.exit_code(), 1, "{error}");
    }
}
