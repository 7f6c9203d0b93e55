//! Quantities as iperf3 writes them: bare numbers, and suffixes without a unit.

use std::time::Duration;

use regatta_model::{BitRate, Bytes, units::parse_duration};

/// Splits a number from the suffix after it.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let number = number.parse::<f64>().ok().filter(|it| it.is_finite())?;
    Some((number, suffix))
}

fn power(suffix: &str, base: f64) -> Option<f64> {
    let exponent = match suffix {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return None,
    };
    Some(base.powi(exponent))
}

/// Refuses a negative quantity, `kind`, with `hint`.
fn refuse_negative(text: &str, kind: &str, hint: &str) -> Result<(), String> {
    match text.strip_prefix('-').and_then(split) {
        Some(_) => Err(format!("a {kind} cannot be negative; write {hint}")),
        None => Ok(()),
    }
}

/// Parses a rate: `50M` as iperf3 does, which is 50 Mbit/s, or with a unit.
pub(super) fn rate(text: &str) -> Result<BitRate, String> {
    refuse_negative(text, "rate", "one such as `50M`, or `0` for no limit")?;
    if let Some((number, suffix)) = split(text)
        && let Some(factor) = power(suffix, 1000.0)
    {
        let rate = number * factor;
        return match rate > 0.0 && rate < 1.0 {
            // Cut off it would be no limit at all.
            true => Err(
                "it must be at least 1 bit/s; write one such as `50M`, or `0` for no limit"
                    .to_owned(),
            ),
            false => Ok(BitRate(rate as u64)),
        };
    }
    super::values::quantity(text)
}

/// Parses a size: `128K` as iperf3 does, which is 128 KiB, or with a unit.
pub(super) fn size(text: &str) -> Result<Bytes, String> {
    refuse_negative(text, "size", "one such as `128K`")?;
    if let Some((number, suffix)) = split(text)
        && let Some(factor) = power(suffix, 1024.0)
    {
        let bytes = (number * factor) as u64;
        return match bytes {
            0 => Err("it must be more than zero; write one such as `128K`".to_owned()),
            bytes => Ok(Bytes(bytes)),
        };
    }
    super::values::quantity(text)
}

/// Parses a span of time: bare seconds, or with a unit.
pub(super) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    refuse_negative(text, "time", "one such as `10` or `500ms`")?;
    match split(text) {
        Some((number, "")) => Duration::try_from_secs_f64(number).map_err(|it| it.to_string()),
        _ => parse_duration(text).map_err(|error| super::values::with_hint(&error)),
    }
}

/// Parses a span of time above zero: bare seconds, or with a unit.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match seconds_or_none(text)? {
        Duration::ZERO => {
            Err("it must be longer than zero; write one such as `10` or `500ms`".to_owned())
        }
        span => Ok(span),
    }
}

/// Parses a differentiated services code point: a number, or one of the names of iperf3.
pub(super) fn dscp(text: &str) -> Result<u8, String> {
    let name = text.to_ascii_lowercase();
    let number = match *name.as_bytes() {
        [b'c', b's', class @ b'0'..=b'7'] => Some(8 * (class - b'0')),
        // Four classes of three drop precedences each (RFC 2597).
        [b'a', b'f', class @ b'1'..=b'4', precedence @ b'1'..=b'3'] => {
            Some(8 * (class - b'0') + 2 * (precedence - b'0'))
        }
        [b'e', b'f'] => Some(46),
        [b'v', b'a'] => Some(44),
        _ => match name.strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16).ok(),
            None => name.parse().ok(),
        },
    };
    number
        .filter(|value| *value < 64)
        .ok_or_else(|| "it is a number from 0 to 63 or a name such as `ef` or `cs1`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_match_iperf3() {
        assert_eq!(rate("50M"), Ok(BitRate(50_000_000)));
        assert_eq!(rate("1.5g"), Ok(BitRate(1_500_000_000)));
        assert_eq!(rate("50Mbit/s"), Ok(BitRate(50_000_000)));
        assert_eq!(size("128K"), Ok(Bytes(131_072)));
        assert_eq!(size("1G"), Ok(Bytes(1 << 30)));
        assert_eq!(size("1GB"), Ok(Bytes(1_000_000_000)));
        assert_eq!(size("1448"), Ok(Bytes(1448)));
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(
            (dscp("EF"), dscp("0x2e"), dscp("10")),
            (Ok(46), Ok(46), Ok(10))
        );
        assert!(rate("50X").is_err() && size("0").is_err() && seconds("0").is_err());
        assert_eq!(rate("0"), Ok(BitRate(0)));
        assert!(rate("0.5").is_err_and(|error| error.contains("at least 1 bit/s")));
        assert!(dscp("64").is_err());
    }

    #[test]
    fn negative_quantities_are_refused_with_a_hint() {
        let refused = |error: Option<String>, hint: &str| {
            let error = error.expect("an error");
            assert!(
                error.contains("cannot be negative") && error.contains(hint),
                "{error}"
            );
        };
        refused(rate("-1").err(), "`0` for no limit");
        refused(rate("-50M").err(), "`50M`");
        refused(size("-1K").err(), "`128K`");
        refused(seconds("-1s").err(), "`10`");
        // An option where a value is due.
        assert!(rate("-R").is_err_and(|error| !error.contains("negative")));
    }
}
