//! Probes that need a namespace of their own, made in a child process.
//!
//! The child is a fork of a process that may have threads, so it calls nothing but system calls
//! and allocates nothing; all texts are made before the fork.

use std::{io, mem};

use super::{Capability, module_hint};

/// Probe that the child makes once it has its namespaces.
#[derive(Clone, Copy)]
enum Attempt<'a> {
    /// Nothing more.
    Namespaces,
    /// Makes a TUN interface.
    Tun,
    /// Puts a netem queue on loopback.
    Netem,
    /// Sets a TCP socket's congestion control.
    CongestionControl(&'a str),
}

/// Texts for `/proc/self/uid_map` and `gid_map`, made before the fork.
struct IdMaps {
    user: Vec<u8>,
    group: Vec<u8>,
}

impl IdMaps {
    fn own() -> Self {
        // SAFETY: take no pointer and cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Self {
            user: format!("0 {user} 1\n").into_bytes(),
            group: format!("0 {group} 1\n").into_bytes(),
        }
    }
}

/// Tries in a child, which enters namespaces of its own first. `flags` are those of `unshare`.
///
/// # Errors
/// Error that the kernel gave the child, or `fork`'s own failure.
fn attempt(flags: libc::c_int, what: Attempt<'_>) -> io::Result<()> {
    let maps = IdMaps::own();
    // SAFETY: the child calls system calls only and ends with `_exit`, which is allowed after a
    // fork of a process with threads; the parent waits for exactly this child.
    unsafe {
        let child = libc::fork();
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        if child == 0 {
            let error = in_child(flags, what, &maps);
            libc::_exit(error);
        }
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(error);
            }
        }
        if !libc::WIFEXITED(status) {
            return Err(io::Error::other("the attempt was ended by a signal"));
        }
        match libc::WEXITSTATUS(status) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Makes the attempt in the child; returns an error number or 0. Every error number fits an exit status.
///
/// # Safety
/// Only between `fork` and `_exit`.
unsafe fn in_child(flags: libc::c_int, what: Attempt<'_>, maps: &IdMaps) -> libc::c_int {
    // SAFETY: every pointer is to memory that lives in this frame or in `maps`.
    unsafe {
        if libc::unshare(flags) != 0 {
            return errno();
        }
        if flags & libc::CLONE_NEWUSER != 0 {
            // Some systems let the namespace be made and then refuse every right in it.
            for (path, text) in [
                (c"/proc/self/setgroups", &b"deny"[..]),
                (c"/proc/self/uid_map", &maps.user),
                (c"/proc/self/gid_map", &maps.group),
            ] {
                let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if file < 0 || libc::write(file, text.as_ptr().cast(), text.len()) < 0 {
                    return errno();
                }
                libc::close(file);
            }
        }
        match what {
            Attempt::Namespaces => 0,
            Attempt::Tun => tun(),
            Attempt::Netem => netem(),
            Attempt::CongestionControl(name) => congestion_control(name),
        }
    }
}

fn errno() -> libc::c_int {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Makes a TUN interface, which goes with the child. Returns an error number or 0.
///
/// # Safety
/// As [`in_child`].
unsafe fn tun() -> libc::c_int {
    // SAFETY: the request is a valid `ifreq` in this frame.
    unsafe {
        let device = libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if device < 0 {
            return errno();
        }
        let mut request: libc::ifreq = mem::zeroed();
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        if libc::ioctl(device, libc::TUNSETIFF as _, &raw mut request) < 0 {
            return errno();
        }
        0
    }
}

/// Sets a TCP socket's congestion control. Returns an error number or 0.
///
/// # Safety
/// As [`in_child`].
unsafe fn congestion_control(name: &str) -> libc::c_int {
    // SAFETY: the name's pointer and length belong together.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0
            || libc::setsockopt(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                name.as_ptr().cast(),
                name.len() as libc::socklen_t,
            ) != 0
        {
            return errno();
        }
        0
    }
}

