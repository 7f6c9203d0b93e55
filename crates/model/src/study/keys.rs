//! Keys of a condition: one row for each, of which the reader of studies, the command line, the names of
//! conditions, descriptions in plans and reports, checks and `docs/conditions.md` are made.

use std::{fmt, ops::Range, time::Duration};

use super::{
    draft::Draft,
    error::Result,
    key::{Fault, KeyKind, PathKey},
    message::{key as name_of, message, text_setting},
    names::nearest,
    section::{Section, set, set_some},
};
use crate::{
    condition::{
        Condition, DelayDistribution, DeliveryTrace, GilbertElliott, HostTuning, Impairment, Link,
        QueueDiscipline, RateOf, SHIPPED_TRACES, ShippedTrace,
    },
    metric::Unit,
    named::Named as _,
    units::{BitRate, Ratio, UnitError},
    warning::{Phrase, phrase},
};

/// Disciplines with the times that they have where a study names none: RFC 8289 §4.3, RFC 8033 §4.1, RFC 9332 §A.1 (Linux),
/// 5 ms in Adaptive RED §5; CAKE as in Linux.
const DISCIPLINES: [(&str, QueueDiscipline); 8] = {
    const LONG: Duration = Duration::from_millis(15);
    const SHORT: Duration = Duration::from_millis(5);
    const INTERVAL: Duration = Duration::from_millis(100);
    [
        ("drop-tail", QueueDiscipline::DropTail),
        (
            "codel",
            QueueDiscipline::Codel {
                target: SHORT,
                interval: INTERVAL,
            },
        ),
        ("pie", QueueDiscipline::Pie { target: LONG }),
        (
            "fq-codel",
            QueueDiscipline::FqCodel {
                target: SHORT,
                interval: INTERVAL,
            },
        ),
        (
            "dualpi2",
            QueueDiscipline::DualPi2 {
                target: LONG,
                any_ect: false,
            },
        ),
        ("red", QueueDiscipline::Red { target: SHORT }),
        ("fq-pie", QueueDiscipline::FqPie { target: LONG }),
        (
            "cake",
            QueueDiscipline::Cake {
                target: SHORT,
                interval: INTERVAL,
            },
        ),
    ]
};

/// Maximum number of packets in a list of losses.
const LONGEST_LIST: usize = 1_000_000;

/// Returns the first of some faults whose condition holds: message and hint, as [`message!`] takes them.
macro_rules! faults {
    ($($is:expr => $message:tt, $hint:tt;)+) => {{
        $(if $is {
            return Some((message!($message), message!($hint)));
        })+
        None
    }};
}

