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

use super::attributes::Attributes;

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

fn refused(error: i32) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(error.saturating_abs()))
}

fn from_neli(error: SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => io::Error::new(error.kind(), error),
        other => io::Error::other(other),
    }
}
