//! Requests to the kernel about interfaces, addresses, routes and queueing disciplines of one
//! network namespace.

use std::{fmt::Debug, io, net::Ipv4Addr};

use neli::{
    consts::{nl::NlmF, rtnl::Rtm, socket::NlFamily},
    err::SocketError,
    nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder},
    socket::synchronous::NlSocketHandle,
    types::Buffer,
    utils::Groups,
};

use super::attributes::{Attributes, find, u32_at, u64_at};

/// Attributes of an interface (`linux/if_link.h`): name, largest packet, number of packets that it holds, counters.
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_MTU: u16 = 4;
pub(super) const IFLA_TXQLEN: u16 = 13;
const IFLA_STATS64: u16 = 23;

/// Attributes of an address (`linux/if_addr.h`).
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Index of the loopback device, which is the first of every namespace.
pub(super) const LOOPBACK: i32 = 1;

/// Counters of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub sent_packets: u64,
    /// Packets that the other end did not accept, or that found the interface full.
    pub sent_drops: u64,
}

/// A socket in the network namespace of the thread that made it.
pub(super) struct Netlink(NlSocketHandle);

impl Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Netlink")
    }
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        NlSocketHandle::connect(NlFamily::Route, None, Groups::empty())
            .map(Self)
            .map_err(from_neli)
    }

    /// Sends a request that changes something and waits for the kernel's acknowledgement; `head` is
    /// the fixed part of the request.
    pub(super) fn change(
        &self,
        kind: Rtm,
        flags: NlmF,
        head: &[u8],
        attributes: &Attributes,
    ) -> io::Result<()> {
        self.send(kind, flags | NlmF::ACK, head, attributes)?;
        loop {
            for answer in self.receive()? {
                match answer.nl_payload() {
                    NlPayload::Ack(_) => return Ok(()),
                    NlPayload::Err(error) => return refused(*error.error()),
                    // What an earlier request may have left.
                    _ => {}
                }
            }
        }
    }

    /// Requests one object and returns its message, without the netlink header.
    pub(super) fn ask(
        &self,
        kind: Rtm,
        head: &[u8],
        attributes: &Attributes,
    ) -> io::Result<Vec<u8>> {
        // Kernels before 6.7 tell of a discipline only those who listen to changes, unless the
        // answer is asked for as an echo.
        self.send(kind, NlmF::ECHO, head, attributes)?;
        for answer in self.receive()? {
            match answer.nl_payload() {
                NlPayload::Payload(body) => return Ok(body.as_ref().to_vec()),
                NlPayload::Err(error) => return refused(*error.error()).map(|()| Vec::new()),
                _ => {}
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Requests all objects of a kind and returns their messages, without the netlink headers.
    pub(super) fn dump(&self, kind: Rtm, head: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.send(kind, NlmF::DUMP, head, &Attributes::new())?;
        let mut found = Vec::new();
        loop {
            for answer in self.receive()? {
                match answer.nl_payload() {
                    NlPayload::Payload(body) => found.push(body.as_ref().to_vec()),
                    NlPayload::Err(error) => refused(*error.error())?,
                    NlPayload::Empty | NlPayload::DumpExtAck(_) => return Ok(found),
                    NlPayload::Ack(_) => {}
                }
            }
        }
    }

    /// Returns the index of the interface of this name.
    pub(super) fn link_index(&self, name: &str) -> io::Result<i32> {
        let attributes = Attributes::new().text(IFLA_IFNAME, name);
        let message = self.ask(Rtm::Getlink, &link_head(0, 0), &attributes)?;
        Ok(u32_at(&message, 4).unwrap_or(0).cast_signed())
    }

    /// Returns the value of an attribute of an interface.
    pub(super) fn link_attribute(&self, index: i32, kind: u16) -> io::Result<Vec<u8>> {
        let head = link_head(index, 0);
        let message = self.ask(Rtm::Getlink, &head, &Attributes::new())?;
        let attributes = message.get(head.len()..).unwrap_or_default();
        let value = find(attributes, kind).ok_or(io::ErrorKind::InvalidData)?;
        Ok(value.to_vec())
    }

    /// Sets flags and attributes of an interface.
    pub(super) fn set_link(
        &self,
        index: i32,
        flags: libc::c_int,
        attributes: &Attributes,
    ) -> io::Result<()> {
        let head = link_head(index, flags);
        self.change(Rtm::Newlink, NlmF::empty(), &head, attributes)
    }

    /// Gives an interface an address with a prefix of `prefix_bits`.
    pub(super) fn add_address(
        &self,
        index: i32,
        address: Ipv4Addr,
        prefix_bits: u8,
    ) -> io::Result<()> {
        let octets = address.octets();
        // `struct ifaddrmsg`: family, prefix, flags, scope, interface.
        let mut head = vec![libc::AF_INET as u8, prefix_bits, 0, 0];
        head.extend(index.to_ne_bytes());
        let attributes = Attributes::new()
            .bytes(IFA_LOCAL, &octets)
            .bytes(IFA_ADDRESS, &octets);
        self.change(Rtm::Newaddr, NlmF::CREATE | NlmF::EXCL, &head, &attributes)
    }

    /// Returns the counters of an interface.
    pub(super) fn counted(&self, index: i32) -> io::Result<Counted> {
        let statistics = self.link_attribute(index, IFLA_STATS64)?;
        // `struct rtnl_link_stats64`: packets, bytes, errors and drops, each received and sent.
        let at = |place: usize| u64_at(&statistics, 8 * place);
        match (at(1), at(7)) {
            (Some(sent_packets), Some(sent_drops)) => Ok(Counted {
                sent_packets,
                sent_drops,
            }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Creates an interface.
    pub(super) fn create_link(&self, attributes: &Attributes) -> io::Result<()> {
        let flags = NlmF::CREATE | NlmF::EXCL;
        self.change(Rtm::Newlink, flags, &link_head(0, 0), attributes)
    }

    fn send(&self, kind: Rtm, flags: NlmF, head: &[u8], attributes: &Attributes) -> io::Result<()> {
        let mut body = head.to_vec();
        body.extend(attributes.as_bytes());
        let message = NlmsghdrBuilder::default()
            .nl_type(kind)
            .nl_flags(flags | NlmF::REQUEST)
            .nl_payload(NlPayload::Payload(Buffer::from(body)))
            .build()
            .map_err(io::Error::other)?;
        self.0.send(&message).map_err(from_neli)
    }

    fn receive(&self) -> io::Result<Vec<Nlmsghdr<Rtm, Buffer>>> {
        let (answers, _) = self.0.recv_all().map_err(from_neli)?;
        Ok(answers.into_iter().collect())
    }
}

/// Sets the loopback device of this network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    Netlink::open()?.set_link(LOOPBACK, libc::IFF_UP, &Attributes::new())
}

/// Makes a `struct ifinfomsg`: family, padding, type, interface, flags, mask of flags.
pub(super) fn link_head(index: i32, flags: libc::c_int) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

fn refused(error: i32) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(error.saturating_abs()))
}

fn from_neli(error: SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => io::Error::new(error.kind(), error),
        other => io::Error::other(other),
    }
}
