//! Addresses of the interfaces of hosts, which a process there reads (`regatta interface-address`).

use std::{fs::File, io::Read as _, net::IpAddr, process::ExitCode};

use nix::{ifaddrs::getifaddrs, sys::socket::SockaddrStorage};
use regatta_bed::{Errors, hosts::SessionLauncher, session::Session};
use regatta_model::{shell::printable, study::HostAddress};

use super::ended::ended_well;
use crate::exit::{Failure, Result, no_bed};

/// Hidden subcommand `regatta interface-address INTERFACE`, which is started on a host and prints the addresses of that
/// interface.
pub const COMMAND: &str = "interface-address";

/// Returns the address of a host in the hosts file, that of an interface as the host of the session has it.
///
/// # Errors
/// A host without that interface, or without an address on it; a session that has ended.
pub fn resolve(
    address: Option<&HostAddress>,
    host: &str,
    session: &Session,
) -> Result<Option<IpAddr>> {
    let interface = match address {
        None => return Ok(None),
        Some(HostAddress::Ip(address)) => return Ok(Some(*address)),
        Some(HostAddress::Interface(interface)) => interface,
    };
    let launcher = SessionLauncher::new(format!("host `{host}`"), session.clone());
    let mut launched = launcher
        .start(&[COMMAND, interface], Errors::Inherit)
        .map_err(no_bed)?;
    let mut found = String::new();
    // An address is short; the output of another version may be long.
    let read = File::from(launched.output)
        .take(1 << 12)
        .read_to_string(&mut found);
    read?;
    ended_well(host, &mut *launched.process)?;
    found.trim().parse().map(Some).map_err(|_| {
        let others = match found.trim() {
            "" => String::new(),
            others => format!(": it has {}", printable(others)),
        };
        Failure::input(
            format!("host `{host}` has no interface `{interface}` with an address{others}"),
            format!(
                "write another one as `address` of `{host}` in the hosts file, or the address itself"
            ),
        )
    })
}

/// Prints the address of the interface that is named in the arguments: the first of IPv4, or else the first of IPv6 that
/// is not of the link alone. Without such an address, prints the interfaces that have one. The body of
/// `regatta interface-address`.
#[must_use]
pub fn main(interface: Option<&str>) -> ExitCode {
    let all = of_interfaces();
    let matching = || all.iter().filter(|(name, _)| Some(&**name) == interface);
    let first = matching()
        .find(|(_, address)| address.is_ipv4())
        .or_else(|| matching().next());
    match first {
        Some((_, address)) => println!("{address}"),
        None => {
            let mut names: Vec<String> = all.iter().map(|(name, _)| format!("`{name}`")).collect();
            names.dedup();
            println!("{}", names.join(", "));
        }
    }
    ExitCode::SUCCESS
}

/// Returns the addresses of this machine with the interfaces that have them, without those of one link alone (IPv6).
pub fn of_interfaces() -> Vec<(String, IpAddr)> {
    let all = getifaddrs().into_iter().flatten();
    all.filter_map(|found| {
        // An address may have a label: `eth0` of `eth0:1`.
        let name = found.interface_name.split(':').next()?.to_owned();
        Some((name, ip(&found.address?)?))
    })
    .collect()
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|it| it.ip().into());
    let v6 = address.as_sockaddr_in6().map(|it| it.ip());
    let v6 = v6.filter(|it| !it.is_unicast_link_local());
    v4.or(v6.map(IpAddr::from))
}
