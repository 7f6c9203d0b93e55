//! Competitions of a study file: transports that send at once over one path.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use super::{
    BedKind, Study, Transport,
    error::Result,
    message::{Message, key as name_of, message, setting},
    parts::TransportSpans,
    section::{Section, Taken, refuse, toml_text},
};
use crate::{
    units::format_duration,
    workload::{
        Workload, WorkloadKind,
        competition::{Competition, CompetitionFlow},
    },
};

/// Reader of the competitions, which adds to the transports copies of those that have several flows.
struct CompetitionReader<'s> {
    /// Transports of the study, and their spans.
    transports: &'s mut Vec<Transport>,
    spans: &'s mut Vec<TransportSpans>,
    /// Workloads that the file names.
    workloads: &'s [Workload],
}

/// Competitions that were read.
#[derive(Default)]
struct Found {
    /// Workloads of the competitions, each with the span of its name.
    workloads: Vec<(Workload, Range<usize>)>,
    /// Names of the workloads that competitions use, and of those that each transport does alone, too.
    used: BTreeSet<String>,
    alone: BTreeSet<String>,
}

/// Reads the competitions of a study, puts each into its workloads, and takes out those that no transport does alone.
/// Returns the span of each competition's name.
pub(super) fn read_competitions(
    sections: Vec<Section<'_>>,
    (transports, spans): (&mut Vec<Transport>, &mut Vec<TransportSpans>),
    workloads: &mut Vec<Workload>,
) -> Result<Vec<(String, Range<usize>)>> {
    let mut reader = CompetitionReader {
        transports,
        spans,
        workloads,
    };
    let mut found = Found::default();
    for section in sections {
        reader.read(section, &mut found)?;
    }
    let stays =
        |work: &Workload| !found.used.contains(&work.name) || found.alone.contains(&work.name);
    workloads.retain(stays);
    let named = found.workloads.iter();
    let names = named.map(|(work, span)| (work.name.clone(), span.clone()));
    let names = names.collect();
    workloads.extend(found.workloads.into_iter().map(|(work, _)| work));
    Ok(names)
}

