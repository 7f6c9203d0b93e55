//! Load and memory, from `/proc/loadavg` and `/proc/meminfo`.

use super::reading::{Value, Values};
use crate::file::bytes_of;

/// Adds the load average and the number of runnable tasks.
pub(super) fn read_load(text: &[u8], values: &mut Values) {
    let text = String::from_utf8_lossy(text);
    let mut fields = text.split_ascii_whitespace();
    let average = fields.next().and_then(|field| field.parse().ok());
    let runnable = fields.nth(2).and_then(|field| field.split_once('/'));
    let runnable = runnable.and_then(|(runnable, _)| runnable.parse().ok());
    add(values, "load.average_1min", average);
    add(values, "load.runnable_tasks", runnable);
}

fn add(values: &mut Values, name: &str, value: Option<f64>) {
    values.extend(value.map(|value| (name.to_owned(), Value::State(value))));
}

/// Adds memory in total and available, and the swap space in use, in bytes.
pub(super) fn read_memory(text: &[u8], values: &mut Values) {
    let bytes = |name| bytes_of(text, name).map(|bytes| bytes as f64);
    let swap = bytes("SwapTotal").zip(bytes("SwapFree"));
    add(values, "memory.total_bytes", bytes("MemTotal"));
    add(values, "memory.available_bytes", bytes("MemAvailable"));
    add(
        values,
        "memory.swap_used_bytes",
        swap.map(|(total, free)| total - free),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(read: fn(&[u8], &mut Values), text: &[u8]) -> Vec<(String, f64)> {
        let mut values = Values::new();
        read(text, &mut values);
        let state = |(name, value)| match value {
            Value::State(value) => (name, value),
            other => panic!("{name}: {other:?}"),
        };
        values.into_iter().map(state).collect()
    }

    #[test]
    fn load_is_read() {
        let load = values(read_load, b"0.52 0.40 0.30 3/421 12345\n");
        let expected = [("load.average_1min", 0.52), ("load.runnable_tasks", 3.0)];
        assert_eq!(load, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn truncated_load_yields_its_leading_values() {
        assert_eq!(values(read_load, b"").len(), 0);
        assert_eq!(values(read_load, b"0.52 0.4").len(), 1);
        assert_eq!(values(read_load, b"x y z 3").len(), 0);
        assert_eq!(values(read_load, b"\xff 1 2 3/4 5").len(), 1);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let text = b"MemTotal:       8000 kB\nMemFree: 1 kB\nMemAvailable:   6000 kB\n\
                     SwapTotal: 100 kB\nSwapFree: 40 kB\n";
        let expected = [
            ("memory.total_bytes", 8_192_000.0),
            ("memory.available_bytes", 6_144_000.0),
            ("memory.swap_used_bytes", 61_440.0),
        ];
        assert_eq!(
            values(read_memory, text),
            expected.map(|(name, value)| (name.to_owned(), value))
        );
    }

    #[test]
    fn malformed_memory_yields_nothing() {
        for text in [
            &b""[..],
            b"MemTotal",
            b"MemTotal:",
            b"MemTotal: 5",
            b"MemTotal: 5 MB",
            b"MemTotal: -5 kB",
            b"MemTotal: \xff kB",
            b"SwapTotal: 100 kB\n",
        ] {
            assert_eq!(values(read_memory, text), [], "{text:?}");
        }
    }
}
