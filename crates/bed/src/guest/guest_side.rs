//! Communication of a program in a guest with the controller.
//!
//! Files are the way: the guest writes them through to the host at once, without waiting for an
//! answer, so that its clock takes no notice. A serial line would have the guest wait for the
//! host, which a virtual clock does not survive.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use regatta_model::units::nanoseconds;

use crate::path_daemon::monotonic_ns;

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
const TIMER_GRAIN: Duration = Duration::from_millis(5120);

/// Waits until the monotonic clock is a whole multiple of what the kernel's timers are rounded to.
///
/// Work that starts then finds every timer in the same place, however long the work before it took. With a virtual
/// clock the wait costs nothing if no program runs at intervals.
pub fn wait_for_timers() {
    let grain = nanoseconds(TIMER_GRAIN);
    let remaining_ns = grain - monotonic_ns() % grain;
    thread::sleep(Duration::from_nanos(remaining_ns));
}

/// Returns the path of a file of the exchange.
pub(super) fn exchange(name: &str) -> PathBuf {
    Path::new(EXCHANGE).join(name)
}
