//! Queueing disciplines as kernel messages: options to bytes, statistics from bytes.
//!
//! Numbers and layouts are those of `linux/pkt_sched.h`, `linux/rtnetlink.h` and
//! `linux/gen_stats.h`.

mod aqm;

use std::io;

use neli::consts::{nl::NlmF, rtnl::Rtm};
use regatta_model::GilbertElliott;

pub(super) use self::aqm::{Algorithm, Aqm};
use super::{
    attributes::{Attributes, find, u32_at, u64_at},
    netlink::Netlink,
};

/// Bytes of an Ethernet header. The kernel counts them as part of a packet at an interface; a link
/// rate and a queue's limit in Regatta do not.
const ETHERNET_HEADER_BYTES: i32 = 14;

/// `TC_H_ROOT`: handle of an interface's own discipline.
pub(super) const ROOT: u32 = 0xffff_ffff;

/// Handle of an interface's own discipline (`1:`), class inside a tbf (`1:1`), and handle of the
/// discipline in it (`2:`).
const OUTER: u32 = 0x0001_0000;
const INSIDE: u32 = 0x0001_0001;
const INNER: u32 = 0x0002_0000;

/// Rate of a bucket that holds no packet up: none takes a nanosecond.
const ENDLESS: u64 = 1_000_000_000_000_000;

/// Bytes before the IP packet at most: an Ethernet header with a VLAN tag.
const HEADER_BYTES: u32 = 18;

/// Handle of the queue of a class without a discipline (`7e9f:`).
const PLAIN: u32 = 0x7e9f_0000;

/// Maximum number of packets in that queue.
const PLAIN_PACKETS: u32 = 1000;

/// Attribute inside `TCA_STAB`.
const TCA_STAB_BASE: u16 = 1;

/// Attributes of netem's options (`TCA_NETEM_*`).
const NETEM_DELAY_DIST: u16 = 2;
const NETEM_REORDER: u16 = 3;
const NETEM_CORRUPT: u16 = 4;
const NETEM_LOSS: u16 = 5;
const NETEM_RATE: u16 = 6;
const NETEM_RATE64: u16 = 8;
const NETEM_LATENCY64: u16 = 10;
const NETEM_JITTER64: u16 = 11;
const NETEM_PRNG_SEED: u16 = 14;
/// `NETEM_LOSS_GE`, inside the loss.
const NETEM_LOSS_GILBERT_ELLIOTT: u16 = 2;

/// Bytes of `struct tc_netem_qopt`, which precedes netem's attributes.
const NETEM_HEAD_BYTES: usize = 24;

const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_BURST: u16 = 6;

/// `TC_LINKLAYER_ETHERNET`: spares the kernel the table of transmission times of older versions.
const LINKLAYER_ETHERNET: u8 = 1;

/// Attributes of `TCA_STATS2` (`TCA_STATS_*`): bytes and packets that left; the queue and its
/// drops; statistics of the discipline's own kind; packets, when they are more than 32 bits hold.
const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;
const STATS_APP: u16 = 4;
const STATS_PKT64: u16 = 8;

/// Loss model of a netem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Loss {
    /// Independent loss with this probability.
    Random(f64),
    /// Loss in bursts, with the probabilities of loss at random in those of both states.
    Bursts(GilbertElliott),
}

impl Default for Loss {
    fn default() -> Self {
        Self::Random(0.0)
    }
}

/// Rate at which netem serialises packets, or with which it only keeps their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Bytes of whole IP packets in a second.
    BytesPerSecond(u64),
    /// A rate so high that no packet takes a nanosecond. With a rate, netem has no packet leave
    /// before the one that came before it; without one, jitter and changes of the delay reorder.
    InOrder,
}

/// Parameters of netem.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Netem {
    pub delay_ns: u64,
    pub jitter_ns: u64,
    /// Quantiles of the jitter; uniform if absent.
    pub distribution: Option<&'static [i16]>,
    /// Maximum number of packets that the netem holds.
    pub limit: u32,
    pub loss: Loss,
    pub reorder: f64,
    pub duplicate: f64,
    pub corrupt: f64,
    pub pace: Option<Pace>,
    pub seed: u64,
}

