//! The section of a workload in a study file.

use std::{ops::Range, time::Duration};

use super::{
    error::Result,
    message::{Message, key as name_of, keys as names_of, message, text_setting},
    names::list,
    script::read_script,
    section::{Section, refuse},
    value_key::read_keys,
    work_keys::{PROBE_KEYS, WORKLOAD_KEYS},
};
use crate::{
    units::format_duration,
    workload::{
        Direction, Finish, KINDS, Opening, Probe, Workload, WorkloadKind, script::Script,
        workload_kinds,
    },
};

pub(super) fn read_workload(
    mut section: Section<'_>,
    deadline: Duration,
) -> Result<(Workload, Option<Range<usize>>)> {
    let name = section.text("name")?;
    let kinds = KINDS.map(|defaults| (defaults().name(), defaults));
    let kind = section.choice_of("kind", &kinds)?;
    let transports = section.texts("transports")?;
    let conditions = section.texts("conditions")?;
    let default = kind.map_or(KINDS[0], |(default, _)| default)();
    let (name, span) = match name {
        Some((name, span)) => {
            section.visible("name", &name, span.clone())?;
            (name, Some(span))
        }
        None => (default.name().to_owned(), None),
    };
    let mut workload = Workload {
        name,
        kind: default,
        probe: Probe::default(),
        transports,
        conditions,
        competition: None,
    };
    let kind = &mut workload.kind;
    let spans = read_keys(WORKLOAD_KEYS, &mut section, kind)?;
    if let WorkloadKind::Script(script) = kind {
        read_script(&mut section, script)?;
    }
    if let Some(mut settings) = section.section("probe", "[workload.probe]")? {
        let spans = read_keys(PROBE_KEYS, &mut settings, &mut workload.probe)?;
        settings.end()?;
        refuse! { section;
            workload.probe.interval < Duration::from_millis(1) => spans.get("interval").cloned().unwrap_or_default(),
                "probe messages more often than every millisecond would be load themselves",
                ["write ", text_setting("interval", "20ms")];
        }
    }
    not_of_another_kind(&section, kind)?;
    section.end()?;
    let span_of = |key: &str| spans.get(key).cloned().unwrap_or_else(|| section.span());
    check(&section, kind, deadline, span_of)?;
    Ok((workload, span))
}

/// Refuses a key that is one of other kinds of workloads.
fn not_of_another_kind(section: &Section<'_>, kind: &WorkloadKind) -> Result<()> {
    let mut keys = WORKLOAD_KEYS.iter();
    let unread = keys.find_map(|key| Some((key, section.span_of(key.name)?)));
    let Some((key, span)) = unread else {
        return Ok(());
    };
    let others = workload_kinds().filter_map(|mut kind| key.is_of(&mut kind).then(|| kind.name()));
    let others: Vec<&str> = others.collect();
    let mut known = kind.clone();
    let known = WORKLOAD_KEYS.iter().filter(|key| key.is_of(&mut known));
    let known: Vec<&str> = known.map(|key| key.name).collect();
    let (key, kind) = (key.name, kind.name());
    let others = list(&others);
    let message = message!([
        name_of(key),
        format!(" is a key of {others}, and this workload is `{kind}`"),
    ]);
    let hint = [
        "leave ".into(),
        name_of(key),
        format!(" out; `{kind}` knows ").into(),
    ];
    let hint = Message::of(hint.into_iter().chain(names_of(&known)));
    Err(section.error(span, message, hint))
}

/// Refuses a setting that no transfer can have; `span_of` returns the span of a key.
fn check(
    section: &Section<'_>,
    kind: &WorkloadKind,
    deadline: Duration,
    span_of: impl Fn(&str) -> Range<usize>,
) -> Result<()> {
    let (amount, options) = match kind {
        WorkloadKind::Bulk {
            amount, options, ..
        } => (amount, options),
        WorkloadKind::Script(script) => return check_script(section, script, deadline),
        _ => return Ok(()),
    };
    let is_all_warm_up = |duration| duration < deadline && options.warm_up >= duration;
    refuse! { section;
        amount.time().is_some_and(is_all_warm_up) => span_of("warm_up"),
            [name_of("warm_up"), " leaves nothing of ", name_of("duration"), " to be measured"],
            ["write a shorter ", name_of("warm_up"), ", or a longer ", name_of("duration")];
    }
    // The deadline would always cut it short.
    if let Some((key, _)) = kind.part_not_within(deadline) {
        let deadline = format_duration(deadline);
        return Err(section.error(
            span_of(key),
            message!([
                name_of(key),
                " is not shorter than the study's ",
                name_of("deadline"),
                format!(" of {deadline}, which ends every transfer"),
            ]),
            message!([
                "write a shorter ",
                name_of(key),
                ", or a longer ",
                name_of("deadline"),
                " of the study",
            ]),
        ));
    }
    refuse! { section;
        options.finish == Finish::Abandon && options.direction != Direction::Forward => span_of("finish"),
            "only the connecting host can abandon what it sends",
            ["leave out one of ", name_of("finish"), " and ", name_of("direction")];
        options.opening == Opening::Answered && options.direction != Direction::Forward => span_of("opening"),
            "only the listening host answers the opening of a flow, and it would send itself",
            ["leave out one of ", name_of("opening"), " and ", name_of("direction")];
    }
    Ok(())
}

/// Refuses a script that the deadline would always cut short.
fn check_script(section: &Section<'_>, script: &Script, deadline: Duration) -> Result<()> {
    let least = script.least_time();
    if least < deadline {
        return Ok(());
    }
    let [least, deadline] = [least, deadline].map(format_duration);
    Err(section.error(
        section.span(),
        message!([
            format!("the waits and schedules of this script take {least}, and the study's "),
            name_of("deadline"),
            format!(" of {deadline} ends every transfer"),
        ]),
        message!([
            "write fewer or shorter ones, or a longer ",
            name_of("deadline"),
            " of the study",
        ]),
    ))
}
