//! Flows and steps of a workload `kind = "script"` in a study file.

use std::{ops::Range, time::Duration};

use super::{
    error::Result,
    message::{key as name_of, message, setting, text_setting},
    names::{list, nearest},
    section::{Section, refuse},
};
use crate::{
    metric::{DelayMetrics, id},
    workload::script::{
        Action, Event, Interval, IntervalDistribution, MAX_DEPTH, MAX_FLOWS, MAX_OPERATIONS,
        MESSAGE_SIZES, NotMeasurable, Script, ScriptFlow, Step, begin_unseen,
    },
};

/// Keys of which a step has one.
const ACTIONS: [&str; 5] = ["send", "request", "wait", "repeat", "steps"];

/// Minimum number of measured steps of which there is a 99th percentile.
const MIN_FOR_P99: u64 = 100;

/// Reads the flows of a script and its metric, where they are present, over its current ones.
pub(super) fn read_script(section: &mut Section<'_>, script: &mut Script) -> Result<()> {
    let flows = section.sections("flow", "workload.flow")?;
    let has_flows = !flows.is_empty();
    if has_flows {
        script.flows.clear();
    }
    for flow in flows {
        let span = flow.span();
        let flow = read_flow(flow, &script.flows)?;
        script.flows.push(flow);
        let (flows, operations) = (script.flow_count(), script.volume().operations);
        refuse! { section;
            flows > MAX_FLOWS => span,
                [format!("this script has {flows} flows, and the most are {MAX_FLOWS}")],
                ["write a smaller ", name_of("count")];
            operations > MAX_OPERATIONS => span,
                [format!("with this flow the script has {operations} messages, waits and repetitions, and the most are {MAX_OPERATIONS}")],
                ["write a smaller ", name_of("repeat"), " or ", name_of("count")];
        }
    }
    read_rank(section, script, has_flows)
}

