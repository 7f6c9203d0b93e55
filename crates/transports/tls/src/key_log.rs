//! Log of the secrets of connections in a file, so that Wireshark can read a capture of them.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;
use regatta_transport::create_replacing;
use rustls::KeyLog;

/// File of secrets, as lines of `label client_random secret`, hexadecimal, as named by
/// `SSLKEYLOGFILE` in other programs.
struct KeyLogFile(Mutex<File>);

impl fmt::Debug for KeyLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLogFile")
    }
}

fn line(label: &str, client_random: &[u8], secret: &[u8]) -> String {
    let [client_random, secret] = [client_random, secret]
        .map(|bytes| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() });
    format!("{label} {client_random} {secret}\n")
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        // One write for a line. A full disk costs the log and not the connection.
        let line = line(label, client_random, secret);
        let _ = self.0.lock().write_all(line.as_bytes());
    }
}

/// Makes a log of secrets in a new file, for `key_log` of a configuration of rustls. An older file
/// of that name is replaced; only its owner can read it.
///
/// # Errors
/// The error of a file that cannot be made.
pub fn key_log(path: &Path) -> io::Result<Arc<dyn KeyLog>> {
    let file = create_replacing(path, 0o600)?;
    Ok(Arc::new(KeyLogFile(Mutex::new(file))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_nss_key_log_format() {
        assert_eq!(
            line("CLIENT_TRAFFIC_SECRET_0", &[0, 0x0a, 0xff], &[0x10]),
            "CLIENT_TRAFFIC_SECRET_0 000aff 10\n"
        );
    }
}
