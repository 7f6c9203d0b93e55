//! TUN device through which a host's packets leave for the path and come in from it.

use std::{
    ffi::c_short,
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    mem,
    net::Ipv4Addr,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::fs::OpenOptionsExt,
    },
    ptr,
};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

use super::{clock, error::DaemonError};

/// Name of the device in each namespace.
const NAME: &str = "path0";

/// Label of the device's second address.
const SECOND_NAME: &str = "path0:1";

/// Packets that the device holds for the forwarder. At 1 Gbit/s and 1500 bytes this bridges a
/// pause of the forwarder of 24 ms; a host that sends faster than the forwarder reads sees drops
/// here after 1 to 2 ms.
const QUEUE_PACKETS: u32 = 2000;

/// The same in virtual time, the most that a kernel takes: a sender that never waits passes no time there, and Linux 6.12
/// runs ordinary processes before real-time ones for 50 ms of a second (its fair server). Such a sender then waits for
/// room in its socket's buffer instead of losing packets here.
const QUEUE_PACKETS_VIRTUAL: u32 = i16::MAX as u32;

/// Bytes of `struct virtio_net_hdr` before each packet: with it a checksum that is not yet computed
/// is carried from one kernel to the other, as between two ends of a virtual Ethernet.
pub(crate) const HEADER_BYTES: usize = 10;

/// Smallest and largest MTU that IPv4 and the device allow.
pub(crate) const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65521;

/// A TUN device and handles on its namespace.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
    /// Socket in the device's namespace, for its settings.
    control: OwnedFd,
    /// File `/proc/net/dev` of the device's namespace.
    statistics: File,
}

impl Tun {
    /// Makes a device in the namespace that the calling thread is in, with this host's address on
    /// a /30, and sets it and the loopback device up.
    pub(crate) fn create(address: Ipv4Addr) -> Result<Self, DaemonError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(DaemonError::OpenTun)?;
        // Not IFF_NAPI: with one packet for each write nothing is there to be merged, and measured
        // side by side it cost 4 to 17 % more CPU time per packet.
        let mut request = request(NAME);
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as c_short;
        ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request, "name")?;
        // Only checksums are left to the device, never segmentation: what is read here are the
        // packets of the wire.
        // SAFETY: this request takes a number, not a pointer.
        let done =
            unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::TUN_F_CSUM) };
        check(done, "offloads")?;

        let control = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .map_err(|e| DaemonError::Tun {
            step: "socket",
            source: e.into(),
        })?;
        let path = "/proc/thread-self/net/dev";
        let statistics = File::open(path).map_err(|source| DaemonError::Read {
            path: path.into(),
            source,
        })?;
        let tun = Self {
            file,
            control,
            statistics,
        };
        tun.configure(address)?;
        Ok(tun)
    }

    fn configure(&self, address: Ipv4Addr) -> Result<(), DaemonError> {
        let control = self.control.as_raw_fd();
        let mut change = request(NAME);
        change.ifr_ifru.ifru_addr = socket_address(address);
        ioctl(control, libc::SIOCSIFADDR, &mut change, "address")?;
        change.ifr_ifru.ifru_addr = socket_address(Ipv4Addr::new(255, 255, 255, 252));
        ioctl(control, libc::SIOCSIFNETMASK, &mut change, "netmask")?;
        // A second address, for transports that use several.
        let mut second = request(SECOND_NAME);
        second.ifr_ifru.ifru_addr = socket_address(super::second(address));
        ioctl(control, libc::SIOCSIFADDR, &mut second, "second address")?;
        second.ifr_ifru.ifru_addr = socket_address(Ipv4Addr::new(255, 255, 255, 252));
        ioctl(control, libc::SIOCSIFNETMASK, &mut second, "second netmask")?;
        let mut change = request(NAME);
        ioctl(control, libc::SIOCGIFINDEX, &mut change, "index")?;
        // SAFETY: the request before has filled this field of the union.
        let index = unsafe { change.ifr_ifru.ifru_ifindex };
        let packets = match clock::is_virtual() {
            true => QUEUE_PACKETS_VIRTUAL,
            false => QUEUE_PACKETS,
        };
        set_queue(index, packets).map_err(|source| DaemonError::Tun {
            step: "queue",
            source,
        })?;
        for name in [NAME, "lo"] {
            let mut change = request(name);
            ioctl(control, libc::SIOCGIFFLAGS, &mut change, "flags")?;
            // SAFETY: the request before has filled this field of the union.
            let flags = unsafe { change.ifr_ifru.ifru_flags };
            change.ifr_ifru.ifru_flags = flags | libc::IFF_UP as c_short;
            ioctl(control, libc::SIOCSIFFLAGS, &mut change, "up")?;
        }
        Ok(())
    }

    /// Sets the largest IP packet.
    pub(crate) fn set_mtu(&self, mtu_bytes: u32) -> Result<(), DaemonError> {
        if !MTU_RANGE.contains(&mtu_bytes) {
            return Err(DaemonError::Mtu(mtu_bytes));
        }
        let mut change = request(NAME);
        change.ifr_ifru.ifru_mtu = mtu_bytes as i32;
        ioctl(
            self.control.as_raw_fd(),
            libc::SIOCSIFMTU,
            &mut change,
            "largest packet",
        )
    }

    /// Opens a handle to read and write packets with; it does not block.
    pub(crate) fn packets(&self) -> Result<File, DaemonError> {
        self.file.try_clone().map_err(|source| DaemonError::Tun {
            step: "handle",
            source,
        })
    }

    /// Returns the packets that this host has sent while the device was full, since it was created.
    pub(crate) fn dropped(&mut self) -> Result<u64, DaemonError> {
        let mut text = String::new();
        self.statistics
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.statistics.read_to_string(&mut text))
            .map_err(|source| DaemonError::Read {
                path: "/proc/net/dev".into(),
                source,
            })?;
        Ok(transmit_drops(&text, NAME).unwrap_or(0))
    }
}

