//! `[[condition]]`: the links of both directions, and their changes over time.

use std::{ops::Range, time::Duration};

use super::{
    draft::Draft,
    error::Result,
    keys::{PATH_KEYS, fault, read_link},
    message::{Message, key as name_of, message, text_setting},
    section::{Section, refuse},
    source::File,
    steps::{Staircase, read_staircase},
};
use crate::{
    condition::{Condition, HOST_SETTINGS, HostTuning, HostValue, Link, Step},
    units::{format_duration, parse_duration},
};

/// Reads both directions of a path, over the given values: keys for both, then those of each.
fn read_directions(section: &mut Section<'_>, directions: &mut [Draft; 2]) -> Result<()> {
    section.not_both("rtt", "delay")?;
    section.not_both("rtt_jitter", "jitter")?;
    let rtt = section.duration("rtt", "30ms")?;
    if let Some((rtt, span)) = &rtt {
        refuse! { section;
            *rtt > Condition::LONGEST_TIME => span.clone(),
                "this time is longer than 30 days", "write `30ms`";
        }
    }
    let delay = (section.peek("delay")).and_then(|(text, _)| parse_duration(&text).ok());
    let delays = directions.iter().map(|direction| direction.link.delay);
    let delay = delay.or_else(|| delays.min()).unwrap_or_default();
    let round_trip = rtt
        .as_ref()
        .map_or(delay.saturating_mul(2), |(rtt, _)| *rtt);
    let rtt_jitter = section.duration_up_to("rtt_jitter", round_trip)?;
    // Both directions are read from the same keys, each over its earlier values.
    let mut again = section.clone();
    for (direction, section) in directions.iter_mut().zip([section, &mut again]) {
        if let Some((rtt, span)) = &rtt {
            direction.link.delay = *rtt / 2;
            direction.spans.insert("rtt", span.clone());
        }
        if let Some((jitter, span)) = &rtt_jitter {
            direction.link.jitter = *jitter / 2;
            direction.spans.insert("jitter", span.clone());
        }
        read_link(section, direction)?;
    }
    Ok(())
}

/// Reads the keys of a path, of both directions and of each; `name` is that of the path in messages.
fn read_keys(section: &mut Section<'_>, name: &str, directions: &mut [Draft; 2]) -> Result<()> {
    read_directions(section, directions)?;
    for (key, direction) in ["forward", "reverse"].into_iter().zip(directions) {
        if let Some(mut section) = section.section(key, &format!("[{name}.{key}]"))? {
            read_link(&mut section, direction)?;
            section.end_unless(of_both_directions)?;
        }
    }
    Ok(())
}

/// Returns the hint for a key of a condition that is of both directions, in the table of one.
fn of_both_directions(key: &str) -> Option<Message> {
    let key = PATH_KEYS.iter().find(|known| known.name == key)?.name;
    let both = " is of both directions, a key of `[[condition]]`";
    Some(match key {
        "rtt" => message!([
            name_of(key),
            both,
            "; one of them has ",
            text_setting("delay", "15ms")
        ]),
        "rtt_jitter" => message!([
            name_of(key),
            both,
            "; one of them has ",
            text_setting("jitter", "2ms")
        ]),
        _ => message!([name_of(key), both]),
    })
}

/// Reads `tuning` and `[host]` of a study: the tuning of conditions that name none, and single values.
pub(super) fn read_tuning(root: &mut Section<'_>) -> Result<HostTuning> {
    let base = root.choice("tuning")?.unwrap_or_default();
    let mut tuning = HostTuning {
        base,
        cpus: read_cpus(root)?,
        ..HostTuning::default()
    };
    let Some(mut section) = root.section("host", "[host]")? else {
        return Ok(tuning);
    };
    for setting in HOST_SETTINGS {
        let key = setting.key();
        let value = match setting.value {
            HostValue::Fixed => None,
            HostValue::LargestBuffer => {
                (section.amount(key, "4MiB", [4096, i32::MAX as u64])?).map(|(bytes, _)| bytes.0)
            }
            HostValue::Number(most) => section.number(key, 0, most)?,
        };
        tuning
            .values
            .extend(value.map(|value| (key.to_owned(), value)));
    }
    section.end()?;
    Ok(tuning)
}

/// Reads the number of processors of each end.
fn read_cpus(section: &mut Section<'_>) -> Result<Option<u32>> {
    let cpus = section.number("cpus", 1, HostTuning::MAX_CPUS)?;
    Ok(cpus.map(|cpus| cpus as u32))
}

pub(super) fn read_condition(
    mut section: Section<'_>,
    tuning: &HostTuning,
    mtu_bytes: u32,
) -> Result<(Condition, Range<usize>)> {
    let (name, span) = section.required_text("name", "\"baseline\"")?;
    section.visible("name", &name, span.clone())?;
    let file = &section.source();
    let mtu = section.number("mtu", 576, Condition::LARGEST_MTU_BYTES.into())?;
    let mtu = mtu.map_or(mtu_bytes, |mtu| mtu as u32);
    let mut tuning = tuning.clone();
    tuning.base = section.choice("tuning")?.unwrap_or(tuning.base);
    tuning.cpus = read_cpus(&mut section)?.or(tuning.cpus);
    let draft = Draft::over(&Link::default(), section.span());
    let mut directions = [draft.clone(), draft];
    read_keys(&mut section, "condition", &mut directions)?;
    let staircase = section.section("steps", "steps")?;
    let staircase = staircase.map(read_staircase).transpose()?;
    let steps = section.sections("step", "condition.step")?;
    section.end()?;

    let schedule = match staircase {
        Some(staircase) if !steps.is_empty() => {
            return Err(file.error(
                staircase.span,
                message!([
                    name_of("steps"),
                    " and `[[condition.step]]` both say how the path changes",
                ]),
                "leave one of them out",
            ));
        }
        Some(staircase) => climb(file, &staircase, &mut directions)?,
        None => read_steps(steps, &directions)?,
    };
    let condition = finish(file, (name, mtu, tuning), directions, schedule)?;
    Ok((condition, span))
}