/// An RTM_NEWQDISC for loopback with netem's parameters, in the layout of linux/rtnetlink.h and
/// linux/pkt_sched.h.
#[repr(C)]
struct NetemRequest {
    header: libc::nlmsghdr,
    // struct tcmsg
    family: u8,
    padding: [u8; 3],
    interface: i32,
    handle: u32,
    parent: u32,
    info: u32,
    // TCA_KIND
    kind_length: u16,
    kind_type: u16,
    kind: [u8; 8],
    // TCA_OPTIONS: struct tc_netem_qopt
    options_length: u16,
    options_type: u16,
    /// latency, limit, loss, gap, duplicate, jitter
    options: [u32; 6],
}

/// Answer of the kernel to a request with NLM_F_ACK.
#[repr(C)]
struct Answer {
    header: libc::nlmsghdr,
    error: i32,
    rest: [u8; 512],
}

/// Asks for a netem queue on the child's loopback. Returns an error number or 0.
///
/// # Safety
/// As [`in_child`].
unsafe fn netem() -> libc::c_int {
    const LOOPBACK: i32 = 1;
    const TC_H_ROOT: u32 = 0xffff_ffff;
    const TCA_KIND: u16 = 1;
    const TCA_OPTIONS: u16 = 2;
    let request = NetemRequest {
        header: libc::nlmsghdr {
            nlmsg_len: mem::size_of::<NetemRequest>() as u32,
            nlmsg_type: libc::RTM_NEWQDISC,
            nlmsg_flags: (libc::NLM_F_REQUEST
                | libc::NLM_F_ACK
                | libc::NLM_F_CREATE
                | libc::NLM_F_EXCL) as u16,
            nlmsg_seq: 1,
            nlmsg_pid: 0,
        },
        family: 0,
        padding: [0; 3],
        interface: LOOPBACK,
        handle: 0,
        parent: TC_H_ROOT,
        info: 0,
        // Header of 4 and `netem` with its zero: 10, padded to 12 by the array.
        kind_length: 10,
        kind_type: TCA_KIND,
        kind: *b"netem\0\0\0",
        options_length: 4 + 24,
        options_type: TCA_OPTIONS,
        options: [0, 1000, 0, 0, 0, 0],
    };
    // SAFETY: the request and the answer are valid in this frame with their own sizes.
    unsafe {
        let socket = libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        );
        if socket < 0 {
            return errno();
        }
        let length = mem::size_of::<NetemRequest>();
        if libc::send(socket, (&raw const request).cast(), length, 0) < 0 {
            return errno();
        }
        let mut answer: Answer = mem::zeroed();
        let got = libc::recv(
            socket,
            (&raw mut answer).cast(),
            mem::size_of::<Answer>(),
            0,
        );
        if got < 0 {
            return errno();
        }
        if (got as usize) < mem::size_of::<libc::nlmsghdr>() + 4
            || i32::from(answer.header.nlmsg_type) != libc::NLMSG_ERROR
        {
            return libc::EPROTO;
        }
        -answer.error
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
fn network_flags() -> libc::c_int {
    // Root needs no user namespace to make the others.
    // SAFETY: takes no pointer and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if root && attempt(libc::CLONE_NEWNET, Attempt::Namespaces).is_ok() {
        libc::CLONE_NEWNET
    } else {
        libc::CLONE_NEWUSER | libc::CLONE_NEWNET
    }
}

