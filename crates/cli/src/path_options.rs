//! What the options of a path say, as a study file says it and upon a study that was read.

use std::time::Duration;

use regatta_model::{
    BitRate, Bytes, Condition, Emulator, Link, PathSetup, Placement, Ratio,
    units::{format_duration, parse_duration},
};
use toml::{Table, Value};

use crate::{
    args::{Limit, PathArgs},
    exit::Failure,
};

/// Exactly this time, in the unit a reader would say where that loses nothing.
pub fn time(value: Duration) -> String {
    let short = format_duration(value);
    if parse_duration(&short) == Ok(value) {
        short
    } else {
        format!("{} ns", value.as_nanos())
    }
}

pub fn bytes(value: Bytes) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        short
    } else {
        format!("{} B", value.0)
    }
}

fn bit_rate(value: BitRate) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        short
    } else {
        format!("{} bit/s", value.0)
    }
}

fn ratio(value: Ratio) -> String {
    let short = value.to_string();
    if short.parse() == Ok(value) {
        short
    } else {
        value.0.to_string()
    }
}

/// How a study says a value.
fn word<T: PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    let known = words.iter().find(|(_, known)| *known == value);
    known.map_or("", |(word, _)| word)
}

/// Who emulates the path, into the head of a study file.
pub fn emulation(args: &PathArgs, root: &mut Table) {
    let text = |value: &str| Value::String(value.to_owned());
    if let Some(emulator) = args.emulator {
        root.insert("emulator".into(), text(word(emulator, Emulator::WORDS)));
    }
    if let Some(placement) = args.placement {
        root.insert("placement".into(), text(word(placement, Placement::WORDS)));
    }
}

/// The section `[[condition]]` of a study file.
pub fn condition(args: &PathArgs) -> Table {
    let text = |value: String| Value::String(value);
    let mut section = Table::new();
    let mut name = Vec::new();
    let rtt = args.rtt.unwrap_or(Duration::from_millis(30));
    name.push(time(rtt));
    section.insert("rtt".into(), text(time(rtt)));
    let rate = args.rate.unwrap_or(Limit(Some(BitRate(100_000_000))));
    if let Some(rate) = rate.0 {
        name.push(bit_rate(rate));
        section.insert("rate".into(), text(bit_rate(rate)));
    }
    if let Some(loss) = args.loss {
        name.push(format!("{loss} loss"));
        section.insert("loss".into(), text(ratio(loss)));
    }
    if let Some(jitter) = args.jitter {
        name.push(format!("± {}", time(jitter)));
        section.insert("jitter".into(), text(time(jitter)));
    }
    if let Some(queue) = args.queue {
        name.push(format!("queue {}", bytes(queue)));
        section.insert("queue".into(), text(bytes(queue)));
    }
    if let Some(mtu) = args.mtu {
        name.push(format!("MTU {} B", mtu.0));
        section.insert(
            "mtu".into(),
            Value::Integer(i64::try_from(mtu.0).unwrap_or(i64::MAX)),
        );
    }
    section.insert("name".into(), text(name.join(", ")));
    section
}

/// Changes conditions as the options say; returns each change as it was written.
///
/// # Errors
/// If the conditions would then be impossible.
pub fn apply(args: &PathArgs, conditions: &mut [Condition]) -> Result<Vec<String>, Failure> {
    let mut changes = Vec::new();
    let mut links = |change: &dyn Fn(&mut Link)| {
        for condition in &mut *conditions {
            change(&mut condition.forward);
            change(&mut condition.reverse);
        }
    };
    if let Some(rtt) = args.rtt {
        // An odd nanosecond goes nowhere: half a nanosecond is no delay.
        links(&|link| link.delay = rtt / 2);
        changes.push(format!("--rtt \"{}\"", format_duration(rtt)));
    }
    if let Some(loss) = args.loss {
        links(&|link| link.loss = loss);
        changes.push(format!("--loss \"{loss}\""));
    }
    if let Some(rate) = args.rate {
        links(&|link| link.rate = rate.0);
        changes.push(match rate.0 {
            Some(rate) => format!("--rate \"{rate}\""),
            None => "--rate unlimited".to_owned(),
        });
    }
    if let Some(jitter) = args.jitter {
        links(&|link| link.jitter = jitter);
        changes.push(format!("--jitter \"{}\"", format_duration(jitter)));
    }
    if let Some(queue) = args.queue {
        links(&|link| link.queue = Some(queue));
        changes.push(format!("--queue \"{queue}\""));
    }
    if let Some(mtu) = args.mtu {
        let mtu_bytes = u32::try_from(mtu.0)
            .ok()
            .filter(|mtu| (576..=65_535).contains(mtu))
            .ok_or_else(|| {
                Failure::input(
                    format!("`{mtu}` cannot be the largest packet"),
                    "write a size from 576 to 65535 bytes, such as `--mtu 1500B`",
                )
            })?;
        for condition in &mut *conditions {
            condition.mtu_bytes = mtu_bytes;
        }
        changes.push(format!("--mtu {mtu_bytes}B"));
    }
    for condition in &*conditions {
        for link in [&condition.forward, &condition.reverse] {
            if link.jitter > link.delay {
                return Err(Failure::input(
                    format!(
                        "the jitter of condition `{}` is larger than its delay, so packets would leave before they came",
                        condition.name
                    ),
                    format!("write a jitter of at most {}", format_duration(link.delay)),
                ));
            }
        }
    }
    Ok(changes)
}

/// Changes who emulates the path as the options say.
///
/// # Errors
/// If the choices contradict one another.
pub fn choose_emulation(args: &PathArgs, path: &mut PathSetup) -> Result<(), Failure> {
    if let Some(emulator) = args.emulator {
        path.emulator = emulator;
    }
    if let Some(placement) = args.placement {
        path.placement = placement;
    }
    if let Some(message) = path.contradiction() {
        return Err(Failure::input(
            message,
            "leave one of them out, or ask for `--emulator netem`",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_without_loss() {
        let odd = Duration::from_nanos(30_000_001);
        assert_eq!(parse_duration(&time(odd)), Ok(odd));
        assert_eq!(time(Duration::from_millis(30)), "30 ms");
        assert_eq!(bytes(Bytes(1_234_567)).parse(), Ok(Bytes(1_234_567)));
        assert_eq!(
            bit_rate(BitRate(99_999_999)).parse(),
            Ok(BitRate(99_999_999))
        );
        assert_eq!(ratio(Ratio(0.000_012_3)).parse(), Ok(Ratio(0.000_012_3)));
    }
}
