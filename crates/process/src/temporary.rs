//! Temporary directories that are removed however their process ends.

use std::{
    env,
    fs::{self, DirBuilder},
    io::{self, PipeWriter},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf, absolute},
    process::{Child, Command, Stdio},
};

use nix::sys::signal::SigSet;

use crate::Preparation;

/// Script of the guard, which waits for the end of its standard input.
const GUARD: &str = r#"read -r _; exec rm -rf -- "$1""#;

/// Directory for temporary files of this process, readable for its owner alone. It is removed when this is dropped; if the process
/// ends before, also by `SIGKILL`, by a guard: a shell that waits for the end of a pipe.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
    guard: Option<(Child, PipeWriter)>,
}

impl TemporaryDirectory {
    /// Creates a directory whose name begins with `prefix`, where `TMPDIR` says.
    ///
    /// # Errors
    /// The error of the system. Without a shell the directory has no guard, which is no error.
    pub fn new(prefix: &str) -> io::Result<Self> {
        let mut random = [0; 16];
        // SAFETY: writes as many bytes as there are.
        let length = unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
        if length != random.len().cast_signed() {
            return Err(io::Error::last_os_error());
        }
        let name = format!("{prefix}{:032x}", u128::from_le_bytes(random));
        let path = absolute(env::temp_dir().join(name))?;
        // Before the directory, so that there is no moment without.
        let guard = guard(&path).ok();
        let directory = Self { path, guard };
        DirBuilder::new().mode(0o700).create(&directory.path)?;
        Ok(directory)
    }

    /// Returns the absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn guard(path: &Path) -> io::Result<(Child, PipeWriter)> {
    let (held, end) = io::pipe()?;
    let mut command = Command::new("sh");
    command
        .args(["-c", GUARD, "regatta-guard"])
        .arg(path)
        .current_dir("/")
        .stdin(held)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Preparation {
        signal_mask: Some(SigSet::empty()),
        // Signals of a terminal, and those to the group of this process, are not for the guard.
        session: true,
        ..Preparation::default()
    }
    .apply(&mut command);
    Ok((command.spawn()?, end))
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // What cannot be removed now, the guard cannot remove either.
        let _ = fs::remove_dir_all(&self.path);
        if let Some((mut guard, end)) = self.guard.take() {
            let _ = guard.kill();
            drop(end);
            let _ = guard.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        os::unix::process::CommandExt as _,
    };

    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

    use super::*;

    #[test]
    fn a_directory_is_removed_with_its_files_when_it_is_dropped() {
        let directory = TemporaryDirectory::new("regatta-test-").unwrap();
        let path = directory.path().to_owned();
        fs::write(path.join("file"), "text").unwrap();
        drop(directory);
        assert!(!path.exists());
    }

    /// Runs this test binary again, which prints a directory and waits to be killed.
    #[test]
    fn a_directory_is_removed_when_its_process_is_killed() {
        const CHILD: &str = "REGATTA_TEST_TEMPORARY_DIRECTORY";
        if env::var_os(CHILD).is_some() {
            let directory = TemporaryDirectory::new("regatta-test-").unwrap();
            fs::write(directory.path().join("file"), "text").unwrap();
            println!("\ndirectory {}", directory.path().display());
            std::thread::park();
        }
        let mut command = Command::new(env::current_exe().unwrap());
        let name = "temporary::tests::a_directory_is_removed_when_its_process_is_killed";
        command
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let path = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("directory ").map(PathBuf::from))
            .unwrap();
        let watch = Inotify::init(InitFlags::empty()).unwrap();
        watch
            .add_watch(&path, AddWatchFlags::IN_DELETE_SELF)
            .unwrap();
        // With its whole group, as a service manager may.
        let group = nix::unistd::Pid::from_raw(child.id().cast_signed());
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        watch.read_events().unwrap();
        assert!(!path.exists());
    }
}
