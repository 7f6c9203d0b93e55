//! Quantities with their units, as users write them and as files carry them.
//!
//! SI prefixes are powers of 1000, IEC prefixes powers of 1024; `b` is bit, `B` is byte. A study
//! file carries text (`"30ms"`, `"100Mbit/s"`); JSON carries plain numbers under names that end
//! in the unit (`_ns`, `_bytes`, `_bps`, `_ratio`).

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// Error for a text that is not a quantity of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnitError {
    /// Description of the error, with the offending text in backticks.
    pub message: String,
    /// Hint on what to type instead.
    pub hint: String,
}

impl UnitError {
    /// Creates an error.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// Returns the beginning of a line for messages, without characters that control a terminal.
pub(crate) fn beginning(line: &str) -> String {
    let shown: String = line.chars().take(40).collect();
    shown.escape_debug().to_string()
}

/// An amount of data in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BitRate(pub u64);

/// A part of a whole, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

impl Ratio {
    /// Ratio of zero.
    pub const ZERO: Self = Self(0.0);

    /// Rounds to a number of decimals of its percentage.
    #[must_use]
    pub fn rounded(self, decimals: i32) -> Self {
        let steps = 10_f64.powi(decimals + 2);
        Self((self.0 * steps).round() / steps)
    }
}

/// Limit of a queue, as a user writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueSize {
    /// Number of bytes of whole IP packets.
    Bytes(Bytes),
    /// Number of packets of any size.
    Packets(u64),
    /// Multiple of the path's bandwidth-delay product.
    Bdps(f64),
}

/// Splits `"12.5 ms"` into the number and the unit.
pub(crate) fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | '_')))
        .unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

fn whole(value: f64, what: &str, text: &str) -> Result<u64, UnitError> {
    let (wrong, hint) = match value {
        v if v < 0.0 => ("cannot be negative", "write a number of zero or more"),
        v if v > 9.0e18 => ("is too large", "write a smaller one"),
        v if v > 0.0 && v < 0.5 => (
            "is too small, and would be zero",
            "write a larger one, or 0",
        ),
        _ => return Ok(value.round() as u64),
    };
    Err(UnitError::new(format!("{what} {wrong}: `{text}`"), hint))
}

/// Reads a number with a unit, and multiplies it by the `factor` of the unit, `None` for an unknown one. `kind` names the
/// quantity in messages, such as `size`.
fn scaled(
    text: &str,
    kind: &str,
    hint: &str,
    factor: impl Fn(&str) -> Option<f64>,
) -> Result<f64, UnitError> {
    let wrong = |message| UnitError::new(message, hint);
    let (number, unit) = split(text).ok_or_else(|| wrong(format!("`{text}` is not a {kind}")))?;
    match (factor(unit), unit) {
        (Some(factor), _) => Ok(number * factor),
        (None, "") if number == 0.0 && kind == "time" => Ok(0.0),
        (None, "") => Err(wrong(format!("`{text}` has no unit of {kind}"))),
        (None, _) => Err(wrong(format!("`{unit}` is not a unit of {kind}"))),
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const HINT: &str = "write a size such as `10MB` (1000 × 1000) or `10MiB` (1024 × 1024)";
        let bytes = scaled(text, "size", HINT, |unit| {
            Some(match unit {
                "B" => 1.0,
                "kB" | "KB" => 1e3,
                "MB" => 1e6,
                "GB" => 1e9,
                "TB" => 1e12,
                "KiB" => 1024.0,
                "MiB" => 1024.0 * 1024.0,
                "GiB" => 1024.0 * 1024.0 * 1024.0,
                "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
                _ => return None,
            })
        })?;
        if (bytes - bytes.round()).abs() > 1e-6 {
            let message = format!("`{text}` is not a whole number of bytes");
            return Err(UnitError::new(message, HINT));
        }
        whole(bytes, "a size", text).map(Bytes)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const HINT: &str = "write a rate such as `100Mbit/s` (1000 × 1000 bits per second)";
        let rate = scaled(text, "rate", HINT, |unit| {
            if let Some(prefix) = unit.strip_suffix("B/s").or(unit.strip_suffix("Bps")) {
                let bytes = match prefix {
                    "" => 1.0,
                    "k" | "K" => 1e3,
                    "M" => 1e6,
                    "G" => 1e9,
                    "Ki" => 1024.0,
                    "Mi" => 1024.0 * 1024.0,
                    "Gi" => 1024.0 * 1024.0 * 1024.0,
                    _ => return None,
                };
                return Some(bytes * 8.0);
            }
            // In capitals alone it could be either.
            if unit.ends_with("BPS") || unit.ends_with("B/S") {
                return None;
            }
            Some(match unit.to_ascii_lowercase().as_str() {
                "bit/s" | "bps" | "bit" => 1.0,
                // A prefix alone is one of bits per second, as iperf3 has it.
                "kbit/s" | "kbps" | "kbit" | "k" => 1e3,
                "mbit/s" | "mbps" | "mbit" | "m" => 1e6,
                "gbit/s" | "gbps" | "gbit" | "g" => 1e9,
                "tbit/s" | "tbps" | "tbit" | "t" => 1e12,
                _ => return None,
            })
        })?;
        whole(rate, "a rate", text).map(BitRate)
    }
}