/// Reads the metric of the ranking, whose default is that of the flows.
fn read_rank(section: &mut Section<'_>, script: &mut Script, has_flows: bool) -> Result<()> {
    let named = section.text_such_as("rank_by", id::TRANSFER_TIME_NS)?;
    let measured = script.volume().measured;
    let Some((name, span)) = named else {
        if has_flows {
            let default = match measured {
                0 => id::TRANSFER_TIME_NS,
                _ => DelayMetrics::STEP.p95,
            };
            default.clone_into(&mut script.rank_by);
        }
        return Ok(());
    };
    let is_possible = |name: &&str| match *name {
        id::TRANSFER_TIME_NS => true,
        name if name == DelayMetrics::STEP.p99 => measured >= MIN_FOR_P99,
        _ => measured > 0,
    };
    let ranked_by: Vec<&str> = Script::RANKED_BY.into_iter().filter(is_possible).collect();
    refuse! { section;
        !Script::RANKED_BY.contains(&name.as_str()) => span,
            [format!("a script is not ranked by `{name}`")],
            [format!("write one of {}", list(&ranked_by))];
        name != id::TRANSFER_TIME_NS && measured == 0 => span,
            [format!("no step of this script is measured, of which `{name}` would be")],
            ["add ", setting("measure", "true"), " to a step"];
        name == DelayMetrics::STEP.p99 && measured < MIN_FOR_P99 => span,
            [format!("this script measures {measured} steps, and there is a 99th percentile of {MIN_FOR_P99} or more")],
            ["rank by `step_time_p95_ns`, or write a larger ", name_of("repeat")];
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
        event(before, &name).is_some() => span,
            [format!("this script has two flows or steps `{name}`")],
            ["give one of them another ", name_of("name")];
    }
    let count = section.number("count", 1, MAX_FLOWS.into())?.unwrap_or(1);
    refuse! { section;
        before.is_empty() && section.span_of("after").is_some() => section.span_of("after").unwrap_or_default(),
            [format!("no flow or step `{}` stands above this flow", section.peek("after").unwrap_or_default().0)],
            ["leave ", name_of("after"), " out: the first flow begins with the transfer"];
        before.is_empty() && section.span_of("delay").is_some() => section.span_of("delay").unwrap_or_default(),
            ["the first flow begins with the transfer and has no ", name_of("delay")],
            ["leave ", name_of("delay"), " out, or begin with a ", name_of("wait")];
    }
    let example = before.first().map_or("", |flow| &flow.name);
    let after = section.text_such_as("after", example)?;
    let after = after.map(|(named, span)| known_event(&section, before, &named, &span));
    let after = after.transpose()?;
    let delay = section.duration("delay", "500ms")?;
    let delay = section.time(delay, "500ms")?.unwrap_or_default();
    let steps = read_steps(&mut section, 0, &mut false)?;
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

/// Returns the event of this name: the end of flows, or of a step of theirs.
fn event(flows: &[ScriptFlow], name: &str) -> Option<Event> {
    flows.iter().enumerate().find_map(|(index, flow)| {
        if flow.name == name {
            return Some(Event::FlowsEnded(index));
        }
        let mut steps = flow.steps.iter();
        let step = steps.position(|step| step.name.as_deref() == Some(name))?;
        Some(Event::StepEnded(index, step))
    })
}

/// Returns the event of a key `after`.
fn known_event(
    section: &Section<'_>,
    before: &[ScriptFlow],
    name: &str,
    span: &Range<usize>,
) -> Result<Event> {
    event(before, name).ok_or_else(|| {
        let names = before.iter().flat_map(|flow| {
            let steps = flow.steps.iter().filter_map(|step| step.name.as_deref());
            [flow.name.as_str()].into_iter().chain(steps)
        });
        let names: Vec<&str> = names.collect();
        let hint = format!("write one of {}", list(&names));
        let message = format!("no flow or step `{name}` stands above this flow");
        section.error(span.clone(), message, hint)
    })
}

/// Reads the key `steps`. `waits` is whether a wait comes directly before them, and afterwards whether they end with one.
fn read_steps(section: &mut Section<'_>, depth: usize, waits: &mut bool) -> Result<Vec<Step>> {
    let sections = section.sections("steps", "workload.flow.steps")?;
    refuse! { section;
        depth > MAX_DEPTH => section.span(),
            [format!("these steps stand within more than {MAX_DEPTH} others")],
            "write a flatter script";
        sections.is_empty() => section.span(),
            ["there are no ", name_of("steps")],
            ["add ", setting("steps", "[{ request = \"500B\", response = \"30kB\" }]")];
    }
    let mut steps: Vec<Step> = Vec::new();
    for step in sections {
        let span = step.span_of("name");
        let step = read_step(step, depth, waits)?;
        let is_taken = |name: &String| steps.iter().any(|it| it.name.as_ref() == Some(name));
        refuse! { section;
            step.name.as_ref().is_some_and(is_taken) => span.unwrap_or_default(),
                "this flow has two steps of this name",
                ["give one of them another ", name_of("name")];
        }
        steps.push(step);
    }
    Ok(steps)
}

fn read_step(mut section: Section<'_>, depth: usize, waits: &mut bool) -> Result<Step> {
    let present = ACTIONS.iter().filter(|key| section.span_of(key).is_some());
    // `steps` are those of `repeat`.
    let present: Vec<&str> = present.copied().filter(|key| *key != "steps").collect();
    refuse! { section;
        present.len() > 1 && present.contains(&"repeat") => section.span(),
            ["a step with ", name_of("repeat"), " has what it repeats in ", name_of("steps"), ", not in ", name_of(present[0])],
            ["write ", setting("repeat", "5, steps = [{ request = \"500B\", response = \"30kB\" }]")];
        present.len() > 1 => section.span(),
            ["a step does one thing, and this one has ", name_of(present[0]), " and ", name_of(present[1])],
            "write two steps";
        present.is_empty() && section.span_of("response").is_some() => section.span(),
            ["this step has a ", name_of("response"), " and no ", name_of("request")],
            ["add ", text_setting("request", "500B"), ", or write ", text_setting("send", "30kB"), " with ", text_setting("from", "server")];
        present.is_empty() && section.span_of("steps").is_none() => section.span(),
            "this step does nothing",
            ["write one of ", format!("{}", list(&ACTIONS)), meant(&section)];
        section.span_of("every").is_some() && section.span_of("repeat").is_none() => section.span(),
            [name_of("every"), " is that of ", name_of("repeat"), ", which is not here"],
            ["add ", setting("repeat", "10")];
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
            let time = section.time(time, "2s")?.unwrap_or_default();
            Action::Wait { time }
        }
        _ => read_repeat(&mut section, depth, waits)?,
    };
    let measured = section.flag("measure")?;
    let name = section.text("name")?;
    if let Some((name, span)) = &name {
        section.visible("name", name, span.clone())?;
        refuse! { section;
            depth > 0 => span.clone(),
                "only a step of the flow itself has a name, as one inside others may come several times",
                ["leave ", name_of("name"), " out"];
        }
    }
    section.end()?;
    let (measured, span) = measured.unwrap_or((false, 0..0));
    let step = Step {
        action,
        measured,
        name: name.map(|(name, _)| name),
    };
    if measured && let Err(fault) = step.check_measured(waited) {
        let message = match fault {
            NotMeasurable::EndsElsewhere => {
                "a step is measured by the client, and this one does not end with a message from the server"
            }
            NotMeasurable::BeginsElsewhere => BEGINS_ELSEWHERE,
        };
        return Err(not_measurable(&section, span, message));
    }
    Ok(step)
}

