//! Process of Regatta that exchanges messages over its standard streams, as lines of JSON.

use std::{
    fs::File,
    io::{self, BufReader},
    marker::PhantomData,
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use regatta_model::{Text, reason};
use regatta_process::{JsonLines, LastLines, MalformedLine, each_line, write_line};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    error::BedError,
    exit::Exit,
    launch::{Errors, Input, Launched, LaunchedProcess, Launcher},
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
    /// Exit of the process, or the reason why it is unknown; `None` if nothing is known.
    pub exit: Option<Exit>,
    /// Tail of the process's stderr; `None` if that was no pipe.
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

    /// Starts `regatta command` and returns it with its output, for a process that answers one request after another.
    pub(crate) fn launch(
        launcher: &mut dyn Launcher,
        command: &str,
        longest_line: u64,
    ) -> Result<(Self, Receiver<ChildOutput<In>>), BedError>
    where
        In: Send + 'static,
    {
        let launched = launcher.launch(command, Errors::Inherit)?;
        let (answers_tx, answers) = mpsc::channel();
        let put = move |output| answers_tx.send(output).is_ok();
        let child = Self::start(launched, command, longest_line, put);
        let child = child.map_err(|source| BedError::Spawn {
            what: command.to_owned(),
            source,
        })?;
        Ok((child, answers))
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

    /// Returns the process ID, on the host that the launcher starts processes on.
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

#[cfg(test)]
pub(crate) mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Starts processes of a shell with this script.
    #[derive(Debug)]
    pub(crate) struct Shell(pub(crate) &'static str);

    impl Launcher for Shell {
        fn launch(&mut self, _command: &str, _errors: Errors) -> Result<Launched, BedError> {
            let mut command = Command::new("sh");
            command.args(["-c", self.0]);
            let pipes = || Stdio::piped();
            command.stdin(pipes()).stdout(pipes()).stderr(pipes());
            Ok(command.spawn().unwrap().into())
        }
    }

    #[test]
    fn messages_other_lines_and_the_end_are_passed_on() {
        let mut shell = Shell("read line; echo $line; echo no; echo why >&2; exit 3");
        let (mut child, output) = JsonChild::<u64, u64>::launch(&mut shell, "it", 100).unwrap();
        child.send(&7).unwrap();
        assert!(matches!(output.recv(), Ok(ChildOutput::Message(7))));
        let Ok(ChildOutput::Malformed(line)) = output.recv() else {
            panic!("`no` is no number")
        };
        assert_eq!(line.text(), "no");
        assert!(matches!(output.recv(), Ok(ChildOutput::Ended(Ok(())))));
        assert!(output.recv().is_err());
        let end = child.end();
        let reasons: Vec<String> = end.reasons().iter().map(Text::to_string).collect();
        let expected = [
            "its process ended with exit status: 3",
            "its last lines of output: why",
        ];
        assert_eq!(
            (reasons, end.killed),
            (expected.map(String::from).into(), false)
        );
    }

    #[test]
    fn a_process_that_does_not_end_with_its_input_is_killed() {
        let mut shell = Shell("exec sleep 3600");
        let (child, output) = JsonChild::<u64, u64>::launch(&mut shell, "it", 100).unwrap();
        assert!(child.end().killed);
        assert!(matches!(output.recv(), Ok(ChildOutput::Ended(Ok(())))));
        let (mut child, output) = JsonChild::<u64, u64>::launch(&mut shell, "it", 100).unwrap();
        child.close_input();
        assert!(child.send(&7).is_err());
        drop(child);
        assert!(matches!(output.recv(), Ok(ChildOutput::Ended(Ok(())))));
    }
}