/// Queue inside a token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Waiting {
    /// Drop-tail, bytes of whole IP packets.
    Bytes(u32),
    /// Drop-tail, packets.
    Packets(u32),
    /// Active queue management.
    Managed(Aqm),
}

/// Parameters of a token bucket filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    /// Bytes of whole IP packets in a second.
    pub bytes_per_second: u64,
    /// Depth of the bucket; a larger packet is dropped.
    pub burst_bytes: u32,
    pub waiting: Waiting,
}

/// Attachment of a discipline to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attachment {
    /// Class in which it is, or [`ROOT`].
    pub parent: u32,
    /// Handle of its own.
    pub handle: u32,
}

impl Attachment {
    /// The whole interface.
    pub(super) const ROOT: Self = Self {
        parent: ROOT,
        handle: OUTER,
    };

    /// Inside the token bucket of the whole interface, which may be a [splitter](Interface::split).
    pub(super) const INSIDE: Self = Self {
        parent: INSIDE,
        handle: INNER,
    };
}

/// Interface, and the attachment of the disciplines of the path to it.
#[derive(Clone)]
pub(super) struct Interface {
    /// Socket in the namespace of the interface.
    pub netlink: Netlink,
    pub index: i32,
    pub attachment: Attachment,
}

/// Queueing discipline of an interface.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Qdisc {
    Netem(Netem),
    Bucket(Bucket),
}

/// Counters of a discipline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    /// Packets that left the discipline.
    pub sent: u64,
    pub drops: u64,
    /// Drops because there was no room; the other drops are those of active queue management.
    pub overflows: u64,
    /// Packets that active queue management marked.
    pub marks: u64,
    /// Packets put back at the head: at netem those that skipped the delay.
    pub requeues: u64,
    pub waiting_packets: u64,
    /// Bytes that wait, with their Ethernet headers at netem, without at a bucket.
    pub waiting_bytes: u64,
}

impl Statistics {
    /// Adds counters of another time; the packets that waited then are not added.
    pub(super) fn add(&mut self, other: Self) {
        *self = Self {
            sent: self.sent + other.sent,
            drops: self.drops + other.drops,
            overflows: self.overflows + other.overflows,
            marks: self.marks + other.marks,
            requeues: self.requeues + other.requeues,
            ..other
        };
    }

    /// Returns the bytes of the IP packets that wait. At a netem that serialises, the packet under
    /// transmission does not wait; its size is taken as the mean of all that are there, as the
    /// kernel does not report it.
    pub(super) fn queued_ip_bytes(&self, is_netem: bool) -> u64 {
        if !is_netem || self.waiting_packets == 0 {
            return self.waiting_bytes;
        }
        let headers = self.waiting_packets * u64::from(ETHERNET_HEADER_BYTES.unsigned_abs());
        let bytes = self.waiting_bytes.saturating_sub(headers);
        bytes - bytes.div_ceil(self.waiting_packets)
    }
}

impl Qdisc {
    /// Installs the discipline at an interface that has none. In a class it takes the place of the queue that is
    /// there.
    pub(super) fn add(&self, interface: &Interface) -> io::Result<()> {
        let flags = match interface.attachment.parent {
            ROOT => NlmF::EXCL,
            _ => NlmF::REPLACE,
        };
        self.send(interface, NlmF::CREATE | flags)
    }

    /// Changes the discipline of the same kind at an interface; packets that wait in it go on
    /// waiting.
    pub(super) fn change(&self, interface: &Interface) -> io::Result<()> {
        self.send(interface, NlmF::empty())
    }

