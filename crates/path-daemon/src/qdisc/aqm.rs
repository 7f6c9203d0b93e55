//! Active queue management of the kernel, in a token bucket: options to bytes, drops and marks from bytes.
//!
//! Numbers and layouts are those of `linux/pkt_sched.h`.

use std::io;

use regatta_model::RedThresholds;

use super::{INNER, Interface, STATS_APP, attributes_of};
use crate::attributes::{Attributes, find, parse, u32_at};

const CODEL_TARGET: u16 = 1;
const CODEL_LIMIT: u16 = 2;
const CODEL_INTERVAL: u16 = 3;
const CODEL_ECN: u16 = 4;

/// The first four attributes of FQ-CoDel are those of CoDel.
const FQ_CODEL_MEMORY_LIMIT: u16 = 9;

const PIE_TARGET: u16 = 1;
const PIE_LIMIT: u16 = 2;
const PIE_ECN: u16 = 6;

const FQ_PIE_LIMIT: u16 = 1;
const FQ_PIE_TARGET: u16 = 3;
const FQ_PIE_MEMORY_LIMIT: u16 = 8;
const FQ_PIE_ECN: u16 = 10;

const RED_PARMS: u16 = 1;
const RED_STAB: u16 = 2;
const RED_MAX_P: u16 = 3;
/// `TC_RED_ECN` and `TC_RED_ADAPTATIVE`.
const RED_MARKS: u8 = 1;
const RED_ADAPTS: u8 = 4;

const CAKE_RTT: u16 = 7;
const CAKE_TARGET: u16 = 8;
const CAKE_MEMORY: u16 = 10;
/// Statistics of each tin (class of service), and in them the marks.
const CAKE_TIN_STATS: u16 = 10;
const CAKE_MARKED: u16 = 8;

/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;

/// Memory that is more than any queue here takes: only the number of packets limits it.
const UNLIMITED_MEMORY: u32 = 1 << 31;

/// Memory that the kernel counts for a full packet beyond its bytes.
const PACKET_MEMORY: u32 = 1024;

/// Discipline with its times in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) enum Algorithm {
    Codel {
        target_us: u32,
        interval_us: u32,
    },
    FqCodel {
        target_us: u32,
        interval_us: u32,
    },
    Pie {
        target_us: u32,
    },
    FqPie {
        target_us: u32,
    },
    Cake {
        target_us: u32,
        interval_us: u32,
    },
    Red {
        thresholds: RedThresholds,
        /// Time that a full packet takes to send.
        transmission_us: f64,
    },
}

/// Active queue management with the limit of its queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Aqm {
    pub algorithm: Algorithm,
    pub limit_packets: u32,
    /// Largest packet, in bytes.
    pub mtu_bytes: u32,
    /// Whether packets that can be marked are marked instead of dropped.
    pub ecn: bool,
}

/// Packets that a discipline dropped because its queue was full, and packets that it marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub overflows: u64,
    pub marks: u64,
}

