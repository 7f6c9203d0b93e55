//! Rates in lines for people, in the unit of iperf3's flag `-f`.

/// Unit of rates in lines for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateUnit {
    name: &'static str,
    bits: u64,
    decimals: usize,
}

impl RateUnit {
    /// Letters of all units, as iperf3's flag `-f` takes them: small ones are bits, capitals bytes.
    pub const LETTERS: [&str; 8] = ["k", "m", "g", "t", "K", "M", "G", "T"];

    /// Returns the unit of a letter.
    pub fn of(letter: &str) -> Option<Self> {
        let (name, bits, decimals) = match letter {
            "k" => ("kbit/s", 1_000, 0),
            "m" => ("Mbit/s", 1_000_000, 1),
            "g" => ("Gbit/s", 1_000_000_000, 3),
            "t" => ("Tbit/s", 1_000_000_000_000, 5),
            "K" => ("KiB/s", 8 << 10, 0),
            "M" => ("MiB/s", 8 << 20, 1),
            "G" => ("GiB/s", 8 << 30, 3),
            "T" => ("TiB/s", 8 << 40, 5),
            _ => return None,
        };
        Some(Self {
            name,
            bits,
            decimals,
        })
    }
}

/// Formats a rate in the requested unit, or in that of its size.
pub fn rate(bps: f64, unit: Option<RateUnit>) -> String {
    if let Some(unit) = unit {
        return format!("{:.*} {}", unit.decimals, bps / unit.bits as f64, unit.name);
    }
    match bps {
        ..1e3 => format!("{bps:.0} bit/s"),
        ..1e6 => format!("{:.1} kbit/s", bps / 1e3),
        ..1e9 => format!("{:.1} Mbit/s", bps / 1e6),
        _ => format!("{:.2} Gbit/s", bps / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_units_match_iperf3() {
        let in_unit = |letter| rate(93_830_000.0, RateUnit::of(letter));
        assert_eq!(in_unit("k"), "93830 kbit/s");
        assert_eq!(in_unit("g"), "0.094 Gbit/s");
        assert_eq!(in_unit("M"), "11.2 MiB/s");
        assert_eq!(rate(93_830_000.0, None), "93.8 Mbit/s");
        assert_eq!(rate(960.0, None), "960 bit/s");
        assert_eq!(rate(11_600.0, None), "11.6 kbit/s");
        assert_eq!(rate(12_345_678_900.0, None), "12.35 Gbit/s");
        for letter in RateUnit::LETTERS {
            assert!(RateUnit::of(letter).is_some(), "{letter}");
        }
    }
}
