//! Figures of the hosts over the time of a run: one panel for each host, trials as bands.

use std::borrow::Cow;

use itertools::Itertools as _;
use regatta_model::{Unit, host_sample};

use super::{
    Datum, DrawnPanel, Figure, LONGEST_HEADING,
    frame::{Chart, LABEL_CHARACTERS, Panel, YAxis, axis_end, largest, room_for_labels, time_axis},
    style::Styles,
    svg::{ColourRole, Point, Svg, Text, rectangle},
};
use crate::{
    RunData,
    format::Scale,
    labels::Labels,
    language::{self, tr},
    timeline::{
        Bin, COLLISIONS, CPU_BUSIEST, CPU_MEAN, HostTimeline, INTERFACE_ERRORS, IP_ERRORS, Line,
        MEMORY_USED, SCTP_ERRORS, SOFTIRQ_BUSIEST, SOFTIRQ_MEAN, TCP_ERRORS, UDP_ERRORS,
    },
};

const HEIGHT: f64 = 230.0;

/// Most cores that have a line each.
const MAX_CORES: usize = 4;

/// Most interfaces that have a line.
const MAX_INTERFACES: usize = 4;

/// Most trials that are drawn as bands; more would be narrower than a pixel each.
const MAX_BANDS: usize = 300;

/// Width of the sample of a line before its label, in CSS pixels.
const KEY: f64 = 16.0;

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

/// Packets of the interfaces per second. The other quantities say in what they differ from it.
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

/// Band of one trial: label and style of the transport, beginning and end in nanoseconds.
struct Band<'a> {
    label: &'a str,
    series: usize,
    from_ns: i64,
    to_ns: i64,
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
    let scale = Scale::for_largest(what.unit, highest);
    let y_end = axis_end(scale.apply(highest));
    let end_s = largest(hosts.iter().map(|host| host.end_ns() as f64 / 1e9));
    let (divisor, unit) = time_axis(end_s);
    let headings: Vec<String> = hosts.iter().map(|host| label(host, data)).collect();
    let headings = Labels::new(&headings, LONGEST_HEADING);
    let drawing = Drawing {
        what,
        data,
        scale,
        axes: [end_s / divisor, y_end],
        seconds: divisor,
        x_title: tr!("time since the first sample, {}", unit),
        labels: Labels::new(lines().map(|(label, _)| label), LABEL_CHARACTERS),
        headings,
    };
    let panels = hosts.iter().zip(&of_hosts).enumerate();
    Some(Figure {
        id: format!("figure-hosts-{}", what.id),
        title: language::text(what.title).to_owned(),
        caption: caption(what, hosts, data),
        definition: language::text(what.definition).to_owned(),
        panels: panels
            .filter(|(_, (_, lines))| !lines.is_empty())
            .map(|(number, (host, lines))| {
                let bands = data.map_or_else(Vec::new, |data| bands(host, data));
                drawing.panel(number, host, lines, &bands)
            })
            .collect(),
    })
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

/// Returns the bands of a host's trials; none if there are too many.
fn bands<'a>(host: &HostTimeline, data: &'a RunData) -> Vec<Band<'a>> {
    if host.trials.len() > MAX_BANDS {
        return Vec::new();
    }
    let styles = Styles::of(data);
    (host.trials.iter())
        .filter_map(|span| {
            let mut records = data.trials.iter().chain(&data.repeated);
            let record = records.find(|record| record.index == span.trial)?;
            Some(Band {
                label: &record.transport,
                series: styles.get(&record.transport),
                from_ns: span.from_ns,
                to_ns: span.to_ns,
            })
        })
        .collect()
}

/// Parts that the panels of a figure have in common.
struct Drawing<'a> {
    what: &'a Quantity,
    data: Option<&'a RunData>,
    scale: Scale,
    /// Ends of the horizontal and the vertical axis.
    axes: [f64; 2],
    /// Seconds in a unit of the horizontal axis.
    seconds: f64,
    x_title: String,
    labels: Labels,
    headings: Labels,
}

