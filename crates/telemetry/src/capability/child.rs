//! Probes that need a namespace of their own, made in a child process.
//!
//! The child is a fork of a process that may have threads, so it calls nothing but system calls
//! and allocates nothing; all texts are made before the fork.

use std::{ffi::OsString, io, mem, os::fd::AsRawFd as _};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sched::{CloneFlags, unshare},
    sys::{
        socket::{
            AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt,
            socket, sockopt::TcpCongestion,
        },
        stat::Mode,
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, fork, getegid, geteuid, write},
};

use regatta_process::loads_modules;

use super::{Capability, module_hint};

/// Probe that the child makes once it has its namespaces.
type Attempt<'a> = &'a dyn Fn() -> nix::Result<()>;

/// Tries in a child, which enters namespaces of its own first.
///
/// # Errors
/// Error that the kernel gave the child, or `fork`'s own failure.
fn attempt(flags: CloneFlags, probe: Attempt<'_>) -> io::Result<()> {
    let [user, group] = [geteuid().as_raw(), getegid().as_raw()].map(|id| format!("0 {id} 1\n"));
    // Some systems let the namespace be made and then refuse every right in it.
    let maps = [
        (c"/proc/self/setgroups", "deny"),
        (c"/proc/self/uid_map", &user),
        (c"/proc/self/gid_map", &group),
    ];
    let in_child = || {
        unshare(flags)?;
        if flags.contains(CloneFlags::CLONE_NEWUSER) {
            for (path, text) in maps {
                let file = open(path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
                write(file, text.as_bytes())?;
            }
        }
        probe()
    };
    // SAFETY: the child calls system calls only and ends with `_exit`, which is allowed after a
    // fork of a process with threads.
    let child = match unsafe { fork() }? {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // Every error number fits an exit status.
            let errno = in_child().map_or_else(|errno| errno as i32, |()| 0);
            // SAFETY: takes no pointer and does not return.
            unsafe { libc::_exit(errno) }
        }
    };
    loop {
        return match waitpid(child, None) {
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno.into()),
            Ok(WaitStatus::Exited(_, 0)) => Ok(()),
            Ok(WaitStatus::Exited(_, code)) => Err(io::Error::from_raw_os_error(code)),
            Ok(_) => Err(io::Error::other("the attempt was ended by a signal")),
        };
    }
}

/// Makes nothing but the namespaces.
const NAMESPACES: Attempt<'static> = &|| Ok(());

/// Makes a TUN interface, which goes with the child.
fn tun() -> nix::Result<()> {
    let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
    let device = open(c"/dev/net/tun", flags, Mode::empty())?;
    // SAFETY: an all-zero `ifreq` is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is a valid `ifreq` in this frame.
    let made = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    Errno::result(made).map(drop)
}

/// Tries to set a TCP socket's congestion control in a child.
fn congestion_control(flags: CloneFlags, name: &str) -> io::Result<()> {
    let name = OsString::from(name);
    attempt(flags, &|| {
        let (family, kind) = (AddressFamily::Inet, SockType::Stream);
        let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&socket, TcpCongestion, &name)
    })
}

/// Returns an RTM_NEWQDISC for loopback with netem's parameters, in the layout of linux/rtnetlink.h and
/// linux/pkt_sched.h.
fn netem_request() -> Vec<u8> {
    const WORDS: u32 = 19;
    const LOOPBACK: u32 = 1;
    const TC_H_ROOT: u32 = 0xffff_ffff;
    const TCA_KIND: u16 = 1;
    const TCA_OPTIONS: u16 = 2;
    let halves = |first: u16, second: u16| {
        let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
        u32::from_ne_bytes([a, b, c, d])
    };
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    // struct nlmsghdr: length, type and flags, sequence, sender
    let header = [4 * WORDS, halves(libc::RTM_NEWQDISC, flags as u16), 1, 0];
    // struct tcmsg: family, interface, handle, parent, info
    let message = [0, LOOPBACK, 0, TC_H_ROOT, 0];
    // Header of 4 and `netem` with its zero: 10, padded to 12.
    let [first, second] = [*b"nete", *b"m\0\0\0"].map(u32::from_ne_bytes);
    let kind = [halves(10, TCA_KIND), first, second];
    // struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter
    let options = [halves(4 + 24, TCA_OPTIONS), 0, 1000, 0, 0, 0, 0];
    let words = [&header[..], &message, &kind, &options].concat();
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Asks for a netem queue on the child's loopback.
fn netem(request: &[u8]) -> nix::Result<()> {
    let (kind, protocol) = (SockType::Raw, SockProtocol::NetlinkRoute);
    let (family, flags) = (AddressFamily::Netlink, SockFlag::SOCK_CLOEXEC);
    let socket = socket(family, kind, flags, protocol)?;
    send(socket.as_raw_fd(), request, MsgFlags::empty())?;
    // Header of 16 with the type at 4, then the error.
    let mut answer = [0; 512];
    let got = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    if got < mem::size_of::<libc::nlmsghdr>() + 4 || i32::from(kind) != libc::NLMSG_ERROR {
        return Err(Errno::EPROTO);
    }
    match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        error => Err(Errno::from_raw(-error)),
    }
}

/// Returns the hint for a system where an ordinary user may not make namespaces; distributions
/// differ in the setting that forbids it.
fn user_namespace_hint() -> &'static str {
    let is = |name: &str, value: &str| crate::facts::sysctl(name).as_deref() == Some(value);
    if is("kernel.unprivileged_userns_clone", "0") {
        "sysctl -w kernel.unprivileged_userns_clone=1"
    } else if is("kernel.apparmor_restrict_unprivileged_userns", "1") {
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    } else if is("user.max_user_namespaces", "0") {
        "sysctl -w user.max_user_namespaces=15000"
    } else {
        "run as root"
    }
}

