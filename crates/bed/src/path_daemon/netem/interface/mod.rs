//! Shaping of one address on an interface of the host itself.
//!
//! A `prio` with two bands takes the place of the interface's discipline. Everything goes to the first band, which
//! has a discipline like the one that was there; packets to the other host of the path go to the second one by a
//! filter. There a token bucket that no packet waits for splits what the interface would split later (TSO, GSO), so
//! that netem below it acts on packets of the wire and the offloads of the interface stay as they are. What was there
//! is [restored](former::Former::restore), by the path daemon or by its [guard](guard).

mod filter;
mod former;
mod guard;
mod left;
mod record;

use std::net::IpAddr;

use neli::consts::{nl::NlmF, rtnl::Rtm};

use self::{former::Former, guard::Guard};
pub use self::{
    guard::{COMMAND, main},
    left::{ShapedInterface, shaped_interfaces},
};
use super::{
    attributes::{Attributes, find, u32_at},
    netlink::{IFLA_MTU, Netlink},
    qdisc::{self, Interface, Netem, Place, Qdisc, head, named},
    wires::Node,
};
use crate::{
    messages::End,
    path_daemon::error::{DaemonError, InterfaceError},
};

/// Handle of the discipline of the interface while it is shaped (`7e9a:`), and of the disciplines below it.
const OURS: u32 = 0x7e9a_0000;
const SPLITTER: u32 = 0x7e9b_0000;
const INSIDE: u32 = 0x7e9c_0000;
const OTHERS: u32 = 0x7e9d_0000;

/// Classes of the `prio`: of all traffic, and of packets to the other host.
const CLASS_OF_OTHERS: u32 = OURS | 1;
const CLASS_OF_PEER: u32 = OURS | 2;

/// Returns the place of netem on an interface.
fn netem_on(index: i32) -> Interface {
    let place = Place {
        parent: SPLITTER | 1,
        handle: INSIDE,
    };
    Interface { index, place }
}

/// Shaping of an interface. Dropping this restores the interface.
#[derive(Debug)]
pub(super) struct Shaping {
    former: Former,
    _guard: Guard,
}

impl Shaping {
    /// Prepares an interface for netem on packets to the other host; nothing is shaped yet. Packets of TCP from or to
    /// one of `ssh_ports` are never shaped.
    ///
    /// # Errors
    /// [`InterfaceError`]; the interface is then as it was.
    pub(super) fn install(
        node: &Node,
        end: &End,
        name: &str,
        ssh_ports: &[u16],
    ) -> Result<(Self, Interface), InterfaceError> {
        let peer = end.addresses[end.host.other() as usize];
        let netlink = &node.netlink;
        let index = interface(netlink, name)?;
        leaves_by(netlink, peer, name, index)?;
        let record = record::Record::open(name, index)?;
        let most_bytes = mtu(netlink, index)?;
        let shape = |netlink: &Netlink, index: i32, former: &Former| {
            let others = former.discipline_of_others();
            let interface = (index, most_bytes);
            shape(netlink, interface, others.as_ref(), (peer, ssh_ports))
        };
        let left = record.left();
        let is_left = left.is_some();
        let read = Former::read(netlink, name, index, left).and_then(|former| {
            former::try_in_namespace(&former, |netlink, index| {
                shape(netlink, index, &former)?;
                try_netem(netlink, index)
            })?;
            Ok(former)
        });
        if read.is_err() && !is_left {
            record.remove();
        }
        let former = read?;
        // From here on the guard restores the interface whatever happens to this process.
        let guard = Guard::start(&former, record)?;
        let shaping = Self {
            former,
            _guard: guard,
        };
        shape(netlink, index, &shaping.former)?;
        Ok((shaping, netem_on(index)))
    }
}

