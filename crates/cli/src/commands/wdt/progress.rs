//! Progress of a transfer: a bar on a terminal, and one line at the end.

use std::{
    io::{self, IsTerminal},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use regatta_model::{BitRate, Bytes};
use regatta_process::spawn_scoped;

use crate::{listen::bar, output};

/// Interval between updates of the bar.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a transfer with a progress bar. `transferred` returns the number of bytes transferred, and the
/// total once it is known.
pub(super) fn shown<T>(
    silent: bool,
    transferred: impl Fn() -> (u64, Option<u64>) + Sync,
    transfer: impl FnOnce() -> T,
) -> T {
    if silent || !io::stderr().is_terminal() {
        return transfer();
    }
    let bar = bar("{wide_bar} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}");
    thread::scope(|scope| {
        let (stop_tx, stop_rx) = channel::<()>();
        let (bar, transferred) = (&bar, &transferred);
        // Without a thread there is no bar.
        let _ = spawn_scoped(scope, move || {
            while stop_rx.recv_timeout(UPDATE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let (bytes, all) = transferred();
                if let Some(all) = all {
                    bar.set_length(all);
                }
                bar.set_position(bytes);
            }
            bar.finish_and_clear();
        });
        let done = transfer();
        drop(stop_tx);
        done
    })
}

/// Prints the result of a transfer that succeeded.
pub(super) fn summary(verb: &str, files: u64, bytes: u64, since: Instant) {
    let time = since.elapsed();
    let rate = bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9);
    output::err(&format!(
        "{verb} {}, {} in {:.1} s ({})",
        output::counted(files as usize, "file"),
        Bytes(bytes),
        time.as_secs_f64(),
        BitRate(rate as u64)
    ));
}
