//! CPU time of each core, from `/proc/stat`.

use super::reading::{Value, Values};
use crate::{file, host_cpu::times};

/// Adds the times of every core that is online.
pub(super) fn read(text: &[u8], tick_ns: i64, values: &mut Values) {
    for line in file::lines(text) {
        // The first lines of the file are those of the cores.
        let Some(rest) = line.strip_prefix(b"cpu") else {
            break;
        };
        let Some((core, times)) = core(rest, tick_ns) else {
            continue;
        };
        let mut put = |name: &str, value| values.push((format!("cpu.{core}.{name}"), value));
        let [user, nice, system, idle, iowait, irq, softirq, steal] = times;
        // The kernel charges work to whatever runs at the tick, and misses what is shorter; the time
        // without work it measures.
        put("busy_ratio", Value::Remaining(idle + iowait + steal));
        put("user_ratio", Value::Time(user + nice));
        put("system_ratio", Value::Time(system + irq));
        put("softirq_ratio", Value::Time(softirq));
        put("iowait_ratio", Value::Time(iowait));
        put("steal_ratio", Value::Time(steal));
        put("idle_ratio", Value::Time(idle));
    }
}

/// Returns the number of a core and its times in nanoseconds; `None` for the sum of all cores and for
/// what is not understood.
fn core(rest: &[u8], tick_ns: i64) -> Option<(u32, [i64; 8])> {
    let end = rest.iter().position(u8::is_ascii_whitespace)?;
    let core = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((core, times(&rest[end..], tick_ns)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &[u8]) -> Values {
        let mut values = Values::new();
        read(text, 10, &mut values);
        values
    }

    #[test]
    fn times_are_per_core_without_the_total() {
        let values = values(
            b"cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu12 1 0 0 0 0 0 0 0 0 0\nintr 5\n",
        );
        assert_eq!(values.len(), 14);
        let expected = [
            ("cpu.0.busy_ratio", Value::Remaining(170)),
            ("cpu.0.user_ratio", Value::Time(30)),
            ("cpu.0.system_ratio", Value::Time(90)),
            ("cpu.0.softirq_ratio", Value::Time(70)),
            ("cpu.0.iowait_ratio", Value::Time(50)),
            ("cpu.0.steal_ratio", Value::Time(80)),
            ("cpu.0.idle_ratio", Value::Time(40)),
        ];
        assert_eq!(
            values[..7],
            expected.map(|(name, value)| (name.to_owned(), value))
        );
        assert_eq!(values[7].0, "cpu.12.busy_ratio");
    }

    #[test]
    fn malformed_file_yields_nothing() {
        for text in [
            &b""[..],
            b"cpu",
            b"cpu0",
            b"cpu0 1 2 3",
            b"cpux 1 2 3 4 5 6 7 8",
            b"cpu0 1 2 3 4 5 6 7 x",
            b"cpu99999999999 1 2 3 4 5 6 7 8",
            b"cpu0 1 2 3 4 5 6 7 18446744073709551615",
            b"cpu0 1 2 3 900000000000000000 5 6 7 8",
            b"\xff\xfecpu0 1 2 3 4 5 6 7 8",
        ] {
            assert_eq!(values(text), [], "{text:?}");
        }
    }
}
