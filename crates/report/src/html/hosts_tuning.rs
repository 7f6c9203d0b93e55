//! Sentences about the settings of the hosts' kernels and sockets.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regatta_model::{BedKind, Text, Tuning};

use crate::{
    data::RunData,
    language::{plural, tr},
};

/// Beginning of the facts of a trial's ends that name the sysctls which differ from those that a kernel boots with.
const FACT: &str = "kernel_settings.";

/// Describes the tuning of the hosts, and names every sysctl that differed from those of a kernel that has just booted.
pub(super) fn sentences(data: &RunData) -> String {
    let study = &data.header.study;
    let tunings = study.conditions.iter().map(|condition| &condition.tuning);
    let has = |base| tunings.clone().any(|tuning| tuning.base == base);
    let mut all = Vec::new();
    if has(Tuning::Bench) {
        all.push(tr!(
            "Tuning `bench` shows what a protocol can do: buffers of TCP, UDP and SCTP are so large that they limit no flow, UDP packets are handed over together, and a queue without a size holds one bandwidth-delay product."
        ));
    }
    if has(Tuning::Defaults) {
        all.push(tr!(
            "Tuning `defaults` is a kernel as it boots: buffers of TCP grow to 6 MiB at the receiver and 4 MiB at the sender, other sockets have the kernel's buffers, UDP packets are handed over one by one unless a library joins them, and a queue without a size holds 1000 packets."
        ));
    }
    let values = tunings
        .flat_map(|tuning| &tuning.values)
        .map(|(key, value)| format!("`{key}` {value}"))
        .unique()
        .join(", ");
    if !values.is_empty() {
        all.push(tr!("The study sets {}.", values));
    }
    let limited = study.conditions.iter();
    let limited = limited.filter_map(|it| Some((it.tuning.cpus?, &it.name)));
    for (cpus, names) in limited.into_group_map().into_iter().sorted() {
        let names = names.iter().map(|name| format!("`{name}`")).join(", ");
        all.push(plural!(
            u64::from(cpus),
            "The processes of each end ran on {} processor under {}; the facts `processors.sender` and `processors.receiver` name it.",
            "The processes of each end ran on {} processors under {}; the facts `processors.sender` and `processors.receiver` name them.",
            names
        ));
    }
    if study.bed == BedKind::Hosts {
        all.push(tr!("The machines' own sysctls were left as they were."));
    }
    let facts = data.trials.iter().flat_map(|it| &it.measurements.facts);
    let differing: BTreeSet<&Text> = facts
        .filter(|(name, _)| name.starts_with(FACT))
        .map(|(_, value)| value)
        .collect();
    if !differing.is_empty() {
        let differing = differing
            .iter()
            .map(|value| format!("`{value}`"))
            .join("; ");
        all.push(tr!(
            "Sysctls that differ from those of a kernel that has just booted: {}.",
            differing
        ));
    }
    all.join(" ")
}