/// Installs the disciplines and filters around netem on an interface whose packets have at most `most_bytes` bytes;
/// `others` is the discipline of what is not shaped.
fn shape(
    netlink: &Netlink,
    (index, most_bytes): (i32, u32),
    others: Option<&Attributes>,
    (peer, ssh_ports): (IpAddr, &[u16]),
) -> Result<(), InterfaceError> {
    let add = |parent, handle, attributes: &Attributes| {
        let flags = NlmF::CREATE | NlmF::REPLACE;
        let head = head(index, handle, parent);
        netlink.change(Rtm::Newqdisc, flags, &head, attributes)
    };
    let missing = |module| InterfaceError::missing(module, "set a queueing discipline");
    // `struct tc_prio_qopt`: bands, and the band of each of 16 priorities.
    let mut bands = 2u32.to_ne_bytes().to_vec();
    bands.extend([0; 16]);
    add(qdisc::ROOT, OURS, &named("prio", &bands)).map_err(missing("sch_prio"))?;
    if let Some(others) = others {
        add(CLASS_OF_OTHERS, OTHERS, others).map_err(missing("sch_prio"))?;
    }
    let splitter = Place {
        parent: CLASS_OF_PEER,
        handle: SPLITTER,
    };
    qdisc::split(netlink, index, splitter, most_bytes).map_err(missing("sch_tbf"))?;
    qdisc::remove(netlink, netem_on(index)).map_err(missing("sch_netem"))?;
    let filters = filter::control(peer, ssh_ports)
        .chain(filter::neighbours(peer))
        .map(|filter| (filter, CLASS_OF_OTHERS))
        .chain([(filter::to(peer), CLASS_OF_PEER)]);
    for (place, (filter, class)) in filters.enumerate() {
        filter
            .add(netlink, (index, OURS), place as u16 + 1, class)
            .map_err(missing("cls_u32"))?;
    }
    Ok(())
}

/// Installs a netem in its place.
fn try_netem(netlink: &Netlink, index: i32) -> Result<(), InterfaceError> {
    let netem = Qdisc::Netem(Netem {
        limit: 1,
        ..Netem::default()
    });
    let missing = InterfaceError::missing("sch_netem", "set a queueing discipline");
    netem.add(netlink, netem_on(index)).map_err(missing)
}

/// Checks that a condition has the largest packet of an interface, which is not changed.
pub(super) fn has_mtu(
    node: &Node,
    interface: Interface,
    mtu_bytes: u32,
) -> Result<(), DaemonError> {
    let failed = |source| DaemonError::interface("of the path", source);
    let has = mtu(&node.netlink, interface.index).map_err(failed)?;
    if has == mtu_bytes {
        return Ok(());
    }
    Err(failed(InterfaceError::Mtu {
        has,
        asked: mtu_bytes,
    }))
}

impl Drop for Shaping {
    fn drop(&mut self) {
        if let Err(error) = self.former.restore() {
            guard::report(&error);
        }
    }
}

/// Returns the index of an interface.
fn interface(netlink: &Netlink, name: &str) -> Result<i32, InterfaceError> {
    let found = netlink.link_index(name);
    found.map_err(|source| InterfaceError::NotThere {
        interface: name.to_owned(),
        source,
    })
}

/// Returns the largest IP packet of an interface, in bytes.
fn mtu(netlink: &Netlink, index: i32) -> Result<u32, InterfaceError> {
    let failed = InterfaceError::system("read the largest packet of an interface");
    let found = netlink.link_attribute(index, IFLA_MTU).map_err(&failed)?;
    u32_at(&found, 0).ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))
}

/// Checks that packets to an address leave by an interface.
fn leaves_by(netlink: &Netlink, to: IpAddr, name: &str, index: i32) -> Result<(), InterfaceError> {
    const RTA_DST: u16 = 1;
    const RTA_OIF: u16 = 4;
    let (family, octets) = match to {
        IpAddr::V4(to) => (libc::AF_INET, to.octets().to_vec()),
        IpAddr::V6(to) => (libc::AF_INET6, to.octets().to_vec()),
    };
    // `struct rtmsg`, which begins with family and bits of the destination.
    let mut head = [0; 12];
    head[0] = family as u8;
    head[1] = 8 * octets.len() as u8;
    let attributes = Attributes::new().bytes(RTA_DST, &octets);
    let route = netlink
        .ask(Rtm::Getroute, &head, &attributes)
        .map_err(InterfaceError::system("find the way to the other host"))?;
    let by = find(route.get(head.len()..).unwrap_or_default(), RTA_OIF);
    if by.and_then(|by| u32_at(by, 0)) == Some(index.cast_unsigned()) {
        return Ok(());
    }
    Err(InterfaceError::OtherWay {
        interface: name.to_owned(),
        peer: to,
    })
}