impl Drawing<'_> {
    fn panel(
        &self,
        number: usize,
        host: &HostTimeline,
        lines: &[(String, Cow<'_, Line>)],
        bands: &[Band<'_>],
    ) -> DrawnPanel {
        let heading = label(host, self.data);
        let heading = self.headings.get(&heading);
        let y_title = self.scale.heading(self.what.y_title);
        let labels: Vec<&str> = lines.iter().map(|(label, _)| label.as_str()).collect();
        let (x_axis, y_axis) = (0.0..self.axes[0], YAxis::Linear(self.axes[1]));
        Panel {
            id: &format!("hosts-{}-{number}", self.what.id),
            title: &format!("{}: {heading}", language::text(self.what.title)),
            description: &tr!("{} over {}: {}.", y_title, self.x_title, labels.join(", ")),
            heading,
            y_title: &y_title,
            x_title: &self.x_title,
            height: HEIGHT,
            left: Panel::LEFT,
            right: room_for_labels(&self.labels) + KEY,
            labels: &self.labels,
        }
        .draw(x_axis, y_axis, |svg, chart| {
            self.draw_bands(svg, chart, bands);
            let lines = lines.iter().enumerate();
            let ends = lines.map(|(position, (label, line))| {
                self.record_line(svg, label, host, line);
                let mut end = None;
                svg.of_line("line", label, |svg| {
                    end = self.draw_line(svg, chart, position, host, line);
                });
                end
            });
            let ends: Vec<Option<f64>> = ends.collect();
            svg.group("end", |svg| {
                draw_labels(svg, chart, (&labels, &self.labels), &ends)
            });
        })
    }

    /// Returns the position of a time on the horizontal axis.
    fn x(&self, chart: &Chart, ns: f64) -> f64 {
        chart.x(ns / 1e9 / self.seconds)
    }

    fn draw_bands(&self, svg: &mut Svg, chart: &Chart, bands: &[Band<'_>]) {
        for band in bands {
            let left = self.x(chart, band.from_ns as f64);
            let right = self.x(chart, band.to_ns as f64).max(left + 0.7);
            let [over, above] = [
                [chart.top, chart.bottom],
                [chart.top - 4.0, chart.top - 1.0],
            ]
            .map(|heights| rectangle([left, right], heights));
            let ink = ColourRole::Series(band.series);
            svg.of_transport("trial", band.label, |svg| {
                svg.polygon(&over, ink, 0.16);
                svg.polygon(&above, ink, 1.0);
            });
        }
    }

    /// Records the means of a line with their ranges.
    fn record_line(&self, svg: &mut Svg, label: &str, host: &HostTimeline, line: &Line) {
        let shown = |value: f64| self.scale.apply(value * self.what.factor);
        for (index, bin) in line.bins.iter().enumerate() {
            let Some(mean) = bin.mean() else { continue };
            let at = (index as f64 + 0.5) * host.bin_ns as f64;
            svg.record(Datum {
                label: label.to_owned(),
                kind: "line",
                x: Some(at / 1e9 / self.seconds),
                value: Some(shown(mean)),
                interval: bin.range().map(|range| range.map(shown)),
                n: None,
            });
        }
    }

    /// Draws one line in its parts between gaps; returns the height of its end.
    fn draw_line(
        &self,
        svg: &mut Svg,
        chart: &Chart,
        position: usize,
        host: &HostTimeline,
        line: &Line,
    ) -> Option<f64> {
        let y = |value: f64| chart.y(self.scale.apply(value * self.what.factor));
        let middle = |bin: usize| self.x(chart, (bin as f64 + 0.5) * host.bin_ns as f64);
        let indexed: Vec<(usize, &Bin)> = line.bins.iter().enumerate().collect();
        let mut end = None;
        for part in indexed.split(|(_, bin)| bin.mean().is_none()) {
            let points: Vec<Point> = (part.iter())
                .filter_map(|(index, bin)| Some((middle(*index), y(bin.mean()?))))
                .collect();
            let Some(last) = points.last() else {
                continue;
            };
            end = Some(last.1);
            let ranges: Vec<(f64, [f64; 2])> = (part.iter())
                .filter_map(|(index, bin)| Some((middle(*index), bin.range()?.map(y))))
                .collect();
            if ranges.iter().any(|(_, [least, largest])| largest < least) {
                let upper = ranges.iter().map(|(x, range)| (*x, range[1]));
                let lower = ranges.iter().rev().map(|(x, range)| (*x, range[0]));
                let area: Vec<Point> = upper.chain(lower).collect();
                svg.polygon(&area, ColourRole::Muted, 0.18);
            }
            svg.line(&points, ColourRole::Plain(position), 1.3);
        }
        end
    }
}

/// Writes labels right of the plot, near the ends of their lines, each with a sample of its line.
fn draw_labels(
    svg: &mut Svg,
    chart: &Chart,
    (labels, shown): (&[&str], &Labels),
    ends: &[Option<f64>],
) {
    let placed = chart.heights_of_labels(ends.iter().map(|end| end.unwrap_or(chart.bottom)));
    for (position, (label, y)) in labels.iter().zip(placed).enumerate() {
        let from = chart.right + 6.0;
        let key = [(from, y), (from + KEY, y)];
        svg.line(&key, ColourRole::Plain(position), 1.3);
        svg.text((from + KEY + 4.0, y), shown.get(label), Text::LABEL);
    }
}
