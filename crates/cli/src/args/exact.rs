//! Quantities as texts that are read back without loss.

use std::{fmt::Display, str::FromStr, time::Duration};

use regatta_model::{
    BitRate, Bytes, Ratio,
    units::{QueueSize, format_duration, parse_duration},
};

/// Returns the usual text of a value if it loses nothing, else `exact`.
fn usual_or<T: FromStr + Display + PartialEq>(value: &T, exact: impl FnOnce() -> String) -> String {
    let usual = value.to_string();
    match usual.parse::<T>() {
        Ok(read) if read == *value => usual,
        _ => exact(),
    }
}

/// Formats a time exactly, in the usual unit if that loses nothing.
pub fn time(value: Duration) -> String {
    let ns = value.as_nanos();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let largest = units.iter().find(|(unit, _)| ns.is_multiple_of(*unit));
    let (unit, name) = largest.copied().unwrap_or((1, "ns"));
    let exact = format!("{} {name}", ns / unit);
    let short = format_duration(value);
    if parse_duration(&short) == Ok(value) {
        short
    } else {
        exact
    }
}

/// Formats a size exactly.
pub fn bytes(value: Bytes) -> String {
    usual_or(&value, || format!("{} B", value.0))
}

/// Formats a rate exactly.
pub fn bit_rate(value: BitRate) -> String {
    usual_or(&value, || format!("{} bit/s", value.0))
}

/// Formats a ratio exactly.
pub fn ratio(value: Ratio) -> String {
    usual_or(&value, || {
        // The decimal point goes two places on: a hundred times the number would be rounded.
        let decimal = value.0.to_string();
        let digits = format!("{:0<3}", decimal.trim_start_matches("0."));
        let (percent, rest) = digits.split_at(2);
        format!("{percent}.{rest}%")
    })
}

/// Formats the limit of a queue exactly.
pub fn queue(value: QueueSize) -> String {
    match value {
        QueueSize::Bytes(value) => bytes(value),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_formatted_without_loss() {
        let odd = Duration::from_nanos(30_000_001);
        assert_eq!(parse_duration(&time(odd)), Ok(odd));
        assert_eq!(time(Duration::from_millis(30)), "30 ms");
        assert_eq!(bytes(Bytes(1_234_567)).parse(), Ok(Bytes(1_234_567)));
        assert_eq!(
            bit_rate(BitRate(99_999_999)).parse(),
            Ok(BitRate(99_999_999))
        );
        let ratios = [0.0, 0.000_012_3, 0.07, 0.29, 1.0 / 3.0, 1.0];
        let sevenths = (1..7000).map(|n| f64::from(n) / 7000.0);
        for value in ratios.into_iter().chain(sevenths) {
            assert_eq!(ratio(Ratio(value)).parse(), Ok(Ratio(value)));
        }
    }
}
