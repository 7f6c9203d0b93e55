//! The queueing discipline that an interface had, and its restoration.

use std::{fs, io, thread};

use neli::consts::{nl::NlmF, rtnl::Rtm};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

use super::{
    super::{
        attributes::{Attributes, find, parse, u32_at},
        netlink::{LOOPBACK, Netlink},
        qdisc::{ROOT, attributes_of, head},
    },
    PRIO_HANDLE,
};
use crate::error::InterfaceError;

/// Kinds that are restored with their options: for each a test compares what the kernel shows before and after.
const RESTORED: &[&str] = &[
    "bfifo",
    "codel",
    "fq",
    "fq_codel",
    "pfifo",
    "pfifo_fast",
    "sfq",
    "tbf",
];

/// Kind of the discipline of interfaces with several queues: it has one of the default kind for each.
const MANY_QUEUES: &str = "mq";

/// Kind of the discipline of interfaces that have no queue.
const NO_QUEUE: &str = "noqueue";

/// Kind of our discipline.
const OUR_KIND: &str = "prio";

/// Kind of disciplines that the kernel attaches by itself.
const DEFAULT_KIND: &str = "/proc/sys/net/core/default_qdisc";

/// `TC_H_INGRESS`: place of disciplines for arriving packets, which are not touched.
const ARRIVING: u32 = 0xffff_fff1;

/// Attributes of a discipline that are not among its options (`TCA_*`), and of a rate estimator among its statistics.
const TCA_HW_OFFLOAD: u16 = 12;
const TCA_INGRESS_BLOCK: u16 = 13;
const TCA_EGRESS_BLOCK: u16 = 14;
const STATS_RATE_EST: u16 = 2;

/// Attributes of CoDel and FQ-CoDel that are times (`TCA_CODEL_*`, `TCA_FQ_CODEL_*`).
const CODEL_TIMES: &[u16] = &[1, 3, 5];
const FQ_CODEL_TIMES: &[u16] = &[1, 3, 7];

/// Discipline as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Discipline {
    kind: String,
    /// 0 for one that the kernel has attached by itself.
    handle: u32,
    pub(super) parent: u32,
    options: Option<Vec<u8>>,
}

impl Discipline {
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        let attributes = attributes_of(message);
        let kind = find(attributes, libc::TCA_KIND)?;
        Some(Self {
            kind: String::from_utf8_lossy(kind.strip_suffix(&[0]).unwrap_or(kind)).into_owned(),
            handle: u32_at(message, 8)?,
            parent: u32_at(message, 12)?,
            options: find(attributes, libc::TCA_OPTIONS).map(<[u8]>::to_vec),
        })
    }

    pub(super) fn is_ours(&self) -> bool {
        self.kind == OUR_KIND && self.handle == PRIO_HANDLE
    }

    /// Returns the attributes of a request for this discipline.
    fn request(&self) -> Attributes {
        let request = Attributes::new().text(libc::TCA_KIND, &self.kind);
        let times = match &*self.kind {
            "codel" => CODEL_TIMES,
            "fq_codel" => FQ_CODEL_TIMES,
            _ => &[],
        };
        match &self.options {
            None => request,
            Some(options) if times.is_empty() => request.bytes(libc::TCA_OPTIONS, options),
            Some(options) => {
                let options = parse(options).fold(Attributes::new(), |request, (kind, value)| {
                    match u32_at(value, 0) {
                        Some(time) if times.contains(&kind) => request.u32(kind, codel_time(time)),
                        _ => request.bytes(kind, value),
                    }
                });
                request.nested(libc::TCA_OPTIONS, &options)
            }
        }
    }

    /// Installs the discipline on an interface in the place of the one that is there.
    fn install(&self, netlink: &Netlink, interface: i32) -> io::Result<()> {
        let flags = NlmF::CREATE | NlmF::REPLACE;
        let head = head(interface, self.handle, ROOT);
        netlink.change(Rtm::Newqdisc, flags, &head, &self.request())
    }
}

