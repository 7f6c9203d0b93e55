//! Flows and steps of a workload `kind = "script"` in a study file.

use std::{ops::Range, time::Duration};

use super::{
    error::Result,
    message::{key as name_of, message, setting, text_setting},
    names::list,
    section::{Section, refuse},
};
use crate::{
    metric::{DelayMetrics, id},
    units::Bytes,
    workload::script::{
        Action, DEEPEST, Every, MOST_MESSAGES, NotMeasurable, Script, ScriptFlow, SentBy, Spaced,
        Step,
    },
};

/// Bounds of the size of a message, in bytes: both ends hold the largest whole.
const MESSAGE: [u64; 2] = [1, 64 << 20];

/// Most flows, each of which costs memory at both ends.
const MOST_FLOWS: u64 = 1024;

/// Keys that say what a step does, of which it has one.
const ACTIONS: [&str; 5] = ["send", "request", "wait", "repeat", "steps"];

/// Reads the flows of a script and its metric, where they are present, over its current ones.
pub(super) fn read_script(section: &mut Section<'_>, script: &mut Script) -> Result<()> {
    let flows = section.sections("flow", "workload.flow")?;
    let has_flows = !flows.is_empty();
    if has_flows {
        script.flows.clear();
    }
    for flow in flows {
        let flow = read_flow(flow, &script.flows)?;
        script.flows.push(flow);
    }
    refuse! { section;
        u64::from(script.flow_count()) > MOST_FLOWS => section.span(),
            [format!("this script has {} flows, and the most are {MOST_FLOWS}", script.flow_count())],
            ["write a smaller ", name_of("count")];
        script.volume().messages > MOST_MESSAGES => section.span(),
            [format!("this script has {} messages, and the most are {MOST_MESSAGES}", script.volume().messages)],
            ["write a smaller ", name_of("repeat")];
    }
    read_rank(section, script, has_flows)
}

/// Reads the metric of the ranking, whose default is that of the flows.
fn read_rank(section: &mut Section<'_>, script: &mut Script, has_flows: bool) -> Result<()> {
    let named = section.text("rank_by")?;
    let default = match script.measures() {
        true => DelayMetrics::STEP.p95,
        false => id::TRANSFER_TIME_NS,
    };
    let Some((name, span)) = named else {
        if has_flows {
            default.clone_into(&mut script.rank_by);
        }
        return Ok(());
    };
    refuse! { section;
        !Script::RANKED_BY.contains(&name.as_str()) => span,
            [format!("a script is not ranked by `{name}`")],
            [format!("write one of {}", list(&Script::RANKED_BY))];
        name != id::TRANSFER_TIME_NS && !script.measures() => span,
            [format!("no step of this script is measured, of which `{name}` would be")],
            ["add ", setting("measure", "true"), " to a step"];
    }
    script.rank_by = name;
    Ok(())
}

/// Reads a flow that stands after `before`.
fn read_flow(mut section: Section<'_>, before: &[ScriptFlow]) -> Result<ScriptFlow> {
    let (name, span) = match section.text("name")? {
        Some(named) => named,
        None => (format!("flow {}", before.len() + 1), section.span()),
    };
    section.visible("name", &name, span.clone())?;
    refuse! { section;
        before.iter().any(|flow| flow.name == name) => span,
            [format!("this script has two flows `{name}`")],
            ["give one of them another ", name_of("name")];
    }
    let count = section.number("count", 1, MOST_FLOWS)?.unwrap_or(1);
    let after = section.text("after")?;
    let after = after.map(|(flow, span)| position(&section, before, &flow, &span));
    let after = after.transpose()?;
    let delay = section.duration("delay", "500ms")?;
    let delay = section.time(delay)?.unwrap_or_default();
    refuse! { section;
        before.is_empty() && !delay.is_zero() => section.span(),
            ["the first flow begins with the transfer and has no ", name_of("delay")],
            ["leave ", name_of("delay"), " out, or begin with a ", name_of("wait")];
    }
    let mut waits = false;
    let steps = read_steps(&mut section, 0, &mut waits)?;
    section.end()?;
    let flow = ScriptFlow {
        name,
        count: count as u32,
        after,
        delay,
        steps,
    };
    refuse! { section;
        flow.volume().messages == 0 => section.span(),
            "this flow has no messages",
            ["add a step such as ", text_setting("send", "1MB")];
    }
    Ok(flow)
}

/// Returns the position of the flow that ends before another one begins.
fn position(
    section: &Section<'_>,
    before: &[ScriptFlow],
    name: &str,
    span: &Range<usize>,
) -> Result<usize> {
    let known = before.iter().position(|flow| flow.name == name);
    known.ok_or_else(|| {
        let names: Vec<&str> = before.iter().map(|flow| flow.name.as_str()).collect();
        let hint = match names.is_empty() {
            true => message!([
                "leave ",
                name_of("after"),
                " out: the first flow begins with the transfer"
            ]),
            false => message!([format!("write one of {}", list(&names))]),
        };
        section.error(
            span.clone(),
            message!([format!("no flow `{name}` stands above this one")]),
            hint,
        )
    })
}