/// Sets the number of packets that a device holds, over netlink: the older `ioctl` for it asks for
/// a right over the whole machine, not just over the namespace.
fn set_queue(index: i32, packets: u32) -> io::Result<()> {
    #[repr(C)]
    struct Message {
        header: libc::nlmsghdr,
        device: libc::ifinfomsg,
        attribute_length: u16,
        attribute_type: u16,
        packets: u32,
    }
    #[repr(C)]
    struct Answer {
        header: libc::nlmsghdr,
        error: libc::nlmsgerr,
    }
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    // SAFETY: all zeros are a valid message; padding and what is not set here are zero.
    let mut message: Message = unsafe { mem::zeroed() };
    message.header.nlmsg_len = size_of::<Message>() as u32;
    message.header.nlmsg_type = libc::RTM_NEWLINK;
    message.header.nlmsg_flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    message.device.ifi_index = index;
    message.attribute_length = 8;
    message.attribute_type = libc::IFLA_TXQLEN;
    message.packets = packets;
    // SAFETY: the message is valid for reads of its size, and has no padding (16 + 16 + 8 bytes).
    let sent = unsafe {
        libc::send(
            netlink.as_raw_fd(),
            ptr::from_ref(&message).cast(),
            size_of::<Message>(),
            0,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zeros are a valid answer.
    let mut answer: Answer = unsafe { mem::zeroed() };
    // SAFETY: the answer is valid for writes of its size. The kernel answers within the call that
    // sent, so this does not block.
    let received = unsafe {
        libc::recv(
            netlink.as_raw_fd(),
            ptr::from_mut(&mut answer).cast(),
            size_of::<Answer>(),
            0,
        )
    };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    match answer.error.error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Returns the column `drop` under `Transmit` of a device in `/proc/net/dev`.
fn transmit_drops(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?
        .split_whitespace()
        .nth(11)?
        .parse()
        .ok()
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: all zeros are a valid `ifreq`: an empty name and an integer of zero.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let internet = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(address).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: both have the same size and any bytes are a valid `sockaddr`.
    unsafe { mem::transmute::<libc::sockaddr_in, libc::sockaddr>(internet) }
}

fn ioctl(
    fd: RawFd,
    number: impl TryInto<libc::Ioctl>,
    request: &mut libc::ifreq,
    step: &'static str,
) -> Result<(), DaemonError> {
    let Ok(number) = number.try_into() else {
        return check(-1, step);
    };
    // SAFETY: every request passed here reads or writes one `ifreq`.
    check(unsafe { libc::ioctl(fd, number, request) }, step)
}

fn check(returned: i32, step: &'static str) -> Result<(), DaemonError> {
    if returned < 0 {
        return Err(DaemonError::Tun {
            step,
            source: io::Error::last_os_error(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_the_transmit_side() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
            lo:     1     2    3    4    5     6          7         8     9     10   11   12    13    14      15         16\n \
            path0: 100 200 1 2 3 4 5 6 300 400 7 42 9 10 11 12\n";
        assert_eq!(transmit_drops(text, "path0"), Some(42));
        assert_eq!(transmit_drops(text, "lo"), Some(12));
        assert_eq!(transmit_drops(text, "path1"), None);
    }
}
