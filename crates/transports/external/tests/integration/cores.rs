//! Core files of programs that crash while their trial ends.

use std::{
    fs,
    os::fd::AsFd as _,
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::{
    inotify::{AddWatchFlags, InitFlags, Inotify},
    resource::{Resource, getrlimit},
};
use regatta_process::{ContainedProcess, readable};
use regatta_test_support::test_run::not_judged;

/// Program with 24 MiB that the kernel has to write when it aborts: a tenth of a second's work.
const PROGRAM: &str = "import os, resource
_, most = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
content = b'x' * (24 << 20)
os.abort()";

/// Returns the reason why a program leaves no core file in its working directory here.
fn without_cores() -> Option<String> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let pattern = pattern.trim();
    if pattern.is_empty() || pattern.contains(['|', '/']) {
        return Some(format!(
            "core files go elsewhere: core_pattern is `{pattern}`"
        ));
    }
    let (_, most) = getrlimit(Resource::RLIMIT_CORE).expect("a limit");
    (most < 128 << 20).then(|| format!("core files are limited to {most} bytes"))
}

/// Returns the length that the program headers of a core file say (ELF-64).
fn stated_length(core: &[u8]) -> u64 {
    let number = |at: usize| u64::from_le_bytes(*core[at..].first_chunk().expect("a number"));
    let short = |at: usize| usize::from(u16::from_le_bytes([core[at], core[at + 1]]));
    let (first, size, count) = (number(32) as usize, short(54), short(56));
    let ends = (0..count).map(|header| {
        let header = first + header * size;
        number(header + 8) + number(header + 32)
    });
    ends.max().expect("program headers")
}

#[test]
fn a_program_that_is_dropped_while_it_crashes_leaves_a_complete_core() {
    if let Some(reason) = without_cores() {
        return not_judged(&reason);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let watch = Inotify::init(InitFlags::IN_CLOEXEC).expect("a watch");
    (watch.add_watch(directory.path(), AddWatchFlags::IN_CREATE)).expect("watched");
    let mut command = Command::new("python3");
    command.args(["-c", PROGRAM]).current_dir(directory.path());
    let (process, _) = ContainedProcess::start(command, |_| {}).expect("started");
    let is_created = readable(&[watch.as_fd()], Some(Duration::from_secs(60)));
    assert!(is_created.expect("a wait"), "no core file");
    let began = Instant::now();
    drop(process);
    let taken = began.elapsed();
    assert!(taken < Duration::from_secs(4), "{taken:?}");
    let created = watch.read_events().expect("an event");
    let name = created[0].name.as_ref().expect("a name");
    let core = fs::read(directory.path().join(name)).expect("a core file");
    assert!(core.starts_with(b"\x7fELF"));
    assert!(core.len() as u64 >= 24 << 20, "{} bytes", core.len());
    assert_eq!(core.len() as u64, stated_length(&core));
}