/// Step under construction.
struct DraftStep {
    at: Duration,
    at_span: Range<usize>,
    directions: [Draft; 2],
}

fn read_steps(sections: Vec<Section<'_>>, first: &[Draft; 2]) -> Result<Vec<DraftStep>> {
    let mut steps: Vec<DraftStep> = Vec::new();
    for mut section in sections {
        let at = section.duration("at", "20s")?;
        let (at, at_span) = section.required("at", "\"20s\"", at)?;
        // A key that a step does not have keeps its value.
        let mut directions = steps.last().map_or(first, |step| &step.directions).clone();
        for direction in &mut directions {
            direction.section_span = section.span();
        }
        read_keys(&mut section, "condition.step", &mut directions)?;
        section.end()?;
        steps.push(DraftStep {
            at,
            at_span,
            directions,
        });
    }
    Ok(steps)
}

/// Returns the steps of a quantity that rises or falls evenly; the path begins with its first
/// value.
fn climb(
    file: &File<'_>,
    staircase: &Staircase,
    directions: &mut [Draft; 2],
) -> Result<Vec<DraftStep>> {
    if let Some(span) = directions
        .iter()
        .find_map(|direction| direction.spans.get(staircase.key))
    {
        let key = staircase.key;
        let message = message!([
            name_of(key),
            " is said here and by ",
            name_of("steps"),
            ", which begins with it",
        ]);
        let hint = message!(["leave ", name_of(key), " out here"]);
        return Err(file.error(span.clone(), message, hint));
    }
    for direction in directions.iter_mut() {
        staircase.apply(&mut direction.link, 0);
        direction
            .spans
            .insert(staircase.key, staircase.span.clone());
    }
    let step = |number| {
        let mut directions = directions.clone();
        for direction in &mut directions {
            staircase.apply(&mut direction.link, number);
            direction.section_span = staircase.span.clone();
        }
        DraftStep {
            at: staircase.every.saturating_mul(number),
            at_span: staircase.span.clone(),
            directions,
        }
    };
    Ok((1..=staircase.steps).map(step).collect())
}

/// Checks that steps come one after another, within the longest time.
fn check_times(file: &File<'_>, steps: &[DraftStep]) -> Result<()> {
    let mut before = Duration::ZERO;
    for step in steps {
        let at = format_duration(step.at);
        let after = match before {
            Duration::ZERO => "the start".to_owned(),
            before => format!("the one before it, at {}", format_duration(before)),
        };
        refuse! { file;
            step.at <= before => step.at_span.clone(),
                "this step at {at} does not come after {after}",
                "list the steps in the order of time, the first one after the start";
            step.at > Condition::LONGEST_TIME => step.at_span.clone(),
                "this step comes after more than 30 days", "write a time such as `20s`";
        }
        before = step.at;
    }
    Ok(())
}

/// Builds the condition from its parts, and checks it.
fn finish(
    file: &File<'_>,
    (name, mtu_bytes, tuning): (String, u32, HostTuning),
    directions: [Draft; 2],
    steps: Vec<DraftStep>,
) -> Result<Condition> {
    check_times(file, &steps)?;
    let links = |directions: &[Draft; 2]| {
        directions
            .each_ref()
            .map(|direction| direction.link.clone())
    };
    let [forward, reverse] = links(&directions);
    let schedule = steps.iter().map(|step| {
        let [forward, reverse] = links(&step.directions);
        Step {
            at: step.at,
            forward,
            reverse,
        }
    });
    let mut condition = Condition {
        name,
        forward,
        reverse,
        mtu_bytes,
        schedule: schedule.collect(),
        tuning,
    };
    let drafts = || {
        directions
            .iter()
            .chain(steps.iter().flat_map(|step| &step.directions))
    };
    let queues: Vec<_> = condition
        .links()
        .zip(drafts())
        .map(|(link, draft)| draft.queue.map(|size| condition.queue_of(link, size)))
        .collect();
    for ((link, queue), draft) in condition.links_mut().zip(queues).zip(drafts()) {
        let Some((bytes, packets)) = queue else {
            continue;
        };
        refuse! { file;
            bytes.is_none() && packets.is_none() => draft.span_of("queue"),
                "a queue of so many bandwidth-delay products, but the link has no rate",
                ["add ", text_setting("rate", "100Mbit/s"), ", or write the ", name_of("queue"), " in bytes"];
        }
        (link.queue, link.queue_packets) = (bytes, packets);
    }
    let mtu = u64::from(condition.mtu_bytes);
    for (link, draft) in condition.links().zip(drafts()) {
        if let Some((key, (message, hint))) = fault(link, mtu) {
            return Err(file.error(draft.span_of(key), message, hint));
        }
    }
    Ok(condition)
}