impl CompetitionReader<'_> {
    fn read(&mut self, mut section: Section<'_>, found: &mut Found) -> Result<()> {
        let named = section.text("name")?;
        if let Some((name, span)) = &named {
            section.visible("name", name, span.clone())?;
        }
        let work = self.workload(&mut section)?;
        let Some(base) = work.or_else(|| self.workloads.first().cloned()) else {
            // A study without a workload is refused for that.
            return Ok(());
        };
        let conditions = section.texts("conditions")?;
        let alone = section.flag("alone")?.is_none_or(|(alone, _)| alone);
        let between = section.span_of("between");
        let labels = section.texts("between")?;
        let flows = section.sections("flow", "competition.flow")?;
        refuse! { section;
            between.is_some() && !flows.is_empty() => section.span(),
                ["a competition has either ", name_of("between"), " or flows"],
                ["leave one of them out"];
            between.is_some() && labels.len() < 2 => section.span(),
                [name_of("between"), " names two transports or more"],
                ["name another one, or write a flow with ", name_of("count")];
            labels.iter().collect::<BTreeSet<_>>().len() < labels.len() => section.span(),
                [name_of("between"), " names a transport twice"],
                ["name each once: each competes with itself, too"];
            between.is_some() && named.is_some() => section.span(),
                ["each pair of ", name_of("between"), " is a competition of its own, named after its transports"],
                ["leave ", name_of("name"), " out"];
        }
        let competitions = match between {
            Some(span) => self.pairs(&section, &labels, &span)?,
            None => vec![self.flows(&section, flows, &base)?],
        };
        section.end()?;
        for flows in competitions {
            found
                .used
                .extend(flows.iter().map(|flow| match &flow.workload {
                    Some(work) => work.name.clone(),
                    None => base.name.clone(),
                }));
            if alone {
                found.alone.insert(base.name.clone());
            }
            self.add(&section, flows, (&base, &named, &conditions), found)?;
        }
        Ok(())
    }

    /// Adds a competition under its name, or under that of its transports.
    fn add(
        &self,
        section: &Section<'_>,
        mut flows: Vec<CompetitionFlow>,
        (base, named, conditions): (&Workload, &Taken<String>, &[String]),
        found: &mut Found,
    ) -> Result<()> {
        let (name, span) = named.clone().unwrap_or_else(|| {
            let shown = |flow: &CompetitionFlow| {
                let label = flow.copy_of.as_ref().unwrap_or(&flow.transport);
                label.clone()
            };
            let labels: Vec<String> = flows.iter().map(shown).collect();
            (labels.join(" against "), section.span())
        });
        refuse! { section;
            flows.len() < 2 => section.span(),
                "a competition has at least two flows",
                ["add `[[competition.flow]]` with ", setting("transport", toml_text(self.transports.first().map_or("tcp", |it| &it.label)))];
            flows.len() > Competition::MAX_FLOWS => section.span(),
                [format!("this competition has {} flows, and the most are {}", flows.len(), Competition::MAX_FLOWS)],
                ["write a smaller ", name_of("count")];
        }
        section.visible("name", &name, span.clone())?;
        for work in flows.iter_mut().filter_map(|flow| flow.workload.as_mut()) {
            work.name.clone_from(&name);
        }
        let conditions = match conditions {
            [] => &base.conditions,
            own => own,
        };
        let workload = Workload {
            name,
            transports: Vec::new(),
            conditions: conditions.to_vec(),
            competition: Some(Competition { flows }),
            ..base.clone()
        };
        if let Some((from, until)) = window(&workload)
            && from >= until
        {
            let [from, until] = [from, until].map(format_duration);
            return Err(section.error(
                span,
                message!([format!(
                    "the flows of this competition never send at once after their warm-up: the last begins to count \
                     {from} after the beginning, and the first ends {until} after it"
                )]),
                message!([
                    "write a longer ",
                    name_of("duration"),
                    ", or a shorter ",
                    name_of("warm_up"),
                    " or ",
                    name_of("start"),
                ]),
            ));
        }
        found.workloads.push((workload, span));
        Ok(())
    }

    /// Reads the key `workload`.
    fn workload(&self, section: &mut Section<'_>) -> Result<Option<Workload>> {
        let names = self.workloads.iter().map(|known| known.name.as_str());
        let Some((name, _)) = section.known_text("workload", "workload", names)? else {
            return Ok(None);
        };
        Ok(self.workloads.iter().find(|it| it.name == name).cloned())
    }

    /// Returns the flows of each pair of transports, of one with itself as well.
    fn pairs(
        &mut self,
        section: &Section<'_>,
        labels: &[String],
        span: &Range<usize>,
    ) -> Result<Vec<Vec<CompetitionFlow>>> {
        let mut all = Vec::new();
        for (index, label) in labels.iter().enumerate() {
            for other in &labels[index..] {
                let mut flows = Vec::new();
                for label in [label, other] {
                    let flow = self.flow(section, label, span, &flows)?;
                    flows.push(flow);
                }
                all.push(flows);
            }
        }
        Ok(all)
    }

    /// Reads the flows of one competition.
    fn flows(
        &mut self,
        section: &Section<'_>,
        sections: Vec<Section<'_>>,
        base: &Workload,
    ) -> Result<Vec<CompetitionFlow>> {
        let mut flows = Vec::new();
        for mut flow in sections {
            let labels = self.transports.iter().map(|known| known.label.as_str());
            let example = toml_text(labels.clone().next().unwrap_or("tcp"));
            let label = flow.known_text("transport", "transport", labels)?;
            let (label, span) = flow.required("transport", &example, label)?;
            let most = Competition::MAX_FLOWS as u64;
            let count = flow.number("count", 1, most)?.unwrap_or(1);
            let start = flow.duration("start", "5s")?;
            let start = flow.time(start, "5s")?.unwrap_or_default();
            let rtt = flow.duration("rtt", "160ms")?;
            let rtt = flow.time(rtt, "160ms")?;
            let workload = self.workload(&mut flow)?;
            flow.end()?;
            let workload = workload.filter(|work| work.name != base.name).map(Box::new);
            for _ in 0..count {
                let copy = CompetitionFlow {
                    start,
                    rtt,
                    workload: workload.clone(),
                    ..self.flow(section, &label, &span, &flows)?
                };
                flows.push(copy);
            }
        }
        Ok(flows)
    }

    /// Returns a flow of a transport beside `others`, with a copy of the transport if one of them has it already.
    fn flow(
        &mut self,
        section: &Section<'_>,
        label: &str,
        span: &Range<usize>,
        others: &[CompetitionFlow],
    ) -> Result<CompetitionFlow> {
        let names = self.transports.iter().map(|known| known.label.as_str());
        section.known("transport", label, span, names)?;
        let is_same = |flow: &&CompetitionFlow| {
            flow.transport == label || flow.copy_of.as_deref() == Some(label)
        };
        let before = others.iter().filter(is_same).count();
        let mut transport = label.to_owned();
        if before > 0 {
            transport = format!("{label} {}", before + 1);
            section.visible("label", &transport, span.clone())?;
            self.copy(label, &transport);
        }
        Ok(CompetitionFlow {
            copy_of: (before > 0).then(|| label.to_owned()),
            transport,
            start: Duration::ZERO,
            rtt: None,
            workload: None,
        })
    }

    /// Adds a copy of a transport, unless it is there.
    fn copy(&mut self, label: &str, copy: &str) {
        if self.transports.iter().any(|known| known.label == copy) {
            return;
        }
        let Some(position) = self.transports.iter().position(|it| it.label == label) else {
            return;
        };
        let transport = Transport {
            label: copy.to_owned(),
            ..self.transports[position].clone()
        };
        self.transports.push(transport);
        let spans = self.spans[position].clone();
        self.spans.push(spans);
    }
}