const BEGINS_ELSEWHERE: &str = "a step is measured by the client, and the moment at which the server begins this one is not known there";

fn not_measurable(
    section: &Section<'_>,
    span: Range<usize>,
    message: &str,
) -> super::error::StudyError {
    let hint = message!([
        "leave ",
        name_of("measure"),
        " out here, and measure a step with ",
        name_of("request"),
        " and ",
        name_of("response")
    ]);
    section.error(span, message.to_owned(), hint)
}

/// Returns the end of a hint with the action that an unknown key may mean.
fn meant(section: &Section<'_>) -> String {
    let near = section.unread().find_map(|key| nearest(key, &ACTIONS));
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

fn read_send(section: &mut Section<'_>) -> Result<Action> {
    let size = section.amount("send", "1MB", MESSAGE_SIZES)?;
    let (size, _) = section.required("send", "\"1MB\"", size)?;
    let by = section.choice("from")?.unwrap_or_default();
    Ok(Action::Send { by, size })
}

/// Reads a request and its response, which are one step.
fn read_exchange(section: &mut Section<'_>) -> Result<Action> {
    let request = section.amount("request", "500B", MESSAGE_SIZES)?;
    let (request, _) = section.required("request", "\"500B\"", request)?;
    let response = section.amount("response", "30kB", MESSAGE_SIZES)?;
    let (response, _) = section.required("response", "\"30kB\"", response)?;
    Ok(Step::exchange(request.0, response.0).action)
}

fn read_repeat(section: &mut Section<'_>, depth: usize, waits: &mut bool) -> Result<Action> {
    let times = section.number("repeat", 1, MAX_OPERATIONS)?.unwrap_or(1);
    let mean = section.duration("every", "2s")?;
    let mean: Option<Duration> = section.time(mean, "2s")?;
    let distribution = section.choice_at::<IntervalDistribution>("spacing")?;
    if let Some((_, span)) = distribution.clone().filter(|_| mean.is_none()) {
        let message = message!([
            name_of("spacing"),
            " is that of ",
            name_of("every"),
            ", which is not here"
        ]);
        let hint = message!(["add ", text_setting("every", "100ms")]);
        return Err(section.error(span, message, hint));
    }
    let every = mean.map(|mean| Interval {
        mean,
        distribution: distribution.map_or_else(IntervalDistribution::default, |(it, _)| it),
    });
    *waits |= every.is_some();
    let steps = read_steps(section, depth + 1, waits)?;
    // From the second time on the end of the steps comes before their beginning.
    if times > 1 && *waits && begin_unseen(&steps) {
        return Err(not_measurable(section, section.span(), BEGINS_ELSEWHERE));
    }
    Ok(Action::Repeat {
        times,
        every,
        steps,
    })
}