impl FromStr for Ratio {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const HINT: &str = "write a ratio such as `5%`";
        let wrong = |message| Err(UnitError::new(message, HINT));
        let Some((number, unit)) = split(text) else {
            return wrong(format!("`{text}` is not a ratio"));
        };
        let value = match unit {
            "%" => {
                let digits = text.trim().trim_end_matches('%').trim_end();
                format!("{digits}e-2").parse().unwrap_or(number / 100.0)
            }
            "" if number == 0.0 => number,
            _ if number < 0.0 => return wrong(format!("a ratio cannot be negative: `{text}`")),
            // A user of tc means 1 %, one of iptables all of it.
            "" if number <= 1.0 => {
                let percent = short(number * 100.0);
                return Err(UnitError::new(
                    format!("`{text}` could be {number} % or {percent} %"),
                    format!("write `{number}%` or `{percent}%`"),
                ));
            }
            "" => {
                let hint = match number {
                    ..=100.0 => format!("write `{number}%`"),
                    _ => HINT.to_owned(),
                };
                return Err(UnitError::new(format!("`{text}` has no unit"), hint));
            }
            _ => return wrong(format!("`{unit}` is not a unit of ratio")),
        };
        if !(0.0..=1.0).contains(&value) {
            return Err(UnitError::new(
                format!("`{text}` is not between 0 % and 100 %"),
                "write a ratio from `0%` to `100%`",
            ));
        }
        Ok(Ratio(value))
    }
}

impl FromStr for QueueSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const HINT: &str = "write a queue such as `375kB`, `100 packets` or `2 BDP`";
        let wrong = |message| UnitError::new(message, HINT);
        let (number, unit) =
            split(text).ok_or_else(|| wrong(format!("`{text}` is not a size of a queue")))?;
        match unit {
            "packet" | "packets" => {
                let packets = whole(number, "a number of packets", text)?;
                if packets as f64 != number {
                    return Err(wrong(format!("`{text}` is no whole number of packets")));
                }
                Ok(Self::Packets(packets))
            }
            "BDP" | "BDPs" | "bdp" if number > 0.0 && number <= 1e6 => Ok(Self::Bdps(number)),
            "BDP" | "BDPs" | "bdp" => Err(wrong(format!("a queue cannot hold `{text}`"))),
            _ => match text.parse() {
                Ok(bytes) => Ok(Self::Bytes(bytes)),
                Err(UnitError { message, .. }) => Err(wrong(message)),
            },
        }
    }
}

impl fmt::Display for QueueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Packets(1) => f.write_str("1 packet"),
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bdps(times) => write!(f, "{times} BDP"),
        }
    }
}

/// Parses a time span such as `30ms`, `1.5s`, `250us`, `2min`, `6h`, `1d`.
///
/// # Errors
/// [`UnitError`] for a text without a unit of time, and for a negative or too large one.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const HINT: &str = "write a number with `us`, `ms`, `s`, `min`, `h` or `d`, such as `30ms`";
    let nanoseconds = scaled(text, "time", HINT, |unit| {
        Some(match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "min" | "m" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            _ => return None,
        })
    })?;
    whole(nanoseconds, "a time", text).map(Duration::from_nanos)
}

