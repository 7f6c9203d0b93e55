//! Watch over an interface: whether it was down, or had no carrier, at some moment.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};

/// Size of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;

/// Size of `struct ifinfomsg`, which follows it.
const LINK_BYTES: usize = 16;

/// Flags of an interface that can carry packets: it is up, and its wire has a carrier.
const CARRIES: u32 = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;

/// Subscription to the kernel's messages about the interfaces of a network namespace, from when it was made.
#[derive(Debug)]
pub struct LinkWatch {
    messages: OwnedFd,
    interface: u32,
}

impl LinkWatch {
    /// Begins to watch an interface of the calling thread's network namespace; `None` if there is no such interface, or
    /// the kernel tells nothing.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let interface = nix::net::if_::if_nametoindex(name).ok()?;
        let messages = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkRoute,
        )
        .ok()?;
        let groups = libc::RTMGRP_LINK as u32;
        bind(messages.as_raw_fd(), &NetlinkAddr::new(0, groups)).ok()?;
        Some(Self {
            messages,
            interface,
        })
    }

    /// Whether the interface could not carry packets at some moment since the last call, or since the watch began.
    #[must_use]
    pub fn was_down(&self) -> bool {
        let mut was_down = false;
        let mut part = vec![0; 1 << 16];
        while let Ok(length) = recv(self.messages.as_raw_fd(), &mut part, MsgFlags::empty()) {
            was_down |= reports_down(&part[..length], self.interface);
        }
        was_down
    }
}

/// Whether one of these messages of the kernel says that an interface is gone, down, or without a carrier.
fn reports_down(mut messages: &[u8], interface: u32) -> bool {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
    while messages.len() >= HEADER_BYTES + LINK_BYTES {
        let length = number(&messages[..4]) as usize;
        let kind = u16::from_ne_bytes([messages[4], messages[5]]);
        let link = &messages[HEADER_BYTES..HEADER_BYTES + LINK_BYTES];
        let (index, flags) = (number(&link[4..8]), number(&link[8..12]));
        let is_down = match kind {
            libc::RTM_DELLINK => true,
            libc::RTM_NEWLINK => flags & CARRIES != CARRIES,
            _ => false,
        };
        if is_down && index == interface {
            return true;
        }
        let next = length.next_multiple_of(4).max(HEADER_BYTES);
        messages = messages.get(next..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, index: u32, flags: libc::c_int) -> Vec<u8> {
        let mut message = vec![0; HEADER_BYTES + LINK_BYTES + 4];
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message[20..24].copy_from_slice(&index.to_ne_bytes());
        message[24..28].copy_from_slice(&(flags as u32).to_ne_bytes());
        message
    }

    #[test]
    fn a_link_is_down_without_carrier_and_when_it_is_taken_down_or_gone() {
        let up = libc::IFF_UP | libc::IFF_LOWER_UP;
        let well = message(libc::RTM_NEWLINK, 7, up);
        for (kind, index, flags, expected) in [
            (libc::RTM_NEWLINK, 7, up, false),
            (libc::RTM_NEWLINK, 7, libc::IFF_UP, true),
            (libc::RTM_NEWLINK, 7, 0, true),
            (libc::RTM_DELLINK, 7, up, true),
            (libc::RTM_NEWLINK, 8, 0, false),
            (libc::RTM_NEWADDR, 7, 0, false),
        ] {
            let both = [well.clone(), message(kind, index, flags)].concat();
            assert_eq!(reports_down(&both, 7), expected, "{kind} {index} {flags:x}");
        }
        assert!(!reports_down(&well[..20], 7));
    }

    #[test]
    fn a_link_that_nobody_touches_was_not_down() {
        let watch = LinkWatch::of("lo").expect("every namespace has a loopback");
        assert!(!watch.was_down());
        assert!(LinkWatch::of("no-such-link").is_none());
    }
}
