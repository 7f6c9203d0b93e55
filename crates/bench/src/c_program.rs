//! Least programs in C, compiled when they are needed.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    error::BenchError,
    process::{self, Running},
    rounds::Figures,
};

/// What a program is made of.
#[derive(Debug)]
pub struct Source {
    /// Name of the executable.
    pub name: &'static str,
    /// Text of the program.
    pub text: &'static str,
    /// Options of the compiler for its libraries.
    pub libraries: &'static [&'static str],
    /// Name and command to type where compiler or library are missing.
    pub missing: [&'static str; 2],
}

/// A compiled program, with the commands `receive` and `send`.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    path: PathBuf,
}

impl Program {
    /// Compiles the program beside this executable.
    ///
    /// # Errors
    /// [`BenchError::Missing`] without a compiler or the library.
    pub fn compile(source: &Source, executable: &Path) -> Result<Self, BenchError> {
        let path = executable.with_file_name(source.name);
        let [program, hint] = source.missing;
        let missing = || BenchError::Missing { program, hint };
        let mut compiler = Command::new("cc")
            .args(["-O2", "-x", "c", "-", "-o"])
            .arg(&path)
            .args(source.libraries)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => missing(),
                _ => error.into(),
            })?;
        if let Some(mut input) = compiler.stdin.take() {
            // A compiler that ends early reports it with its exit code.
            let _ = input.write_all(source.text.as_bytes());
        }
        match compiler.wait()?.success() {
            true => Ok(Self {
                name: source.name,
                path,
            }),
            false => Err(missing()),
        }
    }

    /// Makes one transfer: starts `receive` with its arguments, and `send` with those that follow from the first line that
    /// the receiver prints, when it listens. Returns the receiver's bytes and time.
    ///
    /// # Errors
    /// [`BenchError::Process`] if it fails.
    pub fn race(
        &self,
        receive: &[String],
        send: impl FnOnce(&str) -> Vec<String>,
    ) -> Result<Figures, BenchError> {
        let command = |role: &str, arguments: &[String]| {
            Running::start(Command::new(&self.path).arg(role).args(arguments))
        };
        let mut receiver = command("receive", receive)?;
        let mut receiver_output = BufReader::new(receiver.output()?);
        let mut ready = String::new();
        receiver_output.read_line(&mut ready)?;
        let sender = command("send", &send(ready.trim()))?;
        let rest = process::collect(receiver_output.into_inner());
        let cpu_time = sender.finish()? + receiver.finish()?;
        let output = process::collected(rest)?;
        let (delivered_bytes, seconds) = received(&output).ok_or_else(|| {
            let message = format!("it said `{}`", output.trim());
            BenchError::process(format!("{} receive", self.name), message)
        })?;
        Ok(Figures {
            delivered_bytes,
            seconds,
            cpu_seconds: cpu_time.as_secs_f64(),
            lost_ratio: None,
        })
    }
}

/// Returns the receiver's figures, bytes and seconds, of a line `BYTES NANOSECONDS`.
fn received(output: &str) -> Option<(f64, f64)> {
    let (bytes, ns) = output.trim().split_once(' ')?;
    let (bytes, ns): (f64, f64) = (bytes.parse().ok()?, ns.parse().ok()?);
    (bytes > 0.0 && ns > 0.0).then_some((bytes, ns / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivered_bytes_are_those_of_the_receiver() {
        assert_eq!(received("300 2000000000\n"), Some((300.0, 2.0)));
        for wrong in ["", "300", "300 x", "0 5"] {
            assert_eq!(received(wrong), None, "{wrong}");
        }
    }
}