/// Keys in the order of help and of `docs/conditions.md`. Those of a link are read in this order.
pub const PATH_KEYS: &[PathKey] = &[
    PathKey::new("rtt", KeyKind::Time)
        .help("Round-trip delay of the path, half of it each way [default without a STUDY: 30ms]")
        .doc("round-trip propagation delay, half of it each way | 0")
        .stepped("300ms", Unit::Nanoseconds, |link, ns| link.delay = time(ns) / 2),
    PathKey::new("delay", KeyKind::Time)
        .help("One-way delay, each way, instead of a round-trip delay")
        .doc("one-way propagation delay, each way, instead of `rtt` | 0")
        .in_name(1, "{} each way")
        .instead_of("rtt")
        .read(|s, d, key| Ok(set(s.duration(key, "15ms")?, &mut d.link.delay)))
        .stepped("150ms", Unit::Nanoseconds, |link, ns| link.delay = time(ns))
        .fault(|link, _| too_long(link.delay)),
    PathKey::new("jitter", KeyKind::Time)
        .help("Amplitude of the random delay, each way; it changes steadily in time, so that packets keep their order")
        .doc("amplitude of a random delay around the delay, each way; at most the delay | none")
        .in_name(10, "± {}")
        .read(|s, d, key| Ok(set(s.duration_up_to(key, d.link.delay)?, &mut d.link.jitter)))
        .stepped("10ms", Unit::Nanoseconds, |link, ns| link.jitter = time(ns))
        .fault(|link, _| too_long(link.jitter).or_else(|| faults! {
            link.jitter > link.delay =>
                [name_of("jitter"), " is larger than the one-way delay that it varies"],
                "write a jitter of at most the delay: a packet cannot arrive before it was sent";
        })),
    PathKey::new("jitter_distribution", KeyKind::Enum("NAME", &["uniform", "normal", "pareto"]))
        .help("Distribution of the random delay: `uniform`, `normal` or `pareto` [default: uniform]")
        .doc("`uniform`: evenly within ± `jitter`. `normal`: with standard deviation `jitter`, cut off at four standard deviations. `pareto`: shape 3, mean 0, standard deviation `jitter`, from −0.82 to 4 `jitter`, the long tail of wide-area paths | `uniform`")
        .in_name(11, "{}")
        .read(|s, d, key| Ok(set(s.choice_at(key)?, &mut d.link.jitter_distribution)))
        .describe(|link| {
            let distribution = link.jitter_distribution;
            (!link.jitter.is_zero() && distribution != DelayDistribution::Uniform)
                .then(|| phrase::jitter_distributed(distribution.as_str()))
        })
        .fault(|link, _| faults! {
            link.jitter.is_zero() && link.jitter_distribution.reach() > 1 =>
                ["a distribution of the jitter, but no ", name_of("jitter")], ["add ", text_setting("jitter", "2ms")];
        }),
    PathKey::new("rtt_jitter", KeyKind::Time)
        .help("Amplitude of the round trip's random delay, half of it each way, instead of `--jitter`")
        .doc("amplitude of the round trip's random delay, half of it each way, instead of `jitter` | none")
        .in_name(13, "± {} of the round trip")
        .instead_of("jitter"),
    PathKey::new("jitter_reorders", KeyKind::Flag)
        .help("Let packets overtake one another through jitter, which is drawn for each packet then")
        .doc("whether packets may overtake one another: each packet has its own draw, as with netem without a rate | `false`")
        .in_name(12, "overtaking")
        .read(|s, d, key| Ok(set(s.flag(key)?, &mut d.link.jitter_reorders)))
        .describe(|link| {
            (!link.jitter.is_zero() && link.jitter_reorders)
                .then(phrase::jitter_overtakes)
        }),
    PathKey::new("jitter_correlation", KeyKind::Time)
        .help("Time after which the random delay is independent of its earlier value; 0s draws it for each packet [default: four times its widest deviation]")
        .doc("time after which the random delay is independent of its earlier value; in between it changes continuously: see [Jitter](#jitter). `0s` draws a delay for each packet, and a packet that would overtake waits for the one before it | 4 × the widest deviation")
        .in_name(14, "correlation {}")
        .read(|s, d, key| Ok(set_some(s.duration(key, "100ms")?, &mut d.link.jitter_correlation)))
        .describe(|link| match link.jitter_span() {
            Some(span) if link.jitter_correlation.is_some() => {
                Some(phrase::jitter_independent_after(span))
            }
            None if !link.jitter.is_zero() && !link.jitter_reorders => {
                Some(phrase::jitter_of_each_packet())
            }
            _ => None,
        })
        .fault(|link, _| {
            let correlation = link.jitter_correlation?;
            too_long(correlation).or_else(|| faults! {
                link.jitter.is_zero() =>
                    ["a correlation of the jitter, but no ", name_of("jitter")], ["add ", text_setting("jitter", "2ms")];
                link.jitter_reorders && !correlation.is_zero() =>
                    "jitter that lets packets overtake is drawn for each of them",
                    ["leave out ", name_of("jitter_correlation"), " or ", name_of("jitter_reorders")];
            })
        }),
    PathKey::new("loss", KeyKind::Ratio)
        .help("Random loss of packets, each way [default without a STUDY: none]")
        .doc("probability with which each packet is lost, independently of all others | 0")
        .in_name(5, "{} loss")
        .read(|s, d, key| Ok(set(s.parsed(key, "1%")?, &mut d.link.loss)))
        .stepped("5%", Unit::Ratio, |link, ratio| link.loss = Ratio(ratio.clamp(0.0, 1.0)))
        .fault(|link, _| no_share(link.loss)),
    PathKey::new("loss_bursts", KeyKind::Table("KEY=RATIO:…", None, "to_bad=1%:to_good=30%"))
        .help("Loss in bursts (Gilbert–Elliott), as in `to_bad=1%:to_good=30%`, with `:bad_loss=…` and `:good_loss=…` where they are not 100% and 0%")
        .doc("loss in bursts, the Gilbert-Elliott model: `to_bad` and `to_good` are the probabilities, for each packet, that the state changes from good to bad and from bad to good; `bad_loss` (1) and `good_loss` (0) are the loss probabilities in each state. The first state is good. Mean loss: `to_bad` / (`to_bad` + `to_good`) with the defaults; mean burst 1 / `to_good` packets | none")
        .in_name(21, "bursts of loss")
        .read(|s, d, key| {
            let Some(bursts) = s.section(key, key)? else {
                return Ok(None);
            };
            let span = bursts.span();
            d.link.loss_bursts = Some(read_bursts(bursts)?);
            Ok(Some(span))
        })
        .describe(|link| Some(phrase::loss_in_bursts(link.loss_bursts?.mean_loss())))
        .fault(|link, _| {
            let bursts = link.loss_bursts?;
            let changes = [bursts.to_bad_ratio, bursts.to_good_ratio];
            let losses = [bursts.bad_loss_ratio, bursts.good_loss_ratio];
            changes.into_iter().chain(losses).find_map(no_share)
        }),
    PathKey::new("loss_list", KeyKind::Numbers)
        .help("Packets that are lost, by their number in each direction, as in `3,17`; or a file with one number a line")
        .doc("numbers of packets that are always lost, counted in each direction from 1 since the beginning of the trial, in ascending order; or the name of a file with one number per line | none")
        .in_name(6, "loss of {}")
        .read(|s, d, key| Ok(set(s.numbers(key)?, &mut d.link.loss_list)))
        .describe(|link| match &link.loss_list[..] {
            [] => None,
            [packet] => Some(phrase::packet_lost(*packet)),
            list => Some(phrase::packets_lost_by_list(list.len() as u64)),
        })
        .fault(|link, _| {
            let list = &link.loss_list;
            faults! {
                list.first() == Some(&0) || list.windows(2).any(|pair| pair[0] >= pair[1]) =>
                    ["the packets of ", name_of("loss_list"), " do not rise from 1"],
                    "list each packet once, in order, as in `[3, 17]`; the first packet is 1";
                list.len() > LONGEST_LIST =>
                    [name_of("loss_list"), format!(" names more than {LONGEST_LIST} packets")], ["use ", name_of("loss"), " or ", name_of("loss_bursts")];
            }
        }),
    PathKey::new("reorder", KeyKind::Ratio)
        .help("Packets that skip the delay and so overtake others, each way")
        .doc("probability with which a packet skips the delay and so overtakes packets in flight | 0")
        .in_name(7, "{} reordered")
        .impairment(Impairment::Reordering, "1%")
        .fault(|link, _| faults! {
            link.reorder_ratio.0 > 0.0 && link.delay.is_zero() =>
                [name_of("reorder"), " lets packets skip the delay, and there is no delay to skip"],
                ["add ", text_setting("delay", "15ms")];
        }),
    PathKey::new("duplicate", KeyKind::Ratio)
        .help("Packets that arrive twice, each way")
        .doc("probability with which a packet arrives twice | 0")
        .in_name(8, "{} duplicated")
        .impairment(Impairment::Duplication, "1%"),
    PathKey::new("corrupt", KeyKind::Ratio)
        .help("Packets of which a bit is flipped, each way")
        .doc("probability with which one bit of a packet, anywhere in it, is flipped. The checksums of IP, TCP, UDP and SCTP detect it and the host drops the packet, so that a transport sees a loss | 0")
        .in_name(9, "{} corrupted")
        .impairment(Impairment::Corruption, "1%"),
    PathKey::new("rate", KeyKind::Rate)
        .help("Rate of the bottleneck, each way; `unlimited` for none [default without a STUDY: 100Mbit/s]")
        .doc("rate of the bottleneck; `unlimited` for none | unlimited")
        .in_name(2, "{}")
        .read(read_rate_or_trace)
        .stepped("100Mbit/s", Unit::BitsPerSecond, |link, rate| {
            link.rate = Some(BitRate(rate.round() as u64));
        })
        .fault(|link, _| faults! {
            link.rate == Some(BitRate(0)) =>
                "a rate of zero carries nothing",
                ["write a rate above zero, or leave ", name_of("rate"), " out for a path without a limit"];
        }),
    PathKey::new("trace", KeyKind::File)
        .help("File with times of delivery in milliseconds, as Mahimahi's `mm-link` takes it, or one of `lte`, `5g`, `wifi`, `satellite`, instead of a rate")
        .doc("`lte`, `5g`, `wifi` or `satellite`, which come with Regatta (see [Traces](#traces)), or a file of delivery opportunities in the format of Mahimahi's `mm-link`, instead of `rate`: each line is a time in milliseconds at which the link carries up to 1504 bytes (a packet counts as its size plus 4). At its end the trace starts again | none")
        .in_name(4, "trace {}")
        .instead_of("rate")
        .fault(|link, _| faults! {
            link.trace.is_some() && link.rate.is_some() =>
                [name_of("trace"), " and ", name_of("rate"), BOTH_RATES], "leave one of them out";
        }),
    PathKey::new("rate_of", KeyKind::Enum("LAYER", &["ip", "ethernet"]))
        .help("Bytes that the rate counts: `ip` packets, or frames of an `ethernet` with preamble and gap [default: ip]")
        .doc("bytes that the rate counts: `ip`, those of IP packets; or `ethernet`, also the 38 bytes of an Ethernet frame around each packet (header, check sequence, preamble, gap) and padding to 46 bytes. TCP over 1 Gbit/s then carries 949 Mbit/s (1460 bytes of 1538), and 941 with timestamps. Queue and burst always count IP packets | `ip`")
        .in_name(3, "of {}")
        .read(|s, d, key| Ok(set(s.choice_at(key)?, &mut d.link.rate_of)))
        .fault(|link, _| faults! {
            link.rate_of != RateOf::Ip && link.rate.is_none() =>
                ["what the rate counts, but no ", name_of("rate")], ["add ", text_setting("rate", "1Gbit/s")];
        }),
    PathKey::new("burst", KeyKind::Size)
        .help("Bytes that may pass the bottleneck at once after it was idle")
        .doc("depth of the bottleneck's token bucket: bytes that may pass at once after the link was idle | packets leave one after another")
        .in_name(15, "burst {}")
        .read(|s, d, key| Ok(set_some(s.quantity_such_as(key, "15kB", str::parse)?, &mut d.link.burst_bytes)))
        .describe(|link| Some(phrase::bursts_of(link.burst_bytes?)))
        .fault(|link, mtu| {
            let burst = link.burst_bytes?;
            faults! {
                link.rate.is_none() =>
                    [name_of("burst"), " is the depth of the bottleneck's token bucket, and the link has no rate"],
                    ["add ", text_setting("rate", "100Mbit/s")];
                burst.0 < mtu =>
                    "a burst smaller than one packet of {mtu} bytes lets none pass",
                    ["write a larger ", name_of("burst"), ", such as `15kB`"];
            }
        }),
    PathKey::new("queue", KeyKind::Queue)
        .help("Limit of the bottleneck's queue, each way: `375kB`, `100 packets` or `2 BDP` [default: one bandwidth-delay product, at least 100 packets]")
        .doc("limit of the bottleneck's queue, in bytes (`375kB`), packets (`100 packets`) or bandwidth-delay products (`2 BDP`: rate × the longest round-trip delay of the schedule). The packet in transmission does not count | one BDP, at least 100 full packets")
        .in_name(16, "queue {}")
        .read(|s, d, key| Ok(set_some(s.parsed(key, "375kB")?, &mut d.queue)))
        .fault(|link, mtu| faults! {
            link.queue.is_some_and(|queue| queue.0 < mtu) =>
                "a queue smaller than one packet of {mtu} bytes carries nothing",
                ["write a larger ", name_of("queue"), ", or leave it out to have it sized from the path"];
            link.queue_packets == Some(0) =>
                "a queue of no packet carries nothing",
                ["write a ", name_of("queue"), " of at least `1 packet`"];
            link.queue_packets.is_some() && !link.has_bottleneck() =>
                "a queue in packets, but nothing that packets wait for: the link has no rate",
                ["add ", text_setting("rate", "100Mbit/s")];
        }),
    PathKey::new("discipline", KeyKind::Enum("NAME", &["drop-tail", "codel", "pie", "fq-codel", "dualpi2", "red", "fq-pie", "cake"]))
        .help("Queue discipline: `drop-tail`, or active queue management: `codel`, `pie`, `fq-codel`, `dualpi2`, `red`, `fq-pie`, `cake` [default: drop-tail]")
        .doc("discipline of the queue: see [Queues and ECN](#queues-and-ecn). `drop-tail` drops a packet that finds the queue full; the others drop or mark packets before that, so that the queue stays short | `drop-tail`")
        .in_name(17, "{}")
        .read(|s, d, key| {
            let taken = s.choice_of(key, &DISCIPLINES)?;
            if matches!(&taken, Some((discipline, _)) if discipline.always_marks()) {
                d.link.ecn = true;
            }
            Ok(set(taken, &mut d.link.discipline))
        })
        .describe(|link| match link.discipline {
            QueueDiscipline::DropTail => None,
            QueueDiscipline::Codel { target, interval } => {
                Some(phrase::codel(target, interval))
            }
            QueueDiscipline::FqCodel { target, interval } => {
                Some(phrase::fq_codel(target, interval))
            }
            QueueDiscipline::Pie { target } => Some(phrase::pie(target)),
            QueueDiscipline::DualPi2 { target, any_ect } => Some(match any_ect {
                false => phrase::dualpi2(target),
                true => phrase::dualpi2_any_ect(target),
            }),
            QueueDiscipline::Red { target } => Some(phrase::red(target)),
            QueueDiscipline::FqPie { target } => Some(phrase::fq_pie(target)),
            QueueDiscipline::Cake { target, interval } => Some(phrase::cake(target, interval)),
        })
        .fault(|link, _| faults! {
            link.discipline != QueueDiscipline::DropTail && !link.has_bottleneck() =>
                "a queue's discipline on a link without a rate: nothing waits there that it could drop",
                ["add ", text_setting("rate", "100Mbit/s")];
        }),
    PathKey::new("aqm_target", KeyKind::Time)
        .help("Queueing delay that the discipline aims at [default: 5ms of codel, fq-codel, red and cake, 15ms of pie, fq-pie and dualpi2]")
        .doc("queueing delay that the discipline aims at | 5 ms of `codel`, `fq-codel`, `red` and `cake`, 15 ms of `pie`, `fq-pie` and `dualpi2`")
        .in_name(18, "target {}")
        .read(|s, d, key| read_aqm(s, d, key, "5ms"))
        .fault(|link, _| {
            let target = link.discipline.target()?;
            let interval = link.discipline.interval().unwrap_or(Condition::LONGEST_TIME);
            faults! {
                target.is_zero() || target >= interval || interval > Condition::LONGEST_TIME =>
                    "the target of the queue's discipline is not between zero and its interval",
                    [
                        "write ", text_setting("aqm_target", "5ms"), " and ", text_setting("aqm_interval", "100ms"),
                        ", RFC 8289 §4.3",
                    ];
            }
        }),
    PathKey::new("aqm_interval", KeyKind::Time)
        .help("Interval of codel, fq-codel and cake, within which the delay must fall below the target [default: 100ms]")
        .doc("interval of `codel`, `fq-codel` and `cake`, within which the delay must fall below the target | 100 ms")
        .in_name(19, "interval {}")
        .read(|s, d, key| read_aqm(s, d, key, "100ms")),
    PathKey::new("any_ect", KeyKind::Flag)
        .help("Let dualpi2 put packets with ECT(0) among those of L4S, too, as those of DCTCP")
        .doc("whether `dualpi2` puts packets with ECT(0) into the queue of L4S, too, as Linux does with `any_ect`: for DCTCP, which sends ECT(0) | `false`")
        .in_name(29, "any ECT")
        .read(read_any_ect),
    PathKey::new("ecn", KeyKind::Flag)
        .help("Let the queue's discipline mark packets that can be marked (ECN), instead of dropping them")
        .doc("whether the discipline marks packets whose sender reacts to marks (RFC 3168), instead of dropping them. Whether a transport does is its own option | `false`; `dualpi2` and `cake` always do")
        .in_name(28, "ECN")
        .read(|s, d, key| Ok(set(s.flag(key)?, &mut d.link.ecn)))
        .describe(|link| link.ecn.then(phrase::ecn_marks))
        .fault(|link, _| faults! {
            link.ecn && link.discipline == QueueDiscipline::DropTail =>
                "a queue under drop-tail marks no packet",
                ["add ", text_setting("discipline", "codel")];
            !link.ecn && link.discipline.always_marks() =>
                "this discipline marks packets in any case",
                ["leave out ", name_of("ecn")];
        }),
    PathKey::new("ecn_bleach", KeyKind::Ratio)
        .help("Packets whose ECN field the path clears, each way")
        .doc("probability with which the path clears the ECN field of a packet, and a mark with it, as some routers do | 0")
        .in_name(30, "{} bleached")
        .impairment(Impairment::Bleaching, "100%")
        .describe(|link| share(link.ecn_bleach_ratio, phrase::ecn_bleached)),
    PathKey::new("ecn_remark", KeyKind::Ratio)
        .help("Packets with ECT(0) to which the path gives ECT(1), each way")
        .doc("probability with which the path changes ECT(0) of a packet to ECT(1), as some routers do | 0")
        .in_name(31, "{} re-marked")
        .impairment(Impairment::Remarking, "100%")
        .describe(|link| share(link.ecn_remark_ratio, phrase::ecn_remarked)),
    PathKey::new("ect_loss", KeyKind::Ratio)
        .help("Packets lost because their senders ask for ECN, each way")
        .doc("probability with which a packet whose sender asks for ECN (ECT or CE) is lost, beside `loss` | 0")
        .in_name(32, "{} loss of ECT")
        .impairment(Impairment::EctLoss, "100%")
        .describe(|link| share(link.ect_loss_ratio, phrase::ect_lost)),
    PathKey::new("mtu", KeyKind::PacketSize)
        .help("Largest IP packet [default without a STUDY: 1500B]")
        .doc("largest IP packet, both ways; the hosts' interfaces refuse larger ones, as Ethernet does | 1500, of the loopback 65536")
        .in_name(20, "MTU {}"),
    PathKey::new("tuning", KeyKind::Enum("NAME,…", &["bench", "defaults"]))
        .help("Settings of the hosts' kernels and sockets: `bench`, or `defaults`, a kernel's own; of several each is run [default: bench]")
        .doc("settings of the hosts' kernels and of their sockets: `bench`, with buffers that limit no flow, or `defaults`, those that a kernel boots with: see [Tuning of the hosts](studies.md#tuning-of-the-hosts) | that of the study, `bench`")
        .in_name(26, "tuning {}"),
    PathKey::new("cpus", KeyKind::Number { least: 1, most: HostTuning::MAX_CPUS })
        .help("Processors on which each end of a trial may run [default: all]")
        .doc("number of processors on which the processes of each end may run, with all their threads: see [Processors](studies.md#processors) | that of the study, all")
        .in_name(27, "cpus {}"),
    PathKey::new("steps", KeyKind::Table("KEY:from=…:to=…:by=…:every=…", Some("key"), "rtt:from=300ms:to=50ms:by=50ms:every=20s"))
        .help("A quantity that rises or falls by equal steps, as in `rtt:from=300ms:to=50ms:by=50ms:every=20s`")
        .doc("a quantity ({quantities}) that rises or falls in equal steps: `key`, `from`, `to`, `by`, `every` | no change")
        .in_name(24, "steps {}")
        .instead_of("step"),
];

