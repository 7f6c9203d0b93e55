//! Virtual Ethernets that join the hosts and the routers between them.
//!
//! All ends have one Ethernet address and no address resolution, so that a packet reaches the
//! other end whatever the address it is sent to, and no packet but the hosts' own travels on the
//! path and takes part in its draws. The routers forward by two routes for each of the hosts'
//! addresses and have no address themselves.

use std::{net::Ipv4Addr, os::fd::AsRawFd, sync::Arc};

use neli::consts::{nl::NlmF, rtnl::Rtm};
use regatta_model::Offloads;

use super::{
    attributes::Attributes,
    failed, missing,
    netlink::{LOOPBACK, Netlink, link_head},
    offload,
    qdisc::{Attachment, Interface},
};
use crate::{error::DaemonError, namespaces::Namespace, second};

/// Address of every end.
const ETHERNET_ADDRESS: [u8; 6] = [0x02, 0x60, 0, 0, 0, 1];

/// `linux/veth.h`.
const VETH_INFO_PEER: u16 = 1;
/// Mode of a macvlan, and the one in which macvlans of one interface reach one another (`linux/if_link.h`).
const IFLA_MACVLAN_MODE: u16 = 1;
const MACVLAN_MODE_BRIDGE: u32 = 4;
/// Attribute inside `IFLA_AF_SPEC`, under the number of the address family.
const IFLA_INET_CONF: u16 = 1;
/// `linux/ip.h`.
const IPV4_DEVCONF_FORWARDING: u16 = 1;

/// Largest packet of an interface until a condition sets another, in bytes.
const ETHERNET_MTU_BYTES: u32 = 1500;

/// Prefix of the hosts' addresses: both are on one /30.
const PREFIX_BITS: u8 = 30;

/// A network namespace and a socket in it.
pub(super) struct Node {
    pub namespace: Arc<Namespace>,
    pub netlink: Netlink,
    /// Offloads of the interfaces that are created here.
    offloads: Offloads,
}

impl Node {
    /// Makes a namespace, enters it and sets its loopback device up.
    pub(super) fn create(offloads: Offloads) -> Result<Self, DaemonError> {
        let node = Self::of(Namespace::create()?, offloads)?;
        node.netlink
            .set_link(LOOPBACK, libc::IFF_UP, &Attributes::new())
            .map_err(failed("set up the loopback device"))?;
        Ok(node)
    }

    /// Opens the namespace of this process, with a socket in it.
    pub(super) fn own() -> Result<Self, DaemonError> {
        Self::of(Namespace::own()?, Offloads::Off)
    }

    /// Opens the namespace of the system's first process, with a socket in it. The calling thread
    /// enters the namespace.
    pub(super) fn first() -> Result<Self, DaemonError> {
        let namespace = Namespace::first()?;
        namespace.enter()?;
        Self::of(namespace, Offloads::Off)
    }

    /// Opens a socket in the namespace, in which the calling thread is.
    fn of(namespace: Namespace, offloads: Offloads) -> Result<Self, DaemonError> {
        let netlink = Netlink::open().map_err(failed("open a netlink socket"))?;
        Ok(Self {
            namespace: Arc::new(namespace),
            netlink,
            offloads,
        })
    }

    /// Creates a macvlan of another node's interface `parent` here and prepares it. The calling thread changes its
    /// namespace.
    pub(super) fn macvlan(
        &self,
        of: &Self,
        parent: &str,
        name_here: &'static str,
        ethernet: [u8; 6],
    ) -> Result<Interface, DaemonError> {
        let no_parent = |source| DaemonError::NoParent {
            parent: parent.to_owned(),
            source,
        };
        let parent = of.netlink.link_index(parent).map_err(no_parent)?;
        let data = Attributes::new().u32(IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE);
        let attributes = self
            .here(name_here, ethernet)
            .i32(libc::IFLA_LINK, parent)
            .nested(libc::IFLA_LINKINFO, &kind("macvlan", &data));
        let created = of.netlink.create_link(&attributes);
        created.map_err(DaemonError::Macvlan)?;
        self.prepare(name_here)
    }

    /// Takes an interface from another node and prepares it here under another name. The calling
    /// thread changes its namespace.
    pub(super) fn take(
        &self,
        from: &Self,
        name: &str,
        name_here: &'static str,
    ) -> Result<Interface, DaemonError> {
        let index = from.index(name)?;
        from.netlink
            .set_link(index, 0, &self.here(name_here, ETHERNET_ADDRESS))
            .map_err(failed("take the wire to the other guest"))?;
        self.prepare(name_here)
    }

    /// Creates a virtual Ethernet from here to `other` and prepares both ends. The calling thread
    /// changes its namespace.
    pub(super) fn join(
        &self,
        name: &'static str,
        other: &Self,
        name_there: &'static str,
    ) -> Result<[Interface; 2], DaemonError> {
        let mut peer = link_head(0, 0).to_vec();
        peer.extend(other.here(name_there, ETHERNET_ADDRESS).as_bytes());
        let data = Attributes::new().bytes(VETH_INFO_PEER, &peer);
        let attributes = self
            .here(name, ETHERNET_ADDRESS)
            .nested(libc::IFLA_LINKINFO, &kind("veth", &data));
        self.netlink
            .create_link(&attributes)
            .map_err(failed("make a virtual Ethernet"))?;
        Ok([self.prepare(name)?, other.prepare(name_there)?])
    }

    /// Returns the attributes of an interface of this namespace with a name and an Ethernet address.
    fn here(&self, name: &str, ethernet: [u8; 6]) -> Attributes {
        Attributes::new()
            .text(libc::IFLA_IFNAME, name)
            .bytes(libc::IFLA_ADDRESS, &ethernet)
            .i32(libc::IFLA_NET_NS_FD, self.namespace.file().as_raw_fd())
    }