/// Rounds to three decimals and drops trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes a number in the largest of `units`, each a thousand times the one before, in which it is at least 1.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[&str]) -> fmt::Result {
    let power = (value.max(1).ilog10() as usize / 3).min(units.len() - 1);
    let scaled = value as f64 / 1000_f64.powi(power as i32);
    write!(f, "{} {}", short(scaled), units[power])
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &["B", "kB", "MB", "GB", "TB"])
    }
}

impl Bytes {
    /// Formats the size without rounding: in the usual unit, or in one of 1024 or in bytes where that loses something.
    #[must_use]
    pub fn exact(self) -> String {
        let usual = self.to_string();
        if usual.parse() == Ok(self) {
            return usual;
        }
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let unit = units.iter().find(|(unit, _)| self.0.is_multiple_of(*unit));
        let (unit, name) = unit.copied().unwrap_or((1, "B"));
        format!("{} {name}", self.0 / unit)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", short(self.0 * 100.0))
    }
}

/// Formats a time span for readers: `30 ms`, `1.5 s`, `2 min 5 s`, `6 h 30 min`, `3 d 12 h`; to the minute from
/// two hours on, to the hour from two days on.
#[must_use]
pub fn format_duration(value: Duration) -> String {
    let ns = value.as_nanos() as f64;
    match value.as_nanos() {
        0 => "0 ms".to_owned(),
        1..1_000 => format!("{} ns", short(ns)),
        1_000..1_000_000 => format!("{} µs", short(ns / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", short(ns / 1e6)),
        1_000_000_000..120_000_000_000 => format!("{} s", short(ns / 1e9)),
        120_000_000_000..7_200_000_000_000 => {
            let minutes = value.as_secs() / 60;
            in_two(minutes, "min", short(ns / 1e9 - minutes as f64 * 60.0), "s")
        }
        _ => {
            let minutes = (value.as_secs() + 30) / 60;
            if minutes < 2 * 24 * 60 {
                return in_two(minutes / 60, "h", (minutes % 60).to_string(), "min");
            }
            let hours = (minutes + 30) / 60;
            in_two(hours / 24, "d", (hours % 24).to_string(), "h")
        }
    }
}

fn in_two(large: u64, large_unit: &str, small: String, small_unit: &str) -> String {
    match small.as_str() {
        "0" => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// Returns a time span in whole nanoseconds; of more than 584 years the largest number.
#[must_use]
pub fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a time span in whole nanoseconds, to calculate with times of clocks; of more than 292 years the largest number.
#[must_use]
pub fn signed_nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// Serde for [`Duration`] as whole nanoseconds, under names that end in `_ns`.
pub mod nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes whole nanoseconds; a span of more than 584 years is written as the largest number.
    pub fn serialize<S: Serializer>(value: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(super::nanoseconds(*value))
    }

    /// Reads whole nanoseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        u64::deserialize(d).map(Duration::from_nanos)
    }
}

/// Serde for an optional [`Duration`], like [`nanos`].
pub mod optional_nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes whole nanoseconds, or nothing.
    pub fn serialize<S: Serializer>(value: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        value.map(super::nanoseconds).serialize(s)
    }

    /// Reads whole nanoseconds, or nothing.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(d)?.map(Duration::from_nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sizes_are_read_back_without_loss() {
        for (bytes, exact) in [
            (64 << 20, "64 MiB"),
            (10_000_000, "10 MB"),
            (1200, "1.2 kB"),
            (1025 << 10, "1025 KiB"),
            (1_234_567, "1234567 B"),
        ] {
            assert_eq!(Bytes(bytes).exact(), exact);
            assert_eq!(exact.parse(), Ok(Bytes(bytes)));
        }
    }

    #[test]
    fn one_packet_is_no_plural() {
        let one: QueueSize = "1packet".parse().expect("a queue");
        assert_eq!(one.to_string(), "1 packet");
        assert_eq!(QueueSize::Packets(2).to_string(), "2 packets");
    }

    #[test]
    fn si_is_1000_and_iec_is_1024() {
        assert_eq!("10MB".parse(), Ok(Bytes(10_000_000)));
        assert_eq!("10 MiB".parse(), Ok(Bytes(10_485_760)));
        assert_eq!("1.5kB".parse(), Ok(Bytes(1500)));
        assert!("0.5B".parse::<Bytes>().is_err());
        let bare = "5".parse::<Bytes>().expect_err("bytes or megabytes");
        assert_eq!(bare.message, "`5` has no unit of size");
        assert_eq!("100Mbit/s".parse(), Ok(BitRate(100_000_000)));
        assert_eq!("1 Gbps".parse(), Ok(BitRate(1_000_000_000)));
        for (text, bits) in [
            ("5KBps", 40_000),
            ("5kB/s", 40_000),
            ("2MBps", 16_000_000),
            ("100B/s", 800),
            ("1KiB/s", 8192),
            ("2Mbps", 2_000_000),
            ("2MBit/s", 2_000_000),
        ] {
            assert_eq!(text.parse(), Ok(BitRate(bits)), "{text}");
        }
        assert!("5MBPS".parse::<BitRate>().is_err());
    }

    #[test]
    fn times_need_a_unit_and_ratios_a_range() {
        assert_eq!(parse_duration("30ms"), Ok(Duration::from_millis(30)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert!(parse_duration("30").is_err());
        assert!(parse_duration("-1ms").is_err());
        assert!(parse_duration("30MB").is_err());
        assert_eq!("5%".parse(), Ok(Ratio(0.05)));
        assert_eq!("0".parse(), Ok(Ratio(0.0)));
        for (bare, hint) in [
            ("1", "write `1%` or `100%`"),
            ("0.5", "write `0.5%` or `50%`"),
            ("5", "write `5%`"),
        ] {
            assert_eq!(bare.parse::<Ratio>().unwrap_err().hint, hint);
        }
        assert!("120%".parse::<Ratio>().is_err());
        assert!("NaN%".parse::<Ratio>().is_err());
        assert!("inf".parse::<Ratio>().is_err());
    }

    #[test]
    fn a_prefix_alone_is_a_rate_in_bits() {
        assert_eq!("50M".parse(), Ok(BitRate(50_000_000)));
        assert_eq!("1.5G".parse(), Ok(BitRate(1_500_000_000)));
        assert_eq!("64k".parse(), Ok(BitRate(64_000)));
        assert!("50".parse::<BitRate>().is_err());
        assert!("50MB".parse::<BitRate>().is_err());
    }

    #[test]
    fn a_queue_has_bytes_packets_or_bandwidth_delay_products() {
        assert_eq!("375kB".parse(), Ok(QueueSize::Bytes(Bytes(375_000))));
        assert_eq!("100 packets".parse(), Ok(QueueSize::Packets(100)));
        assert_eq!("2.5 BDP".parse(), Ok(QueueSize::Bdps(2.5)));
        for wrong in [
            "1.5 packets",
            "-1 BDP",
            "0 BDP",
            "3 cows",
            "BDP",
            "-3 packets",
        ] {
            assert!(wrong.parse::<QueueSize>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn quantities_round_trip_through_text() {
        for value in [0, 1, 999, 1500, 10_000, 10_000_000, 2_500_000_000] {
            assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            assert_eq!(BitRate(value).to_string().parse(), Ok(BitRate(value)));
        }
        for ns in [0, 250_000, 30_000_000, 1_500_000_000, 21_600_000_000_000] {
            let value = Duration::from_nanos(ns);
            assert_eq!(parse_duration(&format_duration(value)), Ok(value));
        }
    }

    #[test]
    fn long_times_have_two_units() {
        for (seconds, expected) in [
            (119.5, "119.5 s"),
            (120.0, "2 min"),
            (125.0, "2 min 5 s"),
            (665.25, "11 min 5.25 s"),
            (7199.0, "119 min 59 s"),
            (7229.0, "2 h"),
            (7230.0, "2 h 1 min"),
            (23_400.0, "6 h 30 min"),
            (172_740.0, "47 h 59 min"),
            (172_800.0, "2 d"),
            (608_400.0, "7 d 1 h"),
        ] {
            assert_eq!(format_duration(Duration::from_secs_f64(seconds)), expected);
        }
    }
}