/// Reads the keys of a link that are present, over the given values.
pub(super) fn read_link(section: &mut Section<'_>, draft: &mut Draft) -> Result<()> {
    for key in PATH_KEYS {
        let span = match (key.impairment, key.read) {
            (Some((impairment, example)), _) => {
                let ratio = section.parsed(key.name, example)?;
                set(ratio, impairment.of_mut(&mut draft.link))
            }
            (None, Some(read)) => read(section, draft, key.name)?,
            (None, None) => None,
        };
        draft.spans.extend(span.map(|span| (key.name, span)));
    }
    Ok(())
}

/// Returns the first setting of a link that no path can have, whichever emulator carries it: its key, message
/// and hint. `mtu` is the largest packet, in bytes.
pub(super) fn fault(link: &Link, mtu: u64) -> Option<(&'static str, Fault)> {
    let mut keys = PATH_KEYS.iter();
    keys.find_map(|key| {
        let of_ratio = key.impairment.and_then(|(it, _)| no_share(it.of(link)));
        let fault = of_ratio.or_else(|| key.fault?(link, mtu));
        Some((key.name, fault?))
    })
}

impl Link {
    /// Describes each setting other than delay, jitter, independent loss, rate and queue.
    #[must_use]
    pub fn particulars(&self) -> Vec<Particular> {
        let keys = PATH_KEYS.iter();
        let described = keys.filter_map(|key| match (key.describe, key.impairment) {
            (Some(describe), _) => describe(self).map(Particular::Phrase),
            (None, Some((impairment, _))) => {
                let ratio = impairment.of(self);
                (ratio.0 > 0.0).then_some(Particular::Share(key.in_name, ratio))
            }
            (None, None) => None,
        });
        described.collect()
    }
}