/// Returns the time for which CoDel shows `shown`, both in microseconds: it keeps times in units of 1.024 µs and rounds
/// down when it takes and when it shows them.
fn codel_time(shown: u32) -> u32 {
    let units = (u64::from(shown) * 1000).div_ceil(1024);
    u32::try_from((units * 1024).div_ceil(1000)).unwrap_or(shown)
}

/// Interface with the discipline that it had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedQdisc {
    pub name: String,
    pub interface: i32,
    /// Discipline of the interface first, then those inside of it.
    disciplines: Vec<Discipline>,
}

impl SavedQdisc {
    /// Reads the discipline of an interface. If the interface is still shaped by an earlier run, it is first restored
    /// from `earlier`, that run's record.
    ///
    /// # Errors
    /// [`InterfaceError::StaleShaping`] if it is still shaped and there is no record of that; [`InterfaceError::Down`];
    /// [`InterfaceError::NotExact`] for a discipline that could not be restored exactly; [`InterfaceError::System`].
    pub(super) fn read(
        netlink: &Netlink,
        name: &str,
        interface: i32,
        earlier: Option<Self>,
    ) -> Result<Self, InterfaceError> {
        let step = "read the queueing disciplines of an interface";
        let read = || messages(netlink, interface).map_err(InterfaceError::system(step));
        let mut found = read()?;
        if parsed(&found).first().is_some_and(Discipline::is_ours) {
            let Some(earlier) = earlier.filter(|earlier| earlier.interface == interface) else {
                let interface = name.to_owned();
                return Err(InterfaceError::StaleShaping { interface });
            };
            earlier.restore()?;
            found = read()?;
        }
        let former = Self {
            name: name.to_owned(),
            interface,
            disciplines: parsed(&found),
        };
        if former.root().is_none() {
            let interface = name.to_owned();
            return Err(InterfaceError::Down { interface });
        }
        if let Some(reason) = former.obstacle(&found) {
            return Err(former.not_exact(reason));
        }
        // Filters of the discipline of the interface.
        let filters = netlink.dump(Rtm::Gettfilter, &head(interface, 0, 0));
        if !filters.map_err(InterfaceError::system(step))?.is_empty() {
            return Err(former.not_exact("it has filters".into()));
        }
        Ok(former)
    }

    /// Makes the error of a discipline that could not be restored exactly.
    fn not_exact(&self, reason: String) -> InterfaceError {
        let kind = self.root().map(|root| root.kind.clone());
        InterfaceError::NotExact {
            interface: self.name.clone(),
            kind: kind.unwrap_or_default(),
            reason,
        }
    }

    fn root(&self) -> Option<&Discipline> {
        self.disciplines.first().filter(|root| root.parent == ROOT)
    }

    /// Returns the reason why the disciplines in these messages cannot be restored exactly, if there is one.
    fn obstacle(&self, messages: &[Vec<u8>]) -> Option<String> {
        let (root, inside) = self.disciplines.split_first()?;
        if root.handle == 0 {
            let mut leaves = match &*root.kind {
                NO_QUEUE if inside.is_empty() => return None,
                MANY_QUEUES => inside.iter(),
                _ if inside.is_empty() => self.disciplines.iter(),
                _ => return Some("there are disciplines inside of it".into()),
            };
            if leaves.clone().any(|leaf| leaf.handle != 0) {
                return Some("disciplines of its queues have been changed".into());
            }
            // The kernel attaches one of the default kind again, which may not be that of earlier times. A network
            // namespace does not show it.
            let default = fs::read_to_string(DEFAULT_KIND).ok()?;
            let other = leaves.find(|leaf| leaf.kind != default.trim())?;
            return Some(format!(
                "`net.core.default_qdisc` is `{}` by now, and not `{}`",
                default.trim(),
                other.kind
            ));
        }
        if !RESTORED.contains(&&*root.kind) {
            return Some(format!("only {} are restored", RESTORED.join(", ")));
        }
        if !inside.is_empty() {
            return Some("there are disciplines inside of it".into());
        }
        let attributes = attributes_of(messages.first()?);
        let statistics = find(attributes, libc::TCA_STATS2).unwrap_or_default();
        let is_offloaded = find(attributes, TCA_HW_OFFLOAD).is_some_and(|value| value != [0]);
        let has = |kind| find(attributes, kind).is_some();
        let has_blocks = has(TCA_INGRESS_BLOCK) || has(TCA_EGRESS_BLOCK);
        let has_estimator = find(statistics, STATS_RATE_EST).is_some();
        let obstacles = [
            (has(libc::TCA_STAB), "it has a table of sizes"),
            (has_blocks, "it has a block of filters"),
            (has_estimator, "it has a rate estimator"),
            (is_offloaded, "the hardware does its work"),
        ];
        let mut found = obstacles.into_iter().filter(|(is_so, _)| *is_so);
        found.next().map(|(_, reason)| reason.to_owned())
    }