    /// Sets an interface of this namespace up. The calling thread enters the namespace.
    pub(super) fn prepare(&self, name: &'static str) -> Result<Interface, DaemonError> {
        self.namespace.enter()?;
        let mut attributes = Attributes::new();
        if self.offloads == Offloads::Off {
            offload::switch_off(name).map_err(failed("switch offloads off"))?;
            // TCP builds packets of many segments whatever the offloads say; this it heeds.
            attributes = attributes.u32(libc::IFLA_GSO_MAX_SEGS, 1);
        }
        let index = self.index(name)?;
        self.netlink
            .set_link(index, libc::IFF_UP | libc::IFF_NOARP, &attributes)
            .map_err(failed("set up an interface"))?;
        Ok(Interface {
            netlink: self.netlink.clone(),
            index,
            attachment: Attachment::ROOT,
        })
    }

    fn index(&self, name: &str) -> Result<i32, DaemonError> {
        let found = self.netlink.link_index(name);
        found.map_err(failed("find an interface"))
    }

    /// Gives an interface an address of its own, with the same Ethernet address as the other end.
    pub(super) fn wire(&self, name: &'static str, address: Ipv4Addr) -> Result<(), DaemonError> {
        let index = self.index(name)?;
        let attributes = Attributes::new().bytes(libc::IFLA_ADDRESS, &ETHERNET_ADDRESS);
        self.netlink
            .set_link(index, 0, &attributes)
            .map_err(failed("set an Ethernet address"))?;
        self.prepare(name)?.one_address(address, PREFIX_BITS)
    }

    /// Has an interface split packets before a discipline of the path acts on them, where the offloads are off: no
    /// router does it on the way. A UDP socket asks for segments whatever the offloads say.
    pub(super) fn split(&self, mut on: Interface) -> Result<Interface, DaemonError> {
        if self.offloads == Offloads::Off {
            on.split(Attachment::ROOT, ETHERNET_MTU_BYTES)
                .map_err(missing("sch_tbf", "set a queueing discipline"))?;
            on.attachment = Attachment::INSIDE;
        }
        Ok(on)
    }
}

impl Interface {
    /// Sets the Ethernet address of a neighbour, so that nobody asks for it on the path.
    pub(super) fn neighbour(
        &self,
        address: Ipv4Addr,
        ethernet: [u8; 6],
    ) -> Result<(), DaemonError> {
        // `struct ndmsg`: family, padding, interface, state, flags, type.
        let mut head = vec![libc::AF_INET as u8, 0, 0, 0];
        head.extend(self.index.to_ne_bytes());
        head.extend(libc::NUD_PERMANENT.to_ne_bytes());
        head.extend([0, 0]);
        let attributes = Attributes::new()
            .bytes(libc::NDA_DST, &address.octets())
            .bytes(libc::NDA_LLADDR, &ethernet);
        let flags = NlmF::CREATE | NlmF::REPLACE;
        self.netlink
            .change(Rtm::Newneigh, flags, &head, &attributes)
            .map_err(failed("set a neighbour"))
    }

    /// Gives the interface of a host its two addresses.
    pub(super) fn address(&self, address: Ipv4Addr) -> Result<(), DaemonError> {
        self.one_address(address, PREFIX_BITS)?;
        self.one_address(second(address), PREFIX_BITS)
    }

    /// Gives the interface an address with a prefix of this length.
    pub(super) fn one_address(&self, address: Ipv4Addr, prefix: u8) -> Result<(), DaemonError> {
        self.netlink
            .add_address(self.index, address, prefix)
            .map_err(failed("set an address"))
    }

    /// Makes the router that has the interface forward packets for the address `to`, and for its second one, out of
    /// it, and accept those that come in there.
    pub(super) fn route(&self, to: Ipv4Addr) -> Result<(), DaemonError> {
        let forwarding = Attributes::new().u32(IPV4_DEVCONF_FORWARDING, 1);
        let family = Attributes::new().nested(IFLA_INET_CONF, &forwarding);
        let specific = Attributes::new().nested(libc::AF_INET as u16, &family);
        let attributes = Attributes::new().nested(libc::IFLA_AF_SPEC, &specific);
        let head = link_head(self.index, 0);
        // Not through `/proc/sys`, which containers have read-only.
        self.netlink
            .change(Rtm::Setlink, NlmF::empty(), &head, &attributes)
            .map_err(failed("have a router forward packets"))?;
        for address in [to, second(to)] {
            // `struct rtmsg`: family, bits of destination and source, type of service, table,
            // protocol, scope, type, flags.
            let mut head = vec![libc::AF_INET as u8, 32, 0, 0, libc::RT_TABLE_MAIN];
            head.extend([libc::RTPROT_STATIC, libc::RT_SCOPE_LINK, libc::RTN_UNICAST]);
            head.extend([0; 4]);
            let attributes = Attributes::new()
                .bytes(libc::RTA_DST, &address.octets())
                .i32(libc::RTA_OIF, self.index);
            let flags = NlmF::CREATE | NlmF::EXCL;
            self.netlink
                .change(Rtm::Newroute, flags, &head, &attributes)
                .map_err(failed("set a route"))?;
        }
        Ok(())
    }
}

/// Returns the value of `IFLA_LINKINFO` for an interface of this kind.
fn kind(kind: &str, data: &Attributes) -> Attributes {
    Attributes::new()
        .text(libc::IFLA_INFO_KIND, kind)
        .nested(libc::IFLA_INFO_DATA, data)
}
