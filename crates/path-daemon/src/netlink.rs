//! Requests to the kernel about interfaces, addresses, routes and queueing disciplines of one
//! network namespace.

use std::{io, net::Ipv4Addr, sync::Arc};

use neli::{
    consts::{nl::NlmF, rtnl::Rtm, socket::NlFamily},
    err::SocketError,
    nl::{NlPayload, NlmsghdrBuilder},
    socket::synchronous::NlSocketHandle,
    types::Buffer,
    utils::Groups,
};

use parking_lot::Mutex;

use super::attributes::{Attributes, find, u32_at, u64_at};

/// Index of the loopback device, which is the first of every namespace.
pub(super) const LOOPBACK: i32 = 1;

/// Counters of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub sent_packets: u64,
    /// Packets that the other end did not accept, or that found the interface full.
    pub sent_drops: u64,
}

/// A socket in the network namespace of the thread that made it. Threads share it, and make one request at a time.
#[derive(Clone)]
pub(super) struct Netlink(Arc<Mutex<NlSocketHandle>>);

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        NlSocketHandle::connect(NlFamily::Route, None, Groups::empty())
            .map(|socket| Self(Arc::new(Mutex::new(socket))))
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
        let flags = flags | NlmF::ACK;
        self.request(kind, flags, head, attributes).map(drop)
    }

    /// Requests one object and returns its message, without the netlink header.
    pub(super) fn get(
        &self,
        kind: Rtm,
        head: &[u8],
        attributes: &Attributes,
    ) -> io::Result<Vec<u8>> {
        // Kernels before 6.7 report a discipline only to listeners of changes, unless the
        // request asks for an echo.
        let flags = NlmF::ECHO | NlmF::ACK;
        let found = self.request(kind, flags, head, attributes)?;
        let first = found.into_iter().next();
        first.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Requests all objects of a kind and returns their messages, without the netlink headers.
    pub(super) fn dump(&self, kind: Rtm, head: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.request(kind, NlmF::DUMP, head, &Attributes::new())
    }

    /// Sends a request and returns the messages that the kernel sends until its acknowledgement or the end of a list.
    fn request(
        &self,
        kind: Rtm,
        flags: NlmF,
        head: &[u8],
        attributes: &Attributes,
    ) -> io::Result<Vec<Vec<u8>>> {
        let mut body = head.to_vec();
        body.extend(attributes.as_bytes());
        let message = NlmsghdrBuilder::default()
            .nl_type(kind)
            .nl_flags(flags | NlmF::REQUEST)
            .nl_payload(NlPayload::Payload(Buffer::from(body)))
            .build()
            .map_err(io::Error::other)?;
        let socket = self.0.lock();
        socket.send(&message).map_err(from_neli)?;
        let mut found = Vec::new();
        loop {
            let (answers, _) = socket.recv_all::<Rtm, Buffer>().map_err(from_neli)?;
            for answer in answers {
                match answer.nl_payload() {
                    NlPayload::Payload(body) => found.push(body.as_ref().to_vec()),
                    NlPayload::Err(error) => {
                        let error = error.error().saturating_abs();
                        return Err(io::Error::from_raw_os_error(error));
                    }
                    NlPayload::Ack(_) | NlPayload::Empty | NlPayload::DumpExtAck(_) => {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// Returns the index of the interface of this name.
    pub(super) fn link_index(&self, name: &str) -> io::Result<i32> {
        let attributes = Attributes::new().text(libc::IFLA_IFNAME, name);
        let message = self.get(Rtm::Getlink, &link_head(0, 0), &attributes)?;
        Ok(u32_at(&message, 4).unwrap_or(0).cast_signed())
    }

    /// Returns the value of an attribute of an interface.
    pub(super) fn link_attribute(&self, index: i32, kind: u16) -> io::Result<Vec<u8>> {
        let head = link_head(index, 0);
        let message = self.get(Rtm::Getlink, &head, &Attributes::new())?;
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
            .bytes(libc::IFA_LOCAL, &octets)
            .bytes(libc::IFA_ADDRESS, &octets);
        self.change(Rtm::Newaddr, NlmF::CREATE | NlmF::EXCL, &head, &attributes)
    }

    /// Returns the counters of an interface.
    pub(super) fn counted(&self, index: i32) -> io::Result<Counted> {
        let statistics = self.link_attribute(index, libc::IFLA_STATS64)?;
        // `struct rtnl_link_stats64`: packets, bytes, errors and drops, each received and sent.
        let at =
            |position: usize| u64_at(&statistics, 8 * position).ok_or(io::ErrorKind::InvalidData);
        Ok(Counted {
            sent_packets: at(1)?,
            sent_drops: at(7)?,
        })
    }

    /// Creates an interface.
    pub(super) fn create_link(&self, attributes: &Attributes) -> io::Result<()> {
        let flags = NlmF::CREATE | NlmF::EXCL;
        self.change(Rtm::Newlink, flags, &link_head(0, 0), attributes)
    }
}

/// Sets the loopback device of this network namespace up.
pub fn loopback_up() -> io::Result<()> {
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

fn from_neli(error: SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_keeps_its_number() {
        let error = from_neli(io::Error::from_raw_os_error(libc::EMFILE).into());
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    }

    #[test]
    fn answers_belong_to_their_requests() {
        let netlink = Netlink::open().expect("a socket");
        for _ in 0..2 {
            assert_eq!(netlink.link_index("lo").expect("an index"), LOOPBACK);
            let error = netlink.link_index("no such").expect_err("no interface");
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
            assert!(netlink.counted(LOOPBACK).is_ok());
            let interfaces = netlink
                .dump(Rtm::Getlink, &link_head(0, 0))
                .expect("a list");
            let indices = interfaces.iter().filter_map(|message| u32_at(message, 4));
            assert_eq!(indices.filter(|index| *index == 1).count(), 1);
        }
    }
}