/// Description of a setting of a link.
#[derive(Debug, Clone, PartialEq)]
pub enum Particular {
    /// Text of its own.
    Phrase(Phrase),
    /// Share of the packets, in the place of `{}` in a text.
    Share(&'static str, Ratio),
}

/// In English.
impl fmt::Display for Particular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phrase(phrase) => phrase.fmt(f),
            Self::Share(text, ratio) => f.write_str(&text.replace("{}", &ratio.to_string())),
        }
    }
}

/// Converts nanoseconds to a time; times go up to 30 days, which a float holds to the nanosecond.
fn time(nanoseconds: f64) -> Duration {
    Duration::from_nanos(nanoseconds.round() as u64)
}

/// Describes a share of the packets, unless it is zero.
fn share(ratio: Ratio, text: fn(Ratio) -> Phrase) -> Option<Phrase> {
    (ratio.0 > 0.0).then(|| text(ratio))
}

fn too_long(time: Duration) -> Option<Fault> {
    faults! {
        time > Condition::LONGEST_TIME => "this time is longer than 30 days", "write `15ms`";
    }
}

fn no_share(Ratio(ratio): Ratio) -> Option<Fault> {
    faults! {
        !(0.0..=1.0).contains(&ratio) =>
            "`{ratio}` is not between 0 % and 100 %", "write a ratio from `0%` to `100%`";
    }
}

