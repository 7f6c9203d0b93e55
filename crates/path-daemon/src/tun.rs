//! TUN device through which a host's packets leave for the path and come in from it.

use std::{
    ffi::c_short,
    fs::{File, OpenOptions},
    io, mem,
    net::Ipv4Addr,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
};

use nix::errno::Errno;
use regatta_forwarder::{QUEUE_PACKETS, clock};
use regatta_model::BitRate;

use super::{
    attributes::Attributes,
    error::DaemonError,
    namespaces::Namespace,
    netlink::{LOOPBACK, Netlink},
    qdisc::{Attachment, Bucket, Interface, Qdisc, Waiting},
};

/// Name of the device in each namespace.
const NAME: &str = "path0";

/// Prefix of the host's addresses.
const PREFIX_BITS: u8 = 30;

/// Packets that the device holds for the forwarder in virtual time, the most that a kernel takes: a sender that never waits passes no time there, and Linux 6.12
/// runs ordinary processes before real-time ones for 50 ms of a second (its fair server). Such a sender then waits for
/// room in its socket's buffer instead of losing packets here.
const QUEUE_PACKETS_VIRTUAL: u32 = i16::MAX as u32;

/// Bytes that a host sends at once, beyond its interface's rate, after it was idle: two of the largest that a socket
/// hands over.
const LINE_BURST_BYTES: u32 = 128 << 10;

/// Packets, of up to 64 KiB before they are split, that wait for the interface's rate. A socket waits before they are
/// so many: TCP has at most a few there, a UDP socket what its send buffer holds.
const LINE_QUEUE_PACKETS: u32 = 10_000;

/// Smallest and largest MTU that IPv4 and the device allow.
pub(crate) const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65521;

/// A host with a TUN device.
pub(super) struct Tun {
    pub(super) namespace: Namespace,
    file: File,
    device: Interface,
    /// Rate at which the host sends, if it is limited.
    line_rate: Option<BitRate>,
}

impl Tun {
    /// Makes a device in a new namespace, with this host's address on a /30, and sets it and the loopback device up. The
    /// calling thread enters the namespace.
    pub(super) fn create(address: Ipv4Addr) -> Result<Self, DaemonError> {
        let namespace = Namespace::create()?;
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
        // SAFETY: this request reads and writes one `ifreq`.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
        Errno::result(done).map_err(|errno| failed("name")(errno.into()))?;
        // Only checksums are left to the device, never segmentation: what is read here are the
        // packets of the wire.
        // SAFETY: this request takes a number, not a pointer.
        let done =
            unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::TUN_F_CSUM) };
        Errno::result(done).map_err(|errno| failed("offloads")(errno.into()))?;
        let netlink = Netlink::open().map_err(failed("netlink"))?;
        let device = Interface {
            index: configure(&netlink, address)?,
            attachment: Attachment::ROOT,
            netlink,
        };
        Ok(Self {
            namespace,
            file,
            device,
            line_rate: None,
        })
    }

    /// Sets the largest IP packet.
    pub(super) fn set_mtu(&self, mtu_bytes: u32) -> Result<(), DaemonError> {
        if !MTU_RANGE.contains(&mtu_bytes) {
            return Err(DaemonError::Mtu(mtu_bytes));
        }
        let set = self.device.set_mtu(mtu_bytes);
        set.map_err(failed("largest packet"))
    }

    /// Has the host send at `rate` at most, as an interface of that rate does: its sockets wait, where without it what
    /// the forwarder cannot read in time is lost. `None`, or a kernel without token buckets: as fast as it can.
    pub(super) fn set_line_rate(&mut self, rate: Option<BitRate>) -> Result<(), DaemonError> {
        if rate == self.line_rate {
            return Ok(());
        }
        if self.line_rate.take().is_some() {
            self.device.remove().map_err(failed("line rate"))?;
        }
        let Some(rate) = rate else {
            return Ok(());
        };
        let bucket = Qdisc::Bucket(Bucket {
            bytes_per_second: rate.0 / 8,
            burst_bytes: LINE_BURST_BYTES,
            waiting: Waiting::Packets(LINE_QUEUE_PACKETS),
        });
        match bucket.add(&self.device) {
            Ok(()) => self.line_rate = Some(rate),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(failed("line rate")(error)),
        }
        Ok(())
    }

    /// Opens two handles to read and write packets with; they do not block.
    pub(super) fn packets(&self) -> Result<[File; 2], DaemonError> {
        let handle = || self.file.try_clone().map_err(failed("handle"));
        Ok([handle()?, handle()?])
    }

    /// Returns the packets that this host has sent while the device was full, since it was created, and those that
    /// found no room to wait for its line rate, since that was set.
    pub(super) fn dropped(&self) -> Result<u64, DaemonError> {
        let drops = || -> io::Result<u64> {
            let of_device = self.device.netlink.counted(self.device.index)?.sent_drops;
            Ok(match self.line_rate {
                Some(_) => of_device + self.device.statistics()?.drops,
                None => of_device,
            })
        };
        drops().map_err(failed("drops"))
    }
}

/// Gives the device its addresses and its queue, sets it and the loopback device up, and returns its index.
fn configure(netlink: &Netlink, address: Ipv4Addr) -> Result<i32, DaemonError> {
    let index = netlink.link_index(NAME).map_err(failed("index"))?;
    // The second address is for transports that use several.
    for address in [address, super::second(address)] {
        netlink
            .add_address(index, address, PREFIX_BITS)
            .map_err(failed("address"))?;
    }
    let packets = match clock::is_virtual() {
        true => QUEUE_PACKETS_VIRTUAL,
        false => QUEUE_PACKETS,
    };
    // Not by the older `ioctl`, which asks for a right over the whole machine, not just over the namespace.
    let queue = Attributes::new().u32(libc::IFLA_TXQLEN, packets);
    for (index, attributes) in [(index, queue), (LOOPBACK, Attributes::new())] {
        netlink
            .set_link(index, libc::IFF_UP, &attributes)
            .map_err(failed("up"))?;
    }
    Ok(index)
}

/// Returns a request about the interface of this name.
pub(super) fn request(name: &str) -> libc::ifreq {
    // SAFETY: all zeros are a valid `ifreq`: an empty name and an integer of zero.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    request
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| DaemonError::Tun { step, source }
}
