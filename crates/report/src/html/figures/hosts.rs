//! Figures of the hosts over the time of a run: one panel for each host, trials as bands.

use std::borrow::Cow;

use itertools::Itertools as _;
use regatta_model::{Unit, host_sample};

use super::{
    Figure, LABEL_CHARACTERS, LONGEST_HEADING,
    axis::{XAxis, YAxis, largest, time_scale},
    marks::{Line as DrawnLine, Mark, Sample},
    plot::{Axes, Panel, Plot},
    style::Styles,
};
use crate::{
    RunData,
    labels::Labels,
    language::{self, tr},
    timeline::{
        COLLISIONS, CPU_BUSIEST, CPU_MEAN, HostTimeline, INTERFACE_ERRORS, IP_ERRORS, Line,
        MEMORY_USED, SCTP_ERRORS, SOFTIRQ_BUSIEST, SOFTIRQ_MEAN, TCP_ERRORS, UDP_ERRORS,
    },
};

const HEIGHT: f64 = 230.0;

/// Maximum number of cores that have a line each; of more, the mean and the busiest core are drawn.
const MAX_CORES: usize = 4;

/// Maximum number of interfaces that have a line: those with the largest sums.
const MAX_INTERFACES: usize = 4;

/// Maximum number of trials that are drawn as bands; more would be narrower than a pixel each.
const MAX_BANDS: usize = 300;

/// Lines with their labels.
type Labelled<'a> = Vec<(String, Cow<'a, Line>)>;

/// Quantity with a figure.
struct Quantity {
    id: &'static str,
    title: &'static str,
    y_title: &'static str,
    unit: Unit,
    /// Factor of the stored values.
    factor: f64,
    /// Lines of a host with their labels.
    lines: fn(&HostTimeline) -> Labelled<'_>,
    definition: &'static str,
}

/// Base of the entries of [`FIGURES`]: packets of the interfaces per second.
const PLAIN: Quantity = Quantity {
    id: "",
    title: "",
    y_title: "",
    unit: Unit::PerSecond,
    factor: 1.0,
    lines: |_| Vec::new(),
    definition: PACKETS,
};

const FIGURES: [Quantity; 12] = [
    Quantity {
        id: "cpu",
        title: "CPU of the hosts",
        y_title: "busy time of a core",
        unit: Unit::Ratio,
        lines: |host| cores(host, "busy_ratio", [CPU_MEAN, CPU_BUSIEST]),
        definition: "Time in which a core was not idle, waiting for I/O, or taken by a hypervisor.",
        ..PLAIN
    },
    Quantity {
        id: "softirq",
        title: "Softirq of the hosts",
        y_title: "time of a core in softirq",
        unit: Unit::Ratio,
        lines: |host| cores(host, "softirq_ratio", [SOFTIRQ_MEAN, SOFTIRQ_BUSIEST]),
        definition: "Time in which a core handled packets and timers of the kernel, by samples of the timer tick (mostly 10 ms).",
        ..PLAIN
    },
    Quantity {
        id: "load",
        title: "Load of the hosts",
        y_title: "tasks",
        unit: Unit::Count,
        lines: |host| named(host, &LOAD),
        definition: "Tasks that run or wait for a core, and the load average over one minute.",
        ..PLAIN
    },
    Quantity {
        id: "memory",
        title: "Memory of the hosts",
        y_title: "memory in use",
        unit: Unit::Bytes,
        lines: |host| named(host, &[("in use", MEMORY_USED)]),
        definition: "Memory that programs could not get without swapping.",
        ..PLAIN
    },
    Quantity {
        id: "received",
        title: "Bits received by the interfaces",
        y_title: "bits received",
        lines: |host| interfaces(host, "received_bytes"),
        ..BITS
    },
    Quantity {
        id: "sent",
        title: "Bits sent by the interfaces",
        y_title: "bits sent",
        lines: |host| interfaces(host, "sent_bytes"),
        ..BITS
    },
    Quantity {
        id: "packets-received",
        title: "Packets received by the interfaces",
        y_title: "packets received per second",
        lines: |host| interfaces(host, "received_packets"),
        ..PLAIN
    },
    Quantity {
        id: "packets-sent",
        title: "Packets sent by the interfaces",
        y_title: "packets sent per second",
        lines: |host| interfaces(host, "sent_packets"),
        ..PLAIN
    },
    Quantity {
        id: "packet-size-received",
        title: "Size of the packets received",
        y_title: "mean packet size",
        unit: Unit::Bytes,
        lines: |host| packet_sizes(host, ["received_bytes", "received_packets"]),
        ..PLAIN
    },
    Quantity {
        id: "packet-size-sent",
        title: "Size of the packets sent",
        y_title: "mean packet size",
        unit: Unit::Bytes,
        lines: |host| packet_sizes(host, ["sent_bytes", "sent_packets"]),
        ..PLAIN
    },
    Quantity {
        id: "retransmissions",
        title: "Retransmissions of the kernel's transports",
        y_title: "sent again per second",
        lines: |host| named(host, &RETRANSMISSIONS),
        definition: "All connections of the host. Transports in user space (QUIC, UDP) are not in these counters.",
        ..PLAIN
    },
    Quantity {
        id: "errors",
        title: "Errors, drops and collisions by protocol",
        y_title: "events per second",
        lines: |host| named(host, &ERRORS),
        definition: "Errors and drops of all interfaces, and their collisions; packets that IP found wrong or discarded; segments, datagrams and packets that TCP, UDP and SCTP found wrong, or for which a socket had no room.",
        ..PLAIN
    },
];

