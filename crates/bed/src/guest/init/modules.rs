//! Kernel modules, loaded without `modprobe`: a kernel that Debian packages has nearly everything
//! as a module; one built by `lab/build-kernel` has all of it built in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use nix::errno::Errno;

use super::InitError;
use regatta_path_daemon::kernel_release;

/// Directory in which Debian's package has the modules, by release of the kernel.
const MODULES: &str = "/usr/lib/uml/modules";

/// Names of the kernel modules that a bed needs.
const REQUIRED: &[&str] = &[
    "tun",
    "veth",
    "ifb",
    // What SCTP signs its cookies with: it asks for it by itself only where there is a `modprobe`.
    "hmac",
    "sctp",
    "sctp_diag",
    "tcp_diag",
    "udp_diag",
    "macvlan",
    "sch_netem",
    "sch_prio",
    "sch_sfq",
    "sch_tbf",
    "sch_htb",
    "sch_fq",
    "sch_codel",
    "sch_fq_codel",
    "sch_pie",
    "sch_fq_pie",
    "sch_cake",
    "sch_red",
    "sch_ingress",
    "cls_u32",
    "cls_matchall",
    "act_mirred",
    "iptable_filter",
    "xt_statistic",
];

/// Prefix of the paths of the kernel's congestion control modules.
const CONGESTION_CONTROLS: &str = "kernel/net/ipv4/tcp_";

/// Loads the modules that a bed needs, as far as this kernel has them as modules.
pub(super) fn load_all() -> Result<(), InitError> {
    let directory = Path::new(MODULES).join(kernel_release());
    let Ok(text) = fs::read_to_string(directory.join("modules.dep")) else {
        return Ok(());
    };
    let index = Index::read(&text);
    let mut loaded = BTreeSet::new();
    for module in index.required() {
        for path in index.in_order(module) {
            if loaded.insert(path) {
                let path = directory.join(path);
                load(&path).map_err(|source| InitError::Module { path, source })?;
            }
        }
    }
    Ok(())
}

fn load(path: &PathBuf) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: the file is open, and the parameters are an empty C string.
    let done = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    match Errno::result(done) {
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Index of `modules.dep`: each module's file and those that it needs, nearest first.
struct Index<'a>(BTreeMap<&'a str, Vec<&'a str>>);

impl<'a> Index<'a> {
    fn read(text: &'a str) -> Self {
        let entry = |line: &'a str| {
            let (module, needs) = line.split_once(':')?;
            Some((module, needs.split_whitespace().collect()))
        };
        Self(text.lines().filter_map(entry).collect())
    }

    fn required(&self) -> Vec<&'a str> {
        let is_required = |path: &&str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let name = name.split('.').next().unwrap_or(name);
            REQUIRED.contains(&name) || path.starts_with(CONGESTION_CONTROLS)
        };
        self.0.keys().copied().filter(is_required).collect()
    }

    /// Returns the file of a module after those that it needs.
    fn in_order(&self, module: &'a str) -> Vec<&'a str> {
        let mut files = self.0.get(module).cloned().unwrap_or_default();
        files.reverse();
        files.push(module);
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_a_module_are_loaded_first() {
        let index = Index::read(
            "kernel/net/sctp/sctp.ko: kernel/net/ipv6/ipv6.ko kernel/lib/crc.ko\n\
             kernel/net/ipv4/tcp_hybla.ko:\nkernel/fs/xfs.ko:\nkernel/net/ipv6/ipv6.ko: kernel/lib/crc.ko\n",
        );
        assert_eq!(
            index.required(),
            ["kernel/net/ipv4/tcp_hybla.ko", "kernel/net/sctp/sctp.ko"]
        );
        assert_eq!(
            index.in_order("kernel/net/sctp/sctp.ko"),
            [
                "kernel/lib/crc.ko",
                "kernel/net/ipv6/ipv6.ko",
                "kernel/net/sctp/sctp.ko"
            ]
        );
    }
}