    /// Returns the attributes of a discipline for the traffic that is not shaped, like the one that the interface had;
    /// `None` for an interface without a queue.
    pub(super) fn discipline_of_others(&self) -> Option<Attributes> {
        let root = self.root()?;
        match &*root.kind {
            NO_QUEUE => None,
            MANY_QUEUES => self.disciplines.get(1).map(Discipline::request),
            _ => Some(root.request()),
        }
    }

    /// Gives the interface back what it had, if it is shaped. May be called by several processes at a time.
    ///
    /// # Errors
    /// [`InterfaceError::System`] if the kernel refuses; [`InterfaceError::NotExact`] if it shows something else
    /// afterwards.
    pub(super) fn restore(&self) -> Result<(), InterfaceError> {
        let step = "restore the queueing discipline of an interface";
        let failed = InterfaceError::system(step);
        let netlink = Netlink::open().map_err(&failed)?;
        let now = || messages(&netlink, self.interface).map(|found| parsed(&found));
        let is_ours = |now: &[Discipline]| now.first().is_some_and(Discipline::is_ours);
        // A removed interface has no disciplines, and those that another program has set since are left alone.
        if !is_ours(&now().map_err(&failed)?) {
            return Ok(());
        }
        let Some(root) = self.root() else {
            return Ok(());
        };
        let restored = if root.handle == 0 {
            let head = head(self.interface, PRIO_HANDLE, ROOT);
            netlink.change(Rtm::Delqdisc, NlmF::empty(), &head, &Attributes::new())
        } else {
            root.install(&netlink, self.interface)
        };
        let now = now().map_err(&failed)?;
        if now == self.disciplines {
            // Also if another process was faster.
            return Ok(());
        }
        restored.map_err(&failed)?;
        Err(self.not_exact("the kernel shows something else now".into()))
    }
}

/// Returns the messages about the disciplines of an interface for packets that leave, its own first.
fn messages(netlink: &Netlink, interface: i32) -> io::Result<Vec<Vec<u8>>> {
    // The kernel shows those of all interfaces.
    let mut found = netlink.dump(Rtm::Getqdisc, &head(interface, 0, 0))?;
    found.retain(|message| {
        u32_at(message, 4) == Some(interface.cast_unsigned())
            && u32_at(message, 12) != Some(ARRIVING)
    });
    found.sort_by_key(|message| u32_at(message, 12) != Some(ROOT));
    Ok(found)
}

fn parsed(messages: &[Vec<u8>]) -> Vec<Discipline> {
    let messages = messages.iter();
    messages
        .filter_map(|message| Discipline::parse(message))
        .collect()
}

