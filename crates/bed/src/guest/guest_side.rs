//! Communication of a program in a guest with the controller.
//!
//! Files are the way: the guest writes them through to the host at once, without waiting for an
//! answer, so that its clock takes no notice. A serial line would have the guest wait for the
//! host, which a virtual clock does not survive.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use regatta_model::units::nanoseconds;

use regatta_forwarder::clock::monotonic_ns;

/// Directory that both sides write to, in the daemon's own memory.
pub(super) const EXCHANGE: &str = "/run/regatta/exchange";

/// Path at which a guest sees the directory of [`super::Order::files`].
pub const FILES: &str = "/run/regatta/files";

/// Directory of messages, each a file of its own that the daemon removes once it is read, so that a
/// long run does not fill the memory.
pub(super) const MESSAGES: &str = "messages";

/// Whether this kernel is a User Mode Linux.
#[must_use]
pub fn is_guest() -> bool {
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"))
}

/// Returns the payload that the controller gave the program of this guest.
///
/// # Errors
/// If this is no guest, or its exchange cannot be read.
pub fn payload() -> io::Result<String> {
    fs::read_to_string(exchange("payload"))
}

/// Sends a message to the controller. Messages arrive in the order in which they were sent.
///
/// # Errors
/// If this is no guest, or its exchange cannot be written.
pub fn send_message(text: &str) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    write_message(COUNT.fetch_add(1, Ordering::SeqCst), text)
}

/// Writes a message under a number; messages are read in the order of their numbers.
fn write_message(number: u32, text: &str) -> io::Result<()> {
    let messages = exchange(MESSAGES);
    // Written beside and then renamed, so that the daemon never sees half of it.
    let unfinished = messages.join(format!("{number:010}.part"));
    fs::write(&unfinished, text)?;
    fs::rename(unfinished, messages.join(format!("{number:010}")))
}

/// Grain of the kernel's timers for up to 40 s, with its 100 ticks a second: beyond each power of
/// eight its wheel rounds a timer to eight times as many ticks.
const LONG_TIMER: Duration = Duration::from_millis(5120);

/// Grain of the kernel's timers for up to 5 s.
const SHORT_TIMER: Duration = Duration::from_millis(80);

/// Time for which the kernel remembers a closed connection (`TIME_WAIT`), with the grain of its timer.
const REMEMBERED: Duration = Duration::from_millis(60_000 + 5120);

/// Waits until nothing is left of connections that were closed before, and the monotonic clock is a whole multiple of
/// what the kernel's timers are rounded to.
///
/// Work that starts then finds every timer in the same place, whatever there was before it and however long it took. With
/// a virtual clock the wait costs little if no program runs at intervals.
pub fn wait_for_timers() {
    wait_for_multiple(LONG_TIMER, REMEMBERED);
}

/// Waits as [`wait_for_timers`] does, but not for what is left of connections: for work that has its own times.
pub fn wait_for_long_timers() {
    wait_for_multiple(LONG_TIMER, Duration::ZERO);
}

/// Waits until the monotonic clock is a whole multiple of what the kernel's short timers are rounded to, so that
/// preparations that took some microseconds more or less make no difference.
pub fn wait_for_short_timers() {
    wait_for_multiple(SHORT_TIMER, Duration::ZERO);
}

fn wait_for_multiple(grain: Duration, at_least: Duration) {
    let [grain, at_least] = [grain, at_least].map(nanoseconds);
    let earliest = monotonic_ns() + at_least;
    let until = earliest - earliest % grain + grain;
    thread::sleep(Duration::from_nanos(until.saturating_sub(monotonic_ns())));
}

/// Seeds the kernel's random numbers and credits the entropy, so that no program waits for entropy that never comes.
/// Numbers that are drawn from now on follow from the seed alone, with a kernel that forgets what was in its pool
/// (lab/virtual-time.patch); with another one also from what was drawn before.
///
/// # Errors
/// The device's error.
pub fn seed_random_numbers(seed: u64) -> io::Result<()> {
    #[repr(C)]
    struct PoolInfo {
        entropy_bits: i32,
        bytes: i32,
        pool: [u64; 4],
    }
    // `RNDADDENTROPY`, `RNDCLEARPOOL` and `RNDRESEEDCRNG` of linux/random.h.
    const ADD_ENTROPY: libc::Ioctl = 0x4008_5203;
    const CLEAR_POOL: libc::Ioctl = 0x5206;
    const RESEED: libc::Ioctl = 0x5207;
    let info = PoolInfo {
        entropy_bits: 256,
        bytes: 32,
        pool: [seed, !seed, seed.rotate_left(32), 0x7265_6761_7474_6121],
    };
    let device = OpenOptions::new().write(true).open("/dev/urandom")?;
    // SAFETY: the structure is the one that the second request takes, the others take none, and the device is open.
    let failed = unsafe {
        libc::ioctl(device.as_raw_fd(), CLEAR_POOL) != 0
            || libc::ioctl(device.as_raw_fd(), ADD_ENTROPY, &raw const info) != 0
            || libc::ioctl(device.as_raw_fd(), RESEED) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether random numbers follow from the last seed alone: the same seed gives the same number again.
///
/// # Errors
/// As [`seed_random_numbers`], and errors of reading random numbers.
pub fn forgets_random_numbers() -> io::Result<bool> {
    let drawn = || {
        seed_random_numbers(1)?;
        let mut number = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut number)?;
        Ok::<_, io::Error>(number)
    };
    Ok(drawn()? == drawn()?)
}

/// Returns the path of a file of the exchange.
pub(super) fn exchange(name: &str) -> PathBuf {
    Path::new(EXCHANGE).join(name)
}