impl Aqm {
    /// Returns the kernel's name of the discipline.
    pub(super) const fn kind(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Codel { .. } => "codel",
            Algorithm::FqCodel { .. } => "fq_codel",
            Algorithm::Pie { .. } => "pie",
            Algorithm::FqPie { .. } => "fq_pie",
            Algorithm::Cake { .. } => "cake",
            Algorithm::Red { .. } => "red",
        }
    }

    /// Returns the name of the kernel module.
    pub(in super::super) const fn module(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Codel { .. } => "sch_codel",
            Algorithm::FqCodel { .. } => "sch_fq_codel",
            Algorithm::Pie { .. } => "sch_pie",
            Algorithm::FqPie { .. } => "sch_fq_pie",
            Algorithm::Cake { .. } => "sch_cake",
            Algorithm::Red { .. } => "sch_red",
        }
    }

    /// Makes the request's attributes. `is_new` says whether the discipline is installed; otherwise the one that is there is
    /// changed and keeps its packets.
    pub(super) fn attributes(&self, is_new: bool) -> Attributes {
        let ecn = u32::from(self.ecn);
        let codel = |target_us, interval_us| {
            Attributes::new()
                .u32(CODEL_TARGET, target_us)
                .u32(CODEL_LIMIT, self.limit_packets)
                .u32(CODEL_INTERVAL, interval_us)
                .u32(CODEL_ECN, ecn)
        };
        let options = match self.algorithm {
            Algorithm::Codel {
                target_us,
                interval_us,
            } => codel(target_us, interval_us),
            Algorithm::FqCodel {
                target_us,
                interval_us,
            } => codel(target_us, interval_us).u32(FQ_CODEL_MEMORY_LIMIT, UNLIMITED_MEMORY),
            Algorithm::Pie { target_us } => Attributes::new()
                .u32(PIE_TARGET, target_us)
                .u32(PIE_LIMIT, self.limit_packets)
                .u32(PIE_ECN, ecn),
            Algorithm::FqPie { target_us } => Attributes::new()
                .u32(FQ_PIE_LIMIT, self.limit_packets)
                .u32(FQ_PIE_TARGET, target_us)
                .u32(FQ_PIE_MEMORY_LIMIT, UNLIMITED_MEMORY)
                .u32(FQ_PIE_ECN, ecn),
            Algorithm::Cake {
                target_us,
                interval_us,
            } => {
                let packet = self.mtu_bytes.saturating_add(PACKET_MEMORY);
                Attributes::new()
                    .u32(CAKE_RTT, interval_us)
                    .u32(CAKE_TARGET, target_us)
                    .u32(CAKE_MEMORY, self.limit_packets.saturating_mul(packet))
            }
            Algorithm::Red {
                thresholds,
                transmission_us,
            } => self.red(&thresholds, transmission_us, is_new),
        };
        // FQ-PIE refuses options that do not say that they are attributes.
        Attributes::new()
            .text(libc::TCA_KIND, self.kind())
            .nested(libc::TCA_OPTIONS | NESTED, &options)
    }

    fn red(&self, thresholds: &RedThresholds, transmission_us: f64, is_new: bool) -> Attributes {
        let (cell_log, table) = idle_damping(thresholds.weight_log, transmission_us);
        // A change with a limit would replace the queue and lose its packets.
        let limit = match is_new {
            true => self.limit_packets.saturating_mul(self.mtu_bytes),
            false => 0,
        };
        // `struct tc_red_qopt`: limit, thresholds, logarithms of weight, probability and cell, flags.
        let bytes = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let thresholds_and_limit = [
            limit,
            bytes(thresholds.min_bytes),
            bytes(thresholds.max_bytes),
        ];
        let mut parameters = thresholds_and_limit.map(u32::to_ne_bytes).concat();
        let flags = RED_ADAPTS | if self.ecn { RED_MARKS } else { 0 };
        parameters.extend([thresholds.weight_log as u8, 0, cell_log, flags]);
        let probability = RedThresholds::INITIAL_PROBABILITY * f64::from(u32::MAX);
        Attributes::new()
            .bytes(RED_PARMS, &parameters)
            .bytes(RED_STAB, &table)
            .u32(RED_MAX_P, probability as u32)
    }

    /// Returns the counters of the discipline that is in the interface's bucket.
    pub(super) fn counted(&self, interface: &Interface) -> io::Result<Counted> {
        let message = interface.get_qdisc(INNER, 0)?;
        let statistics = find(attributes_of(&message), libc::TCA_STATS2);
        let own = statistics.and_then(|statistics| find(statistics, STATS_APP));
        let counted = own.and_then(|own| self.parse(own));
        counted.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads the discipline's own statistics, `struct tc_…_xstats`.
    fn parse(&self, own: &[u8]) -> Option<Counted> {
        let at = |position| u32_at(own, position).map(u64::from);
        let (overflows, marks) = match self.algorithm {
            // Largest packet, count, last count, delay, time of the next drop, drops for want of room, marks.
            Algorithm::Codel { .. } => (at(20)?, at(24)?),
            // Type, largest packet, drops for want of room, marks.
            Algorithm::FqCodel { .. } => (at(8)?, at(12)?),
            // Probability (64 bits), delay, rate, whether it is estimated, packets, all drops, those for want of room,
            // longest queue, marks.
            Algorithm::Pie { .. } => (at(28)?, at(36)?),
            // Packets, drops, those for want of room, those for want of memory, marks.
            Algorithm::FqPie { .. } => (at(8)? + at(12)?, at(16)?),
            // Early drops, drops for want of room, others, marks.
            Algorithm::Red { .. } => (at(4)?, at(12)?),
            Algorithm::Cake { .. } => {
                let tins = parse(find(own, CAKE_TIN_STATS)?);
                let marks = tins.filter_map(|(_, tin)| u32_at(find(tin, CAKE_MARKED)?, 0));
                // It does not tell for which reason it dropped a packet.
                (0, marks.map(u64::from).sum())
            }
        };
        Some(Counted { overflows, marks })
    }
}

