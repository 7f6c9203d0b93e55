//! Shaping of one address on an interface of the host itself.
//!
//! A `prio` with two bands takes the place of the interface's discipline. Everything goes to the first band, which
//! has a discipline like the one that was there; packets to the other host of the path go to the second one by a
//! filter. There a token bucket that no packet waits for splits what the interface would split later (TSO, GSO), so
//! that netem below it acts on packets of the wire and the offloads of the interface stay as they are. What was there
//! is [restored](saved_qdisc::SavedQdisc::restore), by the path daemon or by its [guard](guard).

mod filter;
mod guard;
mod leftover;
mod record;
mod saved_qdisc;

use std::net::IpAddr;

use neli::consts::rtnl::Rtm;

use self::saved_qdisc::SavedQdisc;
pub use self::{
    guard::{COMMAND, main},
    leftover::{ShapedInterface, shaped_interfaces},
};
use super::{
    attributes::{Attributes, find, u32_at},
    netlink::Netlink,
    qdisc::{self, Attachment, Interface, Netem, Qdisc, named},
    veth::Node,
};
use crate::{
    error::{DaemonError, InterfaceError},
    messages::End,
};

/// Handle of the discipline of the interface while it is shaped (`7e9a:`), and of the disciplines below it.
const PRIO_HANDLE: u32 = 0x7e9a_0000;
const SPLITTER: u32 = 0x7e9b_0000;
const INSIDE: u32 = 0x7e9c_0000;
const OTHERS: u32 = 0x7e9d_0000;

/// Classes of the `prio`: of all traffic, and of packets to the other host.
const CLASS_OF_OTHERS: u32 = PRIO_HANDLE | 1;
const CLASS_OF_PEER: u32 = PRIO_HANDLE | 2;

/// Returns an interface with the attachment of netem.
fn netem_on(netlink: &Netlink, index: i32) -> Interface {
    Interface {
        netlink: netlink.clone(),
        index,
        attachment: Attachment {
            parent: SPLITTER | 1,
            handle: INSIDE,
        },
    }
}

/// Shaping of an interface. Dropping this restores the interface.
#[derive(Debug)]
pub(super) struct Shaping {
    former: SavedQdisc,
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
        let shape = |interface: &Interface, former: &SavedQdisc| {
            let others = former.discipline_of_others();
            shape(interface, most_bytes, others.as_ref(), (peer, ssh_ports))
        };
        let earlier = record.read();
        let has_earlier = earlier.is_some();
        let read = SavedQdisc::read(netlink, name, index, earlier).and_then(|former| {
            saved_qdisc::try_in_namespace(&former, |netlink, index| {
                let interface = netem_on(netlink, index);
                shape(&interface, &former)?;
                try_netem(&interface)
            })?;
            Ok(former)
        });
        if read.is_err() && !has_earlier {
            record.remove();
        }
        let former = read?;
        // From here on the guard restores the interface whatever happens to this process.
        guard::start(&former, record)?;
        let shaping = Self { former };
        let interface = netem_on(netlink, index);
        shape(&interface, &shaping.former)?;
        Ok((shaping, interface))
    }
}

/// Installs the disciplines and filters around netem on an interface whose packets have at most `most_bytes` bytes;
/// `others` is the discipline of what is not shaped.
fn shape(
    interface: &Interface,
    most_bytes: u32,
    others: Option<&Attributes>,
    (peer, ssh_ports): (IpAddr, &[u16]),
) -> Result<(), InterfaceError> {
    let attachment = |parent, handle| Attachment { parent, handle };
    let missing = |module| InterfaceError::missing(module, "set a queueing discipline");
    // `struct tc_prio_qopt`: bands, and the band of each of 16 priorities.
    let mut bands = 2u32.to_ne_bytes().to_vec();
    bands.extend([0; 16]);
    let prio = interface.replace(attachment(qdisc::ROOT, PRIO_HANDLE), &named("prio", &bands));
    prio.map_err(missing("sch_prio"))?;
    if let Some(others) = others {
        let others = interface.replace(attachment(CLASS_OF_OTHERS, OTHERS), others);
        others.map_err(missing("sch_prio"))?;
    }
    let splitter = interface.split(attachment(CLASS_OF_PEER, SPLITTER), most_bytes);
    splitter.map_err(missing("sch_tbf"))?;
    interface.remove().map_err(missing("sch_netem"))?;
    let filters = filter::control(peer, ssh_ports)
        .chain(filter::neighbours(peer))
        .map(|filter| (filter, CLASS_OF_OTHERS))
        .chain([(filter::to(peer), CLASS_OF_PEER)]);
    for (priority, (filter, class)) in (1..).zip(filters) {
        let added = filter.add(interface, PRIO_HANDLE, priority, class);
        added.map_err(missing("cls_u32"))?;
    }
    Ok(())
}

/// Installs a netem on an interface.
fn try_netem(interface: &Interface) -> Result<(), InterfaceError> {
    let netem = Qdisc::Netem(Netem {
        limit: 1,
        ..Netem::default()
    });
    let missing = InterfaceError::missing("sch_netem", "set a queueing discipline");
    netem.add(interface).map_err(missing)
}

/// Checks that a condition has the largest packet of an interface, which is not changed.
pub(super) fn has_mtu(interface: &Interface, mtu_bytes: u32) -> Result<(), DaemonError> {
    let failed = |source| DaemonError::interface("of the path", source);
    let has = mtu(&interface.netlink, interface.index).map_err(failed)?;
    if has == mtu_bytes {
        return Ok(());
    }
    Err(failed(InterfaceError::Mtu {
        has,
        requested: mtu_bytes,
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
    let found = netlink
        .link_attribute(index, libc::IFLA_MTU)
        .map_err(&failed)?;
    u32_at(&found, 0).ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))
}

/// Checks that packets to an address leave by an interface.
fn leaves_by(netlink: &Netlink, to: IpAddr, name: &str, index: i32) -> Result<(), InterfaceError> {
    let (family, octets) = match to {
        IpAddr::V4(to) => (libc::AF_INET, to.octets().to_vec()),
        IpAddr::V6(to) => (libc::AF_INET6, to.octets().to_vec()),
    };
    // `struct rtmsg`, which begins with family and bits of the destination.
    let mut head = [0; 12];
    head[0] = family as u8;
    head[1] = 8 * octets.len() as u8;
    let attributes = Attributes::new().bytes(libc::RTA_DST, &octets);
    let route = netlink
        .get(Rtm::Getroute, &head, &attributes)
        .map_err(InterfaceError::system("find the way to the other host"))?;
    let by = find(route.get(head.len()..).unwrap_or_default(), libc::RTA_OIF);
    if by.and_then(|by| u32_at(by, 0)) == Some(index.cast_unsigned()) {
        return Ok(());
    }
    Err(InterfaceError::WrongRoute {
        interface: name.to_owned(),
        peer: to,
    })
}