/// Bits that an interface carries.
const BITS: Quantity = Quantity {
    unit: Unit::BitsPerSecond,
    factor: 8.0,
    definition: "As the interface's driver counts, retransmissions and headers included; the interfaces with most.",
    ..PLAIN
};

/// Labels and names of the lines of the load.
const LOAD: [(&str, &str); 2] = [
    ("runnable", "load.runnable_tasks"),
    ("1 min average", "load.average_1min"),
];

/// Labels and names of the lines of retransmissions.
const RETRANSMISSIONS: [(&str, &str); 2] = [
    ("TCP segments", "tcp.retransmitted_segments"),
    ("SCTP chunks", "sctp.retransmitted_chunks"),
];

/// Labels and names of the lines of errors.
const ERRORS: [(&str, &str); 6] = [
    ("interfaces", INTERFACE_ERRORS),
    ("collisions", COLLISIONS),
    ("IP", IP_ERRORS),
    ("TCP", TCP_ERRORS),
    ("UDP", UDP_ERRORS),
    ("SCTP", SCTP_ERRORS),
];

/// Packets in the counters of an interface.
const PACKETS: &str = "As the interface's driver counts; with TSO, GSO or GRO it counts one large packet for several on the wire. The interfaces with most.";

fn named<'a>(host: &'a HostTimeline, lines: &[(&str, &str)]) -> Labelled<'a> {
    (lines.iter())
        .filter_map(|(label, name)| {
            let line = host.lines.get(*name)?;
            Some((language::text(label).to_owned(), Cow::Borrowed(line)))
        })
        .collect()
}

/// Returns the lines of each core, or of the mean and the busiest where there are many.
fn cores<'a>(host: &'a HostTimeline, name: &str, [mean, busiest]: [&str; 2]) -> Labelled<'a> {
    let mut cores: Vec<(u32, &Line)> = (host.lines.iter())
        .filter_map(|(line, values)| {
            let core = line.strip_prefix("cpu.")?.strip_suffix(name)?;
            Some((core.strip_suffix('.')?.parse().ok()?, values))
        })
        .collect();
    cores.sort_unstable_by_key(|(core, _)| *core);
    if cores.len() > MAX_CORES {
        return named(host, &[("mean", mean), ("busiest core", busiest)]);
    }
    (cores.into_iter())
        .map(|(core, line)| (tr!("core {}", core), Cow::Borrowed(line)))
        .collect()
}

/// Returns the lines of the interfaces with the largest sums, largest first.
fn interfaces<'a>(host: &'a HostTimeline, name: &str) -> Labelled<'a> {
    let mut found: Vec<(&str, &Line)> = (host.lines.iter())
        .filter_map(|(line, values)| match host_sample::find(line)? {
            (quantity, Some(interface)) if quantity.name == name => Some((interface, values)),
            _ => None,
        })
        .collect();
    found.sort_by(|(_, a), (_, b)| b.total.total_cmp(&a.total));
    found.truncate(MAX_INTERFACES);
    (found.into_iter())
        .map(|(interface, line)| (interface.to_owned(), Cow::Borrowed(line)))
        .collect()
}

/// Returns the lines of the mean packet size of the interfaces with most bytes.
fn packet_sizes<'a>(host: &'a HostTimeline, [bytes, packets]: [&str; 2]) -> Labelled<'a> {
    let of = interfaces(host, bytes).into_iter();
    of.filter_map(|(interface, line)| {
        let name = format!("interface.{interface}.{packets}");
        let packets = host.lines.get(&name)?;
        (packets.total > 0.0).then(|| (interface, Cow::Owned(line.ratio(packets))))
    })
    .collect()
}

/// Draws a figure for each quantity that any host has. `data` is the run of the trials; there are no
/// bands without.
pub fn draw(hosts: &[HostTimeline], data: Option<&RunData>) -> Vec<Figure> {
    let quantities = FIGURES.iter();
    let figures = quantities.filter_map(|quantity| draw_one(quantity, hosts, data));
    figures.collect()
}

