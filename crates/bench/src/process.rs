//! Processes under measurement: CPU time of each, all threads, from `wait4`.

use std::{
    fs::File,
    io::{self, Read, Write as _},
    mem,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use regatta_bed::{ChildProcess, Input, Launched, LaunchedProcess};

use crate::error::BenchError;

/// Running process with pipes for input and output; killed and waited for if it is dropped before
/// [`Running::finish`].
#[derive(Debug)]
pub struct Running {
    process: Option<Box<dyn LaunchedProcess>>,
    input: Option<Box<dyn Input>>,
    output: Option<File>,
    command: String,
}

impl Running {
    /// Starts a process.
    ///
    /// # Errors
    /// [`BenchError::Process`] if it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, BenchError> {
        let shown = format!("{command:?}").replace('"', "");
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| BenchError::process(&shown, error.to_string()))?;
        Ok(Self {
            input: child.stdin.take().map(|pipe| Box::new(pipe) as _),
            output: child.stdout.take().map(|pipe| OwnedFd::from(pipe).into()),
            process: Some(Box::new(ChildProcess::from(child))),
            command: shown,
        })
    }

    /// Takes over a process that a bed has started.
    pub fn adopt(launched: Launched, command: impl Into<String>) -> Self {
        Self {
            process: Some(launched.process),
            input: Some(launched.input),
            output: Some(launched.output.into()),
            command: command.into(),
        }
    }

    /// Writes to the standard input of the process.
    ///
    /// # Errors
    /// [`BenchError::Io`] if the process has ended.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        match &mut self.input {
            Some(input) => Ok(input.write_all(bytes)?),
            None => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        }
    }

    /// Returns the standard output of the process, once.
    ///
    /// # Errors
    /// [`BenchError::Process`] if it was taken.
    pub fn output(&mut self) -> Result<File, BenchError> {
        let output = self.output.take();
        output.ok_or_else(|| BenchError::process(&self.command, "its output was taken"))
    }

    /// Closes the standard input of the process and waits for its end; returns its CPU time.
    ///
    /// # Errors
    /// [`BenchError::Process`] if it ends with anything but success.
    pub fn finish(mut self) -> Result<Duration, BenchError> {
        self.input = None;
        let Some(process) = self.process.take() else {
            return Ok(Duration::ZERO);
        };
        let (status, cpu_time) = wait(process.id())?;
        match status.success() {
            true => Ok(cpu_time),
            false => Err(BenchError::process(&self.command, status.to_string())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            process.kill();
        }
    }
}

/// Waits for a child of this process and reaps it, so that it cannot be waited for again. Returns
/// the CPU time of all its threads and of the children that it waited for, user and system.
fn wait(process: u32) -> io::Result<(ExitStatus, Duration)> {
    let mut status = 0;
    // SAFETY: all zeros is a valid rusage: it is plain numbers.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    loop {
        // SAFETY: both places are valid for writing, and the process is an unreaped child of ours,
        // so that its identifier cannot have been given to another one.
        let waited =
            unsafe { libc::wait4(process.cast_signed(), &raw mut status, 0, &raw mut usage) };
        if waited >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let duration = |time: libc::timeval| {
        let microseconds = u32::try_from(time.tv_usec).unwrap_or_default();
        Duration::new(time.tv_sec.unsigned_abs(), microseconds * 1000)
    };
    let cpu_time = duration(usage.ru_utime) + duration(usage.ru_stime);
    Ok((ExitStatus::from_raw(status), cpu_time))
}

/// Reads all of an output in a thread, so that a process never blocks on a full pipe.
pub fn collect(mut output: File) -> thread::JoinHandle<io::Result<String>> {
    thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text)?;
        Ok(text)
    })
}

/// Returns the text that [`collect`] has read.
///
/// # Errors
/// [`BenchError::Io`] if it could not be read.
pub fn collected(reader: thread::JoinHandle<io::Result<String>>) -> Result<String, BenchError> {
    reader
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the reader panicked")))
        .map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_excludes_other_processes() {
        let mut busy = Running::start(
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]),
        )
        .expect("started");
        let output = collect(busy.output().expect("an output"));
        let usage = busy.finish().expect("success");
        assert_eq!(collected(output).expect("read"), "");
        let idle = Running::start(Command::new("sleep").arg("0.2")).expect("started");
        let none = idle.finish().expect("success");
        assert!(
            usage.as_secs_f64() > 10.0 * none.as_secs_f64(),
            "{usage:?} {none:?}"
        );
    }

    #[test]
    fn a_failed_process_reports_its_exit_status() {
        let failing = Running::start(Command::new("sh").args(["-c", "exit 3"])).expect("started");
        let error = failing.finish().expect_err("it failed");
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }
}