/// Reads the key `steps`; `waits` says whether a host waits just before the first one, and afterwards whether one does after
/// the last.
fn read_steps(section: &mut Section<'_>, depth: usize, waits: &mut bool) -> Result<Vec<Step>> {
    let sections = section.sections("steps", "workload.flow.steps")?;
    refuse! { section;
        depth > DEEPEST => section.span(),
            [format!("these steps stand within more than {DEEPEST} others")],
            "write a flatter script";
        sections.is_empty() => section.span(),
            ["there are no ", name_of("steps")],
            ["add ", setting("steps", "[{ request = \"500B\", response = \"30kB\" }]")];
    }
    sections
        .into_iter()
        .map(|step| read_step(step, depth, waits))
        .collect()
}

fn read_step(mut section: Section<'_>, depth: usize, waits: &mut bool) -> Result<Step> {
    let present = ACTIONS.iter().filter(|key| section.span_of(key).is_some());
    // `steps` are those of `repeat`.
    let present: Vec<&str> = present.copied().filter(|key| *key != "steps").collect();
    refuse! { section;
        present.len() > 1 => section.span(),
            ["a step does one thing, and this one has ", name_of(present[0]), " and ", name_of(present[1])],
            "write two steps";
        present.is_empty() && section.span_of("steps").is_none() => section.span(),
            "this step does nothing",
            ["write one of ", format!("{}", list(&ACTIONS))];
    }
    let waited = *waits;
    let action = match present.first() {
        Some(&"send") => {
            *waits = false;
            read_send(&mut section)?
        }
        Some(&"request") => {
            *waits = false;
            read_exchange(&mut section)?
        }
        Some(&"wait") => {
            *waits = true;
            let time = section.duration("wait", "2s")?;
            let time = section.time(time)?.unwrap_or_default();
            Action::Wait { time }
        }
        _ => read_repeat(&mut section, depth, waits)?,
    };
    let measured = section.flag("measure")?;
    section.end()?;
    let (measured, span) = measured.unwrap_or((false, 0..0));
    let step = Step { action, measured };
    if measured && let Err(fault) = step.check_measured(waited) {
        let message = match fault {
            NotMeasurable::EndsElsewhere => {
                "a step is measured by the client, and this one does not end with a message from the server"
            }
            NotMeasurable::BeginsElsewhere => {
                "a step is measured by the client, and the moment at which the server begins this one is not known there"
            }
        };
        let hint = message!([
            "measure a step with ",
            name_of("request"),
            " and ",
            name_of("response")
        ]);
        return Err(section.error(span, message, hint));
    }
    Ok(step)
}

fn read_send(section: &mut Section<'_>) -> Result<Action> {
    let size = section.amount("send", "1MB", MESSAGE)?;
    let by = section.choice("from")?.unwrap_or_default();
    let size = size.map_or(Bytes(1), |(size, _)| size);
    Ok(Action::Send { by, size })
}

/// Reads a request and its response, which are one step.
fn read_exchange(section: &mut Section<'_>) -> Result<Action> {
    let request = section.amount("request", "500B", MESSAGE)?;
    let response = section.amount("response", "30kB", MESSAGE)?;
    let (response, _) = section.required("response", "\"30kB\"", response)?;
    let request = request.map_or(Bytes(1), |(size, _)| size);
    let message = |by, size| Step {
        action: Action::Send { by, size },
        measured: false,
    };
    Ok(Action::Repeat {
        times: 1,
        every: None,
        steps: vec![
            message(SentBy::Client, request),
            message(SentBy::Server, response),
        ],
    })
}

fn read_repeat(section: &mut Section<'_>, depth: usize, waits: &mut bool) -> Result<Action> {
    let times = section.number("repeat", 1, MOST_MESSAGES)?.unwrap_or(1);
    let interval = section.duration("every", "2s")?;
    let interval: Option<Duration> = section.time(interval)?;
    let spaced = section.choice_at::<Spaced>("spacing")?;
    if let Some((_, span)) = spaced.clone().filter(|_| interval.is_none()) {
        let message = message!([
            name_of("spacing"),
            " is that of ",
            name_of("every"),
            ", which is not here"
        ]);
        let hint = message!(["add ", text_setting("every", "100ms")]);
        return Err(section.error(span, message, hint));
    }
    let every = interval.map(|interval| Every {
        interval,
        spaced: spaced.map_or(Spaced::default(), |(spaced, _)| spaced),
    });
    *waits |= every.is_some();
    let steps = read_steps(section, depth + 1, waits)?;
    Ok(Action::Repeat {
        times,
        every,
        steps,
    })
}