    /// Returns the kernel module of the discipline, or of the one in its bucket.
    pub(super) fn module(&self) -> &'static str {
        match self {
            Self::Netem(_) => "sch_netem",
            Self::Bucket(Bucket {
                waiting: Waiting::Managed(aqm),
                ..
            }) => aqm.module(),
            Self::Bucket(_) => "sch_tbf",
        }
    }

    /// Returns the counters since the discipline was installed at the interface.
    pub(super) fn statistics(&self, interface: &Interface) -> io::Result<Statistics> {
        let all = interface.statistics()?;
        let Self::Bucket(Bucket {
            waiting: Waiting::Managed(aqm),
            ..
        }) = self
        else {
            return Ok(all);
        };
        let own = aqm.counted(interface)?;
        Ok(Statistics {
            overflows: own.overflows.min(all.drops),
            marks: own.marks,
            ..all
        })
    }

    /// Whether the discipline can be changed into `other` without replacing it.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            // A table that a netem has once it keeps.
            (Self::Netem(one), Self::Netem(other)) => {
                one.distribution.is_some() == other.distribution.is_some()
            }
            (Self::Bucket(one), Self::Bucket(other)) => match (one.waiting, other.waiting) {
                (Waiting::Managed(one), Waiting::Managed(other)) => {
                    std::mem::discriminant(&one.algorithm)
                        == std::mem::discriminant(&other.algorithm)
                }
                (one, other) => std::mem::discriminant(&one) == std::mem::discriminant(&other),
            },
            _ => false,
        }
    }

    fn send(&self, interface: &Interface, flags: NlmF) -> io::Result<()> {
        let bucket = match self {
            Self::Netem(netem) => {
                let netem = named("netem", &netem.options());
                return interface.set(interface.attachment, flags, &netem);
            }
            Self::Bucket(bucket) => bucket,
        };
        interface.set(Attachment::ROOT, flags, &bucket.attributes())?;
        let inside = match bucket.waiting {
            // The bucket's own.
            Waiting::Bytes(_) => return Ok(()),
            Waiting::Packets(limit) => named("pfifo", &limit.to_ne_bytes()),
            Waiting::Managed(aqm) => aqm.attributes(flags.contains(NlmF::CREATE)),
        };
        interface.set(Attachment::INSIDE, flags, &inside)
    }
}

impl Interface {
    /// Installs or changes the discipline at an attachment of the interface.
    fn set(&self, attachment: Attachment, flags: NlmF, attributes: &Attributes) -> io::Result<()> {
        let head = head(self.index, attachment.handle, attachment.parent);
        self.netlink.change(Rtm::Newqdisc, flags, &head, attributes)
    }

    /// Installs the discipline at an attachment of the interface, or replaces the one that is there.
    pub(super) fn replace(
        &self,
        attachment: Attachment,
        attributes: &Attributes,
    ) -> io::Result<()> {
        self.set(attachment, NlmF::CREATE | NlmF::REPLACE, attributes)
    }

    /// Installs a token bucket in `attachment` that no packet waits for. It splits what the interface would split later (TSO,
    /// GSO, and the segments that a UDP socket asks for), so that a discipline in it acts on packets of the wire, of at
    /// most `most_bytes` bytes. One that is there keeps what is in it.
    pub(super) fn split(&self, attachment: Attachment, most_bytes: u32) -> io::Result<()> {
        let splitter = Bucket {
            bytes_per_second: ENDLESS,
            burst_bytes: most_bytes.saturating_add(HEADER_BYTES),
            waiting: Waiting::Bytes(u32::MAX),
        };
        self.replace(attachment, &named("tbf", splitter.options().as_bytes()))
    }

    /// Sets the largest IP packet.
    pub(super) fn set_mtu(&self, mtu_bytes: u32) -> io::Result<()> {
        let attributes = Attributes::new().u32(libc::IFLA_MTU, mtu_bytes);
        self.netlink.set_link(self.index, 0, &attributes)?;
        match self.attachment {
            Attachment::INSIDE => self.split(Attachment::ROOT, mtu_bytes),
            _ => Ok(()),
        }
    }

