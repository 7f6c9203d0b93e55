//! Requests to the kernel about interfaces, addresses, routes and queueing disciplines of one
//! network namespace.

use std::{fmt::Debug, io};

use neli::{
    consts::{nl::NlmF, rtnl::Rtm, socket::NlFamily},
    err::SocketError,
    nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder},
    socket::synchronous::NlSocketHandle,
    types::Buffer,
    utils::Groups,
};

use super::attributes::{Attributes, find, u32_at};

/// Name of an interface (`linux/if_link.h`).
pub(super) const IFLA_IFNAME: u16 = 3;

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