fn read_bursts(mut section: Section<'_>) -> Result<GilbertElliott> {
    let mut ratio = |key, example, default| {
        let value = section.parsed(key, example)?;
        let value = value.map(|(ratio, _)| ratio).or(default);
        section.required(key, &format!("\"{example}\""), value)
    };
    let bursts = GilbertElliott {
        to_bad_ratio: ratio("to_bad", "1%", None)?,
        to_good_ratio: ratio("to_good", "30%", None)?,
        bad_loss_ratio: ratio("bad_loss", "100%", Some(Ratio(1.0)))?,
        good_loss_ratio: ratio("good_loss", "0%", Some(Ratio::ZERO))?,
    };
    section.end()?;
    Ok(bursts)
}

/// End of the message about two rates of one link.
const BOTH_RATES: &str = " both say how fast the link is";

/// Reads a rate, or `None` for an unlimited link.
fn limit(text: &str) -> Result<Option<BitRate>, UnitError> {
    match text.trim() {
        "unlimited" => Ok(None),
        text => text.parse().map(Some),
    }
}

/// Reads `rate` and `trace`. Each replaces the other one of both directions or of an earlier step.
fn read_rate_or_trace(
    section: &mut Section<'_>,
    draft: &mut Draft,
    key: &'static str,
) -> Result<Option<Range<usize>>> {
    let rate = section.quantity(key, "100Mbit/s", limit)?;
    let trace = section.text_such_as("trace", SHIPPED_TRACES[0].name)?;
    match (rate, trace) {
        (Some(_), Some((_, span))) => Err(section.error(
            span,
            message!([name_of("trace"), " and ", name_of("rate"), BOTH_RATES]),
            "leave one of them out",
        )),
        (Some((rate, span)), None) => {
            (draft.link.rate, draft.link.trace) = (rate, None);
            Ok(Some(span))
        }
        (None, Some((name, span))) => {
            let trace = match (section.file(&name, &span), ShippedTrace::find(&name)) {
                // A file of this name is meant, where there is one.
                (Ok(text), _) => DeliveryTrace::parse(&name, &text)
                    .map_err(|error| section.error(span.clone(), error.message, error.hint))?,
                (Err(_), Some(shipped)) => shipped.trace(),
                (Err(mut error), None) => {
                    let shipped: Vec<&str> = SHIPPED_TRACES.iter().map(|it| it.name).collect();
                    if let Some(near) = nearest(&name, &shipped) {
                        error.hint = error.hint.after(&format!("did you mean `{near}`? else "));
                    }
                    return Err(error);
                }
            };
            (draft.link.rate, draft.link.trace) = (None, Some(trace));
            draft.spans.insert("trace", span);
            Ok(None)
        }
        (None, None) => Ok(None),
    }
}