    /// Removes the discipline with all packets that wait in it. A class has a plain queue from then on, as one without a
    /// discipline may lose its packets.
    pub(super) fn remove(&self) -> io::Result<()> {
        let parent = self.attachment.parent;
        if parent != ROOT {
            let handle = PLAIN;
            let plain = named("pfifo", &PLAIN_PACKETS.to_ne_bytes());
            return self.replace(Attachment { parent, handle }, &plain);
        }
        let head = head(self.index, 0, parent);
        self.netlink
            .change(Rtm::Delqdisc, NlmF::empty(), &head, &Attributes::new())
    }

    /// Returns the counters of the interface's discipline since it was installed; all drops are overflows.
    pub(super) fn statistics(&self) -> io::Result<Statistics> {
        let message = self.get_qdisc(0, self.attachment.parent)?;
        let counted = find(attributes_of(&message), libc::TCA_STATS2).and_then(parse_statistics);
        counted.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether the netem of the interface draws from the seed that it was given. Kernels before 6.6 overlook a seed.
    pub(super) fn is_seeded(&self) -> io::Result<bool> {
        let message = self.get_qdisc(0, self.attachment.parent)?;
        let options = find(attributes_of(&message), libc::TCA_OPTIONS).unwrap_or_default();
        let attributes = options.get(NETEM_HEAD_BYTES..).unwrap_or_default();
        Ok(find(attributes, NETEM_PRNG_SEED).is_some())
    }

    fn get_qdisc(&self, handle: u32, parent: u32) -> io::Result<Vec<u8>> {
        let head = head(self.index, handle, parent);
        self.netlink.get(Rtm::Getqdisc, &head, &Attributes::new())
    }
}

/// Makes a `struct tcmsg`: family, padding, interface, handle, parent, info.
pub(super) fn head(interface: i32, handle: u32, parent: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[4..8].copy_from_slice(&interface.to_ne_bytes());
    bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

pub(super) fn attributes_of(message: &[u8]) -> &[u8] {
    message.get(20..).unwrap_or_default()
}

pub(super) fn named(kind: &str, options: &[u8]) -> Attributes {
    Attributes::new()
        .text(libc::TCA_KIND, kind)
        .bytes(libc::TCA_OPTIONS, options)
}

fn parse_statistics(bytes: &[u8]) -> Option<Statistics> {
    // `struct gnet_stats_basic`: bytes, packets. `struct gnet_stats_queue`: packets that wait,
    // their bytes, drops, requeues, overlimits.
    let basic = find(bytes, STATS_BASIC)?;
    let queue = find(bytes, STATS_QUEUE)?;
    let sent = match find(bytes, STATS_PKT64) {
        Some(packets) => u64_at(packets, 0)?,
        None => u32_at(basic, 8)?.into(),
    };
    let drops = u32_at(queue, 8)?.into();
    Some(Statistics {
        sent,
        drops,
        overflows: drops,
        marks: 0,
        waiting_packets: u32_at(queue, 0)?.into(),
        waiting_bytes: u32_at(queue, 4)?.into(),
        requeues: u32_at(queue, 12)?.into(),
    })
}

/// Converts a probability for netem, in which all 32 bits set are certainty.
fn share(probability: f64) -> u32 {
    // Saturates at both ends.
    (probability * f64::from(u32::MAX)).round() as u32
}

/// Returns `value`, or all ones if it has more than 32 bits: a long number has an attribute that
/// holds it whole beside such a field.
fn short(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Netem {
    /// Makes the options: `struct tc_netem_qopt`, then attributes.
    fn options(&self) -> Vec<u8> {
        let random = match self.loss {
            Loss::Random(probability) => share(probability),
            Loss::Bursts(_) => 0,
        };
        // With a gap of one, every packet may be the one that is sent at once.
        let gap = u32::from(self.reorder > 0.0);
        // Delay and jitter in ticks of older versions stay zero beside those in nanoseconds.
        let mut bytes: Vec<u8> = [0, self.limit, random, gap, share(self.duplicate), 0]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        // A change without one of these leaves the earlier setting, so all are given.
        let pair = |first: u32| [first, 0].map(u32::to_ne_bytes).concat();
        let rate = match self.pace {
            None => 0,
            Some(Pace::BytesPerSecond(rate)) => rate,
            Some(Pace::InOrder) => 1_000_000_000_000_000,
        };
        let overhead = match self.pace {
            Some(Pace::BytesPerSecond(_)) => -ETHERNET_HEADER_BYTES,
            _ => 0,
        };
        // `struct tc_netem_rate`: rate, overhead of a packet, two of cells.
        let mut pace = short(rate).to_ne_bytes().to_vec();
        pace.extend(overhead.to_ne_bytes());
        pace.extend([0; 8]);
        let mut attributes = Attributes::new()
            .u64(NETEM_LATENCY64, self.delay_ns)
            .u64(NETEM_JITTER64, self.jitter_ns)
            .bytes(NETEM_REORDER, &pair(share(self.reorder)))
            .bytes(NETEM_CORRUPT, &pair(share(self.corrupt)))
            .bytes(NETEM_RATE, &pace)
            .u64(NETEM_PRNG_SEED, self.seed);
        if rate > u64::from(u32::MAX) {
            attributes = attributes.u64(NETEM_RATE64, rate);
        }
        if let Loss::Bursts(bursts) = self.loss {
            // `struct tc_netem_gemodel`. What the manual page calls `1-h` goes in as `h`, the
            // probability that a packet of the bad state arrives.
            let model = [
                bursts.to_bad_ratio.0,
                bursts.to_good_ratio.0,
                1.0 - bursts.bad_loss_ratio.0,
                bursts.good_loss_ratio.0,
            ];
            let model = model.map(|part| share(part).to_ne_bytes()).concat();
            let model = Attributes::new().bytes(NETEM_LOSS_GILBERT_ELLIOTT, &model);
            attributes = attributes.nested(NETEM_LOSS, &model);
        }
        if let Some(table) = self.distribution {
            let table: Vec<u8> = table.iter().flat_map(|value| value.to_ne_bytes()).collect();
            attributes = attributes.bytes(NETEM_DELAY_DIST, &table);
        }
        bytes.extend(attributes.as_bytes());
        bytes
    }
}

impl Bucket {
    /// Makes the options, which count the packets with their Ethernet headers.
    pub(super) fn options(&self) -> Attributes {
        // `struct tc_ratespec` twice (rate, peak), then limit, buffer and mtu, of which the last
        // two give way to the burst in bytes.
        let mut parameters = vec![0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
        parameters.extend(short(self.bytes_per_second).to_ne_bytes());
        parameters.extend([0; 12]);
        let limit = match self.waiting {
            Waiting::Bytes(bytes) => bytes,
            // Of the queue that stands there until another takes its place.
            _ => self.burst_bytes,
        };
        parameters.extend(limit.to_ne_bytes());
        parameters.extend([0; 8]);
        let mut options = Attributes::new()
            .bytes(TBF_PARMS, &parameters)
            .u32(TBF_BURST, self.burst_bytes);
        if self.bytes_per_second > u64::from(u32::MAX) {
            options = options.u64(TBF_RATE64, self.bytes_per_second);
        }
        options
    }

    fn attributes(&self) -> Attributes {
        // `struct tc_sizespec`: logarithms and alignment of cells, overhead of a packet, link
        // layer, least size, largest size, size of a table that is not there.
        let mut sizes = vec![0; 4];
        sizes.extend((-ETHERNET_HEADER_BYTES).to_ne_bytes());
        sizes.extend(u32::from(LINKLAYER_ETHERNET).to_ne_bytes());
        sizes.extend([0; 12]);
        named("tbf", self.options().as_bytes()).nested(
            libc::TCA_STAB,
            &Attributes::new().bytes(TCA_STAB_BASE, &sizes),
        )
    }
}

#[cfg(test)]
mod tests;
