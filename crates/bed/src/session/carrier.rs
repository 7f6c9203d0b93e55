//! Process that carries a session.

use std::{
    collections::VecDeque,
    error::Error,
    io::{self, BufRead, BufReader, Read},
    iter,
    process::Child,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use regatta_model::shell::printable;
use regatta_process::end_within;

/// Lines of the carrier's standard error that are kept to explain its end: those of `ssh` about a changed host key are 13.
const STDERR_TAIL_LINES: usize = 16;

/// Time that a carrier has to end by itself once its input is closed.
pub(super) const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// Time within which the last lines of a carrier that has ended are read; another process may hold the pipe open.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

/// Process that carries a session, such as `ssh`.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) child: Child,
    last_errors: Arc<Mutex<VecDeque<String>>>,
    /// Gets an end when all lines have been read.
    reader: Option<Receiver<()>>,
}

impl Carrier {
    pub(super) fn new(mut child: Child) -> Self {
        let last_errors = Arc::<Mutex<VecDeque<String>>>::default();
        let errors = child.stderr.take();
        let reader = errors.and_then(|errors| {
            let stderr_tail = Arc::clone(&last_errors);
            let (reading, reader) = mpsc::channel();
            let work = move || {
                let _reading: Sender<()> = reading;
                keep_lines(errors, &stderr_tail);
            };
            thread::Builder::new().spawn(work).ok().map(|_| reader)
        });
        Self {
            child,
            last_errors,
            reader,
        }
    }

    /// Ends the carrier and returns the reason for its end: its last lines, or its exit status, and then its exit code.
    pub(super) fn end(&mut self, error: &io::Error) -> (String, Option<i32>) {
        // A carrier that is silent does not end by itself.
        let within = match error.kind() {
            io::ErrorKind::UnexpectedEof => EXIT_LIMIT,
            _ => Duration::ZERO,
        };
        let status = end_within(&mut self.child, within);
        if let (Some(reader), true) = (self.reader.take(), status.is_some()) {
            let _ = reader.recv_timeout(LAST_LINES_TIMEOUT);
        }
        let stderr_text = self.stderr_text();
        match (stderr_text.is_empty(), status) {
            (false, Some(_)) => (stderr_text, None),
            (true, Some(status)) => (format!("the connection ended with {status}"), status.code()),
            (_, None) => (error.to_string(), None),
        }
    }

    /// Returns the last lines of its standard error.
    fn stderr_text(&self) -> String {
        let last_errors = self.last_errors.lock();
        let lines: Vec<&str> = last_errors.iter().map(String::as_str).collect();
        lines.join("; ")
    }

    /// Returns the carrier's last lines if it ended during a dialogue with this error.
    pub(super) fn last_lines(
        &mut self,
        error: &(dyn Error + Send + Sync + 'static),
    ) -> Option<String> {
        let mut causes = iter::successors(error.source(), |&cause| cause.source());
        let is_broken_pipe = causes.any(|cause| {
            let cause = cause.downcast_ref::<io::Error>();
            cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
        });
        if !is_broken_pipe {
            return None;
        }
        self.end(&io::ErrorKind::UnexpectedEof.into());
        Some(self.stderr_text()).filter(|text| !text.is_empty())
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        end_within(&mut self.child, EXIT_LIMIT);
    }
}

fn keep_lines(from: impl Read, stderr_tail: &Mutex<VecDeque<String>>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(4096).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = printable(text.trim());
                if std::env::var_os("REGATTA_LOG").is_some() {
                    eprintln!("{text}");
                }
                let mut stderr_tail = stderr_tail.lock();
                if !text.is_empty() {
                    if stderr_tail.len() == STDERR_TAIL_LINES {
                        stderr_tail.pop_front();
                    }
                    stderr_tail.push_back(text);
                }
            }
        }
    }
}