/// Whether this kernel has a congestion control, as a socket in a network namespace finds it there:
/// outside, an ordinary user may set only those of `tcp_allowed_congestion_control`. The kernel may
/// load its module. `None` where that cannot be tried.
#[must_use]
pub fn has_congestion_control(name: &str) -> Option<bool> {
    match attempt(network_flags(), Attempt::CongestionControl(name)) {
        Ok(()) => Some(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Some(false),
        Err(_) => None,
    }
}

pub(super) fn capabilities() -> Vec<Capability> {
    let user = attempt(libc::CLONE_NEWUSER, Attempt::Namespaces);
    let flags = network_flags();
    let by = match flags {
        libc::CLONE_NEWNET => "as root",
        _ => "inside a user namespace",
    };
    let network = attempt(flags, Attempt::Namespaces);
    let network_is_missing = network.is_err();
    let without_namespace = |hint: String| match network_is_missing {
        true => user_namespace_hint().to_owned(),
        false => hint,
    };
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
    ];
    let tun = attempt(flags, Attempt::Tun);
    let tun_hint = match tun.as_ref().err().and_then(io::Error::raw_os_error) {
        _ if network_is_missing => user_namespace_hint(),
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
            "modprobe tun; mkdir -p /dev/net; mknod /dev/net/tun c 10 200; chmod 666 /dev/net/tun"
        }
        Some(libc::EACCES) => "chmod 666 /dev/net/tun",
        _ => "run as root, or in a container with `--device /dev/net/tun`",
    };
    all.push(Capability::tried(
        "tun",
        "made a TUN interface in a namespace",
        tun,
        tun_hint,
    ));
    let netem = attempt(flags, Attempt::Netem);
    let netem_hint = without_namespace(module_hint("sch_netem", "CONFIG_NET_SCH_NETEM"));
    all.push(Capability::tried(
        "netem",
        "put a netem queue on a namespace's loopback",
        netem,
        netem_hint,
    ));
    // Tried where the trials run: outside, an ordinary user may set only the controls of
    // `tcp_allowed_congestion_control`, in a namespace of its own every one that there is.
    for (name, control, setting) in [
        ("congestion_control.cubic", "cubic", "CONFIG_TCP_CONG_CUBIC"),
        ("congestion_control.bbr", "bbr", "CONFIG_TCP_CONG_BBR"),
        ("congestion_control.hybla", "hybla", "CONFIG_TCP_CONG_HYBLA"),
    ] {
        let result = attempt(flags, Attempt::CongestionControl(control));
        let hint = without_namespace(module_hint(&format!("tcp_{control}"), setting));
        let outside = attempt(0, Attempt::CongestionControl(control));
        all.push(Capability::tried(
            name,
            &tried_control(control, &result, &outside),
            result,
            hint,
        ));
    }
    all
}

/// Says how a congestion control was tried: in a namespace, and outside of one, where an ordinary user may set only those
/// that the kernel allows to everybody.
fn tried_control(control: &str, inside: &io::Result<()>, outside: &io::Result<()>) -> String {
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
    fn the_request_has_the_kernels_layout() {
        // nlmsghdr 16, tcmsg 20, two attributes of 4 + 8 and 4 + 24.
        assert_eq!(mem::size_of::<NetemRequest>(), 16 + 20 + 12 + 28);
    }

    #[test]
    fn a_congestion_control_of_no_kernel_is_told_from_one_that_is_there() {
        // Every kernel has `reno`; where no namespace can be made, nothing is known.
        let expected = [(Some(true), Some(false)), (None, None)];
        let found = (
            has_congestion_control("reno"),
            has_congestion_control("cubik"),
        );
        assert!(expected.contains(&found), "{found:?}");
    }

    #[test]
    fn a_congestion_control_that_is_not_allowed_outside_of_a_namespace_is_said_to_be() {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        let said = |inside, outside| tried_control("bbr", &inside, &outside);
        assert!(
            said(Ok(()), refused(libc::EPERM))
                .ends_with("`net.ipv4.tcp_allowed_congestion_control`")
        );
        let plain = "set `bbr` on a TCP socket in a namespace";
        assert_eq!(said(Ok(()), Ok(())), plain);
        assert_eq!(said(refused(libc::ENOENT), refused(libc::ENOENT)), plain);
    }

    #[test]
    fn an_impossible_namespace_is_an_error_of_the_child_not_of_this_process() {
        // A flag of `clone` that `unshare` does not take.
        let error = attempt(libc::CLONE_PARENT, Attempt::Namespaces).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}");
    }
}