/// Returns the table by which RED's average decays while nothing comes, and the binary logarithm of the microseconds of
/// one entry: an entry is the binary logarithm of the factor after that time, as `tc` makes it.
fn idle_damping(weight_log: u32, transmission_us: f64) -> (u8, [u8; 256]) {
    const MOST: f64 = 31.0;
    let weight = 2f64.powi(-weight_log.cast_signed());
    let per_us = -(1.0 - weight).log2() / transmission_us.max(1e-3);
    let longest_us = MOST / per_us;
    let cell_log = (0..32).find(|log| longest_us / 2f64.powi(*log) < 512.0);
    let cell_log = cell_log.unwrap_or(31);
    let mut table = [MOST as u8; 256];
    for (number, entry) in table[..255].iter_mut().enumerate() {
        let passed_us = number as f64 * 2f64.powi(cell_log);
        *entry = (passed_us * per_us).min(MOST) as u8;
    }
    (cell_log as u8, table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aqm(algorithm: Algorithm) -> Aqm {
        Aqm {
            algorithm,
            limit_packets: 100,
            mtu_bytes: 1500,
            ecn: true,
        }
    }

    fn red() -> Algorithm {
        Algorithm::Red {
            thresholds: RedThresholds {
                min_bytes: 31_250,
                max_bytes: 93_750,
                weight_log: 13,
            },
            transmission_us: 120.0,
        }
    }

    fn options(attributes: &Attributes) -> &[u8] {
        find(attributes.as_bytes(), libc::TCA_OPTIONS).expect("options")
    }

    /// `tc qdisc add … codel target 5ms interval 100ms limit 100 ecn`.
    #[test]
    fn codel_is_what_tc_sends() {
        let codel = aqm(Algorithm::Codel {
            target_us: 5000,
            interval_us: 100_000,
        });
        let attributes = codel.attributes(true);
        let found: Vec<_> = parse(options(&attributes))
            .filter_map(|(kind, value)| Some((kind, u32_at(value, 0)?)))
            .collect();
        assert_eq!(found, [(1, 5000), (2, 100), (3, 100_000), (4, 1)]);
    }

    /// A change keeps the packets that wait: it names no limit, with which the kernel makes a new queue.
    #[test]
    fn red_keeps_its_queue_when_it_changes() {
        for (is_new, limit) in [(true, 150_000), (false, 0)] {
            let attributes = aqm(red()).attributes(is_new);
            let parameters = find(options(&attributes), RED_PARMS).expect("parameters");
            assert_eq!(parameters.len(), 16);
            let found = [0, 4, 8].map(|at| u32_at(parameters, at));
            assert_eq!(found, [Some(limit), Some(31_250), Some(93_750)]);
            assert_eq!((parameters[12], parameters[15]), (13, 5));
            assert_eq!(
                find(options(&attributes), RED_STAB).map(<[u8]>::len),
                Some(256)
            );
        }
    }

    /// By hand: (1 − 2⁻¹³) in each 120 µs is a half after 8192 · ln 2 · 120 µs = 681 ms; 512 entries reach 31 halves, 21.1 s,
    /// so that each has 65.536 ms.
    #[test]
    fn an_idle_average_is_halved_after_its_time() {
        let (cell_log, table) = idle_damping(13, 120.0);
        assert_eq!(cell_log, 16);
        assert_eq!(table[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((table[20], table[21]), (1, 2));
        assert_eq!(table[255], 31);
    }

    #[test]
    fn drops_for_want_of_room_and_marks_are_read_where_the_kernel_puts_them() {
        let times = (1, 2);
        let (target_us, interval_us) = times;
        let words = |count: u32| (0..count).flat_map(u32::to_ne_bytes).collect::<Vec<u8>>();
        for (algorithm, length, expected) in [
            (
                Algorithm::Codel {
                    target_us,
                    interval_us,
                },
                9,
                (5, 6),
            ),
            (
                Algorithm::FqCodel {
                    target_us,
                    interval_us,
                },
                10,
                (2, 3),
            ),
            (Algorithm::Pie { target_us }, 10, (7, 9)),
            (Algorithm::FqPie { target_us }, 9, (5, 4)),
            (red(), 4, (1, 3)),
        ] {
            let found = aqm(algorithm).parse(&words(length)).expect("counters");
            assert_eq!((found.overflows, found.marks), expected, "{algorithm:?}");
            assert_eq!(aqm(algorithm).parse(&words(1)), None);
        }
        let tin = |marks| Attributes::new().u32(CAKE_MARKED, marks);
        let tins = Attributes::new().nested(1, &tin(3)).nested(2, &tin(4));
        let own = Attributes::new().nested(CAKE_TIN_STATS, &tins);
        let cake = Algorithm::Cake {
            target_us,
            interval_us,
        };
        let found = aqm(cake).parse(own.as_bytes()).expect("counters");
        assert_eq!(
            found,
            Counted {
                overflows: 0,
                marks: 7
            }
        );
    }
}
