//! Guests boot, and neither harm nor leave anything. Needs a User Mode Linux kernel, as
//! `scripts/need linux.uml` installs one.

use std::{
    fs, io,
    time::{Duration, Instant},
};

use regatta_bed::guest::testing::{Clock, in_guest, in_shared_guest};

mod shared {
    use super::*;

    fn is_here(case: &str) -> bool {
        in_shared_guest("shared", case, Clock::Real)
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

/// A minute of waiting takes no time, and exactly a minute.
#[test]
fn virtual_time_jumps_over_waits() {
    let begun = Instant::now();
    if !in_guest("virtual_time_jumps_over_waits", Clock::Virtual) {
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
