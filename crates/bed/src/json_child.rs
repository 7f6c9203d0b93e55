//! Process of Regatta that exchanges messages over its standard streams, as lines of JSON.

use std::{
    fs::File,
    io::{self, BufReader},
    marker::PhantomData,
    sync::Arc,
    thread::{Builder, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use regatta_model::{Text, reason};
use regatta_process::{JsonLines, LastLines, MalformedLine, each_line, write_line};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    exit::Exit,
    launch::{Input, Launched, LaunchedProcess},
};

/// Time for a process to end by itself once its input is closed; after that it is killed.
const EXIT_LIMIT: Duration = Duration::from_secs(1);

/// Lines of a process's standard error that are kept to explain its end.
const STDERR_TAIL_LINES: usize = 12;

/// Longest line of standard error that is kept whole, in bytes.
const LONGEST_ERROR: u64 = 64 << 10;

/// Process that gets messages `Out` on its standard input and writes messages `In` to its standard output. Dropping this
/// ends the process: it closes the input, and kills a process that does not end then.
#[derive(Debug)]
pub struct JsonChild<Out, In> {
    input: Option<Box<dyn Input>>,
    process: Box<dyn LaunchedProcess>,
    has_ended: bool,
    stderr_tail: Arc<Mutex<LastLines>>,
    readers: Vec<JoinHandle<()>>,
    messages: PhantomData<fn(Out) -> In>,
}

/// Part of the output of a [`JsonChild`].
#[derive(Debug)]
pub enum ChildOutput<In> {
    /// A message.
    Message(In),
    /// A line that is no message.
    Malformed(MalformedLine),
    /// The end, with the error of an output that cannot be read any more. Nothing comes after it.
    Ended(io::Result<()>),
}

/// End of a process whose input was closed.
#[derive(Debug)]
pub struct ProcessEnd {
    /// Whether it was killed, as it did not end by itself.
    pub killed: bool,
    /// How it ended, or why it did not, if that is known.
    pub exit: Option<Exit>,
    /// Its last lines on standard error, if that was a pipe.
    pub last_lines: Option<Text>,
}

impl<Out: Serialize, In: DeserializeOwned> JsonChild<Out, In> {
    /// Starts to read the output of a process. Another thread calls `on_output` with each message, each other line and
    /// the end, until it returns false.
    ///
    /// # Errors
    /// The error of a thread; then the process was ended.
    pub fn start(
        launched: Launched,
        name: &str,
        longest_line: u64,
        mut on_output: impl FnMut(ChildOutput<In>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let mut child = Self {
            input: Some(launched.input),
            process: launched.process,
            has_ended: false,
            stderr_tail: Arc::new(Mutex::new(LastLines::new(STDERR_TAIL_LINES, ""))),
            readers: Vec::new(),
            messages: PhantomData,
        };
        let mut lines = JsonLines::new(BufReader::new(File::from(launched.output)), longest_line);
        child.read(format!("messages of {name}"), move || {
            loop {
                let output = match lines.receive().transpose() {
                    Some(Ok(Ok(message))) => ChildOutput::Message(message),
                    Some(Ok(Err(line))) => ChildOutput::Malformed(line),
                    Some(Err(error)) => ChildOutput::Ended(Err(error)),
                    None => ChildOutput::Ended(Ok(())),
                };
                let is_last = matches!(output, ChildOutput::Ended(_));
                if !on_output(output) || is_last {
                    return;
                }
            }
        })?;
        if let Some(errors) = launched.errors {
            // Nothing is written to it unless something is wrong or the user asked for logs, so that reading it costs no
            // measured core anything.
            let stderr_tail = Arc::clone(&child.stderr_tail);
            child.read(format!("errors of {name}"), move || {
                let keep = |line| stderr_tail.lock().keep(line);
                // Output that cannot be read any more has ended.
                let _ = each_line(BufReader::new(File::from(errors)), LONGEST_ERROR, keep);
            })?;
        }
        Ok(child)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Errors of writing; that the input was closed.
    pub fn send(&mut self, message: &Out) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        write_line(input, message)
    }
}

impl<Out, In> JsonChild<Out, In> {
    fn read(&mut self, name: String, read: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = Builder::new().name(name).spawn(read)?;
        self.readers.push(thread);
        Ok(())
    }

    /// Returns the number of the process at its launcher's host.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Closes the input, which ends a process that is well.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Waits for the end of a process whose output has ended; `None` if it goes on.
    pub fn exit(&mut self) -> Option<Exit> {
        self.process.ended(EXIT_LIMIT)
    }

    /// Closes the input, waits for the end of the process, and kills it if it does not end.
    pub fn end(mut self) -> ProcessEnd {
        self.finish()
    }

    fn finish(&mut self) -> ProcessEnd {
        self.has_ended = true;
        self.close_input();
        let exit = self.exit();
        let killed = exit.is_none();
        let exit = exit.or_else(|| self.process.kill());
        for reader in self.readers.drain(..) {
            // The process has ended, so its pipes are closed and the readers end.
            let _ = reader.join();
        }
        ProcessEnd {
            killed,
            exit,
            last_lines: self.stderr_tail.lock().description(),
        }
    }
}

impl<Out, In> Drop for JsonChild<Out, In> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.finish();
        }
    }
}

impl ProcessEnd {
    /// Whether somebody outside of the run ended or stopped the process.
    #[must_use]
    pub fn is_from_outside(&self) -> bool {
        self.exit.as_ref().is_some_and(Exit::is_from_outside)
    }

    /// Returns how the process ended and its last lines, as far as they are known.
    #[must_use]
    pub fn reasons(&self) -> Vec<Text> {
        let text = self.exit.as_ref().map(Exit::text);
        let exit = text.map(|text| match self.killed {
            true => text,
            false => reason::process_ended_with(text).into(),
        });
        exit.into_iter().chain(self.last_lines.clone()).collect()
    }
}