/// Reads `aqm_target` or `aqm_interval`.
fn read_aqm(
    section: &mut Section<'_>,
    draft: &mut Draft,
    key: &'static str,
    example: &str,
) -> Result<Option<Range<usize>>> {
    let taken = section.duration(key, example)?;
    let place = match key {
        "aqm_target" => draft.link.discipline.target_mut(),
        _ => draft.link.discipline.interval_mut(),
    };
    match (taken, place) {
        (taken, Some(place)) => Ok(set(taken, place)),
        (None, None) => Ok(None),
        (Some((_, span)), None) => Err(section.error(
            span,
            message!([name_of(key), ", but the queue's discipline has none"]),
            message!(["add ", text_setting("discipline", "codel")]),
        )),
    }
}

/// Reads `any_ect`, a setting of DualPI2.
fn read_any_ect(
    section: &mut Section<'_>,
    draft: &mut Draft,
    key: &'static str,
) -> Result<Option<Range<usize>>> {
    match (section.flag(key)?, &mut draft.link.discipline) {
        (taken, QueueDiscipline::DualPi2 { any_ect, .. }) => Ok(set(taken, any_ect)),
        (None, _) => Ok(None),
        (Some((_, span)), _) => Err(section.error(
            span,
            message!([name_of(key), ", but the queue's discipline is not DualPI2"]),
            message!(["add ", text_setting("discipline", "dualpi2")]),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{condition::Tuning, named::Named, units::Bytes};

    #[test]
    fn values_of_enum_keys_match_their_types() {
        let values = |name: &str| {
            let key = PATH_KEYS.iter().find(|key| key.name == name);
            match key.expect("a key").kind {
                KeyKind::Enum(_, names) => names,
                _ => &[],
            }
        };
        fn of_type<T: Named>() -> Vec<&'static str> {
            T::NAMES.iter().map(|(name, _)| *name).collect()
        }
        assert_eq!(
            values("jitter_distribution"),
            of_type::<DelayDistribution>()
        );
        assert_eq!(values("rate_of"), of_type::<RateOf>());
        assert_eq!(values("tuning"), of_type::<Tuning>());
    }

    #[test]
    fn particulars_describe_settings_that_differ_from_the_default() {
        let plain = Link {
            rate: Some(BitRate(10_000_000)),
            ..Link::default()
        };
        assert_eq!(plain.rate_text().to_string(), "10 Mbit/s");
        assert_eq!(plain.particulars(), []);
        let link = Link {
            jitter: Duration::from_millis(2),
            jitter_reorders: true,
            jitter_distribution: DelayDistribution::Pareto,
            loss_bursts: Some(GilbertElliott {
                to_bad_ratio: Ratio(0.01),
                to_good_ratio: Ratio(0.24),
                bad_loss_ratio: Ratio(1.0),
                good_loss_ratio: Ratio(0.0),
            }),
            loss_list: vec![3, 17],
            reorder_ratio: Ratio(0.1),
            duplicate_ratio: Ratio(0.02),
            corrupt_ratio: Ratio(0.001),
            burst_bytes: Some(Bytes(15_000)),
            queue_packets: Some(50),
            discipline: QueueDiscipline::Codel {
                target: Duration::from_millis(5),
                interval: Duration::from_millis(100),
            },
            ecn: true,
            trace: Some(DeliveryTrace {
                name: "lte".into(),
                opportunities_ms: vec![1],
            }),
            ..Link::default()
        };
        let rate = link.rate_text().to_string();
        assert_eq!(rate, "trace `lte`, 12 Mbit/s on average");
        let particulars: Vec<String> = link
            .particulars()
            .iter()
            .map(Particular::to_string)
            .collect();
        assert_eq!(
            particulars,
            [
                "pareto jitter",
                "jitter lets packets overtake",
                "4 % loss in bursts",
                "2 packets lost by list",
                "10 % reordered",
                "2 % duplicated",
                "0.1 % corrupted",
                "bursts of 15 kB",
                "CoDel with target 5 ms and interval 100 ms",
                "ECN marks",
            ]
        );
    }
}