/// Mistake in a competition of a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompetitionMistake {
    /// Name of the competition.
    pub competition: String,
    /// The mistake, for the user.
    pub message: Message,
    /// Advice for the user.
    pub hint: Message,
}

impl Study {
    /// Chooses the emulator that gives flows round-trip delays of their own, if a flow has one.
    ///
    /// # Errors
    /// Another emulator is asked for, or a delay that is shorter than that of the path.
    pub fn choose_emulator_for_flows(&mut self) -> Result<(), CompetitionMistake> {
        for workload in &self.workloads {
            let flows = workload.competition.iter().flat_map(|it| &it.flows);
            for (flow, rtt) in flows.filter_map(|flow| Some((flow, flow.rtt?))) {
                let mistake = |message: Message, hint: Message| CompetitionMistake {
                    competition: workload.name.clone(),
                    message,
                    hint,
                };
                if self.bed == BedKind::Hosts {
                    return Err(mistake(
                        message!([
                            "a flow has a ",
                            name_of("rtt"),
                            " of its own, and between two hosts the path is the same for all"
                        ]),
                        message!(["leave ", name_of("rtt"), " out, or choose another bed"]),
                    ));
                }
                self.path = self
                    .path
                    .without_netem("delays all flows alike")
                    .map_err(|why| {
                        let hint =
                            message!(["leave that out, or ", name_of("rtt"), " of the flows"]);
                        mistake(why.after("no flow can have a path of its own here: "), hint)
                    })?;
                let conditions = self.conditions.iter();
                let mut nearer = conditions.filter(|condition| {
                    workload.is_under(&condition.name) && rtt < condition.longest_round_trip_delay()
                });
                if let Some(condition) = nearer.next() {
                    let [own, path] =
                        [rtt, condition.longest_round_trip_delay()].map(format_duration);
                    return Err(mistake(
                        message!([format!(
                            "the flow `{}` has a round-trip delay of {own}, and under `{}` that of the path which all share is {path}",
                            flow.transport, condition.name
                        )]),
                        message!([
                            "write a longer ",
                            name_of("rtt"),
                            " of the flow, or a shorter one of the condition"
                        ]),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns the time in which all flows of a competition send and none is in its warm-up, since the beginning; `None` where
/// a flow has no duration.
fn window(workload: &Workload) -> Option<(Duration, Duration)> {
    let flows = &workload.competition.as_ref()?.flows;
    let mut from = Duration::ZERO;
    let mut until = Duration::MAX;
    for flow in flows {
        let WorkloadKind::Bulk {
            amount, options, ..
        } = &workload.of_transport(&flow.transport).kind
        else {
            return None;
        };
        from = from.max(flow.start.saturating_add(options.warm_up));
        until = until.min(flow.start.saturating_add(amount.time()?));
    }
    Some((from, until))
}