/// Flags of `unshare` with which this user gets a network namespace of its own.
fn network_flags() -> CloneFlags {
    // Root needs no user namespace to make the others.
    let network = CloneFlags::CLONE_NEWNET;
    match geteuid().is_root() && attempt(network, NAMESPACES).is_ok() {
        true => network,
        false => CloneFlags::CLONE_NEWUSER | network,
    }
}

/// Whether this kernel has a congestion control, as a socket in a network namespace finds it there:
/// outside, an ordinary user may set only those of `tcp_allowed_congestion_control`. The kernel may
/// load its module. `None` where that cannot be tried.
#[must_use]
pub fn has_congestion_control(name: &str) -> Option<bool> {
    match congestion_control(network_flags(), name) {
        Ok(()) => Some(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Some(false),
        Err(_) => None,
    }
}

pub(super) fn capabilities() -> Vec<Capability> {
    let user = attempt(CloneFlags::CLONE_NEWUSER, NAMESPACES);
    let flags = network_flags();
    let by = match flags.contains(CloneFlags::CLONE_NEWUSER) {
        true => "inside a user namespace",
        false => "as root",
    };
    let network = attempt(flags, NAMESPACES);
    let network_is_missing = network.is_err();
    let without_namespace = |hint: String| match network_is_missing {
        true => user_namespace_hint().to_owned(),
        false => hint,
    };
    let tun = attempt(flags, &tun);
    let tun_hint = match tun.as_ref().err().and_then(io::Error::raw_os_error) {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
            let load = if loads_modules() {
                "modprobe tun; "
            } else {
                ""
            };
            format!("{load}mkdir -p /dev/net; mknod /dev/net/tun c 10 200; chmod 666 /dev/net/tun")
        }
        Some(libc::EACCES) => "chmod 666 /dev/net/tun".to_owned(),
        _ => "run as root, or in a container with `--device /dev/net/tun`".to_owned(),
    };
    let tun_hint = format!("{tun_hint}; or run with `--bed uml`, which works without it");
    let request = netem_request();
    let mut all = vec![
        Capability::tried(
            "user_namespaces",
            "made one and mapped the own user",
            user,
            user_namespace_hint(),
        ),
        Capability::tried(
            "network_namespaces",
            &format!("made one {by}"),
            network,
            user_namespace_hint(),
        ),
        Capability::tried(
            "tun",
            "made a TUN interface in a namespace",
            tun,
            without_namespace(tun_hint),
        ),
        Capability::tried(
            "netem",
            "put a netem queue on a namespace's loopback",
            attempt(flags, &|| netem(&request)),
            without_namespace(module_hint("sch_netem", "CONFIG_NET_SCH_NETEM")),
        ),
    ];
    // Tried where the trials run: outside, an ordinary user may set only the controls of
    // `tcp_allowed_congestion_control`, in a namespace of its own every one that there is.
    for (name, control, setting) in [
        ("congestion_control.cubic", "cubic", "CONFIG_TCP_CONG_CUBIC"),
        ("congestion_control.bbr", "bbr", "CONFIG_TCP_CONG_BBR"),
        ("congestion_control.hybla", "hybla", "CONFIG_TCP_CONG_HYBLA"),
    ] {
        let result = congestion_control(flags, control);
        let hint = without_namespace(module_hint(&format!("tcp_{control}"), setting));
        let outside = congestion_control(CloneFlags::empty(), control);
        let tried = describe_attempt(control, &result, &outside);
        all.push(Capability::tried(name, &tried, result, hint));
    }
    all
}

/// Describes how a congestion control was tried: in a namespace, and outside of one, where an ordinary user may set only
/// those that the kernel allows to every user.
fn describe_attempt(control: &str, inside: &io::Result<()>, outside: &io::Result<()>) -> String {
    let tried = format!("set `{control}` on a TCP socket in a namespace");
    match (inside, outside) {
        (Ok(()), Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => format!(
            "{tried}; outside of one, as over a network as it is, this user may not, unless root adds it to \
             `net.ipv4.tcp_allowed_congestion_control`"
        ),
        _ => tried,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netem_request_has_the_kernel_layout() {
        // nlmsghdr 16, tcmsg 20, two attributes of 4 + 8 and 4 + 24.
        let request = netem_request();
        assert_eq!(request.len(), 16 + 20 + 12 + 28);
        assert_eq!(request[..4], 76_u32.to_ne_bytes());
        assert_eq!(request[40..46], *b"netem\0");
    }

    #[test]
    fn unknown_congestion_control_is_distinguished_from_an_available_one() {
        // Every kernel has `reno`; where no namespace can be made, nothing is known.
        let expected = [(Some(true), Some(false)), (None, None)];
        let found = (
            has_congestion_control("reno"),
            has_congestion_control("cubik"),
        );
        assert!(expected.contains(&found), "{found:?}");
    }

    #[test]
    fn congestion_control_not_allowed_outside_a_namespace_is_reported() {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        let description = |inside, outside| describe_attempt("bbr", &inside, &outside);
        assert!(
            description(Ok(()), refused(libc::EPERM))
                .ends_with("`net.ipv4.tcp_allowed_congestion_control`")
        );
        let plain = "set `bbr` on a TCP socket in a namespace";
        assert_eq!(description(Ok(()), Ok(())), plain);
        assert_eq!(
            description(refused(libc::ENOENT), refused(libc::ENOENT)),
            plain
        );
    }

    #[test]
    fn failure_to_unshare_is_returned_from_the_child() {
        // A flag of `clone` that `unshare` does not take.
        let error = attempt(CloneFlags::CLONE_PARENT, NAMESPACES).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}");
    }
}