fn draw_one(what: &Quantity, hosts: &[HostTimeline], data: Option<&RunData>) -> Option<Figure> {
    let of_hosts: Vec<Labelled<'_>> = hosts.iter().map(what.lines).collect();
    let lines = || of_hosts.iter().flatten();
    lines().next()?;
    let highest = largest(lines().map(|(_, line)| line.largest)) * what.factor;
    let y = YAxis::from_zero(what.unit, what.y_title, highest);
    let end_s = largest(hosts.iter().map(|host| host.end_ns() as f64 / 1e9));
    let scale = time_scale(end_s);
    let x_title = tr!("time since the first sample, {}", scale.unit);
    let headings: Vec<String> = hosts.iter().map(|host| label(host, data)).collect();
    let shown = Labels::new(&headings, LONGEST_HEADING);
    let panels = hosts.iter().zip(&of_hosts).zip(&headings);
    let panels = panels.map(|((host, lines), heading)| {
        let heading = shown.get(heading).to_owned();
        let labels = lines.iter().map(|(label, _)| label).join(", ");
        let mut marks = data.map_or_else(Vec::new, |data| trials(host, data));
        let lines = lines.iter().enumerate();
        let lines = lines.map(|(position, (label, line))| DrawnLine {
            label,
            style: position,
            samples: samples(what, host, line),
            extremes: Vec::new(),
        });
        marks.push(Mark::PlainLines(lines.collect()));
        Panel {
            title: format!("{}: {heading}", language::text(what.title)),
            description: tr!("{} over {}: {}.", y.title, x_title, labels),
            heading,
            marks,
            ..Panel::default()
        }
    });
    let panels = panels.collect();
    Plot {
        id: format!("hosts-{}", what.id),
        title: language::text(what.title).to_owned(),
        caption: caption(what, hosts, data),
        definition: language::text(what.definition).to_owned(),
        labels: Labels::new(lines().map(|(label, _)| label), LABEL_CHARACTERS),
        panels,
        axes: Axes::Values {
            x: XAxis::linear(x_title, scale, 0.0..scale.apply(end_s)),
            y,
            height: HEIGHT,
        },
    }
    .draw()
}

/// Returns the means of a line by seconds, each with the smallest and the largest sample of its step.
fn samples(what: &Quantity, host: &HostTimeline, line: &Line) -> Vec<Sample> {
    let bins = line.bins.iter().enumerate();
    let samples = bins.map(|(index, bin)| {
        let seconds = (index as f64 + 0.5) * host.bin_ns as f64 / 1e9;
        let mean = bin.mean().map_or(f64::NAN, |mean| mean * what.factor);
        Sample {
            interval: bin.range().map(|ends| ends.map(|end| end * what.factor)),
            ..Sample::from((seconds, mean))
        }
    });
    samples.collect()
}

/// Returns the name of a host, with that in the hosts file if it is the host of a run.
fn label(host: &HostTimeline, data: Option<&RunData>) -> String {
    data.map_or_else(
        || host.host.clone(),
        |data| language::text(&data.header.host_label(&host.host)).to_owned(),
    )
}

fn caption(what: &Quantity, hosts: &[HostTimeline], data: Option<&RunData>) -> String {
    let longest = hosts.iter().map(|host| host.bin_ns).max().unwrap_or(0);
    let step = crate::format::quantity(Unit::Nanoseconds, longest as f64);
    let mut text = tr!(
        "Line: mean over steps of {}; grey: from the smallest to the largest sample of a step.",
        step
    );
    if hosts.iter().any(|host| host.trials.len() > MAX_BANDS) {
        text += &tr!(" There are too many trials to show each of them as a band.");
    } else if data.is_some() {
        text += &tr!(" Bands: trials, in the colours of their transports.");
    }
    let without = hosts.iter().filter(|host| (what.lines)(host).is_empty());
    let without = without.map(|host| label(host, data)).join(", ");
    if !without.is_empty() {
        text += &tr!(" Not counted by the kernel of: {}.", without);
    }
    text
}

/// Returns the spans of a host's trials; none if there are too many.
fn trials<'a>(host: &HostTimeline, data: &'a RunData) -> Vec<Mark<'a>> {
    if host.trials.len() > MAX_BANDS {
        return Vec::new();
    }
    let styles = Styles::of(data);
    (host.trials.iter())
        .filter_map(|span| {
            let mut records = data.trials.iter().chain(&data.repeated);
            let label = &records.find(|record| record.index == span.trial)?.transport;
            let ends = [span.from_ns, span.to_ns].map(|ns| ns as f64 / 1e9);
            Some(Mark::Span(label, styles.get(label), ends))
        })
        .collect()
}