/// Gives the loopback device of a new network namespace the discipline of `former`, shapes it by `shape`, and restores
/// it: so it is known before an interface is touched that the kernel can do it.
///
/// # Errors
/// Errors of `shape`; [`InterfaceError::NotExact`] if the kernel shows something else afterwards.
pub(super) fn try_in_namespace(
    former: &SavedQdisc,
    shape: impl Fn(&Netlink, i32) -> Result<(), InterfaceError> + Sync,
) -> Result<(), InterfaceError> {
    let step = "try the shaping of an interface in a network namespace";
    let failed = InterfaceError::system(step);
    let attempt = || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| failed(error.into()))?;
        let netlink = Netlink::open().map_err(&failed)?;
        if let Some(root) = former.root().filter(|root| root.handle != 0) {
            root.install(&netlink, LOOPBACK)
                .map_err(|error| former.not_exact(format!("the kernel refuses it: {error}")))?;
            if shown(&netlink, LOOPBACK)? != former.disciplines {
                return Err(former.not_exact("this kernel changes its options".into()));
            }
        }
        // A discipline of the kernel's own may be another one here.
        let before = SavedQdisc {
            name: former.name.clone(),
            interface: LOOPBACK,
            disciplines: shown(&netlink, LOOPBACK)?,
        };
        shape(&netlink, LOOPBACK)?;
        before.restore()
    };
    // Only that thread enters the namespace, which ends with it.
    thread::scope(|scope| {
        let trying = thread::Builder::new().name("attempt".into());
        let trying = trying.spawn_scoped(scope, attempt);
        let ended = || failed(io::Error::other("the thread ended"));
        let trying = trying.map_err(&failed)?;
        trying.join().unwrap_or_else(|_| Err(ended()))
    })
}

fn shown(netlink: &Netlink, interface: i32) -> Result<Vec<Discipline>, InterfaceError> {
    let step = "read the queueing disciplines of an interface";
    let found = messages(netlink, interface).map_err(InterfaceError::system(step))?;
    Ok(parsed(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discipline(kind: &str, handle: u32, options: &[u8]) -> Discipline {
        Discipline {
            kind: kind.into(),
            handle,
            parent: ROOT,
            options: Some(options.to_vec()),
        }
    }

    fn obstacle(disciplines: &[Discipline]) -> Option<String> {
        let former = SavedQdisc {
            name: "eth1".into(),
            interface: 7,
            disciplines: disciplines.to_vec(),
        };
        former.obstacle(&[vec![0; 20]])
    }

    /// As the kernel does: `(t * NSEC_PER_USEC) >> CODEL_SHIFT`, and back.
    #[test]
    fn times_of_codel_round_trip() {
        for time_us in (0..3_000_000).step_by(7) {
            let units = |time: u64| (time * 1000) >> 10;
            let shown = (units(time_us) << 10) / 1000;
            let again = codel_time(u32::try_from(shown).unwrap());
            assert_eq!(units(u64::from(again)), units(time_us), "{time_us}");
        }
    }

    #[test]
    fn options_round_trip() {
        let fq = discipline("fq", 0x8001_0000, &[8, 0, 1, 0, 7, 0, 0, 0]);
        let request = fq.request();
        assert_eq!(find(request.as_bytes(), libc::TCA_KIND), Some(&b"fq\0"[..]));
        assert_eq!(
            find(request.as_bytes(), libc::TCA_OPTIONS),
            fq.options.as_deref()
        );
        let mut message = head(7, fq.handle, ROOT).to_vec();
        message.extend(request.as_bytes());
        assert_eq!(Discipline::parse(&message), Some(fq));
        assert_eq!(Discipline::parse(&[]), None);
    }

    #[test]
    fn classful_disciplines_are_not_restored() {
        let found = obstacle(&[discipline("htb", 0x0001_0000, &[])]);
        assert!(found.unwrap().contains("only bfifo"));
        let mut inside = discipline("codel", 0x0002_0000, &[]);
        inside.parent = 0x0001_0001;
        let found = obstacle(&[discipline("tbf", 0x0001_0000, &[]), inside.clone()]);
        assert!(found.unwrap().contains("inside"));
        let found = obstacle(&[discipline("mq", 0, &[]), inside]);
        assert!(found.unwrap().contains("have been changed"));
        assert_eq!(obstacle(&[discipline("noqueue", 0, &[])]), None);
        assert_eq!(obstacle(&[discipline("fq", 0x8001_0000, &[])]), None);
    }
}
