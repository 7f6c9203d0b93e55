//! Guests boot, and neither damage nor leave anything. Needs a User Mode Linux kernel, as
//! `scripts/need linux.uml` installs one.

use std::{
    fs, io,
    time::{Duration, Instant},
};

use regatta_test_support::{
    guest::{Clock, in_guest, in_shared_guest},
    test_run::TEST_RUN_DIR,
};

mod shared {
    use super::*;

    fn is_here(case: &str) -> bool {
        in_shared_guest("guest::shared", case, Clock::Real)
    }

    #[test]
    fn the_host_s_files_cannot_be_written() {
        if !is_here("the_host_s_files_cannot_be_written") {
            return;
        }
        let own = std::env::current_dir().expect("a directory");
        for directory in ["/", "/etc", "/tmp", "/root", "/var/tmp"]
            .into_iter()
            .map(std::path::Path::new)
            .chain([own.as_path()])
        {
            let error = fs::write(directory.join("regatta-was-here"), "x").expect_err("read-only");
            assert!(
                matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
                ),
                "{}: {error}",
                directory.display()
            );
        }
        // A guest's root may make its own view writable, and the host still says no.
        nix::mount::mount(
            None::<&str>,
            "/",
            None::<&str>,
            nix::mount::MsFlags::MS_REMOUNT,
            None::<&str>,
        )
        .expect("a writable view");
        let error = fs::write("/var/tmp/regatta-was-here", "x").expect_err("read-only");
        assert_eq!(error.raw_os_error(), Some(libc::EROFS), "{error}");
        assert!(fs::remove_file("/etc/hostname").is_err());
        fs::write(std::env::temp_dir().join("scratch"), "x").expect("a place of its own");
    }

    #[test]
    fn every_congestion_control_can_be_chosen() {
        if !is_here("every_congestion_control_can_be_chosen") {
            return;
        }
        let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .expect("a list");
        for name in ["cubic", "reno", "bbr", "hybla", "westwood", "htcp", "vegas"] {
            assert!(
                available.split_whitespace().any(|it| it == name),
                "{name}: {available}"
            );
        }
    }

    #[test]
    fn sctp_and_room_for_it() {
        if !is_here("sctp_and_room_for_it") {
            return;
        }
        // SAFETY: takes numbers only.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP) };
        assert!(socket >= 0, "{}", io::Error::last_os_error());
        let room = fs::read_to_string("/proc/sys/net/sctp/sctp_rmem").expect("a switch");
        assert!(room.contains("134217728"), "{room}");
    }
}

mod real_time {
    use regatta_test_support::machine::MachineLoad;

    use super::*;

    /// A minute of waiting takes no time, and exactly a minute.
    #[test]
    fn virtual_time_jumps_over_waits() {
        let _load = MachineLoad::watch();
        let begun = Instant::now();
        if !in_guest(
            "guest::real_time::virtual_time_jumps_over_waits",
            Clock::Virtual,
        ) {
            assert!(
                begun.elapsed() < Duration::from_secs(50),
                "{:?}",
                begun.elapsed()
            );
            return;
        }
        std::thread::sleep(Duration::from_secs(60));
        let slept = begun.elapsed();
        assert!((60.0..60.001).contains(&slept.as_secs_f64()), "{slept:?}");
    }
}

/// Cases that fail in a guest, for the test below. In the order of their names the last one passes.
mod fails {
    use std::process::Command;

    use super::*;

    fn is_here(case: &str) -> bool {
        in_shared_guest("guest::fails", case, Clock::Real)
    }

    #[test]
    #[ignore = "fails"]
    fn a_panic() {
        if is_here("a_panic") {
            println!("before the panic");
            panic!("it panics");
        }
    }

    #[test]
    #[ignore = "fails"]
    fn an_abort() {
        if is_here("an_abort") {
            std::process::abort();
        }
    }

    #[test]
    #[ignore = "fails"]
    #[expect(clippy::zombie_processes, reason = "the guest ends with its processes")]
    fn a_leaked_process() {
        if is_here("a_leaked_process") {
            let _leaked = Command::new("sleep").arg("1000").spawn().expect("a child");
        }
    }

    #[test]
    #[ignore = "its module fails"]
    fn nothing() {
        if is_here("nothing") {
            println!("all is well");
        }
    }
}

/// A case that ends its guest.
mod ends {
    use super::*;

    #[test]
    #[ignore = "fails"]
    fn the_guest() {
        if in_shared_guest("guest::ends", "the_guest", Clock::Real) {
            let _ = nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_POWER_OFF);
        }
    }
}

#[test]
fn a_failure_in_a_guest_fails_only_its_case() {
    let test_run = tempfile::tempdir().expect("a directory");
    let run = |case: &str| {
        let output = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args([case, "--exact", "--ignored", "--nocapture"])
            .env(TEST_RUN_DIR, test_run.path())
            .output()
            .expect("this program runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        println!("{text}");
        (output.status.success(), text)
    };
    for (case, passes, expected) in [
        ("guest::fails::a_panic", false, "before the panic"),
        ("guest::fails::an_abort", false, "SIGABRT"),
        ("guest::fails::a_leaked_process", false, "outlives it"),
        ("guest::fails::nothing", true, "all is well"),
        ("guest::ends::the_guest", false, "did not end in its guest"),
    ] {
        let (passed, text) = run(case);
        assert_eq!(passed, passes, "{case}");
        assert!(text.contains(expected), "{case}: no `{expected}`");
        assert!(!text.contains("it panics") || case == "guest::fails::a_panic");
    }
}
